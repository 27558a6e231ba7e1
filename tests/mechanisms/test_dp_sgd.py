"""DP-SGD: what it releases against a loop over examples, accounting, canaries, and incorrect variants in one run."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

from epsaudit import GaussianDP, audit, audit_one_run
from epsaudit.experiments.data import affairs, leanings
from epsaudit.mechanisms.broken.dp_sgd import (
    ClippedAfterAveraging,
    NoiseDividedTwice,
    NoiseForgotten,
    SingleStratum,
    WithoutReplacement,
)
from epsaudit.mechanisms.dp_sgd import DPSGD, GradientCanaries, Records, full_batch_mu, poisson_claim

CANARIES = 10_000


def small(rng, n=60, m=5):
    """Records with and without parameters of their own."""
    return Records(
        features=rng.normal(size=(n, 3)),
        targets=np.where(rng.random(n) < 0.5, 1.0, -1.0),
        own=np.where(rng.random(n) < 0.3, rng.integers(0, m, n), -1),
        weight=rng.normal(size=n),
        constant=rng.random(n) < 0.2,
    )


def step_by_hand(records, learner, shared, own):
    """Clip and add the gradients of all records, one by one."""
    total = np.zeros(len(shared) + len(own))
    for x, y, i, w, constant in zip(
        records.features, records.targets, records.own, records.weight, records.constant, strict=True
    ):
        place = np.zeros(len(own))
        if i >= 0:
            place[i] = w
        z = x @ shared + place @ own
        slope = 1.0 if constant else -y / (1 + math.exp(y * z)) if learner.loss == "logistic" else z - y
        gradient = slope * np.concatenate([x, place])
        length = math.sqrt(slope**2 * (x @ x + w * w))
        total += gradient * min(1.0, learner.clip / length)
    return total


class Quiet(DPSGD):
    """No noise, to compare sums."""

    def noise_scale(self, step, expected):
        return 0.0


class TestTraining:
    @pytest.mark.parametrize("loss", ["logistic", "squared"])
    def test_sums_and_steps_are_those_of_a_loop_over_examples(self, loss):
        records = small(np.random.default_rng(0))
        learner = Quiet(loss, steps=3, rate=1.0, noise_multiplier=1.0, clip=0.7, learning_rate=0.3)
        seen = []
        weights = learner.train(
            records, 50, 5, np.random.default_rng(1), lambda step, sums: seen.append((step, sums.copy()))
        )
        shared, own = np.zeros(3), np.zeros(5)
        for step in range(3):
            total = step_by_hand(records, learner, shared, own)
            assert seen[step][0] == step
            np.testing.assert_allclose(seen[step][1], total[3:], atol=1e-12)
            shared, own = shared - 0.3 * total[:3] / 50, own - 0.3 * total[3:] / 50
        np.testing.assert_allclose(weights.shared, shared)
        np.testing.assert_allclose(weights.own, own)

    def test_noise_has_the_claimed_scale(self):
        data = Records.plain(np.zeros((10, 1)), np.ones(10))
        learner = DPSGD("logistic", steps=4, rate=0.5, noise_multiplier=1.5, clip=2.0)
        seen = []
        learner.train(data, 10, 5000, np.random.default_rng(3), lambda step, sums: seen.append(sums.copy()))
        assert kstest(np.concatenate(seen) / 3.0, norm.cdf).pvalue > 1e-3
        assert kstest(np.concatenate(seen) / 3.3, norm.cdf).pvalue < 1e-3  # and a wrong scale is seen

    def test_batches_are_poisson(self):
        data = Records.plain(np.zeros((2000, 1)), np.ones(2000))
        learner = DPSGD("logistic", steps=1, rate=0.2, noise_multiplier=1.0)
        rng = np.random.default_rng(4)
        counts = np.array([len(learner.batch(data, rng)) for _ in range(500)])
        assert counts.mean() == pytest.approx(400, abs=4 * math.sqrt(320 / 500))
        assert counts.var() == pytest.approx(320, rel=0.3)

    def test_no_record_moves_a_sum_by_more_than_the_clipping_norm(self):
        records = small(np.random.default_rng(5), n=40)
        learner = Quiet("squared", steps=1, rate=1.0, noise_multiplier=1.0, clip=0.5, learning_rate=1.0)

        def step(data):
            weights = learner.train(data, 1, 5, np.random.default_rng(0))
            return np.concatenate([weights.shared, weights.own])

        whole = step(records)
        for i in range(40):
            without = step(records.take(np.arange(40) != i))
            assert np.linalg.norm(whole - without) <= 0.5 + 1e-12


class TestAccounting:
    @pytest.mark.parametrize(("noise", "steps"), [(4.0, 16), (20.0, 100), (1.0, 1)])
    def test_full_batches_are_gaussian_dp(self, noise, steps):
        exact = GaussianDP(full_batch_mu(noise, steps)).approximate(1e-5).epsilon
        assert exact <= poisson_claim(1.0, noise, steps, 1e-5).epsilon <= exact * 1.005 + 1e-3

    def test_one_sampled_step_is_the_closed_form(self):
        # removing: (1 - q) N(0) + q N(1) against N(0); delta(epsilon) by the threshold where the ratio is e^epsilon
        q, noise = 0.2, 1.0
        claim = poisson_claim(q, noise, 1, 1e-4)
        cut = 0.5 + noise**2 * math.log((math.exp(claim.epsilon) - 1 + q) / q)
        delta = q * norm.sf((cut - 1) / noise) - (math.exp(claim.epsilon) - 1 + q) * norm.sf(cut / noise)
        assert delta == pytest.approx(1e-4, rel=2e-3)
        assert delta <= 1e-4


class TestCanaries:
    def test_full_batch_canaries_see_gaussian_dp_of_the_accounted_mu(self):
        # the sum over 16 steps is N(16 S, 16 * 4^2): mu = 1, no interference; the score is linear in it
        learner = DPSGD("logistic", steps=16, rate=1.0, noise_multiplier=4.0)
        rng = np.random.default_rng(1)
        included = rng.random(20_000) < 0.5
        scores = GradientCanaries(learner, affairs(), 20_000).scores(included, rng)
        seen = (scores[included].mean() - scores[~included].mean()) / scores[~included].std()
        assert seen == pytest.approx(1.0, abs=0.05)


class TestIncorrectVariants:
    parameters = {"loss": "logistic", "steps": 200, "rate": 0.05, "noise_multiplier": 2.0}

    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("variant", [NoiseForgotten, ClippedAfterAveraging, NoiseDividedTwice])
    def test_one_run_refutes_them(self, variant, seed):
        canaries = GradientCanaries(variant(**self.parameters), affairs(), CANARIES, norm=10.0)
        assert audit_one_run(canaries, seed=seed).violates_claim

    @pytest.mark.parametrize("seed", [0, 1])
    def test_one_run_does_not_refute_the_sound_one(self, seed):
        canaries = GradientCanaries(DPSGD(**self.parameters), affairs(), CANARIES, norm=10.0)
        assert not audit_one_run(canaries, seed=seed).violates_claim

    @pytest.mark.parametrize(("learner", "refuted"), [(DPSGD, False), (WithoutReplacement, True)])
    def test_one_run_refutes_batches_without_replacement(self, learner, refuted):
        trained = learner("logistic", steps=10, rate=0.5, noise_multiplier=4.0)
        canaries = GradientCanaries(trained, leanings(), 40_000, companions=1)
        assert audit_one_run(canaries, seed=0).violates_claim is refuted

    @pytest.mark.parametrize("replaces", [False, True])
    def test_many_runs_refute_a_single_stratum(self, replaces):
        learner = DPSGD("logistic", steps=10, rate=0.1, noise_multiplier=2.0)
        assert audit(SingleStratum(learner, replaces), trials=200_000, seed=0).violates_claim is replaces

"""The whole audit: sound mechanisms stay consistent, broken ones are refuted, bad input is a sentence."""

from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from epsaudit import (
    ZCDP,
    ApproxDP,
    ApproxZCDP,
    AuditError,
    DatasetPair,
    GaussianDP,
    PureDP,
    RenyiDP,
    TradeOff,
    audit,
    audit_sequentially,
    black_box,
    vectorized,
)
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.exact import exact_parameter
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.response import RandomisedResponse

PAIR = DatasetPair(0.0, 1.0)


def noisy(scale=1.0, claim=None, **options):
    claim = claim or PureDP(1.0)
    return vectorized(lambda d, n, rng: d + scale * rng.laplace(size=n), claim=claim, pairs=[PAIR], **options)


class TestVerdicts:
    @pytest.mark.parametrize(
        "claim",
        [
            PureDP(1.0),
            ApproxDP(1.0, 1e-3),
            ZCDP(0.4),
            GaussianDP(1.2),
            RenyiDP(2.0, 0.75),
            ApproxZCDP(0.4, 1e-3),
            TradeOff.of(PureDP(1.0).profile, (0.0, 0.5, 1.0)),
        ],
    )
    def test_half_the_noise_is_refuted_under_every_claim(self, claim):
        sound = audit(noisy(1.0), claim=claim, trials=20_000, confidence=0.999, seed=3)
        broken = audit(noisy(0.5), claim=claim, trials=20_000, confidence=0.999, seed=3)
        assert (sound.verdict, broken.verdict) == ("consistent", "violated")
        assert broken.lower_bound > 1.3 * sound.lower_bound

    def test_the_bound_comes_close_to_the_exact_value(self):
        result = audit(Laplace(1.0), trials=400_000, seed=1, n_jobs=1)
        assert result.exact == pytest.approx(1.0)
        assert 0.97 < result.lower_bound <= 1.01

    def test_a_leak_in_one_outcome_only_is_seen(self):
        def leaky(data, size, rng):
            outputs = rng.integers(0, 1000, size).astype(float)
            outputs[rng.random(size) < 0.01 * data] = 7.25
            return outputs

        result = audit(vectorized(leaky, claim=PureDP(1.0), pairs=[PAIR]), trials=100_000, seed=1)
        assert result.violates_claim
        assert "7.25" in str(result.witness)

    @pytest.mark.parametrize("columns", [(), (1,)])
    def test_no_noise_once_in_two_thousand_runs_is_seen(self, columns):
        def leaky(data, size, rng):
            exact = rng.random(size) < data / 2000
            return np.where(exact, 42.0, 42.0 + rng.laplace(size=size)).reshape(size, *columns)

        result = audit(vectorized(leaky, claim=PureDP(0.3), pairs=[PAIR]), trials=1_000_000, seed=1)
        assert result.lower_bound > 3.0
        assert str(result.witness) in ("{y = 42} likelier under x'", "{y = (42,)} likelier under x'")

    def test_two_equal_laws_give_a_bound_of_zero_or_next_to_it(self):
        same = audit(vectorized(lambda _, size, rng: rng.laplace(size=size)), PAIR, epsilon=1.0, trials=50_000, seed=2)
        assert same.lower_bound < 0.05

    def test_several_pairs_compete_and_the_telling_one_is_certified(self):
        pairs = [DatasetPair(0.0, 0.1, "near"), DatasetPair(0.0, 1.0, "far")]
        result = audit(noisy(1.0), pairs, trials=100_000, seed=2)
        assert result.pair == "far"
        assert result.trials == 100_000
        assert int(result.counts.runs) + result.training_runs == 100_000

    def test_randomness_of_its_own_is_said(self):
        result = audit(
            black_box(lambda data: np.random.default_rng().normal(data), claim=PureDP(9.0), pairs=[PAIR]), trials=2000
        )
        assert not result.reproducible
        assert "not known to give the same again" in str(result)

    @pytest.mark.parametrize("sound", [False, True])
    def test_an_order_by_hashes_of_text_is_not_reproducible(self, sound):
        """Of sixteen names: another process has the same first eight less than once in a million times."""
        names = [f"name {number}" for number in range(16)]
        first = sorted if sound else list

        def run(data, rng):
            return first(set(data))[:8], round(rng.laplace())

        result = audit(run, [(names, names[1:])], epsilon=9.0, trials=2000, seed=1, n_jobs=1)
        assert result.reproducible == sound

    @pytest.mark.parametrize(
        ("unread", "make"),
        [
            ("digits of a Decimal", lambda bit, noise: Decimal(f"{noise}.5{'0' * bit}")),
            ("time zone", lambda bit, noise: datetime(2024, 1, 1, tzinfo=ZoneInfo(("UTC", "Etc/UCT")[bit]))),
            ("names of the fields of an array", lambda bit, noise: np.zeros(1, [(("a", "b")[bit], float)])),
            ("what lies under a mask", lambda bit, noise: np.ma.MaskedArray([noise, bit], [False, True])),
            ("types of values", lambda bit, noise: type("AB"[bit], (SimpleNamespace,), {})(noise=noise)),
            ("names or types of a frame", lambda bit, noise: pd.Series([noise], name=("a", "b")[bit])),
        ],
    )
    def test_what_differs_and_is_not_read_is_noted(self, unread, make):
        for telling in (True, False):

            def run(data, rng, telling=telling):
                return make(data if telling else 0, int(rng.integers(9)))

            result = audit(run, [(0, 1)], epsilon=9.0, trials=200, seed=1, n_jobs=1)
            assert any(unread in note and "is not read" in note for note in result.notes) == telling

    @pytest.mark.parametrize("bit", [0, 1])
    def test_what_lies_under_a_mask_of_many_outputs_is_noted(self, bit):
        def run(data, size, rng):
            masked = rng.random(size) < 0.5
            return np.ma.MaskedArray(np.where(masked, bit * data, rng.laplace(size=size)), masked)

        result = audit(run, [(0, 1)], epsilon=9.0, trials=1000, seed=1, n_jobs=1)
        assert any("lies under a mask" in note for note in result.notes) == bool(bit)

    def test_an_audit_that_could_not_refute_says_so(self):
        result = audit(noisy(0.05, claim=PureDP(20.0)), trials=10_000, seed=1)
        assert "could not have refuted" in result.limits
        assert audit(noisy(1.0), trials=10_000, seed=1).limits is None


class Finite:
    """A law on four symbols against another: nothing for a smoother to hold on to."""

    name, adjacency = "finite", None
    laws = [FiniteLaw(list("abcd"), np.log(weights)) for weights in ([0.5, 0.2, 0.2, 0.1], [0.2, 0.2, 0.1, 0.5])]
    claim = PureDP(float(np.log(5)))

    def __call__(self, dataset):
        return self.laws[dataset]

    def worst_pairs(self):
        return [DatasetPair(0, 1)]


AUDITS = 60


@pytest.mark.parametrize(
    ("mechanism", "claim", "tight"),
    [
        pytest.param(Laplace(1.0), PureDP(1.0), True, marks=pytest.mark.slow),
        pytest.param(RandomisedResponse(1.0), PureDP(1.0), True, marks=pytest.mark.slow),
        pytest.param(Gaussian(1.0, 1e-3), ApproxDP(1.0, 1e-3), False, marks=pytest.mark.slow),
        # no teeth at 60 %: its two rates have half of the error probability each
        pytest.param(Gaussian(1.0, 1e-3), GaussianDP(1 / Gaussian(1.0, 1e-3).sigma), False, marks=pytest.mark.slow),
        (Finite(), Finite.claim, True),
    ],
)
def test_coverage_of_the_whole_audit(mechanism, claim, tight):
    # the small version of epsaudit.experiments.validity: at most 5 % of bounds above the exact value, with
    # the 1 - 1e-4 quantile of Binomial(60, 0.05) as tolerance
    pair = mechanism.worst_pairs()[0]
    truth = exact_parameter(claim, mechanism(pair.x), mechanism(pair.x_prime))
    results = [audit(mechanism, pair, claim=claim, trials=3000, seed=s, n_jobs=1) for s in range(AUDITS)]
    tolerated = int(binom.isf(1e-4, AUDITS, 0.05))
    assert sum(result.lower_bound > truth * (1 + 1e-12) for result in results) <= tolerated
    if tight:  # the simulation has teeth: the same counts read at 60 % confidence are caught
        bold = [result.certificate.parameter(claim, result.counts, 0.6) for result in results]
        assert sum(bound > truth for bound in bold) > tolerated


class TestBadInput:
    def test_a_bare_function_is_wrapped_and_asked_for_its_claim_and_pairs(self):
        assert audit(lambda data, rng: data + rng.laplace(), (0, 1), epsilon=1.0, trials=100).claim == PureDP(1.0)
        with pytest.raises(AuditError, match=r"claim of lambda at .* is None; give one, for instance epsilon=1\.0"):
            audit(lambda data, rng: 1.0, (0, 1))
        with pytest.raises(AuditError, match=r"lambda at test_auditor.py:\d+ names no pairs"):
            audit(lambda data, rng: 1.0, epsilon=1.0)


@pytest.mark.parametrize("kind", [audit, pytest.param(audit_sequentially, marks=pytest.mark.slow)])
def test_how_far_apart_datasets_are_is_said_where_no_relation_is_given(kind):
    def count(data, rng):
        return len(data) + rng.laplace()

    far = "the datasets differ in 49 records: a claim for neighbours allows 2,401 times its rho"
    assert far in kind(count, ([1], [1] * 50), claim=ZCDP(0.5), trials=400, seed=1).notes
    near = kind(count, ([1], [2]), claim=ZCDP(0.5), trials=400, seed=1)
    assert not any("records" in note for note in near.notes)
    assert near.claim == ZCDP(0.5)

"""Training: rare events with a large loss against common ones with a smaller, in two pairs or in one."""

import numpy as np
import pytest

from epsaudit import DatasetPair, PureDP, audit, vectorized
from epsaudit.audits.spec import AuditSpec
from epsaudit.mechanisms.additive import Gaussian
from epsaudit.outputs.arrays import join_outputs
from epsaudit.running.pool import Workers
from epsaudit.running.runs import Runs
from epsaudit.search import Classifiers, LikelihoodRatio
from epsaudit.search.search import Search

TRIALS = 1_000_000
CHANCE = {"plain": 0.354, "plain'": 0.646, "rare": 0.0065, "rare'": 0.0025, "loud": 0.1, "loud'": 0.9}
PLAIN, RARE, LOUD = (DatasetPair(name, name + "'") for name in ("plain", "rare", "loud"))


def answer(data, size, rng):
    return (rng.random(size) < CHANCE[data]).astype(int)


def mechanism():
    return vectorized(answer, claim=PureDP(1.0), name="two pairs")


class TrainingRuns(Runs):
    workers = Workers(n_jobs=1)  # in the largest blocks


def chosen(pairs, seed, law=None, draws=TrainingRuns, **how):
    """Return what training chooses for these pairs; `draws` makes the runs."""
    spec = AuditSpec.of(law or mechanism(), pairs, **{"trials": TRIALS, **how})
    return Search(spec).choose(draws(spec, seed, n_jobs=1))


class TestEvents:
    @staticmethod
    def trained(seed):
        def peak(data, size, rng):  # losses: 0.854 at 0, 0.606 at 1
            return rng.choice(3, size=size, p=(0.0068, 0.18, 0.8132) if data else (0.016, 0.33, 0.654))

        return chosen([DatasetPair(0, 1)], seed, vectorized(peak, claim=PureDP(1.0)))

    def test_a_rarer_event_that_may_be_better_is_validated_and_found(self):
        found = [self.trained(seed) for seed in range(10)]
        assert all(training.runs == 300_000 for training in found)
        # how many of the outcomes 0, 1, 2 are guesses
        guesses = [tuple(training.choice.witness.count(np.array([y])) for y in range(3)) for training in found]
        assert guesses.count(((1, 0), (0, 0), (0, 0))) >= 8

    @pytest.mark.parametrize("seed", [8702, 8703, 8739, 8749, 8753])
    def test_a_tail_that_chance_made_telling_is_validated(self, seed):
        """With four of these seeds a hundred outputs far out promised what no later ones showed: a bound of 0."""
        gaussian = Gaussian(1.0, 1e-5)
        found = audit(gaussian, claim=gaussian.claims[1], trials=TRIALS, seed=seed, n_jobs=1)
        assert found.lower_bound > 0.24


class TestPairs:
    def test_the_rarer_and_larger_loss_is_found(self):
        # the first round sees the rare event some 160 times against 60; losses are 0.956 and 0.601
        # found by 39 of 40 seeds, and by 37 where a rival pair's bound is lowered as the chosen one's is
        found = [(PLAIN, RARE)[chosen((PLAIN, RARE), seed).pair] for seed in range(4)]
        assert found.count(RARE) >= 3

    def test_a_clear_winner_is_not_validated(self):
        assert all(chosen((PLAIN, LOUD), seed).runs == 100_000 for seed in range(5))

    def test_rivals_have_streams_of_their_own(self):
        seen = []

        class Recorded(TrainingRuns):
            def train(self, pair, size, index, stage="training"):
                seen.append((stage, index, size))
                return super().train(pair, size, index, stage)

        chosen((PLAIN, RARE), 0, draws=Recorded)
        validated = [(index, size) for stage, index, size in seen if stage == "validation"]
        assert len({index for index, _ in validated}) == len(validated)
        assert sum(size for _, size in validated) == 100_000

    def test_the_bound_is_that_of_the_chosen_pair(self):
        result = audit(mechanism(), [PLAIN, RARE], trials=TRIALS, seed=3, n_jobs=1)
        assert 0.8 < result.lower_bound <= np.log(0.0065 / 0.0025)
        assert "rare" in result.pair


class TestRareOutputs:
    """Training saw arrays of numbers alone; among the fresh validation outputs is another."""

    @staticmethod
    def trained(shift, stray=None, on=(0, 1)):
        class WithStray(TrainingRuns):
            def train(self, pair, size, index, stage="training"):
                outputs = super().train(pair, size, index, stage)
                if stage != "validation" or stray is None:
                    return outputs
                odd = np.empty(1, object)
                odd[0] = stray
                with_stray = [
                    join_outputs([odd, one[1:-1], odd]) if side in on else one for side, one in enumerate(outputs)
                ]
                both = join_outputs(with_stray)  # `training_outputs` returns both sides in arrays of one kind
                return both[:size], both[size:]

        def law(data, size, rng):
            return rng.normal(size=(size, *np.shape(shift))) + data * np.array(shift)

        families = [Classifiers(), LikelihoodRatio()]
        law = vectorized(law, claim=PureDP(1.0))
        return chosen([DatasetPair(0, 1)], 1, law, WithStray, trials=200_000, witnesses=families)

    @pytest.fixture(scope="class")
    def alone(self):
        return self.trained((1.0, -0.5))

    @pytest.mark.parametrize(
        ("stray", "on"), [pytest.param("refused", (0,), marks=pytest.mark.slow), ((1, 2, 3), (0, 1))]
    )
    def test_vectors_are_learnt_again_without_them(self, alone, stray, on):
        among = self.trained((1.0, -0.5), stray, on)
        assert alone.runs == among.runs == 60_000
        assert alone.choice.learnt
        # what is left out moves later outputs to other folds; learnt from a third of them, it would be below 2.5
        assert among.choice.predicted > 0.95 * alone.choice.predicted


def test_every_round_has_streams_of_its_own():
    seen = []

    class Recorded(TrainingRuns):
        def train(self, pair, size, index, stage="training"):
            seen.append((stage, index))
            return super().train(pair, size, index, stage)

    pairs = [DatasetPair(name, name + "'", name=str(number)) for number, name in enumerate(["plain"] * 6)]
    chosen(pairs, 0, draws=Recorded, trials=10_000)
    assert len(seen) > len(pairs)
    assert len(set(seen)) == len(seen)

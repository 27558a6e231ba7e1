"""DP-SGD gone wrong: noise forgotten, clipping too late, noise too small, batches that are not Poisson.

Each incorrect variant changes one method of `epsaudit.mechanisms.dp_sgd.DPSGD` and keeps its claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import whole_at_least
from epsaudit.mechanisms.dp_sgd import DPSGD, Floats, Ints, Records


@dataclass(frozen=True, eq=False)
class NoiseForgotten(DPSGD):
    """No noise at every ``every``-th step, as where a last or short batch takes another path through the code.

    No finite epsilon holds: the sum of such a batch shows who was in it.

    Examples
    --------
    >>> variant = NoiseForgotten("logistic", steps=10, rate=0.1, noise_multiplier=1.0, every=5)
    >>> [variant.noise_scale(step, 100.0) for step in range(6)]
    [1.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    """

    every: int = 10
    name: ClassVar[str] = "DP-SGD, noise forgotten now and then"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.every, 1, "number of steps from one slip to the next")

    def noise_scale(self, step: int, expected: float) -> float:
        """The slip."""
        return 0.0 if step % self.every == self.every - 1 else super().noise_scale(step, expected)


class ClippedAfterAveraging(DPSGD):
    """The mean gradient of a batch is clipped, not each example's: one long gradient moves the sum by up to the batch.

    The first mistake in every list of mistakes: automatic differentiation returns the mean, and clipping it is easy.

    Examples
    --------
    >>> variant = ClippedAfterAveraging("logistic", steps=10, rate=0.1, noise_multiplier=1.0)
    >>> variant.shortening(np.array([50.0])).tolist(), [variant.kept(n, expected=100.0) for n in (50.0, 200.0)]
    ([1.0], [1.0, 0.5])
    """

    name: ClassVar[str] = "DP-SGD, clipped after averaging"

    def shortening(self, norms: Floats) -> Floats:
        """Nothing is shortened."""
        return np.ones_like(norms)

    def kept(self, norm: float, expected: float) -> float:
        """The slip: what clips the mean, seen on the sum."""
        return min(1.0, self.clip * expected / max(norm, 1e-300))


class NoiseDividedTwice(DPSGD):
    """Noise for the sum is divided by the batch size, and the noisy sum again: noise for a mean, added to a sum."""

    name: ClassVar[str] = "DP-SGD, noise divided by the batch size twice"

    def noise_scale(self, step: int, expected: float) -> float:
        """The slip."""
        return super().noise_scale(step, expected) / expected


class WithoutReplacement(DPSGD):
    """Batches drawn without replacement from each stratum, accounted as if they were Poisson.

    A stratum is the records that share a parameter of their own (a household, a device), or all others; each gives
    exactly its share to every batch, at least one record. The chance of being in a batch is what is claimed. But a
    batch of fixed size replaces: with a record added, another one is missing from the batch, and the sum moves by up to
    twice the clipping norm, where Poisson sampling moves it by once. Seen where the others pull the other way
    (`GradientCanaries` with companions). A single stratum has the same flaw, but room for one canary only, as every
    other record would have to pull against it with its full norm: `SingleStratum`, for many runs.

    Examples
    --------
    >>> variant = WithoutReplacement("logistic", steps=10, rate=0.5, noise_multiplier=1.0)
    >>> data = Records(np.zeros((4, 1)), np.ones(4), np.array([0, 0, 1, 1]), np.ones(4), np.ones(4, dtype=bool))
    >>> data.own[variant.batch(data, np.random.default_rng(0))].tolist()
    [0, 1]
    """

    name: ClassVar[str] = "DP-SGD, batches without replacement"

    def batch(self, records: Records, rng: np.random.Generator) -> Ints:
        """The slip: a random order of each stratum, and its first records."""
        order = np.lexsort((rng.random(len(records)), records.own))
        strata, starts, sizes = np.unique(records.own[order], return_index=True, return_counts=True)
        place = np.arange(len(records)) - np.repeat(starts, sizes)
        drawn = np.maximum(np.round(self.rate * sizes).astype(np.int64), np.where(strata >= 0, 1, 0))
        return np.sort(order[place < np.repeat(drawn, sizes)])


@dataclass(frozen=True)
class SingleStratum:
    """The same flaw with one stratum and one canary, which every other record pulls against: an audit of many runs.

    What is seen is the log-likelihood ratio of all noisy sums, one number a training run.

    Examples
    --------
    >>> variant = SingleStratum(DPSGD("logistic", steps=4, rate=0.5, noise_multiplier=2.0), replaces=True)
    >>> variant.worst_pairs()[0].x, variant((1,)).sample(3, np.random.default_rng(0)).shape
    ((0,), (3,))
    """

    learner: DPSGD  # its steps, rate, noise and claim; nothing else matters to the canary's coordinate
    replaces: bool  # whether batches have a fixed size (the incorrect variant), or are Poisson
    others: int = 9  # records beside the canary
    adjacency: ClassVar[None] = None

    @property
    def name(self) -> str:
        """What is audited."""
        return "DP-SGD, one canary, " + ("batches without replacement" if self.replaces else "Poisson batches")

    @property
    def claim(self) -> Claim:
        return self.learner.claim

    def __call__(self, dataset: tuple[int]) -> SingleStratumLaw:
        """Prepare runs without the canary, (0,), or with it, (1,)."""
        return SingleStratumLaw(self, bool(dataset[0]))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Without the canary against with it."""
        return (DatasetPair((0,), (1,), "no canary against one"),)


@dataclass(frozen=True)
class SingleStratumLaw:
    """Training runs of `SingleStratum`; no closed form is known for the law of the score, so none is given."""

    variant: SingleStratum
    present: bool

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw the scores of ``size`` training runs."""
        learner, others = self.variant.learner, self.variant.others
        shape = (size, learner.steps)
        inside = rng.random(shape) < learner.rate if self.present else np.zeros(shape, dtype=bool)
        drawn = max(round(learner.rate * (others + 1)), 1)
        against = drawn - inside if self.variant.replaces else rng.binomial(others, learner.rate, shape)
        sums = inside - against + learner.noise_multiplier * rng.standard_normal(shape)
        # from what the sums are without the canary, by 2 with it or, of Poisson batches, by 1
        shift, usual = (2.0, drawn) if self.variant.replaces else (1.0, learner.rate * others)
        return np.asarray(learner.log_ratio(sums + usual, shift, learner.noise_multiplier).sum(axis=1))

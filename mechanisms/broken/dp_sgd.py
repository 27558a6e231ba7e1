"""DP-SGD gone wrong, each variant by one method: noise forgotten, clipping too late, noise too small, fixed batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.array_types import Floats, Ints
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import whole_at_least
from epsaudit.mechanisms.dp_sgd import DPSGD, Records


@dataclass(frozen=True, eq=False)
class NoiseForgotten(DPSGD):
    """No noise at every ``every``-th step, as where a short batch takes another path: its sum shows who was in it."""

    every: int = 10
    name: ClassVar[str] = "DP-SGD, noise forgotten now and then"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.every, 1, "number of steps from one slip to the next")

    def noise_scale(self, step: int, expected: float) -> float:
        return 0.0 if step % self.every == self.every - 1 else super().noise_scale(step, expected)


class ClippedAfterAveraging(DPSGD):
    """The mean gradient of a batch is clipped, not each example's: one moves the sum by up to the batch."""

    name: ClassVar[str] = "DP-SGD, clipped after averaging"

    def shortening(self, norms: Floats) -> Floats:
        return np.ones_like(norms)

    def kept(self, norm: float, expected: float) -> float:
        return min(1.0, self.clip * expected / max(norm, 1e-300))


class NoiseDividedTwice(DPSGD):
    """Noise for a mean, added to a sum: divided by the batch size, and the noisy sum again."""

    name: ClassVar[str] = "DP-SGD, noise divided by the batch size twice"

    def noise_scale(self, step: int, expected: float) -> float:
        return super().noise_scale(step, expected) / expected


class WithoutReplacement(DPSGD):
    """Batches drawn without replacement from each stratum, accounted as if they were Poisson.

    A stratum is the records that share a parameter of their own, or all others; each gives exactly its share to every
    batch, at least one record. With a record added another one is missing, and the sum moves by up to twice the
    clipping norm: seen where the others pull the other way (`GradientCanaries` with companions).
    """

    name: ClassVar[str] = "DP-SGD, batches without replacement"

    def batch(self, records: Records, rng: np.random.Generator) -> Ints:
        order = np.lexsort((rng.random(len(records)), records.own))
        strata, starts, sizes = np.unique(records.own[order], return_index=True, return_counts=True)
        place = np.arange(len(records)) - np.repeat(starts, sizes)
        drawn = np.maximum(np.round(self.rate * sizes).astype(np.int64), np.where(strata >= 0, 1, 0))
        return np.sort(order[place < np.repeat(drawn, sizes)])


@dataclass(frozen=True)
class SingleStratum:
    """The same flaw with one stratum and one canary, which every other record pulls against: an audit of many runs.

    What is seen is the log-likelihood ratio of all noisy sums, one number a training run.
    """

    learner: DPSGD  # its steps, rate, noise and claim; nothing else matters to the canary's coordinate
    replaces: bool  # whether batches have a fixed size (the incorrect variant), or are Poisson
    others: int = 9  # records beside the canary
    adjacency: ClassVar[None] = None

    @property
    def name(self) -> str:
        return "DP-SGD, one canary, " + ("batches without replacement" if self.replaces else "Poisson batches")

    @property
    def claim(self) -> Claim:
        return self.learner.claim

    def __call__(self, dataset: tuple[int]) -> SingleStratumLaw:
        return SingleStratumLaw(self, bool(dataset[0]))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair((0,), (1,), "no canary against one"),)


@dataclass(frozen=True)
class SingleStratumLaw:
    """Training runs of `SingleStratum`; no closed form is known for the law of the score, so none is given."""

    variant: SingleStratum
    present: bool

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        learner, others = self.variant.learner, self.variant.others
        shape = (size, learner.steps)
        inside = rng.random(shape) < learner.rate if self.present else np.zeros(shape, dtype=bool)
        drawn = max(round(learner.rate * (others + 1)), 1)
        against = drawn - inside if self.variant.replaces else rng.binomial(others, learner.rate, shape)
        sums = inside - against + learner.noise_multiplier * rng.standard_normal(shape)
        # from what the sums are without the canary, by 2 with it or, of Poisson batches, by 1
        shift, usual = (2.0, drawn) if self.variant.replaces else (1.0, learner.rate * others)
        return np.asarray(learner.log_ratio(sums + usual, shift, learner.noise_multiplier).sum(axis=1))

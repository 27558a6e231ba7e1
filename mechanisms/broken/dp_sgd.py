"""Incorrect DP-SGD: each variant changes one method, such that noise is missing, clipping late or batches fixed."""

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
    """DP-SGD without noise at every ``every``-th step, as in code that treats a short batch differently.

    The sum of such a step shows which records were in the batch.
    """

    every: int = 10
    name: ClassVar[str] = "DP-SGD, noise forgotten now and then"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.every, 1, "number of steps from one slip to the next")

    def noise_scale(self, step: int, expected: float) -> float:
        return 0.0 if step % self.every == self.every - 1 else super().noise_scale(step, expected)


class ClippedAfterAveraging(DPSGD):
    """DP-SGD that clips the mean gradient of a batch, not the gradient of each example.

    One example may then move the sum of the batch by up to the clipping norm times the batch size.
    """

    name: ClassVar[str] = "DP-SGD, clipped after averaging"

    def shortening(self, norms: Floats) -> Floats:
        return np.ones_like(norms)

    def kept(self, norm: float, expected: float) -> float:
        return min(1.0, self.clip * expected / max(norm, 1e-300))


class NoiseDividedTwice(DPSGD):
    """DP-SGD that adds the noise of a mean to a sum, so that the noise is divided by the batch size twice."""

    name: ClassVar[str] = "DP-SGD, noise divided by the batch size twice"

    def noise_scale(self, step: int, expected: float) -> float:
        return super().noise_scale(step, expected) / expected


class WithoutReplacement(DPSGD):
    """DP-SGD whose batches are drawn without replacement from each stratum, but accounted as Poisson batches.

    A stratum is the set of records that share a parameter of their own, or the set of all other records. Each stratum
    gives exactly its share, and at least one record, to every batch. If a record is added to the batch, another record
    is missing, so the sum moves by up to twice the clipping norm. This shows when the other records have gradients of
    the opposite sign (`GradientCanaries` with companions).
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
    """`WithoutReplacement` with one stratum and one canary, whose gradient is opposite to those of all other records.

    It serves an audit of many training runs. The output of a training run is one number, the log-likelihood ratio of
    all noisy sums.
    """

    learner: DPSGD  # only its steps, rate, noise and claim matter to the canary's coordinate
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
    """Law of the score of a training run of `SingleStratum`; it has no log-density, since no closed form is known."""

    variant: SingleStratum
    present: bool

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        learner, others = self.variant.learner, self.variant.others
        shape = (size, learner.steps)
        inside = rng.random(shape) < learner.rate if self.present else np.zeros(shape, dtype=bool)
        drawn = max(round(learner.rate * (others + 1)), 1)
        against = drawn - inside if self.variant.replaces else rng.binomial(others, learner.rate, shape)
        sums = inside - against + learner.noise_multiplier * rng.standard_normal(shape)
        # the canary moves the usual sum by 2 in batches of a fixed size, and by 1 in Poisson batches
        shift, usual = (2.0, drawn) if self.variant.replaces else (1.0, learner.rate * others)
        return np.asarray(learner.log_ratio(sums + usual, shift, learner.noise_multiplier).sum(axis=1))

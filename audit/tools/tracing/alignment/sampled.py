"""Upper bounds with a confidence: the losses of fresh runs, with shifts that were chosen on training runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.tools.tracing.alignment.aligned import Aligned, Strategy
from epsaudit.tools.tracing.alignment.run import AlignmentRun, Parted, Runner


@dataclass
class Sample:
    """The losses of runs in one direction, such as from x to x', and the reasons for infinite losses.

    The loss of a run is that of its alignment, which usually shifts the noise so that the other dataset gives the same
    output. It is infinite without an alignment.
    """

    losses: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    failed: dict[str, int] = field(default_factory=dict)
    """For each reason, the seed of the first run without an alignment."""

    def add(self, seed: int, found: Aligned) -> None:
        """Add the alignment of the run with this seed. A loss of NaN counts as infinite."""
        loss = math.inf if math.isnan(found.loss) else found.loss
        self.losses.append(loss)
        if loss == math.inf:
            self.reasons[found.reason] += 1
            self.failed.setdefault(found.reason, seed)


def sample_losses(strategy: Strategy, run: Runner, run_prime: Runner, seeds: Iterable[int]) -> Sample:
    """Run the function on x with each seed, and return the loss of each run.

    The loss is that of the alignment that the strategy finds, usually a shift of the noise with which the function on
    x' gives the same output. It is infinite if the strategy finds none.
    """
    found = Sample()
    for seed in seeds:
        try:
            first = run(AlignmentRun(seed))
            found.add(seed, strategy.align(first, run_prime))
        except Parted as parted:
            found.add(seed, Aligned(math.inf, None, parted.reason))
    return found


def upper_mean(values: Floats, alpha: float) -> float:
    """Return an upper confidence limit of the mean of independent numbers in [0, 1].

    The limit inverts Hoeffding's (1963) Theorem 1: the mean of n numbers is at most q with probability at most exp(-n
    KL(q, m)) for q below the expectation m. Without any number above 0 it is 1 - alpha^(1/n), as for Clopper-Pearson.

    Examples
    --------
    >>> round(upper_mean(np.zeros(100_000), 0.05), 8)
    2.996e-05
    """
    n, mean = len(values), float(np.mean(values))
    if mean >= 1.0:
        return 1.0
    low, high = mean, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if n * divergence(mean, middle) < -math.log(alpha) else (low, middle)
        if high - low <= 1e-12 * high:
            break
    return high


def divergence(one: float, other: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli laws with these success probabilities."""
    if other >= 1.0:
        return math.inf
    hits = one * math.log(one / other) if one > 0.0 else 0.0
    misses = (1.0 - one) * (math.log1p(-one) - math.log1p(-other))
    return hits + misses


def excess(losses: Floats, epsilon: float) -> Floats:
    """Return max(0, 1 - e^(epsilon - loss)) for each loss, which is 1 for an infinite loss.

    The expectation over all runs is an upper bound on delta at this epsilon.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(losses == math.inf, 1.0, np.maximum(0.0, -np.expm1(epsilon - losses)))

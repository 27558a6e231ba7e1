"""A certified lower bound on the loss of a pair by the best simple event, for tests.

An event is chosen on one half of the outputs and certified on the other half, so that the bound holds for any choice.
"""

import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

QUANTILES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.997, 0.999)
KINDS, ATOMS = 200, 4
"""Numbers of the most frequent kinds of outputs, and of the most frequent values of a column, that are tried."""


def certified_loss(claim, outputs, outputs_prime, false_alarm):
    """Return a lower bound on the claim's parameter; it exceeds the truth with probability at most ``false_alarm``.

    ``outputs`` and ``outputs_prime`` are lists of one length, of the outputs of independent runs on x and on x'.
    """
    flat = [[flatten(one) for one in both] for both in (outputs, outputs_prime)]
    runs = len(outputs) // 2
    events = SimpleEvents.of([*flat[0][:runs], *flat[1][:runs]])
    best = np.argmax(least_parameter(claim, *(events.count(one[:runs]) for one in flat), runs, false_alarm))
    fresh = (events.count(one[runs:])[best] for one in flat)
    return float(least_parameter(claim, *fresh, len(outputs) - runs, false_alarm))


def least_parameter(claim, k, k_prime, runs, false_alarm):
    """Return a lower bound on the claim's parameter by events that occurred k and k' times in ``runs`` runs each.

    Each of the four limits of Clopper and Pearson has a quarter of the error probability.
    """
    low, high = limits(k, runs, false_alarm / 4.0)
    low_prime, high_prime = limits(k_prime, runs, false_alarm / 4.0)
    p = np.where(low > high_prime, low, np.minimum(high, low_prime))
    p_prime = np.where(low > high_prime, high_prime, np.where(high < low_prime, low_prime, p))
    return claim.least(p, p_prime)


def limits(k, n, error):
    """Return the lower and the upper Clopper-Pearson limits of a probability, each with error probability ``error``."""
    k = np.asarray(k)
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, beta.ppf(error, k, n - k + 1), 0.0)
        high = np.where(k < n, beta.ppf(1.0 - error, k + 1, n - k), 1.0)
    return low, high


def greatest_loss(outputs, outputs_prime, false_alarm):
    """Return an upper bound on epsilon-DP of discrete laws; it is below the truth with at most this probability.

    Every outcome shares the error probability. An outcome that is too rare makes the bound infinite.
    """
    seen, seen_prime = (Counter(map(repr, both)) for both in (outputs, outputs_prime))
    outcomes = list(seen | seen_prime)
    error = false_alarm / (4.0 * len(outcomes))
    low, high = limits([seen[one] for one in outcomes], len(outputs), error)
    low_prime, high_prime = limits([seen_prime[one] for one in outcomes], len(outputs_prime), error)
    if min(low.min(), low_prime.min()) == 0.0:
        return math.inf
    return float(np.max(np.log([high / low_prime, high_prime / low])))


def flatten(output):
    """Return the kind of an output, which is its structure with all discrete values, and its real numbers."""
    if isinstance(output, float):  # those of numpy are a subclass
        return "real", [float(output)]
    if isinstance(output, dict):
        output = list(output.items())
    if not isinstance(output, (list, tuple, np.ndarray)):
        return repr(output), []
    parts = [flatten(part) for part in output]
    return tuple(kind for kind, _ in parts), [number for _, numbers in parts for number in numbers]


@dataclass(frozen=True)
class SimpleEvents:
    """Events "the output has this kind", and "this column has this value, lies above, or does not lie above it"."""

    kinds: list
    width: int
    values: list
    """For each column, atoms and quantiles."""

    @classmethod
    def of(cls, known):
        """Return the events that outputs, flattened, suggest: their kinds, frequent values and quantiles."""
        kinds = [kind for kind, _ in Counter(kind for kind, _ in known).most_common(KINDS)]
        width = max(len(numbers) for _, numbers in known)
        values = []
        for column in columns(known, width):
            atoms, counts = np.unique(column, return_counts=True)
            quantiles = np.quantile(column, QUANTILES) if column.size else []
            values.append(np.concatenate([atoms[np.argsort(-counts)[:ATOMS]], quantiles]))
        return cls(kinds, width, values)

    def count(self, flattened):
        """Return how many of the outputs lie in each event, shape (events,)."""
        seen = Counter(kind for kind, _ in flattened)
        counts = [np.array([seen[kind] for kind in self.kinds])]
        for column, values in zip(columns(flattened, self.width), self.values, strict=True):
            below, up_to = (np.searchsorted(column, values, side) for side in ("left", "right"))
            counts += [up_to - below, column.size - up_to, up_to]
        return np.concatenate(counts)


def columns(flattened, width):
    """Return the numbers at each position, sums and differences of two, and the total: sorted arrays, with six digits.

    Outputs that lack a number are left out of its array.
    """
    table = np.full((len(flattened), width), np.nan)
    for row, (_, numbers) in zip(table, flattened, strict=True):
        row[: min(len(numbers), width)] = numbers[:width]
    pairs = list(itertools.combinations(range(min(width, 4)), 2))
    mixed = [table[:, i] + sign * table[:, j] for i, j in pairs for sign in (1.0, -1.0)]
    return [np.sort(np.round(one[~np.isnan(one)], 6)) for one in (*table.T, *mixed, table.sum(axis=1))]

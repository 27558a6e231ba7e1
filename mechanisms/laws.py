"""Output laws with known probabilities: what a reference mechanism returns for one dataset.

The members that all laws share are described here. ``sample(size, rng)`` draws ``size`` outputs, shape (size,) unless a
law says otherwise. ``log_density(outputs)`` is the log of the density, or of the probability, of each output, shape
(size,); it is -inf off the support. A discrete law has ``support``, its outputs, and ``log_probabilities``, one for
each output. A continuous law has ``knots``, the points where the density is not smooth, and ``scale``, about its width.
A law with both is a mixture of atoms and a density. `epsaudit.mechanisms.exact` reads these attributes. ``log_cdf`` is
the log-probability of a draw at or below each output.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError
from epsaudit.outputs.formatting import MAX_EXACT_INTEGER


@dataclass(frozen=True, eq=False)
class FiniteLaw:
    """A law on finitely many outputs, sampled by inverting its distribution function.

    Raises `AuditError` if an output is listed twice, the lengths differ, or the weights do not make a probability law.

    >>> law = FiniteLaw(["yes", "no"], np.log([3.0, 1.0]))
    >>> np.exp(law.log_probabilities).round(6).tolist()
    [0.75, 0.25]
    >>> sorted(set(law.sample(100, np.random.default_rng(0)).tolist()))
    ['no', 'yes']
    """

    support: Sequence[Hashable]  # the outputs: numbers, strings, None or tuples, all different; k of them
    log_weights: ArrayLike  # log-probabilities up to a common constant, -inf for impossible outputs; shape (k,)
    log_probabilities: Floats = field(init=False, repr=False)
    _outputs: NDArray[Any] = field(init=False, repr=False)
    _cumulative: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weights = np.asarray(self.log_weights, float)
        if weights.shape != (len(self.support),) or len(set(self.support)) != len(self.support):
            raise AuditError(
                f"A finite law has {len(self.support)} outputs, {len(set(self.support))} of them different, and "
                f"weights of shape {weights.shape}; it needs one weight for each of its different outputs."
            )
        total = logsumexp(weights) if len(weights) else -math.inf
        if not math.isfinite(total):
            raise AuditError(f"The log-weights of a finite law sum to {total}; at least one must be finite, none +inf.")
        log_probabilities = weights - total
        cumulative = np.cumsum(np.exp(log_probabilities))
        object.__setattr__(self, "log_probabilities", log_probabilities)
        object.__setattr__(self, "_outputs", outputs_array(self.support))
        object.__setattr__(self, "_cumulative", cumulative / cumulative[-1])

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        return self._outputs[np.searchsorted(self._cumulative, rng.random(size), side="right")]

    def log_density(self, outputs: Sequence[Hashable] | NDArray[Any]) -> Floats:
        values = outputs if isinstance(outputs, np.ndarray) else outputs_array(outputs)
        if _comparable(values, self._outputs):
            order, ordered = self._ordered
            position = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
            return np.where(ordered[position] == values, self.log_probabilities[order][position], -np.inf)
        return np.array([self._table.get(value, -math.inf) for value in values.tolist()], float)

    @cached_property
    def _ordered(self) -> tuple[NDArray[np.intp], NDArray[Any]]:
        order = np.argsort(self._outputs)
        return order, self._outputs[order]

    @cached_property
    def _table(self) -> dict[Hashable, float]:
        return dict(zip(self.support, self.log_probabilities.tolist(), strict=True))


@dataclass(frozen=True)
class LocationLaw:
    """Base of densities on the line around ``centre``, of width ``scale``, and smooth except perhaps at the centre."""

    centre: float
    scale: float

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.centre,)


class LaplaceLaw(LocationLaw):
    """Laplace law with the given centre and scale; its standard deviation is sqrt(2) times the scale."""

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return rng.laplace(self.centre, self.scale, size)

    def log_density(self, outputs: ArrayLike) -> Floats:
        return -np.abs(np.asarray(outputs, float) - self.centre) / self.scale - math.log(2.0 * self.scale)

    def log_cdf(self, outputs: ArrayLike) -> Floats:
        z = (np.asarray(outputs, float) - self.centre) / self.scale
        return np.where(z < 0.0, z - math.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(z, 0.0))))


class NormalLaw(LocationLaw):
    """Normal law with the given centre and standard deviation."""

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return rng.normal(self.centre, self.scale, size)

    def log_density(self, outputs: ArrayLike) -> Floats:
        z = (np.asarray(outputs, float) - self.centre) / self.scale
        return -0.5 * z * z - math.log(self.scale * math.sqrt(2.0 * math.pi))

    def log_cdf(self, outputs: ArrayLike) -> Floats:
        return log_ndtr((np.asarray(outputs, float) - self.centre) / self.scale)


@dataclass(frozen=True)
class DiscreteLaplaceLaw:
    """Two-sided geometric law on the integers: P[k] = tanh(1 / (2 scale)) exp(-|k - centre| / scale).

    ``support`` leaves out both tails, whose mass together is below 1e-18; ``log_density`` leaves out nothing.

    >>> law = DiscreteLaplaceLaw(3, 1.0)
    >>> np.exp(law.log_density(np.array([3, 4]))).round(6).tolist(), len(law.support)
    ([0.462117, 0.170003], 87)
    """

    centre: int
    scale: float

    @cached_property
    def support(self) -> tuple[int, ...]:
        reach = math.ceil(self.scale * math.log(2e18))
        return tuple(range(self.centre - reach, self.centre + reach + 1))

    @cached_property
    def log_probabilities(self) -> Floats:
        return self.log_density(self.support)

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        success = -math.expm1(-1.0 / self.scale)
        return self.centre + rng.geometric(success, size) - rng.geometric(success, size)

    def log_density(self, outputs: ArrayLike) -> Floats:
        values = np.asarray(outputs)
        log_p = math.log(math.tanh(0.5 / self.scale)) - np.abs(values - self.centre) / self.scale
        return np.where(values == np.floor(values), log_p, -np.inf)

    def log_cdf(self, outputs: ArrayLike) -> Floats:
        """Log of the distribution function at integers; it keeps its digits in both tails."""
        rank, rate = np.asarray(outputs) - self.centre, 1.0 / self.scale
        below = math.log1p(math.exp(-rate))
        above = np.log1p(-np.exp(-rate * (np.maximum(rank, 0) + 1) - below))
        return np.where(rank < 0, rate * rank - below, above)


def margin(rate: float, delta: float) -> int:
    """Return the least m such that discrete Laplace noise is below -m with probability at most delta.

    The noise has scale 1 / ``rate``, and this probability is e^(-rate (m + 1)) / (1 + e^-rate).

    >>> margin(1.0, 0.05), float(np.exp(DiscreteLaplaceLaw(0, 1.0).log_cdf([-3, -2]))[0]) < 0.05
    (2, True)
    """
    return max(0, math.ceil(-math.log(delta * (1.0 + math.exp(-rate))) / rate) - 1)


def outputs_array(values: Sequence[Hashable]) -> NDArray[Any]:
    """Return a one-dimensional array of outputs: numeric where all are numbers, else objects (tuples stay whole).

    Whole numbers that numpy would round to floats are stored as objects as well: those beyond 2^53 beside floats, and
    those from 2^63 on beside negative numbers.
    """
    kinds = set(map(type, values))  # a million values may have only a few types
    if all(issubclass(kind, (int, float, np.number)) and kind is not bool for kind in kinds):
        numbers = np.array(values)
        mixed = numbers.dtype.kind == "f" and not all(issubclass(kind, (float, np.floating)) for kind in kinds)
        if not mixed or all(
            isinstance(one, (float, np.floating)) or abs(int(one)) <= MAX_EXACT_INTEGER for one in values
        ):
            return numbers
    outputs = np.empty(len(values), dtype=object)
    outputs[:] = list(values)
    return outputs


def _comparable(values: NDArray[Any], others: NDArray[Any]) -> bool:
    """Return whether numpy compares the two arrays exactly.

    numpy converts two arrays of different kinds (whole numbers and floats, or signed and unsigned numbers) to floats,
    which must then be exact.
    """
    kinds = {values.dtype.kind, others.dtype.kind}
    return kinds <= set("iuf") and (len(kinds) == 1 or all(map(_exact_in_floats, (values, others))))


def _exact_in_floats(numbers: NDArray[Any]) -> bool:
    return (
        numbers.dtype.kind == "f"
        or not numbers.size
        or max(int(numbers.max()), -int(numbers.min())) <= MAX_EXACT_INTEGER
    )

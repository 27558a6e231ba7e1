"""Calls of private mechanisms of libraries: draws of a known law, or steps with a stated privacy loss.

If the law of the answer of a mechanism of diffprivlib is known, the call counts as a draw like those of numpy. A call
of any other mechanism is a step: both datasets get the same answer, and its privacy loss follows from what the
mechanism states and from the distance between its inputs.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from epsaudit.tools.tracing.alignment.discrete import LISTED_REST, DiscreteLaw, choice_law, table_law
from epsaudit.tools.tracing.alignment.tracked import released

POST_PROCESSING = ("LaplaceTruncated", "LaplaceFolded", "GeometricTruncated", "GeometricFolded")
"""Classes of diffprivlib that call the mechanism from which they are derived, and change its answer."""
ARGUMENT_ROUNDING = 1e-9
"""[formula] Share of the sensitivity by which the distance of two inputs may exceed a multiple of the sensitivity,
because sums of data are rounded."""


class Additive(NamedTuple):
    """A call of a mechanism that adds noise of a known law to a number."""

    value: Any
    """The number to which noise is added."""
    law: str
    """'laplace', 'normal', or 'geometric' for the difference of two geometric numbers."""
    scale: float


class Selected(NamedTuple):
    """A call of a mechanism with a discrete answer, such as a selection, whose law is known."""

    law: DiscreteLaw
    """The law of the position of the answer in ``outcomes``, or of the answer itself."""
    outcomes: Sequence[Any] | None
    """The outcomes by position; None if the law is that of the answer itself."""

    def outcome(self, drawn: Any) -> Any:
        """Return the answer for a position that the law has drawn."""
        return drawn if self.outcomes is None else self.outcomes[drawn]

    def drawn(self, outcome: Any) -> Any:
        """Return the position that the law has drawn for an answer; the inverse of `outcome`."""
        return outcome if self.outcomes is None else list(self.outcomes).index(outcome)


class PostProcessed(NamedTuple):
    """A call of a mechanism that only changes the answer of another mechanism, whose call is recorded instead."""


def known_call(name: str, make: Any) -> Additive | Selected | PostProcessed | None:
    """Return a description of a call of a mechanism of diffprivlib if the law of its answer is known, else None.

    ``name`` is the name of the mechanism in reports, and ``make()`` calls it.
    """
    if not name.startswith("diffprivlib") or not isinstance(make, functools.partial):
        return None
    owner, *values = make.args
    value = next(iter((*values, *make.keywords.values())), None)
    kind = getattr(make.func, "__qualname__", "").partition(".")[0]  # of the owner, or a class from which it is derived
    if kind in POST_PROCESSING:
        return PostProcessed()
    known = KNOWN_CLASSES.get(kind)
    return None if known is None else known(name, owner, value)


def _laplace(_: str, owner: Any, value: Any) -> Additive:
    return Additive(value, "laplace", owner.sensitivity / (owner.epsilon - math.log1p(-float(owner.delta))))


def _normal(_: str, owner: Any, value: Any) -> Additive:
    return Additive(value, "normal", float(owner._scale))


def _geometric(_: str, owner: Any, value: Any) -> Additive:
    return Additive(value, "geometric", owner.sensitivity / owner.epsilon)


def _discrete_normal(name: str, owner: Any, value: Any) -> Selected | None:
    """Return the law of a whole number plus discrete Gaussian noise (Canonne, Kamath and Steinke 2020).

    Return None if the number is not whole, or if there is no noise.
    """
    sigma, centre = float(owner._scale), released(value)
    if not sigma or int(centre) != centre:
        return None
    reach = math.ceil(sigma * math.sqrt(-2.0 * math.log(LISTED_REST)))
    logs = -0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2
    logs -= np.log(np.sum(np.exp(logs)))
    first, shares = int(centre) - reach, np.exp(logs)
    key = int(centre), sigma
    law = table_law(name, first, logs, lambda rng: first + int(rng.choice(len(shares), p=shares)), key, truncated=1)
    return Selected(law, None)


def _binary(name: str, owner: Any, value: Any) -> Selected:
    """Return the law of randomised response.

    The answer is the input with probability (e^epsilon + delta) / (e^epsilon + 1).
    """
    truth = (math.exp(owner.epsilon) + float(owner.delta)) / (math.exp(owner.epsilon) + 1.0)
    shares = np.array([truth, 1.0 - truth] if value == owner.value0 else [1.0 - truth, truth])
    return _selected(name, shares, [owner.value0, owner.value1])


def _exponential(name: str, owner: Any, _: Any) -> Selected:
    shares = np.diff(np.asarray(owner._probabilities, float), prepend=0.0)
    return _selected(name, shares, owner.candidates or range(len(shares)))


def _permute_and_flip(name: str, owner: Any, _: Any) -> Selected:
    """Return the law of 'permute and flip', which chooses the first candidate in a random order that accepts.

    Candidate i accepts with probability p_i. Candidate j is chosen with probability p_j times the integral, for t from
    0 to 1, of the product of 1 - p_i + p_i t over the other candidates i. Gauss-Legendre quadrature is exact for it.
    """
    accepts = np.exp(np.asarray(owner._probabilities, float))
    nodes, weights = np.polynomial.legendre.leggauss(len(accepts))
    factors = 1.0 + accepts * ((nodes[:, None] + 1.0) / 2.0 - 1.0)
    others = np.array([np.prod(np.delete(factors, one, axis=1), axis=1) for one in range(len(accepts))])
    return _selected(name, accepts * (others @ weights) / 2.0, owner.candidates or range(len(accepts)))


def _selected(name: str, shares: Any, outcomes: Sequence[Any]) -> Selected:
    return Selected(choice_law(name, len(shares), shares / shares.sum()), outcomes)


KNOWN_CLASSES: dict[str, Callable[[str, Any, Any], Additive | Selected | None]] = {
    "Laplace": _laplace,
    "Gaussian": _normal,
    "GaussianAnalytic": _normal,
    "Geometric": _geometric,
    "GaussianDiscrete": _discrete_normal,
    "Binary": _binary,
    "Exponential": _exponential,
    "PermuteAndFlip": _permute_and_flip,
}
"""Functions that describe a call of a mechanism of diffprivlib whose law is known, by the name of the class."""


class Loss(NamedTuple):
    """The privacy loss that a mechanism states for two inputs."""

    amount: float
    """The largest log ratio of the probabilities of an answer, or rho of zCDP."""
    delta: float = 0.0
    """The stated delta: a probability that the loss does not cover."""


UNKNOWN = Loss(math.inf, 1.0)
"""The loss if a mechanism states none."""


class Step(NamedTuple):
    """A call of a mechanism that states its own privacy loss: its input, and the loss for inputs at a distance."""

    name: str
    numbers: tuple[Any, ...]
    """The input."""
    distance: Callable[[Sequence[Any], Sequence[Any]], Any]
    """A function that returns the distance of two inputs: a number, or a tuple of numbers."""
    loss: Callable[[Any], Loss]
    """A function that returns the loss that the mechanism states for inputs at a distance."""
    key: Any
    """The parameters that the mechanism states. They must not depend on the data."""
    answer: Any = None
    concentrated: bool = False
    """Whether the loss is rho of zCDP, and not the largest log ratio of the probabilities of an answer."""

    def stated_to(self, other: Step) -> Loss:
        """Return the loss that is stated for the inputs of this call and of another one.

        It is `UNKNOWN` if the stated parameters differ, or if the inputs have no finite distance.
        """
        if self.key != other.key:
            return UNKNOWN
        moved = self.distance(self.numbers, other.numbers)
        moves = moved if isinstance(moved, tuple) else (moved,)
        if not all(one < math.inf for one in moves):  # also if one is NaN
            return UNKNOWN
        return self.loss(moved) if any(moves) else Loss(0.0)

    def loss_to(self, other: Step) -> float:
        """Return the stated loss for the inputs of this call and of another one, as a number.

        It is infinite if the loss is unknown, or if a positive delta is stated.
        """
        amount, delta = self.stated_to(other)
        return math.inf if delta else amount


class UnknownLossError(Exception):
    """Raised with a reason if the privacy loss of a call does not follow from what the mechanism states."""


def step_of(name: str, make: Any, stated: Any) -> Step:
    """Return the description of a call of a mechanism as a step with a stated privacy loss.

    ``name`` is the name of the mechanism, ``make()`` calls it, and ``stated`` has its input and what it states. Raises
    `UnknownLossError` if the loss does not follow from this.
    """
    if stated.norm == "opendp" and isinstance(make, functools.partial):
        return _opendp_step(name, make.args[0], stated.input)
    states = {key: value for key, value in stated.states.items() if value is not None}
    key = repr(sorted(states.items())), repr(sorted(stated.fixed.items()))
    distance = DISTANCES.get(stated.norm.partition(" ")[0])
    numbers = _flat(name, stated.input)
    if states.get("law") == "laplace" and states.get("scale"):
        scale = float(states["scale"])
        return Step(name, numbers, _sum_of_moves, lambda moved: Loss(moved / scale), key)
    if "normal" in (states.get("law"), stated.law_of_step) and states.get("scale"):
        return _normal_step(name, numbers, float(states["scale"]), key)
    if distance is None or not (states.get("epsilon") and states.get("sensitivity")):
        raise UnknownLossError(f"{name} does not state a loss for inputs that move")
    epsilon, delta = float(states["epsilon"]), float(states.get("delta", 0.0))
    sensitivity = float(states["sensitivity"])

    def loss(moved: float) -> Loss:
        # a mechanism may round its input, so that the loss need not be smaller for a smaller distance
        times = math.ceil(moved / sensitivity - ARGUMENT_ROUNDING)
        return Loss(times * epsilon, delta and _delta_of_group(epsilon, delta, times))

    return Step(name, numbers, distance, loss, key)


def _delta_of_group(epsilon: float, delta: float, times: int) -> float:
    """Return the delta of group privacy, for inputs that are ``times`` the stated sensitivity apart.

    It is delta (1 + e^epsilon + ... + e^((times - 1) epsilon)) for a mechanism that is (epsilon, delta)-DP.
    """
    try:
        return min(1.0, delta * math.expm1(times * epsilon) / math.expm1(epsilon))
    except OverflowError:
        return 1.0


def _normal_step(name: str, numbers: tuple[float, ...], sigma: float, key: Any) -> Step:
    """Return the step of a call that adds normal noise with standard deviation ``sigma`` to numbers.

    Its loss for inputs u and u' is rho = |u - u'|^2 / (2 sigma^2) in zCDP.
    """
    return Step(name, numbers, _length_of_moves, lambda moved: Loss(0.5 * (moved / sigma) ** 2), key, None, True)


def _flat(name: str, value: Any) -> tuple[float, ...]:
    try:
        return tuple(float(one) for one in np.ravel(np.asarray(released(value), float)))
    except (TypeError, ValueError):
        raise UnknownLossError(f"the input of {name} is no number") from None


def _opendp_step(name: str, measurement: Any, value: Any) -> Step:
    """Return a call of a measurement of OpenDP as a step. The map of the measurement gives the privacy loss.

    Raises `UnknownLossError` if the metric or the measure is not known here, or if the map gives no loss.
    """
    metric, measure = (str(getattr(measurement, one, "")) for one in ("input_metric", "output_measure"))
    inner = measure[len(APPROXIMATE) : -1] if measure.startswith(APPROXIMATE) else measure
    concentrated = inner.startswith("ZeroConcentratedDivergence")
    if not concentrated and not inner.startswith("MaxDivergence"):
        raise UnknownLossError(f"losses of {measure or 'an unknown measure'} are not added up")
    start = next((start for start in OPENDP_DISTANCES if metric.startswith(start)), None)
    if start is None:
        raise UnknownLossError(f"distances of {metric or 'an unknown metric'} are not computed")
    numbers = tuple(value) if isinstance(value, (list, tuple, np.ndarray)) else (value,)
    stated = _mapped(measurement, (1.0, 1.0, 1.0) if start in KEYED_DISTANCES else 1.0)
    if stated == UNKNOWN:
        raise UnknownLossError(f"the map of {name} gives no loss for inputs at distance 1")
    loss = functools.partial(_mapped, measurement)
    return Step(name, numbers, OPENDP_DISTANCES[start], loss, (str(measurement), stated), None, concentrated)


APPROXIMATE = "Approximate("
"""Beginning of the names of OpenDP's measures whose map gives a loss and a delta."""


def _mapped(measurement: Any, moved: Any) -> Loss:
    """Return the loss that the map of a measurement of OpenDP gives for a distance of inputs.

    Some maps accept only whole numbers, and others only floats, so that both are tried. The result is `UNKNOWN` if the
    map accepts neither.
    """
    for kind in (int, float):
        parts = moved if isinstance(moved, tuple) else (moved,)
        if kind is int and any(one != int(one) for one in parts):
            continue
        # the first of several numbers is that of components that differ
        converted = tuple(kind(one) if place or len(parts) == 1 else int(one) for place, one in enumerate(parts))
        try:
            given = measurement.map(converted if isinstance(moved, tuple) else converted[0])
            amount, delta = given if isinstance(given, tuple) else (given, 0.0)
            return Loss(float(amount), float(delta))
        except Exception:
            continue
    return UNKNOWN


def _moves(numbers: Sequence[Any], others: Sequence[Any]) -> list[float]:
    if len(numbers) != len(others):
        return [math.inf]
    return [abs(float(one) - float(other)) for one, other in zip(numbers, others)]  # noqa: B905  # strict since 3.10


def _sum_of_moves(numbers: Sequence[Any], others: Sequence[Any]) -> float:
    return math.fsum(_moves(numbers, others))


def _largest_move(numbers: Sequence[Any], others: Sequence[Any]) -> float:
    return max(_moves(numbers, others), default=0.0)


def _length_of_moves(numbers: Sequence[Any], others: Sequence[Any]) -> float:
    return math.hypot(*_moves(numbers, others))


def _symmetric_difference(records: Sequence[Any], others: Sequence[Any]) -> float:
    both = Counter(map(repr, records)), Counter(map(repr, others))
    return float(sum((both[0] - both[1]).values()) + sum((both[1] - both[0]).values()))


def _is_other(values: Sequence[Any], others: Sequence[Any]) -> float:
    return float(tuple(values) != tuple(others))


def _keyed_moves(numbers: Sequence[Any], others: Sequence[Any], norm: Callable[..., float]) -> tuple[float, ...]:
    """Return the distance of two dictionaries of numbers, where an absent key has the value 0.

    It has three numbers: the number of keys whose values differ, the norm of the differences, and the largest one.
    """
    x, y = numbers[0], others[0]
    if not (isinstance(x, dict) and isinstance(y, dict)):
        return (math.inf,)
    moves = [abs(float(x.get(name, 0)) - float(y.get(name, 0))) for name in {**x, **y}]
    return float(sum(one != 0.0 for one in moves)), norm(moves), max(moves, default=0.0)


DISTANCES = {"l1": _sum_of_moves, "l2": _length_of_moves, "linf": _largest_move}
"""Functions that return the distance of two inputs, by the norm that a mechanism states."""
KEYED_DISTANCES = {
    "L01InfDistance": functools.partial(_keyed_moves, norm=math.fsum),
    "L02InfDistance": functools.partial(_keyed_moves, norm=lambda moves: math.hypot(*moves)),
}
"""Functions that return the distance of two dictionaries, by the beginning of the name of OpenDP's metric."""
OPENDP_DISTANCES: dict[str, Callable[[Sequence[Any], Sequence[Any]], Any]] = {
    **KEYED_DISTANCES,
    "AbsoluteDistance": _sum_of_moves,
    "L1Distance": _sum_of_moves,
    "L2Distance": _length_of_moves,
    "LInfDistance": _largest_move,
    "SymmetricDistance": _symmetric_difference,
    "DiscreteDistance": _is_other,
}
"""Functions that return the distance of two inputs, by the beginning of the name of OpenDP's metric."""

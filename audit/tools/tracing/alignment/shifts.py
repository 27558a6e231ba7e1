"""The cheapest shift of the noise of a run with which given comparisons and all released numbers stay the same.

Each comparison and each released number is one linear condition on the shifts: `Condition`. A draw that is uniform on
(0, 1) is not shifted; the interval in which the comparisons hold on x is stretched to the interval on x'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog, nnls

from epsaudit.tools.tracing.alignment.noise_laws import FIXED, LAWS
from epsaudit.tools.tracing.alignment.run import COMPARE, Draw, RunEvent, equal_sums, is_rounding, noise_size
from epsaudit.tools.tracing.primitives import UNIFORM

SOLVER_TOLERANCE = 1e-9
"""[formula] Absolute tolerance of the solvers for a condition. HiGHS is asked for 1e-10; its default is 1e-7."""


class Condition(NamedTuple):
    """A linear condition on the shifts of draws: their weighted sum is at least, at most, or exactly ``bound``.

    ``terms`` has the positions of the draws with their weights.
    """

    terms: tuple[tuple[int, float], ...]
    bound: float
    sense: int
    """1 for at least, -1 for at most, 0 for equal."""


class Stretch(NamedTuple):
    """A linear map of a uniform draw from its interval on x to its interval on x'.

    The interval contains the values for which all comparisons of the draw have the recorded outcomes.
    """

    low: float
    high: float
    low_prime: float
    high_prime: float

    def moved(self, value: float) -> float:
        """Return the value on x' to which this linear map moves a value of the draw on x."""
        share = (self.high_prime - self.low_prime) / (self.high - self.low)
        return self.low_prime + (value - self.low) * share

    @property
    def loss(self) -> float:
        """The privacy loss of the map: the log ratio of the lengths of both intervals."""
        return math.log((self.high - self.low) / (self.high_prime - self.low_prime))


class Shift(NamedTuple):
    """The change of all draws of a run from x to x': a shift of each draw, and stretches of uniform draws."""

    amounts: tuple[float, ...]
    stretches: dict[int, Stretch]

    def moved(self, draws: Sequence[Draw]) -> list[float]:
        """Return the values of the draws after the change."""
        return [
            self.stretches[number].moved(one.value) if number in self.stretches else one.value + self.amounts[number]
            for number, one in enumerate(draws)
        ]


def conditions_of(
    events: Sequence[RunEvent], events_prime: Sequence[RunEvent], draws: Sequence[Draw], equal: bool = False
) -> list[Condition]:
    """Return the conditions on the shift of the noise under which comparisons and released numbers are kept.

    ``events`` are those of the run on x, and ``events_prime`` those of the run on x' with the same draws. Comparisons
    of uniform draws that can be stretched are left to `stretches_of`. With ``equal``, the compared numbers themselves
    must be the same on both sides, so that no shift depends on the outcome of a comparison.
    """
    found: dict[Condition, None] = {}
    fixed = used_otherwise(events, draws)
    for one, other in zip(events, events_prime, strict=True):
        if is_threshold(one, draws) and one.terms[0][0] not in fixed:
            continue
        bound = one.constant - other.constant
        size = abs(one.constant) + abs(other.constant)
        if is_rounding(bound, size, noise_size(one.terms, draws)):
            bound = 0.0
        sense = 0 if equal or one.kind != COMPARE else 1 if one.outcome else -1
        found[normalized(one.terms, bound, sense)] = None
    return list(found)


def normalized(terms: tuple[tuple[int, float], ...], bound: float, sense: int) -> Condition:
    """Return a condition on shifts, divided by its first weight.

    Equal conditions of several runs are then recognised as equal.
    """
    first = terms[0][1]
    return Condition(
        tuple((draw, weight / first) for draw, weight in terms), bound / first, sense if first > 0.0 else -sense
    )


def is_threshold(event: RunEvent, draws: Sequence[Draw]) -> bool:
    """Return whether an event is the comparison of one uniform draw with a number."""
    return event.kind == COMPARE and len(event.terms) == 1 and draws[event.terms[0][0]].law == UNIFORM


def used_otherwise(events: Sequence[RunEvent], draws: Sequence[Draw]) -> set[int]:
    """Return the uniform draws that are used in another way than in a comparison with a number.

    An alignment neither shifts nor stretches these draws.
    """
    return {
        draw for one in events if not is_threshold(one, draws) for draw, _ in one.terms if draws[draw].law == UNIFORM
    }


def stretches_of(
    events: Sequence[RunEvent], events_prime: Sequence[RunEvent], draws: Sequence[Draw]
) -> dict[int, Stretch] | None:
    """Return the stretch of each uniform draw that is only compared with numbers.

    The comparisons then have the same outcomes on x' as on x. Return None if no value on x' gives these outcomes.
    """
    intervals: dict[int, list[float]] = {}
    fixed = used_otherwise(events, draws)
    for one, other in zip(events, events_prime, strict=True):
        if not is_threshold(one, draws) or one.terms[0][0] in fixed:
            continue
        draw, weight = one.terms[0]
        ends = intervals.setdefault(draw, [0.0, 1.0, 0.0, 1.0])
        for place, event in ((0, one), (2, other)):
            edge = min(max(-event.constant / weight, 0.0), 1.0)
            if (weight > 0.0) == one.outcome:
                ends[place] = max(ends[place], edge)
            else:
                ends[place + 1] = min(ends[place + 1], edge)
    stretches = {draw: Stretch(*ends) for draw, ends in intervals.items()}
    return (
        None if any(one.high_prime <= one.low_prime or one.high <= one.low for one in stretches.values()) else stretches
    )


def cheapest_amounts(conditions: Sequence[Condition], laws: Sequence[tuple[str, float]]) -> tuple[float, ...] | None:
    """Return the shifts of draws that satisfy all conditions with the smallest loss, or None if no shifts do.

    ``laws`` has the law of each draw and its scale on x'. The loss is the sum of absolute shifts divided by scales. If
    all draws in the conditions that can be shifted are normal, it is the sum of the squares of these quotients.
    """
    amounts = [0.0] * len(laws)
    used = sorted({draw for one in conditions for draw, _ in one.terms})
    movable = [draw for draw in used if laws[draw][0] not in FIXED]
    for one in conditions:  # a condition without a movable draw cannot be changed by shifts
        if not any(laws[draw][0] not in FIXED for draw, _ in one.terms) and not _holds(one, amounts):
            return None
    conditions = [one for one in conditions if any(laws[draw][0] not in FIXED for draw, _ in one.terms)]
    if all(_holds(one, amounts) for one in conditions):
        return tuple(amounts)
    separate = _solve_separately(conditions, laws)
    if separate is not None:
        return _checked_shift(separate, conditions, laws)
    if not movable:
        return None
    # solvers have absolute tolerances: shifts are in units of their scales, and conditions in units of their largest
    place = {draw: column for column, draw in enumerate(movable)}
    rows, bounds = np.zeros((len(conditions), len(movable))), np.zeros(len(conditions))
    for row, one in enumerate(conditions):
        unit = _unit(one, laws)
        bounds[row] = one.bound / unit
        for draw, weight in one.terms:
            if draw in place:
                rows[row, place[draw]] = weight * laws[draw][1] / unit
    senses = np.array([one.sense for one in conditions], float)
    solve = _least_squares if all(laws[draw][0] == "normal" for draw in movable) else _least_sum
    solution = solve(rows, bounds, senses, [laws[draw][0] for draw in movable])
    if solution is None:
        return None
    for draw, amount in zip(movable, solution, strict=True):
        amounts[draw] = float(amount) * laws[draw][1]
    return _checked_shift(amounts, conditions, laws)


def _unit(one: Condition, laws: Sequence[tuple[str, float]]) -> float:
    """Return the largest product of weight and scale of a draw in a condition.

    Errors of the condition are measured in this unit.
    """
    return max(abs(weight) * laws[draw][1] for draw, weight in one.terms)


def _holds(one: Condition, amounts: Sequence[float], tolerance: float = 0.0) -> bool:
    """Return whether shifts satisfy a condition.

    Equations must hold up to rounding, and inequalities within ``tolerance``.
    """
    parts = [weight * amounts[draw] for draw, weight in one.terms]
    if one.sense == 0:
        return equal_sums(sum(parts), one.bound, sum(map(abs, parts)))
    return one.sense * (sum(parts) - one.bound) >= -tolerance


def _checked_shift(
    amounts: Sequence[float], conditions: Sequence[Condition], laws: Sequence[tuple[str, float]]
) -> tuple[float, ...] | None:
    """Round the shifts that a solver found to simple numbers if possible, and return them.

    Return None if they do not satisfy all conditions. Equations must hold up to the rounding of their sums: a
    difference of 1e-13 between two released numbers can be a leak. Inequalities must hold within the solver's
    tolerance, which changes probabilities by as little.
    """
    equations = [one for one in conditions if one.sense == 0]
    found = [
        float(round(one)) if laws[draw][0] != UNIFORM and not LAWS[laws[draw][0]].continuous else float(one)
        for draw, one in enumerate(amounts)
    ]
    if not all(_holds(one, found) for one in equations):
        found = _polished(found, equations, laws)
    simple = [float(f"{one:.9g}") for one in found]  # what solvers return for 1 is often 0.9999999999999998
    if all(_holds(one, simple) for one in conditions):
        return tuple(simple)
    size = 1.0 + max((abs(one.bound) / _unit(one, laws) for one in conditions), default=0.0)
    good = all(_holds(one, found, SOLVER_TOLERANCE * size * _unit(one, laws)) for one in conditions)
    return tuple(found) if good else None


def _polished(
    amounts: Sequence[float], equations: Sequence[Condition], laws: Sequence[tuple[str, float]]
) -> list[float]:
    """Return the shifts closest to the given ones that satisfy the equations best, by least squares."""
    free = sorted(
        {d for one in equations for d, _ in one.terms if laws[d][0] != UNIFORM and LAWS[laws[d][0]].continuous}
    )
    rows, found = np.zeros((len(equations), len(free))), list(amounts)
    for row, one in enumerate(equations):
        for draw, weight in one.terms:
            if draw in free:
                rows[row, free.index(draw)] = weight
    missing = [one.bound - sum(weight * amounts[draw] for draw, weight in one.terms) for one in equations]
    correction = np.linalg.lstsq(rows, np.array(missing), rcond=None)[0]
    for draw, by in zip(free, correction, strict=True):
        found[draw] += float(by)
    return found


def _solve_separately(conditions: Sequence[Condition], laws: Sequence[tuple[str, float]]) -> list[float] | None:
    """Return the smallest shifts if every condition is about a single draw, without a solver.

    Return None if a condition is about several draws, or if no shift satisfies all conditions.
    """
    limits: dict[int, list[float]] = {}
    for one in conditions:
        if len(one.terms) != 1:
            return None
        draw, weight = one.terms[0]
        low, high = limits.setdefault(draw, [-math.inf if LAWS[laws[draw][0]].two_sided else 0.0, math.inf])
        bound, sense = one.bound / weight, one.sense * (1 if weight > 0.0 else -1)
        limits[draw] = [max(low, bound) if sense >= 0 else low, min(high, bound) if sense <= 0 else high]
    amounts = [0.0] * len(laws)
    for draw, (low, high) in limits.items():
        if low > high:
            return None
        amounts[draw] = min(max(0.0, low), high)
    return amounts


def _least_sum(rows: Any, bounds: Any, senses: Any, laws: Sequence[str]) -> Any:
    """Return the shifts, in units of the scales, with the smallest sum of absolute values; None if there are none."""
    down = [(0.0, None) if LAWS[law].two_sided else (0.0, 0.0) for law in laws]
    wide, signs = np.hstack([rows, -rows]), -senses[:, None]
    unequal = senses != 0
    answer: Any = linprog(
        np.ones(2 * len(laws)),
        A_ub=(signs * wide)[unequal] if unequal.any() else None,
        b_ub=(-senses * bounds)[unequal] if unequal.any() else None,
        A_eq=wide[~unequal] if (~unequal).any() else None,
        b_eq=bounds[~unequal] if (~unequal).any() else None,
        bounds=[*[(0.0, None)] * len(laws), *down],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    return answer.x[: len(laws)] - answer.x[len(laws) :] if answer.status == 0 else None


def _least_squares(rows: Any, bounds: Any, senses: Any, laws: Sequence[str]) -> Any:
    """Return the shifts, in units of the scales, with the smallest sum of squares; None if there are none.

    This is the least-distance problem, which non-negative least squares solve (Lawson and Hanson 1974, chapter 23).
    """
    equal, signs = senses == 0, np.where(senses == 0, 1.0, senses)
    at_least = np.vstack([signs[:, None] * rows, -rows[equal]])
    limits = np.concatenate([signs * bounds, -bounds[equal]])
    matrix = np.vstack([at_least.T, limits])
    target = np.zeros(len(matrix))
    target[-1] = 1.0
    weights, residual = nnls(matrix, target)
    if residual <= SOLVER_TOLERANCE:
        return None
    left = matrix @ weights - target
    return -left[:-1] / left[-1]


def stretch_or_shift(
    events: Sequence[RunEvent], events_prime: Sequence[RunEvent], draws: Sequence[Draw], draws_prime: Sequence[Draw],
    known: dict[Any, Any], equal: bool = False,
) -> Shift | None:  # fmt: skip
    """Return the cheapest change of the draws that keeps the given comparisons and released numbers, or None.

    ``events`` are those of the run on x, and ``events_prime`` those of the run on x' with the same draws. With
    ``equal``, the compared numbers are kept, and not only the outcomes of comparisons. ``known`` caches results.
    """
    stretches = stretches_of(events, events_prime, draws)
    if stretches is None:
        return None
    conditions = tuple(conditions_of(events, events_prime, draws, equal))
    laws = tuple((one.law, one.scale) for one in draws_prime)
    key = conditions, laws
    if key not in known:
        known[key] = cheapest_amounts(conditions, laws)
    amounts = known[key]
    return None if amounts is None else Shift(amounts, stretches)


def largest_loss(shift: Shift, draws: Iterable[Draw], draws_prime: Iterable[Draw], skip_normal: bool = False) -> float:
    """Return the largest privacy loss of a shift over all values of the draws.

    It is infinite if normal noise is shifted.
    """
    total = sum(one.loss for one in shift.stretches.values())
    for amount, one, other in zip(shift.amounts, draws, draws_prime, strict=True):
        if one.law != UNIFORM and not (skip_normal and one.law == "normal"):
            total += LAWS[one.law].largest_loss(amount, one.scale, other.scale)
    return total


def loss_at(shift: Shift, draws: Sequence[Draw], draws_prime: Sequence[Draw]) -> float:
    """Return the privacy loss of a shift at the values that the draws have in a run.

    It is the log density of the draws on x minus that of the shifted draws on x'.
    """
    total = sum(one.loss for one in shift.stretches.values())
    for one, other in zip(draws, draws_prime, strict=True):
        if one.law != UNIFORM and (one.value != other.value or one.scale != other.scale):
            total += LAWS[one.law].log_density(one.value, one.scale)
            total -= LAWS[one.law].log_density(other.value, other.scale)
    return total

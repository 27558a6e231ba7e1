"""The alignment of one run on x: the shift of its noise with which the function on x' gives the same output.

Two strategies choose the shift. `AllKept` keeps every comparison: the shift is a function of the whole path, which is
the same on both sides. `ByOutput` keeps only what the output needs, such as the comparisons with the winner of a
selection: the shift is then a function of the output alone, and is learnt on training runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from epsaudit.tools.tracing.alignment.following import has_same_output, needed_events
from epsaudit.tools.tracing.alignment.recorded_run import RecordedRun
from epsaudit.tools.tracing.alignment.run import (
    COMPARE,
    OTHER_DRAWS,
    OTHER_EVENTS,
    RELEASE,
    RETURN,
    AlignmentRun,
    Draw,
    Parted,
    RunEvent,
    Runner,
    equal_sums,
    noise_size,
)
from epsaudit.tools.tracing.alignment.shifts import (
    Condition,
    Shift,
    cheapest_amounts,
    conditions_of,
    is_threshold,
    loss_at,
    stretch_or_shift,
)

NO_SHIFT = "no shift of the noise keeps all comparisons and released numbers"
NO_SINGLE_SHIFT = "no single shift of the noise keeps this output"


class Aligned(NamedTuple):
    """Result of the search for an alignment of one run: the loss and the shift, or the reason why there is none.

    An alignment shifts the noise of a run on x so that the function on x' gives the same output.
    """

    loss: float
    """The log ratio of the density of the draws on x to that of the shifted draws on x'. It includes the loss of
    discrete draws and of mechanisms, and is infinite without an alignment."""
    shift: Shift | None = None
    reason: str = ""


class Strategy(Protocol):
    """Interface of a way to choose the shift of the noise with which the function on x' repeats a run on x."""

    def align(self, first: AlignmentRun, run_prime: Runner) -> Aligned:
        """Choose a shift of the noise of a recorded run on x, and check by a run on x' that the output is the same."""
        ...


@dataclass
class AllKept:
    """A strategy that shifts the noise so that all comparisons have the same outcomes on x and on x'.

    Every released number (a noisy number that the function converts to an ordinary one) is kept as well.
    """

    known: dict[Any, Any] = field(default_factory=dict)
    """Shifts that have been computed, by the conditions that they satisfy."""

    def align(self, first: AlignmentRun, run_prime: Runner) -> Aligned:
        try:
            second = run_prime(AlignmentRun(0, first, forced="all"))
            require_same_path(first, second)
        except Parted as parted:
            return Aligned(math.inf, None, parted.reason)
        shift = stretch_or_shift(first.events, second.events, first.draws, second.draws, self.known)
        if shift is None:
            return Aligned(math.inf, None, NO_SHIFT)
        return verified(first, shift, run_prime, whole_path=True)


@dataclass
class ByOutput:
    """A strategy that shifts the noise so that the output is the same on x and on x', whatever other comparisons do.

    There is one shift for each `signature` of a run, such as the form of its output and the released numbers. Training
    runs are given to `learn`, which finds the comparisons that the output needs, and solves for one shift that
    satisfies the conditions of all runs with the same signature.
    """

    conditions: dict[Any, dict[Condition, None]] = field(default_factory=dict)
    shifts: dict[Any, tuple[float, ...] | None] = field(default_factory=dict)

    def align(self, first: AlignmentRun, run_prime: Runner) -> Aligned:
        amounts = self.shifts.get(signature(first))
        if amounts is None:
            return Aligned(math.inf, None, NO_SINGLE_SHIFT)
        return verified(first, Shift(amounts, {}), run_prime, whole_path=False)

    def learn(self, first: AlignmentRun, run_prime: Runner) -> None:
        """Add the conditions on the shift that a training run needs, and compute the shift again if they are new."""
        key = signature(first)
        if self.shifts.get(key, ()) is None:
            return
        known = self.conditions.setdefault(key, {})
        try:
            second = run_prime(AlignmentRun(0, first, forced="all"))
            require_same_path(first, second)
            needed = needed_events(first, run_prime)
        except Parted:
            self.shifts[key] = None
            return
        pairs = [(first.events[at], second.events[at]) for at in needed]
        if any(is_threshold(one, first.draws) and one.constant != other.constant for one, other in pairs):
            self.shifts[key] = None  # the outcome of a uniform draw would have to be matched
            return
        conditions = conditions_of([one for one, _ in pairs], [other for _, other in pairs], first.draws)
        if key in self.shifts and all(one in known for one in conditions):
            return
        known.update(dict.fromkeys(conditions))
        laws = [(one.law, one.scale) for one in second.draws]
        self.shifts[key] = cheapest_amounts([*known], laws)


def signature(run: AlignmentRun) -> Any:
    """Return the properties of a run on which its shift may depend if comparisons are not kept.

    These are the form of the output, the released numbers as sums of draws, the outcomes of discrete draws and the laws
    of all draws. A run on x and its aligned run on x' have the same signature.
    """
    released = tuple((one.kind, one.terms) for one in run.events if one.kind != COMPARE)
    choices = tuple(_hashable(one.outcome) for one in run.choices)
    return run.form, released, choices, tuple(one.law for one in run.draws)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, tuple)) else repr(value)


def require_same_path(first: AlignmentRun, second: AlignmentRun) -> None:
    """Raise `Parted` unless a run on x' has the same path as a recorded run on x.

    The comparisons, the released numbers, the draws and the form of the output must agree.
    """
    if len(second.draws) != len(first.draws) or [one.law for one in second.draws] != [one.law for one in first.draws]:
        raise Parted(OTHER_DRAWS)
    if len(second.choices) != len(first.choices) or len(second.steps) != len(first.steps):
        raise Parted("the number of discrete draws or of mechanisms depends on the data")
    for one, other in zip(first.events, second.events, strict=False):
        if one.kind != other.kind or one.terms != other.terms:
            raise Parted(OTHER_EVENTS)
    if len(second.events) != len(first.events):
        raise Parted("the number of comparisons and released numbers depends on the data")
    if first.form != second.form:
        raise Parted("a part of the output without noise depends on the data")


def verified(first: AlignmentRun, shift: Shift, run_prime: Runner, whole_path: bool) -> Aligned:
    """Run the function on x' with shifted draws, and return the loss if the output is that of the recorded run.

    If the output differs, the result has an infinite loss and a reason. If ``whole_path`` is true, all comparisons must
    have the recorded outcomes as well.
    """
    try:
        third = run_prime(AlignmentRun(0, first, values=shift.moved(first.draws)))
        if whole_path:
            require_same_path(first, third)
        elif not has_same_output(first, third) or len(third.choices) != len(first.choices):
            raise Parted("the shifted noise gives another output")
        for one, other in _events_to_match(first, third, whole_path):
            if one.kind == COMPARE and one.outcome != other.outcome:
                raise Parted("a comparison has another outcome with the shifted noise")
            if one.kind != COMPARE and not _same_number(one, other, shift, first.draws):
                raise Parted("a released number differs with the shifted noise")
    except Parted as parted:
        return Aligned(math.inf, shift, parted.reason)
    loss = loss_at(shift, first.draws, third.draws) + other_losses(first, third)
    return Aligned(loss, shift)


def require_same_run(first: AlignmentRun, second: AlignmentRun) -> None:
    """Raise `Parted` unless a run with the draws of a recorded run has the same path, output and laws of draws."""
    require_same_path(first, second)
    unmoved = Shift((0.0,) * len(first.draws), {})
    for one, other in _events_to_match(first, second, whole_path=False):
        if not _same_number(one, other, unmoved, first.draws):
            raise Parted("a released number differs with the same noise")
    laws = [(one.law.name, one.law.log_probability(one.outcome)) for one in first.choices]
    laws_prime = [(one.law.name, one.law.log_probability(one.outcome)) for one in second.choices]
    scales, scales_prime = ([one.scale for one in run.draws] for run in (first, second))
    if laws != laws_prime or scales != scales_prime:
        raise Parted("the law of a draw depends on the data")


def _events_to_match(first: AlignmentRun, third: AlignmentRun, whole_path: bool) -> Any:
    kinds = (COMPARE, RELEASE, RETURN) if whole_path else (RELEASE, RETURN)
    mine, theirs = ([one for one in run.events if one.kind in kinds] for run in (first, third))
    return zip(mine, theirs, strict=True)


def _same_number(one: RunEvent, other: RunEvent, shift: Shift, draws: Sequence[Draw]) -> bool:
    """Return whether a released number on x' equals the recorded one after the shift, up to rounding."""
    if one.kind == RELEASE and one.outcome == other.outcome:
        return True
    moved = [weight * shift.amounts[draw] for draw, weight in one.terms if draw not in shift.stretches]
    stretched = any(draw in shift.stretches for draw, _ in one.terms)
    size = abs(one.constant) + abs(other.constant) + sum(map(abs, moved))
    noise = noise_size(one.terms, draws)
    return not stretched and equal_sums(sum(moved) + other.constant, one.constant, size, noise)


def other_losses(
    first: AlignmentRun | RecordedRun, other: AlignmentRun | RecordedRun, with_delta: bool = False
) -> float:
    """Return the loss that does not come from shifted noise: that of discrete draws and of mechanisms of libraries.

    These mechanisms state their own privacy loss. The result is infinite if the runs differ in the number of draws or
    mechanisms, or if a mechanism states a loss in zCDP (see `concentrated_loss`). A mechanism that states a delta has
    an infinite loss, unless ``with_delta`` is true and the caller adds `delta_of_steps` to the delta of its bound.
    """
    if len(first.choices) != len(other.choices) or len(first.steps) != len(other.steps):
        return math.inf
    is_concentrated = concentrated_loss(first, other, with_delta)
    total = math.inf if is_concentrated else pure_loss_of_steps(first, other, with_delta)
    for one, its in zip(first.choices, other.choices, strict=True):
        total += one.law.log_probability(one.outcome) - its.law.log_probability(its.outcome)
    return total


def pure_loss_of_steps(
    first: AlignmentRun | RecordedRun, other: AlignmentRun | RecordedRun, with_delta: bool = False
) -> float:
    """Return the sum of epsilon that mechanisms of libraries state for the inputs that they have in two runs."""
    both: Any = zip(first.steps, other.steps, strict=True)
    return float(sum(_loss_of_step(one, its, with_delta) for one, its in both if not one.concentrated))


def concentrated_loss(
    first: AlignmentRun | RecordedRun, other: AlignmentRun | RecordedRun, with_delta: bool = False
) -> float:
    """Return the sum of rho that mechanisms of libraries state in zCDP for the inputs that they have in two runs.

    The result is infinite if another mechanism or a discrete draw has a loss as well, which cannot be added to rho.
    """
    both: Any = zip(first.steps, other.steps, strict=True)
    rho = float(sum(_loss_of_step(one, its, with_delta) for one, its in both if one.concentrated))
    choices: Any = zip(first.choices, other.choices, strict=True)
    same = all(one.law.log_probability(one.outcome) == its.law.log_probability(its.outcome) for one, its in choices)
    return rho if not rho or (same and not pure_loss_of_steps(first, other, with_delta)) else math.inf


def _loss_of_step(one: Any, other: Any, with_delta: bool) -> float:
    return float(one.stated_to(other).amount if with_delta else one.loss_to(other))


def delta_of_steps(first: AlignmentRun, other: AlignmentRun) -> float:
    """Return the sum of delta that mechanisms of libraries state for the inputs that they have in two runs."""
    return math.fsum(one.stated_to(its).delta for one, its in zip(first.steps, other.steps, strict=True))

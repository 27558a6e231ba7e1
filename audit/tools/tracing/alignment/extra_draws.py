"""Alignments of paths on which one dataset makes draws that the other does not make, such as the noise of one more key.

Draws that only x makes are integrated out: the other draws are aligned, and what the extra draws decide must not change
their shift. Draws that only x' makes are drawn, on x', from their law given the outcomes of their comparisons, which
costs the logarithm of the probability of these outcomes.

Draws that are moved from two paths of x to the same path of x' must not share its probability. Two paths of x may only
lead to one path of x' if they differ in nothing but the outcomes of the extra draws of x, whose probabilities add up
to 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from epsaudit.tools.tracing.alignment.aligned import other_losses
from epsaudit.tools.tracing.alignment.paths import DISTRIBUTIONS, PathRun, interval_probability
from epsaudit.tools.tracing.alignment.run import COMPARE, Draw, RunEvent
from epsaudit.tools.tracing.alignment.shifts import Shift, largest_loss, stretch_or_shift
from epsaudit.tools.tracing.primitives import UNIFORM


class Reduced(NamedTuple):
    """A path without some consecutive draws and the comparisons of these draws."""

    key: Any
    """What both sides see of the path: events without constants, the output, the laws, and discrete outcomes."""
    events: tuple[RunEvent, ...]
    draws: tuple[Draw, ...]
    log_probability: float
    """Log probability of the outcomes of the removed draws."""
    path: PathRun
    """The whole path."""


class Image(NamedTuple):
    """An alignment of a path with extra draws: its loss and shift, and the path of x' to which it leads."""

    loss: float
    amounts: tuple[float, ...]
    image: Any
    """What identifies the path of x'."""
    source: Any
    """What identifies the path of x, without draws that are integrated out."""


def image_of(path: PathRun) -> Any:
    """Return what identifies a path of x' among the paths of x': whatever both sides see of it."""
    return draw_identity(path.events, path.form, path.draws, path)


def draw_identity(events: Sequence[RunEvent], form: Any, draws: Sequence[Draw], path: PathRun) -> Any:
    """Return what both sides see of a path, or of a path without some draws."""
    return (
        tuple((one.kind, one.terms, one.outcome if one.kind == COMPARE else None) for one in events),
        form,
        tuple(one.law for one in draws),
        tuple(map(repr, (one.outcome for one in path.choices))),
    )


def reduce_path(path: PathRun, start: int, count: int) -> Reduced | None:
    """Return a path without the draws from position ``start`` on; None if other parts of the path depend on them."""
    removed = range(start, start + count)

    def renumber(terms: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...] | None:
        if any(draw in removed for draw, _ in terms):
            return None
        return tuple((draw - count if draw >= start else draw, weight) for draw, weight in terms)

    events = []
    for one in path.events:
        terms = renumber(one.terms)
        if terms is not None:
            events.append(one._replace(terms=terms))
        elif one.kind != COMPARE or any(draw not in removed for draw, _ in one.terms):
            return None
    form = renumbered_form(path.form, renumber)
    if form is None:
        return None
    draws = tuple(one for number, one in enumerate(path.draws) if number not in removed)
    log_probability = _log_probability(path, removed)
    return Reduced(draw_identity(events, form, draws, path), tuple(events), draws, log_probability, path)


def renumbered_form(form: Any, renumber: Any) -> Any:
    """Return the form of an output with other numbers of draws; None if a removed draw is in it."""
    if isinstance(form, tuple) and len(form) == 2 and form[0] == "noisy":
        terms = renumber(form[1])
        return None if terms is None else ("noisy", terms)
    if not isinstance(form, tuple):
        return form
    parts = tuple(renumbered_form(one, renumber) for one in form)
    return None if any(new is None and old is not None for new, old in zip(parts, form, strict=True)) else parts


def _log_probability(path: PathRun, removed: range) -> float:
    """Return the log probability of the intervals of draws of a path; -inf if a draw is compared with another one."""
    total = 0.0
    for key, (low, high) in path.intervals.items():
        draw = key[0][0]
        if draw not in removed:
            continue
        if len(key) > 1:  # the probability of a comparison of several draws is not computed
            return -math.inf
        law, scale, _ = path.draws[draw]
        if law == UNIFORM:
            share = high - low
        elif law in DISTRIBUTIONS:
            share = interval_probability(law, scale, low, high)
        else:
            return -math.inf
        total += math.log(share) if share > 0.0 else -math.inf
    return total


class ExtraDraws:
    """Aligns paths of x with paths of x' that have a different number of draws.

    Parameters
    ----------
    theirs : sequence of PathRun
        All paths of x'.
    start : int
        Position from which on the extra draws are, on all paths.
    """

    def __init__(self, theirs: Sequence[PathRun], start: int) -> None:
        self.theirs, self.start = theirs, start
        self.known: dict[Any, Any] = {}
        self.amounts: dict[Any, tuple[float, ...]] = {}
        """The shift for each reduced path of x whose extra draws are integrated out."""
        self._by_key: dict[int, dict[Any, Reduced]] = {}

    def _reduced_theirs(self, count: int) -> dict[Any, Reduced]:
        """Return paths of x' without ``count`` draws, the likeliest outcomes of these draws for each key."""
        if count not in self._by_key:
            found = defaultdict[Any, list[Reduced]](list)
            for other in self.theirs:
                if len(other.draws) >= self.start + count:
                    reduced = reduce_path(other, self.start, count)
                    if reduced is not None:
                        found[reduced.key].append(reduced)
            self._by_key[count] = {key: max(some, key=lambda one: one.log_probability) for key, some in found.items()}
        return self._by_key[count]

    def align(self, path: PathRun) -> Image | None:
        """Return the best alignment of a path of x, or None without an alignment."""
        best: Image | None = None
        for count in sorted({len(path.draws) - len(other.draws) for other in self.theirs} - {0}):
            if count > 0 and len(path.draws) < self.start + count:
                continue
            mine = reduce_path(path, self.start, max(count, 0))
            other = None if mine is None else self._reduced_theirs(max(-count, 0)).get(mine.key)
            if mine is None or other is None:
                continue
            shift = stretch_or_shift(mine.events, other.events, mine.draws, other.draws, self.known)
            if shift is None or (count > 0 and not self._is_consistent(mine, shift)):
                continue
            loss = largest_loss(shift, mine.draws, other.draws) - (other.log_probability if count < 0 else 0.0)
            loss += other_losses(path, other.path)
            if best is None or loss < best.loss:
                best = Image(loss, shift.amounts, image_of(other.path), (count, mine.key))
        return best

    def _is_consistent(self, mine: Reduced, shift: Shift) -> bool:
        """Return whether paths that differ in the integrated draws alone have the same shift, and no stretch."""
        return not shift.stretches and self.amounts.setdefault(mine.key, shift.amounts) == shift.amounts

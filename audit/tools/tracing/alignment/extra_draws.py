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
    """A path from which some consecutive draws, and the comparisons of these draws, have been removed."""

    key: Any
    """The identity of the path without these draws; see `draw_identity`."""
    events: tuple[RunEvent, ...]
    draws: tuple[Draw, ...]
    log_probability: float
    """Log probability of the outcomes of the removed draws."""
    path: PathRun
    """The whole path."""


class Image(NamedTuple):
    """An alignment of a path of x with a path of x' that has another number of draws.

    It has the loss, the shift of the common draws, and the identities of both paths.
    """

    loss: float
    amounts: tuple[float, ...]
    image: Any
    """The identity of the path of x'."""
    source: Any
    """The identity of the path of x without its extra draws."""


def image_of(path: PathRun) -> Any:
    """Return a value that identifies a path among all paths of its dataset; see `draw_identity`.

    A path is one combination of outcomes of comparisons and discrete draws.
    """
    return draw_identity(path.events, path.form, path.draws, path)


def draw_identity(events: Sequence[RunEvent], form: Any, draws: Sequence[Draw], path: PathRun) -> Any:
    """Return a value that is equal for corresponding paths of x and of x', and different for other paths.

    It contains the comparisons with their outcomes but without data, the form of the output, the laws of the draws, and
    the outcomes of discrete draws. The first three may be those of a path without some draws.
    """
    return (
        tuple((one.kind, one.terms, one.outcome if one.kind == COMPARE else None) for one in events),
        form,
        tuple(one.law for one in draws),
        tuple(map(repr, (one.outcome for one in path.choices))),
    )


def reduce_path(path: PathRun, start: int, count: int) -> Reduced | None:
    """Remove ``count`` draws from a path, beginning at position ``start``, with the comparisons of these draws.

    Return None if another part of the path depends on the removed draws.
    """
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
    """Return the form of an output after draws have been renumbered; None if it contains a removed draw.

    The form is the output with placeholders for noisy numbers. ``renumber`` renumbers the draws of one number.
    """
    if isinstance(form, tuple) and len(form) == 2 and form[0] == "noisy":
        terms = renumber(form[1])
        return None if terms is None else ("noisy", terms)
    if not isinstance(form, tuple):
        return form
    parts = tuple(renumbered_form(one, renumber) for one in form)
    return None if any(new is None and old is not None for new, old in zip(parts, form, strict=True)) else parts


def _log_probability(path: PathRun, removed: range) -> float:
    """Return the log probability that the removed draws of a path have the outcomes of their comparisons.

    It is -inf if a removed draw is compared with another draw, or has a law without a distribution in `DISTRIBUTIONS`,
    because the probability is then not computed.
    """
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
    """Aligns paths of x with paths of x' that have more or fewer draws.

    The noise of a key that only one dataset has is an example of such extra draws.

    Parameters
    ----------
    theirs : sequence of PathRun
        All paths of x'.
    start : int
        Position of the first extra draw, which is the same on all paths.
    """

    def __init__(self, theirs: Sequence[PathRun], start: int) -> None:
        self.theirs, self.start = theirs, start
        self.known: dict[Any, Any] = {}
        self.amounts: dict[Any, tuple[float, ...]] = {}
        """The shift of the other draws, by the identity of a path of x without its extra draws."""
        self._by_key: dict[int, dict[Any, Reduced]] = {}

    def _reduced_theirs(self, count: int) -> dict[Any, Reduced]:
        """Return the paths of x' without ``count`` extra draws, by the identity of the remaining path.

        Of several paths with the same identity, the one with the likeliest outcomes of the extra draws is returned.
        """
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
        """Return the cheapest alignment of a path of x with a path of x' that has more or fewer draws, or None."""
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
        """Return whether a shift is the same for all paths of x that differ only in their extra draws.

        A shift that stretches uniform draws is not consistent.
        """
        return not shift.stretches and self.amounts.setdefault(mine.key, shift.amounts) == shift.amounts

"""The events that the output of a recorded run needs: released and returned numbers, and some of the comparisons.

Needs Python 3.8 and numpy, because it runs in the process of the audited code.
"""

from __future__ import annotations

from epsaudit.tools.tracing.alignment.run import COMPARE, AlignmentRun, Parted, Runner

MAX_EVENTS_TO_REDUCE = 256
"""[time] Largest number of comparisons of a run. Each costs one run to find whether the output needs it."""


def needed_events(first: AlignmentRun, run_prime: Runner, second: AlignmentRun | None = None) -> list[int]:
    """Return the positions of all released and returned numbers of a run, and of the comparisons that its output needs.

    These comparisons are found by leaving out one comparison after the other. A comparison is not needed if the output
    stays the same when this comparison, and all comparisons left out before, have the opposite outcome.

    Parameters
    ----------
    first : AlignmentRun
        A recorded run on x.
    run_prime : callable
        Runs the function on x'.
    second : AlignmentRun, optional
        The run on x' that followed the recorded one. If it is given, a comparison of noise that nothing moves is not
        left out: an alignment keeps it without a shift.

    Raises
    ------
    Parted
        If the run has too many comparisons.
    """
    compared = [number for number, one in enumerate(first.events) if one.kind == COMPARE]
    if len(compared) > MAX_EVENTS_TO_REDUCE:
        raise Parted("too many comparisons")
    moved = None if second is None else moved_draws(first, second)
    kept = set(compared)
    for number in compared:
        if moved is not None and all(draw not in moved for draw, _ in first.events[number].terms):
            continue
        try:
            if has_same_output(first, run_prime(AlignmentRun(0, first, forced=frozenset(kept - {number}), flip=True))):
                kept.remove(number)
        except Parted:
            continue
    return [number for number, one in enumerate(first.events) if one.kind != COMPARE or number in kept]


def moved_draws(first: AlignmentRun, second: AlignmentRun) -> set[int]:
    """Return the draws that are summed with data that differ between two runs.

    The sums are those that are compared, released or returned.
    """
    both = zip(first.events, second.events)  # noqa: B905  # strict since 3.10
    return {draw for one, other in both if one.constant != other.constant for draw, _ in one.terms}


def has_same_output(first: AlignmentRun, other: AlignmentRun) -> bool:
    """Return whether a run has the output of a recorded run: the same form, with the same weighted draws in it.

    Numbers that are released before the end must have the same weighted draws as well. Comparisons may have other
    outcomes, and other data may be added to the draws.
    """
    mine, theirs = ([one for one in run.events if one.kind != COMPARE] for run in (first, other))
    same = [(one.kind, one.terms) for one in mine] == [(one.kind, one.terms) for one in theirs]
    return same and first.form == other.form and len(first.draws) == len(other.draws)

"""What the output of a recorded run needs: the released numbers, and a smallest set of comparisons.

Needs Python 3.8 and numpy, because it runs in the process of the audited code.
"""

from __future__ import annotations

from epsaudit.tools.tracing.alignment.run import COMPARE, AlignmentRun, Parted, Runner

MAX_EVENTS_TO_REDUCE = 256
"""[time] Largest number of comparisons of a run. Each costs one run to find whether the output needs it."""


def needed_events(first: AlignmentRun, run_prime: Runner) -> list[int]:
    """Return the positions of released numbers and of a smallest set of comparisons that keeps the output.

    The set is found by leaving out one comparison after the other: a comparison is not needed if the output stays the
    same when it, and all comparisons left out before, have the opposite outcome.

    Parameters
    ----------
    first : AlignmentRun
        A recorded run on x.
    run_prime : callable
        Runs the function on x'.

    Raises
    ------
    Parted
        If the run has too many comparisons.
    """
    compared = [number for number, one in enumerate(first.events) if one.kind == COMPARE]
    if len(compared) > MAX_EVENTS_TO_REDUCE:
        raise Parted("too many comparisons")
    kept = set(compared)
    for number in compared:
        try:
            if has_same_output(first, run_prime(AlignmentRun(0, first, forced=frozenset(kept - {number}), flip=True))):
                kept.remove(number)
        except Parted:
            continue
    return [number for number, one in enumerate(first.events) if one.kind != COMPARE or number in kept]


def has_same_output(first: AlignmentRun, other: AlignmentRun) -> bool:
    """Return whether a partly forced run has the form of the output, and releases and returns the same numbers."""
    mine, theirs = ([one for one in run.events if one.kind != COMPARE] for run in (first, other))
    same = [(one.kind, one.terms) for one in mine] == [(one.kind, one.terms) for one in theirs]
    return same and first.form == other.form and len(first.draws) == len(other.draws)

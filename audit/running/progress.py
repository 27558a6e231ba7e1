"""How far an audit has come, as its callback is told after every chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from epsaudit.bounds.counts import Counts
from epsaudit.running.streams import Stage


@dataclass(frozen=True)
class Progress:
    """The progress of one stage of an audit; numbers of runs are of both datasets together.

    Attributes
    ----------
    stage : str
        The stage, for example 'training' or 'certification'.
    runs_done, runs_total : int
        Runs that are done, and all runs of the stage.
    runs_before : int
        Those of ``runs_done`` that a checkpoint held already: they say nothing about the speed.
    counts : Counts, optional
        The counts of the witness in certification so far.
    bound : callable, optional
        Maps counts to a lower bound.
    """

    stage: Stage
    runs_done: int
    runs_total: int
    runs_before: int = 0
    counts: Counts | None = field(default=None, compare=False, repr=False)
    bound: Callable[[Counts], float] | None = field(default=None, compare=False, repr=False)

    @property
    def lower_bound(self) -> float | None:
        """The bound from the counts so far, or None before there are any; only the last one is certified."""
        return None if self.counts is None or self.bound is None else self.bound(self.counts)


ProgressCallback = Callable[[Progress], None]
"""A function that is called with the progress after every chunk."""

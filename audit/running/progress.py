"""The progress of an audit, which its callback receives after every chunk, and the choice of this callback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from epsaudit.bounds.counts import Counts
from epsaudit.errors import AuditError
from epsaudit.extensions import find_extension
from epsaudit.running.streams import Stage


@dataclass(frozen=True)
class Plan:
    """The facts about an audit that its progress display receives before the first chunk is finished.

    Attributes
    ----------
    name : str
        The name of the mechanism.
    runs : int
        Maximum number of runs of the audit, on both datasets together.
    workers : int
        The number of parallel workers.
    seconds_per_run : float, optional
        The seconds that one of the first runs took; None if they were not timed, or too quick to be timed.
    answered : callable, optional
        Returns the number of lines that programs have answered so far. It grows even before a chunk is finished.
    least_runs : int, optional
        Minimum number of runs that the audit accepts; None if the number of runs cannot be changed.
    """

    name: str
    runs: int
    workers: int = 1
    seconds_per_run: float | None = None
    answered: Callable[[], int] | None = field(default=None, compare=False, repr=False)
    least_runs: int | None = 100


@dataclass(frozen=True)
class Progress:
    """The progress of one stage of an audit. All numbers of runs are of both datasets together.

    Attributes
    ----------
    stage : str
        The stage, for example 'training' or 'certification'.
    runs_done, runs_total : int
        Runs that are done, and all runs of the stage.
    runs_before : int
        The part of ``runs_done`` that a checkpoint held already. It must be left out when the speed is computed.
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
        """The lower bound from the counts so far, or None if there are no counts.

        Only the bound from the counts of all runs is certified.
        """
        return None if self.counts is None or self.bound is None else self.bound(self.counts)


ProgressCallback = Callable[[Progress], None]
"""A function that is called with the progress after every chunk. If it has a method ``begin``, this is called with the
`Plan` before the first chunk."""


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal. It is false for a closed stream, and for a stream without ``isatty``."""
    with suppress(AttributeError, ValueError):
        return bool(stream.isatty())
    return False


@contextmanager
def open_progress(progress: ProgressCallback | bool | None) -> Iterator[ProgressCallback | None]:
    """Yield the callback that the argument ``progress`` of an audit selects, and end its display afterwards.

    True selects a line that is rewritten in place if standard error is a terminal or a notebook, and lines of a log
    otherwise. None selects the same line in a terminal or a notebook, and no display otherwise. False selects no
    display. A function is used as the callback.

    Raises `AuditError` for any other argument.
    """
    if progress is False or (progress is None and not (is_notebook() or is_terminal(sys.stderr))):
        yield None
    elif progress is None or progress is True:
        display = find_extension("progress")
        if display is None:
            yield None
            return
        with display() as callback:
            yield callback
    elif isinstance(progress, type) or not callable(progress):
        raise AuditError(
            f"progress is {progress!r}; it must be True, False, or a function of an epsaudit.running.progress.Progress,"
            " as epsaudit.tools.reporting.progress.Lines() is."
        )
    else:
        yield progress

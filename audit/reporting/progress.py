"""Progress of an audit: a bar on a terminal, a line now and then in a log, a callback anywhere else.

Progress callbacks are drawn by rich, or printed as lines. A bound on the way is called 'so far': only that of the last
run is certified.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from epsaudit.reporting.numbers import lower
from epsaudit.sampling import Progress as Step

LOG_SECONDS = 30.0
"""Seconds between two lines of a log: 120 an hour."""
DRAW_SECONDS = 0.2
"""Seconds between two drawings of the bar: five a second look like motion."""


class Pace:
    """Runs a second in the present stage, of which those that a checkpoint held already are no part."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage = ("", 0)
        self._began = self._last = clock()

    def describe(self, step: Step) -> str:
        """Write speed, bound and time left."""
        now = self._clock()
        if (step.stage, step.runs_total) != self._stage:
            self._stage, self._began = (step.stage, step.runs_total), self._last
        self._last = now
        seconds, fresh = now - self._began, step.runs_done - step.runs_before
        parts = []
        if seconds > 0.0 and fresh > 0:
            parts.append(f"{_short(fresh / seconds)} runs/s")
        bound = step.lower_bound
        if bound is not None:
            parts.append(f"bound so far {lower(bound)}")
        if step.stage == "certification" and seconds > 0.0 and fresh > 0:
            parts.append(f"{_clock((step.runs_total - step.runs_done) * seconds / fresh)} left")
        return ", ".join(parts)


class Lines:
    """A progress callback for logs and notebooks: one line at most every so many seconds.

    Parameters
    ----------
    every : float
        Seconds between lines; the first comes after as many.
    stream : text file, optional
        Where they go; by default standard error.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, audit, vectorized
    >>> noise = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0))
    >>> result = audit(noise, DatasetPair(0, 1), trials=10_000, seed=0, progress=Lines(every=60.0))
    """

    def __init__(
        self,
        every: float = LOG_SECONDS,
        stream: TextIO | None = None,
        name: str = "epsaudit",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._every, self._stream, self._clock = every, stream, clock
        self._pace = Pace(clock)
        self._said = clock()

    def __call__(self, step: Step) -> None:
        """Print how far it is, if it is time."""
        if self._clock() - self._said >= self._every:
            self._said = self._clock()
            share = step.runs_done / step.runs_total
            head = f"{self.name}: {step.stage}, {step.runs_done:,} of {step.runs_total:,} runs ({share:.0%})"
            print(
                ", ".join(filter(None, [head, self._pace.describe(step)])), file=self._stream or sys.stderr, flush=True
            )


class Bar:
    """Shows how far a suite is: where it is drawn, or else in lines."""

    def __init__(self, audits: int, progress: Progress | None) -> None:
        self._progress, self._audits, self._done = progress, audits, 0
        self._task = None if progress is None else progress.add_task("", total=float(audits), name="", pace="")
        self._pace, self._lines = Pace(), Lines()
        self._drawn = -DRAW_SECONDS

    def step(self, step: Step) -> None:
        """Show how far the present audit has come."""
        if self._progress is None:
            self._lines.name = f"audit {self._done + 1} of {self._audits}" if self._audits > 1 else "epsaudit"
            self._lines(step)
        elif time.monotonic() - self._drawn >= DRAW_SECONDS or step.runs_done >= step.runs_total:
            self._drawn = time.monotonic()
            # training is a fraction of all runs that only certification knows: the bar waits for it
            share = step.runs_done / step.runs_total if step.stage == "certification" else 0.0
            self._draw(step.stage, self._done + share, self._pace.describe(step))

    def finished(self, name: str, audits: int) -> None:
        """Show that ``audits`` are done, the last of them ``name``."""
        self._done = audits
        self._draw(name, float(audits), "")

    def _draw(self, name: str, completed: float, pace: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, name=name, completed=completed, pace=pace)


@contextmanager
def bar(audits: int, console: Console) -> Iterator[Bar]:
    """Draw a bar while audits run, if ``console`` is a terminal; else print a line now and then."""
    if not console.is_terminal:
        yield Bar(audits, None)
        return
    columns = (
        TextColumn("auditing"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[name]}", markup=False),
        TextColumn("{task.fields[pace]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(audits, progress)


def _short(number: float) -> str:
    """Write a speed with a suffix and two or three digits.

    Examples
    --------
    >>> _short(950.0), _short(45_300.0), _short(2.34e6), _short(3.2)
    ('950', '45k', '2.3M', '3.2')
    """
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2g}{suffix}" if number < 100 * size else f"{number / size:.0f}{suffix}"
    return f"{number:.2g}" if number < 10 else f"{number:.0f}"


def _clock(seconds: float) -> str:
    """Write a time as a clock shows it.

    Examples
    --------
    >>> _clock(0.2), _clock(75), _clock(2 * 86400 + 3600)
    ('0:00:01', '0:01:15', '49:00:00')
    """
    whole = -int(-seconds // 1)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"

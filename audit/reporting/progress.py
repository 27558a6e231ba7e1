"""Progress of an audit: a bar on a terminal, a line now and then in a log, a callback anywhere else.

Progress callbacks print lines, or leave word for `epsaudit.reporting.drawing`. A bound on the way is called 'so far':
only that of the last run is certified.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from epsaudit.reporting.numbers import lower
from epsaudit.sampling import Progress as Step
from epsaudit.sampling import ProgressCallback

LOG_SECONDS = 30.0
"""Seconds between two lines of a log: 120 an hour."""
DRAW_SECONDS = 0.2
"""Seconds between two drawings of the bar: five a second look like motion."""
WORD = struct.Struct("<d120s")
"""What an audit says of itself: the share of its runs that is done, and how fast it is, in words."""


class Pace:
    """Runs a second in the present stage, of which those that a checkpoint held already are no part."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage = ("", 0)
        self._began = self._last = clock()

    def __reduce__(self) -> tuple[type[Pace], tuple[Callable[[], float]]]:
        """Begin anew in a worker process, where the audit begins when this arrives."""
        return Pace, (self._clock,)

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
            parts.append(f"{clock_time((step.runs_total - step.runs_done) * seconds / fresh)} left")
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


class Row:
    """A progress callback that leaves word in a file, for the board that another process on this machine draws."""

    def __init__(self, path: str, place: int) -> None:
        self._path, self._place = path, place
        self._pace = Pace()
        self._written = -DRAW_SECONDS

    def __call__(self, step: Step) -> None:
        """Write how far it is, if it is time; on another machine there is no such file."""
        now = time.monotonic()
        if now - self._written >= DRAW_SECONDS or step.runs_done >= step.runs_total:
            self._written = now
            # training is a fraction of all runs that only certification knows: the bar waits for it
            share = step.runs_done / step.runs_total if step.stage == "certification" else 0.0
            words = ", ".join(filter(None, [step.stage, self._pace.describe(step)]))
            with contextlib.suppress(OSError), open(self._path, "r+b", buffering=0) as file:
                file.seek(self._place * WORD.size)
                file.write(WORD.pack(share, words.encode()))


class Board:
    """Where audits are followed: a line now and then for each, in a log."""

    def of(self, name: str) -> ProgressCallback | None:
        """Return the callback of one audit, which may be sent to another process."""
        return Lines(name=name)

    def ended(self, name: str) -> None:
        """Take note that an audit is done."""


class Silence(Board):
    """No progress at all."""

    def of(self, name: str) -> None:
        """Nobody listens."""


@contextmanager
def board(names: Sequence[str], *, quiet: bool = False) -> Iterator[Board]:
    """Follow the audits of these names: drawn on a terminal after a few seconds, else by a line now and then."""
    if quiet or not sys.stderr.isatty():
        yield Silence() if quiet else Board()
        return
    from epsaudit.reporting.drawing import drawn  # slow to import

    with drawn(names) as found:
        yield found


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


def clock_time(seconds: float) -> str:
    """Write a time as a clock shows it.

    Examples
    --------
    >>> clock_time(0.2), clock_time(75), clock_time(2 * 86400 + 3600)
    ('0:00:01', '0:01:15', '49:00:00')
    """
    whole = -int(-seconds // 1)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"

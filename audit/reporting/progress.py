"""Progress in one line: it changes on a terminal, is printed now and then in a log, and is a callback anywhere else.

A bound on the way is called 'so far': only that of the last run is certified.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from epsaudit.engine.sampling import Progress as Step
from epsaudit.engine.sampling import ProgressCallback
from epsaudit.text import lower

if TYPE_CHECKING:
    from rich.status import Status

LOG_SECONDS = 30.0
"""Seconds between two lines of a log: 120 an hour."""


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
        known = seconds > 0.0 and fresh > 0
        parts = [f"{_short(fresh / seconds)} runs/s"] if known else []
        if (bound := step.lower_bound) is not None:
            parts.append(f"bound so far {lower(bound)}")
        if known and step.stage == "certification":
            parts.append(f"{clock_time((step.runs_total - step.runs_done) * seconds / fresh)} left")
        return ", ".join(parts)


class Lines:
    """A progress callback for logs and notebooks: a line to ``stream``, or standard error, ``every`` so many seconds.

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
            print(self.describe(step), file=self._stream or sys.stderr, flush=True)

    def describe(self, step: Step) -> str:
        """Write how far it is."""
        done, total = step.runs_done, step.runs_total
        head = f"{self.name}: {step.stage}, {done:,} of {total:,} runs ({done / total:.0%})"
        return ", ".join(filter(None, (head, self._pace.describe(step))))


class Display:
    """What a command shows on standard error while it works: a line that changes on a terminal, a few lines in a log.

    It is a context: the line goes when it ends. ``total`` audits, which may run in other processes, are counted.
    """

    def __init__(self, total: int = 1, quiet: bool = False) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._began = self._said = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Display:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console  # slow to import

            self._status = Console(stderr=True, markup=False, emoji=False).status("")
            self._status.start()
            self._count()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, sentence: str) -> None:
        """Show what is being done, if it is time."""
        now = time.monotonic()
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(sentence))
        elif not self._quiet and now - self._said >= LOG_SECONDS:
            self._said = now
            print(f"epsaudit: {sentence}", file=sys.stderr, flush=True)

    def of(self, name: str) -> ProgressCallback | None:
        """Return the callback of one audit. In a log it may be sent to another process, and prints there."""
        lines = None if self._quiet else Lines(name=name)
        if lines is None or self._status is None:
            return lines
        return None if self._total > 1 else lambda step: self.say(lines.describe(step))

    def ended(self) -> None:
        """Take note that an audit is done."""
        self._done += 1
        if self._status is not None:
            self._count()

    def _count(self) -> None:
        if self._total > 1:
            left = (self._total - self._done) * (time.monotonic() - self._began) / max(self._done, 1)
            self.say(f"{self._done} of {self._total} audits" + f", {clock_time(left)} left" * bool(self._done))


def _short(number: float) -> str:
    """Write a speed with a suffix and two or three digits."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2g}{suffix}" if number < 100 * size else f"{number / size:.0f}{suffix}"
    return f"{number:.2g}" if number < 10 else f"{number:.0f}"


def clock_time(seconds: float) -> str:
    """Write a time as a clock shows it."""
    whole = -int(-seconds // 1)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"

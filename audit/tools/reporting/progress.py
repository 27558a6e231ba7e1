"""Progress of an audit in one line of text, which is redrawn on a terminal and printed at intervals in a log.

A bound that is shown before the end is called 'bound so far', because only the bound of the last run is certified.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO

from epsaudit.running.progress import Progress as Step
from epsaudit.running.progress import ProgressCallback
from epsaudit.text import lower

if TYPE_CHECKING:
    from rich.status import Status

LOG_SECONDS = 30.0
"""Seconds between two lines of a log, which makes 120 lines an hour."""


class Lines:
    """A progress callback for logs and notebooks that prints a line every ``every`` seconds.

    The lines are written to ``stream``, by default to standard error.

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
        self._given = every, stream, name, clock
        self._stage = ("", 0)
        self._said = self._began = self._last = clock()

    def __reduce__(self) -> tuple[type[Lines], tuple[Any, ...]]:
        """Return a copy with a new start time.

        The audit in a worker process starts when the copy arrives there.
        """
        return Lines, self._given

    def __call__(self, step: Step) -> None:
        """Print the progress if at least ``every`` seconds have passed since the last line."""
        every, stream, _, clock = self._given
        if clock() - self._said >= every:
            self._said = clock()
            print(self.describe(step), file=stream or sys.stderr, flush=True)

    def describe(self, step: Step) -> str:
        """Return a line of text with the stage, the number of runs, their speed, the bound so far and the time left."""
        *_, name, clock = self._given
        done, total, now = step.runs_done, step.runs_total, clock()
        if (step.stage, total) != self._stage:
            self._stage, self._began = (step.stage, total), self._last
        self._last = now
        seconds, fresh = now - self._began, done - step.runs_before
        parts = [f"{name}: {step.stage}, {done:,} of {total:,} runs ({done / total:.0%})"]
        if seconds > 0.0 and fresh > 0:
            parts.append(f"{fresh / seconds:,.{'0f' if fresh >= 10.0 * seconds else '2g'}} runs/s")
        if step.lower_bound is not None:
            parts.append(f"bound so far {lower(step.lower_bound)}")
        if seconds > 0.0 and fresh > 0 and step.stage == "certification":
            parts.append(f"{timedelta(seconds=math.ceil((total - done) * seconds / fresh))} left")
        return ", ".join(parts)


class Display:
    """The progress display of a command on standard error: one line that is redrawn, or a few lines in a log.

    ``total`` is the number of audits that the command makes.
    """

    def __init__(self, total: int = 1, quiet: bool = False) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._said = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Display:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console  # slow to import

            self._status = Console(stderr=True, markup=False, emoji=False).status(
                f"{self._total} audits" if self._total > 1 else ""
            )
            self._status.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, sentence: str) -> None:
        """Show a sentence. In a log, it is printed only if the last one is at least `LOG_SECONDS` old."""
        now = time.monotonic()
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(sentence))
        elif not self._quiet and now - self._said >= LOG_SECONDS:
            self._said = now
            print(f"epsaudit: {sentence}", file=sys.stderr, flush=True)

    def callback(self, name: str) -> ProgressCallback | None:
        """Return the progress callback of one audit, or None if another display shows it.

        In a log, the callback may be sent to another process, where it prints its own lines.
        """
        lines = None if self._quiet else Lines(name=name)
        if lines is None or self._status is None:
            return lines
        return None if self._total > 1 else lambda step: self.show(lines.describe(step))

    def finish_one(self) -> None:
        """Count one audit as finished, and show the number of finished audits on a terminal."""
        self._done += 1
        if self._status is not None and self._total > 1:
            self.show(f"{self._done} of {self._total} audits")

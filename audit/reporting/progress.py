"""Progress of an audit: a bar on a terminal, a line now and then in a log, a callback anywhere else.

A bound on the way is called 'so far': only that of the last run is certified.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from epsaudit.engine.sampling import Progress as Step
from epsaudit.engine.sampling import ProgressCallback
from epsaudit.text import lower

LOG_SECONDS = 30.0
"""Seconds between two lines of a log: 120 an hour."""
DRAW_SECONDS = 0.2
"""Seconds between two drawings of the bar: five a second look like motion."""
AFTER_SECONDS = 2.0
"""Seconds before anything is drawn: what is done by then needs no bar."""
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
            done, total = step.runs_done, step.runs_total
            head = f"{self.name}: {step.stage}, {done:,} of {total:,} runs ({done / total:.0%})"
            print(_joined(head, self._pace.describe(step)), file=self._stream or sys.stderr, flush=True)


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
            words = _joined(step.stage, self._pace.describe(step))
            with contextlib.suppress(OSError), open(self._path, "r+b", buffering=0) as file:
                file.seek(self._place * WORD.size)
                file.write(WORD.pack(share, words.encode()))


class Board:
    """Where audits are followed: a line now and then for each, in a log; or not at all."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet

    def of(self, name: str) -> ProgressCallback | None:
        """Return the callback of one audit, which may be sent to another process."""
        return None if self._quiet else Lines(name=name)

    def ended(self, name: str) -> None:
        """Take note that an audit is done."""


class Drawn(Progress):
    """A board on a terminal, which `drawn` makes: a bar for each audit that runs, one for all with the time left."""

    def __init__(
        self, names: Sequence[str], path: Path, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._names, self._path = list(names), path
        self._clock, self._began, self._done = clock, clock(), 0
        self._all: TaskID | None = None  # rich asks for what to draw before there is anything
        super().__init__(
            BarColumn(bar_width=10),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[pace]}", style="dim", markup=False),
            console=console,
            transient=True,
        )
        self._bars = {name: self.add_task(name, total=1.0, visible=False, pace="") for name in names}
        self._all = self.add_task("", total=float(len(names)), visible=len(names) > 1, pace="")

    def of(self, name: str) -> Row:
        return Row(str(self._path), self._names.index(name))

    def ended(self, name: str) -> None:
        """Take the audit's bar away."""
        self._done += 1
        self.remove_task(self._bars.pop(name))

    def get_renderables(self) -> Iterable[RenderableType]:
        """Draw what has been written, once it is time."""
        if self._all is None or self._clock() - self._began < AFTER_SECONDS:
            return
        written = self._path.read_bytes()
        completed = float(self._done)
        for name, bar in list(self._bars.items()):
            share, words = WORD.unpack_from(written, self._names.index(name) * WORD.size)
            completed += share
            pace = words.rstrip(b"\0").decode(errors="replace")
            self.update(bar, completed=share, visible=bool(pace), pace=pace)
        pace = f"{self._done} done"
        if completed:
            pace += f", {clock_time((len(self._names) - completed) * (self._clock() - self._began) / completed)} left"
        self.update(self._all, description=f"{len(self._names)} audits", completed=completed, pace=pace)
        yield self.make_tasks_table(self.tasks)


@contextmanager
def drawn(names: Sequence[str], console: Console | None = None) -> Iterator[Drawn]:
    """Draw a board of these audits while they run, by default on standard error."""
    handle, path = tempfile.mkstemp(prefix="epsaudit-")
    try:
        os.write(handle, bytes(WORD.size * len(names)))
        os.close(handle)
        with Drawn(names, Path(path), console or Console(stderr=True)) as board:
            yield board
    finally:
        Path(path).unlink()


def board(names: Sequence[str], *, quiet: bool = False) -> contextlib.AbstractContextManager[Board | Drawn]:
    """Follow the audits of these names: drawn on a terminal after a few seconds, else by a line now and then."""
    return contextlib.nullcontext(Board(quiet)) if quiet or not sys.stderr.isatty() else drawn(names)


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


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

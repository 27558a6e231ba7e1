"""A board on a terminal: a bar for each audit that runs, and one for all of them with the time left.

It reads what the callbacks of `epsaudit.reporting.progress` write, from whatever process of this machine, and draws it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from epsaudit.reporting.progress import WORD, Board, Row, clock_time

AFTER_SECONDS = 2.0
"""Seconds before anything is drawn: what is done by then needs no bar."""


class Drawn(Board, Progress):
    """The board; see `drawn`, which makes it."""

    def __init__(
        self, names: Sequence[str], path: Path, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._names, self._path = list(names), path
        self._clock, self._began, self._done = clock, clock(), 0
        self._bars: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        Progress.__init__(
            self,
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
        """See `Board`."""
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
        left = (len(self._names) - completed) * (self._clock() - self._began) / completed if completed else None
        pace = f"{self._done} done" + (f", {clock_time(left)} left" if left is not None else "")
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

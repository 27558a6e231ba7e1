"""A progress bar on a terminal, silence in a pipe. Progress callbacks enter; rich draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from audit.sampling import Progress as Step


class Bar:
    """One bar over audits and, within a single audit, over its runs."""

    def __init__(self, progress: Progress | None, audits: int) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task("", total=float(audits), name="")

    def step(self, step: Step) -> None:
        """Draw how far the only audit has come."""
        self._draw(step.stage, step.runs_done / step.runs_total)

    def finished(self, name: str, audits: int) -> None:
        """Draw that ``audits`` are done, the last of them ``name``."""
        self._draw(name, float(audits))

    def _draw(self, name: str, completed: float) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, name=name, completed=completed)


@contextmanager
def bar(audits: int, console: Console) -> Iterator[Bar]:
    """Draw a bar while audits run, if ``console`` is a terminal."""
    if not console.is_terminal:
        yield Bar(None, audits)
        return
    columns = (
        TextColumn("auditing"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[name]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress, audits)

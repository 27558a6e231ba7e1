"""A progress bar on a terminal, silence in a pipe. Progress callbacks enter; rich draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from audit.sampling import Progress as Step
from audit.sampling import ProgressCallback


class Bar:
    """One bar over many audits, with the name of the audit at work."""

    def __init__(self, progress: Progress | None, audits: int) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task("", total=float(audits), name="")
        self._finished = 0

    def callback(self, name: str) -> ProgressCallback | None:
        """Return the callback for the next audit; None where there is no terminal to draw on."""
        progress, task, base = self._progress, self._task, self._finished
        self._finished += 1
        if progress is None or task is None:
            return None
        progress.update(task, name=name, completed=float(base))

        def report(step: Step) -> None:
            progress.update(task, completed=base + step.runs_done / step.runs_total)

        return report


@contextmanager
def bar(audits: int, console: Console) -> Iterator[Bar]:
    """Draw a bar while audits run, if ``console`` is a terminal."""
    if not console.is_terminal:
        yield Bar(None, audits)
        return
    columns = (TextColumn("auditing {task.fields[name]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress, audits)

"""What every study writes (data.csv, data.json, figures as PNG and PDF, table.tex) or prints; and its command line.

Files are written whole or not at all, and the same for the same rows. What is not the same, time and machine, goes to
provenance.json.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from epsaudit.errors import whole_at_least
from epsaudit.provenance import execution, provenance
from epsaudit.reporting.columns import Column, Row, to_csv, to_latex
from epsaudit.reporting.style import render
from epsaudit.results import write_whole


class Main(Protocol):
    """The function that every study has."""

    def __call__(self, out: Path, seed: int = 0, quick: bool = False) -> Any:
        """Run the study and write to ``out``."""


def write_data(out: Path, rows: Sequence[Row], **facts: Any) -> None:
    """Write data.csv with all rows and data.json with ``facts`` (the seed, runs, confidence ...) and ``rows``.

    Infinite numbers and NaN are written as text in JSON. Times and the machine belong elsewhere: the same seed must
    give the same files.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_data(folder, [{"runs": 10, "bound": math.inf}], seed=0)
    >>> json.loads((folder / "data.json").read_text())
    {'seed': 0, 'rows': [{'runs': 10, 'bound': 'inf'}]}
    """
    write_whole(out / "data.csv", to_csv(rows))
    write_json(out / "data.json", {**facts, "rows": list(rows)})


def write_json(path: Path, data: Any) -> None:
    """Write JSON whose infinite numbers and NaN are text."""
    write_whole(path, json.dumps(_finite(data), indent=1, allow_nan=False) + "\n")


def write_figure(path: Path, figure: Figure) -> None:
    """Write ``path`` with the endings .png and .pdf."""
    for kind in ("png", "pdf"):
        write_whole(path.with_name(f"{path.name}.{kind}"), render(figure, kind))


def write_table(out: Path, rows: Sequence[Row], columns: Sequence[Column], caption: str) -> None:
    """Write table.tex; the caption is plain text and says confidence and runs. See `epsaudit.reporting.columns`."""
    write_whole(out / "table.tex", to_latex(rows, columns, caption, label=f"tab:{out.name}"))


def print_table(rows: Sequence[Row], columns: Sequence[Column], title: str) -> None:
    """Print a table to the terminal, its numbers rounded by kind."""
    shown = Table(title=title)
    for column in columns:
        shown.add_column(column.heading, justify="right" if column.numeric else "left")
    for row in rows:
        shown.add_row(*(column.show(row) for column in columns))
    Console().print(shown)


def run(main: Main, out: Path, seed: int = 0, quick: bool = False) -> None:
    """Run a study, and write provenance.json beside its data: versions and commit, seed, command, machine and time.

    Raises
    ------
    AuditError
        If the seed is no whole number of at least 0, or ``out`` cannot be written to: before anything is run.
    """
    seed = whole_at_least(seed, 0, "seed")
    facts = {"seed": seed, "quick": quick, **provenance()}
    write_json(out / "provenance.json", facts)
    started = time.perf_counter()
    main(out, seed=seed, quick=quick)
    seconds = time.perf_counter() - started
    write_json(out / "provenance.json", {**facts, "execution": {**execution(seconds), "seconds": round(seconds, 1)}})


def run_as_script(main: Main, description: str | None, out: str) -> None:
    """Read --out, --seed and --quick from the command line and run the study: the last line of its module."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder to write to (default {out})")
    parser.add_argument("--seed", type=int, default=0, help="root of all random streams (default 0)")
    parser.add_argument("--quick", action="store_true", help="a few seconds, for a look")
    arguments = parser.parse_args()
    run(main, arguments.out, arguments.seed, arguments.quick)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    if hasattr(value, "item"):  # a numpy number
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

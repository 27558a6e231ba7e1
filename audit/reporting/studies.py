"""What every study writes (data.csv, data.json, figures as PNG and PDF, table.tex) or prints; and its command line.

Files are written whole or not at all, and the same for the same rows. What is not the same, time and machine, goes to
provenance.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from epsaudit import stored
from epsaudit.errors import whole_at_least
from epsaudit.provenance import execution
from epsaudit.reporting.columns import Column, Row, to_csv, to_latex
from epsaudit.reporting.style import render
from epsaudit.results import write_whole


class Main(Protocol):
    """The function that every study has."""

    def __call__(self, out: Path, seed: int = 0, quick: bool = False) -> Any:
        """Run the study, write to ``out`` and return its answer: a sentence or two, made from the data."""


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
    shown = Table(title=Text(title))  # Text, as rich takes [words] and :words: for markup
    for column in columns:
        shown.add_column(Text(column.heading), justify="right" if column.numeric else "left")
    for row in rows:
        shown.add_row(*(Text(column.show(row)) for column in columns))
    Console().print(shown)


def run(main: Main, out: Path, seed: int = 0, quick: bool = False, allow_modified: bool = False) -> None:
    """Run a study; write provenance.json beside its data, and a README.md where it returned an answer.

    See `epsaudit.stored` for what both say.

    Raises
    ------
    AuditError
        If the seed is no whole number of at least 0, ``out`` cannot be written to, or ``out`` is among the results of
        a checkout whose files differ from its commit, without ``allow_modified`` or ``quick``: before anything is run.
    """
    seed = whole_at_least(seed, 0, "seed")
    if not (quick or allow_modified):
        stored.check_unmodified(out)
    module = _module(main)
    facts = {"seed": seed, "quick": quick, **stored.provenance_of(module)}
    stored.write_provenance(out, facts)
    started = time.perf_counter()
    answer = main(out, seed=seed, quick=quick)
    seconds = time.perf_counter() - started
    facts |= {"execution": {**execution(seconds), "seconds": round(seconds, 1)}}
    stored.write_provenance(out, facts)
    if answer is not None:
        stored.write_readme(out, sys.modules[main_of(main).__module__].QUESTION, answer, facts)


def run_as_script(main: Main, description: str | None, out: str) -> None:
    """Read the words of `add_options` from the command line and run the study: the last line of its module."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    add_options(parser, out)
    arguments = parser.parse_args()
    run(main, arguments.out, arguments.seed, arguments.quick, arguments.allow_modified)


def add_options(parser: argparse.ArgumentParser, out: str) -> None:
    """Add --out, --seed, --quick and --allow-modified, which every study has."""
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder to write to (default {out})")
    parser.add_argument("--seed", type=int, default=0, help="root of all random streams (default 0)")
    parser.add_argument("--quick", action="store_true", help="a few seconds, for a look")
    parser.add_argument("--allow-modified", action="store_true", help=stored.ALLOW_MODIFIED)


def main_of(main: Any) -> Any:
    """The function itself, where some of its arguments are given already."""
    return main.func if isinstance(main, functools.partial) else main


def _module(main: Main) -> str:
    """The importable name of a study's module, also where it is run as a script."""
    name = str(main_of(main).__module__)
    spec = getattr(sys.modules[name], "__spec__", None)
    return str(spec.name) if name == "__main__" and spec is not None else name


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    if hasattr(value, "item"):  # a numpy number
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

"""Two source trees asked for the same: the bounds of all rows with the same seeds, the time they take, and their lines.

Run ``python -m epsaudit.experiments.before_and_after BEFORE AFTER``, two folders with an installed ``.venv`` each
(worktrees of two commits, say). Each tree makes its main table and its public benchmark with its own commands, one
after the other on an otherwise idle machine; rows that only one of them has are counted, and compared with nothing.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epsaudit.experiments.studies import add_options, run, write_data, write_json, write_table
from epsaudit.reporting.tables import Column, print_table

QUESTION = "What did a change of the whole machinery do to bounds, to time and to the size of the code?"
FOLDERS = ("audit", "mechanisms", "experiments", "tests")
MAIN, PUBLIC = "main table", "public benchmark"
COLUMNS = (
    Column("table", "table"),
    Column("name", "mechanism"),
    Column("exact", "exact", "number"),
    Column("before", "before", "number"),
    Column("after", "after", "number"),
)


def commands(tree: Path, seed: int, quick: bool) -> dict[str, list[str]]:
    """Return the words that make each table, to which ``--out`` is added; older trees have other names."""
    bin_folder = tree / ".venv" / "bin"
    old = "epsaudit.experiments" not in (tree / "pyproject.toml").read_text().split('studies = "')[1].split('"')[0]
    public = ("" if old else "epsaudit.") + "experiments.benchmark_public"
    few = ["laplace", "--trials", "20000"] if quick else []
    fewer = ["--runs", "20000", "--only", "Laplace"] if quick else []
    return {
        MAIN: [str(bin_folder / "epsaudit"), "audit", *few, "--seed", str(seed)],
        PUBLIC: [str(bin_folder / "python"), "-m", public, *fewer, "--seed", str(seed)],
    }


def measured(tree: Path, seed: int, quick: bool) -> tuple[pd.DataFrame, dict[str, float]]:
    """Make both tables of one tree: columns table, name, exact and bound; and the seconds that each took."""
    found, times = [], {}
    for table, words in commands(tree, seed, quick).items():
        with tempfile.TemporaryDirectory() as out:
            started = time.perf_counter()
            done = subprocess.run([*words, "--out", out], cwd=tree, stdout=subprocess.DEVNULL, check=False)
            times[table] = time.perf_counter() - started
            if done.returncode not in (0, 1):  # 1 where a claim is refuted, as some are
                raise SystemExit(f"{' '.join(words)} ended with {done.returncode} in {tree}.")
            data = pd.read_csv(Path(out) / ("audit.csv" if table == MAIN else "data.csv"))
        names = {"mechanism": "name", "lower_bound": "bound"} if table == MAIN else {}
        found.append(data.rename(columns=names)[["name", "exact", "bound"]].assign(table=table))
    return pd.concat(found, ignore_index=True), times


def lines(tree: Path) -> dict[str, int]:
    """Count the lines of Python in each folder of a tree, and the modules of audit/."""
    files = {folder: sorted((tree / folder).rglob("*.py")) for folder in FOLDERS}
    counted = {folder: sum(len(one.read_text().splitlines()) for one in files[folder]) for folder in files}
    return {**counted, "modules of audit": len(files["audit"])}


def compare(before: Path, after: Path, out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure both trees, write the table to ``out``, its times to timings.json, and return the answer."""
    (old, old_times), (new, new_times) = (measured(tree.resolve(), seed, quick) for tree in (before, after))
    both = old.merge(new, on=["table", "name"], suffixes=("_before", "_after"))
    rows: list[dict[str, Any]] = [
        {
            "table": row.table,
            "name": row.name,
            "exact": row.exact_after,
            "before": row.bound_before,
            "after": row.bound_after,
        }
        for row in both.itertuples(index=False)
    ]
    sizes = {"before": lines(before), "after": lines(after)}
    times = {
        f"{what}, {when}": spent
        for when, all_ in (("before", old_times), ("after", new_times))
        for what, spent in all_.items()
    }
    print_table(rows, COLUMNS, "Before and after")
    write_data(out, rows, seed=seed, quick=quick, rows_before=len(old), rows_after=len(new), lines=sizes)
    write_json(out / "timings.json", {"seconds": sum(times.values()), "rows": times})
    write_table(out, rows, COLUMNS, "Certified lower bounds of two versions, with the same seeds.")
    return answer(rows, sizes, times)


def answer(rows: Sequence[dict[str, Any]], sizes: dict[str, dict[str, int]], times: dict[str, float]) -> str:
    """Say how bounds, times and lines compare."""
    shares = np.array([row["after"] / row["before"] for row in rows if row["before"] > 0.0])
    said = [f"{what} {size:,} and {sizes['after'][what]:,}" for what, size in sizes["before"].items()]
    took = [f"{what} {seconds:.0f} s" for what, seconds in times.items()]
    return (
        f"Of {len(rows)} rows of both, bounds after are {np.median(shares):.3f} times those before at the median, from "
        f"{shares.min():.2f} to {shares.max():.2f}. Lines before and after: {', '.join(said)}. {', '.join(took)}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path, help="a source tree with an installed .venv")
    parser.add_argument("after", type=Path, help="another")
    add_options(parser, "results/before-and-after")
    chosen = parser.parse_args(arguments)
    both = functools.partial(compare, chosen.before, chosen.after)
    run(both, chosen.out, chosen.seed, chosen.quick)


if __name__ == "__main__":
    main()

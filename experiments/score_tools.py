"""Bounds that released tools compute from scores, beside reimplementations of their formulas.

The study of scores compares bounds by formulas. Here the tools themselves, each in an environment of its own, compute
their bounds for some of the sets of that study. Only rounding differences are expected: 1e-4 for opake-auditing, which
stops its bisection at this width, and 1e-2 for privacy-estimates, which integrates and solves to this accuracy in ten
seconds per set. A negative bound is replaced by 0. If a tool cannot be installed or run, its row shows the reason. With
``quick`` nothing is installed or run, and the table is made again from the stored data.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epsaudit.experiments.libraries import print_bounds
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, NotInstalledError
from epsaudit.experiments.scores import LAWS, SIZES, TOOLS, best_counts, delta_of, drawn
from epsaudit.experiments.studies import stored_rows, write_data, write_table
from epsaudit.tools.reporting.tables import TableColumn

STORED = Path(__file__).parents[1] / "results" / "libraries" / "score-tools"
SETS = 10
CALLS = {
    "jax-privacy, split": ("jax-privacy-2.0.0", print_bounds.split, SETS, SIZES),
    "jax-privacy, Bonferroni": ("jax-privacy-2.0.0", print_bounds.bonferroni, SETS, SIZES),
    "PrivacyGuard, best threshold": ("privacyguard-platform-0.0.2", print_bounds.best_threshold, SETS, SIZES),
    "opake-auditing, order statistics": ("opake-auditing-0.16.1", print_bounds.order_statistics, SETS, SIZES),
    "privacy-estimates, joint Beta": ("privacy-estimates-0.1.0.post1", print_bounds.joint_beta, 1, SIZES[:1]),
}
"""For each tool of the study of scores: its environment, the function that runs it, the number of sets of each law, and
the numbers of runs in these sets."""
COLUMNS = (
    TableColumn("tool", "tool"),
    TableColumn("version", "version", "code", width="4.5cm"),
    TableColumn("sets", "sets", "count"),
    TableColumn("difference", "greatest difference"),
    TableColumn("above", "above the truth", "count"),
    TableColumn("reason", "not asked", width="3cm"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Run every tool, and write data and a table to ``out``."""
    rows = stored_rows(STORED) if quick else list(measure_tools(seed))
    write_data(out, rows, seed=seed)
    table = [summary_row(tool, [row for row in rows if row["tool"] == tool]) for tool in CALLS]
    write_table(out, table, COLUMNS, "Bounds at 95% confidence that released tools print, beside the formulas.")
    said = (
        row["reason"] or f"{row['sets']} sets, off by {row['difference']} at most, {row['above']} above the truth"
        for row in table
    )
    return "; ".join(f"{row['tool']}: {one}" for row, one in zip(table, said, strict=True)) + "."


def measure_tools(seed: int) -> Iterator[dict[str, Any]]:
    """Yield the bound that each tool prints for every set, and the bound that its formula gives."""
    for tool, (version, function, number, sizes) in CALLS.items():
        sets = [
            (law, runs, one, *drawn(law, runs, seed, one))
            for law in LAWS
            if law.claim.claimed_point is not None
            for runs in sizes
            for one in range(number)
        ]
        given = [
            {
                "inside": inside.tolist(),
                "outside": outside.tolist(),
                "delta": delta_of(law.claim),
                "seed": seed + one,
                "counts": best_counts(inside, outside, law.claim),
            }
            for law, _, one, inside, outside in sets
        ]
        printed, reason = ask(version, function.__name__, given)
        for (law, runs, one, inside, outside), bound in zip(sets, printed, strict=True):
            facts = {"tool": tool, "version": version, "law": law.name, "runs": runs, "set": one}
            formula = TOOLS[tool](inside, outside, law.claim, seed + one)
            yield {**facts, "truth": law.claim.parameter, "printed": bound, "formula": formula, "reason": reason}
        print(f"{tool}: {reason or f'{len(sets)} sets'}", flush=True)


def ask(version: str, name: str, given: list[dict[str, Any]]) -> tuple[list[float | None], str]:
    """Return the bounds that a tool prints, or the reason why it prints none."""
    try:
        python = ENVIRONMENTS[version].python()
    except NotInstalledError as error:
        return [None] * len(given), error.reason
    words = [str(python), "-I", print_bounds.__file__, name]
    done = subprocess.run(words, input=json.dumps(given), capture_output=True, text=True)
    if done.returncode != 0:
        return [None] * len(given), (done.stderr.strip().splitlines() or ["the tool gives no reason"])[-1]
    return json.loads(done.stdout), ""


def summary_row(tool: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of one tool in the table."""
    known = [row for row in rows if row["printed"] is not None]
    differences = [abs(max(row["printed"], 0.0) - row["formula"]) for row in known]
    return {
        "tool": tool,
        "version": rows[0]["version"],
        "sets": len(known),
        "difference": f"{max(differences, default=0.0):.1g}",
        "above": sum(row["printed"] > row["truth"] + 1e-9 for row in known),
        "reason": rows[0]["reason"],
    }

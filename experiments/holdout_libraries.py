"""Certified leakage of what released libraries make from a train part, next to what they claim, by a holdout.

Two tables that packages ship are split at random: answers of a survey (statsmodels) and digits (scikit-learn). Released
libraries make synthetic tables from the train part of the survey, and networks from the train part of the digits, each
library in an environment of its own. Claims are for adding or removing a record; a release without a claim is audited
for substitution. Expected: no bound exceeds its claim, and methods that fit freely leak.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epsaudit import audit_holdout, audit_tables
from epsaudit.errors import AuditError
from epsaudit.experiments.holdout import class_scores, draw
from epsaudit.experiments.libraries.environments import NotInstalledError
from epsaudit.experiments.libraries.releases import DELTA, LibraryRelease, library_releases
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_table
from epsaudit.text import nearest
from epsaudit.tools.reporting.tables import TableColumn

STORED = Path(__file__).parents[1] / "results" / "libraries" / "holdout-libraries"
CONFIDENCE = 0.95
SURVEY, DIGITS = "survey", "digits"
COLUMNS = (
    TableColumn("library", "library", "code"),
    TableColumn("method", "method"),
    TableColumn("data", "data"),
    TableColumn("claim", "claim", "formula"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("right", "right guesses", "count"),
    TableColumn("guesses", "guesses", "count"),
    TableColumn("pairs", "pairs", "count"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Make and audit every release, and write data, a table and a figure; ``quick`` reads stored data instead."""
    if quick:
        rows = json.loads((STORED / "data.json").read_text(encoding="utf-8"))["rows"]
    else:
        rows = list(on_all_cores(lambda one: audit_release(one, seed), list(library_releases())))
    write_data(out, rows, seed=seed, confidence=CONFIDENCE, delta=DELTA)
    caption = (
        f"Certified lower bounds on epsilon at {CONFIDENCE:.0%} confidence of what libraries compute from one half of "
        "a table, for adding or removing a record, or for substitution where nothing is claimed."
    )
    write_table(out, rows, COLUMNS, caption)
    made = [row for row in rows if row["certified"] is not None]
    write_figure(out / "holdout-libraries", draw([_drawn(row) for row in made], (SURVEY, DIGITS)))
    return answer(rows)


def answer(rows: list[dict[str, Any]]) -> str:
    """Return a text on the releases that exceed their claim, and on the largest bounds without a claim."""
    made = [row for row in rows if row["certified"] is not None]
    claimed = [row for row in made if row["epsilon"]]
    above = sum(row["certified"] > row["epsilon"] for row in claimed)
    free = sorted((row for row in made if not row["epsilon"]), key=lambda row: row["certified"], reverse=True)
    most = ", ".join(f"{row['method']} of {row['library']} {nearest(row['certified'])}" for row in free[:3])
    missing = f" {len(rows) - len(made)} of {len(rows)} could not be made." if len(made) < len(rows) else ""
    return (
        f"{above} of {len(claimed)} releases of libraries exceed their claim. Largest bounds without a claim: "
        f"{most}.{missing}"
    )


def parts(data: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a train part and a holdout of a table, split at random into halves."""
    if data == SURVEY:
        from statsmodels.datasets import fair

        records = fair.load_pandas().data.drop(columns=["affairs"])
    else:
        from sklearn.datasets import load_digits

        records = load_digits(as_frame=True).frame
    order = np.random.default_rng(seed).permutation(len(records))
    return records.iloc[order[: len(order) // 2]], records.iloc[order[len(order) // 2 :]]


def audit_release(one: LibraryRelease, seed: int) -> dict[str, Any]:
    """Make a release and audit it; a release that cannot be made has no bound, and the reason in its row."""
    data = DIGITS if one.is_model else SURVEY
    claim = "none" if one.claim is None else str(one.claim)
    row = {"library": one.environment.name, "method": one.method, "data": data, "claim": claim, "epsilon": one.epsilon}
    train, holdout = parts(data, seed)
    records = pd.concat([train, holdout])
    try:
        release = one.make(train, records, seed)
    except (AuditError, NotInstalledError) as error:
        return {**row, "certified": None, "right": None, "guesses": None, "pairs": None, "reason": str(error)}
    settings: dict[str, Any] = {
        "claim": one.claim,
        "adjacency": "substitution" if one.claim is None else "add-remove",
        "confidence": CONFIDENCE,
        "seed": seed,
    }
    if one.is_model:
        scores = class_scores(release.to_numpy(), records["target"].to_numpy())
        found = audit_holdout(scores[: len(train)], scores[len(train) :], **settings)
    else:
        found = audit_tables(train, holdout, release, **settings)
    counts = {"right": found.best.correct, "guesses": found.best.guesses, "pairs": found.pairs}
    return {**row, "certified": found.lower_bound, **counts, "reason": ""}


def _drawn(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as `draw` reads it. One split is made, so that its extremes are the bound."""
    epsilon = f", epsilon {row['epsilon']:g}" if row["epsilon"] else ""
    bound = row["certified"]
    return {
        "release": f"{row['library']}, {row['method']}{epsilon}",
        "data": row["data"],
        "claimed": row["epsilon"] or None,
        **{"certified": bound, "least": bound, "most": bound},
    }

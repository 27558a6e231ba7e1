"""Certified leakage of synthetic tables that released libraries make with differential privacy, by a holdout.

A table of statsmodels, answers of a survey, is split at random. PrivBayes of DataSynthesizer at epsilon 1 and 10, and
PrivBayes and MST of dpmm at epsilon 1, make a table from the train part, each in an environment of its own. The claims
are for adding or removing a record. Expected: no bound exceeds its claim.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epsaudit import ApproxDP, Claim, PureDP, audit_tables
from epsaudit.errors import AuditError, cause_of
from epsaudit.experiments.libraries.environments import Environment, NotInstalledError
from epsaudit.experiments.studies import write_data, write_table
from epsaudit.tools.reporting.tables import Column

REQUIREMENTS = Path(__file__).parent / "libraries" / "synthesizers"
STORED = Path(__file__).parents[1] / "results" / "libraries" / "holdout-libraries"
CONFIDENCE, DELTA = 0.95, 1e-5
SECONDS = 900.0
"""Maximum time in seconds of one synthesis."""
COLUMNS = (
    Column("library", "library", "code"),
    Column("method", "method"),
    Column("claim", "claim", "formula"),
    Column("certified", "certified", "lower"),
    Column("right", "right guesses", "count"),
    Column("guesses", "guesses", "count"),
    Column("pairs", "pairs", "count"),
)
DATA_SYNTHESIZER = """
import sys
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
method, epsilon, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
describer = DataDescriber(category_threshold=20)
describer.describe_dataset_in_correlated_attribute_mode("train.csv", epsilon=epsilon, k=2, seed=seed)
describer.save_dataset_description_to_file("description.json")
generator = DataGenerator()
size = sum(1 for _ in open("train.csv")) - 1
generator.generate_dataset_in_correlated_attribute_mode(size, "description.json", seed=seed)
generator.save_synthetic_data("release.csv")
"""
DPMM = """
import sys
import dpmm.pipelines
import pandas as pd
method, epsilon, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
train = pd.read_csv("train.csv").astype(str)
delta = float(sys.argv[4])
more = {"delta": delta} if delta else {}
pipeline = getattr(dpmm.pipelines, method + "Pipeline")(epsilon=epsilon, n_jobs=1, **more)
pipeline.fit(train, random_state=seed)
pipeline.generate(n_records=len(train), random_state=seed).to_csv("release.csv", index=False)
"""


@dataclass(frozen=True)
class Synthesizer:
    """A method of a library that makes a synthetic table."""

    environment: Environment
    method: str
    program: str
    epsilon: float
    delta: float = 0.0

    @property
    def claim(self) -> Claim:
        """The claim, for adding or removing a record."""
        return ApproxDP(self.epsilon, self.delta) if self.delta else PureDP(self.epsilon)

    def release(self, train: pd.DataFrame, seed: int) -> pd.DataFrame:
        """Return the table that the method makes; raise `AuditError` with what the program says if it fails."""
        with tempfile.TemporaryDirectory() as folder:
            train.to_csv(Path(folder) / "train.csv", index=False)
            words = [str(self.environment.python()), "-c", self.program, self.method, str(self.epsilon), str(seed)]
            words.append(str(self.delta))
            try:
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise AuditError(f"{self.method} took more than {SECONDS:g} seconds.") from None
            made = Path(folder) / "release.csv"
            if not made.exists():
                raise AuditError(f"{self.method} made no table: {cause_of(done.stderr)}")
            return pd.read_csv(made)


def synthesizers() -> Iterator[Synthesizer]:
    """Yield every method at every epsilon."""
    data_synthesizer, dpmm = (
        Environment(name, ("3.11",), requirements=REQUIREMENTS / f"{name}.txt")
        for name in ("datasynthesizer-0.1.13", "dpmm-0.1.9")
    )
    for epsilon in (1.0, 10.0):
        yield Synthesizer(data_synthesizer, "PrivBayes", DATA_SYNTHESIZER, epsilon)
    # AIM at epsilon 10 needs more than ten minutes
    yield Synthesizer(dpmm, "PrivBayes", DPMM, 1.0)
    yield Synthesizer(dpmm, "MST", DPMM, 1.0, DELTA)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Make and audit every release, and write data and a table; ``quick`` installs nothing and reads stored data."""
    from statsmodels.datasets import fair

    answers = fair.load_pandas().data.drop(columns=["affairs"])
    order = np.random.default_rng(seed).permutation(len(answers))
    train, holdout = answers.iloc[order[: len(order) // 2]], answers.iloc[order[len(order) // 2 :]]
    if quick:
        rows = json.loads((STORED / "data.json").read_text(encoding="utf-8"))["rows"]
    else:
        rows = [audit_release(one, train, holdout, seed) for one in synthesizers()]
    write_data(out, rows, seed=seed, confidence=CONFIDENCE, delta=DELTA)
    caption = (
        f"Certified lower bounds on epsilon at {CONFIDENCE:.0%} confidence of synthetic tables of libraries, for "
        "adding or removing a record, from the split into a train part and a holdout."
    )
    write_table(out, rows, COLUMNS, caption)
    made = [row for row in rows if row["certified"] is not None]
    above = sum(row["certified"] > row["epsilon"] for row in made)
    missing = f"; {len(rows) - len(made)} could not be made" if len(made) < len(rows) else ""
    return f"{above} of {len(made)} synthetic tables of libraries exceed their claim{missing}."


def audit_release(one: Synthesizer, train: pd.DataFrame, holdout: pd.DataFrame, seed: int) -> dict[str, Any]:
    """Make a release and audit it; a release that cannot be made has no bound, and the reason in its row."""
    row = {"library": one.environment.name, "method": one.method, "claim": str(one.claim), "epsilon": one.epsilon}
    try:
        release = one.release(train, seed)
    except (AuditError, NotInstalledError) as error:
        return {**row, "certified": None, "right": None, "guesses": None, "pairs": None, "reason": str(error)}
    found = audit_tables(
        train, holdout, release, claim=one.claim, adjacency="add-remove", confidence=CONFIDENCE, seed=seed
    )
    best = found.best
    counts = {"right": best.correct, "guesses": best.guesses, "pairs": found.pairs}
    return {**row, "certified": found.lower_bound, **counts, "reason": ""}

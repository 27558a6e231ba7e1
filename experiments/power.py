"""Power study: certified bounds as shares of an oracle's, on every registered mechanism whose law is known.

Three tables: the share of an oracle's bound at a million runs, the runs that refute each broken mechanism, and false
alarms of sound ones. Expected: at least 0.95 of the oracle's bound on scalars and single outcomes, 0.90 on vectors of
up to ten coordinates; no more false alarms than the confidence allows.

Run ``python -m epsaudit.experiments.power``, or some of its parts: shares, refute, alarms. The same seed gives the same
files.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binom

from epsaudit import Claim, DatasetPair, Mechanism, PureDP, audit, black_box
from epsaudit.experiments.oracle import oracle_bound, runs_to_refute, tails_of
from epsaudit.experiments.studies import add_options, run, write_data, write_figure, write_json, write_table
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.registry import entries
from epsaudit.reporting.style import BLUE, TWO_COLUMNS, VERMILION, blank, legend_below, styled
from epsaudit.reporting.tables import Column, print_table
from epsaudit.truth import exact_parameter

QUESTION = "What share of an oracle's bound does an audit find, on every mechanism whose law is known?"
RUNS = 1_000_000
CONFIDENCE, STRICT = 0.95, 0.99
DRAWS = 200_000
COLUMNS = {
    "shares": (
        Column("name", "mechanism"),
        Column("kind", "outputs"),
        Column("bound", "median bound", "lower"),
        Column("oracle", "oracle", "number"),
        Column("share", "share", "number", 3),
    ),
    "refute": (
        Column("name", "mechanism"),
        Column("oracle", "oracle's runs", "count"),
        Column("runs", "runs", "count"),
        Column("refuted", "refuted", "number", 3),
    ),
    "alarms": (
        Column("audits", "audits", "count"),
        Column("mechanisms", "mechanisms", "count"),
        Column("trials", "runs an audit", "count"),
        Column("above", "above the truth", "count"),
        Column("chance", "chance of so many", "number", 3),
    ),
}


@dataclass(frozen=True)
class Case:
    """A registered mechanism whose output law is known on all of its pairs."""

    name: str
    mechanism: Mechanism
    claim: Claim
    pairs: tuple[DatasetPair, ...]
    broken: bool

    @property
    def kind(self) -> str:
        """'single' for numbers and symbols, 'vector of d' for numeric vectors, 'other' for lists and mixtures."""
        outputs = self.mechanism(self.pairs[0].x).sample(64, np.random.default_rng(0))
        if outputs.ndim > 1:
            return f"vector of {int(np.prod(outputs.shape[1:]))}"
        composite = outputs.dtype == object and any(isinstance(value, (tuple, frozenset)) for value in outputs.tolist())
        return "other" if composite else "single"

    def tails(self) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
        """For every pair, what the oracle needs."""
        return [tails_of(*self._sides(pair), draws=DRAWS)[0] for pair in self.pairs]

    def truth(self) -> float:
        """Exact value of the claim's parameter, the largest of all pairs; the claimed one where it is not known."""
        values = [exact_parameter(self.claim, self._sides(pair)) for pair in self.pairs]
        return max((self.claim.parameter if value is None else value) for value in values)

    def audit(self, trials: int, seed: int, confidence: float) -> Any:
        """Audit it in this process."""
        return audit(
            self.mechanism,
            self.pairs,
            claim=self.claim,
            trials=trials,
            confidence=confidence,
            seed=seed,
            n_jobs=1,
        )

    def _sides(self, pair: DatasetPair) -> tuple[Any, Any]:
        return self.mechanism(pair.x), self.mechanism(pair.x_prime)


def cases() -> list[Case]:
    """Registered mechanisms that give log densities on all of their pairs; audits to the last bit are left out."""
    found = []
    for entry in entries():
        pairs = tuple(entry.pairs or entry.mechanism.worst_pairs())
        sides = [entry.mechanism(dataset) for pair in pairs for dataset in (pair.x, pair.x_prime)]
        known = all(exact.knows_law(side) and callable(getattr(side, "log_density", None)) for side in sides)
        if entry.witnesses == "auto" and known:
            found.append(Case(entry.name, entry.mechanism, entry.claim, pairs, entry.expected == "violated"))
    return found


def shares(trials: int, seeds: int, seed: int, most: int | None = None) -> list[dict[str, Any]]:
    """Median over seeds of our bound, as a share of the oracle's with as many runs on its best pair."""

    def measure(case: Case) -> dict[str, Any]:
        oracle = max(oracle_bound(tails, case.claim, trials, CONFIDENCE) for tails in case.tails())
        bounds = [case.audit(trials, seed + k, CONFIDENCE).lower_bound for k in range(seeds)]
        share = statistics.median(bounds) / oracle if oracle > 0 else math.nan
        return {
            "name": case.name,
            "kind": case.kind,
            "bound": statistics.median(bounds),
            "oracle": oracle,
            "share": share,
        }

    return _each(measure, cases()[:most])


def refute(seeds: int, seed: int, limit: int, most: int | None = None) -> list[dict[str, Any]]:
    """Runs, among doublings of the oracle's number, that refute each broken mechanism at 99 % in half of the seeds."""

    def measure(case: Case) -> dict[str, Any]:
        oracle = min(runs_to_refute(tails, case.claim, STRICT) for tails in case.tails())
        trials, share = (max(int(oracle), 200) if oracle <= limit else limit + 1), 0.0
        while trials <= limit:
            share = float(np.mean([case.audit(trials, seed + k, STRICT).violates_claim for k in range(seeds)]))
            if share >= 0.5:
                break
            trials *= 2
        return {"name": case.name, "oracle": oracle, "runs": trials if share >= 0.5 else math.inf, "refuted": share}

    return _each(measure, [case for case in cases() if case.broken][:most])


def alarms(audits: int, trials: int, seed: int) -> list[dict[str, Any]]:
    """Audit sound mechanisms at 99 % through every default family; count bounds above the exact values."""
    sound = [case for case in cases() if not case.broken]
    sound.append(Case("objects", _objects(), PureDP(1.0), (DatasetPair(0, 1),), False))
    truths = [case.truth() for case in sound]

    def above(k: int) -> bool:
        place = k % len(sound)
        return sound[place].audit(trials, seed + k, STRICT).lower_bound > truths[place] * (1 + 1e-9)

    wrong = sum(_each(above, range(audits)))
    chance = float(binom.sf(wrong - 1, audits, 1 - STRICT))
    return [{"audits": audits, "mechanisms": len(sound), "trials": trials, "above": wrong, "chance": chance}]


def main(out: str | Path, seed: int = 0, quick: bool = False, parts: Sequence[str] = tuple(COLUMNS)) -> str | None:
    """Measure, print and write; parts that were measured before stay.

    Parameters
    ----------
    out : path
        Folder for the files; made if missing.
    seed : int
        Root of all seeds.
    quick : bool
        A few seconds instead of a quarter of an hour: few mechanisms, few runs.
    parts : sequence of str
        Some of 'shares', 'refute' and 'alarms'.
    """
    folder = Path(out)
    work: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "shares": lambda: shares(20_000, 1, seed, 4) if quick else shares(RUNS, 3, seed),
        "refute": lambda: refute(2, seed, 20_000, 2) if quick else refute(20, seed, 1_000_000),
        "alarms": lambda: alarms(4, 2_000, seed) if quick else alarms(500, 4_000, seed),
    }
    said = None
    for part in parts:
        found = work[part]()
        print_table(found, COLUMNS[part], part)
        if part != "shares":
            write_json(folder / f"{part}.json", {"seed": seed, "quick": quick, "rows": found})
            continue
        write_data(folder, found, seed=seed, quick=quick, confidence=CONFIDENCE)
        write_figure(folder / "shares", draw(pd.DataFrame(found)))
        caption = (
            f"Medians over seeds of bounds at {CONFIDENCE:.0%} confidence with {20_000 if quick else RUNS:,} runs, "
            "as a share of an oracle's with as many runs."
        )
        write_table(folder, found, COLUMNS[part], caption)
        said = answer(found)
    return said


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Count the mechanisms on which an audit is near the oracle; where the oracle has no bound there is no share.

    Examples
    --------
    >>> answer([{"kind": "single", "share": share} for share in (0.97, 0.9, math.nan)])
    'at least 0.95 of it on 1 of 2 single outputs; the median share is 0.935; the oracle has no bound on 1 more.'
    """
    known = [row for row in rows if not math.isnan(row["share"])]
    single = [row["share"] for row in known if row["kind"] == "single"]
    others = [row["share"] for row in known if row["kind"] != "single"]
    parts = [f"at least 0.95 of it on {sum(share >= 0.95 for share in single)} of {len(single)} single outputs"]
    if others:
        parts.append(f"at least 0.90 on {sum(share >= 0.90 for share in others)} of {len(others)} vectors and lists")
    if known:
        parts.append(f"the median share is {statistics.median(single + others):.3f}")
    if len(known) < len(rows):
        parts.append(f"the oracle has no bound on {len(rows) - len(known)} more")
    return f"{'; '.join(parts)}."


@styled()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw all shares in order, single outputs apart from vectors."""
    figure = blank(TWO_COLUMNS, 2.6)
    axes = figure.subplots()
    for colour, label, chosen in (
        (BLUE, "numbers and symbols", frame["kind"] == "single"),
        (VERMILION, "vectors, lists and mixtures", frame["kind"] != "single"),
    ):
        values = np.sort(frame["share"][chosen & frame["share"].notna()].to_numpy(float))
        axes.plot(np.linspace(0.0, 1.0, len(values)), values, ".-", color=colour, label=f"{label} ({len(values)})")
    axes.axhline(0.95, color="0.6", linewidth=0.8, linestyle="--")
    axes.set_xlabel("mechanisms, as a share of all of their kind")
    axes.set_ylabel("certified bound\nas a share of the oracle's")
    axes.set_ylim(0.0, 1.1)
    legend_below(figure, 2)
    return figure


def _each(measure: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Measure every item, on all cores."""
    return list(joblib.Parallel(n_jobs=-1)(joblib.delayed(measure)(item) for item in items))


def _objects() -> Any:
    """Randomised response among outputs of every kind: 1-DP exactly, through the families for objects."""
    kinds: list[Any] = ["no", None, (1, 2.5), {"ann": 3}, [1, "a", None], float("nan")]

    def respond(data: int, rng: np.random.Generator) -> Any:
        truth = data if rng.random() < math.e / (1 + math.e) else 1 - data
        return kinds[3 * truth + rng.integers(3)]

    return black_box(respond, claim=PureDP(1.0), name="objects")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="some of: " + ", ".join(COLUMNS))
    add_options(parser, "results/power")
    given = parser.parse_args()
    chosen = partial(main, parts=given.parts or tuple(COLUMNS))
    run(chosen, given.out, given.seed, given.quick)

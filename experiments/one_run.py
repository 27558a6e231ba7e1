"""Many canaries in one training run, beside many runs, and DP-SGD with its incorrect variants.

The source ('Privacy auditing in just one run', differentialprivacy.org, on Steinke, Nasr and Jagielski 2023) says that
one training run with many canaries behaves like many runs with one canary each. The study expects that this holds for
mechanisms that leak as randomised response does. For Gaussian noise and a claim of (epsilon, delta)-DP, one run
certifies 0.16 of epsilon with 100 canaries and 0.64 with 100,000, because a bound must allow for mechanisms that
occasionally reveal many canaries together. If the whole curve is claimed (f-DP, Mahloujifar, Melis and Chaudhuri 2025),
one run certifies a mu whose Gaussian curve has 0.35 of epsilon with 100 canaries and three quarters with 100,000; this
bounds epsilon only because the curve is known to be Gaussian. Many runs do not have this gap, but need one training for
each canary. All incorrect variants of DP-SGD are refuted in one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from epsaudit import GaussianDP, PureDP, audit, audit_one_run
from epsaudit.audits.one_run import Threshold
from epsaudit.audits.one_run.planning import planned_guesses
from epsaudit.bounds.one_run import GuessBound
from epsaudit.experiments.one_run_training import (
    CURVE,
    DELTA,
    EPSILONS,
    MANY_CURVE,
    MANY_POINT,
    POINT,
    SHARP,
    median_row,
    training,
)
from epsaudit.experiments.studies import write_data, write_json, write_table
from epsaudit.mechanisms.additive import Gaussian
from epsaudit.mechanisms.one_run import NoisyVectorSum, ResponsePerRecord
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.results.result import SCHEMA
from epsaudit.text import lower
from epsaudit.tools.reporting.tables import TableColumn

CONFIDENCE = 0.95
MU = 1.0
CANARIES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
RESPONSE, MANY_RESPONSE = "one run, randomised response: certified ε", "many runs, randomised response: certified ε"
COLUMNS = (
    TableColumn("audited", "audited"),
    TableColumn("data", "data"),
    TableColumn("canaries", "canaries", "count"),
    TableColumn("guesses", "guesses", "count"),
    TableColumn("right", "right", "count"),
    TableColumn("parameter", "parameter"),
    TableColumn("claimed", "claimed", "upper"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("verdict", "verdict"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit a noisy sum of vectors and DP-SGD in one run and in many runs, and write data and a table to ``out``.

    ``audits.json`` holds the results behind the table, for ``epsaudit verify``.

    Parameters
    ----------
    out : Path
        Folder to write to. It is created if it does not exist.
    seed : int
        Root of all random streams.
    quick : bool
        Use fewer canaries and seeds, for a quick look.
    """
    seeds = range(seed, seed + (1 if quick else 7))
    sizes, most = (CANARIES[1:3], 1_000) if quick else (CANARIES, CANARIES[-1])
    by_canaries = [row for m in _tracked(sizes) for row in (*gaussian(MU, m, seeds), *response(2.0, m, seeds))]
    by_epsilon = [
        {**row, "claimed": epsilon}
        for epsilon in _tracked(EPSILONS[2::2] if quick else EPSILONS)
        for row in (*gaussian(_mu_of(epsilon), most, seeds), *response(epsilon, most, seeds))
    ]
    trained = list(training(seed, quick))
    results = [row.pop("result") for row in trained if row["table"]]
    write_json(out / "audits.json", {"schema": SCHEMA, "results": results})
    write_data(
        out,
        [{"part": part, **row} for part, rows in _parts(by_canaries, by_epsilon, trained) for row in rows],
        seed=seed,
        seeds=len(seeds),
        confidence=CONFIDENCE,
        delta=DELTA,
    )
    caption = (
        f"Audits of DP-SGD, each of one training run unless it says so, at {CONFIDENCE:.0%} confidence and "
        f"δ = {DELTA:g}: the sound procedure and its incorrect variants. The parameter is ε, or μ where "
        "the whole curve of μ-GDP is claimed."
    )
    write_table(out, [row for row in trained if row["table"]], COLUMNS, caption)
    return answer(by_canaries, trained)


def answer(by_canaries: Sequence[dict[str, Any]], trained: Sequence[dict[str, Any]]) -> str:
    """Return a text on the shares certified with the most canaries, and on the refuted claims of DP-SGD."""
    most = max(row["canaries"] for row in by_canaries)
    parts = (
        f"{row['mechanism']}, {row['audited']}: {lower(row['share'], 2)}"
        for row in by_canaries
        if row["canaries"] == most
    )
    table = [row for row in trained if row["table"]]
    refuted = [f"{row['data']} ({row['audited']})" for row in table if row["verdict"] == "violated"]
    return (
        f"Shares of epsilon with {most:,} canaries: {'; '.join(parts)}. Of {len(table)} audits of DP-SGD, "
        f"{len(refuted)} refuted their claim: {'; '.join(refuted) or 'none'}."
    )


def gaussian(mu: float, canaries: int, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield median certified epsilons for Gaussian noise, from one run and from many runs.

    One run has ``canaries`` coordinates; many runs are ``canaries`` runs of one coordinate. Both draw the same number
    of normal variates, so they have the same cost.
    """
    claim = GaussianDP(mu).approximate(DELTA)
    vectors, scalar = NoisyVectorSum(mu, canaries), Gaussian(claim.epsilon, DELTA)
    whole = GaussianDP(1.0 / scalar.sigma)
    found: dict[str, list[float]] = {POINT: [], SHARP: [], CURVE: [], MANY_POINT: [], MANY_CURVE: []}
    # the number of guesses is the same for both bounds
    guesses = planned_guesses(canaries, GuessBound(claim, "sharp", CONFIDENCE))
    for seed in seeds:
        one = audit_one_run(vectors, claim=claim, method="binomial", guesses=guesses, seed=seed)
        found[POINT].append(one.lower_bound)
        found[SHARP].append(one.by("sharp").lower_bound)
        found[CURVE].append(GaussianDP(audit_one_run(vectors, seed=seed).lower_bound).approximate(DELTA).epsilon)
        found[MANY_POINT].append(audit(scalar, claim=claim, trials=canaries, seed=seed, n_jobs=1).lower_bound)
        mu_bound = audit(scalar, claim=whole, trials=canaries, seed=seed, n_jobs=1).lower_bound
        found[MANY_CURVE].append(GaussianDP(mu_bound).approximate(DELTA).epsilon)
    yield from _rows("Gaussian noise", found, canaries, claim.epsilon)


def response(epsilon: float, canaries: int, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield median certified epsilons for randomised response, from one run and from many runs.

    One run has ``canaries`` records; many runs are ``canaries`` runs of one record.
    """
    per_record, repeated = ResponsePerRecord(epsilon, canaries), RandomisedResponse(epsilon)
    claim = PureDP(epsilon)
    found = {
        RESPONSE: [audit_one_run(per_record, guesses=Threshold(0.0), seed=seed).lower_bound for seed in seeds],
        MANY_RESPONSE: [
            audit(repeated, claim=claim, trials=canaries, seed=seed, n_jobs=1).lower_bound for seed in seeds
        ],
    }
    yield from _rows("randomised response", found, canaries, epsilon)


def _rows(mechanism: str, found: dict[str, list[float]], canaries: int, claimed: float) -> Iterator[dict[str, Any]]:
    for audited, bounds in found.items():
        median = median_row(audited, bounds)
        yield {
            "mechanism": mechanism,
            "audited": audited,
            "canaries": canaries,
            "claimed": claimed,
            **median,
            "share": next(iter(median.values())) / claimed,
        }


def _tracked(values: Sequence[Any]) -> Iterable[Any]:
    """Iterate over the values with a progress bar, if standard error is a terminal."""
    console = Console(stderr=True)
    return track(values, "one run and many", console=console, transient=True, disable=not console.is_terminal)


def _mu_of(epsilon: float) -> float:
    return float(GaussianDP(1.0).least_at(epsilon, DELTA))


def _parts(*rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    return zip(("by canaries", "by epsilon", "DP-SGD"), rows, strict=True)

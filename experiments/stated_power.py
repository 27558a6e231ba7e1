"""The statements of passing checks on what they would have caught, measured, beside the test rules of other libraries.

Ten correct mechanisms are audited at significance level 1e-6. Each audit states the smallest parameter that it would
have caught 9 times in 10, and 1 time in 2. Mechanisms that attain the stated parameters are then audited under the same
claim. Expected: at least 0.9 and 0.5 of them are caught, provided that the event is found as soon as for the correct
mechanism. The second part measures the power of test rules on too little Laplace noise, 50 to 99 % of the correct
scale, which are the ratios in Google's evaluation of its testers.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from epsaudit import Claim, GaussianDP, Mechanism, SequentialResult, audit_sequentially
from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.experiments.library_rules import Rule, rules
from epsaudit.experiments.studies import on_all_cores, write_figure, write_json, write_table
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace, SphericalGaussian
from epsaudit.mechanisms.response import LeakyResponse, RandomisedResponse
from epsaudit.mechanisms.selection import ExponentialMechanism
from epsaudit.text import nearest
from epsaudit.tools.reporting.figures import BLUE, TWO_COLUMNS, VERMILION, new_figure, place_legend_below, styled
from epsaudit.tools.reporting.tables import TableColumn

RUNS, CONFIDENCE = 20_000, 1.0 - 1e-6
AUDITS = 12
"""Number of audits of each mechanism at each stated parameter. A share of 0.9 then has a standard error of 0.09."""
RATIOS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0)
RIGHT = 3
"""Number of audits of each correct mechanism; the median of their statements is used."""
TESTS = 10
"""Number of tests of each rule at each ratio."""
SHARES = (0.9, 0.5)
COLUMNS = (
    TableColumn("name", "mechanism or rule"),
    TableColumn("claim", "claim", "formula"),
    TableColumn("runs", "runs", "count"),
    TableColumn("parameter", "parameter", "number"),
    TableColumn("ratio", "noise", "number"),
    TableColumn("stated", "stated", "number"),
    TableColumn("rejected", "rejected", "number", 3),
    TableColumn("tests", "tests", "count"),
)


@dataclass(frozen=True)
class Kind:
    """A family of mechanisms, one for every parameter, which attain the parameter, and the claim that is tested."""

    name: str
    claim: Claim
    with_parameter: Callable[[float], Mechanism]


def kinds() -> list[Kind]:
    """Return the ten families: numbers, whole numbers, symbols and vectors, under four definitions of privacy."""

    def gaussian(mu: float, vectors: bool = False) -> Gaussian:
        return (SphericalGaussian if vectors else Gaussian)(1.0, GaussianDP(mu).profile(1.0))

    made: dict[str, tuple[Callable[[float], Any], float, int]] = {
        "Laplace": (Laplace, 1.0, 0),
        "Laplace, epsilon 0.2": (Laplace, 0.2, 0),
        "discrete Laplace": (DiscreteLaplace, 1.0, 0),
        "randomised response": (RandomisedResponse, 1.0, 0),
        "randomised response, five answers": (lambda epsilon: RandomisedResponse(epsilon, 5), 1.0, 0),
        "leaky response, delta 0.05": (lambda epsilon: LeakyResponse(epsilon, 0.05), 1.0, 0),
        "exponential mechanism": (ExponentialMechanism, 1.0, 0),
        "Gaussian, mu-GDP": (gaussian, 1.0, 1),
        "Gaussian, rho-zCDP": (lambda rho: gaussian((2.0 * rho) ** 0.5), 0.5, 2),
        "Gaussian, vectors of two, mu-GDP": (lambda mu: gaussian(mu, vectors=True), 1.0, 1),
    }
    return [Kind(name, make(at).claims[which], make) for name, (make, at, which) in made.items()]


def audit_with_parameter(kind: Kind, parameter: float, seed: int) -> SequentialResult:
    """Audit the mechanism that attains the given parameter, under the claim of its family."""
    mechanism = kind.with_parameter(parameter)
    return audit_sequentially(mechanism, claim=kind.claim, trials=RUNS, confidence=CONFIDENCE, seed=seed, n_jobs=1)


def statements(kind: Kind, seeds: Sequence[int]) -> dict[float, float | None]:
    """Return the statements of audits of the correct mechanism, as medians over the seeds.

    A statement is None if no audit would have caught even four times the claim.
    """
    results = [audit_with_parameter(kind, kind.claim.parameter, seed) for seed in seeds]
    said = {share: [result.least_caught(share) for result in results if not result.violates_claim] for share in SHARES}
    known = {share: [one for one in some if one is not None] for share, some in said.items()}
    return {share: statistics.median(some) if some else None for share, some in known.items()}


def stated_rows(kinds: Sequence[Kind], right: int, audits: int, seed: int) -> list[dict[str, Any]]:
    """Audit mechanisms that attain the stated parameters, and return one row for each.

    The parameters are those that audits of the correct mechanisms state, as medians over ``right`` seeds.
    """
    said = on_all_cores(lambda kind: statements(kind, range(seed, seed + right)), kinds)
    asked = [(kind, share, some[share]) for kind, some in zip(kinds, said, strict=True) for share in SHARES]
    jobs = [(kind, at, seed + right + k) for kind, _, at in asked if at is not None for k in range(audits)]
    caught = on_all_cores(lambda job: audit_with_parameter(*job).violates_claim, jobs)
    found, rows = iter(caught), []
    for kind, share, parameter in asked:
        rejected = None if parameter is None else float(np.mean([next(found) for _ in range(audits)]))
        facts = {"parameter": parameter, "ratio": None, "stated": share, "rejected": rejected, "tests": audits}
        rows.append({"part": "stated", "name": kind.name, "claim": str(kind.claim), "runs": RUNS, **facts})
    return rows


def rule_rows(ratios: Sequence[float], tests: int, seed: int) -> list[dict[str, Any]]:
    """Return how often each rule rejects too little noise, with the same random streams for each ratio."""
    found = rules(seed)
    jobs = [(place, ratio, k) for place in range(len(found)) for ratio in ratios for k in range(tests)]
    rejected = on_all_cores(lambda job: _rejects(seed, *job), jobs)
    rows = []
    for (place, ratio, _), first in zip(jobs[::tests], range(0, len(jobs), tests), strict=True):
        share = float(np.mean(rejected[first : first + tests]))
        facts = {"parameter": 1.0 / ratio, "ratio": ratio, "stated": None, "rejected": share, "tests": tests}
        rows.append({"part": "rule", "name": found[place].name, "claim": "1-DP", "runs": found[place].runs, **facts})
    return rows


def _rejects(seed: int, place: int, ratio: float, test: int) -> bool:
    return bool(rules_of(seed)[place].rejects(ratio, np.random.default_rng([seed, place, test])))


@functools.lru_cache(maxsize=1)
def rules_of(seed: int) -> list[Rule]:
    """Return the rules. They are cached, because one of them has to be trained once per process."""
    return rules(seed)


def measure(out: Path, seed: int, quick: bool) -> str:
    """Measure both parts, write stated.json, a table and a figure to ``out``, and return the answer."""
    rows = [
        *(stated_rows(kinds()[3:4], 1, 2, seed) if quick else stated_rows(kinds(), RIGHT, AUDITS, seed)),
        *(rule_rows((0.5, 1.0), 1, seed) if quick else rule_rows(RATIOS, TESTS, seed)),
    ]
    write_json(out / "stated.json", {"seed": seed, "confidence": CONFIDENCE, "rows": rows})
    caption = (
        "Shares of mechanisms caught that attain what a passing audit states, and of tests that reject Laplace noise "
        "of a share of the right scale."
    )
    write_table(out, rows, COLUMNS, caption, "stated")
    write_figure(out / "stated", draw_stated([row for row in rows if row["part"] == "stated"]))
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text on the shares of stated parameters that were caught, and on the noise that each rule lets pass."""
    parts = []
    for share in SHARES:
        measured = [row["rejected"] for row in rows if row["stated"] == share and row["rejected"] is not None]
        least, most = nearest(min(measured), 2), nearest(max(measured), 2)
        mean = nearest(statistics.mean(measured), 2)
        parts.append(f"stated {share:g}, measured {mean} on average, {least} to {most} over {len(measured)} mechanisms")
    let_pass = []
    for name in dict.fromkeys(row["name"] for row in rows if row["part"] == "rule"):
        ratio = most_rejected([row for row in rows if row["name"] == name])
        let_pass.append(f"{name} {'none' if ratio is None else f'{ratio:g}'}")
    return (
        f"Shares of audits that caught what others stated: {'; '.join(parts)}. The most noise, as a share of the "
        f"right, up to which at least 9 in 10 tests reject: {', '.join(let_pass)}."
    )


def most_rejected(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the largest ratio up to which a rule rejects at least nine in ten tests, or None if there is none."""
    most = None
    for row in sorted(rows, key=lambda row: float(row["ratio"])):
        if row["rejected"] < 0.9 or row["ratio"] >= 1.0:
            break
        most = row["ratio"]
    return most


@styled()
def draw_stated(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw the measured shares with their 95 % intervals, beside the stated ones."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    figure = new_figure(TWO_COLUMNS, 1.3 + 0.25 * len(names))
    axes = figure.add_subplot()
    for share, colour, marker, shift in zip(SHARES, (BLUE, VERMILION), ("o", "s"), (-0.15, 0.15), strict=True):
        axes.axvline(share, color=colour, linewidth=0.8, linestyle="--")
        style = {"color": colour, "linestyle": "-"}  # otherwise each line takes the next style of the cycle
        axes.plot([], [], marker=marker, label=f"stated {share:g}, measured with a 95 % interval", **style)
        for row in rows:
            if row["stated"] == share and row["rejected"] is not None:
                caught, height = round(row["rejected"] * row["tests"]), names.index(row["name"]) + shift
                limits = (clopper_pearson_lower, clopper_pearson_upper)
                axes.plot([float(f(caught, row["tests"], 0.025)) for f in limits], [height] * 2, **style)
                axes.plot(row["rejected"], height, color=colour, marker=marker, linestyle="none")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0.0, 1.02)
    axes.set_xlabel("share of audits that caught what was stated")
    place_legend_below(figure, 1)
    return figure

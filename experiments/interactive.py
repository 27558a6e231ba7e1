"""Adaptive analysts against privacy filters, sound and broken, and two odometers.

The source (differentialprivacy.org, 'How generic can composition results be?') reviews theorems by which budgets add up
even if requests and budgets are chosen from earlier answers, and if several sessions are queried in turns. Every
analyst here requests randomised responses on one user's bit. Some analysts continue after a refusal, and spend most of
the budget where they saw a leak. All transcripts are enumerated, so that the exact loss is known. The study expects:

1. Sound filters (pure DP, zCDP, Gaussian DP, Renyi DP, sub-sessions): the exact loss is at most the budget, and close
   to the budget if it is exhausted. Filters with a delta, sessions that are opened depending on answers, and hidden
   states are in the main table.
2. A filter that checks after answering, and one that forgets a sub-session: they are refuted if the analyst exploits
   the mistake, so that the transcript's exact loss exceeds the budget, and if the runs suffice. Bounds in rho are
   loose: an exact rho a fifth above the budget is not detected in a million runs. An analyst who never requests more
   than is left, or whose budgets happen to add up to no more than the total, is as safe as with a sound filter.
3. An odometer for pure DP is never exceeded by the loss of a transcript. Odometers for zCDP and Renyi DP are exceeded
   at any time with probability at most their delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit import ZCDP, GaussianDP, PureDP, RenyiDP, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms.analysts import Doubler, Gambler, Interleaver, Repeater
from epsaudit.mechanisms.broken.accounting import ForgetfulSubSessions, LateFilter
from epsaudit.mechanisms.budgets import (
    ConcentratedOdometer,
    Filter,
    Ledger,
    PureOdometer,
    RenyiOdometer,
    SubSessions,
    TotalFilter,
    Unlimited,
)
from epsaudit.mechanisms.interactive import Analyst, Interaction
from epsaudit.text import count, nearest, percent
from epsaudit.tools.reporting.tables import TableColumn

CONFIDENCE, ODOMETER_DELTA = 0.95, 0.05
ANALYSTS: dict[str, Analyst] = {
    "repeats": Repeater((0.3,), rounds=4),
    "gambles": Gambler((0.2, 0.4, 0.7), rounds=5),
    "doubles": Doubler((0.1, 0.2, 0.4), rounds=5),
    "changes sessions": Interleaver((0.35, 0.3, 0.3), rounds=5),
}
FILTERS: dict[str, Filter] = {
    "pure": TotalFilter(PureDP(1.0)),
    "zCDP": TotalFilter(ZCDP(0.15)),
    "Gaussian DP": TotalFilter(GaussianDP(1.0)),
    "Renyi DP": TotalFilter(RenyiDP(4.0, 0.5)),
    "sub-sessions": SubSessions(PureDP(1.0), (0.3, 0.3)),
    "broken: late": LateFilter(PureDP(1.0)),
    "broken: late, zCDP": LateFilter(ZCDP(0.15)),
    "broken: forgetful": ForgetfulSubSessions(PureDP(1.0), (0.3, 0.3)),
}
COLUMNS = (
    TableColumn("analyst", "analyst"),
    TableColumn("filter", "filter"),
    TableColumn("claim", "claim"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("exact", "exact", "number"),
    TableColumn("verdict", "verdict"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit every analyst against every filter, enumerate the odometers, and write data and a table to ``out``."""
    trials = 10_000 if quick else 1_000_000
    chosen = ("pure", "broken: late") if quick else FILTERS
    cases = [(guard, analyst) for guard in chosen for analyst in ANALYSTS]
    rows = on_all_cores(lambda case: audit_transcript(*case, trials, seed), cases)
    paths = list(odometers())
    exceeded = sum(path["probability"] for path in paths if path["exceeds"])
    write_data(
        out,
        rows,
        seed=seed,
        runs=trials,
        confidence=CONFIDENCE,
        odometer={
            "delta": ODOMETER_DELTA,
            "exact chance to exceed": exceeded,
            "exact chance to exceed that of Renyi DP": sum(
                path["probability"] for path in paths if path["exceeds that of Renyi DP"]
            ),
            "greatest loss over the pure odometer": max(path["greatest pure share"] for path in paths),
        },
    )
    write_table(
        out,
        rows,
        COLUMNS,
        f"Analysts against filters: {count(trials)} runs each, {percent(CONFIDENCE)} confidence that all bounds hold. "
        f"The zCDP odometer at delta = {ODOMETER_DELTA:g} is exceeded with probability {exceeded:.3g}.",
    )
    return answer(rows, exceeded)


def answer(rows: Sequence[dict[str, Any]], exceeded: float) -> str:
    """Return a sentence that counts the refuted claims of sound and of broken filters.

    A broken filter leaks only if the analyst exploits its mistake, so the sentence counts the leaking cases.
    """
    broken, sound = ([row for row in rows if ("broken" in row["filter"]) is wrong] for wrong in (True, False))
    leaks = [row for row in broken if row["exact"] is not None and row["exact"] > row["proven"]]
    refuted = sum(row["verdict"] == "violated" for row in leaks)
    wrong = sum(row["verdict"] == "violated" for row in sound)
    return (
        f"Sound filters were refuted in {wrong} of {len(sound)} cases, broken ones in {refuted} of the {len(leaks)} in "
        f"which the transcript's exact loss is above the claim; the zCDP odometer is exceeded with probability "
        f"{nearest(exceeded, 3)}, at most {ODOMETER_DELTA:g} being promised."
    )


def audit_transcript(guard_name: str, analyst: str, trials: int, seed: int) -> dict[str, Any]:
    """Audit the transcript of an analyst with a filter, in the filter's own parameter."""
    guard = FILTERS[guard_name]
    result = audit(
        Interaction(ANALYSTS[analyst], guard),
        trials=trials,
        confidence=1.0 - (1.0 - CONFIDENCE) / (len(FILTERS) * len(ANALYSTS)),
        seed=entry_seed(seed, f"{guard_name} {analyst}"),
        n_jobs=1,
    )
    return {
        "analyst": analyst,
        "filter": guard_name,
        "claim": str(guard.claim),
        "proven": guard.claim.parameter,
        "certified": result.lower_bound,
        "exact": result.exact,
        "verdict": "violated" if result.violates_claim else "consistent",
        "witness": str(result.witness),
    }


def odometers() -> Iterator[dict[str, Any]]:
    """Yield every transcript of an analyst without a budget.

    Each row holds the transcript's probability, and whether its loss ever exceeded the reading of an odometer.
    """
    analyst = Doubler((0.25, 0.3, 0.35), rounds=10)
    law = Interaction(analyst, Unlimited(PureDP(3.5)))((0,))
    concentrated, pure = ConcentratedOdometer(ODOMETER_DELTA, 0.5), PureOdometer()
    renyi = RenyiOdometer(1.0 + concentrated.slope, ODOMETER_DELTA)
    answers = np.array(law.support, float)
    for rows, history in law.ledgers(answers):
        loss, share = np.zeros(len(rows)), np.zeros(len(rows))
        exceeds, exceeds_renyi = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        for round_, ledger in enumerate(history):
            loss += _loss(ledger, answers[rows, round_])
            exceeds |= loss > concentrated.reading(ledger)
            exceeds_renyi |= loss > renyi.reading(ledger)
            share = np.maximum(share, np.abs(loss) / pure.reading(ledger))
        for row, passed, passed_renyi, most in zip(rows, exceeds, exceeds_renyi, share, strict=True):
            yield {
                "probability": float(np.exp(law.log_probabilities[row])),
                "exceeds": bool(passed),
                "exceeds that of Renyi DP": bool(passed_renyi),
                "greatest pure share": float(most),
            }


def _loss(ledger: Ledger, answers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the privacy loss of the last answer, for transcripts that share this ledger."""
    mechanism: Any = ledger.entries[-1][0].mechanism
    return np.asarray(mechanism((0,)).log_density(answers) - mechanism((1,)).log_density(answers))

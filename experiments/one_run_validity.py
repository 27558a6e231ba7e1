"""That one-run audits keep their confidence: how many bounds are above the truth, of mechanisms whose leak is known.

At most 1 in 20 bounds at 95 % may exceed the truth, whatever the claim, the method and the rule of guessing. Expected:
no more, and nearly as many where a mechanism attains its claim by just what the method allows for; nor more where coins
and scores are given, all scores are equal, and the rows are laid out by coin, so that only ties could tell.

Run ``python -m epsaudit.experiments.one_run_validity --out results/one-run-validity``: 23 kinds, 2,000 audits of each,
five minutes on two cores; seconds with ``--quick``. The same seed gives the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy.stats import binom

from epsaudit import ApproxDP, Claim, GaussianDP, OneRunResult, PureDP, audit_one_run, audit_scores
from epsaudit.audits.one_run import CanaryMechanism, Threshold, bounds
from epsaudit.audits.one_run.audit import Guesses
from epsaudit.experiments.data import affairs
from epsaudit.experiments.drawing import wrong_bounds
from epsaudit.experiments.studies import run_as_script, write_data, write_figure, write_table
from epsaudit.mechanisms.dp_sgd import DPSGD, GradientCanaries
from epsaudit.mechanisms.one_run import ConspiringResponse, NoisyVectorSum, ResponsePerRecord, SpillingResponse
from epsaudit.reporting.tables import Column

QUESTION = "How often does a bound that a one-run audit certifies exceed the truth?"
AUDITS = 2000
CONFIDENCE = 0.95
TIED = "no mechanism, equal scores, rows by coin"

SHORT = {
    ResponsePerRecord.name: "response",
    ConspiringResponse.name: "conspiring",
    SpillingResponse.name: "spilling",
    NoisyVectorSum.name: "noisy sum",
    "DP-SGD, gradient canaries": "DP-SGD",
}

Audit = Callable[[int], OneRunResult]
"""One seeded audit."""

COLUMNS = (
    Column("mechanism", "mechanism"),
    Column("claim", "claim"),
    Column("guesses", "guesses"),
    Column("method", "method"),
    Column("audits", "audits", "count"),
    Column("above", "bounds above the truth", "count"),
    Column("tolerance", "tolerance", "count"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Count bounds above the truth, and write data, a table and a figure to ``out``.

    Parameters
    ----------
    out : Path
        Folder to write to; made if missing.
    seed : int
        The first of the audits' seeds, which are consecutive.
    quick : bool
        A few audits, for a look.
    """
    rows: list[dict[str, Any]] = []
    for row in coverage(10 if quick else AUDITS, seed):
        rows.append(row)
        write_data(out, rows, seed=seed, confidence=CONFIDENCE)  # minutes of work: keep what is done
    shares = [(label(row), row["above"], row["audits"]) for row in rows]
    write_figure(out / "above-the-truth", wrong_bounds(shares, 1.0 - CONFIDENCE, what="share above the truth"))
    write_table(out, rows, COLUMNS, f"One-run audits at {CONFIDENCE:.0%} confidence whose bound is above the truth.")
    return answer(rows)


def label(row: dict[str, Any]) -> str:
    """Name a kind of audit in a few words, for the figure."""
    what = f"ties, {row['claim']}" if row["mechanism"] == TIED else SHORT.get(row["mechanism"], row["mechanism"])
    return f"{what}, {row['guesses']}" + (f", {row['method']}" if row["method"] != "auto" else "")


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Say which kind of audit was wrong most often, and whether all are within the tolerance."""
    worst = max(rows, key=lambda row: row["share"])
    kept = sum(row["above"] <= row["tolerance"] for row in rows)
    return (
        f"At most in {worst['above']:,} of {worst['audits']:,} audits ({worst['mechanism']}; {worst['claim']}; guesses "
        f"{worst['guesses']}), 5 % being allowed; {kept} of {len(rows)} kinds are within the binomial tolerance."
    )


def coverage(audits: int, seed: int) -> Iterator[dict[str, Any]]:
    """Count the bounds above the truth of every kind of audit.

    The tolerance is the number that 5 % wrong bounds would exceed with probability 1e-6.
    """
    for name, claim, truth, rule, method, audit in kinds():
        found = joblib.Parallel(n_jobs=-1, batch_size=50)(
            joblib.delayed(_bound)(audit, number) for number in range(seed, seed + audits)
        )
        above = sum(bound > truth + 1e-9 for bound in found)
        yield {
            "mechanism": name,
            "claim": str(claim),
            "guesses": rule if isinstance(rule, str) else "everybody",
            "method": method,
            "audits": audits,
            "above": above,
            "share": above / audits,
            "tolerance": int(binom.isf(1e-6, audits, 1.0 - CONFIDENCE)),
        }


def kinds() -> Iterator[tuple[str, Claim, float, Guesses, str, Audit]]:
    """Yield what is audited, the claim, the truth about its parameter, the rule, the method and the audit itself."""
    for mechanism, rule, method in _mechanisms():
        claim = mechanism.claim
        yield mechanism.name, claim, claim.parameter, rule, method, partial(_mechanism, mechanism, rule, method)
    for claim in (PureDP(0.1), ApproxDP(0.1, 1e-5), GaussianDP(0.1)):
        for rule in ("planned",) if isinstance(claim, GaussianDP) else ("planned", "half"):
            yield TIED, claim, 0.0, rule, "auto", partial(_tied, claim, rule)


def _mechanisms() -> list[tuple[CanaryMechanism, Guesses, str]]:
    everybody = Threshold(0.0)
    conspiring = ConspiringResponse(1.0, 0.999 * bounds.delta_bound(300, 300, 235, 1.0, CONFIDENCE), 300, 235)
    spilling, gaussian = SpillingResponse(1.0, 1e-3, 200, 10), NoisyVectorSum(1.0, 1000)
    approximate = NoisyVectorSum(1.0, 1000, delta=1e-3)
    learner = DPSGD("logistic", 5, rate=1.0, noise_multiplier=5**0.5)
    trained = GradientCanaries(learner, affairs().take(np.arange(200)), 500)
    return [
        (ResponsePerRecord(1.0, 500), everybody, "sharp"),
        *((ResponsePerRecord(1.0, 500), rule, "auto") for rule in ("planned", "half", "bonferroni")),
        *((conspiring, everybody, method) for method in ("sharp", "binomial", "trade-off")),
        *((conspiring, rule, "auto") for rule in ("planned", "half", "bonferroni")),
        *((spilling, everybody, method) for method in ("sharp", "binomial")),
        *((gaussian, rule, "trade-off") for rule in ("planned", "bonferroni")),
        *((approximate, rule, "auto") for rule in ("planned", "half", "bonferroni")),
        (trained, "planned", "auto"),
    ]


def _bound(audit: Audit, seed: int) -> float:
    return audit(seed).lower_bound


def _mechanism(mechanism: CanaryMechanism, rule: Guesses, method: str, seed: int) -> OneRunResult:
    return audit_one_run(mechanism, guesses=rule, method=method, confidence=CONFIDENCE, seed=seed)


def _tied(claim: Claim, rule: Guesses, seed: int) -> OneRunResult:
    """Audit given scores that are all equal, of rows in the order of their coins, 200 to 1,200 of them."""
    rng = np.random.default_rng(seed)
    coins = np.sort(rng.random(rng.integers(200, 1201)) < 0.5)
    return audit_scores(
        coins, np.zeros(len(coins)), claim=claim, guesses=rule, confidence=CONFIDENCE, seed=int(rng.integers(2**63))
    )


if __name__ == "__main__":
    run_as_script(main, __doc__, "results/one-run-validity")

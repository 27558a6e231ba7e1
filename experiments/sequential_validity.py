"""That sequential audits keep their confidence: how many audits of exact claims ever refute them, however they look.

By Ville's inequality (1939) at most 1 in 20 audits at 95 % ever crosses a claim that is true, although it looks after
every run and relearns what to look for. Expected: fewer, on mechanisms that attain their claims exactly, both for the
bets alone on the best event and for whole audits that learn.

Run ``python -m epsaudit.experiments.sequential_validity --out results/sequential-validity``: 8,000 audits, about half
an hour on one core; a few seconds with ``--quick``. The same seed gives the same files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy.stats import binom

from epsaudit import Claim, Mechanism, PureDP, audit_sequentially
from epsaudit.audits.sequential import betting
from epsaudit.experiments.drawing import wrong_bounds
from epsaudit.experiments.studies import run_as_script, write_data, write_figure, write_table
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.reporting.tables import Column

QUESTION = "How often does a sequential audit at 95 % ever refute a claim that is exactly true?"
COLUMNS = (
    Column("mechanism", "mechanism"),
    Column("runs", "runs", "count"),
    Column("audits", "audits", "count"),
    Column("ever_refuted", "ever refuted", "count"),
    Column("bound_over", "bound above exact", "count"),
    Column("tolerance", "tolerance", "count"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Count, and write data, a table and a figure to ``out``.

    Parameters
    ----------
    out : Path
        Folder to write to; made if missing.
    seed : int
        The first of the audits' seeds, which are consecutive.
    quick : bool
        A few audits, for a look.
    """
    rows = [bets_alone(100 if quick else 2_000, 5_000, seed)]
    for row in whole_audits(4 if quick else 2_000, 200 if quick else 400, seed):
        rows.append(row)
        write_data(out, rows, seed=seed, confidence=0.95)  # half an hour's work: keep what is done
    shares = [(row["mechanism"], row["ever_refuted"], row["audits"]) for row in rows]
    write_figure(out / "ever-refuted", wrong_bounds(shares, 0.05, what="share refuting a true claim"))
    write_table(out, rows, COLUMNS, "Sequential audits of true claims at 95% confidence that ever refuted them.")
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Count the audits that refuted."""
    parts = (f"{row['mechanism']}: {row['ever_refuted']:,} of {row['audits']:,}" for row in rows)
    return f"{'; '.join(parts)}. More than {max(row['tolerance'] for row in rows):,} would be news."


def whole_audits(audits: int, runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """How many of the audits of exact claims ever refuted them at 95 %, looking after every run.

    The tolerance is the number that 5 % true refutations would exceed with probability 1e-6.
    """
    gaussian = Gaussian(1.0, 0.05)
    exact_claims: list[tuple[str, Mechanism, Claim]] = [
        ("randomised response, 1-DP", RandomisedResponse(1.0), PureDP(1.0)),
        ("Laplace, 1-DP", Laplace(1.0), PureDP(1.0)),
        ("Gaussian, (1, 0.05)-DP", gaussian, gaussian.claims[0]),
        ("Gaussian, mu-GDP", gaussian, gaussian.claims[1]),
    ]
    for name, mechanism, claim in exact_claims:
        results = joblib.Parallel(n_jobs=-1)(
            joblib.delayed(audit_sequentially)(
                mechanism, claim=claim, trials=runs, confidence=0.95, seed=seed + number, n_jobs=1
            )
            for number in range(audits)
        )
        crossed = sum(result.violates_claim for result in results)
        over = sum(result.lower_bound > (result.exact or math.inf) for result in results)
        yield _row(name, runs, audits, crossed, over)


def bets_alone(audits: int, runs: int, seed: int) -> dict[str, Any]:
    """Share of true claims ever refuted by the bets alone: the best event from the start, nothing learned."""
    rng = np.random.default_rng(seed)
    correct, wrong, _ = betting.log_factors(1.0, 0.0, 2)
    crossed = 0
    for _ in range(audits):
        guesses = rng.random(runs) < math.e / (1.0 + math.e)
        right = np.cumsum(guesses)
        wealth = betting.average(right[:, None] * correct + (np.arange(1, runs + 1) - right)[:, None] * wrong)
        crossed += bool(np.max(wealth) >= math.log(20.0))
    return _row("bets alone, 1-DP attained", runs, audits, crossed, crossed)


def _row(mechanism: str, runs: int, audits: int, refuted: int, over: int) -> dict[str, Any]:
    return {
        "mechanism": mechanism,
        "runs": runs,
        "audits": audits,
        "ever_refuted": refuted,
        "bound_over": over,
        "share": refuted / audits,
        "tolerance": int(binom.isf(1e-6, audits, 0.05)),
    }


if __name__ == "__main__":
    run_as_script(main, __doc__, "results/sequential-validity")

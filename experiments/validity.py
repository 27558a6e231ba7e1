"""Coverage of audits of fixed size: how often a certified bound exceeds the exact value, for every kind of claim.

Run ``epsaudit experiment run validity``: 12,000 audits of 10,000 runs at 95 % confidence, a quarter of an hour on two
cores, seconds with ``--quick``. What to expect: at most 5 % of the bounds exceed the exact value, up to the binomial
tolerance, and nearly 5 % where the claim is attained by common events. Sequential and one-run audits have studies of
their own, `epsaudit.experiments.sequential_validity` and `epsaudit.experiments.one_run_validity`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
from scipy.stats import binom

from epsaudit import ZCDP, ApproxDP, Claim, GaussianDP, Mechanism, PureDP, RenyiDP, audit
from epsaudit.experiments.drawing import wrong_bounds
from epsaudit.experiments.studies import run_as_script, write_data, write_figure, write_table
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.reporting.tables import Column

QUESTION = "How often does a bound that an audit of fixed size certifies exceed the exact value?"
CONFIDENCE = 0.95
TRIALS = 10_000

COLUMNS = (
    Column("mechanism", "mechanism"),
    Column("exact", "exact", "number"),
    Column("audits", "audits", "count"),
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
    rows: list[dict[str, Any]] = []
    for name, mechanism, claim in cases():
        rows.append(coverage(name, mechanism, claim, 8 if quick else 2_000, seed))
        write_data(out, rows, seed=seed, confidence=CONFIDENCE, trials=TRIALS)
    shares = [(row["mechanism"], row["bound_over"], row["audits"]) for row in rows]
    write_figure(out / "bound-above-exact", wrong_bounds(shares, 1 - CONFIDENCE, what="share of bounds above exact"))
    write_table(out, rows, COLUMNS, f"Bounds above the exact value at 95% confidence, {TRIALS:,} runs an audit.")
    worst = max(rows, key=lambda row: row["bound_over"] / row["audits"])
    kept = all(row["bound_over"] <= row["tolerance"] for row in rows)
    return (
        f"At most in {worst['bound_over']:,} of {worst['audits']:,} audits ({worst['mechanism']}), 5 % being allowed; "
        f"{'every kind of claim is' if kept else 'not every kind of claim is'} within the binomial tolerance."
    )


def cases() -> list[tuple[str, Mechanism, Claim]]:
    """List mechanisms with claims whose exact values are known, one or more for each kind of claim."""
    gaussian = Gaussian(1.0, 1e-3)
    mu = 1.0 / gaussian.sigma
    return [
        ("Laplace, epsilon 1", Laplace(1.0), PureDP(1.0)),
        ("randomised response, epsilon 1", RandomisedResponse(1.0), PureDP(1.0)),
        ("Gaussian (1, 1e-3)", gaussian, ApproxDP(1.0, 1e-3)),
        ("Gaussian, mu", gaussian, GaussianDP(mu)),
        ("Gaussian, rho", gaussian, ZCDP(mu**2 / 2)),
        ("Gaussian, Renyi DP of order 4", gaussian, RenyiDP(4.0, 2.0 * mu**2)),
    ]


def coverage(name: str, mechanism: Mechanism, claim: Claim, audits: int, seed: int) -> dict[str, Any]:
    """Count the audits, with consecutive seeds, whose bound exceeds the exact value.

    The tolerance is the number that 5 % of wrong bounds would exceed with probability 1 %.
    """
    pair = mechanism.worst_pairs()[0]
    truth = exact.exact_parameter(claim, mechanism(pair.x), mechanism(pair.x_prime))

    def exceeds(number: int) -> bool:
        result = audit(mechanism, pair, claim=claim, trials=TRIALS, confidence=CONFIDENCE, seed=number, n_jobs=1)
        return result.lower_bound > truth * (1 + 1e-12)

    over = sum(joblib.Parallel(n_jobs=-1)(joblib.delayed(exceeds)(number) for number in range(seed, seed + audits)))
    return {
        "mechanism": name,
        "exact": truth,
        "audits": audits,
        "bound_over": over,
        "share": over / audits,
        "tolerance": int(binom.ppf(0.99, audits, 1 - CONFIDENCE)),
    }


if __name__ == "__main__":
    run_as_script(main, __doc__, "results/validity")

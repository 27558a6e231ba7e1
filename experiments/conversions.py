"""Pure DP as Renyi DP and zCDP: the curves of the source, with audits in rho and in Renyi orders.

The source (differentialprivacy.org, Theorems 4 and 5) converts epsilon-DP to Renyi DP and to zCDP. It says that both
conversions are tight, that randomised response attains them, and that Laplace noise has smaller divergences. The study
expects:

1. The exact Renyi divergences of randomised response lie on the solid lines of the source's figures, and those of
   Laplace noise lie below them.
2. Certified bounds in rho, mu and Renyi orders are below the exact values, for these mechanisms and for compositions,
   interactions, shuffling and groups.
3. Two incorrect claims are refuted in rho: epsilon^2/8 holds for the exponential mechanism, but not for
   permute-and-flip and not for Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit import ZCDP, GaussianDP, RenyiDP, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.conversions import pure_to_gaussian, pure_to_renyi, pure_to_zcdp
from epsaudit.claims.definitions import Claim
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.analysts import Doubler
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.additive import LaplaceAsBoundedRange
from epsaudit.mechanisms.broken.selection import PermuteAndFlipAsBoundedRange
from epsaudit.mechanisms.budgets import TotalFilter
from epsaudit.mechanisms.composition import Sequential
from epsaudit.mechanisms.groups import GroupCounts
from epsaudit.mechanisms.interactive import Interaction
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.mechanisms.shuffling import ShuffledResponse
from epsaudit.text import count, percent
from epsaudit.tools.reporting.tables import TableColumn

CONFIDENCE = 0.95
EPSILONS = (0.5, 1.0, 2.0)
ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0)
COLUMNS = (
    TableColumn("mechanism", "mechanism"),
    TableColumn("claim", "claim"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("exact", "exact", "number"),
    TableColumn("proven", "claimed", "number"),
    TableColumn("verdict", "verdict"),
)


def laplace_renyi(epsilon: float, order: float) -> float:
    """Return the Renyi divergence, in nats, between Laplace noise of scale 1/epsilon around 0 and around 1.

    The formula is Proposition 6 of Mironov (2017).
    """
    if (order - 1.0) * epsilon < 1e-3:  # the logarithm of a sum near 1; expm1 and log1p keep its digits
        excess = order * math.expm1((order - 1.0) * epsilon) + (order - 1.0) * math.expm1(-order * epsilon)
        return math.log1p(excess / (2.0 * order - 1.0)) / (order - 1.0)
    likely = math.log(order / (2.0 * order - 1.0)) + (order - 1.0) * epsilon
    rare = math.log((order - 1.0) / (2.0 * order - 1.0)) - order * epsilon
    return float(np.logaddexp(likely, rare)) / (order - 1.0)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Compute the curves of both figures of the source, audit every case, and write data and a table to ``out``."""
    trials = 10_000 if quick else 1_000_000
    chosen = list(cases())[-4:] if quick else list(cases())
    confidence = 1.0 - (1.0 - CONFIDENCE) / len(chosen)
    rows = on_all_cores(lambda case: audit_claim(*case, trials, seed, confidence), chosen)
    write_data(out, rows, seed=seed, runs=trials, confidence=CONFIDENCE)
    write_table(
        out,
        rows,
        COLUMNS,
        f"Claims audited in their own parameter: {count(trials)} runs each, {percent(CONFIDENCE)} confidence that all "
        "bounds hold.",
    )
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on how close the bounds are to the exact values, and which claims were refuted."""
    known = [row for row in rows if row["exact"]]
    share = float(np.median([row["certified"] / row["exact"] for row in known]))
    above = sum(row["certified"] > row["exact"] for row in known)
    refuted = [f"{row['mechanism']} at {row['claim']}" for row in rows if row["verdict"] == "violated"]
    return (
        f"Bounds on {len(known)} claims whose exact value is known are at a median {share:.1%} of it, {above} above "
        f"it; refuted: {', '.join(refuted) or 'none'}."
    )


def cases() -> Iterator[tuple[Reference, Claim]]:
    """Yield every mechanism with its claim: the curves of the figures, other parameters, and two incorrect claims.

    Examples
    --------
    >>> len(list(cases()))
    52
    """
    for epsilon in EPSILONS:
        for mechanism in (RandomisedResponse(epsilon), Laplace(epsilon)):
            for order in ORDERS:
                divergence = (pure_to_renyi if isinstance(mechanism, RandomisedResponse) else laplace_renyi)(
                    epsilon, order
                )
                yield mechanism, RenyiDP(order, divergence)
            yield mechanism, mechanism.claims[1]
            if epsilon == 1.0:
                yield mechanism, GaussianDP(pure_to_gaussian(epsilon))
    for reference in (
        Sequential.copies(Gaussian(1.0, 1e-5), 4),
        Interaction(Doubler((0.1, 0.2, 0.4), rounds=4), TotalFilter(ZCDP(0.15))),
        GroupCounts(0.5, 0.3),
    ):
        for claim in reference.claims:
            if isinstance(claim, ZCDP):
                yield reference, RenyiDP(2.0, 2.0 * claim.rho)
            if claim.claimed_point is None:
                yield reference, claim
    composed, shuffled = Sequential.copies(RandomisedResponse(0.5), 8), ShuffledResponse(2.0, 100, 1e-3)
    yield composed, composed.claims[1]
    yield composed, RenyiDP(4.0, 8 * pure_to_renyi(0.5, 4.0))
    yield shuffled, ZCDP(pure_to_zcdp(2.0))
    yield shuffled, GaussianDP(pure_to_gaussian(2.0))
    for wrong in (PermuteAndFlipAsBoundedRange(1.0), LaplaceAsBoundedRange(1.0)):
        yield wrong, wrong.claim


def audit_claim(mechanism: Reference, claim: Claim, trials: int, seed: int, confidence: float) -> dict[str, Any]:
    """Audit a claim in its own parameter, and return the row of the table."""
    own = entry_seed(seed, f"{mechanism.name} {claim}")
    result = audit(mechanism, claim=claim, trials=trials, confidence=confidence, seed=own, n_jobs=1)
    return {
        "mechanism": mechanism.name,
        "claim": str(claim),
        "parameter": claim.symbol,
        "epsilon": getattr(mechanism, "epsilon", None),
        "order": getattr(claim, "order", None),
        "certified": result.lower_bound,
        "exact": result.exact,
        "proven": claim.parameter,
        "verdict": "violated" if result.violates_claim else "consistent",
        "witness": str(result.witness),
    }

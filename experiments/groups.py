"""The open problem of larger groups: Algorithm 1 measured, and counts on an asinh scale, whose loss falls with size.

The source (differentialprivacy.org, 'Open problem - Better privacy guarantees for larger groups') adds Gaussian noise
to the count of a group, and then Gaussian noise in proportion to the noisy count. It proves rho-zCDP, conjectures a
smaller loss for larger groups, and leaves this unproven. It draws 10^6 outputs for sigma^2 = 100, r = 0.3 and a count
of 10,000; their best Gaussian fit has mean 10,002.6 and standard deviation 2,995.1. The study computes the following,
which is evidence and not proof:

1. The same histogram and its fit. The law has mean 10,000 and standard deviation 3,000.02.
2. Renyi divergences for the counts x and x + 1, by quadrature to eight digits. At a fixed order they fall like (1 / (2
   r^2) + 1) / x^2 for large x, as the divergences of Gaussians with the same means and variances do.
3. The divergences do not fall at all orders at once: for orders far above x, the divergence grows like rho / 2 times
   the order, for every x. If this holds in general, the group-wise zCDP of the source's definition, which concerns all
   orders, cannot be smaller than rho / 2.
4. Certified lower bounds on rho and on the divergence of order 2, from draws alone, as far as the runs can show them.
5. The source's alternative path, counts on an asinh scale with s = r. They lose 1 / (2 r^2 x^2) at all orders, which is
   proven in docs/explanation/group-wise-privacy.md, and their error is no larger. The claim is audited at each size.
   The source allows a mean absolute error of r x in every group, and the errors of both mechanisms are measured beside
   this limit. Counts on an asinh scale keep within the limit from 44 records on; for an empty group no private
   mechanism does.

A rough calculation explains point 3. An output y far from the mean needs a noisy count of about sqrt(y sigma / r). The
loss is then this number over sigma^2, and -log density is y / (sigma r). The best y gives order^2 rho / 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from epsaudit import ZCDP, Mechanism, RenyiDP, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms.groups import AsinhCounts, GroupCounts, renyi_per_group
from epsaudit.text import count, nearest, percent
from epsaudit.tools.reporting.tables import TableColumn

RHO, RELATIVE, SIZE, DRAWS, CONFIDENCE = 0.005, 0.3, 10_000, 1_000_000, 0.95
COUNTS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
ORDERS = (1.0, 2.0, 8.0, 64.0)
CURVES = tuple(number for number in COUNTS if number >= 10)
"""Counts whose divergence is computed up to high orders. For smaller counts, the ratio of divergence and order
decreases from the first order on."""
SHOWN = (10, 100, 1000, 10_000, 100_000)
SHARES = np.geomspace(1e-2, 30.0, 13)
"""Orders of the second figure, as multiples of the count."""
LARGEST_ORDER = 150_000
"""Largest order. At larger orders, the rounding errors of the loss, multiplied by the order, become visible."""
AUDITED = (0, 10, 30, 100, 300, 1000)
MECHANISM = GroupCounts(RHO, RELATIVE)
ASINH = AsinhCounts(RHO, RELATIVE)
COLUMNS = (
    TableColumn("count", "x", "count"),
    *(TableColumn(f"order {order:g}", f"order {order:g}", "number") for order in ORDERS),
    TableColumn("gaussian", "Gaussian, order 1", "number"),
    TableColumn("largest ratio", "sup of D/order", "number"),
    TableColumn("certified order 2", "certified, order 2", "lower", 3),
    TableColumn("certified rho", "certified ρ", "lower", 3),
    TableColumn("error", "E|error|", "number"),
    TableColumn("asinh", "asinh, ρ", "number"),
    TableColumn("certified asinh", "asinh, certified", "lower", 3),
    TableColumn("asinh error", "asinh, E|error|", "number"),
    TableColumn("allowed", "r x", "number"),
    TableColumn("measured error", "E|error|, measured", "number"),
    TableColumn("measured asinh error", "asinh, E|error|, measured", "number"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Draw the histogram, compute the divergences, audit the groups, and write data and a table to ``out``."""
    trials = 10_000 if quick else 4_000_000
    counts = tuple(number for number in COUNTS if number in (1000, 100_000)) if quick else COUNTS
    drawn = MECHANISM((SIZE,)).sample(DRAWS // 10 if quick else DRAWS, np.random.default_rng(seed))
    by_count = on_all_cores(lambda number: list(by_order(number)), (1000,) if quick else CURVES, cost=float)
    curves = [row for found in by_count for row in found]

    def row(number: int) -> dict[str, Any]:
        """Return all measurements of one group as one row."""
        draws = measure_errors(number, DRAWS // 10 if quick else DRAWS, seed)
        return {**divergences(number, curves), **errors(number), **draws, **certify(number, trials, seed)}

    rows = on_all_cores(row, counts)
    facts = {"mean": float(drawn.mean()), "standard deviation": float(drawn.std()), "draws": len(drawn), "count": SIZE}
    write_data(out, rows, seed=seed, runs=trials, confidence=CONFIDENCE, rho=RHO, r=RELATIVE, fit=facts, orders=curves)
    write_table(
        out,
        rows,
        COLUMNS,
        f"Algorithm 1 with rho = {RHO:g} and r = {RELATIVE:g}: Renyi divergences between groups of x and x + 1, the "
        f"greatest divergence over its order among those tried, and certified bounds ({count(trials)} runs each, "
        f"{percent(CONFIDENCE)} confidence that all hold). Evidence, not proof; the loss on the asinh scale is proven.",
    )
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text that compares small and large groups, at a fixed order and over all orders.

    The text also states the errors of counts on an asinh scale, and the error that the source allows.
    """
    shown = [row for row in rows if row["count"] in SHOWN]
    sizes = ", ".join(f"{row['count']:,}" for row in shown)
    fixed = ", ".join(nearest(row["order 2"], 3) for row in shown)
    greatest = ", ".join(nearest(row["largest ratio"] / RHO, 3) for row in shown)
    proven = ", ".join(nearest(row["asinh"] / RHO, 3) for row in shown)
    off = ", ".join(nearest(row["measured asinh error"] / row["allowed"], 3) for row in shown)
    least = next(number for number in range(SIZE, 0, -1) if ASINH.expected_error(number - 1) > RELATIVE * (number - 1))
    unseen = [row["count"] for row in rows if row["certified asinh"] == 0.0]
    seen = f", though no audit sees it from groups of {min(unseen):,} on" if unseen else ""
    return (
        f"For groups of {sizes}: the divergence of order 2 is {fixed}; the greatest divergence over its order, among "
        f"orders up to {LARGEST_ORDER:,}, is {greatest} times rho. Evidence, not proof. On an asinh scale, which "
        f"is no farther off, counts lose {proven} times rho at every order, which is proven{seen}; their mean absolute "
        f"error is {off} times r x in draws, and below r x from {least:,} records on."
    )


def divergences(number: int, curves: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the Renyi divergences of a group at fixed orders, and the largest ratio of divergence and order."""
    values = renyi_per_group(MECHANISM((number,)), ORDERS)  # type: ignore[arg-type]  # a single group
    ratios = [value / order for value, order in zip(values, ORDERS, strict=True)]
    ratios += [row["divergence / order"] for row in curves if row["count"] == number]
    return {
        "count": number,
        **{f"order {order:g}": value for order, value in zip(ORDERS, values, strict=True)},
        "gaussian": (1.0 / (2.0 * RELATIVE**2) + 1.0) / number**2 if number else None,
        "largest ratio": max(ratios),
    }


def errors(number: int) -> dict[str, Any]:
    """Return the exact mean absolute errors of both mechanisms, and the proven loss of the pair on the asinh scale.

    Given the noisy count X, the error of Algorithm 1 is normal around X - x. Its mean absolute value is averaged over
    X.
    """
    z = np.linspace(-10.0, 10.0, 20_001)
    off, deviation = MECHANISM.sigma * z, RELATIVE * np.abs(number + MECHANISM.sigma * z)
    deviation = np.maximum(deviation, 1e-12)
    size = 2.0 * deviation * norm.pdf(off / deviation) + off * (1.0 - 2.0 * norm.cdf(-off / deviation))
    return {
        "error": float(np.trapezoid(size * norm.pdf(z), z)),
        "asinh": ASINH.loss(number + 1),
        "asinh error": ASINH.expected_error(number),
    }


def measure_errors(number: int, draws: int, seed: int) -> dict[str, Any]:
    """Return the mean absolute errors of both mechanisms in draws, and the error r x that the source allows."""
    rng = np.random.default_rng([seed, number])
    noisy = MECHANISM((number,)).sample(draws, rng)
    counts = ASINH.counts(ASINH((number,)).sample(draws, rng))
    return {
        "allowed": RELATIVE * number,
        "measured error": float(np.abs(noisy - number).mean()),
        "measured asinh error": float(np.abs(counts - number).mean()),
    }


def by_order(number: int) -> Iterator[dict[str, Any]]:
    """Yield the ratio of divergence and order for orders that are multiples of the count.

    The divergence is taken from the larger count to the smaller.
    """
    law = MECHANISM((number,))
    for order in 1.0 + SHARES * number:
        if order <= LARGEST_ORDER:
            value = float(renyi_per_group(law, [order], both=False)[0])  # type: ignore[arg-type]  # a single group
            yield {"count": number, "order": float(order), "divergence / order": value / float(order)}


def certify(number: int, trials: int, seed: int) -> dict[str, Any]:
    """Return certified lower bounds on the divergence of order 2 and on rho, for the counts that are audited.

    For other counts the bounds are None. rho is certified for both mechanisms.
    """
    if number not in AUDITED:
        return {"certified order 2": None, "certified rho": None, "certified asinh": None}
    bounds = {}
    pair = DatasetPair((number,), (number + 1,))
    audited: tuple[tuple[str, Mechanism, Claim], ...] = (
        ("certified order 2", MECHANISM, RenyiDP(2.0, 2.0 * RHO)),
        ("certified rho", MECHANISM, ZCDP(RHO)),
        ("certified asinh", ASINH, ASINH.groupwise.at(pair)),
    )
    for name, mechanism, claim in audited:
        result = audit(
            mechanism,
            pair,
            claim=claim,
            trials=trials,
            confidence=1.0 - (1.0 - CONFIDENCE) / (len(audited) * len(AUDITED)),
            seed=entry_seed(seed, f"{name} {number}"),
            n_jobs=1,
        )
        bounds[name] = result.lower_bound
    return bounds

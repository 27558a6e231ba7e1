"""Accuracy theorems, step counts and thresholds of down-sensitivity mechanisms.

The source claims the following, and the study expects:

1. Theorem 4, Theorem 5 and the guarantee of the search state that f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability
   1 - beta for every dataset. Expected: the published searches fail where f(x) = min Y, which they never return. A loss
   with the wrong strictness, and |l - tau| without the repair of note 4, fail where all records agree. All other
   mechanisms satisfy the theorem.
2. The search makes log2 |Y| comparisons. Expected: for |Y| just above a power of two plus one there are up to a fifth
   more comparisons, and the exact epsilon exceeds the published one by the same factor.
3. tau grows as log |Y| (Theorem 4), sqrt(log |Y|) log log |Y| (Theorem 5), sqrt(log |Y|) (note 7) and 2^O(log* |Y|)
   (Theorem 6). Expected: at every |Y| that fits into 64 bits, constants decide which route is best. The crossovers are
   computed.
4. Theorem 6 holds. Expected: with common prefixes no claim is refuted, and the exact epsilon is close to the claimed
   one. Variants whose labels change their meaning are refuted.
5. Figure 1: the loss of the maximum on a dataset with the shape of Binomial(5, 1/2).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit import audit
from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.experiments.down_sensitivity_tau import BETA, DELTA, EPSILON, crossovers, tau_rows, tower_rows
from epsaudit.experiments.studies import write_json, write_table
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import (
    PrefixByQualityAlone,
    PrefixWithoutMargin,
    PublishedBinarySearch,
    PublishedConcentratedSearch,
    SearchOfStrictLoss,
    ShiftedInverseWithoutRepair,
)
from epsaudit.mechanisms.down_sensitivity import (
    BoundedBinarySearch,
    GaussianBinarySearch,
    LaplaceBinarySearch,
    ShiftedInverseSensitivity,
    TolerantSearch,
)
from epsaudit.mechanisms.interior_point import InteriorPoint, PrefixInteriorPoint
from epsaudit.mechanisms.queries import Maximum, MonotoneQuery, Total
from epsaudit.running.files import write_whole
from epsaudit.tools.reporting.tables import TableColumn, to_latex

FIGURE_1 = (0,) + (1,) * 5 + (2,) * 10 + (3,) * 10 + (4,) * 5 + (5,)
CONFIDENCE = 0.999
# with these values tau is slightly above a whole number of records, where the most revealing outputs of the worst pair
# are most likely
STEP_BETA = {6: 0.54, 10: 0.54, 18: 0.37, 34: 0.48}
SIXTEEN = Maximum(range(16))
PAGES = Total(range(0, 16384, 256))
Row = dict[str, Any]
COLUMNS = (
    TableColumn("mechanism", "mechanism"),
    TableColumn("outputs", "|Y|", "count"),
    TableColumn("comparisons", "comparisons", "count"),
    TableColumn("claimed epsilon", "claimed", "number"),
    TableColumn("exact epsilon", "exact", "number"),
    TableColumn("certified epsilon", "certified", "lower"),
)
PREFIX_COLUMNS = (
    TableColumn("mechanism", "mechanism"),
    TableColumn("case", "pair"),
    TableColumn("claimed epsilon", "claimed", "number"),
    TableColumn("exact epsilon", "exact", "number"),
    TableColumn("certified epsilon", "certified", "lower"),
    TableColumn("exact delta", "exact δ", "number"),
)


@dataclass(frozen=True)
class Case:
    """A dataset on which an accuracy theorem is tested, with its query."""

    name: str
    query: MonotoneQuery
    dataset: Sequence[Any]


CASES = (
    Case("nobody", SIXTEEN, ()),
    Case("all at min Y", SIXTEEN, (0,) * 2000),
    Case("all equal", SIXTEEN, (7,) * 2000),
    Case("all at max Y", SIXTEEN, (15,) * 2000),
    Case("one far above", SIXTEEN, (3,) * 2000 + (15,)),
    Case("spread evenly", SIXTEEN, tuple(range(16)) * 150),
    Case("pages visited", PAGES, tuple((None,) * (2000 // (record + 10)) for record in range(2000))),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Run the study, and write data.json, data.csv and two tables to ``out``."""
    data: dict[str, Any] = {
        "seed": seed,
        "coverage": list(coverage(1_000 if quick else 100_000, seed)),
        "steps": list(steps(10_000 if quick else 1_000_000, seed)),
        "prefixes": list(prefixes(10_000 if quick else 1_000_000, seed)),
        "tau": tau_rows(),
        "crossovers": crossovers(),
        "towers": tower_rows(),
        "figure 1": [{"y": y, "loss": int(loss)} for y, loss in enumerate(Maximum(range(6)).losses(FIGURE_1))],
    }
    write_json(out / "data.json", data)
    write_whole(out / "data.csv", _csv(data))
    caption = (
        "Noisy binary search, as published and corrected: comparisons it makes, and the claimed, exact and certified "
        f"ε; certified at 99.9% confidence each with {data['steps'][0]['trials']:,} runs."
    )
    write_table(out, data["steps"], COLUMNS, caption)
    caption = (
        "Interior points by common prefixes, sound and not, at |Y| = 2^64: claimed, exact and certified ε at "
        f"δ = {DELTA:g}, and the exact δ at ε = {EPSILON:g}; at 99.9% confidence each with "
        f"{data['prefixes'][0]['trials']:,} runs."
    )
    write_whole(out / "prefixes.tex", to_latex(data["prefixes"], PREFIX_COLUMNS, caption, label="tab:prefixes"))
    return answer(data)


def answer(data: dict[str, Any]) -> str:
    """Return a text on the theorems that failed, the cost of the published step count, and Theorem 6."""
    by_name: dict[str, set[str]] = {}
    for row in data["coverage"]:
        by_name.setdefault(row["mechanism"], set()).add(row["verdict"])
    refuted = [name for name, verdicts in by_name.items() if "refuted" in verdicts]
    shown = [name for name, verdicts in by_name.items() if verdicts == {"holds"}]
    excess = [
        row["exact epsilon"] / row["claimed epsilon"] - 1.0 for row in data["steps"] if row["verdict"] == "violated"
    ]
    cost = f", which lose {min(excess):.0%} to {max(excess):.0%} more than is claimed for them" if excess else ""
    return (
        f"Accuracy is refuted for {'; '.join(refuted) or 'none'}; it is shown on every dataset for "
        f"{'; '.join(shown) or 'none'}. {len(excess)} claims about searches were refuted{cost}. "
        f"{_answer_on_prefixes(data['prefixes'])}"
    )


def _answer_on_prefixes(rows: list[Row]) -> str:
    sound = [row for row in rows if row["mechanism"] == PrefixInteriorPoint.name]
    refuted = {row["mechanism"] for row in rows if row["verdict"] == "violated"}
    most = max(sound, key=lambda row: row["certified epsilon"])
    return (
        f"By common prefixes epsilon is {most['exact epsilon']:.3f}, {most['certified epsilon']:.3f} of it certified, "
        f"on a pair, of {most['claimed epsilon']:g} claimed; refuted: {'; '.join(sorted(refuted)) or 'none'}."
    )


def mechanisms_for(query: MonotoneQuery, beta: float = BETA) -> dict[str, Any]:
    """Return every mechanism whose accuracy is stated, broken ones included.

    The mechanisms satisfy epsilon = 1, rho = 0.5 or (1, 1e-6).
    """
    return {
        "Theorem 4": ShiftedInverseSensitivity(query, 1.0, beta),
        "Laplace search, corrected": LaplaceBinarySearch.calibrated(query, 1.0, beta),
        "Gaussian search, corrected": GaussianBinarySearch.calibrated(query, 0.5, beta),
        "tolerant search": TolerantSearch.calibrated(query, 0.5, beta),
        "bounded noise": BoundedBinarySearch(query, 1.0, 1e-6),
        "RecConcave": InteriorPoint(query, 1.0, 1e-6, beta),
        "common prefixes": PrefixInteriorPoint(query, 1.0, 1e-6, beta),
        "Laplace search, published": PublishedBinarySearch.calibrated(query, 1.0, beta),
        "Theorem 5, published": PublishedConcentratedSearch.calibrated(query, 0.5, beta),
        "broken: wrong strictness": SearchOfStrictLoss.calibrated(query, 1.0, beta),
        "broken: not repaired": ShiftedInverseWithoutRepair(query, 1.0, beta),
        "Theorem 5, corrected": LaplaceBinarySearch.calibrated_to_rho(query, 0.5, beta),
    }


def coverage(runs: int, seed: int) -> Iterator[Row]:
    """Yield the share of runs inside [f(x) - DS^{2 tau}(x), f(x)] for every dataset and mechanism.

    Each share has Clopper-Pearson limits at 99.9 % confidence, each one-sided.
    """
    for number, case in enumerate(CASES):
        answer = case.query.value(case.dataset)
        for place, (name, mechanism) in enumerate(mechanisms_for(case.query).items()):
            rng = np.random.default_rng([seed, number, place])
            least = answer - case.query.down_sensitivity(case.dataset, int(2 * mechanism.tau))
            outputs = mechanism(case.dataset).sample(runs, rng)
            known = np.array([output is not None for output in outputs.tolist()])
            answers = np.where(known, outputs, answer + 1).astype(np.int64)
            inside = int(np.sum((answers >= least) & (answers <= answer)))
            low, high = clopper_pearson(inside, runs)
            yield {
                "mechanism": name,
                "case": case.name,
                "f": int(answer),
                "least accurate": int(least),
                "tau": float(mechanism.tau),
                "runs": runs,
                "inside": inside,
                "lower limit": low,
                "upper limit": high,
                "guaranteed": 1.0 - BETA,
                "verdict": "refuted" if high < 1.0 - BETA else "holds" if low >= 1.0 - BETA else "not refuted",
            }


def clopper_pearson(hits: int, runs: int) -> tuple[float, float]:
    """Return the lower and the upper limit on a probability, each one-sided at 99.9 % confidence.

    Examples
    --------
    >>> [round(limit, 6) for limit in clopper_pearson(1000, 1000)]
    [0.993116, 1.0]
    """
    level = 1.0 - CONFIDENCE
    return float(clopper_pearson_lower(hits, runs, level)), float(clopper_pearson_upper(hits, runs, level))


def steps(trials: int, seed: int) -> Iterator[Row]:
    """Yield exact and certified epsilon of the published and of the corrected search, beside the claimed epsilon."""
    for size in STEP_BETA:
        query = Maximum(tuple(range(size)))
        for search in (PublishedBinarySearch, LaplaceBinarySearch):
            mechanism = search.calibrated(query, 2.0, beta=STEP_BETA[size])
            (pair,) = mechanism.worst_pairs()
            result = audit(mechanism, pair, trials=trials, confidence=CONFIDENCE, seed=seed)
            yield {
                "mechanism": mechanism.name,
                "outputs": size,
                "comparisons": mechanism.steps,
                "claimed epsilon": float(mechanism.claim.parameter),
                "exact epsilon": exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 0.0),
                "certified epsilon": result.lower_bound,
                "trials": trials,
                "verdict": "violated" if result.violates_claim else "consistent with the claim",
            }


def prefixes(trials: int, seed: int) -> Iterator[Row]:
    """Yield exact and certified epsilon of the interior point by common prefixes at |Y| = 2^64.

    The rows cover the sound mechanism and two broken variants, each on both of its worst pairs.
    """
    for kind in (PrefixInteriorPoint, PrefixByQualityAlone, PrefixWithoutMargin):
        mechanism = kind(Maximum(range(2**64)), EPSILON, DELTA, BETA)
        for case, pair in zip(("level sets shrink", "best point moves"), mechanism.worst_pairs(), strict=True):
            result = audit(mechanism, pair, trials=trials, confidence=CONFIDENCE, seed=seed)
            laws = mechanism(pair.x), mechanism(pair.x_prime)
            yield {
                "mechanism": mechanism.name,
                "case": case,
                "claimed epsilon": EPSILON,
                "exact epsilon": exact.epsilon(*laws, DELTA),
                "exact delta": max(exact.delta(*laws, EPSILON), exact.delta(*laws[::-1], EPSILON)),
                "certified epsilon": result.lower_bound,
                "trials": trials,
                "verdict": "violated" if result.violates_claim else "consistent with the claim",
            }


def _csv(data: dict[str, Any]) -> str:
    """Return all tables as one CSV text in long format: study, mechanism, case, quantity, value."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["study", "mechanism", "case", "quantity", "value"])
    for study in ("coverage", "steps", "prefixes", "tau", "crossovers", "towers", "figure 1"):
        for row in data[study]:
            case = row.get("case", row.get("outputs", row.get("bits", row.get("height", row.get("y", "")))))
            for quantity, value in row.items():
                if quantity not in ("mechanism", "case", "outputs", "bits", "height", "y"):
                    writer.writerow([study, row.get("mechanism", ""), case, quantity, value])
    return buffer.getvalue()


Rows = list[dict[str, Any]]

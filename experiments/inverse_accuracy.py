"""Inverse sensitivity: coverage of its accuracy theorem, and medians by other mechanisms beside it.

The source ('Beyond Global Sensitivity via Inverse Sensitivity', differentialprivacy.org) proves for the exponential
mechanism that |M(x) - f(x)| <= LS^k(x) with probability 1 - beta for k = floor((2 / epsilon) log(|Y| / beta)). The
study expects that the theorem holds on every dataset, usually by a wide margin, because few answers are as unlikely as
the proof assumes. The theorem is nearly attained only where 2 k + 1 records are all equal, so that LS^k = 0 and all
other answers have a loss of k + 1. The source mentions other selectors in a note and claims nothing about them.
Permute-and-flip is never less accurate. Report noisy max with Laplace noise fails more often than the theorem allows on
these datasets if beta is small. The same holds for slopes of median regression, whose loss has a closed form as the
source says.

`epsaudit.experiments.medians` compares the errors of medians with those of smooth sensitivity, propose-test-release and
Laplace noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.experiments import medians
from epsaudit.experiments.data import anes96, answers, fair
from epsaudit.experiments.studies import write_data, write_table
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, Losses, MedianLosses, SlopeLosses
from epsaudit.mechanisms.selection import SELECTORS, GapMax
from epsaudit.text import upper
from epsaudit.tools.reporting.tables import TableColumn

EPSILON = 1.0
BETAS = (0.5, 0.1, 0.01)
ERROR = 0.001
AGES = MedianLosses(tuple(range(18, 100)))
SLOPES = SlopeLosses(tuple(range(21)), most=50)
"""Candidate slopes of median regression: years of marriage per year of age after 17, in tenths. The largest age in the
survey, 42, is 50 half-years above 17."""
_NEAR = [2 * InverseSensitivity(EPSILON, AGES).reach(beta) + 1 for beta in BETAS]
DATASETS: dict[str, tuple[int, ...]] = {
    **{f"{records} of one age": (40,) * records for records in _NEAR},
    "all of one age": (40,) * 201,
    "two ages": (20,) * 101 + (90,) * 100,
    "evenly spread": tuple(range(18, 99)),
    "nearest to the ends": (18,) * 26 + (99,) * 25,
}
COLUMNS = (
    TableColumn("dataset", "dataset"),
    TableColumn("selector", "selector"),
    TableColumn("failures", "failures", "count"),
    TableColumn("at most", "at most", "upper"),
    TableColumn("exact", "exact", "number"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure the failures of every selector on every dataset, and write data and a table to ``out``."""
    runs = 1_000 if quick else 100_000
    rows = list(failures(runs, seed))
    errors = list(medians.errors(seed, 1 if quick else 5))
    sensitivities = list(medians.local_sensitivities(200 if quick else 20_000, seed))
    facts = {"errors": errors, "local sensitivities": sensitivities}
    write_data(out, rows, seed=seed, epsilon=EPSILON, confidence=1.0 - ERROR, delta=medians.DELTA, **facts)
    caption = (
        f"Inverse sensitivity at ε = {EPSILON:g}: answers farther off than the k-local sensitivity LS^k, of "
        f"{runs:,}, with one-sided 99.9% Clopper-Pearson limits, and the exact probability; Theorem 4 guarantees "
        f"β = {BETAS[1]:g} at most, for the exponential mechanism."
    )
    write_table(out, [row for row in rows if row["beta"] == BETAS[1]], COLUMNS, caption)
    return f"{answer(rows)} {medians.answer(errors, sensitivities)}"


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on how often the failure probability exceeds beta, and on the worst case of each selector."""
    parts = []
    for selector in dict.fromkeys(row["selector"] for row in rows):
        mine = [row for row in rows if row["selector"] == selector]
        nearest = max(mine, key=lambda row: row["exact"] / row["beta"])
        parts.append(
            f"{selector} in {sum(row['exact'] > row['beta'] for row in mine)}, at most "
            f"{upper(nearest['exact'] / nearest['beta'], 2)} beta ({nearest['dataset']}, beta = {nearest['beta']:g})"
        )
    cases = len(rows) // len(parts)
    return f"The exact probability of a larger error is above beta, of {cases} cases: {'; '.join(parts)}."


def cases() -> dict[str, tuple[Losses, Any]]:
    """Return the cases by name: a query, the median or a slope of median regression, and its dataset."""
    wives = tuple((int(2 * wife.age) - 34, int(20 * wife.years_married)) for wife in fair()[:201])
    ages = {"voters of 1996": answers(anes96(), "age")[:-1], **DATASETS}
    return {**{name: (AGES, dataset) for name, dataset in ages.items()}, "slope, 201 wives": (SLOPES, wives)}


def failures(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the share of answers whose error exceeds LS^k, with Clopper-Pearson limits and the exact probability.

    The limits are one-sided at 99.9 % confidence each.
    """
    for place, (name, (query, dataset)) in enumerate(cases().items()):
        for number, (selector_name, selector) in enumerate(SELECTORS.items()):
            if selector is GapMax:  # this selector refuses to answer instead of erring
                continue
            mechanism = InverseSensitivity(EPSILON, query, selector)
            law = mechanism(dataset)
            draws = law.sample(runs, np.random.default_rng([seed, place, number]))
            for beta in BETAS:
                allowed = query.local_sensitivity(dataset, mechanism.reach(beta))
                wrong = np.abs(np.array(query.candidates) - query.value(dataset)) > allowed
                seen = int(np.count_nonzero(np.abs(draws - query.value(dataset)) > allowed))
                yield {
                    "dataset": name,
                    "selector": selector_name,
                    "beta": beta,
                    "k": mechanism.reach(beta),
                    "LS^k": float(allowed),
                    "runs": runs,
                    "failures": seen,
                    "at least": float(clopper_pearson_lower(seen, runs, ERROR)),
                    "at most": float(clopper_pearson_upper(seen, runs, ERROR)),
                    "exact": float(np.exp(law.log_probabilities)[wrong].sum()),  # type: ignore[attr-defined]
                }

"""Shuffled randomised response: closed forms, numeric bound, exact value, audits.

The source (differentialprivacy.org, 'Privacy Doona') states a closed form after Feldman, McMillan and Talwar (2021).
According to it, epsilon falls like 1 / sqrt(n), and grows like e^(epsilon_L / 2) for a large local epsilon. The study
expects, at delta = 1e-6:

1. exact <= numeric (Feldman, McMillan and Talwar 2022) <= numeric of 2021 <= closed form of 2021 <= closed form of the
   source, which is an order of magnitude above the exact value; numeric <= closed form of 2022.
2. Certified bounds are below the exact value, with 95 % joint confidence. They are 0 where the exact value is so small
   that the runs cannot show it.
3. The same holds for four answers. There, users who hold a third answer hide less than users who hold one of the two
   answers of the pair. The exact value for users with a third answer is computed for up to 3,000 users. A pair in the
   form of the variation-ratio reduction (Wang et al. 2023), as it is built here, has a slightly *smaller* value, so its
   value is not an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from epsaudit import AuditError, DatasetPair, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.amplification import (
    closed_form,
    closed_form_2021,
    closed_form_2022,
    numeric_2021,
    variation_ratio,
)
from epsaudit.mechanisms.shuffling import MOST_IN_THREE_COUNTS, ShuffledResponse
from epsaudit.mechanisms.shuffling_search import can_be_searched
from epsaudit.text import count, lower, nearest, percent, upper
from epsaudit.tools.reporting.tables import TableColumn

DELTA, CONFIDENCE, LOCAL = 1e-6, 0.95, 1.0
USERS = {2: 10_000, 4: 1000}
"""Number of users in the sweep of the local epsilon, by the number of answers."""
MANY_USERS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
ANSWERS = (2, 4)
LOCALS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
AUDITED = {("users", 100), ("users", 1000), ("users", 10_000), ("users", 100_000)} | {
    ("local epsilon", epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0)
}
CLOSED: dict[str, Callable[[float, int, float], float]] = {
    "closed form": closed_form,
    "closed form 2021": closed_form_2021,
    "closed form 2022": closed_form_2022,
}
COLUMNS = (
    TableColumn("answers", "k", "count"),
    TableColumn("users", "n", "count"),
    TableColumn("local epsilon", "local ε", "number"),
    TableColumn("certified", "certified", "lower", 3),
    TableColumn("exact", "exact", "number", 4),
    TableColumn("exact, third", "exact, third", "number", 4),
    TableColumn("exact, all datasets", "exact, all datasets", "number", 4),
    TableColumn("variation ratio", "variation ratio", "number", 4),
    TableColumn("numeric", "numeric", "upper", 4),
    TableColumn("numeric 2021", "numeric, 2021", "upper", 4),
    TableColumn("closed form 2022", "closed, 2022", "upper", 4),
    TableColumn("closed form", "closed", "upper", 4),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Compute every bound along both sweeps, audit some points, and write data and a table to ``out``."""
    trials, most = (10_000, 1000) if quick else (4_000_000, 1_000_000)
    cases = [point for answers in ((2,) if quick else ANSWERS) for point in sweeps(most, answers)]
    rows = on_all_cores(lambda case: bounds(*case, trials, seed), cases)
    write_data(out, rows, seed=seed, runs=trials, confidence=CONFIDENCE, delta=DELTA)
    write_table(
        out,
        rows,
        COLUMNS,
        f"Epsilon at delta = {DELTA:g} of n users' shuffled k-ary randomised responses ({count(trials)} runs an audit, "
        f"{percent(CONFIDENCE)} confidence that all hold; exact among users who all hold one of the two "
        "answers, or a third one, which is the loss of a pair and a lower bound on the mechanism's; and the greatest "
        "of all datasets, where these are few).",
    )
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence with all bounds for the largest audited number of users in the sweep of users."""
    chosen = [row for row in rows if row["sweep"] == "users" and row["answers"] == 2 and row["certified"] is not None]
    row = max((row for row in chosen if row["users"] <= USERS[2]), key=lambda row: row["users"])
    return (
        f"{row['users']:,} users, local epsilon {nearest(row['local epsilon'])}, delta = {DELTA:g}: exact "
        f"{nearest(row['exact'])}, numeric {upper(row['numeric'])}, closed forms "
        f"{upper(row['closed form 2022'])} (2022) and {upper(row['closed form'])} (the source's), "
        f"certified {lower(row['certified'])}."
    )


def sweeps(most: int, answers: int) -> list[tuple[str, int, float, int]]:
    """Return the points of both sweeps, with at most ``most`` users.

    A point is the swept quantity, the number of answers, the local epsilon and the number of users.
    """
    points = [("users", answers, LOCAL, users) for users in MANY_USERS if users <= most]
    return points + [("local epsilon", answers, epsilon, min(USERS[answers], most)) for epsilon in LOCALS]


def bounds(sweep: str, answers: int, epsilon: float, users: int, trials: int, seed: int) -> dict[str, Any]:
    """Return every bound at a number of users and a local epsilon as one row."""
    mechanism = ShuffledResponse(epsilon, users, DELTA, answers)
    worst, third_pair, alike = mechanism.worst_pairs()[0], mechanism.simple_pairs()[0], mechanism.simple_pairs()[-1]
    third = answers > 2 and users <= MOST_IN_THREE_COUNTS
    row: dict[str, Any] = {
        "sweep": sweep,
        "answers": answers,
        "users": users,
        "local epsilon": epsilon,
        "numeric": mechanism.claim.parameter,
        "exact": _epsilon(mechanism, alike),
        "exact, third": _epsilon(mechanism, third_pair) if third else math.nan,
        "exact, all datasets": _epsilon(mechanism, worst) if can_be_searched(users, answers) else math.nan,
        "variation ratio": variation_ratio(epsilon, users, DELTA, answers),
        "numeric 2021": numeric_2021(epsilon, users, DELTA),
        **{name: _or_nan(form, epsilon, users) for name, form in CLOSED.items()},
        "certified": None,
    }
    if (sweep, row[sweep]) in AUDITED:
        result = audit(
            mechanism,
            worst,
            trials=trials,
            confidence=1.0 - (1.0 - CONFIDENCE) / (2 * len(AUDITED)),
            seed=entry_seed(seed, f"{sweep} {answers} {epsilon} {users}"),
            n_jobs=1,
        )
        row |= {"certified": result.lower_bound, "witness": str(result.witness)}
    return row


def _epsilon(mechanism: ShuffledResponse, pair: DatasetPair) -> float:
    return exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), DELTA)


def _or_nan(form: Callable[[float, int, float], float], epsilon: float, users: int) -> float:
    """Return the value of a closed form, or NaN if its condition does not hold."""
    try:
        return form(epsilon, users, DELTA)
    except AuditError:
        return math.nan

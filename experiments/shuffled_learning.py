"""Learning and testing of distributions under shuffling, beside the central and the local model.

The source (differentialprivacy.org, 'Privacy Doona') says of both tasks that an optimal locally private algorithm, if
its messages are shuffled, is about as good as a central algorithm. Each user holds a draw from a law on k answers and
sends a Hadamard response (Acharya, Sun and Zhang 2019). Five models are compared at (epsilon, delta) = (1, 1e-6):

1. no privacy: exact counts;
2. central: counts with Laplace noise for learning, and a statistic of sensitivity 1/n with Laplace noise for testing
   (Acharya, Sun and Zhang 2018);
3. shuffled, with the local epsilon from the numeric bound;
4. shuffled, with the local epsilon from the source's closed form (1);
5. local, with the local epsilon equal to epsilon.

Learning is measured by the total variation distance, on a law with probabilities proportional to 1/x. Testing is
measured by the power against laws with probabilities (1 + 2 alpha)/k and (1 - 2 alpha)/k, with false alarms allowed in
a third of the cases as in the source. Testing is also measured for users who share a coin: a random partition into
about e^epsilon parts, of which each user reports the one that contains the answer. The study also computes the privacy
loss of the local epsilon from the source's (5), which 'ignores pesky constants'. The study stands apart from
`shuffling`, because it measures utility and not privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from epsaudit import AuditError
from epsaudit.array_types import Floats
from epsaudit.audits.suite import entry_seed
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_table
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.amplification import closed_form, local_epsilon, numeric
from epsaudit.mechanisms.response import HadamardResponse
from epsaudit.mechanisms.shuffling import ShuffledResponse
from epsaudit.text import nearest
from epsaudit.tools.reporting.figures import (
    BLUE,
    GREEN,
    PURPLE,
    TWO_COLUMNS,
    VERMILION,
    new_figure,
    place_legend_below,
    styled,
)
from epsaudit.tools.reporting.tables import TableColumn

EPSILON, DELTA, ANSWERS = 1.0, 1e-6, 100
DISTANCE = 0.1
"""Total variation distance at which a law counts as learnt, and distance of the tested laws from the uniform one."""
FALSE_ALARMS = 1.0 / 3.0
USERS = tuple(round(10 ** (power / 4)) for power in range(10, 29))
"""Numbers of users, from 316 to 10^7."""
MOST_EXACT = 1_000_000
"""Largest number of users for exact values. Beyond it, rounding errors of factorials reach 1e-9."""
MODELS = {
    "no privacy": ("no privacy", "black", ":"),
    "central": ("central", GREEN, "-."),
    "shuffled": ("shuffled, numeric bound", BLUE, "-"),
    "shuffled, closed form": ("shuffled, closed form (1)", PURPLE, (0, (1, 1))),
    "local": ("local", VERMILION, "--"),
}
COINS = {
    "shuffled, public coin": ("shuffled, public coin", BLUE, (0, (1, 1))),
    "local, public coin": ("local, public coin", VERMILION, (0, (1, 1))),
}
"""Tests in which the users share a random partition of the answers and report the part that contains their own answer.
"""
TESTS = MODELS | COINS
COLUMNS = (
    TableColumn("users", "n", "count"),
    TableColumn("local epsilon", "local ε, numeric", "number"),
    TableColumn("local epsilon, closed form", "local ε, (1)", "number"),
    TableColumn("local epsilon, (5)", "local ε, (5)", "number"),
    TableColumn("exact at (5)", "ε at (5), k = 2", "number"),
    *(TableColumn(f"distance, {model}", f"TV, {label}", "number") for model, (label, _, _) in MODELS.items()),
    *(TableColumn(f"power, {model}", f"power, {label}", "number") for model, (label, _, _) in TESTS.items()),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Run the study, and write data, a figure and a table to ``out``."""
    runs = 300 if quick else 3000
    chosen = USERS[::4] if quick else USERS
    rows = on_all_cores(lambda users: row_for(users, runs, seed), chosen, cost=float)
    write_data(out, rows, seed=seed, runs=runs, epsilon=EPSILON, delta=DELTA, answers=ANSWERS, needed=needed(rows))
    write_figure(out / "shuffled-learning", draw(rows))
    caption = (
        "Mean total variation distance of estimates, and power against laws "
        f"{DISTANCE:g} from uniform where a third of alarms may be false; k = {ANSWERS}, ({EPSILON:g}, {DELTA:g})-DP, "
        f"{runs:,} runs of each test; and what (5) loses, exactly, for k = 2."
    )
    write_table(out, rows, COLUMNS, caption)
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on the number of users that each model needs."""
    parts = [
        f"{task}: "
        + ", ".join(f"{model} {'more' if users is None else format(users, ',')}" for model, users in by.items())
        for task, by in needed(rows).items()
    ]
    middle = rows[len(rows) // 2]
    return (
        f"Users needed for {'; for '.join(parts)}. At {middle['users']:,} users the local epsilon of (5) gives epsilon "
        f"{nearest(middle['exact at (5)'])} with two answers, where {EPSILON:g} is wanted."
    )


def needed(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, int | None]]:
    """Return, for each task and model, the smallest number of users from which on the task succeeds.

    The number is None if the task does not succeed for the most users.
    """
    tasks: dict[str, Callable[[dict[str, Any], str], bool]] = {
        f"a distance of {DISTANCE:g}": lambda row, model: row[f"distance, {model}"] <= DISTANCE,
        "a power of 2/3": lambda row, model: row[f"power, {model}"] >= 1.0 - FALSE_ALARMS,
    }
    found: dict[str, dict[str, int | None]] = {}
    for task, done in tasks.items():
        found[task] = {}
        for model in TESTS if "power" in task else MODELS:
            late = [row["users"] for row in rows if not done(row, model)]
            enough = [row["users"] for row in rows if not late or row["users"] > max(late)]
            found[task][model] = min(enough, default=None)
    return found


def row_for(users: int, runs: int, seed: int) -> dict[str, Any]:
    """Return all measurements at one number of users as one row."""
    by_five = EPSILON**2 * users / math.log(1.0 / DELTA)
    five = math.log(by_five) if by_five > 1.0 else EPSILON * math.sqrt(users / math.log(1.0 / DELTA))
    two = ShuffledResponse(five, users, DELTA)
    alike = two.worst_pairs()[-1]
    local = {
        "shuffled": max(
            EPSILON, local_epsilon(EPSILON, users, DELTA, lambda one: HadamardResponse(one, ANSWERS).clone_answers)
        ),
        "shuffled, closed form": max(EPSILON, _from_closed_form(users)),
        "shuffled, public coin": max(EPSILON, local_epsilon(EPSILON, users, DELTA, _clones_of_parts)),
        "local": EPSILON,
        "local, public coin": EPSILON,
    }
    row: dict[str, Any] = {
        "users": users,
        "local epsilon": local["shuffled"],
        "local epsilon, closed form": local["shuffled, closed form"],
        "local epsilon, (5)": five,
        "exact at (5)": exact.epsilon(two(alike.x), two(alike.x_prime), DELTA) if users <= MOST_EXACT else None,
        "numeric at (5)": numeric(five, users, DELTA, HadamardResponse(five, ANSWERS).clone_answers),
    }
    for model in TESTS:
        rng = np.random.default_rng(entry_seed(seed, f"{model} {users}"))
        epsilon = local.get(model)
        if model in MODELS:
            row[f"distance, {model}"] = distance(model, epsilon, users, runs // 10, rng)
        row[f"power, {model}"] = power(model, epsilon, users, runs, rng)
    return row


def distance(model: str, epsilon: float | None, users: int, runs: int, rng: np.random.Generator) -> float:
    """Return the mean total variation distance between the estimate and the law of the users' answers."""
    law = 1.0 / np.arange(1, ANSWERS + 1)
    law /= law.sum()
    if epsilon is not None:
        response = HadamardResponse(epsilon, ANSWERS)
        shares = response.estimate(rng.multinomial(users, law @ response.chances, runs))
    else:
        counts = rng.multinomial(users, law, runs)
        noise = rng.laplace(0.0, 2.0 / EPSILON, counts.shape) if model == "central" else 0.0
        shares = (counts + noise) / users
    return float(0.5 * np.abs(onto_simplex(shares) - law).sum(axis=1).mean())


def power(model: str, epsilon: float | None, users: int, runs: int, rng: np.random.Generator) -> float:
    """Return the power of the uniformity test on a law that is not uniform.

    The threshold of the test is exceeded by a third of the samples from the uniform law.
    """
    parts = parts_for(epsilon) if epsilon is not None and model in COINS else ANSWERS
    signs = np.where(np.arange(ANSWERS) < ANSWERS // 2, 1.0, -1.0)
    # for each run, the more likely answers and the partition are drawn at random
    signs = rng.permuted(np.tile(signs, (runs, 1)), axis=1).reshape(runs, parts, -1).mean(axis=2)
    uniform = np.full(parts, 1.0 / parts)
    far = uniform * (1.0 + 2.0 * DISTANCE * signs)
    statistics = []
    for law in (uniform, far):
        if epsilon is not None:
            chances = HadamardResponse(epsilon, parts).chances
            expected = users * (uniform @ chances)
            counts = rng.multinomial(users, law @ chances, runs)
            statistics.append((((counts - expected) ** 2 - counts) / expected).sum(axis=1))
        else:
            counts = rng.multinomial(users, law, runs)
            noise = rng.laplace(0.0, 1.0 / (users * EPSILON), runs) if model == "central" else 0.0
            statistics.append(0.5 * np.abs(counts / users - uniform).sum(axis=1) + noise)
    return float(np.mean(statistics[1] > np.quantile(statistics[0], 1.0 - FALSE_ALARMS, method="higher")))


def parts_for(epsilon: float) -> int:
    """Return the number of equal parts of a shared partition: about e^epsilon, which is optimal up to a constant.

    Examples
    --------
    >>> parts_for(1.0), parts_for(3.0), parts_for(9.0)
    (2, 20, 100)
    """
    return max(
        parts for parts in range(2, ANSWERS + 1) if ANSWERS % parts == 0 and parts <= max(2.0, math.exp(epsilon))
    )


def onto_simplex(shares: Floats) -> Floats:
    """Return the nearest probability law to each row, in Euclidean distance.

    Examples
    --------
    >>> onto_simplex(np.array([[0.9, 0.4, -0.2]])).round(3).tolist()
    [[0.75, 0.25, 0.0]]
    """
    ordered = -np.sort(-shares, axis=1)
    over = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, shares.shape[1] + 1)
    last = np.sum(ordered > over, axis=1) - 1
    return np.maximum(shares - over[np.arange(len(shares)), last][:, None], 0.0)


def _clones_of_parts(epsilon: float) -> float:
    return HadamardResponse(epsilon, parts_for(epsilon)).clone_answers


def _from_closed_form(users: int) -> float:
    """Return the largest local epsilon that the source's closed form allows, or 0 if it allows none."""
    low, high = 0.0, math.log(users)
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        try:
            low, high = (middle, high) if closed_form(middle, users, DELTA) <= EPSILON else (low, middle)
        except AuditError:  # the condition of the closed form fails
            high = middle
    return low


@styled()
def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw the distance and the power against the number of users."""
    figure = new_figure(TWO_COLUMNS, 2.9)
    users = [row["users"] for row in rows]
    for axes, what in zip(figure.subplots(1, 2), ("distance", "power"), strict=True):
        # shared coins are for tests only, but appear in the legend of both panels
        for model, (label, colour, dashes) in TESTS.items():
            values = [row.get(f"{what}, {model}", np.nan) for row in rows]
            axes.plot(users, values, color=colour, linestyle=dashes, label=label)
        axes.set_xscale("log")
        axes.set_xlabel("users n")
    learning, testing = figure.axes
    learning.set_yscale("log")
    learning.set_ylabel("total variation distance")
    learning.set_title(f"learning, k = {ANSWERS}, probabilities as 1/x")
    testing.axhline(1.0 - FALSE_ALARMS, color="0.7", linewidth=0.6)
    testing.set_ylabel("power at a third of false alarms")
    testing.set_title(f"uniformity testing, k = {ANSWERS}, α = {DISTANCE:g}")
    place_legend_below(figure, 4)
    return figure

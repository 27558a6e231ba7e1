"""Statements in teaching material about utility, tails and approximations that fail, each with its exact value.

These statements make no privacy claim that could be audited. Each is a probability that is stated too large, or a
number that does not follow from the formula from which it is taken. The probabilities are computed from exact laws and
certified by Clopper-Pearson limits on fresh runs; the numbers are exact. `epsaudit.experiments.published_claims` writes
the statements to its page.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta as beta_law
from scipy.stats import binom, norm

from epsaudit.bounds.certificates import clopper_pearson_upper
from epsaudit.experiments.histogram_utility import chance_of_the_lead
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.amplification import closed_form, local_epsilon
from epsaudit.mechanisms.broken.down_sensitivity import PublishedBinarySearch
from epsaudit.mechanisms.broken.local_sensitivity import PublishedBoundedRatio
from epsaudit.mechanisms.broken.selection import PublishedMode
from epsaudit.mechanisms.down_sensitivity import LaplaceBinarySearch
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, LaplaceLaw
from epsaudit.mechanisms.queries import Maximum
from epsaudit.mechanisms.ratio import local_sensitivity
from epsaudit.mechanisms.shuffling import ShuffledResponse
from epsaudit.mechanisms.stability import ProposeTestRelease, StableMode

TEXTS = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
KINDS: dict[str, str] = dict(TEXTS["kinds"].values())
"""The kinds of rows on the page, each with an explanation."""
CLAIM, READING, MISTAKE = KINDS

SOURCES = (
    "'Privately bounding local sensitivity', blog post, 20 July 2024",
    "lecture notes on propose-test-release, stable histograms and local sensitivity",
    "T. Steinke, 'Beyond Global Sensitivity via Inverse Sensitivity', differentialprivacy.org, 5 September 2023, "
    "<https://differentialprivacy.org/inverse-sensitivity/>",
    "T. Steinke, 'Beyond Local Sensitivity via Down Sensitivity', differentialprivacy.org, 12 September 2023, "
    "<https://differentialprivacy.org/down-sensitivity/>",
    "C. Canonne, 'Privacy Doona: Why We Should Hide Among The Clones', differentialprivacy.org, 24 May 2022, "
    "<https://differentialprivacy.org/privacy-doona/>",
)
"""The sources that the rows quote."""

Occurrences = Callable[[int, np.random.Generator], int]


@dataclass(frozen=True)
class Statement:
    """A number as stated, and its exact value. The texts stand in ``published.toml`` under the name of the statement.

    Parameters
    ----------
    stated, exact : float
        The stated number and the exact one. For a probability, ``stated`` is the promised lower limit.
    kept : float
        The number that the corrected statement gives. It is at least ``stated`` for a promised probability, at most
        ``stated`` for an upper bound, and equal or close to ``exact`` for a formula.
    occurs : callable, optional
        For a probability, ``occurs(runs, rng)`` returns the number of runs in which the event happens; None for other
        numbers.
    bound : bool
        Whether ``stated`` is an upper bound that ``exact`` exceeds. Otherwise it is a number or a probability.
    numbers : dict
        Numbers that are inserted into the texts.
    """

    name: str
    stated: float
    exact: float
    kept: float
    occurs: Occurrences | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    bound: bool = False

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the page: kind, source, what the source says, what holds instead, and why."""
        said = {name: text.format(**self.numbers) for name, text in TEXTS["statements"][self.name].items()}
        return {"kind": TEXTS["kinds"][said.pop("is")][0], **said}

    @property
    def fails(self) -> bool:
        """Whether the exact number contradicts the stated one."""
        if self.bound:
            return self.exact > self.stated
        if self.occurs is None:
            return not math.isclose(self.stated, self.exact, rel_tol=0.01)
        return self.exact < self.stated


def statements() -> list[Statement]:
    """Return every statement of the page.

    Examples
    --------
    >>> all(statement.fails for statement in statements())
    True
    """
    return [
        *_mode_statements(),
        *_bounds_statements(),
        *_laplace_statements(),
        _selector_statement(),
        *_shuffling_statements(),
        _least_output_statement(),
        *_ratio_statements(),
        _early_return_statement(),
        *_lemma_statements(),
        _median_statement(),
    ]


def check_statement(statement: Statement, runs: int, seed: int, alpha: float = 0.001) -> dict[str, Any]:
    """Return the row of one statement.

    The row of a probability includes the upper Clopper-Pearson limit from ``runs`` fresh runs.

    Examples
    --------
    >>> row = check_statement(statements()[0], runs=1000, seed=0)
    >>> row["certified"] < row["stated"]
    True
    """
    row = {name: getattr(statement, name) for name in ("name", "stated", "exact", "kept")}
    row |= {**statement.texts, "certified": None}
    if statement.occurs is not None:
        seen = statement.occurs(runs, np.random.default_rng(seed))
        row |= {"certified": float(clopper_pearson_upper(seen, runs, alpha)), "occurred": seen, "runs": runs}
    return row | {"fails": statement.fails}


def _mode_statements() -> list[Statement]:
    """Return the statements on the lead at which the mode is said to be selected with probability 1 - delta."""
    published, corrected = (ProposeTestRelease(query, 1.0, 0.01) for query in (PublishedMode(), StableMode()))
    threshold, enough = published.threshold, math.ceil(2.0 * math.log(100.0) - math.log(2.0) + 1.0)

    def chance(mechanism: ProposeTestRelease, lead: int) -> float:
        return math.exp(float(mechanism(("a",) * lead).log_density(["a"])[0]))  # type: ignore[attr-defined]  # a finite law

    def comes_out(mechanism: ProposeTestRelease) -> Occurrences:
        law = mechanism(("a",) * 5)
        return lambda runs, rng: sum(output == "a" for output in law.sample(runs, rng).tolist())

    kept, numbers = chance(corrected, enough), {"threshold": threshold, "enough": enough}
    return [
        Statement("lead at which the mode comes out", 0.99, chance(published, 5), kept, comes_out(published), numbers),
        Statement(
            "the same, of the mode with a corrected distance",
            0.99,
            chance(corrected, 5),
            kept,
            comes_out(corrected),
            numbers,
        ),
        Statement(
            "propose-test-release with a bound of 0",
            0.99,
            math.exp(-threshold) / 2.0,
            kept,
            lambda runs, rng: int(np.sum(LaplaceLaw(0.0, 1.0).sample(runs, rng) > threshold)),
            numbers,
        ),
    ]


def _bounds_statements() -> list[Statement]:
    """Return the statement that two noisy counts are both within their bounds."""
    rate, reach = 1.0, 4  # reach = log(2 / delta) / rate
    delta = 2.0 * math.exp(-rate * reach)
    law = DiscreteLaplaceLaw(0, 1.0 / rate)

    def inside(least: int) -> float:
        return float(np.exp(law.log_density(np.arange(1 - least, least))).sum()) ** 2

    def both_inside(runs: int, rng: np.random.Generator) -> int:
        return int(np.sum((np.abs(law.sample(runs, rng)) < reach) & (np.abs(law.sample(runs, rng)) < reach)))

    enough = math.ceil(math.log(4.0 / (delta * (1.0 + math.exp(-rate)))) / rate)
    numbers = {"enough": enough, "reach": reach}
    return [
        Statement("two counts within their bounds", 1.0 - delta, inside(reach), inside(enough), both_inside, numbers)
    ]


def _laplace_statements() -> list[Statement]:
    """Return the statements on the Laplace mechanism, with which the source compares inverse sensitivity."""
    beta, outputs = 0.1, 100

    def within(runs: int, rng: np.random.Generator) -> int:
        return int(np.sum(np.abs(LaplaceLaw(0.0, 1.0).sample(runs, rng)) <= -math.log(2.0 * beta)))

    stated = 2.0 * math.log(2.0 * outputs) / -math.log(2.0 * beta) + 2.0
    exact = 2.0 * math.log(outputs) / -math.log(beta) + 2.0
    return [
        Statement("tail of Laplace noise", 1.0 - beta, 1.0 - 2.0 * beta, 1.0 - beta, within),
        Statement("inverse sensitivity against Laplace noise, in the worst case", stated, exact, exact),
    ]


def _selector_statement() -> Statement:
    """Return the statement on the accuracy of inverse sensitivity with report noisy max.

    On the dataset, 2 k + 1 records are equal, so that LS^k = 0 and no other answer is accurate enough. All other
    answers have a loss of k + 1. With noise of scale 2 / epsilon, each of them beats the true answer with probability
    (2 + g) e^-g / 4, where g = epsilon (k + 1) / 2; with the exponential mechanism this probability is at most e^-g.
    """
    beta, outputs = 0.01, 133  # so many outputs that rounding k matters little
    k = math.floor(2.0 * math.log(outputs / beta))
    enough = next(k for k in range(k, 4 * k) if (outputs - 1) * (5 + k) * math.exp(-(k + 1) / 2.0) / 8.0 <= beta)

    def right(runs: int, rng: np.random.Generator) -> int:
        noise = LaplaceLaw(0.0, 2.0)
        # the largest of so many draws: F^-1 of the largest uniform number
        share = rng.random(runs) ** (1.0 / (outputs - 1))
        greatest = np.where(share < 0.5, np.log(2.0 * share), -np.log(2.0 * (1.0 - share))) * noise.scale
        return int(np.sum(noise.sample(runs, rng) + k + 1 > greatest))

    least, most = (chance_of_the_lead(outputs, lead + 1.0, 0.5) for lead in (k, enough))
    numbers = {"records": 2 * k + 1, "outputs": outputs, "beta": beta, "enough": enough, "k": k}
    return Statement("inverse sensitivity with report noisy max", 1.0 - beta, least, most, right, numbers)


def _shuffling_statements() -> list[Statement]:
    """Return the statements on approximations of the amplification bound.

    The bound itself is far from tight, so they do not endanger privacy.
    """
    local, users, delta = 5.0, 10**8, 1e-6
    root = math.sqrt(math.exp(local) * math.log(4.0 / delta) / users)
    bound = closed_form(local, users, delta)
    k, alpha, epsilon = 100, 0.1, 0.01
    first = k**2 / (alpha**2 * math.expm1(epsilon) ** 2)
    return [
        Statement("shuffling, large local epsilon", math.log1p(8.0 * root), bound, math.log1p(16.0 * root)),
        Statement("shuffling, large local epsilon, first order", 8.0 * root, bound, 16.0 * root),
        Statement(
            "distribution learning, small local epsilon",
            k / (alpha * epsilon) ** 2,
            first,
            (k / (alpha * epsilon)) ** 2,
        ),
        _local_epsilon_statement(),
    ]


def _local_epsilon_statement() -> Statement:
    """Return the statement on the source's choice of the local epsilon for two answers.

    Its exact number is the epsilon of the worst pair after shuffling.
    """
    users, delta, wanted = 10**4, 1e-6, 1.0
    chosen = math.log(wanted**2 * users / math.log(1.0 / delta))
    allowed = local_epsilon(wanted, users, delta, lambda _: 2)

    def shuffled(local: float) -> float:
        response = ShuffledResponse(local, users, delta)
        pair = response.worst_pairs()[-1]
        return exact.epsilon(response(pair.x), response(pair.x_prime), delta)

    return Statement(
        "choice of the local epsilon before shuffling",
        wanted,
        shuffled(chosen),
        shuffled(allowed),
        numbers={"chosen": chosen, "allowed": allowed},
        bound=True,
    )


def _least_output_statement() -> Statement:
    """Return the statement on a search whose answer f(x) is the least output.

    The published search never returns this output.
    """
    query, beta = Maximum((0, 1, 2)), 0.05
    published = PublishedBinarySearch.calibrated(query, 1.0, beta)(())
    corrected = LaplaceBinarySearch.calibrated(query, 1.0, beta)(())

    def at_most_the_answer(runs: int, rng: np.random.Generator) -> int:
        return int(np.sum(published.sample(runs, rng) <= 0))

    chances = [math.exp(float(law.log_density(np.array([0]))[0])) for law in (published, corrected)]
    return Statement("search whose answer is the least output", 1.0 - beta, *chances, at_most_the_answer)


def _ratio_statements() -> list[Statement]:
    """Return the statements on the local sensitivity of a ratio among 10 records with no ones, and with only ones."""
    records = 10
    rows = (("no ones", 0), ("nothing but ones", records))
    return [
        Statement(
            f"local sensitivity of a ratio of {what}",
            max(records - ones, ones) / (records**2 - records),
            _greatest_step(ones, records),
            local_sensitivity(ones, records),
        )
        for what, ones in rows
    ]


def _greatest_step(ones: int, records: int) -> float:
    """Return the largest change of a / b over all neighbours, when one record joins or leaves; b is at least 2."""
    neighbours = [(ones + one, records + 1) for one in (0, 1)] + [(ones - one, records - 1) for one in (0, 1)]
    return max(abs(ones / records - a / b) for a, b in neighbours if 0 <= a <= b)


def _early_return_statement() -> Statement:
    """Return the statement on the code's early return if the lower bound on b is 1 or less.

    The published code uses an undefined variable at this point.
    """
    records, delta = 300, 1e-6
    published = PublishedBoundedRatio(1.0, delta)
    law = DiscreteLaplaceLaw(records, 1.0 / published.rate)
    least = 2 + math.log(2.0 / delta) / published.rate  # noisy counts from here on get an answer

    def answered(runs: int, rng: np.random.Generator) -> int:
        return int(np.sum(law.sample(runs, rng) >= least))

    chance = -math.expm1(float(law.log_cdf(math.ceil(least) - 1)))
    return Statement("the ratio where the records may be few", 1.0, chance, 1.0, answered, {"records": records})


def _lemma_statements() -> list[Statement]:
    """Return statements on one step each of the two proofs that a loss has sensitivity 1.

    The counterexample is the maximum of x = (1, 3) and of x' = (3).
    """
    query, x, x_prime = Maximum((0, 1, 2, 3)), (1, 3), (3,)
    kept_below_one = (1,)  # the largest subset of x whose maximum is at most 1
    loss, less = (int(query.losses(dataset)[0]) for dataset in (x, x_prime))  # removals until the maximum is 0
    # dist(x, x'), and dist(x', ()), after which no record of x' is left
    removed, left = len(x) - len(x_prime), len(x_prime)
    return [
        Statement(
            "subsets in the first lemma", 1.0, float(query.value(x)), float(query.value(kept_below_one)), bound=True
        ),
        Statement(
            "last step of the second lemma",
            loss + removed,
            removed + left,
            less + removed,
            numbers={"stated": loss + removed, "loss": loss, "less": less},
        ),
    ]


def _median_statement() -> Statement:
    """Return the statement on how far one change moves the median of normal samples.

    The stated distance is a constant over the number of records.
    """
    records, beta, many = 1001, 0.01, 100
    slope = 1.5 * math.sqrt(2.0 * math.pi)  # one and a half times the average gap at the median
    enough = math.sqrt(2.0 * math.pi) * (1.0 + math.log(2.0 / beta))

    def within(runs: int, rng: np.random.Generator) -> int:
        middle = records // 2
        moved = []
        for size in np.diff(np.linspace(0, runs, 1 + math.ceil(runs / 1000)).astype(int)):
            ordered = np.sort(rng.normal(size=(size, records)), axis=1)[:, middle - 1 : middle + 2]
            moved.append(np.diff(ordered, axis=1).max(axis=1))
        return int(np.sum(np.concatenate(moved) <= slope / records))

    often = median_moves(records, many, slope * many / records)
    numbers = {"slope": slope, "records": records, "many": many, "often": often}
    return Statement(
        "one change to the median of normal samples",
        1.0 - beta,
        median_moves(records, 1, slope / records),
        median_moves(records, 1, enough / records),
        within,
        numbers,
    )


def median_moves(records: int, changes: int, reach: float) -> float:
    """Return the probability that LS^k of the median of an odd number of normal records is at most ``reach``.

    Given the median m, the records above and below it are independent. At least k records above it must be within
    ``reach``, and at least k records below it. The integral over m is computed by Gauss-Legendre quadrature.

    >>> round(median_moves(1001, 1, 10.0), 6), round(median_moves(1001, 1, 0.0), 6)
    (1.0, 0.0)
    """
    half = records // 2
    spread = math.sqrt(math.pi / (2.0 * records))  # approximate standard deviation of the median
    nodes, weights = np.polynomial.legendre.leggauss(200)
    median = 10.0 * spread * nodes
    density = norm.pdf(median) * beta_law.pdf(norm.cdf(median), half + 1, half + 1)
    above = (norm.cdf(median + reach) - norm.cdf(median)) / norm.sf(median)
    below = (norm.cdf(median) - norm.cdf(median - reach)) / norm.cdf(median)
    within = (np.clip(one, 0.0, 1.0) for one in (above, below))  # rounding errors may give values above 1
    both = np.prod([binom.sf(changes - 1, half, one) for one in within], axis=0)
    return float(10.0 * spread * np.sum(weights * density * both))

"""Shuffled randomised response: how many users gave each answer, without who gave which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.amplification import numeric
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.exact.convolution import bracketed, of_cells
from epsaudit.mechanisms.exact.losses import LossPair
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.shuffling_search import can_be_searched, law_of, worst_neighbours

WIDE = 20.0
"""Standard deviations to either side of the mean that a law lists; the rest has a probability below 1e-80."""
MOST_LISTED, FEW_USERS = 100_000, 1000
"""Greatest numbers of users for which a law lists every count: if all but one hold the same answer, and in general."""
NARROW = 8.5
"""Standard deviations for laws on two counts; the rest has a probability below 1e-15."""
SHORT, MOST_IN_THREE_COUNTS = 6.8, 3000
"""Standard deviations for laws on three counts (the rest is below 1e-11), and the greatest number of users for whom
these laws are enumerated, in a few seconds."""
LOSS_CELLS = 1 << 16


@dataclass(frozen=True)
class TwoBinomials:
    """Number of ones among shuffled binary answers: Binomial(ones, truth) + Binomial(zeros, 1 - truth).

    The convolution adds positive terms in log space, so that tails keep their digits.

    >>> law = TwoBinomials(1, 1, 0.75)
    >>> list(law.support), np.exp(law.log_probabilities).round(4).tolist()
    ([0, 1, 2], [0.1875, 0.625, 0.1875])
    """

    ones: int  # ``ones`` and ``zeros`` are the numbers of users who hold a one and a zero
    zeros: int
    truth: float  # probability of a truthful answer

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.binomial(self.ones, self.truth, size) + rng.binomial(self.zeros, 1.0 - self.truth, size)

    @cached_property
    def support(self) -> range:
        """All counts for few users, or if all users but one hold the same; else those near the mean.

        For other laws the listed counts are within 20 standard deviations of the mean. The greatest loss is then that
        of counts which are not listed, so pure DP is not resolved for so many users.
        """
        users = self.ones + self.zeros
        if users <= (MOST_LISTED if min(self.ones, self.zeros) <= 1 else FEW_USERS):
            return range(users + 1)
        mean = self.ones * self.truth + self.zeros * (1.0 - self.truth)
        reach = math.ceil(WIDE * math.sqrt(users * self.truth * (1.0 - self.truth))) + 20
        return range(max(math.floor(mean) - reach, 0), min(math.ceil(mean) + reach, users) + 1)

    @cached_property
    def log_probabilities(self) -> Floats:
        if min(self.ones, self.zeros) <= 1:
            return self.log_density(np.array(self.support))
        users = self.ones + self.zeros
        reach = math.ceil(1.5 * WIDE * math.sqrt(users * self.truth * (1.0 - self.truth))) + 40
        windows = [
            np.arange(max(math.floor(mean) - reach, 0), min(math.ceil(mean) + reach, number) + 1)
            for number, mean in ((self.ones, self.ones * self.truth), (self.zeros, self.zeros * (1.0 - self.truth)))
        ]
        low, low_other = (int(window[0]) for window in windows)
        first = _log_binomial(windows[0], self.ones, self.truth)
        second = _log_binomial(windows[1], self.zeros, 1.0 - self.truth)
        peak = first.max() + second.max()
        with np.errstate(under="ignore", divide="ignore"):
            sums = np.log(np.convolve(np.exp(first - first.max()), np.exp(second - second.max()))) + peak
        start = low + low_other
        places = np.array(self.support) - start
        inside = (places >= 0) & (places < sums.size)
        listed = np.where(inside, sums[np.clip(places, 0, sums.size - 1)], -np.inf)
        missing = np.isneginf(listed)
        listed[missing] = self._sum(np.array(self.support)[missing])
        return listed

    def log_density(self, outputs: ArrayLike) -> Floats:
        values = np.asarray(outputs, float)
        possible = (values >= 0) & (values <= self.ones + self.zeros) & (values == np.floor(values))
        counts = np.where(possible, values, 0.0)
        if min(self.ones, self.zeros) <= 1:
            return np.where(possible, self._of_one_against_all(counts), -np.inf)
        inside = possible & (values >= self.support.start) & (values < self.support.stop)
        found = self.log_probabilities[np.where(inside, counts - self.support.start, 0).astype(int)]
        result = np.where(inside, found, -np.inf)
        rare = possible & ~inside
        result[rare] = self._sum(counts[rare])
        return result

    def _of_one_against_all(self, counts: Floats) -> Floats:
        """All users but one, or all users, hold the same: a binomial count plus one further answer."""
        ones = self.ones > self.zeros
        number, odd = max(self.ones, self.zeros), min(self.ones, self.zeros)
        chance = self.truth if ones else 1.0 - self.truth
        if odd == 0:
            return _log_binomial(counts, number, chance)
        with np.errstate(divide="ignore", invalid="ignore"):
            more = np.where(counts >= 1, _log_binomial(np.maximum(counts - 1, 0), number, chance), -np.inf)
            same = np.where(counts <= number, _log_binomial(np.minimum(counts, number), number, chance), -np.inf)
        return np.logaddexp(math.log1p(-chance) + more, math.log(chance) + same)

    def _sum(self, counts: Floats) -> Floats:
        """Log-probabilities of a few counts, each summed over all ways to divide it between the two groups."""
        totals = np.empty(len(counts))
        for i, count in enumerate(counts):
            first = np.arange(max(0, int(count) - self.zeros), min(self.ones, int(count)) + 1)
            totals[i] = logsumexp(
                _log_binomial(first, self.ones, self.truth) + _log_binomial(count - first, self.zeros, 1.0 - self.truth)
            )
        return totals


@dataclass(frozen=True)
class HistogramLaw:
    """Histogram of shuffled k-ary answers: a sum of multinomial counts, one for each answer that users hold.

    The exact loss against a neighbour is known where all users but the one in question hold the same answer. It
    depends on two of the counts if the user in question holds this answer, too, in one of the two datasets, and
    otherwise on three. For few users, with at most 100,000 histograms, the loss is known for all datasets, from the
    law of the whole histogram.
    """

    held: tuple[int, ...]  # length k: number of users who hold each answer
    truth: float  # probability of a truthful answer

    @property
    def chances(self) -> Floats:
        answers = len(self.held)
        lie = (1.0 - self.truth) / (answers - 1)
        return np.full((answers, answers), lie) + (self.truth - lie) * np.eye(answers)

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw ``size`` histograms, shape (size, k)."""
        return np.sum(
            [rng.multinomial(users, row, size) for users, row in zip(self.held, self.chances, strict=True)], axis=0
        ).astype(np.int64)

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        """Log-probability of each histogram, if all users, or all but one, hold the same answer or users are few.

        Raises `AuditError` for other datasets.
        """
        rows = np.asarray(outputs, float)
        users, common = sum(self.held), int(np.argmax(self.held))
        if users - self.held[common] > 1:
            return self._listed(rows)
        chances = self.chances
        log_multinomial = gammaln(users + 1.0) + np.sum(xlogy(rows, chances[common]) - gammaln(rows + 1.0), axis=1)
        possible = np.all((rows >= 0) & (rows == np.floor(rows)), axis=1) & (rows.sum(axis=1) == users)
        odd = [answer for answer, held in enumerate(self.held) if held and answer != common]
        if odd:  # this user may have sent any of the answers: sum over them
            log_multinomial += np.log(rows @ (chances[odd[0]] / chances[common]) / users)
        return np.where(possible, log_multinomial, -np.inf)

    @property
    def is_listed(self) -> bool:
        """Whether the number of histograms is small enough to list their probabilities."""
        return math.comb(sum(self.held) + len(self.held) - 1, len(self.held) - 1) <= MOST_LISTED

    @cached_property
    def table(self) -> Floats:
        """Probabilities of all histograms: axis i counts the reports of answer i, without the last answer."""
        return law_of(self.held, self.truth)

    def _listed(self, rows: Floats) -> Floats:
        if not self.is_listed:
            raise AuditError(
                "The law of a histogram is known where all users but one hold the same answer, or where there are at "
                f"most {MOST_LISTED:,} histograms."
            )
        possible = np.all((rows >= 0) & (rows == np.floor(rows)), axis=1) & (rows.sum(axis=1) == sum(self.held))
        places = np.where(possible[:, None], rows, 0.0).astype(int)
        with np.errstate(divide="ignore"):
            logs = np.log(self.table[tuple(places[:, :-1].T)])
        return np.where(possible, logs, -np.inf)

    def loss_against(self, other: HistogramLaw) -> LossPair | None:
        """Return the loss of this law against a neighbour's; None if it is not known.

        It is computed from the joint law of two or three counts, or from the whole histograms if they are listed. Two
        or three counts are summed into 65,536 cells of the loss. `epsaudit.mechanisms.exact` reads this loss.
        """
        users = sum(self.held)
        if sum(other.held) != users or (self.truth, len(self.held)) != (other.truth, len(other.held)):
            return None
        if max(self.held) == users:
            return self._against_one_who_differs(other)
        if max(other.held) == users:
            pair = other._against_one_who_differs(self)
            return None if pair is None else pair.swapped
        if (among := self._among_others(other)) is not None or not self.is_listed:
            return among
        possible = (self.table > 0.0) & (other.table > 0.0)
        return LossPair.of(np.log([self.table[possible], other.table[possible]]))

    def _against_one_who_differs(self, other: HistogramLaw) -> LossPair | None:
        users, common = sum(self.held), int(np.argmax(self.held))
        odd = [answer for answer, held in enumerate(other.held) if held and answer != common]
        if other == self:
            return LossPair.nothing()
        if other.held[common] != users - 1 or len(odd) != 1:
            return None
        row = self.chances[common]
        truth, lie, rest = row[common], row[odd[0]], max(1.0 - row[common] - row[odd[0]], 0.0)
        ratio = truth / lie
        seconds = _window(users, lie)  # numbers of users who sent the answer of the user who differs
        losses, masses = [], []
        for second in seconds.tolist():
            left = users - second
            firsts = _window(left, truth / (truth + rest))
            others = (firsts / ratio + second * ratio + (left - firsts)) / users  # p' / p
            log_p = _log_binomial(second, users, lie) + _log_binomial(firsts, left, truth / (truth + rest))
            losses.append(-np.log(others))
            masses.append(np.exp(log_p))
        return bracketed(np.concatenate(losses), np.concatenate(masses), LOSS_CELLS)

    def _among_others(self, other: HistogramLaw) -> LossPair | None:
        """Return the loss for one user who holds either of two answers, among users who all hold a third answer.

        With a, b and c users who sent the two answers and the third, and r = e^epsilon, the ratio of the laws is (W +
        (r - 1)(a - b)) / (W - (r - 1)(a - b)) for W = 2 n + (r - 1)(a + b) - 2 c (1 - 1 / r).
        """
        users, common = sum(self.held), int(np.argmax(self.held))
        odd = [next((i for i, held in enumerate(law.held) if held and i != common), common) for law in (self, other)]
        alone = all(law.held[common] == users - 1 for law in (self, other))
        if not alone or common in odd or odd[0] == odd[1] or not 2 <= users <= MOST_IN_THREE_COUNTS:
            return None
        truth = self.truth
        lie = (1.0 - truth) / (len(self.held) - 1)
        growth = truth / lie
        rest = max(1.0 - truth - 2.0 * lie, 0.0)
        p, q = np.zeros(LOSS_CELLS), np.zeros(LOSS_CELLS)
        slices = [(both, _window(both, 0.5, SHORT)) for both in _window(users, 2.0 * lie, SHORT).tolist()]
        thirds = [_window(users - both, truth / (truth + rest), SHORT) for both, _ in slices]
        widths = [
            2.0 * users + (growth - 1.0) * both - 2.0 * third * (1.0 - 1.0 / growth)
            for (both, _), third in zip(slices, thirds, strict=True)
        ]
        steps = [(growth - 1.0) * (2.0 * first - both) for both, first in slices]
        greatest = max(
            2.0 * math.atanh(np.abs(one).max() / each.min()) for one, each in zip(steps, widths, strict=True)
        )
        greatest *= 1.0 + 1e-9
        scale = LOSS_CELLS / (2.0 * greatest)
        for (both, first), third, width, one in zip(slices, thirds, widths, steps, strict=True):
            ratio = one[:, None] / width
            place = ((2.0 * np.arctanh(ratio) + greatest) * scale).astype(np.intp).ravel()
            log_mass = _log_binomial(both, users, 2.0 * lie) + _log_binomial(first, both, 0.5)
            log_others = _log_binomial(third, users - both, truth / (truth + rest))
            # over all users alike, whose histogram this would be: one in n of them is the one in question
            mass = np.exp(log_mass)[:, None] * (np.exp(log_others) * width / (2.0 * users))
            p += np.bincount(place, (mass * (1.0 + ratio)).ravel(), LOSS_CELLS)
            q += np.bincount(place, (mass * (1.0 - ratio)).ravel(), LOSS_CELLS)
        return of_cells(p, q, -greatest, 1.0 / scale)


@dataclass(frozen=True)
class OneHolds(Substitution):
    """Substitution of one user's answer, in datasets that list only how many users hold each answer."""

    def holds(self, x: Any, x_prime: Any) -> bool:
        if len(x) != len(x_prime):
            return False
        return sorted(a - b for a, b in zip(x, x_prime, strict=True) if a != b) == [-1, 1]


@dataclass(frozen=True)
class ShuffledResponse(Reference):
    """k-ary randomised response of n users, shuffled (Cheu et al. 2019; Erlingsson et al. 2019): a histogram.

    (epsilon, delta)-DP with the numeric epsilon of Feldman, McMillan and Talwar (2022), and epsilon_L-DP.

    >>> mechanism = ShuffledResponse(1.0, 10_000, 1e-6)
    >>> print(mechanism.claim)
    (0.0432062, 1e-06)-DP
    """

    epsilon: float  # local epsilon of each answer, above 0
    # number of users, at least 2. A dataset is a tuple with the number of users who hold each answer: (number who hold
    # 0, number who hold 1, ...)
    users: int
    delta: float  # delta of the main claim, in (0, 1)
    answers: int = 2  # number k of possible answers
    name: ClassVar[str] = "shuffled response"
    adjacency = OneHolds()
    wholes = {"users": (2, "number of users"), "answers": (2, "number of answers")}

    @cached_property
    def claims(self) -> tuple[Claim, ...]:  # type: ignore[override]  # computed once
        amplified = numeric(self.epsilon, self.users, self.delta, self.answers)
        return (ApproxDP(amplified, self.delta), PureDP(self.epsilon))

    @property
    def truth(self) -> float:
        return 1.0 / (1.0 + (self.answers - 1) * math.exp(-self.epsilon))

    def __call__(self, dataset: Sequence[int]) -> TwoBinomials | HistogramLaw:
        """Prepare the law of the count of ones, or, for more than two answers, of the histogram."""
        held = tuple(int(number) for number in dataset)
        if len(held) != self.answers or min(held) < 0 or sum(held) != self.users:
            raise AuditError(
                f"The dataset is {dataset!r}; it must say how many of {self.users:,} users hold each of "
                f"{self.answers} answers."
            )
        if self.answers == 2:
            return TwoBinomials(held[1], held[0], self.truth)
        return HistogramLaw(held, self.truth)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return the neighbours with the greatest epsilon if all datasets can be searched, then the simple pairs.

        Where not all datasets can be searched, the loss of the simple pairs is a lower bound on that of the mechanism.
        """
        if not can_be_searched(self.users, self.answers):
            return self.simple_pairs()
        x, x_prime, _ = worst_neighbours(self.truth, self.users, self.answers, self.delta)
        worst = DatasetPair(x, x_prime, "worst of all datasets")
        return (worst, *(pair for pair in self.simple_pairs() if (pair.x, pair.x_prime) != (x, x_prime)))

    def simple_pairs(self) -> tuple[DatasetPair, ...]:
        """Return the pairs in which all users but one hold the same answer.

        The last pair attains epsilon_L at delta 0. For k > 2 the first pair is among users who hold a third answer:
        they give either of the two answers only by chance, and usually hide the user less.
        """
        rest = (0,) * (self.answers - 2)
        alike = DatasetPair(
            (self.users, 0, *rest), (self.users - 1, 1, *rest), "all users hold 0, against one holding 1"
        )
        if self.answers == 2:
            return (alike,)
        others = (self.users - 1, *rest[1:])
        return (DatasetPair((1, 0, *others), (0, 1, *others), "all users but one hold 2, that one 0 against 1"), alike)


@dataclass(frozen=True)
class ShuffledWithMalicious(ShuffledResponse):
    """Shuffled response of n users, some of them malicious; the others keep the amplification of their own number.

    'Privacy Doona', note 2. Malicious users know and reveal the messages of one another, whatever these messages are.
    Subtracting them from the count leaves the count of the honest users, so the rest is post-processing. Here all
    malicious users send a one.

    >>> mechanism = ShuffledWithMalicious(2.0, 100, 1e-3, malicious=10)
    >>> print(mechanism.claim, "instead of", ShuffledResponse(2.0, 100, 1e-3).claim)
    (0.892788, 0.001)-DP instead of (0.829627, 0.001)-DP
    >>> mechanism((90, 0)).support[:2]
    [10, 11]
    """

    malicious: int = 0  # number of users who deviate; a dataset lists the other users only
    name: ClassVar[str] = "shuffled response, some malicious"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_at_least(self.malicious, 0, "number of malicious users")
        if self.answers != 2:
            raise AuditError(f"There are {self.answers} answers; with malicious users the law is known for two.")
        whole_at_least(self.users - self.malicious, 2, "number of honest users")

    @cached_property
    def honest(self) -> ShuffledResponse:
        return ShuffledResponse(self.epsilon, self.users - self.malicious, self.delta)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:  # type: ignore[override]  # computed once
        return self.honest.claims

    def __call__(self, dataset: Sequence[int]) -> FiniteLaw:
        law = self.honest(dataset)
        return FiniteLaw([self.malicious + ones for ones in law.support], law.log_probabilities)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return self.honest.worst_pairs()


def _log_binomial(counts: ArrayLike, number: float, chance: float) -> Floats:
    counts = np.asarray(counts, float)
    ways = gammaln(number + 1.0) - gammaln(counts + 1.0) - gammaln(number - counts + 1.0)
    return np.asarray(ways + xlogy(counts, chance) + xlog1py(number - counts, -chance))


def _window(number: int, chance: float, deviations: float = NARROW) -> NDArray[np.int64]:
    reach = math.ceil(deviations * math.sqrt(number * chance * (1.0 - chance))) + 20
    mean = number * chance
    return np.arange(max(math.floor(mean) - reach, 0), min(math.ceil(mean) + reach, number) + 1)

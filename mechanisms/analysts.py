"""Analysts who choose requests from earlier answers, and the mechanisms with few possible answers that they ask.

Some of the analysts try to exceed the budget.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP, TradeOff
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.budgets import Ledger, Opening, Request
from epsaudit.mechanisms.groups import PresenceResponse
from epsaudit.mechanisms.laws import FiniteLaw, LaplaceLaw
from epsaudit.mechanisms.response import LeakyResponse, RandomisedResponse
from epsaudit.running.protocols import Mechanism

Earlier = tuple[tuple[float, float], ...]
HALTED = -1.0


@dataclass(frozen=True)
class SparseVectorSession(Reference):
    """Algorithm 1 of Lyu, Su and Li (2017) as a session: questions about a user's bit and a secret threshold.

    A question is a weight w in [-1, 1]; it stands for the query w (bit - 1/2), of sensitivity |w|. Noise of scale 2 /
    epsilon is added once to the threshold 0 and stays secret. Noise of scale 4 c / epsilon is added to every query. The
    answers are 1 (above the threshold) or 0 (below). After c answers of 1 the session answers only `HALTED`. All
    answers of a session together are epsilon-DP, whatever questions are asked.

    >>> session = SparseVectorSession(1.0)
    >>> [np.exp(session.answer((1,), before, 1.0).log_probabilities) for before in ((), ((1.0, 0.0),))]
    [array([0.45853114, 0.54146886]), array([0.54846385, 0.45153615])]
    """

    epsilon: float
    above: int = 1  # c, the number of answers of 1 after which the session halts
    name: ClassVar[str] = "sparse vector session"
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))
    wholes = {"above": (1, "number of answers above the threshold")}

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        return self.answer(dataset, (), 1.0)

    @functools.lru_cache(maxsize=4096)  # noqa: B019  # sessions are few, and what is kept is small
    def answer(self, dataset: tuple[int, ...], earlier: Earlier, question: float) -> FiniteLaw:
        """Prepare the law of the answer to a question, given earlier questions of the session and their answers.

        The law is an integral over the threshold's noise, given the earlier answers. All answers use the same
        quadrature nodes, so that the probabilities of all transcripts sum to 1 up to rounding.
        """
        if len(dataset) != 1 or dataset[0] not in (0, 1) or not -1.0 <= question <= 1.0:
            raise AuditError(
                f"The dataset is {dataset!r} and the question {question!r}; needed are a bit and a weight."
            )
        if sum(given == 1.0 for _, given in earlier) >= self.above:
            return FiniteLaw((HALTED,), [0.0])
        places, chances = _nodes(2.0 / self.epsilon)
        for asked, given in earlier:
            chances = chances * np.exp(self._log_chance(dataset[0], asked, places, given))
        likely = [
            float(chances @ np.exp(self._log_chance(dataset[0], question, places, given))) for given in (0.0, 1.0)
        ]
        return FiniteLaw((0.0, 1.0), np.log(likely))

    def _log_chance(self, bit: int, question: float, thresholds: Floats, given: float) -> Floats:
        """Log-probability of an answer at each threshold."""
        off = thresholds - question * (bit - 0.5)
        return LaplaceLaw(0.0, 4.0 * self.above / self.epsilon).log_cdf(off if given == 0.0 else -off)


@functools.lru_cache(maxsize=64)
def _nodes(scale: float) -> tuple[Floats, Floats]:
    """Return quadrature nodes for the threshold's Laplace noise, and their weights.

    The rule is Gauss-Legendre on panels whose edges lie at the kinks.
    """
    far = scale * 40.0 * 2.0 ** -np.arange(0.0, 7.0)
    edges = np.unique(np.concatenate([-far, far, np.linspace(-0.5, 0.5, 9)]))
    rule, weights = np.polynomial.legendre.leggauss(16)
    widths = np.diff(edges)[:, None]
    places = (edges[:-1, None] + widths * (1.0 + rule) / 2.0).ravel()
    chances = (widths * weights / 2.0).ravel() * np.exp(LaplaceLaw(0.0, scale).log_density(places))
    return places, chances / chances.sum()


@dataclass(frozen=True)
class _Menu:
    """Base of strategies that spend a list of epsilons, cheapest first, on one user's yes or no."""

    epsilons: tuple[float, ...]
    rounds: int = 6
    delta: float = 0.0  # probability with which an answer reveals the bit itself

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        return tuple(Request(self.response(epsilon)) for epsilon in self.epsilons)

    def response(self, epsilon: float) -> Mechanism:
        return LeakyResponse(epsilon, self.delta) if self.delta else RandomisedResponse(epsilon)


@dataclass(frozen=True)
class Repeater(_Menu):
    """Ask for the first epsilon in every round, whether or not it is refused: composition that is not adaptive."""

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        return np.zeros(len(answers), np.int64)


@dataclass(frozen=True)
class Gambler(_Menu):
    """Ask for small epsilons, and for the largest ones as soon as the answers lean to one side.

    While the lead of one answer is below ``lead``, the analyst asks for the cheapest request. From then on the analyst
    asks for the dearest request, and moves one place down the list after every refusal. In this way the analyst
    exhausts the budget where the answers showed a leak.
    """

    lead: int = 2  # lead of one answer over the other from which the analyst assumes a leak

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        leads = np.abs(np.nansum(self.leaning(answers), axis=1))
        refused = sum(not granted for _, granted in ledger.entries)
        dear = max(len(self.epsilons) - 1 - refused, 0)
        return np.where(leads >= self.lead, dear, 0).astype(np.int64)

    def leaning(self, answers: Floats) -> Floats:
        """Return how far each answer leans to one side; negative numbers lean to the other side."""
        return 2.0 * (answers % 2.0) - 1.0


@dataclass(frozen=True)
class Doubler(_Menu):
    """Raise epsilon while answers repeat, and return to the lowest when they change, so that answers choose budgets."""

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        streak = np.zeros(len(answers), np.int64)
        alive = np.ones(len(answers), bool)
        for column in answers[:, ::-1].T:
            alive &= column == answers[:, -1]
            streak += alive
        return np.clip(streak - 1, 0, len(self.epsilons) - 1)


@dataclass(frozen=True)
class Interleaver(_Menu):
    """Move between sessions as the answers say: after a yes to the next session, after a no to the one after that.

    Each session is always asked for the epsilon at its own place in the list, so that it is asked until it refuses,
    and afterwards.
    """

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        return tuple(Request(RandomisedResponse(epsilon), session) for session, epsilon in enumerate(self.epsilons))

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        steps = np.where(answers == 1.0, 1, 2).sum(axis=1)
        return np.asarray(steps % len(self.epsilons), np.int64)


@dataclass(frozen=True)
class Juggler:
    """Ask several sparse vector sessions in turn.

    After an answer below the threshold the next session is asked, after any other answer the session after the next.
    """

    epsilon: float  # privacy parameter of each session
    sessions: int = 2
    rounds: int = 6

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        return tuple(Request(SparseVectorSession(self.epsilon), place, 1.0) for place in range(self.sessions))

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        return np.asarray(np.where(answers == 1.0, 2, 1).sum(axis=1) % self.sessions, np.int64)


@dataclass(frozen=True)
class Partitioner:
    """Ask about the first part, open one session per part with the share that the answer suggests, and ask all of them.

    This follows the diagram of Tumult Analytics: a session of 3 becomes sessions of 2, 1 and 1, or of 2.5, 0.5 and 0.5.
    The rest of the budget of session 0 is spent on the first part, whose records session 0 contains, too.
    """

    response: type[PresenceResponse] = PresenceResponse
    rounds: int = 6

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        """The first question, two ways to open sessions, and the questions to each session."""
        openings = [Request(Opening(share, 2, self.response.adjacency)) for share in (1.0, 0.5)]
        asked = [(1.0, 0, 1), (0.5, 0, 1), (1.0, 1, 2), (0.5, 1, 2), (1.0, 0, 0)]
        questions = [Request(self.response(epsilon, part), session) for epsilon, part, session in asked]
        return (Request(self.response(1.0, 0)), *openings, *questions)

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        round_ = answers.shape[1]
        if round_ == 0:
            return np.zeros(len(answers), np.int64)
        yes = answers[:, 0] == 1.0
        plans = ((1, 2), (3, 4), (5, 6), (7, 7), (7, 7))
        return np.where(yes, *plans[round_ - 1]).astype(np.int64)


@dataclass(frozen=True)
class Follower:
    """Ask one mechanism first and let its answer choose between two others: adaptive composition."""

    # ``first`` is asked first, then ``above`` if its answer is above the threshold, else ``below``
    first: Mechanism
    above: Mechanism
    below: Mechanism
    threshold: float
    rounds: int = 2

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        return tuple(map(Request, (self.first, self.above, self.below)))

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        if answers.shape[1] == 0:
            return np.zeros(len(answers), np.int64)
        return np.where(answers[:, 0] > self.threshold, 1, 2).astype(np.int64)


@dataclass(frozen=True)
class RoundedGaussian(Reference):
    """A user's bit plus Gaussian noise of standard deviation 1 / mu, of which only the cell is released: mu-GDP.

    Cells are as wide as the noise's standard deviation and symmetric about 1/2; the two outer cells are unbounded.
    Rounding to cells is post-processing of the noisy bit (Dong, Roth and Su 2022, Theorem 2.7; Bun and Steinke 2016,
    Proposition 1.6).

    >>> mechanism = RoundedGaussian(1.0, cells=4)
    >>> np.exp(mechanism((1,)).log_probabilities).round(4).tolist(), str(mechanism.claims[1])
    ([0.0668, 0.2417, 0.3829, 0.3085], '0.5-zCDP')
    """

    mu: float
    cells: int = 3  # number of cells, at least 2. The output is the number of the cell, 0 for the lowest
    name: ClassVar[str] = "rounded Gaussian noise on a bit"
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))
    wholes = {"cells": (2, "number of cells")}

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (GaussianDP(self.mu), ZCDP(self.mu**2 / 2.0))

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        ends = np.arange(1, self.cells) - self.cells / 2.0 + (0.5 - _bit(dataset)) * self.mu  # in sigmas from the bit
        low, high = np.concatenate([[-np.inf], ends]), np.concatenate([ends, [np.inf]])
        flip = low > 0.0  # use the upper tail there, so that cells far above keep their digits
        chances = np.where(flip, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return FiniteLaw(range(self.cells), np.log(chances))


@dataclass(frozen=True)
class RepeatedResponse(Reference):
    """The number of yes answers among k randomised responses on a user's bit; its claim is the exact privacy curve.

    Outcomes in which i of k answers lie have the loss (k - 2 i) epsilon. At these losses the curve has its kinks,
    delta_i = sum over l < i of C(k, l) (e^((k - l) epsilon) - e^((k - 2 i + l) epsilon)) / (1 + e^epsilon)^k, and
    between them the privacy profile is a line in e^epsilon. Kairouz, Oh and Viswanath (2015), Theorem 3.3, prove that
    any k epsilon-DP mechanisms, even if they are chosen from earlier answers, also satisfy this curve. No composition
    is worse.

    >>> mechanism = RepeatedResponse(0.5, 3)
    >>> print(mechanism.claim, [(epsilon, round(delta, 4)) for epsilon, delta in mechanism.claim.points])
    DP along a curve of 2 points [(1.5, 0.0), (0.5, 0.1525)]
    """

    epsilon: float  # privacy parameter of each answer
    copies: int  # k, at least 1
    name: ClassVar[str] = "repeated randomised response"
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))
    wholes = {"copies": (1, "number of copies")}

    @property
    def claims(self) -> tuple[Claim, ...]:
        kinks = range(self.copies, -1, -2)
        chances = np.exp(self((1,)).log_probabilities)
        losses = (2 * np.arange(self.copies + 1) - self.copies) * self.epsilon
        above = (chances @ -np.expm1(np.minimum(kink * self.epsilon - losses, 0.0)) for kink in kinks)
        points = [(kink * self.epsilon, float(delta)) for kink, delta in zip(kinks, above, strict=True)]
        # losses nearer 0 lose digits, and the claim would be too strong; a delta that rounds to 1 claims nothing
        told = (points[0], *(point for point in points if np.finfo(float).tiny < point[1] < 1.0))
        return (TradeOff(told), PureDP(self.copies * self.epsilon))

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        count = np.arange(self.copies + 1)
        lies = self.copies - count if _bit(dataset) else count
        ways = -gammaln(count + 1.0) - gammaln(self.copies - count + 1.0)  # up to a constant
        return FiniteLaw(count.tolist(), ways - lies * self.epsilon)


@dataclass(frozen=True)
class NoisyGambler(Gambler):
    """A `Gambler` who asks for `RoundedGaussian`, with less noise when the earlier cells lean to one side."""

    cells: int = 3

    def response(self, epsilon: float) -> Mechanism:
        return RoundedGaussian(epsilon, self.cells)

    def leaning(self, answers: Floats) -> Floats:
        return answers - (self.cells - 1) / 2.0


def _bit(dataset: Any) -> int:
    if len(dataset) != 1 or dataset[0] not in (0, 1):
        raise AuditError(f"The dataset is {dataset!r}; it must be one user's bit, (0,) or (1,).")
    return int(dataset[0])

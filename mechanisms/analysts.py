"""Strategies of analysts who ask for randomised responses or in turns, some of whom try to cheat a filter.

Each chooses the next request of many transcripts from their answers so far; see
`epsaudit.mechanisms.interactive.Analyst`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import Mechanism
from epsaudit.mechanisms.budgets import Ledger, Opening, Request
from epsaudit.mechanisms.groups import PresenceResponse
from epsaudit.mechanisms.hidden_state import SparseVectorSession
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.response import LeakyResponse, RandomisedResponse


@dataclass(frozen=True)
class _Menu:
    """What the strategies share: a list of epsilons, cheapest first, to be spent on one user's yes or no."""

    epsilons: tuple[float, ...]
    rounds: int = 6
    delta: float = 0.0  # with which every answer tells the bit itself

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        return tuple(Request(self.response(epsilon)) for epsilon in self.epsilons)

    def response(self, epsilon: float) -> Mechanism:
        return LeakyResponse(epsilon, self.delta) if self.delta else RandomisedResponse(epsilon)


@dataclass(frozen=True)
class Repeater(_Menu):
    """Ask for the first epsilon again and again, refused or not: composition that is not adaptive at all.

    Examples
    --------
    >>> Repeater((0.5,)).choose(np.zeros((2, 1)), Ledger()).tolist()
    [0, 0]
    """

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        return np.zeros(len(answers), np.int64)


@dataclass(frozen=True)
class Gambler(_Menu):
    """Look with small stakes; once the answers lean to one side, spend all on finding out, and do not take no for it.

    While the lead of one answer is below ``lead`` it asks for the cheapest request. From then on it asks for the
    dearest one, one place less dear for every refusal, and so exhausts the budget where it saw a leak.

    Examples
    --------
    >>> Gambler((0.1, 1.0)).choose(np.array([[1.0, 1.0], [1.0, 0.0]]), Ledger()).tolist()
    [1, 0]
    """

    lead: int = 2  # answers of one kind more than of the other that it takes for a leak

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        lead = np.abs(np.nansum(2.0 * (answers % 2.0) - 1.0, axis=1))
        refused = sum(not granted for _, granted in ledger.entries)
        dear = max(len(self.epsilons) - 1 - refused, 0)
        return np.where(lead >= self.lead, dear, 0).astype(np.int64)


@dataclass(frozen=True)
class Doubler(_Menu):
    """Raise the stake while answers repeat, go back to the lowest when they change: budgets chosen by the answers.

    Examples
    --------
    >>> Doubler((0.1, 0.2, 0.4)).choose(np.array([[1.0, 1.0], [1.0, 0.0]]), Ledger()).tolist()
    [1, 0]
    """

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        streak = np.zeros(len(answers), np.int64)
        alive = np.ones(len(answers), bool)
        for column in answers[:, ::-1].T:
            alive &= column == answers[:, -1]
            streak += alive
        return np.clip(streak - 1, 0, len(self.epsilons) - 1)


@dataclass(frozen=True)
class Interleaver(_Menu):
    """Go from session to session as the answers say: after a yes to the next one, else to the one after that.

    Each session is asked for the epsilon of the same place, so that each is asked until it refuses and beyond.

    Examples
    --------
    >>> Interleaver((0.4, 0.3, 0.3)).choose(np.array([[1.0], [0.0]]), Ledger()).tolist()
    [1, 2]
    """

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        """One request a session."""
        return tuple(Request(RandomisedResponse(epsilon), session) for session, epsilon in enumerate(self.epsilons))

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        steps = np.where(answers == 1.0, 1, 2).sum(axis=1)
        return np.asarray(steps % len(self.epsilons), np.int64)


@dataclass(frozen=True)
class Juggler:
    """Ask several sparse vectors in turns: after an answer below the threshold the next one, else the one after that.

    Examples
    --------
    >>> Juggler(1.0, 3).choose(np.array([[0.0, 0.0], [1.0, 0.0]]), Ledger()).tolist()
    [2, 0]
    """

    epsilon: float  # of a session
    sessions: int = 2
    rounds: int = 6

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        """The same question to each session."""
        return tuple(Request(SparseVectorSession(self.epsilon), place, 1.0) for place in range(self.sessions))

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        return np.asarray(np.where(answers == 1.0, 2, 1).sum(axis=1) % self.sessions, np.int64)


@dataclass(frozen=True)
class Partitioner:
    """Ask about the first part, open a session a part with the share that the answer suggests, and go through them all.

    The diagram of Tumult Analytics: a session of 3 becomes sessions of 2, 1 and 1, or of 2.5, 0.5 and 0.5. What is
    left of session 0 is spent on the first part, which is in it, too.

    Examples
    --------
    >>> Partitioner().choose(np.array([[1.0], [0.0]]), Ledger()).tolist()
    [1, 2]
    """

    response: type[PresenceResponse] = PresenceResponse
    rounds: int = 6

    @cached_property
    def menu(self) -> tuple[Request, ...]:
        """The first question, two ways to open, and questions to each session."""
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
    """Ask one mechanism first and let its answer choose between two others: adaptive composition.
    threshold : float

    Examples
    --------
    >>> from epsaudit.mechanisms.additive import Gaussian
    >>> strategy = Follower(*[Gaussian(epsilon, 1e-5) for epsilon in (0.5, 1.0, 0.2)], threshold=0.5)
    >>> strategy.choose(np.array([[0.7], [0.1]]), Ledger()).tolist()
    [1, 2]
    """

    # first, above, below: asked first; asked next where the first answer is above the threshold; asked next elsewhere
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

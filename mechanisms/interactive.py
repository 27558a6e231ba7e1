"""Interactive mechanisms: each request is chosen from the answers before it, and may be refused by a filter.

Adaptive, fully adaptive and concurrent composition are the same mechanism here. They differ in the requests that the
analyst may choose and in the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.budgets import Filter, Ledger, Request
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.outputs.atoms import find_distinct

MOST_TRANSCRIPTS = 1 << 16
Indices = NDArray[np.intp]


class Analyst(Protocol):
    """A strategy for choosing requests. It is deterministic, because the analyst's own randomness reveals nothing."""

    @property
    def menu(self) -> tuple[Request, ...]:
        """All requests that the analyst may make."""

    @property
    def rounds(self) -> int:
        """Greatest number of requests."""

    def choose(self, answers: Floats, ledger: Ledger) -> NDArray[np.int64]:
        """Choose the next request of many transcripts at once: places in the menu, -1 to stop, shape (transcripts,).

        ``answers``, shape (transcripts, rounds so far), are NaN where a request was refused. ``ledger`` holds the
        requests that all these transcripts have made, and which of them were granted.
        """


@dataclass(frozen=True)
class TranscriptLaw:
    """Law of the answers that one analyst gets, as rows of numbers; NaN marks refused and omitted requests.

    Transcripts with the same ledger are sampled and evaluated together. If every mechanism of the menu has finitely
    many answers, the law lists all transcripts.
    """

    analyst: Analyst
    filter: Filter
    dataset: Any

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` transcripts, shape (size, rounds)."""
        answers = np.full((size, self.analyst.rounds), np.nan)

        def draw(rows: Indices, round_: int, law: Any) -> None:
            answers[rows, round_] = law.sample(len(rows), rng)

        for _ in self._follow(answers, draw):
            pass
        return answers

    def log_density(self, outputs: NDArray[Any] | Sequence[tuple[float | None, ...]]) -> Floats:
        """Log of the density at each transcript, shape (size,); -inf for a transcript that this analyst cannot get."""
        answers = np.array(list(outputs), float).reshape(-1, self.analyst.rounds)
        total = np.zeros(len(answers))
        expected = np.zeros(answers.shape, bool)

        def weigh(rows: Indices, round_: int, law: Any) -> None:
            expected[rows, round_] = True
            known = rows[~np.isnan(answers[rows, round_])]
            total[known] += law.log_density(answers[known, round_])

        for _ in self._follow(answers, weigh):
            pass
        return np.where(np.all(np.isnan(answers) != expected, axis=1), total, -np.inf)

    @property
    def support(self) -> tuple[tuple[float | None, ...], ...]:
        """All transcripts, with None for refused or omitted requests; empty if an answer has infinitely many values.

        Raises `AuditError` if there are more than 65,536 transcripts.
        """
        return self._enumerated[0]

    @property
    def log_probabilities(self) -> Floats:
        return self._enumerated[1]

    def ledgers(self, answers: Floats) -> list[tuple[Indices, list[Ledger]]]:
        """Group transcripts by their requests: return their rows and the ledger after each round."""
        history: dict[Ledger, list[Ledger]] = {Ledger(): []}
        final: dict[Ledger, list[Indices]] = {}
        alive: dict[Ledger, Indices] = {Ledger(): np.arange(len(answers))}
        for groups in self._follow(answers, lambda rows, round_, law: None):
            following: dict[Ledger, Indices] = {}
            for before, after, rows in groups:
                history.setdefault(after, [*history[before], after])
                following[after] = np.concatenate([following.get(after, np.empty(0, int)), rows])
            for ledger, rows in alive.items():
                left = np.setdiff1d(rows, np.concatenate([np.empty(0, int), *following.values()]))
                final.setdefault(ledger, []).append(left)
            alive = following
        for ledger, rows in alive.items():
            final.setdefault(ledger, []).append(rows)
        return [(np.concatenate(rows), history[ledger]) for ledger, rows in final.items() if sum(map(len, rows))]

    def _follow(
        self, answers: Floats, visit: Callable[[Indices, int, Any], None]
    ) -> Iterator[list[tuple[Ledger, Ledger, Indices]]]:
        """Follow transcripts round by round, and call ``visit`` with rows, the round, and the law of their answers."""
        groups: dict[Ledger, Indices] = {Ledger(): np.arange(len(answers))}
        for round_ in range(self.analyst.rounds):
            steps = list(self._steps(answers, round_, groups))
            merged: dict[Ledger, list[Indices]] = {}
            for ledger, rows, request, granted in steps:
                if granted:
                    for some, law in self._laws_of(answers, ledger, rows, request):
                        visit(some, round_, law)
                merged.setdefault(ledger.after(request, granted), []).append(rows)
            yield [(ledger, ledger.after(request, granted), rows) for ledger, rows, request, granted in steps]
            groups = {ledger: np.concatenate(parts) for ledger, parts in merged.items()}

    def _steps(
        self, answers: Floats, round_: int, groups: dict[Ledger, Indices]
    ) -> Iterator[tuple[Ledger, Indices, Request, bool]]:
        for ledger, rows in groups.items():
            choices = self.analyst.choose(answers[rows, :round_], ledger)
            for choice in np.unique(choices):
                if choice >= 0:
                    request = self.analyst.menu[choice]
                    yield ledger, rows[choices == choice], request, self._admits(ledger, request)

    def _admits(self, ledger: Ledger, request: Request) -> bool:
        """Ask the filter and keep its reply: it may compute a total, and every block of runs asks again."""
        known = self._admitted.get((ledger, request))
        if known is None:
            known = self._admitted[ledger, request] = self.filter.admits(ledger, request)
        return known

    @cached_property
    def _admitted(self) -> dict[tuple[Ledger, Request], bool]:
        return {}

    def _laws_of(
        self, answers: Floats, ledger: Ledger, rows: Indices, request: Request
    ) -> Iterator[tuple[Indices, Any]]:
        """Return laws of the answer with their rows.

        A mechanism with a hidden state has one law for each sequence of earlier answers in its session.
        """
        asked = (request.mechanism, request.session)
        earlier = [place for place, (one, granted) in enumerate(ledger.entries) if granted and one.asked == asked]
        if request.question is None or not earlier:
            yield rows, self._laws[self.analyst.menu.index(request)]
            return
        questions = [ledger.entries[place][0].question for place in earlier]
        seen = answers[np.ix_(rows, earlier)]
        first, which = find_distinct(seen)
        for place in np.lexsort(seen[first].T[::-1]):
            before = tuple(zip(questions, seen[first[place]].tolist(), strict=True))
            law = request.mechanism.answer(self.dataset, before, request.question)  # type: ignore[attr-defined]
            yield rows[which == place], law

    @cached_property
    def _laws(self) -> list[Any]:
        return [
            one.mechanism(self.dataset)
            if one.question is None
            else one.mechanism.answer(self.dataset, (), one.question)  # type: ignore[attr-defined]  # has hidden state
            for one in self.analyst.menu
        ]

    @cached_property
    def _enumerated(self) -> tuple[tuple[tuple[float | None, ...], ...], Floats]:
        for law in self._laws:
            if not exact.knows_law(law) or getattr(law, "support", None) is None or hasattr(law, "knots"):
                return (), np.empty(0)
        groups = {Ledger(): (np.empty((1, 0)), np.zeros(1))}
        finished: list[tuple[Floats, Floats]] = []
        for round_ in range(self.analyst.rounds):
            parts: dict[Ledger, list[tuple[Floats, Floats]]] = {}
            for before, (answers, log_p) in groups.items():
                stopped = np.ones(len(answers), bool)
                for _, rows, request, granted in self._steps(answers, round_, {before: np.arange(len(answers))}):
                    stopped[rows] = False
                    following = parts.setdefault(before.after(request, granted), [])
                    refused: list[tuple[Indices, Any]] = [(rows, FiniteLaw((np.nan,), [0.0]))]
                    for some, law in self._laws_of(answers, before, rows, request) if granted else refused:
                        column = np.array(law.support, float)
                        known = np.repeat(answers[some], len(column), axis=0)
                        chances = np.repeat(log_p[some], len(column)) + np.tile(law.log_probabilities, len(some))
                        following.append((np.column_stack([known, np.tile(column, len(some))]), chances))
                finished.append((answers[stopped], log_p[stopped]))
            groups = {ledger: tuple(map(np.concatenate, zip(*grown, strict=True))) for ledger, grown in parts.items()}
            if sum(len(log_p) for _, log_p in groups.values()) > MOST_TRANSCRIPTS:
                raise AuditError(
                    f"There are more than {MOST_TRANSCRIPTS:,} transcripts after {round_ + 1} rounds; ask for fewer "
                    "rounds to have the law listed."
                )
        finished += groups.values()
        rows = [(*row, *[np.nan] * (self.analyst.rounds - len(row))) for part, _ in finished for row in part.tolist()]
        listed = tuple(tuple(None if value != value else value for value in row) for row in rows)
        return listed, np.concatenate([chances for _, chances in finished])


@dataclass(frozen=True)
class Interaction(Reference):
    """Let an analyst ask through a filter. The whole transcript is released, and the claim is that of the filter.

    Raises `AuditError` if the menu is empty, or if its mechanisms have different adjacencies.

    >>> from epsaudit import PureDP
    >>> from epsaudit.mechanisms.analysts import Gambler
    >>> from epsaudit.mechanisms.budgets import TotalFilter
    >>> mechanism = Interaction(Gambler((0.2, 0.6), rounds=3), TotalFilter(PureDP(1.0)))
    >>> print(mechanism.claim, round(exact.exact_parameter(mechanism.claim, mechanism((0,)), mechanism((1,))), 6))
    1-DP 1.0
    """

    analyst: Analyst  # the strategy
    filter: Filter  # the rule that grants and refuses requests
    name: ClassVar[str] = "interaction"

    def __post_init__(self) -> None:
        relations = {request.mechanism.adjacency for request in self.analyst.menu}
        if len(relations) != 1:
            shown = ", ".join(sorted(map(str, relations))) or "none"
            raise AuditError(
                f"The menu's mechanisms are for different neighbours ({shown}); they must be for the same."
            )

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (self.filter.claim,)

    @property
    def adjacency(self) -> Adjacency:
        return self.analyst.menu[0].mechanism.adjacency  # type: ignore[return-value]  # None passes through

    def __call__(self, dataset: Any) -> TranscriptLaw:
        return TranscriptLaw(self.analyst, self.filter, dataset)

    def worst_pairs(self) -> Sequence[DatasetPair]:
        return self.analyst.menu[0].mechanism.worst_pairs()

"""The screen of a hunt: a few runs of every candidate, by which they are ordered.

All candidates get a few runs; the better quarter gets four times as many, again and again, as in successive halving
(Jamieson and Talwalkar 2016). Where time is limited, each round has a third of it, and slow candidates get fewer.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from epsaudit.audits.question import Question, begun, families_of
from epsaudit.audits.suite import entry_seed
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.sampling import training_outputs
from epsaudit.errors import AuditError
from epsaudit.hunting.description import Candidate
from epsaudit.outputs.normal_form import Outputs, Raised, values_of
from epsaudit.outputs.packed import alike, join
from epsaudit.witnesses import DEFAULT_FAMILIES, Bound, Family, LikelihoodRatio, Tails, best_of, candidate_scores
from epsaudit.witnesses.settings import OPTIMISTIC

if TYPE_CHECKING:
    from epsaudit.hunting.hunt import _Hunting


RUNS = 32, 128, 512
"""Runs on each side in each round of the screen."""
FEW = 4
"""Runs on each side, at least, where there is a limit of time: a candidate may take a hundred times as long as others,
and they get their turn."""
SLOW = 0.01
"""Seconds of a run beyond which quicker candidates are audited first: four thousand runs take 40 s."""
KEPT = 4
"""A round keeps one in so many, but at least twice as many as are audited."""
CHEAP: tuple[Family, ...] = (Tails(), LikelihoodRatio())


@dataclass(frozen=True)
class Screened:
    """A candidate, what its outputs promise beside the claim, and why it cannot be audited if it cannot."""

    candidate: Candidate
    rank: tuple[float, float] = (0.0, 0.0)
    """The bound that is predicted for an audit, in claims, and how sure it is that there is any difference."""
    failure: str = ""
    pace: float = 0.0
    """Seconds of a run."""

    @property
    def promises(self) -> bool:
        """Whether an audit of what the outputs show would refute the claim."""
        return self.rank[0] > 1.0


def screened(
    hunting: _Hunting, candidates: Sequence[Candidate], audits: int, until: float
) -> tuple[list[Screened], int]:
    """Return the candidates for which there was time, the most promising first, and how many runs that took."""
    drawn: dict[int, tuple[Outputs, Outputs]] = {}
    sides: dict[int, Any] = {}
    found: dict[int, Screened] = {}
    spent: dict[int, float] = {}
    remaining, runs, started = list(range(len(candidates))), 0, time.perf_counter()
    for turn, size in enumerate(RUNS):
        end = until if math.isinf(until) else started + (until - started) * (turn + 1) / len(RUNS)
        for done, place in enumerate(remaining):
            if found and time.perf_counter() > (end if turn else until):  # the first round is for all, if it can be
                break
            hunting.say(f"screen, round {turn + 1} of {len(RUNS)}: {done + 1} of {len(remaining)} candidates")
            one, begun_at = candidates[place], time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seed = entry_seed(hunting.record.seed, f"screen {place}")
                    if place not in sides:
                        sides[place] = _drawn_from(hunting, one, seed)
                    for more in _drawn(sides[place], size, seed, turn, end, len(remaining) - done):
                        before = drawn.get(place)
                        drawn[place] = more if before is None else alike(*map(join, zip(before, more, strict=True)))
                        runs += 2 * len(more[0])
                    spent[place] = spent.get(place, 0.0) + time.perf_counter() - begun_at
                    pace = spent[place] / (2 * len(drawn[place][0]))
                    found[place] = replace(_judged(hunting, one, drawn[place]), pace=pace)
            except AuditError as error:
                found[place] = Screened(one, failure=str(error))
        promising = sorted((n for n in remaining if n in found), key=lambda n: found[n].rank, reverse=True)
        remaining = [n for n in promising if not found[n].failure][: max(2 * audits, len(remaining) // KEPT)]

    def worth(place: int) -> tuple[float, ...]:
        one = found[place]
        slowness = _slowness(one.pace) if one.promises and not math.isinf(until) else 0
        return (place in remaining, one.promises, -slowness, *one.rank)

    places = sorted(found, key=worth, reverse=True)
    return [found[place] for place in places], runs


def _drawn_from(hunting: _Hunting, one: Candidate, seed: int) -> Any:
    asked = (hunting.mechanism(one.parameters), [one.pair], hunting.claim(one.parameters), None, 0.0, None)
    question = Question.of(*asked, hunting.trials, hunting.confidence, _simple(hunting))
    return begun(question, seed, 1, Section()).sides[0]


def _drawn(sides: Any, size: int, seed: int, turn: int, end: float, waiting: int) -> Iterator[tuple[Outputs, Outputs]]:
    """Draw so many runs on each side; or a few, and as many more as fit an even share of the time to the end."""
    if math.isinf(end):
        yield training_outputs(sides, size, seed, turn)
        return
    started = time.perf_counter()
    yield training_outputs(sides, FEW, seed, len(RUNS) + turn)
    now = time.perf_counter()
    fit = math.inf if now == started else ((end - started) / waiting - (now - started)) * FEW / (now - started)
    if fit >= 1.0:
        yield training_outputs(sides, int(min(fit, size - FEW)), seed, turn)


def _slowness(seconds: float) -> int:
    """How slow a run is, in powers of four from `SLOW` on: the quick ones first, as audits take thousands of runs."""
    return max(0, round(math.log(max(seconds, 1e-6) / SLOW, 4.0)))


def _simple(hunting: _Hunting) -> tuple[Family, ...]:
    """The families that are cheap, and those that were asked for by name."""
    return CHEAP + tuple(one for one in families_of(hunting.witnesses) if one not in DEFAULT_FAMILIES)


def _judged(hunting: _Hunting, one: Candidate, both: tuple[Outputs, Outputs]) -> Screened:
    """Predict the bound that an audit gives, in claims: whatever is above 1 would be refuted."""
    seen = [values_of(side) for side in both]
    kinds = {repr(value) if isinstance(value, Raised) else None for side in seen for value in side}
    if len(kinds) == 1 and None not in kinds:
        return Screened(one, failure=f"every run {kinds.pop()}")
    claim = hunting.claim(one.parameters)
    objective = Bound(claim, hunting.trials, hunting.confidence)
    choice = best_of(candidate_scores(_simple(hunting), *both), objective, OPTIMISTIC)
    predicted = choice.predicted / claim.parameter if claim.parameter else choice.predicted
    return Screened(one, (predicted, choice.significance))

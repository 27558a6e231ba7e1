"""The screen of a hunt: a few runs of every candidate, which order them and certify nothing.

Candidates go in, and come out with the bound that their outputs promise, the most promising first. All get a few runs;
the better quarter gets four times as many, again and again, as in successive halving (Jamieson and Talwalkar 2016).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epsaudit.audits.question import Question, begun
from epsaudit.audits.suite import entry_seed
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.sampling import training_outputs
from epsaudit.errors import AuditError
from epsaudit.hunting.alarms import alarms
from epsaudit.hunting.description import Candidate
from epsaudit.outputs.normal_form import Outputs, Raised, alike, join, values_of
from epsaudit.witnesses import Bound, Family, LikelihoodRatio, Tails, best_of, candidate_scores
from epsaudit.witnesses.settings import OPTIMISTIC

if TYPE_CHECKING:
    from epsaudit.hunting.hunt import _Hunting

RUNS = 32, 128, 512
"""Runs on each side in each round of the screen."""
KEPT = 4
"""A round keeps one in so many, but at least twice as many as are audited."""
SHOWN = 30
"""Outputs on each side that alarms look at."""
SIMPLE: tuple[Family, ...] = (Tails(), LikelihoodRatio())


@dataclass(frozen=True)
class Screened:
    """A candidate, what its outputs promise beside the claim, and why it cannot be audited if it cannot."""

    candidate: Candidate
    rank: tuple[float, float, float] = (0.0, 0.0, 0.0)
    alarms: tuple[str, ...] = ()
    failure: str = ""


def screened(
    hunting: _Hunting, candidates: Sequence[Candidate], audits: int, until: float
) -> tuple[list[Screened], int]:
    """Return the candidates for which there was time, the most promising first, and how many runs that took."""
    drawn: dict[int, tuple[Outputs, Outputs]] = {}
    sides: dict[int, Any] = {}
    found: dict[int, Screened] = {}
    remaining, runs, started = list(range(len(candidates))), 0, time.perf_counter()
    for number, size in enumerate(RUNS):
        for done, place in enumerate(remaining):
            now = time.perf_counter()
            if found and now + (now - started) / max(runs, 1) * 2 * size > until:  # at the pace so far
                break
            hunting.say(f"screen, round {number + 1} of {len(RUNS)}: {done + 1} of {len(remaining)} candidates")
            one = candidates[place]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seed = entry_seed(hunting.seed, f"screen {place}")
                    if place not in sides:
                        sides[place] = _drawn_from(hunting, one, seed)
                    more = training_outputs(sides[place], size, seed, number)
                    before = drawn.get(place)
                    both = more if before is None else alike(*map(join, zip(before, more, strict=True)))
                    drawn[place], runs = both, runs + 2 * size
                    found[place] = _judged(hunting, one, both)
            except AuditError as error:
                found[place] = Screened(one, failure=str(error))
        promising = sorted((n for n in remaining if n in found), key=lambda n: found[n].rank, reverse=True)
        remaining = [n for n in promising if not found[n].failure][: max(2 * audits, len(remaining) // KEPT)]
    order = {place: (len(RUNS) if place in remaining else 0) for place in found}
    places = sorted(found, key=lambda n: (order[n], *found[n].rank), reverse=True)
    return [found[place] for place in places], runs


def _drawn_from(hunting: _Hunting, one: Candidate, seed: int) -> Any:
    asked = (hunting.mechanism(one.parameters), [one.pair], hunting.claim(one.parameters), None, 0.0, None)
    question = Question.of(*asked, hunting.trials, hunting.confidence, SIMPLE)
    return begun(question, seed, 1, Section()).sides[0]


def _judged(hunting: _Hunting, one: Candidate, both: tuple[Outputs, Outputs]) -> Screened:
    """Predict the bound that an audit gives, in claims: whatever is above 1 would be refuted."""
    seen = [values_of(side) for side in both]
    kinds = {repr(value) if isinstance(value, Raised) else None for side in seen for value in side}
    if len(kinds) == 1 and None not in kinds:
        return Screened(one, failure=f"every run {kinds.pop()}")
    claim = hunting.claim(one.parameters)
    choice = best_of(candidate_scores(SIMPLE, *both), Bound(claim, hunting.trials, hunting.confidence), OPTIMISTIC)
    heard = tuple(map(str, alarms(seen[0][:SHOWN], seen[1][:SHOWN], one.pair, claim)))
    rank = (float(bool(heard)), choice.predicted / claim.parameter if claim.parameter else choice.predicted)
    return Screened(one, (*rank, choice.significance), heard)


def as_record(found: Sequence[Screened], candidates: Sequence[Candidate]) -> list[list[Any]]:
    """Return what a file remembers."""
    places = {id(one): place for place, one in enumerate(candidates)}
    return [[places[id(one.candidate)], list(one.rank), list(one.alarms), one.failure] for one in found]


def from_record(rows: Sequence[Any], candidates: Sequence[Candidate]) -> list[Screened]:
    """Read it again."""
    return [Screened(candidates[place], tuple(rank), tuple(heard), why) for place, rank, heard, why in rows]

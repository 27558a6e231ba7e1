"""The screen of a hunt: a few runs of every candidate, by which they are ordered.

All candidates get a few runs; the better quarter gets four times as many, again and again, as in successive halving
(Jamieson and Talwalkar 2016). Where time is limited, each round has a third of it, and slow candidates get fewer.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from epsaudit.audits.question import Question, begun, families_of
from epsaudit.audits.suite import entry_seed
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.sampling import training_outputs
from epsaudit.errors import AuditError
from epsaudit.hunting.description import Candidate
from epsaudit.hunting.parameters import Options, Target
from epsaudit.outputs.normal_form import Outputs, Raised, alike, join, values_of
from epsaudit.witnesses import DEFAULT_FAMILIES, Bound, Family, LikelihoodRatio, Tails, best_of, candidate_scores
from epsaudit.witnesses.settings import OPTIMISTIC

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


class _Screen:
    """What is known of one candidate: its outputs so far, the seconds that they took, and what they promise."""

    def __init__(self, target: Target, options: Options, candidate: Candidate, seed: int) -> None:
        self.target, self.options, self.candidate, self.seed = target, options, candidate, seed
        self.sides: Any = None
        self.outputs: tuple[Outputs, Outputs] | None = None
        self.seconds = 0.0
        self.found: Screened | None = None
        # those that are cheap, and those that were asked for by name
        self.families = CHEAP + tuple(one for one in families_of(options.witnesses) if one not in DEFAULT_FAMILIES)

    def run(self, size: int, turn: int, end: float, waiting: int) -> int:
        """Draw so many runs on each side, and judge by all that were drawn; return how many were drawn."""
        started, runs = time.perf_counter(), 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for more in self._drawn(size, turn, end, waiting):
                    if self.outputs is not None:
                        more = alike(*map(join, zip(self.outputs, more, strict=True)))
                    runs += 2 * (len(more[0]) - (0 if self.outputs is None else len(self.outputs[0])))
                    self.outputs = more
                assert self.outputs is not None  # at least one block was drawn
                self.seconds += time.perf_counter() - started
                self.found = self._judged(self.outputs, self.seconds / (2 * len(self.outputs[0])))
        except AuditError as error:
            self.found = Screened(self.candidate, failure=str(error))
        return runs

    def _drawn(self, size: int, turn: int, end: float, waiting: int) -> Iterator[tuple[Outputs, Outputs]]:
        """Draw so many runs; or a few, and as many more as fit an even share of the time to the end."""
        if self.sides is None:
            parameters = self.candidate.parameters
            question = Question.of(
                self.target.mechanism(parameters),
                [self.candidate.pair],
                claim=self.target.claim(parameters),
                trials=self.options.trials,
                confidence=self.options.confidence,
                witnesses=self.families,
            )
            self.sides = begun(question, self.seed, 1, Section()).sides[0]
        if math.isinf(end):
            yield training_outputs(self.sides, size, self.seed, turn)
            return
        started = time.perf_counter()
        yield training_outputs(self.sides, FEW, self.seed, len(RUNS) + turn)
        now = time.perf_counter()
        fit = math.inf if now == started else ((end - started) / waiting - (now - started)) * FEW / (now - started)
        if fit >= 1.0:
            yield training_outputs(self.sides, int(min(fit, size - FEW)), self.seed, turn)

    def _judged(self, both: tuple[Outputs, Outputs], pace: float) -> Screened:
        """Predict the bound that an audit gives, in claims: whatever is above 1 would be refuted."""
        kinds = {repr(one) if isinstance(one, Raised) else None for side in both for one in values_of(side)}
        if len(kinds) == 1 and None not in kinds:
            return Screened(self.candidate, failure=f"every run {kinds.pop()}", pace=pace)
        claim = self.target.claim(self.candidate.parameters)
        objective = Bound(claim, self.options.trials, self.options.confidence)
        choice = best_of(candidate_scores(self.families, *both), objective, OPTIMISTIC)
        predicted = choice.predicted / claim.parameter if claim.parameter else choice.predicted
        return Screened(self.candidate, (predicted, choice.significance), pace=pace)


def screened(
    target: Target, options: Options, candidates: Sequence[Candidate], seed: int, until: float
) -> tuple[list[Screened], int]:
    """Return the candidates for which there was time, the most promising first, and how many runs that took."""
    everyone = [
        _Screen(target, options, one, entry_seed(seed, f"screen {place}")) for place, one in enumerate(candidates)
    ]
    remaining, runs, started = everyone, 0, time.perf_counter()
    for turn, size in enumerate(RUNS):
        end = until if math.isinf(until) else started + (until - started) * (turn + 1) / len(RUNS)
        for done, one in enumerate(remaining):
            if (done or turn) and time.perf_counter() > (end if turn else until):  # the first round is for all
                break
            options.say(f"screen, round {turn + 1} of {len(RUNS)}: {done + 1} of {len(remaining)} candidates")
            runs += one.run(size, turn, end, len(remaining) - done)
        known = [(one, one.found) for one in remaining if one.found is not None]
        known.sort(key=lambda known: known[1].rank, reverse=True)
        most = max(2 * options.audits, len(remaining) // KEPT)
        remaining = [one for one, found in known if not found.failure][:most]

    def worth(known: tuple[_Screen, Screened]) -> tuple[float, ...]:
        one, found = known
        promises = found.rank[0] > 1.0
        slowness = 0
        if promises and not math.isinf(until):  # in powers of four: the quick ones first, as audits take long
            slowness = max(0, round(math.log(max(found.pace, 1e-6) / SLOW, 4.0)))
        return (one in remaining, promises, -slowness, *found.rank)

    found = [(one, one.found) for one in everyone if one.found is not None]
    return [one for _, one in sorted(found, key=worth, reverse=True)], runs

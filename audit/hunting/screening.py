"""The screen of a hunt: a few runs of every candidate, by which they are ordered.

All candidates get a few runs; the better quarter gets four times as many, again and again, as in successive halving
(Jamieson and Talwalkar 2016). Where time is limited, each round has a third of it, and slow candidates get fewer.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
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


@dataclass(eq=False)
class Screened:
    """A candidate, what its outputs promise beside the claim, and why it cannot be audited if it cannot."""

    candidate: Candidate
    rank: tuple[float, float] = (0.0, 0.0)
    """The bound that is predicted for an audit, in claims, and how sure it is that there is any difference."""
    failure: str = ""
    pace: float = 0.0
    """Seconds of a run."""
    seed: int = 0
    sides: Any = None
    """What draws outputs of either dataset; None before the first round and after the last."""
    outputs: tuple[Outputs, Outputs] | None = None
    seconds: float = 0.0
    """That these took."""

    def run(self, target: Target, options: Options, size: int, turn: int, end: float, waiting: int) -> int:
        """Draw so many runs on each side and judge by all; return how many were drawn.

        Where time ends, a few are drawn, and as many more as fit an even share of the time.
        """
        started, before = time.perf_counter(), 0 if self.outputs is None else len(self.outputs[0])
        asked = tuple(one for one in families_of(options.witnesses) if one not in DEFAULT_FAMILIES)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                claim = target.claim(self.candidate.parameters)
                if self.sides is None:
                    question = Question.of(
                        target.mechanism(self.candidate.parameters),
                        [self.candidate.pair],
                        claim=claim,
                        trials=options.trials,
                        confidence=options.confidence,
                        witnesses=CHEAP + asked,
                    )
                    self.sides = begun(question, self.seed, 1, Section()).sides[0]
                if math.isinf(end):
                    self._draw(size, turn)
                else:
                    start = time.perf_counter()
                    self._draw(FEW, len(RUNS) + turn)
                    took = time.perf_counter() - start
                    fit = math.inf if took == 0.0 else ((end - start) / waiting - took) * FEW / took
                    if fit >= 1.0:
                        self._draw(int(min(fit, size - FEW)), turn)
                assert self.outputs is not None  # at least one block was drawn
                self.seconds += time.perf_counter() - started
                self.pace = self.seconds / (2 * len(self.outputs[0]))
                kinds = {
                    repr(one) if isinstance(one, Raised) else None for side in self.outputs for one in values_of(side)
                }
                if len(kinds) == 1 and None not in kinds:
                    self.rank, self.failure = (0.0, 0.0), f"every run {kinds.pop()}"
                else:
                    objective = Bound(claim, options.trials, options.confidence)
                    choice = best_of(candidate_scores(CHEAP + asked, *self.outputs), objective, OPTIMISTIC)
                    self.rank = choice.predicted / (claim.parameter or 1.0), choice.significance
        except AuditError as error:
            self.rank, self.failure, self.pace = (0.0, 0.0), str(error), 0.0
        return 0 if self.outputs is None else 2 * (len(self.outputs[0]) - before)

    def _draw(self, size: int, turn: int) -> None:
        more = training_outputs(self.sides, size, self.seed, turn)
        self.outputs = more if self.outputs is None else alike(*map(join, zip(self.outputs, more, strict=True)))


def screened(
    target: Target, options: Options, candidates: Sequence[Candidate], seed: int, until: float
) -> tuple[list[Screened], int]:
    """Return the candidates for which there was time, the most promising first, and how many runs that took."""
    everyone = [Screened(one, seed=entry_seed(seed, f"screen {place}")) for place, one in enumerate(candidates)]
    remaining, runs, started = everyone, 0, time.perf_counter()
    for turn, size in enumerate(RUNS):
        end = until if math.isinf(until) else started + (until - started) * (turn + 1) / len(RUNS)
        for done, one in enumerate(remaining):
            if (done or turn) and time.perf_counter() > (end if turn else until):  # the first round is for all
                break
            options.say(f"screen, round {turn + 1} of {len(RUNS)}: {done + 1} of {len(remaining)} candidates")
            runs += one.run(target, options, size, turn, end, len(remaining) - done)
        known = sorted(filter(_seen, remaining), key=lambda one: one.rank, reverse=True)
        most = max(2 * options.audits, len(remaining) // KEPT)
        remaining = [one for one in known if not one.failure][:most]

    def worth(one: Screened) -> tuple[float, ...]:
        promises = one.rank[0] > 1.0
        slowness = 0
        if promises and not math.isinf(until):  # in powers of four: the quick ones first, as audits take long
            slowness = max(0, round(math.log(max(one.pace, 1e-6) / SLOW, 4.0)))
        return (one in remaining, promises, -slowness, *one.rank)

    found = sorted(filter(_seen, everyone), key=worth, reverse=True)
    for one in found:
        one.sides = one.outputs = None
    return found, runs


def _seen(one: Screened) -> bool:
    return bool(one.failure) or one.outputs is not None

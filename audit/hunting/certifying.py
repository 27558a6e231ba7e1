"""The last step of a hunt: a refuted pair is certified on fresh runs, by events that were learnt on other ones.

The best event of at most two thresholds or outputs is certified by the fewest runs that suffice, and the best event of
any kind beside it, each learnt from runs of its own; the error probability is divided equally between the two bounds.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from epsaudit.adapters.external import dataset_to_json
from epsaudit.adapters.functions import Mechanism
from epsaudit.audits.question import Begun, Question, begun
from epsaudit.audits.suite import entry_seed
from epsaudit.audits.verify import LEAST_HUNTED, MOST_HUNTED, checked
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.sampling import certification_counts, training_outputs
from epsaudit.errors import AuditError, clipped
from epsaudit.hunting.description import Candidate
from epsaudit.hunting.parameters import Options
from epsaudit.results.pairs import AuditResult
from epsaudit.text import lower
from epsaudit.witnesses import Bound, CandidateScore, Choice, best_of, candidate_scores
from epsaudit.witnesses.selection import Readable

TO_LEARN = 2_000, MOST_HUNTED
"""The fewest and the most runs that the events are learnt from: else eight times those that refuted the claim."""
LEAST_RUNS = LEAST_HUNTED // 2
"""On each side, that the events are learnt from where time is short; and where the doubling of certifying runs begins:
as many correct guesses and no wrong one certify epsilon = 3.3 at 99 %."""


@dataclass(frozen=True)
class Finding:
    """A refuted claim as it is to be reported."""

    result: AuditResult
    """The pair and the readable event, certified; where no readable event suffices, the learnt one."""
    learnt: AuditResult | None
    """The best event of any kind, certified at the same confidence on other runs; None if it is the readable one."""
    candidate: Candidate | None = field(default=None, compare=False)
    """What was certified; None of one that was read from a file, if JSON could not write it."""
    steps: int = 0
    """Tests that shrinking took."""
    runs: int = 0
    """Runs that learnt and certified."""

    @property
    def pair(self) -> str:
        """Both datasets, and where they differ if long ones begin alike."""
        if self.candidate is None:
            return f"{self.result.x} against {self.result.x_prime}"
        return str(dataclasses.replace(self.candidate.pair, name=""))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object."""
        learnt = None if self.learnt is None else self.learnt.to_dict()
        return {"result": self.result.to_dict(), "learnt": learnt, "steps": self.steps, "pair": self.as_json()}

    def as_json(self) -> list[Any] | None:
        """Return the two datasets and the parameters as JSON values; None if JSON cannot write them."""
        if self.candidate is None:
            return None
        try:
            pair, parameters = self.candidate.pair, dict(self.candidate.parameters)
            return [dataset_to_json(one) for one in (pair.x, pair.x_prime, parameters)]
        except AuditError:
            return None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """Read what `to_dict` returned; raises `AuditError` for what no audit can have given."""
        first: Any = checked(data["result"], "the hunt's result")  # an `AuditResult`, as they were written
        second: Any = None if data["learnt"] is None else checked(data["learnt"], "the hunt's learnt")
        x, x_prime, parameters = data["pair"] or (None, None, {})
        candidate = Candidate(DatasetPair(x, x_prime), (), "", parameters) if data["pair"] else None
        return cls(first, second, candidate, steps=int(data["steps"]))

    def __str__(self) -> str:
        if self.learnt is None:
            return str(self.result)
        return f"{self.result}\n  learnt     {self.learnt.describe_event()}: {_certifies(self.learnt)}"


def certified(
    mechanism: Mechanism,
    candidate: Candidate,
    claim: Claim,
    options: Options,
    *,
    confidence: float,
    seed: int,
    least: int,
    affordable: float = math.inf,
) -> Finding:
    """Choose the events on runs of their own, and certify each on fresh ones; the confidence is of both together.

    About ``least`` runs are known to be enough, and at most four times the trials of an audit are counted. There is
    time to learn from as many as are ``affordable``, if that is less than the usual number.
    """
    each, most = 1.0 - (1.0 - confidence) / 2.0, 4 * options.trials
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        question = Question.of(
            mechanism, [candidate.pair], claim=claim, trials=most, confidence=each, witnesses=options.witnesses
        )
        run = begun(question, seed, options.n_jobs, Section())
        size = min(max(4 * least, TO_LEARN[0] // 2), TO_LEARN[1] // 2)
        size = int(min(size, max(affordable / 2.0, LEAST_RUNS)))
        outputs = training_outputs(run.sides[0], size, seed, 0, workers=run.workers)
        run.look.at(run.sides[0], outputs)
        scores = list(candidate_scores(question.families, *outputs))
    readable, runs = _enough(scores, claim, each, most, simple=True)
    learnt, more = _enough(scores, claim, each, most, simple=False)
    best = readable if readable.predicted > claim.parameter or learnt.predicted <= claim.parameter else learnt
    runs = runs if best is readable else more
    chosen = "the pair and the event were chosen by earlier runs, none of which counts"
    result = _counted(run, best, 2 * size, runs, seed, *candidate.notes, chosen)
    if learnt.witness == best.witness:
        return Finding(result, None, candidate, runs=2 * size + runs)
    another = entry_seed(seed, "the learnt event")
    others = _counted(run, learnt, 2 * size, runs, another, *candidate.notes, "the learnt event")
    note = f"the learnt event {clipped(others.describe_event(), 100)} {_certifies(others)}, on other runs"
    result = dataclasses.replace(result, notes=(*result.notes, note))
    return Finding(result, others, candidate, runs=2 * size + 2 * runs)


def _certifies(result: AuditResult) -> str:
    return f"certifies {result.claim.symbol} >= {lower(result.lower_bound)} by {result.runs:,} runs"


def _enough(
    scores: Sequence[CandidateScore], claim: Claim, confidence: float, most: int, *, simple: bool
) -> tuple[Choice, int]:
    """Choose for the fewest runs by which a bound above the claim is predicted; twice as many are counted, for luck."""
    runs = LEAST_RUNS
    while True:
        objective = Bound(claim, runs, confidence)
        choice = best_of(scores, Readable(objective) if simple else objective)
        if choice.predicted > claim.parameter or runs >= most:
            return choice, min(2 * runs, most)
        runs = min(2 * runs, most)


def _counted(run: Begun, choice: Choice, chose: int, runs: int, seed: int, *notes: str) -> AuditResult:
    """Count the events of a choice, which so many runs chose, on fresh ones."""
    sides = run.sides[0]
    counts = certification_counts(sides, choice.witness, runs, seed, workers=run.workers)
    result = AuditResult(
        **{**run.shared(0, [*run.look.notes(sides), *notes]), "trials": chose + runs, "seed": seed},
        training_runs=chose,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        families="hunt",
    )
    if result.lower_bound > 0.0:
        run.look.again(sides, choice.witness, counts, seed, result.violates_claim)
    return result

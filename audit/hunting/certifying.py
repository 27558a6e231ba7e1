"""The last step of a hunt: a refuted pair is certified on fresh runs, by an event that was learnt on other ones.

The best event of at most two thresholds or outputs is certified by the fewest runs that suffice; where none of these
does, the best event of any kind.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

from epsaudit.adapters.external import dataset_to_json
from epsaudit.adapters.functions import Mechanism
from epsaudit.audits.question import Question, begun
from epsaudit.audits.verify import LEAST_HUNTED, MOST_HUNTED
from epsaudit.claims.definitions import Claim
from epsaudit.engine.sampling import Section, certification_counts, training_outputs
from epsaudit.errors import AuditError
from epsaudit.hunting.description import Candidate
from epsaudit.hunting.parameters import Options
from epsaudit.results.result import AuditResult
from epsaudit.witnesses import Bound, best_of, candidate_scores

TO_LEARN = 2_000, MOST_HUNTED
"""The fewest and the most runs that the event is learnt from: else eight times those that refuted the claim."""
LEAST_RUNS = LEAST_HUNTED // 2
"""On each side, that the event is learnt from where time is short; and where the doubling of certifying runs begins:
as many correct guesses and no wrong one certify epsilon = 3.3 at 99 %."""


@dataclass(frozen=True)
class Finding:
    """A refuted claim as it is to be reported."""

    result: AuditResult
    """The pair and the readable event, certified; where no readable event suffices, a learnt one."""
    candidate: Candidate = field(compare=False)
    """What was certified."""
    steps: int = 0
    """Tests that shrinking took."""

    @property
    def pair(self) -> str:
        """Both datasets, and where they differ if long ones begin alike."""
        return str(dataclasses.replace(self.candidate.pair, name=""))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"result": self.result.to_dict(), "steps": self.steps, "pair": self.as_json()}

    def as_json(self) -> list[Any] | None:
        """Return the two datasets and the parameters as JSON values; None if JSON cannot write them."""
        pair, parameters = self.candidate.pair, dict(self.candidate.parameters)
        try:
            return [dataset_to_json(one) for one in (pair.x, pair.x_prime, parameters)]
        except AuditError:
            return None

    def __str__(self) -> str:
        return str(self.result)


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
) -> AuditResult:
    """Choose an event on runs of their own, and certify it on fresh ones.

    About ``least`` runs are known to be enough, and at most four times the trials of an audit are counted. There is
    time to learn from as many as are ``affordable``, if that is less than the usual number.
    """
    most = 4 * options.trials
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        question = Question.of(
            mechanism, [candidate.pair], claim=claim, trials=most, confidence=confidence, witnesses=options.witnesses
        )
        run = begun(question, seed, options.n_jobs, Section())
        sides = run.sides[0]
        size = min(max(4 * least, TO_LEARN[0] // 2), TO_LEARN[1] // 2)
        size = int(min(size, max(affordable / 2.0, LEAST_RUNS)))
        outputs = training_outputs(sides, size, seed, 0, workers=run.workers)
        run.look.at(sides, outputs)
        scores = list(candidate_scores(question.families, *outputs))
    doubled = [*itertools.takewhile(lambda runs: runs < most, (LEAST_RUNS << k for k in itertools.count())), most]
    for readable, runs in itertools.product((True, False), doubled):
        choice = best_of(scores, Bound(claim, runs, confidence), readable=readable)
        if choice.predicted > claim.parameter:
            break
    runs = min(2 * runs, most)  # for luck
    counts = certification_counts(sides, choice.witness, runs, seed, workers=run.workers)
    chosen = "the pair and the event were chosen by earlier runs, none of which counts"
    result = AuditResult(
        **{
            **run.shared(0, [*run.look.notes[id(sides)], *candidate.notes, chosen]),
            "trials": 2 * size + runs,
            "seed": seed,
        },
        training_runs=2 * size,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        families="hunt",
    )
    if result.lower_bound > 0.0:
        run.look.again(sides, choice.witness, counts, seed, result.violates_claim)
    return result

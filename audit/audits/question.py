"""What audits on pairs of datasets have in common: what is asked, how they begin, and what their results say alike.

A `Question` is what was given, checked. `begun` prepares the mechanism, its output laws and what guards them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from epsaudit import exact
from epsaudit.adapters.external import CommandDistribution
from epsaudit.adapters.functions import FunctionMechanism, Mechanism, mechanism_of
from epsaudit.arguments import Pairs, claim_of, families_of, pairs_of, trials_of
from epsaudit.claims.definitions import Claim
from epsaudit.data.fresh import digest, given
from epsaudit.data.neighbours import DatasetPair, Relation, shorten
from epsaudit.engine.checkpoint import Checkpoint, Identity, Section
from epsaudit.engine.copies import Copies, refuse_if_drawn_before, with_known_randomness
from epsaudit.engine.processes import copies_of
from epsaudit.engine.provenance import execution, provenance
from epsaudit.engine.sampling import Sides, notes_on
from epsaudit.engine.streams import entropy
from epsaudit.engine.workers import Workers, check_restart
from epsaudit.errors import AuditError, confidence_of
from epsaudit.witnesses import Family


@dataclass(frozen=True)
class Question:
    """What is asked: everything that a result depends on apart from the seed."""

    mechanism: Mechanism
    claim: Claim
    pairs: Sequence[DatasetPair]
    trials: int
    confidence: float
    witnesses: str | Sequence[Family]
    families: Sequence[Family]

    @classmethod
    def of(
        cls,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None,
        claim: Claim | None,
        epsilon: float | None,
        delta: float,
        adjacency: Relation | None,
        trials: int,
        confidence: float,
        witnesses: str | Sequence[Family],
    ) -> Question:
        """Check the arguments of an audit; raises `AuditError` for the first that cannot be."""
        mechanism = mechanism_of(mechanism, adjacency)
        claim, trials = claim_of(mechanism, claim, epsilon, delta), trials_of(trials)
        confidence, families = confidence_of(confidence), families_of(witnesses)
        return cls(mechanism, claim, pairs_of(mechanism, pairs), trials, confidence, witnesses, families)

    @property
    def identity(self) -> Identity:
        """The same by name, as a checkpoint remembers it; of code that of the mechanism's own functions and methods."""
        return {
            "kind of audit": "fixed size",
            "mechanism": self.mechanism.name,
            "the mechanism's code or parameters": digest(getattr(self.mechanism, "fingerprint", self.mechanism)),
            "claim": repr(self.claim),
            "pair": "; ".join(str(pair) for pair in self.pairs),
            "the datasets of the pair": digest([(pair.x, pair.x_prime) for pair in self.pairs]),
            "trials": self.trials,
            "confidence": self.confidence,
            "witnesses": self.witnesses if isinstance(self.witnesses, str) else digest(list(self.witnesses)),
            "chunks": Workers.suited_to(self.mechanism, None).least,
            **{f"version of {name}": provenance()[name] for name in ("epsaudit", "numpy", "scipy", "scikit-learn")},
        }


@contextmanager
def recording(
    path: str | os.PathLike[str] | None, question: Question, seed: int | None, more: Identity | None = None
) -> Iterator[tuple[Section, int]]:
    """Open the checkpoint of one audit, if a path is given; yield its section, and the seed.

    ``more`` joins the question's identity, or takes the place of a part of it. Raises `AuditError` as `Checkpoint`, or
    if the mechanism might repeat its noise after a restart.
    """
    if path is None:
        yield Section(), entropy(seed)
        return
    if not os.path.exists(path):  # before anything is written
        check_restart(with_known_randomness(question.mechanism, question.pairs[0], 0 if seed is None else seed))
    name = question.mechanism.name
    with Checkpoint(path, {name: {**question.identity, **(more or {})}}, seed) as opened:
        yield opened.section(name), opened.seed


@dataclass(frozen=True)
class Begun:
    """An audit that has begun: its mechanism, output laws, workers, and what looks for draws that it keeps."""

    question: Question
    seed: int
    mechanism: Mechanism
    sides: list[Sides]
    workers: Workers
    copies: Copies
    started: float

    def shared(self, pair: int, notes: Sequence[str]) -> dict[str, Any]:
        """Return the fields that results of every kind of audit on pairs have alike."""
        asked, chosen = self.question, self.question.pairs[pair]
        seconds = time.perf_counter() - self.started
        return {
            "mechanism": asked.mechanism.name,
            "claim": asked.claim,
            "pair": str(chosen),
            "x": shorten(chosen.x),
            "x_prime": shorten(chosen.x_prime),
            "trials": asked.trials,
            "confidence": asked.confidence,
            "exact": exact_parameter(asked.claim, self.sides[pair]),
            "seed": self.seed,
            "reproducible": bool(getattr(self.mechanism, "reproducible", True)),
            "notes": tuple(dict.fromkeys([*notes_on(self.sides[pair]), *notes])),
            "provenance": provenance(),
            "seconds": seconds,
            "execution": execution(seconds),
        }


def begun(question: Question, seed: int, n_jobs: int | None, record: Section) -> Begun:
    """Begin an audit: find out whose randomness the mechanism draws, and prepare both laws of every pair."""
    started = time.perf_counter()
    mechanism = with_known_randomness(question.mechanism, question.pairs[0], seed)
    workers = Workers.suited_to(mechanism, n_jobs, recorded=record.kept)
    if record.kept:
        check_restart(mechanism)
    sides = [prepared(mechanism, pair) for pair in question.pairs]
    refuse_if_drawn_before(mechanism, question.pairs[0], sides[0], seed)
    return Begun(question, seed, mechanism, sides, workers, copies_of(mechanism, seed), started)


def prepared(mechanism: Mechanism, pair: DatasetPair) -> Sides:
    """Prepare both output distributions; a mechanism that cannot, or a program that is sent the same, is a sentence."""
    if not isinstance(mechanism, FunctionMechanism):  # a function's distribution copies what it is given
        pair = given(pair)
    try:
        sides = mechanism(pair.x), mechanism(pair.x_prime)
    except AuditError:
        raise
    except Exception as error:
        raise AuditError(
            f"{mechanism.name} raised {type(error).__name__} ({error}) while it prepared the pair {pair}."
        ) from error
    sent = [side.dataset for side in sides if isinstance(side, CommandDistribution)]
    if len(sent) == 2 and sent[0] == sent[1]:
        raise AuditError(
            f"Both datasets of the pair {pair} are {shorten(sent[0])} once they are written as JSON, as a program gets "
            "them (tuples, sets and arrays are lists), so that nothing could tell them apart."
        )
    return sides


def exact_parameter(claim: Claim, sides: Sides) -> float | None:
    """Exact value of the claim's parameter on a pair of output laws; None where a law is not known."""
    if not all(exact.knows_law(side) for side in sides):
        return None
    try:
        return exact.exact_parameter(claim, *sides)
    except exact.NotKnownError:
        return None

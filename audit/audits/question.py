"""What audits on pairs of datasets have in common: what is asked, how they begin, and what their results say alike.

A `Question` is what was given, checked. `begun` prepares the mechanism, its output laws and what guards them.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.adapters.external import CommandDistribution
from epsaudit.adapters.functions import FunctionMechanism, Mechanism, Sides, exact_parameter, is_claim, mechanism_of
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import (
    DatasetPair,
    Pairs,
    Relation,
    adjacency_of,
    far_apart,
    given,
    listed,
    refuse_if_consumed,
    same,
    shorten,
)
from epsaudit.engine.checkpoint import Checkpoint, Identity
from epsaudit.engine.independence import Look, refuse_if_drawn_before
from epsaudit.engine.provenance import digest, entropy, execution, fingerprint, provenance
from epsaudit.engine.sampling import ProgressCallback, Section, Workers, check_restart, notes_on
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.witnesses import ALL_FAMILIES, DEFAULT_FAMILIES, Family

LEAST_TRIALS = 100
"""Fewest runs that an audit accepts: with 75 certification runs it can show epsilon 3.18 at 95 % at best."""
MOST_TRIALS = 7 * 10**13
"""Most: the 2^26 chunks of 2^20 runs that a checkpoint can hold, and a month of a hundred cores at a quarter of a
million runs a second."""


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
        mechanism: Mechanism | Callable[..., Any] | None,
        pairs: Pairs | None = None,
        *,
        fresh: Callable[[], Callable[..., Any]] | None = None,
        claim: Claim | None = None,
        adjacency: Relation | None = None,
        trials: int = 1_000_000,
        confidence: float = 0.95,
        witnesses: str | Sequence[Family] = "auto",
    ) -> Question:
        """Check the arguments of an audit; raises `AuditError` for the first that cannot be."""
        mechanism = mechanism_of(mechanism, adjacency, fresh)
        claim, trials = is_claim(mechanism.claim if claim is None else claim, mechanism.name), trials_of(trials)
        confidence, families = confidence_of(confidence), families_of(witnesses)
        return cls(mechanism, claim, pairs_of(mechanism, pairs), trials, confidence, witnesses, families)

    @functools.cached_property
    def look(self) -> Look:
        """What a few runs of copies say of the mechanism's randomness and memory; `AuditError` if it keeps anything."""
        return Look(self.mechanism, self.pairs[0], self.trials)

    def identity(self, kind: str, near: float | None = None) -> Identity:
        """The same by name, as a checkpoint remembers it, with all code of the user's that the mechanism reaches."""
        return {
            "kind of audit": kind,
            **({"near": near} if kind == "sequential" else {}),
            "mechanism": self.mechanism.name,
            "claim": repr(self.claim),
            "pair": "; ".join(str(pair) for pair in self.pairs),
            "the datasets of the pair": digest([(pair.x, pair.x_prime) for pair in self.pairs]),
            "trials": self.trials,
            "confidence": self.confidence,
            "witnesses": self.witnesses if isinstance(self.witnesses, str) else digest(list(self.witnesses)),
            "chunks": Workers.suited_to(self.mechanism, None).least,
            **fingerprint(self.mechanism, self.claim, [] if isinstance(self.witnesses, str) else list(self.witnesses)),
            **{f"version of {name}": provenance()[name] for name in ("epsaudit", "numpy", "scipy", "scikit-learn")},
        }


@contextmanager
def recording(
    question: Question,
    seed: int | None,
    n_jobs: Any,
    progress: Any,
    path: str | os.PathLike[str] | None,
    kind: str = "fixed size",
    near: float | None = None,
) -> Iterator[tuple[int, int | None, ProgressCallback | None, Section]]:
    """Open the checkpoint of one audit, if a path is given; yield its seed, workers, callback, and what it holds.

    Raises `AuditError` for what is none of these, as `Checkpoint`, or if the mechanism might repeat its noise after a
    restart.
    """
    if progress is not None and (isinstance(progress, type) or not callable(progress)):
        raise AuditError(
            f"progress is {progress!r}; it must be a function of an epsaudit.engine.sampling.Progress, as "
            "epsaudit.reporting.progress.Lines() is."
        )
    if path is not None and not (isinstance(path, str | os.PathLike) and os.fspath(path)):
        raise AuditError(f"checkpoint is {path!r}; it must be the path of a file.")
    n_jobs = jobs_of(n_jobs)
    if path is None:
        yield entropy(seed), n_jobs, progress, Section()
        return
    if not os.path.exists(path):  # before anything is written
        check_restart(question.look.mechanism)
    name = question.mechanism.name
    with Checkpoint(path, {name: question.identity(kind, near)}, seed) as opened:
        yield opened.seed, n_jobs, progress, Section(opened, name)


@dataclass(frozen=True)
class Begun:
    """An audit that has begun: its mechanism, output laws, workers, and what looks for draws that it keeps."""

    question: Question
    seed: int
    mechanism: Mechanism
    sides: list[Sides]
    workers: Workers
    look: Look
    started: float

    def shared(self, pair: int, notes: Sequence[str]) -> dict[str, Any]:
        """Return the fields that results of every kind of audit on pairs have alike."""
        asked, chosen = self.question, self.question.pairs[pair]
        apart = filter(None, [far_apart(chosen, asked.claim.symbol)] if asked.mechanism.adjacency is None else [])
        seconds = time.perf_counter() - self.started
        return {
            "mechanism": asked.mechanism.name,
            "claim": asked.claim,
            "pair": str(chosen),
            "x": shorten(chosen.x),
            "x_prime": shorten(chosen.x_prime),
            "pair_digest": digest((chosen.x, chosen.x_prime)),
            "trials": asked.trials,
            "confidence": asked.confidence,
            "exact": exact_parameter(asked.claim, self.sides[pair]),
            "seed": self.seed,
            "reproducible": bool(getattr(self.mechanism, "reproducible", True))
            and (self.look.elsewhere is None or self.look.elsewhere.result()),
            "notes": tuple(dict.fromkeys([*apart, *notes_on(self.sides[pair]), *notes])),
            "provenance": provenance(),
            "seconds": seconds,
            "execution": execution(seconds),
        }


def begun(question: Question, seed: int, n_jobs: int | None, record: Section) -> Begun:
    """Begin an audit: find out whose randomness the mechanism draws, and prepare both laws of every pair."""
    started = time.perf_counter()
    provenance()  # asks git, which may hang: now, and not when the runs are done
    look = question.look
    mechanism = look.mechanism
    workers = Workers.suited_to(mechanism, n_jobs, recorded=record.kept)
    if record.kept:
        check_restart(mechanism)
    sides: list[Sides] = []
    for pair in question.pairs:
        # a function's distribution copies what it is given
        ours = pair if isinstance(mechanism, FunctionMechanism) else given(pair)
        try:
            first, second = mechanism(ours.x), mechanism(ours.x_prime)
        except AuditError:
            raise
        except Exception as error:
            raise AuditError(
                f"{mechanism.name} raised {type(error).__name__} ({error}) while it prepared the pair {ours}."
            ) from error
        if (
            isinstance(first, CommandDistribution)
            and isinstance(second, CommandDistribution)
            and first.dataset == second.dataset
        ):
            raise AuditError(
                f"Both datasets of the pair {ours} are {shorten(first.dataset)} once they are written as JSON, as a "
                "program gets them (tuples, sets and arrays are lists), so that nothing could tell them apart."
            )
        sides.append((first, second))
    if not isinstance(mechanism, FunctionMechanism):
        refuse_if_drawn_before(mechanism, question.pairs[0], sides[0])
    return Begun(question, seed, mechanism, sides, workers, look, started)


def trials_of(trials: Any, what: str = "trials") -> int:
    """Return a number of runs that an audit can make."""
    number = whole_at_least(trials, LEAST_TRIALS, what)
    if number > MOST_TRIALS:
        raise AuditError(f"{what} is {trials!r}; no audit ends that has more than {MOST_TRIALS:,} runs.")
    return number


def pairs_of(mechanism: Mechanism, pairs: Any) -> list[DatasetPair]:
    """Return the pairs to audit, the mechanism's own for None; datasets differ, are adjacent, can be reread."""
    adjacency = adjacency_of(mechanism.adjacency)
    found = listed(mechanism.worst_pairs() if pairs is None else pairs, adjacency)
    if not found:
        raise AuditError(f"{mechanism.name} names no pairs of datasets; give some as pairs=[(x, x_prime)].")
    for pair in found:
        for dataset in (pair.x, pair.x_prime):
            refuse_if_consumed(dataset)
        if same(pair.x, pair.x_prime):
            raise AuditError(f"Both datasets of the pair {pair} are the same, so that nothing could tell them apart.")
        if adjacency is not None:
            adjacency.check(pair)
    return found


def families_of(witnesses: str | Sequence[Family]) -> Sequence[Family]:
    """Return the families that a ``witnesses`` argument names."""
    families: Any = witnesses
    if isinstance(families, str) and families in ("auto", "all"):
        return DEFAULT_FAMILIES if families == "auto" else ALL_FAMILIES
    if isinstance(families, str) or not isinstance(families, Sequence) or len(families) == 0:
        raise AuditError(
            f"witnesses is {witnesses!r}; it must be 'auto', 'all' or a list of families of epsaudit.witnesses."
        )
    for family in families:
        if isinstance(family, type) or not callable(getattr(family, "fit", None)):
            raise AuditError(
                f"{family!r} among the witnesses is no family: an object with fit(outputs, outputs_prime), as Tails()."
            )
    return families


def jobs_of(n_jobs: Any, what: str = "n_jobs") -> int | None:
    """Return a number of workers as joblib takes it: None, 1 or more, or negative to count from all cores."""
    if n_jobs is None or (isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise AuditError(f"{what} is {n_jobs!r}; it must be a whole number of at least 1, or -1 for every core.")

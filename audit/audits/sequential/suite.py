"""Many sequential audits as one suite: shares of the error probability and seeds are those of audits of fixed size."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from epsaudit.adapters.registry import Entry
from epsaudit.audits.question import Question, recording
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.auditing import refuse_if_irrefutable
from epsaudit.audits.suite import confidence_of_each, entry_seed
from epsaudit.engine.provenance import command, provenance
from epsaudit.engine.sampling import ProgressCallback
from epsaudit.engine.workers import Workers
from epsaudit.errors import AuditError


class Kept(NamedTuple):
    """The checkpoint of one audit, which opens it itself, and its seed."""

    path: str | os.PathLike[str]
    seed: int


def run(
    entries: Sequence[Entry],
    *,
    trials: int,
    family_confidence: float,
    seed: int,
    n_jobs: int | None,
    progress: Callable[[str], ProgressCallback | None],
    checkpoint: Kept | None,
) -> Iterator[SequentialResult]:
    """Audit every entry, as `epsaudit.audits.suite.run` does; ``checkpoint`` is what `checkpointed` yields."""
    for entry in entries:
        refuse_if_irrefutable(entry.claim)
    alone = len(entries) == 1
    shared: dict[str, Any] = {"trials": trials, "confidence": confidence_of_each(entries, family_confidence)}
    shared |= {"n_jobs": n_jobs if alone else 1, "checkpoint": checkpoint and checkpoint.path}
    seeds = (seed if alone else entry_seed(seed, entry.name) for entry in entries)
    tasks = (
        (entry, {**shared, "seed": own, "progress": progress(entry.name)})
        for entry, own in zip(entries, seeds, strict=True)
    )
    for _, result in Workers(1 if alone else n_jobs, "processes").each(
        _audit_early, None, tasks, trials, in_order=True
    ):
        known = {**result.execution, "command": command()}  # which a worker does not know
        yield result if alone else dataclasses.replace(result, provenance=provenance(), execution=known)


@contextlib.contextmanager
def checkpointed(
    path: str | os.PathLike[str], entries: Sequence[Entry], trials: int, family_confidence: float, seed: int | None
) -> Iterator[Kept]:
    """Make or check the checkpoint of one audit; raises `AuditError` for several."""
    if len(entries) != 1:
        raise AuditError(f"--checkpoint keeps one audit that stops early, and these are {len(entries)}; name one.")
    (entry,) = entries
    refuse_if_irrefutable(entry.claim)
    question = Question.of(
        entry.mechanism, entry.pairs, claim=entry.claim, trials=trials, confidence=family_confidence,
        witnesses=entry.witnesses,
    )  # fmt: skip
    with recording(path, question, seed, {"kind of audit": "sequential", "near": None}) as (_, root):
        pass
    yield Kept(path, root)


def _audit_early(_: None, task: tuple[Entry, dict[str, Any]]) -> SequentialResult:
    entry, how = task
    result = audit_sequentially(entry.mechanism, entry.pairs, claim=entry.claim, witnesses=entry.witnesses, **how)
    return dataclasses.replace(result, mechanism=entry.name, expected=entry.expected)

"""``epsaudit audit --stop-early``: sequential audits, shared out as `epsaudit.audits.suite` shares those of fixed size.

Each ends when its claim is refuted. Confidence, seeds and workers are those of a suite.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from epsaudit.adapters.registry import Entry
from epsaudit.audits import suite
from epsaudit.audits.question import Question, recording
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.auditing import refuse_if_irrefutable
from epsaudit.engine.provenance import command, provenance
from epsaudit.engine.sampling import ProgressCallback
from epsaudit.engine.workers import Workers
from epsaudit.errors import AuditError


def run(
    entries: Sequence[Entry],
    *,
    trials: int,
    family_confidence: float,
    seed: int,
    n_jobs: int | None,
    progress: Callable[[str], ProgressCallback | None],
    checkpoint: SimpleNamespace | None,
) -> Iterator[SequentialResult]:
    """As `epsaudit.audits.suite.run`; ``checkpoint`` is what `checkpointed` yields, of one entry."""
    for entry in entries:
        refuse_if_irrefutable(entry.claim)
    each, alone = suite.confidence_of_each(entries, family_confidence), len(entries) == 1
    tasks = (
        (
            entry,
            {
                "trials": trials,
                "confidence": each,
                "seed": seed if alone else suite.entry_seed(seed, entry.name),
                "n_jobs": n_jobs if alone else 1,
                "progress": progress(entry.name),
                "checkpoint": checkpoint and checkpoint.path,
            },
        )
        for entry in entries
    )
    for _, result in Workers(1 if alone else n_jobs, "processes").each(_audit, None, tasks, trials, in_order=True):
        known = {**result.execution, "command": command()}  # which a worker does not know
        yield result if alone else dataclasses.replace(result, provenance=provenance(), execution=known)


def checkpointed(
    path: Path, entries: Sequence[Entry], trials: int, confidence: float, seed: int | None
) -> contextlib.AbstractContextManager[SimpleNamespace]:
    """Make or check the checkpoint of one audit, and yield its path and its seed; the audit opens it again."""
    if len(entries) != 1:
        raise AuditError(f"--checkpoint keeps one audit that stops early, and these are {len(entries)}; name one.")
    (entry,) = entries
    refuse_if_irrefutable(entry.claim)
    asked = (entry.mechanism, entry.pairs, entry.claim, None, 0.0, None)
    question = Question.of(*asked, trials, confidence, entry.witnesses)
    with recording(path, question, seed, {"kind of audit": "sequential", "near": None}) as (_, root):
        return contextlib.nullcontext(SimpleNamespace(path=path, seed=root))


def _audit(_: None, task: tuple[Entry, dict[str, Any]]) -> SequentialResult:
    entry, how = task
    result = audit_sequentially(entry.mechanism, entry.pairs, claim=entry.claim, witnesses=entry.witnesses, **how)
    return dataclasses.replace(result, mechanism=entry.name, expected=entry.expected)

"""Many audits as one suite: a family-wise error probability shared among them, and a seed for each."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from epsaudit.adapters.registry import Entry
from epsaudit.audits.fixed import certified
from epsaudit.audits.question import Question, jobs_of
from epsaudit.engine.checkpoint import Checkpoint, Section
from epsaudit.engine.provenance import command, provenance
from epsaudit.engine.sampling import ProgressCallback
from epsaudit.engine.workers import Workers, entropy
from epsaudit.errors import confidence_of
from epsaudit.results.result import AuditResult


def run(
    entries: Sequence[Entry],
    *,
    trials: int = 1_000_000,
    family_confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[str], ProgressCallback | None] = lambda name: None,
    checkpoint: Checkpoint | None = None,
) -> Iterator[AuditResult]:
    """Audit every entry and yield its result, under the entry's name, in order and as soon as it is known.

    Each of k audits is run at confidence 1 - (1 - family_confidence) / k, so that all k bounds hold together with
    probability at least ``family_confidence``, in [0.5, 1) (Bonferroni). Several entries run side by side, one a
    worker; one entry, or entries with a checkpoint, have all workers to themselves. The results are the same, and each
    audit alone is reproduced by its own seed and confidence. ``trials`` and ``n_jobs`` are as for `epsaudit.audit`, for
    each entry.

    One entry alone is audited with ``seed`` itself, others by `entry_seed`. ``progress``, given an entry's name,
    returns its callback, which is sent to another process where entries run side by side. A ``checkpoint`` is what
    `checkpointed` opened, with these entries, trials and confidence; its seed takes the place of ``seed``.
    """
    each = confidence_of_each(entries, family_confidence)
    if len(entries) == 1 or checkpoint is not None:
        for entry in entries:
            section = None if checkpoint is None else checkpoint.section(entry.name)
            root = seed if checkpoint is None else checkpoint.seed
            own_seed = root if len(entries) == 1 else entry_seed(root, entry.name)
            yield _audit(entry, trials, each, own_seed, n_jobs, progress(entry.name), section)
        return
    provenance()  # asks git: before the runs
    tasks = ((entry, trials, each, entry_seed(seed, entry.name), 1, progress(entry.name)) for entry in entries)
    for _, result in Workers(n_jobs, "processes").each(_audit_one, None, tasks, trials, in_order=True):
        known = {**result.execution, "command": command()}  # which a worker does not know
        yield dataclasses.replace(result, provenance=provenance(), execution=known)


def checkpointed(
    path: str | os.PathLike[str], entries: Sequence[Entry], trials: int, family_confidence: float, seed: int | None
) -> Checkpoint:
    """Open one checkpoint for a whole suite; arguments are as for `run`, errors as for `Checkpoint`."""
    each = confidence_of_each(entries, family_confidence)
    return Checkpoint(path, {entry.name: _question(entry, trials, each).identity for entry in entries}, seed)


def _question(entry: Entry, trials: int, confidence: float) -> Question:
    return Question.of(
        entry.mechanism, entry.pairs, claim=entry.claim, trials=trials, confidence=confidence,
        witnesses=entry.witnesses,
    )  # fmt: skip


def confidence_of_each(entries: Sequence[Entry], family_confidence: float) -> float:
    """Confidence of each audit of a suite that holds with this confidence as a whole."""
    family_confidence = confidence_of(family_confidence)
    return family_confidence if len(entries) == 1 else 1.0 - (1.0 - family_confidence) / max(len(entries), 1)


def _audit(
    entry: Entry,
    trials: int,
    confidence: float,
    seed: int,
    n_jobs: int | None,
    progress: ProgressCallback | None = None,
    checkpoint: Section | None = None,
) -> AuditResult:
    result = certified(_question(entry, trials, confidence), entropy(seed), jobs_of(n_jobs), progress, checkpoint)
    return dataclasses.replace(result, mechanism=entry.name, expected=entry.expected)


def _audit_one(_: None, task: tuple[Any, ...]) -> AuditResult:
    return _audit(*task)


def entry_seed(seed: int, name: str) -> int:
    """Seed of one entry: a hash of the suite's seed and the entry's name, so that no two rows share random streams.

    >>> entry_seed(0, "laplace") == entry_seed(0, "laplace") != entry_seed(0, "gaussian")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big")

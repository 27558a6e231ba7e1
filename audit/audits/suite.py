"""Suites of audits: several mechanisms audited with one family-wise confidence, each with a seed of its own."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from epsaudit.audits.fixed import certify
from epsaudit.audits.sequential import certify_in_rounds, refuse_if_irrefutable
from epsaudit.audits.spec import AuditSpec, check_n_jobs
from epsaudit.errors import confidence_of
from epsaudit.results.result import Result
from epsaudit.running.checkpoint import Checkpoint
from epsaudit.running.pool import Workers
from epsaudit.running.progress import ProgressCallback
from epsaudit.running.provenance import provenance, typed_command
from epsaudit.running.record import AuditRecord
from epsaudit.running.registry import Entry
from epsaudit.running.runs import Runs
from epsaudit.running.streams import entropy


def run_suite(
    entries: Sequence[Entry],
    *,
    trials: int = 1_000_000,
    family_confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    stop_early: bool = False,
    progress: Callable[[str], ProgressCallback | None] = lambda name: None,
    checkpoint: Checkpoint | None = None,
) -> Iterator[Result]:
    """Audit every entry, and yield the results in the order of the entries, each as soon as it is available.

    An entry is a mechanism with its claim and its pairs. Let a = 1 - family_confidence. Each of k audits has confidence
    1 - a / k, so all k bounds hold together with probability at least ``family_confidence``, which must be in [0.5, 1)
    (Bonferroni). Several entries are audited at the same time, each by one worker. A single entry, or entries with a
    checkpoint, are audited one after the other by all workers; the results are the same.

    A single entry is audited with ``seed`` itself, and each of several entries with its `entry_seed`. With
    ``stop_early`` the audits are sequential. ``progress`` is a function from the name of an entry to its progress
    callback, which may be sent to another process. A ``checkpoint`` must have been opened by `open_checkpoint` with the
    same entries, trials and confidence; its seed replaces ``seed``.
    """
    each = _checked_confidence(entries, family_confidence, stop_early)
    root, alone = seed if checkpoint is None else checkpoint.seed, len(entries) == 1
    seeds = {entry.name: root if alone else entry_seed(root, entry.name) for entry in entries}
    if alone or checkpoint is not None:
        for entry in entries:
            record = None if checkpoint is None else AuditRecord(checkpoint, entry.name)
            terms = (trials, each, stop_early, n_jobs, record)
            yield _audit_entry(terms, (entry, seeds[entry.name], progress(entry.name)))
        return
    provenance()  # runs git, so it is called before the mechanisms run
    told = ((entry, seeds[entry.name], progress(entry.name)) for entry in entries)
    workers, terms = Workers(n_jobs, "processes"), (trials, each, stop_early, 1, None)
    for _, result in workers.each(_audit_entry, terms, told, trials, in_order=True):
        known = {**result.execution, "command": typed_command()}  # a worker does not know the command
        yield dataclasses.replace(result, provenance=provenance(), execution=known)


def open_checkpoint(
    path: str | os.PathLike[str],
    entries: Sequence[Entry],
    trials: int,
    family_confidence: float,
    seed: int | None,
    stop_early: bool = False,
) -> Checkpoint:
    """Open one checkpoint file for all audits of a suite.

    The arguments are those of `run_suite`, and the errors those of `Checkpoint`.
    """
    each = _checked_confidence(entries, family_confidence, stop_early)
    kind = "sequential" if stop_early else "fixed size"
    audits = {entry.name: _spec_of(entry, trials, each).identity(kind) for entry in entries}
    return Checkpoint(path, audits, seed)


def _spec_of(entry: Entry, trials: int, confidence: float) -> AuditSpec:
    how: dict[str, Any] = {"trials": trials, "confidence": confidence, "witnesses": entry.witnesses}
    return AuditSpec.of(entry.mechanism, entry.pairs, claim=entry.claim, **how)


def _audit_entry(
    terms: tuple[int, float, bool, int | None, AuditRecord | None], told: tuple[Entry, int, Any]
) -> Result:
    (trials, confidence, stop_early, n_jobs, record), (entry, seed, progress) = terms, told
    spec = _spec_of(entry, trials, confidence)
    runs = Runs(spec, entropy(seed), check_n_jobs(n_jobs), progress, record)
    result: Result = certify_in_rounds(spec, runs) if stop_early else certify(spec, runs)
    return dataclasses.replace(result, mechanism=entry.name, expected=entry.expected)


def confidence_of_each(entries: Sequence[Entry], family_confidence: float) -> float:
    """Return the confidence that each audit needs for all bounds to hold together with the family confidence."""
    family_confidence = confidence_of(family_confidence)
    return family_confidence if len(entries) == 1 else 1.0 - (1.0 - family_confidence) / max(len(entries), 1)


def _checked_confidence(entries: Sequence[Entry], family_confidence: float, stop_early: bool) -> float:
    """Return the confidence of each audit, as `confidence_of_each` does, after checking the claims.

    Raises `AuditError` if ``stop_early`` is true, so that audits are sequential, and no sequential audit could refute
    the claim of an entry.
    """
    each = confidence_of_each(entries, family_confidence)
    for entry in entries if stop_early else ():
        refuse_if_irrefutable(entry.claim)
    return each


def entry_seed(seed: int, name: str) -> int:
    """Return the seed of one entry of a suite: a hash of the suite's seed and the entry's name.

    Entries with different names have different random streams, and an entry has the same seed in every suite with the
    same seed.

    >>> entry_seed(0, "laplace") == entry_seed(0, "laplace") != entry_seed(0, "gaussian")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big")

"""Many audits as one suite: a family-wise error probability shared among them, and a seed for each."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence

from epsaudit.adapters.registry import Entry
from epsaudit.audits.fixed import certified
from epsaudit.audits.question import Question, jobs_of
from epsaudit.audits.sequential import certified_in_rounds, refuse_if_irrefutable
from epsaudit.engine.checkpoint import Checkpoint
from epsaudit.engine.provenance import command, entropy, provenance
from epsaudit.engine.sampling import ProgressCallback, Section, Workers
from epsaudit.errors import confidence_of
from epsaudit.results.result import Result


def run(
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
    """Audit every entry and yield its result, under the entry's name, in order and as soon as it is known.

    Each of k audits is run at confidence 1 - (1 - family_confidence) / k, so that all k bounds hold together with
    probability at least ``family_confidence``, in [0.5, 1) (Bonferroni). Several entries run side by side, one a
    worker; one entry, or entries with a checkpoint, have all workers to themselves. The results are the same, and each
    audit alone is reproduced by its own seed and confidence. ``trials`` and ``n_jobs`` are as for `epsaudit.audit`, for
    each entry; audits that ``stop_early`` are those of `epsaudit.audit_sequentially`.

    One entry alone is audited with ``seed`` itself, others by `entry_seed`. ``progress``, given an entry's name,
    returns its callback, which is sent to another process where entries run side by side. A ``checkpoint`` is what
    `checkpointed` opened, with these entries, trials and confidence; its seed takes the place of ``seed``.
    """
    each = confidence_of_each(entries, family_confidence)
    for entry in entries if stop_early else ():
        refuse_if_irrefutable(entry.claim)
    root = seed if checkpoint is None else checkpoint.seed
    tasks = (
        _Task(entry, trials, each, root if len(entries) == 1 else entry_seed(root, entry.name), stop_early)
        for entry in entries
    )
    if len(entries) == 1 or checkpoint is not None:
        for task in tasks:
            section = None if checkpoint is None else Section(checkpoint, task.entry.name)
            yield task.result(n_jobs, progress(task.entry.name), section)
        return
    provenance()  # asks git: before the runs
    told = ((task, progress(task.entry.name)) for task in tasks)
    for _, result in Workers(n_jobs, "processes").each(_result_of, None, told, trials, in_order=True):
        known = {**result.execution, "command": command()}  # which a worker does not know
        yield dataclasses.replace(result, provenance=provenance(), execution=known)


def checkpointed(
    path: str | os.PathLike[str],
    entries: Sequence[Entry],
    trials: int,
    family_confidence: float,
    seed: int | None,
    stop_early: bool = False,
) -> Checkpoint:
    """Open one checkpoint for a whole suite; arguments are as for `run`, errors as for `Checkpoint`."""
    each = confidence_of_each(entries, family_confidence)
    tasks = [_Task(entry, trials, each, 0, stop_early) for entry in entries]
    for entry in entries if stop_early else ():
        refuse_if_irrefutable(entry.claim)
    return Checkpoint(path, {task.entry.name: task.question.identity(task.kind) for task in tasks}, seed)


@dataclasses.dataclass(frozen=True)
class _Task:
    """One audit of a suite."""

    entry: Entry
    trials: int
    confidence: float
    seed: int
    stop_early: bool

    @property
    def kind(self) -> str:
        return "sequential" if self.stop_early else "fixed size"

    @property
    def question(self) -> Question:
        entry = self.entry
        return Question.of(
            entry.mechanism, entry.pairs, claim=entry.claim, trials=self.trials, confidence=self.confidence,
            witnesses=entry.witnesses,
        )  # fmt: skip

    def result(self, n_jobs: int | None, progress: ProgressCallback | None, record: Section | None) -> Result:
        how = (self.question, entropy(self.seed), jobs_of(n_jobs), progress, record)
        result: Result = certified_in_rounds(*how) if self.stop_early else certified(*how)
        return dataclasses.replace(result, mechanism=self.entry.name, expected=self.entry.expected)


def _result_of(_: None, told: tuple[_Task, ProgressCallback | None]) -> Result:
    task, progress = told
    return task.result(1, progress, None)


def confidence_of_each(entries: Sequence[Entry], family_confidence: float) -> float:
    """Confidence of each audit of a suite that holds with this confidence as a whole."""
    family_confidence = confidence_of(family_confidence)
    return family_confidence if len(entries) == 1 else 1.0 - (1.0 - family_confidence) / max(len(entries), 1)


def entry_seed(seed: int, name: str) -> int:
    """Seed of one entry: a hash of the suite's seed and the entry's name, so that no two rows share random streams.

    >>> entry_seed(0, "laplace") == entry_seed(0, "laplace") != entry_seed(0, "gaussian")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big")

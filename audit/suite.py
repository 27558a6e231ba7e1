"""Many audits as one suite: a family-wise error probability shared among them, and a seed for each.

Registry entries enter, results leave. Each audit alone is reproduced by its own seed and confidence.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence

import joblib

from audit.auditor import audit
from audit.errors import fraction
from audit.provenance import command, provenance
from audit.registry import Entry
from audit.results import AuditResult
from audit.sampling import ProgressCallback, jobs_to_use


def run(
    entries: Sequence[Entry],
    *,
    trials: int = 1_000_000,
    family_confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[AuditResult]:
    """Audit every entry and yield its result, under the entry's name, in order and as soon as it is known.

    Each of k audits is run at confidence 1 - (1 - family_confidence) / k, so that all k bounds hold together
    with probability at least ``family_confidence`` (Bonferroni). Several entries run side by side, one a worker; one
    entry has all workers to itself. The results are the same.

    Parameters
    ----------
    entries : sequence of Entry
        What to audit.
    trials, n_jobs
        As for `audit.audit`, for each entry.
    family_confidence : float
        Confidence of all bounds together.
    seed : int
        Seed of the suite; see `entry_seed`.
    progress : callable, optional
        As for `audit.audit`; called only where there is one entry.
    """
    family_confidence = fraction(family_confidence, "confidence", open_below=True)
    if len(entries) == 1:
        yield _audit(entries[0], trials, family_confidence, seed, n_jobs, progress)
        return
    each = 1.0 - (1.0 - family_confidence) / max(len(entries), 1)
    parallel = joblib.Parallel(n_jobs=jobs_to_use(n_jobs, trials), return_as="generator", batch_size=1)
    for result in parallel(joblib.delayed(_audit)(entry, trials, each, seed, 1, None) for entry in entries):
        known = {**result.execution, "command": command()}  # which a worker does not know
        yield dataclasses.replace(result, provenance=provenance(), execution=known)


def _audit(
    entry: Entry, trials: int, confidence: float, seed: int, n_jobs: int | None, progress: ProgressCallback | None
) -> AuditResult:
    result = audit(
        entry.mechanism,
        entry.pairs,
        claim=entry.claim,
        trials=trials,
        confidence=confidence,
        seed=entry_seed(seed, entry.name),
        n_jobs=n_jobs,
        progress=progress,
    )
    return dataclasses.replace(result, mechanism=entry.name, expected=entry.expected)


def entry_seed(seed: int, name: str) -> int:
    """Seed of one entry: a hash of the suite's seed and the entry's name, so that no two rows share luck.

    Examples
    --------
    >>> entry_seed(0, "laplace") == entry_seed(0, "laplace") != entry_seed(0, "gaussian")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big")

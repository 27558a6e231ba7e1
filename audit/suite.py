"""Many audits as one suite: a family-wise error probability shared among them, and a seed for each.

Registry entries enter, results leave. Each audit alone is reproduced by its own seed and confidence.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence

from audit.auditor import audit
from audit.errors import fraction
from audit.registry import Entry
from audit.results import AuditResult
from audit.sampling import ProgressCallback


def run(
    entries: Sequence[Entry],
    *,
    trials: int = 1_000_000,
    family_confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[str], ProgressCallback | None] = lambda name: None,
) -> Iterator[AuditResult]:
    """Audit every entry and yield its result, under the entry's name, as soon as it is known.

    Each of k audits is run at confidence 1 - (1 - family_confidence) / k, so that all k bounds hold together
    with probability at least ``family_confidence`` (Bonferroni).

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
    progress : callable
        Given an entry's name, returns the progress callback for its audit, or None.
    """
    family_confidence = fraction(family_confidence, "confidence", open_below=True)
    each = 1.0 - (1.0 - family_confidence) / max(len(entries), 1)
    for entry in entries:
        result = audit(
            entry.mechanism,
            entry.pairs,
            claim=entry.claim,
            trials=trials,
            confidence=each if len(entries) > 1 else family_confidence,
            seed=entry_seed(seed, entry.name),
            n_jobs=n_jobs,
            progress=progress(entry.name),
        )
        yield dataclasses.replace(result, mechanism=entry.name, expected=entry.expected)


def entry_seed(seed: int, name: str) -> int:
    """Seed of one entry: a hash of the suite's seed and the entry's name, so that no two rows share luck.

    Examples
    --------
    >>> entry_seed(0, "laplace") == entry_seed(0, "laplace") != entry_seed(0, "gaussian")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big")

"""What is audited: the arguments of an audit, checked before any run.

It stands alone because all audits on pairs of datasets, hunts and frozen tests check the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.claims.definitions import Claim
from epsaudit.data.datasets import are_equal_datasets, refuse_if_consumed
from epsaudit.data.neighbours import DatasetPair, Pairs, Relation, adjacency_of
from epsaudit.data.pairs import list_pairs, warn_of_strings
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.running.checkpoint import Identity
from epsaudit.running.functions import mechanism_of
from epsaudit.running.identity import digest, fingerprint
from epsaudit.running.pool import Workers
from epsaudit.running.protocols import Mechanism, is_claim
from epsaudit.running.provenance import provenance
from epsaudit.search import ALL_FAMILIES, DEFAULT_FAMILIES, Family

MIN_TRIALS = 100
"""[formula] Minimum number of runs of an audit. With 75 certification runs, it can certify epsilon 3.18 at 95 %."""
MAX_TRIALS = 7 * 10**13
"""[formula] Maximum number of runs of an audit: a checkpoint can hold 2^26 chunks of 2^20 runs. A hundred cores with a
quarter of a million runs per second each would take a month."""


@dataclass(frozen=True)
class AuditSpec:
    """The specification of an audit: everything that its result depends on, apart from the seed.

    Attributes
    ----------
    mechanism : Mechanism
        What is audited.
    claim : Claim
        The claim that the audit tries to refute.
    pairs : sequence of DatasetPair
        The candidate pairs of neighbouring datasets.
    trials : int
        Maximum number of runs, on both datasets together.
    confidence : float
        Confidence of the lower bound.
    witnesses : str or sequence of Family
        The argument of this name, as it was given.
    families : sequence of Family
        The families of witnesses that ``witnesses`` stands for.
    """

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
    ) -> AuditSpec:
        """Return the specification of an audit from its arguments, after checking them.

        Raises `AuditError` for the first argument that is not valid.
        """
        mechanism = mechanism_of(mechanism, adjacency, fresh)
        claim, trials = is_claim(mechanism.claim if claim is None else claim, mechanism.name), check_trials(trials)
        confidence, families = confidence_of(confidence), check_families(witnesses)
        return cls(mechanism, claim, check_pairs(mechanism, pairs), trials, confidence, witnesses, families)

    def identity(self, kind: str, near: float | None = None) -> Identity:
        """Return the properties that a checkpoint must share with this audit, so that the audit can continue from it.

        The keys are names that a message can quote. The values include digests of all user code that the mechanism can
        reach, and the versions of the libraries that the result depends on.
        """
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
            **{f"version of {name}": provenance()[name] for name in ("epsaudit", "numpy", "scipy")},
        }


def check_trials(trials: Any, what: str = "trials") -> int:
    """Return the number of runs ``trials`` as an int; raise `AuditError` if no audit can have this number of runs.

    ``what`` is the name of the argument in the message.
    """
    number = whole_at_least(trials, MIN_TRIALS, what)
    if number > MAX_TRIALS:
        raise AuditError(
            f"{what} is {trials!r}; it must be at most {MAX_TRIALS:,}, because a larger audit would not end."
        )
    return number


def check_pairs(mechanism: Mechanism, pairs: Any) -> list[DatasetPair]:
    """Return the list of pairs to audit from the argument ``pairs``; None stands for the mechanism's own worst pairs.

    Raises `AuditError` if there are no pairs, if both datasets of a pair are equal or are not neighbours, or if a
    dataset can be read only once (an iterator).
    """
    adjacency = adjacency_of(mechanism.adjacency)
    found = list_pairs(mechanism.worst_pairs() if pairs is None else pairs, adjacency)
    if not found:
        raise AuditError(f"{mechanism.name} names no pairs of datasets; give some as pairs=[(x, x_prime)].")
    for pair in found:
        for dataset in (pair.x, pair.x_prime):
            refuse_if_consumed(dataset)
        if are_equal_datasets(pair.x, pair.x_prime):
            raise AuditError(f"Both datasets of the pair {pair} are the same, so that nothing could tell them apart.")
        if adjacency is not None:
            adjacency.check(pair)
    warn_of_strings(found)
    return found


def check_families(witnesses: str | Sequence[Family]) -> Sequence[Family]:
    """Return the families of candidate events for the argument ``witnesses``: 'auto', 'all' or a sequence of families.

    Raises `AuditError` for any other value.
    """
    families: Any = witnesses
    if isinstance(families, str) and families in ("auto", "all"):
        return DEFAULT_FAMILIES if families == "auto" else ALL_FAMILIES
    if isinstance(families, str) or not isinstance(families, Sequence) or len(families) == 0:
        raise AuditError(
            f"witnesses is {witnesses!r}; it must be 'auto', 'all' or a list of families of epsaudit.search."
        )
    for family in families:
        if isinstance(family, type) or not callable(getattr(family, "fit", None)):
            raise AuditError(
                f"{family!r} among the witnesses is no family; a family is an object with fit(outputs, outputs_prime), "
                "such as Tails()."
            )
    return families


def check_n_jobs(n_jobs: Any, what: str = "n_jobs") -> int | None:
    """Return ``n_jobs`` as joblib takes it: None, at least 1, or negative to count back from all cores.

    Raises `AuditError` for anything else.
    """
    if n_jobs is None or (isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise AuditError(f"{what} is {n_jobs!r}; it must be a whole number of at least 1, or -1 for every core.")

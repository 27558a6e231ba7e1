"""The stages put together: choose a witness on training runs, certify it on fresh ones, report.

A mechanism and a claim enter, an `AuditResult` leaves. The order of the steps is what makes the bound valid.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from audit import exact
from audit.claims import Claim
from audit.errors import AuditError, fraction, whole_at_least
from audit.mechanism import Mechanism
from audit.neighbours import DatasetPair, shorten
from audit.provenance import execution, provenance
from audit.results import AuditResult
from audit.sampling import ProgressCallback, Sides, certification_counts, entropy
from audit.training import train
from audit.witnesses import ALL_FAMILIES, DEFAULT_FAMILIES, Family

LEAST_TRIALS = 100


def audit(
    mechanism: Mechanism,
    pairs: DatasetPair | Sequence[DatasetPair] | None = None,
    *,
    claim: Claim | None = None,
    trials: int = 1_000_000,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
    progress: ProgressCallback | None = None,
) -> AuditResult:
    """Certify a lower bound on a mechanism's privacy loss.

    About a tenth of the runs choose the pair, the event and the certificate; the rest are fresh and certify the
    one choice with the whole error probability. The bound exceeds the mechanism's true parameter with
    probability at most 1 - confidence, whatever the mechanism is and however well or badly the choice was made.

    Parameters
    ----------
    mechanism : Mechanism
        A reference implementation, or a function wrapped by `black_box` or `vectorized`.
    pairs : DatasetPair or sequence of DatasetPair, optional
        Neighbouring datasets to tell apart; by default the mechanism's own ``worst_pairs()``. Several pairs
        compete on training runs and one is certified; many go through successive halving.
    claim : Claim, optional
        What to audit; by default the mechanism's own claim.
    trials : int
        All runs of the mechanism, on both datasets, training included; at least 100.
    confidence : float
        One-sided confidence of the bound, in (0, 1).
    seed : int, optional
        Root of all random streams; a fresh one by default. The result depends on nothing else.
    n_jobs : int, optional
        Parallel workers, as joblib's; by default every core, or the active `joblib.parallel_config`.
    witnesses : 'auto', 'all' or sequence of Family
        Where candidate events come from: 'auto' takes floating-point numbers for the real numbers that proofs speak
        of; 'all' looks at their last bits too, where almost every sampler in double precision leaks.
    progress : callable, optional
        Called with a `audit.sampling.Progress` as certification runs finish.

    Returns
    -------
    AuditResult

    Raises
    ------
    AuditError
        Before any run if an argument is out of range or a pair is not adjacent; later if the mechanism's outputs
        cannot be compared.

    References
    ----------
    DESIGN.md section 4; Clopper and Pearson (1934); the membership game is that of Wasserman and Zhou (2010) and
    Kairouz, Oh and Viswanath (2015) played on fresh runs.

    Examples
    --------
    >>> from audit import DatasetPair, PureDP, vectorized
    >>> noisy_count = vectorized(
    ...     lambda data, size, rng: len(data) + rng.laplace(scale=0.5, size=size),  # half the noise it needs
    ...     claim=PureDP(1.0), name="noisy count", pairs=[DatasetPair(("ann",), ("ann", "bob"))],
    ... )
    >>> result = audit(noisy_count, trials=100_000, seed=1)
    >>> result.violates_claim, result.lower_bound > 1.9
    (True, True)
    """
    started = time.perf_counter()
    claim = checked_claim(mechanism, claim)
    trials = whole_at_least(trials, LEAST_TRIALS, "trials")
    confidence = fraction(confidence, "confidence", open_below=True)
    seed = entropy(seed)
    families = families_of(witnesses)
    candidates = checked_pairs(mechanism, pairs)

    sides = [(mechanism(pair.x), mechanism(pair.x_prime)) for pair in candidates]
    training = train(sides, families, claim, trials, confidence, seed)
    choice, runs = training.choice, trials - training.runs
    counts = certification_counts(
        sides[training.pair],
        choice.witness,
        runs,
        seed,
        n_jobs=n_jobs,
        prefer="threads" if getattr(mechanism, "releases_the_interpreter", True) else "processes",
        progress=progress,
    )
    pair = candidates[training.pair]
    return AuditResult(
        mechanism=mechanism.name,
        claim=claim,
        pair=str(pair),
        x=shorten(pair.x),
        x_prime=shorten(pair.x_prime),
        trials=trials,
        training_runs=training.runs,
        confidence=confidence,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        exact=exact_parameter(claim, sides[training.pair]),
        seed=seed,
        reproducible=bool(getattr(mechanism, "reproducible", True)),
        families=witnesses if isinstance(witnesses, str) else "own",
        provenance=provenance(),
        seconds=(seconds := time.perf_counter() - started),
        execution=execution(seconds),
    )


def exact_parameter(claim: Claim, sides: Sides) -> float | None:
    """Exact value of the claim's parameter on a pair of output laws; None where a law is not known."""
    if not all(exact.knows_law(side) for side in sides):
        return None
    try:
        return exact.exact_parameter(claim, *sides)
    except exact.NotKnownError:
        return None


def checked_claim(mechanism: Mechanism, claim: Claim | None) -> Claim:
    """Return the claim to audit, the mechanism's own for None; raise `AuditError` for what is no mechanism or claim."""
    if not isinstance(mechanism, Mechanism):
        raise AuditError(
            f"{mechanism!r} is not a mechanism; wrap a function as audit.black_box(function, claim=...) or "
            "audit.vectorized(function, claim=...)."
        )
    claim = claim if claim is not None else mechanism.claim
    if not isinstance(claim, Claim):
        raise AuditError(f"The claim of {mechanism.name} is {claim!r}; give one, for instance claim=PureDP(1.0).")
    return claim


def checked_pairs(mechanism: Mechanism, pairs: Any) -> list[DatasetPair]:
    """Return the pairs to audit, the mechanism's own for None; raise `AuditError` for one that is not adjacent."""
    given = mechanism.worst_pairs() if pairs is None else [pairs] if isinstance(pairs, DatasetPair) else list(pairs)
    if len(given) == 0:
        raise AuditError(f"{mechanism.name} names no pairs of datasets; give some as pairs=[DatasetPair(x, x_prime)].")
    for pair in given:
        if not isinstance(pair, DatasetPair):
            raise AuditError(f"{pair!r} is not a pair of datasets; write DatasetPair(x, x_prime).")
        if mechanism.adjacency is not None:
            mechanism.adjacency.check(pair)
    return list(given)


def families_of(witnesses: str | Sequence[Family]) -> Sequence[Family]:
    """Return the families that a ``witnesses`` argument names; raise `AuditError` for one that names none."""
    if witnesses == "auto":
        return DEFAULT_FAMILIES
    if witnesses == "all":
        return ALL_FAMILIES
    if isinstance(witnesses, str) or len(witnesses) == 0:
        raise AuditError(
            f"witnesses is {witnesses!r}; it must be 'auto', 'all' or a list of families of audit.witnesses."
        )
    return witnesses

"""The sequential audit: rounds of the membership game, with witnesses that are chosen from earlier rounds only.

The audit stops as soon as the claim is refuted. `Game` plays one round after the other; this module is its entry.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from epsaudit.audits.sequential.game import Game
from epsaudit.audits.sequential.record import SequentialResult as SequentialResult
from epsaudit.audits.spec import AuditSpec, check_n_jobs
from epsaudit.bounds import betting
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.data.neighbours import Pairs, Relation
from epsaudit.errors import AuditError, finite_at_least, public, seconds_of
from epsaudit.running.progress import ProgressCallback
from epsaudit.running.protocols import Mechanism
from epsaudit.running.runs import Runs
from epsaudit.search import Family


@public
def audit_sequentially(
    mechanism: Mechanism | Callable[..., Any] | None = None,
    pairs: Pairs | None = None,
    *,
    fresh: Callable[[], Callable[..., Any]] | None = None,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    adjacency: Relation | None = None,
    trials: int = 1_000_000,
    seconds: float | Callable[[float], float] | None = None,
    near: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
    progress: ProgressCallback | bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> SequentialResult:
    """Audit until the claim is refuted or the budget is spent; the bound holds at every stopping time.

    In every run, a coin chooses one of the two datasets. Each of two strategies guesses it by its own events, and bets
    that its guesses are correct. If the claim is true, their wealth is a supermartingale and stays small, so a large
    wealth refutes the claim (docs/explanation/theory.md#testing-by-betting). The runs are made in rounds. Before each
    round, the strategies learn from earlier runs which events to use, at which point of its privacy profile to test the
    claim, and how much to bet.

    Parameters
    ----------
    mechanism, pairs, fresh, claim, epsilon, delta, adjacency, seed, n_jobs, witnesses, progress,
    checkpoint
        As for `epsaudit.audit`. If there are several pairs, each round bets on the pair with the largest estimated
        growth of wealth, and spends a fifth of its runs on the others.
    trials : int
        Maximum number of runs, on both datasets together; at least 100.
    seconds : float, or a function, optional
        Time limit. A round ends when the time is over, and no round begins if there is no time for half of it. The time
        is counted anew after a restart. A function returns the limit for the progress of the audit: the number of runs
        so far as a share of the runs that a refutation is expected to take, or 0 if the bets expect no growth. After a
        refutation, fresh runs check it until the time is over; there are about 64 of them in any case.
    near : float, optional
        Stop also if the running bound is within this distance of the claim. The claim is then nearly attained, and more
        runs would show little.
    confidence : float
        Probability that the running bound never exceeds the true parameter, in [0.5, 1). Use 1 - 1e-6 for a regression
        test.

    Raises `AuditError` as `epsaudit.audit` does. It also raises this error before any run if no number of runs could
    refute the claim, and after a thousand runs if all of them raised the same exception.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, vectorized
    >>> noisy_count = vectorized(
    ...     lambda data, size, rng: len(data) + rng.laplace(scale=0.5, size=size),  # half the noise it needs
    ...     claim=PureDP(1.0), name="noisy count", pairs=[DatasetPair(("ann",), ("ann", "bob"))],
    ... )
    >>> result = audit_sequentially(noisy_count, seed=1)
    >>> result.stopped, result.runs < 2000
    ('refuted', True)
    """
    started = time.perf_counter()
    spec = AuditSpec.of(
        mechanism, pairs, fresh=fresh, claim=claim_given(claim, epsilon, delta), adjacency=adjacency, trials=trials,
        confidence=confidence, witnesses=witnesses,
    )  # fmt: skip
    refuse_if_irrefutable(spec.claim)
    limit = seconds if seconds is None or callable(seconds) else seconds_of(seconds)

    def deadline(progress: float) -> float:
        if limit is None:
            return math.inf
        return started + (limit(progress) if callable(limit) else limit)

    distance = finite_at_least(near, 0.0, "near") if near is not None else None
    with Runs.open(spec, seed, check_n_jobs(n_jobs), progress, checkpoint, "sequential", distance) as runs:
        return certify_in_rounds(spec, runs, deadline, distance)


def certify_in_rounds(
    spec: AuditSpec,
    runs: Runs,
    deadline: Callable[[float], float] = lambda progress: math.inf,
    near: float | None = None,
) -> SequentialResult:
    """Run the sequential audit that ``spec`` describes: bet in rounds until there is a reason to stop.

    Runs that are recorded in the checkpoint of ``runs`` are not made again. ``deadline`` is a function that returns the
    time, as `time.perf_counter` counts it, at which the audit stops. Its argument is the number of runs so far, as a
    share of the runs that a refutation is expected to take. The audit also stops if its bound comes within ``near`` of
    the claim.
    """
    if (finished := runs.finished(SequentialResult.from_dict)) is not None:
        return finished
    result = Game(spec, runs, deadline, near).play()
    return runs.finish(result, result.to_dict)


def refuse_if_irrefutable(claim: Claim) -> None:
    """Raise `AuditError` if a claim is so weak that no number of runs could refute it."""
    epsilon, delta = claim.claimed_point or (0.0, claim.profile(0.0))
    if epsilon > betting.LARGEST_EPSILON or delta > betting.LARGEST_DELTA:
        raise AuditError(
            f"No number of runs refutes a claim as weak as {claim}; its epsilon must be at most "
            f"{betting.LARGEST_EPSILON:g}, its delta, or the total variation distance that it allows, at most 1 - 1e-9."
        )

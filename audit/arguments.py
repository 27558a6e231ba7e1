"""What an audit takes, checked before its first run: what an argument cannot be is said in one sentence.

Numbers are checked by `epsaudit.errors`, on which everything stands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.definitions import ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.data.fresh import refuse_if_consumed, same
from epsaudit.data.neighbours import PAIRS, Adjacency, DatasetPair, adjacency_of, is_strategy, pair_of, shorten
from epsaudit.errors import AuditError, finite_at_least, whole_at_least

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from epsaudit.adapters.functions import Mechanism
    from epsaudit.witnesses import Family

MethodName = TypeVar("MethodName", bound=str)
LEAST_TRIALS = 100
"""Fewest runs that an audit accepts: with 75 certification runs it can show epsilon 3.18 at 95 % at best."""
MOST_TRIALS = 7 * 10**13
"""Most: the 2^26 chunks of 2^20 runs that a checkpoint can hold, and a month of a hundred cores at a quarter of a
million runs a second."""
Pairs: TypeAlias = "DatasetPair | tuple[Any, Any] | Iterable[DatasetPair | tuple[Any, Any]] | SearchStrategy[Any]"
"""How pairs of datasets may be written."""


def claim_of(mechanism: Mechanism, claim: Claim | None, epsilon: float | None = None, delta: float = 0.0) -> Claim:
    """Return the claim to audit: the one given, (epsilon, delta)-DP, or the mechanism's own."""
    given = claim_given(claim, epsilon, delta)
    return is_claim(given if given is not None else mechanism.claim, mechanism.name)


def claim_given(claim: Claim | None, epsilon: float | None, delta: float) -> Claim | None:
    """Return the claim given, (epsilon, delta)-DP, or None where neither was given."""
    pure = np.isscalar(delta) and delta == 0
    if epsilon is None and not pure:
        raise AuditError(f"delta is {delta!r} without an epsilon; give epsilon=, or a claim=.")
    if epsilon is not None:
        if claim is not None:
            raise AuditError(f"Both claim={claim} and epsilon={epsilon!r} were given; give one of them.")
        return PureDP(epsilon) if pure else ApproxDP(epsilon, delta)
    return claim


def is_claim(claim: Any, name: str) -> Claim:
    """Return a claim; raise `AuditError` for what is none."""
    if not isinstance(claim, Claim):
        raise AuditError(f"The claim of {name} is {claim!r}; give one, for instance epsilon=1.0 or claim=PureDP(1.0).")
    return claim


def trials_of(trials: Any, what: str = "trials") -> int:
    """Return a number of runs that an audit can make."""
    number = whole_at_least(trials, LEAST_TRIALS, what)
    if number > MOST_TRIALS:
        raise AuditError(f"{what} is {trials!r}; no audit ends that has more than {MOST_TRIALS:,} runs.")
    return number


def pairs_of(mechanism: Mechanism, pairs: Any) -> list[DatasetPair]:
    """Return the pairs to audit, the mechanism's own for None; datasets differ, are adjacent, can be reread."""
    adjacency = adjacency_of(mechanism.adjacency)
    found = listed(mechanism.worst_pairs() if pairs is None else pairs, adjacency)
    if not found:
        raise AuditError(f"{mechanism.name} names no pairs of datasets; give some as pairs=[(x, x_prime)].")
    for pair in found:
        for dataset in (pair.x, pair.x_prime):
            refuse_if_consumed(dataset)
        if same(pair.x, pair.x_prime):
            raise AuditError(f"Both datasets of the pair {pair} are the same, so that nothing could tell them apart.")
        if adjacency is not None:
            adjacency.check(pair)
    return found


def listed(pairs: Any, adjacency: Adjacency | None = None) -> list[DatasetPair]:
    """Return pairs of datasets as a list, however they are written; those of a strategy are drawn."""
    if isinstance(pairs, DatasetPair):
        return [pairs]
    if is_strategy(pairs):
        return _drawn(pairs, adjacency)
    if isinstance(pairs, tuple) and len(pairs) == 2 and not any(isinstance(part, DatasetPair) for part in pairs):
        if all(isinstance(part, tuple) and len(part) == 2 for part in pairs):
            raise AuditError(
                f"{shorten(pairs)} may be one pair of datasets or two; write DatasetPair(x, x_prime) for one, and a "
                "list for two."
            )
        return [DatasetPair(*pairs)]
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes, Mapping)):
        raise AuditError(f"pairs is {shorten(pairs)}; {PAIRS}.")
    return [pair for part in pairs for pair in (_drawn(part, adjacency) if is_strategy(part) else [pair_of(part)])]


def _drawn(strategy: Any, adjacency: Adjacency | None) -> list[DatasetPair]:
    from epsaudit.data.candidates import drawn, relation_seen  # which read their arguments here

    found = drawn(strategy, adjacency=adjacency)
    if adjacency is None and relation_seen(found) is None:
        raise AuditError(
            "A strategy is joined by boundary cases, and its pairs do not say by which relation; give adjacency=, for "
            "instance Substitution(), or pairs=epsaudit.data.candidates.drawn(strategy) to do without."
        )
    return found


def families_of(witnesses: str | Sequence[Family]) -> Sequence[Family]:
    """Return the families that a ``witnesses`` argument names."""
    from epsaudit.witnesses import ALL_FAMILIES, DEFAULT_FAMILIES  # slow to import

    families: Any = witnesses
    if isinstance(families, str) and families in ("auto", "all"):
        return DEFAULT_FAMILIES if families == "auto" else ALL_FAMILIES
    if isinstance(families, str) or not isinstance(families, Sequence) or len(families) == 0:
        raise AuditError(
            f"witnesses is {witnesses!r}; it must be 'auto', 'all' or a list of families of epsaudit.witnesses."
        )
    for family in families:
        if isinstance(family, type) or not callable(getattr(family, "fit", None)):
            raise AuditError(
                f"{family!r} among the witnesses is no family: an object with fit(outputs, outputs_prime), as Tails()."
            )
    return families


def jobs_of(n_jobs: Any, what: str = "n_jobs") -> int | None:
    """Return a number of workers as joblib takes it: None, 1 or more, or negative to count from all cores."""
    if n_jobs is None or (isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise AuditError(f"{what} is {n_jobs!r}; it must be a whole number of at least 1, or -1 for every core.")


def progress_of(progress: Any) -> Any:
    """Return a callback that is told of progress, or None."""
    if progress is not None and (isinstance(progress, type) or not callable(progress)):
        raise AuditError(
            f"progress is {progress!r}; it must be a function of an epsaudit.engine.sampling.Progress, as "
            "epsaudit.reporting.progress.Lines() is."
        )
    return progress


def checkpoint_of(checkpoint: Any) -> Any:
    """Return a path, or None."""
    path = isinstance(checkpoint, (str, os.PathLike)) and os.fspath(checkpoint)
    if not path and checkpoint is not None:
        raise AuditError(f"checkpoint is {checkpoint!r}; it must be the path of a file.")
    return checkpoint


def seconds_of(seconds: Any, what: str = "seconds") -> float:
    """Return a number of seconds above 0."""
    number = finite_at_least(seconds, 0.0, what)
    if number == 0.0:
        raise AuditError(f"{what} is {seconds!r}; it must be above 0.")
    return number


def method_of(method: str, methods: Iterable[MethodName], claim: Claim | None) -> MethodName:
    """Return which of the methods of a one-run audit is named; 'auto' takes the one for the claim."""
    if method == "auto":
        method = "trade-off" if isinstance(claim, GaussianDP) else "sharp"
    for known in methods:
        if known == method:
            return known
    raise AuditError(f"method is {method!r}; it must be 'auto', {', '.join(map(repr, methods))}.")


def check_method(claim: Claim | None, method: str, *, decided_by_output: bool) -> Claim:
    """Return the claim, or raise `AuditError` if the method has no theorem about it, or about so many guesses."""
    if not isinstance(claim, PureDP | ApproxDP | GaussianDP):
        raise AuditError(
            f"The claim is {claim!r}; a one-run audit takes PureDP, ApproxDP or GaussianDP. Another definition implies "
            "one of them: claim.approximate(1e-5), for instance."
        )
    if isinstance(claim, GaussianDP) and (method != "trade-off" or decided_by_output):
        raise AuditError(
            f"{claim} is about a whole curve, which only the trade-off method bounds, with a number of guesses that "
            "the output does not decide; give guesses='planned', 'bonferroni' or a number, and method='auto'."
        )
    if method == "trade-off" and decided_by_output:
        raise AuditError(
            "The trade-off method cannot use a separate half, which is part of the output; give guesses='planned' or "
            "method='binomial'."
        )
    return claim


def canaries_of(canaries: Any, mechanism: Any) -> int:
    """Return how many canaries there are: those that a mechanism has, else the number given with a function."""
    if callable(getattr(mechanism, "scores", None)):
        if canaries not in (None, mechanism.canaries):
            raise AuditError(
                f"{mechanism.name} has {mechanism.canaries} canaries; canaries={canaries!r} cannot change that."
            )
        canaries = mechanism.canaries
    elif not callable(mechanism):
        raise AuditError(f"{mechanism!r} is no mechanism with canaries; give a function (included, rng) -> scores.")
    elif canaries is None:
        raise AuditError("How many canaries are there? Give canaries=1000, for instance.")
    return whole_at_least(canaries, 1, "number of canaries")


def coins_of(included: Any) -> NDArray[np.bool_]:
    """Return which canaries were in, as an array of shape (m,), m at least 1."""
    coins = np.asarray(included)
    if coins.ndim != 1 or len(coins) == 0 or not np.all((coins == 0) | (coins == 1)):
        raise AuditError("included must be one True or False for each canary, at least one.")
    return coins.astype(bool)


def scores_of(scores: Any, canaries: int) -> NDArray[Any]:
    """Return the scores of so many canaries, numbers of which none is NaN."""
    values = np.asarray(scores)
    if values.shape != (canaries,) or values.dtype.kind not in "fiub":
        raise AuditError(
            f"The scores have shape {values.shape} and dtype {values.dtype}; they must be {canaries} numbers, one "
            "for each canary."
        )
    if np.any(np.isnan(values)):
        raise AuditError(f"{int(np.isnan(values).sum())} scores are NaN; a score must say how much a canary seems in.")
    return values

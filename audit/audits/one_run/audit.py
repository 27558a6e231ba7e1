"""The audit of one run: toss the coins, run the mechanism once, guess from the scores, and count correct guesses."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Bools, Floats
from epsaudit.audits.one_run.result import OneRunResult
from epsaudit.audits.one_run.rules import Guesses, rule_of
from epsaudit.bounds.one_run import METHODS, GuessBound, tested_claim
from epsaudit.claims.definitions import Claim, GaussianDP, claim_given
from epsaudit.errors import AuditError, confidence_of, public, whole_at_least
from epsaudit.running.protocols import is_claim
from epsaudit.running.provenance import provenance
from epsaudit.running.streams import entropy, stream

StepCallback = Callable[[int, int], None]
"""A function that receives the number of finished steps and the number of all steps while the one run goes on."""
COIN_STREAM, RUN_STREAM, ORDER_STREAM = range(3)
"""Numbers of the random streams of an audit of one run: for the coins, for the mechanism, and for `canary_order`."""


@runtime_checkable
class CanaryMechanism(Protocol):
    """A mechanism that can be run on any subset of its canaries, and that scores all canaries from its output.

    A canary is a record or a gradient that is made for the audit.
    """

    @property
    def name(self) -> str: ...

    @property
    def claim(self) -> Claim:
        """The proven privacy claim, for datasets that differ by one added or removed canary."""

    @property
    def canaries(self) -> int:
        """The number of canaries."""

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Run once with the canaries that the mask ``included``, shape (m,), selects; return one score per canary.

        A higher score means that the canary is more likely to be in the dataset. Scores may depend only on what the
        mechanism releases; ``included`` must be used for nothing but building the dataset.
        """


@public
def audit_one_run(
    mechanism: CanaryMechanism | Callable[[Bools, np.random.Generator], ArrayLike],
    canaries: int | None = None,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    guesses: Guesses = "planned",
    method: str = "auto",
    confidence: float = 0.95,
    seed: int | None = None,
    progress: StepCallback | None = None,
) -> OneRunResult:
    """Certify a lower bound on a mechanism's privacy loss from a single run.

    Canaries are records or gradients that are made for the audit. A fair coin decides for each canary whether it is in
    the dataset. The mechanism runs once, and the audit guesses from the scores which canaries were in. The bound
    exceeds the true parameter with probability at most 1 - confidence, whatever the scores are.

    Parameters
    ----------
    mechanism : CanaryMechanism or callable
        A mechanism with canaries, or a function ``(included, rng) -> scores``. ``included`` is a bool array, shape
        (m,), that selects canaries. The scores are m numbers, where a higher number means "more likely included". They
        must be computed from the mechanism's output alone.
    canaries : int, optional
        The number m of canaries. It is required if the mechanism is a function.
    claim, epsilon, delta
        As for `epsaudit.audit`, but only pure, approximate and Gaussian DP have a theorem of their own; other claims
        are tested by the (epsilon, delta)-DP that they imply. Neighbours differ by one added or removed canary.
    guesses : 'planned', 'bonferroni', 'signs', int, pair of int, or GuessRule
        How the audit decides which canaries to guess. 'planned' computes the number of guesses from the claim and m;
        'bonferroni' tries several numbers, which share the error probability; 'signs' guesses by the sign of the score.
        An int is the number of all guesses, and a pair is the numbers of guesses in and out.
    method : 'auto', 'sharp', 'binomial' or 'trade-off'
        The theorem that turns counts into a bound; see `epsaudit.bounds.one_run.METHODS`. 'auto' is 'trade-off' for
        Gaussian DP and 'sharp' for other claims.
    confidence, seed
        As for `epsaudit.audit`.
    progress : callable, optional
        A function that the mechanism may call with (steps done, steps in all).

    Raises `AuditError` before the run if an argument is out of range, and after the run if the scores are not a number
    for each canary.

    Examples
    --------
    >>> from epsaudit import ApproxDP
    >>> def noisy_sum(included, rng):
    ...     return included + 0.5 * 3.7306 * rng.standard_normal(len(included))  # half the noise of (1, 1e-5)-DP
    >>> result = audit_one_run(noisy_sum, canaries=100_000, claim=ApproxDP(1.0, 1e-5), seed=1)
    >>> result.violates_claim, result.canaries, result.best.guesses
    (True, 100000, 500)
    """
    started = time.perf_counter()
    claim = claim_given(claim, epsilon, delta)
    run: Callable[..., ArrayLike]
    if _has_canaries(mechanism):
        if canaries not in (None, mechanism.canaries):
            known = f"{mechanism.name} has {mechanism.canaries} canaries"
            raise AuditError(f"{known}; canaries={canaries!r} cannot change that.")
        claim, canaries = mechanism.claim if claim is None else claim, mechanism.canaries
        name, run = mechanism.name, functools.partial(mechanism.scores, progress=progress)
    elif not callable(mechanism):
        raise AuditError(f"{mechanism!r} is no mechanism with canaries; give a function (included, rng) -> scores.")
    elif canaries is None:
        raise AuditError("How many canaries are there? Give canaries=1000, for instance.")
    else:
        name, run = getattr(mechanism, "__name__", "mechanism"), mechanism
    canaries = whole_at_least(canaries, 1, "number of canaries")
    terms = check_terms(is_claim(claim, name), guesses, method, confidence, canaries)
    provenance()  # runs git, so it is called before the mechanism runs
    seed = entropy(seed)
    included = stream(seed, "one run", COIN_STREAM).random(canaries) < 0.5
    scores = run(included.copy(), stream(seed, "one run", RUN_STREAM))  # the mechanism may change its argument
    reproducible = bool(getattr(mechanism, "reproducible", _has_canaries(mechanism)))
    result = make_result(name, included, scores, seed, terms, reproducible=reproducible)
    return replace(result, seconds=time.perf_counter() - started)


def canary_order(canaries: int, seed: int) -> NDArray[np.intp]:
    """Return the random order in which a guess rule receives the canaries.

    The order is a permutation that depends only on the seed and on the number of ``canaries``. It is needed because
    guess rules break ties between scores by position. If the user has sorted the rows by whether the canary was in, the
    original position would tell the rule which canaries were in.
    """
    return stream(seed, "one run", ORDER_STREAM).permutation(canaries)


def _has_canaries(mechanism: Any) -> TypeGuard[CanaryMechanism]:  # isinstance would also require a claim
    return callable(getattr(mechanism, "scores", None))


def check_terms(claim: Claim, guesses: Guesses, method: str, confidence: float, canaries: int) -> dict[str, Any]:
    """Check the arguments of an audit of one run, and return the fields of the result that they determine.

    The arguments are checked before the run, because the run may take hours. The fields are ``claim``, ``rule``,
    ``method`` and ``confidence``. Raises `AuditError` if an argument is wrong.
    """
    confidence, rule = confidence_of(confidence), rule_of(guesses, canaries)
    if method == "auto":
        method = "trade-off" if isinstance(claim, GaussianDP) else "sharp"
    theorem = next((known for known in METHODS if known == method), None)
    if theorem is None:
        raise AuditError(f"method is {method!r}; it must be 'auto', {', '.join(map(repr, METHODS))}.")
    GuessBound(tested_claim(claim, canaries, confidence), theorem, confidence, rule.decided_by_output)
    return {"claim": claim, "rule": rule, "method": theorem, "confidence": confidence}


def check_scores(scores: Any, canaries: int) -> NDArray[Any]:
    """Return the scores as an array; raise `AuditError` unless there is exactly one number for each canary."""
    values = np.asarray(scores)
    if values.shape != (canaries,) or values.dtype.kind not in "fiub":
        given = f"The scores have shape {values.shape} and dtype {values.dtype}"
        raise AuditError(f"{given}; they must be {canaries} numbers, one for each canary.")
    if np.any(np.isnan(values)):
        raise AuditError(f"{int(np.isnan(values).sum())} scores are NaN; give a number for each canary.")
    return values


def make_result(name: str, included: Bools, scores: Any, seed: int, terms: dict[str, Any], **more: Any) -> OneRunResult:
    """Return the result of an audit of one run from the scores of its canaries.

    The function checks the scores, puts the canaries into `canary_order`, makes the guesses, and counts the correct
    ones. ``included`` is the mask of the canaries that were in the dataset, ``terms`` are the fields that `check_terms`
    returned, and ``more`` are further fields of the result.
    """
    canaries = len(included)
    values = check_scores(scores, canaries)
    order, rule = canary_order(canaries, seed), terms["rule"]
    claim = tested_claim(terms["claim"], canaries, terms["confidence"])
    bound = GuessBound(claim, terms["method"], terms["confidence"], rule.decided_by_output)
    counts = tuple(rule.count(included[order], values[order], bound))
    more |= {"seed": seed, "provenance": provenance(), **terms}
    return OneRunResult(mechanism=name, canaries=canaries, counts=counts, **more)

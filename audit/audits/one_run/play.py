"""The one-run audit: flip a coin for every canary, run once, score, guess, and count."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.arguments import canaries_of, check_method, claim_given, coins_of, method_of, scores_of
from epsaudit.audits.one_run.bounds import METHODS, Bools, Floats, GuessBound
from epsaudit.audits.one_run.guesses import GuessRule, rule_of
from epsaudit.audits.one_run.result import OneRunResult
from epsaudit.claims.definitions import Claim
from epsaudit.engine.provenance import provenance
from epsaudit.engine.streams import entropy, stream
from epsaudit.errors import confidence_of

Guesses = str | int | tuple[int, int] | GuessRule
StepCallback = Callable[[int, int], None]
"""Told (steps done, steps in all) while the one run goes on."""
COINS, RUN, PLACES = range(3)
"""Which of the streams of 'one run' the coins, the run, and `places` draw from."""


@runtime_checkable
class CanaryMechanism(Protocol):
    """A mechanism that can be run on any subset of its canaries, and scores all of them from what it released."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def claim(self) -> Claim:
        """The proven bound, for adding or removing one canary."""

    @property
    def canaries(self) -> int:
        """How many there are."""

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Run once with the canaries in ``included``, shape (m,), and return a score for each: high where it seems in.

        Only what the mechanism releases may enter the scores; ``included`` serves to build the dataset.
        """


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
    """Certify a lower bound on a mechanism's privacy loss from one run of it.

    A fair coin decides for each canary whether it is in the dataset; the mechanism runs once; canaries are guessed from
    their scores. The bound exceeds the true parameter with probability at most 1 - confidence, however badly the
    scores tell canaries in from canaries out.

    Parameters
    ----------
    mechanism : CanaryMechanism or callable
        A mechanism with canaries, or a function ``(included, rng) -> scores``; ``included`` is a bool array, shape
        (m,), scores are m numbers, high where a canary seems in. Scores must come from the mechanism's output alone.
    canaries : int, optional
        m; needed for a function only.
    claim : PureDP, ApproxDP or GaussianDP, optional
        What to audit; by default the mechanism's own. Neighbours differ by one canary added or removed.
    epsilon, delta : float, optional
        A shorter way to claim (epsilon, delta)-DP.
    guesses : 'planned', 'half', 'bonferroni', int, pair of int, or GuessRule
        How many canaries to guess: planned from claim and m alone; chosen on half of the canaries, and then about the
        other half; the best of several numbers, paid for; or given: so many, or so many in and out.
    method : 'auto', 'sharp', 'binomial' or 'trade-off'
        The exact worst case of (epsilon, delta)-DP; the bound of Steinke, Nasr and Jagielski (2023) on it; or the
        recursion of Mahloujifar, Melis and Chaudhuri (2025) on the trade-off curve. 'auto' takes the last for Gaussian
        DP, which has no other, and else the first. Theorems: docs/explanation/theory.md.
    confidence : float
        One-sided confidence of the bound, in [0.5, 1).
    seed : int, optional
        Root of the random streams; a fresh one by default.
    progress : callable, optional
        Called with (steps done, steps in all) by a mechanism that reports them.

    Raises
    ------
    AuditError
        Before the run if an argument is out of range; after it if the scores are not m numbers.

    Examples
    --------
    A sum of vectors, one canary a coordinate, with noise for (1, 1e-5)-DP but for half of the sensitivity:

    >>> from epsaudit import ApproxDP
    >>> def noisy_sum(included, rng):
    ...     return included + 0.5 * 3.7306 * rng.standard_normal(len(included))
    >>> result = audit_one_run(noisy_sum, canaries=100_000, claim=ApproxDP(1.0, 1e-5), seed=1)
    >>> result.violates_claim, result.canaries, result.best.guesses
    (True, 100000, 500)
    """
    started = time.perf_counter()
    claim = claim_given(claim, epsilon, delta)
    canaries = canaries_of(canaries, mechanism)
    if _has_canaries(mechanism):
        claim = claim if claim is not None else mechanism.claim
    terms = _checked(claim, guesses, method, confidence, canaries)
    seed = entropy(seed)
    flips, own = (stream(seed, "one run", which) for which in (COINS, RUN))
    included = flips.random(canaries) < 0.5
    given = included.copy()  # what the mechanism does to its argument is its own business
    scores: ArrayLike
    if _has_canaries(mechanism):
        name, scores = mechanism.name, mechanism.scores(given, own, progress)
    else:
        name, scores = getattr(mechanism, "__name__", "mechanism"), mechanism(given, own)  # type: ignore[operator]  # a function
    reproducible = bool(getattr(mechanism, "reproducible", True))
    result = _result(name, included, scores, seed, terms, reproducible=reproducible)
    return dataclasses.replace(result, seconds=time.perf_counter() - started)


def audit_scores(
    included: ArrayLike,
    scores: ArrayLike,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    guesses: Guesses = "planned",
    method: str = "auto",
    confidence: float = 0.95,
    name: str = "mechanism",
    seed: int | None = None,
) -> OneRunResult:
    """Certify a lower bound from the coins and scores of a run that was made elsewhere, in any framework.

    ``included`` must be what independent fair coins said; exactly half in, or any other split, voids the bound. The
    order of the canaries is free: rules see them in a random order that is drawn afresh.

    Parameters
    ----------
    included : array_like of bool, shape (m,)
        Which canaries were in the dataset.
    scores : array_like of float, shape (m,)
        High where a canary seems in, computed from the mechanism's output alone. NaN is not accepted, infinities are.
    claim, epsilon, delta, guesses, method, confidence
        As in `audit_one_run`.
    name : str
        What to call the mechanism.
    seed : int, optional
        Root of the random order; a fresh one by default, which the result keeps: with it the same coins and scores
        give the same result. The confidence is over this order, too. So give a seed to repeat a result, or one that
        was drawn; one number for all audits is as good only where the order of the canaries has nothing to do with
        the coins, and one chosen for the bound that it gives voids it.

    Raises
    ------
    AuditError
        If an argument is out of range or the shapes differ.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> coins = np.random.default_rng(0).random(500) < 0.5
    >>> print(audit_scores(coins, np.where(coins, 1.0, -1.0), claim=PureDP(1.0), guesses=60, seed=1, name="none"))
    none: 1-DP claimed; certified lower bound epsilon >= 2.972 at 95% confidence, from one run: contradicts...
      canaries   500, each in by a fair coin
      guesses    the 30 highest scores in, the 30 lowest out, fixed beforehand
      counts     30 of 30 guessed in and 30 of 30 guessed out are right, of 500 canaries
      parameter  epsilon proven 1
      method     the exact worst case of (epsilon, delta)-DP, a binomial where delta = 0 (epsaudit.audits.one_run)
      seed       1, of the order of the canaries only: the coins and scores were given
    """
    coins = coins_of(included)
    terms = _checked(claim_given(claim, epsilon, delta), guesses, method, confidence, len(coins))
    return _result(name, coins, scores, entropy(seed), terms, given=True, reproducible=False)


def places(canaries: int, seed: int) -> NDArray[np.intp]:
    """Return the order in which rules see the canaries: a random permutation that the seed alone decides.

    Rules break ties, and halve, by place. Where somebody lays rows out by coin, a place would tell the coin; after a
    permutation drawn without a look at the rows, the coins are independent and fair at every place. One permutation for
    all audits would not do: of rows laid out by coin it has the same guesses right each time.

    >>> places(5, seed=0).tolist()
    [2, 1, 0, 3, 4]
    """
    return stream(seed, "one run", PLACES).permutation(canaries)


def _has_canaries(mechanism: Any) -> TypeGuard[CanaryMechanism]:
    """Tell a mechanism with canaries from a function, without asking for its claim, which may take accounting."""
    return callable(getattr(mechanism, "scores", None))


def _checked(claim: Claim | None, guesses: Guesses, method: str, confidence: float, canaries: int) -> dict[str, Any]:
    """Check everything before the run, so that nothing is trained in vain; return fields of the result."""
    confidence = confidence_of(confidence)
    rule = rule_of(guesses, canaries)
    chosen = method_of(method, METHODS, claim)
    claim = check_method(claim, chosen, decided_by_output=rule.decided_by_output)
    return {"claim": claim, "rule": rule, "method": chosen, "confidence": confidence}


def _result(name: str, included: Bools, scores: Any, seed: int, terms: dict[str, Any], **more: Any) -> OneRunResult:
    """Check the scores, put the canaries in `places`, guess, and keep the counts."""
    values = scores_of(scores, len(included))
    order = places(len(included), seed)
    bound = GuessBound(terms["claim"], terms["method"], terms["confidence"])
    return OneRunResult(
        mechanism=name,
        canaries=len(included),
        counts=tuple(terms["rule"].count(included[order], values[order], bound)),
        seed=seed,
        provenance=provenance(),
        **terms,
        **more,
    )

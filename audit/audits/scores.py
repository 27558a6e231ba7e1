"""Audits of scores, or of four counts, from training that was done elsewhere.

The scores are of one run with many canaries, or of many runs. `score_checks` refuses data that would void the bound;
the bounds themselves are those of `one_run` and `many_runs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.audits.many_runs import ManyRunsResult, Tail, audit_many_runs, make_many_runs_result
from epsaudit.audits.one_run import Guesses, OneRunResult, Threshold
from epsaudit.audits.one_run.audit import check_terms, make_result
from epsaudit.audits.score_checks import (
    check_assumption,
    check_coins,
    check_exact_halves,
    check_threshold,
    describe_direction,
    describe_direction_of_counts,
    read_rows,
    refuse_unfair,
)
from epsaudit.bounds.one_run import GuessSet
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.errors import AuditError, confidence_of, public, whole_at_least
from epsaudit.running.protocols import is_claim
from epsaudit.running.provenance import provenance
from epsaudit.running.streams import entropy

MAX_COUNTED_SCORES = 10**12
"""[measured] Largest total of four counts that is accepted. At this total the Clopper-Pearson limits fail with
probability 0.050002 instead of 0.05, and the term for delta of one run is correct to 0.1 %. At 10^15 the limits fail
with probability 0.075."""
MAX_SCORES_ON_CURVE = 20_000_000
"""[time] Largest total of four counts of one run that is accepted for a claim about a trade-off curve. Its recursion
takes at most 1.6 seconds for a million guesses, of which just over half are correct."""


@public
def audit_scores(
    included: ArrayLike,
    scores: ArrayLike,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    runs: ArrayLike | None = None,
    canaries: ArrayLike | None = None,
    scored: ArrayLike | None = None,
    guesses: Guesses | None = None,
    threshold: float | None = None,
    assume: str | None = None,
    method: str = "auto",
    confidence: float = 0.95,
    name: str = "mechanism",
    seed: int | None = None,
) -> OneRunResult | ManyRunsResult:
    """Certify a lower bound from the scores of canaries in training that was done elsewhere, in any framework.

    There are two kinds of data. The first is one run with many canaries, for each of which an independent fair coin
    decided whether it was in. The bound is void if exactly half of the canaries were in by design, or if they were
    split in any other way. The second is many independent runs of one canary with one score each; any plan may have
    decided which runs had the canary. Several runs with several canaries each, all decided by coins, are audited as one
    run with all of the canaries.

    Parameters
    ----------
    included : array_like of bool, shape (m,)
        Which canaries were in the dataset, or which runs had the canary.
    scores : array_like of float, shape (m,)
        The scores, computed from the mechanism's output alone. A higher score means "more likely included". NaN is not
        accepted; infinite scores are.
    claim, epsilon, delta
        As in `epsaudit.audit`. One run tests pure, approximate and Gaussian DP; many runs test every claim.
    runs : array_like, shape (m,), optional
        The run of each score. By default all scores are of one run. If every score has a run of its own, the data are
        many runs of one canary.
    canaries : array_like, shape (m,), optional
        The canary of each score. A canary with two scores in one run is refused.
    scored : array_like, shape (m,), optional
        When or by which model each score was computed. A column that distinguishes members from others is refused.
    guesses : optional
        As in `audit_one_run`, for one run only. 'signs' treats scores as guesses: a score above 0 guesses in, a score
        below 0 guesses out, and a score of 0 guesses nothing.
    threshold : float, optional
        A threshold that was fixed before the scores were seen. In one run all canaries are guessed, and scores above
        the threshold are guessed in. In many runs the scores above it are counted.
    assume : 'independent', optional
        Declares that the score of each canary depends on its own coin only, and that all canaries have the same score
        distribution, as independent draws from a population do. Each canary is then treated as a run of its own. This
        certifies more, and it tests every claim. The assumption is printed with the bound. It may be false for a
        mechanism that satisfies the claim, which is then wrongly refuted. Scores that show dependence are refused, but
        dependence within one run can rarely be detected.
    method, confidence
        As in `audit_one_run`.
    name : str
        The name of the mechanism in the result.
    seed : int, optional
        The seed of the random order that breaks ties; by default a fresh seed, which the result stores. The confidence
        is a probability over this order, too. So the bound is void if the seed was chosen for the bound, and it may be
        void if many audits of rows that are sorted by coin share one seed.

    Raises `AuditError` if the data would void the bound. Data that may void it add a note to the result.

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
      method     the exact worst case of (epsilon, delta)-DP, a binomial where delta = 0 (epsaudit.bounds.one_run)
      assumes    fair coins, independent of each other; canaries may influence each other
      seed       1, which decides only the order of the canaries: the coins and scores were given
    >>> values = [*range(200, 600), *range(400)]  # 400 runs with the canary, and 400 without
    >>> found = audit_scores([True] * 400 + [False] * 400, values, epsilon=0.5, runs=range(800))
    >>> found.violates_claim, round(found.reach, 2)
    (True, 5.15)
    """
    rows = read_rows(included, scores, runs, canaries, scored)
    claim = claim_given(claim, epsilon, delta)
    threshold = check_threshold(threshold, rows)
    check_assumption(assume, rows)
    notes = [*check_coins(rows), *describe_direction(rows.scores, rows.included)]
    claim = is_claim(claim, name)
    if rows.are_runs_of_one_canary or assume:
        if guesses is not None or method != "auto":
            raise AuditError(
                "guesses and method are arguments for one run; for many runs, or with assume=, give threshold= or "
                "nothing."
            )
        return audit_many_runs(
            rows.scores[rows.included],
            rows.scores[~rows.included],
            claim=claim,
            confidence=confidence_of(confidence),
            threshold=threshold,
            seed=entropy(seed),
            mechanism=name,
            independent=bool(assume),
            notes=tuple(notes),
        )
    if threshold is not None:
        if guesses is not None:
            raise AuditError("Both guesses and threshold were given; give one of them.")
        guesses = Threshold(threshold)
    terms = check_terms(claim, "planned" if guesses is None else guesses, method, confidence, len(rows.included))
    result = make_result(name, rows.included, rows.scores, entropy(seed), terms, given=True, reproducible=False)
    return replace(result, notes=tuple(notes))


@public
def audit_counts(
    counts: Sequence[int],
    *,
    claim: Claim | None,
    one_run: bool = False,
    confidence: float = 0.95,
    name: str = "counts",
    seed: int | None = None,
) -> OneRunResult | ManyRunsResult:
    """Certify a lower bound from four counts at a threshold that was fixed before the scores were seen.

    The counts say how many members and how many others scored above and below the threshold. The result is that of
    `audit_scores` for scores with these counts and a threshold of 0. The counts may be large, because the scores need
    not exist.

    Parameters
    ----------
    counts : sequence of int, shape (4,)
        Members above the threshold, others above it, others below it, and members below it.
    claim, confidence, name, seed
        As in `audit_scores`.
    one_run : bool
        Whether the counts are of canaries of one run. If not, they are of runs with the canary and without it.

    Raises `AuditError` if a count is negative, if there are no members or no others, or if there are more scores than
    `MAX_COUNTED_SCORES` in all.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> print(audit_counts((480, 20, 480, 20), claim=PureDP(2.0), seed=1).describe_counts())
    480 of 500 with the canary and 20 of 500 without it
    """
    tp, fp, tn, fn = (whole_at_least(one, 0, "a count") for one in counts)
    members, others = tp + fn, fp + tn
    if not (members and others):
        raise AuditError(f"The counts are of {members:,} members and {others:,} others; some of both are needed.")
    if members + others > MAX_COUNTED_SCORES:
        raise AuditError(
            f"The counts are of {members + others:,} scores in all; at most {MAX_COUNTED_SCORES:,} are "
            "taken, beyond which the limits of a binomial are not computed exactly enough."
        )
    claim = is_claim(claim, name)
    notes = describe_direction_of_counts(tp, fp, tn, fn)
    if not one_run:
        tail = Tail.of(members, others, True, fp, tp, 0.0, by_rank=False)
        return make_many_runs_result(
            (tail,),
            mechanism=name,
            claim=claim,
            confidence=confidence_of(confidence),
            seed=entropy(seed),
            notes=tuple(notes),
        )
    canaries = members + others
    terms = check_terms(claim, Threshold(0.0), "auto", confidence, canaries)
    if terms["method"] == "trade-off" and canaries > MAX_SCORES_ON_CURVE:
        raise AuditError(
            f"The counts are of {canaries:,} canaries; at most {MAX_SCORES_ON_CURVE:,} of one run are tested against "
            f"{claim}, by a recursion over guesses. Claim (epsilon, delta)-DP that follows from it."
        )
    refuse_unfair(members, canaries)
    notes = check_exact_halves("canaries", np.array([canaries]), np.array([members])) + notes
    guessed = GuessSet.of(canaries, tp + fp, tn + fn, tp, tn)
    return OneRunResult(
        mechanism=name,
        canaries=canaries,
        counts=(guessed,),
        seed=entropy(seed),
        notes=tuple(notes),
        provenance=provenance(),
        given=True,
        reproducible=False,
        **terms,
    )

"""Scores that anybody has, of one run with many canaries or of many runs: what they refuse, what they certify."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betainc, betaincinv, betaln, ndtr, ndtri

from epsaudit.audits.many_runs import ManyRunsResult, many_runs
from epsaudit.audits.one_run import Guesses, OneRunResult, Threshold, numbers, result_of, terms_of
from epsaudit.audits.one_run.bounds import Bools
from epsaudit.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.claims.conversions import Floats, root
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP, claim_given
from epsaudit.engine.provenance import entropy
from epsaudit.errors import AuditError, confidence_of, finite_at_least

CHANCE = 1e-6
"""Probability below which what was given is not believed to be by chance: so many sound audits are refused."""
ALIKE = 0.05
"""Probability above which scores of both kinds are said to be alike: of those that are, so many go without the note."""
DEPENDENT = 1e-3
"""Probability below which scores that were declared independent are said not to be: so many sound audits are refused,
which costs an audit and voids none."""
NODES = 512
"""Quantiles of one error rate at which `posterior_epsilon` adds up: within 0.001 of what 200,000 midpoints give, where
128 are within 0.006."""


def audit_scores(
    included: ArrayLike,
    scores: ArrayLike,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    order: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
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
    """Certify a lower bound from coins and scores of training that was done elsewhere, in any framework.

    One run with many canaries, of which independent fair coins said which are in; exactly half in, or any other split,
    voids the bound. Or many independent runs of one canary, one score each, in which it was by whatever plan. Several
    runs with several canaries each, all by coins, are audited as one run with all of them: it made each coin once.

    Parameters
    ----------
    included : array_like of bool, shape (m,)
        Which canaries were in the dataset, or which runs had the canary.
    scores : array_like of float, shape (m,)
        High where a canary seems in, computed from the mechanism's output alone. NaN is not accepted, infinities are.
    claim, epsilon, delta, order, rho, mu
        As in `epsaudit.audit`; one run takes pure, approximate and Gaussian DP, many runs every claim.
    runs : array_like, shape (m,), optional
        Of which run each score is; all of one if not given. If every score has a run of its own, these are many runs.
    canaries : array_like, shape (m,), optional
        What each score is about. One that occurs twice in a run is refused.
    scored : array_like, shape (m,), optional
        When, or by what, each score was computed. What tells members from others is refused.
    guesses : optional
        As in `audit_one_run`, for one run; 'signs' takes scores for guesses: in above 0, out below, none at 0.
    threshold : float, optional
        Fixed before the scores were seen. Above it all are guessed in, of one run; many runs are counted at it.
    assume : 'independent', optional
        Declares that what one canary scores depends on its own coin and on no other canary, and that canaries are of
        one law, as draws from a population are: each is then taken for a run of its own. That certifies more, of every
        claim, and is printed with the bound. It may be false of a mechanism that satisfies the claim, which is then
        refuted wrongly. Scores that show dependence are refused; of one run few do.
    method, confidence
        As in `audit_one_run`; ``name`` is of the mechanism.
    seed : int, optional
        Root of the random order; a fresh one by default, which the result keeps. The confidence is over this order,
        too: a seed chosen for the bound that it gives voids it, and so may one for all audits of rows laid out by coin.

    Raises `AuditError`, a sentence, for what would void the bound; what may void it is a note of the result.

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
      assumes    fair coins, independent of each other; nothing of how canaries influence each other
      seed       1, of the order of the canaries only: the coins and scores were given
    >>> values = [*range(200, 600), *range(400)]  # 400 runs with the canary, and 400 without
    >>> found = audit_scores([True] * 400 + [False] * 400, values, epsilon=0.5, runs=range(800))
    >>> found.violates_claim, round(found.reach, 2)
    (True, 5.15)
    """
    coins = np.asarray(included)
    if coins.ndim != 1 or len(coins) == 0 or not np.all((coins == 0) | (coins == 1)):
        raise AuditError("included must be one True or False for each canary, at least one.")
    coins, values = coins.astype(bool), numbers(scores, len(coins))
    claim = claim_given(claim, epsilon, delta, order, rho, mu)
    columns = {"runs": runs, "canaries": canaries, "scored": scored}
    given = {key: np.asarray(column) for key, column in columns.items() if column is not None}
    for key, column in given.items():
        if column.shape != coins.shape:
            raise AuditError(f"{key} has shape {column.shape}; it must say something of each of {len(coins)} scores.")
    of_run = given.get("runs", np.zeros(len(coins), int))
    ids = given.get("canaries", np.arange(len(coins)))
    single = "runs" in given and len(coins) > 1 and len(np.unique(of_run)) == len(coins)
    one_canary = "canaries" not in given or len(np.unique(ids)) == 1
    if "canaries" in given and (twice := _twice(of_run, ids)):
        raise AuditError(f"Canary {twice[1]} is twice in run {twice[0]}: a duplicate is told by its twin. Keep one.")
    if "scored" in given and (told := tells(coins, given["scored"])) < CHANCE:
        raise AuditError(
            f"scored tells members from others (p = {told:.1g}): they were scored at another time, or by another "
            "model. Score all of one run at once, by the model that it released."
        )
    if threshold is not None:
        threshold = finite_at_least(threshold, -math.inf, "threshold")
        if np.sum(values == threshold) == 1 and len(np.unique(values)) > 2:
            raise AuditError(f"The threshold {threshold:g} is one of the scores: it was chosen on them. Give none.")
    if assume not in (None, "independent") or (assume and single and one_canary):
        raise AuditError(f"assume is {assume!r}; it may be 'independent', of canaries that share a run, or None.")
    if assume and (p := dependence(coins, values, of_run)) < DEPENDENT:
        raise AuditError(f"Scores depend on each other (p = {p:.1g}): canaries are not independent. Give no assume=.")
    notes = [] if single and one_canary else halves(coins, of_run, ids)
    if (single and one_canary) or assume:
        if claim is None:
            raise AuditError("What is claimed? Give epsilon=1.0, for instance, or claim=.")
        if guesses is not None or method != "auto":
            raise AuditError("guesses and method are of one run; of many runs, or assume=, give threshold=, or none.")
        seed, sides = entropy(seed), (values[coins], values[~coins])
        terms: dict[str, Any] = {"claim": claim, "confidence": confidence_of(confidence), "threshold": threshold}
        terms |= {"independent": bool(assume), "notes": (*notes, *alike(*sides))}
        return many_runs(*sides, seed=seed, mechanism=name, **terms)
    if threshold is not None:
        if guesses is not None:
            raise AuditError("Both guesses and threshold were given; give one of them.")
        guesses = Threshold(threshold)
    terms = terms_of(claim, "planned" if guesses is None else guesses, method, confidence, len(coins))
    result = result_of(name, coins, values, entropy(seed), terms, given=True, reproducible=False)
    return replace(result, notes=(*notes, *alike(values[coins], values[~coins])))


def dependence(included: Bools, scores: Floats, runs: NDArray[Any]) -> float:
    """p-value, nearly, of the hypothesis that scores of equal coins are exchangeable, within runs and among them.

    Of every kind of coin: whether runs differ (Kruskal and Wallis), and whether neighbours in a run are alike. What
    happens to all canaries of a single run at once cannot be seen in it.

    >>> rng = np.random.default_rng(0)
    >>> coins, run = rng.random(800) < 0.5, np.repeat(np.arange(8), 100)
    >>> fair = rng.normal(size=800) + coins
    >>> dependence(coins, fair, run) > 1e-3 > dependence(coins, fair + rng.normal(size=8)[run], run)
    True
    """
    from scipy.stats import kruskal, rankdata  # a second to import

    found = []
    for kind in (included, ~included):
        values, places = scores[kind], runs[kind]
        groups = [values[places == run] for run in np.unique(places)]
        if len(values) < 2 * len(groups) or np.ptp(rankdata(values)) == 0.0:
            continue
        if len(groups) > 1:
            found.append(float(kruskal(*groups).pvalue))
        ranks = rankdata(values) - (len(values) + 1.0) / 2.0
        pairs = places[1:] == places[:-1]
        alike = float(np.sum((ranks[1:] * ranks[:-1])[pairs]) / np.sum(ranks**2))
        number = int(pairs.sum())
        z = (alike + number / (len(values) * (len(values) - 1.0))) * len(values) / math.sqrt(max(number, 1))
        found.append(2.0 * float(ndtr(-abs(z))))
    return min(1.0, len(found) * min(found, default=1.0))


def _twice(runs: NDArray[Any], canaries: NDArray[Any]) -> tuple[Any, Any] | None:
    (pair, times), *_ = Counter(zip(runs.tolist(), canaries.tolist(), strict=True)).most_common(1)
    return pair if times > 1 else None


def halves(included: Bools, runs: NDArray[Any], canaries: NDArray[Any]) -> list[str]:
    """Refuse what fair coins do not give; say so where exactly half are in, of all runs or of all canaries.

    >>> halves(np.arange(100) % 2 == 0, np.zeros(100), np.arange(100))[0][:55]
    'Exactly half of the canaries are in, as coins give once'
    """
    number, inside = len(included), int(included.sum())
    if 2.0 * float(bdtr(min(inside, number - inside), number, 0.5)) < CHANCE:
        raise AuditError(f"{inside:,} of {number:,} canaries are in; fair coins do not part them so.")
    for what, keys in (("canaries of every run", runs), ("runs of every canary", canaries)):
        _, place = np.unique(keys, return_inverse=True)
        sizes, within = np.bincount(place), np.bincount(place, included)
        if np.any(2 * within != sizes):
            continue
        log_chance = float(np.sum(-np.log(sizes + 1.0) - betaln(sizes / 2 + 1.0, sizes / 2 + 1.0) - sizes * np.log(2)))
        what = what if len(sizes) > 1 else "canaries"
        told = f"Exactly half of the {what} are in, as coins give once in {math.exp(min(-log_chance, 50.0)):,.0f} times"
        if log_chance < math.log(CHANCE):
            raise AuditError(f"{told}. They were halved; the bound needs a fair coin for each, tossed before the run.")
        return [f"{told}. If they were halved in place of tossed for, the bound is void."]
    return []


def alike(included: Floats, excluded: Floats) -> list[str]:
    """Say so where scores do not tell members from others: then they show nothing, whatever leaks."""
    if not (len(included) and len(excluded)):
        return []
    area, p = _mann_whitney(
        np.concatenate([included, excluded]), np.arange(len(included) + len(excluded)) < len(included)
    )
    if p <= ALIKE:
        return []
    return [f"Scores of members and of others are alike (area {area:.3f} under the curve): they may ignore membership."]


def tells(included: Bools, column: NDArray[Any]) -> float:
    """p-value of the hypothesis that a column says nothing about who is in: of its order, or of its words' shares.

    >>> tells(np.arange(60) < 30, np.repeat(["before", "after"], 30)) < 1e-6
    True
    """
    if column.dtype.kind in "fiubMm":
        numbers = column.astype("datetime64[ns]").astype(float) if column.dtype.kind in "Mm" else column.astype(float)
        return _mann_whitney(numbers, included)[1]
    _, place = np.unique(column.astype(str), return_inverse=True)
    sizes, within = np.bincount(place), np.bincount(place, included)
    if len(sizes) == 1:
        return 1.0
    # Hoeffding: the likelier kind of each word is right too often for coins; 2^words ways to say which is likelier
    excess = float(np.sum(np.abs(2.0 * within - sizes * np.mean(included) * 2.0))) / 2.0
    return min(1.0, math.exp(min(len(sizes) * math.log(2.0) - 2.0 * excess**2 / len(column), 0.0)))


def _mann_whitney(values: Floats, first: Bools) -> tuple[float, float]:
    """Area under the curve, ties halved, and its two-sided normal p-value."""
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    midranks = (np.cumsum(times) - (times - 1) / 2.0)[place]
    n, m = int(first.sum()), int((~first).sum())
    area = (float(midranks[first].sum()) - n * (n + 1) / 2.0) / (n * m)
    ties = float(np.sum(times.astype(float) ** 3 - times)) / ((n + m) * max(n + m - 1, 1))
    deviation = math.sqrt(max(n + m + 1 - ties, 0.0) / (12.0 * n * m))
    return area, 2.0 * float(ndtr(-abs(area - 0.5) / deviation)) if deviation > 0.0 else 1.0


def usual_estimates(
    included: ArrayLike, excluded: ArrayLike, claim: Claim, confidence: float = 0.95, fixed: float | None = None
) -> dict[str, float]:
    """What is usually printed of scores with and without a canary, for a comparison: none of them is a bound.

    Epsilon at the claim's delta, or 1e-5 of another definition, at the threshold that looks best, or a ``fixed`` one.

    Parameters
    ----------
    included, excluded : array_like of float, shapes (n,) and (m,)
        Scores of members and of others.

    >>> found = usual_estimates(np.arange(100) + 30, np.arange(100), PureDP(1.0))
    >>> {name: round(value, 2) for name, value in found.items() if "Beta" not in name}
    {'plug-in': 3.43, 'Clopper-Pearson at the threshold that looks best': 1.77, 'normal limits': 1.76}
    """
    inside, outside = np.sort(np.asarray(included, float)), np.sort(np.asarray(excluded, float))
    n, m, alpha = len(inside), len(outside), 1.0 - confidence
    delta = claim.claimed_point[1] if isinstance(claim, PureDP | ApproxDP) else 1e-5
    at = np.unique(np.concatenate([inside, outside]))[:-1] if fixed is None else np.array([fixed])
    true, false = n - np.searchsorted(inside, at, "right"), m - np.searchsorted(outside, at, "right")
    tp, fp = np.concatenate([true, m - false]), np.concatenate([false, n - true])
    sizes, others = np.repeat([n, m], len(at)), np.repeat([m, n], len(at))

    def log_odds(p: Floats, q: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(p > delta, np.log(np.maximum(p - delta, 1e-300) / q), 0.0)

    exact = log_odds(clopper_pearson_lower(tp, sizes, alpha / 2), clopper_pearson_upper(fp, others, alpha / 2))
    k, runs, wrong, rest = (int(one[np.argmax(exact)]) for one in (tp, sizes, fp, others))
    p, q = k / runs, max(wrong, 0.5) / rest
    spread = math.sqrt((1.0 - p) * p / runs / max(p - delta, 1.0 / runs) ** 2 + (1.0 - q) / q / rest)
    with np.errstate(divide="ignore"):
        plug_in = log_odds(tp / sizes, fp / others)
    normal = float(log_odds(np.array(p), np.array(q))) + float(ndtri(alpha)) * spread
    found = {
        "plug-in": float(np.max(plug_in[np.isfinite(plug_in)], initial=0.0)),
        "Clopper-Pearson at the threshold that looks best": float(np.max(exact, initial=0.0)),
        "joint-Beta posterior": posterior_epsilon(k, wrong, rest - wrong, runs - k, delta, alpha),
        "normal limits": normal,
    }
    if fixed is not None:
        del found["Clopper-Pearson at the threshold that looks best"]  # at one that was fixed before it is a bound
    return {name: max(value, 0.0) for name, value in found.items()}


def posterior_epsilon(tp: int, fp: int, tn: int, fn: int, delta: float, alpha: float) -> float:
    """Epsilon of the least (epsilon, delta) region that has ``alpha`` of the posterior of both error rates: no bound.

    The prior of each rate is Jeffreys', and the region has both sides of the diagonal (Zanella-Béguelin et al., 2023).

    >>> round(posterior_epsilon(100, 96, 4, 0, 0.0, 0.05), 3)
    0.605
    """
    angles = (np.arange(NODES) + 0.5) * math.pi / NODES  # nodes lie closer at the ends
    missed = betaincinv(fn + 0.5, tp + 0.5, (1.0 - np.cos(angles)) / 2.0)

    def excess(epsilon: float) -> float:
        rise = math.exp(epsilon)
        low = np.maximum(1.0 - delta - rise * missed, (1.0 - delta - missed) / rise).clip(0.0, 1.0)
        high = np.minimum(1.0 + (delta - missed) / rise, delta + rise * (1.0 - missed)).clip(0.0, 1.0)
        within = betainc(fp + 0.5, tn + 0.5, high) - betainc(fp + 0.5, tn + 0.5, low)
        return float(np.average(within, weights=np.sin(angles))) - alpha

    return 0.0 if excess(0.0) >= 0.0 else root(excess, 0.0, 50.0)

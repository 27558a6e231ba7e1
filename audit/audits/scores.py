"""Audit scores, or four counts, of training that was done elsewhere: what is refused, what is noted, what is certified.

The scores are of one run with many canaries, or of many runs. The bounds are those of `one_run` and `many_runs`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betainc, betaincinv, betaln, ndtr, ndtri

from epsaudit.audits.many_runs import ManyRunsResult, TailCount, many_runs
from epsaudit.audits.one_run import Guesses, OneRunResult, Threshold, numbers, result_of, terms_of
from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.bounds.one_run import Bools, GuessCounts
from epsaudit.claims.conversions import Floats, root
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP, claim_given
from epsaudit.errors import AuditError, confidence_of, finite_at_least, whole_at_least
from epsaudit.running.provenance import provenance
from epsaudit.running.streams import entropy

CHANCE = 1e-6
"""Probability below which what was given is not believed to be by chance: so many sound audits are refused."""
ALIKE = 0.05
"""Probability above which scores of both kinds are said to be alike: of those that are, so many go without the note."""
DEPENDENT = 1e-3
"""Probability below which scores that were declared independent are said not to be: so many sound audits are refused,
which costs an audit and voids none."""
REVERSED = 1e-3
"""[chosen] Probability below which members are said to score lower than others. Whoever turns scores round because of
this note chooses the direction by the data, which adds at most half of this to the error probability."""
MOST_COUNTED = 10**12
"""[measured] Greatest total of four counts. There the Clopper-Pearson limits attain 0.050002 in place of 0.05, and the
term for delta of one run is right to 0.1 %; at 10^15 the limits attain 0.075."""
MOST_ON_CURVE = 20_000_000
"""[time] Greatest total of four counts of one run where a trade-off curve is claimed: its recursion takes at most 1.6
seconds for a million guesses, of which just over half are right."""
LAYOUT = "one row for each score, with columns included, score, run and canary"
"""What every sentence about shapes asks for."""
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
    claim, epsilon, delta
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
    if coins.ndim > 1:
        raise AuditError(f"included has shape {coins.shape}; it must have one dimension. {flattened(coins.shape)}")
    if coins.ndim != 1 or len(coins) == 0 or not np.all((coins == 0) | (coins == 1)):
        raise AuditError("included must be one True or False for each canary, at least one.")
    coins, values = coins.astype(bool), numbers(scores, len(coins))
    claim = claim_given(claim, epsilon, delta)
    columns = {"runs": runs, "canaries": canaries, "scored": scored}
    given = {key: np.asarray(column) for key, column in columns.items() if column is not None}
    for key, column in given.items():
        if column.shape != coins.shape:
            raise AuditError(f"{key} has shape {column.shape}; it must say something of each of {len(coins)} scores.")
    of_run, run_names = _labels(given["runs"], "runs") if "runs" in given else (np.zeros(len(coins), int), [0])
    ids, id_names = _labels(given["canaries"], "canaries") if "canaries" in given else (np.arange(len(coins)), [])
    single = "runs" in given and 1 < len(coins) == len(run_names)
    one_canary = "canaries" not in given or len(id_names) == 1
    if "canaries" not in given:
        refuse_unnamed_canaries(coins, of_run, run_names)
    elif (twice := _twice(of_run, ids)) is not None:
        raise AuditError(
            f"Canary {id_names[ids[twice]]} is twice in run {run_names[of_run[twice]]}: a duplicate is told by its "
            "twin. Keep one; if they are of different runs, name the run of each (runs=, or a column run)."
        )
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
    if "canaries" in given and not (single and one_canary):
        refuse_shared_coins(coins, of_run, run_names, ids, id_names)
    if (single and one_canary) or assume:
        if claim is None:
            raise AuditError("What is claimed? Give epsilon=1.0, for instance, or claim=.")
        if guesses is not None or method != "auto":
            raise AuditError("guesses and method are of one run; of many runs, or assume=, give threshold=, or none.")
        seed, sides = entropy(seed), (values[coins], values[~coins])
        terms: dict[str, Any] = {"claim": claim, "confidence": confidence_of(confidence), "threshold": threshold}
        terms |= {"independent": bool(assume), "notes": (*notes, *direction(values, coins))}
        return many_runs(*sides, seed=seed, mechanism=name, **terms)
    if threshold is not None:
        if guesses is not None:
            raise AuditError("Both guesses and threshold were given; give one of them.")
        guesses = Threshold(threshold)
    terms = terms_of(claim, "planned" if guesses is None else guesses, method, confidence, len(coins))
    result = result_of(name, coins, values, entropy(seed), terms, given=True, reproducible=False)
    return replace(result, notes=(*notes, *direction(values, coins)))


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

    The result is that of `audit_scores` with as many scores above and below a threshold of 0, without making them.

    Parameters
    ----------
    counts : sequence of int, shape (4,)
        Members above the threshold, others above, others below, members below.
    claim, confidence, name, seed
        As in `audit_scores`.
    one_run : bool
        Whether the counts are of canaries of one run; if not, each is of runs with the canary or without.

    Raises `AuditError` for counts below 0, for members or others alone, and beyond `MOST_COUNTED` in all.

    Examples
    --------
    >>> print(audit_counts((480, 20, 480, 20), claim=PureDP(2.0), seed=1).describe_counts())
    480 of 500 with the canary and 20 of 500 without it
    """
    tp, fp, tn, fn = (whole_at_least(one, 0, "a count") for one in counts)
    members, others = tp + fn, fp + tn
    if not (members and others):
        raise AuditError(f"The counts are of {members:,} members and {others:,} others; some of both are needed.")
    if members + others > MOST_COUNTED:
        raise AuditError(
            f"The counts are of {members + others:,} scores in all; at most {MOST_COUNTED:,} are taken, beyond which "
            "the limits of a binomial are not computed exactly enough."
        )
    if claim is None:
        raise AuditError("What is claimed? Give epsilon=1.0, for instance, or claim=.")
    notes = _direction(np.array([fn, tp]), np.array([tn, fp]))
    if not one_run:
        tail = TailCount(True, fp, tp, 0.0, by_rank=False)
        return ManyRunsResult(
            mechanism=name,
            claim=claim,
            confidence=confidence_of(confidence),
            included=members,
            excluded=others,
            counts=(tail,),
            seed=entropy(seed),
            notes=tuple(notes),
            provenance=provenance(),
            reproducible=False,
        )
    canaries = members + others
    terms = terms_of(claim, Threshold(0.0), "auto", confidence, canaries)
    if terms["method"] == "trade-off" and canaries > MOST_ON_CURVE:
        raise AuditError(
            f"The counts are of {canaries:,} canaries; at most {MOST_ON_CURVE:,} of one run are tested against "
            f"{claim}, by a recursion over guesses. Claim (epsilon, delta)-DP that follows from it."
        )
    refuse_unfair(members, canaries)
    notes = halved("canaries", np.array([canaries]), np.array([members])) + notes
    guessed = GuessCounts(canaries, tp + fp, tn + fn, tp, tn)
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


def flattened(shape: tuple[int, ...]) -> str:
    """Return the sentences that say how a matrix of runs by canaries becomes one row for each score."""
    said = f"Give {LAYOUT} ({math.prod(shape):,} rows)."
    if len(shape) == 2:
        indices = f"run, canary = np.indices({shape}).reshape(2, -1)"
        said += f" For a matrix of runs by canaries: {indices}, and included.reshape(-1), score.reshape(-1)."
    return said


def _labels(column: NDArray[Any], what: str) -> tuple[NDArray[np.intp], Sequence[Any]]:
    """Number the distinct values of a column; return the number of each row, and the values."""
    missing = column != column  # NaN and NaT
    if column.dtype.kind in "OUS":
        missing = np.array([one is None or one != one or not str(one).strip() for one in column.tolist()])
    if np.any(missing):
        place = int(np.argmax(missing))
        raise AuditError(f"{what} says nothing of row {place + 1}; it must say something of each score.")
    try:
        names, place_of = np.unique(column, return_inverse=True)
    except TypeError:  # values of several types
        names, place_of = np.unique(column.astype(str), return_inverse=True)
    return place_of.reshape(-1), names.tolist()


def refuse_unnamed_canaries(included: Bools, of_run: NDArray[np.intp], names: Sequence[Any]) -> None:
    """Refuse several rows of a run that may share a coin: no column says which canary each of them is about.

    One run whose rows are in and out is accepted: it is a run with many canaries.

    >>> refuse_unnamed_canaries(np.repeat([True, False], 2), np.array([0, 0, 1, 1]), ["a", "b"])
    Traceback (most recent call last):
        ...
    epsaudit.errors.AuditError: Run a has 2 scores, and nothing says which canary each is about: scores about one...
    """
    sizes = np.bincount(of_run)
    several = len(sizes) > 1 and np.max(sizes) > 1
    if not several and (len(sizes) > 1 or len(included) == 1 or 0 < np.sum(included) < len(included)):
        return
    most = int(np.argmax(sizes))
    raise AuditError(
        f"Run {names[most]} has {sizes[most]:,} scores, and nothing says which canary each is about: scores about one "
        "canary share its coin, and would count as several. Add a column canary (canaries=), one score for each "
        "canary in each run; or, of one canary, keep one score for each run, such as that of the last checkpoint."
    )


def refuse_shared_coins(
    included: Bools,
    of_run: NDArray[np.intp],
    run_names: Sequence[Any],
    ids: NDArray[np.intp],
    id_names: Sequence[Any],
) -> None:
    """Refuse canaries that are in the same runs throughout, and runs that have the same canaries, as copies do."""
    for what, groups, names, others in (("Canaries", ids, id_names, of_run), ("Runs", of_run, run_names, ids)):
        chance, first, second = copies(included, groups, others)
        if chance < CHANCE:
            these = "are in the same runs" if what == "Canaries" else "have the same canaries in"
            raise AuditError(
                f"{what} {names[first]} and {names[second]} {these} throughout, or exactly the others (p = "
                f"{chance:.1g}): they share their coins, which would count as several. Keep one of them, and of all "
                "others that share a coin."
            )


def copies(included: Bools, groups: NDArray[np.intp], others: NDArray[np.intp]) -> tuple[float, int, int]:
    """Return the probability at most that fair coins repeat themselves as often as here, and two groups that agree.

    A group's coins are those of its rows in the order of ``others``, the first coin taken for 0, since opposite coins
    are shared as well. Of n groups with b + 1 coins for the same ``others``, k are distinct: the n - k that repeat an
    earlier one can be chosen in (n over k) ways, and each of them agrees with one of k with probability k / 2^b at
    most.

    >>> coins = np.random.default_rng(0).random((50, 3)) < 0.5
    >>> run, canary = np.indices(coins.shape).reshape(2, -1)
    >>> copies(coins.reshape(-1), canary, run)[0]
    1.0
    >>> coins[:, 2] = ~coins[:, 1]
    >>> chance, first, second = copies(coins.reshape(-1), canary, run)
    >>> chance < 1e-12, first, second
    (True, 1, 2)
    """
    order = np.lexsort((others, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    seen: dict[bytes, dict[bytes, int]] = defaultdict(dict)  # by the others of a group: its coins, and who had them
    repeated: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for rows in np.split(order, starts[1:]):
        if len(rows) == 1:
            continue
        about, coins = others[rows].tobytes(), (included[rows] ^ included[rows[0]]).tobytes()
        group = int(groups[rows[0]])
        first = seen[about].setdefault(coins, group)
        if first != group:
            repeated[about].append((first, group))
    found = (1.0, 0, 0)
    for about, pairs in repeated.items():
        distinct, times = len(seen[about]), len(pairs)
        ways = -math.log(distinct + times + 1.0) - betaln(distinct + 1.0, times + 1.0)
        free = len(next(iter(seen[about]))) - 1
        log_chance = ways + times * (math.log(distinct) - free * math.log(2.0)) + math.log(len(seen))
        found = min(found, (math.exp(min(log_chance, 0.0)), *pairs[0]))
    return found


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


def _twice(runs: NDArray[np.intp], canaries: NDArray[np.intp]) -> int | None:
    """Return a row whose run and canary another row has as well, or None."""
    order = np.lexsort((canaries, runs))
    same = (np.diff(runs[order]) == 0) & (np.diff(canaries[order]) == 0)
    return int(order[np.argmax(same)]) if np.any(same) else None


ONE_CANARY = (
    "Instead, audit one canary over all of its runs: it may have been in by any plan, if the plans of other canaries "
    "did not depend on it. Choose the canary before you look at scores, and give its rows alone, one for each run."
)
"""What is advised where canaries of several runs were not in by fair coins, as those of shadow models."""


def halves(included: Bools, runs: NDArray[Any], canaries: NDArray[Any]) -> list[str]:
    """Refuse what fair coins do not give; say so where exactly half are in, of all runs or of all canaries.

    >>> halves(np.arange(100) % 2 == 0, np.zeros(100), np.arange(100))[0][:55]
    'Exactly half of the canaries are in, as coins give once'
    """
    _, of_run = np.unique(runs, return_inverse=True)
    _, of_canary = np.unique(canaries, return_inverse=True)
    in_several = len(included) > of_canary.max() + 1  # canaries that are in several runs
    refuse_unfair(int(included.sum()), len(included), ONE_CANARY if in_several else "")
    for what, place, advice in (
        ("canaries of every run", of_run, ""),
        ("runs of every canary", of_canary, ONE_CANARY if in_several else ""),
    ):
        sizes, within = np.bincount(place), np.bincount(place, included)
        if found := halved(what if len(sizes) > 1 else "canaries", sizes, within, advice):
            return found
    return []


def refuse_unfair(inside: int, number: int, advice: str = "") -> None:
    """Refuse a number of canaries that are in which fair coins do not give; ``advice`` goes behind the sentence."""
    if 2.0 * float(bdtr(min(inside, number - inside), number, 0.5)) < CHANCE:
        raise AuditError(f"{inside:,} of {number:,} canaries are in; fair coins do not part them so. {advice}".strip())


def halved(what: str, sizes: NDArray[Any], within: NDArray[Any], advice: str = "") -> list[str]:
    """Return a note if exactly half of every group is in; refuse the groups if fair coins hardly ever give that.

    >>> halved("canaries", np.array([10]), np.array([4]))
    []
    """
    if np.any(2 * within != sizes):
        return []
    log_chance = float(np.sum(-np.log(sizes + 1.0) - betaln(sizes / 2 + 1.0, sizes / 2 + 1.0) - sizes * np.log(2)))
    told = f"Exactly half of the {what} are in, as coins give once in {math.exp(min(-log_chance, 50.0)):,.0f} times"
    if log_chance < math.log(CHANCE):
        refused = f"{told}. They were halved; the bound needs a fair coin for each, tossed before the run. {advice}"
        raise AuditError(refused.strip())
    return [f"{told}. If they were halved in place of tossed for, the bound is void."]


def direction(scores: Floats, included: Bools) -> list[str]:
    """Say so where scores do not tell members from others, or where members score lower than others.

    >>> coins = np.arange(60) % 2 == 0
    >>> direction(np.where(coins, 0.1, 2.3), coins)[0][:66]
    'Members score lower than others (area 0.000 under the curve), but '
    """
    inside, outside = _tallied(scores, included)
    return _direction(inside, outside)


def _direction(inside: NDArray[Any], outside: NDArray[Any]) -> list[str]:
    """The notes of `direction`, of numbers of members and others at each distinct score, in ascending order."""
    if not (np.any(inside) and np.any(outside)):
        return []
    area, p = _mann_whitney(inside, outside)
    if area < 0.5 and p < REVERSED:
        return [
            f"Members score lower than others (area {area:.3f} under the curve), but high must mean that a canary "
            "seems in. If it is a loss, turn the score round: -scores, or --names score=-loss for a column loss."
        ]
    if p <= ALIKE and area > 0.5:
        return []
    return [f"Scores of members and of others are alike (area {area:.3f} under the curve): they may ignore membership."]


def tells(included: Bools, column: NDArray[Any]) -> float:
    """p-value of the hypothesis that a column says nothing about who is in: of its order, or of its words' shares.

    >>> tells(np.arange(60) < 30, np.repeat(["before", "after"], 30)) < 1e-6
    True
    """
    if column.dtype.kind in "fiubMm":
        numbers = column.astype("datetime64[ns]").astype(float) if column.dtype.kind in "Mm" else column.astype(float)
        return _mann_whitney(*_tallied(numbers, included))[1]
    _, place = np.unique(column.astype(str), return_inverse=True)
    sizes, within = np.bincount(place), np.bincount(place, included)
    if len(sizes) == 1:
        return 1.0
    # Hoeffding: the likelier kind of each word is right too often for coins; 2^words ways to say which is likelier
    excess = float(np.sum(np.abs(2.0 * within - sizes * np.mean(included) * 2.0))) / 2.0
    return min(1.0, math.exp(min(len(sizes) * math.log(2.0) - 2.0 * excess**2 / len(column), 0.0)))


def _tallied(values: Floats, first: Bools) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how many of the first kind, and of the other, have each distinct value, in ascending order."""
    distinct, place = np.unique(values, return_inverse=True)
    every, kind = (np.bincount(place.reshape(-1)[which], minlength=len(distinct)) for which in (slice(None), first))
    return kind, every - kind


def _mann_whitney(first: NDArray[Any], others: NDArray[Any]) -> tuple[float, float]:
    """Area under the curve, ties halved, and its two-sided normal p-value; both kinds are counted at each value."""
    first, others = first.astype(float), others.astype(float)
    n, m = float(first.sum()), float(others.sum())
    area = float(np.sum(first * (np.cumsum(others) - others / 2.0))) / (n * m)
    ties = float(np.sum((first + others) ** 3 - (first + others))) / ((n + m) * max(n + m - 1.0, 1.0))
    deviation = math.sqrt(max(n + m + 1.0 - ties, 0.0) / (12.0 * n * m))
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
    n, m = len(inside), len(outside)
    if not (n and m):
        raise AuditError(f"There are {n} scores of members and {m} of others; some of both are needed.")
    at = np.unique(np.concatenate([inside, outside])) if fixed is None else np.array([fixed])
    at = at[:-1] if len(at) > 1 else at
    true, false = n - np.searchsorted(inside, at, "right"), m - np.searchsorted(outside, at, "right")
    found = _estimates(true, false, n, m, claim, confidence)
    if fixed is not None:
        del found["Clopper-Pearson at the threshold that looks best"]  # at one that was fixed before it is a bound
    return found


def usual_estimates_of_counts(counts: Sequence[int], claim: Claim, confidence: float = 0.95) -> dict[str, float]:
    """Return `usual_estimates` at a fixed threshold, from members above it, others above, others below, members below.

    >>> found = usual_estimates_of_counts((480, 20, 480, 20), PureDP(1.0))
    >>> {name: round(value, 2) for name, value in found.items() if "Beta" not in name}
    {'plug-in': 3.18, 'normal limits': 2.82}
    """
    tp, fp, tn, fn = counts
    found = _estimates(np.array([tp]), np.array([fp]), tp + fn, fp + tn, claim, confidence)
    del found["Clopper-Pearson at the threshold that looks best"]
    return found


def _estimates(
    true: NDArray[Any], false: NDArray[Any], n: int, m: int, claim: Claim, confidence: float
) -> dict[str, float]:
    """Estimate from members and others above each threshold, of ``n`` members and ``m`` others, at the best one."""
    alpha = 1.0 - confidence
    delta = claim.claimed_point[1] if isinstance(claim, PureDP | ApproxDP) else 1e-5
    tp, fp = np.concatenate([true, m - false]), np.concatenate([false, n - true])
    sizes, others = np.repeat([n, m], len(true)), np.repeat([m, n], len(true))

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

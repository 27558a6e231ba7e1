"""Checks of coins and scores that a user gives: what would void a bound is refused, and what may void it is noted.

A bound from scores of one run needs an independent fair coin for every canary. These checks find data that fair coins
almost never produce: several rows that share one coin, exactly half of the canaries in, or members that were scored at
another time than others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betaln, ndtr

from epsaudit.array_types import Bools, Floats
from epsaudit.audits.one_run.audit import check_scores
from epsaudit.errors import AuditError, finite_at_least

MIN_CHANCE = 1e-6
"""[chosen] Data are refused if fair coins produce them with a smaller probability than this. It is also the probability
that an audit of correct data is refused."""
MAX_DISTINCT_P_VALUE = 0.05
"""[chosen] Scores of members and others get the note that they are alike if the p-value is larger. If they are alike,
the note is missing with this probability."""
MIN_INDEPENDENT_P_VALUE = 1e-3
"""[chosen] Scores that the user declared independent are refused if the p-value is smaller. This is also the
probability that independent scores are refused, which costs an audit but makes no bound invalid."""
MAX_REVERSED_P_VALUE = 1e-3
"""[chosen] Members get the note that they score lower than others if the p-value is smaller. A user who negates the
scores because of this note chooses the direction by the data, which increases the error probability by at most half of
this."""
ROW_LAYOUT = "one row for each score, with columns included, score, run and canary"
"""The shape that all messages about shapes ask for."""


@dataclass(frozen=True)
class ScoreRows:
    """The data of `epsaudit.audit_scores` as rows, one row for each score.

    A row says whether the canary was in (``included``), and has the score, the number of the run, and the number of the
    canary. ``run_names`` and ``canary_names`` hold the user's names for these numbers. ``canary_names`` is empty if the
    user named no canaries; then every row is a canary of its own.
    """

    included: Bools
    scores: NDArray[Any]
    runs: NDArray[np.intp]
    run_names: Sequence[Any]
    canaries: NDArray[np.intp]
    canary_names: Sequence[Any]

    @property
    def are_runs_of_one_canary(self) -> bool:
        """Whether every row is a run of its own, and all rows are about the same canary."""
        return 1 < len(self.included) == len(self.run_names) and len(self.canary_names) <= 1


def read_rows(
    included: ArrayLike,
    scores: ArrayLike,
    runs: ArrayLike | None,
    canaries: ArrayLike | None,
    scored: ArrayLike | None,
) -> ScoreRows:
    """Convert the arguments of `epsaudit.audit_scores` to rows, one row for each score.

    Raises `AuditError` if an argument has a wrong shape or missing values, or if several rows are about one canary in
    one run. Also raises it if the values of ``scored``, such as the time of scoring, distinguish members from others.
    """
    coins = np.asarray(included)
    if coins.ndim > 1:
        raise AuditError(f"included has shape {coins.shape}; it must have one dimension. {explain_rows(coins.shape)}")
    if coins.ndim != 1 or len(coins) == 0 or not np.all((coins == 0) | (coins == 1)):
        raise AuditError("included must be one True or False for each canary, at least one.")
    coins, values = coins.astype(bool), check_scores(scores, len(coins))
    columns = {"runs": runs, "canaries": canaries, "scored": scored}
    given = {key: np.asarray(column) for key, column in columns.items() if column is not None}
    for key, column in given.items():
        if column.shape != coins.shape:
            raise AuditError(f"{key} has shape {column.shape}; it must have a value for each of {len(coins)} scores.")
    of_run: tuple[NDArray[np.intp], Sequence[Any]] = (np.zeros(len(coins), int), [0])
    of_canary: tuple[NDArray[np.intp], Sequence[Any]] = (np.arange(len(coins)), [])
    if "runs" in given:
        of_run = number_values(given["runs"], "runs")
    if "canaries" in given:
        of_canary = number_values(given["canaries"], "canaries")
    rows = ScoreRows(coins, values, *of_run, *of_canary)
    if "canaries" not in given:
        refuse_unnamed_canaries(coins, rows.runs, rows.run_names)
    elif (twice := find_duplicate(rows.runs, rows.canaries)) is not None:
        canary, run = rows.canary_names[rows.canaries[twice]], rows.run_names[rows.runs[twice]]
        raise AuditError(
            f"Canary {canary} is twice in run {run}: both scores have the same coin, and would count as two. "
            "Keep one; if they are of different runs, name the run of each (runs=, or a column run)."
        )
    if "scored" in given and (p := membership_p_value(coins, given["scored"])) < MIN_CHANCE:
        raise AuditError(
            f"The column scored distinguishes members from others (p = {p:.1g}): they were scored at different times, "
            "or by different models. Score all canaries of a run at once, by the model that the run released."
        )
    return rows


def check_threshold(threshold: float | None, rows: ScoreRows) -> float | None:
    """Return the threshold as a float, or None; raise `AuditError` if it was probably chosen on the scores.

    A threshold that equals exactly one score was probably chosen on the scores, unless all scores have at most two
    different values.
    """
    if threshold is None:
        return None
    threshold = finite_at_least(threshold, -math.inf, "threshold")
    if np.sum(rows.scores == threshold) == 1 and len(np.unique(rows.scores)) > 2:
        raise AuditError(
            f"The threshold {threshold:g} is one of the scores, so it was probably chosen by looking at them, which "
            "voids the bound. Give no threshold."
        )
    return threshold


def check_assumption(assume: str | None, rows: ScoreRows) -> None:
    """Raise `AuditError` if ``assume`` does not fit the rows, or if the scores contradict the assumption."""
    if assume not in (None, "independent") or (assume and rows.are_runs_of_one_canary):
        raise AuditError(f"assume is {assume!r}; it may be 'independent', of canaries that share a run, or None.")
    if assume and (p := dependence_p_value(rows.included, rows.scores, rows.runs)) < MIN_INDEPENDENT_P_VALUE:
        raise AuditError(f"Scores depend on each other (p = {p:.1g}): canaries are not independent. Give no assume=.")


def check_coins(rows: ScoreRows) -> list[str]:
    """Check that independent fair coins can have decided which canaries were in which runs.

    Return notes about properties of the coins that may void the bound. Raise `AuditError` if fair coins almost never
    have these properties. If all runs are of a single canary, any plan may decide which runs have the canary, so
    nothing is checked.
    """
    if rows.are_runs_of_one_canary:
        return []
    notes = check_halves(rows.included, rows.runs, rows.canaries)
    if rows.canary_names:
        refuse_shared_coins(rows.included, rows.runs, rows.run_names, rows.canaries, rows.canary_names)
    return notes


def explain_rows(shape: tuple[int, ...]) -> str:
    """Return sentences for the user that say how to reshape arrays of this shape to one row for each score."""
    said = f"Give {ROW_LAYOUT} ({math.prod(shape):,} rows)."
    if len(shape) == 2:
        indices = f"run, canary = np.indices({shape}).reshape(2, -1)"
        said += f" For a matrix of runs by canaries: {indices}, and included.reshape(-1), score.reshape(-1)."
    return said


def number_values(column: NDArray[Any], what: str) -> tuple[NDArray[np.intp], Sequence[Any]]:
    """Give every distinct value of a column a number; return the number of each row and the distinct values.

    Raises `AuditError`, which names the column ``what``, if a value is missing.
    """
    missing = column != column  # NaN and NaT
    if column.dtype.kind in "OUS":
        missing = np.array([one is None or one != one or not str(one).strip() for one in column.tolist()])
    if np.any(missing):
        place = int(np.argmax(missing))
        raise AuditError(f"{what} has no value in row {place + 1}; it must have a value for each score.")
    try:
        names, place_of = np.unique(column, return_inverse=True)
    except TypeError:  # the values have several types
        names, place_of = np.unique(column.astype(str), return_inverse=True)
    return place_of.reshape(-1), names.tolist()


def refuse_unnamed_canaries(included: Bools, of_run: NDArray[np.intp], names: Sequence[Any]) -> None:
    """Raise `AuditError` if rows of one run may be about the same canary, because no column names the canaries.

    A single run whose rows are partly in and partly out is accepted: its rows must be about different canaries.

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


def find_duplicate(runs: NDArray[np.intp], canaries: NDArray[np.intp]) -> int | None:
    """Return the index of a row with the same run and the same canary as another row; None if there is no such row."""
    order = np.lexsort((canaries, runs))
    same = (np.diff(runs[order]) == 0) & (np.diff(canaries[order]) == 0)
    return int(order[np.argmax(same)]) if np.any(same) else None


def refuse_shared_coins(
    included: Bools,
    of_run: NDArray[np.intp],
    run_names: Sequence[Any],
    ids: NDArray[np.intp],
    id_names: Sequence[Any],
) -> None:
    """Raise `AuditError` if two canaries are in exactly the same runs, or if two runs have exactly the same canaries.

    Fair coins almost never produce this, but a canary or a run that is in the data twice does.
    """
    for what, groups, names, others in (("Canaries", ids, id_names, of_run), ("Runs", of_run, run_names, ids)):
        chance, first, second = find_shared_coins(included, groups, others)
        if chance < MIN_CHANCE:
            these = "are in exactly the same runs" if what == "Canaries" else "have exactly the same canaries"
            raise AuditError(
                f"{what} {names[first]} and {names[second]} {these}, or exactly opposite ones (p = "
                f"{chance:.1g}): they share their coins, and would count as two. Keep one of them, and one of all "
                "others that share a coin."
            )


def find_shared_coins(included: Bools, groups: NDArray[np.intp], others: NDArray[np.intp]) -> tuple[float, int, int]:
    """Search for groups of rows with the same coins, such as two canaries that are in exactly the same runs.

    A group consists of all rows of one canary, or of all rows of one run. Return an upper bound on the probability that
    fair coins repeat themselves at least as often as here, and the numbers of two groups with the same coins.

    The coins of a group are those of its rows in the order of ``others``. They are compared up to exchanging 'in' and
    'out', because opposite coins are shared as well. Suppose that n groups have b + 1 coins each, for the same
    ``others``, and that k of them are distinct. The n - k groups that repeat an earlier one can be chosen in (n over k)
    ways, and each of them agrees with one of k groups with probability at most k / 2^b.

    >>> coins = np.random.default_rng(0).random((50, 3)) < 0.5
    >>> run, canary = np.indices(coins.shape).reshape(2, -1)
    >>> find_shared_coins(coins.reshape(-1), canary, run)[0]
    1.0
    >>> coins[:, 2] = ~coins[:, 1]
    >>> chance, first, second = find_shared_coins(coins.reshape(-1), canary, run)
    >>> chance < 1e-12, first, second
    (True, 1, 2)
    """
    order = np.lexsort((others, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    first_with: dict[bytes, dict[bytes, int]] = defaultdict(dict)  # others of a group -> coins -> first such group
    repeated: dict[bytes, list[tuple[int, int]]] = defaultdict(list)  # others of a group -> pairs of equal groups
    for rows in np.split(order, starts[1:]):
        if len(rows) == 1:
            continue
        about, coins = others[rows].tobytes(), (included[rows] ^ included[rows[0]]).tobytes()
        group = int(groups[rows[0]])
        first = first_with[about].setdefault(coins, group)
        if first != group:
            repeated[about].append((first, group))
    found = (1.0, 0, 0)
    for about, pairs in repeated.items():
        distinct, times = len(first_with[about]), len(pairs)
        ways = -math.log(distinct + times + 1.0) - betaln(distinct + 1.0, times + 1.0)
        free = len(next(iter(first_with[about]))) - 1
        log_chance = ways + times * (math.log(distinct) - free * math.log(2.0)) + math.log(len(first_with))
        found = min(found, (math.exp(min(log_chance, 0.0)), *pairs[0]))
    return found


ONE_CANARY = (
    "Instead, audit one canary over all of its runs: it may have been in by any plan, if the plans of other canaries "
    "did not depend on it. Choose the canary before you look at scores, and give its rows alone, one for each run."
)
"""The advice for data of several runs whose canaries were not chosen by fair coins, such as those of shadow models."""


def check_halves(included: Bools, runs: NDArray[np.intp], canaries: NDArray[np.intp]) -> list[str]:
    """Check the number of canaries that are in: fair coins rarely put exactly half of the canaries, or very few, in.

    ``runs`` and ``canaries`` are the numbers of the run and of the canary of each row, counted from 0 without gaps.
    Raises `AuditError` if fair coins almost never produce the number of canaries that are in. Returns a note if exactly
    half of the canaries of every run, or exactly half of the runs of every canary, are in, and fair coins produce that
    often enough for the data to be accepted.

    >>> check_halves(np.arange(100) % 2 == 0, np.zeros(100, int), np.arange(100))[0][:55]
    'Exactly half of the canaries are in, as coins give once'
    """
    in_several_runs = len(included) > canaries.max() + 1
    refuse_unfair(int(included.sum()), len(included), ONE_CANARY if in_several_runs else "")
    for what, place, advice in (
        ("canaries of every run", runs, ""),
        ("runs of every canary", canaries, ONE_CANARY if in_several_runs else ""),
    ):
        sizes, within = np.bincount(place), np.bincount(place, included)
        if found := check_exact_halves(what if len(sizes) > 1 else "canaries", sizes, within, advice):
            return found
    return []


def refuse_unfair(inside: int, number: int, advice: str = "") -> None:
    """Raise `AuditError` if fair coins almost never put ``inside`` of ``number`` canaries into the dataset.

    The message ends with the sentences in ``advice``.
    """
    if 2.0 * float(bdtr(min(inside, number - inside), number, 0.5)) < MIN_CHANCE:
        raise AuditError(
            f"{inside:,} of {number:,} canaries are in; fair coins produce such a split with a probability below "
            f"{MIN_CHANCE:g}. {advice}".strip()
        )


def check_exact_halves(what: str, sizes: NDArray[Any], within: NDArray[Any], advice: str = "") -> list[str]:
    """Return a note if exactly half of every group is in; raise `AuditError` if fair coins almost never produce that.

    A group is, for example, all canaries of one run. ``what`` names the members of the groups in the note. ``sizes``
    are the numbers of rows of each group, and ``within`` are the numbers of rows that are in.

    >>> check_exact_halves("canaries", np.array([10]), np.array([4]))
    []
    """
    if np.any(2 * within != sizes):
        return []
    log_chance = float(np.sum(-np.log(sizes + 1.0) - betaln(sizes / 2 + 1.0, sizes / 2 + 1.0) - sizes * np.log(2)))
    told = f"Exactly half of the {what} are in, as coins give once in {math.exp(min(-log_chance, 50.0)):,.0f} times"
    if log_chance < math.log(MIN_CHANCE):
        refused = f"{told}. They were halved; the bound needs a fair coin for each, tossed before the run. {advice}"
        raise AuditError(refused.strip())
    return [f"{told}. If they were halved in place of tossed for, the bound is void."]


def dependence_p_value(included: Bools, scores: Floats, runs: NDArray[Any]) -> float:
    """Return an approximate p-value of the hypothesis that scores of canaries with the same coin are exchangeable.

    Two tests are made among the canaries that were in, and two among those that were out: whether scores differ between
    runs (Kruskal and Wallis), and whether neighbouring scores of a run are similar. The result is the smallest p-value,
    multiplied by the number of tests. An effect of a run on all of its canaries cannot be detected if there is only
    one run.

    >>> rng = np.random.default_rng(0)
    >>> coins, run = rng.random(800) < 0.5, np.repeat(np.arange(8), 100)
    >>> fair = rng.normal(size=800) + coins
    >>> dependence_p_value(coins, fair, run) > 1e-3 > dependence_p_value(coins, fair + rng.normal(size=8)[run], run)
    True
    """
    from scipy.stats import kruskal, rankdata  # slow to import

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
        correlation = float(np.sum((ranks[1:] * ranks[:-1])[pairs]) / np.sum(ranks**2))
        number = int(pairs.sum())
        z = (correlation + number / (len(values) * (len(values) - 1.0))) * len(values) / math.sqrt(max(number, 1))
        found.append(2.0 * float(ndtr(-abs(z))))
    return min(1.0, len(found) * min(found, default=1.0))


def describe_direction(scores: Floats, included: Bools) -> list[str]:
    """Return a note if scores do not distinguish members from others, or if members score lower than others.

    Members are canaries that were in the dataset. The list is empty if there is nothing to note.

    >>> coins = np.arange(60) % 2 == 0
    >>> describe_direction(np.where(coins, 0.1, 2.3), coins)[0][:66]
    'Members score lower than others (area 0.000 under the curve), but '
    """
    return _direction_notes(*_compare_ranks(scores, included)) if 0 < np.sum(included) < len(included) else []


def describe_direction_of_counts(tp: int, fp: int, tn: int, fn: int) -> list[str]:
    """Return the notes of `describe_direction` if only the counts at one threshold are known.

    ``tp`` and ``fn`` are the members above and below the threshold, ``fp`` and ``tn`` the others above and below it.
    """
    from scipy.stats import chi2_contingency  # slow to import

    area = (1.0 + tp / (tp + fn) - fp / (fp + tn)) / 2.0
    distinct = tp + fp > 0 and tn + fn > 0
    p = float(chi2_contingency([[tp, fn], [fp, tn]], correction=False).pvalue) if distinct else 1.0
    return _direction_notes(area, p)


def _direction_notes(area: float, p: float) -> list[str]:
    """Return the notes of `describe_direction`, given the area under the ROC curve and its p-value against 1/2."""
    if area < 0.5 and p < MAX_REVERSED_P_VALUE:
        return [
            f"Members score lower than others (area {area:.3f} under the curve), but high must mean that a canary "
            "seems in. If it is a loss, turn the score round: -scores, or --names score=-loss for a column loss."
        ]
    if p <= MAX_DISTINCT_P_VALUE and area > 0.5:
        return []
    return [f"Scores of members and of others are alike (area {area:.3f} under the curve): they may ignore membership."]


def membership_p_value(included: Bools, column: NDArray[Any]) -> float:
    """Return a p-value of the hypothesis that the values of a column do not depend on which canaries were in.

    Numbers and dates are compared by their order. Texts are compared by how often each text occurs among the canaries
    that were in and among the others.

    >>> membership_p_value(np.arange(60) < 30, np.repeat(["before", "after"], 30)) < 1e-6
    True
    """
    if not 0 < np.sum(included) < len(included):
        return 1.0
    if column.dtype.kind in "fiubMm":
        return _compare_ranks(column.astype("datetime64[ns]") if column.dtype.kind in "Mm" else column, included)[1]
    _, place = np.unique(column.astype(str), return_inverse=True)
    sizes, within = np.bincount(place), np.bincount(place, included)
    if len(sizes) == 1:
        return 1.0
    # Hoeffding: guessing the likelier side of each text is correct too often for coins. There are 2^texts such guesses.
    excess = float(np.sum(np.abs(2.0 * within - sizes * np.mean(included) * 2.0))) / 2.0
    return min(1.0, math.exp(min(len(sizes) * math.log(2.0) - 2.0 * excess**2 / len(column), 0.0)))


def _compare_ranks(values: NDArray[Any], first: Bools) -> tuple[float, float]:
    """Compare the values that the mask ``first`` selects with the other values by the Mann-Whitney test.

    Return the area under the ROC curve, with ties counted half, and the two-sided asymptotic p-value.
    """
    from scipy.stats import mannwhitneyu  # slow to import

    _, rank = np.unique(values, return_inverse=True)  # NaN and NaT become the highest rank
    rank, first = rank.reshape(-1), np.asarray(first, bool)
    if rank.max() == 0:
        return 0.5, 1.0
    found = mannwhitneyu(rank[first], rank[~first], method="asymptotic", use_continuity=False)
    return float(found.statistic) / (int(np.sum(first)) * int(np.sum(~first))), float(found.pvalue)

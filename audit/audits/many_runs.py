"""Audits of the scores of many independent runs, some with a canary in the data and some without it.

An event is {score > t}, where t is the k-th highest score of the runs without the canary and the rank k is fixed
beforehand, or {score < t}, where t is the k-th lowest score of the runs with the canary. Theorem:
docs/explanation/theory.md#scores-of-many-runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, betainccinv

from epsaudit import codec
from epsaudit.array_types import Floats
from epsaudit.bounds.certificates import Box, clopper_pearson_lower, clopper_pearson_upper
from epsaudit.bounds.counts import Counts, Numbers
from epsaudit.claims.conversions import root
from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.results.result import Result
from epsaudit.running.provenance import provenance
from epsaudit.running.streams import stream
from epsaudit.text import count, lower

RANK_RATIO = 3
"""[measured] Ratio of one rank that is tried to the previous one. For eight score distributions with 100 and 1,000
runs of each kind, the ratios 2, 4 and 6 certify 2 to 4 % more on average, but 8, 22 and 5 % less for some
distributions; the ratio 10 certifies 10 % less on average."""
N_CELLS = 64
"""[measured] Number of cells into which the distribution of a tail's probability is divided; each cell is replaced by
its upper end, which is conservative. For the same score distributions, 16 and 32 cells certify 4 and 1.4 % less, 128
and 512 cells certify 0.7 and 0.9 % more."""
N_HALVINGS = 12
"""[measured] Number of bisection steps for the logarithm of the largest probability that a claim allows, for claims
without a formula. The result is rounded up by less than one per cent. For Gaussian noise with a claim of a trade-off
curve or of approximate zCDP, 8 and 10 steps certify 0.6 to 1 and 0.1 to 0.2 % less, and 16 steps certify less than
0.1 % more."""
ROUNDING_SHARE = 1e-5
"""[measured] Relative amount by which a bound is rounded down. With 1e-3 bounds are 0.2 % smaller, and with 1e-7 they
are the same."""
REST_SHARE = 1e-3
"""[measured] Share of the error probability below which the rest of the distribution of a tail's probability is
treated as if the event were certain there. Shares from 0.1 to 1e-4 certify the same within 0.2 %."""


@dataclass(frozen=True)
class Tail:
    """The event that a score lies beyond a threshold, and the counts of all runs and of those in which it occurred.

    If ``above`` is true, the tail is {score > threshold}, which guesses that the canary was in. Otherwise the tail is
    {score < threshold}, which guesses that the canary was not in. In the ``counts``, x is the data with the canary and
    x' the data without it.
    """

    above: bool
    threshold: float
    counts: Counts
    by_rank: bool = True
    """Whether the rank `rare` was fixed beforehand and the threshold follows from the data. If false, the threshold
    was fixed beforehand."""

    @classmethod
    def of(
        cls,
        included: int,
        excluded: int,
        above: bool,
        rare: int,
        likely: int,
        threshold: float,
        by_rank: bool = True,
    ) -> Tail:
        """Return a tail of the scores of ``included`` runs with the canary and ``excluded`` runs without it.

        ``likely`` is the number of runs in the tail for which the guess of the tail is right, and ``rare`` is the
        number of runs in the tail for which the guess is wrong. Result files contain these two numbers.
        """
        for name, number in (("rare", rare), ("likely", likely)):
            whole_at_least(number, 0, f"{name} count")
        guesses = (likely, rare, 0, 0) if above else (0, 0, rare, likely)
        return cls(above, threshold, Counts(included, excluded, *guesses, events=1), by_rank)

    @property
    def likely(self) -> int:
        """Number of runs in the tail for which the guess of the tail is right."""
        return int(self._seen[0][0])

    @property
    def likely_runs(self) -> int:
        """Number of all runs, in the tail or not, for which the guess of the tail would be right.

        These are the runs with the canary if ``above`` is true, and the runs without it otherwise.
        """
        return int(self._seen[0][1])

    @property
    def rare(self) -> int:
        """Number of runs in the tail for which the guess of the tail is wrong."""
        return int(self._seen[1][0])

    @property
    def rare_runs(self) -> int:
        """Number of all runs, in the tail or not, for which the guess of the tail would be wrong.

        These are the runs without the canary if ``above`` is true, and the runs with it otherwise.
        """
        return int(self._seen[1][1])

    @property
    def box(self) -> Box:
        """The Clopper-Pearson certificate of the event; it is valid only if the threshold was fixed beforehand."""
        return Box("x" if self.above else "x_prime")

    @functools.cached_property
    def _seen(self) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
        return self.counts.of_event(self.box.event)

    def to_dict(self) -> dict[str, Any]:
        """Return the tail as a JSON object.

        The object does not contain the total numbers of runs, because they are the same for all tails of a result.
        """
        return codec.fields_to_json(self, ("above", "rare", "likely", "threshold", "by_rank"))

    def __str__(self) -> str:
        return f"{{score {'>' if self.above else '<'} {self.threshold:.6g}}}"


def rank_p_value(claim: Claim, rank: int, rare_runs: int, seen: int, likely_runs: int, least: float) -> float:
    """Return an upper bound on the probability, if the claim is true, that a tail contains at least ``seen`` scores.

    The tail begins at the score with the given rank among the scores of ``rare_runs`` runs on one dataset. The scores
    that are counted are those of ``likely_runs`` runs on the neighbouring dataset. Let U be the probability that a
    score on the first dataset is in the tail. Its distribution is Beta(rank, rare_runs - rank + 1). Given U, the count
    is binomial with a success probability of at most ``claim.greatest(U)``. The result is rounded up: for the largest
    values of U, which have the total probability ``least``, all counted scores are assumed to be in the tail.

    >>> from epsaudit import PureDP
    >>> round(rank_p_value(PureDP(1.0), 10, 500, 60, 500, 1e-6), 3)
    0.004
    """
    beyond = np.geomspace(1.0, least, N_CELLS + 1)
    ends = betainccinv(rank, rare_runs - rank + 1, beyond[1:])
    tails = betainc(seen, likely_runs - seen + 1, claim.greatest(ends, N_HALVINGS)) if seen else np.ones(N_CELLS)
    return float(np.sum(-np.diff(beyond) * tails) + least)


@functools.lru_cache(maxsize=1 << 14)
def tail_bound(claim: Claim, tail: Tail, alpha: float, beat: float = 0.0) -> float:
    """Return a lower bound on the claim's parameter from one tail at significance level ``alpha``.

    Return 0 if the bound is not larger than ``beat``. This saves time when the largest bound of several tails is
    searched for.

    >>> from epsaudit import PureDP
    >>> tail = Tail.of(500, 500, above=True, rare=10, likely=100, threshold=0.0)
    >>> round(tail_bound(PureDP(1.0), tail, 0.05), 3)
    1.818
    """
    if not tail.by_rank:
        return float(tail.box.parameter(claim, tail.counts, 1.0 - alpha))
    likely, likely_runs, rare, rare_runs = tail.likely, tail.likely_runs, tail.rare, tail.rare_runs

    def excess(parameter: float) -> float:
        tested = claim.with_parameter(parameter)
        return math.log(rank_p_value(tested, rare, rare_runs, likely, likely_runs, REST_SHARE * alpha) / alpha)

    if likely * rare_runs <= rare * likely_runs or excess(beat) > 0.0:
        return 0.0
    low, high = beat, max(1.0, 2.0 * beat)
    while excess(high) <= 0.0:
        low, high = high, 2.0 * high
    found = root(excess, low, high, xtol=ROUNDING_SHARE * high / 4.0)
    return next(
        (one for step in (1, 4, 16) if excess(one := max(found - step * ROUNDING_SHARE * high, low)) <= 0.0), low
    )


def tried_ranks(runs: int) -> list[int]:
    """Return the ranks at which tails begin, given the number of runs: 1, 3, 9 and so on, up to half of the runs.

    A tail of rank k begins at the k-th most extreme of these runs' scores.
    """
    return [RANK_RATIO**power for power in range(40) if 2 * RANK_RATIO**power <= max(runs, 2)]


def best_tail(claim: Claim, tails: Sequence[Tail], alpha: float, looks: int | None = None) -> tuple[float, Tail]:
    """Return the largest of the bounds of several tails, and the tail that has it.

    The tails share the error probability ``alpha``, so all bounds hold together with probability at least 1 - alpha.
    The tails of the first rank have the largest share, those of the second rank half of it, and those of the third rank
    a third, because the bound of a rarer event depends more on its share. If ``looks`` is given, only the bounds of the
    ``looks`` tails that seem to certify most are computed.
    """
    shares = [1.0 / (1.0 + math.log(max(tail.rare, 1), RANK_RATIO)) if tail.by_rank else 1.0 for tail in tails]
    shown, found = 0.0, tails[0]
    levels = [alpha * share / sum(shares) for share in shares]
    corners = [_corner_probabilities(tail, level) for tail, level in zip(tails, levels, strict=True)]
    order = np.argsort(-claim.least(*np.array(corners).T))  # the largest bounds come first, so most others end early
    for tail, level in [(tails[place], levels[place]) for place in order[:looks]]:
        if (bound := tail_bound(claim, tail, level, shown)) > shown:
            shown, found = bound, tail
    return shown, found


def _corner_probabilities(tail: Tail, alpha: float) -> tuple[float, float]:
    """Return confidence limits on the probability that a run is in the tail, on both datasets.

    The first limit is a lower one for the runs for which the guess of the tail is right, but never less than the second
    limit. The second limit is an upper one for the runs for which the guess is wrong. Each limit has the error
    probability alpha / 2.
    """
    low = float(clopper_pearson_lower(tail.likely, tail.likely_runs, alpha / 2.0))
    up = float(clopper_pearson_upper(tail.rare, tail.rare_runs, alpha / 2.0))
    return max(low, up), up


def count_tails(included: Floats, excluded: Floats, seed: int) -> tuple[Tail, ...]:
    """Return the tails that begin at the `tried_ranks`, on both sides of the scores, with their counts.

    ``included`` are the scores of runs with the canary, and ``excluded`` those of runs without it. The seed determines
    how ties between scores are broken.
    """
    every = np.concatenate([included, excluded]).astype(float)
    order = np.lexsort((stream(seed, "many runs").random(len(every)), every))
    place = np.empty(len(every), dtype=np.intp)
    place[order] = np.arange(len(every))
    members, others = np.sort(place[: len(included)]), np.sort(place[len(included) :])
    found = []
    for above, rare, likely in ((True, others, members), (False, members, others)):
        for rank in tried_ranks(len(rare)):
            at = rare[-rank] if above else rare[rank - 1]
            seen = len(likely) - np.searchsorted(likely, at) if above else np.searchsorted(likely, at)
            threshold = float(every[order[at]])
            found.append(Tail.of(len(members), len(others), above, rank, int(seen), threshold))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, repr=False)
class ManyRunsResult(Result):
    """A lower bound from the scores of many runs, with the canary and without it; see also `Result`.

    `epsaudit.audit_scores` returns it. The seed determines only how ties are broken.
    """

    counts: tuple[Tail, ...]
    """All tails, which share the error probability, with the counts of the same runs."""
    independent: bool = False
    """Whether the scores are of canaries that the user declared independent, each treated as a run of its own."""

    _kind = "many-runs"
    _written = (
        *("mechanism", "claim", "included", "excluded", "counts", "confidence", "lower_bound"),
        *("epsilon_lower", "proven", "verdict", "seed", "notes", "reproducible", "provenance"),
    )

    @property
    def _when(self) -> str:  # type: ignore[override]  # depends on what is assumed
        return ", if canaries are independent" if self.independent else ", from many runs"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), **({"independent": True} if self.independent else {})}

    @classmethod
    def _fields(cls, data: dict[str, Any]) -> dict[str, Any]:
        stored = [codec.fields_from_json(Tail, one) for one in data["counts"]]
        tails = tuple(Tail.of(data["included"], data["excluded"], **one) for one in stored)
        return {**super()._fields(data), "counts": tails}

    @property
    def included(self) -> int:
        """Number of runs with the canary."""
        return int(self.counts[0].counts.runs_x)

    @property
    def excluded(self) -> int:
        """Number of runs without the canary."""
        return int(self.counts[0].counts.runs_x_prime)

    @functools.cached_property
    def _best(self) -> tuple[float, Tail]:
        return best_tail(self.claim, self.counts, 1.0 - self.confidence)

    @property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter."""
        return self._best[0]

    @property
    def best(self) -> Tail:
        """The tail that certifies the largest bound."""
        return self._best[1]

    @property
    def epsilon_lower(self) -> float | None:
        """Certified lower bound on epsilon at the claim's delta; None for a claim about a whole curve."""
        return None if self.claim.claimed_point is None else self.lower_bound

    @functools.cached_property
    def reach(self) -> float:
        """The largest lower bound that an audit with these numbers of runs can certify.

        It is the bound for scores that separate all runs with the canary from all runs without it.
        """
        right = []
        for one in self.counts:
            rare = one.rare if one.by_rank else 0
            right.append(Tail.of(self.included, self.excluded, one.above, rare, one.likely_runs, 0.0, one.by_rank))
        # the first rank on one of the two sides has the largest bound
        return best_tail(self.claim, right, 1.0 - self.confidence, looks=2)[0]

    @property
    def limits(self) -> str | None:
        if self.reach > self.proven:
            return None
        what = "canaries in and" if self.independent else "runs with the canary and"
        without = "out" if self.independent else "without"
        return (
            f"This audit could not have refuted the claim: {self.included:,} {what} {self.excluded:,} {without} show "
            f"at most {self.claim.symbol} {lower(self.reach)}; more would be needed."
        )

    @property
    def total_runs(self) -> int:
        return self.included + self.excluded

    def _setting_lines(self) -> dict[str, str]:
        if self.independent:
            canaries = f"{self.included:,} in and {self.excluded:,} out, each by a fair coin"
            return {"canaries": canaries, "event": self.describe_event()}
        runs = f"{count(self.included)} with the canary, {count(self.excluded)} without"
        return {"runs": runs, "event": self.describe_event()}

    def _method_lines(self) -> dict[str, str]:
        most = f"{self.claim.symbol} {lower(self.reach)}, if the scores separated all runs"
        only = f"{self.seed}, which decides only how ties are broken: the scores were given"
        said = {"at most": most, "method": self.describe_method(), "assumes": self.assumption}
        return said if self.reproducible else said | {"seed": only}

    @property
    def assumption(self) -> str:
        """The assumption about the runs, in words, under which the bound is valid."""
        if self.independent:
            return "declared, not shown: scores of canaries are independent and of one law (Xiang, Wang and Wang 2025)"
        return "independent runs; those with the canary have one law, and those without"

    def describe_event(self) -> str:
        if not self.best.by_rank:
            return f"{self.best}, a threshold fixed beforehand"
        nth, whose = ("highest", "without") if self.best.above else ("lowest", "with")
        if self.independent:
            other = "out" if self.best.above else "in"
            return f"{self.best}, where the {nth} score but {self.best.rare - 1:,} of canaries that are {other} lies"
        return f"{self.best}, where the {nth} score but {self.best.rare - 1:,} {whose} the canary lies"

    def describe_counts(self) -> str:
        one = self.best
        likely, rare = f"{one.likely:,} of {one.likely_runs:,}", f"{one.rare:,} of {one.rare_runs:,}"
        if self.independent:
            first, second = ("in", "out") if one.above else ("out", "in")
            return f"{likely} canaries {first} and {rare} {second}"
        first, second = ("with", "without") if one.above else ("without", "with")
        return f"{likely} {first} the canary and {rare} {second} it"

    def describe_method(self) -> str:
        if not self.best.by_rank:
            return Box.name
        return f"order statistics, the best of {len(self.counts)} ranks that share the error"


def audit_many_runs(
    included: Floats,
    excluded: Floats,
    *,
    claim: Claim,
    confidence: float,
    threshold: float | None,
    seed: int,
    **more: Any,
) -> ManyRunsResult:
    """Return the result for the scores of runs with the canary (``included``) and without it (``excluded``).

    If a ``threshold`` is given, it must have been fixed beforehand, and the scores above it are counted. Without a
    threshold, the tails that begin at the `tried_ranks` are counted. ``more`` are further fields of the result.
    """
    if not (len(included) and len(excluded)):
        raise AuditError(f"{len(included)} runs had the canary and {len(excluded)} had not; some of both are needed.")
    if threshold is None:
        tails = count_tails(included, excluded, seed)
    else:
        rare, likely = int(np.sum(excluded > threshold)), int(np.sum(included > threshold))
        tails = (Tail.of(len(included), len(excluded), True, rare, likely, float(threshold), by_rank=False),)
    return make_many_runs_result(tails, claim=claim, confidence=confidence, seed=seed, **more)


def make_many_runs_result(tails: tuple[Tail, ...], **fields: Any) -> ManyRunsResult:
    """Return the result of an audit of runs that the user made, from the counts of its tails.

    ``fields`` are the other fields of `ManyRunsResult`, such as the claim, the confidence and the seed.
    """
    return ManyRunsResult(counts=tails, provenance=provenance(), reproducible=False, **fields)

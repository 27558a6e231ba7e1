"""Scores of many independent runs, some with a canary in the data and some without: from order statistics to a bound.

An event is {score > t}, t the k-th highest score of the n runs without the canary and k fixed beforehand; or {score <
t}, t the k-th lowest of those with it. Theorem: docs/explanation/theory.md#scores-of-many-runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, betainccinv

from epsaudit.bounds.certificates import Box, Counts, clopper_pearson_lower, clopper_pearson_upper
from epsaudit.claims.conversions import Floats, root
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.results.result import Result
from epsaudit.running.provenance import provenance
from epsaudit.running.streams import stream
from epsaudit.text import count, lower

RATIO = 3
"""Of one rank that is tried to the next. Of eight laws with 100 and 1,000 runs of each kind 2, 4 and 6 certify
2 to 4 % more on average, and of some 8, 22 and 5 % less; 10 certifies 10 % less on average."""
CELLS = 64
"""Parts into which the law of a rank's probability is cut, each taken at its upper end. Of these laws 16 and 32 certify
4 and 1.4 % less, 128 and 512 0.7 and 0.9 % more."""
HALVINGS = 12
"""Of the logarithm of what a claim allows, where no formula and no Newton's step gives it, which is rounded up by less
than a hundredth. Of Gaussian noise along its curve, and in rho but for a delta, 8 and 10 certify 0.6 to 1 and 0.1 to
0.2 % less, 16 certify less than 0.1 % more."""
ROUNDED = 1e-5
"""Share of a bound by which it is rounded down; 1e-3 certifies 0.2 % less, 1e-7 as much."""
BEYOND = 1e-3
"""Share of the error below which the rest of that law counts as certain; 0.1 to 1e-4 certify as much within 0.2 %."""


@dataclass(frozen=True)
class TailCount:
    """How many scores of runs of either kind are in a tail.

    The tail is {score > threshold}, which says that the canary is in, or if not ``above`` {score < threshold}, which
    says that it is not. ``rare`` is the count of the runs of which the event is rare, ``likely`` that of the others.
    """

    above: bool
    rare: int
    likely: int
    threshold: float
    by_rank: bool = True
    """Whether ``rare`` was fixed beforehand and the threshold was the data's; if not, the threshold was fixed."""

    def __post_init__(self) -> None:
        for name in ("rare", "likely"):
            whole_at_least(getattr(self, name), 0, f"{name} count")

    def __str__(self) -> str:
        return f"{{score {'>' if self.above else '<'} {self.threshold:.6g}}}"


def p_value(claim: Claim, rank: int, rare_runs: int, seen: int, likely_runs: int, least: float) -> float:
    """Probability at most that ``seen`` or more of ``likely_runs`` lie beyond the rank-th of ``rare_runs`` scores.

    Rounded up, by at most ``least`` besides: with the probability U of the tail, of law Beta(rank, rare_runs - rank +
    1), the count is binomial with a probability of at most ``claim.greatest(U)``.

    >>> round(p_value(PureDP(1.0), 10, 500, 60, 500, 1e-6), 3)
    0.004
    """
    beyond = np.geomspace(1.0, least, CELLS + 1)
    ends = betainccinv(rank, rare_runs - rank + 1, beyond[1:])
    tails = betainc(seen, likely_runs - seen + 1, claim.greatest(ends, HALVINGS)) if seen else np.ones(CELLS)
    return float(np.sum(-np.diff(beyond) * tails) + least)


@functools.lru_cache(maxsize=1 << 14)
def tail_bound(claim: Claim, tail: TailCount, included: int, excluded: int, alpha: float, beat: float = 0.0) -> float:
    """Lower bound on the claim's parameter from one tail at level ``alpha``, or 0 if it is not above ``beat``.

    >>> tail = TailCount(above=True, rare=10, likely=100, threshold=0.0)
    >>> round(tail_bound(PureDP(1.0), tail, 500, 500, 0.05), 3)
    1.818
    """
    likely_runs, rare_runs = (included, excluded) if tail.above else (excluded, included)
    if not tail.by_rank:
        counts = Counts(likely_runs, rare_runs, tail.likely, tail.rare, 0, 0, events=1)
        return float(Box().parameter(claim, counts, 1.0 - alpha))

    def excess(parameter: float) -> float:
        tested = claim.with_parameter(parameter)
        return math.log(p_value(tested, tail.rare, rare_runs, tail.likely, likely_runs, BEYOND * alpha) / alpha)

    if tail.likely * rare_runs <= tail.rare * likely_runs or excess(beat) > 0.0:
        return 0.0
    low, high = beat, max(1.0, 2.0 * beat)
    while excess(high) <= 0.0:
        low, high = high, 2.0 * high
    found = root(excess, low, high, xtol=ROUNDED * high / 4.0)
    return next((one for step in (1, 4, 16) if excess(one := max(found - step * ROUNDED * high, low)) <= 0.0), low)


def ranks(runs: int) -> list[int]:
    """Return the ranks that are tried: 1, 3, 9 and so on, up to half of the runs."""
    return [RATIO**power for power in range(40) if 2 * RATIO**power <= max(runs, 2)]


def best(
    claim: Claim, counts: Sequence[TailCount], included: int, excluded: int, alpha: float, looks: int | None = None
) -> tuple[float, TailCount]:
    """Return the greatest bound of tails that share the error, and which of them shows it.

    Rank 1 has the greatest share, the second that is tried a half of it, the third a third: the rarer the event, the
    more does a share of the error change what it certifies.
    """
    shares = [1.0 / (1.0 + math.log(max(tail.rare, 1), RATIO)) if tail.by_rank else 1.0 for tail in counts]
    shown, found = 0.0, counts[0]
    levels = [alpha * share / sum(shares) for share in shares]
    corners = [_corner(tail, included, excluded, level) for tail, level in zip(counts, levels, strict=True)]
    order = np.argsort(
        -claim.least(*np.array(corners).T)
    )  # what seems to show most first: of the rest one look is enough
    for tail, level in [(counts[place], levels[place]) for place in order[:looks]]:
        if (bound := tail_bound(claim, tail, included, excluded, level, shown)) > shown:
            shown, found = bound, tail
    return shown, found


def _corner(tail: TailCount, included: int, excluded: int, alpha: float) -> tuple[float, float]:
    sizes = (included, excluded) if tail.above else (excluded, included)
    low = float(clopper_pearson_lower(tail.likely, sizes[0], alpha / 2.0))
    up = float(clopper_pearson_upper(tail.rare, sizes[1], alpha / 2.0))
    return max(low, up), up


def count_tails(included: Floats, excluded: Floats, seed: int) -> tuple[TailCount, ...]:
    """Count the tails at `ranks`, of both sides; scores that are alike are put in an order by chance."""
    every = np.concatenate([included, excluded]).astype(float)
    order = np.lexsort((stream(seed, "many runs").random(len(every)), every))
    place = np.empty(len(every), dtype=np.intp)
    place[order] = np.arange(len(every))
    members, others = np.sort(place[: len(included)]), np.sort(place[len(included) :])
    found = []
    for above, rare, likely in ((True, others, members), (False, members, others)):
        for rank in ranks(len(rare)):
            at = rare[-rank] if above else rare[rank - 1]
            seen = len(likely) - np.searchsorted(likely, at) if above else np.searchsorted(likely, at)
            found.append(TailCount(above, rank, int(seen), float(every[order[at]])))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, repr=False)
class ManyRunsResult(Result):
    """A lower bound from the scores of many runs, each with the canary or without; see also `Result`.

    Made by `epsaudit.audit_scores`. The seed decides how ties are broken.
    """

    included: int
    """Runs with the canary."""
    excluded: int
    """Runs without it."""
    counts: tuple[TailCount, ...]
    """Several share the error."""
    independent: bool = False
    """Whether these are canaries that were declared independent, each taken for a run of its own."""

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

    @functools.cached_property
    def _best(self) -> tuple[float, TailCount]:
        return best(self.claim, self.counts, self.included, self.excluded, 1.0 - self.confidence)

    @property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter."""
        return self._best[0]

    @property
    def best(self) -> TailCount:
        """The tail that certified most."""
        return self._best[1]

    @property
    def epsilon_lower(self) -> float | None:
        """Certified lower bound on epsilon at the claim's delta; None for a claim about a whole curve."""
        return self.lower_bound if isinstance(self.claim, PureDP | ApproxDP) else None

    @functools.cached_property
    def reach(self) -> float:
        """The largest bound that so many runs could have shown: that of scores which tell all of them apart."""
        right = []
        for one in self.counts:
            likely = self.included if one.above else self.excluded
            right.append(TailCount(one.above, one.rare if one.by_rank else 0, likely, 0.0, one.by_rank))
        # rank 1 of either side shows most
        return best(self.claim, right, self.included, self.excluded, 1.0 - self.confidence, looks=2)[0]

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
    def spent(self) -> int:
        return self.included + self.excluded

    def _of_what(self) -> dict[str, str]:
        if self.independent:
            canaries = f"{self.included:,} in and {self.excluded:,} out, each by a fair coin"
            return {"canaries": canaries, "event": self.describe_event()}
        runs = f"{count(self.included)} with the canary, {count(self.excluded)} without"
        return {"runs": runs, "event": self.describe_event()}

    def _how(self) -> dict[str, str]:
        most = f"{self.claim.symbol} {lower(self.reach)}, were all scores told apart"
        only = f"{self.seed}, of how ties were broken: the scores were given"
        said = {"at most": most, "method": self.describe_method(), "assumes": self.assumption}
        return said if self.reproducible else said | {"seed": only}

    @property
    def assumption(self) -> str:
        """What the bound rests on besides the scores."""
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
        one, sides = self.best, [(self.included, "with"), (self.excluded, "without")]
        (likely, with_it), (rare, without) = sides if one.above else sides[::-1]
        if self.independent:
            first, second = ("in", "out") if one.above else ("out", "in")
            return f"{one.likely:,} of {likely:,} canaries {first} and {one.rare:,} of {rare:,} {second}"
        return f"{one.likely:,} of {likely:,} {with_it} the canary and {one.rare:,} of {rare:,} {without} it"

    def describe_method(self) -> str:
        if not self.best.by_rank:
            return Box.name
        return f"order statistics, the best of {len(self.counts)} ranks that share the error"


def many_runs(
    included: Floats,
    excluded: Floats,
    *,
    claim: Claim,
    confidence: float,
    threshold: float | None,
    seed: int,
    **more: Any,
) -> ManyRunsResult:
    """Certify a bound from scores of runs with the canary and without, at a threshold fixed beforehand or at ranks."""
    if not (len(included) and len(excluded)):
        raise AuditError(f"{len(included)} runs had the canary and {len(excluded)} had not; some of both are needed.")
    if threshold is None:
        counts = count_tails(included, excluded, seed)
    else:
        above = int(np.sum(excluded > threshold)), int(np.sum(included > threshold))
        counts = (TailCount(True, *above, float(threshold), by_rank=False),)
    return ManyRunsResult(
        claim=claim,
        confidence=confidence,
        included=len(included),
        excluded=len(excluded),
        counts=counts,
        seed=seed,
        provenance=provenance(),
        reproducible=False,
        **more,
    )

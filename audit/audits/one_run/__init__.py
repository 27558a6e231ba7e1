"""One-run audits: flip a coin for every canary, run once, score, guess, and count; theorems in `bounds`."""

from __future__ import annotations

import functools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.bounds import one_run as bounds
from epsaudit.bounds.one_run import METHODS, Bools, GuessBound, GuessCounts, Method, delta_of, tested
from epsaudit.claims.conversions import Floats, gaussian_accuracy
from epsaudit.claims.definitions import ApproxDP, Claim, GaussianDP, PureDP, claim_given
from epsaudit.codec import Tagged
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.results.result import Result
from epsaudit.running.provenance import provenance
from epsaudit.running.streams import entropy, stream
from epsaudit.text import lower, percent

FRACTIONS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Shares of the canaries that may be guessed, from which 'planned' and 'half' choose; half of them in, half out. Sums
of 1,000 to 100,000 canaries under four claims, with the noise claimed and with half of it, certify 89 % of the claim on
average; with other shares as much within 0.4 %, with the first four 6 % less."""
PAID_FRACTIONS = (1.0, 0.25, 0.05, 0.01)
"""Shares that 'bonferroni' tries at once: 83 % of the claim in these sums, two shares 84 %, and all eight 81 %."""
FEWEST = 8
"""Fewest guesses that are worth trying: at 95 %, eight right ones of eight show epsilon 0.79."""
SPARE = 1.25
"""Times the claim that right guesses throughout should be able to certify; 1 to 2 certify as much within 1 %."""
WORTH = 0.9
"""Share of the best predicted bound that this is worth giving up for; 0.5 to 1 certify as much within 1.1 %."""
LEAKS = tuple(np.geomspace(0.25, 8.0, 31).tolist())
"""The mu for which `ladder` plans: from what 10,000 canaries hardly show to what gives them all away. 161 of them
certify as much within 4 % of 1,000 to 100,000 canaries with shifts of 1, 2 and 4, on average as much within 0.2 %."""
Sizes = list[tuple[int, int]]
"""How many are guessed in and out, for each set of guesses."""


def extremes(included: Bools, scores: Floats, highest: int, lowest: int) -> GuessCounts:
    """Guess the ``highest`` scores in and the ``lowest`` out; ties are broken by place, which no coin may decide."""
    order = np.argsort(scores, kind="stable")
    place = np.empty(len(scores), dtype=np.intp)
    place[order] = np.arange(len(scores))
    return tally(included, place >= len(scores) - highest, place < lowest)


def tally(included: Bools, guessed_in: Bools, guessed_out: Bools) -> GuessCounts:
    """Compare guesses with who was included."""
    right = int((guessed_in & included).sum()), int((guessed_out & ~included).sum())
    return GuessCounts(len(included), int(guessed_in.sum()), int(guessed_out.sum()), *right)


class GuessRule(Tagged, ABC):
    """How many canaries are guessed in and out; a frozen dataclass, fixed before the run.

    Canaries come to `count` in a random order that no coin decided (`places`), so a rule may use places.
    """

    _what = "no rule of guessing"
    decided_by_output: ClassVar[bool] = False
    """Whether the number of guesses depends on the run's output."""
    shared: ClassVar[bool] = True
    """Whether several sets of guesses share the error; if not, each is of a parameter of its own (`certified`)."""
    words: ClassVar[str]
    """How it prints, its fields put in."""

    @abstractmethod
    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        """Guess from the scores, compare with who was included, and return one count for each set of guesses."""

    def certified(self, counts: Sequence[GuessCounts], bound: GuessBound) -> tuple[float, GuessCounts]:
        """Return the lower bound that all counts show together, and which of them it rests on."""
        share = replace(bound, confidence=1.0 - (1.0 - bound.confidence) / len(counts))
        best = max(counts, key=share.of)
        return share.of(best), best

    def __str__(self) -> str:
        return self.words.format(self)


class Beforehand(GuessRule):
    """A rule whose numbers of guesses follow from the claim and the number of canaries."""

    @abstractmethod
    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        """Return how many highest scores are guessed in and how many lowest out."""

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        return [extremes(included, scores, *size) for size in self.sizes(len(included), bound)]


@dataclass(frozen=True)
class Fixed(Beforehand):
    """The ``highest`` scores are guessed in, the ``lowest`` out; numbers given beforehand."""

    highest: int
    lowest: int
    words = "the {0.highest:,} highest scores in, the {0.lowest:,} lowest out, fixed beforehand"

    def __post_init__(self) -> None:
        whole_at_least(self.highest, 0, "number of canaries to guess in")
        whole_at_least(self.lowest, 0, "number of canaries to guess out")

    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        return [(self.highest, self.lowest)]


@dataclass(frozen=True)
class Planned(Beforehand):
    """The number predicted to certify most, were the claim exact and the scores Gaussian; nothing is looked at.

    If that refutes the claim, larger parameters are tested, each at the whole level by the number that `ladder` gives
    it beforehand, up to the first that is not rejected: a bound above the truth has rejected the truth.
    """

    shared: ClassVar[bool] = False
    words = "planned beforehand from the claim and the number of canaries"

    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        return [halved(planned_guesses(canaries, bound))]

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        counts = super().count(included, scores, bound)
        if bound.of(counts[0]) > bound.claim.parameter:
            for least, guesses in ladder(len(included), bound)[1:]:
                counts.append(extremes(included, scores, *halved(guesses)))
                if bound.of(counts[-1]) <= least:
                    break
        return counts

    def certified(self, counts: Sequence[GuessCounts], bound: GuessBound) -> tuple[float, GuessCounts]:
        shown = bound.of(counts[0])
        if len(counts) == 1:
            return shown, counts[0]
        reached = 0.0
        for (least, _), one in zip(ladder(counts[0].canaries, bound), counts, strict=False):
            if (shown := bound.of(one)) <= least:
                break
            reached = least
        return max(reached, shown), one


@dataclass(frozen=True)
class SeparateHalf(GuessRule):
    """The number that would certify most on one half of the canaries, at even places; the others are guessed.

    The output decides the number: with delta > 0 a share of the error is set aside, and a trade-off curve refuses.
    """

    decided_by_output: ClassVar[bool] = True
    words = "how many was chosen on half of the canaries, the guesses are about the others"

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        tried = [halved(number) for number in symmetric(len(included) // 2, FRACTIONS)]
        best = max(tried, key=lambda size: bound.of(extremes(included[::2], scores[::2], *size)))
        return [extremes(included[1::2], scores[1::2], *best)]


@dataclass(frozen=True)
class Bonferroni(Beforehand):
    """Several numbers of guesses, given beforehand as shares of the canaries; the error is shared among them."""

    shares: tuple[float, ...] = PAID_FRACTIONS
    words = "the best of several numbers fixed beforehand, which share the error (Bonferroni)"

    def __post_init__(self) -> None:
        if not self.shares or not all(0.0 < share <= 1.0 for share in self.shares):
            raise AuditError(f"The shares to guess are {self.shares!r}; they must be numbers in (0, 1], at least one.")

    def sizes(self, canaries: int, bound: GuessBound) -> Sizes:
        return [halved(number) for number in symmetric(canaries, self.shares)]


@dataclass(frozen=True)
class Signs(GuessRule):
    """In where the score is above 0, out where it is below, and no guess where it is 0: guesses made elsewhere."""

    decided_by_output: ClassVar[bool] = True
    words = "as given: in above 0, out below 0, none at 0"

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        return [tally(included, scores > 0.0, scores < 0.0)]


@dataclass(frozen=True)
class Threshold(GuessRule):
    """Everybody is guessed."""

    at: float = 0.0
    words = "everybody is guessed, in where the score is above {0.at:g}"

    def count(self, included: Bools, scores: Floats, bound: GuessBound) -> list[GuessCounts]:
        return [tally(included, scores > self.at, scores <= self.at)]


NAMED: dict[str, Callable[[], GuessRule]] = {
    "planned": Planned,
    "half": SeparateHalf,
    "bonferroni": Bonferroni,
    "signs": Signs,
}


def halved(guesses: int) -> tuple[int, int]:
    """Part a number of guesses into those in and those out."""
    return (guesses + 1) // 2, guesses // 2


def rule_of(guesses: str | int | tuple[int, int] | GuessRule, canaries: int) -> GuessRule:
    """Return the rule that an argument ``guesses`` names; raises `AuditError` for none, or for more than the canaries.

    >>> print(rule_of(100, 1000))
    the 50 highest scores in, the 50 lowest out, fixed beforehand
    """
    if isinstance(guesses, str) and guesses in NAMED:
        return NAMED[guesses]()
    if isinstance(guesses, GuessRule):
        rule = guesses
    elif isinstance(guesses, tuple) and len(guesses) == 2:
        rule = Fixed(*guesses)
    elif isinstance(guesses, int) and not isinstance(guesses, bool):
        rule = Fixed(*halved(guesses))
    else:
        or_else = "how many to guess in all, how many in and out as a pair, or a rule of epsaudit.audits.one_run"
        raise AuditError(f"guesses is {guesses!r}; it must be 'planned', 'half', 'bonferroni', 'signs', {or_else}.")
    if isinstance(rule, Fixed) and not 0 < rule.highest + rule.lowest <= canaries:
        raise AuditError(f"{rule.highest + rule.lowest} guesses were asked for; give 1 to {canaries}, one a canary.")
    return rule


@functools.lru_cache(maxsize=1024)
def planned_guesses(canaries: int, bound: GuessBound) -> int:
    """Return the number of guesses whose expected count of right ones certifies most, were the claim exact.

    Preferred are numbers that would refute the claim, with something to spare, if all guesses were right.
    """
    mu = bound.claim.parameter
    if not isinstance(bound.claim, GaussianDP):
        if delta_of(bound.claim) == 0.0:
            return canaries  # as randomised response would have it
        mu = float(GaussianDP(1.0).least_at(mu, delta_of(bound.claim)))

    def shown(guesses: int, accuracy: float) -> float:
        return bound.of(GuessCounts(canaries, guesses, 0, math.floor(guesses * accuracy), 0))

    numbers = symmetric(canaries, FRACTIONS)
    accuracies = gaussian_accuracy(np.array(numbers) / canaries, mu).tolist()
    merits = dict(zip(numbers, map(shown, numbers, accuracies), strict=True))
    best = max(numbers, key=merits.__getitem__)
    able = [number for number in numbers if shown(number, 1.0) > SPARE * bound.claim.parameter]
    farther = max(able, key=merits.__getitem__, default=best)
    return farther if merits[farther] >= WORTH * merits[best] else best


@functools.lru_cache(maxsize=1024)
def ladder(canaries: int, bound: GuessBound) -> list[tuple[float, int]]:
    """Return ascending parameters, and how many guesses test those up to each of them; the last tests all above.

    The first is the claim's. Those above it are what leaks of `LEAKS` show with the number of guesses that shows most.
    """

    def shown(guesses: int, accuracy: float) -> float:
        return bound.of(GuessCounts(canaries, guesses, 0, math.floor(guesses * accuracy), 0))

    numbers = symmetric(canaries, FRACTIONS)
    steps = [(bound.claim.parameter, planned_guesses(canaries, bound))]
    for mu in LEAKS:
        accuracies = gaussian_accuracy(np.array(numbers) / canaries, mu).tolist()
        most, guesses = max((shown(n, accuracy), n) for n, accuracy in zip(numbers, accuracies, strict=True))
        if most > steps[-1][0]:
            steps.append((most, guesses))
    return steps


def symmetric(canaries: int, shares: Sequence[float]) -> list[int]:
    """Numbers of guesses at these shares of the canaries, without those too few to show anything."""
    numbers = [round(canaries * share) for share in shares]
    return [number for number in numbers if number >= FEWEST] or [canaries]


Guesses = str | int | tuple[int, int] | GuessRule
StepCallback = Callable[[int, int], None]
"""Told (steps done, steps in all) while the one run goes on."""
COINS, RUN, PLACES = range(3)
"""Which of the streams of 'one run' the coins, the run, and `places` draw from."""


@runtime_checkable
class CanaryMechanism(Protocol):
    """A mechanism that can be run on any subset of its canaries, and scores all of them from what it released."""

    @property
    def name(self) -> str: ...

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
    their scores. The bound exceeds the true parameter with probability at most 1 - confidence, whatever the scores are.

    Parameters
    ----------
    mechanism : CanaryMechanism or callable
        A mechanism with canaries, or a function ``(included, rng) -> scores``; ``included`` is a bool array, shape
        (m,), scores are m numbers, high where a canary seems in. Scores must come from the mechanism's output alone.
    canaries : int, optional
        m; needed for a function only.
    claim, epsilon, delta
        As for `epsaudit.audit`, of pure, approximate or Gaussian DP. Neighbours differ by one canary added or removed.
    guesses : 'planned', 'half', 'bonferroni', 'signs', int, pair of int, or GuessRule
        How many canaries to guess: planned from claim and m alone; chosen on half of the canaries, and then about the
        other half; the best of several numbers, paid for; by the sign of the score; or so many, or so many in and out.
    method : 'auto', 'sharp', 'binomial' or 'trade-off'
        As `epsaudit.bounds.one_run.METHODS` says. 'auto' takes the last for Gaussian DP, else the first.
    confidence, seed
        As for `epsaudit.audit`.
    progress : callable, optional
        Called with (steps done, steps in all) by a mechanism that reports them.

    Raises `AuditError` before the run if an argument is out of range, after it if the scores are not m numbers.

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
    terms = terms_of(claim, guesses, method, confidence, canaries)
    provenance()  # asks git: before the run
    seed = entropy(seed)
    included = stream(seed, "one run", COINS).random(canaries) < 0.5
    # a copy: what the mechanism does to its argument is its own business
    scores = run(included.copy(), stream(seed, "one run", RUN))
    reproducible = bool(getattr(mechanism, "reproducible", _has_canaries(mechanism)))
    result = result_of(name, included, scores, seed, terms, reproducible=reproducible)
    return replace(result, seconds=time.perf_counter() - started)


def places(canaries: int, seed: int) -> NDArray[np.intp]:
    """Return the order in which rules see the canaries: a random permutation that the seed alone decides.

    Rules break ties, and halve, by place, which would tell the coin where rows are laid out by coin.
    """
    return stream(seed, "one run", PLACES).permutation(canaries)


def _has_canaries(mechanism: Any) -> TypeGuard[CanaryMechanism]:  # unlike isinstance, asks for no claim
    return callable(getattr(mechanism, "scores", None))


def terms_of(claim: Claim | None, guesses: Guesses, method: str, confidence: float, canaries: int) -> dict[str, Any]:
    """Check everything before the run, so that nothing is trained in vain; return fields of the result."""
    confidence, rule = confidence_of(confidence), rule_of(guesses, canaries)
    if method == "auto":
        method = "trade-off" if isinstance(claim, GaussianDP) else "sharp"
    elif method not in METHODS:
        raise AuditError(f"method is {method!r}; it must be 'auto', {', '.join(map(repr, METHODS))}.")
    decided = rule.decided_by_output
    asked = tested(claim, canaries, confidence) if isinstance(claim, Claim) else claim
    GuessBound(asked, method, confidence, decided)  # type: ignore[arg-type]  # it refuses what is no claim
    return {"claim": claim, "rule": rule, "method": method, "confidence": confidence}


def numbers(scores: Any, canaries: int) -> NDArray[Any]:
    """Return scores as an array; raises `AuditError` unless there is a number for each canary."""
    values = np.asarray(scores)
    if values.shape != (canaries,) or values.dtype.kind not in "fiub":
        given = f"The scores have shape {values.shape} and dtype {values.dtype}"
        raise AuditError(f"{given}; they must be {canaries} numbers, one for each canary.")
    if np.any(np.isnan(values)):
        raise AuditError(f"{int(np.isnan(values).sum())} scores are NaN; a score must say how much a canary seems in.")
    return values


def result_of(name: str, included: Bools, scores: Any, seed: int, terms: dict[str, Any], **more: Any) -> OneRunResult:
    """Check the scores, put the canaries in `places`, guess, and keep the counts."""
    canaries = len(included)
    values = numbers(scores, canaries)
    order, rule = places(canaries, seed), terms["rule"]
    claim = tested(terms["claim"], canaries, terms["confidence"])
    bound = GuessBound(claim, terms["method"], terms["confidence"], rule.decided_by_output)
    counts = tuple(rule.count(included[order], values[order], bound))
    more |= {"seed": seed, "provenance": provenance(), **terms}
    return OneRunResult(mechanism=name, canaries=canaries, counts=counts, **more)


@dataclass(frozen=True, kw_only=True, repr=False)
class OneRunResult(Result):
    """A lower bound from guesses about the canaries of one run; see also `epsaudit.results.result.Result`.

    There is no pair. The seed is that of the order of the canaries only, where the coins and scores were given.
    """

    canaries: int
    rule: GuessRule
    """How the number of guesses was decided."""
    method: Method
    """How counts become a bound: 'sharp', 'binomial' or 'trade-off'."""
    counts: tuple[GuessCounts, ...]
    """What the guesses came to; several sets share the error probability equally."""
    given: bool = False
    """Whether the coins and scores came from a run made elsewhere, by `epsaudit.audit_scores`."""

    _kind = "one-run"
    _written = (
        *("mechanism", "claim", "canaries", "rule", "method", "counts", "confidence", "lower_bound", "delta_lower"),
        *("proven", "verdict", "seed", "given", "reproducible", "provenance"),
    )
    _when = ", from one run"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), **({"notes": list(self.notes)} if self.notes else {})}

    @functools.cached_property
    def _certified(self) -> tuple[float, GuessCounts]:
        return self.rule.certified(self.counts, self._bound(self.tested, self.confidence))

    @functools.cached_property
    def tested(self) -> Claim:
        """What the guesses test: the claim, or the (epsilon, delta)-DP that a claim without a theorem implies."""
        return tested(self.claim, self.canaries, self.confidence)

    def _of_claim(self, bound: float) -> float:
        """The claim's least parameter where what is tested has no less than this; 0, which rejects nothing, stays 0."""
        if self.tested == self.claim or bound == 0.0:
            return bound
        return float(self.claim.least_at(bound, delta_of(self.tested)))

    @property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter."""
        return self._of_claim(self._certified[0])

    @property
    def best(self) -> GuessCounts:
        """The set of guesses that certified most."""
        return self._certified[1]

    @property
    def delta_lower(self) -> float | None:
        """Certified lower bound on delta at the claim's epsilon; None for a claim about a whole curve."""
        if (point := self.claim.claimed_point) is None:
            return None
        return max(self._bound(self.claim).delta(counts, point[0]) for counts in self._sharing)

    @property
    def epsilon_lower(self) -> float | None:
        """Certified lower bound on epsilon at the claim's delta; None for a claim about a whole curve."""
        return None if self.claim.claimed_point is None else self.lower_bound

    def epsilon_at(self, delta: float) -> float:
        """Certified lower bound on epsilon at ``delta``; raises `AuditError` if the claim is about a whole curve."""
        if self.claim.claimed_point is None:
            why = "that a mechanism does not satisfy it bounds its epsilon at no single delta"
            advice = "Audit the claim claim.approximate(delta) to have a bound."
            raise AuditError(f"{self.claim} is about a whole curve: {why}. {advice}")
        bound = self._bound(ApproxDP(self.proven, delta) if delta > 0.0 else PureDP(self.proven))
        return max(map(bound.of, self._sharing))

    def by(self, method: Method) -> OneRunResult:
        """The same counts, turned into bounds by another method; raises `AuditError` if that has no theorem about them.

        For comparison: the best of several methods' bounds does not hold at the confidence of each.
        """
        GuessBound(self.tested, method, self.confidence, self.rule.decided_by_output)
        return replace(self, method=method)

    @property
    def _sharing(self) -> tuple[GuessCounts, ...]:
        """The sets of guesses that are about one parameter, and share the error."""
        return self.counts if self.rule.shared else self.counts[:1]

    @property
    def shared_confidence(self) -> float:
        return 1.0 - (1.0 - self.confidence) / len(self._sharing)

    @property
    def reach(self) -> float:
        """The largest bound that so many canaries and this rule could have shown: what right guesses certify."""
        bound = self._bound(self.tested, self.confidence)
        if isinstance(self.rule, Planned):
            sizes = [guesses for _, guesses in ladder(self.canaries, bound)]
            right = [GuessCounts(self.canaries, guesses, 0, guesses, 0) for guesses in sizes]
        else:
            right = [replace(one, correct_in=one.guessed_in, correct_out=one.guessed_out) for one in self.counts]
        return self._of_claim(self.rule.certified(right, bound)[0])

    @property
    def spent(self) -> int:
        return 1

    @property
    def limits(self) -> str | None:
        """A sentence if not even right guesses throughout could have refuted the claim; else None."""
        all_right = [replace(one, correct_in=one.guessed_in, correct_out=one.guessed_out) for one in self._sharing]
        most = self._of_claim(max(map(self._bound(self.tested).of, all_right)))
        if most > self.proven:
            return None
        return (
            f"This audit could not have refuted the claim: {self.best.guesses:,} guesses, all of them right, show at "
            f"most {self.claim.symbol} {lower(most)}; more canaries, or more guesses, would be needed."
        )

    def _of_what(self) -> dict[str, str]:
        return {"canaries": f"{self.canaries:,}, each in by a fair coin", "guesses": self.describe_event()}

    def _how(self) -> dict[str, str]:
        method = self.describe_method()
        if self.tested != self.claim:
            method += f"; of {self.tested}, which the claim implies"
        if len(self._sharing) > 1:
            method += f"; the best of {len(self.counts)} sets of guesses, each at {percent(self.shared_confidence)}"
        elif self.rule.decided_by_output and delta_of(self.tested) > 0.0:
            method += f"; {bounds.LEAK_SHARE:.0%} of the error set aside for delta"
        only = f"{self.seed}, of the order of the canaries only: the coins and scores were given"
        assumed = "fair coins, independent of each other; nothing of how canaries influence each other"
        return {"method": method, "assumes": assumed, **({"seed": only} if self.given else {})}

    def describe_event(self) -> str:
        return str(self.rule)

    def describe_counts(self) -> str:
        return str(self.best)

    def describe_method(self) -> str:
        return bounds.METHODS[self.method]

    def _bound(self, claim: Claim, confidence: float | None = None) -> GuessBound:
        return GuessBound(claim, self.method, confidence or self.shared_confidence, self.rule.decided_by_output)

"""Drift of a claim: stored counts of the same events compared between two versions of a mechanism.

From two lists of results it makes a comparison of every two that can be compared, and a sentence about every one that
cannot. `recount` makes comparable results: it counts the old events on today's code.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsaudit.certificates import Box
from epsaudit.determinism import with_known_randomness
from epsaudit.engine.workers import Workers
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanism import Mechanism
from epsaudit.neighbours import DatasetPair
from epsaudit.provenance import execution, provenance
from epsaudit.reporting.numbers import lower
from epsaudit.results import AuditResult, Result
from epsaudit.sampling import certification_counts


@dataclass(frozen=True)
class Comparison:
    """One mechanism before and after.

    Attributes
    ----------
    old, new : AuditResult
        Same mechanism, claim, pair, witness and certificate.
    p_value : float
        Exact: if nothing has changed, it is at most t with probability at most t.
    level : float
        The p-value at or below which the bound is said to have moved.
    """

    old: AuditResult
    new: AuditResult
    p_value: float
    level: float

    @property
    def moved(self) -> bool:
        """Whether the counts changed beyond chance."""
        return self.p_value <= self.level

    def __str__(self) -> str:
        symbol = self.old.claim.symbol
        what = "moved" if self.moved else "no change beyond chance"
        if self.old.seed == self.new.seed:
            what += " (one seed for both: the samples are not independent, recount with another)"
        return (
            f"{self.old.mechanism}, {self.old.claim}: {symbol} >= {lower(self.old.lower_bound)} before, "
            f"{symbol} >= {lower(self.new.lower_bound)} now, p = {self.p_value:.3g}: {what}"
        )


@dataclass(frozen=True)
class Drift:
    """All comparisons of two result files, and why the other results could not be compared."""

    comparisons: tuple[Comparison, ...]
    not_compared: tuple[str, ...]
    error: float

    @property
    def moved(self) -> bool:
        """Whether any bound moved beyond chance."""
        return any(comparison.moved for comparison in self.comparisons)

    def __str__(self) -> str:
        count = len(self.comparisons)
        test = (
            f"{sum(c.moved for c in self.comparisons)} of {count} moved. Fisher's exact test on the counts of the same "
            f"event, two-sided, each at {self.error:g} / {count} (Bonferroni): if nothing has changed, any is said to "
            f"have moved with probability at most {self.error:g}."
        )
        said = [f"not compared: {reason}" for reason in self.not_compared]
        return "\n".join([*map(str, self.comparisons), *said, *([test] if count else [])])


def compare(old: Sequence[Result], new: Sequence[Result], error: float = 0.01) -> Drift:
    """Test for every mechanism whether what its certified bound is computed from changed beyond chance.

    The bound of a membership game is computed from correct and wrong guesses. Each guess is correct with one
    probability, independently, so given how many guesses there were in each version and how many were correct in all,
    the number correct in the new one is hypergeometric if nothing has changed: Fisher's exact test. How often there is
    a guess is tested likewise: an event that is not seen any more has no odds. The bound of a Clopper-Pearson box is
    computed from two proportions, too, the event's on x and on x'. The smaller of the two p-values is doubled.

    Parameters
    ----------
    old, new : sequence of Result
        Results of audits of fixed size are compared if mechanism, claim, pair, witness and certificate are the same;
        where several are, the first of the old ones with the first of the new ones, and so on. Of others there is a
        sentence with both bounds: a sequential audit's events and length depend on what was seen, and guesses about
        canaries of one run are not independent, so that their counts have no exact test.
    error : float
        Probability of saying that anything moved if nothing did, divided over the comparisons.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, audit, vectorized
    >>> def noisy(scale):
    ...     return vectorized(lambda data, size, rng: data + rng.laplace(scale=scale, size=size), name="noisy",
    ...                       claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
    >>> before = audit(noisy(1.0), trials=10_000, seed=1)
    >>> compare([before], [recount(before, noisy(1.0), seed=2)]).moved
    False
    >>> compare([before], [recount(before, noisy(0.8), seed=2)]).moved
    True
    """
    error = fraction(error, "error probability", open_below=True)
    reasons = _other_kinds(old, new)
    before, now = ([result for result in results if isinstance(result, AuditResult)] for results in (old, new))
    waiting: dict[tuple[str, ...], list[AuditResult]] = {}
    for result in now:
        waiting.setdefault(_key(result), []).append(result)
    pairs, alone = [], []
    for result in before:
        alike = waiting.get(_key(result))
        if alike:
            pairs.append((result, alike.pop(0)))
        else:
            alone.append((result, alike))
    left = [result for alike in waiting.values() for result in alike]
    for result, alike in alone:
        instead = _counterpart(result, left)
        left = [other for other in left if other is not instead]
        reasons.append(f"{result.mechanism}, {result.claim}: {_why_not(result, instead, fewer=alike is not None)}")
    reasons += [f"{result.mechanism}, {result.claim}: only in the new results" for result in left]
    level = error / max(len(pairs), 1)
    return Drift(tuple(Comparison(a, b, p_value(a, b), level) for a, b in pairs), tuple(reasons), error)


def p_value(old: AuditResult, new: AuditResult) -> float:
    """Two-sided exact p-value of the hypothesis that the counts of both results have one law; see `compare`."""
    pairs = zip(_proportions(old), _proportions(new), strict=True)
    tables = [np.array([before, after]) for before, after in pairs]
    from scipy.stats import fisher_exact  # slow to import

    return min(1.0, len(tables) * min(float(fisher_exact(table).pvalue) for table in tables))


def _proportions(result: AuditResult) -> list[tuple[int, int]]:
    """The (yes, no) counts that the bound is computed from."""
    counts, certificate = result.counts, result.certificate
    if isinstance(certificate, Box):
        on_x, on_x_prime = (
            (counts.guess_x_on_x, counts.guess_x_on_x_prime)
            if certificate.event == "x"
            else (counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime)
        )
        sides = ((on_x, counts.runs_x), (on_x_prime, counts.runs_x_prime))
        return [(int(seen), int(runs) - int(seen)) for seen, runs in sides]
    correct, wrong = int(counts.correct), int(counts.wrong)
    return [(correct, wrong), (correct + wrong, int(counts.runs) - correct - wrong)]


def recount(
    old: AuditResult,
    mechanism: Mechanism,
    pair: DatasetPair | None = None,
    *,
    seed: int,
    trials: int | None = None,
    n_jobs: int | None = None,
) -> AuditResult:
    """Count an old result's events on today's mechanism, so that the two can be compared.

    An audit of changed code would learn a different event, whose counts tell nothing about the old one's.

    Parameters
    ----------
    old : AuditResult
        Its witness, certificate, claim and confidence are used again.
    mechanism : Mechanism
        Today's code.
    pair : DatasetPair, optional
        The pair the old result is about; by default the mechanism's own of that name.
    seed : int
        A seed that the old audit did not use: the same stream would not be an independent sample.
    trials : int, optional
        Certification runs; by default as many as the old result's.

    Raises
    ------
    AuditError
        If the mechanism has no pair of that name, or if the seed is the old one's.
    """
    if seed == old.seed:
        raise AuditError(f"Seed {seed} is that of the old audit; give another, so that the samples are independent.")
    pair = pair if pair is not None else next((p for p in mechanism.worst_pairs() if str(p) == old.pair), None)
    if pair is None:
        raise AuditError(f"{mechanism.name} has no pair {old.pair!r} any more; give the pair that was audited.")
    runs = old.runs if trials is None else trials
    mechanism = with_known_randomness(mechanism, pair, seed)
    counts = certification_counts(
        (mechanism(pair.x), mechanism(pair.x_prime)),
        old.witness,
        runs,
        seed,
        workers=Workers.suited_to(mechanism, n_jobs),
    )
    return dataclasses.replace(
        old,
        trials=runs,
        training_runs=0,
        counts=counts,
        exact=None,
        seed=seed,
        reproducible=bool(getattr(mechanism, "reproducible", True)),
        provenance=provenance(),
        seconds=math.nan,
        execution=execution(0.0),
    )


def _key(result: AuditResult) -> tuple[str, ...]:
    return (
        result.mechanism,
        repr(result.claim),
        result.pair,
        repr(result.witness.to_dict()),
        repr(result.certificate.to_dict()),
    )


def _other_kinds(old: Sequence[Result], new: Sequence[Result]) -> list[str]:
    """Say of each result that is not of an audit of fixed size what was and is certified."""
    left = [result for result in new if not isinstance(result, AuditResult)]
    said = []
    for before in old:
        if isinstance(before, AuditResult):
            continue
        alike = (
            one
            for one in left
            if (type(one), one.mechanism, one.claim) == (type(before), before.mechanism, before.claim)
        )
        now = next(alike, None)
        symbol, name = before.claim.symbol, f"{before.mechanism}, {before.claim}"
        if now is None:
            said.append(f"{name}: not in the new results")
            continue
        left.remove(now)
        bounds = f"{symbol} >= {lower(before.lower_bound)} before, {symbol} >= {lower(now.lower_bound)} now"
        said.append(f"{name}: {bounds}; counts of a {type(before).__name__} have no exact test")
    return [*said, *(f"{result.mechanism}, {result.claim}: only in the new results" for result in left)]


def _counterpart(old: AuditResult, left: Sequence[AuditResult]) -> AuditResult | None:
    """Return which of the results that are left is about the same mechanism, and if possible the same claim."""
    candidates = [other for other in left if other.mechanism == old.mechanism]
    return next((other for other in candidates if other.claim == old.claim), candidates[0] if candidates else None)


def _why_not(old: AuditResult, new: AuditResult | None, *, fewer: bool) -> str:
    """Say why a result was not compared with its counterpart, or has none; ``fewer`` if others like it were."""
    if new is None:
        return "there are fewer such results now" if fewer else "not in the new results"
    if new.claim != old.claim:
        return f"claimed as {new.claim} now"
    if new.pair != old.pair:
        return f"audited on {new.pair} now, on {old.pair} before"
    if str(new.witness) != str(old.witness) or new.witness.to_dict() != old.witness.to_dict():
        return (
            f"another event now, {new.witness}, not {old.witness}; 'epsaudit recount' counts the old event on the new "
            "code"
        )
    return f"another certificate now, {new.certificate}, not {old.certificate}"

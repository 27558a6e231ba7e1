"""The result of an audit of one run: counts of guesses, and the bounds that follow from them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from epsaudit.audits.one_run.planning import ladder
from epsaudit.audits.one_run.rules import GuessRule, Planned
from epsaudit.bounds.one_run import (
    DELTA_ERROR_SHARE,
    METHODS,
    GuessBound,
    GuessSet,
    Method,
    claimed_delta,
    tested_claim,
)
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.errors import AuditError
from epsaudit.results.result import Result
from epsaudit.text import lower, percent


@dataclass(frozen=True, kw_only=True, repr=False)
class OneRunResult(Result):
    """A lower bound from guesses about which canaries were in the dataset of a single run; see also `Result`.

    The result has no pair of datasets. If the user gave coins and scores, the seed determines only the random order in
    which the guess rule received the canaries.
    """

    canaries: int
    """The number of canaries. Each canary was in the dataset with probability one half."""
    rule: GuessRule
    """The rule that decided which canaries were guessed in and out."""
    method: Method
    """The method that turns counts into a bound: 'sharp', 'binomial' or 'trade-off'."""
    counts: tuple[GuessSet, ...]
    """All sets of guesses, with their counts."""
    given: bool = False
    """Whether the user gave the coins and scores, from a run made elsewhere, to `epsaudit.audit_scores`."""

    _kind = "one-run"
    _written: ClassVar[tuple[str, ...]] = (
        *("mechanism", "claim", "canaries", "rule", "method", "counts", "confidence", "lower_bound", "delta_lower"),
        *("proven", "verdict", "seed", "given", "reproducible", "provenance"),
    )
    _when = ", from one run"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), **({"notes": list(self.notes)} if self.notes else {})}

    @functools.cached_property
    def _certified(self) -> tuple[float, GuessSet]:
        """The lower bound on the parameter of the claim `tested`, and the set of guesses that gives this bound."""
        return self.rule.certified(self.counts, self._bound(self.tested, self.confidence))

    @functools.cached_property
    def tested(self) -> Claim:
        """The claim that the guesses test.

        It is the claim of the result if there is a theorem for claims of its kind. Otherwise it is an (epsilon,
        delta)-DP that the claim of the result implies.
        """
        return tested_claim(self.claim, self.canaries, self.confidence)

    def _of_claim(self, bound: float) -> float:
        """Convert a lower bound on the parameter of `tested` to a lower bound on the parameter of the result's claim.

        A bound of 0 rejects nothing and stays 0.
        """
        if self.tested == self.claim or bound == 0.0:
            return bound
        return float(self.claim.least_at(bound, claimed_delta(self.tested)))

    @property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter."""
        return self._of_claim(self._certified[0])

    @property
    def best(self) -> GuessSet:
        """The set of guesses, with its counts, that gives the lower bound."""
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
        """Return a certified lower bound on epsilon at ``delta``.

        Raises `AuditError` if the claim is about a whole curve: refuting a curve bounds epsilon at no single delta.
        """
        if self.claim.claimed_point is None:
            why = "that a mechanism does not satisfy it bounds its epsilon at no single delta"
            advice = "Audit the claim claim.approximate(delta) to have a bound."
            raise AuditError(f"{self.claim} is about a whole curve: {why}. {advice}")
        bound = self._bound(ApproxDP(self.proven, delta) if delta > 0.0 else PureDP(self.proven))
        return max(map(bound.of, self._sharing))

    def by(self, method: Method) -> OneRunResult:
        """Return a copy of this result whose bounds are computed by another method, to compare the methods.

        The largest of the bounds of several methods does not hold at the stated confidence. Raises `AuditError` if the
        method has no theorem about the claim or the rule.
        """
        GuessBound(self.tested, method, self.confidence, self.rule.decided_by_output)
        return replace(self, method=method)

    @property
    def _sharing(self) -> tuple[GuessSet, ...]:
        """The sets of guesses that test the same parameter and so share the error probability.

        These are all sets, except if each set tests a parameter of its own, as under the rule `Planned`. Then it is the
        first set alone.
        """
        return self.counts if self.rule.shared else self.counts[:1]

    @property
    def shared_confidence(self) -> float:
        """The confidence of the bound from a single set of guesses, such that all bounds hold together at `confidence`.

        If n sets share the error probability, the bound of each set has an n-th of it.
        """
        return 1.0 - (1.0 - self.confidence) / len(self._sharing)

    @functools.cached_property
    def reach(self) -> float:
        """The largest lower bound that an audit with this rule and this number of canaries can certify.

        It is the bound that follows if all guesses are correct.
        """
        bound = self._bound(self.tested, self.confidence)
        if isinstance(self.rule, Planned):
            sizes = [guesses for _, guesses in ladder(self.canaries, bound)]
            right = [GuessSet.of(self.canaries, guesses, 0, guesses, 0) for guesses in sizes]
        else:
            right = [one.all_correct() for one in self.counts]
        return self._of_claim(self.rule.certified(right, bound)[0])

    @property
    def total_runs(self) -> int:
        return 1

    @property
    def limits(self) -> str | None:
        """A sentence that says that the audit could not have refuted the claim, even if every guess had been correct.

        It is None if the audit could have refuted the claim.
        """
        if self.reach > self.proven:
            return None
        return (
            f"This audit could not have refuted the claim: {self.best.guesses:,} guesses, all of them right, show at "
            f"most {self.claim.symbol} {lower(self.reach)}; more canaries, or more guesses, would be needed."
        )

    def _setting_lines(self) -> dict[str, str]:
        return {"canaries": f"{self.canaries:,}, each in by a fair coin", "guesses": self.describe_event()}

    def _method_lines(self) -> dict[str, str]:
        method = self.describe_method()
        if self.tested != self.claim:
            method += f"; of {self.tested}, which the claim implies"
        if len(self._sharing) > 1:
            method += f"; the best of {len(self.counts)} sets of guesses, each at {percent(self.shared_confidence)}"
        elif self.rule.decided_by_output and claimed_delta(self.tested) > 0.0:
            method += f"; {DELTA_ERROR_SHARE:.0%} of the error set aside for delta"
        only = f"{self.seed}, which decides only the order of the canaries: the coins and scores were given"
        assumed = "fair coins, independent of each other; canaries may influence each other"
        return {"method": method, "assumes": assumed, **({"seed": only} if self.given else {})}

    def describe_event(self) -> str:
        return str(self.rule)

    def describe_counts(self) -> str:
        return str(self.best)

    def describe_method(self) -> str:
        return METHODS[self.method]

    def _bound(self, claim: Claim, confidence: float | None = None) -> GuessBound:
        return GuessBound(claim, self.method, confidence or self.shared_confidence, self.rule.decided_by_output)

"""The result of a one-run audit: a record of guesses and correct ones, from which its bound is recomputed."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epsaudit.arguments import check_method
from epsaudit.audits.one_run.bounds import LEAK_SHARE, METHODS, GuessBound, GuessCounts, Method, delta_of
from epsaudit.audits.one_run.guesses import GuessRule, rule_from_dict
from epsaudit.claims import definitions as claims
from epsaudit.claims.definitions import Claim, GaussianDP
from epsaudit.errors import AuditError, needs
from epsaudit.results.result import Result
from epsaudit.text import lower, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GIVEN = ", of the order of the canaries only: the coins and scores were given"


@dataclass(frozen=True, kw_only=True, repr=False)
class OneRunResult(Result):
    """A lower bound from guesses about the canaries of one run; see also `epsaudit.results.result.Result`.

    There is no pair, and no exact value. The seed is that of the order of the canaries only, where the coins and scores
    were given.

    Attributes
    ----------
    canaries : int
        How many flipped a coin.
    rule : GuessRule
        How the number of guesses was decided.
    method : 'sharp', 'binomial' or 'trade-off'
        How counts become a bound.
    counts : tuple of GuessCounts
        What the guesses came to; several sets share the error probability equally.
    given : bool
        Whether the coins and scores came from a run made elsewhere, by `epsaudit.audit_scores`.
    """

    canaries: int
    rule: GuessRule
    method: Method
    counts: tuple[GuessCounts, ...]
    given: bool = False

    _kind = "one-run"
    _written = (
        *("mechanism", "claim", "canaries", "rule", "method", "counts", "confidence", "lower_bound", "delta_lower"),
        *("proven", "verdict", "seed", "given", "reproducible", "provenance"),
    )
    _when = ", from one run"

    @functools.cached_property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter: epsilon or mu."""
        return max(self._bounds)

    @functools.cached_property
    def best(self) -> GuessCounts:
        """The set of guesses that certified most."""
        return self.counts[max(range(len(self.counts)), key=self._bounds.__getitem__)]

    @functools.cached_property
    def delta_lower(self) -> float | None:
        """Certified lower bound on delta at the claim's epsilon; None for a claim about a whole curve."""
        point = self.claim.claimed_point
        if point is None:
            return None
        bound, decided = GuessBound(self.claim, self.method, self.shared_confidence), self.rule.decided_by_output
        return max(bound.delta(counts, point[0], decided_by_output=decided) for counts in self.counts)

    @property
    def epsilon_lower(self) -> float | None:
        """Certified lower bound on epsilon at the claim's delta; None for a claim about a whole curve."""
        return None if isinstance(self.claim, GaussianDP) else self.epsilon_at(delta_of(self.claim))

    def epsilon_at(self, delta: float) -> float:
        """Certified lower bound on epsilon at ``delta``; raises `AuditError` if the claim is Gaussian DP."""
        if isinstance(self.claim, GaussianDP):
            raise AuditError(
                f"{self.claim} is about a whole curve: that a mechanism is not mu-GDP bounds its epsilon at no single "
                "delta. implied_epsilon(delta) says what the certified mu would imply; audit the claim "
                "claim.approximate(delta) to have a bound."
            )
        claim = claims.ApproxDP(self.claim.parameter, delta) if delta > 0.0 else claims.PureDP(self.claim.parameter)
        return max(self._bound(claim, counts) for counts in self.counts)

    def implied_epsilon(self, delta: float) -> float:
        """Epsilon at ``delta`` of the Gaussian curve with the certified mu; of a claim of Gaussian DP only.

        A bound on the mechanism's own epsilon only if its privacy profile is Gaussian: the certified mu says that the
        profile is above that curve somewhere, not that it is at this delta. Randomised response is 1-DP, and so (1,
        1e-5)-DP, yet the mu that it breaks implies more:

        >>> import numpy as np
        >>> from epsaudit import audit_one_run
        >>> def response(included, rng):
        ...     return np.where(rng.random(len(included)) < 0.731, included, ~included)
        >>> result = audit_one_run(response, 20_000, claim=GaussianDP(0.2), guesses=20_000, seed=0)
        >>> result.violates_claim, result.implied_epsilon(1e-5) > 1.0
        (True, True)
        """
        if not isinstance(self.claim, GaussianDP):
            raise AuditError(f"{self.claim} is no claim of Gaussian DP; epsilon_at(delta) is a bound.")
        return GaussianDP(self.lower_bound).approximate(delta).epsilon

    def by(self, method: Method) -> OneRunResult:
        """The same counts, turned into bounds by another method; raises `AuditError` if that has no theorem about them.

        For comparison: the best of several methods' bounds does not hold at the confidence of each.
        """
        check_method(self.claim, method, decided_by_output=self.rule.decided_by_output)
        return dataclasses.replace(self, method=method)

    @property
    def shared_confidence(self) -> float:
        """Confidence of each set of guesses on its own."""
        return 1.0 - (1.0 - self.confidence) / len(self.counts)

    @property
    def spent(self) -> int:
        return 1

    @functools.cached_property
    def limits(self) -> str | None:
        """A sentence if not even right guesses throughout could have refuted the claim; else None."""
        most = max(self._bound(self.claim, counts.all_right()) for counts in self.counts)
        if most > self.proven:
            return None
        return (
            f"This audit could not have refuted the claim: {self.best.guesses:,} guesses, all of them right, show at "
            f"most {self.claim.symbol} {lower(most)}; more canaries, or more guesses, would be needed."
        )

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("canaries", f"{self.canaries:,}, each in by a fair coin"),
            ("guesses", self.describe_event()),
            ("counts", self.describe_counts()),
            self._line_of_parameter(),
            ("method", self.describe_method() + self._spent()),
            ("seed", f"{self.seed}{GIVEN}") if self.given else self._line_of_seed(),
        ]

    def describe_event(self) -> str:
        return str(self.rule)

    def describe_counts(self) -> str:
        return str(self.best)

    def describe_method(self) -> str:
        return METHODS[self.method]

    def plot(self) -> Figure:
        """Draw the bound beside the claim."""
        with needs("report"):
            from epsaudit.reporting.figures import certified_against_proven

        return certified_against_proven([self], self.confidence)

    def _spent(self) -> str:
        if len(self.counts) > 1:
            return f"; the best of {len(self.counts)} sets of guesses, each at {percent(self.shared_confidence)}"
        if self.rule.decided_by_output and delta_of(self.claim) > 0.0:
            return f"; {LEAK_SHARE:.0%} of the error set aside for delta"
        return ""

    @functools.cached_property
    def _bounds(self) -> list[float]:
        return [self._bound(self.claim, counts) for counts in self.counts]

    def _bound(self, claim: Claim, counts: GuessCounts) -> float:
        decided = self.rule.decided_by_output
        return GuessBound(claim, self.method, self.shared_confidence).of(counts, decided_by_output=decided)

    @classmethod
    def _read(cls, data: dict[str, Any]) -> dict[str, Any]:
        return {
            **super()._read(data),
            "canaries": int(data["canaries"]),
            "rule": rule_from_dict({key: value for key, value in data["rule"].items() if key != "text"}),
            "method": data["method"],
            "counts": tuple(GuessCounts(**counts) for counts in data["counts"]),
            "given": data["given"],
        }

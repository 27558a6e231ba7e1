"""The result of an audit of a release with a holdout: guesses about pairs, and a bound for the claim's relation."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

from epsaudit.audits.holdout.substitution import FACTORS, ClaimedAdjacency, add_remove_bound, under_substitution
from epsaudit.audits.one_run.result import OneRunResult
from epsaudit.bounds.one_run import GuessSet, claimed_delta, tested_claim
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.errors import AuditError
from epsaudit.text import lower, percent

MAX_PAIRS_NEEDED = 10**9
"""[chosen] Largest number of pairs that is named as sufficient to refute a claim."""


@dataclass(frozen=True, kw_only=True, repr=False)
class HoldoutResult(OneRunResult):
    """A lower bound from guesses about which record of each pair was in the train part.

    ``canaries`` is the number of pairs about which guesses could be made. These are the pairs that were not opened,
    that is, not used to learn the attack. See also `epsaudit.OneRunResult`.
    """

    opened: int
    """The number of pairs whose coins taught the attack."""
    train: int
    """The number of train records."""
    holdout: int
    """The number of holdout records."""
    attack: str
    """The attack as text."""
    adjacency: ClaimedAdjacency = "substitution"
    """The neighbouring relation of the claim."""
    claimed: bool = True
    """Whether there is a claim. Without one, the claim of the result is 0-DP and stands for the definition only."""

    _kind = "holdout"
    _written = (*OneRunResult._written, "opened", "train", "holdout", "attack", "adjacency", "claimed")

    @property
    def pairs(self) -> int:
        """The number of pairs about which guesses could be made."""
        return self.canaries

    @functools.cached_property
    def substitution_claim(self) -> Claim:
        """The claim about the substitution of a record that the claim of this result implies."""
        return under_substitution(self.claim, self.adjacency)

    @functools.cached_property
    def tested(self) -> Claim:
        return tested_claim(self.substitution_claim, self.canaries, self.confidence)

    @property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter, for the neighbouring relation of the claim."""
        if self.adjacency == "add-remove" and isinstance(self.claim, ApproxDP):
            return add_remove_bound(self.claim, self.best, self._bound(self.tested))
        return self._of_claim(self._certified[0])

    def _of_claim(self, bound: float) -> float:
        if self.tested != self.substitution_claim and bound > 0.0:
            bound = float(self.substitution_claim.least_at(bound, claimed_delta(self.tested)))
        return bound if self.adjacency == "substitution" else bound / FACTORS[type(self.claim)]

    @property
    def delta_lower(self) -> float | None:
        """Certified lower bound on delta at the claim's epsilon; None for a claim about a whole curve."""
        if (point := self.substitution_claim.claimed_point) is None:
            return None
        bound = self._bound(self.substitution_claim)
        found = max(bound.delta(counts, point[0]) for counts in self._sharing)
        return found if self.adjacency == "substitution" else found / (1.0 + math.exp(self.proven))

    def epsilon_at(self, delta: float) -> float:
        """Return a certified lower bound on epsilon at ``delta``, for the neighbouring relation of the claim.

        Raises `AuditError` if the claim is about a whole curve.
        """
        if self.adjacency == "substitution" or self.claim.claimed_point is None:
            return super().epsilon_at(delta)
        claim = ApproxDP(self.proven, delta) if delta > 0.0 else PureDP(self.proven)
        return max(add_remove_bound(claim, counts, self._bound(self.tested)) for counts in self._sharing)

    @property
    def violates_claim(self) -> bool:
        """Whether there is a claim and the certified lower bound is above it."""
        return self.claimed and super().violates_claim

    @functools.cached_property
    def reach(self) -> float:
        """The lower bound that the audit would certify if all pairs were guessed correctly."""
        return self._reach_of(self.pairs)

    def _reach_of(self, pairs: int) -> float:
        """Return the lower bound that an audit would certify if it guessed all of ``pairs`` closed pairs correctly."""
        return replace(self, canaries=pairs, counts=(GuessSet.of(pairs, pairs, 0, pairs, 0),)).lower_bound

    @functools.cached_property
    def limits(self) -> str | None:
        """A sentence that says that the audit had too few pairs to refute the claim; None if it had enough."""
        if not self.claimed or self.reach > self.proven:
            return None
        said = (
            f"This audit could not have refuted the claim: {self.pairs:,} pairs, all of them guessed correctly, show "
            f"at most {self.claim.symbol} {lower(self.reach)}; "
        )
        needed = self._pairs_needed()
        if needed is None:
            return said + f"even {MAX_PAIRS_NEEDED:,} pairs would not be enough."
        return said + f"at least {needed:,} pairs that are not opened would be needed."

    def _pairs_needed(self) -> int | None:
        """Return the smallest number of pairs, to within 0.1 %, with which an audit can refute the claim.

        Return None if the number exceeds `MAX_PAIRS_NEEDED`.
        """
        low, high = self.pairs, 2 * self.pairs
        while self._reach_of(high) <= self.proven:
            low, high = high, 2 * high
            if high > MAX_PAIRS_NEEDED:
                return None
        while high - low > max(low // 1000, 1):
            middle = (low + high) // 2
            low, high = (low, middle) if self._reach_of(middle) > self.proven else (middle, high)
        return high

    @property
    def accuracy(self) -> float:
        """The share of correct guesses among all guesses; NaN if no pair was guessed."""
        return self.best.correct / self.best.guesses if self.best.guesses else math.nan

    def sentence(self) -> str:
        if self.claimed:
            return super().sentence()
        return (
            f"{self.mechanism}: certified lower bound {self.claim.symbol} >= {lower(self.lower_bound)} under "
            f"{self._relation} at {percent(self.confidence)} confidence{self._when}; no claim was given."
        )

    @property
    def _relation(self) -> str:
        """The neighbouring relation of the claim in words."""
        return "substitution of a record" if self.adjacency == "substitution" else "adding or removing a record"

    def lines(self) -> list[tuple[str, str]]:
        return [(label, text) for label, text in super().lines() if self.claimed or label != "parameter"]

    def _setting_lines(self) -> dict[str, str]:
        total = self.pairs + self.opened
        alone = self.train + self.holdout - 2 * total
        rest = f"; {alone:,} records have no partner" if alone else ""
        return {
            "records": f"{self.train:,} in the train part, {self.holdout:,} in the holdout",
            "pairs": f"{total:,}, of which {self.opened:,} are opened to learn the attack{rest}",
            "attack": self.describe_event(),
        }

    def _method_lines(self) -> dict[str, str]:
        lines = super()._method_lines()
        if self.claimed and self.adjacency == "add-remove":
            lines["method"] += f"; {self.claim} for adding or removing a record implies {self.substitution_claim} here"
        seed = f"{self.seed}, of the matching, the opened pairs, and the order of the records in a pair"
        assumed = "records were split at random, in the way that was stated, and nothing but the train part was used"
        return {**lines, "adjacency": self._relation, "assumes": assumed, "seed": seed}

    def describe_event(self) -> str:
        return self.attack

    def describe_counts(self) -> str:
        return f"{self.best.correct:,} of {self.best.guesses:,} guesses are right, of {self.pairs:,} pairs"

    @classmethod
    def _fields(cls, data: dict[str, Any]) -> dict[str, Any]:
        found = super()._fields(data)
        if data["adjacency"] == "add-remove" and Claim.from_dict(data["claim"]).__class__ not in FACTORS:
            raise AuditError(f"A holdout result for adding or removing a record cannot have the claim {data['claim']}.")
        return found

"""What a claim for adding or removing a record implies for the substitution of a record (theorem 16)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from epsaudit.bounds.one_run import GuessBound, GuessSet
from epsaudit.claims.conversions import bisected
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError

ClaimedAdjacency = Literal["substitution", "add-remove"]
"""The neighbouring relation of the claim about a release."""
ADJACENCIES: tuple[ClaimedAdjacency, ...] = ("substitution", "add-remove")
FACTORS: dict[type[Claim], float] = {PureDP: 2.0, ApproxDP: 2.0, GaussianDP: 2.0, ZCDP: 4.0}
"""[formula] Factors between the parameter for substitution and the parameter for adding or removing a record."""


def check_adjacency(adjacency: str, claim: Claim) -> ClaimedAdjacency:
    """Return the neighbouring relation that the argument ``adjacency`` names.

    Raises `AuditError` if the relation is unknown. Also raises it if the relation is 'add-remove' and the claim cannot
    be converted to a claim for the substitution of a record.
    """
    known = next((one for one in ADJACENCIES if one == adjacency), None)
    if known is None:
        raise AuditError(f"adjacency is {adjacency!r}; it must be {' or '.join(map(repr, ADJACENCIES))}.")
    if known == "add-remove" and type(claim) not in FACTORS:
        raise AuditError(
            f"{claim} for adding or removing a record has no conversion to the substitution of a record here. Give "
            "the claim for substitution, or claim.approximate(delta)."
        )
    return known


def under_substitution(claim: Claim, adjacency: ClaimedAdjacency) -> Claim:
    """Return the claim about the substitution of a record that ``claim`` implies.

    ``adjacency`` is the neighbouring relation of ``claim``. To substitute a record is to remove one record and to add
    another. So if the relation is 'add-remove', epsilon and mu double, rho quadruples, and a delta is multiplied by
    1 + e^epsilon.

    >>> under_substitution(ApproxDP(1.0, 1e-5), "add-remove").epsilon
    2.0
    """
    if adjacency == "substitution":
        return claim
    converted = claim.with_parameter(FACTORS[type(claim)] * claim.parameter)
    if isinstance(converted, ApproxDP):
        converted = replace(converted, delta=min((1.0 + math.exp(claim.parameter)) * converted.delta, 1.0 - 1e-9))
    return converted


def add_remove_bound(claim: Claim, counts: GuessSet, bound: GuessBound) -> float:
    """Return a lower bound on the parameter of a claim for adding or removing a record.

    ``counts`` are the counts of guesses, and ``bound`` turns them into a lower bound for the substitution of a record.
    For most claims the result is this lower bound, divided by a fixed factor. For (epsilon, delta)-DP, the delta for
    substitution depends on epsilon. So every epsilon is tested with its own delta, and the result is the end of the
    interval of rejected values that begins at 0.
    """
    if not isinstance(claim, ApproxDP):
        return bound.of(counts) / FACTORS[type(claim)]

    def rejected(epsilon: float) -> bool:
        tested = under_substitution(ApproxDP(epsilon, claim.delta), "add-remove")
        return replace(bound, claim=tested).of(counts) > tested.parameter

    high = replace(bound, claim=PureDP(0.0)).of(counts) / 2.0
    if high <= 0.0 or not rejected(0.0):
        return 0.0
    # a larger epsilon implies more for the parameter and for delta, so the rejected ones are an interval from 0
    low, _ = bisected(lambda epsilon: np.asarray(rejected(float(epsilon))), np.asarray(0.0), np.asarray(high), 45)
    return float(low)

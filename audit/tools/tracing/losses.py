"""Privacy losses of noise with a known law, and how many outputs may reveal their dataset under a true claim."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError
from epsaudit.mechanisms.known_laws import exact_parameter

Laws = list[tuple[Any, Any]]
"""The laws of independent noisy numbers: for each number its law on x and its law on x'."""
EXCESS_TOLERANCE = 1e-6
"""[formula] Relative amount by which a loss must exceed the claim. Computed losses have errors of 1e-9."""
REVEALING_LEVEL = 1e-6
"""[measured] Probability below which outputs lead to a suspicion: the largest probability, under a true claim, that
outputs reveal their dataset in one direction. For Laplace noise with exactly the claimed scale, 100 outputs on each
side and 4,000 seeds, the share of suspected runs is 16 % at level 0.1, 0.08 % at 1e-3, and 0 at 1e-6. With a fifth
of this noise it is 98 % at 1e-3, 94 % at 1e-6, and 85 % at 1e-9."""
MAX_FREE_RUNS = 300
"""[time] Largest number of further runs on each side of an output that may be random. For a function of numpy they
take 0.25 s of processor time; the 23 runs that epsilon = 1 needs take 0.01 s. Claims above epsilon = 3.76 would need
more runs, and no suspicion is reported for them; twice the number of runs would reach 4.45."""


def may_reveal(claim: Claim, n_outputs: int) -> bool:
    """Return whether the claim allows that this many outputs all reveal their dataset.

    An output reveals its dataset, x or x', if it is unlike all outputs on the other one. Under epsilon-DP this has
    probability at most 1 / (1 + e^-epsilon). This holds for an output that is lower than all others. It also holds for
    an output that lies in a set A on x, and in a disjoint set B on x': the probabilities a of A on x and b of B on x'
    satisfy a <= e^epsilon (1 - b) and b <= e^epsilon (1 - a), so that a + b is at most twice the bound. The claim
    allows everything that has a probability of at least `REVEALING_LEVEL` under it. For a claim that is a curve, the
    curve's epsilon at a delta of this level is taken.
    """
    epsilon, point = -math.log(math.expm1(-math.log(REVEALING_LEVEL) / n_outputs)), claim.claimed_point
    if point:
        return bool(point[0] > epsilon)
    return bool(epsilon < 0.0 or claim.least_at(epsilon, REVEALING_LEVEL) <= claim.parameter)


def free_runs(claim: Claim | None) -> int:
    """Return how many further runs on each dataset show that a constant part of the output is not random.

    A part that is constant on each dataset and differs between x and x' would be too improbable under the claim if it
    were random. The result is 0 if `MAX_FREE_RUNS` runs are not enough to show this. It is `MAX_FREE_RUNS` for a claim
    that is a curve, and without a claim.
    """
    # a claim that is a curve takes 5 ms for each number of runs, so that only the largest is tried
    has_point = claim is not None and claim.claimed_point
    possible = range(1, MAX_FREE_RUNS + 1) if has_point else [MAX_FREE_RUNS]
    return next((n_runs for n_runs in possible if claim is None or not may_reveal(claim, 2 * n_runs)), 0)


def dominating_laws(epsilon: float, delta: float) -> tuple[Any, Any]:
    """Return the pair of laws with the largest privacy loss among all (epsilon, delta)-DP pairs.

    Every such pair is a post-processing of it (Kairouz, Oh, Viswanath 2015).
    """
    from epsaudit.mechanisms.laws import FiniteLaw

    share = 1.0 / (1.0 + math.exp(-epsilon))
    with np.errstate(divide="ignore"):
        logs = np.log([delta, (1.0 - delta) * share, (1.0 - delta) * (1.0 - share), 0.0])
    return FiniteLaw("abcd", logs), FiniteLaw("abcd", logs[::-1])


def exact_loss(claim: Claim, laws: Laws) -> float | None:
    """Return the exact privacy loss of independent noisy numbers, as a value of the claim's parameter.

    ``laws`` has the law of each number on x and on x'. Return None if the loss cannot be computed.
    """
    from epsaudit.mechanisms.laws import LaplaceLaw, NormalLaw

    normal = [((other.centre - one.centre) / one.scale) ** 2 for one, other in laws if type(one) is NormalLaw]
    square = math.fsum(normal)  # independent normal numbers are equivalent to one whose squared shift is the sum
    if isinstance(claim, ZCDP | GaussianDP) and len(normal) == len(laws):
        return square / 2.0 if isinstance(claim, ZCDP) else math.sqrt(square)
    if len(normal) > 1:
        rest = [one for one in laws if type(one[0]) is not NormalLaw]
        laws = [*rest, (NormalLaw(0.0, 1.0), NormalLaw(math.sqrt(square), 1.0))]
    if isinstance(claim, PureDP) and all(type(one) is LaplaceLaw for one, _ in laws):
        return math.fsum(abs(other.centre - one.centre) / one.scale for one, other in laws)
    sides = [SimpleNamespace(parts=side) if len(laws) > 1 else side[0] for side in zip(*laws, strict=True)]
    try:
        found: float | None = exact_parameter(claim, sides)
        return found
    except (AuditError, ArithmeticError):
        return None


def exceeds_claim(claim: Claim, loss: float) -> bool:
    """Return whether a loss exceeds the claim by more than the numerical error of its computation."""
    return loss > claim.parameter * (1.0 + EXCESS_TOLERANCE)

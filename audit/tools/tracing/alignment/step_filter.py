"""Upper bounds from runs for functions whose noise comes from mechanisms that state their own privacy loss.

The answers of such mechanisms may be used in any way, also in compiled code: both datasets get the same answers, and
the losses that the mechanisms state for their inputs add up. A bound holds if few runs spend more than a budget
(Theorem 18 of docs/explanation/theory.md). All other draws are the same on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, PureDP, RenyiDP
from epsaudit.tools.tracing.alignment.aligned import Aligned, require_same_run
from epsaudit.tools.tracing.alignment.certain import concentrated_to_epsilon, from_pure
from epsaudit.tools.tracing.alignment.run import AlignmentRun, Parted, Runner

BUDGET_ROUNDING = 1e-9
"""[formula] Relative rounding error of a sum of losses. A budget exceeds what training runs spent by at least this."""
ROOM = 1.1
"""[chosen] Factor by which a budget above the claim exceeds what training runs spent. Few fresh runs then exceed it."""
SPENDS_MORE = "the mechanisms that are called spend more than in training runs"


class Spent(NamedTuple):
    """Sums of the losses that all mechanisms in a run state for their inputs, as epsilon, rho and delta."""

    epsilon: float
    """Infinite if a mechanism states a loss in zCDP."""
    rho: float
    """A pure loss counts as half of its square."""
    delta: float

    def is_within(self, budget: Spent) -> bool:
        """Return whether no sum is larger than the same sum in a budget."""
        return all(one <= most for one, most in zip(self, budget, strict=True))


def budget_for(claim: Claim, runs: Sequence[Spent], left_out: float) -> Spent:
    """Return a budget for the losses of a run that no training run exceeds.

    It limits epsilon or rho, whichever gives the smaller bound. If the claim allows more than the training runs spent,
    the budget is what the claim allows, so that few fresh runs exceed it. ``left_out`` is the upper limit on the
    probability of runs outside the budget that fresh runs can certify.
    """
    least = Spent(*((1.0 + BUDGET_ROUNDING) * max(sums) for sums in zip(*runs, strict=True)))
    options = least._replace(rho=math.inf), least._replace(epsilon=math.inf)
    best = min(options, key=lambda one: bound_of(claim, one, left_out)[0])
    most = allowed_by(claim, best.delta)
    epsilon, rho, _ = (
        max(used, most) if used <= most * (1.0 + 2.0 * BUDGET_ROUNDING) else ROOM * used
        for used, most in zip(best, most, strict=True)
    )
    return Spent(epsilon, rho, best.delta)


def allowed_by(claim: Claim, delta: float) -> Spent:
    """Return the epsilon that a claim allows without rho, and the rho that it allows without epsilon.

    Half of the delta that remains of the claim is kept for runs that exceed the budget. For a claim in (epsilon,
    delta)-DP, rho + 2 sqrt(rho log(1 / delta)) is epsilon, with the other half as delta (Bun and Steinke 2016,
    Proposition 1.3).
    """
    if isinstance(claim, PureDP):
        return Spent(claim.epsilon, 0.0, 0.0)
    if isinstance(claim, ApproxDP) and claim.delta > delta:
        logarithm = -math.log(0.5 * (claim.delta - delta))
        rho = (math.sqrt(logarithm + claim.epsilon) - math.sqrt(logarithm)) ** 2
        return Spent(claim.epsilon, rho, 0.0)
    if isinstance(claim, ZCDP):
        return Spent(0.0, claim.rho, 0.0)
    return Spent(0.0, claim.parameter / claim.order if isinstance(claim, RenyiDP) else 0.0, 0.0)


def spent(first: AlignmentRun, run_prime: Runner) -> Spent:
    """Return the sums of the losses that mechanisms state for their inputs in a run on x and in a run on x'.

    The run on x' has the same draws and the same answers of mechanisms. Raises `Parted` if the function does something
    else there.
    """
    second = run_prime(AlignmentRun(0, first))
    require_same_run(first, second)
    epsilon, rho, delta = 0.0, 0.0, 0.0
    for one, other in zip(first.steps, second.steps, strict=True):
        amount, left_out = one.stated_to(other)
        if amount == math.inf:
            raise Parted(f"{one.name} states no loss for its inputs on both datasets")
        epsilon += (math.inf if amount else 0.0) if one.concentrated else amount
        rho += amount if one.concentrated else 0.5 * amount * amount
        delta += left_out
    return Spent(epsilon, rho, delta)


@dataclass(frozen=True)
class SameAnswers:
    """A strategy that repeats all draws and answers of mechanisms on x', and accepts runs within a budget."""

    budget: Spent

    def align(self, first: AlignmentRun, run_prime: Runner) -> Aligned:
        """Return a loss of 0 for a run within the budget, and an infinite loss for any other run."""
        try:
            return (
                Aligned(0.0) if spent(first, run_prime).is_within(self.budget) else Aligned(math.inf, None, SPENDS_MORE)
            )
        except Parted as parted:
            return Aligned(math.inf, None, parted.reason)


def bound_of(claim: Claim, budget: Spent, left_out: float) -> tuple[float, float]:
    """Return the value of the claim's parameter, and the delta, that follow from a budget for the losses of a run.

    ``left_out`` is the probability of runs that exceed the budget.
    """
    delta = left_out + budget.delta
    if isinstance(claim, ApproxDP):
        if delta > claim.delta:
            return math.inf, 1.0
        from_rho = concentrated_to_epsilon(budget.rho, claim.delta - delta) if budget.rho < math.inf else None
        return min(budget.epsilon, math.inf if from_rho is None else from_rho), 0.0
    from_epsilon = from_pure(claim, budget.epsilon)
    if isinstance(claim, ZCDP | RenyiDP):
        order = claim.order if isinstance(claim, RenyiDP) else 1.0
        return min(order * budget.rho, from_epsilon), delta
    return from_epsilon, delta

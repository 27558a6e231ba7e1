"""Why a pair has no alignment within its claim: the place that cannot be kept, and what the cheapest alignment costs.

A run on x is compared with the run on x' that follows it. The explanation is the first difference that no alignment
removes, or else the draw of noise for which the cheapest alignment pays more than the claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from epsaudit.claims.definitions import Claim
from epsaudit.tools.tracing.alignment.aligned import NO_SHIFT, other_losses
from epsaudit.tools.tracing.alignment.certain import PathLoss, combined
from epsaudit.tools.tracing.alignment.run import RAISES, RETURN, AlignmentRun, Draw, Parted, Runner, Stack
from epsaudit.tools.tracing.alignment.shifts import Shift, largest_loss, stretch_or_shift
from epsaudit.tools.tracing.losses import exceeds
from epsaudit.tools.tracing.suspicion import BRANCHES, BUDGET, MOVES, PARAMETER, RELEASED

EXPLAINED_RUNS = 20
"""[chosen] Number of runs in each direction among which one without an alignment within the claim is searched."""


class Explanation(NamedTuple):
    """Why a run has no alignment within the claim."""

    kind: str
    """One of the kinds of `epsaudit.tools.tracing.suspicion`."""
    reason: str
    stack: Stack
    """The place at which this happens."""
    cheapest: float
    """Cost, in the claim's parameter, of the cheapest alignment of the run; if no alignment keeps the whole run, of
    what comes before this place."""


def explained(
    claim: Claim, directions: Sequence[tuple[Runner, Runner]], seeds: Sequence[int] = ()
) -> Explanation | None:
    """Return why one of a few runs has no alignment within the claim, or None if all of them have one.

    Of both directions, the one whose cheapest alignment costs more is explained.

    Parameters
    ----------
    claim : Claim
        The claim.
    directions : sequence of (runner, runner)
        The functions that run on x and on x', for each direction.
    seeds : sequence of int
        Seeds of the runs that are tried.
    """
    for seed in seeds:
        found = [_explained_run(claim, *one, seed) for one in directions]
        known = [one for one in found if one is not None]
        if known:
            return max(known, key=lambda one: one.cheapest)
    return None


def _explained_run(claim: Claim, run: Runner, run_prime: Runner, seed: int) -> Explanation | None:
    parted = ""
    try:
        first = run(AlignmentRun(seed, sites=True))
    except Parted:
        return None
    second = AlignmentRun(0, first, forced="all", sites=True)
    try:
        run_prime(second)
    except Parted as error:
        parted = error.reason
    return explain(claim, first, second, parted)


def explain(claim: Claim, first: AlignmentRun, second: AlignmentRun, parted: str = "") -> Explanation | None:
    """Return why a run on x has no alignment within the claim, or None if it has one.

    Parameters
    ----------
    claim : Claim
        The claim.
    first, second : AlignmentRun
        The run on x, and the run on x' that follows it, both with the places of draws and events.
    parted : str
        The reason why the run on x' ended early, if it did.
    """
    prefixes = _Prefixes(claim, first, second)
    n_events, n_draws = prefixes.n_events, prefixes.n_draws
    cost = prefixes.cost(n_events)
    raised = [one for one in (second, first) if _raises(one)]
    if raised and first.form != second.form:
        one = raised[0]
        name, side = one.form[1], "x'" if one is second else "x"
        return Explanation(BRANCHES, f"{name} is raised on {side} alone ({one.form[2]})", one.returned, cost)
    longer = max((second, first), key=lambda one: len(one.draw_sites))
    if n_draws < len(longer.draw_sites):
        counted = _first_different_count(first, second)
        if counted is not None:
            return Explanation(PARAMETER, *counted, cost)
        reason = "the number or the kind of draws depends on the data"
        return Explanation(BRANCHES, reason, longer.draw_sites[n_draws], cost)
    if exceeds(claim, cost):
        return prefixes.explain()
    if n_events < max(len(first.events), len(second.events)):
        event = next(one.events[n_events] for one in (second, first) if len(one.events) > n_events)
        reason = "another comparison, or another released number, follows"
        returned = next((one.returned for one in (second, first) if one.returned), ())
        return Explanation(PARAMETER, reason, returned if event.kind == RETURN else event.site, cost)
    if first.form != second.form and not parted:
        reason = "a part of the output without noise depends on the data"
        return Explanation(RELEASED, reason, second.returned or first.returned, cost)
    return Explanation(BRANCHES, parted, second.returned or first.returned, cost) if parted else None


def _raises(one: AlignmentRun) -> bool:
    return isinstance(one.form, tuple) and one.form[:1] == (RAISES,)


def _first_different_count(first: AlignmentRun, second: AlignmentRun) -> tuple[str, Stack] | None:
    """Return what numpy counted differently on both sides, which explains the number of later draws, or None."""
    for one, other in zip(first.counts, second.counts, strict=False):
        if one.name == other.name and one.values != other.values:
            counts = f"{one.name} gives {one.values} values on one dataset, {other.values} on the other"
            return f"{counts}: the number of draws depends on the data", one.site
    return None


class _Prefixes:
    """The common beginning of a run on x and of the run on x' that follows it, and the cost of aligning parts of it."""

    def __init__(self, claim: Claim, first: AlignmentRun, second: AlignmentRun) -> None:
        self.claim, self.first, self.second = claim, first, second
        events, draws = zip(first.events, second.events, strict=False), zip(first.draws, second.draws, strict=False)
        self.n_events = _count_equal(((a.kind, a.terms), (b.kind, b.terms)) for a, b in events)
        self.n_draws = _count_equal((one.law, other.law) for one, other in draws)
        while self.n_events and any(draw >= self.n_draws for draw, _ in first.events[self.n_events - 1].terms):
            self.n_events -= 1
        same = len(first.choices) == len(second.choices) and len(first.steps) == len(second.steps)
        self.others = other_losses(first, second) if same else 0.0
        """Loss of discrete draws and of mechanisms."""
        self._shifts: dict[int, Shift | None] = {}
        self._known: dict[Any, Any] = {}

    def shift(self, count: int) -> Shift | None:
        """Return the cheapest shift that keeps the first ``count`` events, or None."""
        if count not in self._shifts:
            events = self.first.events[:count], self.second.events[:count]
            self._shifts[count] = stretch_or_shift(*events, *self._draws(count), self._known)
        return self._shifts[count]

    def _draws(self, count: int) -> tuple[Sequence[Draw], Sequence[Draw]]:
        """Return the draws on which the first ``count`` events depend, with those that were made before them."""
        last = max((draw for one in self.first.events[:count] for draw, _ in one.terms), default=-1) + 1
        return self.first.draws[:last], self.second.draws[:last]

    def cost(self, count: int, with_others: bool = True) -> float:
        """Return what the cheapest alignment of the first ``count`` events costs; infinite if there is none."""
        shift = self.shift(count)
        if shift is None:
            return math.inf
        return cost_of(self.claim, shift, *self._draws(count), self.others if with_others else 0.0)

    def explain(self) -> Explanation:
        """Return why the common beginning has no alignment within the claim."""
        count = self.n_events
        if self.shift(count) is None:
            return self._first_without_shift()
        if not exceeds(self.claim, self.cost(count, with_others=False)):
            return self._explain_others()
        return self._paying_draw()

    def _first_without_shift(self) -> Explanation:
        """Return the first event that no shift keeps together with those before it.

        More events have fewer shifts, so the position is found by bisection.
        """
        low, high = 0, self.n_events
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.shift(middle) is None else (middle, high)
        event = self.first.events[high - 1]
        stack = (self.second.returned or self.first.returned) if event.kind == RETURN else event.site
        return Explanation(MOVES, NO_SHIFT, stack, self.cost(high - 1, with_others=False))

    def _paying_draw(self) -> Explanation:
        """Return the first draw that costs more than the claim by itself, or else the last one that costs anything."""
        shift, sites, paying = self.shift(self.n_events), self.first.draw_sites, list[int]()
        assert shift is not None
        cost, symbol = self.cost(self.n_events), self.claim.symbol
        draws, draws_prime = self._draws(self.n_events)
        for number, (one, other, amount) in enumerate(zip(draws, draws_prime, shift.amounts, strict=True)):
            if not amount and one.scale == other.scale:
                continue
            paying.append(number)
            own = cost_of(self.claim, Shift((amount,), {}), [one], [other])
            if not exceeds(self.claim, own):
                continue
            if one.scale != other.scale:
                both = f"{one.scale:.6g} on one dataset, {other.scale:.6g} on the other"
                return Explanation(PARAMETER, f"the scale of {one.law} noise is {both}", sites[number], cost)
            moves = f"{one.law} noise of scale {one.scale:.6g} has to move by {abs(amount):.6g}"
            return Explanation(MOVES, f"{moves}, which by itself costs {symbol} {own:.6g}", sites[number], cost)
        if not paying:  # stretches of uniform draws
            return self._explain_others()
        reason = f"{len(paying)} draws of noise have to move, which together costs {symbol} {cost:.6g}"
        return Explanation(BUDGET, reason, sites[paying[-1]], cost)

    def _explain_others(self) -> Explanation:
        """Return why the losses of discrete draws and mechanisms are too large: the last mechanism that pays."""
        cost, stack, reason = self.cost(self.n_events), self.second.returned or self.first.returned, ""
        for one, other, site in zip(self.first.steps, self.second.steps, self.first.step_sites, strict=False):
            if one.numbers != other.numbers:
                stack, reason = site, f"the input of {one.name} moves"
        reason = reason or "discrete draws have other probabilities"
        return Explanation(BUDGET, f"{reason}: the run costs {self.claim.symbol} {cost:.6g}", stack, cost)


def _count_equal(pairs: Iterable[tuple[Any, Any]]) -> int:
    """Return how many pairs there are before the first pair of two different values."""
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def cost_of(
    claim: Claim, shift: Shift, draws: Sequence[Draw], draws_prime: Sequence[Draw], others: float = 0.0
) -> float:
    """Return the cost of shifted draws in the claim's parameter; infinite if it has no finite bound.

    ``others`` is the loss of discrete draws and mechanisms.
    """
    loss = largest_loss(shift, draws, draws_prime) + others
    same_scales = all(one.scale == other.scale for one, other in zip(draws, draws_prime, strict=True))
    moves = tuple((one.law, one.scale, by) for one, by in zip(draws, shift.amounts, strict=True) if by)
    plain = moves if same_scales and not shift.stretches and not others else None
    return combined(claim, [PathLoss(loss, 1.0, plain)])[0]

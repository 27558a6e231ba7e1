"""The reason why a pair has no alignment within its claim: what cannot be kept, or which noise costs too much.

An alignment shifts the noise of a run on x so that the run on x' gives the same output. A run on x is compared with a
run on x' with the same draws. The explanation is the first difference that no alignment removes, or else the draw of
noise whose shift costs more than the claim.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from epsaudit.claims.definitions import Claim
from epsaudit.errors import QUOTED, clipped
from epsaudit.tools.tracing.alignment.aligned import NO_SHIFT, concentrated_loss, other_losses
from epsaudit.tools.tracing.alignment.certain import combined, loss_of_path
from epsaudit.tools.tracing.alignment.recorded_run import RecordedRun
from epsaudit.tools.tracing.alignment.run import (
    COMPARE,
    OTHER_EVENTS,
    RAISED_FORM,
    RETURN,
    AlignmentRun,
    Draw,
    Parted,
    Runner,
    Stack,
)
from epsaudit.tools.tracing.alignment.shifts import Shift, stretch_or_shift
from epsaudit.tools.tracing.comparison import difference_in_words
from epsaudit.tools.tracing.losses import exceeds_claim
from epsaudit.tools.tracing.suspicion import BRANCHES, BUDGET, MOVES, PARAMETER, RELEASED, Suspicion

EXPLAINED_RUNS = 20
"""[chosen] Number of runs in each direction that are searched for a run without an alignment within the claim."""


class Explanation(NamedTuple):
    """The reason why a run has no alignment within the claim, with its place in the audited code.

    An alignment shifts the noise of a run on x so that the run on x' gives the same output. Its cost is the privacy
    loss of this shift.
    """

    kind: str
    """One of the kinds of `epsaudit.tools.tracing.suspicion`."""
    reason: str
    stack: Stack
    """The calls that lead to the place."""
    cheapest: float
    """Cost, in the claim's parameter, of the cheapest alignment of the run. If no alignment keeps the whole run, it
    is the cost of what comes before the place."""
    aligned: bool = False
    """Whether an alignment keeps the whole run."""

    @property
    def loss(self) -> float | None:
        """The cost of the cheapest alignment of the whole run; None if no alignment keeps the whole run."""
        return self.cheapest if self.aligned else None


Run = AlignmentRun | RecordedRun
DIRECTIONS = (("x", "x'"), ("x'", "x"))
"""For each direction, the names of the dataset of the recorded run and of the dataset of the run that follows it."""


def explained(
    claim: Claim, directions: Sequence[tuple[Runner, Runner]], seeds: Sequence[int] = ()
) -> Explanation | None:
    """Search a few runs for one that has no alignment within the claim, and return the reason.

    An alignment shifts the noise of a run on x so that the run on x' gives the same output. Each seed is tried from x
    to x' and from x' to x, and the direction that costs more is explained. Return None if no run shows a reason.

    Parameters
    ----------
    claim : Claim
        The claim.
    directions : sequence of (runner, runner)
        The functions that run on x and on x', for each of the `DIRECTIONS`.
    seeds : sequence of int
        Seeds of the runs that are tried.
    """
    for seed in seeds:
        found = [_explained_run(claim, *one, seed, names) for one, names in zip(directions, DIRECTIONS, strict=True)]
        if (worst := most_expensive(found)) is not None:
            return worst
    return None


def most_expensive(found: Sequence[Explanation | None]) -> Explanation | None:
    """Return the explanation whose alignment costs most, or None if there is no explanation.

    An explanation says why a run has no alignment within the claim.
    """
    return max((one for one in found if one is not None), key=lambda one: one.cheapest, default=None)


def _explained_run(
    claim: Claim, run: Runner, run_prime: Runner, seed: int, names: tuple[str, str]
) -> Explanation | None:
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
    return explain(claim, first, second, parted, names)


def explain(
    claim: Claim, first: Run, second: Run, parted: str = "", names: tuple[str, str] = DIRECTIONS[0]
) -> Explanation | None:
    """Return the reason why a run on x has no alignment within the claim, or None if it has such an alignment.

    An alignment shifts the noise of the run so that the run on x' gives the same output.

    Parameters
    ----------
    claim : Claim
        The claim.
    first, second : AlignmentRun or RecordedRun
        The run on x, and the run on x' with the same draws. Both store the places of draws and events.
    parted : str
        The reason why the run on x' ended early, if it did.
    names : tuple of str
        The names of x and x'.
    """
    prefixes = Prefixes(claim, first, second, names)
    n_events, n_draws = prefixes.n_events, prefixes.n_draws
    cost = prefixes.cost(n_events)
    raised = [(one, name) for one, name in ((second, names[1]), (first, names[0])) if run_raises(one)]
    if raised and first.form != second.form:
        ((one, side), *_) = raised
        return Explanation(BRANCHES, f"{one.form[1]} is raised on {side} alone ({one.form[2]})", one.returned, cost)
    longer = max((second, first), key=lambda one: len(one.draw_sites))
    if n_draws < len(longer.draw_sites):
        counted = prefixes.first_different_count()
        if counted is not None:
            return Explanation(PARAMETER, *counted, cost)
        numbers = difference_in_words(*(len(one.draw_sites) for one in prefixes.in_order()))
        reason = f"the number of draws is {numbers}: which draws are made depends on the data"
        return Explanation(BRANCHES, reason, longer.draw_sites[n_draws], cost)
    if exceeds_claim(claim, cost):
        return prefixes.explain()
    if n_events < max(len(first.events), len(second.events)):
        event = next(one.events[n_events] for one in (second, first) if len(one.events) > n_events)
        returned = second.returned or first.returned
        stack = returned if event.kind == RETURN else event.site
        return Explanation(PARAMETER, prefixes.how_events_differ(), stack, cost)
    if first.form != second.form and not parted:
        reason = "a part of the output without noise depends on the data"
        return Explanation(RELEASED, reason, second.returned or first.returned, cost)
    return Explanation(BRANCHES, parted, second.returned or first.returned, cost) if parted else None


def run_raises(one: Run) -> bool:
    """Return whether a run raised an exception."""
    return isinstance(one.form, tuple) and one.form[:1] == (RAISED_FORM,)


class Prefixes:
    """A run on x and a run on x' with the same draws, compared up to their first difference.

    The methods return what it costs to align this common beginning, or a part of it: to shift the noise on x' so that
    comparisons and released numbers are the same as on x.
    """

    def __init__(self, claim: Claim, first: Run, second: Run, names: tuple[str, str] = DIRECTIONS[0]) -> None:
        self.claim, self.first, self.second, self.names = claim, first, second, names
        events, draws = zip(first.events, second.events, strict=False), zip(first.draws, second.draws, strict=False)
        self.n_events = _count_equal(((a.kind, a.terms), (b.kind, b.terms)) for a, b in events)
        self.n_draws = _count_equal((one.law, other.law) for one, other in draws)
        while self.n_events and any(draw >= self.n_draws for draw, _ in first.events[self.n_events - 1].terms):
            self.n_events -= 1
        same = len(first.choices) == len(second.choices) and len(first.steps) == len(second.steps)
        self.others = (other_losses(first, second), concentrated_loss(first, second)) if same else (0.0, 0.0)
        """Loss of discrete draws and of mechanisms, and the rho of mechanisms that state a loss in zCDP."""
        self._shifts: dict[int, Shift | None] = {}
        self._known: dict[Any, Any] = {}

    def shift(self, count: int) -> Shift | None:
        """Return the cheapest shift that keeps the first ``count`` comparisons and released numbers, or None."""
        if count not in self._shifts:
            events = self.first.events[:count], self.second.events[:count]
            self._shifts[count] = stretch_or_shift(*events, *self._draws(count), self._known)
        return self._shifts[count]

    def _draws(self, count: int) -> tuple[Sequence[Draw], Sequence[Draw]]:
        """Return the draws of both runs up to the last one on which the first ``count`` events depend.

        An event is a comparison or a released number.
        """
        last = max((draw for one in self.first.events[:count] for draw, _ in one.terms), default=-1) + 1
        return self.first.draws[:last], self.second.draws[:last]

    def cost(self, count: int, with_others: bool = True) -> float:
        """Return the cost of the cheapest shift that keeps the first ``count`` comparisons and released numbers.

        It is infinite if there is no such shift.
        """
        shift = self.shift(count)
        if shift is None:
            return math.inf
        return cost_of(self.claim, shift, *self._draws(count), *(self.others if with_others else (0.0, 0.0)))

    def cost_without_comparisons(self) -> float:
        """Return the cost of the cheapest shift that keeps released and returned numbers, but no comparisons."""
        numbers = [number for number in range(self.n_events) if self.first.events[number].kind != COMPARE]
        events = [[run.events[number] for number in numbers] for run in (self.first, self.second)]
        draws = self._draws(self.n_events)
        shift = stretch_or_shift(events[0], events[1], *draws, self._known)
        return math.inf if shift is None else cost_of(self.claim, shift, *draws, *self.others)

    def explain(self) -> Explanation:
        """Return the reason why no alignment within the claim keeps the common beginning of both runs.

        An alignment shifts the noise of the run on x, so that comparisons and released numbers are the same on x'.
        """
        count = self.n_events
        if self.shift(count) is None:
            return self._first_without_shift()
        if not exceeds_claim(self.claim, self.cost(count, with_others=False)):
            return self._explain_others()
        return self._paying_draw()

    def _first_without_shift(self) -> Explanation:
        """Return an explanation with the first comparison or released number that no shift of the noise can keep.

        Keeping more of them leaves fewer shifts, so that the position is found by bisection.
        """
        low, high = 0, self.n_events
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.shift(middle) is None else (middle, high)
        event = self.first.events[high - 1]
        stack = event.site or self.second.returned or self.first.returned
        return Explanation(MOVES, NO_SHIFT, stack, self.cost(high - 1, with_others=False))

    def _paying_draw(self) -> Explanation:
        """Return an explanation with the noise whose shift costs more than the claim.

        It is the first noise that costs more than the claim by itself, or otherwise the last noise that costs anything.
        The draws of one call of a sampler count as one noise.
        """
        shift, sites = self.shift(self.n_events), self.first.draw_sites
        assert shift is not None
        cost, symbol = self.cost(self.n_events), self.claim.symbol
        draws, draws_prime = self._draws(self.n_events)
        paying = [
            number
            for number, (one, other) in enumerate(zip(draws, draws_prime, strict=True))
            if shift.amounts[number] or one.scale != other.scale
        ]
        groups = [list(group) for _, group in itertools.groupby(paying, lambda number: sites[number] or number)]
        for group in groups:
            amounts = tuple(shift.amounts[number] for number in group)
            mine, theirs = [draws[number] for number in group], [draws_prime[number] for number in group]
            own = cost_of(self.claim, Shift(amounts, {}), mine, theirs)
            if exceeds_claim(self.claim, own):
                kind, reason = self._why_it_pays(amounts, mine, theirs, own)
                return Explanation(kind, reason, sites[group[0]], cost, True)
        if not paying:  # stretches of uniform draws
            return self._explain_others()
        lines = sorted({Suspicion("", "", sites[group[0]]).where for group in groups})
        reason = f"{len(paying)} draws of noise have to move ({clipped(', '.join(lines), QUOTED)})"
        return Explanation(
            BUDGET, f"{reason}: together this costs {symbol} {cost:.6g} where {self.claim} is claimed",
            sites[paying[-1]], cost, True,
        )  # fmt: skip

    def _why_it_pays(
        self, amounts: Sequence[float], draws: Sequence[Draw], draws_prime: Sequence[Draw], own: float
    ) -> tuple[str, str]:
        """Return a kind and a sentence for an explanation, about draws whose shift alone costs more than the claim.

        The draws are those of one call of a sampler, and ``own`` is their cost.
        """
        law, scale = draws[0].law, draws[0].scale
        different = [
            (one.scale, other.scale) for one, other in zip(draws, draws_prime, strict=True) if one.scale != other.scale
        ]
        if different:
            return PARAMETER, f"{law} noise has scale {self._both(*different[0])}"
        norm, distance = ("L2", math.hypot(*amounts)) if law == "normal" else ("L1", math.fsum(map(abs, amounts)))
        by = f"{distance:.6g}" + f" in the {norm} norm" * (sum(map(bool, amounts)) > 1)
        costs = f"by itself this costs {self.claim.symbol} {own:.6g} where {self.claim} is claimed"
        return MOVES, f"{law} noise of scale {scale:.6g} has to move by {by}: {costs}"

    def _both(self, first: Any, second: Any) -> str:
        """Return two different values as text, with the value on x first."""
        return difference_in_words(*((first, second) if self.names == DIRECTIONS[0] else (second, first)))

    def in_order(self) -> tuple[Run, Run]:
        """Return the run on x and the run on x', in this order."""
        return (self.first, self.second) if self.names == DIRECTIONS[0] else (self.second, self.first)

    def first_different_count(self) -> tuple[str, Stack] | None:
        """Return a sentence and the place of the first count that differs between both runs, or None.

        A count is the number of values that a function of numpy such as `np.unique` has found. Later draws often have
        this size.
        """
        for one, other in zip(self.first.counts, self.second.counts, strict=False):
            if one.name == other.name and one.values != other.values:
                counts = f"the number of values from {one.name} is {self._both(one.values, other.values)}"
                return f"{counts}: the number of draws depends on the data", one.site
        return None

    def how_events_differ(self) -> str:
        """Return a sentence that says how both runs differ after their common beginning."""
        factor = self.explain_factor()
        if factor is not None:
            return factor.reason
        if self.n_events < min(len(self.first.events), len(self.second.events)):
            return OTHER_EVENTS
        return "the number of comparisons and released numbers depends on the data"

    def explain_factor(self) -> Explanation | None:
        """Return an explanation if the first difference is a factor by which one draw is multiplied, else None."""
        if self.n_events >= min(len(self.first.events), len(self.second.events)):
            return None
        one, other = (run.events[self.n_events] for run in (self.first, self.second))
        draws = [draw for draw, _ in one.terms]
        if one.kind != other.kind or len(draws) != 1 or draws != [draw for draw, _ in other.terms]:
            return None
        reason = f"noise is multiplied by {self._both(abs(one.terms[0][1]), abs(other.terms[0][1]))}"
        returned = self.second.returned or self.first.returned
        places = {RETURN: returned, COMPARE: self.first.draw_sites[one.terms[0][0]]}
        return Explanation(PARAMETER, reason, places.get(one.kind, other.site), self.cost(self.n_events))

    def _explain_others(self) -> Explanation:
        """Return an explanation for discrete draws and mechanisms of libraries that cost more than the claim.

        It names a mechanism that costs more than the claim by itself, or otherwise the last mechanism that has a cost.
        """
        cost, symbol = self.cost(self.n_events), self.claim.symbol
        reason, stack = "discrete draws have other probabilities", self.second.returned or self.first.returned
        steps: Any = zip(self.first.steps, self.second.steps, self.first.step_sites, strict=False)
        for one, other, site in steps:
            loss = one.loss_to(other)
            if not loss:
                continue
            reason, stack = f"input of {one.name} moves", site
            losses = (math.inf, loss) if one.concentrated else (loss, 0.0)
            own = cost_of(self.claim, Shift((), {}), [], [], *losses)
            if exceeds_claim(self.claim, own):
                costs = f"by itself this costs {symbol} {own:.6g} where {self.claim} is claimed"
                return Explanation(MOVES, f"{reason}: {costs}", stack, cost, True)
        costs = f"the run costs {symbol} {cost:.6g} where {self.claim} is claimed"
        return Explanation(BUDGET, f"{reason}: {costs}", stack, cost, True)


def _count_equal(pairs: Iterable[tuple[Any, Any]]) -> int:
    """Return the number of pairs before the first pair whose two values differ."""
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def cost_of(
    claim: Claim,
    shift: Shift,
    draws: Sequence[Draw],
    draws_prime: Sequence[Draw],
    others: float = 0.0,
    concentrated: float = 0.0,
) -> float:
    """Return the cost of shifted draws as a value of the claim's parameter; infinite if there is no finite bound.

    ``others`` is the loss of discrete draws and mechanisms, and ``concentrated`` the rho of mechanisms in zCDP.
    """
    return combined(claim, [loss_of_path(shift, draws, draws_prime, others, concentrated)])[0]

"""What two traces say: where a private value goes on another way than through noise, and how much noise it meets.

A trace as `epsaudit.tools.tracing.recorder` wrote it goes in, findings in the order of calls come out. Each is a
suspicion in
a sentence with both values. Where the law of the noise is known, the sentence says the loss of the component on its own
two inputs, which the output need not lose: other noise may cover it, and a difference may cancel it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP
from epsaudit.errors import QUOTED, AuditError, clipped
from epsaudit.mechanisms.known_laws import exact_parameter
from epsaudit.tools.tracing.primitives import OPAQUE, UTILITY
from epsaudit.tools.tracing.recorder import EVEN, RAISES, Event

BRANCHES = "branches on private data"
PARAMETER = "a parameter depends on private data"
MOVES = "input moves further than is paid for"
BUDGET = "more budget spent than claimed"
RELEASED = "a private value is released without noise"
UNLISTED = "draws without a known mechanism"
NOTHING_SEEN = "nothing seen"
KNOWN = ("laplace", "normal", "exponential", "geometric")
"""Laws of noise whose loss is computed."""
SAME = 1e-9
"""Relative difference up to which two numbers are equal: sums of the same numbers in another order differ so."""
EXCESS = 1e-6
"""By how much, relative to the claim, a loss is above it: what is calculated has errors of 1e-9."""
CHANCE = 1e-6
"""[measured] Probability at most that outputs tell their side, at one end, under a true claim. Of Laplace noise with
exactly the scale claimed, 100 outputs a side with 4,000 seeds, 16 % are suspected at 0.1, 0.08 % at 1e-3 and none at
1e-6; with a fifth of it 94 % are at 1e-6, 98 % at 1e-3 and 85 % at 1e-9."""
MOST_RUNS = 300
"""[time] Further runs on each side at most, of outputs that may be drawn: above epsilon 3.76 they show nothing. They
take 0.25 s of processor time of a function of numpy, the 23 at epsilon 1 0.01; twice as many would reach 4.45."""
NEAR = 16
"""Outputs near 0 on each side from which on their bits are compared: if half have fine ones, none has with 2^-16."""

STILL = [0.0, True]
"""The response of an output that does not move."""

Floats = NDArray[np.float64]
Place = tuple[str, int, str]
Laws = list[tuple[Any, Any]]
"""Pairs of laws, on x and on x', of independent noisy numbers."""


@dataclass(frozen=True)
class Suspicion:
    """Something that only data can have changed, or that moves further than its noise allows for."""

    kind: str
    """One of the kinds above."""
    sentence: str
    stack: tuple[Place, ...] = ()
    """File, line and function of the calls that led there, the innermost first."""
    loss: float | None = None
    """The claim's parameter that the noisy numbers of this component attain, released by themselves, where their laws
    are known. It is no loss of the output."""

    @property
    def file(self) -> str:
        return self.stack[0][0] if self.stack else "?"

    @property
    def line(self) -> int:
        return self.stack[0][1] if self.stack else 0

    @property
    def where(self) -> str:
        return f"{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        return f"{self.where} {self.sentence}"


class Judge:
    """Compares what a recorder wrote of one pair."""

    def __init__(self, told: Mapping[str, Any], claim: Claim | None) -> None:
        self.told, self.claim = told, claim
        self.events, self.primes = ([Event(**one) for one in told[name]] for name in ("events", "events_prime"))
        for number, one in enumerate(self.events):
            one.order = number
        self.pairs = [(self.events[one.order], one) for one in self.primes if one.order is not None]
        self.responses: dict[Any, dict[str, Any]] = dict(told["responses"])
        self.found: list[tuple[float, Suspicion]] = []
        self.aside: list[str] = []
        """What moves and is not judged, as it is not known how it meets noise."""

    def suspect(self, order: Any, kind: str, said: str, at: Any, loss: float | None = None) -> None:
        self.found.append((order, Suspicion(kind, said, tuple(map(tuple, at)), loss)))

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Return what is found, in the order of calls, once a place and kind."""
        moved = self.moved()
        reached = [one for one in moved if self.reaches(one)]
        self.branches()
        self.parameters()
        self.mechanisms(moved)
        self.reused(reached)
        self.spent([*reached, *self.outputs()])
        ordered = sorted(self.found, key=lambda one: one[0])
        return tuple({(one.kind, one.where): one for _, one in reversed(ordered)}.values())[::-1]

    def reaches(self, one: Event) -> bool:
        """Whether a number of the output follows what a call answers; if none does, it is not judged, but listed."""
        response = self.responses.get(one.order, {"": [1.0, True]}).values()
        follows = one.kind != "compare" and any(slope for slope, _ in response)
        if not follows:
            self.aside.append(f"{where(one)} {one.what}, by which the output may be chosen")
        return follows

    # what was called

    def branches(self) -> None:
        """Find draws of noise that one run makes and the other does not; what follows cannot be compared."""
        met = {one.order for one in self.primes}
        alone = [(place, one) for place, one in enumerate(self.events) if one.judged and place not in met]
        alone += [(place, one) for place, one in enumerate(self.primes) if one.judged and one.order is None]
        if alone:
            order, one = min(alone, key=lambda each: each[0])
            counts = [sum(each.call == one.call for each in run) for run in (self.events, self.primes)]
            x, x_prime = (("never", "once")[many] if many < 2 else f"{many} times" for many in counts)
            said = f"{one.what} is drawn {x} on x, {x_prime} on x': which draws are made depends on the data"
            self.suspect(order, BRANCHES, *(self.sized(order) or (said, one.at)))

    def sized(self, order: float) -> tuple[str, Any] | None:
        """Say what numpy counted before a call, and where, if it counted differently on both sides."""
        for before, one in self.pairs:
            if one.kind == "count" and (one.order or 0) < order and before.states != one.states:
                said = f"{one.what} gives {before.states['values']} values on x, {one.states['values']} on x'"
                return f"{said}: the shape of the noise depends on the data", one.at
        return None

    def parameters(self) -> None:
        """Find what must not depend on data: scales, sizes, bounds, what noise is multiplied by, shapes of inputs."""
        differs = not equal(self.told["outcome"]["leaves"], self.told["outcome_prime"]["leaves"])
        for before, one in self.pairs:
            sampled = one.kind == "scale" and all(self.events[draw].kind == "sample" for draw, _ in before.draws)
            if one.kind == "sample" or sampled or (one.states.get("live") and not differs):
                continue
            for name in sorted({*before.fixed, *one.fixed}):
                if not equal(was := before.fixed.get(name), now := one.fixed.get(name)):
                    both = on_both(was, now)
                    said = f"noise meets {both} ({one.what}): a private value beside it"
                    said = said if one.kind == "scale" else f"{one.what} is asked with {name} {both}"
                    why = self.sized(one.order or 0) if name == "size" else None
                    self.suspect(one.order, PARAMETER, *(why or (said, one.at)))
            x, x_prime = (None if (part := numbers(each.input)) is None else part.size for each in (before, one))
            records = one.norm == UTILITY or (one.norm in OPAQUE and not isinstance(one.input, dict))  # but for bytes
            if one.judged and x != x_prime and not records:
                said = f"{one.what} is given {x} values on x, {x_prime} on x': the shape depends on the data"
                self.suspect(one.order, PARAMETER, said, one.at)

    # how far inputs move, and for how much

    def moved(self) -> list[Event]:
        found = []
        for before, one in self.pairs:
            counts = one.kind == "compare" or ((one.judged or one.kind == "add") and not one.states.get("live"))
            if not counts or equal(before.input, one.input):
                continue
            draws: Any = [[one.order, 1.0]] if one.judged else before.draws
            if len(draws) == 1 and self.events[draws[0][0]].law in ("exponential", "geometric"):
                sums = [each.draws for each in self.events if len(each.draws) == 2]
                draws = next((both for both in sums if draws[0][0] in [draw for draw, _ in both]), draws)
            x, x_prime, gaps = numbers(before.input), numbers(one.input), None
            if x is not None and x_prime is not None and x.shape == x_prime.shape:
                with np.errstate(invalid="ignore"):
                    gaps = np.where(np.isclose(x, x_prime, 0.0, 0.0, True), 0.0, np.abs(x - x_prime))
                gaps[np.isnan(gaps)] = np.inf
            found.append(replace(one, draws=draws, gaps=gaps))
        return found

    def mechanisms(self, moved: Sequence[Event]) -> None:
        """Find inputs of mechanisms that move further than these say, and what further calls of them showed."""
        for one in moved:
            most = one.states.get("sensitivity")
            if one.norm == UTILITY and one.gaps is None:
                self.aside.append(f"{where(one)} {one.what}, which selects among other options")
            elif one.kind == "mechanism" and isinstance(most, int | float):
                order = {"l1": 1, "l2": 2}.get(one.norm, np.inf)
                far = math.inf if one.gaps is None else float(np.linalg.norm(one.gaps, order)) if one.gaps.size else 0.0
                if far > most * (1.0 + SAME):
                    said = f"input of {one.what} moves by {far:.6g} where sensitivity {most:.6g} is stated"
                    self.suspect(one.order, MOVES, said, one.at)
        for _, one in self.pairs:
            if "least" in one.states and one.states["least"] < one.states["alpha"]:
                by = f"bends by {one.states['least']:.6g} on an axis, where {one.states['alpha']:.6g} is stated"
                self.suspect(one.order, PARAMETER, f"the loss given to {one.what} {by}", one.at)
        moves = {one.order: (before, one) for before, one in self.pairs}
        for order, *sides in self.told["samples"]:
            before, one = moves[order]
            lone = beyond(*sides)
            if self.claim is not None and lone and not allows(self.claim, lone):
                said = f"{lone} of {len(sides[0])} outputs on one side are beyond all on the other"
                self.suspect(order, MOVES, f"input of {one.what} moves, and {said}", one.at)
            if self.told["bits"] and number_like(before.input, one.input):
                self.last_bits(one, max(abs(before.input), abs(one.input)), sides)

    def last_bits(self, one: Event, largest: float, sides: Sequence[Any]) -> None:
        """Find outputs whose last bits tell the input.

        The sum of the larger input and a float that nearly cancels it is a multiple of half a unit in the last place of
        that input. Counted are outputs as near to 0 as that, and those among them that are no such multiple.
        """
        finest, near, fine = 2.0 ** (math.frexp(largest)[1] - 54), [], []
        for side in sides:
            outputs = [each for each in side if isinstance(each, float) and 0.0 < abs(each) < largest / 4.0]
            near.append(len(outputs))
            fine.append(sum(math.fmod(each, finest) != 0.0 for each in outputs))
        most = int(fine[1] > fine[0])
        if min(near) >= NEAR and min(fine) == 0 and 2 * fine[most] >= near[most]:
            x, x_prime = ("x'", "x") if most else ("x", "x'")
            said = f"{fine[most]} of {near[most]} outputs of {one.what} near 0 have bits on {x} that none has on"
            self.suspect(one.order, MOVES, f"{said} {x_prime}: its noise is a float that is added", one.at)

    def reused(self, moved: Sequence[Event]) -> None:
        """Find one number drawn and added to several that move by different amounts: their difference has no noise."""
        moves = {one.order: one.gaps for one in moved}
        # a sum of a sum is of one number still
        inner = {number for one in self.events if one.kind == "add" for number in one.states["after"]}
        sums = defaultdict[int, dict[float, Event]](dict)
        for before, one in self.pairs:
            still, drawn = numbers(one.input), [self.events[draw] for draw, _ in before.draws]
            single = all(each.kind == "draw" and each.states["single"] for each in drawn)
            if one.kind == "add" and still is not None and single and one.order not in inner:
                far = np.zeros(still.size) if moves.get(one.order) is None else moves[one.order]
                sums[before.draws[0][0]].update((round(gap, 9), one) for gap in far.tolist())
        for several in sums.values():
            if len(several) > 1:
                by = " and ".join(f"{far:.6g}" for far in sorted(several)[:3])
                said = f"one draw is added to numbers that move by {by}: their difference has no noise"
                last = max(several.values(), key=lambda one: one.order or 0)
                self.suspect(last.order, MOVES, said, last.at)

    def spent(self, moved: Sequence[Event]) -> None:
        """Find where the noise that reaches the output does not pay for the moves, alone or together."""
        known: list[tuple[Event, Laws]] = []
        for one in moved:
            said, laws = self.laws(one)
            self.overspent(MOVES, said, one, laws)
            known += [(one, laws)] if laws else []
            if (not laws and one.kind != "mechanism") or one.states.get("rounded"):
                self.aside.append(f"{where(one)} {one.what}, which meets data in a way that is not seen")
        if len(known) > 1 and not any(suspicion.kind == MOVES for _, suspicion in self.found):
            lines = sorted({where(one) for one, _ in known})
            said = f"{len(known)} inputs move together ({clipped(', '.join(lines), QUOTED)})"
            self.overspent(BUDGET, said, known[-1][0], [law for _, laws in known for law in laws])

    def overspent(self, kind: str, said: str, one: Event, laws: Laws) -> None:
        """Suspect a call if the laws of its component, released by itself, attain more than the claim."""
        spent = parameter(self.claim, laws) if self.claim is not None and laws else None
        if spent is not None and self.claim is not None and spent > self.claim.parameter * (1.0 + EXCESS):
            loses = "together they lose" if kind == BUDGET else "by itself it loses"
            said = f"{said}: {loses} {self.claim.symbol} {spent:.6g} where {self.claim} is claimed"
            self.suspect(one.order, kind, said, one.at, spent if one.kind == "add" else None)

    def noise(self, one: Event) -> tuple[str, Any]:
        """Return law and scale, weights counted, of the noise that an input meets; None where these are not known."""
        (first, weight), *others = one.draws
        event, like = self.events[first], self.events[others[0][0]] if others else None
        law, states, scale = event.law, event.states, event.fixed.get("scale", 1.0)
        if one.kind == "mechanism":
            return law, states.get("scale") if law else None
        if not one.states.get("known", True) or len(others) > 1:
            return law, None
        if like is None:
            known = law in ("laplace", "normal", "exponential")
            return law, np.abs(np.asarray(numbers(scale)) * numbers(weight)) if known else None
        alike = event.law == like.law and equal(event.fixed, like.fixed)
        if not alike or not number_like(weight) or others[0][1] != -weight:
            return law, None
        if law == "geometric" and abs(weight) == 1.0:
            return "discrete laplace", -1.0 / math.log1p(-event.fixed["p"])
        return "laplace", scale * abs(weight) if law == "exponential" else None

    def laws(self, one: Event) -> tuple[str, Laws]:
        """Say how an input moves, and return what the noisy numbers are drawn from; nothing where that is not known."""
        from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, LaplaceLaw, NormalLaw

        (law, scale), said, epsilon = self.noise(one), f"input of {one.what} moves", one.states.get("epsilon")
        if scale is None and one.kind == "mechanism" and epsilon is not None:
            return said, [dominating(float(epsilon), float(one.states.get("delta") or 0.0))]
        if scale is None or one.gaps is None:
            return said, []
        found: Laws = []
        kinds: Any = {"laplace": LaplaceLaw, "normal": NormalLaw, "discrete laplace": DiscreteLaplaceLaw}
        widths = np.resize(scale, one.gaps.shape).tolist() if np.size(scale) in (1, one.gaps.size) else []
        for far, width in zip(one.gaps.tolist(), widths, strict=False):
            if far and (math.isinf(far) or not 0.0 < width < math.inf or law == "exponential"):
                found.append(dominating(math.inf, 0.0))
            elif far:
                far = math.ceil(far) if law == "discrete laplace" else far
                found.append((kinds[law](0, width), kinds[law](far, width)))
        norm, far = ("L2", np.linalg.norm(one.gaps)) if law == "normal" else ("L1", one.gaps.sum())
        by = f"{far:.6g}" + f" in the {norm} norm" * bool(np.count_nonzero(one.gaps) > 1)
        width = float(np.ravel(scale)[0])
        return f"input moves by {by} where {law} noise of scale {width:.6g} is added", found

    # what comes out

    def outputs(self) -> list[Event]:
        """Find what differs although all that was drawn was answered alike.

        Returned are draws that it follows though no sum of them with data was seen, and how far it moved.
        """
        end, outcomes, still = len(self.events), (self.told["outcome"], self.told["outcome_prime"]), self.told["still"]
        (x, x_prime), again = (one["leaves"] for one in outcomes), self.told["repeated"]
        raises, varies = x[RAISES] != x_prime[RAISES], self.told["unseen"] or any(map(unknown, self.events))
        found: list[Event] = []
        for name in [RAISES] if raises else still or {**x, **x_prime}:
            value, other, same = (side.get(name, "not there") for side in (x, x_prime, again))
            if name not in still:  # as far as was looked
                if varies or equal(value, other) or not equal(value, same):
                    continue
                if one := self.followed(name, value, other):
                    found.append(one)
                    continue
            at, order = outcomes[1]["at"] or outcomes[0]["at"], float(end)
            said = f"output{name} is {on_both(value, other)}"
            if raises:  # before what the other side alone draws after it
                side, raised = ("x'", outcomes[1]) if x_prime[RAISES] else ("x", outcomes[0])
                said = f"{raised['leaves'][RAISES]} is raised on {side} alone ({clipped(raised['says'], QUOTED)})"
                at, order = raised["at"], max((one.order or 0 for one, _ in self.pairs), default=-1) + 0.5
            elif name in still:
                said += ", whatever is drawn"
            else:
                said += " with all noise alike: a private value reaches it beside the noise"
            self.suspect(order, BRANCHES if raises else RELEASED, said, at)
            break
        return found

    def followed(self, name: str, value: Any, other: Any) -> Event | None:
        """Return the sum of draws that an output follows, and how far it moved; None if it reacts to none unseen."""

        def drawn(sums: Iterable[Event]) -> set[int]:
            return {draw for one in sums if one.kind == "add" and one.input is not None for draw, _ in one.draws}

        # what is summed on one side alone, or with what is not as recorded, was not seen
        met = {one.order for one in self.primes if not one.states.get("live")}
        lost = {self.primes[draw].order for draw in drawn(one for one in self.primes if one.order is None)}
        lost |= drawn(one for one in self.events if one.order not in met)
        seen = drawn(one for one in self.events if one.order in met) - lost
        reacts = {
            order: response[name]
            for order, response in self.responses.items()
            if self.events[order].kind == "draw" and order not in seen and response.get(name, STILL) != STILL
        }
        if not reacts:
            return None
        order, (unit, _) = next(iter(reacts.items()))
        even = bool(unit) and number_like(value, other) and all(slope for slope, _ in reacts.values())
        first: Event = replace(
            self.events[order],
            draws=[[draw, slope / unit if even else 1.0] for draw, (slope, _) in reacts.items()],
            gaps=np.array([abs((other - value) / unit) * (1.0 - EVEN)]) if even else None,
            states={**self.events[order].states, "rounded": not all(whole for _, whole in reacts.values())},
        )
        return first

    def unlisted(self) -> tuple[str, ...]:
        """Say what is drawn without a mechanism that is known: places, each with what is drawn there."""
        return tuple(dict.fromkeys([*(f"{where(one)} {one.what}" for one in self.events if unknown(one)), *self.aside]))

    def unseen(self) -> tuple[str, ...]:
        """Say what was not seen."""
        found = [*self.told["unseen"], *(f"the output holds an object of type {one}" for one in self.told["unread"])]
        if not equal(self.told["outcome"]["leaves"], self.told["repeated"]):
            found.append("the output varies though nothing of it was drawn where it is seen: compiled code, or state")
        if all(raised := [self.told[side]["leaves"][RAISES] for side in ("outcome", "outcome_prime")]):
            found.append(f"{' and '.join(dict.fromkeys(raised))} is raised on both: nothing after that is seen")
        return tuple(found)


def allows(claim: Claim, told: int) -> bool:
    """Whether so many outputs may all tell their side, for a curve as far as its delta at `CHANCE` says.

    Under epsilon-DP one of them does with probability 1 / (1 + e^-epsilon) at most, be it the next lowest of all, or A
    on x and B on x': with probabilities a and b, a <= e^epsilon (1 - b) and the reverse, so that a + b is twice that.
    """
    epsilon, point = -math.log(math.expm1(-math.log(CHANCE) / told)), claim.claimed_point
    within = point[0] > epsilon if point else epsilon < 0.0 or claim.least_at(epsilon, CHANCE) <= claim.parameter
    return bool(within)


def free_runs(claim: Claim | None) -> int:
    """Return how many runs on each side show that a part of the output is drawn at all; 0 if `MOST_RUNS` do not."""
    runs = range(1, MOST_RUNS + 1) if claim is not None and claim.claimed_point else [MOST_RUNS]  # a curve takes 5 ms
    return next((many for many in runs if claim is None or not allows(claim, 2 * many)), 0)


def beyond(side: list[Any], side_prime: list[Any]) -> int:
    """Return how many of one side are below, or above, all of the other, at the place of an array where most are.

    Of what is no array of numbers it is how many repeat others of their side, if none is on both.
    """
    x, x_prime = ([numbers(one) for one in outputs] for outputs in (side, side_prime))
    sizes = {0 if one is None else one.size for one in (*x, *x_prime)}
    if len(sizes) > 1 or 0 in sizes:
        texts = [{repr(one) for one in outputs} for outputs in (side, side_prime)]
        return (len(side) - min(map(len, texts))) * texts[0].isdisjoint(texts[1])
    first, other = np.array(x), np.array(x_prime)
    ways = first < other.min(0), first > other.max(0), other < first.min(0), other > first.max(0)
    return int(max(way.sum(0).max() for way in ways))


def dominating(epsilon: float, delta: float) -> tuple[Any, Any]:
    """Return the pair of laws that loses most of all that are (epsilon, delta)-DP (Kairouz, Oh and Viswanath 2015)."""
    from epsaudit.mechanisms.laws import FiniteLaw

    share = 1.0 / (1.0 + math.exp(-epsilon))
    with np.errstate(divide="ignore"):
        logs = np.log([delta, (1.0 - delta) * share, (1.0 - delta) * (1.0 - share), 0.0])
    return FiniteLaw("abcd", logs), FiniteLaw("abcd", logs[::-1])


def parameter(claim: Claim, laws: Laws) -> float | None:
    """Return the exact parameter of a claim on independent laws; None where it is not known."""
    from epsaudit.mechanisms.laws import LaplaceLaw, NormalLaw

    normal = [((other.centre - one.centre) / one.scale) ** 2 for one, other in laws if type(one) is NormalLaw]
    square = math.fsum(normal)  # of independent ones the squares add up
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


def numbers(value: Any) -> Floats | None:
    """Return the numbers, or bytes, of an input, None if it holds anything else."""
    if isinstance(value, dict):
        value = list(bytes.fromhex(value["bytes"])) if "bytes" in value else value.get("array")
    if isinstance(value, list):
        parts = [one for one in map(numbers, value) if one is not None]
        return (np.concatenate(parts) if parts else np.empty(0)) if len(parts) == len(value) else None
    return np.array([float(value)]) if isinstance(value, int | float) else None


def unknown(one: Event) -> bool:
    """Whether it is drawn without a mechanism that is known."""
    drawn = one.kind == "sample" or (one.kind == "draw" and one.law not in KNOWN)
    return drawn or (one.kind == "mechanism" and one.norm in OPAQUE)


def where(one: Event) -> str:
    """Return file and line of a call."""
    return Suspicion("", "", tuple(one.at)).where


def number_like(*values: Any) -> bool:
    """Whether all are numbers."""
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, but for the rounding of sums."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    close = number_like(one, other) and math.isclose(one, other, rel_tol=SAME)
    return close or (type(one) is type(other) and bool(one == other or (one != one and other != other)))


def on_both(value: Any, other: Any) -> str:
    """Write two values that differ so that it is seen where: with enough digits, and the part at which texts differ."""
    if isinstance(value, float) and isinstance(other, float):
        digits = next((few for few in range(6, 17) if f"{value:.{few}g}" != f"{other:.{few}g}"), 17)
        digits += digits > 6  # so that 0.99999999 stands beside 1.00000001, and not beside 1
        return f"{value:.{digits}g} on x, {other:.{digits}g} on x'"
    texts = [f"{one:.6g}" if isinstance(one, float) else str(one) for one in (value, other)]
    pairs = enumerate(zip(*texts, strict=False))
    same = next((place for place, both in pairs if both[0] != both[1]), min(map(len, texts)))
    start = max(same - QUOTED // 2, 0) if max(map(len, texts)) > QUOTED and same > QUOTED // 2 else 0
    x, x_prime = ("..." * (start > 0) + clipped(one[start:], QUOTED) for one in texts)
    return f"{x} on x, {x_prime} on x'"

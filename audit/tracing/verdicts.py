"""What two traces say: where a private value goes on another way than through noise, and how much noise it meets.

A trace as `epsaudit.tracing.recorder` wrote it goes in, findings in the order of calls come out. Each is a suspicion in
a sentence with both values; of noise whose law is known the loss of the component on this pair is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import exact_parameter
from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError, clipped
from epsaudit.tracing import primitives
from epsaudit.tracing.recorder import FEW_CALLS, KNOWN, RAISES, SINGLE

BRANCHES = "branches on private data"
PARAMETER = "a parameter depends on private data"
MOVES = "input moves further than is paid for"
BUDGET = "more budget spent than claimed"
RELEASED = "a private value is released without noise"
UNLISTED = "draws without a known mechanism"
NOTHING_SEEN = "nothing seen"
SAME = 1e-9
"""Relative difference up to which two numbers are equal: sums of the same numbers in another order differ so."""
EXCESS = 1e-6
"""By how much, relative to the claim, a loss is above it: what is calculated has errors of 1e-9."""
LONGEST = 60
"""Characters of a value in a sentence. Set by hand."""
BENT = 1e-3
"""Relative error of second derivatives by differences, and more."""
SURE = 12.0
"""Runs on one side of 0 that a claim leads to expect, of which there is none: that has probability e^-12 at most."""
NEAR = 16
"""Outputs near 0 on each side from which on their bits are compared: if half have fine ones, none has with 2^-16."""

Floats = NDArray[np.float64]
Place = tuple[str, int, str]
Laws = tuple[tuple[Any, Any], ...]
"""Pairs of laws, on x and on x', of independent noisy numbers."""


@dataclass(frozen=True)
class Suspicion:
    """Something that only data can have changed, or that moves further than its noise allows for."""

    kind: str
    """One of the kinds above."""
    sentence: str
    stack: tuple[Place, ...] = ()
    """File, line and function of the calls that led there, the innermost first."""
    exact: float | None = None
    """The claim's parameter that the noisy numbers attain, where their laws are known."""

    @property
    def file(self) -> str:
        return self.stack[0][0] if self.stack else "?"

    @property
    def line(self) -> int:
        return self.stack[0][1] if self.stack else 0

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} {self.sentence}"

    def to_dict(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("kind", "sentence", "file", "line", "exact")}
        return {**told, "stack": [list(one) for one in self.stack]}


class Event:
    """One call of a trace, as `epsaudit.tracing.recorder.Event` wrote it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.kind, self.what, self.match, self.norm = (told[name] for name in ("kind", "what", "match", "norm"))
        self.draws: list[Any] = told["draws"]
        self.stack = places(told["at"])
        self.fixed, self.states = (dict(told[name]) for name in ("fixed", "states"))
        self.given = "input" in told
        self.input: Any = told.get("input")
        self.judged = self.kind in ("draw", "mechanism")  # whether how often it is called must not depend on data
        self.key = self.kind, self.what, self.stack

    @property
    def law(self) -> Any:
        return self.states.get("law")


@dataclass(frozen=True)
class Moved:
    """An input that moved, and the noise that it meets."""

    order: int
    """The number of its event on x."""
    event: Event
    draws: Sequence[Any]
    """Events, places and weights: one draw, or the two of whose difference the noise is."""
    distances: Floats | None
    """By how much each of its numbers moved; None of what is no array of numbers."""

    @property
    def mechanism(self) -> bool:
        return bool(self.event.kind == "mechanism")

    @property
    def farthest(self) -> float:
        return math.inf if self.distances is None else float(self.distances.max(initial=0.0))


class Judge:
    """Compares what a recorder wrote of one pair."""

    def __init__(self, told: Mapping[str, Any], claim: Claim | None) -> None:
        self.told, self.claim = told, claim
        self.events, self.primes = ([Event(one) for one in told[name]] for name in ("events", "events_prime"))
        self.pairs = [(one.match, self.events[one.match], one) for one in self.primes if one.match is not None]
        self.responses: dict[int, list[Any]] = dict(told["responses"])
        self.differs = told["outcome"]["leaves"] != told["outcome_prime"]["leaves"]
        self.found: list[tuple[float, Suspicion]] = []

    def suspect(self, order: float, kind: str, said: str, stack: Sequence[Place], exact: float | None = None) -> None:
        self.found.append((order, Suspicion(kind, said, tuple(stack), exact)))

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Return what is found, in the order of calls, once a place and kind."""
        moved = [Moved(*one) for one in self.moved()]
        self.branches()
        self.parameters()
        self.mechanisms(moved)
        self.reused(moved)
        self.spent([one for one in moved if one.mechanism or self.reaches(one.order)])
        self.outputs()
        ordered = sorted(self.found, key=lambda one: one[0])
        return tuple({(one.kind, one.file, one.line): one for _, one in reversed(ordered)}.values())[::-1]

    def over(self, laws: Laws) -> float | None:
        """Return the claim's parameter that laws attain, if it is above the claim."""
        spent = parameter(self.claim, laws) if self.claim is not None and laws else None
        return spent if spent is not None and self.claim and spent > self.claim.parameter * (1.0 + EXCESS) else None

    # what was called

    def branches(self) -> None:
        """Find draws of noise that one run makes and the other does not; what follows cannot be compared."""
        met, last, alone = {one.match for one in self.primes}, 0.0, []
        for one in self.primes:
            last = last + EXCESS if one.match is None else float(one.match)
            alone += [(last, one)] if one.match is None and one.judged else []
        alone += [(float(place), one) for place, one in enumerate(self.events) if place not in met and one.judged]
        if alone:
            order, one = min(alone, key=lambda each: each[0])
            x, x_prime = (times(sum(each.key == one.key for each in run)) for run in (self.events, self.primes))
            said = f"{one.what} is drawn {x} on x, {x_prime} on x': which draws are made depends on the data"
            why = self.sized(order)
            self.suspect(order, BRANCHES, *(why or (said, one.stack)))

    def sized(self, order: float) -> tuple[str, tuple[Place, ...]] | None:
        """Say what numpy counted before a call, and where, if it counted differently on both sides."""
        for one, other in zip(*self.told["sizes"], strict=False):
            if one[1:3] == other[1:3] and one[3] != other[3] and one[0] <= order + 1:
                said = f"{one[1]} gives {one[3]} values on x, {other[3]} on x'"
                return f"{said}: the shape of the noise depends on the data", places(one[2])
        return None

    def parameters(self) -> None:
        """Find what must not depend on data: scales, sizes, bounds, what noise is multiplied by, shapes of inputs."""
        for order, before, one in self.pairs:
            drawn = [self.events[draw].kind for draw, *_ in before.draws]
            covered = one.states.get("live") and not self.differs
            if one.kind in ("sample", "join") or covered or (one.kind == "scale" and {*drawn} == {"sample"}):
                continue
            for name in sorted({*before.fixed, *one.fixed}):
                was, now = before.fixed.get(name), one.fixed.get(name)
                if equal(was, now):
                    continue
                said = f"{one.what} is asked with {name} {shown(was)} on x, {shown(now)} on x'"
                if one.kind == "scale":
                    said = f"noise meets {shown(was)} on x, {shown(now)} on x' ({one.what}): a private value beside it"
                why = self.sized(order) if name == "size" else None
                self.suspect(order, PARAMETER, *(why or (said, one.stack)))
            was, now = shape_of(before.input), shape_of(one.input)
            bits = isinstance(one.input, dict) and "bytes" in one.input  # what else is opaque may be given records
            if one.judged and was != now and (one.norm not in (*primitives.OPAQUE, "event") or bits):
                said = f"{one.what} is given {words(was)} on x, {words(now)} on x': the shape depends on the data"
                self.suspect(order, PARAMETER, said, one.stack)

    # how far inputs move, and for how much

    def moved(self) -> Iterator[tuple[int, Event, Sequence[Any], Floats | None]]:
        for order, before, one in self.pairs:
            if not one.given or one.kind not in ("draw", "mechanism", "add") or one.states.get("live"):
                continue
            if equal(before.input, one.input):
                continue
            draws: Sequence[Any] = [[order, 0, 1.0]] if one.judged else before.draws
            if len(draws) == 1 and self.events[draws[0][0]].law in ("exponential", "geometric"):
                joined = [each.draws for each in self.events if each.kind == "join"]
                draws = next((both for both in joined if draws[0][0] in [draw for draw, *_ in both]), draws)
            x, x_prime = numbers(before.input), numbers(one.input)
            if x is None or x_prime is None or x.shape != x_prime.shape:
                yield order, one, draws, None
                continue
            with np.errstate(invalid="ignore"):
                gaps = np.abs(x - x_prime)
            alike = (x == x_prime) | (np.isnan(x) & np.isnan(x_prime))
            yield order, one, draws, np.where(alike, 0.0, np.where(np.isnan(gaps), np.inf, gaps))

    def reaches(self, order: int) -> bool:
        """Whether the output is a number that follows this answer, or nobody looked."""
        response = self.responses.get(order)
        return response is None or bool(any(response))

    def mechanisms(self, moved: Sequence[Moved]) -> None:
        """Find inputs of mechanisms that move further than these say, and what further calls of them showed."""
        for one in moved:
            event, most = one.event, one.event.states.get("sensitivity")
            if one.mechanism and isinstance(most, int | float):
                far = math.inf if one.distances is None else distance(one.distances, event.norm)
                if far > most * (1.0 + SAME):
                    said = f"input of {event.what} moves by {number(far)} where sensitivity {number(most)} is stated"
                    self.suspect(one.order, MOVES, said, event.stack)
        for order, before, event in self.pairs:
            if event.norm == "curvature" and before.input and event.input:
                self.bent(order, before.input, event)
        for place, look in self.told["looks"]:
            event = self.primes[place]
            order = event.match
            if look.get("apart"):
                said = f"none of {FEW_CALLS} outputs of {event.what} on x' is where one of as many is on x"
                self.suspect(order, RELEASED, said, event.stack)
            far, loss, measure = look["loss"] or (0.0, 0.0, "")
            if (spent := self.over(measured(loss, measure))) is not None and self.claim is not None:
                said = f"input of {event.what} moves by {number(far)}, for which it states {number(loss)} in {measure}"
                said = f"{said}: {self.claim.symbol} {number(spent)} where {self.claim} is claimed"
                self.suspect(order, MOVES, said, event.stack)
            (near, fine), (near_prime, fine_prime) = look.get("bits") or ((0, 0), (0, 0))
            half = max(2 * fine - near, 2 * fine_prime - near_prime) >= 0
            if min(near, near_prime) >= NEAR and min(fine, fine_prime) == 0 and half:
                some, those, x, x_prime = (fine, near, "x", "x'") if fine else (fine_prime, near_prime, "x'", "x")
                said = f"{some} of {those} outputs of {event.what} near 0 have bits on {x} that none has on {x_prime}"
                self.suspect(order, MOVES, f"{said}: its noise is a float that is added", event.stack)

    def bent(self, order: int, bends: Any, event: Event) -> None:
        """Judge objective perturbation: how much records bend the loss, and how much it bends everywhere."""
        most, least = event.states["curvature"], event.states["alpha"]
        (at_0, far), (at_0_prime, far_prime) = bends, event.input or ((), ())
        if (moves := max(abs(x - y) for x, y in zip(at_0, at_0_prime, strict=True))) > most * (1.0 + BENT):
            said = f"records bend the loss given to {event.what} by {number(moves)} where {number(most)} is stated"
            self.suspect(order, MOVES, said, event.stack)
        if (bend := min(*far, *far_prime)) < least * (1.0 - BENT):
            said = f"the loss given to {event.what} bends by {number(bend)} on an axis, where {number(least)} is stated"
            self.suspect(order, PARAMETER, said, event.stack)

    def reused(self, moved: Sequence[Moved]) -> None:
        """Find one draw added to several numbers that move by different amounts: their difference has no noise."""
        moves = {one.order: one.distances for one in moved if self.reaches(one.order)}
        sums: dict[tuple[int, float], list[tuple[int, float]]] = {}
        for order, before, one in self.pairs:
            if one.kind != "add" or any(self.events[draw].kind != "draw" for draw, *_ in before.draws):
                continue
            still, far = numbers(one.input), moves.get(order)
            far = np.zeros(1 if still is None else max(still.size, 1)) if far is None else far
            for draw, spots, _ in before.draws[:1]:
                for spot, each in zip(itertools.cycle(np.ravel(spots).tolist()), far.tolist(), strict=False):
                    sums.setdefault((draw, spot), []).append((order, each))
        for several in sums.values():
            # a sum of a sum is of one number still
            inner = {number for order, _ in several for number in self.events[order].states["after"]}
            ends = [(order, round(far, 9)) for order, far in several if order not in inner]
            gaps = sorted({far for _, far in ends})
            if len(gaps) > 1:
                event = self.events[ends[-1][0]]
                said = f"one draw is added to {len(ends)} numbers, which move by {' and '.join(map(number, gaps[:3]))}"
                self.suspect(ends[-1][0], MOVES, f"{said}: their difference has no noise", event.stack)

    def spent(self, moved: Sequence[Moved]) -> None:
        """Find where the noise that reaches the output does not pay for the moves, alone or together."""
        losses: list[tuple[Moved, Laws]] = []
        for one in moved:
            self.by_size(one)
            if laws := self.laws(one):
                losses.append((one, laws))
                if (spent := self.over(laws)) is not None:
                    self.overspent(MOVES, self.described(one), one, spent)
        together = tuple(itertools.chain.from_iterable(laws for _, laws in losses))
        alone = any(suspicion.kind == MOVES for _, suspicion in self.found)
        if len(losses) > 1 and not alone and (spent := self.over(together)) is not None:
            lines = sorted({f"{Path(file).name}:{line}" for one, _ in losses for file, line, _ in one.event.stack[:1]})
            said = f"{len(losses)} inputs move together ({clipped(', '.join(lines), LONGEST)})"
            self.overspent(BUDGET, said, losses[-1][0], spent)

    def overspent(self, kind: str, said: str, one: Moved, spent: float) -> None:
        assert self.claim is not None
        said = f"{said}: it loses {self.claim.symbol} {number(spent)} where {self.claim} is claimed"
        exact = None if one.mechanism or one.event.states.get("rounded") else spent
        self.suspect(one.order, kind, said, one.event.stack, exact)

    def described(self, one: Moved) -> str:
        known = self.law(one)
        if known is None or known[0] == "finite":
            return f"{'input' if known is None else 'probabilities'} of {one.event.what} moves"
        scale = float(np.ravel(known[1])[0])
        return f"input moves by {number(one.farthest)} where {known[0]} noise of scale {number(scale)} is added"

    def by_size(self, one: Moved) -> None:
        """Judge noise of no known law by its mean size, and by its sign.

        Noise n that is added to numbers that are d apart, under epsilon-DP, has E|n| >= d / sinh(epsilon): on every set
        of places d apart its probabilities fall by e^-epsilon at most from one to the next, and a two-sided geometric
        law, which falls so from 0 on, has that mean. Half of it is asked for, as the mean is of 100 runs. And it is
        below 0 at least e^-epsilon times as often as in [0, d).
        """
        samples = dict(map(tuple, self.told["noises"])).get(one.order) if isinstance(self.claim, PureDP) else None
        if not samples or one.distances is None or not 0.0 < self.claim.parameter < 700.0:  # type: ignore[union-attr]
            return
        noise = np.array([numbers(each) for each in samples], float)
        epsilon, far = self.claim.parameter, np.resize(one.distances, noise.shape[1])  # type: ignore[union-attr]
        mean, said = np.abs(noise).mean(axis=0), ""
        if (short := far / math.sinh(epsilon) > 2.0 * mean).any():
            said = f"by {number(far[short.argmax()])} where noise of mean size {number(mean[short.argmax()])} is added"
        for sign, side in ((1.0, "below"), (-1.0, "above")):
            within = ((sign * noise >= 0.0) & (sign * noise < far)).sum(axis=0)
            if ((within * math.exp(-epsilon) >= SURE) & ((sign * noise < 0.0).sum(axis=0) == 0)).any():
                said = f"by {number(far.max())} where noise is added that is never {side} 0 in {len(noise)} runs"
        if said:
            self.suspect(one.order, MOVES, f"input moves {said}, and {self.claim} is claimed", one.event.stack)

    def law(self, one: Moved) -> tuple[str, Any] | None:
        """Return law and scale, weights counted, of the noise that an input meets; None where they are not known."""
        first, _, weight = one.draws[0]
        event, states, fixed = self.events[first], self.events[first].states, self.events[first].fixed
        if one.mechanism:
            known = event.law == "laplace" and not states.get("delta") and states.get("epsilon")
            return ("laplace", states["sensitivity"] / states["epsilon"]) if known else None
        if not one.event.states.get("known", True):
            return None
        if len(one.draws) == 2:
            other = self.events[one.draws[1][0]]
            same = event.law == other.law and equal(event.fixed, other.fixed) and one.draws[1][2] == -weight
            if not same or np.ndim(weight):
                return None
            if event.law == "exponential":
                return "laplace", fixed.get("scale", 1.0) * abs(weight)
            geometric = event.law == "geometric" and abs(weight) == 1.0
            return ("discrete laplace", -1.0 / math.log1p(-fixed["p"])) if geometric else None
        if len(one.draws) == 1 and event.law in ("laplace", "normal", "exponential"):
            return event.law, np.abs(np.asarray(numbers(fixed.get("scale", 1.0))) * np.ravel(weight))
        return ("finite", None) if event.law == "finite" else None

    def laws(self, one: Moved) -> Laws:
        """Return what a noisy number, or several, are drawn from; () where that is not known."""
        from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw, NormalLaw

        known, states = self.law(one), one.event.states
        if known is None:
            epsilon = states.get("epsilon") if one.mechanism else None
            stated = isinstance(epsilon, int | float) and epsilon >= 0.0
            return (dominating(float(epsilon), float(states.get("delta") or 0.0)),) if stated else ()  # type: ignore[arg-type]
        law, scale = known
        if law == "finite":
            with np.errstate(divide="ignore"):
                sides = [np.log(np.ravel(numbers(each.input))) for each in (self.events[one.order], one.event)]  # type: ignore[arg-type]
            alike = len(sides[0]) == len(sides[1])
            return ((FiniteLaw(range(len(sides[0])), sides[0]), FiniteLaw(range(len(sides[1])), sides[1])),) * alike
        if one.distances is None or np.size(scale) not in (1, one.distances.size):
            return ()
        found: list[tuple[Any, Any]] = []
        scales = np.broadcast_to(np.ravel(scale), one.distances.shape)
        for far, width in zip(one.distances.tolist(), scales.tolist(), strict=True):
            if far and (math.isinf(far) or not 0.0 < width < math.inf or law == "exponential"):
                found.append(dominating(math.inf, 0.0))
            elif far and law == "discrete laplace":
                found.append((DiscreteLaplaceLaw(0, width), DiscreteLaplaceLaw(math.ceil(far), width)))
            elif far:
                kind = NormalLaw if law == "normal" else LaplaceLaw
                found.append((kind(0.0, width), kind(far, width)))
        return tuple(found)

    # what comes out

    def outputs(self) -> None:
        """Find outputs that differ although all that was drawn was answered alike."""
        end, outcomes = len(self.events), (self.told["outcome"], self.told["outcome_prime"])
        sides = [dict(map(tuple, one["leaves"])) for one in outcomes]
        repeated, still = dict(map(tuple, self.told["repeated"])), self.told["still"]
        stack = places(outcomes[1]["at"] or outcomes[0]["at"])
        if sides[0][RAISES] != sides[1][RAISES]:
            side, told = ("x'", outcomes[1]) if sides[1][RAISES] else ("x", outcomes[0])
            if RAISES in still:
                name, says = told["leaves"][0][1], clipped(told.get("says", ""), LONGEST)
                self.suspect(end, BRANCHES, f"{name} is raised on {side} alone ({says})", places(told["at"]))
            return
        for name in still[:1]:
            was, now = (shown(side[name]) if name in side else "not there" for side in sides)
            said = f"output{name} is {was} on x, {now} on x', whatever is drawn"
            self.suspect(end, RELEASED, said, stack)
            return
        vary = self.told["unseen"] or self.unlisted() or sides[0].keys() != sides[1].keys()
        for place, (name, value) in enumerate(sides[0].items()):
            other = sides[1].get(name)
            if (
                vary
                or equal(value, other)
                or not equal(value, repeated.get(name))
                or self.followed(place, value, other)
            ):
                continue
            said = f"output{name} is {shown(value)} on x, {shown(other)} on x' with all noise alike"
            self.suspect(end, RELEASED, f"{said}: a private value reaches it beside the noise", stack)
            return

    def followed(self, place: int, value: Any, other: Any) -> bool:
        """Whether an output follows a draw of which no sum was seen; how far it moves is then judged by its law."""
        met = {one.match for one in self.primes}
        sums = [(order in met, one.draws) for order, one in enumerate(self.events) if one.kind == "add"]
        live = [one.draws for one in self.primes if one.kind == "add" and (one.match is None or one.states["live"])]
        late = {self.primes[draw].match for draws in live for draw, *_ in draws}
        seen = {draw for matched, draws in sums for draw, *_ in draws if matched} - late
        seen -= {draw for matched, draws in sums for draw, *_ in draws if not matched}
        drawn = [
            (order, response[place])
            for order, response in self.responses.items()
            if self.events[order].kind == "draw" and order not in seen and place < len(response) and response[place]
        ]
        if len(drawn) == 1 and number_like(value, other):
            order, slope = drawn[0]
            far = abs((other - value) / slope) * (1.0 - SINGLE)
            one = Moved(order, self.events[order], [[order, 0, 1.0]], np.array([far]))
            if (spent := self.over(self.laws(one))) is not None:
                said = f"{self.described(one)}: it loses {number(spent)} where {self.claim} is claimed"
                self.suspect(order, MOVES, said, one.event.stack)
        return bool(drawn)

    def unlisted(self) -> tuple[str, ...]:
        """Say what is drawn without a mechanism that is known: places, each with what is drawn there."""
        found: dict[str, None] = {}
        for one in self.events:
            drawn = one.kind == "sample" or (one.kind == "draw" and one.law not in (*KNOWN, "finite"))
            if drawn or (one.kind == "mechanism" and one.norm in primitives.OPAQUE):
                file, line, _ = one.stack[0] if one.stack else ("?", 0, "")
                found[f"{Path(file).name}:{line} {one.what}"] = None
        return tuple(found)


def places(listed: Sequence[Sequence[Any]]) -> tuple[Place, ...]:
    """Return a stack that JSON wrote."""
    return tuple((file, line, name) for file, line, name in listed)


def dominating(epsilon: float, delta: float) -> tuple[Any, Any]:
    """Return the pair of laws that loses most of all that are (epsilon, delta)-DP (Kairouz, Oh and Viswanath 2015)."""
    from epsaudit.mechanisms.laws import FiniteLaw

    share = 1.0 / (1.0 + math.exp(-epsilon))
    with np.errstate(divide="ignore"):
        logs = np.log([delta, (1.0 - delta) * share, (1.0 - delta) * (1.0 - share), 0.0])
    return FiniteLaw("abcd", logs), FiniteLaw("abcd", logs[::-1])


def measured(loss: float, measure: str) -> Laws:
    """Return a pair of laws that loses as much as a measure of OpenDP says."""
    from epsaudit.mechanisms.laws import NormalLaw

    if measure.startswith("MaxDivergence"):
        return (dominating(loss, 0.0),)
    concentrated = measure.startswith("ZeroConcentrated")
    return ((NormalLaw(0.0, 1.0), NormalLaw(math.sqrt(2.0 * loss), 1.0)),) if concentrated else ()


@dataclass(frozen=True)
class _Together:
    parts: tuple[Any, ...] = field(default=())


def parameter(claim: Claim, laws: Laws) -> float | None:
    """Return the exact parameter of a claim on independent laws; None where it is not known."""
    from epsaudit.mechanisms.laws import LaplaceLaw, NormalLaw

    normal = [((other.centre - one.centre) / one.scale) ** 2 for one, other in laws if type(one) is NormalLaw]
    square = math.fsum(normal)  # of independent ones the squares add up
    if isinstance(claim, ZCDP | GaussianDP) and len(normal) == len(laws):
        return square / 2.0 if isinstance(claim, ZCDP) else math.sqrt(square)
    if len(normal) > 1:
        rest = tuple(one for one in laws if type(one[0]) is not NormalLaw)
        laws = (*rest, (NormalLaw(0.0, 1.0), NormalLaw(math.sqrt(square), 1.0)))
    if isinstance(claim, PureDP) and all(type(one) is LaplaceLaw for one, _ in laws):
        return math.fsum(abs(other.centre - one.centre) / one.scale for one, other in laws)
    sides = [_Together(tuple(side)) if len(laws) > 1 else side[0] for side in zip(*laws, strict=True)]
    try:
        return exact_parameter(claim, sides)
    except (AuditError, ArithmeticError):
        return None


def distance(moves: Floats, norm: str) -> float:
    """Return how long a move is in a norm."""
    if norm == "l2":
        return float(np.linalg.norm(moves))
    return float(moves.max(initial=0.0) if norm.startswith("linf") else moves.sum())


def numbers(value: Any) -> Floats | None:
    """Return the numbers of an input, None if it holds anything else."""
    if isinstance(value, dict) and "float" in value:
        value = float(value["float"])
    if isinstance(value, dict) and "array" in value:
        value = value["array"]
    if isinstance(value, list):
        parts = [one for one in map(numbers, value) if one is not None]
        return (np.concatenate(parts) if parts else np.empty(0)) if len(parts) == len(value) else None
    return np.array([float(value)]) if isinstance(value, int | float) else None


def shape_of(value: Any) -> Any:
    """Return how many parts an input has."""
    if isinstance(value, dict) and "bytes" in value:
        return len(value["bytes"]) // 2
    return (
        tuple(value["shape"])
        if isinstance(value, dict) and "shape" in value
        else len(value)
        if isinstance(value, list)
        else None
    )


def words(shape: Any) -> str:
    """Say how many parts an input has."""
    return "one value" if shape is None else f"{shape} values" if isinstance(shape, int) else f"shape {shape}"


def number_like(*values: Any) -> bool:
    """Whether all are numbers."""
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, but for the rounding of sums."""
    if number_like(one, other):
        return bool(one == other or abs(one - other) <= SAME * max(abs(one), abs(other)))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other)


def number(value: float) -> str:
    """Write a number in a sentence."""
    return f"{value:.6g}"


def times(count: int) -> str:
    """Say how often."""
    return "once" if count == 1 else "never" if count == 0 else f"{count} times"


def shown(value: Any) -> str:
    """Write a value in a sentence."""
    if isinstance(value, dict) and list(value) == ["float"]:
        return str(value["float"])
    return clipped(number(value) if isinstance(value, float) else str(value), LONGEST)

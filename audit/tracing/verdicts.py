"""What two traces say: where a private value goes on another way than through noise, and how much noise it meets.

A trace as `epsaudit.tracing.recorder` wrote it goes in, findings in the order of calls come out. Each is a suspicion in
a sentence with both values; of noise whose law is known the loss of the component on this pair is exact.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import exact_parameter
from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP, PureDP
from epsaudit.errors import AuditError, clipped
from epsaudit.tracing.primitives import OPAQUE
from epsaudit.tracing.recorder import RAISES, SINGLE, Event

BRANCHES = "branches on private data"
PARAMETER = "a parameter depends on private data"
MOVES = "input moves further than is paid for"
BUDGET = "more budget spent than claimed"
RELEASED = "a private value is released without noise"
UNLISTED = "draws without a known mechanism"
NOTHING_SEEN = "nothing seen"
KNOWN = ("laplace", "normal", "exponential", "geometric", "finite")
"""Laws of noise whose loss is computed."""
SAME = 1e-9
"""Relative difference up to which two numbers are equal: sums of the same numbers in another order differ so."""
EXCESS = 1e-6
"""By how much, relative to the claim, a loss is above it: what is calculated has errors of 1e-9."""
LONGEST = 60
"""Characters of a value in a sentence. Set by hand."""
CHANCE = 1e-6
"""Probability at most that samples are said to be apart, or an output to be released as it is, under a true claim."""
UNKNOWN_EPSILON = 3.0
"""In place of a claim's epsilon that is greater or not known. Set by hand, for speed."""
NEAR = 16
"""Outputs near 0 on each side from which on their bits are compared: if half have fine ones, none has with 2^-16."""

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
    exact: float | None = None
    """The claim's parameter that the noisy numbers attain, where their laws are known."""

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

    def to_dict(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("kind", "sentence", "file", "line", "exact")}
        return {**told, "stack": [list(one) for one in self.stack]}


class Judge:
    """Compares what a recorder wrote of one pair."""

    def __init__(self, told: Mapping[str, Any], claim: Claim | None) -> None:
        self.told, self.claim = told, claim
        self.events, self.primes = ([Event(**one) for one in told[name]] for name in ("events", "events_prime"))
        self.pairs = [(self.events[one.order], one) for one in self.primes if one.order is not None]
        self.responses: dict[int, list[Any]] = dict(told["responses"])
        self.found: list[tuple[float, Suspicion]] = []

    def suspect(self, order: Any, kind: str, said: str, at: Any, exact: float | None = None) -> None:
        self.found.append((order, Suspicion(kind, said, tuple(map(tuple, at)), exact)))

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Return what is found, in the order of calls, once a place and kind."""
        moved = self.moved()
        self.branches()
        self.parameters()
        self.mechanisms(moved)
        self.reused(moved)
        self.spent(moved)
        self.outputs()
        ordered = sorted(self.found, key=lambda one: one[0])
        return tuple({(one.kind, one.where): one for _, one in reversed(ordered)}.values())[::-1]

    def over(self, laws: Laws) -> float | None:
        """Return the claim's parameter that laws attain, if it is above the claim."""
        spent = parameter(self.claim, laws) if self.claim is not None and laws else None
        return spent if spent is not None and self.claim and spent > self.claim.parameter * (1.0 + EXCESS) else None

    # what was called

    def branches(self) -> None:
        """Find draws of noise that one run makes and the other does not; what follows cannot be compared."""
        met, last, alone = {one.order for one in self.primes}, 0.0, []
        for one in self.primes:
            last = last + EXCESS if one.order is None else float(one.order)
            alone += [(last, one)] if one.order is None and one.judged else []
        alone += [(float(place), one) for place, one in enumerate(self.events) if place not in met and one.judged]
        if alone:
            order, one = min(alone, key=lambda each: each[0])
            key = one.kind, one.what, one.at
            counts = [sum(key == (each.kind, each.what, each.at) for each in run) for run in (self.events, self.primes)]
            x, x_prime = (("never", "once")[many] if many < 2 else f"{many} times" for many in counts)
            said = f"{one.what} is drawn {x} on x, {x_prime} on x': which draws are made depends on the data"
            self.suspect(order, BRANCHES, *(self.sized(order) or (said, one.at)))

    def sized(self, order: float) -> tuple[str, Any] | None:
        """Say what numpy counted before a call, and where, if it counted differently on both sides."""
        for one, other in zip(*self.told["sizes"], strict=False):
            if one[1:3] == other[1:3] and one[3] != other[3] and one[0] <= order + 1:
                said = f"{one[1]} gives {one[3]} values on x, {other[3]} on x'"
                return f"{said}: the shape of the noise depends on the data", one[2]
        return None

    def parameters(self) -> None:
        """Find what must not depend on data: scales, sizes, bounds, what noise is multiplied by, shapes of inputs."""
        differs = self.told["outcome"]["leaves"] != self.told["outcome_prime"]["leaves"]
        for before, one in self.pairs:
            drawn = {self.events[draw].kind for draw, *_ in before.draws}
            covered = one.states.get("live") and not differs
            if one.kind in ("sample", "join") or covered or (one.kind == "scale" and drawn == {"sample"}):
                continue
            for name in sorted({*before.fixed, *one.fixed}):
                was, now = before.fixed.get(name), one.fixed.get(name)
                if not equal(was, now):
                    said = f"{one.what} is asked with {name} {shown(was)} on x, {shown(now)} on x'"
                    if one.kind == "scale":
                        said = f"noise meets {shown(was)} on x, {shown(now)} on x' ({one.what})"
                        said = f"{said}: a private value beside it"
                    why = self.sized(one.order or 0) if name == "size" else None
                    self.suspect(one.order, PARAMETER, *(why or (said, one.at)))
            was, now = shape_of(before.input), shape_of(one.input)
            bits = isinstance(one.input, dict) and "bytes" in one.input  # what else is opaque may be given records
            if one.judged and was != now and (one.norm not in OPAQUE or bits):
                x, x_prime = ("one value" if size is None else f"{size} values" for size in (was, now))
                said = f"{one.what} is given {x} on x, {x_prime} on x': the shape depends on the data"
                self.suspect(one.order, PARAMETER, said, one.at)

    # how far inputs move, and for how much

    def moved(self) -> list[Event]:
        found = []
        for before, one in self.pairs:
            counts = (one.judged or one.kind == "add") and not one.states.get("live")
            if not counts or equal(before.input, one.input):
                continue
            draws: Any = [[one.order, 0, 1.0]] if one.judged else before.draws
            if len(draws) == 1 and self.events[draws[0][0]].law in ("exponential", "geometric"):
                joined = [each.draws for each in self.events if each.kind == "join"]
                draws = next((both for both in joined if draws[0][0] in [draw for draw, *_ in both]), draws)
            x, x_prime, gaps = numbers(before.input), numbers(one.input), None
            if x is not None and x_prime is not None and x.shape == x_prime.shape:
                with np.errstate(invalid="ignore"):
                    gaps = np.nan_to_num(np.abs(x - x_prime), nan=np.inf, posinf=np.inf)
                gaps[(x == x_prime) | (np.isnan(x) & np.isnan(x_prime))] = 0.0
            found.append(replace(one, draws=draws, gaps=gaps))
        return found

    def reaches(self, one: Event) -> bool:
        """Whether the output is a number that follows this answer, or nobody looked."""
        response = self.responses.get(one.order or 0)
        return one.kind == "mechanism" or response is None or bool(any(response))

    def mechanisms(self, moved: Sequence[Event]) -> None:
        """Find inputs of mechanisms that move further than these say, and what further calls of them showed."""
        for one in moved:
            most = one.states.get("sensitivity")
            if one.kind == "mechanism" and isinstance(most, int | float):
                order = {"l1": 1, "l2": 2}.get(one.norm, np.inf)
                far = math.inf if one.gaps is None else float(np.linalg.norm(one.gaps, order)) if one.gaps.size else 0.0
                if far > most * (1.0 + SAME):
                    said = f"input of {one.what} moves by {far:.6g} where sensitivity {most:.6g} is stated"
                    self.suspect(one.order, MOVES, said, one.at)
        for _, one in self.pairs:
            if "least" in one.states and one.states["least"] < one.states["alpha"]:
                by = f"bends by {one.states['least']:.6g} on an axis, where {one.states['alpha']:.6g} is stated"
                self.suspect(one.order, PARAMETER, f"the loss given to {one.what} {by}", one.at)
        for place, loss, bits in self.told["looks"]:
            one = self.primes[place]
            far, loss, measure = loss or (0.0, 0.0, "")
            if (spent := self.over(measured(loss, measure))) is not None and self.claim is not None:
                said = f"input of {one.what} moves by {far:.6g}, for which it states {loss:.6g} in {measure}"
                said = f"{said}: {self.claim.symbol} {spent:.6g} where {self.claim} is claimed"
                self.suspect(one.order, MOVES, said, one.at)
            (near, fine), (near_prime, fine_prime) = bits or ((0, 0), (0, 0))
            half = max(2 * fine - near, 2 * fine_prime - near_prime) >= 0
            if min(near, near_prime) >= NEAR and min(fine, fine_prime) == 0 and half:
                some, those, x, x_prime = (fine, near, "x", "x'") if fine else (fine_prime, near_prime, "x'", "x")
                said = f"{some} of {those} outputs of {one.what} near 0 have bits on {x} that none has on {x_prime}"
                self.suspect(one.order, MOVES, f"{said}: its noise is a float that is added", one.at)
        samples = list(self.told["samples"])
        inputs = {one.order: one for one in moved}
        for order, noises in self.told["noises"]:
            noise = np.array([numbers(one) for one in noises]) if order in inputs else np.empty((0, 0))
            gaps = inputs[order].gaps if noise.size else None
            for place, far in enumerate(() if gaps is None else np.resize(gaps, noise.shape[1])):
                samples.append((order, noise[:, place].tolist(), (noise[:, place] + far).tolist()))
        for order, side, side_prime in samples:
            # under epsilon-DP each of the lowest is on x with probability e^epsilon / (1 + e^epsilon) at most
            lone = beyond(side, side_prime)
            if lone * math.log1p(math.exp(-epsilon_of(self.claim))) >= -math.log(CHANCE):
                one = next(each for _, each in self.pairs if each.order == order)
                said = f"{lone} of {len(side)} outputs on one side are beyond all on the other"
                self.suspect(order, MOVES, f"input of {one.what} moves, and {said}", one.at)

    def reused(self, moved: Sequence[Event]) -> None:
        """Find one draw added to several numbers that move by different amounts: their difference has no noise."""
        moves = {one.order: one.gaps for one in moved if self.reaches(one)}
        sums = defaultdict[Any, list[tuple[int, float]]](list)
        for before, one in self.pairs:
            if one.kind != "add" or any(self.events[draw].kind != "draw" for draw, *_ in before.draws):
                continue
            still, far = numbers(one.input), moves.get(one.order)
            far = np.zeros(1 if still is None else max(still.size, 1)) if far is None else far
            draw, spots, _ = before.draws[0]
            places: Any = numbers(spots)
            for spot, each in zip(itertools.cycle(places.tolist()), far.tolist(), strict=False):
                sums[draw, spot].append((one.order or 0, each))
        for several in sums.values():
            # a sum of a sum is of one number still
            inner = {number for order, _ in several for number in self.events[order].states["after"]}
            ends = [(order, round(far, 9)) for order, far in several if order not in inner]
            if len(gaps := sorted({far for _, far in ends})) > 1:
                by = " and ".join(f"{far:.6g}" for far in gaps[:3])
                said = f"one draw is added to {len(ends)} numbers, which move by {by}: their difference has no noise"
                self.suspect(ends[-1][0], MOVES, said, self.events[ends[-1][0]].at)

    def spent(self, moved: Sequence[Event]) -> None:
        """Find where the noise that reaches the output does not pay for the moves, alone or together."""
        losses = [(one, laws) for one in moved if self.reaches(one) and (laws := self.laws(one))]
        for one, laws in losses:
            self.overspent(MOVES, self.described(one), one, laws)
        if len(losses) > 1 and not any(suspicion.kind == MOVES for _, suspicion in self.found):
            lines = sorted({Suspicion("", "", tuple(one.at)).where for one, _ in losses})
            said = f"{len(losses)} inputs move together ({clipped(', '.join(lines), LONGEST)})"
            self.overspent(BUDGET, said, losses[-1][0], [law for _, laws in losses for law in laws])

    def overspent(self, kind: str, said: str, one: Event, laws: Laws) -> None:
        if (spent := self.over(laws)) is not None and self.claim is not None:
            said = f"{said}: it loses {self.claim.symbol} {spent:.6g} where {self.claim} is claimed"
            known = one.kind == "add" and not one.states["rounded"]
            self.suspect(one.order, kind, said, one.at, spent if known else None)

    def described(self, one: Event) -> str:
        known = self.law(one)
        if known is None or known[0] == "finite":
            return f"{'input' if known is None else 'probabilities'} of {one.what} moves"
        far = math.inf if one.gaps is None else float(one.gaps.max(initial=0.0))
        scale = float(np.ravel(known[1])[0])
        return f"input moves by {far:.6g} where {known[0]} noise of scale {scale:.6g} is added"

    def law(self, one: Event) -> tuple[str, Any] | None:
        """Return law and scale, weights counted, of the noise that an input meets; None where they are not known."""
        (first, _, weight), *others = one.draws
        event, states, fixed = self.events[first], self.events[first].states, self.events[first].fixed
        if one.kind == "mechanism":
            known = event.law == "laplace" and not states.get("delta") and states.get("epsilon")
            return ("laplace", states["sensitivity"] / states["epsilon"]) if known else None
        if event.law == "finite":
            return "finite", None
        if not one.states.get("known", True) or len(others) > 1:
            return None
        if not others:
            scale = np.abs(np.asarray(numbers(fixed.get("scale", 1.0))) * numbers(weight))
            return (event.law, scale) if event.law in ("laplace", "normal", "exponential") else None
        other = self.events[others[0][0]]
        if event.law != other.law or not equal(event.fixed, other.fixed) or np.ndim(weight) or others[0][2] != -weight:
            return None
        if event.law == "exponential":
            return "laplace", fixed.get("scale", 1.0) * abs(weight)
        geometric = event.law == "geometric" and abs(weight) == 1.0
        return ("discrete laplace", -1.0 / math.log1p(-fixed["p"])) if geometric else None

    def laws(self, one: Event) -> Laws:
        """Return what a noisy number, or several, are drawn from; none where that is not known."""
        from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, LaplaceLaw, NormalLaw

        if (known := self.law(one)) is None:
            epsilon = one.states.get("epsilon") if one.kind == "mechanism" else None
            stated = isinstance(epsilon, int | float) and epsilon >= 0.0
            return [dominating(float(epsilon), float(one.states.get("delta") or 0.0))] if stated else []  # type: ignore[arg-type]
        law, scale = known
        if law == "finite":
            with np.errstate(divide="ignore"):
                logs = [np.log(np.ravel(numbers(each.input))) for each in (self.events[one.order or 0], one)]  # type: ignore[arg-type]
            x, x_prime = (FiniteLaw(range(len(side)), side) for side in logs)
            return [(x, x_prime)] * (len(logs[0]) == len(logs[1]))
        if one.gaps is None or np.size(scale) not in (1, one.gaps.size):
            return []
        found: Laws = []
        scales = np.broadcast_to(np.ravel(scale), one.gaps.shape)
        for far, width in zip(one.gaps.tolist(), scales.tolist(), strict=True):
            if far and (math.isinf(far) or not 0.0 < width < math.inf or law == "exponential"):
                found.append(dominating(math.inf, 0.0))
            elif far and law == "discrete laplace":
                found.append((DiscreteLaplaceLaw(0, width), DiscreteLaplaceLaw(math.ceil(far), width)))
            elif far:
                kind = NormalLaw if law == "normal" else LaplaceLaw
                found.append((kind(0.0, width), kind(far, width)))
        return found

    # what comes out

    def outputs(self) -> None:
        """Find outputs that differ although all that was drawn was answered alike."""
        end, outcomes, still = len(self.events), (self.told["outcome"], self.told["outcome_prime"]), self.told["still"]
        (x, x_prime), again = (dict(one["leaves"]) for one in outcomes), dict(self.told["repeated"])
        at = outcomes[1]["at"] or outcomes[0]["at"]
        if x[RAISES] != x_prime[RAISES]:
            side, told = ("x'", outcomes[1]) if x_prime[RAISES] else ("x", outcomes[0])
            said = f"{told['leaves'][0][1]} is raised on {side} alone ({clipped(told.get('says', ''), LONGEST)})"
            if RAISES in still:
                self.suspect(end, BRANCHES, said, told["at"])
        elif still:
            was, now = (shown(side.get(still[0], "not there")) for side in (x, x_prime))
            self.suspect(end, RELEASED, f"output{still[0]} is {was} on x, {now} on x', whatever is drawn", at)
        elif not self.told["unseen"] and not self.unlisted() and x.keys() == x_prime.keys():
            for place, (name, value) in enumerate(x.items()):
                other = x_prime[name]
                if not equal(value, other) and equal(value, again.get(name)) and not self.followed(place, value, other):
                    said = f"output{name} is {shown(value)} on x, {shown(other)} on x' with all noise alike"
                    self.suspect(end, RELEASED, f"{said}: a private value reaches it beside the noise", at)
                    return

    def followed(self, place: int, value: Any, other: Any) -> bool:
        """Whether an output follows a draw of which no sum was seen; how far it moves is then judged by its law."""
        met = {one.order for one in self.primes}
        sums = [(order in met, one.draws) for order, one in enumerate(self.events) if one.kind == "add"]
        live = [one.draws for one in self.primes if one.kind == "add" and (one.order is None or one.states["live"])]
        late = {self.primes[draw].order for draws in live for draw, *_ in draws}
        seen = {draw for matched, draws in sums for draw, *_ in draws if matched} - late
        seen -= {draw for matched, draws in sums for draw, *_ in draws if not matched}
        drawn = [
            (self.events[order], response[place])
            for order, response in self.responses.items()
            if self.events[order].kind == "draw" and order not in seen and place < len(response) and response[place]
        ]
        if len(drawn) == 1 and number_like(value, other):
            event, slope = drawn[0]
            order, far = self.events.index(event), abs((other - value) / slope) * (1.0 - SINGLE)
            one = replace(event, order=order, draws=[[order, 0, 1.0]], gaps=np.array([far]))
            self.overspent(MOVES, self.described(one), one, self.laws(one))
        return bool(drawn)

    def unlisted(self) -> tuple[str, ...]:
        """Say what is drawn without a mechanism that is known: places, each with what is drawn there."""
        found: dict[str, None] = {}
        for one in self.events:
            drawn = one.kind == "sample" or (one.kind == "draw" and one.law not in KNOWN)
            if drawn or (one.kind == "mechanism" and one.norm in OPAQUE):
                found[str(Suspicion("", one.what, tuple(one.at)))] = None
        return tuple(found)


def epsilon_of(claim: Claim | None) -> float:
    """Return the epsilon that a claim allows, but for a probability of `CHANCE`, or `UNKNOWN_EPSILON` of none."""
    if claim is None:
        return UNKNOWN_EPSILON
    return claim.claimed_point[0] if claim.claimed_point else claim.approximate(CHANCE).epsilon


def beyond(side: list[Any], side_prime: list[Any]) -> int:
    """Return how many of one side are below, or above, all of the other; of what is no number all if none is on both.

    The latter is said of few different values alone.
    """
    x, x_prime = numbers(side), numbers(side_prime)
    if x is None or x_prime is None or not len(x) == len(x_prime) == len(side):
        texts = [{repr(one) for one in outputs} for outputs in (side, side_prime)]
        return len(side) * (not texts[0] & texts[1] and min(map(len, texts)) <= len(side) / 4)
    ways = (x < x_prime.min(), x > x_prime.max(), x_prime < x.min(), x_prime > x.max())
    return int(max(way.sum() for way in ways))


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
        return [dominating(loss, 0.0)]
    concentrated = measure.startswith("ZeroConcentrated")
    return [(NormalLaw(0.0, 1.0), NormalLaw(math.sqrt(2.0 * loss), 1.0))] if concentrated else []


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
        return exact_parameter(claim, sides)
    except (AuditError, ArithmeticError):
        return None


def numbers(value: Any) -> Floats | None:
    """Return the numbers of an input, None if it holds anything else."""
    if isinstance(value, dict):
        value = float(value["float"]) if "float" in value else value.get("array")
    if isinstance(value, list):
        parts = [one for one in map(numbers, value) if one is not None]
        return (np.concatenate(parts) if parts else np.empty(0)) if len(parts) == len(value) else None
    return np.array([float(value)]) if isinstance(value, int | float) else None


def shape_of(value: Any) -> Any:
    """Return how many parts an input has, None of one value."""
    if not isinstance(value, dict):
        return len(value) if isinstance(value, list) else None
    return len(value["bytes"]) // 2 if "bytes" in value else tuple(value["shape"]) if "shape" in value else None


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


def shown(value: Any) -> str:
    """Write a value in a sentence."""
    if isinstance(value, dict) and list(value) == ["float"]:
        return str(value["float"])
    return clipped(f"{value:.6g}" if isinstance(value, float) else str(value), LONGEST)

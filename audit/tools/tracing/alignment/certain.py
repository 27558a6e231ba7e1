"""Upper bounds without confidence: all paths are enumerated, and every path has an alignment.

If all draws are discrete, the paths give both output laws, and the bound is the exact value. Otherwise each path gets
the largest loss of its shift. Paths without a shift count with an upper bound on their probability.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, PureDP, RenyiDP
from epsaudit.mechanisms.known_laws import exact_parameter
from epsaudit.tools.tracing.alignment.aligned import (
    NO_SHIFT,
    ByOutput,
    concentrated_loss,
    delta_of_steps,
    other_losses,
    require_same_path,
    signature,
)
from epsaudit.tools.tracing.alignment.extra_draws import ExtraDraws, image_of
from epsaudit.tools.tracing.alignment.paths import PathRun, Side
from epsaudit.tools.tracing.alignment.polyhedra import intersect
from epsaudit.tools.tracing.alignment.run import COMPARE, AlignmentRun, Draw, Parted, equal_sums, noise_size
from epsaudit.tools.tracing.alignment.shifts import Shift, largest_loss, stretch_or_shift
from epsaudit.tools.tracing.losses import dominating_laws, exact_loss

MAX_COMPARED_PATH_PAIRS = 20_000
"""[time] Largest number of pairs of paths that are compared for shifts that depend on the output alone; most pairs
contradict each other in one comparison, and the others take 2 ms each."""
MAX_LEARNING = 200_000
"""[time] Largest number of comparisons in all runs that search which comparisons the outputs need; they take some
10 s."""
MAX_EXTRA_POSITIONS = 64
"""[time] Largest number of positions at which draws that only one dataset makes are searched."""
ROUNDING_OF_SUMS = 1e-12
"""[formula] Relative rounding error of a sum of some thousand probabilities."""
SLACK_OF_ROOT = 1e-9
"""[formula] Relative amount by which an epsilon is enlarged. The solver that computes it errs by a quarter of this."""
CONCENTRATED = "zcdp"
"""Name in place of the law of noise for mechanisms of libraries that state a loss in zCDP; the amount is their rho."""
NOT_LISTED = 1e-6
"""[chosen] If outcomes that are too rare to be listed have at most this probability, no other bound is searched."""
RARE_OUTPUT = 1e-10
"""[chosen] If some outcomes of draws are not listed, outputs that are less likely than this on both datasets count as
delta, and so do outputs that are less likely than all outcomes that are not listed. Without these outputs, the outcomes
that are not listed hardly change the ratio of probabilities."""


@dataclass(frozen=True)
class PathLoss:
    """The privacy loss on one path, and what is needed to compute the loss of all paths together.

    A path is one combination of outcomes of the comparisons and of the discrete draws of a function.
    """

    loss: float
    """The largest log ratio of densities on the path; infinite without an alignment, and for shifts of normal noise."""
    probability: float
    """An upper bound on the probability of the path."""
    shifts: tuple[tuple[str, float, float], ...] | None
    """Law, scale and shift of each draw that moves; None if the loss is not only that of shifted noise."""
    path: PathRun | None = None
    amounts: tuple[float, ...] = ()
    """The shift of every draw of the path."""
    delta: float = 0.0
    """Sum of the delta that mechanisms of libraries state on the path."""


@dataclass(frozen=True)
class CertainBound:
    """An upper bound on the claim's parameter that has no confidence, because it holds for all draws.

    ``delta`` is a probability that it does not cover, in addition to the claim's own delta.
    """

    value: float
    delta: float
    n_paths: int
    listed: bool = False
    """Whether all draws are discrete (also geometric ones), and their outcomes were listed."""


def output_law(paths: Iterable[PathRun]) -> dict[Any, float]:
    """Return the probability of each output of a function whose draws are all discrete."""
    law = defaultdict[Any, float](float)
    for path in paths:
        law[path.form] += math.exp(path.log_probability)
    return dict(law)


def exact_bound(claim: Claim, side: Side, side_prime: Side) -> CertainBound | None:
    """Return the exact privacy loss of a pair if all draws are discrete and have few outcomes; otherwise return None.

    Outcomes that are too rare to be listed count as delta.
    """
    try:
        both = [one.discrete_paths() for one in (side, side_prime)]
    except Parted:
        return None
    law, law_prime = map(output_law, both)
    count, n_paths = len(both[0]), max(map(len, both))
    rest = max(0.0, 1.0 - math.fsum(law.values()), 1.0 - math.fsum(law_prime.values()))
    if side.rare or side_prime.rare:
        rest = max(rest, ROUNDING_OF_SUMS)
    elif rest < count * ROUNDING_OF_SUMS:
        rest = 0.0
    outputs = list({**law, **law_prime})
    if rest and not isinstance(claim, ApproxDP):
        unlisted = rest
        least = max(RARE_OUTPUT, unlisted)
        rare = {one for one in outputs if max(law.get(one, 0.0), law_prime.get(one, 0.0)) < least}
        rest += max(math.fsum(one.get(key, 0.0) for key in rare) for one in (law, law_prime))
        ratios = [
            math.log(law[one] / law_prime[one]) if one in law and one in law_prime else math.inf
            for one in outputs
            if one not in rare
        ]
        if not isinstance(claim, PureDP):
            return None
        found = CertainBound(max(map(abs, ratios)), rest, n_paths, True)
        at_claim = CertainBound(claim.epsilon, unlisted + excess_of(claim.epsilon, law, law_prime), n_paths, True)
        return at_claim if found.value > claim.epsilon and at_claim.delta <= NOT_LISTED else found
    if rest and isinstance(claim, ApproxDP):
        if claim.delta <= rest:
            return None
        claim = ApproxDP(claim.epsilon, claim.delta - rest)
    value = finite_parameter(claim, [[one.get(key, 0.0) for key in outputs] for one in (law, law_prime)])
    return None if value is None else CertainBound(value, 0.0, n_paths, True)


def excess_of(epsilon: float, law: Mapping[Any, float], law_prime: Mapping[Any, float]) -> float:
    """Return the hockey-stick divergence of two discrete laws at epsilon, the larger one of both directions.

    It is the sum over all outputs of max(0, p - e^epsilon q) for their probabilities p and q.
    """
    factor = math.exp(epsilon)
    both = (law, law_prime), (law_prime, law)
    return max(math.fsum(max(0.0, p - factor * b.get(key, 0.0)) for key, p in a.items()) for a, b in both)


def finite_parameter(claim: Claim, sides: Sequence[Sequence[float]]) -> float | None:
    """Return the exact value of the claim's parameter for two laws on the same outputs; None if it is unknown."""
    from epsaudit.mechanisms.laws import FiniteLaw

    with np.errstate(divide="ignore"):
        laws = [FiniteLaw(range(len(one)), np.log(np.array(one))) for one in sides]
    found: float | None = exact_parameter(claim, laws)
    return found


def path_losses(side: Side, side_prime: Side, equal: bool = False) -> list[PathLoss]:
    """Return the loss of every path of a function on x, if the noise is shifted so that all comparisons are kept.

    A path is one combination of outcomes of comparisons and discrete draws. With ``equal``, the compared numbers
    themselves are kept. This costs more on a path, but the shift of a draw then does not depend on outcomes that come
    after the draw, as the loss of Gaussian noise requires (Theorem 14.4). Raises `Parted` if there are too many paths.
    """
    found, known = list[PathLoss](), dict[Any, Any]()
    for path in side.paths():
        try:
            second = side_prime.run(AlignmentRun(0, path, forced="all"))
            require_same_path(path, second)
            shift = stretch_or_shift(path.events, second.events, path.draws, second.draws, known, equal)
            if shift is None:
                raise Parted(NO_SHIFT)
            of_steps = other_losses(path, second, True), concentrated_loss(path, second, True)
            found.append(_pair_loss(path, shift, second.draws, *of_steps, delta=delta_of_steps(path, second)))
        except Parted:
            found.append(PathLoss(math.inf, path.largest_probability, None, path))
    if any(map(is_unaligned, found)):
        found = with_extra_draws(found, side_prime.paths())
    return found + not_listed(side)


def not_listed(side: Side) -> list[PathLoss]:
    """Return a list with one path that stands for all paths that are too rare to be listed.

    It has their probability, and no alignment. The list is empty if all paths are listed.
    """
    return [PathLoss(math.inf, side.rare, None)] if side.rare else []


def with_extra_draws(found: Sequence[PathLoss], theirs: Sequence[PathRun]) -> list[PathLoss]:
    """Align paths that have no alignment yet by means of extra draws, and return the losses of all paths.

    An extra draw is made on one dataset only, such as the noise of a key that only this dataset has. Extra draws have
    the same position on all paths. The position is chosen so that the paths that remain without an alignment have the
    least probability.
    """
    most = max(len(one.draws) for one in [*theirs, *(one.path for one in found if one.path is not None)])
    best = list(found)
    whole = {image_of(one.path) for one in found if one.path is not None and not is_unaligned(one)}
    for start in range(min(most, MAX_EXTRA_POSITIONS)):
        extra, losses = ExtraDraws(theirs, start), list[PathLoss]()
        sources: dict[Any, Any] = dict.fromkeys(whole)
        for one in found:
            aligned = extra.align(one.path) if one.path is not None and is_unaligned(one) else None
            if aligned is None or sources.setdefault(aligned.image, aligned.source) != aligned.source:
                losses.append(one)
            else:
                losses.append(PathLoss(aligned.loss, one.probability, None, one.path, aligned.amounts))
        best = min(best, losses, key=_cost)
    return best


def is_unaligned(one: PathLoss) -> bool:
    """Return whether no shift of the noise on a path of x gives the same output on x'.

    A path with shifted normal noise has an infinite loss as well, but its shifts are known.
    """
    return one.loss == math.inf and one.shifts is None


def _cost(losses: Sequence[PathLoss]) -> tuple[float, float]:
    """Return a sort key: the probability of paths with an infinite loss, and the largest loss of the other paths."""
    finite = [one.loss for one in losses if one.loss < math.inf]
    return math.fsum(one.probability for one in losses if one.loss == math.inf), max(finite, default=0.0)


def _pair_loss(
    path: PathRun,
    shift: Shift,
    draws_prime: Sequence[Draw],
    others: float,
    concentrated: float = 0.0,
    delta: float = 0.0,
) -> PathLoss:
    found = loss_of_path(shift, path.draws, draws_prime, others, concentrated)
    return replace(found, probability=path.largest_probability, path=path, delta=delta)


def loss_of_path(
    shift: Shift, draws: Sequence[Draw], draws_prime: Sequence[Draw], others: float, concentrated: float = 0.0
) -> PathLoss:
    """Return the loss of a path for a given shift of its noise.

    ``others`` is the loss of discrete draws and mechanisms of libraries, and ``concentrated`` the rho of mechanisms
    that state a loss in zCDP.
    """
    loss = largest_loss(shift, draws, draws_prime) + others
    same_scales = all(one.scale == other.scale for one, other in zip(draws, draws_prime, strict=True))
    plain = not shift.stretches and same_scales and (others == 0.0 or 0.0 < concentrated < math.inf)
    moves = tuple((one.law, one.scale, amount) for one, amount in zip(draws, shift.amounts, strict=True) if amount)
    moves += ((CONCENTRATED, 1.0, concentrated),) if concentrated else ()
    return PathLoss(loss, 1.0, moves if plain else None, None, shift.amounts)


def path_losses_by_output(side: Side, side_prime: Side) -> list[PathLoss]:
    """Return the loss of every path of a function on x, if the shift of its noise depends on the output alone.

    A shift is accepted if the function on x' gives the same output for all shifted draws of the path. Therefore no
    shifted draws may follow a path of x' with another output. Raises `Parted` for too many paths or comparisons.
    """
    mine, theirs = side.paths(), side_prime.paths()
    if len(mine) * len(theirs) > MAX_COMPARED_PATH_PAIRS:
        raise Parted("there are too many paths")
    if sum(len(path.events) ** 2 for path in mine) > MAX_LEARNING:
        raise Parted("there are too many comparisons")
    learnt, found = ByOutput(), list[PathLoss]()
    for path in mine:
        learnt.learn(path, side_prime.run)
    for path in mine:
        amounts = learnt.shifts.get(signature(path))
        whole = all(one.law != "geometric" for one in path.draws)
        if amounts is None or not whole or not all(keeps_output(path, other, amounts) for other in theirs):
            found.append(PathLoss(math.inf, path.largest_probability, None, path))
            continue
        others = largest_of_other_losses(path, theirs, amounts)
        # the paths of x' that the shifted draws can meet have the scales of this path
        found.append(_pair_loss(path, Shift(amounts, {}), path.draws, others))
    return found + not_listed(side)


def largest_of_other_losses(path: PathRun, theirs: Sequence[PathRun], amounts: Sequence[float]) -> float:
    """Return the largest loss of discrete draws and mechanisms, over the paths of x' that shifted draws can follow.

    These losses may differ between paths, because they may depend on comparisons that the output does not show.
    """
    same = [other for other in theirs if signature(other) == signature(path)]
    losses = [other_losses(path, other) for other in same]
    if len(set(losses)) > 1:
        met = [_can_meet(path, other, amounts) for other in same]
        losses = [loss for loss, is_met in zip(losses, met, strict=True) if is_met]
    return max(losses, default=math.inf)


def keeps_output(path: PathRun, other: PathRun, amounts: Sequence[float]) -> bool:
    """Return whether no shifted draws of a path of x give another output on the given path of x'.

    A path is one combination of outcomes of comparisons and discrete draws. The result is true if both paths have the
    same output, or if no shifted draws can follow the path of x'.
    """
    if _keeps_returned_numbers(path, other, amounts):
        return True
    both = zip(path.choices, other.choices, strict=False)  # a path with fewer discrete draws can meet one with more
    different_choices = any(repr(one.outcome) != repr(its.outcome) for one, its in both)
    return different_choices or not _can_meet(path, other, amounts)


def _can_meet(path: PathRun, other: PathRun, amounts: Sequence[float]) -> bool:
    """Return whether some shifted draws of a path of x follow the given path of x'."""
    unit = min((one.scale for one in (*path.draws, *other.draws)), default=1.0)
    return intersect(path.intervals, amounts, other.intervals, unit)


def _keeps_returned_numbers(path: PathRun, other: PathRun, amounts: Sequence[float]) -> bool:
    """Return whether a path of x' has the output and the scales of a path of x whose draws are shifted."""
    if signature(path) != signature(other) or [one.scale for one in path.draws] != [one.scale for one in other.draws]:
        return False
    mine, their = ([one for one in side.events if one.kind != COMPARE] for side in (path, other))
    for one, its in zip(mine, their, strict=True):
        moved = [weight * amounts[draw] for draw, weight in one.terms]
        size = abs(one.constant) + abs(its.constant) + sum(map(abs, moved))
        if not equal_sums(sum(moved) + its.constant, one.constant, size, noise_size(one.terms, path.draws)):
            return False
    return True


def combined(claim: Claim, losses: Sequence[PathLoss]) -> tuple[float, float]:
    """Return the value of the claim's parameter that follows from the losses of all paths, and the uncovered delta.

    The paths are those of one direction, such as from x to x'. See the theorem of docs/explanation/theory.md for the
    three cases: equal shifts, adaptive shifts, and pure losses. A delta that mechanisms of libraries state is added to
    the uncovered delta, or is taken from the claim's delta (Theorem 18).
    """
    of_steps = max((one.delta for one in losses), default=0.0)
    if not of_steps:
        return _without_steps(claim, losses)
    if not isinstance(claim, ApproxDP):
        value, delta = _without_steps(claim, losses)
        return value, min(1.0, delta + of_steps)
    if of_steps > claim.delta:
        return math.inf, 1.0
    return _without_steps(ApproxDP(claim.epsilon, claim.delta - of_steps), losses)


def _without_steps(claim: Claim, losses: Sequence[PathLoss]) -> tuple[float, float]:
    """Return the value of the claim's parameter and the uncovered delta, from the losses of all paths.

    This does the work of `combined` if no mechanism of a library states a delta.
    """
    aligned = [one for one in losses if not is_unaligned(one)]
    delta = min(1.0, math.fsum(one.probability for one in losses if one not in aligned))
    if not aligned or delta >= 1.0:
        return math.inf, 1.0
    if isinstance(claim, ApproxDP):
        best, missing = _approximate(claim, losses), 0.0
    else:
        best, missing = from_pure(claim, max(one.loss for one in aligned)), delta
    by_shift = _from_shifts(claim, aligned) if missing == delta or not delta else None
    if by_shift is not None and by_shift < best:
        return by_shift, delta
    return best, missing if best < math.inf else delta


def _approximate(claim: ApproxDP, losses: Sequence[PathLoss]) -> float:
    """Return the smallest epsilon at the claim's delta, given the largest loss and the probability of each path."""

    def excess(epsilon: float) -> float:
        return math.fsum(
            one.probability * (1.0 if one.loss == math.inf else max(0.0, -math.expm1(epsilon - one.loss)))
            for one in losses
        )

    finite = max((one.loss for one in losses if one.loss < math.inf), default=0.0)
    allowed = claim.delta * (1.0 + ROUNDING_OF_SUMS)
    if excess(finite) > allowed:
        return math.inf
    low, high = 0.0, max(finite, 0.0)
    if excess(low) <= allowed:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) <= allowed else (middle, high)
    return high


def from_pure(claim: Claim, epsilon: float) -> float:
    """Return the largest value of the claim's parameter that epsilon-DP allows."""
    if isinstance(claim, PureDP) or not epsilon < math.inf:
        return max(0.0, epsilon)
    if epsilon <= 0.0:
        return 0.0
    value = exact_parameter(claim, dominating_laws(epsilon, 0.0))
    return math.inf if value is None else value


def _from_shifts(claim: Claim, aligned: Sequence[PathLoss]) -> float | None:
    """Return the loss that follows from the laws of the shifted noise, or None if it is unknown.

    It is a value of the claim's parameter. It is known if all paths have the same shift, and in some cases if shifts
    are adaptive; see `is_adaptive`. The largest loss on a path is not needed, which is infinite for normal noise.
    """
    if any(one.shifts is None for one in aligned):
        return None
    distinct = {one.shifts for one in aligned if one.shifts is not None}
    if len({one.amounts for one in aligned}) == len(distinct) == 1:
        return loss_of_shifts(claim, distinct.pop())
    if not is_adaptive(aligned) or any(law == CONCENTRATED for shifts in distinct for law, _, _ in shifts):
        return None
    if all(law == "normal" for shifts in distinct for law, _, _ in shifts):
        largest = max(math.hypot(*(by / scale for _, scale, by in shifts)) for shifts in distinct)
        return loss_of_shifts(claim, [("normal", 1.0, largest)])
    values = [loss_of_shifts(claim, one) for one in distinct] if isinstance(claim, ZCDP | RenyiDP) else [None]
    return None if None in values else max(one for one in values if one is not None)


def loss_of_shifts(claim: Claim, shifts: Sequence[tuple[str, float, float]]) -> float | None:
    """Return the value of the claim's parameter for independent noise that is shifted; None if it is unknown.

    Each shift has a law, a scale and an amount. The value is exact, unless mechanisms state a loss in zCDP: then it is
    an upper bound that includes their rho.
    """
    rho = sum(amount for law, _, amount in shifts if law == CONCENTRATED)
    if rho:
        rest = [one for one in shifts if one[0] != CONCENTRATED]
        return loss_of_concentrated(claim, rho, rest)
    return _loss_of_noise(claim, tuple((law, scale, abs(by)) for law, scale, by in shifts))


@lru_cache(256)
def _loss_of_noise(claim: Claim, shifts: tuple[tuple[str, float, float], ...]) -> float | None:
    """Return the exact privacy loss of shifted noise, as a value of the claim's parameter; None if it is unknown.

    The result is cached, because both directions of a pair need the same value.
    """
    from epsaudit.mechanisms.laws import LaplaceLaw, NormalLaw

    classes: dict[str, Any] = {"laplace": LaplaceLaw, "normal": NormalLaw}
    if not shifts:
        return 0.0
    if any(law not in classes for law, _, _ in shifts):
        return None
    return exact_loss(claim, [(classes[law](0.0, scale), classes[law](by, scale)) for law, scale, by in shifts])


def loss_of_concentrated(claim: Claim, rho: float, shifts: Sequence[tuple[str, float, float]]) -> float | None:
    """Return an upper bound for mechanisms with a total ``rho`` in zCDP and shifted noise; None if it is unknown."""
    if isinstance(claim, RenyiDP):
        rest = loss_of_shifts(claim, shifts)
        return None if rest is None else rest + claim.order * rho
    rest = loss_of_shifts(ZCDP(rho), shifts)
    if rest is None or not isinstance(claim, ZCDP | ApproxDP):
        return None
    if isinstance(claim, ZCDP):
        return rest + rho
    return concentrated_to_epsilon(rest + rho, claim.delta)


@lru_cache(256)
def concentrated_to_epsilon(rho: float, delta: float) -> float | None:
    """Return the least epsilon at ``delta`` that rho-zCDP implies; None for a delta of 0."""
    if not delta:
        return None
    claim, most = ZCDP(rho), rho + 2.0 * math.sqrt(rho * -math.log(delta))  # Bun and Steinke (2016), Proposition 1.3
    if claim.profile(0.0) <= delta:
        return 0.0
    excess = lambda epsilon: math.log(max(claim.profile(epsilon), 1e-300)) - math.log(delta)  # noqa: E731
    epsilon = float(brentq(excess, 0.0, most * (1.0 + SLACK_OF_ROOT), rtol=SLACK_OF_ROOT / 4.0))
    return epsilon * (1.0 + SLACK_OF_ROOT)


def is_adaptive(aligned: Sequence[PathLoss]) -> bool:
    """Return whether the shift of every draw depends only on what happened on its path before the draw."""
    known: dict[Any, float] = {}
    for one in aligned:
        if one.path is None:
            return False
        for number, amount in enumerate(one.amounts):
            key = number, one.path.history(number)
            if not math.isclose(known.setdefault(key, amount), amount, rel_tol=1e-9):  # solvers round
                return False
    return True

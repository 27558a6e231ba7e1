"""Reading two laws that know themselves into one `LossPair`: atoms aligned, densities cut into panels, totals checked.

The module checks for the mistakes that an author of a law can make, and reports each in a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Bools, Floats
from epsaudit.errors import AuditError, clipped
from epsaudit.mechanisms.exact.convolution import convolved
from epsaudit.mechanisms.exact.losses import (
    Integrands,
    LossPair,
    NotKnownError,
    Panels,
    difference,
    initial_edges,
    log_sum,
    merge_equal,
    refine,
)
from epsaudit.mechanisms.known_laws import known_forms
from epsaudit.outputs.arrays import pack

_SMALLEST = -720.0  # log-masses below this are dropped: exp underflows soon after
_TOTAL_ERROR = 1e-9
"""Greatest difference of a law's total from 1: ten times the error of quadrature to 1e-10."""


def knows_law(distribution: object) -> bool:
    """Say whether an output distribution knows its law in one of the `epsaudit.mechanisms.known_laws.known_forms`."""
    return bool(known_forms(distribution))


def loss_pair(law: object, law_prime: object) -> LossPair:
    """Put two known laws side by side.

    Raises `AuditError` if a law is not known, is not a probability law, or is too rough for quadrature.
    """
    laws = (law, law_prime)
    for one in laws:
        if not knows_law(one):
            raise AuditError(
                f"{one!r} does not know its law; an exact value needs 'support' and 'log_probabilities', or "
                "'log_density' with 'knots' and 'scale', or 'parts' that have them."
            )
    if all("parts" in known_forms(one) for one in laws):
        return _composed(laws)
    if all("others" in known_forms(one) for one in laws):
        known = laws[0].loss_against(laws[1])  # type: ignore[attr-defined]  # just seen
        if known is None:
            raise NotKnownError(f"The loss of {_name(law)} against {_name(law_prime)} is not known.")
        return _totalled(known, laws)
    atoms, losses, places = _atoms(laws)
    panels, densities, knots, scale = _panels(laws, places)
    return _totalled(LossPair(atoms, losses, panels, densities, knots, scale), laws)


def _totalled(pair: LossPair, laws: tuple[object, object]) -> LossPair:
    """Return the pair, or raise `AuditError` if the probabilities of either law do not sum to one."""
    totals = np.exp(np.logaddexp(log_sum(pair.atoms), log_sum(pair.log_masses)))
    for one, total in zip(laws, totals, strict=True):
        if not abs(total - 1.0) <= _TOTAL_ERROR:
            raise AuditError(
                f"The probabilities of {_name(one)} sum to {total:.12g}, not 1; check its log_probabilities, "
                "log_density, knots and scale."
            )
    return pair


def _composed(laws: tuple[Any, Any]) -> LossPair:
    """Return the pair of two laws of independent parts, composed part by part; the parts need not be hashable."""
    if len(laws[0].parts) != len(laws[1].parts):
        raise AuditError(f"The laws have {len(laws[0].parts)} and {len(laws[1].parts)} parts; they need as many.")
    both = list(zip(laws[0].parts, laws[1].parts, strict=True))
    different = [sides for place, sides in enumerate(both) if both.index(sides) == place]
    return convolved([(loss_pair(*sides), both.count(sides)) for sides in different])


def _name(law: object) -> str:
    return clipped(repr(law), 80)


def _atoms(laws: tuple[Any, Any]) -> tuple[Floats, Floats, tuple[float, ...]]:
    """Return the atoms of both laws merged by loss, their losses, and the atoms that are numbers on the line."""
    supports, log_chances = zip(*(_outcomes(law) for law in laws), strict=True)
    union = {outcome: place for place, outcome in enumerate(dict.fromkeys((*supports[0], *supports[1])))}
    aligned = np.full((2, len(union)), -np.inf)
    for row, (law, support, chances) in enumerate(zip(laws, supports, log_chances, strict=True)):
        aligned[row, [union[outcome] for outcome in support]] = chances
        missing = [] if len(support) == len(union) else list(union.keys() - set(support))
        aligned[row, [union[outcome] for outcome in missing]] = _off_support(law, missing)
    aligned = aligned[:, ~np.isneginf(aligned).all(axis=0)]
    places: list[float] = []
    if any("density" in known_forms(law) for law in laws):
        places = [float(outcome) for outcome in union if isinstance(outcome, (int, float, np.number))]
    finite = tuple(place for place in places if np.isfinite(place))
    return (*merge_equal(aligned, difference(aligned[0], aligned[1])), finite)


def _outcomes(law: Any) -> tuple[list[Hashable], Floats]:
    if "atoms" not in known_forms(law):
        return [], np.empty(0)
    support = law.support.tolist() if isinstance(law.support, np.ndarray) else law.support
    outcomes = [outcome if outcome == outcome else "not a number" for outcome in support]  # nan must equal itself
    log_chances = np.asarray(law.log_probabilities, float)
    if log_chances.shape != (len(outcomes),):
        raise AuditError(
            f"{_name(law)} has {len(outcomes)} outcomes but log_probabilities of shape {log_chances.shape}; "
            "each outcome needs one."
        )
    if np.any(np.isnan(log_chances)) or np.any(log_chances > 1e-9):
        raise AuditError(f"{_name(law)} has a log-probability of {log_chances.max()}; it must be at most 0, or -inf.")
    if len(set(outcomes)) < len(outcomes):
        ((twice, _),) = Counter(outcomes).most_common(1)
        raise AuditError(f"{_name(law)} lists the outcome {twice!r} twice; outcomes must differ.")
    return outcomes, log_chances


def _off_support(law: Any, outcomes: list[Hashable]) -> Floats:
    """Return log-probabilities of outcomes that a law does not list.

    A countable law may leave out a negligible part.
    """
    if "density" in known_forms(law) or not outcomes or not callable(getattr(law, "log_density", None)):
        return np.full(len(outcomes), -np.inf)
    return _log_density(law, pack(outcomes))


def _panels(
    laws: tuple[Any, Any], places: Sequence[float]
) -> tuple[Panels, Integrands | None, tuple[float, ...], float]:
    continuous = [law for law in laws if "density" in known_forms(law)]
    if not continuous:
        return Panels.none(), None, (), 1.0
    knots = tuple(sorted({*places, *(float(knot) for law in continuous for knot in law.knots)}))
    scale = min(float(law.scale) for law in continuous)
    if not (0.0 < scale < np.inf and np.all(np.isfinite(knots))):
        raise AuditError(f"A law has scale {scale!r} and knots {knots!r}; they must be finite, the scale positive.")

    atoms = np.array(places)

    def densities(points: Floats) -> Floats:
        if atoms.size:  # at an atom, a mixture returns a mass in place of a density
            points = np.where(np.isin(points, atoms), np.nextafter(points, np.inf), points)
        nowhere = np.full(points.shape, -np.inf)
        return np.stack([_log_density(law, points) if "density" in known_forms(law) else nowhere for law in laws])

    edges = initial_edges(knots, scale)
    panels = Panels.over(edges[:-1], edges[1:], densities)
    bounds = panels.log_bounds.max(axis=0)
    kept = np.flatnonzero(bounds > _SMALLEST)
    inner = (panels.right > knots[0] - scale) & (panels.left < knots[-1] + scale)
    if kept.size:
        inner[kept[0] : kept[-1] + 1] = True

    def matters(left_over: Panels) -> bool:
        return bool(np.exp(log_sum(left_over.log_bounds.ravel())) > 0.1 * _TOTAL_ERROR)

    accepted = refine(panels[inner], densities, _acceptable, matters)
    possible = np.isfinite(accepted.values.max(axis=(0, 2))) & (accepted.log_bounds.max(axis=0) > _SMALLEST)
    return accepted[possible], densities, knots, scale


def _log_density(law: Any, points: NDArray[Any]) -> Floats:
    with np.errstate(all="ignore"):
        values = np.asarray(law.log_density(points), float)
    wrong, what = np.isnan(values) | np.isposinf(values), f"shape {values.shape}"
    if values.shape == points.shape:
        if not np.any(wrong):
            return values
        what = f"{values[wrong][0]} at {points[wrong][0]!r}"
    raise AuditError(f"log_density of {_name(law)} gave {what}; it must give a number or -inf for each output.")


def _acceptable(parents: Panels, halves: Panels, level: int) -> Bools:
    """Return which halves are fine enough.

    A half is accepted if the parent and its two halves agree on both integrals to ten digits and the loss is monotone
    on the half, or if its mass is negligible.
    """
    before, after = parents.log_masses, halves.log_masses
    after_both = np.logaddexp(after[:, 0::2], after[:, 1::2])
    with np.errstate(invalid="ignore", over="ignore"):
        same = np.abs(np.expm1(np.minimum(after_both - before, 1.0))) <= 1e-10
    same |= np.maximum(before, after_both) < _SMALLEST - 30.0
    good = np.repeat(same.all(axis=0), 2) & _monotone(halves)
    bounds = halves.log_bounds.max(axis=0)
    return np.asarray(good | (bounds < _SMALLEST - 30.0) | ((level > 12) & (bounds < -42.0)))


def _monotone(panels: Panels) -> Bools:
    """Return whether the loss is monotone on each panel, up to rounding.

    An infinite loss must be infinite on the whole panel.
    """
    losses = difference(panels.values[0], panels.values[1])
    with np.errstate(invalid="ignore"):
        steps = np.diff(losses, axis=1)
        size = np.where(np.isfinite(panels.values), np.abs(panels.values), 0.0).max(axis=(0, 2))
        up, down = np.maximum(steps, 0.0).sum(axis=1), np.maximum(-steps, 0.0).sum(axis=1)
        smooth = np.minimum(up, down) <= 1e-10 + 1e-14 * size
    infinite = (losses == np.inf).all(axis=1) | (losses == -np.inf).all(axis=1)
    return np.asarray(smooth | infinite | np.isnan(losses).all(axis=1))

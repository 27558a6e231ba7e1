"""Independent parts run on the same data: their privacy losses add up, so the law of the loss is a convolution.

A loss with few values is convolved exactly. Any other loss is rounded to a grid in two ways. One way gives a pair that
is no harder to tell apart than the true pair (connect the dots: Doroshenko et al. 2022). The other way merges outcomes,
and gives a pair that is no easier to tell apart. Proofs: docs/explanation/theory.md#exact-values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError
from epsaudit.mechanisms.exact.losses import LossPair, merge_equal

CELLS, CELLS_WITH_TAILS = 2000, 8000
"""Greatest number of grid steps to the greatest loss of a part, for bounded losses and for losses with tails."""
LEAST_DELTA = 1e-9
"""Least delta at which the epsilon of a composition is computed; below it the rounding errors of FFTs would show."""
MOST_CELLS = 1 << 21
"""Greatest number of grid steps of the composition."""
_MOST_PRODUCTS = 1 << 23
"""Greatest number of products of atoms that are computed exactly (arrays of 64 MiB); above it a grid is used."""
_TAIL = 1e-17  # probability beyond the end of the grid for unbounded losses
_ON_GRID = 1e-9  # losses this close to a grid point, in steps, count as on the grid
_FLAT = 1e-11  # greatest range of losses on a panel that counts as having one loss
_SAME = 1e-4  # like `_ON_GRID`, for losses that quadrature gives to ten digits

Parts = Sequence[tuple[LossPair, int]]


def convolved(parts: Parts) -> LossPair:
    """Return the pair of laws of independent parts; ``parts`` lists different parts and their numbers of copies.

    The result has finitely many losses. It is exact, or no harder to tell apart than the true pair, with a ``lower``
    that is no easier. FFTs leave an absolute error of about 1e-13 in delta.

    >>> atoms = np.log([[0.75, 0.25], [0.25, 0.75]])
    >>> convolved([(LossPair.of(atoms), 2)]).losses.round(4).tolist()
    [2.1972, 0.0, -2.1972]
    """
    parts = tuple(_flat(parts))
    lower, whole = None, _exactly(parts)
    if whole is None:
        step = _step(parts)
        whole = _sum([(_spread(pair, step), count) for pair, count in parts])
        lower = _sum([(_merged(pair.lower or pair, step), count) for pair, count in parts])
    return LossPair(whole.atoms, whole.losses, parts=parts, lower=lower)


def _flat(parts: Parts) -> Iterator[tuple[LossPair, int]]:
    """Replace composed parts by their own parts, so that nothing is rounded twice."""
    for pair, count in parts:
        if pair.parts:
            yield from _flat([(part, count * own) for part, own in pair.parts])
        else:
            yield pair, count


def _exactly(parts: Parts) -> LossPair | None:
    """Convolve atoms by repeated squaring; return None if a part has a density or the atoms become too many."""
    total = LossPair.nothing()
    for pair, count in parts:
        if pair.panels.size or pair.lower is not None:
            return None
        power = pair
        while count:
            partners = [total.losses.size] * (count & 1) + [power.losses.size] * (count > 1)
            if power.losses.size * max(partners) > _MOST_PRODUCTS:
                return None
            if count & 1:
                total = _product(total, power)
            count >>= 1
            if count:
                power = _product(power, power)
    return total


def _product(first: LossPair, second: LossPair) -> LossPair:
    atoms = (first.atoms[:, :, None] + second.atoms[:, None, :]).reshape(2, -1)
    possible = ~np.isneginf(atoms).all(axis=0)
    with np.errstate(invalid="ignore"):  # an outcome of +inf with one of -inf is possible under neither law
        losses = (first.losses[:, None] + second.losses[None, :]).ravel()
    return LossPair(*merge_equal(atoms[:, possible], losses[possible]))


class _Grid(NamedTuple):
    """Masses under both laws, shape (2, n), on losses (first + 0, 1, 2, ...) * step, and masses of only one law."""

    step: float
    first: int
    masses: Floats
    only: tuple[float, float]


def _sum(terms: Sequence[tuple[_Grid, int]]) -> LossPair:
    """Return the pair of the sum of independent losses.

    Of the two masses of a loss the greater is kept, and the other follows from it.
    """
    from scipy.fft import irfft, next_fast_len, rfft  # slow to import

    length = 1 + sum(count * (grid.masses.shape[1] - 1) for grid, count in terms)
    size = next_fast_len(length, real=True)
    spectrum = np.ones((2, size // 2 + 1), complex)
    for grid, count in terms:
        spectrum *= rfft(grid.masses, size) ** count
    masses = np.maximum(irfft(spectrum, size)[:, :length], 0.0)
    only = [-math.expm1(sum(count * math.log1p(-grid.only[law]) for grid, count in terms)) for law in (0, 1)]
    losses = terms[0][0].step * (sum(count * grid.first for grid, count in terms) + np.arange(length))
    with np.errstate(divide="ignore"):
        (log_p, log_q), sure = np.log(masses), np.log(np.diag(only))
    atoms = np.where(losses >= 0.0, [log_p, log_p - losses], [log_q + losses, log_q])
    kept = atoms.max(axis=0) > -80.0
    atoms = np.column_stack([sure[:, 0], atoms[:, kept][:, ::-1], sure[:, 1]])
    losses = np.concatenate([[np.inf], losses[kept][::-1], [-np.inf]])
    possible = ~np.isneginf(atoms).all(axis=0)
    return LossPair(atoms[:, possible], losses[possible])


def _step(parts: Parts) -> float:
    """Return a grid step for which the greatest loss of the first part with a density lies on the grid."""
    reach = [_reach(pair) for pair, _ in parts]
    greatest = max(reach)
    if greatest == 0.0:
        raise AuditError("The parts have no privacy loss at all; there is nothing to convolve.")
    anchor = next((r for r, (pair, _) in zip(reach, parts, strict=True) if pair.panels.size and r > 0.0), greatest)
    total = 2.0 * sum(r * count for r, (_, count) in zip(reach, parts, strict=True))
    # losses count as bounded if the outermost panels on both sides have one loss each
    ranges = [pair.ranges for pair, _ in parts if pair.panels.size]
    bounded = all(high[0] - low[0] < _FLAT and high[-1] - low[-1] < _FLAT for low, high in ranges)
    cells = min((CELLS if bounded else CELLS_WITH_TAILS) * anchor / greatest, MOST_CELLS * anchor / total)
    return anchor / max(math.floor(cells), 1)


def _reach(pair: LossPair) -> float:
    """Return the greatest absolute finite loss, or, for unbounded losses, a loss that both laws rarely exceed."""
    common = pair.panels.log_bounds.max(axis=0) > math.log(_TAIL)
    losses = np.concatenate([pair.losses, pair.panel_losses[common].ravel()])
    return float(np.abs(losses[np.isfinite(losses)]).max(initial=0.0))


def _cells(pair: LossPair, step: float) -> tuple[Floats, Floats, Floats]:
    """Return grid points, and masses under both laws below the first point, between points, and above the last one.

    A loss that many outcomes share gets a cell of its own, from just below it to just above.
    """
    reach = math.ceil(_reach(pair) / step - _ON_GRID)
    least, greatest = pair.ranges
    shared = np.concatenate([pair.losses, least[greatest - least < _FLAT]])
    above = np.unique(np.round(shared[np.isfinite(shared)], 11)) + 1e-6 * step
    edges = np.union1d(step * np.arange(-reach, reach + 1), above)
    edges = edges[edges <= (reach + 1e-7) * step]
    events = [pair.events(part) for part in np.array_split(edges, max(edges.size // 500, 1))]
    upper = np.exp(np.concatenate([[part.upper, part.upper_prime] for part in events], axis=1))
    lower = np.exp(np.concatenate([[part.lower, part.lower_prime] for part in events], axis=1))
    # the smaller of two tails has more digits
    inner = np.where(upper[:, :-1] <= 0.5, upper[:, :-1] - upper[:, 1:], lower[:, 1:] - lower[:, :-1])
    p, q = np.concatenate([lower[:, :1], np.maximum(inner, 0.0), upper[:, -1:]], axis=1)
    return edges, p, q


def _spread(pair: LossPair, step: float) -> _Grid:
    """Move the masses of each step to its two ends, such that both laws keep their total: no harder to tell apart."""
    edges, p, q = _cells(pair, step)
    first, last = round(edges[0] / step), round(edges[-1] / step)
    grid_p = np.zeros(last - first + 1)
    places = np.floor(edges[:-1] / step + 1e-5).astype(int)
    right_p = np.clip((p[1:-1] - q[1:-1] * np.exp(places * step)) / -math.expm1(-step), 0.0, p[1:-1])
    np.add.at(grid_p, places - first, p[1:-1] - right_p)
    np.add.at(grid_p, places - first + 1, right_p)
    top = min(float(p[-1]), float(q[-1] * math.exp(last * step)))
    bottom = min(float(p[0]), float(q[0] * math.exp(first * step)))
    grid_p[-1] += top
    grid_p[0] += bottom
    only_p = float(p[-1]) - top + float(p[0]) - bottom
    grid_q = grid_p * np.exp(-step * np.arange(first, last + 1))
    only_q = max(1.0 - float(grid_q.sum()), 0.0)
    only = only_p if only_p > 1e-13 or pair.separates else 0.0, only_q if only_q > 1e-12 else 0.0
    return _Grid(step, first, np.stack([grid_p, grid_q]), only)


def _merged(pair: LossPair, step: float) -> _Grid:
    """Merge neighbouring losses into groups whose own loss lies on the grid: no easier to tell apart."""
    _, p, q = _cells(pair, step)
    only = tuple(float(np.exp(pair.atoms[law][pair.losses == loss]).sum()) for law, loss in ((0, np.inf), (1, -np.inf)))
    p[-1] -= only[0]
    q[0] -= only[1]
    groups = _grouped(p, q, step)
    first, last = min(groups), max(groups)
    masses = np.zeros((2, last - first + 1))
    for place, group in groups.items():
        masses[:, place - first] = group
    return _Grid(step, first, masses, (only[0], only[1]))


def _grouped(p: Floats, q: Floats, step: float) -> dict[int, tuple[float, float]]:
    """Return groups of cells by their place on the grid.

    Cells join a group in the order of their loss until the loss of the group reaches a grid point.
    """
    groups: dict[int, tuple[float, float]] = {}
    group_p = group_q = 0.0
    target = 0
    for cell_p, cell_q in zip(p.tolist(), q.tolist(), strict=True):
        while cell_p > 0.0 and cell_q > 0.0:
            loss = math.log(cell_p / cell_q) / step
            on_grid = abs(loss - round(loss)) < _SAME
            if on_grid and group_q > 0.0 and target >= round(loss):  # else it could never be reached
                _settle(groups, group_p, group_q, step)
                group_p = group_q = 0.0
            if on_grid and group_q == 0.0:
                _add(groups, round(loss), cell_p, cell_q)
                break
            if group_q == 0.0:
                target = math.ceil(loss + 0.5)
            ratio = math.exp(target * step)
            if group_p + cell_p <= ratio * (group_q + cell_q):
                group_p, group_q = group_p + cell_p, group_q + cell_q
                break
            share = (ratio * group_q - group_p) / (cell_p - ratio * cell_q)
            _add(groups, target, group_p + share * cell_p, group_q + share * cell_q)
            cell_p, cell_q = (1.0 - share) * cell_p, (1.0 - share) * cell_q
            group_p = group_q = 0.0
    if group_q > 0.0:
        _settle(groups, group_p, group_q, step)
    return groups


def _settle(groups: dict[int, tuple[float, float]], p: float, q: float, step: float) -> None:
    """Merge the last, unfinished group with parts of those below it until its loss is a grid point."""
    target = math.floor(math.log(p / q) / step)
    ratio = math.exp(target * step)
    for place in sorted((place for place in groups if place < target), reverse=True):
        group_p, group_q = groups[place]
        share = min((p - ratio * q) / (ratio * group_q - group_p), 1.0)
        groups[place] = ((1.0 - share) * group_p, (1.0 - share) * group_q)
        p, q = p + share * group_p, q + share * group_q
        if share < 1.0:
            break
    _add(groups, target, p, q)


def _add(groups: dict[int, tuple[float, float]], place: int, p: float, q: float) -> None:
    before_p, before_q = groups.get(place, (0.0, 0.0))
    groups[place] = (before_p + p, before_q + q)


def bracketed(losses: Floats, masses: Floats, cells: int) -> LossPair:
    """Return a pair of laws from very many finite losses and their probabilities under the first law.

    The losses are summed into ``cells`` cells between the least and the greatest loss. Each cell has its mass at its
    two ends, which is no harder to tell apart; in ``lower`` each cell is one outcome. Arrays have shape (outcomes,);
    masses sum to 1, or a little less.
    """
    least, greatest = float(losses.min()), float(losses.max())
    step = (greatest - least) / cells
    if step == 0.0:
        return LossPair.nothing()
    place = np.minimum(((losses - least) / step).astype(np.intp), cells - 1)
    p, q = np.bincount(place, masses, cells), np.bincount(place, masses * np.exp(-losses), cells)
    return of_cells(np.asarray(p, float), np.asarray(q, float), least, step)


def of_cells(p: Floats, q: Floats, least: float, step: float) -> LossPair:
    """Return what `bracketed` returns, given both probabilities of each cell of the loss.

    The first cell begins at loss ``least``.
    """
    edges = least + step * np.arange(len(p) + 1)
    right = np.clip((p - q * np.exp(edges[:-1])) / -np.expm1(-step), 0.0, p)
    spread = np.append(p - right, 0.0) + np.append(0.0, right)
    with np.errstate(divide="ignore"):
        outer = np.log(np.stack([spread, spread * np.exp(-edges)]))
        inner = np.log(np.stack([p, q]))
    kept = spread > 0.0
    return LossPair(outer[:, kept][:, ::-1], edges[kept][::-1], lower=LossPair.of(inner[:, p > 0.0]))

"""Rankings: sequences that hold each of a few items at most once, read by where items stand and who is before whom.

Outputs come in, and features of items and of pairs of items that tell the two sides apart come out.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.columns import inside
from epsaudit.outputs.normal_form import Array, Outputs, alike, normal, order_key, rows_of, values_of, written
from epsaudit.witnesses.combinations import Combined
from epsaudit.witnesses.features import LATER, Feature, readable
from epsaudit.witnesses.screening import Floats, log_chance, screen, sure
from epsaudit.witnesses.settings import LOOK, MOST_LEVELS, TELLING
from epsaudit.witnesses.structure import Path, path_label

LEAST_GAP = 3.0
"""Standard errors of chance below which a pair of items is passed over, which saves time: there are thousands."""


@readable
@dataclass(frozen=True)
class PlaceOf:
    """Where an item stands in a sequence, from 0; NaN where it does not.

    Examples
    --------
    >>> PlaceOf("ann")(np.array([("bob", "ann"), None], dtype=object)).tolist(), PlaceOf("ann").label
    ([1.0, nan], "place of 'ann'")
    >>> PlaceOf("ann", ("order",)).label
    "place of 'ann' in y['order']"
    """

    item: Hashable
    path: Path = field(default=(), metadata=LATER)

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"place of {written(self.item)}" + (f" in {path_label(self.path)}" if self.path else "")

    def __call__(self, outputs: Outputs) -> Floats:
        """See `Feature`."""
        outputs = inside(outputs, self.path)
        rows = rows_of(outputs) if len(outputs) else None
        if rows is not None and rows.shape[1] and type(self.item) is float:
            found = np.isnan(rows) if self.item != self.item else rows == self.item
            return np.where(found.any(axis=1), found.argmax(axis=1).astype(float), np.nan)
        item = normal(self.item)  # of NaN the one object that all outputs hold
        lists = (value if type(value) in (tuple, Array) else () for value in values_of(outputs))
        return np.fromiter((one.index(item) if item in one else np.nan for one in lists), float, len(outputs))


def rankings_of(outputs: Outputs, outputs_prime: Outputs, path: Path = ()) -> list[Feature]:
    """List places of items, and differences of two places, that tell something, of rankings at a path.

    Examples
    --------
    >>> orders = np.array(list(itertools.permutations([1.0, 2.0, 3.0])) * 50)
    >>> found = rankings_of(orders, orders[orders[:, 0] != 2][:150].repeat(2, axis=0))
    >>> [feature.label for feature in found if isinstance(feature, PlaceOf)], found[3].label
    (['place of 1', 'place of 2', 'place of 3'], 'place of 1 - place of 2')
    """
    size = min(len(outputs), LOOK)
    parts = alike(inside(outputs[:size], path), inside(outputs_prime[:size], path))
    found = _coded(np.concatenate(parts))
    if found is None:
        return []
    items, codes = found
    number, rows = len(items), np.arange(len(codes))[:, None]
    places = np.full((len(codes), number), -1, np.int16)
    places[rows, codes] = np.arange(codes.shape[1])
    pairs = [
        (log_chance(float(gap[i, j] ** 2), 1), Combined("-", PlaceOf(items[i], path), PlaceOf(items[j], path)))
        for gap in (_gaps(_before(places), size), _gaps(_next_to(codes, number), size))
        for i, j in zip(*np.nonzero(np.abs(gap) > LEAST_GAP), strict=True)
    ]
    singles = screen([PlaceOf(item, path) for item in items], outputs, outputs_prime, TELLING // 2)
    others = [(0.0, singles[0])] * (2 * number**2)  # as many were looked at
    return [*singles, *dict.fromkeys(sure([*pairs, *others], TELLING))]


def is_ranking(outputs: Outputs) -> bool:
    """Say whether the first outputs are rankings of a few items.

    Examples
    --------
    >>> is_ranking(np.array([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])), is_ranking(np.array([1.0, 2.0]))
    (True, False)
    """
    return _coded(outputs[:64]) is not None


def _coded(outputs: Outputs) -> tuple[list[Any], NDArray[np.int64]] | None:
    """The items of rankings of one length, and each ranking as their numbers; None for what is no ranking."""
    rows = rows_of(outputs) if len(outputs) else None
    if rows is None:
        values = values_of(outputs)
        if set(map(type, values)) != {tuple} or len(set(map(len, values))) != 1:
            return None
        flat = list(itertools.chain.from_iterable(values))
        items = sorted(set(flat[: 64 * len(values[0])]), key=order_key)
        if not set(flat) <= set(items) or len(items) > MOST_LEVELS:
            return None
        number = {item: place for place, item in enumerate(items)}
        codes = np.array([number[item] for item in flat]).reshape(len(values), -1)
    else:
        found = np.unique(rows[:64])
        if len(found) > MOST_LEVELS or not np.isin(rows, found).all():
            return None
        codes, items = np.searchsorted(found, rows), found.tolist()
    if codes.shape[1] < 3 or np.any(np.diff(np.sort(codes, axis=1), axis=1) == 0):
        return None
    return items, codes


def _before(places: NDArray[np.int16]) -> Iterator[NDArray[np.bool_]]:
    """For every item, where it stands before each of the others."""
    for i in range(places.shape[1]):
        yield (places[:, i : i + 1] < places) & (places[:, i : i + 1] >= 0)


def _next_to(codes: NDArray[np.int64], number: int) -> Iterator[NDArray[np.bool_]]:
    """For every item, whether it stands right before each of the others."""
    for i in range(number):
        row, place = np.nonzero(codes[:, :-1] == i)
        found = np.zeros((len(codes), number), bool)
        found[row, codes[row, place + 1]] = True
        yield found


def _gaps(seen: Iterator[NDArray[np.bool_]], size: int) -> Floats:
    """By how many standard errors two samples of one size differ in how often each is true."""
    counts = np.array([[part.sum(axis=0) for part in (one[:size], one[size:])] for one in seen], float)
    first, second = counts[:, 0], counts[:, 1]
    share = (first + second) / (2 * size)
    return np.asarray((first - second) / np.sqrt(2 * size * share * (1 - share) + 1e-9))

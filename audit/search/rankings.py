"""Features of rankings: outputs that are permutations of the same items."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.arrays import Outputs, align_dtypes, rows_of, values_of
from epsaudit.outputs.layouts import OutputPath, parts_at
from epsaudit.outputs.normal_form import order_key
from epsaudit.search.difference_tests import MAX_SCREENING_OUTPUTS, keep_significant, log_p_value, select_most_different
from epsaudit.search.limits import MAX_FEATURES_PER_KIND, MAX_LEVELS
from epsaudit.witnesses.combinations import Combination
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import PositionOf


def list_ranking_features(outputs: Outputs, outputs_prime: Outputs, path: OutputPath = ()) -> list[Feature]:
    """Return the features of rankings at ``path`` that differ between x and x'.

    The features are positions of single items, and differences of the positions of two items. For two items it is
    tested how often the first one stands before the second one, and how often directly before it. The list is empty if
    the outputs hold no rankings at this path.
    """
    size = min(len(outputs), MAX_SCREENING_OUTPUTS)
    ranked = parse_rankings(
        np.concatenate(align_dtypes(parts_at(outputs[:size], path), parts_at(outputs_prime[:size], path)))
    )
    if ranked is None:
        return []
    items, codes = ranked
    places = np.full((len(codes), len(items)), -1, np.int16)
    places[np.arange(len(codes))[:, None], codes] = np.arange(codes.shape[1])
    found: list[tuple[float, Feature]] = []
    for i, item in enumerate(items):
        own = places[:, i : i + 1]
        ahead = (own < places) & (own >= 0)
        # Test how often the item stands before another, and how often directly before it.
        for before in (ahead, ahead & (places == own + 1)):
            seen = np.array([before[:size].sum(axis=0), before[size:].sum(axis=0)])
            share = seen.sum(axis=0) / (2 * size)
            gaps = (seen[0] - seen[1]) ** 2 / (2 * size * share * (1 - share) + 1e-9)
            for chance, other in zip(log_p_value(gaps, 1).tolist(), items, strict=True):
                found.append((chance, Combination("-", PositionOf(item, path), PositionOf(other, path))))
    singles = select_most_different(
        [PositionOf(item, path) for item in items], outputs, outputs_prime, MAX_FEATURES_PER_KIND // 2
    )
    return [*singles, *dict.fromkeys(keep_significant(found, MAX_FEATURES_PER_KIND))]


def parse_rankings(outputs: Outputs) -> tuple[list[Any], NDArray[np.int64]] | None:
    """Return the items of rankings, and the rankings as item numbers of shape (outputs, items).

    Outputs are rankings if all of them are permutations of the same three or more items. Returns None otherwise.
    """
    rows = rows_of(outputs) if len(outputs) else None
    values: list[Any] = values_of(outputs) if rows is None else [tuple(row) for row in rows[:64].tolist()]
    if set(map(type, values)) != {tuple} or len(set(map(len, values))) != 1 or len(values[0]) < 3:
        return None
    items = sorted(set(itertools.chain.from_iterable(values[:64])), key=order_key)
    if len(items) > MAX_LEVELS:
        return None
    if rows is not None:
        codes = np.searchsorted(items, rows)
        if not np.isin(rows, items).all():
            return None
    else:
        number = {item: place for place, item in enumerate(items)}
        codes = np.array([[number.get(item, -1) for item in value] for value in values])
    if np.any(codes < 0) or np.any(np.diff(np.sort(codes, axis=1), axis=1) == 0):
        return None
    return items, codes

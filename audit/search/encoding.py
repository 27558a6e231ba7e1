"""DOC"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import (
    Floats,
    Outputs,
    distinct,
)
from epsaudit.search.limits import MIN_ATOM_COUNT, N_FOLDS
from epsaudit.search.readers import Features, find_features
from epsaudit.witnesses.feature import Feature

MAX_ATOMS = 4096
"""[memory] Atoms that are counted one by one, commonest first; each may stand in a file."""
MIN_NUMBER_COUNT = 4
"""[chosen] How often an atom must be seen, and a number, for continuous ones coincide in single precision."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """Training outputs of both sides, ``size`` each, and their features.

    Rows are the different ``outputs``, or all where few repeat; ``atoms``, of shape (rows,), numbers those that are
    atoms, the commonest first, -1 for none. An entry is an output as one side and fold showed it: ``row``, ``group``
    and ``weight``, of shape (entries,), are its row, twice its fold and 1 more for x', and how often it was seen.
    """

    sides: tuple[Outputs, Outputs]
    size: int
    outputs: Outputs
    row: NDArray[np.int64]
    group: NDArray[np.int8]
    weight: Floats
    atoms: NDArray[np.int64]
    features: Features
    _known: dict[Feature, Floats] = field(default_factory=dict)

    def numbers(self, feature: Feature) -> Floats:
        """Read a feature off every row."""
        if feature not in self._known:
            self._known[feature] = np.asarray(feature(self.outputs), float)
        return self._known[feature]


def encode(
    outputs: Outputs,
    outputs_prime: Outputs,
    features: Features | None = None,
    *,
    merge_repeats: bool = True,
    only_groups: bool = False,
) -> Encoding:
    """Put outputs in normal form, as many of x' as of x, into a table; by default of all `Features` that are found.

    Outputs that repeat are read if ``merge_repeats``, unless features tell equal ones apart, as 0.0 and -0.0. Of vectors, if
    ``only_groups``, only those are looked for that sums are learnt from.
    """
    both, size = np.concatenate([outputs, outputs_prime]), len(outputs)
    sides = both[:size], both[size:]  # columns are read of both at once
    features = features or find_features(*sides, only_groups=only_groups)
    fold = np.arange(size) % N_FOLDS
    group = np.concatenate([2 * fold, 2 * fold + 1]).astype(np.int8)
    first, place = distinct(both)
    plain = both.dtype == np.float64
    if not plain:
        both = both.astype(object)  # what is read of objects is read once
    seen = np.bincount(place)
    common = np.argsort(-seen, kind="stable")[:MAX_ATOMS]
    common = common[seen[common] >= (MIN_NUMBER_COUNT if plain else MIN_ATOM_COUNT)]
    atoms = np.full(len(first), -1)
    atoms[common] = np.arange(len(common))
    if not merge_repeats or len(first) > len(both) / 2:
        return Encoding(sides, size, both, np.arange(len(both)), group, np.ones(len(both)), atoms[place], features)
    kinds = 2 * N_FOLDS
    counts = np.bincount(place * kinds + group, minlength=len(first) * kinds).reshape(len(first), -1)
    row, kind = np.nonzero(counts)
    weight = counts[row, kind].astype(float)
    return Encoding(sides, size, both[first], row, kind.astype(np.int8), weight, atoms, features)

"""The table of training outputs that all families of scores share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.outputs.arrays import Outputs
from epsaudit.outputs.atoms import find_distinct
from epsaudit.search.limits import MIN_ATOM_COUNT, N_FOLDS
from epsaudit.search.readers import Features, find_features
from epsaudit.witnesses.feature import Feature

MAX_ATOMS = 4096
"""[memory] Maximum number of atoms that are counted one by one. The most common ones are kept. Each of them may be
written to a file."""
MIN_NUMBER_COUNT = 4
"""[chosen] Minimum number of times that a number must occur to be counted as an atom. It is larger than
`MIN_ATOM_COUNT` because continuous numbers coincide by chance in single precision."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """A table of the training outputs of x and x', together with their features.

    If many outputs repeat, equal outputs share a row; otherwise every output has a row of its own. The outputs are
    divided into folds for cross-validation. An entry of the table says how often the output of a row occurred on one
    dataset in one fold.

    Attributes
    ----------
    sides : tuple of Outputs
        The outputs of x and of x'.
    size : int
        Number of outputs on each dataset.
    outputs : Outputs
        The output of each row.
    row : array of shape (entries,)
        Row of each entry.
    group : array of shape (entries,)
        Twice the number of the entry's fold, plus 1 if the entry belongs to x'.
    weight : array of shape (entries,)
        Number of times that the output of the entry occurred.
    atoms : array of shape (rows,)
        Number of the atom (a single output that repeats) of each row, 0 for the most common atom; -1 for other rows.
    features : Features
        The features of the outputs.
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
        """Return the number of a feature for the output of every row. The numbers are cached."""
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
    """Build the table of training outputs of x and x'. The outputs must be in normal form.

    Parameters
    ----------
    outputs, outputs_prime : Outputs
        Outputs of x and of x', equally many.
    features : Features, optional
        Features to use. By default they are found by `epsaudit.search.readers.find_features`.
    merge_repeats : bool
        Whether equal outputs share a row. It must be false if a feature distinguishes equal outputs such as 0.0 and
        -0.0.
    only_groups : bool
        Whether only those features are found from which scores of several features are learnt.
    """
    both, size = np.concatenate([outputs, outputs_prime]), len(outputs)
    # Both sides are views of one array, so that their columns are parsed together.
    sides = both[:size], both[size:]
    features = features or find_features(*sides, only_groups=only_groups)
    fold = np.arange(size) % N_FOLDS
    group = np.concatenate([2 * fold, 2 * fold + 1]).astype(np.int8)
    first, place = find_distinct(both)
    plain = both.dtype == np.float64
    if not plain:
        both = both.astype(object)  # an array of objects caches what is parsed from it
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

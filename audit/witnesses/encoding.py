"""The encoder: which numbers are read off outputs, alone and together, and how often each output was seen.

Outputs of both sides come in, a table of numbers comes out, whose columns are features and whose rows are different
outputs. A quick two-sample test of each feature on a part of the outputs says which are worth being looked at alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.normal_form import Items, Outputs, are_numbers, are_objects, number, order_key, rows_of
from epsaudit.witnesses.atoms import distinct
from epsaudit.witnesses.bits import Residue
from epsaudit.witnesses.combinations import Reduced, combinations_of, increments, releases_of
from epsaudit.witnesses.features import Coordinate, Feature, Value
from epsaudit.witnesses.settings import (
    CELLS_TO_TEST,
    FOLDS,
    LEARNT_COMBINATIONS,
    LEAST_OF_ATOM,
    LEAST_OF_NUMBER,
    LEAST_SEEN,
    LOOK,
    MODULI,
    MOST_ATOMS,
    MOST_COORDINATES,
    MOST_PARTS,
    SURE,
    TELLING,
    TELLING_REMAINDERS,
)
from epsaudit.witnesses.structure import At, Contains, numbers_inside, structure_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """What is read off outputs.

    Attributes
    ----------
    alone : tuple of Feature
        Features to look at one by one, those that tell most.
    tried : int
        Of how many.
    groups : tuple of tuples of Feature
        Features to learn a score from; those of a group are of one kind.
    alike : int
        How many groups, the first ones, hold features in an order that may matter.
    """

    alone: tuple[Feature, ...] = ()
    tried: int = 1
    groups: tuple[tuple[Feature, ...], ...] = ()
    alike: int = 0

    @classmethod
    def of(cls, outputs: Outputs, outputs_prime: Outputs) -> Features:
        """List the features of outputs in normal form."""
        sides = outputs, outputs_prime
        size, scalar = size_of(outputs), outputs.ndim == 1 and are_numbers(outputs)
        if scalar or size == 1:
            only: Feature = Value() if scalar else Coordinate(0)
            return cls((only, *screen(remainders_of([only], *sides), *sides, TELLING_REMAINDERS, SURE)))
        if not size and not are_objects(outputs):
            return cls()
        structure: list[Feature] = []
        if size:
            basic: list[Feature] = [Coordinate(i) for i in range(size)]
            extra, releases = combinations_of(size), releases_of(*sides, size)
            groups = [basic, [] if releases or size > MOST_PARTS else increments(size)]
        else:
            basic, structure = features_of(*sides), structure_of(*sides)
            sample = [*outputs.tolist(), *outputs_prime.tolist()]
            inside = numbers_inside(sample)
            longest = max((len(value) for value in sample if isinstance(value, tuple)), default=0)
            flat = all(isinstance(one(outputs[:1])[0], float) for one in inside) and 1 < longest <= 16
            extra = combinations_of(longest) if flat and inside else []
            releases = releases_of(*sides, longest) if extra else []
            groups = [list(dict.fromkeys([*basic, *inside, *structure]))]
        alike = len(groups) if size else 0
        whole = [one for one in extra if isinstance(one, Reduced)]
        pairs = [one for one in extra if not isinstance(one, Reduced)]
        sums: list[Feature] = [Reduced("sum", size)] if size else []
        remainders = remainders_of([*basic[: MOST_COORDINATES // 16], *sums], *sides)
        alone = [
            *screen(basic, *sides, TELLING),
            *screen(structure, *sides, TELLING),
            *screen(whole, *sides, TELLING // 2),
            *screen(pairs, *sides, TELLING // 2),
            *releases,
            *screen(remainders, *sides, TELLING_REMAINDERS, SURE),
        ]
        groups += [releases, screen(extra, *sides, LEARNT_COMBINATIONS)]
        tried = len(basic) + len(extra) + len(releases) + len(structure)
        return cls(tuple(dict.fromkeys(alone)), tried, tuple(map(tuple, groups)), alike)

    def used(self, learnt: bool, features: set[Feature]) -> Features:
        """Leave out what is not among ``features``, and all groups unless a ``learnt`` score was any good."""
        groups = [group if learnt and features.intersection(group) else () for group in self.groups]
        return replace(self, alone=tuple(one for one in self.alone if one in features), groups=tuple(groups))


@dataclass(frozen=True, eq=False)
class Encoding:
    """Training outputs of both sides and their features. An entry is an output as one side and fold showed it.

    Attributes
    ----------
    sides : tuple of two Outputs
        All outputs, as many of x as of x'.
    outputs : Outputs, shape (rows, ...)
        Different outputs, or all of them where few repeat.
    row, group, weight : ndarray, shape (entries,)
        The row of every entry, twice its fold and 1 more for x', and how often it was seen.
    atoms : ndarray of int, shape (rows,)
        Number of the atom that each row is, the commonest first, -1 for none.
    features : Features
        What is read off them.
    """

    sides: tuple[Outputs, Outputs]
    outputs: Outputs
    row: NDArray[np.int64]
    group: NDArray[np.int8]
    weight: Floats
    atoms: NDArray[np.int64]
    features: Features
    _known: dict[Feature, Floats] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of outputs a side."""
        return len(self.sides[0])

    def numbers(self, feature: Feature) -> Floats:
        """Read a feature off every row."""
        if feature not in self._known:
            self._known[feature] = np.asarray(feature(self.outputs), float)
        return self._known[feature]

    def among(self, alone: Sequence[Feature]) -> Encoding:
        """Return the same table with fewer features to look at one by one."""
        return replace(self, features=replace(self.features, alone=tuple(alone)))


def encode(
    outputs: Outputs, outputs_prime: Outputs, features: Features | None = None, *, once: bool = True
) -> Encoding:
    """Put outputs in normal form, as many of x' as of x, into a table; by default of all `Features`.

    Outputs that repeat are read ``once``, unless features tell equal ones apart, as 0.0 and -0.0.

    Examples
    --------
    >>> table = encode(np.array([1.0, 2.0, 1.0, 1.0]), np.array([2.0, 2.0, 1.0, 2.0]))
    >>> table.outputs, float(table.weight.sum()), table.atoms, table.features.alone
    (array([1., 2.]), 8.0, array([0, 1]), (Value(),))
    """
    features = features or Features.of(outputs, outputs_prime)
    pooled = np.concatenate([outputs, outputs_prime])
    fold = np.arange(len(outputs)) % FOLDS
    group = np.concatenate([2 * fold, 2 * fold + 1]).astype(np.int8)
    first, place = distinct(pooled)
    seen = np.bincount(place)
    least = LEAST_OF_NUMBER if are_numbers(outputs) else LEAST_OF_ATOM
    common = np.argsort(-seen, kind="stable")[:MOST_ATOMS]
    common = common[seen[common] >= least]
    atoms = np.full(len(first), -1)
    atoms[common] = np.arange(len(common))
    sides = outputs, outputs_prime
    if not once or len(first) > len(pooled) / 2:
        return Encoding(sides, pooled, np.arange(len(pooled)), group, np.ones(len(pooled)), atoms[place], features)
    counts = np.bincount(place * (2 * FOLDS) + group, minlength=len(first) * 2 * FOLDS).reshape(len(first), -1)
    row, kind = np.nonzero(counts)
    weight = counts[row, kind].astype(float)
    return Encoding(sides, pooled[first], row, kind.astype(np.int8), weight, atoms, features)


def screen(
    features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, most: int, least: float = -np.inf
) -> list[Feature]:
    """Return the ``most`` features with the greatest evidence, in their order, of those with at least ``least``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 5))
    >>> screen([Coordinate(i) for i in range(5)], x + [0, 0, 1, 0, 0], rng.normal(size=(1000, 5)), most=1)
    [Coordinate(index=2)]
    """
    if len(features) <= most and least == -np.inf:
        return list(features)
    part, part_prime = outputs[:LOOK], outputs_prime[:LOOK]
    found = [standardised(*deviance(*cells(feature(part), feature(part_prime)))) for feature in features]
    best = sorted(np.argsort(found, kind="stable")[::-1][:most])
    return [features[i] for i in best if found[i] >= least]


def cells(numbers: NDArray[np.generic], numbers_prime: NDArray[np.generic]) -> tuple[NDArray[np.int64], int]:
    """Cell of every number, x's first, and how many numbers are x's: single values if few, else quantiles; and NaN."""
    pooled = np.concatenate([np.asarray(numbers, float), np.asarray(numbers_prime, float)])
    known = np.sort(pooled[~np.isnan(pooled)])
    levels = known[np.append(True, known[1:] > known[:-1])[: len(known)]]
    if len(levels) > CELLS_TO_TEST:
        levels = np.unique(known[np.linspace(0, len(known) - 1, CELLS_TO_TEST).astype(int)])
    return np.where(np.isnan(pooled), -1, np.searchsorted(levels, pooled)), len(numbers)


def deviance(place: NDArray[np.int64], size: int) -> tuple[float, int]:
    """Wilks's likelihood ratio statistic of the cells of two samples, and its degrees of freedom."""
    code = place - place.min(initial=0)
    number = int(code.max(initial=0)) + 1
    table = np.stack([np.bincount(side, minlength=number) for side in (code[:size], code[size:])]).astype(float)
    table = table[:, table.any(axis=0)]
    expected = table.sum(axis=0) * (table.sum(axis=1, keepdims=True) / max(table.sum(), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / expected), 0.0)
    return 2.0 * float(terms.sum()), table.shape[1] - 1


def standardised(statistic: float, freedom: int) -> float:
    """A chi-square statistic less its mean, in units of its standard deviation."""
    return (statistic - freedom) / np.sqrt(2.0 * freedom) if freedom > 0 else 0.0


def size_of(outputs: Outputs) -> int:
    """Number of coordinates of outputs that are numeric arrays, 0 for others and for scalars."""
    rows = rows_of(outputs)
    return 0 if rows is None else min(rows.shape[1], MOST_COORDINATES)


def whole(numbers: Floats) -> bool:
    """Whether all numbers are whole, and more than 2 apart."""
    known = numbers[np.isfinite(numbers)]
    if len(known) == 0 or np.any(known[:64] != np.floor(known[:64])):
        return False
    return bool(np.all(known == np.floor(known)) and np.ptp(known) > 2)


def remainders_of(sources: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """List remainders of what is whole; beyond their span, a remainder is the number itself."""
    found: list[Feature] = []
    for feature in sources:
        numbers = np.concatenate([feature(outputs), feature(outputs_prime)])
        if whole(numbers):
            span = np.ptp(numbers[np.isfinite(numbers)])
            found += [Residue(feature, modulus) for modulus in MODULI if modulus <= span]
    return found


def features_of(outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """List the features of objects: the number itself, each coordinate of a tuple, keys of a mapping.

    Of the keys, those whose presence differs most between the sides come first.
    """
    sample = [*outputs[:2000].tolist(), *outputs_prime[:2000].tolist()]
    longest = max((len(value) for value in sample if isinstance(value, tuple)), default=0)
    plain: list[Feature] = [Value()] if any(number(value) == number(value) for value in sample) else []
    if longest and all(isinstance(value, Items) for value in sample if isinstance(value, tuple)):
        keys = _telling_keys(outputs, outputs_prime)[: MOST_PARTS // 2]
        return plain + [feature for key in keys for feature in (Contains(key), At((key,)))]
    return plain + [Coordinate(i) for i in range(min(longest, MOST_PARTS))]


def _telling_keys(outputs: Outputs, outputs_prime: Outputs) -> list[Hashable]:
    """Keys of outputs that are mappings, by how much their presence differs between the sides."""
    counts, counts_prime = (
        Counter(key for value in side.tolist() if isinstance(value, Items) for key, _ in value)
        for side in (outputs, outputs_prime)
    )
    pooled = counts + counts_prime
    often = {key: seen for key, seen in pooled.items() if seen >= LEAST_SEEN}
    telling = {key: (counts[key] - counts_prime[key]) ** 2 / seen for key, seen in often.items()}
    return sorted(telling, key=lambda key: (-telling[key], -pooled[key], order_key(key)))

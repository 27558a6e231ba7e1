"""The encoder: which numbers are read off outputs, alone and together, and how often each output was seen.

Outputs of both sides come in, a table of numbers comes out, whose columns are features and whose rows are different
outputs. A quick two-sample test of each feature on a part of the outputs says which are worth being looked at alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.columns import distinct
from epsaudit.outputs.normal_form import Floats, Outputs
from epsaudit.outputs.packed import are_numbers, are_objects, rows_of
from epsaudit.witnesses import settings
from epsaudit.witnesses.combinations import Combined, Reduced, combinations_of, increments, rankings_of, releases_of
from epsaudit.witnesses.features import Contains, Coordinate, Feature, Value
from epsaudit.witnesses.fields import Fields, atoms_within, derived, features_of, holding, structure_of
from epsaudit.witnesses.screening import (
    correlated,
    differences,
    screen,
    sure,
    sure_coordinates,
    telling_coordinates,
    telling_patches,
    telling_waves,
)
from epsaudit.witnesses.tables import fields_scanned, pairs_together, rare_regions


@dataclass(frozen=True)
class Features:
    """What is read off outputs.

    ``alone`` are features to look at one by one, those that tell most of so many ``tried``; ``regions`` those that are
    rare regions, the best of so many ``scanned``. Scores are learnt from ``groups`` of features of one kind, of which
    the first so many ``alike`` are in an order that may matter. ``notes`` say what was not looked at.
    """

    alone: tuple[Feature, ...] = ()
    tried: int = 1
    groups: tuple[tuple[Feature, ...], ...] = ()
    alike: int = 0
    notes: tuple[str, ...] = ()
    regions: tuple[Feature, ...] = ()
    scanned: int = 1

    @classmethod
    def of(cls, outputs: Outputs, outputs_prime: Outputs, *, learnt: bool = False) -> Features:
        """List the features of outputs in normal form; of vectors, if ``learnt``, only groups to learn from."""
        sides = outputs, outputs_prime
        rows = rows_of(outputs) if len(outputs) else None
        if rows is not None and rows.shape[1] == 0:
            return cls()
        if are_numbers(outputs) and (rows is None or rows.shape[1] == 1):
            only: Feature = Value() if outputs.ndim == 1 else Coordinate(0)
            place = () if outputs.ndim == 1 else (0,)
            remainders = sure(derived([only], *sides), settings.TELLING_REMAINDERS)
            return cls((only, *remainders, *atoms_within([place], *sides)))
        if rows is None and not are_objects(outputs):
            outputs, outputs_prime = (side.astype(object) for side in sides)
        return cls._of_rows(*sides, learnt) if rows is not None else cls._of_objects(outputs, outputs_prime)

    @classmethod
    def _of_rows(cls, outputs: Outputs, outputs_prime: Outputs, learnt: bool) -> Features:
        """List the features of arrays of numbers of one shape."""
        sides, size = (outputs, outputs_prime), outputs[0].size
        gaps = differences(*sides) if size > settings.MOST_COORDINATES else np.zeros(size)
        chosen = telling_coordinates(gaps, settings.MOST_COORDINATES)
        basic: list[Feature] = [Coordinate(i) for i in chosen]
        releases = releases_of(*sides, size)
        sums: list[Feature] = [Reduced("sum", size)]
        groups = [basic, [] if releases or size > settings.MOST_PARTS else increments(size)]
        if size > settings.MOST_COORDINATES:
            linear: list[Feature] = [Coordinate(i) for i in _learnt_from(gaps)]
            likeliest = set(linear)
            groups = [screen([one for one in basic if one in likeliest], *sides, settings.MOST_PARTS), linear]
        extra = combinations_of(size) if size <= settings.MOST_COORDINATES else [*sums, Reduced("norm", size)]
        many = [Coordinate(i) for i in telling_coordinates(gaps, settings.MOST_CORRELATED)]
        pairs = correlated(many, *sides) if size > settings.MOST_PAIRED else []
        extra += [Combined(sign, *pair) for pair in pairs for sign in "+-*"]
        waves = telling_waves(*sides) + telling_patches(*sides) if size > settings.MOST_COORDINATES else []
        groups = [*groups, waves, releases, screen(extra, *sides, settings.LEARNT_COMBINATIONS)]
        if learnt:
            return cls(groups=tuple(map(tuple, groups)), alike=2)
        orders = rankings_of(*sides)
        likely = list(dict.fromkeys(itertools.chain.from_iterable(pairs))) if size > settings.MOST_PAIRED else basic
        regions, scanned = rare_regions(list(dict.fromkeys([*likely, *basic])), *sides)
        together = pairs_together(likely, *sides)
        more = [*together, *regions, *orders, *atoms_within([(i,) for i in chosen], *sides), *waves]
        found = cls._put_together(sides, basic, [], extra, releases, [*basic, *sums], groups, more)
        notes = _notes(size - len(chosen), f"{size:,} coordinates") + _unscanned(size, len(outputs))
        tried = found.tried + size - len(chosen)
        return replace(found, tried=tried, alike=2, notes=notes, regions=tuple(regions), scanned=scanned)

    @classmethod
    def _of_objects(cls, outputs: Outputs, outputs_prime: Outputs) -> Features:
        """List the features of records, text, sets and mixtures."""
        sides, fields = (outputs, outputs_prime), Fields.of(outputs, outputs_prime)
        structure = structure_of(*sides, fields.lengths, fields.texts)
        basic = [*features_of(*sides), *fields.numbers]
        sample = itertools.chain.from_iterable(side[: settings.LOOK].tolist() for side in sides)
        longest = max((len(value) for value in sample if type(value) is tuple), default=0)
        extra = combinations_of(longest) if fields.numbers and 1 < longest <= 16 else []
        releases = releases_of(*sides, longest) if extra else []
        likeliest = [one for one in basic if one in fields.sure] if fields.sure else basic
        learnt = screen(list(dict.fromkeys([*likeliest, *structure])), *sides, settings.MOST_PARTS)
        sources: list[Feature] = [*fields.symbols, *fields.numbers]
        pairs = correlated(sources, *sides) if len(sources) > settings.MOST_PAIRED else []
        best = screen([one for one in sources if one in learnt or one in fields.symbols], *sides, settings.MOST_PAIRED)
        likely = list(dict.fromkeys([*itertools.chain.from_iterable(pairs), *best]))
        regions, scanned = rare_regions(list(dict.fromkeys([*likely, *sources])), *sides)
        together = [*pairs_together(likely, *sides), *regions]
        paths = [(one.index,) if isinstance(one, Coordinate) else one.path for one in fields.numbers]
        atoms = atoms_within(paths, *sides)
        orders = [one for path in fields.rankings for one in rankings_of(*sides, path)]
        more = [*together, *orders, *screen(fields.symbols, *sides, settings.TELLING), *atoms]
        telling = [one for one in basic if one in learnt]  # the rest tells less than `MOST_PARTS` others
        groups = [learnt, releases, screen(extra, *sides, settings.LEARNT_COMBINATIONS)]
        found = cls._put_together(sides, telling, structure, extra, releases, basic, groups, more)
        tried = found.tried + len(basic) - len(telling) + fields.left_out
        notes = _notes(fields.left_out, f"{fields.places:,} places") + _unscanned(fields.places, len(outputs))
        if fields.unseen:
            notes += (f"{fields.unseen:,} places inside outputs, and what they hold, were not looked at",)
        return replace(found, tried=tried, notes=notes, regions=tuple(regions), scanned=scanned)

    @classmethod
    def _put_together(
        cls,
        sides: tuple[Outputs, Outputs],
        basic: list[Feature],
        structure: list[Feature],
        extra: list[Feature],
        releases: list[Feature],
        sources: list[Feature],
        groups: list[list[Feature]],
        more: list[Feature],
    ) -> Features:
        """Choose those of each kind that tell most."""
        whole = [one for one in extra if isinstance(one, Reduced)]
        pairs = [one for one in extra if not isinstance(one, Reduced)]
        remainders, telling = derived(sources, *sides), screen(basic, *sides, settings.TELLING)
        alone = [  # of events that say the same the first is chosen
            *(one for one in telling if isinstance(one, Contains)),
            *screen(structure, *sides, settings.TELLING),
            *telling,
            *screen(whole, *sides, settings.TELLING // 2),
            *screen(pairs, *sides, settings.TELLING // 2),
            *releases,
            *sure(remainders, settings.TELLING_REMAINDERS),
            *more,
        ]
        tried = len(basic) + len(extra) + len(releases) + len(structure) + len(more)
        return cls(tuple(dict.fromkeys(alone)), tried, tuple(map(tuple, groups)))

    def tried_like(self, feature: Feature) -> int:
        """Of how many features this one is the best."""
        return self.scanned if feature in self.regions else self.tried

    def used(self, features: set[Feature], learnt: Sequence[set[Feature]]) -> Features:
        """Leave out what is not among ``features``, and groups that no ``learnt`` score has read, alone or with all."""
        read = (any(one.issubset(group) or one.issuperset(group) for one in learnt) for group in self.groups)
        groups = tuple(group if known else () for group, known in zip(self.groups, read, strict=True))
        return replace(self, alone=tuple(one for one in self.alone if one in features), groups=groups)


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
    outputs: Outputs,
    outputs_prime: Outputs,
    features: Features | None = None,
    *,
    once: bool = True,
    learnt: bool = False,
) -> Encoding:
    """Put outputs in normal form, as many of x' as of x, into a table; by default of all `Features` that are found.

    Outputs that repeat are read ``once``, unless features tell equal ones apart, as 0.0 and -0.0. Of vectors, if
    ``learnt``, only those are looked for that sums are learnt from.

    Examples
    --------
    >>> table = encode(np.array([1.0, 2.0, 1.0, 1.0]), np.array([2.0, 2.0, 1.0, 2.0]))
    >>> table.outputs, float(table.weight.sum()), table.atoms, table.features.alone
    (array([1., 2.]), 8.0, array([0, 1]), (Value(),))
    """
    pooled = np.concatenate([outputs, outputs_prime])
    outputs, outputs_prime = pooled[: len(outputs)], pooled[len(outputs) :]  # columns are read of both at once
    features = features or Features.of(outputs, outputs_prime, learnt=learnt)
    fold = np.arange(len(outputs)) % settings.FOLDS
    group = np.concatenate([2 * fold, 2 * fold + 1]).astype(np.int8)
    first, place = distinct(pooled)
    if not are_numbers(pooled):
        pooled = pooled.astype(object)  # what is read of objects is read once
    seen = np.bincount(place)
    least = settings.LEAST_OF_NUMBER if are_numbers(outputs) else settings.LEAST_OF_ATOM
    common = np.argsort(-seen, kind="stable")[: settings.MOST_ATOMS]
    common = common[seen[common] >= least]
    atoms = np.full(len(first), -1)
    atoms[common] = np.arange(len(common))
    sides = outputs, outputs_prime
    if not once or len(first) > len(pooled) / 2:
        return Encoding(sides, pooled, np.arange(len(pooled)), group, np.ones(len(pooled)), atoms[place], features)
    kinds = 2 * settings.FOLDS
    counts = np.bincount(place * kinds + group, minlength=len(first) * kinds).reshape(len(first), -1)
    row, kind = np.nonzero(counts)
    weight = counts[row, kind].astype(float)
    return Encoding(sides, pooled[first], row, kind.astype(np.int8), weight, atoms, features)


def most_read(outputs: Outputs) -> int:
    """How many objects of either side are read: `LOOK` of long ones, of short ones as many as take no longer."""
    return max(settings.LOOK, holding(outputs, settings.LOOK * settings.MOST_PARTS))


def _learnt_from(gaps: Floats) -> list[int]:
    """Coordinates that a score is learnt from: all, or of very many those that surely differ, if there are any.

    The best of 100,000 that tell nothing would look telling in all folds, for all folds chose them.
    """
    sure = set(sure_coordinates(gaps)) if len(gaps) > settings.MOST_LINEAR else set()
    linear = telling_coordinates(gaps, settings.MOST_LINEAR)
    return [place for place in linear if place in sure] if sure else linear


def _notes(left_out: int, what: str) -> tuple[str, ...]:
    return (f"outputs have {what}, of which {left_out:,} were only looked at in passing",) if left_out > 0 else ()


def _unscanned(fields: int, size: int) -> tuple[str, ...]:
    scanned = fields_scanned(size)
    note = f"rare regions of two fields were sought among {scanned:,} of {fields:,} fields"
    return (note,) if fields > max(scanned, 1) else ()

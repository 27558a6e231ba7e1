"""The features that an audit reads off training outputs, proposed by a list of readers.

`find_features` first takes an `Inventory` of the outputs: the numbers, symbols and structures that they contain. Every
`Reader` in `READERS` then proposes features of one kind, tests which of them differ between the two sides, and keeps a
limited number. A new kind of feature is a new line of `READERS`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from epsaudit.outputs.arrays import Outputs, rows_of
from epsaudit.outputs.readings import Reading
from epsaudit.search.cross_tables import MAX_CROSS_TABLES, list_cross_tables
from epsaudit.search.difference_tests import (
    EXPECTED_FALSE_FEATURES,
    compute_coordinate_log_p_values,
    find_smallest,
    keep_significant,
    read_both_sides,
    select_most_different,
    take_screening_outputs,
)
from epsaudit.search.end_numbers import list_end_numbers
from epsaudit.search.field_pairs import (
    MAX_COORDINATES_ALL_PAIRS,
    MAX_CORRELATED_COORDINATES,
    FeaturePairs,
    combine_pairs,
    find_correlated_pairs,
    list_combinations,
)
from epsaudit.search.limits import MAX_COORDINATES, MAX_FEATURES_PER_KIND, MAX_PARTS, MIN_OCCURRENCES
from epsaudit.search.output_fields import MAX_FIELDS, MAX_NAMED_VALUES, OutputFields, is_quantity, path_of
from epsaudit.search.rankings import list_ranking_features
from epsaudit.search.rare_regions import count_scanned_fields, find_rare_regions
from epsaudit.search.remainders import list_remainders
from epsaudit.search.structure import list_elements, list_structure_features
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import CategoryCode, Contains, Coordinate, NumberAt, Value

MAX_REMAINDERS = 2
"""[time] Maximum number of remainders (`epsaudit.search.remainders`) that become features."""
MAX_LEARNT_COMBINATIONS = 8
"""[time] Maximum number of combinations of coordinates from which a score is learnt: the most different ones."""
MAX_LINEAR_COORDINATES = 1024
"""[time] Maximum number of coordinates of a long vector that a linear score is learnt from. The coordinates whose means
differ most are kept."""
MAX_PAIRED_SIZE = 16
"""[time] Maximum length of tuples inside structured outputs for which statistics and pairs of all positions are
features."""

Sides = tuple[Outputs, Outputs]


@dataclass(frozen=True)
class Features:
    """The features from which scores are made, with the numbers that correct for choosing the best of many features.

    Attributes
    ----------
    univariate : tuple of Feature
        Features whose tails and cells are events of their own.
    n_tried : int
        Number of features from which ``univariate`` was selected. Estimates for the best one are lowered accordingly.
    groups : tuple of tuple of Feature
        Groups of features of one kind. One score is learnt from each group.
    n_ordered : int
        Number of leading groups whose features have a natural order, such as the coordinates of a vector.
    notes : tuple of str
        Sentences for the report about parts of the outputs that were not examined.
    rare_tables : tuple of Feature
        The features in ``univariate`` that `epsaudit.search.rare_regions` found.
    n_scanned : int
        Number of regions from which ``rare_tables`` were selected.
    """

    univariate: tuple[Feature, ...] = ()
    n_tried: int = 1
    groups: tuple[tuple[Feature, ...], ...] = ()
    n_ordered: int = 0
    notes: tuple[str, ...] = ()
    rare_tables: tuple[Feature, ...] = ()
    n_scanned: int = 1


@dataclass
class Inventory:
    """The numbers, symbols and structures in the training outputs of one pair, of which the readers make features.

    Attributes
    ----------
    sides : tuple of Outputs
        Outputs of x and of x', equally many.
    length : int or None
        Number of coordinates if all outputs are vectors of numbers of this length, else None.
    fields : OutputFields
        The places inside the outputs that hold numbers or symbols.
    numbers : list of Feature
        Features that are single numbers of an output.
    structure : list of Feature
        Features of the structure of outputs: kinds, lengths, keys and elements.
    combinations : list of Feature
        Statistics of all coordinates, and combinations of two numbers.
    end_numbers : list of Feature
        The first and the last finite number of a vector with gaps, and their positions.
    learning_group : list of Feature
        The features from which the main score is learnt.
    linear_group : list of Feature
        Coordinates of long vectors, or increments of short ones, from which a second score is learnt.
    pair_sources : list of Feature
        Numbers and symbols from which pairs are formed.
    correlated : list of pairs of Feature
        Pairs of ``pair_sources`` whose correlation differs between the sides.
    tested : dict of Feature to float
        The results of the tests of `most_different`: how much each feature differs between x and x'.
    """

    sides: Sides
    length: int | None
    fields: OutputFields
    numbers: list[Feature]
    structure: list[Feature]
    combinations: list[Feature]
    end_numbers: list[Feature]
    learning_group: list[Feature]
    linear_group: list[Feature]
    pair_sources: list[Feature]
    correlated: FeaturePairs = field(default_factory=list)
    tested: dict[Feature, float] = field(default_factory=dict)

    def add_pairs(self) -> None:
        """Find correlated pairs among many numbers, and add their sums, differences and products to ``combinations``.

        Nothing is done for a few numbers, because all of their pairs are combined anyway.
        """
        if len(self.pair_sources) <= MAX_COORDINATES_ALL_PAIRS:
            return
        self.correlated, near_copies = find_correlated_pairs(self.pair_sources, *self.sides)
        if self.length is not None:
            self.combinations += [Combination(sign, *pair) for pair in self.correlated for sign in "+-*"]
        quantities = [pair for pair in near_copies if all(map(is_quantity, pair))]
        self.combinations += [Combination(sign, *pair) for pair in quantities for sign in "+-"]

    @functools.cached_property
    def structure_or_elements(self) -> list[Feature]:
        """The features of the structure of outputs or, for short vectors, features of their elements.

        The latter say for each of a few distinct numbers whether the vector contains it.
        """
        if self.length is None or self.length > MAX_COORDINATES_ALL_PAIRS:
            return self.structure
        values = np.unique(np.concatenate(self.screening_sides)).tolist()
        few = 2 < len(values) <= MAX_COORDINATES_ALL_PAIRS
        return [Contains(value) for value in values] if few else []

    @property
    def screening_sides(self) -> Sides:
        """The first outputs of x and of x', for tests that do not read all outputs."""
        return take_screening_outputs(*self.sides)

    @functools.cached_property
    def cross_table_fields(self) -> list[Feature]:
        """The features of which tables of two are formed: correlated pairs first, then features that differ most."""
        # In long vectors, only the correlated pairs are worth a table.
        few = self.length is None or len(self.pair_sources) <= MAX_COORDINATES_ALL_PAIRS
        eligible = {*self.learning_group, *self.fields.symbols}
        single = [one for one in self.pair_sources if one in eligible] if few else []
        best = self.most_different(single, MAX_COORDINATES_ALL_PAIRS)
        best += self.most_different(self.structure_or_elements, MAX_COORDINATES_ALL_PAIRS)
        return list(dict.fromkeys([*itertools.chain.from_iterable(self.correlated), *best]))

    @functools.cached_property
    def rare_regions(self) -> tuple[list[Feature], int]:
        """The tables that contain a rare region of two fields, and the number of regions that were compared."""
        return find_rare_regions(list(dict.fromkeys([*self.cross_table_fields, *self.pair_sources])), *self.sides)

    @functools.cached_property
    def repeated_numbers(self) -> list[Feature]:
        """Features that say which of a few repeated numbers an output holds.

        They exist for fields whose numbers are mostly distinct.
        """
        found: list[Feature] = []
        for one in self.fields.numbers:
            values, counts = np.unique(read_both_sides(one, self.sides), return_counts=True)
            repeated = values[(counts >= MIN_OCCURRENCES) & np.isfinite(values)]
            if 0 < len(repeated) <= MAX_NAMED_VALUES < len(values) / 2:
                found.append(CategoryCode(path_of(one), tuple(repeated.tolist())))
        return found

    def most_different(self, features: Sequence[Feature], limit: int) -> list[Feature]:
        """Return the ``limit`` features that differ most between x and x'.

        The results of the tests are stored, so that no feature is tested twice.
        """
        return select_most_different(features, *self.sides, limit, self.tested)

    def list_rankings(self) -> list[Feature]:
        """Return the features of all places that hold rankings. Their differences were already tested."""
        return [one for path in self.fields.rankings for one in list_ranking_features(*self.sides, path)]

    def list_statistics(self, statistics: bool) -> list[Feature]:
        """Return the combinations that are statistics of all coordinates or, if ``statistics`` is false, all others."""
        return [one for one in self.combinations if isinstance(one, CoordinateStatistic) is statistics]

    def write_notes(self) -> tuple[str, ...]:
        """Return sentences for the report about parts of the outputs that were examined only quickly, or not at all."""
        notes, fields = [], self.fields
        if fields.left_out:
            noun = "places" if self.length is None else "coordinates"
            quick = f"{fields.left_out:,} of them were examined by a quick screening test only"
            notes.append(f"outputs have {fields.places:,} {noun}; {quick}")
        few = count_scanned_fields(len(self.sides[0]))
        if fields.places > max(few, 1):
            notes.append(f"the search for rare regions of two fields covered {few:,} of {fields.places:,} fields")
        if fields.n_unscreened:
            notes.append(
                f"{fields.n_unscreened:,} places inside outputs, and everything inside these places, were not examined"
            )
        return tuple(notes)


@dataclass(frozen=True)
class Reader:
    """A step of the search for features, which proposes features of one kind, tests them, and keeps the best ones.

    Attributes
    ----------
    name : str
        Plural noun for the features.
    propose : callable
        Returns the proposed features of an inventory; for a test of significance, pairs of log p-value and feature.
    test : callable
        Returns the proposed features that are kept, at most ``limit``.
    limit : int
        Maximum number of features that are kept.
    counted : {'proposed', 'kept', 'none'}
        Which features count as tried in `Features.n_tried`. If the test of the reader already corrects for the number
        of proposed features, only the kept features count, or none.
    """

    name: str
    propose: Callable[[Inventory], Sequence[Any]]
    test: Callable[[Sequence[Any], Inventory, int], list[Feature]]
    limit: int
    counted: Literal["proposed", "kept", "none"]

    def read(self, inventory: Inventory) -> tuple[list[Feature], int]:
        """Propose and test the features of an inventory.

        Returns the features to keep, and the number of features that count as tried when the best one is chosen.
        """
        proposed = self.propose(inventory)
        kept = self.test(proposed, inventory, self.limit)
        return kept, {"proposed": len(proposed), "kept": len(kept), "none": 0}[self.counted]


def most_different(features: Sequence[Feature], inventory: Inventory, limit: int) -> list[Feature]:
    """Return the ``limit`` features whose distributions differ most between x and x'."""
    return inventory.most_different(features, limit)


def significant(found: Sequence[tuple[float, Feature]], inventory: Inventory, limit: int) -> list[Feature]:
    """Return the features whose p-values are significant after a correction for their number."""
    return keep_significant(found, limit)


def already_tested(features: Sequence[Feature], inventory: Inventory, limit: int) -> list[Feature]:
    """Return the first ``limit`` features without a test.

    It is for features that are tested when they are proposed, and for kinds of which there are only a few.
    """
    return list(features[:limit])


MAX_END_NUMBERS = 4
"""[formula] Number of `FirstOrLastPosition` and `FirstOrLastNumber` features. All of them are kept."""
MAX_RANKING_FEATURES = 9 * MAX_FIELDS
"""[formula] Maximum number of ranking features: every place that holds rankings has at most nine."""

READERS = (
    Reader(
        "kinds, lengths, keys and elements",
        lambda inventory: inventory.structure_or_elements,
        most_different,
        MAX_FEATURES_PER_KIND,
        "proposed",
    ),
    Reader("numbers", lambda inventory: inventory.numbers, most_different, MAX_FEATURES_PER_KIND, "proposed"),
    Reader(
        "statistics of all coordinates",
        lambda inventory: inventory.list_statistics(True),
        most_different,
        MAX_FEATURES_PER_KIND // 2,
        "proposed",
    ),
    Reader(
        "combinations of two numbers",
        lambda inventory: inventory.list_statistics(False),
        most_different,
        MAX_FEATURES_PER_KIND // 2,
        "proposed",
    ),
    Reader(
        "first and last numbers", lambda inventory: inventory.end_numbers, already_tested, MAX_END_NUMBERS, "proposed"
    ),
    Reader(
        "remainders",
        lambda inventory: list_remainders([*inventory.numbers, *inventory.combinations[:1]], *inventory.sides),
        significant,
        MAX_REMAINDERS,
        "none",
    ),
    Reader(
        "tables of two fields",
        lambda inventory: list_cross_tables(inventory.cross_table_fields, *inventory.sides),
        already_tested,
        MAX_CROSS_TABLES,
        "kept",
    ),
    Reader("rare regions", lambda inventory: inventory.rare_regions[0], already_tested, MAX_CROSS_TABLES, "kept"),
    Reader("rankings", Inventory.list_rankings, already_tested, MAX_RANKING_FEATURES, "kept"),
    Reader("symbols", lambda inventory: inventory.fields.symbols, most_different, MAX_FEATURES_PER_KIND, "kept"),
    Reader("repeated numbers", lambda inventory: inventory.repeated_numbers, most_different, MAX_PARTS, "kept"),
)
"""All readers. If two events promise nearly the same bound, the event of the earlier reader is chosen."""


def find_features(outputs: Outputs, outputs_prime: Outputs, *, only_groups: bool = False) -> Features:
    """Find the features of training outputs of x and x', equally many of each, in normal form.

    If ``only_groups`` is true, only the groups from which scores are learnt are found, which takes half the time.
    """
    sides = outputs, outputs_prime
    rows = rows_of(outputs) if len(outputs) else None
    if rows is not None and rows.shape[1] == 0:
        return Features()
    if outputs.dtype == np.float64 and (rows is None or rows.shape[1] == 1):
        number: Feature = Value() if outputs.ndim == 1 else Coordinate(0)
        return Features((number, *keep_significant(list_remainders([number], *sides), MAX_REMAINDERS)))
    inventory = take_inventory_of_structures(sides) if rows is None else take_inventory_of_vectors(sides, rows.shape[1])
    inventory.add_pairs()
    groups = (
        inventory.learning_group,
        inventory.linear_group,
        inventory.end_numbers,
        inventory.most_different(inventory.combinations, MAX_LEARNT_COMBINATIONS),
    )
    found = Features(groups=tuple(map(tuple, groups)), n_ordered=0 if rows is None else 2)
    if only_groups:
        return found
    univariate, n_tried = [], inventory.fields.left_out
    for reader in READERS:
        kept, tried = reader.read(inventory)
        univariate += kept
        n_tried += tried
    rare_tables, n_scanned = inventory.rare_regions
    return replace(
        found,
        univariate=tuple(dict.fromkeys(univariate)),
        n_tried=n_tried,
        notes=inventory.write_notes(),
        rare_tables=tuple(rare_tables),
        n_scanned=n_scanned,
    )


def take_inventory_of_vectors(sides: Sides, length: int) -> Inventory:
    """Return the inventory of outputs that are arrays of ``length`` numbers, at least two.

    Of a vector with more than `MAX_COORDINATES` coordinates, only the coordinates that differ most become features.
    """
    long = length > MAX_COORDINATES
    log_p_values = compute_coordinate_log_p_values(*sides) if long else np.zeros(length)
    coordinates: list[Coordinate | NumberAt] = [
        Coordinate(place) for place in find_smallest(log_p_values, MAX_COORDINATES)
    ]
    fields = OutputFields(coordinates, places=length, left_out=length - len(coordinates))
    fields.rankings = [()]
    numbers: list[Feature] = [*coordinates]
    end_numbers, linear_group, learning_group = list_end_numbers(*sides, length), list[Feature](), numbers
    combinations: list[Feature] = (
        [CoordinateStatistic("sum", length), CoordinateStatistic("norm", length)] if long else list_combinations(length)
    )
    if long:
        places = find_smallest(log_p_values, MAX_LINEAR_COORDINATES)
        if length > MAX_LINEAR_COORDINATES:
            # The best of 100,000 coordinates without any difference would look different in every fold.
            threshold = math.log(EXPECTED_FALSE_FEATURES / length)
            places = [place for place in places if log_p_values[place] < threshold] or places
        linear_group = [Coordinate(place) for place in places]
        learning_group = select_most_different([one for one in numbers if one in linear_group], *sides, MAX_PARTS)
    elif not end_numbers and length <= MAX_PARTS:  # increments undo running sums
        increments = (Combination("-", Coordinate(place + 1), Coordinate(place)) for place in range(length - 1))
        linear_group = [Coordinate(0), *increments]
    pair_sources: list[Feature] = [
        Coordinate(place) for place in find_smallest(log_p_values, MAX_CORRELATED_COORDINATES)
    ]
    return Inventory(
        sides, length, fields, numbers, [], combinations, end_numbers, learning_group, linear_group, pair_sources
    )


def take_inventory_of_structures(sides: Sides) -> Inventory:
    """Return the inventory of outputs that are records, text, sets, nested sequences, or of different kinds."""
    if sides[0].dtype != object:
        sides = sides[0].astype(object), sides[1].astype(object)
    screening_sides = take_screening_outputs(*sides)
    fields = OutputFields.find(*sides)
    structure = list_structure_features(*sides, fields.lengths)
    for path in [*((*path, Reading("tokens")) for path in fields.texts), *fields.collections]:
        structure += keep_significant(list_elements(screening_sides, path), MAX_FEATURES_PER_KIND)
    whole = [] if np.isnan(read_both_sides(Value(), screening_sides)).all() else [Value()]
    numbers: list[Feature] = [*whole, *fields.numbers]
    sample = [value for side in screening_sides for value in side.tolist()]
    longest = max((len(value) for value in sample if type(value) is tuple), default=0)
    combinations, end_numbers = list[Feature](), list[Feature]()
    if fields.numbers and 1 < longest <= MAX_PAIRED_SIZE:
        combinations, end_numbers = list_combinations(longest), list_end_numbers(*sides, longest)
    if any(isinstance(one, NumberAt) for one in fields.numbers):  # numbers inside mappings, records and text
        quantities = [one for one in fields.numbers if is_quantity(one)]
        combinations = list(dict.fromkeys([*combinations, *combine_pairs(quantities)]))
    likely = [one for one in numbers if one in fields.significant] if fields.significant else numbers
    learning_group = select_most_different(list(dict.fromkeys([*likely, *structure])), *sides, MAX_PARTS)
    return Inventory(
        sides,
        None,
        fields,
        numbers,
        structure,
        combinations,
        end_numbers,
        learning_group,
        [],
        [*fields.symbols, *fields.numbers],
    )

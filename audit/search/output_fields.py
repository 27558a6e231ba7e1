"""The fields of structured outputs: all places at which outputs hold numbers, symbols, lengths or rankings.

Records, text, nested sequences and mixtures of kinds are searched at every depth. The features of all fields follow
from this list of places.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epsaudit.outputs.arrays import Outputs, values_of
from epsaudit.outputs.layouts import OutputPath, count_parts, parts_at
from epsaudit.outputs.normal_form import NUMBER_TYPES, Array, Items, kind_of, order_key
from epsaudit.outputs.readings import READINGS, Reading, suitable_readings
from epsaudit.search.difference_tests import (
    EXPECTED_FALSE_FEATURES,
    MAX_SCREENING_OUTPUTS,
    compute_remainder_statistic,
    compute_statistic,
    find_smallest,
    log_p_value,
    read_both_sides,
    select_most_different,
    take_screening_outputs,
)
from epsaudit.search.limits import MAX_LEVELS, MAX_PARTS, MIN_OCCURRENCES, MIN_OUTPUTS_TO_LEARN
from epsaudit.search.rankings import parse_rankings
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import CategoryCode, Coordinate, Length, NumberAt

MAX_FIELDS = 512
"""[time] Maximum number of places inside structured outputs that become fields: the places that differ most."""
MAX_SCREENED_PLACES = 100_000
"""[time] Maximum number of places inside structured outputs that the screening test examines."""
MAX_NAMED_VALUES = 64
"""[time] Maximum number of repeated values of a field of otherwise distinct numbers that get a feature; also the
maximum number of distinct texts for which the text itself is a feature and its length is not."""
N_PLACES_FROM_END = 8
"""[time] Number of places counted from the end that are examined in text and sequences of different lengths."""
MAX_STORED_NUMBERS = 12_000_000
"""[memory] Maximum number of numbers of each side that are stored for learning: 100 MB at 8 bytes each."""
DESCRIPTIVE_READINGS = frozenset({"characters", "text", "checksum", "bytes", "keys", "kind", "shape"})
"""[chosen] Readings whose numbers describe an output. Mechanisms add no noise to such numbers, so that their sums and
differences are not tried."""
ATOM_KINDS = ("None", "raised", "timeout")
"""Kinds with only a few values, which are all counted as atoms. A feature for the kind itself would add nothing."""


def _screen(field: Feature, sides: tuple[Outputs, Outputs]) -> float:
    """Return the log p-value of a quick test for a difference of a field between x and x'.

    The values of the field are tested and, for numbers, also their parity; the smaller p-value counts. Numbers of a
    wide range may differ in their parity only, which a test of their size does not show.
    """
    log_p = float(log_p_value(*compute_statistic(field, sides)))
    if isinstance(field, CategoryCode):
        return log_p
    parity = compute_remainder_statistic(read_both_sides(field, sides), 2, len(sides[0]))
    return min(log_p, float(log_p_value(*parity)))


@dataclass
class OutputFields:
    """The fields of structured outputs: places inside them that hold numbers, symbols, lengths or rankings.

    A place may be at any depth, also inside text that can be parsed as a record (`epsaudit.outputs.readings`).

    Attributes
    ----------
    numbers : list of Coordinate or NumberAt
        Places that hold numbers.
    symbols : list of CategoryCode
        Places that hold one of a few symbols, such as words.
    lengths : list of Feature
        Lengths of texts and collections, where lengths differ.
    texts : list of path
        Places that hold free text.
    rankings : list of path
        Places that hold permutations of the same items.
    collections : list of path
        Places that hold sets and sequences whose elements occur again in other outputs.
    significant : set of Feature
        The fields that differ significantly between x and x'. It is filled only if there are more than `MAX_FIELDS`
        fields.
    places : int
        Number of places of numbers and symbols that were tested for a difference by a quick screening test.
    left_out : int
        Number of these places that are not listed above, because the listed places differ more.
    n_unscreened : int
        Number of places that were not examined at all. There may be more places inside of them.
    """

    numbers: list[Coordinate | NumberAt] = field(default_factory=list)
    symbols: list[CategoryCode] = field(default_factory=list)
    lengths: list[Feature] = field(default_factory=list)
    texts: list[OutputPath] = field(default_factory=list)
    rankings: list[OutputPath] = field(default_factory=list)
    collections: list[OutputPath] = field(default_factory=list)
    significant: set[Feature] = field(default_factory=set)
    places: int = 0
    left_out: int = 0
    n_unscreened: int = 0

    @classmethod
    def find(cls, outputs: Outputs, outputs_prime: Outputs, start: OutputPath = ()) -> OutputFields:
        """Find the fields of the outputs of x and x', and keep at most `MAX_FIELDS` of them.

        If ``start`` is given, only places below this path are searched.
        """
        # large documents need much memory
        limit = max(estimate_outputs_holding(outputs, MAX_STORED_NUMBERS), MIN_OUTPUTS_TO_LEARN)
        sides = take_screening_outputs(outputs, outputs_prime)
        if limit < MAX_SCREENING_OUTPUTS:
            # The caches of parsed values are released together with these copies.
            sides = outputs[:limit].copy(), outputs_prime[:limit].copy()
        found, n_visited = cls(), 0
        fields, sized = list[Feature](), list[Feature]()
        level: list[OutputPath] = [start]
        while level:  # breadth first, so that no part hides a place beside it
            room = max(MAX_SCREENED_PLACES - n_visited, 0)
            found.n_unscreened += max(len(level) - room, 0)
            n_visited += len(level)
            paths, level = level[:room], []
            for path in paths:
                parts = [parts_at(side, path) for side in sides]
                level += [(*path, step) for step in found._inspect(parts, path, fields, sized)]
        kept = fields
        if len(fields) > MAX_FIELDS:
            log_p = np.array([_screen(one, sides) for one in fields])
            threshold = math.log(EXPECTED_FALSE_FEATURES / len(fields))
            found.significant = {fields[place] for place in np.flatnonzero(log_p < threshold)}
            kept = [fields[place] for place in find_smallest(log_p, MAX_FIELDS)]
        found.places, found.left_out = len(fields), len(fields) - len(kept)
        found.numbers = [one for one in kept if isinstance(one, (Coordinate, NumberAt))]
        found.symbols = [one for one in kept if isinstance(one, CategoryCode)]
        found.lengths = select_most_different(sized, *sides, MAX_FIELDS)
        return found

    def _inspect(
        self, parts: list[Outputs], path: OutputPath, fields: list[Feature], sized: list[Feature]
    ) -> list[Hashable]:
        """Find the fields at ``path``, and return the steps that lead to places further inside.

        ``parts`` are the parts of the outputs of x and x' at this path. Numbers and symbols are added to ``fields``,
        and lengths to ``sized``; other fields are stored in this object.
        """
        numeric = all(one.dtype == np.float64 for one in parts)
        if numeric and parts[0].ndim == parts[1].ndim == 1:
            fields.append(_number_feature(path))
            return []
        if all(parse_rankings(part[:64]) is not None for part in parts):
            self.rankings.append(path)
        if numeric and parts[0].shape[1:] == parts[1].shape[1:]:
            fields += [_number_feature((*path, place)) for place in range(parts[0][0].size)]
            return []
        values = [value for part in parts for value in values_of(part)]
        if path and _repeats_elements([value for value in values if type(value) in (tuple, frozenset)]):
            self.collections.append(path)
        if path and sum(type(value) in NUMBER_TYPES for value in values) >= MIN_OCCURRENCES:
            fields.append(_number_feature(path))
        symbols = Counter(value for value in values if not isinstance(value, (*NUMBER_TYPES, tuple, frozenset, Items)))
        lengths = {len(value) for value in values if isinstance(value, (str, bytes, tuple, frozenset, Items))}
        few_texts = len(symbols) <= MAX_NAMED_VALUES and set(map(type, symbols)) == {str}
        named = few_texts and symbols.total() == len(values)
        # The number of characters is already the length of the text.
        if len(lengths) > 1 and not named and path[-1:] != (Reading("characters"),):
            sized.append(Length(path))
        often = [value for value, times in symbols.most_common(MAX_LEVELS) if times >= MIN_OCCURRENCES]
        if path and len(often) > 1 and sum(symbols[value] for value in often) > symbols.total() / 2:
            fields.append(CategoryCode(path, tuple(sorted(often, key=order_key))))
        readings = _list_readings(path, symbols) if len(symbols) > MAX_LEVELS else []
        if {"checksum", "text"} <= {*readings}:  # this text is not a part of another text
            self.texts.append(path)
        return _list_steps(path, values, readings)


def _list_steps(path: OutputPath, values: Sequence[Any], readings: Sequence[str]) -> list[Hashable]:
    """Return the steps that lead from the values at ``path`` to places further inside.

    A step is a key, a position, or a reading (a way to parse a value, such as the words of a text). ``readings`` are
    the names of the readings to include.
    """
    records = [value for value in values if isinstance(value, Items)]
    tuples = [value for value in values if isinstance(value, tuple)]
    keys = Counter(itertools.chain.from_iterable(value.keys for value in records))
    steps: list[Hashable] = [key for key, times in keys.most_common() if times >= MIN_OCCURRENCES]
    kinds = {kind_of(value) for value in {type(value): value for value in values}.values()}
    # The kinds of whole outputs are features in `list_structure_features`.
    if path and len(kinds - {*ATOM_KINDS}) > 1:
        steps.append(Reading("kind"))
    if len({value.shape for value in tuples if isinstance(value, Array)}) > 1:
        steps.append(Reading("shape"))
    lengths = set(map(len, tuples))
    steps += range(max(lengths, default=0))
    if len(lengths) > 1:
        steps += range(-1, -N_PLACES_FROM_END - 1, -1)
    steps += map(Reading, readings)
    orders = {(value.order, value.keys) for value in records}
    if any(order is not None for order, _ in orders) and len({keys for _, keys in orders}) < len(orders):
        # Some mappings with the same keys hold them in different orders.
        steps.append(Reading("keys"))
    return steps


def _list_readings(path: OutputPath, symbols: Counter[Any]) -> list[str]:
    """Return the names of the readings with which the symbols at ``path`` are to be parsed further.

    A reading is a way to parse a value, for example a text as words. No reading is applied twice along a path, and
    single characters are read only from the first few words.
    """
    before, readings = [step.name for step in path if isinstance(step, Reading)], []
    if before in ([], ["json"], ["xml"]) and any(value is not None for value in symbols):
        readings.append("checksum")
    texts = [value for value in symbols if isinstance(value, str)][:MAX_PARTS]
    if texts and "words" not in before:
        readings += suitable_readings(texts, before, N_PLACES_FROM_END)
    elif texts and path[-1] in range(N_PLACES_FROM_END):
        readings.append("characters")
    for name in ("bytes", "time", "duration"):
        if sum(isinstance(value, READINGS[name][0]) for value in symbols) >= MIN_OCCURRENCES:
            readings.append(name)
    return readings


def _number_feature(path: OutputPath) -> Coordinate | NumberAt:
    """Return the feature for the number at a path: `Coordinate` if the path is one position, else `NumberAt`."""
    first = path[0] if len(path) == 1 else None
    return (
        Coordinate(first) if isinstance(first, int) and abs(first) < MAX_FIELDS else NumberAt(path)
    )  # larger numbers are keys of mappings


def path_of(field: Coordinate | NumberAt) -> OutputPath:
    """Return the path at which a field of numbers is found inside an output."""
    return (field.index,) if isinstance(field, Coordinate) else field.path


def _repeats_elements(collections: Sequence[tuple[Any, ...] | frozenset[Any]]) -> bool:
    """Return whether any element occurs more than once in the first collections.

    Only then can the presence of an element distinguish the datasets.
    """
    elements = list(itertools.chain.from_iterable(collections[:MAX_PARTS]))
    return len(elements) > 0 and len(set(elements)) < len(elements)


def is_quantity(field: Feature) -> bool:
    """Return whether a field is a number that the output itself holds, at a position that is counted from the start.

    Numbers that describe an output, such as a number of characters, are not quantities. In normal form, numeric keys of
    mappings are floats, so a negative int in a path is always a position counted from the end.
    """
    if not isinstance(field, Coordinate | NumberAt):
        return False
    steps = path_of(field)
    described = any(isinstance(step, Reading) and step.name in DESCRIPTIVE_READINGS for step in steps)
    return not described and not any(type(step) is int and step < 0 for step in steps)


def estimate_outputs_holding(outputs: Outputs, n_values: int) -> int:
    """Return how many outputs together hold about ``n_values`` numbers, symbols and characters.

    The size of an output is estimated from the first outputs.
    """
    sample = outputs[:MAX_PARTS].tolist()
    return n_values * len(sample) // max(sum(map(count_parts, sample)), 1)

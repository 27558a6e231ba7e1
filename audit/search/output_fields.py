"""DOC"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from epsaudit.outputs.normal_form import (
    Array,
    Items,
    Outputs,
    inside,
    kind_of,
    order_key,
    size_inside,
    values_of,
)
from epsaudit.outputs.readings import READINGS, Reading, readings_of
from epsaudit.search.difference_tests import (
    EXPECTED_FALSE_FEATURES,
    MAX_SCREENING_OUTPUTS,
    compute_statistic,
    find_smallest,
    log_p_value,
    select_most_different,
)
from epsaudit.search.limits import MAX_LEVELS, MAX_PARTS, MIN_OCCURRENCES, MIN_OUTPUTS_TO_LEARN
from epsaudit.search.rankings import parse_rankings
from epsaudit.witnesses.feature import Feature, Path
from epsaudit.witnesses.parts import CategoryCode, Coordinate, Length, NumberAt

MAX_FIELDS = 512
"""[time] Places inside outputs that are records, text or sequences that are looked at closely."""
MAX_SCREENED_PLACES = 100_000
"""[time] Places of such outputs that are screened."""
MAX_NAMED_VALUES = 64
"""[time] Values of a field of numbers that hardly ever repeat, up to which those that do get a feature; and texts, up
to which they are named and not how long they are."""
N_PLACES_FROM_END = 8
"""[time] Places counted from the end, of text and sequences whose lengths differ."""
MAX_STORED_NUMBERS = 12_000_000
"""[memory] Numbers of each side that are kept to learn from: 100 MB at 8 bytes each."""
NUMBER_TYPES = (float, int, Decimal, Fraction)
DESCRIPTIVE_READINGS = frozenset({"characters", "text", "checksum", "bytes", "keys", "kind", "shape"})
"""[chosen] Readings whose numbers describe an output and are no quantities that a mechanism adds noise to."""
ATOM_KINDS = ("None", "raised", "timeout")
"""Kinds whose few values are atoms, which say all that the kind would."""


@dataclass
class OutputFields:
    """Places inside outputs: where numbers lie, where symbols, what has a length, what may be a ranking.

    Every place is a field, at any depth, also of text that reads as a record (`epsaudit.outputs.readings`).
    ``collections`` are places of sets and sequences whose elements repeat from output to output. ``places``
    of numbers and symbols were screened, of which ``left_out`` are none of those listed here; and ``n_unscreened`` places, or
    more that lie inside of these, were not even screened. Where places are left out, ``significant`` are those that tell more
    than chance explains.
    """

    numbers: list[Coordinate | NumberAt] = field(default_factory=list)
    symbols: list[CategoryCode] = field(default_factory=list)
    lengths: list[Feature] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    rankings: list[Path] = field(default_factory=list)
    collections: list[Path] = field(default_factory=list)
    significant: set[Feature] = field(default_factory=set)
    places: int = 0
    left_out: int = 0
    n_unscreened: int = 0

    @classmethod
    def find(cls, outputs: Outputs, outputs_prime: Outputs, start: Path = ()) -> OutputFields:
        """Find the fields of outputs; of more than `MAX_FIELDS` those that tell most.

        With ``start`` only those of what lies there.
        """
        look = min(
            MAX_SCREENING_OUTPUTS, max(estimate_outputs_holding(outputs, MAX_STORED_NUMBERS), MIN_OUTPUTS_TO_LEARN)
        )  # large documents take memory
        sides = outputs[:look], outputs_prime[:look]
        if look < MAX_SCREENING_OUTPUTS:  # what is read of all places is forgotten with the copies
            sides = sides[0].copy(), sides[1].copy()
        found, seen = cls(), 0
        fields: list[Feature] = []
        sized: list[Feature] = []
        level: list[Path] = [start]
        while level:  # breadth first, so that no part hides what lies beside it
            room = max(MAX_SCREENED_PLACES - seen, 0)
            found.n_unscreened += max(len(level) - room, 0)
            seen += len(level)
            paths, level = level[:room], []
            for path in paths:
                parts = [inside(side, path) for side in sides]
                level += [(*path, step) for step in found._inspect(parts, path, fields, sized)]
        kept = fields
        if len(fields) > MAX_FIELDS:
            told = np.array([log_p_value(*compute_statistic(one, sides)) for one in fields])
            found.significant = {
                fields[place] for place in np.flatnonzero(told < math.log(EXPECTED_FALSE_FEATURES / len(fields)))
            }
            kept = [fields[place] for place in find_smallest(told, MAX_FIELDS)]
        found.places, found.left_out = len(fields), len(fields) - len(kept)
        found.numbers = [one for one in kept if isinstance(one, (Coordinate, NumberAt))]
        found.symbols = [one for one in kept if isinstance(one, CategoryCode)]
        found.lengths = select_most_different(sized, *sides, MAX_FIELDS)
        return found

    def _inspect(self, parts: list[Outputs], path: Path, fields: list[Feature], sized: list[Feature]) -> list[Hashable]:
        """Add the fields that lie at a path, and its length if lengths differ; return the steps that lead further."""
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
        tuples = [value for value in values if isinstance(value, tuple)]
        if path and _repeats_elements([value for value in values if type(value) in (tuple, frozenset)]):
            self.collections.append(path)
        records = [value for value in values if isinstance(value, Items)]
        numbers = [value for value in values if type(value) in NUMBER_TYPES]
        if path and len(numbers) >= MIN_OCCURRENCES:
            fields.append(_number_feature(path))
        symbols = [value for value in values if not isinstance(value, (*NUMBER_TYPES, tuple, frozenset, Items))]
        seen = Counter(symbols)
        lengths = {len(value) for value in values if isinstance(value, (str, bytes, tuple, frozenset, Items))}
        named = len(symbols) == len(values) and len(seen) <= MAX_NAMED_VALUES and set(map(type, seen)) == {str}
        if len(lengths) > 1 and not named and path[-1:] != (Reading("characters"),):  # as many as the text is long
            sized.append(Length(path))
        often = [value for value, times in seen.most_common(MAX_LEVELS) if times >= MIN_OCCURRENCES]
        if path and len(often) > 1 and sum(seen[value] for value in often) > len(symbols) / 2:
            fields.append(CategoryCode(path, tuple(sorted(often, key=order_key))))
        keys = Counter(itertools.chain.from_iterable(value.keys for value in records))
        steps = [key for key, times in keys.most_common() if times >= MIN_OCCURRENCES]
        kinds = {kind_of(value) for value in {type(value): value for value in values}.values()}
        if path and len(kinds - {*ATOM_KINDS}) > 1:  # `list_structure_features` reads the kinds of whole outputs
            steps.append(Reading("kind"))
        if len({value.shape for value in tuples if isinstance(value, Array)}) > 1:
            steps.append(Reading("shape"))
        lengths = set(map(len, tuples))
        steps += [*range(max(lengths, default=0)), *(range(-1, -N_PLACES_FROM_END - 1, -1) if len(lengths) > 1 else ())]
        if len(seen) > MAX_LEVELS:  # symbols are read: none twice, and characters only of the first few words
            before, readings = [step.name for step in path if isinstance(step, Reading)], []
            if before in ([], ["json"], ["xml"]) and any(value is not None for value in seen):
                readings.append("checksum")
            texts = [value for value in seen if isinstance(value, str)][:MAX_PARTS]
            if texts and "words" not in before:
                readings += readings_of(texts, before, N_PLACES_FROM_END)
            elif texts and path[-1] in range(N_PLACES_FROM_END):
                readings.append("characters")
            for name in ("bytes", "time", "duration"):
                if sum(isinstance(value, READINGS[name][0]) for value in seen) >= MIN_OCCURRENCES:
                    readings.append(name)
            if {"checksum", "text"} <= {*readings}:  # no part of another text
                self.texts.append(path)
            steps += map(Reading, readings)
        orders = {(value.order, value.keys) for value in records}
        if any(order is not None for order, _ in orders) and len({keys for _, keys in orders}) < len(orders):
            steps.append(Reading("keys"))  # mappings of the same keys hold them in different orders
        return steps


def _number_feature(path: Path) -> Coordinate | NumberAt:
    first = path[0] if len(path) == 1 else None
    return (
        Coordinate(first) if isinstance(first, int) and abs(first) < MAX_FIELDS else NumberAt(path)
    )  # others are keys


def path_of(field: Coordinate | NumberAt) -> Path:
    return (field.index,) if isinstance(field, Coordinate) else field.path


def _repeats_elements(collections: Sequence[tuple[Any, ...] | frozenset[Any]]) -> bool:
    """Whether the first of these sets and sequences have elements in common, so that an element may tell a dataset."""
    elements = list(itertools.chain.from_iterable(collections[:MAX_PARTS]))
    return len(elements) > 0 and len(set(elements)) < len(elements)


def is_quantity(field: Feature) -> bool:
    """Whether a field is a number of an output itself, at a place that is counted from the start.

    Keys of mappings that are numbers are floats in normal form, so that a negative int is a position.
    """
    if not isinstance(field, Coordinate | NumberAt):
        return False
    steps = path_of(field)
    described = any(isinstance(step, Reading) and step.name in DESCRIPTIVE_READINGS for step in steps)
    return not described and not any(type(step) is int and step < 0 for step in steps)


def estimate_outputs_holding(outputs: Outputs, most: int) -> int:
    """How many outputs like the first ones hold ``most`` numbers, symbols and characters together."""
    sample = outputs[:MAX_PARTS].tolist()
    return most * len(sample) // max(sum(map(size_inside, sample)), 1)

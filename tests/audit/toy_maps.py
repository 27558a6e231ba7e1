"""A toy library with 36 faults in maps, one of each kind, and a sound twin of each."""

import itertools
import math
import random
from collections import Counter
from typing import NamedTuple

from epsaudit.tools.maps import Adapter, Atom, Frame, Mapping, Margin, Vector

SYMMETRIC, ORDERED, CHANGE, HAMMING = (
    "SymmetricDistance",
    "InsertDeleteDistance",
    "ChangeOneDistance",
    "HammingDistance",
)
ABSOLUTE, L1, L2, LARGEST = "AbsoluteDistance", "L1Distance", "L2Distance", "LInfDistance"
PERSON, EXCHANGED = "SymmetricIdDistance(id)", "ChangeOneIdDistance(id)"
GROUPS, PARALLEL = "FrameDistance(SymmetricDistance)", "L01InfDistance(SymmetricDistance)"
PARTS = Mapping(Atom("str", categories=("a", "b", "c")), Vector(Atom("int", 0, 9)))
SMALL = Vector(Atom("int", 0, 9))
SIGNED = Vector(Atom("int", -10, 3))
SIZED = Vector(Atom("int", 0, 9), 4)
FLOATS = Vector(Atom("float", -1.0, 1.0))
WITH_NAN = Vector(Atom("float", 0.0, 1.0, nan=True))


class Case(NamedTuple):
    """A faulty object, its sound twin, and what an audit of the faulty one has to find."""

    faulty: Adapter
    sound: Adapter
    kind: str = "distance"


def histogram(data):
    counts = Counter(data)
    return [counts[one] for one in range(10)]


def wrapped_sum(data):
    return (sum(data) + 2**31) % 2**32 - 2**31


def saturated_sum(data):
    return max(-(2**31), min(2**31 - 1, sum(data)))


def differences(data):
    return [after - before for before, after in itertools.pairwise(data)]


def all_or_nothing(data):
    return [] if any(one != one for one in data) else list(data)


def naive_total(data):
    total = 0.0
    for one in data:
        total += one
    return total


def kept_by_coins(data):
    return [one for one in data if random.random() < 0.5]


def kept_by_one_coin(data):
    """All records or none, by a coin whose bias depends on whether the number of records is even."""
    return list(data) if random.random() < (0.3 if len(data) % 2 else 0.7) else []


def shuffled(data):
    made = list(data)
    random.shuffle(made)
    return made


def sorted_if_zero(data):
    return sorted(data) if 0 in data else shuffled(data)


def mean(data):
    return sum(data) / len(data)


def adapter(domain, metric, call, slope, output, member=None):
    """An adapter with a linear map, or with a map that is given as a function."""
    return Adapter(domain, metric, call, slope if callable(slope) else lambda d: slope * d, output, member)


def frame(*margins):
    """People with an identifier, a place and an income."""
    place = Atom("str", categories=("a", "b", "c"))
    return Frame({"id": Atom("int", 0, 99), "place": place, "income": Atom("int", 0, 9)}, margins)


def incomes(data):
    return sum(one["income"] for one in data)


def incomes_of_persons(data):
    return sum({one["id"]: one["income"] for one in sorted(data, key=lambda one: one["income"])}.values())


def places(data):
    return len({one["place"] for one in data})


def counts_of_places(data):
    return dict(Counter(one["place"] for one in data))


def sums_of_parts(data):
    return {name: sum(part) for name, part in data.items()}


def times(factor):
    """A map of bounds by group that multiplies the numbers of records in a group."""
    return lambda bounds: tuple((by, factor * per_group, groups) for by, per_group, groups in bounds)


def group_counts(bounds):
    """The map of counts by place: places that change, records in all, and records in one place."""
    (_, records, _), (_, per_place, n_places) = bounds
    return n_places, records, per_place


def one_group_only(bounds):
    places, _, per_place = group_counts(bounds)
    return places, per_place, per_place


TWO = Margin(("id",), max_length=1), Margin((), max_length=2)
WIDE = Vector(Atom("i32"))
WORDS = Vector(Atom("str"))
CASES = {
    "factor of two": Case(
        adapter(SMALL, SYMMETRIC, lambda data: 2 * sum(data), 9, ABSOLUTE),
        adapter(SMALL, SYMMETRIC, sum, 9, ABSOLUTE),
    ),
    "lower bound forgotten": Case(
        adapter(SIGNED, SYMMETRIC, sum, 3, ABSOLUTE), adapter(SIGNED, SYMMETRIC, sum, 10, ABSOLUTE)
    ),
    "integer overflow": Case(
        adapter(WIDE, SYMMETRIC, wrapped_sum, 2**31, ABSOLUTE),
        adapter(WIDE, SYMMETRIC, sum, 2**31, ABSOLUTE),
    ),
    "saturation of an ordered sum": Case(
        adapter(WIDE, ORDERED, lambda data: saturated_sum([saturated_sum(data[:2]), *data[2:]]), 2**30, ABSOLUTE),
        adapter(WIDE, ORDERED, saturated_sum, 2**31, ABSOLUTE),
    ),
    "a change moves two counts": Case(
        adapter(SIZED, CHANGE, histogram, 1, L1), adapter(SIZED, CHANGE, histogram, 2, L1)
    ),
    "a change moves two counts, L2": Case(
        adapter(SIZED, CHANGE, histogram, 1, L2),
        adapter(SIZED, CHANGE, histogram, lambda d: 1.4142135623730952 * d, L2),
    ),
    "order is kept under a metric of multisets": Case(
        adapter(SMALL, SYMMETRIC, list, 1, ORDERED), adapter(SMALL, SYMMETRIC, sorted, 1, ORDERED)
    ),
    "one NaN drops all rows": Case(
        adapter(WITH_NAN, SYMMETRIC, all_or_nothing, 1, SYMMETRIC),
        adapter(WITH_NAN, SYMMETRIC, lambda data: [one for one in data if one == one], 1, SYMMETRIC),
    ),
    "the mean of one record more": Case(
        adapter(SIZED, CHANGE, lambda data: sum(data) / 4, lambda d: 9 * d / 5, ABSOLUTE),
        adapter(SIZED, CHANGE, lambda data: sum(data) / 4, lambda d: 9 * d / 4, ABSOLUTE),
    ),
    "NaN survives a clamp": Case(
        adapter(
            WITH_NAN, SYMMETRIC, lambda data: [max(0.0, min(0.5, one)) if one > 0 else one for one in data], 1,
            SYMMETRIC, lambda made: all(0.0 <= one <= 0.5 for one in made),
        ),
        adapter(
            WITH_NAN, SYMMETRIC, lambda data: [max(0.0, min(0.5, one)) if one == one else 0.0 for one in data], 1,
            SYMMETRIC, lambda made: all(0.0 <= one <= 0.5 for one in made),
        ),
        "domain",
    ),
    "empty data raise": Case(
        adapter(SMALL, SYMMETRIC, mean, 9, ABSOLUTE),
        adapter(SMALL, SYMMETRIC, lambda data: mean(data) if data else 0.0, 9, ABSOLUTE),
        "exception",
    ),
    "ties raise": Case(
        adapter(SMALL, SYMMETRIC, lambda data: 1 // (len(data) < 3 or len(set(data)) == len(data)), 1, ABSOLUTE),
        adapter(SMALL, SYMMETRIC, lambda data: int(len(set(data)) == len(data)), 1, ABSOLUTE),
        "exception",
    ),
    "the map decreases": Case(
        adapter(SMALL, SYMMETRIC, len, lambda d: d if d < 5 else 10 - d, ABSOLUTE),
        adapter(SMALL, SYMMETRIC, len, 1, ABSOLUTE),
        "decrease",
    ),
    "the map is negative at 0": Case(
        adapter(SMALL, SYMMETRIC, len, lambda d: 2 * d - 1, ABSOLUTE),
        adapter(SMALL, SYMMETRIC, len, lambda d: 2 * d, ABSOLUTE),
        "map",
    ),
    "sums of floats are rounded": Case(
        adapter(Vector(Atom("float", -1.0, 1e16)), CHANGE, naive_total, lambda d: 1e16 * d + d, ABSOLUTE),
        adapter(
            Vector(Atom("float", -1.0, 1e16)), CHANGE, lambda data: float(round(math.fsum(data))),
            lambda d: 1.01e16 * d, ABSOLUTE,
        ),
    ),
    "an insertion moves two differences": Case(
        adapter(SMALL, ORDERED, differences, 1, SYMMETRIC), adapter(SMALL, ORDERED, differences, 3, SYMMETRIC)
    ),
    "long data are truncated": Case(
        adapter(SMALL, ORDERED, lambda data: data[:5], 1, SYMMETRIC),
        adapter(SMALL, ORDERED, lambda data: data[:5], 2, SYMMETRIC),
    ),
    "texts are longer than one character": Case(
        adapter(WORDS, SYMMETRIC, lambda data: sum(map(len, data)), 1, ABSOLUTE),
        adapter(WORDS, SYMMETRIC, lambda data: sum(len(one) <= 1 for one in data), 1, ABSOLUTE),
    ),
    "whole numbers beyond 2^53 become floats": Case(
        adapter(Atom("i64"), ABSOLUTE, float, 1, ABSOLUTE), adapter(Atom("i64"), ABSOLUTE, int, 1, ABSOLUTE)
    ),
    "a distance under L2 that is spread over components": Case(
        adapter(Vector(Atom("int", -99, 99), 4), L2, sum, 1, ABSOLUTE),
        adapter(Vector(Atom("int", -99, 99), 4), L2, sum, 2, ABSOLUTE),
    ),
    "the largest difference is taken for the sum": Case(
        adapter(Vector(Atom("int", -99, 99), 3), LARGEST, sum, 1, ABSOLUTE),
        adapter(Vector(Atom("int", -99, 99), 3), LARGEST, sum, 3, ABSOLUTE),
    ),
    "keys of a dictionary": Case(
        adapter(Mapping(Atom("str"), Atom("int", -99, 99)), L1, len, lambda d: d / 2, ABSOLUTE),
        adapter(
            Mapping(Atom("str"), Atom("int", -99, 99)), L1, lambda data: sum(data.values()), 1, ABSOLUTE,
        ),
    ),
    "a person has several records": Case(
        adapter(frame(), PERSON, incomes, 9, ABSOLUTE), adapter(frame(), PERSON, incomes_of_persons, 9, ABSOLUTE)
    ),
    "a person has two records": Case(
        adapter(frame(Margin(("id",), max_length=2)), PERSON, incomes, 9, ABSOLUTE),
        adapter(frame(Margin(("id",), max_length=2)), PERSON, incomes, 18, ABSOLUTE),
    ),
    "there are two persons": Case(
        adapter(frame(*TWO), SYMMETRIC, incomes, lambda d: 8 * min(d, 2), ABSOLUTE),
        adapter(frame(*TWO), SYMMETRIC, incomes, lambda d: 9 * min(d, 2), ABSOLUTE),
    ),
    "there is one group": Case(
        adapter(frame(), SYMMETRIC, places, lambda d: min(d, 1), ABSOLUTE),
        adapter(frame(Margin(("place",), max_groups=1)), SYMMETRIC, places, lambda d: min(d, 1), ABSOLUTE),
    ),
    "the keys are taken for invariant": Case(
        adapter(frame(), SYMMETRIC, places, 0, ABSOLUTE),
        adapter(frame(Margin(("place",), invariant="keys")), SYMMETRIC, places, 0, ABSOLUTE),
    ),
    "the lengths are taken for invariant": Case(
        adapter(frame(Margin(("place",), invariant="keys")), SYMMETRIC, counts_of_places, 0, L1),
        adapter(frame(Margin(("place",), invariant="lengths")), SYMMETRIC, counts_of_places, 0, L1),
    ),
    "an exchanged person counts half": Case(
        adapter(frame(Margin(("id",), 2)), EXCHANGED, len, lambda d: d / 2, ABSOLUTE),
        adapter(frame(Margin(("id",), 2)), EXCHANGED, len, 1, ABSOLUTE),
    ),
    "the records of a person are truncated for all": Case(
        adapter(frame(), PERSON, lambda data: data[:3], 1, PERSON),
        adapter(frame(), PERSON, lambda data: [one for one in data if one["income"] > 2], 1, PERSON),
    ),
    "records are doubled in groups": Case(
        adapter(frame(Margin(("place",))), GROUPS, lambda data: data + data, times(1), GROUPS),
        adapter(frame(Margin(("place",))), GROUPS, lambda data: data + data, times(2), GROUPS),
    ),
    "a person is in one group only": Case(
        adapter(frame(Margin(("place",))), GROUPS, counts_of_places, one_group_only, "L01InfDistance"),
        adapter(frame(Margin(("place",))), GROUPS, counts_of_places, group_counts, "L01InfDistance"),
    ),
    "the largest change of a part is taken for the sum": Case(
        adapter(PARTS, PARALLEL, sums_of_parts, lambda d: (d[0], 9 * d[2], 9 * d[2]), "L01InfDistance"),
        adapter(PARTS, PARALLEL, sums_of_parts, lambda d: (d[0], 9 * d[1], 9 * d[2]), "L01InfDistance"),
    ),
    "a record is in two parts": Case(
        adapter(SMALL, SYMMETRIC, lambda data: [data, data], 1, "L1Distance(SymmetricDistance)"),
        adapter(
            SMALL, SYMMETRIC, lambda data: [[one for one in data if one % 2 == odd] for odd in (0, 1)], 1,
            "L1Distance(SymmetricDistance)",
        ),
    ),
    "one coin for all records": Case(
        adapter(SMALL, SYMMETRIC, kept_by_one_coin, 1, SYMMETRIC),
        adapter(SMALL, SYMMETRIC, kept_by_coins, 1, SYMMETRIC),
        "coupling",
    ),
    "the order depends on a record": Case(
        adapter(SMALL, SYMMETRIC, sorted_if_zero, 1, ORDERED),
        adapter(SMALL, SYMMETRIC, shuffled, 1, ORDERED),
        "coupling",
    ),
}  # fmt: skip

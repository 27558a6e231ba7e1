"""A toy library with 24 faults in maps, one of each kind, and a sound twin of each."""

import itertools
import math
import random
from collections import Counter
from typing import NamedTuple

from epsaudit.tools.maps import Adapter, Atom, Mapping, Vector

SYMMETRIC, ORDERED, CHANGE, HAMMING = (
    "SymmetricDistance",
    "InsertDeleteDistance",
    "ChangeOneDistance",
    "HammingDistance",
)
ABSOLUTE, L1, L2, LARGEST = "AbsoluteDistance", "L1Distance", "L2Distance", "LInfDistance"
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

"""Exact distances between datasets and between outputs, by the names that libraries give to metrics.

Numbers are compared as fractions, so that no rounding makes a distance too large. Needs Python 3.8 and no package,
because it runs in the environment of the audited library.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any  # the tables below are evaluated, and Python 3.8 may run this

Exact = Any
"""An int, a Fraction, or an infinite float."""
Distance = Any
"""An exact number, or a tuple of several for metrics with several numbers."""


class UndefinedDistanceError(Exception):
    """Two values for which a metric defines no distance, such as vectors of unequal length under L1."""


def key(value: Any) -> Any:
    """Return a hashable stand-in for a value; equal values have equal stand-ins.

    0.0 and -0.0 are equal, and NaN equals NaN, so that no distance comes from the signs of zeros.
    """
    if isinstance(value, (list, tuple)):
        return tuple(map(key, value))
    if isinstance(value, dict):
        return frozenset((key(name), key(part)) for name, part in value.items())
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return (type(value).__name__, value) if isinstance(value, bool) else value


def identity(value: Any) -> Any:
    """Return a hashable stand-in for a record; equal stand-ins belong to records that no program can tell apart.

    Unlike `key`, this function distinguishes 0.0 from -0.0 and True from 1, so that no distance of inputs is too small.
    """
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(identity, value))
    if isinstance(value, dict):
        return ("dict", frozenset((identity(name), identity(part)) for name, part in value.items()))
    return (type(value).__name__, repr(value) if isinstance(value, float) else value)


def symmetric(x: list[Any], y: list[Any]) -> int:
    """Return how many records must be added or removed to make the multisets equal."""
    first, second = Counter(map(key, x)), Counter(map(key, y))
    return sum(((first - second) + (second - first)).values())


def insert_delete(x: list[Any], y: list[Any]) -> int:
    """Return how many records must be inserted or deleted to make the lists equal, order included."""
    first, second = list(map(key, x)), list(map(key, y))
    for _ in range(2):  # equal records at the beginning, and then at the end, belong to a longest common subsequence
        common = 0
        while common < min(len(first), len(second)) and first[common] == second[common]:
            common += 1
        first, second = first[common:][::-1], second[common:][::-1]
    row = [0] * (len(second) + 1)
    for one in first:  # row[j] is the length of the longest common subsequence with the first j records
        before = 0
        for j, other in enumerate(second):
            before, row[j + 1] = row[j + 1], before + 1 if one == other else max(row[j + 1], row[j])
    return len(first) + len(second) - 2 * row[-1]


def change_one(x: list[Any], y: list[Any]) -> int:
    """Return how many records must be changed to make the multisets equal."""
    if len(x) != len(y):
        raise UndefinedDistanceError("datasets of unequal size have no distance under ChangeOne")
    return symmetric(x, y) // 2


def hamming(x: list[Any], y: list[Any]) -> int:
    """Return at how many positions two lists differ."""
    if len(x) != len(y):
        raise UndefinedDistanceError("lists of unequal length have no Hamming distance")
    return sum(key(one) != key(other) for one, other in zip(x, y))  # noqa: B905  # Python 3.8 has no strict=


def discrete(x: Any, y: Any) -> int:
    """Return 0 for equal values and 1 for others."""
    return int(key(x) != key(y))


def absolute(x: Any, y: Any) -> Exact:
    """Return the exact distance of two numbers; infinite for NaN and for infinite numbers that differ."""
    if key(x) == key(y):
        return 0
    if any(isinstance(one, float) and not math.isfinite(one) for one in (x, y)):
        return math.inf
    if isinstance(x, str) or isinstance(y, str):
        raise UndefinedDistanceError("texts have no distance under this metric")
    return abs(Fraction(x) - Fraction(y))


def differences(x: Any, y: Any) -> list[Exact]:
    """Return the exact distances of the components of two vectors, or of two dictionaries, where absent means 0."""
    if isinstance(x, dict) and isinstance(y, dict):
        return [absolute(x.get(name, 0), y.get(name, 0)) for name in {**x, **y}]
    if not (isinstance(x, (list, tuple)) and isinstance(y, (list, tuple))):
        raise UndefinedDistanceError("values other than vectors and dictionaries have no distance under this metric")
    if len(x) != len(y):
        raise UndefinedDistanceError("vectors of unequal length have no distance under this metric")
    return [absolute(one, other) for one, other in zip(x, y)]  # noqa: B905  # Python 3.8 has no strict=


def l1(x: Any, y: Any) -> Exact:
    """Return the sum of the distances of the components."""
    return sum(differences(x, y))


def l2_squared(x: Any, y: Any) -> Exact:
    """Return the sum of the squared distances of the components."""
    return sum(one * one for one in differences(x, y))


def l_infinity(x: Any, y: Any) -> Exact:
    """Return the largest distance of the components."""
    return max(differences(x, y), default=0)


def l01_infinity(x: Any, y: Any) -> tuple[Exact, ...]:
    """Return the number of components that differ, the sum of their distances, and the largest of them."""
    found = differences(x, y)
    return sum(one != 0 for one in found), sum(found), max(found, default=0)


def l02_infinity(x: Any, y: Any) -> tuple[Exact, ...]:
    """Return the number of components that differ, their distance under L2, rounded up, and the largest of them."""
    found = differences(x, y)
    return sum(one != 0 for one in found), root_above(l2_squared(x, y)), max(found, default=0)


DATASET_METRICS = {
    "SymmetricDistance": symmetric,
    "InsertDeleteDistance": insert_delete,
    "ChangeOneDistance": change_one,
    "HammingDistance": hamming,
}
"""Metrics of datasets, in which an edit of a record is at distance 1 (or 2 for a replaced record)."""
METRICS = {
    **DATASET_METRICS,
    "DiscreteDistance": discrete,
    "AbsoluteDistance": absolute,
    "L1Distance": l1,
    "LInfDistance": l_infinity,
    "L01InfDistance": l01_infinity,
    "L02InfDistance": l02_infinity,
}
"""Metrics by the beginning of their names. Outputs under L2 are compared by squares; see `exceeds`."""
TRIPLES = ("L01InfDistance", "L02InfDistance")
"""Metrics with three numbers: of components that differ, of their distance, and of the largest distance."""


def name_of(metric: str) -> str:
    """Return the name in `METRICS` of a metric as a library prints it; raise `UndefinedDistanceError` if there is none.

    >>> name_of("L1Distance(i32)")
    'L1Distance'
    """
    for one in (*METRICS, "L2Distance"):
        if metric.startswith(one):
            return one
    raise UndefinedDistanceError("there is no exact distance for the metric " + metric)


def distance(metric: str, x: Any, y: Any) -> Distance:
    """Return the exact distance of two values; for L2 a fraction that is not below it."""
    name = name_of(metric)
    if name in DATASET_METRICS and not all(isinstance(one, (list, tuple)) for one in (x, y)):
        raise UndefinedDistanceError(f"values other than lists have no {name}")
    try:
        return root_above(l2_squared(x, y)) if name == "L2Distance" else METRICS[name](x, y)
    except (TypeError, ValueError) as error:  # values that are no numbers, or that cannot be compared
        raise UndefinedDistanceError(f"a {name} is not defined on the outputs ({error})") from None


def input_distance(metric: str, x: Any, y: Any) -> Distance:
    """Return a distance of two inputs that is not below the true one; infinite if the metric defines none.

    Records count as equal only if they are identical. Under a metric of numbers, dictionaries in which a key has the
    value 0 in one and is absent in the other have no distance, because libraries differ about it.
    """
    name = name_of(metric)
    try:
        if name in DATASET_METRICS:
            return distance(metric, list(map(identity, x)), list(map(identity, y)))
        if name == "DiscreteDistance":
            return int(identity(x) != identity(y))
        if isinstance(x, dict) and any(one.get(at, 1) == 0 for one in (x, y) for at in x.keys() ^ y.keys()):
            return math.inf
        if "monotonic" in metric and not _is_one_sided(x, y):
            return math.inf
        return distance(metric, x, y)
    except UndefinedDistanceError:
        return math.inf


def _is_one_sided(x: Any, y: Any) -> bool:
    """Return whether all components move in the same direction, as neighbours of a monotonic metric do."""
    moves = [(one < other) - (one > other) for one, other in zip(x, y)]  # noqa: B905  # Python 3.8 has no strict=
    return not (1 in moves and -1 in moves)


def root_above(squared: Exact) -> Exact:
    """Return the square root as a fraction: exact if it is rational, and otherwise slightly too large.

    >>> root_above(Fraction(9, 4)), float(root_above(2))
    (Fraction(3, 2), 1.4142135623730951)
    """
    if squared == math.inf:
        return math.inf
    exact = Fraction(squared)
    product, below = exact.numerator * exact.denominator, exact.denominator
    root = math.isqrt(product)
    if root * root == product:
        return Fraction(root, below)
    return Fraction(math.isqrt(product << 128) + 1, below << 64)


def exceeds(metric: str, x: Any, y: Any, allowed: Any) -> bool:
    """Return whether the exact distance of two values is larger than ``allowed``, a number or a tuple of numbers."""
    if name_of(metric) == "L2Distance":
        distance(metric, x, y)  # raises an exception if there is none
        return _is_more(l2_squared(x, y), _squared(allowed))
    if name_of(metric) == "L02InfDistance":
        raise UndefinedDistanceError("outputs are not compared under L02InfDistance")
    found = distance(metric, x, y)
    if isinstance(found, tuple):
        return any(_is_more(one, most) for one, most in zip(found, allowed))  # noqa: B905  # Python 3.8 has no strict=
    return _is_more(found, allowed)


def _squared(allowed: Any) -> Any:
    if isinstance(allowed, float) and not math.isfinite(allowed):
        return allowed
    return Fraction(allowed) ** 2 if allowed >= 0 else -1


def _is_more(found: Any, allowed: Any) -> bool:
    """Return whether a number exceeds another one exactly; NaN allows nothing."""
    if allowed != allowed:
        return bool(found > 0)
    is_infinite = isinstance(allowed, float) and math.isinf(allowed)
    return bool(found > (allowed if is_infinite else Fraction(allowed)))

"""Exact distances between datasets and between outputs, for metrics by the names that libraries give them.

Numbers are compared as fractions, so that no rounding makes a distance too large. Needs Python 3.8 and no package,
because it runs in the environment of the audited library.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from fractions import Fraction
from typing import Any, Callable  # noqa: UP035  # the tables below are evaluated, and Python 3.8 may run this

Exact = Any
"""An int, a Fraction, or an infinite float."""
Distance = Any
"""An exact number, or a tuple of several numbers for metrics that have more than one."""


class UndefinedDistanceError(Exception):
    """Raised if a metric defines no distance between two values.

    Vectors of unequal length under L1 are an example.
    """


def equality_key(value: Any) -> Any:
    """Return a hashable key for an output, such that equal outputs have equal keys.

    0.0 and -0.0 count as equal, and so do two NaN, but not True and 1. Outputs that differ only in the sign of a zero
    thus have distance 0.
    """
    if isinstance(value, (list, tuple)):
        return tuple(map(equality_key, value))
    if isinstance(value, dict):
        return frozenset((equality_key(name), equality_key(part)) for name, part in value.items())
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return (type(value).__name__, value) if isinstance(value, bool) else value


def record_identity(value: Any) -> Any:
    """Return a hashable key for a record. Two records have equal keys only if no program can tell them apart.

    Unlike `equality_key`, this function distinguishes 0.0 from -0.0 and 1 from 1.0. Otherwise the distance between two
    inputs could be too small, and a correct map would seem wrong.
    """
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(record_identity, value))
    if isinstance(value, dict):
        return ("dict", frozenset((record_identity(name), record_identity(part)) for name, part in value.items()))
    return (type(value).__name__, repr(value) if isinstance(value, float) else value)


def symmetric(x: list[Any], y: list[Any]) -> int:
    """Return how many records must be added or removed to turn one multiset of records into another."""
    first, second = Counter(map(equality_key, x)), Counter(map(equality_key, y))
    return sum(((first - second) + (second - first)).values())


def insert_delete(x: list[Any], y: list[Any]) -> int:
    """Return how many records must be inserted or deleted to turn one list into another, in the same order."""
    first, second = list(map(equality_key, x)), list(map(equality_key, y))
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
    """Return how many records must be replaced to turn one multiset of records into another of equal size."""
    if len(x) != len(y):
        raise UndefinedDistanceError("datasets of unequal size have no distance under ChangeOne")
    return symmetric(x, y) // 2


def hamming(x: list[Any], y: list[Any]) -> int:
    """Return at how many positions two lists differ."""
    if len(x) != len(y):
        raise UndefinedDistanceError("lists of unequal length have no Hamming distance")
    return sum(equality_key(one) != equality_key(other) for one, other in zip(x, y))  # noqa: B905  # Python 3.8 has no strict=


def discrete(x: Any, y: Any) -> int:
    """Return 0 if two values are equal, and 1 otherwise."""
    return int(equality_key(x) != equality_key(y))


def absolute(x: Any, y: Any) -> Exact:
    """Return the exact distance between two numbers.

    It is infinite if exactly one of them is NaN, or if one is infinite and the other differs.
    """
    if equality_key(x) == equality_key(y):
        return 0
    if any(isinstance(one, float) and not math.isfinite(one) for one in (x, y)):
        return math.inf
    if isinstance(x, str) or isinstance(y, str):
        raise UndefinedDistanceError("texts have no distance under this metric")
    return abs(Fraction(x) - Fraction(y))


def differences(x: Any, y: Any, inner: str = "") -> list[Exact]:
    """Return the exact distances between corresponding components of two vectors or two dictionaries.

    The components are numbers, or lists of records if ``inner`` names a metric of datasets. A key that only one
    dictionary has is compared with 0 or with an empty list.
    """
    absent: Any = [] if inner else 0

    def of(one: Any, other: Any) -> Exact:
        return distance(inner, one, other) if inner else absolute(one, other)

    if isinstance(x, dict) and isinstance(y, dict):
        return [of(x.get(name, absent), y.get(name, absent)) for name in {**x, **y}]
    if not (isinstance(x, (list, tuple)) and isinstance(y, (list, tuple))):
        raise UndefinedDistanceError("values other than vectors and dictionaries have no distance under this metric")
    if len(x) != len(y):
        raise UndefinedDistanceError("vectors of unequal length have no distance under this metric")
    return [of(one, other) for one, other in zip(x, y)]  # noqa: B905  # Python 3.8 has no strict=


def squared(found: list[Exact]) -> Exact:
    """Return the sum of the squares of a list of distances."""
    return sum(one * one for one in found)


def persons(x: list[Any], y: list[Any], column: str, are_inputs: bool = False) -> Distance:
    """Return how many persons must be added or removed to turn one data frame into another.

    The records with equal values in ``column`` belong to one person, and are added or removed together. If the records
    of a person differ between two outputs, the person counts twice (removed and added again). If these records or their
    order differ between two inputs (``are_inputs``), the distance is infinite: OpenDP does not define it, and does not
    say whether the order matters.
    """
    held: list[dict[Any, list[Any]]] = [{}, {}]
    stand_in = record_identity if are_inputs else equality_key
    for records, found in zip((x, y), held):  # noqa: B905  # Python 3.8 has no strict=
        for one in records:
            found.setdefault(stand_in(one[column]), []).append(stand_in(one))
    first, second = held
    both = first.keys() & second.keys()
    if are_inputs and any(first[name] != second[name] for name in both):
        return math.inf
    return len(first.keys() ^ second.keys()) + 2 * sum(Counter(first[one]) != Counter(second[one]) for one in both)


def exchanged_persons(x: list[Any], y: list[Any], column: str, are_inputs: bool = False) -> Distance:
    """Return how many persons must be exchanged for others to turn one data frame into another.

    The records with equal values in ``column`` belong to one person; see `persons`.
    """
    if len({equality_key(one[column]) for one in x}) != len({equality_key(one[column]) for one in y}):
        raise UndefinedDistanceError("datasets with unequal numbers of persons have no distance under ChangeOneId")
    found = persons(x, y, column, are_inputs)
    return found if found == math.inf else found // 2


DATASET_METRICS = {
    "SymmetricDistance": symmetric,
    "InsertDeleteDistance": insert_delete,
    "ChangeOneDistance": change_one,
    "HammingDistance": hamming,
}
"""Metrics of datasets. Datasets that differ by the edit of one record are at distance 1, or at distance 2 if the record
is replaced and the metric counts insertions and deletions."""
PERSON_METRICS = {"SymmetricIdDistance": persons, "ChangeOneIdDistance": exchanged_persons}
"""Metrics of data frames in which one column identifies persons, such as 'SymmetricIdDistance(id)'."""
NORMS: dict[str, Callable[[list[Exact]], Distance]] = {
    "L1Distance": sum,
    "L2Distance": lambda found: root_above(squared(found)),
    "LInfDistance": lambda found: max(found, default=0),
    "L01InfDistance": lambda found: (sum(one != 0 for one in found), sum(found), max(found, default=0)),
    "L02InfDistance": lambda found: (
        sum(one != 0 for one in found),
        root_above(squared(found)),
        max(found, default=0),
    ),
    "PartitionDistance": lambda found: (sum(one != 0 for one in found), sum(found), max(found, default=0)),
}
"""Metrics of vectors and dictionaries, as functions of the distances between the components. The components are
numbers, or datasets, as in 'L01InfDistance(SymmetricDistance)' for the parts of a partitioned dataset."""
METRICS = (
    *DATASET_METRICS,
    *PERSON_METRICS,
    *NORMS,
    "FrameDistance",
    "DiscreteDistance",
    "AbsoluteDistance",
)
"""Metrics by the beginning of their names. Outputs under L2 are compared by squares; see `exceeds_distance`.
'FrameDistance' bounds distances under another metric within groups of records; see `group_distances`."""
TRIPLES = ("L01InfDistance", "L02InfDistance", "PartitionDistance")
"""Metrics with three numbers: the number of components that differ, the norm of all distances between components,
and the largest of these distances."""


def name_of(metric: str) -> str:
    """Return the name in `METRICS` of a metric, given the text that a library prints for the metric.

    Raises `UndefinedDistanceError` if `METRICS` has no such name.

    >>> name_of("L1Distance(i32)")
    'L1Distance'
    """
    for one in METRICS:
        if metric.startswith(one):
            return one
    raise UndefinedDistanceError("there is no exact distance for the metric " + metric)


def inner_of(metric: str) -> str:
    """Return the metric of datasets that a compound metric has in brackets, or an empty text if it has none.

    >>> inner_of("L01InfDistance(SymmetricDistance())"), inner_of("L1Distance(f64)")
    ('SymmetricDistance()', '')
    """
    found = re.match(r"\w+\((.*)\)$", metric)
    is_inner = found is not None and found.group(1).startswith((*DATASET_METRICS, *PERSON_METRICS))
    return found.group(1) if found is not None and is_inner else ""


def person_column(metric: str) -> str:
    """Return the column that identifies persons, given the text of a metric; empty if the text names no column.

    >>> person_column('FrameDistance(SymmetricIdDistance { identifier: col("id") })')
    'id'
    """
    found = re.search(r"IdDistance(?:\((.+?)\)| \{ identifier: col\(\"?(.+?)\"?\) \})", metric)
    return (found.group(1) or found.group(2)) if found else ""


def distance_of(metric: str, number: int) -> Distance:
    """Return a whole number as a distance in the form that a metric uses.

    Metrics with three numbers get the distance of two inputs that differ in one component by this number.

    >>> distance_of("L1Distance(i32)", 2), distance_of("L01InfDistance(AbsoluteDistance(i32))", 2)
    (2, (1, 2, 2))
    """
    name = name_of(metric)
    return (1, number, number) if name in TRIPLES else (((), number, None),) if name == "FrameDistance" else number


def group_distances(
    metric: str, x: Any, y: Any, groupings: Any, measure: Callable[[str, Any, Any], Distance] | None = None
) -> Distance:
    """Return how far two data frames are apart within groups of records, as OpenDP's FrameDistance measures it.

    A grouping is a tuple of column names; records with equal values in these columns form a group. The result has a
    tuple for each of the ``groupings``: the columns, the largest distance within a group, and the number of groups that
    differ (None for the grouping without columns). A map may state None for a number that it does not bound. The
    function ``measure`` returns the distance within a group; it is `distance` by default.
    """
    found: list[Any] = []
    inner, measure = inner_of(metric), measure or distance
    for by in groupings:
        if not all(name in one for name in by for one in (*x[:1], *y[:1])):
            raise UndefinedDistanceError(f"records have no column {by}")
        groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        for side, records in enumerate((x, y)):
            for one in records:
                groups.setdefault(tuple(record_identity(one[name]) for name in by), ([], []))[side].append(one)
        distances = [measure(inner, *both) for both in groups.values()]
        found.append((by, max(distances, default=0), sum(one != 0 for one in distances) if by else None))
    return tuple(found)


def distance(metric: str, x: Any, y: Any) -> Distance:
    """Return the exact distance between two values under the metric that ``metric`` names.

    Irrational distances under L2 are rounded up to a fraction. Raises `UndefinedDistanceError` if the metric does not
    define a distance between these values.
    """
    name = name_of(metric)
    is_dataset = name in DATASET_METRICS or name in PERSON_METRICS or name == "FrameDistance"
    if is_dataset and not all(isinstance(one, (list, tuple)) for one in (x, y)):
        raise UndefinedDistanceError(f"values other than lists have no {name}")
    try:
        if name in PERSON_METRICS:
            return PERSON_METRICS[name](x, y, person_column(metric))
        if name == "FrameDistance":
            return group_distances(metric, x, y, ((),))
        if name in NORMS:
            return NORMS[name](differences(x, y, inner_of(metric)))
        return {**DATASET_METRICS, "DiscreteDistance": discrete, "AbsoluteDistance": absolute}[name](x, y)
    except (TypeError, ValueError, KeyError) as error:  # values that are no numbers, or that cannot be compared
        raise UndefinedDistanceError(f"a {name} is not defined on the outputs ({error})") from None


def input_distance(metric: str, x: Any, y: Any, groupings: Any = ((),)) -> Distance:
    """Return an upper bound on the distance between two inputs, or infinity if the metric defines no distance.

    Records count as equal only if no program can tell them apart. Dictionaries in which a key has the value 0 (or an
    empty list) in one and is absent in the other have no distance, because libraries disagree about it. ``groupings``
    are tuples of columns for which a FrameDistance is computed; see `group_distances`.
    """
    name = name_of(metric)
    try:
        if name in DATASET_METRICS:
            return distance(metric, list(map(record_identity, x)), list(map(record_identity, y)))
        if name in PERSON_METRICS:
            column = person_column(metric)
            if any(one[column] is None for one in x + y):
                return math.inf  # libraries may count records without an identifier as one person, or as several
            return PERSON_METRICS[name](x, y, column, True)
        if name == "FrameDistance":
            found = group_distances(metric, x, y, groupings, input_distance)
            return math.inf if any(one[1] == math.inf for one in found) else found
        if name == "DiscreteDistance":
            return int(record_identity(x) != record_identity(y))
        if isinstance(x, dict) and any(one.get(at, 1) in (0, []) for one in (x, y) for at in x.keys() ^ y.keys()):
            return math.inf
        if "monotonic" in metric and not _is_one_sided(x, y):
            return math.inf
        if inner_of(metric) and isinstance(x, dict):
            x, y = ({at: list(map(record_identity, part)) for at, part in one.items()} for one in (x, y))
        return distance(metric, x, y)
    except UndefinedDistanceError:
        return math.inf


def _is_one_sided(x: Any, y: Any) -> bool:
    """Return whether no component increases while another one decreases from ``x`` to ``y``.

    Neighbours under a monotonic metric have this property.
    """
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


def distance_beside(metric: str, x: Any, y: Any, allowed: Any) -> Distance:
    """Return the distance between two outputs in the form of ``allowed``, the distance that a map states.

    Only a FrameDistance has several forms: it is computed for the groupings of columns that ``allowed`` contains.
    """
    if name_of(metric) != "FrameDistance":
        return distance(metric, x, y)
    return group_distances(metric, x, y, [by for by, _, _ in allowed])


def numbers_to_compare(found: Any, allowed: Any) -> list[tuple[Any, Any]]:
    """Return a list that pairs each number of a distance with the number that ``allowed`` states for it.

    Numbers without a stated bound are left out.
    """
    if not isinstance(found, tuple):
        return [(found, allowed)]
    parts = list(zip(found, allowed))  # noqa: B905  # Python 3.8 has no strict=
    if parts and isinstance(found[0], tuple):  # groupings
        parts = [two for one, most in parts for two in zip(one[1:], most[1:])]  # noqa: B905  # Python 3.8 has no strict=
    return [(one, most) for one, most in parts if one is not None and most is not None]


def exceeds_distance(metric: str, x: Any, y: Any, allowed: Any) -> bool:
    """Return whether the exact distance of two values is larger than ``allowed``, a number or a tuple of numbers."""
    if name_of(metric) == "L2Distance":
        distance(metric, x, y)  # raises an exception if there is none
        return _is_more(squared(differences(x, y, inner_of(metric))), _squared(allowed))
    if name_of(metric) == "L02InfDistance":
        raise UndefinedDistanceError("outputs are not compared under L02InfDistance")
    return any(_is_more(*two) for two in numbers_to_compare(distance_beside(metric, x, y, allowed), allowed))


def _squared(allowed: Any) -> Any:
    if isinstance(allowed, float) and not math.isfinite(allowed):
        return allowed
    return Fraction(allowed) ** 2 if allowed >= 0 else -1


def _is_more(found: Any, allowed: Any) -> bool:
    """Return whether ``found`` exceeds ``allowed``, without rounding.

    If ``allowed`` is NaN, every positive number exceeds it.
    """
    if allowed != allowed:
        return bool(found > 0)
    is_infinite = isinstance(allowed, float) and math.isinf(allowed)
    return bool(found > (allowed if is_infinite else Fraction(allowed)))

"""Descriptions of domains, and random members that often reveal errors: bounds, largest numbers, ties, empty data.

Needs Python 3.8 and no package, because it runs in the environment of the audited library.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple, Union

from epsaudit.tools.maps.metrics import record_identity

MAX_DRAWN_SIZE = 7
"""Largest number of records of most drawn datasets. Small datasets reveal most errors and are easy to read."""
LONG_SIZE = 200
"""Number of records of the few long datasets that are drawn, for code that treats long data in another way."""
TEXTS = ("", "a", "b", "A", "0", "é", "\u0000", "a b", "x" * 40, "\U0001f642")
"""Values that are drawn from domains of text."""
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": -8, "u16": -16, "u32": -32, "u64": -64, "usize": -64}
"""Number of bits of each integer type. The number is negative for unsigned types."""


class Atom(NamedTuple):
    """A domain of single values, such as integers between two bounds.

    ``kind`` is 'int', 'float', 'f32', 'f64', 'str', 'bool', 'bytes', or an integer type in `BITS` such as 'u8'; a plain
    'int' has 64 bits. ``low`` and ``high`` are inclusive bounds or None, ``nan`` says whether NaN is a member, ``null``
    whether None is, and ``categories`` lists the members if there are few.
    """

    kind: str
    low: Any = None
    high: Any = None
    nan: bool = False
    null: bool = False
    categories: tuple[Any, ...] = ()


class Vector(NamedTuple):
    """A domain of lists of values from the domain ``atom``, with ``size`` values each (None for any number)."""

    atom: Atom
    size: int | None = None


class Mapping(NamedTuple):
    """A domain of dictionaries, with the domain ``key`` of the keys and the domain ``value`` of the values.

    The values are single values, or lists such as the parts of a partitioned dataset.
    """

    key: Atom
    value: Atom | Vector


class Margin(NamedTuple):
    """What is publicly known about the groups of records that have equal values in the columns ``by``.

    A group has at most ``max_length`` records, and there are at most ``max_groups`` groups; None means no limit. If
    ``invariant`` is 'keys', neighbouring data frames have the same groups. If it is 'lengths', these groups also have
    equal lengths. Otherwise it is empty. The term is OpenDP's.
    """

    by: tuple[str, ...]
    max_length: int | None = None
    max_groups: int | None = None
    invariant: str = ""


class Frame(NamedTuple):
    """A domain of data frames. A data frame is a list of records, each a dictionary from column names to values.

    ``columns`` maps each column name to the domain of its values. ``margins`` restrict the groups of records.
    """

    columns: dict[str, Atom]
    margins: tuple[Margin, ...] = ()


Domain = Union[Atom, Vector, Mapping, Frame]  # noqa: UP007  # Python 3.8 may run this


def float_limits(kind: str) -> tuple[float, float]:
    """Return the smallest and the largest finite number of a floating-point type."""
    most = struct.unpack("f", b"\xff\xff\x7f\x7f")[0] if kind == "f32" else 1.7976931348623157e308
    return -most, most


def to_single(value: float) -> float:
    """Return the nearest floating-point number of 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def single_above(value: float) -> float:
    """Round a number that is not negative up to a 32-bit floating-point number."""
    near = to_single(value)
    if near >= value:
        return near
    return float(struct.unpack("f", struct.pack("I", struct.unpack("I", struct.pack("f", near))[0] + 1))[0])


def is_float(atom: Atom) -> bool:
    """Return whether a domain of single values consists of floating-point numbers."""
    return atom.kind in ("float", "f32", "f64")


def is_number(atom: Atom) -> bool:
    """Return whether a domain of single values consists of numbers."""
    return is_float(atom) or atom.kind == "int" or atom.kind in BITS


def limits(atom: Atom) -> tuple[Any, Any]:
    """Return the smallest and the largest finite member of a domain of numbers."""
    if is_float(atom):
        low, high = float_limits(atom.kind)
    else:
        bits = BITS.get(atom.kind, 64)
        low, high = (0, 2**-bits - 1) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return (low if atom.low is None else atom.low), (high if atom.high is None else atom.high)


def contains(domain: Domain, value: Any) -> bool:
    """Return whether a value is a member of a domain.

    A number is a member of a domain of 32-bit floating-point numbers only if 32 bits represent it exactly.
    """
    if isinstance(domain, Vector):
        if not isinstance(value, (list, tuple)) or (domain.size is not None and len(value) != domain.size):
            return False
        return all(contains(domain.atom, one) for one in value)
    if isinstance(domain, Frame):
        return isinstance(value, list) and all(_is_record(domain, one) for one in value) and _fits(domain, value)
    if isinstance(domain, Mapping):
        is_dict = isinstance(value, dict)
        return is_dict and all(contains(domain.key, k) and contains(domain.value, v) for k, v in value.items())
    if value is None:
        return domain.null
    if domain.categories:
        return value in domain.categories
    if not is_number(domain):
        return isinstance(value, {"str": str, "bool": bool}.get(domain.kind, object))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if isinstance(value, float) and value != value:
        return domain.nan
    if not is_float(domain) and not isinstance(value, int):
        return False
    if domain.kind == "f32" and to_single(value) != value:
        return False
    low, high = limits(domain)
    unbounded = is_float(domain) and domain.low is None and domain.high is None
    return bool(low <= value <= high) or (unbounded and abs(value) == math.inf)


def _is_record(domain: Frame, value: Any) -> bool:
    """Return whether a value is a dictionary with exactly the columns of a data frame, and valid values in them."""
    is_dict = isinstance(value, dict) and value.keys() == domain.columns.keys()
    return is_dict and all(contains(atom, value[name]) for name, atom in domain.columns.items())


def group_lengths(records: list[Any], by: tuple[str, ...]) -> Counter[Any]:
    """Count the records of each group, where a group has equal values in the columns ``by``.

    The keys of the result are made of these values by `record_identity`.
    """
    return Counter(tuple(record_identity(one[name]) for name in by) for one in records)


def _fits(domain: Frame, records: list[Any]) -> bool:
    """Return whether the groups of these records satisfy the limits on their number and length in the domain."""
    for margin in domain.margins:
        lengths = group_lengths(records, margin.by)
        if margin.max_groups is not None and len(lengths) > margin.max_groups:
            return False
        if margin.max_length is not None and any(one > margin.max_length for one in lengths.values()):
            return False
    return True


def are_comparable(domain: Domain, x: Any, y: Any) -> bool:
    """Return whether two members of a domain can be neighbours, as far as invariants of the domain are concerned.

    Only margins of data frames have invariants: they may require that neighbours have the same groups of records, or
    groups of the same lengths.
    """
    for margin in domain.margins if isinstance(domain, Frame) else ():
        first, second = group_lengths(x, margin.by), group_lengths(y, margin.by)
        if margin.invariant == "keys" and first.keys() != second.keys():
            return False
        if margin.invariant == "lengths" and first != second:
            return False
    return True


@lru_cache(maxsize=64)
def special_values(atom: Atom) -> list[Any]:
    """Return members of a domain that often reveal errors, such as bounds and NaN; simple values come first."""
    if atom.categories:
        found = list(atom.categories)
    elif atom.kind == "bool":
        found = [False, True]
    elif not is_number(atom):
        found = list(TEXTS)
    else:
        low, high = limits(atom)
        near = [low, high, (low / 2 + high / 2) if is_float(atom) else (low + high) // 2]
        if is_float(atom):
            near = [float(one) for one in near]
            near += [_next_float(low, 1), _next_float(high, -1), -0.0, 0.1, 0.3, 5e-324, 2.0**53, -(2.0**53), 1e16]
            near += [math.inf, -math.inf]
            simple: list[Any] = [0.0, 1.0, -1.0, 2.0, 3.0, 0.5]
        else:
            near += [low + 1, high - 1, 2**53, 2**53 + 1]
            simple = [0, 1, -1, 2, 3, 9]
        rounded = [to_single(one) for one in simple + near] if atom.kind == "f32" else simple + near
        found = [one for one in {repr(one): one for one in rounded}.values() if contains(atom, one)]
    if atom.nan:
        found.append(math.nan)
    if atom.null:
        found.append(None)
    return found


def _next_float(value: float, direction: int) -> float:
    """Return the next larger floating-point number if ``direction`` is 1, and the next smaller one if it is -1."""
    if value != value or abs(value) == math.inf:
        return value
    if value == 0.0:
        return direction * 5e-324
    bits = struct.unpack("q", struct.pack("d", value))[0]
    return float(struct.unpack("d", struct.pack("q", bits + (direction if value > 0.0 else -direction)))[0])


def draw_value(atom: Atom, rng: Any) -> Any:
    """Draw a member of a domain of single values: usually one of `special_values`, else a random number."""
    special = special_values(atom)
    if atom.categories or not is_number(atom) or rng.random() < 0.75:
        # simple values come first and are drawn more often, so that ties occur
        return special[int(len(special) * rng.random() ** 2)]
    low, high = limits(atom)
    if is_float(atom):
        low, high = max(low, -1e6), min(high, 1e6)
        value = low + (high - low) * rng.random()
        value = to_single(value) if atom.kind == "f32" else value
        return value if contains(atom, value) else special[0]
    low, high = max(low, -1000), min(high, 1000)
    return rng.randrange(low, high + 1) if low <= high else special[0]


def is_whole_text(value: Any) -> bool:
    """Return whether a value is free of null characters, at which libraries in C may end a text.

    Two dictionary keys that differ only after a null character would become equal.
    """
    return not (isinstance(value, str) and "\0" in value)


def draw_record(domain: Vector | Frame, rng: Any, beside: list[Any]) -> Any:
    """Draw a record to be added to a dataset that has the records ``beside``.

    For a data frame, the record is often a copy of one of these records with a new value in one column. If the groups
    of a margin are invariant, the columns that define them keep their values, so that no new group appears.
    """
    if isinstance(domain, Vector):
        return draw_value(domain.atom, rng)
    kept = {name for margin in domain.margins if margin.invariant for name in margin.by}
    if not beside or (not kept and rng.random() < 0.5):
        return {name: draw_value(atom, rng) for name, atom in domain.columns.items()}
    made, free = dict(rng.choice(beside)), [name for name in domain.columns if name not in kept]
    for name in free[:1] and [rng.choice(free)]:
        made[name] = draw_value(domain.columns[name], rng)
    return made


def draw_member(domain: Domain, rng: Any) -> Any:
    """Draw a random member of a domain: a single value, a list, a dictionary or a data frame."""
    if isinstance(domain, Atom):
        return draw_value(domain, rng)
    if isinstance(domain, Mapping):
        drawn = {draw_value(domain.key, rng): draw_member(domain.value, rng) for _ in range(rng.randrange(5))}
        return {key: value for key, value in drawn.items() if is_whole_text(key)}
    size = domain.size if isinstance(domain, Vector) else None
    if size is None:
        size = LONG_SIZE if rng.random() < 0.01 else rng.randrange(MAX_DRAWN_SIZE + 1)
    if isinstance(domain, Frame):
        return _draw_frame(domain, size, rng)
    if size and rng.random() < 0.1:
        return [draw_value(domain.atom, rng)] * size
    return [draw_value(domain.atom, rng) for _ in range(size)]


def _draw_frame(domain: Frame, size: int, rng: Any) -> list[Any]:
    """Draw a data frame of at most ``size`` records. Drawn records that would violate a margin are left out."""
    free = domain._replace(margins=tuple(one._replace(invariant="") for one in domain.margins))
    made: list[Any] = []
    for _ in range(size):
        made.append(draw_record(free, rng, made))
        if not _fits(domain, made):
            made.pop()
    return made

"""The normal form of outputs: what counts as one output, decided for each output by itself, once, where it enters.

`normal` makes one output's normal form, `pack` puts many into one array; docs/reference/outputs.md lists that of every
kind. Two outputs are one where Python calls their normal forms equal. What has none is refused by name.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import functools
import io
import itertools
import json
import math
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.neighbours import describe, is_frame
from epsaudit.errors import AuditError, clipped
from epsaudit.serve import of_tensor, unfolded

Outputs = NDArray[Any]
"""Outputs in normal form, shape (size, ...): float64 of any shape (rows are tuples, more dimensions `Array`s), strings,
or objects."""
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]
NAN = float("nan")
MOST_OF_A_STREAM = 100_000  # items of an iterator that are read, for one may never end
WHOLE_IN_FLOATS = 2**53  # whole numbers beyond are not all floats
MOST_BITS = 4096  # of whole numbers, 1,234 digits, that are written in decimals: Python and JSON stop at 4,300 digits
LONGEST_MESSAGE = 1000  # characters of an exception's that are kept


@dataclass(frozen=True)
class Raised:
    """The outcome of a run in which the mechanism raised: compared by type name alone, and the status of an exit."""

    exception: str
    message: str = field(default="", compare=False)

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Return the outcome of a run that raised this."""
        name, message = type(error).__name__, ""
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, (int, NoneType)) else 1  # that of a text
            name += f"({written(status)})" if status else ""
        with contextlib.suppress(Exception):  # what somebody else's class makes of itself
            message = str(error)[:LONGEST_MESSAGE]
        return cls(name, message)

    def __repr__(self) -> str:
        return f"raises {self.exception}"


@dataclass(frozen=True)
class TimedOut:
    """The outcome of a run that did not end within the time limit."""

    def __repr__(self) -> str:
        return "timeout"


class Items:
    """The outcome of a run that returned a mapping: its keys, what each holds, and the order they came in.

    >>> Items.of({"bob": 2, "ann": 1}), Items.of({"ann": 1}).get("ann")
    ({'bob': 2, 'ann': 1}, 1.0)
    """

    __slots__ = ("keys", "order", "parts")

    def __init__(
        self, keys: tuple[Hashable, ...] = (), parts: tuple[Any, ...] = (), order: tuple[int, ...] | None = None
    ) -> None:
        self.keys, self.parts, self.order = keys, parts, order  # places among the keys as they came; None where sorted

    @classmethod
    def of(cls, mapping: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> Items:
        """Freeze a mapping, or its (key, value) pairs."""
        if type(mapping) is dict:
            given, parts = tuple(mapping), _sequence(mapping.values())
        else:
            pairs = list(mapping.items() if isinstance(mapping, Mapping) else mapping)
            given, parts = tuple([key for key, _ in pairs]), _sequence([value for _, value in pairs])
        keys, places, order = _sorted_keys(given)
        return cls(keys, parts if order is None else tuple([parts[place] for place in places]), order)

    def as_given(self) -> tuple[tuple[Hashable, Any], ...]:
        """Return the pairs in the order that the mapping had."""
        pairs = tuple(self)
        return pairs if self.order is None else tuple(pairs[place] for place in self.order)

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, None without."""
        return self.parts[self.keys.index(key)] if key in self.keys else None

    def __iter__(self) -> Iterator[tuple[Hashable, Any]]:
        return zip(self.keys, self.parts, strict=True)

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        same = type(other) is Items and self.keys == other.keys and self.parts == other.parts
        return same and self.order == other.order  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.keys, self.parts, self.order))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{written(key)}: {written(value)}" for key, value in self.as_given()) + "}"


class Array(tuple[Any, ...]):
    """The outcome of a run that returned an array of two or more dimensions: its numbers in C order, and its shape."""

    shape: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        return type(other) is Array and tuple.__eq__(self, other) and self.shape == other.shape

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.shape, tuple.__hash__(self)))

    @classmethod
    def of(cls, numbers: Iterable[Hashable], shape: Sequence[int]) -> Array:
        """Give numbers a shape."""
        array = cls(numbers)
        array.shape = tuple(shape)
        return array

    def __repr__(self) -> str:
        return f"array of shape {self.shape}: {written(tuple(self))}"


def normal(value: Any) -> Any:
    """Return the normal form of one output; `AuditError` shows an object in it that has none.

    >>> normal([1, True, "a"]), normal(np.array([[0.5]])), normal({"ann": {2, 1}})
    ((1.0, 1.0, 'a'), array of shape (1, 1): (0.5,), {'ann': frozenset({1, 2})})
    """
    make = _EXACT.get(type(value), _of_another_type)
    try:
        return make(value)
    except AuditError:
        raise
    except (ValueError, ArithmeticError, RecursionError):  # a date before the first, a list that holds itself
        raise refused(value) from None


def values_of(outputs: Outputs) -> list[Any]:
    """List the normal form of every output, as Python objects."""
    if outputs.dtype != np.float64:
        return list(outputs.tolist())
    flat = outputs.ravel().tolist()
    if np.isnan(outputs).any():
        flat = [value if value == value else NAN for value in flat]
    if outputs.ndim == 1:
        return flat
    size = int(np.prod(outputs.shape[1:]))
    rows = [tuple(flat[place * size : (place + 1) * size]) for place in range(len(outputs))]
    return rows if outputs.ndim == 2 else [Array.of(row, outputs.shape[1:]) for row in rows]


def number(value: Any) -> float:
    """Return the float nearest to an output in normal form, NaN for what is no real number."""
    if kind_of(value) != "number":
        return NAN
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def kind_of(value: Any) -> str:
    """Name the kind of an output in normal form, in a word."""
    kind: Any = type(value)
    return _kind_of_type(kind)


@functools.lru_cache(256)
def _kind_of_type(kind: Any) -> str:
    return next((name for name, types in _KINDS.items() if issubclass(kind, types)), kind.__name__)


def written(value: Any) -> str:
    """Write an output as `repr` does, whole numbers without '.0' and sets in an order that no process changes.

    >>> written((1.0, "a", frozenset({2.5, 1.0})))
    "(1, 'a', frozenset({1, 2.5}))"
    """
    kind = type(value)
    if kind is float and value.is_integer() and abs(value) <= WHOLE_IN_FLOATS:
        return repr(int(value)) if value or not np.signbit(value) else "-0"
    if kind is float or kind is str:  # most are
        return repr(value)
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(sorted(map(written, value)))}}})" if value else "frozenset()"
    if kind is tuple:
        return f"({', '.join(map(written, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Fraction):
        return f"Fraction({written(value.numerator)}, {written(value.denominator)})"
    return hex(value) if isinstance(value, int) and value.bit_length() > MOST_BITS else repr(value)


def order_key(value: Any) -> tuple[str, Any]:
    """Return what outputs of any kinds are sorted by, alike in every process."""
    if type(value) is float:
        return kind_of(value), (0, value, "") if value == value else (1, 0.0, "")
    return kind_of(value), (2, 0.0, written(value))


def refused(value: Any) -> AuditError:
    """Return the error that names an object which has no normal form."""
    try:
        shown = describe(value) if is_frame(value) else repr(value)
    except Exception:
        shown = "an object"
    shown = clipped(" ".join(shown.split()), 200)
    return AuditError(
        f"The mechanism returned {shown} of type {type(value).__name__}, which cannot be compared; return "
        "numbers, strings, bytes, dates, None, or tuples, lists, sets, mappings and arrays of these."
    )


def are_floats(numbers: NDArray[Any]) -> bool:
    """Whether all are floats: small whole numbers, or long doubles, which are rounded."""
    if numbers.dtype.itemsize != 8 or numbers.size == 0:
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.nanmax(numbers) < WHOLE_IN_FLOATS and np.nanmin(numbers) > -WHOLE_IN_FLOATS)


def _equal_float(value: Any) -> Any:
    try:
        nearest = float(value)
    except OverflowError:
        return value
    return nearest if nearest == value else value


def _time(value: Any) -> Any:
    """A time or a duration of the plain type, without the nanoseconds of pandas."""
    if value != value:  # NaT of pandas
        return NAN
    if isinstance(value, datetime.timedelta):
        return datetime.timedelta(value.days, value.seconds, value.microseconds)
    if type(value) is not datetime.datetime:
        value = datetime.datetime.fromisoformat(datetime.datetime.isoformat(value))
    return value.replace(fold=0) if value.tzinfo is None else value.astimezone(datetime.UTC)


def _array(value: NDArray[Any]) -> Any:
    value = of_numpy(value)
    if value.ndim == 0:
        return normal(value[()])
    if isinstance(value, np.ma.MaskedArray) or value.dtype.kind not in "biuf":
        return normal(items_of(value))
    parts = tuple(values_of(normal_array(np.asarray(value).ravel())))
    return parts if value.ndim == 1 else Array.of(parts, value.shape)


def of_numpy(array: NDArray[Any]) -> NDArray[Any]:
    """An array of a kind that other packages add to numpy, as bfloat16, as one of floats; any other as it is."""
    added = array.dtype.kind == "V" and np.can_cast(array.dtype, np.float64)
    return array.astype(np.float64) if added else array


def items_of(array: NDArray[Any]) -> list[Any]:
    """The items of an array; of dates and times numpy's own, for Python's None would stand for NaT."""
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def _of_another_type(value: Any) -> Any:
    """The normal form of an object whose class is derived from a known one, or that is known by its members."""
    for kind, make in _DERIVED.items():
        if isinstance(value, kind):
            return make(value)
    if hasattr(value, "__next__") and hasattr(value, "__iter__"):
        found: list[Any] = []
        try:
            for item in itertools.islice(value, MOST_OF_A_STREAM + 1):
                found.append(item)  # one by one, up to where it raises
        except (Exception, SystemExit) as error:
            found.append(Raised.of(error))
        if len(found) > MOST_OF_A_STREAM:
            raise AuditError(f"The stream gave more than {MOST_OF_A_STREAM:,} items; return what is to be looked at.")
        return _sequence(found)
    try:
        held: Any = unfolded(value)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise refused(value) from error
    if held is value:
        raise refused(value)
    if held is not getattr(value, "__dict__", None):
        return normal(held)
    try:
        return Items.of(vars(value))
    except AuditError:  # of a part, where the whole says more
        raise refused(value) from None


def _sequence(parts: Iterable[Any]) -> tuple[Any, ...]:
    """The tuple of the normal forms of parts, of which most are numbers and strings."""
    given = tuple(parts)
    for part in given:  # numbers alone, as most are, take two thirds of the time so
        if type(part) is not float or part != part:
            break
    else:
        return given
    return tuple(
        [part if ((kind := type(part)) is float and part == part) or kind is str else normal(part) for part in given]
    )


@functools.lru_cache(1024)  # most mappings have the keys of the one before
def _sorted_keys(given: tuple[Hashable, ...]) -> tuple[tuple[Any, ...], list[int], tuple[int, ...] | None]:
    """Keys in normal form and order, the places that they had, and the rank of every one; None if sorted already."""
    keys = _sequence(given)
    by: Sequence[Any] = keys if set(map(type, keys)) <= {str} else list(map(order_key, keys))
    places = sorted(range(len(keys)), key=by.__getitem__)
    sorted_already = places == list(range(len(keys)))
    order = None if sorted_already else tuple(sorted(range(len(keys)), key=places.__getitem__))
    return tuple([keys[place] for place in places]), places, order


def _member(value: Enum) -> Any:
    return normal(value.value) if isinstance(value, (int, float, str)) else f"{type(value).__name__}.{value.name}"


def _itself(value: Any) -> Any:
    return value


_DERIVED: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((np.datetime64, np.timedelta64), lambda value: NAN if np.isnat(value) else normal(value.item())),
    **dict.fromkeys((complex, np.complexfloating), lambda value: _sequence((value.real, value.imag))),
    np.longdouble: lambda value: normal(float(value)),  # whose item is itself
    np.generic: lambda value: normal(value.item()),
    Enum: _member,
    float: lambda value: normal(float.__pos__(value)),
    int: lambda value: normal(int.__pos__(value)),
    str: str.__str__,
    **dict.fromkeys((bytes, bytearray), lambda value: bytes(memoryview(value))),
    Items: _itself,
    Array: _itself,
    tuple: lambda value: _sequence(tuple.__iter__(value)),
    list: lambda value: _sequence(list.__iter__(value)),
    np.ndarray: _array,
    Mapping: Items.of,
    Set: lambda value: frozenset(map(normal, value)),
    Decimal: lambda value: NAN if value.is_nan() else _equal_float(value),
    Fraction: _equal_float,
    datetime.datetime: _time,
    datetime.date: lambda value: datetime.date(value.year, value.month, value.day),
    datetime.timedelta: _time,
}
"""Classes that others are derived from, the first that fits; their objects compare as they like, what is made not."""
_EXACT: dict[type, Callable[[Any], Any]] = {
    **_DERIVED,
    **dict.fromkeys((type(None), Raised, TimedOut, datetime.time, datetime.timedelta), _itself),
    float: lambda value: value if value == value else NAN,
    np.float64: lambda value: float(value) if value == value else NAN,
    int: _equal_float,
    bool: float,
    str: _itself,
    bytes: _itself,
    tuple: _sequence,
    list: _sequence,
    dict: Items.of,
    set: _DERIVED[Set],
    frozenset: _DERIVED[Set],
}
REAL = (float, int, Decimal, Fraction)
_KINDS: dict[str, Any] = {
    "number": REAL,
    "string": str,
    "mapping": Items,
    "array": Array,
    "sequence": tuple,
    "set": frozenset,
    "None": type(None),
    "timeout": TimedOut,
    "raised": Raised,
}


_FLOATS = {float, bool, np.float64, np.float32, np.bool_}
_NUMBERS = {*_FLOATS, int, np.int64, np.int32, np.uint64}
_UNCHANGING = {*_NUMBERS, str, type(None), bytes}
_UNFINISHED = {*_NUMBERS, np.ndarray}


def frozen(value: Any) -> Any:
    """Return something that stays as the output is now, for `pack_frozen`: numbers and arrays of these, else normal."""
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    return value.copy() if kind is np.ndarray and value.dtype.kind in "biuf" else normal(value)


def pack(values: Sequence[Any]) -> Outputs:
    """Put outputs of single runs into one array of normal forms: floats where all are numbers or as many numbers.

    >>> pack([1.5, 2, True]), pack([(1, 2), [3, 4]]).tolist(), pack(["no", None, 1])
    (array([1.5, 2. , 1. ]), [[1.0, 2.0], [3.0, 4.0]], array(['no', None, 1.0], dtype=object))
    """
    return pack_frozen(list(map(frozen, values)))


def pack_frozen(values: Sequence[Any]) -> Outputs:
    """Put what `frozen` returned into one array of normal forms, as `pack` does."""
    kinds = set(map(type, values))
    if kinds and kinds <= _NUMBERS:
        with contextlib.suppress(OverflowError):  # a whole number beyond all floats
            numbers = np.array(values, np.float64)
            if kinds <= _FLOATS or are_floats(numbers):
                return numbers
    if kinds == {np.ndarray} and len({(value.shape, value.dtype) for value in values}) == 1:
        return normal_array(np.array(values))
    return pack_normal([normal(value) if type(value) in _UNFINISHED else value for value in values])


def pack_normal(values: list[Any]) -> Outputs:
    """Put normal forms into one array: floats, and tuples of as many floats or `Array`s of one shape, as such."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values, np.float64)
    if kinds in ({tuple}, {Array}) and len(shapes := {getattr(value, "shape", (len(value),)) for value in values}) == 1:
        flat = list(itertools.chain.from_iterable(values))
        if set(map(type, flat)) == {float}:
            return np.array(flat, np.float64).reshape(len(values), *shapes.pop())
    return _objects(values)


def normal_array(outputs: Any) -> Outputs:
    """Return an array whose first axis counts runs in normal form; never the mechanism's own memory but for floats."""
    if isinstance(outputs, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(outputs)
        outputs = outputs.data.astype(object)
        outputs[masked] = None
    array: Outputs = np.asarray(of_tensor(outputs) if hasattr(outputs, "resolve_conj") else outputs)
    array = of_numpy(array) if array.dtype.kind == "V" else array
    kind = array.dtype.kind
    if kind == "U" and array.ndim == 1:
        return array.copy()
    if kind == "b" or array.dtype == np.float64 or (kind in "iuf" and are_floats(array)):
        return np.ascontiguousarray(array, dtype=np.float64)
    return pack_normal(list(map(normal, items_of(array) if array.ndim == 1 else array)))


def join(blocks: Sequence[Outputs]) -> Outputs:
    """Put blocks of outputs in normal form together."""
    first = blocks[0]
    for block in blocks[1:]:
        if block.dtype.kind != first.dtype.kind or block.shape[1:] != first.shape[1:]:
            return _objects([value for block in blocks for value in values_of(block)])
    return first if len(blocks) == 1 else np.concatenate(blocks)


def alike(first: Outputs, second: Outputs) -> tuple[Outputs, Outputs]:
    """Return two arrays of outputs as arrays of one kind, which `numpy.concatenate` can put together."""
    if first.dtype == second.dtype and first.shape[1:] == second.shape[1:]:
        return first, second
    both = join([first, second])
    return both[: len(first)], both[len(first) :]


def _objects(values: list[Any]) -> Outputs:
    outputs = np.empty(len(values), dtype=object)
    outputs[:] = values
    return outputs


def numbers_of(outputs: Outputs) -> NDArray[np.float64]:
    """Read every output as a number, shape (size,); NaN for what is none."""
    if outputs.dtype == np.float64 and outputs.ndim == 1:
        return outputs
    values = outputs.tolist() if outputs.dtype == object else []
    if not any(issubclass(kind, REAL) for kind in set(map(type, values))):
        return np.full(len(outputs), np.nan)
    return np.array([value if type(value) is float else number(value) for value in values], float)


def rows_of(outputs: Outputs) -> NDArray[np.float64] | None:
    """Return outputs that are arrays of numbers as a matrix, shape (size, coordinates); None for others."""
    return outputs.reshape(len(outputs), -1) if outputs.dtype == np.float64 and outputs.ndim > 1 else None


def like(outputs: Outputs, other: Outputs) -> Outputs:
    """Return only the outputs that are floats, or arrays of floats, of the shape of those in ``other``."""
    parts = [pack_normal([one]) for one in outputs.tolist()] if outputs.dtype == object else [outputs]
    found = [one for one in parts if one.dtype == np.float64 and one.shape[1:] == other.shape[1:]]
    return join(found) if found else other[:0]


def kinds_of(outputs: Outputs) -> list[str]:
    """Name the kind of every output."""
    if outputs.dtype == object:
        return list(map(_kind_of_type, map(type, outputs.tolist())))
    kind = ("string" if outputs.dtype.kind == "U" else "number", "sequence", "array")[min(outputs.ndim, 3) - 1]
    return [kind] * len(outputs)


# many outputs at once: what lies at a path inside each, read once however many features ask; which differ; and atoms


class Columns(NamedTuple):
    """The places of outputs of one shape: positions of a 'sequence', or keys of a 'mapping'."""

    kind: str
    places: tuple[Hashable, ...]


def size_inside(value: Any) -> int:
    """How many numbers, symbols and characters are inside a normal form."""
    if isinstance(value, Items):
        return sum(map(size_inside, value.parts))
    if isinstance(value, Array):
        return len(value)
    if isinstance(value, (tuple, frozenset)):
        return sum(map(size_inside, value))
    return len(value) if isinstance(value, (str, bytes)) else 1


_KNOWN: dict[int, dict[Hashable, Any]] = {}  # what was read of arrays that are in use, by their place in memory


def columns_of(outputs: Outputs) -> Columns | None:
    """Return the places of outputs that are objects of one shape, which those of a slice share; None for others."""
    if outputs.dtype != object or outputs.ndim != 1 or len(outputs) == 0:
        return None
    found: Columns | None = _once(_whole(outputs)[0], "columns", _places)
    return found


def inside(outputs: Outputs, path: Sequence[Hashable]) -> Outputs:
    """Return what lies at a path inside every output, None where nothing does."""
    for step in path:
        whole, rows = _whole(outputs)
        part = _once(whole, (type(step), step), functools.partial(_part, step=step))
        outputs = part if outputs is whole else part[rows]
    return outputs


def _whole(outputs: Outputs) -> tuple[Outputs, slice]:
    """The array that this one is some rows in a row of, if that is all that it is, and which."""
    whole = outputs.base
    if (
        isinstance(whole, np.ndarray)
        and len(outputs) > 0
        and outputs.strides[0] > 0
        and (whole.dtype, whole.shape[1:], whole.strides) == (outputs.dtype, outputs.shape[1:], outputs.strides)
    ):
        here, there = (one.__array_interface__["data"][0] for one in (outputs, whole))
        start, rest = divmod(here - there, outputs.strides[0])
        if rest == 0:
            return whole, slice(start, start + len(outputs))
    return outputs, slice(None)


def _once(outputs: Outputs, key: Hashable, make: Callable[[Outputs], Any]) -> Any:
    if outputs.dtype != object:  # others may be the memory of a mechanism, which uses it again
        return make(outputs)
    if id(outputs) not in _KNOWN:
        _KNOWN[id(outputs)] = {}
        weakref.finalize(outputs, _KNOWN.pop, id(outputs), None)
    known = _KNOWN[id(outputs)]
    if key not in known:
        known[key] = make(outputs)
    return known[key]


def _part(outputs: Outputs, step: Hashable) -> Outputs:
    if callable(step):  # a reading
        return pack_normal(list(map(step, values_of(outputs))))
    rows = rows_of(outputs) if len(outputs) else None
    place = step if isinstance(step, int) else None
    if rows is not None and place is not None and -rows.shape[1] <= place < rows.shape[1]:
        return rows[:, place]
    if outputs.dtype != object or len(outputs) == 0:
        return np.full(len(outputs), None)
    columns, found = columns_of(outputs), list[Any]()
    if columns and step in columns.places and (columns.kind == "mapping" or place is not None):
        at, values = columns.places.index(step), outputs.tolist()
        return pack_normal(
            [one.parts[at] for one in values] if columns.kind == "mapping" else [one[at] for one in values]
        )
    for value in _once(outputs, "entries", _entries):
        if type(value) is dict:
            found.append(value.get(step))
        else:
            there = place is not None and value is not None and -len(value) <= place < len(value)
            found.append(value[place] if there else None)
    return pack_normal(found)


def _entries(outputs: Outputs) -> list[Any]:
    """Mappings as dicts, which are quick to look into, sequences as they are, None for the rest."""
    return [
        dict(iter(value)) if isinstance(value, Items) else value if isinstance(value, tuple) else None
        for value in outputs.tolist()
    ]


def _places(outputs: Outputs) -> Columns | None:
    values = outputs.tolist()
    kinds = set(map(type, values))
    if kinds == {tuple} and set(map(len, values)) == {size := len(values[0])} != {0}:
        return Columns("sequence", tuple(range(size)))
    keys = values[0].keys if kinds == {Items} else ()
    one_shape = keys and all(key == key for key in keys) and {value.keys for value in values} == {keys}
    return Columns("mapping", keys) if one_shape else None


FEW_TEXTS = 16
"""[measured] Texts up to which comparing all outputs with each is faster than looking every output up: 65,536 of them
take 3 ms with 2 and 17 with 16, 33 with 32, and looking up takes 20."""


def is_atom(outputs: Outputs, atoms: Sequence[Hashable]) -> Mask:
    """Say of each output whether it equals one of ``atoms``; NaN equals NaN, rows of numbers equal tuples."""
    return find_atoms(outputs, atoms) >= 0


def distinct(outputs: Outputs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each of the different outputs is first, and which of these every output is."""
    if outputs.dtype == object:
        code: dict[Hashable, int] = {}
        place = np.array([code.setdefault(value, len(code)) for value in outputs.tolist()], np.int64)
        return np.unique(place, return_index=True)[1], place
    rows = rows_of(outputs)
    codes = outputs if rows is None else row_codes(rows)
    ordered = np.sort(codes)  # which takes a tenth of the time
    if np.all(ordered[1:] > ordered[:-1]):  # so that none is NaN
        return (every := np.arange(len(codes))), every
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return first, place


def row_codes(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Mix rows of numbers into 64 bits each: alike for equal rows (0 and -0, any NaN), else nearly surely not."""
    codes = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        numbers = column + 0.0
        numbers[numbers != numbers] = NAN
        codes = (codes ^ numbers.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(29)
    return codes


def find_atoms(outputs: Outputs, atoms: Sequence[Hashable]) -> NDArray[np.int64]:
    """Position of each output among ``atoms``, -1 for none, shape (size,)."""
    if outputs.dtype.kind == "U" and len(atoms) <= FEW_TEXTS:
        found = np.full(len(outputs), -1)
        for at, atom in enumerate(atoms):
            if isinstance(atom, str) and not atom.endswith("\0"):  # which numpy's text never does
                found[outputs == atom] = at
        return found
    if outputs.dtype != np.float64:
        index = {atom: i for i, atom in enumerate(atoms)}
        return np.fromiter((index.get(value, -1) for value in outputs.tolist()), np.int64, len(outputs))
    where = []
    for at, atom in enumerate(atoms):
        numbers, shape = (atom, getattr(atom, "shape", (len(atom),))) if isinstance(atom, tuple) else ((atom,), ())
        if shape == outputs.shape[1:] and set(map(type, numbers)) <= {float}:  # none of an empty array
            where.append(at)
    if not where:
        return np.full(len(outputs), -1)
    codes = row_codes(outputs.reshape(len(outputs), -1))
    targets = row_codes(np.array([atoms[at] for at in where], np.float64).reshape(len(where), -1))
    order = np.argsort(targets)
    place = order[np.minimum(np.searchsorted(targets[order], codes), len(order) - 1)]
    return np.where(targets[place] == codes, np.array(where)[place], -1)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Write the first of some names, and how many more there are."""
    return ", ".join(names[:most]) + (f", ... {len(names) - most} more" if len(names) > most else "")


def describe_atoms(negation: str, atoms: Sequence[Hashable], digits: int = 6) -> str:
    """Write membership in a set of atoms as a condition on y; ``negation`` is '' or 'not '."""
    if len(atoms) == 1:
        shown = _shown(atoms[0], digits)
        return shown if isinstance(atoms[0], (Raised, TimedOut)) else f"y {'!=' if negation else '='} {shown}"
    return f"y {negation}in {{{listed([_shown(atom, digits) for atom in atoms])}}}"


def _shown(atom: Hashable, digits: int) -> str:
    rounded = type(atom) is float and not (atom.is_integer() and abs(atom) <= WHOLE_IN_FLOATS)
    return f"{atom:.{digits}g}" if rounded else written(atom)


# outputs as JSON and back, bit by bit: for results, checkpoints and the protocol of programs


def to_json(value: Any) -> Any:
    """Return a JSON value that `from_json` turns back into the normal form, bit by bit."""
    if value is None or isinstance(value, (str, bool)) or (isinstance(value, int) and value.bit_length() <= MOST_BITS):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Array):
        return {"array": _parts(value), "shape": list(value.shape)}
    for name, (kind, _, write, _) in _FORMS.items():
        if isinstance(value, kind):
            return {name: write(value)}
    raise refused(value)


def from_json(data: Any) -> Any:
    """Rebuild an output's normal form; raises `AuditError` for what is none."""
    try:
        return normal(_read(data))
    except AuditError:  # of a part
        raise
    except (ValueError, TypeError, ArithmeticError, KeyError):
        raise AuditError(f"{data!r} is not an output.") from None
    except RecursionError:
        raise AuditError("A list of lists of lists that is too deep to read is not an output.") from None


def block_to_json(outputs: Outputs) -> Any:
    """Write outputs so that `block_from_json` gives them back bit by bit."""
    if outputs.dtype == object:
        values = outputs.tolist()
        messages = [value.message if isinstance(value, Raised) else "" for value in values]
        return {"outputs": _parts(values), **({"messages": messages} if any(messages) else {})}
    block = io.BytesIO()
    np.lib.format.write_array(block, outputs, allow_pickle=False)
    return {"npy": base64.b64encode(block.getvalue()).decode("ascii")}


def block_from_json(data: Any) -> Outputs:
    """Read what `block_to_json` wrote."""
    if "npy" in data:
        block = io.BytesIO(base64.b64decode(data["npy"]))
        return normal_array(np.lib.format.read_array(block, allow_pickle=False))
    outputs = _objects(list(map(from_json, data["outputs"])))
    for place, message in enumerate(data.get("messages", ())):
        if message and isinstance(outputs[place], Raised):
            outputs[place] = Raised(outputs[place].exception, str(message))
    return outputs


def _read(data: Any) -> Any:
    if data is None or isinstance(data, (str, bool, int, float)):
        return data
    if isinstance(data, list):
        return _tuple(data)
    if "array" in data:
        parts, shape = data["array"], data["shape"]
        if len(shape) < 2 or int(np.prod(shape)) != len(parts) or min(shape) < 0:
            raise ValueError
        return Array.of(_tuple(parts), list(map(int, shape)))
    name = next((name for name in _FORMS if name in data), "")
    _, content, _, read = _FORMS[name]
    if not isinstance(data[name], content):
        raise TypeError
    return read(data[name])


def _tuple(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(map(from_json, parts))


def _parts(values: Any) -> list[Any]:
    return list(map(to_json, values))


_FORMS: dict[str, tuple[type, type, Any, Any]] = {
    "hex": (int, str, hex, lambda text: int(text, 16)),
    "float": (float, str, repr, float),
    "items": (
        Items,
        list,
        lambda items: list(map(_parts, items.as_given())),
        lambda pairs: Items.of(map(_tuple, pairs)),
    ),
    "set": (frozenset, list, lambda parts: sorted(_parts(parts), key=json.dumps), lambda parts: {*_tuple(parts)}),
    "timeout": (TimedOut, bool, lambda _: True, {True: TimedOut()}.__getitem__),
    "tuple": (tuple, list, _parts, _tuple),
    "raises": (Raised, str, lambda raised: raised.exception, Raised),
    "bytes": (bytes, str, bytes.hex, bytes.fromhex),
    "decimal": (Decimal, str, str, Decimal),
    "fraction": (Fraction, list, lambda it: _parts(it.as_integer_ratio()), lambda it: Fraction(*map(_read, it))),
    "datetime": (datetime.datetime, str, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, str, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time, str, datetime.time.isoformat, datetime.time.fromisoformat),
    "timedelta": (
        datetime.timedelta,
        list,
        lambda it: [it.days, it.seconds, it.microseconds],
        lambda it: datetime.timedelta(*it),
    ),
}
"""How an output stands in an object of one field: the field, the output's type (of two the first), the field's, writing
and reading."""

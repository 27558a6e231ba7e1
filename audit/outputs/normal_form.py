"""The normal form of one output: a plain value that compares the same way whatever type the mechanism returned.

`normalise` converts every output when it is received, independently of all other outputs. Two outputs count as equal if
Python calls their normal forms equal. docs/reference/outputs.md lists the normal form of every type. An output that has
no normal form is refused with an error that shows it.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.records import describe_frame, is_frame
from epsaudit.errors import AuditError, clipped
from epsaudit.outputs.formatting import MAX_EXACT_INTEGER, format_value
from epsaudit.serve import MAX_STREAM_ITEMS, unwrap

NAN = float("nan")
"""The one NaN object of all normal forms: containers that hold the same object compare equal in Python."""
MAX_MESSAGE_LENGTH = 1000
"""[chosen] Maximum number of characters of an exception's message that are kept."""


@dataclass(frozen=True)
class Raised:
    """The outcome of a run in which the mechanism raised an exception.

    Two of these outcomes are equal if their exceptions have types with the same name; the messages are not compared.
    The name of a `SystemExit` includes the exit status.
    """

    exception: str
    message: str = field(default="", compare=False)

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Return the outcome of a run that raised this exception."""
        name, message = type(error).__name__, ""
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, (int, NoneType)) else 1  # Python exits with 1 for a text
            name += f"({format_value(status)})" if status else ""
        with contextlib.suppress(Exception):  # __str__ of a user's exception may fail
            message = str(error)[:MAX_MESSAGE_LENGTH]
        return cls(name, message)

    def __repr__(self) -> str:
        return f"raises {self.exception}"


@dataclass(frozen=True)
class TimedOut:
    """The outcome of a run that did not end within the time limit."""

    def __repr__(self) -> str:
        return "timeout"


class Items:
    """The outcome of a run that returned a mapping: its keys, its values, and the order of its entries.

    ``keys`` are sorted, and ``parts`` holds the value of each key. ``order`` holds the positions, among the sorted
    keys, of the keys in their original order. It is None if the mapping was sorted already.

    >>> Items.of({"bob": 2, "ann": 1}), Items.of({"ann": 1}).get("ann")
    ({'bob': 2, 'ann': 1}, 1.0)
    """

    __slots__ = ("keys", "order", "parts")

    def __init__(
        self, keys: tuple[Hashable, ...] = (), parts: tuple[Any, ...] = (), order: tuple[int, ...] | None = None
    ) -> None:
        self.keys, self.parts, self.order = keys, parts, order

    @classmethod
    def of(cls, mapping: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> Items:
        """Return the normal form of a mapping, or of an iterable of its (key, value) pairs."""
        if type(mapping) is dict:
            keys, parts = tuple(mapping), _normalise_parts(mapping.values())
        else:
            pairs = list(mapping.items() if isinstance(mapping, Mapping) else mapping)
            keys, parts = tuple([key for key, _ in pairs]), _normalise_parts([value for _, value in pairs])
        sorted_keys, places, order = _sort_keys(keys)
        return cls(sorted_keys, parts if order is None else tuple([parts[place] for place in places]), order)

    def as_given(self) -> tuple[tuple[Hashable, Any], ...]:
        """Return the (key, value) pairs in the order of the original mapping."""
        pairs = tuple(self)
        return pairs if self.order is None else tuple(pairs[place] for place in self.order)

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, or None if the mapping does not have the key."""
        return self.parts[self.keys.index(key)] if key in self.keys else None

    def __iter__(self) -> Iterator[tuple[Hashable, Any]]:
        return zip(self.keys, self.parts, strict=True)

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        same = type(other) is Items and self.keys == other.keys and self.parts == other.parts
        return same and self.order == other.order  # type: ignore[attr-defined]  # `same` includes the type

    def __hash__(self) -> int:
        return hash((self.keys, self.parts, self.order))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{format_value(key)}: {format_value(value)}" for key, value in self.as_given()) + "}"


class Array(tuple[Any, ...]):
    """The outcome of a run that returned an array with two or more dimensions.

    It is the tuple of all numbers in C order, with the attribute ``shape``.
    """

    shape: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        return type(other) is Array and tuple.__eq__(self, other) and self.shape == other.shape

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.shape, tuple.__hash__(self)))

    @classmethod
    def of(cls, numbers: Iterable[Hashable], shape: Sequence[int]) -> Array:
        """Return an array of the given shape from its numbers in C order."""
        array = cls(numbers)
        array.shape = tuple(shape)
        return array

    def __repr__(self) -> str:
        return f"array of shape {self.shape}: {format_value(tuple(self))}"


def normalise(value: Any) -> Any:
    """Return the normal form of one output, which is a plain value that compares the same way whatever its type was.

    For example, lists become tuples, and whole numbers become floats if the conversion is exact. If the output has no
    normal form, raise an `AuditError` that shows the output.

    >>> normalise([1, True, "a"]), normalise(np.array([[0.5]])), normalise({"ann": {2, 1}})
    ((1.0, 1.0, 'a'), array of shape (1, 1): (0.5,), {'ann': frozenset({1, 2})})
    """
    convert = _EXACT_CONVERTERS.get(type(value), _normalise_other_type)
    try:
        return convert(value)
    except AuditError:
        raise
    except (ValueError, ArithmeticError, RecursionError):  # a date before year 1, or a list that contains itself
        raise refusal_of(value) from None


def to_float(value: Any) -> float:
    """Return the float that is nearest to an output in normal form, or NaN if the output is not a real number."""
    if kind_of(value) != "number":
        return NAN
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def kind_of(value: Any) -> str:
    """Return the kind of an output in normal form as one word, such as 'number', 'string' or 'mapping'."""
    kind: Any = type(value)
    return kind_of_type(kind)


@functools.lru_cache(256)
def kind_of_type(kind: Any) -> str:
    """Return the kind, as `kind_of` names it, of all outputs of one Python type."""
    return next((name for name, types in _TYPES_OF_KIND.items() if issubclass(kind, types)), kind.__name__)


def order_key(value: Any) -> tuple[str, Any]:
    """Return a key for sorting outputs of different kinds, by which the order is the same in every process."""
    if type(value) is float:
        return kind_of(value), (0, value, "") if value == value else (1, 0.0, "")
    return kind_of(value), (2, 0.0, format_value(value))


def refusal_of(value: Any) -> AuditError:
    """Return the error for an output that has no normal form; its message lists the types that have one."""
    try:
        shown = describe_frame(value) if is_frame(value) else repr(value)
    except Exception:
        shown = "an object"
    shown = clipped(" ".join(shown.split()), 200)
    return AuditError(
        f"The mechanism returned {shown} of type {type(value).__name__}, which cannot be compared; return "
        "numbers, strings, bytes, dates, None, or tuples, lists, sets, mappings and arrays of these."
    )


def fit_in_floats(numbers: NDArray[Any]) -> bool:
    """Return whether all numbers of an array can be converted to float64 without checking each of them.

    An array of 64-bit numbers must have absolute values below 2^53, where floats represent all whole numbers. For
    numbers of other sizes the result is true; long doubles are rounded, which is accepted.
    """
    if numbers.dtype.itemsize != 8 or numbers.size == 0:
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.nanmax(numbers) < MAX_EXACT_INTEGER and np.nanmin(numbers) > -MAX_EXACT_INTEGER)


def list_floats(array: NDArray[np.float64]) -> list[float]:
    """Return the numbers of an array of any shape as a list in C order.

    Every NaN becomes the single object `NAN`, because containers with NaN compare equal in Python only if they hold
    the same object.
    """
    numbers: list[float] = array.ravel().tolist()
    if np.isnan(array).any():
        return [number if number == number else NAN for number in numbers]
    return numbers


def without_added_dtype(array: NDArray[Any]) -> NDArray[Any]:
    """Convert an array to float64 if another package added its dtype to numpy, such as bfloat16.

    Any other array is returned unchanged.
    """
    added = array.dtype.kind == "V" and np.can_cast(array.dtype, np.float64)
    return array.astype(np.float64) if added else array


def list_items(array: NDArray[Any]) -> list[Any]:
    """Return the items of an array as Python objects.

    Dates and times stay numpy scalars, because numpy converts the missing value NaT to None.
    """
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def _to_float_if_equal(value: Any) -> Any:
    """Return a number as a float if the conversion is exact, and otherwise unchanged."""
    try:
        nearest = float(value)
    except OverflowError:
        return value
    return nearest if nearest == value else value


def _normalise_time(value: Any) -> Any:
    """Return a point in time or a duration as the type of the standard library, without the nanoseconds of pandas."""
    if value != value:  # NaT of pandas
        return NAN
    if isinstance(value, datetime.timedelta):
        return datetime.timedelta(value.days, value.seconds, value.microseconds)
    if type(value) is not datetime.datetime:
        value = datetime.datetime.fromisoformat(datetime.datetime.isoformat(value))
    return value.replace(fold=0) if value.tzinfo is None else value.astimezone(datetime.UTC)


def _normalise_numpy_array(value: NDArray[Any]) -> Any:
    """Return the normal form of one output that is a numpy array: a single value, a tuple, or an `Array`."""
    value = without_added_dtype(value)
    if value.ndim == 0:
        return normalise(value[()])
    if isinstance(value, np.ma.MaskedArray) or value.dtype.kind not in "biuf":
        return normalise(list_items(value))
    numbers = np.asarray(value)
    if numbers.dtype.kind == "b" or numbers.dtype == np.float64 or fit_in_floats(numbers):
        parts = tuple(list_floats(numbers.astype(np.float64, copy=False)))
    else:
        parts = tuple(map(normalise, numbers.ravel().tolist()))
    return parts if value.ndim == 1 else Array.of(parts, value.shape)


def _normalise_other_type(value: Any) -> Any:
    """Return the normal form of an output whose exact type has no converter.

    The type may be a subclass of a known type, or an iterator, or a type of another library that `unwrap` recognises by
    its attributes, or a class whose attributes can be read. Raises `AuditError` for any other type.
    """
    for kind, convert in _SUBCLASS_CONVERTERS.items():
        if isinstance(value, kind):
            return convert(value)
    if hasattr(value, "__next__") and hasattr(value, "__iter__"):
        items: list[Any] = []
        try:
            for item in itertools.islice(value, MAX_STREAM_ITEMS + 1):
                items.append(item)  # one by one, so that the items before an exception are kept
        except (Exception, SystemExit) as error:
            items.append(Raised.of(error))
        if len(items) > MAX_STREAM_ITEMS:
            raise AuditError(
                f"The mechanism returned an iterator with more than {MAX_STREAM_ITEMS:,} items; return only the items "
                "that the audit should read, as a list."
            )
        return _normalise_parts(items)
    try:
        content: Any = unwrap(value)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise refusal_of(value) from error
    if content is value:
        raise refusal_of(value)
    if content is not getattr(value, "__dict__", None):
        return normalise(content)
    try:
        return Items.of(vars(value))
    except AuditError:  # an attribute has no normal form; naming the whole object says more
        raise refusal_of(value) from None


def _normalise_parts(parts: Iterable[Any]) -> tuple[Any, ...]:
    """Return a tuple with the normal form of every part of a container.

    Numbers and strings, which are the most frequent parts, are converted fast.
    """
    parts = tuple(parts)
    for part in parts:  # this loop saves a third of the time if all parts are floats, which is frequent
        if type(part) is not float or part != part:
            break
    else:
        return parts
    return tuple(
        [part if ((kind := type(part)) is float and part == part) or kind is str else normalise(part) for part in parts]
    )


@functools.lru_cache(1024)  # most mappings have the same keys as the mapping before
def _sort_keys(given: tuple[Hashable, ...]) -> tuple[tuple[Any, ...], list[int], tuple[int, ...] | None]:
    """Return the normal forms of keys in sorted order, the original position of each, and the rank of every given key.

    The ranks are None if the keys were sorted already.
    """
    keys = _normalise_parts(given)
    sort_by: Sequence[Any] = keys if set(map(type, keys)) <= {str} else list(map(order_key, keys))
    places = sorted(range(len(keys)), key=sort_by.__getitem__)
    sorted_already = places == list(range(len(keys)))
    order = None if sorted_already else tuple(sorted(range(len(keys)), key=places.__getitem__))
    return tuple([keys[place] for place in places]), places, order


def _normalise_enum(value: Enum) -> Any:
    return normalise(value.value) if isinstance(value, (int, float, str)) else f"{type(value).__name__}.{value.name}"


def _return_unchanged(value: Any) -> Any:
    return value


_SUBCLASS_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((np.datetime64, np.timedelta64), lambda value: NAN if np.isnat(value) else normalise(value.item())),
    **dict.fromkeys((complex, np.complexfloating), lambda value: _normalise_parts((value.real, value.imag))),
    np.longdouble: lambda value: normalise(float(value)),  # .item() of a long double returns a long double
    np.generic: lambda value: normalise(value.item()),
    Enum: _normalise_enum,
    float: lambda value: normalise(float.__pos__(value)),
    int: lambda value: normalise(int.__pos__(value)),
    str: str.__str__,
    **dict.fromkeys((bytes, bytearray), lambda value: bytes(memoryview(value))),
    Items: _return_unchanged,
    Array: _return_unchanged,
    tuple: lambda value: _normalise_parts(tuple.__iter__(value)),
    list: lambda value: _normalise_parts(list.__iter__(value)),
    np.ndarray: _normalise_numpy_array,
    Mapping: Items.of,
    Set: lambda value: frozenset(map(normalise, value)),
    Decimal: lambda value: NAN if value.is_nan() else _to_float_if_equal(value),
    Fraction: _to_float_if_equal,
    datetime.datetime: _normalise_time,
    datetime.date: lambda value: datetime.date(value.year, value.month, value.day),
    datetime.timedelta: _normalise_time,
}
"""Converters for subclasses; the first match wins. The result is a plain type, so a subclass's own ``==`` cannot
interfere."""
_EXACT_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    **_SUBCLASS_CONVERTERS,
    **dict.fromkeys((type(None), Raised, TimedOut, datetime.time, datetime.timedelta), _return_unchanged),
    float: lambda value: value if value == value else NAN,
    np.float64: lambda value: float(value) if value == value else NAN,
    int: _to_float_if_equal,
    bool: float,
    str: _return_unchanged,
    bytes: _return_unchanged,
    tuple: _normalise_parts,
    list: _normalise_parts,
    dict: Items.of,
    set: _SUBCLASS_CONVERTERS[Set],
    frozenset: _SUBCLASS_CONVERTERS[Set],
}
"""Converters for objects whose type is exactly the key. They need fewer checks than those for subclasses."""
NUMBER_TYPES = (float, int, Decimal, Fraction)
"""The types of real numbers in normal form. All but float hold only numbers that no float represents."""
_TYPES_OF_KIND: dict[str, Any] = {
    "number": NUMBER_TYPES,
    "string": str,
    "mapping": Items,
    "array": Array,
    "sequence": tuple,
    "set": frozenset,
    "None": type(None),
    "timeout": TimedOut,
    "raised": Raised,
}
"""The kinds that `kind_of` returns and their types; an output of any other type has the name of its type as kind."""

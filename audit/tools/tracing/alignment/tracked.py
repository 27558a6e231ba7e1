"""Noisy numbers that are linear combinations of random draws plus a constant, and report all other uses.

A sum with a number, a sum of two such numbers and a product with a number are again linear combinations. A comparison
is reported to the run, which decides or records its outcome. Every other use releases the value: the run is told, and
the result is an ordinary number. The class is not a subclass of ``float``, so compiled code cannot read the value
without calling `TrackedNumber.__float__`.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable
from typing import Any, Dict, Protocol  # noqa: UP035  # Python 3.8 evaluates the alias below

import numpy as np

from epsaudit.tools.tracing.listening import HERE

Terms = Dict[int, float]  # noqa: UP006
"""The weight of each draw, by the position of the draw in the run."""
UFUNC_NAMES = frozenset(name for name in dir(np) if isinstance(getattr(np, name), np.ufunc))
"""Names of numpy's element-wise functions. Numpy calls them as methods of the objects in an array."""
LINEAR_UFUNCS = {
    "add", "subtract", "multiply", "divide", "true_divide", "negative", "positive", "absolute", "fabs", "maximum",
    "minimum", "fmax", "fmin", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "sign", "clip",
}  # fmt: skip
"""Element-wise functions of numpy whose results are still tracked: numpy computes them by Python's operators."""


class Observer(Protocol):
    """Interface of a run of the audited function, to which tracked numbers report how they are used."""

    sites: bool
    """Whether places are stored."""
    releases_sums: bool
    """Whether a noisy number to which a number was added is released when another number is added."""
    doubt: str | None
    """Why tracked numbers may be treated unlike floats; set if another module asks for their type."""

    def compare(self, terms: Terms, constant: float, natural: bool) -> bool:
        """Record a comparison and return the outcome of ``terms + constant > 0``; ``natural`` is the actual outcome."""
        ...

    def release(self, terms: Terms, constant: float, value: float) -> float:
        """Record that a number is used in another way than in a linear combination or a comparison.

        Return the value with which the function continues.
        """
        ...

    def site(self) -> Any:
        """Return the place of the line of the audited code that is running."""
        ...

    def is_continuous(self, terms: Terms) -> bool:
        """Return whether a linear combination of draws has a density.

        It then equals a given number with probability 0.
        """
        ...


class TrackedNumber:
    """A noisy number that remembers how it was computed: a constant plus a weighted sum of random draws.

    It also has its value in the current run, and reports comparisons and conversions to this run.
    """

    __slots__ = ("constant", "is_sum", "published", "run", "site", "terms", "value")
    __array_priority__ = 1e6

    def __init__(self, run: Observer, terms: Terms, constant: float, value: float, site: Any = ()) -> None:
        self.run, self.terms, self.constant, self.value = run, terms, constant, value
        self.site = site
        """The place of the last sum with a number, if the run stores places."""
        self.is_sum = False
        """Whether a number was added."""
        self.published: float | None = None
        """The released value, if the run releases sums and another number was added."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Return the class, and set ``doubt`` of the run if code outside of this package asks for it.

        For example, ``isinstance`` asks for the class.
        """
        if not sys._getframe(1).f_code.co_filename.startswith(HERE):
            self.run.doubt = "other code asks for the type of noisy numbers"
        return TrackedNumber

    def plus(self, other: Any, sign: float = 1.0) -> Any:
        """Return the sum of this number and ``sign`` times another number, which may be tracked as well."""
        if isinstance(other, TrackedNumber):
            if other.run is not self.run:  # releasing both ends the run, as one of them is of an earlier run
                return float(self) + sign * float(other)
            terms = dict(self.terms)
            for draw, weight in other.terms.items():
                terms[draw] = terms.get(draw, 0.0) + sign * weight
            terms = {draw: weight for draw, weight in terms.items() if weight}
            constant, value = self.constant + sign * other.constant, self.value + sign * other.value
            return TrackedNumber(self.run, terms, constant, value, self.site or other.site) if terms else constant
        number = plain_number(other)
        if number is None:
            return NotImplemented
        if not math.isfinite(number):
            return sign * number
        if self.is_sum and self.run.releases_sums:
            self.published = float(self) if self.published is None else self.published
            return self.published + sign * number
        site = self.run.site() if self.run.sites else ()
        constant, value = self.constant + sign * number, self.value + sign * number
        found = TrackedNumber(self.run, self.terms, constant, value, site)
        found.is_sum = True
        return found

    def times(self, other: Any) -> Any:
        """Return the product with another number. A tracked factor is released, as products of draws are not linear."""
        number = float(other) if isinstance(other, TrackedNumber) else plain_number(other)
        if number is None:
            return NotImplemented
        if number == 0.0 or not math.isfinite(number):
            return 0.0 if number == 0.0 else float(self) * number
        terms = {draw: weight * number for draw, weight in self.terms.items()}
        if not all(weight and math.isfinite(weight) for weight in terms.values()):
            return float(self) * number
        found = TrackedNumber(self.run, terms, self.constant * number, self.value * number, self.site)
        found.is_sum = self.is_sum
        return found

    def _exceeds(self, other: Any, sign: float) -> Any:
        """Return whether ``sign * (self - other) > 0``, with the outcome that the run decides."""
        difference = self.plus(other, -1.0)
        if difference is NotImplemented:
            return NotImplemented
        if not isinstance(difference, TrackedNumber):  # all draws cancel, or the other number is infinite or NaN
            return sign * difference > 0.0
        terms = difference.terms if sign > 0.0 else {draw: -weight for draw, weight in difference.terms.items()}
        return self.run.compare(terms, sign * difference.constant, sign * difference.value > 0.0)

    def __gt__(self, other: Any) -> Any:
        return self._exceeds(other, 1.0)

    def __lt__(self, other: Any) -> Any:
        return self._exceeds(other, -1.0)

    def __ge__(self, other: Any) -> Any:
        return self._at_least(other, 1.0)

    def __le__(self, other: Any) -> Any:
        return self._at_least(other, -1.0)

    def _at_least(self, other: Any, sign: float) -> Any:
        difference = self.plus(other, -1.0)
        if isinstance(difference, TrackedNumber):
            if self.run.is_continuous(difference.terms):
                return self._exceeds(other, sign)
            fewer = self._exceeds(other, -sign)  # at least is the contrary of less
            return fewer if fewer is NotImplemented else not fewer
        return NotImplemented if difference is NotImplemented else sign * difference >= 0.0

    def __eq__(self, other: object) -> Any:
        difference = self.plus(other, -1.0)
        if difference is NotImplemented:
            return NotImplemented
        if not isinstance(difference, TrackedNumber):
            return difference == 0.0
        return False if self.run.is_continuous(difference.terms) else float(difference) == 0.0

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def __hash__(self) -> int:
        return hash(float(self))

    def __add__(self, other: Any) -> Any:
        return self.plus(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.plus(other, -1.0)

    def __rsub__(self, other: Any) -> Any:
        return (-self).plus(other)

    def __mul__(self, other: Any) -> Any:
        return self.times(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        number = float(other) if isinstance(other, TrackedNumber) else plain_number(other)
        if number is None:
            return NotImplemented
        return float(self) / number if number == 0.0 or not math.isfinite(number) else self.times(1.0 / number)

    def __rtruediv__(self, other: Any) -> Any:
        return other / float(self)

    def __neg__(self) -> Any:
        return self.times(-1.0)

    def __pos__(self) -> TrackedNumber:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0.0 else -self

    def __float__(self) -> float:
        return self.run.release(self.terms, self.constant, self.value)

    def __int__(self) -> int:
        return int(float(self))

    def __round__(self, digits: int | None = None) -> Any:
        return round(float(self), digits)

    def __complex__(self) -> complex:
        return complex(float(self))

    def __trunc__(self) -> int:
        return math.trunc(float(self))

    def __floor__(self) -> int:
        return math.floor(float(self))

    def __ceil__(self) -> int:
        return math.ceil(float(self))

    def __repr__(self) -> str:
        return repr(float(self))

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return format(float(self), specification)

    def __reduce__(self) -> Any:
        return float, (float(self),)

    def __deepcopy__(self, memory: Any) -> TrackedNumber:
        return self

    def __copy__(self) -> TrackedNumber:
        return self

    def conjugate(self) -> TrackedNumber:
        """Return the number itself. Numpy calls this method for inner products."""
        return self

    def clip(self, low: Any = None, high: Any = None, **_: Any) -> Any:
        """Return the number, or the bound that it violates. Numpy calls this method."""
        if low is not None and self < low:
            return low
        return high if high is not None and self > high else self

    def sign(self) -> float:
        """Return 1.0 for a positive number, -1.0 for a negative one, and 0.0 for zero. Numpy calls this method."""
        return 1.0 if self > 0.0 else -1.0 if self < 0.0 else 0.0

    fabs = absolute = __abs__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        if ufunc.__name__ in LINEAR_UFUNCS and method == "__call__" and not settings:
            cells = [_cell(one) if isinstance(one, TrackedNumber) else one for one in inputs]
            answer = getattr(ufunc, method)(*cells)
            return answer.item() if isinstance(answer, np.ndarray) and not answer.ndim else track(answer)
        return getattr(ufunc, method)(*map(released, inputs), **settings)

    def __getattr__(self, name: str) -> Any:
        if name in UFUNC_NAMES:
            return lambda *others: getattr(np, name)(float(self), *map(released, others))
        if name.startswith("_") or not hasattr(float, name):
            raise AttributeError(f"a number has no attribute {name!r}")
        return getattr(float(self), name)


def _released_operator(name: str) -> Callable[..., Any]:
    def method(self: TrackedNumber, *others: Any) -> Any:
        return getattr(float(self), name)(*map(released, others))

    return method


for _name in ("pow", "rpow", "mod", "rmod", "floordiv", "rfloordiv", "divmod", "rdivmod"):
    setattr(TrackedNumber, f"__{_name}__", _released_operator(f"__{_name}__"))
numbers.Real.register(TrackedNumber)


class TrackedArray(np.ndarray):
    """An array of objects among which are tracked numbers.

    Sums, comparisons and other linear operations keep them tracked. Functions of numpy that cannot work with tracked
    numbers get released values.
    """

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
        cells = [_view(one) for one in inputs]
        into = {} if out is None else {"out": tuple(_view(one) for one in out)}
        if ufunc.__name__ in LINEAR_UFUNCS:
            try:
                return track(getattr(ufunc, method)(*cells, **into, **settings))
            except TypeError:  # settings for which numpy has no loop on objects, such as a dtype
                pass
        if out is None:
            return getattr(ufunc, method)(*map(released, inputs), **settings)
        filled = [released(one) if isinstance(one, TrackedArray) else one for one in out]
        getattr(ufunc, method)(*map(released, inputs), out=tuple(filled), **settings)
        for one, values in zip(out, filled):  # noqa: B905  # strict since 3.10
            if isinstance(one, TrackedArray):
                _view(one)[...] = values
        return out[0] if len(out) == 1 else out

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        if function not in RELEASING_FUNCTIONS:
            try:
                return super().__array_function__(function, types, arguments, keywords)
            except (TypeError, AttributeError):  # no implementation for objects
                pass
        return function(*map(released, arguments), **{name: released(value) for name, value in keywords.items()})

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar or not array.ndim else track(array)

    def __reduce__(self) -> Any:
        return np.array, (released(self),)

    def __repr__(self) -> str:
        return repr(released(self))

    def __str__(self) -> str:
        return str(released(self))

    def __format__(self, specification: str) -> str:
        return format(released(self), specification)


RELEASING_FUNCTIONS = {
    np.histogram, np.histogram2d, np.histogramdd, np.bincount, np.digitize, np.unique, np.percentile, np.quantile,
    np.interp, np.round, np.array2string, np.array_repr, np.array_str, np.save, np.savetxt,
}  # fmt: skip
"""Functions of numpy that get released values, because on objects they fail late or compute something else."""


def plain_number(value: Any) -> float | None:
    """Return an ordinary number as a float, or None for anything else, such as a text or an array."""
    if type(value) is float or type(value) is int:
        return float(value)
    if isinstance(value, TrackedNumber) or not isinstance(value, (numbers.Real, np.number, np.bool_)):
        return None
    return float(value)


def released(value: Any) -> Any:
    """Convert the tracked numbers in a value, a list or an array to ordinary numbers.

    Each conversion is reported to the run as a release of the number.
    """
    if isinstance(value, TrackedNumber):
        return float(value)
    if (
        isinstance(value, np.ndarray)
        and value.dtype == object
        and any(isinstance(v, TrackedNumber) for v in value.flat)
    ):
        return np.array([released(one) for one in value.flat], dtype=float).reshape(value.shape)
    if isinstance(value, TrackedArray):  # it has no tracked number, such as the result of releasing every number
        return np.array(value.tolist()).reshape(value.shape)
    if type(value) in (list, tuple):
        return type(value)(map(released, value))
    return value


def track(value: Any) -> Any:
    """Return an array of objects, also in a tuple, as a `TrackedArray`. Return any other value unchanged."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.view(TrackedArray)
    return tuple(map(track, value)) if type(value) is tuple else value


def _view(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, TrackedArray) else _cell(value)


def _cell(value: Any) -> Any:
    """Return a tracked number as an array of this one object, and any other value unchanged.

    Numpy then computes with the operators of the object.
    """
    if not isinstance(value, TrackedNumber):
        return value
    cell = np.empty((), object)
    cell[()] = value
    return cell

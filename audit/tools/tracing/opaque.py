"""Random numbers without a value, by which a run shows whether its output is data plus noise whatever is drawn.

In an opaque run, samplers answer with an `OpaqueNumber`. Data can be added to it, and it can be multiplied by data;
anything else (a comparison, a conversion, the addition of a second draw) ends the run. A run that reaches its end has
therefore done the same for all possible answers of the samplers, and its output shows what that is. The theorem is in
docs/explanation/theory.md. Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

from typing import Any, NoReturn

from epsaudit.tools.tracing.listening import np, paused
from epsaudit.tools.tracing.recorder import Recorder

AFFINE_LAWS = ("laplace", "normal")
"""Laws whose numbers are a centre plus a scale times a standard number, and whose exact loss for a shift is known."""
MAX_STANDARD_NUMBER = 40.0
"""[formula] Largest absolute value of a standard number that is taken into account. A Laplace number is larger with
probability e^-40 = 4e-18."""
OPERATION_ERROR = 2.0**-51
"""[formula] Relative error of an operation on a number and on its offset: half a unit in the last place each, twice."""
MAX_DRAWN_NUMBERS = 10_000
"""[time] Largest number of drawn numbers in an opaque run. Each number is an object; 10,000 of them take some 20 ms."""
EXACT_KINDS = "biu"
"""Kinds of numpy arrays that become float64 in a sum with float64, as Python's whole numbers do."""


class Exposed(BaseException):
    """Ends an opaque run in which the function does something with noise that could depend on its value.

    It is no `Exception`, so that the function does not catch it by ``except Exception``.
    """


def _exposing_method(name: str) -> Any:
    def method(self: Any, *_: Any, **__: Any) -> Any:
        return self.epsaudit_run.expose(name)

    return method


METHODS_THAT_EXPOSE = """
    __bool__ __int__ __float__ __complex__ __index__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __str__ __repr__
    __format__ __bytes__ __abs__ __round__ __floor__ __ceil__ __trunc__ __pow__ __rpow__ __mod__ __rmod__ __divmod__
    __rdivmod__ __floordiv__ __rfloordiv__ __matmul__ __rmatmul__ __rtruediv__ __and__ __rand__ __or__ __ror__ __xor__
    __rxor__ __invert__ __contains__ __array__ __getattr__ __reduce__ __reduce_ex__ __copy__ __deepcopy__ __dir__
    __setitem__ __delitem__ __call__ __enter__ __fspath__
    """
"""Methods that end an opaque run: those that could reveal a value, or pass the object to code that might ask for it."""
EXPOSING_METHODS = {name: _exposing_method(name) for name in METHODS_THAT_EXPOSE.split()}


class AffineArithmetic:
    """The arithmetic that keeps a number of the form offset + factor * (standard number).

    Subclasses implement it in `_apply`.
    """

    __slots__ = ()
    epsaudit_run: OpaqueRun

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        name = ufunc.__name__
        if method != "__call__" or settings or name not in AFFINE_UFUNCS:
            self.epsaudit_run.expose(name)
        left, right = inputs
        if type(left) in (OpaqueNumber, OpaqueArray):
            return left._apply(AFFINE_UFUNCS[name][0], right)
        reflected = AFFINE_UFUNCS[name][1]
        return right._apply(reflected, left) if reflected else self.epsaudit_run.expose(name)

    def _apply(self, name: str, constant: Any) -> Any:
        """Return the result of one of the `AFFINE_OPERATIONS` with a constant."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._apply("plus", other)

    def __sub__(self, other: Any) -> Any:
        return self._apply("minus", other)

    def __rsub__(self, other: Any) -> Any:
        return self._apply("taken from", other)

    def __mul__(self, other: Any) -> Any:
        return self._apply("times", other)

    def __truediv__(self, other: Any) -> Any:
        return self._apply("over", other)

    def __neg__(self) -> Any:
        return self._apply("times", -1.0)

    def __pos__(self) -> Any:
        return self

    __radd__, __rmul__ = __add__, __mul__


AFFINE_OPERATIONS: Any = {
    "plus": lambda value, constant: value + constant,
    "minus": lambda value, constant: value - constant,
    "taken from": lambda value, constant: constant - value,
    "times": lambda value, constant: value * constant,
    "over": lambda value, constant: value / constant,
}
"""The operations that keep a number affine in the draw. They apply to numbers and to offsets alike."""
AFFINE_UFUNCS = {
    "add": ("plus", "plus"), "subtract": ("minus", "taken from"), "multiply": ("times", "times"),
    "divide": ("over", ""), "true_divide": ("over", ""),
}  # fmt: skip
"""The same operations as functions of numpy, with the opaque number on the left and on the right; an empty name stands
for an operation that is not affine."""


class OpaqueNumber(AffineArithmetic):
    """A drawn number without its value: offset + factor * (standard number), with the operations that made it."""

    __slots__ = ("epsaudit_run", "factor", "number", "offset", "operations", "rounding_error")
    __class__ = property(_exposing_method("isinstance"))
    locals().update(EXPOSING_METHODS)
    __iter__ = __len__ = __getitem__ = _exposing_method("a sequence")

    def __init__(
        self,
        run: OpaqueRun,
        number: int,
        offset: float,
        factor: float,
        rounding_error: float = 0.0,
        operations: Any = None,
    ) -> None:
        self.epsaudit_run, self.number, self.offset, self.factor = run, number, offset, factor
        self.operations = operations
        """The last operation and the operations before it, as nested tuples (before, name, constant)."""
        largest = abs(offset) + MAX_STANDARD_NUMBER * abs(factor)
        self.rounding_error = rounding_error + largest * OPERATION_ERROR + 5e-324
        """Largest distance of the floating-point number from the real number of the formula."""

    def _apply(self, name: str, constant: Any) -> Any:
        if np is not None and type(constant) is np.ndarray and constant.ndim:
            cells = np.empty(constant.shape, object)
            for place in range(constant.size):  # numpy would inspect the number if it filled the array itself
                cells.flat[place] = self
            return OpaqueArray(self.epsaudit_run, cells)._apply(name, constant)
        value = self.epsaudit_run.constant(constant)
        if value == 0.0 and name in ("times", "over"):
            self.epsaudit_run.expose(f"{name} 0")
        offset = AFFINE_OPERATIONS[name](self.offset, value)
        by = {"taken from": -1.0, "times": value, "over": 1.0 / value if value else 0.0}.get(name, 1.0)
        error, operations = self.rounding_error * abs(by), (self.operations, name, value)
        return OpaqueNumber(self.epsaudit_run, self.number, offset, self.factor * by, error, operations)

    def value_for(self, drawn: float) -> float:
        """Return the number that the function computes if the sampler answers ``drawn``."""
        operations, before = [], self.operations
        while before is not None:
            before, name, constant = before
            operations.append((name, constant))
        for name, constant in reversed(operations):
            drawn = AFFINE_OPERATIONS[name](drawn, constant)
        return drawn


class OpaqueArray(AffineArithmetic):
    """An array of opaque numbers, with its shape, its parts, and arithmetic element by element."""

    __slots__ = ("cells", "epsaudit_run")
    __class__ = property(_exposing_method("isinstance"))
    locals().update(EXPOSING_METHODS)

    def __init__(self, run: OpaqueRun, cells: Any) -> None:
        self.epsaudit_run, self.cells = run, cells

    shape = property(lambda self: self.cells.shape)
    size = property(lambda self: self.cells.size)
    ndim = property(lambda self: self.cells.ndim)
    dtype = property(lambda self: np.dtype(float))

    def _apply(self, name: str, constant: Any) -> Any:
        if type(constant) is np.ndarray:
            constant = self.epsaudit_run.array(constant).astype(object)
        elif type(constant) in (OpaqueNumber, OpaqueArray):
            self.epsaudit_run.expose("another draw")
        return OpaqueArray(self.epsaudit_run, np.asarray(AFFINE_OPERATIONS[name](self.cells, constant), object))

    def __iadd__(self, other: Any) -> Any:
        return self._apply_in_place("plus", other)

    def __isub__(self, other: Any) -> Any:
        return self._apply_in_place("minus", other)

    def __imul__(self, other: Any) -> Any:
        return self._apply_in_place("times", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._apply_in_place("over", other)

    def _apply_in_place(self, name: str, other: Any) -> Any:
        self.cells[...] = self._apply(name, other).cells
        return self

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Any:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        part = self.cells[key]
        return OpaqueArray(self.epsaudit_run, part) if type(part) is np.ndarray else part

    def tolist(self) -> Any:
        return self.cells.tolist()

    def item(self, *place: Any) -> Any:
        return self.cells.item(*place)

    def copy(self) -> Any:
        return OpaqueArray(self.epsaudit_run, self.cells.copy())

    def ravel(self) -> Any:
        return OpaqueArray(self.epsaudit_run, self.cells.ravel())

    def reshape(self, *shape: Any) -> Any:
        return OpaqueArray(self.epsaudit_run, self.cells.reshape(*shape))


class OrdinaryRun(Recorder):
    """A run whose samplers answer as usual, with numbers of the usual types; the drawn numbers are recorded in order.

    It ends as soon as the function draws in a way of which the exact law is unknown.
    """

    def __init__(self) -> None:
        super().__init__(None, ())
        self.n_calls = 0
        """Number of calls of samplers."""
        self.numbers: list[float] = []
        """The drawn numbers."""
        self.laws: list[str] = []
        """The law of each drawn number."""
        self.exceptions: list[tuple[str, str, int]] = []
        """Type, file and line of each exception that was raised."""
        self.why: str | None = None
        """The reason why the law of the output is unknown, or None."""

    def expose(self, why: str) -> NoReturn:
        """End the run for the given reason."""
        self.why = self.why or why
        raise Exposed(why)

    def answer(self, kind: str, name: str, make: Any, *_: Any, **__: Any) -> Any:
        if kind not in ("count", "event"):
            self.expose(name)
        return make()

    def mechanism(self, name: str, make: Any, stated: Any) -> Any:
        return make() if stated.norm == "event" else self.expose(name)

    def drawn(self, kind: str, name: str, make: Any, *fields: Any) -> Any:
        centre, states, fixed = fields
        if kind != "draw" or states["law"] not in AFFINE_LAWS or "filled" in states or {*fixed} - {"scale", "size"}:
            self.expose(name)
        with paused():  # samplers that are written in Python call one another
            answer = make()
        if type(answer) is float or (np is not None and type(answer) is np.float64):
            values = [float(answer)]
        elif np is not None and type(answer) is np.ndarray and answer.dtype == np.float64:
            values = answer.ravel().tolist()
        else:
            self.expose(f"{name} as {type(answer).__name__}")
        self.n_calls += 1
        first = len(self.numbers)
        self.numbers += values
        self.laws += [states["law"]] * len(values)
        if len(self.numbers) > MAX_DRAWN_NUMBERS:
            self.expose(f"more than {MAX_DRAWN_NUMBERS:,} drawn numbers")
        return self.handed_out(answer, first, 0.0 if centre is None else centre, fixed.get("scale", 1.0))

    def handed_out(self, answer: Any, first: int, centre: Any, scale: Any) -> Any:
        """Return what the function gets for a sampler's answer, whose numbers are recorded from place ``first`` on."""
        return answer


class OpaqueRun(OrdinaryRun):
    """A run whose samplers answer with numbers without a value."""

    def __init__(self) -> None:
        super().__init__()
        self.centres_and_scales: list[tuple[float, float]] = []
        """Centre and scale of each drawn number."""

    def constant(self, value: Any) -> float:
        """Return a number that is combined with an opaque one as a float, converted as Python and numpy convert it.

        End the run if the value is no such number.
        """
        if type(value) in (OpaqueNumber, OpaqueArray):
            self.expose("another draw")
        known = type(value) in (bool, int, float)
        if not known and np is not None and isinstance(value, np.generic):
            known = value.dtype.kind in EXACT_KINDS or type(value) is np.float64
        if not known:
            self.expose(type(value).__name__)
        if not -1e300 < value < 1e300:  # the largest float is 2e308
            self.expose(f"the number {value!r:.40}")
        return float(value)

    def handed_out(self, answer: Any, first: int, centre: Any, scale: Any) -> Any:
        if type(answer) is float or not isinstance(answer, np.ndarray):
            return self.opaque_number(first, centre, scale)
        centres, scales = (np.broadcast_to(self.array(one), answer.shape).ravel().tolist() for one in (centre, scale))
        cells = np.empty(answer.size, object)
        for place, both in enumerate(zip(centres, scales)):  # noqa: B905  # strict since 3.10
            cells[place] = self.opaque_number(first + place, *both)
        return OpaqueArray(self, cells.reshape(answer.shape))

    def opaque_number(self, number: int, centre: Any, scale: Any) -> OpaqueNumber:
        """Return the drawn number with this place in the order of draws, without its value."""
        self.centres_and_scales.append((self.constant(centre), self.constant(scale)))
        if self.centres_and_scales[-1][1] == 0.0:
            self.expose("scale 0")
        return OpaqueNumber(self, number, *self.centres_and_scales[-1])

    def array(self, value: Any) -> Any:
        """Return numbers that are combined with opaque ones as an array of float64; end the run for other values."""
        if type(value) in (list, tuple):
            value = np.array(list(map(self.constant, value)))
        elif type(value) is not np.ndarray:
            value = np.array(self.constant(value))
        if value.dtype.kind not in EXACT_KINDS and value.dtype != np.float64:
            self.expose(f"an array of {value.dtype}")
        return value.astype(np.float64)

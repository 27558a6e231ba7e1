"""Runs a function on noise that holds no value, to see whether its output is data plus noise whatever is drawn.

A sampler answers with an `Opaque` number: data can be added to it, it can be multiplied by data, and anything else (a
comparison, a conversion, a second draw added to it) ends the run. A run that reaches its end has therefore done the
same for all answers of the samplers, and its output shows what that is. docs/explanation/theory.md has the theorem.
Needs Python 3.8 and no package, as `epsaudit.tools.tracing.recorder`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Callable, NoReturn  # noqa: UP035  # as in the recorder

from epsaudit import serve
from epsaudit.tools.tracing.recorder import HERE, RAISES, Call, Recorder, np, paused, plain, run

LAWS = ("laplace", "normal")
"""Laws whose numbers are a centre plus a scale times a standard number, and whose exact loss is known for a shift."""
ORDINARY_RUNS = 4
"""[chosen] Runs on each side with ordinary numbers, whose outputs must be as the opaque run says, bit for bit. These
show functions that treat an opaque number unlike a float without asking it anything, and randomness not seen."""
FARTHEST = 40.0
"""[formula] Scales within which a standard number lies: a Laplace number is beyond with probability e^-40 = 4e-18."""
ROUNDED = 2.0**-51
"""[formula] Relative error of an operation on a number and on its offset, half a unit in the last place each, twice."""
SAME_DIGITS = 12
"""[formula] Digits up to which two standard numbers are the same: 10,000 that are independent hardly share twelve, as
5e7 pairs are as near with probability 1e-12 each, and the numbers of two generators with one seed differ by 1e-15."""
MOST_NUMBERS = 10_000
"""[time] Drawn numbers of a run; each is an object, and 10,000 of them take some 20 ms."""
NUMPY_WHOLE = "biu"
"""Kinds of numpy arrays that become float64 in a sum with float64, as Python's whole numbers do."""


class Exposed(BaseException):
    """Raised where a function does something with noise that could depend on its value; not for `except Exception`."""


def _raises(name: str) -> Any:
    def method(self: Any, *_: Any, **__: Any) -> Any:
        return self.epsaudit_run.expose(name)

    return method


METHODS = """
    __bool__ __int__ __float__ __complex__ __index__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __str__ __repr__
    __format__ __bytes__ __abs__ __round__ __floor__ __ceil__ __trunc__ __pow__ __rpow__ __mod__ __rmod__ __divmod__
    __rdivmod__ __floordiv__ __rfloordiv__ __matmul__ __rmatmul__ __rtruediv__ __and__ __rand__ __or__ __ror__ __xor__
    __rxor__ __invert__ __contains__ __array__ __getattr__ __reduce__ __reduce_ex__ __copy__ __deepcopy__ __dir__
    __setitem__ __delitem__ __call__ __enter__ __fspath__
    """
"""Methods that end the run: all that could tell a value, or pass the object on to code that might ask for it."""
HIDDEN = {name: _raises(name) for name in METHODS.split()}


class Affine:
    """Arithmetic that keeps a number of the form offset + factor * (a standard number), for `_affine` to do."""

    __slots__ = ()
    epsaudit_run: OpaqueRun

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        name = ufunc.__name__
        if method != "__call__" or settings or name not in UFUNCS:
            self.epsaudit_run.expose(name)
        left, right = inputs
        if type(left) in (Opaque, OpaqueArray):
            return left._affine(UFUNCS[name][0], right)
        return right._affine(UFUNCS[name][1], left) if UFUNCS[name][1] else self.epsaudit_run.expose(name)

    def _affine(self, name: str, constant: Any) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._affine("plus", other)

    def __sub__(self, other: Any) -> Any:
        return self._affine("minus", other)

    def __rsub__(self, other: Any) -> Any:
        return self._affine("taken from", other)

    def __mul__(self, other: Any) -> Any:
        return self._affine("times", other)

    def __truediv__(self, other: Any) -> Any:
        return self._affine("over", other)

    def __neg__(self) -> Any:
        return self._affine("times", -1.0)

    def __pos__(self) -> Any:
        return self

    __radd__, __rmul__ = __add__, __mul__


STEPS: Any = {
    "plus": lambda value, constant: value + constant,
    "minus": lambda value, constant: value - constant,
    "taken from": lambda value, constant: constant - value,
    "times": lambda value, constant: value * constant,
    "over": lambda value, constant: value / constant,
}
"""The operations that keep a number affine in the draw: on numbers as on offsets."""
UFUNCS = {
    "add": ("plus", "plus"), "subtract": ("minus", "taken from"), "multiply": ("times", "times"),
    "divide": ("over", ""), "true_divide": ("over", ""),
}  # fmt: skip
"""The same as functions of numpy, with the opaque number on the left and on the right."""


class Opaque(Affine):
    """A drawn number without its value: offset + factor * (standard number), and the steps that made it."""

    __slots__ = ("blur", "epsaudit_run", "factor", "number", "offset", "steps")
    __class__ = property(_raises("isinstance"))
    locals().update(HIDDEN)
    __iter__ = __len__ = __getitem__ = _raises("a sequence")

    def __init__(
        self, run: OpaqueRun, number: int, offset: float, factor: float, blur: float = 0.0, steps: Any = None
    ) -> None:
        self.epsaudit_run, self.number, self.offset, self.factor = run, number, offset, factor
        self.steps = steps
        """The last step and the steps before it, as nested pairs."""
        self.blur = blur + (abs(offset) + FARTHEST * abs(factor)) * ROUNDED + 5e-324
        """How far floating-point numbers may be from the real ones that the formula is for."""

    def _affine(self, name: str, constant: Any) -> Any:
        if np is not None and type(constant) is np.ndarray and constant.ndim:
            cells = np.empty(constant.shape, object)
            for place in range(constant.size):  # numpy would look into what it is given
                cells.flat[place] = self
            return OpaqueArray(self.epsaudit_run, cells)._affine(name, constant)
        number = self.epsaudit_run.constant(constant)
        if number == 0.0 and name in ("times", "over"):
            self.epsaudit_run.expose(f"{name} 0")
        offset = STEPS[name](self.offset, number)
        by = {"taken from": -1.0, "times": number, "over": 1.0 / number if number else 0.0}.get(name, 1.0)
        blur, steps = self.blur * abs(by), (self.steps, name, number)
        return Opaque(self.epsaudit_run, self.number, offset, self.factor * by, blur, steps)

    def at(self, drawn: float) -> float:
        """Return the number for an answer of the sampler, calculated as the function does it."""
        steps, before = [], self.steps
        while before is not None:
            before, name, constant = before
            steps.append((name, constant))
        for name, constant in reversed(steps):
            drawn = STEPS[name](drawn, constant)
        return drawn


class OpaqueArray(Affine):
    """An array of opaque numbers: what tells its shape, parts of it, and arithmetic number by number."""

    __slots__ = ("cells", "epsaudit_run")
    __class__ = property(_raises("isinstance"))
    locals().update(HIDDEN)

    def __init__(self, run: OpaqueRun, cells: Any) -> None:
        self.epsaudit_run, self.cells = run, cells

    shape = property(lambda self: self.cells.shape)
    size = property(lambda self: self.cells.size)
    ndim = property(lambda self: self.cells.ndim)
    dtype = property(lambda self: np.dtype(float))

    def _affine(self, name: str, constant: Any) -> Any:
        if type(constant) is np.ndarray:
            constant = self.epsaudit_run.array(constant).astype(object)
        elif type(constant) in (Opaque, OpaqueArray):
            self.epsaudit_run.expose("another draw")
        return OpaqueArray(self.epsaudit_run, np.asarray(STEPS[name](self.cells, constant), object))

    def __iadd__(self, other: Any) -> Any:
        return self._in_place("plus", other)

    def __isub__(self, other: Any) -> Any:
        return self._in_place("minus", other)

    def __imul__(self, other: Any) -> Any:
        return self._in_place("times", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place("over", other)

    def _in_place(self, name: str, other: Any) -> Any:
        self.cells[...] = self._affine(name, other).cells
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


class SampledRun(Recorder):
    """A run whose samplers answer as ever, with numbers of the usual types; the drawn numbers are noted in order."""

    def __init__(self) -> None:
        super().__init__(None, ())
        self.calls, self.numbers, self.laws = 0, [], []  # type: ignore[var-annotated]
        self.exceptions: list[tuple[str, str, int]] = []
        """The type of each exception that is raised, with file and line."""
        self.why: str | None = None
        """Why nothing is known of the output."""

    def expose(self, why: str) -> NoReturn:
        self.why = self.why or why
        raise Exposed(why)

    def answer(self, kind: str, what: str, make: Any, *_: Any, **__: Any) -> Any:
        if kind not in ("count", "event"):
            self.expose(what)
        return make()

    def mechanism(self, what: str, make: Any, stated: Any) -> Any:
        return make() if stated.norm == "event" else self.expose(what)

    def drawn(self, kind: str, what: str, make: Any, *told: Any) -> Any:
        centre, states, fixed = told
        if kind != "draw" or states["law"] not in LAWS or "filled" in states or {*fixed} - {"scale", "size"}:
            self.expose(what)
        with paused():  # samplers of Python call one another
            answer = make()
        if type(answer) is float or (np is not None and type(answer) is np.float64):
            values = [float(answer)]
        elif np is not None and type(answer) is np.ndarray and answer.dtype == np.float64:
            values = answer.ravel().tolist()
        else:
            self.expose(f"{what} as {type(answer).__name__}")
        self.calls += 1
        first = len(self.numbers)
        self.numbers += values
        self.laws += [states["law"]] * len(values)
        if len(self.numbers) > MOST_NUMBERS:
            self.expose(f"more than {MOST_NUMBERS:,} drawn numbers")
        return self.given(answer, first, 0.0 if centre is None else centre, fixed.get("scale", 1.0))

    def given(self, answer: Any, first: int, centre: Any, scale: Any) -> Any:
        """Return what the function is given for an answer whose numbers are noted from place ``first`` on."""
        return answer


class OpaqueRun(SampledRun):
    """A run whose samplers answer with numbers that hold no value."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[tuple[float, float]] = []
        """Centre and scale of each drawn number."""

    def constant(self, value: Any) -> float:
        """Return a number that may meet an opaque one, as a float, as Python and numpy convert it."""
        if type(value) in (Opaque, OpaqueArray):
            self.expose("another draw")
        known = type(value) in (bool, int, float)
        if not known and np is not None and isinstance(value, np.generic):
            known = value.dtype.kind in NUMPY_WHOLE or type(value) is np.float64
        if not known:
            self.expose(type(value).__name__)
        if not -1e300 < value < 1e300:  # a float's largest number is 2e308
            self.expose(f"the number {value!r:.40}")
        return float(value)

    def given(self, answer: Any, first: int, centre: Any, scale: Any) -> Any:
        if type(answer) is float or not isinstance(answer, np.ndarray):
            return self.opaque(first, centre, scale)
        centres, scales = (np.broadcast_to(self.array(one), answer.shape).ravel().tolist() for one in (centre, scale))
        cells = np.empty(answer.size, object)
        for place, start in enumerate(zip(centres, scales)):  # noqa: B905  # strict since 3.10
            cells[place] = self.opaque(first + place, *start)
        return OpaqueArray(self, cells.reshape(answer.shape))

    def opaque(self, number: int, centre: Any, scale: Any) -> Opaque:
        """Return the drawn number of this place without its value."""
        self.starts.append((self.constant(centre), self.constant(scale)))
        if self.starts[-1][1] == 0.0:
            self.expose("scale 0")
        return Opaque(self, number, *self.starts[-1])

    def array(self, value: Any) -> Any:
        """Return numbers that may meet an opaque one as an array of float64."""
        if type(value) in (list, tuple):
            value = np.array(list(map(self.constant, value)))
        elif type(value) is not np.ndarray:
            value = np.array(self.constant(value))
        if value.dtype.kind not in NUMPY_WHOLE and value.dtype != np.float64:
            self.expose(f"an array of {value.dtype}")
        return value.astype(np.float64)


def template(output: Any, numbers: list[Opaque]) -> Any:
    """Return an output as JSON with ``{"opaque": place in numbers}`` for each opaque number, which is appended."""
    if type(output) is Opaque:
        numbers.append(output)
        return {"opaque": len(numbers) - 1}
    if type(output) is OpaqueArray:
        shape, cells = output.cells.shape, [template(one, numbers) for one in output.cells.ravel().tolist()]
        return {"array": cells, "shape": list(shape)} if len(shape) > 1 else cells if shape else cells[0]
    if isinstance(output, (list, tuple)):
        return [template(one, numbers) for one in output]
    if isinstance(output, Mapping):
        return {"items": [[plain(key), template(part, numbers)] for key, part in output.items()]}
    if any(isinstance(output, kind) for kind, _ in serve.ENCODERS) or (held := serve.unwrap(output)) is output:
        return serve.encode_value(output)
    return template(held, numbers)


def forms_of_output(call: Call, both: Any, told: dict[str, Any], seed: int, repeats: Callable[[], bool]) -> Any:
    """Return the form of each number of the output on x and on x', or why the forms are not known.

    ``both`` are the pickled datasets and ``told`` is the trace of the pair; ``repeats`` says whether a run on the first
    dataset returns what the first run of this process returned. The answer is ``{"why": sentence}``, or
    ``{"numbers": [[law, number of the draw, offset, factor, blur, ...] of x, and of x']}``, which
    `epsaudit.tools.tracing.exact_output` reads.
    """
    drawn = [sum(event["kind"] == "draw" for event in told[name]) for name in ("events", "events_prime")]
    if told["unseen"] or told["unread"]:
        return {"why": "not all that is drawn or returned is seen"}
    if any(event["kind"] == "compare" for event in told["events"]):
        return {"why": "noise is compared"}
    found: list[Any] = []
    for data, calls in zip(both, drawn):  # noqa: B905  # strict since 3.10
        recorder, numbers = OpaqueRun(), []  # type: ignore[var-annotated]
        parts = _run(call, data, recorder, seed, lambda output, numbers=numbers: template(output, numbers))
        if recorder.why is None and any(one.epsaudit_run is not recorder for one in numbers):
            recorder.why = "a draw of an earlier run is used"
        if recorder.why is None and recorder.calls != calls:
            recorder.why = "a later run draws more or less often than the first"
        if recorder.why is not None:
            return {"why": recorder.why}
        forms = [[recorder.laws[one.number], one.number, one.offset, one.factor, one.blur] for one in numbers]
        found.append((parts, numbers, forms, recorder))
    (parts, _, forms, _), (parts_prime, _, forms_prime, _) = found
    if list(parts.items()) != list(parts_prime.items()):
        return {"why": "a part of the output without noise depends on the dataset"}
    if forms == forms_prime:
        return {"why": "no number moves"}
    if not repeats():
        return {"why": "with the same seed the function does not return what it returned first"}
    for (parts, numbers, _, recorder), data, calls in zip(found, both, drawn):  # noqa: B905  # strict since 3.10
        for number in range(ORDINARY_RUNS):
            sampled = SampledRun()
            leaves = _run(call, data, sampled, seed + 1 + number)
            if sampled.why is not None or sampled.calls != calls:
                return {"why": sampled.why or "a later run draws more or less often than the first"}
            if sampled.exceptions != recorder.exceptions:
                return {"why": "exceptions are raised of noise that holds no value, and of numbers other ones"}
            if not _agrees(parts, numbers, sampled.numbers, leaves):
                return {"why": "an output is not what its noise and the rest of it come to"}
            known = [(sampled.numbers[one.number], *recorder.starts[one.number]) for one in numbers]
            standard = {round((drawn - centre) / scale, SAME_DIGITS) for drawn, centre, scale in known}
            if len(standard) < len({one.number for one in numbers}):
                return {"why": "two draws are the same number, as those of two generators with one seed are"}
    return {"numbers": [forms, forms_prime]}


def repeats_first_run(call: Call, data: bytes, first: Any) -> bool:
    """Whether a run with seed 0 returns what the first run of the process, with real samplers, did.

    If not, the function may keep something between runs, as noise that it draws once, or has a generator of its own.
    """
    sampled = SampledRun()
    leaves = _run(call, data, sampled, 0)
    return sampled.why is None and leaves == first["leaves"]


def _run(call: Call, data: bytes, recorder: SampledRun, seed: int, write: Any = None) -> Any:
    """Run once, and return the parts of the output by name; ``recorder.why`` says why they are not known.

    ``recorder.exceptions`` lists what is raised meanwhile, caught by the function or not. Code in C raises a
    `TypeError` for an opaque number that it does not know, which the function may catch.
    """
    before = sys.gettrace()

    def raised(frame: Any, event: str, told: Any) -> Any:
        runs = Recorder.current is recorder  # and the output is not yet read
        if runs and event == "exception" and told[0] is not StopIteration:  # which ends loops
            recorder.exceptions.append((told[0].__name__, frame.f_code.co_filename, frame.f_lineno))
        return raised

    def entered(frame: Any, event: str, told: Any) -> Any:
        frame.f_trace_lines = False
        return None if frame.f_code.co_filename.startswith(HERE) else raised

    sys.settrace(entered)
    try:
        outcome = run(call, data, recorder, seed % 2**32, write)
    except Exposed:
        return {}
    except Exception as error:  # of what reads the output
        recorder.why = recorder.why or f"{type(error).__name__} is raised where the output is read"
        return {}
    finally:
        sys.settrace(before)
    if outcome["leaves"][RAISES] is not None:
        recorder.why = recorder.why or f"{outcome['leaves'][RAISES]} is raised"
    elif recorder.unseen or outcome["unread"]:
        recorder.why = recorder.why or "not all that is drawn or returned is seen"
    return outcome["leaves"]


def _agrees(parts: dict[str, Any], numbers: list[Opaque], drawn: list[float], leaves: dict[str, Any]) -> bool:
    """Whether an output is what the opaque run says for the numbers that were drawn, bit for bit."""
    if list(parts) != list(leaves):
        return False
    for name, part in parts.items():
        if isinstance(part, dict) and "opaque" in part:
            number = numbers[part["opaque"]]
            if number.number >= len(drawn) or leaves[name] != number.at(drawn[number.number]):
                return False
        elif part != leaves[name] and not (part != part and leaves[name] != leaves[name]):
            return False
    return True

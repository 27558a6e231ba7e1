"""Runs a function on x and writes down what is drawn and what is added to it; runs it on x' and gives the same answers.

It works inside the process of the audited code, whose random functions it replaces, needs Python 3.8 and no package,
and leaves judging to `epsaudit.tracing.verdicts`. What a replay answers as recorded are draws, sums of noise and
another number, comparisons with noise, and outputs of mechanisms: what comes after these is post-processing, and comes
out as recorded unless data reach it on another way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import json
import math
import operator
import os
import pickle
import random
import secrets  # noqa: F401  # is replaced
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from epsaudit import serve
from epsaudit.tracing import primitives

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
STANDARD = os.path.dirname(os.__file__)
INSIDE = ("numpy", "scipy", "torch", "jax", "jaxlib", "random", "secrets", "copy", "importlib")
"""Modules whose own lines are not where a draw is said to be."""
NUDGES = (1e-6, 1.0, 2.0, -3.0, 5.0)
"""By what an answer is moved to see whether the output is a number that follows it; a selection does not, neither by
the first, for which it is too small, nor in proportion to the others."""
SINGLE = 1e-4
"""Relative error of multiples: a thousand times that of numbers of single precision."""
MOST_NUDGED = 24
"""Draws that are looked at so, five runs each; of the others it is said that they reach the output."""
LOOKED_AT = 100
"""Further runs that show how large noise of no known law is, on average: to a tenth, if it is Laplace."""
MOST_PLACES = 64
"""Of an array of such noise that are looked at."""
FEW_CALLS = 512
"""Calls of a mechanism of compiled code on each of two inputs, to see whether its outputs are apart: under 1-DP half of
those on one side are among a fifth of those on the other, of which none is with probability 1e-45."""
CALLS = 2048
"""Calls of a mechanism on each of two inputs, to see which bits it leaves: of Gaussian noise of scale 5 beside a step
of 1 about 80 outputs are near 0."""
RAISES = " raises"
"""The name of the part of an outcome that says what was raised."""
NOTHING = object()
DRAWN = ("draw", "sample", "mechanism")
"""Kinds of events whose answers are drawn."""
FROZEN = (*DRAWN, "add", "join", "compare")
"""Those that a replay answers as recorded; what is multiplied, or composed, is made anew."""
Call = Any
"""What calls the audited function with a dataset, a generator or None, and a seed."""


@dataclasses.dataclass
class Event:
    """One call, as it is recorded, and as `epsaudit.tracing.verdicts` reads it; an input of None stands for none."""

    kind: str
    what: str
    at: Any
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    input: Any = None
    states: dict[str, Any] = dataclasses.field(default_factory=dict)
    draws: Any = ()
    """Events, places and weights whose sum it is; of an input that moved, the noise that it meets."""
    norm: str = "l1"
    order: int | None = None
    """The number of the recorded call that it is like."""
    repeat: Any = None
    map: Any = None
    result: Any = None
    gaps: Any = None
    """By how much each number of its input moved; None of what is no array of numbers."""

    @property
    def judged(self) -> bool:
        """Whether how often it is called must not depend on data."""
        return self.kind in ("draw", "mechanism")

    @property
    def law(self) -> Any:
        return self.states.get("law")

    def to_dict(self) -> dict[str, Any]:
        told = {name: plain(getattr(self, name)) for name in ("kind", "what", "at", "input", "draws", "norm", "order")}
        for name in ("fixed", "states"):
            told[name] = {key: plain(value) for key, value in getattr(self, name).items()}
        return told


class Recorder:
    """The events of one run; with ``before``, a recorded one, it answers like that where calls are the same."""

    def __init__(
        self, before: Recorder | None = None, frozen: Any = FROZEN, nudge: int | None = None, by: float = 0.0
    ) -> None:
        self.events: list[Event] = []
        self.before, self.frozen, self.nudge, self.by = before, frozen, nudge, by
        self.moved: set[int] = set()
        """Calls with a number that is not as recorded."""
        self.sizes: list[Any] = []
        self.unseen: list[str] = []
        self.depth, self.next, self.thread = 0, 0, threading.get_ident()
        self.left: dict[Any, deque[int]] = {}
        for number, event in enumerate(before.events if before else ()):
            self.left.setdefault((event.kind, event.what, tuple(event.at)), deque()).append(number)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def answer(self, kind: str, what: str, make: Callable[[], Any], **known: Any) -> Any:
        """Write down a call, and answer it as recorded, or else by ``make()``."""
        with self.paused():
            event, number = Event(kind, what, place(), **known), len(self.events)
            event.input = kept(event.input)
            self.events.append(event)
            match = self.counterpart(event)
            if kind == "add" and self.before and (match is None or plain(match.input) != plain(event.input)):
                self.moved.add(number)
            event.result = self.replayed(event, match, make)
            if number == self.nudge:
                with contextlib.suppress(TypeError, ValueError):
                    event.result = nudged(event.result, self.by)
        answer = event.result  # of an array a copy, which the function may write to
        own = getattr(answer, "clone", getattr(answer, "copy", None)) if getattr(answer, "ndim", 0) else None
        return answer if own is None else own()

    def counterpart(self, event: Event) -> Event | None:
        """Return the next recorded call of this kind and place, if one is left; those before it are passed over."""
        left = self.left.get((event.kind, event.what, tuple(event.at)))
        while left and self.before is not None:
            if (number := left.popleft()) >= self.next:
                event.order, self.next = number, number + 1
                return self.before.events[number]
        return None

    def replayed(self, event: Event, match: Event | None, make: Callable[[], Any]) -> Any:
        """Return what was recorded; what is of another size is made anew, of samples only what is beyond it."""
        if match is None or event.kind not in self.frozen or event.states.get("live"):
            return stripped(make())
        known = match.result
        alike = known is not None and match.fixed.get("size") == event.fixed.get("size")
        if alike and event.judged:
            return known
        value = stripped(make())
        if getattr(value, "shape", None) == getattr(known, "shape", None):
            return known
        if event.kind == "sample" and getattr(value, "ndim", 0) == 1 == getattr(known, "ndim", 0):
            value[: len(known)] = known[: len(value)]
        return value

    def drawn(self, kind: str, what: str, make: Callable[[], Any], known: bool = True, **told: Any) -> Any:
        """Answer a call by a number that knows from which draw it is."""
        number = len(self.events)
        answer = self.answer(kind, what, make, **told)
        return of_noise(answer, Noise(((number, places_of(answer), 1.0),), known))

    def draw(self, what: str, law: str, named: dict[str, Any], make: Callable[[], Any]) -> Any:
        """Answer a sampler that was called with these arguments."""
        centre = next((named.pop(name) for name in ("loc", "mu", "mean") if name in named), None)
        if law == "choice" and "p" in named:
            law, centre = "finite", named.pop("p")
        aside = ("out", "self", "key", "random_state")
        fixed = {name: value for name, value in named.items() if value is not None and name not in aside}
        kind = "sample" if law in primitives.SAMPLING else "draw"
        answer = self.answer if law == "finite" else self.drawn
        return answer(kind, what, make, fixed=fixed, states={"law": law}, input=centre)

    def mechanism(self, what: str, make: Callable[[], Any], stated: primitives.Stated, repeat: Any = None) -> Any:
        """Answer a mechanism as a whole; of events of an accountant it is noted what they are."""
        told = {name: getattr(stated, name) for name in ("input", "states", "fixed", "norm")}
        if stated.norm == "event":
            return self.answer("event", what, make, **told)
        number = len(self.events)
        answer = self.drawn("mechanism", what, make, "scale" in stated.states, repeat=repeat, map=stated.map, **told)
        return stated.after(stripped(answer), self.events[number]) if stated.after else answer


class State:
    """What the replaced functions look at."""

    recorder: Recorder | None = None


def listening() -> Recorder | None:
    """Return the recorder that is to be told of a call."""
    recorder = State.recorder
    if recorder is None or recorder.depth:
        return None
    if threading.get_ident() != recorder.thread:
        recorder.unseen.append("another thread drew random numbers")
        return None
    return recorder


def place() -> list[tuple[str, int, str]]:
    """Return file, line and function of the calls that led here, the innermost first, but for those of samplers."""
    found: list[tuple[str, int, str]] = []
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code is not run.__code__:
        file = frame.f_code.co_filename
        inside = not found and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE
        if not inside and not file.startswith((HERE, "<")) and file != contextlib.__file__:
            found.append((file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


def is_standard(file: str) -> bool:
    """Whether a file is Python's own."""
    return file.startswith(STANDARD) and "-packages" not in file


def plain(value: Any) -> Any:
    """Return a value as JSON, and what JSON cannot write by its type."""
    try:
        return serve.plain(value)
    except Exception:  # whatever an object's own methods raise
        return {"object": type(value).__name__}


def kept(value: Any) -> Any:
    """Return a copy of what later lines may change."""
    value = stripped(value)
    try:
        return value if callable(value) else pickle.loads(pickle.dumps(value, -1))
    except Exception:  # what cannot be pickled
        return value


def nudged(value: Any, by: float) -> Any:
    """Return a number, or what holds numbers, moved; TypeError for what is none."""
    if isinstance(value, (list, tuple)):
        return type(value)(nudged(one, by) for one in value)
    if isinstance(value, (bool, str, bytes, dict)) or value is None:
        raise TypeError("no number")
    whole = isinstance(value, int) or getattr(getattr(value, "dtype", None), "kind", "f") in ("i", "u")
    return value + int(by) if whole else value + by


# numbers that know from which draws they are


class Noise(NamedTuple):
    """Of which draws a number is the sum: the number of the event, the places in it, and the weights."""

    terms: tuple[tuple[int, Any, Any], ...]
    known: bool = True
    """False after a function that is neither a sum, a multiple nor rounding."""
    rounded: bool = False
    after: tuple[int, ...] = ()
    """Sums that made it, by the numbers of their events."""

    def times(self, factor: Any) -> Noise:
        return self._replace(terms=tuple((draw, places, weight * factor) for draw, places, weight in self.terms))


COMPARE = ("less", "less_equal", "greater", "greater_equal")
ROUND = ("rint", "floor", "ceil", "trunc", "round")
DUNDERS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "pow": "power",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip


def combined(name: str, make: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return what an operation makes of two numbers, at least one of which is noise, and write it down."""
    one, other = noise_of(left), noise_of(right)
    recorder, values = listening(), (stripped(left), stripped(right))
    value = functools.partial(make, *values)
    if recorder is None or (name in COMPARE and one is not None and other is not None):
        return value()
    if one is not None and other is not None:
        both = one.terms + (other.times(-1.0) if name == "subtract" else other).terms
        known = one.known and other.known and name in ("add", "subtract")
        joined = recorder.answer("join", name, value, draws=both, states={"known": known})
        return of_noise(joined, Noise(both, known, one.rounded or other.rounded, one.after + other.after))
    noise, number = (one, values[1]) if one is not None else (other, values[0])
    assert noise is not None
    draws = [draw for draw, *_ in noise.terms]
    # what was released may meet data again, to be covered by other noise: then it is the output that tells
    live = not recorder.moved.isdisjoint((*noise.after, *draws))
    released = not noise.known and any(recorder.events[draw].kind == "mechanism" for draw in draws)
    if name in COMPARE:
        return recorder.answer("compare", name, value, input=number, draws=noise.terms, states={"live": live})
    if name in ("add", "subtract") and not released:
        if name == "subtract":
            noise, number = (noise, -number) if one is not None else (noise.times(-1.0), number)
        about = {"known": noise.known, "rounded": noise.rounded, "after": noise.after, "live": live}
        noise = noise._replace(after=(*noise.after, len(recorder.events)))
        return of_noise(recorder.answer("add", name, value, input=number, draws=noise.terms, states=about), noise)
    answer = recorder.answer("scale", name, value, fixed={"by": number}, draws=noise.terms, states={"live": live})
    if name == "multiply":
        return of_noise(answer, noise.times(number))
    if name in ("divide", "true_divide") and one is not None:
        with contextlib.suppress(ZeroDivisionError):
            return of_noise(answer, noise.times(1.0 / number))
    return of_noise(answer, noise._replace(known=False))


def applied(name: str, make: Callable[[Any], Any], value: Any) -> Any:
    """Return what a function makes of a number that is noise."""
    noise, answer = noise_of(value), make(stripped(value))
    if noise is None or State.recorder is None:
        return answer
    if name in ("negative", "neg"):
        return of_noise(answer, noise.times(-1.0))
    return of_noise(answer, noise._replace(rounded=True) if name in ROUND else noise._replace(known=False))


def noise_of(value: Any) -> Noise | None:
    """Return from where a number is, None of one that is not noise."""
    return getattr(value, "epsaudit_noise", None)


def _dunders(kind: Any) -> Any:
    """Give a type of numbers the operations that write down what is done with noise."""

    def two(short: str, name: str, turned: bool) -> Any:
        make = getattr(operator, short)

        def operation(self: Any, number: Any) -> Any:
            if not isinstance(number, (int, float)) and type(number).__module__ != "numpy" and noise_of(number) is None:
                return NotImplemented  # a frame or a tensor: it is not seen what becomes of the sum
            return combined(name, make, number, self) if turned else combined(name, make, self, number)

        return operation

    for short, name in DUNDERS.items():
        setattr(kind, f"__{short}__", two(short, name, False))
        if name not in COMPARE:
            setattr(kind, f"__r{short}__", two(short, name, True))
    for short, make in {"neg": operator.neg, "abs": abs}.items():
        setattr(
            kind,
            f"__{short}__",
            functools.partialmethod(lambda self, name, make: applied(name, make, self), short, make),
        )
    kind.__round__ = lambda self, digits=None: applied("round", lambda value: round(value, digits), self)
    kind.__reduce_ex__ = lambda self, protocol: (type(stripped(self)), (stripped(self),))
    kind.__array_priority__ = 1e6  # before scalars and arrays of numpy
    kind.epsaudit_noise = None
    return kind


@_dunders
class Number(float):
    """A float that knows from which draws it is."""


@_dunders
class Whole(int):
    """An int that knows from which draws it is."""


def stripped(value: Any) -> Any:
    """Return a number, or an array, that knows nothing of its draws."""
    if isinstance(value, Number):
        return float(value)
    if isinstance(value, Whole):
        return int(value)
    if ARRAY and isinstance(value, ARRAY[0]):
        return value.view(sys.modules["numpy"].ndarray)
    if type(value) in (list, tuple) and any(isinstance(one, (Number, Whole, *ARRAY)) for one in value):
        return type(value)(map(stripped, value))
    return value


def places_of(answer: Any) -> Any:
    """Number the places of a draw."""
    if getattr(answer, "ndim", 0) and "numpy" in sys.modules and isinstance(answer, sys.modules["numpy"].ndarray):
        return sys.modules["numpy"].arange(answer.size).reshape(answer.shape)
    return 0


def of_noise(answer: Any, noise: Noise) -> Any:
    """Return an answer that knows from which draws it is; what is no number, or a tensor, as it is."""
    kind, single = getattr(getattr(answer, "dtype", None), "kind", ""), not getattr(answer, "ndim", 0)
    value: Any
    if isinstance(answer, float) or (kind == "f" and single):
        value = Number(answer)
    elif (isinstance(answer, int) and not isinstance(answer, bool)) or (kind in ("i", "u") and single):
        value = Whole(answer)
    elif kind in ("f", "i", "u") and isinstance(answer, sys.modules["numpy"].ndarray):
        value = answer.view(_array_class())
    else:
        return answer
    value.epsaudit_noise = noise
    return value


ARRAY: list[Any] = []
"""The class of arrays that know from which draws they are, once numpy is there."""


def _array_class() -> Any:
    if ARRAY:
        return ARRAY[0]
    np = sys.modules["numpy"]

    class Array(np.ndarray):  # type: ignore[misc, name-defined]
        epsaudit_noise: Noise | None = None

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
            known = [noise_of(one) for one in inputs]
            if method != "__call__" or settings or not 1 <= len(inputs) <= 2 or not any(known) or ufunc.nout > 1:
                given = {**settings, **({"out": tuple(map(stripped, out))} if out else {})}
                return getattr(ufunc, method)(*map(stripped, inputs), **given)
            name = ufunc.__name__
            answer = combined(name, ufunc, *inputs) if len(inputs) == 2 else applied(name, ufunc, inputs[0])
            if out is None:
                return answer
            out[0][...] = stripped(answer)
            if isinstance(out[0], Array):
                out[0].epsaudit_noise = noise_of(answer)
            return out[0]

        def __getitem__(self, key: Any) -> Any:
            answer, noise = stripped(self)[stripped(key)], self.epsaudit_noise
            if noise is None:
                return answer

            def part(of: Any) -> Any:
                return np.broadcast_to(of, self.shape)[stripped(key)] if np.ndim(of) else of

            terms = tuple((draw, part(places), part(weights)) for draw, places, weights in noise.terms)
            return of_noise(answer, noise._replace(terms=terms))

        def __setitem__(self, key: Any, value: Any) -> None:
            stripped(self)[stripped(key)] = stripped(value)
            other = noise_of(value)
            if self.epsaudit_noise is not None and (other is None or not other.known):
                self.epsaudit_noise = self.epsaudit_noise._replace(known=False)

        def __array_finalize__(self, source: Any) -> None:
            noise = noise_of(source)
            same = noise is not None and getattr(source, "shape", None) == self.shape
            self.epsaudit_noise = noise if same else None

    ARRAY.append(Array)
    return Array


# what draws, replaced where it stands

REPLACED: list[tuple[Any, Any]] = []
"""Functions and what stands in their place, for modules that imported them by name."""
GENERATORS: dict[Any, Any] = {}
"""Numpy's classes, and those that record."""
Handler = Callable[[Recorder, Any, Any, Any], Any]
"""Answers a call: of the recorder that listens, the function, and its arguments."""


def wrapped(original: Any, handle: Handler) -> Any:
    """Return what stands in the place of a function: while nobody listens, it calls that."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        recorder = listening()
        if recorder is None:
            return original(*arguments, **keywords)
        return handle(recorder, original, arguments, keywords)

    REPLACED.append((original, call))
    return call


def put(owner: Any, name: str, handle: Handler) -> None:
    """Replace a function of a module, or a method of a class, where it is there."""
    if hasattr(owner, name):
        with contextlib.suppress(TypeError):  # of a class of C
            setattr(owner, name, wrapped(getattr(owner, name), handle))


def sampler(what: str, law: str, words: str) -> Handler:
    """Return what answers a sampler that takes these arguments by position."""
    names = words.split()

    def handle(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
        named: dict[str, Any] = {**dict(zip(names, arguments)), **keywords}  # noqa: B905  # strict since 3.10
        if names[-1] == "*":
            named = {**keywords, "size": list(arguments[len(names) - 1 :])}
        for name in {"sigma", "std", "lambd"} & {*named}:
            value: Any = named.pop(name)
            named["scale"] = 1.0 / value if name == "lambd" else value
        make = functools.partial(original, *arguments, **keywords)
        if law in ("choice", "order") and {"a", "x"} & {*names}:
            return chosen(recorder, original, make, what, law, named)
        if what.endswith("_"):  # a tensor that is filled
            return arguments[0].data.copy_(recorder.draw(what, law, named, lambda: make().clone()))
        return recorder.draw(what, law, named, make)

    return handle


def chosen(recorder: Recorder, original: Any, make: Any, what: str, law: str, named: Any) -> Any:
    """Answer what takes from a population, which may be private: by the same places in it as on x.

    With probabilities it is the places that are answered, else the generator goes on from where it stood on x.
    """
    owner, population = named["self"], named.get("a", named.get("x"))
    if named.get("p") is not None and "numpy" in what:
        whole, chances = isinstance(population, int), stripped(named["p"])
        given = {"p": chances, "options": plain(population), "size": named.get("size")}
        settings = {name: named[name] for name in ("size", "replace") if name in named}
        many = population if whole else len(population)
        place = recorder.draw(what, law, given, lambda: original(owner, many, p=chances, **settings))
        return place if whole else sys.modules["numpy"].asarray(population)[place]
    stream: Any = getattr(owner, "bit_generator", getattr(owner, "_bit_generator", None))
    with recorder.paused():
        try:
            now = owner.getstate() if stream is None else stream.state
        except NotImplementedError:  # of the operating system
            now = None
    state = recorder.answer("sample", what, lambda: now, states={"law": law})
    with recorder.paused():
        if state is not None and stream is None:
            owner.setstate(state)
        elif state is not None:
            stream.state = state
        return make()


def of_function(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
    """Answer a function of numbers, which says from where theirs are."""
    value, *others = arguments
    return applied(original.__name__, lambda number: original(number, *map(stripped, others), **keywords), value)


def counted(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
    """Write down how many values a function of numpy found: what decides sizes of later draws."""
    answer = original(*arguments, **keywords)
    with recorder.paused():
        first = answer[0] if isinstance(answer, tuple) else answer
        recorder.sizes.append([len(recorder.events), f"np.{original.__name__}", plain(place()), len(first)])
    return answer


def stating(library: str, method: str, read: Any) -> Handler:
    """Return what answers a mechanism of a library, by what ``read(self, argument)`` says of its calls."""

    def handle(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
        with recorder.paused():
            stated = read(arguments[0], next(iter((*arguments[1:], *keywords.values())), None))
        what = f"{library}'s {method if stated.norm == 'event' else type(arguments[0]).__name__}"
        make, repeat = functools.partial(original, *arguments, **keywords), functools.partial(original, arguments[0])
        return recorder.mechanism(what, make, stated, repeat)

    return handle


def replace_samplers() -> None:
    """Put what records in the place of every known sampler whose library is imported, and of numpy's."""
    for name, (law, words) in primitives.PYTHON.items():
        for python in (random.Random, random.SystemRandom):
            if name in vars(python) or python is random.Random:
                put(python, name, sampler(f"random.{name}", law, f"self {words}"))
        if hasattr(random, name):
            _put_function(random, name, random._inst)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy.random")
        _replace_numpy()
    for owner, known in primitives.OTHERS.items():
        module = owner if owner in sys.modules else owner.rpartition(".")[0]
        if module in sys.modules:
            found: Any = importlib.import_module(module)
            found = found if module == owner else getattr(found, owner.rpartition(".")[2], None)
            for name, (law, words) in known.items():
                put(found, name, sampler(f"{owner}.{name}", law, words))
    for name in ("log", "log1p", "log2", "exp", "sqrt", "copysign", "fabs", "floor", "ceil", "trunc", "pow"):
        put(math, name, of_function)
    for where, owner, method, read in primitives.MECHANISMS:
        names = vars(sys.modules[where]) if where in sys.modules else {}
        for kind in {one for name, one in names.items() if isinstance(one, type) and owner in (name, "*")}:
            if method in vars(kind) and all(vars(kind)[method] is not new for _, new in REPLACED):
                put(kind, method, stating(where.partition(".")[0], method, read))
    _replace_where_imported()


def _put_function(module: Any, name: str, owner: Any) -> None:
    """Put a method of an object in the place of a function of a module."""
    REPLACED.append((getattr(module, name), getattr(owner, name)))
    setattr(module, name, getattr(owner, name))


def _replace_numpy() -> None:
    np: Any = sys.modules["numpy"]

    def traced_class(kind: Any) -> Any:
        class Kind(type(kind)):  # type: ignore[misc]
            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, kind)

        methods = {
            name: wrapped(getattr(kind, name), sampler(f"numpy.random.{name}", law, f"self {words}"))
            for name, (law, words) in primitives.NUMPY.items()
            if hasattr(kind, name)
        }
        return Kind(kind.__name__, (kind,), {**methods, "__module__": __name__})

    for name in ("Generator", "RandomState"):
        kind = getattr(np.random, name)
        GENERATORS[kind] = traced_class(kind)
        REPLACED.append((kind, GENERATORS[kind]))
        setattr(np.random, name, GENERATORS[kind])
    put(np.random, "default_rng", lambda _, original, given, named: traced_generator(original(*given, **named)))
    mine = np.random.mtrand._rand = traced_generator(np.random.mtrand._rand)
    for name in primitives.NUMPY:
        if hasattr(np.random, name):
            _put_function(np.random, name, mine)
    for name in ("unique", "bincount", "histogram"):
        put(np, name, counted)


def traced_generator(known: Any) -> Any:
    """Return a generator of numpy that records, on the same stream."""
    kind = GENERATORS.get(type(known))
    return known if kind is None else kind(getattr(known, "bit_generator", None) or known._bit_generator)


def _replace_where_imported() -> None:
    """Replace functions that modules have by name, and generators that they hold, outside the standard library."""
    new = {id(old): one for old, one in REPLACED}
    for name, module in list(sys.modules.items()):
        file = str(getattr(module, "__file__", None) or "")
        if is_standard(file) or name.partition(".")[0] in (*INSIDE, "epsaudit") or not hasattr(module, "__dict__"):
            continue
        names = vars(module)
        if {*new}.isdisjoint(map(id, names.values())) and {*GENERATORS}.isdisjoint(map(type, names.values())):
            continue  # as of nearly all
        for attribute, value in list(names.items()):
            names[attribute] = new.get(id(value), traced_generator(value))


def mechanism(
    input: str = "value",  # the word of the table
    sensitivity: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    norm: str = "l1",
    fixed: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Tell traces that a function is private by itself, and what it states; it is called as before.

    ``input`` is the name of the parameter that may depend on data, ``fixed`` those of others that must not. What it
    states, sensitivity, epsilon and delta, are numbers, or names of the parameters that they are; ``norm``, in which
    inputs of neighbours are ``sensitivity`` apart at most, is 'l1', 'l2', 'linf' or 'records'.

    Examples
    --------
    >>> @mechanism(input="total", sensitivity="sensitivity", epsilon="epsilon")
    ... def noisy(total, sensitivity, epsilon, rng):
    ...     return total + rng.laplace(scale=sensitivity / epsilon)
    >>> import numpy as np
    >>> noisy(3.0, 1.0, 1.0, np.random.default_rng(0)) > 0
    True
    """
    terms = {"sensitivity": sensitivity, "epsilon": epsilon, "delta": delta}

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        def handle(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
            bound = signature.bind(*arguments, **keywords)
            bound.apply_defaults()
            named = bound.arguments
            states = {name: named.get(one, one) if isinstance(one, str) else one for name, one in terms.items()}
            states = {name: value for name, value in states.items() if value is not None}
            stated = primitives.Stated(named[input], states, {name: named[name] for name in fixed}, norm)
            name = getattr(function, "__qualname__", "mechanism")
            return recorder.mechanism(name, lambda: original(*arguments, **keywords), stated)

        return functools.wraps(function)(wrapped(function, handle))

    return wrap


# the runs


def run(call: Call, data: bytes, recorder: Recorder, seed: int) -> dict[str, Any]:
    """Run once, and return the output as JSON, or what was raised, and the line that returned."""
    random.seed(seed)
    rng = None
    if "numpy" in sys.modules:
        np: Any = sys.modules["numpy"]
        np.random.seed(seed % 2**32)
        rng = traced_generator(np.random.default_rng(seed))
    dataset = pickle.loads(data)
    returned: list[Any] = []

    def lines(frame: Any, what: str, value: Any) -> Any:
        if what == "return":
            returned[:] = [[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name]]
        return lines

    def first(frame: Any, what: str, value: Any) -> Any:
        file = frame.f_code.co_filename
        if returned or file.startswith((HERE, os.path.dirname(HERE[:-1]) + os.sep, "<")) or is_standard(file):
            return None
        lines(frame, "return", None)
        return lines

    State.recorder = recorder
    sys.settrace(first)
    try:
        output = call(dataset, rng, seed)
    except (Exception, SystemExit) as error:
        sys.settrace(None)
        raised = reversed(traceback.extract_tb(error.__traceback__))
        at = [[one.filename, one.lineno, one.name] for one in raised if not one.filename.startswith(HERE)]
        return {"says": str(error)[:200], "at": at, "leaves": [[RAISES, serve.raised(error)]]}
    finally:
        sys.settrace(None)
        State.recorder = None
    return {"leaves": [[RAISES, None], *leaves(plain(stripped(output)))], "at": returned}


def leaves(value: Any, name: str = "") -> Iterator[list[Any]]:
    """Yield the parts of an output with their names."""
    items = isinstance(value, dict) and "items" in value
    parts = value.get("items", value.get("array")) if isinstance(value, dict) else value
    if not isinstance(parts, list):
        yield [name, value]
        return
    yield [f"{name}.length", len(parts)]
    for number, part in enumerate(parts):
        key, inside = part if items else (number, part)
        yield from leaves(inside, f"{name}[{key!r}]")


def examine(call: Call, x: Any, x_prime: Any, seed: int, free_runs: int, bits: bool = False) -> dict[str, Any]:
    """Record on x, replay on x', and make the further runs that judging needs; return it all as JSON can write it.

    ``free_runs`` on each side, with other random numbers, show whether a part of the output is drawn at all.
    """
    data, data_prime = pickle.dumps(x, -1), pickle.dumps(x_prime, -1)
    record = Recorder()
    outcome = run(call, data, record, seed)
    repeated = run(call, data, Recorder(record), seed)
    replay = Recorder(record)
    outcome_prime = run(call, data_prime, replay, seed)
    sides = [dict(one["leaves"]) for one in (outcome, outcome_prime)]
    names = {**sides[0], **sides[1]}
    # what is the same in all runs of a side, and another on the other
    still = [name for name in names if sides[0].get(name, NOTHING) != sides[1].get(name, NOTHING)]
    differs = bool(still)
    drawn = any(event.kind in DRAWN for event in record.events + replay.events)
    for number in range(1, (free_runs if drawn else 1) + 1):
        for one, known in zip((data, data_prime), sides):  # noqa: B905
            if still:
                found = dict(run(call, one, Recorder(), seed + number)["leaves"])
                still = [name for name in still if found.get(name, NOTHING) == known.get(name, NOTHING)]
    nudge: dict[int, None] = {}
    wanted: dict[int, list[Any]] = {}
    for event in replay.events:
        if event.order is None:
            continue
        before = record.events[event.order]
        moved = event.input is not None and plain(event.input) != plain(before.input)
        if (event.judged and (moved or differs)) or (moved and event.kind == "add"):
            nudge[event.order] = None
        elif moved:
            nudge.update((draw, None) for draw, *_ in before.draws)
        if moved and event.kind == "add" and not before.states["known"]:
            wanted[event.order] = []
    responses = [[number, _response(call, data, record, number, outcome, seed)] for number in [*nudge][:MOST_NUDGED]]
    for number in range(LOOKED_AT * bool(wanted)):  # what is added to inputs that move, where its law is not known
        other = Recorder(record, ())
        run(call, data, other, seed + 1000 + number)
        for event in other.events:
            if event.order in wanted:
                with contextlib.suppress(TypeError, ValueError):
                    noise = event.result - event.input
                    noise = noise.ravel()[:MOST_PLACES] if hasattr(noise, "ravel") else [noise]
                    wanted[event.order].append(plain(noise))
    return {
        "events": [event.to_dict() for event in record.events],
        "events_prime": [event.to_dict() for event in replay.events],
        "outcome": outcome,
        "outcome_prime": outcome_prime,
        "repeated": repeated["leaves"],
        "still": still,
        "responses": responses,
        "sizes": [record.sizes, replay.sizes],
        "noises": [[number, samples] for number, samples in wanted.items()],
        "unseen": sorted({*record.unseen, *replay.unseen}),
        **_looks(record, replay, bits),
    }


def _response(call: Call, data: bytes, record: Recorder, number: int, outcome: dict[str, Any], seed: int) -> list[Any]:
    """Return by how much each part of the output moves for a unit of an answer; None where it is no multiple."""

    def difference(one: Any, other: Any) -> float | None:
        numbers = all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in (one, other))
        return float(one) - float(other) if numbers else None

    before, moves = [value for _, value in outcome["leaves"]], []
    for by in NUDGES:
        # after the nudged answer sums with it are made anew, so that only what is drawn is as recorded
        after = [value for _, value in run(call, data, Recorder(record, DRAWN, number, by), seed)["leaves"]]
        if len(after) != len(before):
            return [None] * len(before)
        moves.append(list(map(difference, after, before)))
    found: list[Any] = []
    for tiny, one, *more in zip(*moves):  # noqa: B905
        steps = [(step, one * by) for step, by in zip(more, NUDGES[2:]) if one and step is not None]  # noqa: B905
        if len(steps) == len(more) and all(abs(step - even) <= SINGLE * abs(even) for step, even in steps):
            found.append(one)
        else:
            found.append(tiny / NUDGES[0] if tiny else None)
    return found


def _looks(record: Recorder, replay: Recorder, bits: bool) -> dict[str, list[Any]]:
    """Look at each mechanism whose input moves: its loss as it states it, its outputs in further calls, and their bits.

    Bits: the sum of the larger input and a float that nearly cancels it is a multiple of half a unit in the last place
    of that input; counted are outputs as near to 0 as that, and those among them that are no such multiple, on x and
    on x'.
    """
    looks: list[Any] = []
    samples: list[Any] = []
    for number, event in enumerate(replay.events):
        inputs = [(event if event.order is None else record.events[event.order]).input, event.input]
        if event.repeat is None or plain(inputs[0]) == plain(inputs[1]):
            continue
        near = []
        if event.norm in primitives.OPAQUE:
            samples.append([event.order, *([plain(event.repeat(one)) for _ in range(FEW_CALLS)] for one in inputs)])
        if bits and all(isinstance(one, (int, float)) for one in inputs):
            largest = max(map(abs, inputs))
            finest = 2.0 ** (math.frexp(largest)[1] - 54)
            for one in inputs:
                outputs = [event.repeat(one) for _ in range(CALLS)]
                outputs = [one for one in outputs if isinstance(one, float) and 0.0 < abs(one) < largest / 4.0]
                near.append([len(outputs), sum(math.fmod(one, finest) != 0.0 for one in outputs)])
        looks.append([number, event.map(*inputs) if event.map else None, near])
    return {"looks": looks, "samples": samples}


def record_all(answers: Any, call: Call, pairs: Any, **settings: Any) -> None:
    """Send what is recorded of each pair, as JSON in bytes, or a sentence on why it is not."""
    rng = sys.modules["numpy"].random.default_rng(0) if "numpy" in sys.modules else None
    with contextlib.suppress(Exception, SystemExit):  # functions import libraries when they are called first
        call(pickle.loads(pickle.dumps(pairs[0][0], -1)), rng, 0)
    replace_samplers()
    for x, x_prime in pairs:
        try:
            told: Any = examine(call, x, x_prime, **settings)
        except Exception as error:  # what cannot be copied, say
            told = f"The function cannot be traced: {type(error).__name__}: {error}."
        answers.send_bytes(json.dumps(told).encode())


def main() -> None:
    """Answer a request on standard input, a JSON object, by a connection whose number is the first word."""
    from multiprocessing.connection import Connection

    answers, given, asked = Connection(int(sys.argv.pop(1)), readable=False), serve.arguments(), json.load(sys.stdin)
    sys.path.insert(0, os.getcwd())
    function, form = serve.imported(given.function), cast(Any, serve.FORMS[given.data])
    made: Callable[[], Any] = function if given.fresh else lambda: function
    takes = serve.wanted(made(), given.parameters)

    def call(data: Any, rng: Any, seed: int) -> Any:
        handed = {name: rng if kind == "rng" else seed % 2**32 for name, kind in takes.items()}
        return made()(data, **given.parameters, **handed)

    pairs = [[form(serve.decoded(one)) for one in pair] for pair in asked.pop("pairs")]
    record_all(answers, call, pairs, **asked)

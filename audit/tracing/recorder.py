"""Runs a function on x and writes down what is drawn and what is added to it; runs it on x' and gives the same answers.

It works inside the process of the audited code, whose random functions it replaces, needs Python 3.8 and no package,
and leaves judging to `epsaudit.tracing.verdicts`. What a replay answers as recorded are draws, sums of noise and
another number, comparisons with noise, and outputs of mechanisms: what comes after these is post-processing, and comes
out as recorded unless data reach it on another way.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import operator
import os
import pickle
import random
import secrets  # noqa: F401  # is replaced
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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


class Event:
    """One call that was recorded."""

    def __init__(
        self,
        kind: str,
        what: str,
        fixed: dict[str, Any] | None = None,
        input: Any = NOTHING,  # the word of the table
        states: dict[str, Any] | None = None,
        draws: Any = (),
        norm: str = "l1",
        repeat: Any = None,
        map: Any = None,  # the word of OpenDP
    ) -> None:
        self.kind, self.what, self.norm, self.repeat, self.map = kind, what, norm, repeat, map
        self.fixed, self.input, self.states, self.draws = fixed or {}, kept(input), states or {}, draws
        self.place = place()
        self.match: int | None = None
        self.result: Any = None

    @property
    def key(self) -> Any:
        return self.kind, self.what, tuple(self.place)

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {name: getattr(self, name) for name in ("kind", "what", "match", "norm")}
        told["at"] = [list(frame) for frame in self.place]
        told["states"] = plain(self.states)["items"]
        told["fixed"] = plain(self.fixed)["items"]
        told["draws"] = [[draw, plain(places), plain(weights)] for draw, places, weights in self.draws]
        if self.input is not NOTHING:
            told["input"] = plain(self.input)
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
        self.depth, self.next, self.thread = 0, 0, threading.get_ident()
        self.unseen: list[str] = []
        self.numbers: dict[Any, deque[int]] = {}
        for number, event in enumerate(before.events if before else ()):
            self.numbers.setdefault(event.key, deque()).append(number)

    @property
    def listens(self) -> bool:
        return self.depth == 0 and threading.get_ident() == self.thread

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
            event = Event(kind, what, **known)
            number = len(self.events)
            self.events.append(event)
            match = self.counterpart(event)
            if (
                kind == "add"
                and self.before is not None
                and (match is None or plain(match.input) != plain(event.input))
            ):
                self.moved.add(number)
            event.result = self.replayed(event, match, make)
            if number == self.nudge:
                with contextlib.suppress(TypeError, ValueError):
                    event.result = nudged(event.result, self.by)
        answer = event.result  # of an array a copy, which the function may write to
        own = getattr(answer, "clone", getattr(answer, "copy", None)) if getattr(answer, "ndim", 0) else None
        return answer if own is None else own()

    def replayed(self, event: Event, match: Event | None, make: Callable[[], Any]) -> Any:
        """Return what was recorded; what is of another size is made anew, of samples only what is beyond it."""
        if match is None or event.kind not in self.frozen or event.states.get("live"):
            return stripped(make())
        if (
            event.kind in ("draw", "mechanism")
            and match.result is not None
            and match.fixed.get("size") == event.fixed.get("size")
        ):
            return match.result
        value, known = stripped(make()), match.result
        if getattr(value, "shape", None) == getattr(known, "shape", None):
            return known
        if event.kind == "sample" and getattr(value, "ndim", 0) == 1 == getattr(known, "ndim", 0):
            value[: len(known)] = known[: len(value)]
        return value

    def counterpart(self, event: Event) -> Event | None:
        """Return the next recorded call of this kind and place, if one is left; those before it are passed over."""
        left = self.numbers.get(event.key)
        while left and self.before is not None:
            number = left.popleft()
            if number >= self.next:
                event.match, self.next = number, number + 1
                return self.before.events[number]
        return None

    def draw(self, what: str, law: str, named: dict[str, Any], make: Callable[[], Any]) -> Any:
        """Answer a sampler that was called with these arguments by a number that knows from where it is."""
        known: dict[str, Any] = {}
        weights = named.pop("p", None) if law == "choice" else None
        centre = next((named.pop(name) for name in ("loc", "mu", "mean") if name in named), NOTHING)
        if weights is not None:
            law, known["input"] = "finite", weights
        elif centre is not NOTHING:
            known["input"] = centre
        kind = "sample" if law in primitives.SAMPLING else "draw"
        fixed = {
            name: value
            for name, value in named.items()
            if value is not None and name not in ("out", "self", "key", "random_state")
        }
        number = len(self.events)
        answer = self.answer(kind, what, make, fixed=fixed, states={"law": law}, **known)
        return of_noise(answer, Noise(((number, places_of(answer), 1.0),))) if law != "finite" else answer


class State:
    """What the replaced functions look at."""

    recorder: Recorder | None = None


def listening() -> Recorder | None:
    """Return the recorder that is to be told of a call."""
    recorder = State.recorder
    if recorder is not None and not recorder.listens:
        if recorder.depth == 0:
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
        if isinstance(value, dict):
            return {"items": [[str(name), plain(one)] for name, one in value.items()]}
        return {"object": type(value).__name__}


def kept(value: Any) -> Any:
    """Return a copy of what later lines may change."""
    value = stripped(value)
    if isinstance(value, (int, float, str, bytes, type(None))) or value is NOTHING or callable(value):
        return value
    try:
        return pickle.loads(pickle.dumps(value, -1))
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


KNOWN = ("laplace", "normal", "exponential", "geometric")
"""Laws of noise whose loss is computed."""
ADD, SUBTRACT = ("add",), ("subtract",)
MULTIPLY, DIVIDE = ("multiply",), ("divide", "true_divide")
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

    def value() -> Any:
        return make(*values)

    if recorder is None or (name in COMPARE and one is not None and other is not None):
        return value()
    if one is not None and other is not None:
        both = one.terms + (other.times(-1.0) if name in SUBTRACT else other).terms
        known = one.known and other.known and name in ADD + SUBTRACT
        joined = recorder.answer("join", name, value, draws=both, states={"known": known})
        return of_noise(joined, Noise(both, known, one.rounded or other.rounded, one.after + other.after))
    noise, number = (one, values[1]) if one is not None else (other, values[0])
    assert noise is not None
    # what was released may meet data again, to be covered by other noise: then it is the output that tells
    live = any(order in recorder.moved for order in (*noise.after, *(draw for draw, *_ in noise.terms)))
    released = any(recorder.events[draw].kind == "mechanism" for draw, *_ in noise.terms) and not noise.known
    if name in COMPARE:
        return recorder.answer("compare", name, value, input=number, draws=noise.terms, states={"live": live})
    if name in ADD + SUBTRACT and not released:
        if name in SUBTRACT:
            noise, number = (noise, -number) if one is not None else (noise.times(-1.0), number)
        about = {"known": noise.known, "rounded": noise.rounded, "after": noise.after, "live": live}
        noise = noise._replace(after=(*noise.after, len(recorder.events)))
        return of_noise(recorder.answer("add", name, value, input=number, draws=noise.terms, states=about), noise)
    answer = recorder.answer("scale", name, value, fixed={"by": number}, draws=noise.terms, states={"live": live})
    if name in MULTIPLY:
        return of_noise(answer, noise.times(number))
    if name in DIVIDE and one is not None:
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
    kind.__neg__ = lambda self: applied("neg", lambda value: -value, self)
    kind.__abs__ = lambda self: applied("abs", abs, self)
    kind.__round__ = lambda self, digits=None: applied("round", lambda value: round(value, digits), self)
    kind.__reduce__ = lambda self: (type(stripped(self)), (stripped(self),))
    kind.__reduce_ex__ = lambda self, protocol: self.__reduce__()
    return kind


@_dunders
class Number(float):
    """A float that knows from which draws it is."""

    __array_priority__ = 1e6  # before scalars and arrays of numpy
    epsaudit_noise: Noise | None = None


@_dunders
class Whole(int):
    """An int that knows from which draws it is."""

    __array_priority__ = 1e6
    epsaudit_noise: Noise | None = None


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
    value: Any = answer
    if isinstance(answer, bool):
        return answer
    kind = getattr(getattr(answer, "dtype", None), "kind", "")
    if isinstance(answer, float) or (kind == "f" and not answer.ndim):
        value = Number(answer)
    elif isinstance(answer, int) or (kind in ("i", "u") and not answer.ndim):
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


def sampler(original: Any, what: str, law: str, words: str, method: bool) -> Any:
    """Return what stands in the place of a sampler."""
    names = words.split()

    def call(*arguments: Any, **keywords: Any) -> Any:
        recorder = listening()
        if recorder is None:
            return original(*arguments, **keywords)
        rest = arguments[1:] if method else arguments
        named: dict[str, Any] = {"size": list(rest)} if names == ["*"] else dict(zip(names, rest))  # noqa: B905  # strict since 3.10
        named.update(keywords)
        for name in {"sigma", "std", "lambd"} & {*named}:
            value: Any = named.pop(name)
            named["scale"] = 1.0 / value if name == "lambd" else value
        if law in ("choice", "order") and names[0] in ("a", "x"):
            return chosen(recorder, original, arguments, keywords, what, law, named)
        if what.endswith("_"):  # a tensor that is filled
            filled = recorder.draw(what, law, named, lambda: original(*arguments, **keywords).clone())
            return arguments[0].data.copy_(filled)
        return recorder.draw(what, law, named, lambda: original(*arguments, **keywords))

    REPLACED.append((original, call))
    return call


def chosen(recorder: Recorder, original: Any, arguments: Any, keywords: Any, what: str, law: str, named: Any) -> Any:
    """Answer what takes from a population, which may be private: by the same places in it as on x.

    With probabilities it is the places that are answered, else the generator goes on from where it stood on x.
    """
    owner, population = arguments[0], named.get("a", named.get("x"))
    if named.get("p") is not None and "numpy" in what:
        whole = isinstance(population, int)
        chances = stripped(named["p"])
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
        return original(*arguments, **keywords)


def replace_samplers() -> None:
    """Put what records in the place of every known sampler whose library is imported, and of numpy's."""
    for kind in (random.Random, random.SystemRandom):
        for name, (law, words) in primitives.PYTHON.items():
            if name in vars(kind) or (kind is random.Random and hasattr(kind, name)):
                setattr(kind, name, sampler(getattr(kind, name), f"random.{name}", law, words, True))
    for name in primitives.PYTHON:
        if hasattr(random, name):
            old, new = getattr(random, name), getattr(random._inst, name)
            REPLACED.append((old, new))
            setattr(random, name, new)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy.random")
        _replace_numpy()
    for owner, known in primitives.OTHERS.items():
        module = owner if owner in sys.modules else owner.rpartition(".")[0]
        if module not in sys.modules:
            continue
        found: Any = importlib.import_module(module)
        found = found if module == owner else getattr(found, owner.rpartition(".")[2], None)
        for name, (law, words) in known.items():
            if hasattr(found, name):
                original = getattr(found, name)
                setattr(found, name, sampler(original, f"{owner}.{name}", law, words, False))
    with contextlib.suppress(Exception):
        _replace_functions(importlib.import_module("math"))
    _replace_mechanisms()
    _replace_where_imported()


def _replace_functions(math: Any) -> None:
    """Let functions of numbers say from where theirs were."""
    for name in ("log", "log1p", "log2", "exp", "sqrt", "copysign", "fabs", "floor", "ceil", "trunc", "pow"):
        original = getattr(math, name)

        def call(value: Any, *others: Any, original: Any = original, name: str = name) -> Any:
            if noise_of(value) is None or State.recorder is None:
                return original(stripped(value), *map(stripped, others))
            return applied(name, lambda number: original(number, *map(stripped, others)), value)

        REPLACED.append((original, call))
        setattr(math, name, call)


def _replace_numpy() -> None:
    np: Any = sys.modules["numpy"]

    def traced_class(kind: Any) -> Any:
        class Kind(type(kind)):  # type: ignore[misc]
            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, kind)

        methods = {
            name: sampler(getattr(kind, name), f"numpy.random.{name}", law, words, True)
            for name, (law, words) in primitives.NUMPY.items()
            if hasattr(kind, name)
        }
        return Kind(kind.__name__, (kind,), {**methods, "__module__": __name__})

    generator, state = np.random.Generator, np.random.RandomState
    GENERATORS[generator], GENERATORS[state] = traced_class(generator), traced_class(state)
    default = np.random.default_rng

    def default_rng(seed: Any = None) -> Any:
        return traced_generator(default(seed))

    REPLACED.extend([(default, default_rng), (generator, GENERATORS[generator]), (state, GENERATORS[state])])
    old = np.random.mtrand._rand
    mine = np.random.mtrand._rand = GENERATORS[state](old._bit_generator)
    np.random.default_rng, np.random.Generator, np.random.RandomState = default_rng, *GENERATORS.values()
    for name in primitives.NUMPY:
        if hasattr(np.random, name):
            REPLACED.append((getattr(np.random, name), getattr(mine, name)))
            setattr(np.random, name, getattr(mine, name))
    for name in ("unique", "bincount", "histogram"):
        _replace_counter(np, name)


GENERATORS: dict[Any, Any] = {}
"""Numpy's classes, and those that record."""


def traced_generator(known: Any) -> Any:
    """Return a generator of numpy that records, on the same stream."""
    kind = GENERATORS.get(type(known))
    if kind is None:
        return known
    return kind(known.bit_generator if hasattr(known, "bit_generator") else known._bit_generator)


def _replace_counter(np: Any, name: str) -> None:
    """Write down how many values a function of numpy found: what decides sizes of later draws."""
    original = getattr(np, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        answer = original(*arguments, **keywords)
        recorder = State.recorder
        if recorder is not None and recorder.listens:
            with recorder.paused():
                first = answer[0] if isinstance(answer, tuple) else answer
                recorder.sizes.append([len(recorder.events), f"np.{name}", [list(one) for one in place()], len(first)])
        return answer

    REPLACED.append((original, call))
    setattr(np, name, call)


def _replace_mechanisms() -> None:
    def asked(name: str, make: Any, value: Any, stated: Any, fixed: Any, norm: str) -> Any:
        recorder = listening()
        if recorder is None:
            return make()
        number = len(recorder.events)
        answer = recorder.answer("mechanism", name, make, fixed=fixed, input=value, states=stated, norm=norm)
        return of_noise(answer, Noise(((number, places_of(answer), 1.0),), False))

    primitives.CALLED = asked
    for known in primitives.MECHANISMS:
        module = sys.modules.get(known.module)
        if module is None:
            continue
        names = (
            [known.owner]
            if known.owner != "*"
            else [name for name, one in vars(module).items() if isinstance(one, type)]
        )
        kinds = {id(kind): kind for name in names if (kind := getattr(module, name, None)) is not None}
        for kind in kinds.values():
            original = vars(kind).get(known.method)
            if original is not None and not hasattr(original, "epsaudit_original"):
                with contextlib.suppress(TypeError):  # a class of C
                    setattr(kind, known.method, _mechanism(known, original))


def _mechanism(known: primitives.Mechanism, original: Any) -> Any:
    library = known.module.partition(".")[0]

    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        recorder = listening()
        if recorder is None:
            return original(self, *arguments, **keywords)
        with recorder.paused():
            value, stated = known.input(self, arguments, keywords), known.states(self)
            fixed = {name: primitives.attribute(self, name) for name in known.fixed}
            if known.norm == "event":  # it is noted down, and nothing is drawn
                recorder.answer("event", f"{library}'s {known.method}", lambda: None, fixed={"event": repr(value)})
                return original(self, *arguments, **keywords)
        number = len(recorder.events)
        answer = recorder.answer(
            "mechanism",
            f"{library}'s {type(self).__name__}",
            lambda: original(self, *arguments, **keywords),
            fixed={name: one for name, one in fixed.items() if one is not None},
            input=value,
            states=stated,
            norm=known.norm,
            repeat=lambda one: original(self, one),
            map=(lambda one, other: known.loss(self, one, other)) if known.loss is not None else None,
        )
        if known.norm == "curvature":
            return primitives.probed(answer, recorder.events[number], self)
        return of_noise(answer, Noise(((number, places_of(answer), 1.0),), "scale" in stated))

    call.epsaudit_original = original  # type: ignore[attr-defined]
    return call


def _replace_where_imported() -> None:
    """Replace functions that modules have by name, and generators that they hold, outside the standard library."""
    new = {id(old): one for old, one in REPLACED}
    wanted, kinds = set(new), set(GENERATORS)
    for name, module in list(sys.modules.items()):
        file = str(getattr(module, "__file__", None) or "")
        if is_standard(file) or name.partition(".")[0] in (*INSIDE, "epsaudit") or not hasattr(module, "__dict__"):
            continue
        names = vars(module)
        if wanted.isdisjoint(map(id, names.values())) and kinds.isdisjoint(map(type, names.values())):
            continue  # as of nearly all
        for attribute, value in list(names.items()):
            if id(value) in new:
                names[attribute] = new[id(value)]
            elif type(value) in GENERATORS:
                names[attribute] = traced_generator(value)


# the runs

Call = Any
"""What calls the audited function with a dataset, a generator or None, and a seed."""


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
        returned.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
        return lines

    State.recorder = recorder
    sys.settrace(first)
    try:
        output = call(dataset, rng, seed)
    except (Exception, SystemExit) as error:
        sys.settrace(None)
        State.recorder = None
        at: list[Any] = []
        step = error.__traceback__
        while step is not None:
            at.insert(0, [step.tb_frame.f_code.co_filename, step.tb_lineno, step.tb_frame.f_code.co_name])
            step = step.tb_next
        at = [one for one in at if not one[0].startswith(HERE)]
        return {"says": str(error)[:200], "at": at, "leaves": [[RAISES, serve.raised(error)]]}
    finally:
        sys.settrace(None)
        State.recorder = None
    return {"leaves": [[RAISES, None], *leaves(plain(stripped(output)))], "at": returned}


def leaves(value: Any, name: str = "") -> Iterator[list[Any]]:
    """Yield the parts of an output with their names."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inside),) = value.items()
        if kind == "items":
            yield [f"{name}.length", len(inside)]
            for key, part in inside:
                yield from leaves(part, f"{name}[{key!r}]")
            return
        if kind == "array":
            value = inside
    elif isinstance(value, dict) and "array" in value:
        value = value["array"]
    if isinstance(value, list):
        yield [f"{name}.length", len(value)]
        for number, part in enumerate(value):
            yield from leaves(part, f"{name}[{number}]")
    else:
        yield [name, value]


def examine(call: Call, x: Any, x_prime: Any, seed: int, free_runs: int, bits: bool = False) -> dict[str, Any]:
    """Record on x, replay on x', and make the further runs that judging needs; return it all as JSON can write it.

    ``free_runs`` on each side, with other random numbers, show whether a part of the output is drawn at all.
    """
    data, data_prime = pickle.dumps(x, -1), pickle.dumps(x_prime, -1)
    record = Recorder()
    outcome = run(call, data, record, seed)
    again, replay = Recorder(record), Recorder(record)
    repeated = run(call, data, again, seed)
    outcome_prime = run(call, data_prime, replay, seed)
    differs = outcome["leaves"] != outcome_prime["leaves"]
    still: list[Any] = []  # what is the same in all runs of a side, and another on the other
    if differs:
        sides = [dict(one["leaves"]) for one in (outcome, outcome_prime)]
        still = [
            name for name in {**sides[0], **sides[1]} if sides[0].get(name, NOTHING) != sides[1].get(name, NOTHING)
        ]
        drawn = any(event.kind in DRAWN for event in record.events + replay.events)
        for number in range(1, (free_runs if drawn else 1) + 1):
            for one, known in zip((data, data_prime), sides):  # noqa: B905
                found = dict(run(call, one, Recorder(), seed + number)["leaves"])
                still = [name for name in still if found.get(name, NOTHING) == known.get(name, NOTHING)]
            if not still:
                break
    wanted: dict[int, None] = {}
    for event in replay.events:
        if event.match is None:
            continue
        moved = event.input is not NOTHING and plain(event.input) != plain(record.events[event.match].input)
        if (event.kind in ("mechanism", "draw") and (moved or differs)) or (moved and event.kind == "add"):
            wanted[event.match] = None
        elif moved:
            wanted.update((draw, None) for draw, *_ in record.events[event.match].draws)
    responses = {number: _response(call, data, record, number, outcome, seed) for number in list(wanted)[:MOST_NUDGED]}
    return {
        "events": [event.to_dict() for event in record.events],
        "events_prime": [event.to_dict() for event in replay.events],
        "outcome": outcome,
        "outcome_prime": outcome_prime,
        "repeated": repeated["leaves"],
        "still": still,
        "responses": [[number, response] for number, response in responses.items()],
        "sizes": [record.sizes, replay.sizes],
        "noises": _noises(call, data, record, replay, seed),
        "unseen": sorted({*record.unseen, *replay.unseen}),
        "looks": _looks(record, replay, bits),
    }


def _noises(call: Call, data: bytes, record: Recorder, replay: Recorder, seed: int) -> list[Any]:
    """Return what is added to inputs that move in further runs, where it comes of draws of no known law."""
    wanted: dict[int, list[Any]] = {}
    for event in replay.events:
        if event.kind != "add" or event.match is None:
            continue
        before = record.events[event.match]
        if not before.states["known"] and plain(before.input) != plain(event.input):
            wanted[event.match] = []
    for number in range(LOOKED_AT * bool(wanted)):
        other = Recorder(record, ())
        run(call, data, other, seed + 1000 + number)
        for event in other.events:
            if event.match in wanted:
                with contextlib.suppress(TypeError, ValueError):
                    noise = event.result - event.input
                    wanted[event.match].append(
                        plain(noise.ravel()[:MOST_PLACES] if hasattr(noise, "ravel") else [noise])
                    )
    return [[number, samples] for number, samples in wanted.items()]


def _response(call: Call, data: bytes, record: Recorder, number: int, outcome: dict[str, Any], seed: int) -> list[Any]:
    """Return by how much each part of the output moves for a unit of an answer; None where it is no multiple."""
    before = [value for _, value in outcome["leaves"]]
    moves = []
    for by in NUDGES:
        # after the nudged answer sums with it are made anew, so that only what is drawn is as recorded
        after = [value for _, value in run(call, data, Recorder(record, DRAWN, number, by), seed)["leaves"]]
        if len(after) != len(before):
            return [None] * len(before)
        moves.append([_difference(one, other) for one, other in zip(after, before)])  # noqa: B905
    found: list[Any] = []
    for tiny, one, two, three, five in zip(*moves):  # noqa: B905
        steps = zip((two, three, five), NUDGES[2:])  # noqa: B905
        even = one and None not in (two, three, five)
        if even and all(abs(step - one * by) <= SINGLE * abs(one * by) for step, by in steps):
            found.append(one)
        else:
            found.append(tiny / NUDGES[0] if tiny else None)
    return found


def _difference(one: Any, other: Any) -> float | None:
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return float(one) - float(other) if numbers and not isinstance(one, bool) else None


def _looks(record: Recorder, replay: Recorder, bits: bool) -> list[Any]:
    """Look at each mechanism whose input moves: its loss as it states it, its outputs in further calls, and their bits.

    Of outputs it is said whether those on x and on x' are apart. Bits: the sum of the larger input and a float that
    nearly cancels it is a multiple of half a unit in the last place of that input; counted are outputs as near to 0 as
    that, and those among them that are no such multiple, on x and on x'.
    """
    found = []
    for number, event in enumerate(replay.events):
        if event.match is None or event.kind != "mechanism":
            continue
        inputs = [record.events[event.match].input, event.input]
        if event.repeat is None or plain(inputs[0]) == plain(inputs[1]):
            continue
        look: dict[str, Any] = {"loss": event.map(*inputs) if event.map is not None else None}
        opaque = event.norm in primitives.OPAQUE
        if opaque:
            look["apart"] = apart(*([event.repeat(one) for _ in range(FEW_CALLS)] for one in inputs))
        if bits and all(isinstance(one, (int, float)) for one in inputs):
            outputs = [[event.repeat(one) for _ in range(CALLS)] for one in inputs]
            largest = max(map(abs, inputs))
            finest = 2.0 ** (math.frexp(largest)[1] - 54)
            near = [
                [one for one in side if isinstance(one, float) and 0.0 < abs(one) < largest / 4.0] for side in outputs
            ]
            look["bits"] = [[len(side), sum(math.fmod(one, finest) != 0.0 for one in side)] for side in near]
        found.append([number, look])
    return found


def apart(side: list[Any], side_prime: list[Any]) -> bool:
    """Whether two samples have nothing in common: few different outputs and none on both sides, or ranges apart."""
    if all(isinstance(one, float) for one in side + side_prime):
        return bool(max(side) < min(side_prime) or max(side_prime) < min(side))
    texts = [{repr(plain(one)) for one in outputs} for outputs in (side, side_prime)]
    return not texts[0] & texts[1] and min(map(len, texts)) <= len(side) / 4


def warm(call: Call, x: Any) -> None:
    """Run once before anything is replaced: functions import libraries when they are called first."""
    rng = sys.modules["numpy"].random.default_rng(0) if "numpy" in sys.modules else None
    with contextlib.suppress(Exception, SystemExit):
        call(pickle.loads(pickle.dumps(x, -1)), rng, 0)
    replace_samplers()


def main() -> None:
    """Answer one request, a JSON object on standard input, by one on standard output."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    asked = json.loads(sys.stdin.read())
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    sys.path.insert(0, os.getcwd())
    function = serve.imported(asked["function"])
    parameters: Any = asked["parameters"]
    form: Any = serve.FORMS[asked["data"]]
    x, x_prime = (form(serve.decoded(one)) for one in asked["pair"])
    takes = serve.wanted(function() if asked["fresh"] else function, parameters)

    def call(data: Any, rng: Any, seed: int) -> Any:
        made = function() if asked["fresh"] else function
        handed = {name: rng if kind == "rng" else seed % 2**32 for name, kind in takes.items()}
        return made(data, **parameters, **handed)

    warm(call, x)
    json.dump(examine(call, x, x_prime, asked["seed"], asked["free_runs"], asked["bits"]), answers)
    answers.close()

"""Runs a function on x and writes down what is drawn and what is added to it; runs it on x' and gives the same answers.

It works inside the process of the audited code, whose random functions it replaces, needs Python 3.8 and no package,
and leaves judging to `epsaudit.tools.tracing.verdicts`. What a replay answers as recorded are draws, sums of noise and
another number, comparisons with noise, and outputs of mechanisms: what comes after these is post-processing, and comes
out as recorded unless data reach it on another way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import math
import operator
import os
import pickle
import random
import secrets  # noqa: F401  # is replaced
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple  # noqa: UP035  # the aliases below are evaluated, and Python 3.8 may run this

from epsaudit import serve
from epsaudit.tools.tracing import primitives

np: Any = importlib.import_module("numpy") if importlib.util.find_spec("numpy") else None
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
STANDARD = os.path.dirname(os.__file__)
INSIDE = ("numpy", "scipy", "torch", "jax", "jaxlib", "random", "secrets", "copy", "importlib")
"""Modules whose own lines are not where a draw is said to be."""
NUDGES = (1e-6, 1e3, 2e3, -3e3)
"""By what an answer is moved, little and far beyond what rounds (`EVEN`), to see whether the output is a number that
follows it; a selection does not, neither by the first, for which it is too small, nor in proportion to the others."""
EVEN = 2.0 / NUDGES[1]
"""Relative error of multiples: whole numbers are rounded before and after a move."""
LOOKED_AT = 100
"""Further runs on each side, where numbers move that meet noise of no known law: of Laplace noise a fifth of the scale
of a move, 100 outputs on one side are beyond all on the other, and half of them of noise as large as the move."""
MOST_NUDGED = LOOKED_AT // 4
"""[time] Draws whose answers are moved, four runs each; of the others it is said that they reach the output."""
FEW_CALLS = 512
"""Calls of a mechanism of compiled code on each of two inputs, to see whether its outputs are apart: under 1-DP half of
those on one side are among a fifth of those on the other, of which none is with probability 1e-45."""
MOST_PLACES = 64
"""[time] Of an array with such noise that are looked at: to send all runs of 64 takes 17 ms, of 10,000 2.6 s."""
CALLS = 2048
"""Calls of a mechanism on each of two inputs, to see which bits it leaves: of Gaussian noise of scale 5 beside a step
of 1 about 80 outputs are near 0."""
RAISES = ".exception"
"""The name of the part of an outcome that says what was raised."""
DRAWN = ("draw", "sample", "mechanism")
"""Kinds of events whose answers are drawn."""
FROZEN = (*DRAWN, "add", "compare")
"""Those that a replay answers as recorded; what is multiplied, or composed, is made anew."""
Call = Callable[[Any, Any, int], Any]
"""Of the audited function, with a dataset, a generator or None, and a seed."""


@dataclasses.dataclass
class Event:
    """One call, in values that JSON can write, as it is recorded and as `epsaudit.tools.tracing.verdicts` reads it."""

    kind: str
    what: str
    at: Any
    fixed: dict[str, Any]
    """What must not depend on data."""
    input: Any
    """What noise is added to, or a mechanism is given; None of a call that has none."""
    states: dict[str, Any]
    draws: Any
    """Events and weights whose sum it is; of an input that moved, the noise that it meets."""
    norm: str = "l1"
    order: int | None = None
    """The number of the recorded call that it is like."""
    gaps: Any = None
    """By how much each number of its input moved; None of what is no array of numbers."""

    @property
    def call(self) -> Any:
        return self.kind, self.what, self.at

    @property
    def judged(self) -> bool:
        """Whether how often it is called must not depend on data."""
        return self.kind in ("draw", "mechanism")

    @property
    def law(self) -> Any:
        return self.states.get("law")


class Recorder:
    """The events of one run; with ``before``, a recorded one, it answers like that where calls are the same."""

    current: Recorder | None = None
    """The one that is told of calls."""

    profiles = False
    """Whether modules are looked at when their code first runs, and the line is noted at which the function returns."""

    def __init__(self, before: Recorder | None = None, frozen: Any = FROZEN, nudge: Any = (None, 0.0)) -> None:
        self.profiles = frozen is FROZEN  # of further runs nobody asks
        self.events: list[Event] = []
        self.results: dict[int, Any] = {}
        self.repeats: dict[int, Any] = {}
        """What calls were answered, and of mechanisms what calls them once more, by the numbers of their events."""
        self.before, self.frozen, self.nudge = before, frozen, nudge
        self.moved: set[int] = set()
        """Calls with a number that is not as recorded."""
        self.unseen: list[str] = []
        self.next, self.thread = 0, threading.get_ident()

    def answer(
        self, kind: str, what: str, make: Any, input: Any = None, states: Any = None, fixed: Any = None,
        norm: str = "l1", draws: Any = (),
    ) -> Any:  # fmt: skip
        """Write down a call, and answer it as the next recorded one of this kind and place, or else by ``make()``.

        What was of another size is as it is made, of samples only what is beyond it.
        """
        with paused():
            told = [{name: plain(value) for name, value in (some or {}).items()} for some in (fixed, states)]
            event = Event(kind, what, place(), told[0], plain(input), told[1], plain(draws), norm)
            number, recorded = len(self.events), self.before.events if self.before else []
            left = (order for order in range(self.next, len(recorded)) if recorded[order].call == event.call)
            event.order = next(left, None)
            self.events.append(event)
            answer = stripped(make())
            if event.order is not None:
                self.next = event.order + 1
            if kind == "add" and self.before and (event.order is None or recorded[event.order].input != event.input):
                self.moved.add(number)
            if self.before and event.order is not None and kind in self.frozen and not event.states.get("live"):
                known: Any = self.before.results.get(event.order)
                if (getattr(answer, "shape", None) or ()) == (getattr(known, "shape", None) or ()):  # of numbers ()
                    answer = known
                elif kind == "sample" and getattr(answer, "ndim", 0) == 1 == getattr(known, "ndim", 0):
                    answer[: len(known)] = known[: len(answer)]
            if number == self.nudge[0]:
                whole = isinstance(answer, int) or getattr(getattr(answer, "dtype", None), "kind", "f") in ("i", "u")
                with contextlib.suppress(TypeError, ValueError):  # of what is no number
                    answer = answer + (int(self.nudge[1]) if whole else self.nudge[1])
            self.results[number] = answer
        # of an array a copy, which the function may write to
        own = getattr(answer, "clone", getattr(answer, "copy", None)) if getattr(answer, "ndim", 0) else None
        return answer if own is None else own()

    def drawn(self, kind: str, what: str, make: Any, *told: Any) -> Any:
        """Answer a call by a number that knows from which draw it is."""
        number, answer = len(self.events), self.answer(kind, what, make, *told)
        self.events[number].states["single"] = not getattr(answer, "ndim", 0)
        return of_noise(answer, Noise(((number, 1.0),), kind != "mechanism"))

    def mechanism(self, what: str, make: Any, stated: primitives.Stated) -> Any:
        """Answer a mechanism as a whole; of events of an accountant it is noted what they are."""
        *told, after = stated
        if stated.norm == "event":
            return self.answer("event", what, make, *told)
        number = len(self.events)
        self.repeats[number] = make
        answer = self.drawn("mechanism", what, make, *told)
        return after(stripped(answer), self.events[number]) if after else answer


def listening() -> Recorder | None:
    """Return the recorder that is to be told of a call."""
    recorder = Recorder.current
    if recorder is not None and threading.get_ident() != recorder.thread:
        recorder.unseen.append("another thread drew random numbers")
        return None
    return recorder


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Let no recorder listen."""
    recorder, Recorder.current = Recorder.current, None
    try:
        yield
    finally:
        Recorder.current = recorder


def place() -> list[tuple[str, int, str]]:
    """Return file, line and function of the calls that led here, the innermost first, but for those of samplers."""
    found: list[tuple[str, int, str]] = []
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code is not run.__code__:
        file = frame.f_code.co_filename
        inside = not found and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE
        if not inside and not file.startswith((HERE, "<")):
            found.append((file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


@functools.lru_cache(None)
def is_audited(file: str) -> bool:
    """Whether a file is neither Python's own nor one that calls what is audited."""
    ours = file.startswith((HERE, os.path.join(os.path.dirname(serve.__file__), "running"), serve.__file__, "<"))
    return not ours and (not file.startswith(STANDARD) or "-packages" in file)


def plain(value: Any) -> Any:
    """Return a value as JSON, and what JSON cannot write by its type."""
    try:
        return serve.encode_value(value)
    except Exception:  # whatever an object's own methods raise
        return {"object": type(value).__name__}


# numbers that know from which draws they are


class Noise(NamedTuple):
    """Of which draws a number is the sum: the number of the event, and the weight, or weights."""

    terms: tuple[tuple[int, Any], ...]
    known: bool = True
    """False after a function that is neither a sum nor a multiple."""
    after: tuple[int, ...] = ()
    """Sums that made it, by the numbers of their events."""

    def times(self, factor: Any) -> Noise:
        return self._replace(terms=tuple((draw, weight * factor) for draw, weight in self.terms))


COMPARE = ("less", "less_equal", "greater", "greater_equal")
DUNDERS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "pow": "power",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip


def combined(name: str, make: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return what an operation makes of two numbers, at least one of which is noise, and write it down."""
    recorder, given, known = listening(), (stripped(left), stripped(right)), [noise_of(left), noise_of(right)]
    value = functools.partial(make, *given)
    if recorder is None or (name in COMPARE and all(known)):
        return value()
    sums, second = name in ("add", "subtract"), known[0] is None
    if name == "subtract" and known[1] is not None:
        known[1] = known[1].times(-1.0)
    first, *others = filter(None, known)
    number = None if others else given[not second]
    noise = first if not others else Noise(
        first.terms + others[0].terms, first.known and others[0].known and sums, first.after + others[0].after
    )  # fmt: skip
    draws = [draw for draw, _ in noise.terms]
    # what was released may meet data again, to be covered by other noise: then it is the output that tells
    about = {"known": noise.known, "after": noise.after, "live": not recorder.moved.isdisjoint((*noise.after, *draws))}
    told: dict[str, Any] = {"states": about, "draws": noise.terms}
    if name in COMPARE:
        return recorder.answer("compare", name, value, number, **told)
    released = not noise.known and any(recorder.events[draw].kind == "mechanism" for draw in draws)
    if number is None or (sums and not released):
        noise = noise._replace(after=(*noise.after, len(recorder.events)))
        moves = -number if name == "subtract" and number is not None and not second else number
        return of_noise(recorder.answer("add", name, value, moves, **told), noise)
    answer = recorder.answer("scale", name, value, fixed={"by": number}, **told)
    if name == "multiply":
        return of_noise(answer, noise.times(number))
    if name in ("divide", "true_divide") and not second:
        with contextlib.suppress(ZeroDivisionError):
            return of_noise(answer, noise.times(1.0 / number))
    return of_noise(answer, noise._replace(known=False))


def applied(name: str, make: Callable[[Any], Any], value: Any) -> Any:
    """Return what a function makes of a number that is noise."""
    noise, answer = noise_of(value), make(stripped(value))
    if noise is None or Recorder.current is None:
        return answer
    return of_noise(answer, noise.times(-1.0) if name == "negative" else noise._replace(known=False))


def noise_of(value: Any) -> Noise | None:
    """Return from where a number is, None of one that is not noise."""
    return getattr(value, "epsaudit_noise", None)


def _noisy(base: Any) -> Any:
    """Return a type of numbers that know from which draws they are, and write down what is done with them."""

    def two(short: str, name: str, turned: bool) -> Any:
        make = getattr(operator, short)

        def operation(self: Any, number: Any) -> Any:
            if not isinstance(number, (int, float)) and type(number).__module__ != "numpy" and noise_of(number) is None:
                return NotImplemented  # a frame or a tensor: it is not seen what becomes of the sum
            return combined(name, make, number, self) if turned else combined(name, make, self, number)

        return operation

    return type(base.__name__, (base,), {
        "epsaudit_noise": None,
        "__array_priority__": 1e6,  # before scalars and arrays of numpy
        "__neg__": lambda self: applied("negative", operator.neg, self),
        "__abs__": lambda self: applied("absolute", abs, self),
        "__round__": lambda self, digits=None: applied("round", lambda value: round(value, digits), self),
        "__reduce_ex__": lambda self, protocol: (base, (base(self),)),
        **{f"__{short}__": two(short, name, False) for short, name in DUNDERS.items()},
        **{f"__r{short}__": two(short, name, True) for short, name in DUNDERS.items() if name not in COMPARE},
    })  # fmt: skip


Number, Whole = _noisy(float), _noisy(int)


def stripped(value: Any) -> Any:
    """Return a number, an array, or a list of these, that knows nothing of its draws."""
    if hasattr(value, "epsaudit_noise"):
        kind: Any = type(value).__base__
        return kind(value) if isinstance(value, (float, int)) else value.view(kind)
    if type(value) in (list, tuple) and any(hasattr(one, "epsaudit_noise") for one in value):
        return type(value)(map(stripped, value))
    return value


def of_noise(answer: Any, noise: Noise) -> Any:
    """Return an answer that knows from which draws it is; what is no number, or a tensor, as it is."""
    kind = "f" if isinstance(answer, float) else "i" if type(answer) is int else ""
    kind, single = kind or getattr(getattr(answer, "dtype", None), "kind", ""), not getattr(answer, "ndim", 0)
    if kind not in ("f", "i", "u") or not (single or isinstance(answer, np.ndarray)):
        return answer
    value = answer.view(Array) if not single else Number(answer) if kind == "f" else Whole(answer)
    value.epsaudit_noise = noise
    return value


class Array(np.ndarray if np else object):  # type: ignore[misc]
    """An array that knows from which draws it is."""

    epsaudit_noise: Noise | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
        known = [noise_of(one) for one in inputs]
        if method != "__call__" or settings or len(inputs) > 2 or not any(known) or ufunc.nout > 1:
            given = settings if out is None else {**settings, "out": tuple(map(stripped, out))}
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
        weights = (np.broadcast_to(one, self.shape)[stripped(key)] if np.ndim(one) else one for _, one in noise.terms)
        terms = tuple((draw, one) for (draw, _), one in zip(noise.terms, weights))  # noqa: B905  # strict since 3.10
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


# what draws, replaced where it stands

REPLACED: dict[int, tuple[Any, Any]] = {}
"""Functions and what stands in their place, by what id() says of them, for modules that imported them by name."""
KNOWN: dict[int, dict[str, Any]] = {}
"""Names of modules in which that is done."""
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

    return call


def put(owner: Any, name: str, handle: Handler) -> None:
    """Replace a function of a module, or a method of a class, where it is there."""
    if (original := getattr(owner, name, None)) is not None:
        with contextlib.suppress(TypeError):  # of a class of C
            setattr(owner, name, call := wrapped(original, handle))
            REPLACED[id(original)] = original, call


def sampler(what: str, law: str, words: str) -> Handler:
    """Return what answers a sampler that takes these arguments by position."""
    names = words.split()

    def handle(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
        named: dict[str, Any] = {**dict(zip(names, arguments)), **keywords}  # noqa: B905  # strict since 3.10
        if "*" in names:
            named = {**keywords, "size": list(arguments[len(names) - 1 :])}
        make = functools.partial(original, *arguments, **keywords)
        if {"a", "x"} & {*names}:  # taken from a population, which may be private; by weights it is a selection
            weighted = "numpy" in what and named.get("p") is not None
            return recorder.answer("sample", what, make, states={"live": not weighted})
        for name in {"sigma", "std", "lambd"} & {*named}:
            value: Any = named.pop(name)
            named["scale"] = 1.0 / value if name == "lambd" else value
        centre = next((named.pop(name) for name in ("loc", "mu", "mean") if name in named), None)
        aside, filled = ("out", "self", "key", "random_state"), what.endswith("_")  # a tensor
        fixed = {name: value for name, value in named.items() if value is not None and name not in aside}
        kind = "sample" if law == primitives.SAMPLED else "draw"
        states = {"law": law, **({"filled": True} if filled or named.get("out") is not None else {})}
        answer = recorder.drawn(kind, what, (lambda: make().clone()) if filled else make, centre, states, fixed)
        return arguments[0].data.copy_(answer) if filled else answer

    return handle


def of_function(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
    """Answer a function of numbers, which says from where theirs are."""
    value, *others = arguments
    return applied(original.__name__, lambda number: original(number, *map(stripped, others), **keywords), value)


def counted(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
    """Write down how many values a function of numpy found: what decides sizes of later draws."""
    answer = original(*arguments, **keywords)
    many = len(answer[0] if isinstance(answer, tuple) else answer)
    return recorder.answer("count", f"np.{original.__name__}", lambda: answer, states={"values": many})


def stating(library: str, method: str, read: Any) -> Handler:
    """Return what answers a mechanism of a library, by what ``read(self, argument)`` says of its calls."""

    def handle(recorder: Recorder, original: Any, arguments: Any, keywords: Any) -> Any:
        with paused():
            stated = read(arguments[0], next(iter((*arguments[1:], *keywords.values())), None))
        what = f"{library}'s {method if stated.norm == 'event' else type(arguments[0]).__name__}"
        return recorder.mechanism(what, functools.partial(original, *arguments, **keywords), stated)

    return handle


class Recording(type):
    """Of a class that records: what its original makes is an instance of it, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


def replace_samplers() -> None:
    """Put what records in the place of all that is in the tables, and counts of numpy, where a library is imported."""
    if np is not None:
        for name in ("Generator", "RandomState"):
            kind = getattr(np.random, name)
            GENERATORS[kind] = Recording(name, (kind,), {"__module__": __name__})
            setattr(np.random, name, GENERATORS[kind])
        put(np.random, "default_rng", lambda _, original, given, named: traced_generator(original(*given, **named)))
        np.random.mtrand._rand = traced_generator(np.random.mtrand._rand)
        for one in vars(sys.modules["scipy.stats"]).values() if "scipy.stats" in sys.modules else ():
            if hasattr(one, "_random_state"):  # a distribution, which scales draws of numpy
                one._random_state = np.random.mtrand._rand
        for name in ("unique", "bincount", "histogram"):
            put(np, name, counted)
    for name in ("log", "log1p", "log2", "exp", "sqrt", "copysign", "fabs", "floor", "ceil", "trunc", "pow"):
        put(math, name, of_function)
    for owners, calls in primitives.SAMPLERS.items():
        for path in (paths := owners.split()):
            parent, _, part = path.rpartition(".")
            owner = sys.modules.get(path) or getattr(sys.modules.get(parent), part, None)
            for name, (law, words) in calls.items():
                own = "self " if isinstance(owner, type) else ""
                put(owner, name, sampler(f"{paths[-1]}.{name}", law, own + words))
    for where, owner, method, read in primitives.MECHANISMS:
        names = vars(sys.modules[where]) if where in sys.modules else {}
        kinds: list[Any] = [one for name, one in names.items() if isinstance(one, type) and owner in (name, "*")]
        for kind in kinds:
            kinds += [one for one in kind.__subclasses__() if one not in kinds]
            if method in vars(kind):
                put(kind, method, stating(where.partition(".")[0], method, read))
    REPLACED.update((id(old), (old, one)) for old, one in GENERATORS.items())


def replace_names(names: dict[str, Any]) -> None:
    """Replace functions that a module has by name, and its generators, and those of modules that it has imported.

    It is done when code of it first runs: looking at all modules of a process takes longer than most functions.
    """
    if id(names) in KNOWN:
        return
    for held in (names, *(vars(one) for one in names.values() if type(one) is type(sys))):
        outside = str(held.get("__name__")).partition(".")[0] in (*INSIDE, "epsaudit")
        if id(held) in KNOWN or outside or not is_audited(str(held.get("__file__"))):
            continue
        for name, value in list(held.items()):
            _, held[name] = REPLACED.get(id(value), (None, traced_generator(value)))
    KNOWN[id(names)] = names


def traced_generator(known: Any) -> Any:
    """Return a generator of numpy that records, on the same stream."""
    kind = GENERATORS.get(type(known))
    return known if kind is None else kind(getattr(known, "bit_generator", None) or known._bit_generator)


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


def run(call: Call, data: bytes, recorder: Recorder, seed: int, write: Any = None) -> dict[str, Any]:
    """Run once, and return the output as JSON, or what was raised, and the line that returned.

    ``write`` makes JSON of the output, `written` if it is not given.
    """
    random.seed(seed)
    rng = None
    if np is not None:
        np.random.seed(seed % 2**32)
        rng = traced_generator(np.random.default_rng(seed))
    dataset = pickle.loads(data)
    returned: list[Any] = []

    def listens(frame: Any, what: str, value: Any) -> None:
        if what == "call":
            replace_names(frame.f_globals)
        elif what == "return" and is_audited(frame.f_code.co_filename):  # the last one is where it returned
            returned[:] = [[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name]]

    Recorder.current = recorder
    sys.setprofile(listens if recorder.profiles else None)
    try:
        output = consumed(call(dataset, rng, seed))
    except (Exception, SystemExit) as error:
        raised = reversed(traceback.extract_tb(error.__traceback__))
        at = [[one.filename, one.lineno, one.name] for one in raised if not one.filename.startswith(HERE)]
        return {"leaves": {RAISES: serve.exception_name(error)}, "says": str(error)[:200], "at": at}
    finally:
        sys.setprofile(None)
        Recorder.current = None
    parts = (write or written)(output)
    return {"leaves": {RAISES: None, **dict(leaves(parts))}, "at": returned, "unread": sorted({*unread(parts)})}


def consumed(value: Any) -> Any:
    """Return an output with each stream in it as a list: a generator function draws only while it is read."""
    if hasattr(type(value), "__next__") and hasattr(type(value), "__iter__"):
        return [consumed(part) for part in serve.read_stream(value)]
    if type(value) in (list, tuple):
        return type(value)(map(consumed, value))
    return {key: consumed(part) for key, part in value.items()} if type(value) is dict else value


def written(output: Any) -> Any:
    """Return an output as JSON; a part that is of no known type is written as ``{"object": its type}``."""
    output = stripped(output)
    with contextlib.suppress(Exception):  # whatever an object's own methods raise
        return serve.encode_value(output)
    if isinstance(output, dict):
        return {"items": [[plain(key), written(part)] for key, part in output.items()]}
    return list(map(written, output)) if isinstance(output, (list, tuple)) else {"object": type(output).__name__}


def unread(parts: Any) -> Iterator[str]:
    """Yield the type names of the objects in an output that nothing is known of."""
    if isinstance(parts, dict):
        if "object" in parts:
            yield parts["object"]
        parts = parts.get("items")
    for part in parts if isinstance(parts, list) else ():
        yield from unread(part)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of an output with their names: also the length of a sequence, a shape, and the order of keys."""
    items = isinstance(value, dict) and "items" in value
    parts = value.get("items", value.get("array")) if isinstance(value, dict) else value
    if not isinstance(parts, list):
        yield name, value
        return
    yield f"{name}.length", len(parts)
    if items:
        yield f"{name}.keys", [key for key, _ in parts]
    elif isinstance(value, dict):
        yield f"{name}.shape", value["shape"]
    for key, part in parts if items else enumerate(parts):
        yield from leaves(part, f"{name}[{key!r}]")


def examine(call: Call, x: Any, x_prime: Any, seed: int, free_runs: int, bits: bool = False) -> dict[str, Any]:
    """Record on x, replay on x', and make the further runs that judging needs; return it all as JSON can write it.

    ``free_runs`` on each side, with other random numbers, show whether a part of the output is drawn at all.
    """
    both, record = (pickle.dumps(x, -1), pickle.dumps(x_prime, -1)), Recorder()
    outcome, repeated = run(call, both[0], record, seed), run(call, both[0], Recorder(record), seed)
    replay = Recorder(record)
    outcome_prime = run(call, both[1], replay, seed)
    sides = outcome["leaves"], outcome_prime["leaves"]
    # what is the same in all runs of a side, and another on the other
    still = [name for name in {**sides[0], **sides[1]} if sides[0].get(name, ...) != sides[1].get(name, ...)]
    matched = {one.order: one for one in replay.events if one.order is not None}
    moved = {order: record.events[order] for order, one in matched.items() if one.input != record.events[order].input}
    follow = {"add": moved, "draw": matched if still else moved}
    nudged = [order for order, one in matched.items() if order in follow.get(one.kind, ())]
    # of what moves and meets noise of no known law, what it makes on both sides, in runs that are not alike
    unknown = [order for order, one in moved.items() if one.kind == "add" and not one.states["known"]]
    samples: dict[int, Any] = {order: ([], []) for order in unknown}
    drawn = any(event.kind in DRAWN for event in record.events + replay.events)
    for number in range(2 * max(free_runs, LOOKED_AT * bool(samples)) if drawn else 2):
        if still or samples:
            side, free = number % 2, Recorder(record, ())
            found = run(call, both[side], free, seed + 1 + number)["leaves"]
            still = [name for name in still if found.get(name, ...) == sides[side].get(name, ...)]
            for place, event in enumerate(free.events):
                if event.order in samples:
                    made: Any = free.results.get(place)
                    some = made.ravel()[:MOST_PLACES] if hasattr(made, "ravel") else made
                    samples[event.order][side].append(plain(some))
    for number, make in replay.repeats.items():
        event, order = replay.events[number], replay.events[number].order
        if order is not None and order in moved and (bits or event.norm in primitives.OPAQUE):
            calls = range(CALLS if bits else FEW_CALLS)
            samples[order] = [[plain(again()) for _ in calls] for again in (record.repeats[order], make)]
    return {
        "events": [vars(event) for event in record.events],
        "events_prime": [vars(event) for event in replay.events],
        "outcome": outcome,
        "outcome_prime": outcome_prime,
        "repeated": repeated["leaves"],
        "still": still if free_runs or not drawn else [],
        "responses": [[one, _response(call, both[0], record, one, sides[0], seed)] for one in nudged[:MOST_NUDGED]],
        "samples": [[order, *made] for order, made in samples.items()],
        "bits": bits,
        "unseen": sorted({*record.unseen, *replay.unseen}),
        "unread": sorted({*outcome.get("unread", ()), *outcome_prime.get("unread", ())}),
    }


def _response(
    call: Call, data: bytes, record: Recorder, number: int, before: dict[str, Any], seed: int
) -> dict[str, tuple[float, bool]]:
    """Return by how much parts of the output move for a unit of an answer, and whether that is all they do.

    A number that is rounded moves in proportion, but by nothing for the smallest move; a selection by 0, but moves.
    """
    # after the nudged answer sums with it are made anew, so that only what is drawn is as recorded
    runs, found = [run(call, data, Recorder(record, DRAWN, (number, by)), seed)["leaves"] for by in NUDGES], {}
    whole = type(record.results[number]) is int
    for name, value in before.items():
        after = [one.get(name) for one in runs]
        if all(type(one) in (int, float) for one in (value, *after)):
            tiny, *far = ((one - value) / by for one, by in zip(after, NUDGES))  # noqa: B905  # strict since 3.10
            slope = far[-1]
            even = slope and all(abs(one - slope) <= EVEN * abs(slope) for one in far)
            found[name] = slope if even else tiny, bool(tiny) or (whole if even else not any(far))
        elif after != [value] * len(after):
            found[name] = 0.0, False
    return found

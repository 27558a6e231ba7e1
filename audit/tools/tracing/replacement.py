"""The replacement of functions and generators that draw random numbers by others that report to the active recorder.

This happens once in the traced process, after the libraries of the audited code were imported. While no recorder is
active, every replacement calls the original. Needs Python 3.8 and no package, because it runs in the process of the
audited code.
"""

from __future__ import annotations

import contextlib
import functools
import math
import secrets  # noqa: F401  # so that its functions can be replaced
import sys
from typing import Any, Callable  # noqa: UP035  # the alias below is evaluated, and Python 3.8 may run this

from epsaudit.tools.tracing import primitives
from epsaudit.tools.tracing.listening import active_recorder, np, paused
from epsaudit.tools.tracing.places import SAMPLER_PACKAGES, is_audited

REPLACED: dict[int, tuple[Any, Any]] = {}
"""Pairs of an original function and its replacement, by the id() of the original. They are needed for modules that
imported a function by its name."""
FINISHED_NAMESPACES: dict[int, dict[str, Any]] = {}
"""The namespaces of modules in which names were replaced, by id()."""
RECORDING_GENERATORS: dict[Any, Any] = {}
"""For each of numpy's classes of generators, the subclass whose instances report their draws to the recorder."""
Handler = Callable[[Any, Any, Any, Any], Any]
"""A function that handles a call of a replaced function. Its arguments are the active recorder, the original function,
and the positional and the keyword arguments of the call. It returns the answer of the call."""


def wrap_function(original: Any, handler: Handler) -> Any:
    """Return a replacement of a function that calls ``handler`` if a recorder is active, and the original otherwise."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        recorder = active_recorder()
        if recorder is None:
            return original(*arguments, **keywords)
        return handler(recorder, original, arguments, keywords)

    return call


def replace_function(owner: Any, name: str, handler: Handler) -> None:
    """Replace the function ``name`` of a module or class by one that calls ``handler`` while a recorder is active.

    Nothing happens if there is no such function, or if it cannot be replaced.
    """
    if (original := getattr(owner, name, None)) is not None:
        with contextlib.suppress(TypeError):  # attributes of a class of a C extension cannot be set
            setattr(owner, name, call := wrap_function(original, handler))
            REPLACED[id(original)] = original, call


def sampler_handler(name: str, law: str, argument_names: str) -> Handler:
    """Return the handler for calls of a sampler: it reports a call to the recorder, which returns the answer.

    Parameters
    ----------
    name : str
        Name of the sampler in reports.
    law : str
        The law that it draws from, as in `epsaudit.tools.tracing.primitives.SAMPLERS`.
    argument_names : str
        Names of its positional arguments, separated by spaces; '*' stands for the sizes of all dimensions.
    """
    names = argument_names.split()
    takes_population, takes_sizes, fills_tensor = bool({"a", "x"} & {*names}), "*" in names, name.endswith("_")
    kind = "sample" if law in (primitives.SAMPLED, primitives.UNIFORM) else "draw"
    ignored = ("out", "self", "key", "random_state")

    def handle(recorder: Any, original: Any, arguments: Any, keywords: Any) -> Any:
        named: dict[str, Any] = {**dict(zip(names, arguments)), **keywords}  # noqa: B905  # strict since 3.10
        if takes_sizes:
            named = {**keywords, "size": list(arguments[len(names) - 1 :])}
        make = functools.partial(original, *arguments, **keywords)
        if takes_population:  # a choice from a population, which may be private; with weights it is a selection
            weighted = "numpy" in name and named.get("p") is not None
            return recorder.answer("sample", name, make, states={"redrawn": not weighted})
        for alias in {"sigma", "std", "lambd"} & {*named}:
            value: Any = named.pop(alias)
            named["scale"] = 1.0 / value if alias == "lambd" else value
        centre = next((named.pop(alias) for alias in ("loc", "mu", "mean") if alias in named), None)
        fixed = {key: value for key, value in named.items() if value is not None and key not in ignored}
        states: dict[str, Any] = {"law": law}
        if fills_tensor or named.get("out") is not None:
            states["filled"] = list(arguments[0].shape) if fills_tensor else None
        answer = recorder.drawn(kind, name, (lambda: make().clone()) if fills_tensor else make, centre, states, fixed)
        return arguments[0].data.copy_(answer) if fills_tensor else answer

    return handle


def sum_handler(_: Any, original: Any, arguments: Any, keywords: Any) -> Any:
    """Handle a call of `math.fsum` so that noisy numbers in it stay tracked.

    The original would convert each `TrackedNumber` to a float. Instead, these numbers are added one by one to the sum
    of all other numbers.
    """
    numbers = list(arguments[0])
    tracked = [one for one in numbers if type(one).__name__ == "TrackedNumber"]
    others = [one for one in numbers if type(one).__name__ != "TrackedNumber"] if tracked else numbers
    return sum(tracked, original(others, **keywords))


def count_handler(recorder: Any, original: Any, arguments: Any, keywords: Any) -> Any:
    """Handle a call of a counting function of numpy: record how many values it found, and return its answer.

    The number is recorded because later draws of noise often have this size.
    """
    answer = original(*arguments, **keywords)
    n_values = len(answer[0] if isinstance(answer, tuple) else answer)
    return recorder.answer("count", f"np.{original.__name__}", lambda: answer, states={"values": n_values})


def mechanism_handler(library: str, method: str, read: Any) -> Handler:
    """Return the handler for calls of a private mechanism of a library, which records each call as a whole.

    ``method`` is the name of the replaced method, and ``read(self, argument)`` returns the `Stated` of a call.
    """

    def handle(recorder: Any, original: Any, arguments: Any, keywords: Any) -> Any:
        with paused():
            stated = read(arguments[0], next(iter((*arguments[1:], *keywords.values())), None))
        name = f"{library}'s {method if stated.norm == 'event' else type(arguments[0]).__name__}"
        make = functools.partial(original, *arguments, **keywords)
        if stated.written is None:
            return recorder.mechanism(name, make, stated)
        read_answer, write_answer = stated.written
        return write_answer(recorder.mechanism(name, lambda: make() or read_answer(), stated))

    return handle


class RecordingType(type):
    """The metaclass of the subclasses of numpy's generators that report their draws.

    For ``isinstance``, an instance of the original class also counts as an instance of the subclass.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


def replace_samplers() -> None:
    """Replace all samplers and private mechanisms of imported libraries by functions that report to the recorder.

    The tables in `epsaudit.tools.tracing.primitives` list them.
    """
    if np is not None:
        _replace_numpy()
    replace_function(math, "fsum", sum_handler)
    for owners, calls in primitives.SAMPLERS.items():
        paths = owners.split()
        for path in paths:
            parent, _, part = path.rpartition(".")
            owner = sys.modules.get(path) or getattr(sys.modules.get(parent), part, None)
            for name, (law, argument_names) in calls.items():
                own = "self " if isinstance(owner, type) else ""
                replace_function(owner, name, sampler_handler(f"{paths[-1]}.{name}", law, own + argument_names))
    for module, class_name, method, read in primitives.MECHANISMS:
        names = vars(sys.modules[module]) if module in sys.modules else {}
        classes: list[Any] = [one for name, one in names.items() if isinstance(one, type) and class_name in (name, "*")]
        for one in classes:  # the list grows by subclasses while it is read
            classes += [child for child in one.__subclasses__() if child not in classes]
            if method in vars(one):
                replace_function(one, method, mechanism_handler(module.partition(".")[0], method, read))
    REPLACED.update((id(original), (original, new)) for original, new in RECORDING_GENERATORS.items())


def _replace_numpy() -> None:
    """Replace the generators and the counting functions of numpy, and the generators of scipy's distributions."""
    for name in ("Generator", "RandomState"):
        original = getattr(np.random, name)
        RECORDING_GENERATORS[original] = RecordingType(name, (original,), {"__module__": __name__})
        setattr(np.random, name, RECORDING_GENERATORS[original])
    replace_function(
        np.random, "default_rng", lambda _, original, given, named: traced_generator(original(*given, **named))
    )
    np.random.mtrand._rand = traced_generator(np.random.mtrand._rand)
    for one in vars(sys.modules["scipy.stats"]).values() if "scipy.stats" in sys.modules else ():
        if hasattr(one, "_random_state"):  # a distribution, which rescales draws of numpy
            one._random_state = np.random.mtrand._rand
    for name in ("unique", "bincount", "histogram"):
        replace_function(np, name, count_handler)


def replace_names(names: dict[str, Any]) -> None:
    """Replace samplers and generators to which names of a module refer, also in the audited modules that it imports.

    ``names`` is the namespace of the module. This is done when code of the module first runs, because visiting all
    modules of a process would take longer than most functions.
    """
    if id(names) in FINISHED_NAMESPACES:
        return
    for namespace in (names, *(vars(one) for one in names.values() if type(one) is type(sys))):
        is_library = str(namespace.get("__name__")).partition(".")[0] in (*SAMPLER_PACKAGES, "epsaudit")
        if id(namespace) in FINISHED_NAMESPACES or is_library or not is_audited(str(namespace.get("__file__"))):
            continue
        for name, value in list(namespace.items()):
            _, namespace[name] = REPLACED.get(id(value), (None, traced_generator(value)))
    FINISHED_NAMESPACES[id(names)] = names


def traced_generator(value: Any) -> Any:
    """Return a generator that continues the stream of a generator of numpy and reports its draws to the recorder.

    Return any other value unchanged.
    """
    kind = RECORDING_GENERATORS.get(type(value))
    return value if kind is None else kind(getattr(value, "bit_generator", None) or value._bit_generator)

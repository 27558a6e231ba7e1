"""Tell whether two things are the same audit: mechanisms, parameters and datasets as text, and digests of it.

The fingerprint of a Python object is equal in every process that holds an equal object, and differs where its data, its
parameters or its own code differ. Memory addresses never show, and nothing is called or imported.
"""

from __future__ import annotations

import functools
import hashlib
import re
import types
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

DEEPEST = 8
"""Levels of nested attributes that are followed; what lies deeper counts by its type. Set by hand, not measured."""
PLAIN = (str, bytes, bool, int, float, complex, type(None))
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
SKIPPED = ("__weakref__", "__dict__", "__doc__", "__module__")


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that stand for a value: its type, its data, and the code of its class or function.

    Functions that it calls by global name are named, not followed.

    Examples
    --------
    >>> digest((1, "a", {2.5})) == digest((1, "a", {2.5})) != digest((1, "a", {2.6}))
    True
    >>> digest(lambda data, rng: data + 1) == digest(lambda data, rng: data + 2)
    False
    """
    text = hashlib.sha256()
    for part in _parts(value, 0, ()):
        text.update(part.encode("utf-8", "surrogatepass"))
        text.update(b"\0")
    return text.hexdigest()[:16]


def _parts(value: Any, depth: int, above: tuple[int, ...]) -> Iterator[str]:
    """Flatten a value; ``above`` are those that it is part of, so that a cycle ends."""
    if isinstance(value, PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    if depth > DEEPEST or id(value) in above:
        yield f"... {type(value).__qualname__}"
        return

    def inside(*parts: Any) -> Iterator[str]:
        for part in parts:
            yield from _parts(part, depth + 1, (*above, id(value)))

    yield f"({type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    elif isinstance(value, (list, tuple, np.ndarray)):
        yield from inside(*(value.tolist() if isinstance(value, np.ndarray) else value))
    elif isinstance(value, Set):
        yield from sorted(digest(part) for part in value)
    elif isinstance(value, Mapping):
        for key in value:
            yield from inside(key, value[key])
    elif isinstance(value, types.CodeType):
        yield f"{value.co_code.hex()} {value.co_names} {value.co_varnames} {value.co_freevars}"
        yield from inside(*value.co_consts)
    elif isinstance(value, types.FunctionType):
        yield value.__qualname__
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        yield from inside(value.__code__, value.__defaults__, value.__kwdefaults__, *cells)
    elif isinstance(value, types.MethodType):
        yield from inside(value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield from inside(value.func, value.args, value.keywords)
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__}"
    elif isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
        yield value.__name__
    else:
        yield from inside(*_attributes(value), *_code(type(value)))
        if not hasattr(value, "__dict__"):
            yield ADDRESS.sub("", repr(value))
    yield ")"


def _attributes(value: Any) -> list[Any]:
    """Names and values of what was set on an object; what it caches comes and goes, and does not count."""
    own = dict(vars(value)) if hasattr(value, "__dict__") else {}
    kinds = type(value).__mro__
    slots = [name for kind in kinds for name in _names(vars(kind).get("__slots__", ())) if name not in SKIPPED]
    own |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    members = [member for kind in kinds for member in vars(kind).items()]
    cached = {name for name, part in members if isinstance(part, functools.cached_property)}
    return [part for name in sorted(own) if name not in cached for part in (name, own[name])]


def _code(kind: type) -> list[types.CodeType]:
    """Code of the methods of a class and of those it inherits from."""
    found = []
    for base in kind.__mro__:
        for _, part in sorted(vars(base).items(), key=lambda item: item[0]):
            function = getattr(part, "__func__", getattr(part, "fget", getattr(part, "func", part)))
            if isinstance(function, types.FunctionType):
                found.append(function.__code__)
    return found


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)

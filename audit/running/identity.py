"""Digests of values and of the code that they depend on.

They identify an audit, so that a checkpoint is continued only by the same audit.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import hashlib
import importlib.metadata
import importlib.util
import itertools
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.data.datasets import is_constant
from epsaudit.errors import is_own_file
from epsaudit.outputs.formatting import write_plain

MAX_DEPTH = 8
"""[chosen] Number of levels of attributes and items that a digest includes. Of deeper values only the type counts."""
SCALAR_TYPES = (str, bytes, bool, int, float, complex, type(None))
"""Types of values that are identified by their text, because they hold no other objects."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits for a value, the same in every process.

    The digest depends on the value's type, its data, and the code of functions. For a function it also depends on the
    data in the global variables that the function uses, and on the functions and classes among them that were defined
    in an interactive session or a notebook.

    >>> digest((1, "a", {2.5})) == digest((1, "a", {2.5})) != digest((1, "a", {2.6}))
    True
    """
    text, seen = hashlib.sha256(), dict[int, Any]()
    for part in _parts(value, 0, (), seen):
        text.update(part.encode("utf-8", "surrogatepass"))
        text.update(b"\0")
    return text.hexdigest()[:16]


def _parts(value: Any, depth: int, above: tuple[int, ...], seen: dict[int, Any]) -> Iterator[str]:
    """Yield the strings from which the digest of a value is computed.

    ``above`` holds the ids of the values that contain this one, so that the recursion stops at a cycle. ``seen`` holds
    the functions and classes that were described before.
    """
    if isinstance(value, SCALAR_TYPES):
        yield f"{type(value).__name__} {write_plain(value)}"
        return
    if depth > MAX_DEPTH or id(value) in above:
        yield f"... {type(value).__qualname__}"
        return
    yield f"({type(value).__module__}.{type(value).__qualname__}"
    held: Sequence[Any] | None = _held(value)
    shown = ""
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    elif isinstance(value, Set):
        yield from sorted(map(digest, value))
        held = ()
    elif isinstance(value, types.CodeType):
        yield f"{value.co_code.hex()} {value.co_names} {value.co_varnames} {value.co_freevars}"
    elif isinstance(value, (types.FunctionType, type)):
        yield f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else value.__qualname__
        held = () if id(value) in seen else held
        seen[id(value)] = value
    elif isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
        yield value.__name__
    elif held is None:
        held = [*_list_attributes(value), *([type(value)] if _typed_in(type(value)) else [])]
        shown = "" if hasattr(value, "__dict__") else ADDRESS.sub("", repr(value))
    for part in held or ():
        yield from _parts(part, depth + 1, (*above, id(value)), seen)
    yield from filter(None, (shown, ")"))


def _held(value: Any) -> Sequence[Any] | None:
    """Return the parts of a container, a function or a class that its digest includes.

    Returns None for other objects, whose parts are their attributes.
    """
    if isinstance(value, (list, tuple, Set)):
        return list(value)
    if isinstance(value, np.ndarray):
        return list(value.tolist()) if value.dtype == object else []
    if isinstance(value, Mapping):
        return tuple(itertools.chain.from_iterable((key, value[key]) for key in value))
    if isinstance(value, types.CodeType):
        return value.co_consts
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return (value.__code__, value.__defaults__, value.__kwdefaults__, *cells, *_named(value))
    if isinstance(value, types.MethodType):
        return (value.__func__, value.__self__)
    if isinstance(value, functools.partial):
        return (value.func, value.args, value.keywords)
    if isinstance(value, type) and _typed_in(value):
        members = [part for kind in value.__mro__ if _typed_in(kind) for _, part in sorted(vars(kind).items())]
        members = [getattr(part, "__func__", getattr(part, "fget", part)) for part in members]
        return [part for part in members if isinstance(part, types.FunctionType) or is_constant(part)]
    return () if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)) else None


def _typed_in(thing: Any) -> bool:
    """Return whether a function or a class was defined in an interactive session or a notebook instead of a file."""
    names = getattr(thing, "__globals__", None) or vars(sys.modules.get(thing.__module__, types.SimpleNamespace()))
    return names.get("__file__") is None and names.get("__spec__") is None


def _named(function: types.FunctionType) -> list[Any]:
    """Return the global names that a function uses, each followed by its value.

    Names of data are included. Names of other objects, such as functions, are included only if ``function`` was defined
    in an interactive session or a notebook. Names that the function assigns are left out, because their values change.
    """
    codes = [function.__code__]
    for code in codes:  # the list grows by the functions inside
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    steps = [step for code in codes for step in dis.get_instructions(code)]
    words = {word for code in codes for word in code.co_names} & function.__globals__.keys()
    found, typed_in = [], _typed_in(function)
    for word in sorted(words - {step.argval for step in steps if step.opname == "STORE_GLOBAL"}):
        value = function.__globals__[word]
        if typed_in or is_constant(value) or isinstance(value, (Mapping, list, Set, np.ndarray, types.SimpleNamespace)):
            found += [word, value]
    return found


def _list_attributes(value: Any) -> list[Any]:
    """Return the names and values of an object's attributes, without cached properties."""
    state = object.__getstate__(value)  # its dictionary, or a tuple of that and its slots
    own: dict[str, Any] = {}
    for part in state if isinstance(state, tuple) else (state,):
        own |= part or {}
    members = [member for kind in type(value).__mro__ for member in vars(kind).items()]
    cached = {name for name, part in members if isinstance(part, functools.cached_property)}
    return [part for name in sorted(own.keys() - cached) for part in (name, own[name])]


INSTALLED = {"site-packages", "dist-packages"}


def fingerprint(mechanism: Any, *others: Any) -> dict[str, str]:
    """Return the facts that identify a mechanism in a checkpoint, each under a name that a message can quote.

    The facts are a digest of the mechanism, digests of the user's files, and versions of packages. ``others`` are
    further objects whose code is included, for example a claim.
    """
    known: dict[str, str] | None = getattr(mechanism, "fingerprint", None)
    if known is not None:
        return known
    return {"the mechanism's code or parameters": digest(mechanism), **sources(mechanism, *others)}


def sources(*values: Any) -> dict[str, str]:
    """Return a digest of each file of the user's, and the version of each package, on which the values depend.

    The search starts from the modules of the values and of all objects inside them (in closures, default values,
    attributes and items). It continues with all modules that these modules import, also inside functions. The values
    are not called. Files are read from disk, so an edit counts even if it is not loaded yet.
    """
    seen: dict[int, Any] = {}  # the values are kept, so that no other value gets the same id
    modules: list[str] = []
    for value in (left := list(values)):  # the list grows
        if is_constant(value) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (types.FunctionType, types.ModuleType)):
            modules.append(str(value.__name__ if isinstance(value, types.ModuleType) else value.__module__))
        for kind in value.__mro__ if isinstance(value, type) else type(value).__mro__:
            modules.append(kind.__module__)
        held = _held(value)
        left += _list_attributes(value) if held is None else held
    files: dict[str, list[str]] = {}
    packages: set[str] = set()
    theirs: dict[str, bool] = {}
    for name in (waiting := _with_packages(modules)):  # the list grows
        package, top = name.rpartition(".")[0], name.partition(".")[0]
        if name in theirs or not theirs.get(package, True):
            continue
        names = vars(sys.modules.get(name, types.SimpleNamespace()))
        spec = names.get("__spec__")
        if not names:
            with contextlib.suppress(Exception):  # its package cannot be imported, or there is none
                spec = importlib.util.find_spec(name)
        place = names.get("__file__") or getattr(spec, "origin", None)
        theirs[name] = True
        if place in (None, "built-in", "frozen"):  # typed in, a part of Python, or a folder
            continue
        file = Path(place).absolute()
        theirs[name] = top != "epsaudit" and is_own_file(str(file)) and is_own_file(str(file.resolve()))
        if theirs[name]:
            package = str(names.get("__package__") or (name if file.stem == "__init__" else package))
            content = file.read_bytes() if file.is_file() else b""
            label = "/".join([*package.split("."), file.name] if package else [file.name])
            files.setdefault(label, []).append(hashlib.sha256(content).hexdigest())
            waiting += _with_packages([package, *_imports(content, package)])
        elif INSTALLED & set(file.parts):
            packages.add(top)
    found = {f"the code of {label}": digest(sorted(files[label])) for label in sorted(files)}
    owners = packages_distributions() if packages else {}
    distributions = sorted({owner for package in packages for owner in owners.get(package, ())})
    return found | {f"version of {name}": version(name) for name in distributions}


# cached because it reads the file names of all installed packages, which takes a quarter of a second
packages_distributions = functools.cache(importlib.metadata.packages_distributions)


def _with_packages(names: Iterable[str]) -> list[str]:
    """Return the names of modules, each after the names of the packages that contain it.

    For example, the name 'a.b.c' gives 'a', 'a.b' and 'a.b.c'.
    """
    return [".".join(name.split(".")[:n]) for name in names if name for n in range(1, name.count(".") + 2)]


@functools.lru_cache(maxsize=1024)  # a suite reads the same files again and again
def _imports(content: bytes, package: str) -> tuple[str, ...]:
    """Return the names of the modules that a Python file imports, also inside functions.

    The statement ``from a import b`` gives both 'a' and 'a.b', because b may be a module or another object. ``package``
    is the package of the file, for relative imports. The result is empty if the content is not valid Python.
    """
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        return ()
    found = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [base, *(f"{base}.{one.name}" for one in node.names)]
    return tuple(dict.fromkeys(found))

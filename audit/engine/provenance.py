"""Where a result comes from: `provenance`, on which its numbers depend, and `execution`, on which they do not; and what
an audit is of: a digest of data, parameters and code, and the sources and versions that a mechanism reaches.

Only `epsaudit.results.result.save` adds the execution, so that results are equal for equal seeds. A checkpoint
remembers the digests, so that no audit goes on with counts of another function, other data or other packages.
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
import multiprocessing
import os
import platform
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.data.neighbours import is_constant
from epsaudit.errors import AuditError, is_own_file
from epsaudit.outputs.normal_form import too_long

LIBRARIES = ("epsaudit", "numpy", "scipy", "joblib", "scikit-learn")
PATIENCE = 3.0
"""Seconds that git may take for an answer: a slow disk's, not that of a repository that hangs."""


@functools.cache
def provenance() -> dict[str, str]:
    """Versions of the harness, its libraries and Python, the platform, and in a checkout the commit.

    Where files differ from the commit, it ends in "-dirty" and ``modified`` names them; see `modified`. Audits ask
    before their runs; a git that fails or hangs costs some seconds, and what it did not say is said to be unknown.
    """
    found = {name: version(name) for name in LIBRARIES}
    found |= {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    root = repository()
    if root is None:
        return found
    try:
        found["commit"] = _git(root, "rev-parse", "--short=12", "HEAD").strip()
        changed = modified(root)
    except (OSError, subprocess.SubprocessError) as error:
        changed = [f"unknown, as git did not say ({type(error).__name__})"]
    if changed:
        found |= {"commit": f"{found.get('commit', 'unknown')}-dirty", "modified": ", ".join(changed)}
    return found


@functools.cache
def repository() -> Path | None:
    """Return the checkout that this code is run from; None where it is installed, be it inside somebody's checkout."""
    here = Path(__file__).resolve()
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)
        _git(here.parent, "rev-parse", "--verify", "HEAD")  # there is none before the first commit
        return Path(_git(here.parent, "rev-parse", "--show-toplevel").strip())
    except (OSError, subprocess.SubprocessError):
        return None


def modified(root: Path) -> list[str]:
    """List files under ``root`` that differ from the commit; not under results/, where studies write as they run."""
    lines = _git(root, "status", "--porcelain", "--untracked-files=all", "-z", "--", ".", ":!results").split("\0")
    return sorted(line[3:] for line in lines if line[2:3] == " ")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout


def execution(seconds: float) -> dict[str, str]:
    """When, where and by which command something ran that took ``seconds`` and ends now; no host or user is named."""
    started = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = multiprocessing.current_process().name == "MainProcess"  # a worker process does not know the command
    return {"started": started, "machine": machine(), **({"command": command()} if own else {})}


@functools.cache
def machine() -> str:
    """Name the operating system, the processor and the number of its cores."""
    processor = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux on a PC
    words = f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, {processor}"
    return words.removesuffix(", ")


_typed: ContextVar[str | None] = ContextVar("typed", default=None)


@contextmanager
def typed(words: str) -> Iterator[None]:
    """Let `command` say these words, which repeat what is run inside: they hold a seed that was not given."""
    before = _typed.set(words)
    try:
        yield
    finally:
        _typed.reset(before)


def command() -> str:
    """Write the command of this process as it would be typed, without the folders of the programs."""
    if (words := _typed.get()) is not None:
        return words
    given = sys.orig_argv[1:]
    if given[:1] in (["-m"], ["-c"]):
        return shlex.join(["python", *given])
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it, so that no half file is ever left; raises `AuditError`."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as error:
        raise AuditError(
            f"{path} cannot be written ({error.strerror or error}); give a folder that you may write to."
        ) from error
    finally:
        with contextlib.suppress(OSError):  # renamed, or never made
            temporary.unlink()


DEEPEST = 8
"""Levels of nested attributes that are followed; what lies deeper counts by its type. Set by hand, not measured."""
PLAIN = (str, bytes, bool, int, float, complex, type(None))
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
CONTAINERS = (list, tuple, Set, Mapping)


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that stand for a value: its type, its data, and the code of functions.

    They are equal in every process that holds an equal object. Memory addresses never show, nothing is called or
    imported, and classes, and functions that are called by global name, are named, not followed.

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
        yield f"{type(value).__name__} {hex(value) if isinstance(value, int) and too_long(value) else repr(value)}"
        return
    if depth > DEEPEST or id(value) in above:
        yield f"... {type(value).__qualname__}"
        return
    yield f"({type(value).__module__}.{type(value).__qualname__}"
    held, named = _held(value), ""
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    elif isinstance(value, Set):
        yield from sorted(map(digest, value))
        held = ()
    elif isinstance(value, types.CodeType):
        yield f"{value.co_code.hex()} {value.co_names} {value.co_varnames} {value.co_freevars}"
    elif isinstance(value, types.FunctionType):
        yield value.__qualname__
        held = (value.__code__, *held)
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__}"
    elif isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
        yield value.__name__
    elif held is None:
        held = _attributes(value)
        named = "" if hasattr(value, "__dict__") else ADDRESS.sub("", repr(value))
    for part in held or ():
        yield from _parts(part, depth + 1, (*above, id(value)))
    yield from filter(None, (named, ")"))


def _held(value: Any) -> Sequence[Any] | None:
    """What a value holds that is part of it by its type; None of an object of any other, which has attributes."""
    if isinstance(value, (list, tuple, Set)):
        return tuple(value)
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype == object else ()
    if isinstance(value, Mapping):
        return tuple(itertools.chain.from_iterable((key, value[key]) for key in value))
    if isinstance(value, types.CodeType):
        return value.co_consts
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return (value.__defaults__, value.__kwdefaults__, *cells)
    if isinstance(value, types.MethodType):
        return (value.__func__, value.__self__)
    if isinstance(value, functools.partial):
        return (value.func, value.args, value.keywords)
    return () if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)) else None


def _attributes(value: Any) -> list[Any]:
    """Names and values of what was set on an object; what it caches comes and goes, and does not count."""
    state = object.__getstate__(value)  # of its dictionary alone, or of that and its slots
    own: dict[str, Any] = {}
    for part in state if isinstance(state, tuple) else (state,):
        own |= part or {}
    members = [member for kind in type(value).__mro__ for member in vars(kind).items()]
    cached = {name for name, part in members if isinstance(part, functools.cached_property)}
    return [part for name in sorted(own.keys() - cached) for part in (name, own[name])]


INSTALLED = {"site-packages", "dist-packages"}
TYPED = "what was typed in"
"""Modules without a file, as a notebook's: all data that functions name counts; see `_Reached._is_data`."""


def fingerprint(mechanism: Any, *others: Any) -> dict[str, str]:
    """Return what makes a mechanism another one if it changes, each by a name that a refusal can quote.

    Of a program they are its words, versions and files; else its data and what code it and the ``others``, such as
    families of witnesses, reach.
    """
    known = getattr(mechanism, "fingerprint", None)
    if known is None:
        return {"the mechanism's code or parameters": digest(mechanism), **sources(mechanism, *others)}
    files = {name: text for name, text in known.items() if name not in ("words", "versions")}
    return {
        "the program": " ".join(known["words"]),
        **{f"the program's version of {name}": str(version) for name, version in (known["versions"] or {}).items()},
        **{f"the code of {name}": text[:16] for name, text in files.items()},
    }


def sources(*values: Any) -> dict[str, str]:
    """Return what code values reach: a digest of each module of the user's, and the version of each package.

    A module is the user's unless it is of the standard library, installed, or of epsaudit. Reached is what stands in
    globals, closures, defaults, methods, attributes and items, and then what those modules import, wherever they do;
    nothing is called or imported. A module counts by its file, and by the functions, classes and constants in it that
    are reached as they are in memory: an edit that is not loaded yet counts, and so does a constant that was read from
    the environment, and a table or an object of settings that was read from a file.

    >>> from epsaudit.mechanisms.additive import Laplace
    >>> sources(Laplace(1.0), {"a": [len]})
    {}
    """
    return _Reached(values).summary()


class _Reached:
    """What values reach: modules of the user's, by name, and packages."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.labels: dict[str, str] = {}
        self.parts: dict[str, set[str]] = {}
        """Digests of a module's file and of what was reached in it."""
        self.packages: set[str] = set()
        self._others: set[str] = set()
        self._seen: dict[int, Any] = {}  # the values, too, so that no other gets their number
        self._imports: list[str] = []
        self._values = [(value, 0) for value in values]
        while self._values or self._imports:
            if self._values:
                self._follow(*self._values.pop())
            else:
                self._is_theirs(self._imports.pop())

    def summary(self) -> dict[str, str]:
        files: dict[str, set[str]] = {}
        for name, label in self.labels.items():
            files.setdefault(label, set()).update(self.parts[name])
        found = {f"the code of {label}": digest(sorted(files[label])) for label in sorted(files)}
        owners = importlib.metadata.packages_distributions() if self.packages else {}
        names = sorted({owner for package in self.packages for owner in owners.get(package, ())})
        return found | {f"version of {name}": version(name) for name in names}

    def _follow(self, value: Any, depth: int) -> None:
        """Take up the functions, classes and modules that a value is or holds."""
        if is_constant(value) or depth > DEEPEST or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        held: Iterable[Any] | None = _held(value)
        if isinstance(value, types.ModuleType):
            self._is_theirs(value.__name__)
        elif isinstance(value, types.FunctionType):
            held = (*(held or ()), *vars(value).values())
            if self._is_theirs(module := str(value.__globals__.get("__name__")), value.__globals__):
                self._code_of(value, module)
        elif isinstance(value, type):
            held = []
            for base in (one for one in value.__mro__ if self._is_theirs(one.__module__)):
                for name, part in vars(base).items():
                    held.append(part)
                    if not name.startswith("__") and (is_constant(part) or self._is_data(part)):
                        self._say(base.__module__, f"{base.__qualname__}.{name}", part)
        elif isinstance(value, (staticmethod, classmethod, property)):
            held = [value.fget if isinstance(value, property) else value.__func__]
        elif held is None:
            held = [type(value), *_attributes(value)]
        self._values += [(part, depth + isinstance(value, CONTAINERS)) for part in held or ()]

    def _code_of(self, function: types.FunctionType, module: str) -> None:
        """Take up a function's code, what that imports, and what its words name."""
        self._say(module, function.__qualname__, function.__code__)
        codes = [function.__code__]
        for code in codes:  # which grows: functions inside
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        steps = [(step.opname, step.argval) for code in codes for step in dis.get_instructions(code)]
        self._imports += [name for kind, name in steps if kind == "IMPORT_NAME"]
        words = {word for code in codes for word in code.co_names}
        words -= {name for kind, name in steps if kind == "STORE_GLOBAL"}  # what it sets itself comes and goes
        modules, known = [(module, function.__globals__)], {module}
        for name, names in modules:  # which grows: the user's modules that are named there
            for word in sorted(words & names.keys()):
                value = names[word]
                if isinstance(value, types.ModuleType):
                    if self._is_theirs(value.__name__) and value.__name__ not in known:
                        known.add(value.__name__)
                        modules.append((value.__name__, vars(value)))
                    continue
                typed_in = self.labels[name] == TYPED and not callable(value)
                if is_constant(value) or typed_in or self._is_data(value):
                    self._say(name, word, value)
                self._values.append((value, 0))

    def _is_data(self, value: Any) -> bool:
        """Whether a value holds data, as settings that were read from a file; not what others made, as a logger."""
        held = isinstance(value, (Mapping, list, Set, np.ndarray, types.SimpleNamespace))
        return not callable(value) and (held or self._is_theirs(type(value).__module__))

    def _say(self, module: str, name: str, value: Any) -> None:
        self.parts[module].add(f"{name} {digest(value)}")

    def _is_theirs(self, name: str, names: Mapping[str, Any] | None = None) -> bool:
        """Say whether a module is the user's, and take up its file and its imports if it is new."""
        if name in self.labels or name in self._others:
            return name in self.labels
        package = name.rpartition(".")[0]
        if names is None and package and not self._is_theirs(package) and package in self._others:
            self._others.add(name)
            return False
        names = names or vars(sys.modules.get(name, types.SimpleNamespace()))
        spec = names.get("__spec__")
        if not names:
            with contextlib.suppress(Exception):  # what importing its package raises, or there is none
                spec = importlib.util.find_spec(name)
        place = names.get("__file__") or getattr(spec, "origin", None)
        if place in (None, "built-in", "frozen"):  # typed in, as in a notebook; else a part of Python, a mere folder
            if names and spec is None:
                self.labels[name], self.parts[name] = TYPED, set()
            return name in self.labels
        file, top = Path(place).absolute(), name.partition(".")[0]
        if top == "epsaudit" or not (is_own_file(str(file)) and is_own_file(str(file.resolve()))):
            self._others.add(name)
            self.packages |= {top} if INSTALLED & set(file.parts) else set()
            return False
        package = str(names.get("__package__") or (name if file.stem == "__init__" else package))
        self.labels[name] = "/".join([*package.split("."), file.name] if package else [file.name])
        content = file.read_bytes() if file.is_file() else b""
        self.parts[name] = {hashlib.sha256(content).hexdigest()}
        self._imports += [package, *_imports(content, package)] if package else _imports(content, package)
        return True


@functools.lru_cache(maxsize=1024)  # a suite asks for one file again and again
def _imports(content: bytes, package: str) -> tuple[str, ...]:
    """Names of the modules that a file imports anywhere in it, and perhaps of more; none if it is no Python."""
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
    return tuple(dict.fromkeys(".".join(name.split(".")[:n]) for name in found for n in range(1, name.count(".") + 2)))

"""Where a result comes from: random streams of its seed; `provenance`, on which its numbers depend, and `execution`, on
which they do not; and what an audit is of: a digest of data, parameters and code, and the sources and versions that a
mechanism reaches, which a checkpoint remembers.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import errno
import functools
import hashlib
import importlib.metadata
import importlib.util
import itertools
import multiprocessing
import os
import platform
import re
import secrets
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
from typing import Any, Literal

import numpy as np

from epsaudit.data.datasets import is_constant
from epsaudit.errors import AuditError, is_own_file, whole_at_least
from epsaudit.outputs.formatting import MAX_DECIMAL_BITS

Stage = Literal["training", "certification", "sequential", "validation", "one run", "same seeds", "look", "many runs"]
STAGES: dict[Stage, int] = {
    "training": 0,  # (pair + pairs * round of halving), then the chunk where there are more
    "certification": 1,  # (chunk); (0, block) of a frozen test
    "sequential": 2,  # (pair, round, chunk); (0, 0, 0, 1, call) after the last round
    "validation": 3,  # (block), then the chunk where there are more
    "one run": 4,  # (0) coins, (1) the run, (2) the order of the canaries
    # what functions and copies of them are asked to see whether runs are independent
    "same seeds": 5,  # (number of the seed, side), of the seed 0
    "look": 6,  # (0) its pace; (1, side, copy or process); (2, side) the function itself; (3, copy) constant ones
    "many runs": 7,  # which of tied scores are above others
}
"""First number of each stream's spawn key, and what follows it: children spawned by others have keys of one number."""


def entropy(seed: int | None) -> int:
    """Return the seed, or a fresh one of 63 bits for None; raises `AuditError` unless it is a whole number >= 0."""
    return secrets.randbits(63) if seed is None else whole_at_least(seed, 0, "seed")


def stream(seed: int, stage: Stage, *key: int) -> np.random.Generator:
    """Return the generator of one chunk: the child of the seed at spawn key (number of the stage, *key)."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STAGES[stage], *key)))


LIBRARIES = ("epsaudit", "numpy", "scipy", "joblib", "scikit-learn")
PATIENCE = 3.0  # seconds that git may take for an answer: a slow disk's, not that of a repository that hangs


@functools.cache
def provenance() -> dict[str, str]:
    """Versions of the harness, its libraries and Python, the platform, and in a checkout the commit.

    Where files differ from the commit, it ends in "-dirty" and ``modified`` names them, if git says so in time.
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
    made = {"started": started, "machine": machine()}
    if multiprocessing.current_process().name == "MainProcess":  # a worker process does not know the command
        made["command"] = command()
    return made


@functools.cache
def machine() -> str:
    """Name the operating system, the processor and the number of its cores."""
    found = None
    with contextlib.suppress(OSError):  # not Linux
        found = re.search(r"model name\s*: (.*\S)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    processor = found[1] if found else platform.processor()
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
    temporary = _temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # renamed, or never made
            temporary.unlink()


def refuse_unwritable(*files: Path | None) -> None:
    """Raise `AuditError` before any work if `write_whole` could not write one of these files after it.

    None is passed over. The temporary file is made and removed, with the folders that were missing: permissions alone
    do not tell what a full disk, a file system such as /proc, or the superuser's rights do.
    """
    for path in files:
        if path is None:
            continue
        if path.is_dir() or path.name in ("", ".."):
            raise AuditError(f"{path} cannot be written (it is a folder); give the name of a file.")
        temporary = _temporary(path)
        try:
            missing = [folder for folder in path.parents if not folder.exists()]
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary.touch()
                temporary.unlink()
            finally:
                for folder in missing:
                    with contextlib.suppress(OSError):  # it could not be made
                        folder.rmdir()
        except (OSError, ValueError) as error:  # a name may hold the character 0
            raise _unwritable(path, error) from error


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _unwritable(path: Path, error: OSError | ValueError) -> AuditError:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "make room" if full else "give a folder that you may write to"
    return AuditError(f"{path} cannot be written ({getattr(error, 'strerror', None) or error}); {advice}.")


DEEPEST = 8  # levels of attributes that are followed; what lies deeper counts by its type. Set by hand
PLAIN = (str, bytes, bool, int, float, complex, type(None))
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that stand for a value, in every process: its type, its data, the code of functions.

    Of what a function names, data count; functions and classes are followed where they were typed in, as in a notebook.

    >>> digest((1, "a", {2.5})) == digest((1, "a", {2.5})) != digest((1, "a", {2.6}))
    True
    """
    text, seen = hashlib.sha256(), dict[int, Any]()
    for part in _parts(value, 0, (), seen):
        text.update(part.encode("utf-8", "surrogatepass"))
        text.update(b"\0")
    return text.hexdigest()[:16]


def _parts(value: Any, depth: int, above: tuple[int, ...], seen: dict[int, Any]) -> Iterator[str]:
    """Flatten a value; ``above`` are those that it is part of, so that a cycle ends, ``seen`` functions and classes."""
    if isinstance(value, PLAIN):
        long = isinstance(value, int) and value.bit_length() > MAX_DECIMAL_BITS
        yield f"{type(value).__name__} {hex(value) if long else repr(value)}"  # type: ignore[arg-type]  # it is whole
        return
    if depth > DEEPEST or id(value) in above:
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
        held = [*_attributes(value), *([type(value)] if _typed_in(type(value)) else [])]
        shown = "" if hasattr(value, "__dict__") else ADDRESS.sub("", repr(value))
    for part in held or ():
        yield from _parts(part, depth + 1, (*above, id(value)), seen)
    yield from filter(None, (shown, ")"))


def _held(value: Any) -> Sequence[Any] | None:
    """What a value holds that is part of it by its type; None of an object of any other, which has attributes."""
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
    """Whether a function or a class stands in no file, as one of a notebook."""
    names = getattr(thing, "__globals__", None) or vars(sys.modules.get(thing.__module__, types.SimpleNamespace()))
    return names.get("__file__") is None and names.get("__spec__") is None


def _named(function: types.FunctionType) -> list[Any]:
    """Data that a function names, each behind its name, and all else where it was typed in; not what it sets itself."""
    codes = [function.__code__]
    for code in codes:  # which grows: functions inside
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    steps = [step for code in codes for step in dis.get_instructions(code)]
    words = {word for code in codes for word in code.co_names} & function.__globals__.keys()
    found, typed_in = [], _typed_in(function)
    for word in sorted(words - {step.argval for step in steps if step.opname == "STORE_GLOBAL"}):
        value = function.__globals__[word]
        if typed_in or is_constant(value) or isinstance(value, (Mapping, list, Set, np.ndarray, types.SimpleNamespace)):
            found += [word, value]
    return found


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


def fingerprint(mechanism: Any, *others: Any) -> dict[str, str]:
    """Return what makes a mechanism another one if it changes, each by a name that a refusal can quote."""
    known: dict[str, str] | None = getattr(mechanism, "fingerprint", None)
    if known is not None:
        return known
    return {"the mechanism's code or parameters": digest(mechanism), **sources(mechanism, *others)}


def sources(*values: Any) -> dict[str, str]:
    """Return what code values reach: a digest of each file of the user's, and the version of each package.

    Reached are the modules of functions, classes and objects that stand in closures, defaults, attributes and items,
    and then what those import, wherever they do; nothing is called. An edit that is not loaded yet counts.
    """
    seen: dict[int, Any] = {}  # the values, too, so that no other gets their number
    modules: list[str] = []
    for value in (left := list(values)):  # which grows
        if is_constant(value) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (types.FunctionType, types.ModuleType)):
            modules.append(str(value.__name__ if isinstance(value, types.ModuleType) else value.__module__))
        for kind in value.__mro__ if isinstance(value, type) else type(value).__mro__:
            modules.append(kind.__module__)
        held = _held(value)
        left += _attributes(value) if held is None else held
    files: dict[str, list[str]] = {}
    packages: set[str] = set()
    theirs: dict[str, bool] = {}
    for name in (waiting := _with_packages(modules)):  # which grows
        package, top = name.rpartition(".")[0], name.partition(".")[0]
        if name in theirs or not theirs.get(package, True):
            continue
        names = vars(sys.modules.get(name, types.SimpleNamespace()))
        spec = names.get("__spec__")
        if not names:
            with contextlib.suppress(Exception):  # what importing its package raises, or there is none
                spec = importlib.util.find_spec(name)
        place = names.get("__file__") or getattr(spec, "origin", None)
        theirs[name] = True
        if place in (None, "built-in", "frozen"):  # typed in, a part of Python, or a mere folder
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


# it reads the files' names of all that is installed, for a quarter of a second
packages_distributions = functools.cache(importlib.metadata.packages_distributions)


def _with_packages(names: Iterable[str]) -> list[str]:
    return [".".join(name.split(".")[:n]) for name in names if name for n in range(1, name.count(".") + 2)]


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
    return tuple(dict.fromkeys(found))

"""The exceptions of the package and its warnings: sentences that say what was wrong and what is accepted.

The command line prints them and exits with status 2, or 3 where the audited code failed: then with the user's lines.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
import sysconfig
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

PACKAGE, STDLIB = Path(__file__).parent, Path(sysconfig.get_path("stdlib"))
EXTRAS = {
    "click": "tools",
    "jinja2": "tools",
    "markupsafe": "tools",
    "rich": "tools",
    "matplotlib": "report",
    "PIL": "report",
    "pandas": "studies",
    "statsmodels": "studies",
    "dp_accounting": "accounting",
    "polars": "parquet",
    "jax": "training",
    "jax_privacy": "training",
    "opacus": "training",
    "torch": "training",
    "dask": "cluster",
    "distributed": "cluster",
}
"""The extra of pyproject.toml that brings a library which the core does without; a test compares both."""


class AuditError(ValueError):
    """Input that the harness cannot accept; the message is a sentence for the person who gave it."""


class PowerWarning(UserWarning):
    """A test of privacy that passed, and would have passed for a mechanism that leaks twice what it claims."""


class MissingExtraError(AuditError):
    """A library that is not installed; the message says how to get it."""


class LeftOut(UserWarning):
    """What is not there because of a library that is not installed."""


class Unusable(LeftOut):
    """What is not there because a package registers what cannot be used."""


def with_article(noun: str) -> str:
    """Return a noun, or the name of a type, behind its indefinite article."""
    vowel = noun[:1].lower() in tuple("aeiou") and not noun.lower().startswith(("uint", "uni", "use", "one", "eu"))
    return f"{'an' if vowel else 'a'} {noun}"


class OwnCodeError(AuditError):
    """The code that is audited failed, not what was asked; ``lines`` are the user's of a worker's traceback."""

    lines = ""


def finite_at_least(value: float, least: float, what: str) -> float:
    """Return ``value`` as a float, or raise `AuditError` naming ``what`` if it is not finite and >= ``least``."""
    return _number(value, what, "a finite number" + (f" of at least {least:g}" if least > -math.inf else ""), least)


def seconds_of(seconds: float, what: str = "seconds") -> float:
    """Return a number of seconds above 0."""
    return _number(seconds, what, "above 0, and finite", 0.0, open_below=True)


def fraction(value: float, what: str, *, open_below: bool = False) -> float:
    """Return ``value`` as a float in [0, 1), or in (0, 1) with ``open_below``; else raise `AuditError`."""
    return _number(value, what, "strictly between 0 and 1" if open_below else "in [0, 1)", 0.0, 1.0, open_below)


def confidence_of(value: float, what: str = "confidence") -> float:
    """Return ``value`` as a float in [0.5, 1), else raise `AuditError`: a bound that is likelier wrong says nothing."""
    return _number(value, what, "at least 0.5 and below 1", 0.5, 1.0)


def _number(
    value: float, what: str, accepted: str, least: float, most: float = math.inf, open_below: bool = False
) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
        if math.isfinite(number) and least <= number < most and not (open_below and number == least):
            return number
    raise AuditError(f"{what} is {value!r}; it must be {accepted}.")


def whole_at_least(value: int, least: int, what: str) -> int:
    """Return ``value`` as an int, or raise `AuditError` naming ``what`` unless it is a whole number >= ``least``."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and int(value) == value and value >= least:
            return int(value)
    raise AuditError(f"{what} is {value!r}; it must be a whole number of at least {least}.")


def meant(name: str, known: Iterable[str]) -> str:
    """Ask whether one of the known names was meant: a sentence to go behind another, or ''.

    >>> meant("laplas", ["laplace", "gaussian"])
    " Did you mean 'laplace'?"
    """
    close = difflib.get_close_matches(name, list(known))
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


NAMES_AN_ERROR = re.compile(
    r"(?!\s|at |raise |throw |during handling |the above |.*warning\b)"
    r"(?:.*\W)?\w*(?:error|exception|panic|panicked|fatal|segmentation fault)\b",
    re.IGNORECASE,
)
"""A line at the margin with a word such as TypeError, Exception or panicked. Lines of a stack and of source code are
indented or begin with these verbs, Python says "The above exception was ..." between two, and a warning ends no
program."""


def cause_of(said: str) -> str:
    """Return the line of a failed program's standard error that says why it failed; '' if there is none.

    It is the first line that names an error, as stacks and further errors follow it, or else the last line. A line that
    ends with a colon is joined with the next one, as R and Rust write the message there.

    >>> cause_of("lib.js:9\\n\\nTypeError: no crypto\\n    at load (lib.js:9)\\n\\nNode.js v20")
    'TypeError: no crypto'
    """
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    place = next((place for place, line in enumerate(lines) if NAMES_AN_ERROR.match(line)), len(lines) - 1)
    return " ".join(line.strip() for line in lines[place : place + 1 + lines[place].endswith(":")]) if lines else ""


QUOTED = 60
"""[chosen] Characters of a value that a sentence quotes."""


def clipped(text: str, most: int) -> str:
    """Return a text, or as much of its beginning as fits into so many characters."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def own_lines(error: BaseException | None) -> str:
    """Return the traceback of an exception, or of its cause, with the user's lines alone; '' without any."""
    while error is not None:
        own = _own_traceback(error)
        if own is not None or (isinstance(error, SyntaxError) and error.filename):
            return "".join(traceback.format_exception(type(error), error, own, chain=False))
        error = error.__cause__
    return ""


def without_internals(error: AuditError) -> AuditError:
    """Return an error without a traceback, caused by the user's code alone, with the lines of that, if at all."""
    cause, error.__cause__ = error.__cause__, None
    own = None if cause is None else _own_traceback(cause)
    if cause is not None and own is not None:
        error.__cause__ = cause.with_traceback(own)
        cause.__cause__ = cause.__context__ = None
    return error.with_traceback(None)


def _own_traceback(error: BaseException) -> TracebackType | None:
    entries, entry = [], error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    own = None
    for entry in reversed(entries):
        name, file = str(entry.tb_frame.f_globals.get("__name__")), entry.tb_frame.f_code.co_filename
        if name.partition(".")[0] != "epsaudit" and not file.startswith("<frozen ") and is_own_file(file):
            own = TracebackType(own, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return own


@functools.cache
def is_own_file(file: str) -> bool:
    """Say whether a user wrote a file: it is neither of this package nor of an installed one."""
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & {*path.parts} or path.is_relative_to(STDLIB)
    return not installed and not path.is_relative_to(PACKAGE)


def is_own(module: object) -> bool:
    """Say whether a user wrote a module, other than by typing it in."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and is_own_file(file)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Raise `MissingExtraError`, which says what extra to install, for the failure to import a library within."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or str(error)).partition(".")[0]
        if name == "epsaudit":
            raise
        raise MissingExtraError(f"{name} is not installed; {install_hint(EXTRAS.get(name, extra))}.") from error


def refuse_without(extra: str) -> None:
    """Raise `MissingExtraError` before any work if a library of an extra, or of one that it includes, is missing."""
    included = {extra, "tools", *(["report", "accounting"] if extra == "studies" else [])}
    if missing := [name for name, its in EXTRAS.items() if its in included and find_spec(name) is None]:
        raise MissingExtraError(f"{missing[0]} is not installed; {install_hint(extra)}.")


def install_hint(extra: str) -> str:
    """Return the command that adds an extra to this copy of epsaudit, from wherever it was installed."""
    import json  # all these only where something is missing
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.request import url2pathname

    try:
        told = json.loads(distribution("epsaudit").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        told = {}
    url, flag, source = told.get("url", ""), "", f"epsaudit[{extra}]"
    if "vcs_info" in told:
        source += f" @ {told['vcs_info']['vcs']}+{url}@{told['vcs_info']['commit_id']}"
    elif url.startswith("file:"):
        flag = "-e " if told.get("dir_info", {}).get("editable") else ""
        source = f"{url2pathname(url.removeprefix('file://'))}[{extra}]"
    elif url:
        source += f" @ {url}"
    return f"pip install {flag}{shlex.quote(source)}"


def left_out(what: str, why: object, category: type[LeftOut] = LeftOut) -> None:
    """Warn that something is left out, and why; the command line prints it as a sentence."""
    warnings.warn(f"{what} left out: {why}", category, stacklevel=3)

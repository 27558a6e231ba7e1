"""The exceptions and warnings of the package, whose messages say what is wrong and what is accepted.

The command line prints the message of an `AuditError` and exits with status 2. If the audited code failed, it also
prints the lines of the user's code in the traceback and exits with status 3.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import re
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

PACKAGE, STDLIB = Path(__file__).parent, Path(sysconfig.get_path("stdlib"))
EXTRAS = {
    "click": "tools",
    "jinja2": "tools",
    "markupsafe": "tools",
    "rich": "tools",
    "matplotlib": "report",
    "PIL": "report",
    "pandas": "studies",
    "sklearn": "studies",
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
"""Libraries that the core does not need, and the extra of pyproject.toml that installs each. A test compares both."""


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class AuditError(ValueError):
    """An error for input that epsaudit cannot accept; the message is a sentence for the user who gave the input."""


class PowerWarning(UserWarning):
    """A warning that a passed privacy test shows little: for example, it could hardly have shown twice the claim."""


class MissingExtraError(AuditError):
    """An error for a library that is not installed; the message says how to install it."""


class LeftOut(UserWarning):
    """A warning that a part of the work is left out, usually because a library is not installed."""


class Unusable(LeftOut):
    """A warning that an object which another package has registered is left out because it cannot be used."""


def with_article(noun: str) -> str:
    """Return a noun, or the name of a type, with its indefinite article before it."""
    vowel = noun[:1].lower() in tuple("aeiou") and not noun.lower().startswith(("uint", "uni", "use", "one", "eu"))
    return f"{'an' if vowel else 'a'} {noun}"


class OwnCodeError(AuditError):
    """An error in the audited code, as opposed to wrong arguments.

    ``lines`` are the lines of the user's code in the traceback, if the code failed in a worker process.
    """

    lines = ""


def finite_at_least(value: float, least: float, what: str) -> float:
    """Return ``value`` as a float; raise `AuditError` if it is not finite or is below ``least``.

    ``what`` is the name of the value in the message.
    """
    return _checked_number(
        value, what, "a finite number" + (f" of at least {least:g}" if least > -math.inf else ""), least
    )


def seconds_of(seconds: float, what: str = "seconds") -> float:
    """Return a number of seconds as a float; raise `AuditError` if it is not positive and finite.

    ``what`` is the name of the value in the message.
    """
    return _checked_number(seconds, what, "above 0, and finite", 0.0, open_below=True)


def fraction(value: float, what: str, *, open_below: bool = False) -> float:
    """Return ``value`` as a float; raise `AuditError` if it is not in [0, 1).

    If ``open_below`` is true, it must be in (0, 1). ``what`` is the name of the value in the message.
    """
    return _checked_number(value, what, "strictly between 0 and 1" if open_below else "in [0, 1)", 0.0, 1.0, open_below)


def delta_of(value: float, what: str = "delta") -> float:
    """Return a delta as a float; raise `AuditError` if it is not in [0, 1).

    ``what`` is the name of the value in the message.
    """
    hint = ""
    with suppress(TypeError, ValueError):
        hint = " Every mechanism is (epsilon, 1)-DP; delta is a small probability, as 1e-6." * (float(value) >= 1.0)
    return _checked_number(value, what, "in [0, 1)", 0.0, 1.0, hint=hint)


def confidence_of(value: float, what: str = "confidence") -> float:
    """Return a confidence as a float; raise `AuditError` if it is not in [0.5, 1).

    A bound with a confidence below 0.5 may be more likely wrong than right. In the message the value has the name
    ``what``.
    """
    hint = ""
    with suppress(TypeError, ValueError):
        number = float(value)
        meant = number / 100.0 if 50.0 <= number < 100.0 else 1.0 - number if 1e-9 < number < 0.5 else None
        hint = "" if meant is None else f" Did you mean {meant:.10g}?"
    return _checked_number(value, what, "at least 0.5 and below 1", 0.5, 1.0, hint=hint)


def _checked_number(
    value: float,
    what: str,
    accepted: str,
    least: float,
    most: float = math.inf,
    open_below: bool = False,
    hint: str = "",
) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
        if math.isfinite(number) and least <= number < most and not (open_below and number == least):
            return number
    raise AuditError(f"{what} is {value!r}; it must be {accepted}.{hint}")


def whole_at_least(value: int, least: int, what: str) -> int:
    """Return ``value`` as an int; raise `AuditError` if it is not a whole number or is below ``least``.

    ``what`` is the name of the value in the message.
    """
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and int(value) == value and value >= least:
            return int(value)
    raise AuditError(f"{what} is {value!r}; it must be a whole number of at least {least}.")


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the question whether the user meant a known name that is similar, or '' if no known name is similar.

    The question starts with a space, because it follows another sentence.

    >>> suggest_name("laplas", ["laplace", "gaussian"])
    " Did you mean 'laplace'?"
    """
    close = difflib.get_close_matches(name, list(known))
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


NAMES_AN_ERROR = re.compile(
    r"(?!\s|at |raise |throw |during handling |the above |.*warning\b)"
    r"(?:.*\W)?\w*(?:error|exception|panic|panicked|fatal|segmentation fault)\b",
    re.IGNORECASE,
)
"""A pattern for lines of standard error that name an error: lines without indentation that contain a word such as
TypeError, Exception or panicked. It does not match lines of a stack or of source code, which are indented or begin
with "at", "raise" or "throw", sentences such as "The above exception was ...", which Python writes between two
errors, and warnings."""


def cause_of(said: str) -> str:
    r"""Return the line that says why a program failed, from what it wrote to standard error; '' if there is no line.

    It is the first line that names an error, because the stack and further errors follow it. If no line names an error,
    it is the last line. A line that ends with a colon is joined with the next line, where R and Rust write the message.

    >>> cause_of("lib.js:9\n\nTypeError: no crypto\n    at load (lib.js:9)\n\nNode.js v20")
    'TypeError: no crypto'
    """
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    place = next((place for place, line in enumerate(lines) if NAMES_AN_ERROR.match(line)), len(lines) - 1)
    return " ".join(line.strip() for line in lines[place : place + 1 + lines[place].endswith(":")]) if lines else ""


QUOTED = 60
"""[chosen] Maximum number of characters of a value that a message quotes."""


def clipped(text: str, most: int) -> str:
    """Return a text with at most ``most`` characters: a longer text is cut and ends with ' ...'."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def own_lines(error: BaseException | None) -> str:
    """Return the traceback of an exception, or of its cause, as text with only the lines of the user's code.

    Return '' if the traceback contains no line of the user's code.
    """
    while error is not None:
        own = _own_traceback(error)
        if own is not None or (isinstance(error, SyntaxError) and error.filename):
            return "".join(traceback.format_exception(type(error), error, own, chain=False))
        error = error.__cause__
    return ""


def without_internals(error: AuditError) -> AuditError:
    """Return an error without its traceback, so that the user does not see the lines of epsaudit.

    The cause of the error is kept if lines of the user's code are in its traceback, and then only with these lines.
    """
    cause, error.__cause__ = error.__cause__, None
    own = None if cause is None else _own_traceback(cause)
    if cause is not None and own is not None:
        error.__cause__ = cause.with_traceback(own)
        cause.__cause__ = cause.__context__ = None
    return error.with_traceback(None)


def public(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Decorate a function that users call, so that its errors are short.

    The traceback of an `AuditError` contains the line of the caller, and not the lines of epsaudit below it. pytest and
    IPython hide the line of this decorator, too. An unknown keyword argument is answered with a similar one.

    >>> @public
    ... def half(number, *, digits=2):
    ...     return round(number / 2, digits)
    >>> half(3.0, digit=1)
    Traceback (most recent call last):
        ...
    TypeError: half() got an unexpected keyword argument 'digit'. Did you mean 'digits'?
    """
    parameters = inspect.signature(function).parameters
    kinds = {one.kind for one in parameters.values()}

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Returned:
        __tracebackhide__ = True
        if inspect.Parameter.VAR_KEYWORD not in kinds and (unknown := named.keys() - parameters.keys()):
            name = min(unknown)
            hint = suggest_name(name, parameters)
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}.{hint}")
        try:
            return function(*arguments, **named)
        except AuditError as error:
            raise without_internals(error) from error.__cause__

    return call


def _own_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception with only the lines of the user's code; None if there are none."""
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
    """Return whether a file is the user's: it belongs neither to epsaudit nor to an installed package."""
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & {*path.parts} or path.is_relative_to(STDLIB)
    return not installed and not path.is_relative_to(PACKAGE)


def is_own(module: object) -> bool:
    """Return whether a module was imported from a file of the user; see `is_own_file`."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and is_own_file(file)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Return a context manager that turns a failed import inside it into a `MissingExtraError`.

    The message says which extra, a set of optional libraries, the user can install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or str(error)).partition(".")[0]
        if name == "epsaudit":
            raise
        raise MissingExtraError(f"{name} is not installed; {install_hint(EXTRAS.get(name, extra))}.") from error


def refuse_without(extra: str) -> None:
    """Raise `MissingExtraError` if a library of an extra, a set of optional libraries, is not installed.

    It is called before any work starts. The libraries of 'tools' must be installed, too, and for 'studies' also those
    of 'report' and 'accounting'.
    """
    included = {extra, "tools", *(["report", "accounting"] if extra == "studies" else [])}
    if missing := [name for name, its in EXTRAS.items() if its in included and find_spec(name) is None]:
        raise MissingExtraError(f"{missing[0]} is not installed; {install_hint(extra)}.")


def install_hint(extra: str) -> str:
    """Return the pip command by which the user can install an extra, a set of optional libraries.

    The command names the source from which epsaudit itself was installed.
    """
    import json  # imported here because only an error needs these modules
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


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning that names the line of the caller: the innermost line outside of epsaudit."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "epsaudit":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def left_out(what: str, why: object, category: type[LeftOut] = LeftOut) -> None:
    """Warn that a part of the work is left out, and why.

    ``what`` names the part, and ``why`` is the reason. The command line prints the warning as a sentence.
    """
    warnings.warn(f"{what} left out: {why}", category, stacklevel=3)

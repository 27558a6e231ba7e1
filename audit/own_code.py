"""Whose code failed: the lines of a traceback that are neither this package's nor those of installed ones.

An exception comes in, the lines that a user wrote go out, without which a person has to read past the harness to them:
as text for the terminal, and as the traceback of an error that a test shows.
"""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from types import FrameType, TracebackType

from epsaudit.errors import AuditError

PACKAGE = Path(__file__).parent


def own_lines(error: BaseException | None) -> str:
    """Return the traceback of an exception, or of what it came from, with the user's lines alone; '' without any.

    Examples
    --------
    >>> own_lines(ValueError("never raised"))
    ''
    """
    while error is not None:
        own = _own_traceback(error)
        if own is not None or (isinstance(error, SyntaxError) and error.filename):
            return "".join(traceback.format_exception(type(error), error, own, chain=False))
        error = error.__cause__
    return ""


def without_internals(error: AuditError) -> AuditError:
    """Return an error without a traceback, caused by the user's code alone, with the lines of that.

    A cause that was raised by nobody else's code is dropped.
    """
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
        if _is_own(entry.tb_frame):
            own = TracebackType(own, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return own


def _is_own(frame: FrameType) -> bool:
    name, path = frame.f_code.co_filename, Path(frame.f_code.co_filename)
    installed = {"site-packages", "dist-packages"} & {*path.parts} or path.is_relative_to(sysconfig.get_path("stdlib"))
    ours = str(frame.f_globals.get("__name__")).partition(".")[0] == "epsaudit" or path.is_relative_to(PACKAGE)
    return not (name.startswith("<frozen ") or installed or ours)

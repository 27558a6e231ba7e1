"""Whose code failed: the lines of a traceback that are neither this package's nor those of installed ones.

An exception comes in, the lines that a user wrote go out, without which a person has to read past the harness to them.
"""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from types import FrameType

PACKAGE = Path(__file__).parent


def own_lines(error: BaseException | None) -> str:
    """Return the traceback of an exception, or of what it came from, with the user's lines alone; '' without any.

    Examples
    --------
    >>> own_lines(ValueError("never raised"))
    ''
    """
    while error is not None:
        places = [place for place, _ in traceback.walk_tb(error.__traceback__)]
        lines = zip(places, traceback.extract_tb(error.__traceback__), strict=True)
        frames = [line for place, line in lines if _is_own(place)]
        if frames or (isinstance(error, SyntaxError) and error.filename):
            shown = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
            return "".join([*shown, *traceback.format_exception_only(error)])
        error = error.__cause__
    return ""


def _is_own(frame: FrameType) -> bool:
    name, path = frame.f_code.co_filename, Path(frame.f_code.co_filename)
    installed = {"site-packages", "dist-packages"} & {*path.parts} or path.is_relative_to(sysconfig.get_path("stdlib"))
    ours = str(frame.f_globals.get("__name__")).partition(".")[0] == "epsaudit" or path.is_relative_to(PACKAGE)
    return not (name.startswith("<frozen ") or installed or ours)

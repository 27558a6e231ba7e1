"""The places of calls in the audited code: files, lines and functions, without those of epsaudit and of samplers.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from typing import Any, Tuple  # noqa: UP035

from epsaudit import serve
from epsaudit.tools.tracing.listening import HERE

Place = Tuple[str, int, str]  # noqa: UP006  # Python 3.8 evaluates it
"""File, line and function of a call."""
STANDARD_LIBRARY = os.path.dirname(os.__file__)
"""The folder of Python's standard library."""
SAMPLER_PACKAGES = ("numpy", "scipy", "torch", "jax", "jaxlib", "random", "secrets", "copy", "importlib")
"""Packages whose lines are not reported as the place of a draw. The line that calls them is reported instead."""
RUN_FUNCTION = "execute"
"""Name of the function of this package that calls the audited function; call stacks end there."""


def call_stack() -> list[Place]:
    """Return file, line and function of the calls that led to a recorded call, the innermost first.

    Lines of the tracing modules are left out, and so are the innermost lines of packages that draw random numbers.
    """
    found: list[Place] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if function == RUN_FUNCTION and file.startswith(HERE):
            break
        in_sampler = not found and frame.f_globals.get("__name__", "").partition(".")[0] in SAMPLER_PACKAGES
        if not in_sampler and not file.startswith((HERE, "<")):
            found.append((file, frame.f_lineno, function))
        frame = frame.f_back
    return found


@functools.lru_cache(None)
def is_audited(file: str) -> bool:
    """Return whether a file may belong to the audited code, and not to epsaudit or the standard library."""
    ours = file.startswith((HERE, os.path.join(os.path.dirname(serve.__file__), "running"), serve.__file__, "<"))
    return not ours and (not file.startswith(STANDARD_LIBRARY) or "-packages" in file)


def places_of(error: BaseException) -> list[Place]:
    """Return file, line and function of the calls that led to an exception, the innermost first.

    Calls of the tracing modules are left out.
    """
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return [(one.filename, one.lineno or 0, one.name) for one in frames if not one.filename.startswith(HERE)]

"""The line at which the audited function returns its output, for messages about numbers in the output.

Numbers in the output are read after the function has returned, when its frame is gone.
"""

from __future__ import annotations

import sys
from typing import Any

from epsaudit.tools.tracing.alignment.run import AlignmentRun, Runner
from epsaudit.tools.tracing.recorder import is_audited


def return_line(run: Runner, seed: int) -> tuple[str, int] | None:
    """Return file and line of the last return of audited code in the run with this seed; None if there is none."""
    found: list[tuple[str, int]] = []

    def profile(frame: Any, what: str, _: Any) -> None:
        if what == "return" and is_audited(frame.f_code.co_filename):
            found[:] = [(frame.f_code.co_filename, frame.f_lineno)]

    sys.setprofile(profile)
    try:
        run(AlignmentRun(seed))
    finally:
        sys.setprofile(None)
    return found[0] if found else None

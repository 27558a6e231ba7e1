"""A time limit for each call of the audited function in a forked process.

The limit is an alarm of the operating system, whose default action ends the process. So it also ends a function that
hangs in compiled code or catches all exceptions.
"""

from __future__ import annotations

import faulthandler
import re
import signal
import tempfile
from pathlib import Path
from typing import Any

from epsaudit.errors import seconds_of
from epsaudit.tools.tracing.places import is_audited
from epsaudit.tools.tracing.runs import Call


class TimeLimit:
    """A time limit for each call of the audited function, in processes that have been forked.

    If a call exceeds the limit, its process is ended, and the line that was running is reported.

    Parameters
    ----------
    seconds : float
        The limit. Raises `AuditError` if it is no positive number.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds_of(seconds, "timeout")
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115  # forks write to it, and it is closed with this object

    def begin(self) -> None:
        """Prepare a forked process: if a call exceeds the limit, the process writes its stack and ends."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, self._stack, all_threads=False, chain=True)

    def of(self, call: Call) -> Call:
        """Return a function that does the same as ``call``, and whose process is ended if it exceeds the limit."""

        def call_within_the_limit(data: Any, rng: Any, seed: int) -> Any:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            try:
                return call(data, rng, seed)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)

        return call_within_the_limit

    def was_exceeded(self) -> bool:
        """Return whether a process was ended because a call exceeded the limit."""
        return bool(self._written())

    def _written(self) -> str:
        self._stack.seek(0)
        return self._stack.read().decode("utf-8", "replace")

    def place(self) -> str:
        """Return ' at file:line' for the audited line that was running at the limit; empty if it is unknown."""
        frames = re.findall(r'File "(.+)", line (\d+)', self._written())
        audited = [(file, line) for file, line in frames if is_audited(file)]
        return f" at {Path(audited[0][0]).name}:{audited[0][1]}" if audited else ""

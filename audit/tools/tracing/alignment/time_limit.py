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
    """A limit of seconds for each call, and the line at which a call was when it exceeded the limit.

    Parameters
    ----------
    seconds : float
        The limit. Raises `AuditError` if it is no positive number.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds_of(seconds, "timeout")
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115  # forks write to it, and it is closed with this object

    def begin(self) -> None:
        """Let an alarm write the stack of this process, which is a fork, and end the process."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, self._stack, all_threads=False, chain=True)

    def of(self, call: Call) -> Call:
        """Return a call that is ended, with its process, if it exceeds the limit."""

        def call_within_the_limit(data: Any, rng: Any, seed: int) -> Any:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            try:
                return call(data, rng, seed)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)

        return call_within_the_limit

    def was_exceeded(self) -> bool:
        """Return whether the alarm ended a process. Such a process has written its stack before."""
        return bool(self._written())

    def _written(self) -> str:
        self._stack.seek(0)
        return self._stack.read().decode("utf-8", "replace")

    def place(self) -> str:
        """Return ' at file:line' of the audited function when the limit was exceeded; empty if it is unknown."""
        frames = re.findall(r'File "(.+)", line (\d+)', self._written())
        audited = [(file, line) for file, line in frames if is_audited(file)]
        return f" at {Path(audited[0][0]).name}:{audited[0][1]}" if audited else ""

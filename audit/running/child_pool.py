"""The running processes of programs: started once, lent to whoever asks, and never left running."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from epsaudit.running.child import LIFELINES, Child, Program

IDLE_SECONDS = 30.0
"""[chosen] Idle time of a process in seconds, after which it is closed when a process is borrowed next."""


class ChildPool:
    """The idle processes of programs, kept so that not every request has to start a process.

    All processes are closed when this Python process exits. A process whose files have changed since it started is
    closed and replaced, because a new process would run another program.
    """

    def __init__(self) -> None:
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        self._lock, self._idle = threading.Lock(), list[Child]()

    @contextmanager
    def borrow(self, program: Program) -> Iterator[Child]:
        """Yield an idle process of the program, or a new process if none is idle.

        The process returns to the pool after the block, or is closed if the block raises an exception.
        """
        self.close(IDLE_SECONDS)
        child = None
        while child is None:
            with self._lock:
                child = next((one for one in reversed(self._idle) if one.program == program), None)
                if child is not None:
                    self._idle.remove(child)
            if child is None:
                child = Child(program)
            elif not child.usable:
                child.close()
                child = None
        try:
            yield child
        except BaseException:
            child.close()
            raise
        child.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(child)

    def close(self, idle_for: float = 0.0) -> None:
        """Close the processes that have been idle for at least ``idle_for`` seconds."""
        before = time.monotonic() - idle_for
        with self._lock:
            old = [child for child in self._idle if child.idle_since <= before]
            self._idle = [child for child in self._idle if child.idle_since > before]
        for child in old:
            child.close()

    def _forget(self) -> None:
        """Empty the pool in a forked child of this Python process.

        The programs' processes belong to the parent. The child closes its copies of the pipes that keep them alive, so
        that they end with the parent.
        """
        for lifeline in LIFELINES:
            with contextlib.suppress(OSError):
                os.close(lifeline)
        LIFELINES.clear()
        self._lock, self._idle = threading.Lock(), []


CHILDREN = ChildPool()

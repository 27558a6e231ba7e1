"""Whether an audit still waits for what one of its threads asks a child for.

An audit that ends with an error, or by Ctrl-C, leaves the threads of its workers behind: nothing in Python stops a
thread. One that waits for a child finds out here that nobody waits for it any more, and can end the child. A worker
that is a process is killed instead, and its children with it.

An audit waits as long as its function is being called: its frame is on the stack of a thread. Nothing is ever taken for
gone that was not seen to wait before, so that what users run in threads of their own is left alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType

AUDITS, WORKERS, TASK = "epsaudit.audits.", "epsaudit.engine.workers", "_one"
"""Modules whose functions wait, and the function as which workers run a part of an audit."""

_seen = threading.local()


class Askers:
    """The audits that wait for what the calling thread does; none if it is not a worker of theirs.

    Examples
    --------
    >>> Askers().gone
    False
    """

    def __init__(self) -> None:
        self._waiting = _waiting() if _is_task(sys._getframe()) else None
        if self._waiting:
            _seen.any = True

    @property
    def gone(self) -> bool:
        """Whether audits waited for this thread, and none does any more."""
        if self._waiting is None:
            return False
        stacks = sys._current_frames()
        self._waiting = [
            (thread, frame)
            for thread, frame in self._waiting
            if any(one is frame for one in _outwards(stacks.get(thread)))
        ]
        return not self._waiting and getattr(_seen, "any", False)


def _waiting() -> list[tuple[int, FrameType]]:
    """Outermost function of an audit on the stack of every other thread that is no worker itself."""
    found = []
    for thread, inner in sys._current_frames().items():
        if thread != threading.get_ident() and not _is_task(inner):
            audits = [frame for frame in _outwards(inner) if _module(frame).startswith(AUDITS)]
            found += [(thread, frame) for frame in audits[-1:]]
    return found


def _is_task(inner: FrameType) -> bool:
    """Whether what a thread does is a part that workers were given."""
    ours = [frame for frame in _outwards(inner) if _module(frame).startswith("epsaudit.")]
    return bool(ours) and (_module(ours[-1]), ours[-1].f_code.co_name) == (WORKERS, TASK)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))

"""Which jobs the work of a thread belongs to, so that a program is ended when nobody waits for its outputs any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ends = tuple[threading.Event, ...]
"""One event for each job that the work belongs to, the outermost job first. Nothing in Python stops the threads of a
job's workers, so each part of their work carries events, which are set when nobody waits for its results any more."""
_ends: ContextVar[Ends] = ContextVar("ends", default=())


def ends() -> Ends:
    """Return the events of the jobs that this thread works for."""
    return _ends.get()


@contextmanager
def working_for(ends: Ends) -> Iterator[None]:
    """Declare, for the calls inside the block and in this thread, which jobs they work for."""
    token = _ends.set(ends)
    try:
        yield
    finally:
        _ends.reset(token)

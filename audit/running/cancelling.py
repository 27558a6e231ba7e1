"""Which jobs the work of a thread belongs to, so that a program is ended when nobody waits for its outputs any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ends = tuple[threading.Event, ...]
"""The cancellation events of the jobs that some work belongs to, the outermost job first. Python cannot stop the
threads of a job's workers from outside. Each part of their work therefore carries the events of its jobs. An event is
set when nobody waits for the results of the job any more."""
_ends: ContextVar[Ends] = ContextVar("ends", default=())


def ends() -> Ends:
    """Return the cancellation events of the jobs that this thread works for, the outermost job first.

    An event is set when nobody waits for the results of its job any more. Long work should then stop.
    """
    return _ends.get()


@contextmanager
def working_for(ends: Ends) -> Iterator[None]:
    """Set the jobs that this thread works for inside the block, given their cancellation events.

    `ends` returns these events to the code in the block.
    """
    token = _ends.set(ends)
    try:
        yield
    finally:
        _ends.reset(token)

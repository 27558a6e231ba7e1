"""Whether anybody still waits for what a worker computes.

An audit that ends with an error, or by Ctrl-C, leaves the threads of its workers behind: nothing in Python stops a
thread. Whoever gives parts to workers hands each an event, set once nobody waits for their results any more; what takes
long in a thread, as a child does, looks here. What users run in threads of their own has no such event and is left
alone. A worker that is a process is killed instead, and its children with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ends = tuple[threading.Event, ...]
"""One for each job of which a part is a job of its own, the outermost first."""
_ends: ContextVar[Ends] = ContextVar("ends", default=())


def ends() -> Ends:
    """Return the events of the jobs that the calling thread works for."""
    return _ends.get()


@contextmanager
def working_for(ends: Ends) -> Iterator[None]:
    """Let what is called within, in this thread, know for which jobs it works."""
    token = _ends.set(ends)
    try:
        yield
    finally:
        _ends.reset(token)


def is_over() -> bool:
    """Whether nobody waits any more for what the calling thread does; never where no workers run in it.

    Examples
    --------
    >>> event = threading.Event()
    >>> with working_for((event,)):
    ...     before, _, after = is_over(), event.set(), is_over()
    >>> before, after, is_over()
    (False, True, False)
    """
    return any(end.is_set() for end in ends())

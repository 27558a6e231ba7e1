"""The recorder that is active in this process, and how code asks for it or pauses it.

Replaced samplers and numbers made of noise report to the active recorder. The module stands alone so that neither has
to import the recorder. Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from typing import Any

np: Any = importlib.import_module("numpy") if importlib.util.find_spec("numpy") else None
"""The module numpy, or None if it is not installed."""
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of the tracing modules; their own lines are never reported."""


class Listener:
    """The base class of recorders."""

    current: Listener | None = None
    """The recorder that calls are reported to, or None."""
    active: Listener | None = None
    """The recorder of the run that is being executed, also while it is paused."""
    sites = False
    """Whether the recorder of an alignment stores the places of draws and events."""
    watches = False
    """Whether to watch all function calls: to replace samplers to which modules refer by names of their own, and to
    note the place at which audited code last returned."""

    def __init__(self) -> None:
        self.unseen: list[str] = []
        """Sentences on what happened without being recorded."""
        self.thread = threading.get_ident()
        """The thread in which the audited function runs."""

    def begin(self) -> None:
        """Prepare for a run."""

    def finish(self, output: Any, returned: Any) -> None:
        """Store the output of the function, and the place at which it returned as a list of at most one place."""
        raise NotImplementedError

    def fail(self, error: BaseException, at: Any) -> None:
        """Store the exception that the function raised, and the places of the calls that led to it."""
        raise NotImplementedError


def active_recorder() -> Any:
    """Return the active recorder of this thread, or None.

    If another thread than the one of the audited function asks, the recorder notes that this thread drew numbers.
    """
    recorder = Listener.current
    if recorder is not None and threading.get_ident() != recorder.thread:
        recorder.unseen.append("another thread drew random numbers")
        return None
    return recorder


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Deactivate the recorder until the end of the block."""
    recorder, Listener.current = Listener.current, None
    try:
        yield
    finally:
        Listener.current = recorder

"""The recorder that is active in this process, and the functions that return it or pause it.

Replaced samplers and tracked noisy numbers report to the active recorder. The module stands alone so that neither has
to import the recorder. Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from typing import Any

np: Any = importlib.import_module("numpy") if importlib.util.find_spec("numpy") else None
"""The module numpy, or None if it is not installed."""
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of the tracing modules; their own lines are never reported."""


class Listener:
    """The base class of recorders, to which each random draw of a run of the audited function is reported."""

    current: Listener | None = None
    """The recorder to which calls are reported; None between runs and while the recorder is paused."""
    active: Listener | None = None
    """The recorder of the run that is being executed, also while it is paused."""
    sites = False
    """Whether the recorder stores the places of draws and of other uses of noisy numbers; only `AlignmentRun` can."""
    watches = False
    """Whether to watch all function calls: to replace samplers to which modules refer by names of their own, and to
    note the place at which audited code last returned."""

    def __init__(self) -> None:
        self.unseen: list[str] = []
        """Sentences on what happened without being recorded."""
        self.thread = threading.get_ident()
        """The thread in which the audited function runs."""

    def begin(self) -> None:
        """Prepare the recorder for a run that begins now."""

    def finish(self, output: Any, returned: Any) -> None:
        """Store the output of the function, and the place at which the function returned (a list of at most one)."""
        raise NotImplementedError

    def fail(self, error: BaseException, at: Any) -> None:
        """Store the exception that the function raised, and the places of the calls that led to it."""
        raise NotImplementedError


def active_recorder() -> Any:
    """Return the recorder to which calls of this thread are reported, or None.

    In another thread than that of the audited function, the result is None, and the recorder stores the sentence that
    another thread drew random numbers.
    """
    recorder = Listener.current
    if recorder is not None and threading.get_ident() != recorder.thread:
        recorder.unseen.append("another thread drew random numbers")
        return None
    return recorder


class _Pause:
    """The context manager that `paused` returns. A class takes a third of the time of a generator."""

    __slots__ = ("recorder",)

    def __enter__(self) -> None:
        self.recorder, Listener.current = Listener.current, None

    def __exit__(self, *_: object) -> None:
        Listener.current = self.recorder


def paused() -> _Pause:
    """Return a context manager in whose block no recorder is active, so that calls are not recorded."""
    return _Pause()

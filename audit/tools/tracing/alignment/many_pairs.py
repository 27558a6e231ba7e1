"""Processes that share the pairs of datasets among them.

They are forks in which samplers are replaced, so that the samplers of the parent process stay as they are. The module
stands alone because it knows nothing of upper bounds: it calls a function with numbers.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from epsaudit.errors import AuditError
from epsaudit.tools.tracing.alignment.time_limit import TimeLimit
from epsaudit.tools.tracing.replacement import replace_samplers

Answer = TypeVar("Answer")
_work: Any = None
"""The function that a forked process calls with numbers."""


def in_processes(
    work: Callable[[int], Answer],
    numbers: Sequence[int],
    *,
    n_jobs: int,
    name: str,
    limit: TimeLimit | None = None,
    seconds: float | None = None,
) -> Iterator[tuple[int, Answer]]:
    """Call ``work`` with each number in forked processes, and yield the number with the answer when it arrives.

    If the iteration ends early, for example by Ctrl-C, the processes are ended at once.

    Parameters
    ----------
    work : callable
        The function. It is inherited by the forks and need not be picklable; its answers must be.
    numbers : sequence of int
        Its arguments.
    n_jobs : int
        Number of processes; -1 for all cores.
    name : str
        Name of the audited function, for messages.
    limit : TimeLimit, optional
        The limit of the calls that ``work`` makes.
    seconds : float, optional
        Largest number of seconds for all answers together.

    Raises
    ------
    AuditError
        If the system cannot fork, or if the audited function ends its process or exceeds the limit.
    TimeoutError
        If the answers take longer than ``seconds``.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise AuditError("An upper bound needs a POSIX system: Linux, macOS, or WSL on Windows.")
    if not numbers:
        return
    cores = multiprocessing.cpu_count() if n_jobs < 0 else n_jobs
    context = multiprocessing.get_context("fork")  # arguments of a fork are inherited and not pickled
    pool = ProcessPoolExecutor(min(cores, len(numbers)), context, initializer=_begin, initargs=(work, limit))
    completed = False
    try:
        with warnings.catch_warnings():
            # about forks beside threads, which the child does not need
            warnings.simplefilter("ignore", DeprecationWarning)
            waiting = {pool.submit(_answer_task, number): number for number in numbers}
        for future in as_completed(waiting, seconds):
            yield waiting.pop(future), future.result()
        completed = True
    except BrokenProcessPool as error:
        if limit is not None and limit.was_exceeded():
            said = f"{name} took more than {limit.seconds:g} seconds for one run{limit.place()} while its draws were"
            raise AuditError(f"{said} followed; raise the timeout, or give smaller datasets.") from error
        raise AuditError(f"{name} ended its process while its draws were followed.") from error
    finally:
        if not completed:
            for process in list((pool._processes or {}).values()):
                process.kill()
        pool.shutdown(cancel_futures=True)


def _begin(work: Callable[[int], Any], limit: TimeLimit | None) -> None:
    """Prepare a forked process: replace samplers by samplers that record their draws, and prepare the time limit.

    The process ignores Ctrl-C, because the parent process handles it and ends the forks.
    """
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # a garbage collection would copy all memory that is shared with the parent
    replace_samplers()
    if limit is not None:
        limit.begin()
    _work = work


def _answer_task(number: int) -> Any:
    return _work(number)

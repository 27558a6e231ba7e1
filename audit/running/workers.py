"""Run parts of an audit side by side, on the cores of this machine or on another joblib backend such as a cluster.

Nothing else starts workers. An audit of one job does not import this module.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, contextmanager
from typing import Any

import cloudpickle

from epsaudit.errors import AuditError, is_own, needs
from epsaudit.running import cancelling
from epsaudit.running.pool import Task, TaskResult, Workers
from epsaudit.running.provenance import provenance

WATCH_SECONDS = 0.5
"""[chosen] Seconds between two checks whether the parent process still lives; a worker outlives it by at most this."""


def side_by_side(
    workers: Workers,
    function: Callable[[Any, Task], TaskResult],
    shared: Any,
    parts: Iterable[Task],
    jobs: int | None,
    in_order: bool,
) -> Iterator[tuple[Task, TaskResult]]:
    """Yield every part together with ``function(shared, part)``, computed in parallel by joblib.

    The arguments are as for `Workers.each`; ``jobs`` is joblib's number of jobs. Raises `AuditError` if a worker or the
    cluster is lost, or if ``shared`` cannot be sent to another process.
    """
    import joblib  # slow to import, and small audits need none of it
    from joblib.parallel import get_active_backend

    job = Job(shared)
    backend, _ = get_active_backend(prefer=workers.prefer)
    if not getattr(backend, "supports_sharedmem", False):
        _restart_outdated_workers()
        job.seal()
    sent: dict[int, Task] = {}  # parts are kept here, so that workers need not send them back

    def begin(number: int, part: Task) -> Any:
        sent[number] = part
        return joblib.delayed(_one)(job, function, number, part)

    tasks = itertools.starmap(begin, enumerate(parts))
    how: dict[str, Any] = {"prefer": workers.prefer, "batch_size": 1 if workers.recorded else "auto"}
    if getattr(backend, "supports_return_generator", False):
        order = "generator" if in_order else "generator_unordered"
        answers = joblib.Parallel(jobs, return_as=order, **how)(tasks)
    else:
        answers = (answer for answer in joblib.Parallel(jobs, **how)(tasks))  # all of them at the end
    kept = "A checkpoint would have kept the finished chunks."
    if workers.recorded:
        kept = "The chunks in the checkpoint are safe: the same again goes on from them."
    try:
        with closing(answers), closing(job):
            for number, answer in answers:
                yield sent.pop(number), answer
    except BrokenExecutor as error:
        lines = [line.strip().rstrip(".") for line in str(error).splitlines() if "exit code" in line]
        raise AuditError(
            "A worker process died, killed by the system or by a crash in compiled code (a process that needs more "
            f"memory than there is, is killed so). {lines[0] + '.' if lines else ''} {kept}"
        ) from error
    except Exception as error:
        of_a_cluster = type(error).__module__.partition(".")[0] == "distributed"
        if not (of_a_cluster or isinstance(error, (CancelledError, OSError, TimeoutError))):
            raise
        said = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        raise AuditError(f"The workers were lost ({said}). {kept}") from error


class Job:
    """The data that all parts of one parallel computation share, pickled only once for all parts.

    It is pickled by cloudpickle, so that lambdas can be sent as well. The class has no ``__weakref__``, because
    joblib's dask backend would send an object that has one to a single worker.
    """

    __slots__ = ("_sealed", "ends", "shared")

    def __init__(self, shared: Any, sealed: bytes | None = None) -> None:
        self.shared = shared
        self.ends = (*cancelling.ends(), threading.Event())
        self._sealed = sealed

    def close(self) -> None:
        """Set the job's cancellation event, which tells worker threads that nobody waits for their results any more."""
        self.ends[-1].set()

    def seal(self) -> bytes:
        """Return the shared data as a pickle. Raises `AuditError` if it cannot be pickled."""
        if self._sealed is None:
            try:
                self._sealed = cloudpickle.dumps(self.shared)
            except Exception as error:
                raise AuditError(
                    f"The mechanism cannot be sent to another process ({error}); use one job, or joblib's threads: "
                    "joblib.parallel_config(backend='threading')."
                ) from error
        return self._sealed

    def __reduce__(self) -> tuple[Callable[..., Job], tuple[bytes]]:
        return _unseal, (self.seal(),)


@functools.lru_cache(maxsize=2)
def _unseal(sealed: bytes) -> Job:
    return Job(cloudpickle.loads(sealed), sealed)


def _one(job: Job, function: Callable[[Any, Task], TaskResult], number: int, part: Task) -> tuple[int, TaskResult]:
    if multiprocessing.current_process().name.startswith("LokyProcess"):
        _follow_the_parent()
    with cancelling.working_for(job.ends):
        return number, function(job.shared, part)


@functools.cache
def _follow_the_parent() -> None:
    """End this worker process when its parent process has ended. Without this, loky would wait for minutes."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="epsaudit-parent").start()


_code_of_workers: list[Any] = []
"""What determines the code that the running worker processes have loaded: the user's modules, the import path and the
working folder."""


def _restart_outdated_workers() -> None:
    """Stop the worker processes of this machine if the user's code has changed since they started.

    This happens for example in a notebook. loky then starts new processes, which load the present code.
    """
    own = [(name, module) for name, module in list(sys.modules.items()) if is_own(module)]
    modules = [(name, module.__file__, id(getattr(module, "__spec__", None))) for name, module in own]
    code = [modules, tuple(sys.path), os.getcwd()]
    if _code_of_workers and _code_of_workers != code:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
    _code_of_workers[:] = code


WAIT_SECONDS = 15
"""[chosen] Time to wait for a scheduler and its first worker."""
COMPARED = ("epsaudit", "numpy", "scipy", "python")
"""Packages whose versions must be equal on all machines, because random streams, events or pickles depend on them."""


@contextmanager
def cluster(address: str, wait: float | None = None) -> Iterator[Any]:
    """Run audits inside the block on the workers of a dask scheduler, and yield the dask client.

    `joblib.parallel_config(backend="dask")` does the same without checking the workers.

    Parameters
    ----------
    address : str
        The address that the scheduler prints, for example tcp://10.0.0.1:8786.
    wait : float, optional
        Seconds to wait for the scheduler and for a first worker; 15 by default.

    Raises `AuditError` if dask is not installed, if no scheduler answers, if it has no workers, or if a worker has
    other versions of the packages than this machine.
    """
    wait = WAIT_SECONDS if wait is None else wait
    with needs("cluster"):
        from distributed import Client
    logger = logging.getLogger("distributed")
    with contextlib.ExitStack() as afterwards:
        try:
            client: Any = Client(address, timeout=wait, set_as_default=False)  # type: ignore[no-untyped-call]  # distributed has no types
            afterwards.enter_context(client)
            afterwards.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)  # a lost cluster is reported by our own message
            client.wait_for_workers(1, timeout=wait)
            theirs = client.run(_compared_versions)
        except ImportError as error:
            raise AuditError(f"The workers of {address} cannot import epsaudit ({error}); install it there.") from error
        except (OSError, TimeoutError, ValueError) as error:
            raise AuditError(
                f"No dask scheduler answers at {address!r}, or it has no workers. Start one by 'dask scheduler' and "
                "workers by 'dask worker ADDRESS', and give the address that it prints, as tcp://127.0.0.1:8786."
            ) from error
        ours = _compared_versions()
        for worker, versions in theirs.items():
            for name in COMPARED:
                if versions[name] != ours[name]:
                    raise AuditError(
                        f"The worker {worker} has {name} {versions[name]}, and this machine {ours[name]}: results "
                        "could differ. Install the same version on both."
                    )
        import joblib  # slow to import, and small audits need none of it

        with joblib.parallel_config(backend="dask", client=client):
            yield client


def _compared_versions() -> dict[str, str]:
    """Return the versions of Python and of packages that must be the same in this process and in a worker.

    Of Python's version only the first two numbers are compared, because code that is pickled by value runs in all
    releases with the same two numbers.
    """
    found = {name: provenance()[name] for name in COMPARED}
    return {**found, "python": ".".join(found["python"].split(".")[:2])}

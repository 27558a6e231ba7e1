"""Parts of an audit done side by side on this machine's cores, or whatever joblib backend is in force, a cluster too.

Nothing else starts workers. A lost one, or cluster, is told in a sentence. An audit of one job needs nothing of this.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
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
from epsaudit.running import external
from epsaudit.running.pool import Answer, Part, Workers
from epsaudit.running.provenance import provenance

WATCH_SECONDS = 0.5  # seconds between two looks at whether the parent still lives; a worker outlives it by no more


def side_by_side(
    workers: Workers,
    function: Callable[[Any, Part], Answer],
    shared: Any,
    parts: Iterable[Part],
    jobs: int | None,
    in_order: bool,
) -> Iterator[tuple[Part, Answer]]:
    """As `Workers.each`, by joblib; `AuditError` if a worker or the cluster is lost, or ``shared`` not sent."""
    import joblib  # slow to import, and small audits need none of it
    from joblib.parallel import get_active_backend

    job = Job(shared)
    backend, _ = get_active_backend(prefer=workers.prefer)
    if not getattr(backend, "supports_sharedmem", False):
        job.seal()
    sent: dict[int, Part] = {}  # so that no part travels back

    def begin(number: int, part: Part) -> Any:
        sent[number] = part
        return joblib.delayed(_one)(job, function, number, part)

    tasks = itertools.starmap(begin, enumerate(parts))
    how: dict[str, Any] = {"prefer": workers.prefer, "batch_size": 1 if workers.recorded else "auto"}
    if getattr(backend, "supports_return_generator", False):
        order = "generator" if in_order else "generator_unordered"
        answers = joblib.Parallel(jobs, return_as=order, **how)(tasks)
    else:
        answers = (answer for answer in joblib.Parallel(jobs, **how)(tasks))  # all when all is done
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
    """What all chunks share: pickled once, not once a chunk, and by value, so that lambdas travel too.

    Without ``__weakref__``: joblib's dask backend keeps objects that have one on a single worker, and loses both.
    """

    __slots__ = ("_sealed", "_world", "ends", "shared")

    def __init__(self, shared: Any, sealed: bytes | None = None, world: tuple[Any, ...] = ()) -> None:
        self.shared = shared
        self.ends = (*external.ends(), threading.Event())
        self._sealed, self._world = sealed, world or _world()

    def close(self) -> None:
        """Let workers that are threads know that nobody waits for them any more."""
        self.ends[-1].set()

    def seal(self) -> bytes:
        """Pickle it, once; raises `AuditError` if it holds something that cannot be."""
        if self._sealed is None:
            try:
                self._sealed = cloudpickle.dumps(self.shared)
            except Exception as error:
                raise AuditError(
                    f"The mechanism cannot be sent to another process ({error}); use one job, or joblib's threads: "
                    "joblib.parallel_config(backend='threading')."
                ) from error
        return self._sealed

    def __reduce__(self) -> tuple[Callable[..., Job], tuple[Any, ...]]:
        return _unseal, (self.seal(), self._world)


@functools.lru_cache(maxsize=2)
def _unseal(sealed: bytes, world: tuple[Any, ...]) -> Job:
    _catch_up(world)
    return Job(cloudpickle.loads(sealed), sealed, world)


def _one(job: Job, function: Callable[[Any, Part], Answer], number: int, part: Part) -> tuple[int, Answer]:
    if multiprocessing.current_process().name.startswith("LokyProcess"):
        _follow_the_parent()
    with external.working_for(job.ends):
        return number, function(job.shared, part)


@functools.cache
def _follow_the_parent() -> None:
    """End this worker when the process that it works for is gone: loky's own would wait for minutes."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="epsaudit-parent").start()


def _world() -> tuple[Any, ...]:
    """What a worker needs to have the code that this process has: which modules of the user's, and where files are."""
    own = [(name, module) for name, module in list(sys.modules.items()) if is_own(module)]
    modules = [(name, module.__file__, id(getattr(module, "__spec__", None))) for name, module in own]
    return os.getpid(), tuple(modules), tuple(sys.path), os.getcwd()


_LOADED: dict[str, Any] = {}  # the modules of the process that sent the last job, in a worker


def _catch_up(world: tuple[Any, ...]) -> None:
    """Forget modules of which the sender has loaded another version since, and look for files where it does."""
    sender, modules, path, folder = world
    if sender == os.getpid():
        return
    for name, *version in modules:
        if _LOADED.setdefault(name, version) != version:
            sys.modules.pop(name, None)
            _LOADED[name] = version
    if (tuple(sys.path), os.getcwd()) != (path, folder):
        sys.path[:] = path
        with contextlib.suppress(OSError):  # of another machine
            os.chdir(folder)
    importlib.invalidate_caches()


WAIT_SECONDS = 15  # for a scheduler and its first worker. Set by hand; no measurement is recorded
COMPARED = ("epsaudit", "numpy", "scipy", "python")  # versions that random streams, events or pickles may need


@contextmanager
def cluster(address: str, wait: float | None = None) -> Iterator[Any]:
    """Let audits inside the block run on the workers of a dask scheduler; yields the dask client.

    `joblib.parallel_config(backend="dask")` does the same without a check. The address is as the scheduler prints it,
    tcp://10.0.0.1:8786; ``wait`` is the time for it and for a first worker, 15 seconds by default. `AuditError` is
    raised if dask is not installed, nobody answers, there is no worker, or the versions of one differ from ours.
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
            logger.setLevel(logging.CRITICAL)  # a worker that leaves is no news, and a lost cluster a sentence
            client.wait_for_workers(1, timeout=wait)
            theirs = client.run(_versions)
        except ImportError as error:
            raise AuditError(f"The workers of {address} cannot import epsaudit ({error}); install it there.") from error
        except (OSError, TimeoutError, ValueError) as error:
            raise AuditError(
                f"No dask scheduler answers at {address!r}, or it has no workers. Start one by 'dask scheduler' and "
                "workers by 'dask worker ADDRESS', and give the address that it prints, as tcp://127.0.0.1:8786."
            ) from error
        ours = _versions()
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


def _versions() -> dict[str, str]:
    """Versions of this process; of Python's, code that is sent by value minds the first two numbers."""
    found = {name: provenance()[name] for name in COMPARED}
    return {**found, "python": ".".join(found["python"].split(".")[:2])}

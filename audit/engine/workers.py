"""Runs in chunks, each with a stream of random numbers of its own, done side by side on this machine's cores, or on
whatever joblib backend is in force, a cluster included.

All streams that an audit draws from stand in one table, so that no two meet. Chunks depend on the number of runs and
the kind of mechanism alone, so that a result does not depend on which worker computes which. Nothing else in epsaudit
starts workers; one that dies, or a cluster that is lost, is reported in a sentence.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import logging
import multiprocessing
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import cloudpickle
import numpy as np

from epsaudit.engine.provenance import provenance
from epsaudit.errors import AuditError, is_own, needs, whole_at_least

Stage = Literal["training", "certification", "sequential", "validation", "one run", "same seeds", "look"]
STAGES: dict[Stage, int] = {
    "training": 0,  # (pair + pairs * round of halving), then the chunk where there are more
    "certification": 1,  # (chunk); (0, block) of a frozen test
    "sequential": 2,  # (pair, round, chunk); (0, 0, 0, 1, call) after the last round
    "validation": 3,  # (block), then the chunk where there are more
    "one run": 4,  # (0) coins, (1) the run, (2) the order of the canaries
    # what functions and copies of them are asked to see whether runs are independent
    "same seeds": 5,  # (number of the seed, side), of the seed 0
    "look": 6,  # (0) its pace; (1, side, copy or process); (2, side) the function itself; (3, copy) constant ones
}
"""First number of each stream's spawn key, and what follows it.

Children that somebody else spawns from the seed have keys of one number.
"""


def entropy(seed: int | None) -> int:
    """Return the seed, or a fresh one of 63 bits for None; raises `AuditError` unless it is a whole number >= 0."""
    return secrets.randbits(63) if seed is None else whole_at_least(seed, 0, "seed")


def stream(seed: int, stage: Stage, *key: int) -> np.random.Generator:
    """Return the generator of one chunk: the child of the seed at spawn key (number of the stage, *key)."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STAGES[stage], *key)))


BLOCK = 1 << 16
"""Most outputs in memory at once for each job: small enough for a core's cache, large enough to amortise calls."""
CHUNKS = 256
"""About so many chunks a stage, unless they would be too small or too large."""
LARGEST_CHUNK = 1 << 20
"""Runs of one chunk at most: a million doubles are 8 MiB, which bounds the memory of a worker."""
LEAST_CHUNK, LEAST_CHUNK_OF_CALLS = 1 << 12, 1 << 6
"""Fewest runs in a chunk: of a mechanism that promises independent runs, and of functions and programs, which do not. A
small audit of these has many chunks so that dependence on the call shows; and a run of theirs may take seconds."""
Tally = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Chunk:
    """Some runs that one worker does in one go: ``key``, from its stage's number on, names their stream.

    Training and validation do ``size`` runs on each dataset, the others as many on both together.
    """

    key: tuple[int, ...]
    size: int

    @property
    def stage(self) -> Stage:
        """The stage that it belongs to."""
        return list(STAGES)[self.key[0]]


def training_chunks(size: int, stage: Stage, index: int, least: int) -> Iterator[Chunk]:
    """Split ``size`` runs on each dataset: whole blocks of numpy code, about 64 chunks of functions and programs."""
    step = BLOCK if least >= LEAST_CHUNK else min(max(-(-size // (CHUNKS // 4)), least), BLOCK)
    for part, start in enumerate(range(0, size, step)):
        yield Chunk((STAGES[stage], index, *([part] if part else [])), min(step, size - start))


def certification_chunks(runs: int, least: int) -> Iterator[Chunk]:
    """Split the runs into about 256 chunks of ``least`` to 1,048,576, whatever computes them."""
    step = min(max(-(-runs // CHUNKS), least), LARGEST_CHUNK)
    for index, start in enumerate(range(0, runs, step)):
        yield Chunk((STAGES["certification"], index), min(step, runs - start))


FEW_RUNS = 20_000
"""Not worth a second worker, unless one is asked for."""
WATCH_SECONDS = 0.5
"""Seconds between two looks at whether the parent still lives; a worker outlives it by no more."""
REPEATS = (
    "{} takes no rng, or carries a generator of its own: it owns its randomness, copies of it might repeat each "
    "other's noise,"
)
PROMISE = "or promise fresh_randomness=True if it draws from the operating system (secrets, SystemRandom)."
Answer = TypeVar("Answer")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Workers:
    """Who runs the parts, and how small chunks may be.

    ``n_jobs`` is joblib's; None takes the active `joblib.parallel_config`, or else every core. ``prefer`` is what suits
    the mechanism when no joblib backend is active: threads for numpy code, processes for Python. ``least`` is the
    fewest runs in a chunk; results depend on it, and on nothing else here. If ``recorded``, a checkpoint keeps what is
    finished, and parts go out singly; else joblib puts fast ones together.
    """

    n_jobs: int | None = None
    prefer: Literal["threads", "processes"] = "threads"
    least: int = LEAST_CHUNK
    recorded: bool = False

    @classmethod
    def suited_to(cls, mechanism: object, n_jobs: int | None, *, recorded: bool = False) -> Workers:
        """Read off a mechanism whether threads run it in parallel, and whether it wants many calls.

        Where copies of it might repeat each other's noise, and no bound would hold, there is one job, in this process:
        `AuditError` if more were asked for.
        """
        threads = getattr(mechanism, "releases_the_interpreter", True)
        many = getattr(mechanism, "wants_many_calls", False)
        if getattr(mechanism, "copies_repeat", False):
            if n_jobs not in (None, 1):
                name = getattr(mechanism, "name", mechanism)
                raise AuditError(f"{REPEATS.format(name)} and then no bound holds. Use one job, {PROMISE}")
            n_jobs = 1
        return cls(
            n_jobs,
            "threads" if threads else "processes",
            LEAST_CHUNK_OF_CALLS if many else LEAST_CHUNK,
            recorded,
        )

    def each(
        self,
        function: Callable[[Any, Part], Answer],
        shared: Any,
        parts: Iterable[Part],
        runs: int,
        *,
        in_order: bool = False,
    ) -> Generator[tuple[Part, Answer], None, None]:
        """Yield every part with ``function(shared, part)``, as soon as it is known, or in the order of the parts.

        Raises `AuditError` if a worker dies, a cluster cannot be reached any more, or ``shared`` cannot be sent.
        """
        jobs = jobs_to_use(self.n_jobs, runs)
        if jobs == 1:
            for part in parts:
                yield part, function(shared, part)
            return
        import joblib  # slow to import, and small audits need none of it
        from joblib.parallel import get_active_backend

        job = Job(shared)
        backend, _ = get_active_backend(prefer=self.prefer)
        if not getattr(backend, "supports_sharedmem", False):
            job.seal()
        sent: dict[int, Part] = {}  # so that no part travels back

        def begin(number: int, part: Part) -> Any:
            sent[number] = part
            return joblib.delayed(_one)(job, function, number, part)

        tasks = itertools.starmap(begin, enumerate(parts))
        how: dict[str, Any] = {"prefer": self.prefer, "batch_size": 1 if self.recorded else "auto"}
        if getattr(backend, "supports_return_generator", False):
            order = "generator" if in_order else "generator_unordered"
            answers = joblib.Parallel(jobs, return_as=order, **how)(tasks)
        else:
            answers = (answer for answer in joblib.Parallel(jobs, **how)(tasks))  # all when all is done
        kept = "A checkpoint would have kept the finished chunks."
        if self.recorded:
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
        except (CancelledError, OSError, TimeoutError) as error:
            raise AuditError(f"The connection to the workers was lost ({_named(error)}). {kept}") from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "distributed":
                raise
            raise AuditError(f"The cluster gave up ({_named(error)}). {kept}") from error


def check_restart(mechanism: object) -> None:
    """Raise `AuditError` if a mechanism might repeat its noise after a restart, so that no checkpoint may be kept."""
    if getattr(mechanism, "copies_repeat", False):
        name = getattr(mechanism, "name", mechanism)
        raise AuditError(f"{REPEATS.format(name)} so no checkpoint can be kept. Do without, {PROMISE}")


def jobs_to_use(n_jobs: int | None, runs: int) -> int | None:
    """Workers for joblib: what was asked for, None for what its context says, or else one a core where that pays."""
    if n_jobs is not None:
        return n_jobs
    if runs <= FEW_RUNS and "joblib" not in sys.modules:
        return 1
    import joblib
    from joblib.parallel import get_active_backend

    backend, active = get_active_backend()
    if active is not None or type(backend).__name__ != "LokyBackend":
        return None
    return 1 if runs <= FEW_RUNS else int(joblib.cpu_count())


class Job:
    """What all chunks share: pickled once, not once a chunk, and by value, so that lambdas travel too.

    Without ``__weakref__``: joblib's dask backend keeps objects that have one on a single worker, and loses them with
    it.
    """

    __slots__ = ("_sealed", "_world", "ends", "shared")

    def __init__(self, shared: Any, sealed: bytes | None = None, world: tuple[Any, ...] = ()) -> None:
        from epsaudit.adapters import external  # programs: what starts no worker needs none of them

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
    from epsaudit.adapters import external

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


_LOADED: dict[str, Any] = {}
"""The modules of the process that sent the last job, in a worker."""


def _catch_up(world: tuple[Any, ...]) -> None:
    """Forget modules of which the sender has loaded another version since, and look for files where it does.

    joblib keeps its workers for the next audit, other threads use them too, and they would run other code.
    """
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


def _named(error: BaseException) -> str:
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


WAIT_SECONDS = 15
"""Seconds to wait for a scheduler and its first worker before saying that there is none. Set by hand in the first
round; no measurement is recorded."""
COMPARED = ("epsaudit", "numpy", "scipy", "python")
"""Versions on which random streams, events or the pickled mechanism may depend."""


@contextmanager
def cluster(address: str, wait: float | None = None) -> Iterator[Any]:
    """Let audits inside the block run on the workers of a dask scheduler; yields the dask client.

    `joblib.parallel_config(backend="dask")` does the same for those who have a client; here the cluster is checked
    first. The address is as the scheduler prints it, tcp://10.0.0.1:8786; ``wait`` is the time for it and for a first
    worker, 15 seconds by default. `AuditError` is raised if dask is not installed, nobody answers, there is no worker,
    or the versions of one differ from ours.
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

"""The workers of an audit: `Workers` runs its parts in this process, in threads, in processes, or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

from epsaudit.errors import AuditError
from epsaudit.running.chunks import MIN_CHUNK, MIN_CHUNK_OF_CALLS

FEW_RUNS = 20_000
"""[time] Maximum number of runs for which no second worker is started, unless the user asks for one, because starting
it takes longer than the runs."""
COPIES_MAY_REPEAT = (
    "{} takes no rng, or carries a generator of its own, so that copies might repeat each other's noise,"
)
PROMISE = "or promise fresh_randomness=True if it draws from the operating system (secrets, SystemRandom)."
TaskResult = TypeVar("TaskResult")
Task = TypeVar("Task")


@dataclass(frozen=True)
class Workers:
    """The workers that run the parts of an audit.

    Attributes
    ----------
    n_jobs : int, optional
        joblib's number of jobs; None takes the active `joblib.parallel_config`, or else every core.
    prefer : 'threads' or 'processes'
        What joblib should use if the user chose no backend.
    least : int
        Minimum number of runs in a chunk. Results depend on this number, but not on the other attributes.
    recorded : bool
        Whether a checkpoint records every part; then parts are sent to workers one by one.
    """

    n_jobs: int | None = None
    prefer: Literal["threads", "processes"] = "threads"
    least: int = MIN_CHUNK
    recorded: bool = False

    @classmethod
    def suited_to(cls, mechanism: object, n_jobs: int | None, *, recorded: bool = False) -> Workers:
        """Return the workers that suit a mechanism.

        If copies of the mechanism might repeat each other's noise, there is only one job, and `AuditError` is raised if
        ``n_jobs`` asks for more. ``recorded`` says whether a checkpoint records every part.
        """
        prefer: Any = "threads" if getattr(mechanism, "releases_the_interpreter", True) else "processes"
        least = MIN_CHUNK_OF_CALLS if getattr(mechanism, "wants_many_calls", False) else MIN_CHUNK
        if getattr(mechanism, "copies_repeat", False):
            if n_jobs not in (None, 1):
                name = getattr(mechanism, "name", mechanism)
                raise AuditError(f"{COPIES_MAY_REPEAT.format(name)} and then no bound holds. Use one job, {PROMISE}")
            n_jobs = 1
        return cls(n_jobs, prefer, least, recorded)

    def each(
        self,
        function: Callable[[Any, Task], TaskResult],
        shared: Any,
        parts: Iterable[Task],
        runs: int,
        *,
        in_order: bool = False,
    ) -> Generator[tuple[Task, TaskResult], None, None]:
        """Yield every part together with ``function(shared, part)``.

        ``runs`` is the number of runs of all parts together; if it is small, no workers are started. Results are
        yielded as soon as they are available, or in the order of the parts if ``in_order`` is true. Errors are those of
        `epsaudit.running.workers.side_by_side`.
        """
        jobs = self._jobs_for(runs)
        if jobs == 1:
            for part in parts:
                yield part, function(shared, part)
            return
        from epsaudit.running.workers import side_by_side

        yield from side_by_side(self, function, shared, parts, jobs, in_order)

    def number_for(self, runs: int) -> int:
        """Return the number of workers that `each` would use for this number of runs."""
        jobs = self._jobs_for(runs)
        if jobs == 1:
            return 1
        from joblib import effective_n_jobs  # slow to import

        return max(int(effective_n_jobs(jobs)), 1)

    def _jobs_for(self, runs: int) -> int | None:
        """Return joblib's number of jobs for this number of runs; None if the active joblib context decides."""
        if self.n_jobs is not None:
            return self.n_jobs
        if runs <= FEW_RUNS and "joblib" not in sys.modules:
            return 1
        import joblib  # slow to import, and small audits need none of it
        from joblib.parallel import get_active_backend

        backend, active = get_active_backend()
        if active is None and type(backend).__name__ == "LokyBackend":
            return 1 if runs <= FEW_RUNS else int(joblib.cpu_count())
        return None


def check_restart(mechanism: object) -> None:
    """Raise `AuditError` if a mechanism might draw the same noise again after a restart.

    An audit of this mechanism cannot keep a checkpoint.
    """
    if getattr(mechanism, "copies_repeat", False):
        refuse_restart(getattr(mechanism, "name", mechanism))


def refuse_restart(name: object) -> NoReturn:
    """Raise `AuditError` because the mechanism with this name might repeat its noise after a restart."""
    raise AuditError(f"{COPIES_MAY_REPEAT.format(name)} so no checkpoint can be kept. Do without, {PROMISE}")

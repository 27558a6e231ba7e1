"""Run audits on a dask cluster: a context manager that sends joblib's work to the cluster at an address.

`joblib.parallel_config(backend="dask")` does the same for those who have a dask client. Here the cluster is checked
first: that it answers, has workers, and computes the same numbers as this machine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib

from epsaudit.engine.provenance import provenance
from epsaudit.errors import AuditError, needs

WAIT_SECONDS = 15
"""Seconds to wait for a scheduler and its first worker before saying that there is none. Set by hand in the first
round; no measurement is recorded."""
COMPARED = ("epsaudit", "numpy", "scipy", "python")
"""Versions on which random streams, events or the pickled mechanism may depend."""


@contextmanager
def cluster(address: str, wait: float | None = None) -> Iterator[Any]:
    """Let audits inside the block run on the workers of a dask scheduler; yields the dask client.

    The address is as the scheduler prints it, tcp://10.0.0.1:8786; ``wait`` is the time for it and for a first worker,
    15 seconds by default. `AuditError` is raised if dask is not installed, nobody answers, there is no worker, or the
    versions of one differ from ours.
    """
    wait = WAIT_SECONDS if wait is None else wait
    with needs("cluster"):
        from distributed import Client
    try:
        client = Client(address, timeout=wait, set_as_default=False)  # type: ignore[no-untyped-call]  # distributed has no types
    except (OSError, TimeoutError, ValueError) as error:
        raise AuditError(
            f"No dask scheduler answers at {address!r}. Start one by 'dask scheduler' and workers by 'dask worker "
            "ADDRESS', and give the address that it prints, for instance tcp://127.0.0.1:8786."
        ) from error
    with client, _quiet():
        try:
            client.wait_for_workers(1, timeout=wait)
            theirs = client.run(_versions)
        except TimeoutError as error:
            raise AuditError(
                f"The scheduler at {address} has no workers; start some by 'dask worker {address}'."
            ) from error
        except ImportError as error:
            raise AuditError(f"The workers of {address} cannot import epsaudit ({error}); install it there.") from error
        ours = _versions()
        for worker, versions in theirs.items():
            for name in COMPARED:
                if versions[name] != ours[name]:
                    raise AuditError(
                        f"The worker {worker} has {name} {versions[name]}, and this machine {ours[name]}: results "
                        "could differ. Install the same version on both."
                    )
        with joblib.parallel_config(backend="dask", client=client):
            yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """A worker that leaves is no news, for others go on; and a lost cluster is told in a sentence."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _versions() -> dict[str, str]:
    """Versions of this process; of Python's, code that is sent by value minds the first two numbers."""
    found = {name: provenance()[name] for name in COMPARED}
    return {**found, "python": ".".join(found["python"].split(".")[:2])}

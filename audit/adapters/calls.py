"""Functions that are called in other ways than ``function(dataset, rng)``: with a seed, or to be awaited.

Audits see by a function's signature what it wants (`epsaudit.adapters.signatures`); these say so where they cannot.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from epsaudit.errors import AuditError


def seeded(function: Callable[..., Any], name: str = "seed") -> Callable[[Any, np.random.Generator], Any]:
    """Return ``function(dataset, rng)`` of a function that takes a whole number as its seed.

    Every run has a seed of its own, from 0 to 2^32 - 1, drawn from ``rng``: an audit can be repeated from its own seed.

    Parameters
    ----------
    function : callable
        ``function(dataset, seed=...)``.
    name : str, optional
        What it calls its seed.

    Raises
    ------
    AuditError
        If it takes no argument of this name.

    Examples
    --------
    >>> import random
    >>> def noisy_count(people, seed):
    ...     return len(people) + random.Random(seed).gauss(0.0, 1.0)
    >>> round(seeded(noisy_count)(["ann"], np.random.default_rng(0)), 2)
    0.57
    """
    parameters = inspect.signature(function).parameters
    if name not in parameters and all(one.kind is not one.VAR_KEYWORD for one in parameters.values()):
        raise AuditError(f"The function takes {', '.join(parameters) or 'nothing'}, and no {name!r}; give its name.")

    def call(dataset: Any, rng: np.random.Generator) -> Any:
        return function(dataset, **{name: seed_from(rng)})

    call.__name__ = getattr(function, "__name__", "seeded")
    return call


def seed_from(rng: np.random.Generator) -> int:
    """Draw a run's seed, from 0 to 2^32 - 1."""
    return int(rng.integers(2**32))


def awaited(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Return a function that runs an asynchronous one to its end; runs of one block share an event loop.

    Nothing else is shared: each run has a context of its own, and tasks that it leaves behind are cancelled.

    Examples
    --------
    >>> async def noisy_count(people, rng):
    ...     await asyncio.sleep(0.0)
    ...     return len(people) + rng.laplace()
    >>> round(awaited(noisy_count)(["ann"], np.random.default_rng(0)), 2)
    1.32
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with one_event_loop():
            return _run(function(*args, **kwargs))

    return call


def is_awaited(function: Any) -> bool:
    """Say whether a function, or an object that is called, is asynchronous."""
    return callable(function) and any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


@contextmanager
def one_event_loop() -> Iterator[None]:
    """Let all that `awaited` runs inside, in this thread, share an event loop, made when first needed."""
    if hasattr(_LOOP, "runner"):
        yield
        return
    _LOOP.runner = None
    try:
        yield
    finally:
        runner = _LOOP.__dict__.pop("runner")
        if runner is not None:
            runner.close()


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        coroutine.close()
        raise RuntimeError(
            "an event loop is running already, as in a notebook or an asynchronous test: audit asynchronous functions "
            "in a thread, by await asyncio.to_thread(audit, ...)"
        )
    if _LOOP.runner is None:
        _LOOP.runner = asyncio.Runner()
    loop = _LOOP.runner.get_loop()
    try:
        return loop.run_until_complete(loop.create_task(coroutine, context=contextvars.copy_context()))
    finally:
        left = asyncio.all_tasks(loop)
        if left:
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


_LOOP = threading.local()
"""Of this thread: ``runner``, None before it is needed, absent outside of `one_event_loop`."""

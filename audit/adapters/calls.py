"""Functions that are called in other ways than ``function(dataset, rng)``: with a seed, or to be awaited."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
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
        return function(dataset, **{name: int(rng.integers(2**32))})

    call.__name__ = getattr(function, "__name__", "seeded")
    return call


def awaited(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Return a function that runs an asynchronous one to its end, each call in an event loop of its own.

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
        return asyncio.run(function(*args, **kwargs))

    return call

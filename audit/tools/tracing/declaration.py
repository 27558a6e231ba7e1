"""The decorator with which users declare that one of their functions is a private mechanism by itself.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable  # noqa: UP035  # as in the other modules that Python 3.8 may run

from epsaudit.tools.tracing import primitives
from epsaudit.tools.tracing.replacement import wrap_function


def mechanism(
    input: str = "value",  # the usual name of the parameter with the data
    sensitivity: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    norm: str = "l1",
    fixed: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that declares a function to be private by itself, with what it states about its noise.

    The decorated function is called as before. `epsaudit.trace` records a call of it as one event, compares its input
    with the stated sensitivity, and does not look at the random numbers inside.

    Parameters
    ----------
    input : str
        Name of the parameter that may depend on the data.
    sensitivity, epsilon, delta : float or str, optional
        What the function states: a number, or the name of the parameter that has this number.
    norm : str
        The norm in which inputs on neighbouring datasets are at most ``sensitivity`` apart: 'l1', 'l2', 'linf' or
        'records'.
    fixed : tuple of str
        Names of further parameters that must not depend on the data.

    Examples
    --------
    >>> @mechanism(input="total", sensitivity="sensitivity", epsilon="epsilon")
    ... def noisy(total, sensitivity, epsilon, rng):
    ...     return total + rng.laplace(scale=sensitivity / epsilon)
    >>> import numpy as np
    >>> noisy(3.0, 1.0, 1.0, np.random.default_rng(0)) > 0
    True
    """
    terms = {"sensitivity": sensitivity, "epsilon": epsilon, "delta": delta}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        def handle(recorder: Any, original: Any, arguments: Any, keywords: Any) -> Any:
            bound = signature.bind(*arguments, **keywords)
            bound.apply_defaults()
            named = bound.arguments
            states = {name: named.get(one, one) if isinstance(one, str) else one for name, one in terms.items()}
            states = {name: value for name, value in states.items() if value is not None}
            stated = primitives.Stated(named[input], states, {name: named[name] for name in fixed}, norm)
            name = getattr(function, "__qualname__", "mechanism")
            return recorder.mechanism(name, lambda: original(*arguments, **keywords), stated)

        return functools.wraps(function)(wrap_function(function, handle))

    return decorate

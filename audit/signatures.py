"""What a function's parameters say of how it is to be called, and what to tell its author where that was wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from epsaudit.errors import AuditError


def takes_size(function: Callable[..., Any]) -> bool:
    """Say whether this is function(dataset, size, rng), not function(dataset, rng) with parameters of its own."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(None, None, None)
    except (TypeError, ValueError):
        return False
    parameters = [signature.parameters[name] for name in bound.arguments][1:]  # fewer than two where there is *args
    if parameters and parameters[0].name in ("size", "rng"):
        return parameters[0].name == "size"
    return all(
        one.default is one.empty
        or (place == 1 and (one.default is None or isinstance(one.default, np.random.Generator)))
        for place, one in enumerate(parameters)
    )


def takes_rng(function: Callable[..., Any], arguments: tuple[str, ...], form: str) -> bool:
    """Say whether a function takes the last of these arguments, an rng; raise `AuditError` unless it takes the rest."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some compiled functions hide theirs: believe the documented form
        return True
    for count, with_rng in ((len(arguments), True), (len(arguments) - 1, False)):
        try:
            bound = signature.bind(*arguments[:count]).arguments
        except TypeError:
            continue
        default = signature.parameters[list(bound)[-1]].default
        if not with_rng or default in (inspect.Parameter.empty, None) or isinstance(default, np.random.Generator):
            return with_rng  # what has another default, as epsilon=1.0, is no rng
    raise AuditError(f"The mechanism's signature is {signature}; it must accept {form}, or the same without rng.")


def wrong_call(function: Any, many: bool = False) -> str:
    """Return a sentence, led by a space, on a call whose arguments may have met the wrong parameters; else nothing.

    Examples
    --------
    >>> wrong_call(lambda dataset, rng: 0)
    ''
    >>> def noisy(dataset, epsilon):
    ...     return 0
    >>> print(wrong_call(noisy).strip())
    It was called as noisy(x, rng): its 'epsilon' was the random generator. Bind what differs, as \
functools.partial(noisy, epsilon=...).
    """
    arguments = ("x", "size", "rng") if many else ("x", "rng")
    try:
        bound = list(inspect.signature(function).bind(*arguments).arguments.items())
    except (TypeError, ValueError):
        return ""
    kinds = {"x": "the dataset", "size": "the number of outputs", "rng": "the random generator"}
    wrong = {name: kinds[value] for name, value in bound if value in kinds and not _means(name, value)}
    if not wrong:
        return ""
    name = getattr(function, "__name__", type(function).__name__)
    got = " and ".join(f"its {parameter!r} was {kind}" for parameter, kind in wrong.items())
    example = ", ".join(f"{parameter}=..." for parameter in wrong)
    return (
        f" It was called as {name}({', '.join(arguments)}): {got}. Bind what differs, as functools.partial({name}, "
        f"{example})."
    )


def _means(parameter: str, argument: str) -> bool:
    """Whether a parameter's name fits what it was given; that of a dataset may be any but a generator's."""
    words = {
        "x": ("rng", "generator"),
        "size": ("size", "num", "count", "shape"),
        "rng": ("rng", "gen", "rand", "seed"),
    }
    fits = any(word in parameter.lower() for word in words[argument])
    return fits != (argument == "x") or parameter.startswith("_")

"""What must be refused: audits in which every run failed, and functions that keep what they drew.

A copy of a function, made of the bytes that it was before its first call, has caches of its own: so what runs leave
behind can be told from what a release is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np

from epsaudit.adapters.calls import wrong_call
from epsaudit.adapters.functions import FunctionMechanism, Mechanism
from epsaudit.adapters.randomness import reached
from epsaudit.data.fresh import Dataset, loads, loads_apart
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, OwnCodeError, is_own_file
from epsaudit.outputs.normal_form import Outputs, Raised, TimedOut

_FIRST: dict[int, tuple[Any, bytes | None, bytes | None]] = {}
"""Functions, or the objects that they are methods of: a weak reference, before their first audit, after their last."""
_BLAMED: dict[int, Any] = {}
"""What kept a draw, by its id, which no other object gets while it is here."""
_CONSTANT: tuple[Any, ...] = (type, ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_CONSTANT += (functools.partial, int, float, complex, str, bytes, tuple, frozenset, type(None))
_NOT_MODULES = ("__main__", "__mp_main__", "epsaudit")
LARGEST_FUNCTION = 1 << 26
"""Bytes of a function that is copied: 96 copies of so many take some seconds. Set by hand, no measurement is
recorded."""
_is_own = functools.cache(lambda path: is_own_file(Path(path)))


def refuse_if_all_failed(name: str, blocks: Iterable[Outputs], mechanism: Any = None, dataset: Any = None) -> None:
    """Raise `AuditError` if every run raised the same exception, or timed out: compared with itself, it would pass.

    An exception on one of the datasets only is a finding, and one that occurs in some runs is an outcome. Blocks are
    outputs on all datasets, read no further than the first that is no failure, or another one. The mechanism is run
    once more on the dataset, to raise the error from the function's own exception.

    Examples
    --------
    >>> import numpy as np
    >>> from epsaudit import black_box
    >>> outputs = black_box(lambda data, rng: 1 / 0)(()).sample(7, np.random.default_rng(0))
    >>> refuse_if_all_failed("mine", [outputs, np.zeros(3)])
    >>> refuse_if_all_failed("mine", [outputs, outputs])
    Traceback (most recent call last):
    ...
    epsaudit.errors.OwnCodeError: Nothing was tested: each of the first 14 runs of mine, on both datasets, raised \
    ZeroDivisionError: division by zero.
    """
    first: Raised | TimedOut | None = None
    message, runs = "", 0
    for block in blocks:
        for output in block:
            if not isinstance(output, (Raised, TimedOut)) or (first is not None and output != first):
                return
            first = output
            message = message or shorten(getattr(output, "message", ""), 120, placeholder=" ...")
        runs += len(block)
    if first is None:
        return
    said, cause = "timed out.", None
    if isinstance(first, Raised):
        call = wrong_call(getattr(mechanism, "function", None))
        said = f"raised {first.exception}{message and f': {message}'}.{call}"
        cause = _exception_of(mechanism, dataset)
    raise OwnCodeError(
        f"Nothing was tested: each of the first {runs:,} runs of {name}, on both datasets, {said}"
    ) from cause


def _exception_of(mechanism: Any, dataset: Any) -> BaseException | None:
    """The exception of one more run, with its traceback; None where a mechanism is no function, or does not raise."""
    try:
        if isinstance(mechanism, FunctionMechanism) and mechanism.one_by_one:
            arguments = (np.random.default_rng(0),) if mechanism.uses_rng else ()
            mechanism.takes.of(mechanism.function)(Dataset(dataset).copy(), *arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return None


def refusing(
    draw: Callable[..., tuple[Outputs, Outputs]],
    mechanism: Mechanism,
    pairs: Sequence[DatasetPair],
    look: Callable[..., None],
) -> Callable[..., tuple[Outputs, Outputs]]:
    """Let the first draws, one for each pair of datasets, pass only if something in them is no failure.

    Everything drawn is shown to ``look``, with the pair of distributions that it was drawn from.
    """
    first: list[Outputs] = []

    def drawn(*arguments: Any, **options: Any) -> tuple[Outputs, Outputs]:
        outputs = draw(*arguments, **options)
        if len(first) < 2 * len(pairs):
            first.extend(outputs)
            if len(first) == 2 * len(pairs):
                refuse_if_all_failed(mechanism.name, first, mechanism, pairs[0].x)
        look(arguments[0], outputs)
        return outputs

    return drawn


def before_first_call(mechanism: Mechanism) -> bytes | None:
    """Return a function as bytes, as it was before it was first called; None if it cannot be.

    They hold closures, defaults, the object that it is a method of, and the modules of the user's own that it reaches.
    The bytes after an audit are remembered: the next begins with the first state unless somebody else changed it.
    `AuditError` if it holds something that kept a draw in an earlier audit.
    """
    if not isinstance(mechanism, FunctionMechanism):
        return None
    function = mechanism.function
    for part in _changeable(function):
        if id(part) in _BLAMED:
            raise AuditError(
                f"{mechanism.name} holds an object of type {type(part).__name__} that kept a draw in an earlier audit, "
                "and still keeps it: its runs say nothing of a release. Make the object anew, and draw fresh noise in "
                "every run."
            )
    now = _pickled(function)
    holder = _holder(function)
    known, first, last = _FIRST.get(id(holder), (None, None, None))
    if known is not None and known() is holder and last == now:  # an audit may have made it remember an answer
        return first
    _keep(holder, now, now)
    return now


def copy_of(mechanism: FunctionMechanism, first: bytes | None, beside: Callable[[], bytes]) -> FunctionMechanism:
    """Return the mechanism with a copy of its function, for datasets of these bytes; itself where there is none."""
    return mechanism if first is None else dataclasses.replace(mechanism, function=loads_apart(first, beside))


def remember(mechanism: FunctionMechanism, first: bytes) -> None:
    """Note how an audit leaves a function, for the next."""
    _keep(_holder(mechanism.function), first, _pickled(mechanism.function))


def blame(mechanism: Any, first: bytes | None) -> None:
    """Note the parts of a function that its runs changed: one of them kept a draw."""
    if first is not None:
        pairs = zip(_changeable(mechanism.function), _changeable(loads(first)), strict=False)
        changed = (part for part, before in pairs if _written(part) != _written(before))
        _BLAMED.update((id(part), part) for part in changed)


def _holder(function: Any) -> Any:
    """What lasts longer than a method or a partial, which are made anew each time."""
    while isinstance(function, functools.partial):
        function = function.func
    return function.__self__ if inspect.ismethod(function) else function


def _keep(holder: Any, first: bytes | None, last: bytes | None) -> None:
    with contextlib.suppress(TypeError):  # of a kind that cannot be referred to weakly
        key = id(holder)
        _FIRST[key] = (weakref.ref(holder, lambda _: _FIRST.pop(key, None)), first, last)


def _changeable(function: Any) -> Iterator[Any]:
    """What a function holds, itself included, that may change as it runs."""
    return (part for part in reached(function) if not isinstance(part, _CONSTANT))


def _written(part: Any) -> bytes | None:
    try:
        return bytes(cloudpickle.dumps(part))
    except Exception:  # of a kind that no copy has either
        return None


def _pickled(function: Any) -> bytes | None:
    """Write a function with the modules that users wrote, else with its own, else by name; None if nothing will do."""
    own = sys.modules.get(getattr(function, "__module__", None) or "")
    named = [] if own is None or own.__name__ in ("__main__", "builtins", "functools") else [own]
    for modules in ([*_own_modules(), *named], named, []):
        registered = []
        try:
            for module in modules:
                if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.register_pickle_by_value(module)
                    registered.append(module)
            written = bytes(cloudpickle.dumps(function))
            if len(written) <= LARGEST_FUNCTION:
                return written
        except Exception:  # tried with less, or told where it matters
            continue
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)
    return None


def _own_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        known = name == getattr(module, "__name__", None) and name.partition(".")[0] not in _NOT_MODULES
        if known and isinstance(path, str) and _is_own(path):
            yield module

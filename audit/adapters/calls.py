"""How functions are called: with a dataset, and a generator, a seed or nothing, as their signatures say; or awaited."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.errors import AuditError

_LOOP = threading.local()
"""Of this thread: ``runner``, None before it is needed, absent outside of `one_event_loop`."""
SEEDS = ("seed", "random_state")
"""Parameters of these names get a whole number."""
GENERATORS = ("rng", "generator", "random")
"""Parameters of these names get the generator, also by keyword, and where others stand before them."""
_GENERATOR = re.compile(r"(np|numpy)\.random\.(_generator\.)?Generator\b|^Generator\b(?!\[)")
"""Annotations that say the same."""
_WHOLE = re.compile(r"int( \| None)?|None \| int|(typing\.)?Optional\[int\]")


def seeded(function: Callable[..., Any], name: str = "seed") -> Callable[[Any, np.random.Generator], Any]:
    """Return ``function(dataset, rng)`` of a function that takes a whole number as its seed, under this name.

    Every run has a seed of its own, from 0 to 2^32 - 1, drawn from ``rng``: an audit can be repeated from its own seed.
    `AuditError` if the function takes no argument of this name.

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
        return function(dataset, **{name: _seed_from(rng)})

    call.__name__ = getattr(function, "__name__", "seeded")
    return call


def _seed_from(rng: np.random.Generator) -> int:
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
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


@dataclass(frozen=True)
class Takes:
    """What a function is given beside its dataset (and size): 'rng', 'seed' or nothing, under which name, how called.

    Examples
    --------
    >>> def noisy(dataset, *, seed):
    ...     return seed
    >>> Takes("seed", "seed").of(noisy)((), np.random.default_rng(0))
    3653403231
    """

    what: str = "rng"
    name: str = ""
    """Its keyword; none where it is the last argument by position."""
    awaits: bool = False

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as one of (dataset, rng), of (dataset, size, rng), or of these without rng."""
        called = awaited(function) if self.awaits else function
        if self.what == "seed" or self.name:
            return functools.partial(_handed, called, self.what == "seed", self.name)
        return called


def _handed(function: Callable[..., Any], seed: bool, name: str, *arguments: Any) -> Any:
    *given, rng = arguments
    handed = _seed_from(rng) if seed else rng
    return function(*given, **{name: handed}) if name else function(*given, handed)


def takes_of(function: Callable[..., Any], arguments: tuple[str, ...]) -> Takes:
    """Say how a function takes the last of these arguments, an rng, or that it takes the others only.

    `AuditError` if it does not take the others, or takes its randomness by two parameters, or as what is unclear.

    Examples
    --------
    >>> takes_of(lambda dataset, seed=None: 0, ("dataset", "rng"))
    Takes(what='seed', name='', awaits=False)
    """
    awaits = callable(function) and any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some compiled functions hide theirs: believe the documented form
        return Takes(awaits=awaits)
    others = arguments[:-1]
    named = list(_named(function, signature, len(others)))
    _refuse_if_ambiguous(function, named)
    for what, one in named:
        by_place = _binds(signature, *arguments) and list(signature.bind(*arguments).arguments)[-1] == one.name
        if _binds(signature, *others, *(arguments[-1:] if by_place else ()), **({} if by_place else {one.name: what})):
            return Takes(what, "" if by_place else one.name, awaits)
    for given in (arguments, others):
        if not _binds(signature, *given):
            continue
        default = signature.parameters[list(signature.bind(*given).arguments)[-1]].default
        if given is others or _is_none_or_generator(default):  # what has another default, as epsilon=1.0, is no rng
            return Takes("rng" if given is arguments else "", "", awaits)
    raise AuditError(
        f"The mechanism's signature is {signature}; it must accept function({', '.join(arguments)}), or the same "
        "without rng."
    )


def takes_size(function: Callable[..., Any]) -> bool:
    """Whether this is function(dataset, size, rng), not function(dataset, rng) with parameters of its own."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    names = list(signature.parameters)[1:]
    if not _binds(signature, None, None, None):
        keyword = [name for name in names[1:] if name in SEEDS + GENERATORS]
        return names[:1] == ["size"] and bool(keyword) and _binds(signature, None, None, **dict.fromkeys(keyword))
    parameters = [signature.parameters[name] for name in signature.bind(None, None, None).arguments][1:]
    if parameters and parameters[0].name in ("size", *SEEDS, *GENERATORS):  # fewer than two where there is *args
        return parameters[0].name == "size"
    return all(
        one.default is one.empty or (place == 1 and _is_none_or_generator(one.default))
        for place, one in enumerate(parameters)
    )


def _named(
    function: Callable[..., Any], signature: inspect.Signature, others: int
) -> Iterator[tuple[str, inspect.Parameter]]:
    """Parameters behind the first ``others`` whose names or annotations say what they get, unless they are bound."""
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for one in list(signature.parameters.values())[others:]:
        if one.name in bound or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        generator, free = _GENERATOR.search(_annotation(one)), _is_none_or_generator(one.default)
        if one.name in SEEDS and not isinstance(one.default, np.random.Generator):
            if generator and "int" not in _annotation(one):
                yield "rng", one
            elif free or (isinstance(one.default, int | np.integer) and not isinstance(one.default, bool)):
                yield "seed", one
        elif free and (one.name in (*SEEDS, *GENERATORS) or generator):
            yield "rng", one


def _refuse_if_ambiguous(function: Any, named: list[tuple[str, inspect.Parameter]]) -> None:
    name = getattr(function, "__name__", "function")
    if len(named) > 1:
        both = " and ".join(repr(one.name) for _, one in named)
        raise AuditError(
            f"{name} takes {both}, and gets its randomness by one of them. Bind the other, as "
            f"functools.partial({name}, {named[-1][1].name}=...); epsaudit.adapters.calls.seeded hands over a seed."
        )
    for what, one in named:
        if what == "rng" and _WHOLE.fullmatch(_annotation(one)):
            raise AuditError(
                f"The name {one.name!r} says that {name} takes a generator, its annotation a whole number. Name it "
                f"seed, or give epsaudit.adapters.calls.seeded({name}, {one.name!r})."
            )


def _annotation(one: inspect.Parameter) -> str:
    if one.annotation is one.empty:
        return ""
    return one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)


def _is_none_or_generator(default: Any) -> bool:
    return default is inspect.Parameter.empty or default is None or isinstance(default, np.random.Generator)


def _binds(signature: inspect.Signature, *given: Any, **named: Any) -> bool:
    try:
        signature.bind(*given, **named)
    except TypeError:
        return False
    return True


def wrong_call(function: Any, many: bool = False) -> str:
    """Return a sentence, led by a space, on a call whose arguments may have met the wrong parameters; else nothing.

    Examples
    --------
    >>> def noisy(dataset, epsilon):
    ...     return 0
    >>> print(wrong_call(noisy).strip())
    It was called as noisy(x, rng): its 'epsilon' was the random generator. Bind what differs, as \
functools.partial(noisy, epsilon=...).
    """
    arguments = ("x", "size", "rng") if many else ("x", "rng")
    try:
        takes, signature = takes_of(function, arguments), inspect.signature(function)
        by_name = {takes.name: takes.what} if takes.name else {}
        by_place = (takes.what,) if takes.what and not by_name else ()
        bound = signature.bind(*arguments[:-1], *by_place, **by_name).arguments
    except (AuditError, TypeError, ValueError):
        return ""
    name = getattr(function, "__name__", type(function).__name__)
    given = {parameter: _GIVEN[value] for parameter, value in bound.items() if value in list(_GIVEN)}
    wrong = {parameter: kind for parameter, (kind, fits) in given.items() if not re.search(fits, parameter, re.I)}
    written = ", ".join([*arguments[:-1], *by_place, *(f"{key}={value}" for key, value in by_name.items())])
    if not wrong:
        called = f" It was called as {name}({written}), with a new whole number as its seed each time."
        return called if takes.what == "seed" else ""
    got = " and ".join(f"its {parameter!r} was {kind}" for parameter, kind in wrong.items())
    first = next(iter(bound))
    if first in wrong:
        advice = f"The dataset comes first, as in lambda {', '.join(arguments)}: {name}(...)."
    else:
        example = ", ".join(f"{parameter}=..." for parameter in wrong)
        advice = f"Bind what differs, as functools.partial({name}, {example})."
    return f" It was called as {name}({written}): {got}. {advice}"


_GIVEN = {
    "x": ("the dataset", "^_|^(?!.*(rng|generator))"),
    "size": ("the number of outputs", "^_|size|num|count|shape"),
    "rng": ("the random generator", "^_|rng|gen|rand|seed"),
    "seed": ("a whole number", ""),
}
"""What a function is given, and which names of parameters mean it; a dataset's may be any but a generator's."""

"""How a function is called: with its dataset, and a generator, a seed or nothing, as its signature says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.serve import GENERATOR_NAMES, SEED_NAMES, find_randomness_parameters, is_unset


@dataclass(frozen=True)
class RandomnessArgument:
    """The argument by which a function gets its randomness, besides its dataset (and the number of outputs).

    Attributes
    ----------
    what : str
        'rng' for a `numpy.random.Generator`, 'seed' for a whole number, '' if the function gets neither.
    name : str
        The keyword of the argument, or '' if the argument is passed by position, as the last one.
    """

    what: str = "rng"
    name: str = ""

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``function`` so that it can be called with an rng as its last positional argument.

        The wrapper passes the rng on in the form that ``function`` expects: as a keyword argument, or as a seed that is
        drawn from the rng. A function that expects the rng in the last position, or gets no randomness, is not wrapped.
        """
        if self.what != "seed" and not self.name:
            return function

        def call(*arguments: Any) -> Any:
            *given, rng = arguments
            handed = int(rng.integers(2**32)) if self.what == "seed" else rng
            return function(*given, **{self.name: handed}) if self.name else function(*given, handed)

        return call


def randomness_argument_of(function: Callable[..., Any], arguments: tuple[str, ...]) -> RandomnessArgument:
    """Find out from a function's signature how it gets its randomness.

    ``arguments`` are the names of the positional arguments that an audit passes. The last one is the rng, for example
    ``("dataset", "rng")``. A function may also leave out the rng. Raises `AuditError` if the signature allows neither
    of these calls, or if the function takes its randomness by two parameters.

    >>> randomness_argument_of(lambda data, seed: data, ("dataset", "rng"))
    RandomnessArgument(what='seed', name='')
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some compiled functions hide their signature: assume the documented form
        return RandomnessArgument()
    others, bound, name = arguments[:-1], _bound(signature, *arguments), getattr(function, "__name__", "function")
    sources = find_randomness_parameters(function, {}, len(others))
    if len(sources) > 1:
        raise AuditError(
            f"{name} takes {' and '.join(map(repr, sources))}, and gets its randomness by one of them. Bind the other, "
            f"as functools.partial({name}, {list(sources)[-1]}=...)."
        )
    for source, what in sources.items():
        if bound and list(bound)[-1] == source:
            return RandomnessArgument(what)
        if _bound(signature, *others, **{source: what}):
            return RandomnessArgument(what, source)
    if bound and is_unset(
        signature.parameters[list(bound)[-1]].default
        # a parameter with another default, such as epsilon=1.0, is not an rng
    ):
        return RandomnessArgument()
    if _bound(signature, *others):
        return RandomnessArgument("")
    raise AuditError(
        f"The mechanism's signature is {signature}; it must accept function({', '.join(arguments)}), or the same "
        "without rng."
    )


def takes_size(function: Callable[..., Any]) -> bool:
    """Return whether a function takes the arguments (dataset, size, rng), judging by its parameters.

    Otherwise the function takes (dataset, rng), and may have further parameters with default values.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    names, bound = list(signature.parameters)[1:], _bound(signature, None, None, None)
    if not bound:
        keyword = [name for name in names[1:] if name in SEED_NAMES + GENERATOR_NAMES]
        return names[:1] == ["size"] and bool(keyword and _bound(signature, None, None, **dict.fromkeys(keyword)))
    parameters = [signature.parameters[name] for name in bound][1:]
    if parameters and parameters[0].name in (
        "size",
        *SEED_NAMES,
        *GENERATOR_NAMES,
    ):  # there are fewer than two if the function has *args
        return parameters[0].name == "size"
    return all(
        one.default is one.empty or (place == 1 and is_unset(one.default)) for place, one in enumerate(parameters)
    )


def _bound(signature: inspect.Signature, *given: Any, **named: Any) -> dict[str, Any] | None:
    """Return the arguments of a call by parameter name, or None if the signature does not allow the call."""
    try:
        return signature.bind(*given, **named).arguments
    except TypeError:
        return None


def wrong_call(function: Any, many: bool = False) -> str:
    """Return a sentence that says how a function was called, to be added to the message of an error that it raised.

    The sentence helps a user whose function expects other arguments. It starts with a space. It is '' if the parameters
    after the dataset have the same names as the arguments, for example ``rng``. ``many`` says whether the function was
    called for many outputs at once, with the arguments (x, size, rng) instead of (x, rng).
    """
    arguments = ("x", "size", "rng") if many else ("x", "rng")
    try:
        takes = randomness_argument_of(function, arguments)
        by_place = (*arguments[:-1], *([takes.what] if takes.what and not takes.name else []))
        by_name = {takes.name: takes.what} if takes.name else {}
        bound = inspect.signature(function).bind(*by_place, **by_name).arguments
    except (AuditError, TypeError, ValueError):
        return ""
    name = getattr(function, "__name__", type(function).__name__)
    if takes.what != "seed" and list(bound)[1:] == [what for what in bound.values() if what != "x"]:
        return ""
    called = ", ".join(f"{parameter}={what}" for parameter, what in bound.items())
    return f" It was called as {name}({called}); bind what differs, as functools.partial({name}, ...=...)."

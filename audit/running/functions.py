"""A mechanism made of a function: `black_box` for one output a call, `vectorized` for many."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from epsaudit.claims.definitions import Claim
from epsaudit.data.datasets import Dataset
from epsaudit.data.neighbours import Adjacency, DatasetPair, Pairs, Relation, adjacency_of
from epsaudit.data.pairs import list_pairs
from epsaudit.errors import AuditError, public, with_article
from epsaudit.running.calling import RandomnessArgument, randomness_argument_of, takes_size
from epsaudit.running.function_laws import OneByOne, Vectorized
from epsaudit.running.protocols import Mechanism, OutputDistribution, is_claim
from epsaudit.running.randomness import GlobalRngUse, owns_randomness


@dataclass(frozen=True)
class FunctionMechanism:
    """A mechanism that calls a function. It is built by `black_box` and `vectorized`.

    Attributes
    ----------
    function : callable
        The function or, if ``fresh`` is true, a factory that makes the function.
    name, claim, adjacency
        As on `Mechanism`.
    pairs : tuple of DatasetPair
        The pairs that were given when the function was wrapped.
    one_by_one : bool
        Whether the function is called once for each run.
    takes : RandomnessArgument
        How the function gets its randomness.
    fresh_randomness : bool
        Whether the user promised that copies of the function never repeat each other's noise.
    fresh : bool
        Whether ``function`` is a factory, which makes a new object for every run or block of runs.
    draws_globally : bool
        Whether the function was observed to draw from the global generators.
    draws_elsewhere : bool
        Whether the function was observed to draw from another source than its rng and the global generators.
    fills_a_buffer : bool
        Whether two calls returned the same memory.
    reproducible : bool
        Whether outputs depend on the seed only. This is assumed if the function takes an rng or was observed to draw
        from the global generators, was not observed to draw from another source, and carries no generator of its own.
    copies_repeat : bool
        Whether copies might draw the same noise.
    releases_the_interpreter : bool
        Whether threads run the function in parallel.
    """

    function: Callable[..., Any]
    name: str
    claim: Claim | None
    adjacency: Adjacency | None
    pairs: tuple[DatasetPair, ...]
    one_by_one: bool = field(default=True, repr=False)
    takes: RandomnessArgument = field(default=RandomnessArgument(), repr=False)
    fresh_randomness: bool = False
    fresh: bool = False
    draws_globally: bool = False
    draws_elsewhere: bool = False
    fills_a_buffer: bool = False
    reproducible: bool = field(init=False, repr=False, compare=False)
    copies_repeat: bool = field(init=False, repr=False, compare=False)
    releases_the_interpreter: bool = field(init=False, repr=False, compare=False)
    wants_many_calls = True

    def __post_init__(self) -> None:
        seen = bool(self.takes.what and not self.draws_elsewhere) or self.draws_globally
        owns = owns_randomness(self.function, seen, 2 if self.one_by_one else 3)
        object.__setattr__(self, "reproducible", not owns)
        object.__setattr__(self, "copies_repeat", owns and not self.fresh_randomness)
        alone = self.one_by_one or self.draws_globally or self.fills_a_buffer
        object.__setattr__(self, "releases_the_interpreter", not alone)

    def __call__(self, dataset: Any) -> OutputDistribution:
        """Return the output distribution on a dataset. All runs see the dataset in its present state."""
        law = OneByOne if self.one_by_one else Vectorized
        global_rng = GlobalRngUse(repeatable=self.reproducible)
        return law(self.function, Dataset(dataset), self.takes, self.fresh, global_rng)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return the pairs of datasets that were given when the function was wrapped."""
        return self.pairs


@public
def black_box(
    function: Callable[..., Any],
    *,
    claim: Claim | None = None,
    adjacency: Relation | None = None,
    pairs: Pairs = (),
    name: str | None = None,
    fresh: bool = False,
    fresh_randomness: bool = False,
) -> FunctionMechanism:
    """Make a mechanism of a function that returns one output in each call.

    Parameters
    ----------
    function : callable
        ``function(dataset, rng) -> output``, where rng is a `numpy.random.Generator`. A parameter ``seed`` or
        ``random_state`` gets a new whole number below 2^32 in every run instead. A ``function(dataset)`` owns its
        randomness, and its results are not reproducible. An exception counts as an output, and so does ``sys.exit``
        (see docs/reference/outputs.md).
    claim, adjacency, pairs, name : optional
        As on `Mechanism`. ``adjacency=None`` means that the caller guarantees that the pairs are neighbours.
    fresh : bool
        Whether ``function`` is a class or another factory, which is called without arguments before every run. Use it
        for objects that keep answers, noise or a budget. If the factory has an attribute ``stateless`` that is true, a
        block of runs shares one object.
    fresh_randomness : bool
        A promise that a function which owns its randomness draws from the operating system, so that copies never
        repeat each other. Without it, an audit runs such a function in one process and keeps no checkpoint.

    Raises
    ------
    AuditError
        If the function cannot be called in one of these ways, or takes its randomness by two parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from epsaudit import PureDP
    >>> def noisy_count(dataset, rng):
    ...     return len(dataset) + rng.laplace(scale=1.0)
    >>> mechanism = black_box(noisy_count, claim=PureDP(1.0))
    >>> mechanism(("ann", "bob")).sample(3, np.random.default_rng(0)).shape
    (3,)
    """
    return _wrap(True, function, claim, adjacency, pairs, name, fresh, fresh_randomness)


@public
def vectorized(
    function: Callable[..., Any],
    *,
    claim: Claim | None = None,
    adjacency: Relation | None = None,
    pairs: Pairs = (),
    name: str | None = None,
    fresh: bool = False,
    fresh_randomness: bool = False,
) -> FunctionMechanism:
    """Make a mechanism of a function that returns many outputs in each call.

    Parameters
    ----------
    function : callable
        ``function(dataset, size, rng) -> outputs``, independent outputs in an array of shape (size, *output_shape); or
        ``function(dataset, size)`` if the function owns its randomness. A parameter ``seed`` or ``random_state`` gets
        a new whole number in every call instead of an rng.
    claim, adjacency, pairs, name, fresh, fresh_randomness : optional
        As for `black_box`. With ``fresh``, a new object is made for every block of outputs.

    Raises
    ------
    AuditError
        If the function can be called in neither way.

    Examples
    --------
    >>> import numpy as np
    >>> from epsaudit import PureDP
    >>> counter = vectorized(lambda data, size, rng: len(data) + rng.laplace(size=size), claim=PureDP(1.0))
    >>> counter((7, 8)).sample(4, np.random.default_rng(0)).shape
    (4,)
    """
    return _wrap(False, function, claim, adjacency, pairs, name, fresh, fresh_randomness)


def called(function: Callable[..., Any]) -> str:
    """Return a name for a function: a method with its class, a lambda with its file and line.

    >>> called([].append), called(functools.partial(len))
    ('list.append', 'len')
    """
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)  # of a lambda in a cache, too
    name = str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]
    if name.endswith("<lambda>") and code is not None:
        return f"lambda at {os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    return name


def _wrap(
    one_by_one: bool, function: Any, claim: Any, adjacency: Any, pairs: Pairs, name: Any, fresh: bool, promised: bool
) -> FunctionMechanism:
    arguments = (OneByOne if one_by_one else Vectorized).arguments
    if claim is not None:
        is_claim(claim, "the mechanism")
    if name is not None and not isinstance(name, str):
        raise AuditError(f"name is {name!r}; it must be a string.")
    if not callable(function):
        form = f"function({', '.join(arguments)})"
        raise AuditError(f"{function!r} is not callable; a mechanism is {form}, or the same without rng.")
    title, relation = name or called(function), adjacency_of(adjacency)
    neighbours = tuple(list_pairs(pairs, relation))
    takes = randomness_argument_of(_made(function) if fresh else function, arguments)
    return FunctionMechanism(function, title, claim, relation, neighbours, one_by_one, takes, promised, fresh)


def _made(factory: Callable[[], Any]) -> Callable[..., Any]:
    """Call a factory and return the function that it makes.

    Raises `AuditError` if the factory raises an exception, or returns an object that cannot be called.
    """
    takes = "give as fresh= what makes a function of (dataset, rng), for example lambda: Client(epsilon=1.0).release."
    try:
        made: Callable[..., Any] = factory()
    except Exception as error:
        raise AuditError(f"{factory!r} raised {type(error).__name__} ({error}); {takes}") from error
    if not callable(made):
        raise AuditError(f"{factory!r} made {with_article(type(made).__name__)}, which is not callable; {takes}")
    return made


def mechanism_of(
    mechanism: Mechanism | Callable[..., Any] | None,
    adjacency: Relation | None = None,
    fresh: Callable[[], Callable[..., Any]] | None = None,
) -> Mechanism:
    """Return a mechanism unchanged, or wrap a function as a mechanism.

    A function is wrapped by `vectorized` if it takes a size, and by `black_box` otherwise. ``fresh`` is a factory of
    functions that is given instead of a mechanism. Raises `AuditError` if the argument is neither a mechanism nor a
    function, or if an adjacency is given together with a mechanism.
    """
    if fresh is not None:
        if mechanism is not None or not callable(fresh):
            it = "give either a mechanism, or by fresh= the class or function that makes it"
            raise AuditError(f"fresh is {fresh!r} beside {mechanism!r}; {it}.")
        return (vectorized if takes_size(_made(fresh)) else black_box)(fresh, adjacency=adjacency, fresh=True)
    if isinstance(mechanism, Mechanism) and not isinstance(mechanism, type):
        if adjacency is not None:
            raise AuditError(f"adjacency= is for plain functions; that of {mechanism.name} is {mechanism.adjacency}.")
        return mechanism
    if isinstance(mechanism, type) and hasattr(mechanism, "worst_pairs"):
        raise AuditError(f"{mechanism.__name__} is a class of mechanisms; give one of them, {mechanism.__name__}(...).")
    if not callable(mechanism):
        forms = "function(dataset, rng), or function(dataset, size, rng)"
        raise AuditError(f"{mechanism!r} is not a mechanism; give one, or {forms}.")
    return (vectorized if takes_size(mechanism) else black_box)(mechanism, adjacency=adjacency)

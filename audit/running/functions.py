"""A mechanism is a function from datasets to output distributions: both protocols, and what makes it of a function.

A function is called with its dataset, and a generator, a seed or nothing, as its signature says.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
import os
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import (
    Adjacency,
    Dataset,
    DatasetPair,
    Pairs,
    Relation,
    adjacency_of,
    describe,
    is_frame,
    listed,
)
from epsaudit.errors import AuditError, OwnCodeError, is_own, own_lines, with_article
from epsaudit.outputs.ignored_parts import OBSERVED, TOTAL, IgnoredParts, observe, observe_rows
from epsaudit.outputs.normal_form import Outputs, Raised, frozen, normal_array, pack, pack_frozen
from epsaudit.serve import GENERATORS, SEEDS, is_free, wanted


@runtime_checkable
class OutputDistribution(Protocol):
    """The law of a mechanism's output on one dataset, prepared so that sampling is cheap.

    One that is known says so by further members, see `forms`. One of which every output is a call of its own has
    ``sample_interleaved(other, coins, rng)``: outputs in the order of the coins, on this dataset for 0, on the
    other's for 1.
    """

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Draw ``size`` independent outputs, shape (size, *output_shape), all randomness from ``rng``."""


OutputLaws = tuple[OutputDistribution, OutputDistribution]  # M(x) and M(x')


@runtime_checkable
class Mechanism(Protocol):
    """A randomised algorithm with its proven claim."""

    @property
    def name(self) -> str:
        """A short name for tables."""

    @property
    def claim(self) -> Claim | None:
        """The proven bound; None where an audit is to be given one."""

    @property
    def adjacency(self) -> Adjacency | None:
        """The neighbouring relation that the proof is for; None where the caller vouches for the pairs."""

    def __call__(self, dataset: Any) -> OutputDistribution:
        """Prepare the output distribution on one dataset."""

    def worst_pairs(self) -> Sequence[DatasetPair]:
        """Pairs on which the claim is attained, or nearly; may be empty."""


@dataclass(frozen=True)
class RandomnessArgument:
    """What a function is given beside its dataset (and size): 'rng', 'seed' or nothing, by which name, how called."""

    what: str = "rng"
    name: str = ""  # its keyword; none where it is the last argument by position

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as one of (dataset, rng), of (dataset, size, rng), or of these without rng."""
        if self.what != "seed" and not self.name:
            return function

        def call(*arguments: Any) -> Any:
            *given, rng = arguments
            handed = int(rng.integers(2**32)) if self.what == "seed" else rng
            return function(*given, **{self.name: handed}) if self.name else function(*given, handed)

        return call


def randomness_argument_of(function: Callable[..., Any], arguments: tuple[str, ...]) -> RandomnessArgument:
    """Say how a function takes the last of these arguments, an rng, or that it takes the others only."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some compiled functions hide theirs: believe the documented form
        return RandomnessArgument()
    others, bound, name = arguments[:-1], _bound(signature, *arguments), getattr(function, "__name__", "function")
    sources = wanted(function, {}, len(others))
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
    if bound and is_free(signature.parameters[list(bound)[-1]].default):  # another default, as epsilon=1.0, is no rng
        return RandomnessArgument()
    if _bound(signature, *others):
        return RandomnessArgument("")
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
    names, bound = list(signature.parameters)[1:], _bound(signature, None, None, None)
    if not bound:
        keyword = [name for name in names[1:] if name in SEEDS + GENERATORS]
        return names[:1] == ["size"] and bool(keyword and _bound(signature, None, None, **dict.fromkeys(keyword)))
    parameters = [signature.parameters[name] for name in bound][1:]
    if parameters and parameters[0].name in ("size", *SEEDS, *GENERATORS):  # fewer than two where there is *args
        return parameters[0].name == "size"
    return all(
        one.default is one.empty or (place == 1 and is_free(one.default)) for place, one in enumerate(parameters)
    )


def _bound(signature: inspect.Signature, *given: Any, **named: Any) -> dict[str, Any] | None:
    try:
        return signature.bind(*given, **named).arguments
    except TypeError:
        return None


def wrong_call(function: Any, many: bool = False) -> str:
    """Return a sentence, led by a space, on how a function was called where names of parameters leave that open."""
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


# what functions draw from: generators that they carry, which copies would repeat, and the global ones

CARRIED = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
DEPTH, MOST_PARTS = 4, 64  # how far is looked: functions within functions, parts of a container
LOCK = threading.RLock()  # the global generators belong to all threads: only one block of runs at a time may use them
_NUMPY, _RANDOM = cast(Any, np.random), cast(Any, random)  # whose types do not know all of them
_PYTHON = _RANDOM.getstate.__self__ if sys.implementation.name == "cpython" else None  # elsewhere no id is an address
PYTHON_BYTES: Any = _PYTHON and _RANDOM.Random.__base__.__basicsize__ - object.__basicsize__  # [formula] No header
MT19937_BYTES = 2500  # [formula] The state of numpy's Mersenne twister: 624 words of 4 bytes, and a place among them
Drawn = TypeVar("Drawn")


def carries_a_generator(function: Any, arguments: int) -> bool:
    """Say whether a function names or holds a generator that is copied with it; one of the operating system's is not.

    Defaults of the so many ``arguments`` that functions are given do not count.
    """
    left, seen = [(function, 0)], dict[int, Any]()
    for thing, depth in left:  # which grows
        if is_generator(thing):
            return True
        if depth == DEPTH or id(thing) in seen or inspect.ismodule(thing):
            continue
        seen[id(thing)] = thing
        parts: list[Any] = []
        if inspect.ismethod(thing):
            parts = [thing.__self__, thing.__func__]
        elif inspect.isfunction(thing):
            names, defaults = _names(thing.__code__), thing.__defaults__ or ()
            parts += defaults[max(arguments - thing.__code__.co_argcount + len(defaults), 0) :]
            parts += (thing.__kwdefaults__ or {}).values()
            for cell in thing.__closure__ or ():
                parts += [] if cell == types.CellType() else [cell.cell_contents]
            for named in map(thing.__globals__.get, names):
                parts.append(named)
                if inspect.ismodule(named) and is_own(named):  # others' hold functions
                    parts += map(vars(named).get, names)
        elif isinstance(thing, functools.partial):
            parts = [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, (dict, list, tuple, set, frozenset)):
            parts += itertools.islice(thing.values() if isinstance(thing, dict) else thing, MOST_PARTS)
        else:
            parts += () if inspect.isclass(thing) else getattr(thing, "__dict__", {}).values()
            for kind in (thing if inspect.isclass(thing) else type(thing)).__mro__:
                if kind.__module__ == "__main__" or is_own(sys.modules.get(kind.__module__)):
                    for part in vars(kind).values():  # static and class methods, properties
                        parts.append(getattr(part, "__func__", getattr(part, "fget", part)))
        left += zip(parts, itertools.repeat(depth + 1))
    return False


def _names(code: types.CodeType) -> list[str]:
    """Return the names that code looks up, and those of the functions and generator expressions inside it."""
    inner = [name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names(one)]
    return [*code.co_names, *inner]


def is_generator(thing: Any) -> bool:
    """Say whether an object is a generator of numpy, Python or PyTorch, or a typed random key of JAX.

    Libraries that are not imported here are recognised by the names of their types.
    """
    if isinstance(thing, CARRIED):
        return not isinstance(thing, random.SystemRandom)
    kind = type(thing)
    library = kind.__module__.partition(".")[0]
    if library == "torch":
        return kind.__name__ == "Generator"
    return library in ("jax", "jaxlib") and str(getattr(thing, "dtype", "")).startswith("key<")


def owns_randomness(function: Any, seeded: bool, arguments: int) -> bool:
    """Say whether a function may have randomness that no seed of the audit reaches.

    That is a function that is not seen to be ``seeded``, or one that carries a generator. A copy of it, and the
    function itself after a restart, might repeat its noise. It is given so many ``arguments``, its generator included.
    """
    return not seeded or carries_a_generator(function, arguments)


class DatasetChangedError(Exception):
    """Raised inside a block whose runs were found to share a dataset that one of them changed: draw it again."""


@dataclass
class GlobalRngUse:
    """What is known of how a function gets its randomness."""

    draws_globally: bool | None = None  # whether it was seen to use a global generator; None before its first block
    repeatable: bool = True  # whether a block can be drawn again: all of its randomness can be seeded
    left: Any = None  # where the global generators stood after the last block that was drawn with them seeded


def draw_reproducibly(draw: Callable[[], Drawn], rng: np.random.Generator, habits: GlobalRngUse | None) -> Drawn:
    """Draw a block so that the global generators, if it uses them, depend on the state of ``rng`` alone.

    The first block is drawn with the global generators seeded. If it left them alone, later blocks are not, for that
    keeps threads from working side by side; one that does use them is drawn again. What promises to draw from the rng
    alone has no ``habits``. A block is drawn again, too, where runs shared a dataset that one of them changed.
    """
    habits = GlobalRngUse(draws_globally=False) if habits is None else habits
    known, state, before = habits.draws_globally, rng.bit_generator.state, _states()
    with np.errstate():  # what a function sets for itself
        while True:
            try:
                if known is False:
                    drawn = draw()
                    if _states() == before:
                        return drawn
                    if not habits.repeatable:
                        raise AuditError(
                            "The mechanism drew from a global generator (np.random, random) after many runs that did "
                            "not, and owns other randomness. Draw all of it from the rng that is passed to it."
                        )
                    known, rng.bit_generator.state = None, state
                with LOCK, seeded(rng) as begun:
                    try:
                        return draw()
                    finally:
                        habits.left = _states()
                        habits.draws_globally = bool(known) or habits.left != begun
            except DatasetChangedError:  # once for each dataset
                rng.bit_generator.state = state


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[Any]:
    """Seed the global generators from the state of ``rng``, a PCG64, yield their state, and put them back."""
    state: dict[str, Any] = {**rng.bit_generator.state}
    numbers = [*state["state"].values(), state["has_uint32"], state["uinteger"]]
    words = np.random.SeedSequence(numbers).generate_state(8)  # hashed, so that they are not what it will draw
    theirs, python = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002
    generator = _NUMPY.get_bit_generator()
    try:
        if not isinstance(generator, np.random.MT19937):  # somebody's choice, which np.random.seed cannot seed
            _NUMPY.set_bit_generator(np.random.MT19937())
        np.random.seed(words[:4])  # noqa: NPY002
        random.seed(int.from_bytes(words[4:].tobytes(), "little"))
        yield _states()
    finally:
        _NUMPY.set_bit_generator(generator)
        np.random.set_state(theirs)  # noqa: NPY002
        random.setstate(python)


def _states() -> Any:
    """Where the global generators stand, to be compared; both are read where they lie, which takes no time."""
    numpys = _NUMPY.get_bit_generator()
    own = type(numpys) is np.random.MT19937  # unless somebody chose another
    state = ctypes.string_at(numpys.ctypes.state_address, MT19937_BYTES) if own else repr(numpys.state)
    if _PYTHON is None:
        return state, random.getstate()
    return state, _PYTHON.gauss_next, ctypes.string_at(id(_PYTHON) + object.__basicsize__, PYTHON_BYTES)


@dataclass(frozen=True)
class FunctionMechanism:
    """A mechanism made of a function; see `black_box` and `vectorized`, which build it."""

    function: Callable[..., Any]
    name: str
    claim: Claim | None
    adjacency: Adjacency | None
    pairs: tuple[DatasetPair, ...]
    one_by_one: bool = field(default=True, repr=False)  # whether the function is called once a run
    takes: RandomnessArgument = field(default=RandomnessArgument(), repr=False)
    fresh_randomness: bool = False
    fresh: bool = False  # whether ``function`` makes what is called
    draws_globally: bool = False
    draws_elsewhere: bool = False
    """Whether it was seen to draw from the global generators, or from neither these nor its rng."""
    fills_a_buffer: bool = False
    reproducible: bool = field(init=False, repr=False, compare=False)
    """Whether outputs depend on the seed alone: it was seen to draw from what it is given, and carries no generator."""
    copies_repeat: bool = field(init=False, repr=False, compare=False)  # whether copies might draw the same noise
    releases_the_interpreter: bool = field(init=False, repr=False, compare=False)  # whether threads run it in parallel
    wants_many_calls = True

    def __post_init__(self) -> None:
        seen = bool(self.takes.what and not self.draws_elsewhere) or self.draws_globally
        owns = owns_randomness(self.function, seen, 2 if self.one_by_one else 3)
        object.__setattr__(self, "reproducible", not owns)
        object.__setattr__(self, "copies_repeat", owns and not self.fresh_randomness)
        alone = self.one_by_one or self.draws_globally or self.fills_a_buffer
        object.__setattr__(self, "releases_the_interpreter", not alone)

    def __call__(self, dataset: Any) -> OutputDistribution:
        """Bind the function to a dataset, of which every run sees what is given here."""
        law = _OneByOne if self.one_by_one else _Vectorized
        habits = GlobalRngUse(repeatable=self.reproducible)
        return law(self.function, Dataset(dataset), self.takes, self.fresh, habits)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return the pairs given when the function was wrapped."""
        return self.pairs


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
    """Make a mechanism of a function that returns one output a call.

    Parameters
    ----------
    function : callable
        ``function(dataset, rng) -> output``, with rng a `numpy.random.Generator`; ``seed`` or ``random_state`` gets a
        new whole number each run, below 2^32, in its place. ``function(dataset)`` owns its randomness, and results are
        not reproducible. An exception is an outcome, ``sys.exit`` included. See docs/reference/outputs.md. `AuditError`
        is raised if it cannot be called so, or takes its randomness by two parameters.
    claim, adjacency, pairs, name : optional
        As on `Mechanism`. ``adjacency=None`` means that the caller vouches for the pairs.
    fresh : bool
        Whether ``function`` is a class or another factory, called without arguments before every run: for whatever
        keeps answers, noise or a budget. If it has a true attribute ``stateless``, a block of runs shares an object.
    fresh_randomness : bool
        Promises that a function which owns its randomness draws from the operating system, so that copies never repeat
        each other. Without, an audit runs it in one process, and keeps no checkpoint.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> def noisy_count(dataset, rng):
    ...     return len(dataset) + rng.laplace(scale=1.0)
    >>> mechanism = black_box(noisy_count, claim=PureDP(1.0))
    >>> mechanism(("ann", "bob")).sample(3, np.random.default_rng(0)).shape
    (3,)
    """
    return _wrap(True, function, claim, adjacency, pairs, name, fresh, fresh_randomness)


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
    """Make a mechanism of a function that returns many outputs a call.

    Parameters
    ----------
    function : callable
        ``function(dataset, size, rng) -> outputs`` of shape (size, *output_shape), independent draws; or
        ``function(dataset, size)`` if it owns its randomness. `AuditError` is raised if it takes neither. A parameter
        ``seed`` or ``random_state`` gets a new whole number each call.
    claim, adjacency, pairs, name, fresh, fresh_randomness : optional
        As for `black_box`; what a factory makes is called once for a block.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> counter = vectorized(lambda data, size, rng: len(data) + rng.laplace(size=size), claim=PureDP(1.0))
    >>> counter((7, 8)).sample(4, np.random.default_rng(0)).shape
    (4,)
    """
    return _wrap(False, function, claim, adjacency, pairs, name, fresh, fresh_randomness)


def called(function: Callable[..., Any]) -> str:
    """Name a function: a method with its class, a lambda by where it stands, a partial call by what it calls.

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
    arguments = (_OneByOne if one_by_one else _Vectorized).arguments
    if claim is not None:
        is_claim(claim, "the mechanism")
    if name is not None and not isinstance(name, str):
        raise AuditError(f"name is {name!r}; it must be a string.")
    if not callable(function):
        form = f"function({', '.join(arguments)})"
        raise AuditError(f"{function!r} is not callable; a mechanism is {form}, or the same without rng.")
    title, relation = name or called(function), adjacency_of(adjacency)
    neighbours = tuple(listed(pairs, relation))
    takes = randomness_argument_of(_made(function) if fresh else function, arguments)
    return FunctionMechanism(function, title, claim, relation, neighbours, one_by_one, takes, promised, fresh)


def _made(factory: Callable[[], Any]) -> Callable[..., Any]:
    takes = "fresh= takes what makes a function of (dataset, rng), as lambda: Client(epsilon=1.0).release."
    try:
        made: Callable[..., Any] = factory()
    except Exception as error:
        raise AuditError(f"{factory!r} raised {type(error).__name__} ({error}); {takes}") from error
    if not callable(made):
        raise AuditError(f"{factory!r} made {with_article(type(made).__name__)}, which is not callable; {takes}")
    return made


def is_claim(claim: Any, name: str) -> Claim:
    """Return a claim; raise `AuditError` for what is none."""
    if not isinstance(claim, Claim):
        raise AuditError(f"The claim of {name} is {claim!r}; give one, for instance epsilon=1.0 or claim=PureDP(1.0).")
    return claim


def mechanism_of(
    mechanism: Mechanism | Callable[..., Any] | None,
    adjacency: Relation | None = None,
    fresh: Callable[[], Callable[..., Any]] | None = None,
) -> Mechanism:
    """Return a mechanism as it is, or wrap a function, or ``fresh``, by `vectorized` if it takes a size."""
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


def move_on(rng: np.random.Generator) -> None:
    """Draw a number that nobody uses: else two calls that leave ``rng`` alone would be seeded alike."""
    rng.integers(1 << 53)


def draw(distribution: OutputDistribution, size: int, rng: np.random.Generator) -> Outputs:
    """Draw ``size`` outputs and check that they are as many; raises `AuditError` if not, or if the mechanism raises."""
    if getattr(distribution, "random_call_order", False):
        move_on(rng)
    try:
        sample = functools.partial(distribution.sample, size, rng)
        outputs = draw_reproducibly(sample, rng, getattr(distribution, "habits", None))
    except (AuditError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        failed = OwnCodeError(
            f"The mechanism raised {type(error).__name__} ({error}) while drawing {size} outputs. Wrap a function that "
            "makes one output a call in epsaudit.black_box to have exceptions counted as outcomes."
            f"{wrong_call(getattr(distribution, 'function', None), many=True)}"
        )
        failed.lines = own_lines(error)
        raise failed from error
    if not isinstance(outputs, np.ndarray) or outputs.ndim == 0 or len(outputs) != size:
        shape = getattr(outputs, "shape", None)
        raise AuditError(
            f"The mechanism returned {type(outputs).__name__}{'' if shape is None else f' of shape {shape}'} for "
            f"{size} outputs; sample(size, rng) must return an array of shape (size, ...)."
        )
    return normal_array(outputs)


@dataclass(frozen=True)
class _FunctionDistribution:
    function: Callable[..., Any]
    dataset: Dataset
    takes: RandomnessArgument
    fresh: bool = False
    habits: GlobalRngUse = field(default_factory=GlobalRngUse, compare=False, repr=False)
    ignored: IgnoredParts = field(default_factory=IgnoredParts, compare=False, repr=False)
    arguments: ClassVar[tuple[str, ...]] = ("dataset", "rng")
    random_call_order: ClassVar[bool] = False


class _OneByOne(_FunctionDistribution):
    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Call the function ``size`` times."""
        return pack_frozen(self.sample_interleaved(self, np.zeros(size, np.int8), rng)[0])

    def sample_interleaved(
        self, other: _OneByOne, side: NDArray[np.int8], rng: np.random.Generator
    ) -> tuple[list[Any], list[Any]]:
        """See `OutputDistribution`. Runs share a dataset until one has changed it: a look after 1, 2, 4, ... tells."""
        values: tuple[list[Any], list[Any]] = ([], [])
        coins, start, sides, more = side.tolist(), 0, (self, other), (rng,) if self.takes.what else ()
        new = self.habits.draws_globally is None and not (self.dataset.constant and other.dataset.constant)
        while start < len(coins):
            observing = [law.ignored[TOTAL] < OBSERVED for law in sides]  # asked once a part, and not in every run
            end = (2 * start or 1) if new else len(coins)
            part = coins[start : min(end, start + 2 * OBSERVED) if any(observing) else end]
            start += len(part)
            shared, runs = [], list[Callable[[], Any]]()
            for law in sides:
                shared.append(None if law.dataset.changes else law.dataset.shared)
                own = law.fresh and not getattr(law.function, "stateless", False)  # an object for every run
                call = None if own else law.takes.of(law.function() if law.fresh else law.function)
                run = functools.partial(law._run_alone, call) if call is None or shared[-1] is None else call
                runs.append(functools.partial(run, shared[-1], *more))
            for which in part:
                try:
                    value = runs[which]()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    value = Raised.of(error)
                if observing[which]:
                    observe(sides[which].ignored, value)
                if type(value) is not float:
                    value = frozen(value)
                values[which].append(value)
            for which, data in enumerate(shared):
                one = sides[which].dataset
                if data is None or one.constant or one.intact(data) or part.count(which) <= 1:
                    continue
                if sides[which].habits.repeatable:  # the block can be drawn again
                    raise DatasetChangedError
                raise AuditError(
                    "The function changed its dataset in some runs only, and owns its randomness, so that those runs "
                    "cannot be made again. Let it work on a copy of its dataset."
                )
        return values

    def _run_alone(self, call: Callable[..., Any] | None, data: Any, *more: np.random.Generator) -> Any:
        """Make a run, by an object of its own where there is no ``call``, on a copy where no dataset is shared."""
        call = call or self.takes.of(self.function())
        return call(self.dataset.copy() if data is None else data, *more)


class _Vectorized(_FunctionDistribution):
    random_call_order = True
    arguments = ("dataset", "size", "rng")

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Call the function once; a list or an array of objects is packed like single outputs."""
        data, call = self.dataset.copy(), self.takes.of(self.function() if self.fresh else self.function)
        outputs = call(data, size, *((rng,) if self.takes.what else ()))
        if self.habits.draws_globally is None:
            self.dataset.intact(data)
        masked = isinstance(outputs, np.ma.MaskedArray)
        if masked or isinstance(outputs, list) or (isinstance(outputs, np.ndarray) and outputs.dtype.kind == "O"):
            for place in range(min(OBSERVED - self.ignored[TOTAL], len(outputs))):
                observe(self.ignored, outputs[place : place + 1] if masked else outputs[place])
        elif isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf" and len(outputs) == size:
            observe_rows(self.ignored, outputs)
        if isinstance(outputs, np.ndarray):
            return outputs
        with suppress(TypeError):
            if not is_frame(outputs):
                return pack(list(outputs))
        shown = describe(outputs) if is_frame(outputs) else repr(outputs)
        raise AuditError(
            f"The mechanism returned {shown} for {size} outputs; function(dataset, size, rng) must return an "
            f"array of shape (size, ...) or a list of that length.{wrong_call(self.function, many=True)}"
        )

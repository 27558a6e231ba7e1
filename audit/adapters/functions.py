"""A mechanism is a function from datasets to output distributions: both protocols, and what makes it of a function."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.calls import Takes, one_event_loop, takes_of, takes_size, wrong_call
from epsaudit.adapters.randomness import DatasetChangedError, Habits, carries_a_generator, draw_reproducibly
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
from epsaudit.errors import AuditError, OwnCodeError, own_lines, seconds_of, with_article
from epsaudit.outputs.normal_form import Outputs, Raised, TimedOut
from epsaudit.outputs.packed import frozen, normal_array, pack, pack_frozen
from epsaudit.outputs.unread import Unread


@runtime_checkable
class OutputDistribution(Protocol):
    """The law of a mechanism's output on one dataset, prepared so that sampling is cheap.

    A distribution that knows its law says so by further members, which `epsaudit.mechanisms.exact` reads; see there.
    """

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Draw ``size`` independent outputs, shape (size, *output_shape), all randomness from ``rng``."""


Sides = tuple[OutputDistribution, OutputDistribution]
"""M(x) and M(x')."""


class TakesTurns(Protocol):
    """A distribution whose every output is a call of its own, so that runs on x and on x' can take turns."""

    def take_turns(self, other: Any, side: NDArray[np.int8], rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
        """Make one output for each coin, in their order, on this dataset for 0 and on the other's for 1."""


def takes_turns(distribution: object) -> TypeGuard[TakesTurns]:
    """Say whether every output of a distribution is a call of its own; cheaper than `isinstance` of a protocol."""
    return hasattr(distribution, "take_turns")


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
class FunctionMechanism:
    """A mechanism made of a function; see `black_box` and `vectorized`, which build it."""

    function: Callable[..., Any]
    name: str
    claim: Claim | None
    adjacency: Adjacency | None
    pairs: tuple[DatasetPair, ...]
    distribution: type[_OneByOne | _Vectorized] = field(repr=False)
    takes: Takes = field(default=Takes(), repr=False)
    time_limit: float | None = None
    fresh_randomness: bool = False
    fresh: bool = False
    """Whether ``function`` makes what is called: anew for every run, or every block of runs where it is stateless."""
    draws_globally: bool = False
    draws_elsewhere: bool = False
    fills_a_buffer: bool = False
    wants_many_calls = True

    @property
    def uses_rng(self) -> bool:
        """Whether it is given a generator, or seeds drawn from one."""
        return bool(self.takes.what)

    @property
    def owns_randomness(self) -> bool:
        """Whether it was not seen to do with its rng or the global generators, or carries a generator of its own."""
        seen = (self.uses_rng and not self.draws_elsewhere) or self.draws_globally
        return not seen or carries_a_generator(self.function, 2 if self.one_by_one else 3)

    @property
    def copies_repeat(self) -> bool:
        """Whether copies in other processes might draw the same noise: it owns its randomness and promised nothing."""
        return self.owns_randomness and not self.fresh_randomness

    @property
    def reproducible(self) -> bool:
        """Whether outputs depend on the seed alone; false for a function that owns its randomness or may time out."""
        return not self.owns_randomness and self.time_limit is None

    @property
    def one_by_one(self) -> bool:
        """Whether the function is called once a run."""
        return self.distribution is _OneByOne

    @property
    def releases_the_interpreter(self) -> bool:
        """Whether threads run it in parallel; not a Python function called once a run, global generators, a buffer."""
        return not (self.one_by_one or self.draws_globally or self.fills_a_buffer)

    def __call__(self, dataset: Any) -> OutputDistribution:
        """Bind the function to a dataset, of which every run sees what is given here."""
        habits = Habits(repeatable=self.reproducible)
        return self.distribution(self.function, Dataset(dataset), self.takes, self.time_limit, self.fresh, habits)

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
    time_limit: float | None = None,
    fresh: bool = False,
    fresh_randomness: bool = False,
) -> FunctionMechanism:
    """Make a mechanism of a function that returns one output a call.

    Parameters
    ----------
    function : callable
        ``function(dataset, rng) -> output``, with rng a `numpy.random.Generator`; or ``function(dataset)`` if it
        owns its randomness, in which case results say that their seed may not give the same again. The page on
        outputs lists what an output may be, and which count as one. An exception is an outcome, ``sys.exit`` included.
        A parameter called ``seed`` or ``random_state`` (without a default, or None or a number) gets a new whole
        number each run instead, from 0 to 2^32 - 1, drawn from that generator; one called ``rng``, ``generator`` or
        ``random`` gets the generator; both by keyword, too. Any other second argument with a default, unless that is
        None or a generator, is left at it. What `functools.partial` has bound stays bound. An asynchronous function is
        run to its end.
    claim, adjacency, pairs, name : optional
        As on `Mechanism`. ``adjacency=None`` means that the caller vouches for the pairs.
    time_limit : float, optional
        Seconds after which a run is stopped and counts as the outcome 'timeout'. It works in the main thread of a
        process (as joblib's processes do) on systems with POSIX signals, and stops Python code, not one long call
        into compiled code.
    fresh : bool
        Whether ``function`` is a class or another factory: ``function()`` makes the object that is called, and every
        run makes one anew. Give it for whatever keeps something from call to call: answers, caches, pools of noise, a
        budget. Where the factory has an attribute ``stateless`` that is true, a block of runs shares an object. The
        factory is called once when the mechanism is made, to see what its object takes.
    fresh_randomness : bool
        For a function that owns its randomness: promises that it draws from the operating system (`secrets`,
        `random.SystemRandom`, most DP libraries), so that copies of it in other processes, or after a restart, never
        repeat each other. Without the promise an audit runs it in one process, and keeps no checkpoint.

    Raises
    ------
    AuditError
        If ``function`` is not callable so, takes its randomness by two parameters, or the time limit is not above 0.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> def noisy_count(dataset, rng):
    ...     return len(dataset) + rng.laplace(scale=1.0)
    >>> mechanism = black_box(noisy_count, claim=PureDP(1.0))
    >>> mechanism(("ann", "bob")).sample(3, np.random.default_rng(0)).shape
    (3,)

    A client that answers a second question as it answered the first is audited as each person would meet it:

    >>> class Client:
    ...     def __init__(self):
    ...         self.answers = {}
    ...     def __call__(self, bit, rng):
    ...         return self.answers.setdefault(bit, bool(bit) == (rng.random() < 0.73))
    >>> black_box(Client, fresh=True, claim=PureDP(1.0)).name
    'Client'
    """
    if time_limit is not None:
        time_limit = seconds_of(time_limit, "time_limit")
    return _wrap(_OneByOne, function, claim, adjacency, pairs, name, fresh_randomness, fresh, time_limit)


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
        As for `black_box`; what a factory makes is called once, for the outputs of a block.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> counter = vectorized(lambda data, size, rng: len(data) + rng.laplace(size=size), claim=PureDP(1.0))
    >>> counter((7, 8)).sample(4, np.random.default_rng(0)).shape
    (4,)
    """
    return _wrap(_Vectorized, function, claim, adjacency, pairs, name, fresh_randomness, fresh)


def move_on(rng: np.random.Generator) -> None:
    """Draw a number that nobody uses, between two calls of a function.

    A function that draws from global generators alone, which are seeded from where ``rng`` stands, leaves it there: the
    next call, on the other dataset perhaps, would have the same noise.
    """
    rng.integers(1 << 53)


def draw(distribution: OutputDistribution, size: int, rng: np.random.Generator) -> Outputs:
    """Draw ``size`` outputs and check that they are as many; raises `AuditError` if not, or if the mechanism raises."""
    if getattr(distribution, "tossed", False):
        move_on(rng)
    try:
        outputs = draw_reproducibly(lambda: distribution.sample(size, rng), rng, habits_of(distribution))
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


def habits_of(distribution: object) -> Habits:
    """What is known of a function's randomness; other distributions promise to draw from the rng alone."""
    found = getattr(distribution, "habits", None)
    return found if isinstance(found, Habits) else Habits(draws_globally=False)


@dataclass(frozen=True)
class _FunctionDistribution:
    function: Callable[..., Any]
    dataset: Dataset
    takes: Takes
    time_limit: float | None = None
    fresh: bool = False
    habits: Habits = field(default_factory=Habits, compare=False, repr=False)
    unread: Unread = field(default_factory=Unread, compare=False, repr=False)
    arguments: ClassVar[tuple[str, ...]] = ("dataset", "rng")

    @property
    def call(self) -> Callable[..., Any]:
        """The function as one of (dataset, rng) or (dataset, size, rng), or these without rng; a new object's."""
        return self.takes.of(self.function() if self.fresh else self.function)


class _OneByOne(_FunctionDistribution):
    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Call the function ``size`` times."""
        return pack_frozen(self.take_turns(self, np.zeros(size, np.int8), rng)[0])

    def take_turns(
        self, other: _OneByOne, side: NDArray[np.int8], rng: np.random.Generator
    ) -> tuple[list[Any], list[Any]]:
        """Call the function once for each coin, in their order: on this dataset for 0, on the other's for 1.

        Runs share a dataset for as long as they leave it alone, which is looked at after the first run, the second,
        the next two, the next four and so on, and later at the end of every block.
        """
        values: tuple[list[Any], list[Any]] = ([], [])
        coins, start = side.tolist(), 0
        new = self.habits.draws_globally is None and not (self.dataset.constant and other.dataset.constant)
        with _alarm(self.time_limit), one_event_loop():
            while start < len(coins):
                part = coins[start : 2 * start or 1] if new else coins
                self._take_part(other, part, rng, values)
                start += len(part)
        return values

    def _take_part(
        self, other: _OneByOne, coins: list[int], rng: np.random.Generator, values: tuple[list[Any], list[Any]]
    ) -> None:
        """Make runs between two looks at the datasets, or one with copies of its own for each run."""
        sides = (self, other)
        shared = [None if side.dataset.changes else side.dataset.shared() for side in sides]
        calls = tuple(side._run_on(data, rng) for side, data in zip(sides, shared, strict=True))
        keep = (values[0].append, values[1].append)
        for which in coins:
            try:
                value = calls[which]()
            except (KeyboardInterrupt, _TimeIsUp):
                raise
            except BaseException as error:
                value = Raised.of(error)
            if type(value) is not float:
                sides[which].unread.look(value)
                value = frozen(value)
            keep[which](value)
        for which, (side, data) in enumerate(zip(sides, shared, strict=True)):
            if data is None or side.dataset.intact(data) or coins.count(which) <= 1:
                continue
            if side.habits.repeatable:  # the block can be drawn again
                raise DatasetChangedError
            raise AuditError(
                "The function changed its dataset in some runs only, after others had left it alone, and owns its "
                "randomness, so that those runs cannot be made again. Let it work on a copy of its dataset."
            )

    def _run_on(self, data: Any, rng: np.random.Generator) -> Callable[[], Any]:
        """One run on ``data``, or on a copy of its own where runs change their dataset."""
        more = (rng,) if self.takes.what else ()
        call = self._anew if self.fresh and not getattr(self.function, "stateless", False) else self.call
        if self.time_limit is not None:
            call = functools.partial(_timed, call, self.time_limit)
        if self.dataset.changes:
            return lambda: call(self.dataset.copy(), *more)
        return functools.partial(call, data, *more)

    def _anew(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class _TimeIsUp(BaseException):
    """Raised by the alarm inside a run; not an Exception, so that a mechanism that catches those is stopped too."""


def _timed(function: Callable[..., Any], time_limit: float, *arguments: Any) -> Any:
    """One run, or `TimedOut` when the alarm rings first."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, time_limit)
            return function(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except _TimeIsUp:
        return TimedOut()


@contextmanager
def _alarm(time_limit: float | None) -> Iterator[None]:
    """Have the process's alarm clock stop a run; none without a time limit."""
    if time_limit is None:
        yield
        return
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        raise AuditError(
            f"A time limit of {time_limit:g} seconds needs POSIX signals and the main thread of a process; "
            "use n_jobs=1 or joblib's processes, not threads."
        )

    with alarm_raises(_TimeIsUp):
        yield


@contextmanager
def alarm_raises(error: type[BaseException]) -> Iterator[None]:
    """Have the process's alarm clock, which is stopped afterwards, raise this in the main thread."""

    def stop(*_: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class _Vectorized(_FunctionDistribution):
    tossed = True
    arguments = ("dataset", "size", "rng")

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Call the function once; a list or an array of objects is packed like single outputs."""
        data = self.dataset.copy()
        outputs = self.call(data, size, *((rng,) if self.takes.what else ()))
        if self.habits.draws_globally is None:
            self.dataset.intact(data)
        self.unread.look_at(outputs)
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


def _wrap(
    distribution: type[_OneByOne | _Vectorized],
    function: Callable[..., Any],
    claim: Claim | None,
    adjacency: Relation | None,
    pairs: Pairs,
    name: str | None,
    fresh_randomness: bool,
    fresh: bool,
    time_limit: float | None = None,
) -> FunctionMechanism:
    form = f"function({', '.join(distribution.arguments)})"
    if claim is not None:
        is_claim(claim, "the mechanism")
    if name is not None and not isinstance(name, str):
        raise AuditError(f"name is {name!r}; it must be a string.")
    if not callable(function):
        raise AuditError(f"{function!r} is not callable; a mechanism is {form}, or the same without rng.")
    title, relation = name or str(getattr(function, "__name__", type(function).__name__)), adjacency_of(adjacency)
    known = (title, claim, relation, tuple(listed(pairs, relation)))
    takes = takes_of(_made(function) if fresh else function, distribution.arguments)
    return FunctionMechanism(function, *known, distribution, takes, time_limit, fresh_randomness, fresh)


def _made(factory: Callable[[], Any]) -> Callable[..., Any]:
    """What a factory makes; `AuditError` if that is not called as a function is."""
    try:
        made = factory()
    except Exception as error:
        raise AuditError(
            f"{factory!r} raised {type(error).__name__} ({error}) when it was called without arguments; fresh= takes a "
            "class or a function that makes what is audited, as lambda: Client(epsilon=1.0).release."
        ) from error
    if not callable(made):
        raise AuditError(
            f"{factory!r} made {with_article(type(made).__name__)}, which is not callable; fresh= takes what makes a "
            "function of (dataset, rng), as lambda: Client().release."
        )
    return made  # type: ignore[no-any-return]


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
    """Return a mechanism as it is, or wrap a function: by `vectorized` if it takes a size, else by `black_box`.

    In place of it, ``fresh`` makes the function that is called, anew for every run.
    """
    if fresh is not None:
        if mechanism is not None or not callable(fresh):
            raise AuditError(
                f"fresh is {fresh!r}{'' if mechanism is None else f', beside {mechanism!r}'}; give either a mechanism, "
                "or by fresh= the class or function that makes it."
            )
        return (vectorized if takes_size(_made(fresh)) else black_box)(fresh, adjacency=adjacency, fresh=True)
    if isinstance(mechanism, Mechanism) and not isinstance(mechanism, type):
        if adjacency is not None:
            raise AuditError(f"adjacency= is for plain functions; that of {mechanism.name} is {mechanism.adjacency}.")
        return mechanism
    if isinstance(mechanism, type) and hasattr(mechanism, "worst_pairs"):
        raise AuditError(f"{mechanism.__name__} is a class of mechanisms; give one of them, {mechanism.__name__}(...).")
    if not callable(mechanism):
        raise AuditError(
            f"{mechanism!r} is not a mechanism; give one, or function(dataset, rng), or function(dataset, size, rng)."
        )
    return (vectorized if takes_size(mechanism) else black_box)(mechanism, adjacency=adjacency)

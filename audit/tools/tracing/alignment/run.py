"""One run of the audited function: its draws, its comparisons of noisy numbers, and the values that it releases.

A run is recorded, or it follows a recorded run: it then gets the recorded draws, or shifted ones, and chosen
comparisons have the recorded outcomes. The run ends with `Parted` where it cannot follow.
"""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Collection, Sequence
from typing import Any, Callable, NamedTuple, Tuple  # noqa: UP035

import numpy as np

from epsaudit import serve
from epsaudit.tools.tracing import runs
from epsaudit.tools.tracing.alignment.discrete import DiscreteLaw, discrete_law, geometric_law, index_law, unknown_law
from epsaudit.tools.tracing.alignment.generators import state_of
from epsaudit.tools.tracing.alignment.library_calls import (
    Additive,
    PostProcessed,
    Selected,
    Step,
    UnknownLossError,
    known_call,
    step_of,
)
from epsaudit.tools.tracing.alignment.noise_laws import ANSWER, LAWS
from epsaudit.tools.tracing.alignment.tracked import Terms, TrackedNumber, released, track
from epsaudit.tools.tracing.listening import Listener, paused
from epsaudit.tools.tracing.places import Place, call_stack, is_audited
from epsaudit.tools.tracing.primitives import UNIFORM, NoisyGradients
from epsaudit.tools.tracing.runs import Call

Stack = Tuple[Place, ...]  # noqa: UP006  # Python 3.8 evaluates it
"""File, line and function of the calls that led to a place, the innermost first; empty if the place is unknown."""
COMPARE, RELEASE, RETURN = "compare", "release", "return"
"""Kinds of events, which are uses of a noisy number: it is compared, it is converted to an ordinary number, or it is
part of the output."""
RAISED_FORM = "raises"
"""First part of the form of an output if an exception was raised."""
SUM_ROUNDING = 2.0**-40
"""[formula] Relative tolerance for two sums of data to count as equal, if the difference is also far below the noise.
They are sums of a few hundred numbers at most, each with a rounding error of 2^-53."""
FEW_ROUNDINGS = 2.0**-50
"""[formula] Relative rounding error of a handful of operations on floats."""
NEGLIGIBLE_SHIFT = 1e-9
"""[chosen] Largest difference, in scales of the noise that hides it, that counts as a rounding error. A difference that
the noise does not hide is a leak even if it is small beside the data, such as a second in a time since 1970."""
CATCHES = "the function catches BaseException, which ends a run that cannot follow the recorded run"
OTHER_DRAWS = "the number or the kind of draws depends on the data"
OTHER_EVENTS = "which noisy numbers are compared or released depends on the data"
FOLLOWED = (*LAWS, UNIFORM)
"""Laws in the table of samplers whose draws become tracked numbers."""
KNOWN_ARGUMENTS = frozenset({"scale", "size", "p", "low", "high", "dtype", "method"})
"""Arguments of the samplers of these laws that are taken into account, or that do not change the law."""
MAX_NUMBERS = 100_000
"""[time] Largest number of draws of a run."""


class Parted(BaseException):
    """Raised to end a run that cannot follow a recorded run, or with which an alignment cannot work.

    It is not an `Exception`, so that the audited function does not catch it by ``except Exception``.
    """

    count = 0
    """Number of these exceptions in this process. It shows whether the audited function has caught one."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        Parted.count += 1
        self.reason = reason


class Draw(NamedTuple):
    """A draw of noise: its law, its scale and its value without a centre."""

    law: str
    scale: float
    value: float


class RunEvent(NamedTuple):
    """A use of a noisy number, which is ``constant`` plus a weighted sum of draws.

    The audited function compares the number, converts it to an ordinary number (releases it), or returns it.
    """

    kind: str
    terms: tuple[tuple[int, float], ...]
    """Positions of the draws and their weights, in the order of draws."""
    constant: float
    outcome: Any
    """Whether the number is positive, for a comparison; its value otherwise."""
    site: Stack = ()
    """The place of the event, if places were asked for; for a returned number, the place of its last sum with data."""


class BranchChoice(NamedTuple):
    """A discrete draw of a run: its law and its outcome."""

    law: DiscreteLaw
    outcome: Any
    is_position: bool = False
    """Whether the outcome has positions in a population. The run itself draws positions, and not the sampler."""


class Count(NamedTuple):
    """A call of a counting function of numpy, such as ``np.unique``. Later draws often have the counted size."""

    name: str
    values: int
    """Number of values that it found."""
    site: Stack


class CheckedRun(Listener):
    """The base class of runs of the audited function that alignments use: it stores the output of the run.

    A run ends with `Parted` if the function has caught a `Parted`, or raises an exception that it does not raise with
    ordinary numbers.
    """

    known_exceptions: Collection[str] | None = None
    """Names of the exceptions that the function raises with ordinary numbers. Any other exception ends the run, because
    the function seems to raise it only for tracked numbers. None if all exceptions are allowed."""
    output: Any = None
    returned: Stack = ()
    """The place at which the function returned, if function calls are watched, or raised an exception."""
    form: Any = None
    """The form of the output: the output with placeholders for tracked numbers."""
    _n_parted = 0

    def begin(self) -> None:
        self._n_parted = Parted.count

    def finish(self, output: Any, returned: Any) -> None:
        if Parted.count > self._n_parted:
            raise Parted(CATCHES)
        self.output, self.returned = output, tuple(returned)

    def fail(self, error: BaseException, at: Any) -> None:
        if Parted.count > self._n_parted:
            raise Parted(CATCHES) from error
        name = serve.exception_name(error)
        if self.known_exceptions is not None and name not in self.known_exceptions:
            raise Parted(f"the function raises {name} while its draws are followed: {str(error)[:100]}") from error
        self.returned, self.output = tuple(at), (RAISED_FORM, name, str(error))
        self.form = self.output


class AlignmentRun(CheckedRun):
    """A run of the audited function with tracked noisy numbers, which is recorded or follows a recorded run.

    Parameters
    ----------
    seed : int
        Seed of all draws that are not given.
    first : AlignmentRun, optional
        The recorded run that this run follows. Draws, discrete draws and mechanisms get the recorded values.
    values : sequence of float, optional
        Values of the draws of noise, instead of new ones or those of the recorded run.
    outcomes : sequence, optional
        Outcomes of the discrete draws of a run that follows no other run, instead of new ones.
    answers : sequence, optional
        Answers of mechanisms of libraries in a run that follows no other run, instead of new ones.
    forced : 'all' or collection of int
        The comparisons that get the recorded outcome, by their position among all events. With 'all', released numbers
        get the recorded value as well, and the run ends with `Parted` at an event that differs from the recorded one.
    flip : bool
        Whether comparisons that are not forced get the opposite of the recorded outcome, instead of the natural one.
    sites : bool
        Whether to store the places of draws and events: the calls that led to them.
    list_whole_numbers : bool
        Whether geometric draws are discrete draws with a list of outcomes, and not noise that may be shifted.
    watches_generators : bool
        Whether to store the state of the generator of each draw, as `OrdinaryRun` does.
    releases_sums : bool
        Whether a noisy number to which a number was added is released when another number is added, as if the function
        had published the first sum. A run that follows another run does as the recorded run does.
    """

    def __init__(
        self,
        seed: int,
        first: AlignmentRun | None = None,
        values: Sequence[float] | None = None,
        forced: str | Collection[int] = (),
        flip: bool = False,
        sites: bool = False,
        outcomes: Sequence[Any] | None = None,
        answers: Sequence[Any] | None = None,
        list_whole_numbers: bool = False,
        watches_generators: bool = False,
        releases_sums: bool = False,
    ) -> None:
        super().__init__()
        self.releases_sums: bool = releases_sums if first is None else first.releases_sums
        self.seed = seed
        self.first, self.forced, self.flip, self.sites = first, forced, flip, sites
        self.values = values if values is not None or first is None else [one.value for one in first.draws]
        self.outcomes, self.answers, self.list_whole_numbers = outcomes, answers, list_whole_numbers
        self.watches_generators = watches_generators
        self.states: list[int | None] = []
        """For each draw a hash of the state of its generator, or None if the generator is unknown."""
        self.draws: list[Draw] = []
        self.draw_sites: list[Stack] = []
        """The place of each draw, if places were asked for."""
        self.events: list[RunEvent] = []
        self.choices: list[BranchChoice] = []
        self.choice_sites: list[Stack] = []
        """The place of each discrete draw, if places were asked for."""
        self.counts: list[Count] = []
        """Calls of counting functions, if places were asked for."""
        self.steps: list[Step] = []
        self.step_sites: list[Stack] = []
        """The place of each call of a mechanism, if places were asked for."""
        self.n_calls = 0
        """Number of calls of samplers of numbers."""
        self.doubt: str | None = None
        """Why the tracked numbers may not show the true law of the output; None if there is no such doubt."""

    @functools.cached_property
    def rng(self) -> Any:
        """The generator of all draws that are not given. It is made when it is needed, because most runs need none."""
        with paused():
            return np.random.default_rng(self.seed)

    def site(self) -> Stack:
        """Return the stack of calls that led to the line of the audited code that is running, with this line first."""
        stack = call_stack()
        audited = (place for place, (file, *_) in enumerate(stack) if is_audited(file))
        return tuple(stack[next(audited, len(stack)) :])

    def draw(self, law: str, scale: float) -> float:
        """Record the next draw of noise and return its value, which is new, given, or that of the recorded run."""
        number = len(self.draws)
        if number >= MAX_NUMBERS:
            raise Parted(f"more than {MAX_NUMBERS:,} draws")
        if self.values is None:
            value = self.rng.random() if law == UNIFORM else LAWS[law].draw(self.rng, scale)
        elif number >= len(self.values) or (self.first is not None and self.first.draws[number].law != law):
            raise Parted(OTHER_DRAWS)
        else:
            value = self.values[number]
        self.draws.append(Draw(law, scale, value))
        return value

    def _note_draw_site(self) -> None:
        """Store the place of the next draw before it is made, in case that the run cannot follow the recorded draws."""
        if self.sites:
            self.draw_sites.append(self.site())

    def tracked(self, law: str, scale: float, centre: Any) -> Any:
        """Return the sum of the next draw and ``centre`` as a tracked number; the centre may be tracked as well."""
        if law == "geometric" and self.list_whole_numbers:
            return self.choose(geometric_law(scale)) + int(centre)
        self._note_draw_site()
        value = self.draw(law, scale)
        number = TrackedNumber(self, {len(self.draws) - 1: 1.0}, 0.0, value)
        return number if type(centre) is float and centre == 0.0 else number.plus(centre)

    def _require_active(self) -> None:
        """Raise `Parted` if the function uses a tracked number that it has kept from an earlier run."""
        if Listener.active is not self:
            raise Parted("a noisy number of an earlier run is used again")

    def compare(self, terms: Terms, constant: float, natural: bool) -> bool:
        """Record the comparison of a noisy number with 0, and return its outcome.

        The number is ``constant`` plus the weighted draws in ``terms``. ``natural`` says whether it is positive. The
        outcome is the natural one, or follows from the recorded run; see the arguments ``forced`` and ``flip``.
        """
        self._require_active()
        number, outcome = len(self.events), natural
        if self.first is not None and (self.forced or self.flip):
            outcome = self._forced_outcome(number, COMPARE, terms, constant, natural)
        self._record(COMPARE, terms, constant, outcome)
        return outcome

    def _forced_outcome(self, number: int, kind: str, terms: Terms, constant: float, natural: Any) -> Any:
        """Return the outcome of an event in a run that follows a recorded run.

        It is the recorded outcome if the event is forced, the opposite with ``flip``, and otherwise the natural one.
        Raises `Parted` if all events are forced and this event differs from the recorded one.
        """
        assert self.first is not None
        recorded = self.first.events[number] if number < len(self.first.events) else None
        if self.forced == "all":
            if recorded is None or recorded.kind != kind or recorded.terms != ordered(terms):
                self._record(kind, terms, constant, natural)
                raise Parted(OTHER_EVENTS)
            return recorded.outcome
        if recorded is None or recorded.kind != kind:
            return natural
        if number in self.forced:
            return recorded.outcome
        return not recorded.outcome if self.flip else natural

    def release(self, terms: Terms, constant: float, value: float) -> float:
        """Record that the function converts a noisy number to an ordinary one, and return the value that it gets.

        In a run that follows a recorded run, this is the recorded value if all events are forced, or if both values are
        equal up to rounding. The function then continues as recorded, bit for bit.
        """
        self._require_active()
        number = len(self.events)
        if self.first is not None:
            recorded = self.first.events[number] if number < len(self.first.events) else None
            follows = recorded is not None and recorded.kind == RELEASE and recorded.terms == ordered(terms)
            if self.forced == "all":
                value = self._forced_outcome(number, RELEASE, terms, constant, value)
            elif follows and recorded is not None and self._same_release(recorded, terms, constant):
                value = recorded.outcome
        self._record(RELEASE, terms, constant, value)
        return value

    def _same_release(self, recorded: RunEvent, terms: Terms, constant: float) -> bool:
        assert self.first is not None
        recorded_draws = self.first.draws
        moved = sum(weight * (self.draws[d].value - recorded_draws[d].value) for d, weight in terms.items())
        noise = noise_size(tuple(terms.items()), self.draws)
        return equal_sums(moved + constant, recorded.constant, self._size(terms, constant), noise)

    def _size(self, terms: Terms, constant: float) -> float:
        return abs(constant) + sum(abs(weight * self.draws[draw].value) for draw, weight in terms.items())

    def is_continuous(self, terms: Terms) -> bool:
        """Return whether one of the draws in a linear combination has a density."""
        return any(self.draws[one].law == UNIFORM or LAWS[self.draws[one].law].continuous for one in terms)

    def _record(self, kind: str, terms: Terms, constant: float, outcome: Any, site: Stack | None = None) -> None:
        site = self.site() if site is None and self.sites else site or ()
        self.events.append(RunEvent(kind, ordered(terms), constant, outcome, site))

    def choose(self, law: DiscreteLaw, make: Any = None) -> Any:
        """Return the outcome of a discrete draw, as recorded if this run follows another one.

        ``make`` calls the original sampler. It is None for a choice of positions, which the run itself draws.
        """
        number = len(self.choices)
        if self.first is not None:
            if number >= len(self.first.choices):
                raise Parted("the number of discrete draws depends on the data")
            recorded, outcome = self.first.choices[number].law, self.first.choices[number].outcome
            if recorded.name != law.name or (not law.known and recorded.key != law.key):
                raise Parted("the parameters of a discrete draw depend on the data")
            if not law.log_probability(outcome) > -math.inf:
                raise Parted("a discrete draw has other possible outcomes")
        elif self.outcomes is not None:
            if number >= len(self.outcomes):
                raise Parted("the number of discrete draws differs from that with ordinary numbers")
            outcome = self.outcomes[number]
        else:
            with paused():  # samplers that are written in Python call one another
                outcome = self.new_outcome(law, make)
        return self.keep_choice(law, outcome, make is None)

    def new_outcome(self, law: DiscreteLaw, make: Any) -> Any:
        """Draw a new outcome of a discrete draw, with the arguments of `choose`."""
        return law.draw(self.rng)

    def keep_choice(self, law: DiscreteLaw, outcome: Any, is_position: bool = False) -> Any:
        """Store the outcome of a discrete draw, and return it."""
        if self.sites:
            self.choice_sites.append(self.site())
        self.choices.append(BranchChoice(law, outcome, is_position))
        return outcome

    def drawn(self, kind: str, name: str, make: Any, *fields: Any) -> Any:
        """Return the answer to a call of a sampler: tracked numbers, or the outcome of a discrete draw.

        The functions that `epsaudit.tools.tracing.replacement` puts in place of samplers call this method.
        """
        centre, states, fixed = fields
        self.n_calls += 1
        self.note_state(make)
        if {*fixed} - {"scale", "size"}:
            self.doubt = f"{name} is called with further arguments"
        if states["law"] in FOLLOWED and not {*fixed} <= KNOWN_ARGUMENTS:
            unknown = ", ".join(sorted({*fixed} - KNOWN_ARGUMENTS))
            raise Parted(f"{name} is called with an argument that alignments do not know ({unknown})")
        with paused():
            if "filled" in states:
                return self._fill(name, make, states["filled"], {**fixed, "centre": centre})
            law, scale, centre = noise_law(states["law"], 0.0 if centre is None else centre, fixed)
            if law is None:
                return copied(self.choose(discrete_law(name, make, {**fixed, **centred(centre)}), make))
        return self.numbers(make, law, scale, centre, fixed)

    def numbers(self, make: Any, law: str, scale: Any, centre: Any, fixed: dict[str, Any]) -> Any:
        """Return the answer of a sampler of noise as a tracked number, or as an array of tracked numbers.

        Parameters
        ----------
        make : callable
            Calls the original sampler.
        law : str
            Name of the law.
        scale, centre : number or array
            Scale and centre of the noise.
        fixed : dict
            The other arguments of the sampler, such as "size", and "low" and "high" of a uniform draw.
        """
        shape = shape_of(fixed.get("size"), centre, scale)
        low, high = (fixed.get(one, default) for one, default in (("low", 0.0), ("high", 1.0)))
        if shape is None:
            number = self.tracked(law, released_scale(scale), centre)
            return number * (high - low) + low if law == UNIFORM and (low, high) != (0.0, 1.0) else number
        cells = np.empty(shape, object)
        centres, scales = np.broadcast_to(np.asarray(centre, object), shape), np.broadcast_to(released(scale), shape)
        for place in range(cells.size):
            cells.flat[place] = self.tracked(law, released_scale(scales.flat[place]), centres.flat[place])
        if law == UNIFORM and {"low", "high"} & {*fixed}:
            cells = cells * (high - low) + low
        return track(cells)

    def _fill(self, name: str, make: Any, shape: list[int] | None, parameters: dict[str, Any]) -> Any:
        """Return the numbers with which a sampler of torch fills a tensor.

        The law must be the same on both datasets, and a run that follows another run gets the recorded numbers. Raises
        `Parted` for a sampler of another library that fills an array.
        """
        if shape is None:
            raise Parted(f"{name} fills an array of its own")
        return self.choose(unknown_law(name, make, {**parameters, "shape": shape}), make)

    def note_state(self, make: Any, is_position: bool = False) -> None:
        """Store the state of a sampler's generator, if states were asked for.

        ``is_position`` says whether the sampler chooses positions in a population.
        """
        if self.watches_generators:
            with paused():
                self.states.append(state_of(make))

    def answer(self, kind: str, name: str, make: Any, *_: Any, states: Any = None, **__: Any) -> Any:
        """Return the answer to a call of a sampler that chooses from a population, or of a counting function."""
        if kind == "count" and self.sites:
            self.counts.append(Count(name, states["values"], self.site()))
        if kind == "sample":
            self.note_state(make, is_position=True)
            with paused():
                law, take = index_law(name, make)
            return take(copied(self.choose(law)))
        return make()

    def mechanism(self, name: str, make: Any, stated: Any) -> Any:
        """Return the answer to a call of a private mechanism.

        If the law of its answer is known, the call counts as a draw of noise or as a discrete draw. Otherwise it is
        recorded with the privacy loss that it states; `Parted` is raised if it states none.
        """
        known = known_call(name, make)
        if stated.norm == "event" or isinstance(known, PostProcessed):
            return make()
        if isinstance(known, Additive):
            return self.noisy(known, make)
        if isinstance(known, Selected):
            selected = known
            self.note_state(make)
            return copied(selected.outcome(self.choose(selected.law, lambda: selected.drawn(make()))))
        try:
            step = step_of(name, make, stated)
        except UnknownLossError as unknown:
            raise Parted(str(unknown)) from None
        return self.keep_answer(step, make)

    def noisy(self, call: Additive, make: Any) -> Any:
        """Return the answer of a mechanism that adds noise of a known law to a number, as a tracked number.

        Two-sided geometric noise is a difference of two draws. ``make`` calls the original mechanism; only subclasses
        use it.
        """
        scale = released_scale(call.scale)
        noise = self.tracked(call.law, scale, 0.0)
        return call.value + (noise - self.tracked(call.law, scale, 0.0) if call.law == "geometric" else noise)

    def keep_answer(self, step: Step, make: Any) -> Any:
        """Record a call of a mechanism that states its own privacy loss, and return its answer.

        The answer is the recorded one in a run that follows another run, and otherwise a given or a new one.
        """
        number = len(self.steps)
        if self.first is not None:
            if number >= len(self.first.steps):
                raise Parted("the calls of mechanisms depend on the data")
            answer = self.first.steps[number].answer
        elif self.answers is not None:
            if number >= len(self.answers):
                raise Parted("the number of mechanisms differs from that with ordinary numbers")
            answer = self.answers[number]
            if self.watches_generators:
                self._require_new_answer(answer, make)
        else:
            with paused():
                answer = make()
        self.steps.append(step._replace(answer=answer))
        if self.sites:
            self.step_sites.append(self.site())
        return self.kept(answer)

    def _require_new_answer(self, answer: Any, make: Any) -> None:
        """Raise `Parted` if a mechanism gives ``answer`` again in a run with the same draws but another seed."""
        with paused():
            again = make()
        numbers = broken_numbers(answer)
        if numbers and numbers == broken_numbers(again):
            raise Parted("a mechanism answers the same again: an earlier draw, or a fixed number, is its seed")

    def kept(self, answer: Any) -> Any:
        """Replace the numbers in an answer of a mechanism by tracked numbers, which no alignment shifts.

        Return the answer with these numbers. Parts that are no numbers do not change.
        """
        if isinstance(answer, (list, tuple)):
            return type(answer)(map(self.kept, answer))
        if isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf":
            cells = np.empty(answer.shape, object)
            for place in range(cells.size):
                cells.flat[place] = self.kept(answer.flat[place].item())
            return track(cells)
        if isinstance(answer, bool) or not isinstance(answer, (int, float, np.integer, np.floating)):
            return self.kept_object(answer)
        number = len(self.draws)
        if self.first is not None and [one.law for one in self.first.draws[number : number + 1]] != [ANSWER]:
            raise Parted(OTHER_DRAWS)
        self._note_draw_site()
        self.draws.append(Draw(ANSWER, 1.0, float(answer)))
        return TrackedNumber(self, {number: 1.0}, 0.0, float(answer))

    def kept_object(self, answer: Any) -> Any:
        """Return a part of a mechanism's answer that is not a number."""
        return copied(answer)

    def finish(self, output: Any, returned: Any) -> None:
        """Store the output and its form, and record each tracked number in it as an event."""
        super().finish(output, returned)
        self.form = self._form_of(output)

    def _form_of(self, value: Any) -> Any:
        if isinstance(value, TrackedNumber):
            if value.run is not self:
                raise Parted("a noisy number of an earlier run is returned")
            self._record(RETURN, value.terms, value.constant, value.value, value.site)
            return "noisy", ordered(value.terms)
        if isinstance(value, np.ndarray) and value.dtype == object:
            return "array", value.shape, tuple(map(self._form_of, value.flat))
        if isinstance(value, (list, tuple)):
            return type(value).__name__, tuple(map(self._form_of, value))
        if isinstance(value, dict):
            return "dict", tuple((self._form_of(key), self._form_of(part)) for key, part in value.items())
        try:
            held = serve.unwrap(value) if is_object(value) else value
            if held is not value:
                return type(value).__name__, self._form_of(held)
            return type(value).__name__, repr(serve.encode_value(value))
        except Exception as error:
            raise Parted(f"the output has an object of type {type(value).__name__}, which cannot be read") from error


def is_object(value: Any) -> bool:
    """Return whether a part of an output is an object whose content `epsaudit.serve.unwrap` can read."""
    is_number = any(kind.__module__.partition(".")[0] == "numpy" for kind in type(value).__mro__)
    return value is not None and not is_number and not any(isinstance(value, kinds) for kinds, _ in serve.ENCODERS)


def broken_numbers(answer: Any) -> list[float]:
    """Return the numbers in an answer of a mechanism that are not whole.

    Two answers with independent noise hardly ever agree in them.
    """
    if isinstance(answer, NoisyGradients):
        return [number for one in answer.gradients if one is not None for number in np.ravel(one).tolist()]
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        return [number for one in answer for number in broken_numbers(one)]
    if isinstance(answer, (int, float, np.ndarray, np.integer, np.floating)) and not isinstance(answer, bool):
        return [one for one in np.ravel(np.asarray(answer, float)).tolist() if one % 1.0]
    return []


def copied(outcome: Any) -> Any:
    """Return the outcome of a discrete draw; an array is copied, because the audited function may change it."""
    return outcome.copy() if isinstance(outcome, np.ndarray) else outcome


def ordered(terms: Terms) -> tuple[tuple[int, float], ...]:
    """Return the draws and weights of a linear combination as a tuple, in the order of draws."""
    return tuple(sorted(terms.items()))


def equal_sums(one: float, other: float, size: float, noise: float = math.inf) -> bool:
    """Return whether two sums are equal up to rounding.

    ``size`` is the sum of the absolute values of the summands. ``noise`` is the scale of the noise that hides the
    difference of the sums.
    """
    difference, total = abs(one - other), max(abs(one), abs(other), size)
    return difference <= FEW_ROUNDINGS * total or is_rounding(difference, total, noise)


def is_rounding(difference: float, size: float, noise: float) -> bool:
    """Return whether a difference of two sums is as small as a rounding error, and far below the noise that hides it.

    ``size`` is the size of the sums, and ``noise`` the scale of the noise.
    """
    return abs(difference) <= min(SUM_ROUNDING * size, NEGLIGIBLE_SHIFT * noise)


def noise_size(terms: Sequence[tuple[int, float]], draws: Sequence[Draw]) -> float:
    """Return the largest scale of the noise in a linear combination of draws, or infinity if there are no draws."""
    return max((abs(weight) * draws[draw].scale for draw, weight in terms), default=math.inf)


def centred(centre: Any) -> dict[str, Any]:
    """Return the centre of a draw as a parameter of its law, by name; empty for a centre of 0.

    It is a parameter of the law for draws that cannot be shifted.
    """
    return {} if type(centre) is float and centre == 0.0 else {"centre": released(centre)}


def noise_law(listed: str, centre: Any, fixed: dict[str, Any]) -> tuple[str | None, Any, Any]:
    """Return the law, the scale and the centre of a call of a sampler; the law is None for a discrete draw.

    ``listed`` is the law of the sampler in the table, and ``fixed`` has the other arguments by name.
    """
    if listed == "geometric":
        return listed, -1.0 / np.log1p(-np.asarray(released(fixed["p"]), float)), centre
    if listed in LAWS:
        return listed, fixed.get("scale", 1.0), centre
    return (UNIFORM if listed == UNIFORM else None), 1.0, centre


def shape_of(size: Any, centre: Any, scale: Any) -> tuple[int, ...] | None:
    """Return the shape of a sampler's answer, or None for a single number."""
    if size is not None:
        return tuple(int(one) for one in np.ravel(np.asarray(size)))
    if type(centre) in (int, float) and type(scale) in (int, float):
        return None  # as below, in a tenth of the time
    shape = np.broadcast_shapes(np.shape(centre), np.shape(scale))
    return shape or None


def released_scale(scale: Any) -> float:
    """Return the scale of a draw as a positive number.

    Raises `Parted` for a scale of 0 or infinity, which cannot be aligned. A tracked scale is released.
    """
    number = float(scale)
    if not 0.0 < number < math.inf:
        raise Parted(f"the scale of a draw is {number:g}")
    return number


def execute_alignment(
    call: Call,
    data: bytes,
    run: Any,
    seed: int,
    look_for_samplers: bool = False,
    known_exceptions: Collection[str] | None = None,
) -> Any:
    """Run the audited function once under a recorder of alignments, and return this recorder.

    Parameters
    ----------
    call, data, run, seed
        As for `epsaudit.tools.tracing.runs.execute`; the run is a `CheckedRun`.
    look_for_samplers : bool
        Whether to watch function calls for modules that refer to samplers by names of their own.
    known_exceptions : collection of str, optional
        Names of the exceptions that the function may raise; see `CheckedRun.known_exceptions`.
    """
    run.watches, run.known_exceptions = look_for_samplers or run.sites, known_exceptions
    return runs.execute(call, data, run, seed)


Runner = Callable[[Any], Any]
"""A function that runs the audited function on one dataset: it is called with an `AlignmentRun`, and returns it."""


def runner(
    call: Call,
    dataset: Any,
    seed: int = 0,
    look_for_samplers: bool = False,
    known_exceptions: Collection[str] | None = None,
) -> Runner:
    """Return a function that runs the audited function on one dataset, with the settings of `execute_alignment`.

    The generators of the audited function get the seed of the run if the run draws new numbers, and otherwise ``seed``.
    """
    data = pickle.dumps(dataset, -1)

    def executed(run: Any) -> Any:
        # draws whose law is not known are made by the function's own generators, and must differ between runs
        is_fresh = isinstance(run, AlignmentRun) and run.first is None and run.values is None
        return execute_alignment(call, data, run, run.seed if is_fresh else seed, look_for_samplers, known_exceptions)

    return executed

"""Checks of what an alignment assumes: draws are random, recorded, and treated like ordinary numbers.

A *genuine* run gets the numbers of the original samplers. Genuine runs with other seeds must have other draws, and a
tracked run with the draws of a genuine run must return what the genuine run returned. Needs Python 3.8 and numpy,
because it runs in the process of the audited code.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit import serve
from epsaudit.tools.tracing.alignment.discrete import discrete_law, index_law
from epsaudit.tools.tracing.alignment.generators import advance, state_of
from epsaudit.tools.tracing.alignment.library_calls import Additive, PostProcessed, Selected, known_call
from epsaudit.tools.tracing.alignment.run import (
    AlignmentRun,
    CheckedRun,
    Parted,
    Runner,
    broken_numbers,
    copied,
    is_object,
    noise_law,
)
from epsaudit.tools.tracing.alignment.tracked import TrackedNumber
from epsaudit.tools.tracing.listening import paused

GENUINE_RUNS = 40
"""[formula] Genuine runs whose discrete draws are compared; equal fair coins in all of them have probability 2^-39."""
COINCIDENCE = math.log(1e-9)
"""[chosen] Log probability below which equal discrete draws in all runs are no coincidence."""
SAME_NUMBER = 1e-9
"""[formula] Relative difference of two results of the same arithmetic in another order."""
SIXTEEN_ROUNDINGS = 2.0**-48
"""[formula] Relative rounding error of sixteen operations on floats."""
WATCHED_RUNS = 4
"""[chosen] Genuine runs in which the states of generators are stored, which takes longer than most draws."""
NUMBER_IN_TEXT = re.compile(r"[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?")
"""A decimal number without its sign."""


class GenuineRun(CheckedRun):
    """A run in which samplers answer as usual; it stores what they answered.

    Parameters
    ----------
    seed : int
        Seed of the positions that are chosen from populations. All other draws are those of the original samplers.
    watches_generators : bool
        Whether to store the states of generators.
    """

    def __init__(self, seed: int, watches_generators: bool = False) -> None:
        super().__init__()
        self.rng, self.watches_generators = np.random.default_rng(seed), watches_generators
        self.states: list[int | None] = []
        """For each draw a hash of the state of its generator, or None if the generator is unknown or did not change."""
        self.continuous: list[float] = []
        """Numbers with a density, without their centres and scales, in the order of draws."""
        self.discrete: list[tuple[str, str, float]] = []
        """For each other draw its name, its outcome as text, and its log probability."""
        self.values: list[float] = []
        """Values with which a tracked run has the same noise: those of `continuous`, and of whole numbers."""
        self.outcomes: list[Any] = []
        """Outcomes of the discrete draws of a tracked run."""
        self.answers: list[Any] = []
        """Answers of mechanisms."""

    def drawn(self, kind: str, name: str, make: Any, *fields: Any) -> Any:
        """Call a sampler, and store its answer."""
        centre, states, fixed = fields
        with paused():
            answer = self._made(make)
            if "filled" in states:
                self.discrete.append((name, repr(answer), 0.0))
                self.outcomes.append(answer)
                return answer
            law, scale, centre = noise_law(states["law"], 0.0 if centre is None else centre, fixed)
            if law is None:
                known = discrete_law(name, make, fixed)
                log_probability = known.log_probability(answer) if known.known else 0.0
                self.discrete.append((name, repr(answer), log_probability))
                self.outcomes.append(answer)
                return copied(answer)
            numbers = np.asarray(answer, float) - np.asarray(centre, float)
            if law == "geometric":
                self.discrete.append((name, repr(answer), 0.0))
                self.values += np.ravel(numbers).tolist()
                return answer
            if {"low", "high"} & {*fixed}:
                low, high = fixed.get("low", 0.0), fixed.get("high", 1.0)
                numbers = (numbers - low) / (high - low)
            self.continuous += np.ravel(numbers / np.asarray(scale, float)).tolist()
            self.values += np.ravel(numbers).tolist()
            return answer

    def _made(self, make: Any) -> Any:
        """Call a sampler, and store the state that its generator had."""
        before = state_of(make) if self.watches_generators else None
        answer = make()
        if self.watches_generators:
            self.states.append(None if state_of(make) == before else before)
        return answer

    def _note_choice(self, make: Any) -> None:
        """Store the state of the generator of a choice from a population, and let the generator go on."""
        self._made(functools.partial(advance, make))

    def answer(self, kind: str, name: str, make: Any, *_: Any, **__: Any) -> Any:
        """Choose positions from a population, or call another recorded function."""
        if kind != "sample":
            return make()
        with paused():
            if self.watches_generators:
                self._note_choice(make)
            law, take = index_law(name, make)
            self.outcomes.append(law.draw(self.rng))
            return take(copied(self.outcomes[-1]))

    def mechanism(self, name: str, make: Any, stated: Any) -> Any:
        """Call a mechanism of a library."""
        known = known_call(name, make)
        if stated.norm == "event" or isinstance(known, PostProcessed):
            return make()
        with paused():
            answer = make()
            if isinstance(known, Additive):
                self._store_noise(name, known, float(answer) - float(known.value))
            elif isinstance(known, Selected):
                self.outcomes.append(known.drawn(answer))
                self.discrete.append((name, repr(answer), known.law.log_probability(self.outcomes[-1])))
            else:
                self.answers.append(answer)
                self.values += list_numbers(answer)
            return copied(answer)

    def _store_noise(self, name: str, call: Additive, noise: float) -> None:
        """Store the noise of a mechanism; two-sided geometric noise as a difference of two geometric numbers."""
        if call.law == "geometric":
            self.values += [1.0 + max(noise, 0.0), 1.0 + max(-noise, 0.0)]
            self.discrete.append((name, repr(noise), 0.0))
        else:
            self.continuous.append(noise / call.scale)
            self.values.append(noise)


def list_numbers(answer: Any) -> list[float]:
    """Return the numbers of an answer in their order, as `AlignmentRun.kept` tracks them."""
    if isinstance(answer, (list, tuple)):
        return [number for one in answer for number in list_numbers(one)]
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf":
        return [float(one) for one in np.ravel(answer)]
    is_number = isinstance(answer, (int, float, np.integer, np.floating)) and not isinstance(answer, bool)
    return [float(answer)] if is_number else []


def require_random_draws(runs: Sequence[GenuineRun]) -> None:
    """Raise `Parted` if draws are equal in runs with different seeds, or within a run."""
    for number, values in enumerate(zip(*(one.continuous for one in runs))):  # noqa: B905  # strict since 3.10
        if len(runs) > 1 and len(set(values)) == 1:
            raise Parted(f"draw {number + 1} is the same for all seeds: its generator has a fixed seed")
    for one in runs:
        if len(set(one.continuous)) < len(one.continuous):
            raise Parted("two draws of a run are equal: their generators have the same seed")
        states = [state for state in one.states if state is not None]
        if len(set(states)) < len(states):
            raise Parted("two draws of a run begin at the same state: their generators have the same seed")
    watched = [one.states for one in runs if one.watches_generators]
    for number, some in enumerate(zip(*watched)):  # noqa: B905
        if len(watched) > 1 and some[0] is not None and len(set(some)) == 1:
            raise Parted(f"draw {number + 1} begins at the same state for all seeds: its generator has a fixed seed")
    for answers in zip(*(map(broken_numbers, one.answers) for one in runs)):  # noqa: B905
        if len(runs) > 1 and answers[0] and all(one == answers[0] for one in answers):
            raise Parted("a mechanism gives the same answer for all seeds: its generator has a fixed seed")
    sequences = [tuple(one.discrete) for one in runs]
    if sequences[0] and len(set(sequences)) == 1:
        log_probability = (len(runs) - 1) * math.fsum(one[2] for one in sequences[0])
        if log_probability < COINCIDENCE:
            raise Parted("the discrete draws are the same for all seeds: their generator has a fixed seed")


def require_no_memory(first: GenuineRun, again: GenuineRun) -> None:
    """Raise `Parted` if a later run with the seed of the first run draws another number of numbers.

    A function that keeps its noise, or its answer, between runs is no function of its draws. If its generator is in
    another state, the numbers of draws may differ without a reason.
    """
    both = [(len(one.values), len(one.outcomes), len(one.answers)) for one in (first, again)]
    same_start = not sum(both[1]) or (first.states[:1] and first.states[:1] == again.states[:1] != [None])
    if both[0] != both[1] and same_start:
        raise Parted("a later run with the same seed makes other draws: the function keeps something between runs")


def require_same_output(genuine: GenuineRun, run: Runner) -> bool:
    """Raise `Parted` if a tracked run with the same draws returns something else than the genuine run.

    It is also raised if a draw begins at the same state in both runs, although their seeds differ: then an earlier draw
    is the seed of its generator, and whoever sees that draw knows this one. ``run`` must have another seed than the
    genuine run. Return whether both outputs are the same but for the rounding of a few operations.
    """
    given: dict[str, Any] = {"values": genuine.values, "outcomes": genuine.outcomes, "answers": genuine.answers}
    tracked = run(AlignmentRun(0, **given, watches_generators=genuine.watches_generators))
    if not same_values(genuine.output, tracked.output):
        raise Parted("the function treats recorded draws differently from ordinary numbers")
    both = zip(genuine.states, tracked.states)  # noqa: B905  # strict since 3.10
    if any(one == its is not None for one, its in both):
        raise Parted("a generator gets its seed from an earlier draw; use the same generator, or spawn another from it")
    output = tracked.output
    return same_values(genuine.output, output, SIXTEEN_ROUNDINGS, 0.0)


def exceptions_of(runs: Sequence[GenuineRun]) -> set[str]:
    """Return the names of the exceptions that genuine runs raised; raise `Parted` if every run raised one."""
    raised = [one.output[1] for one in runs if type(one.output) is tuple and one.output[:1] == ("raises",)]
    if len(raised) == len(runs):
        raise Parted(f"the function raises {raised[0]} in every run")
    return set(raised)


def same_values(one: Any, other: Any, relative: float = SAME_NUMBER, absolute: float = SAME_NUMBER) -> bool:
    """Return whether two outputs are equal, where numbers may differ by rounding, also within texts."""
    inner = functools.partial(same_values, relative=relative, absolute=absolute)
    if isinstance(other, TrackedNumber):
        other = other.value
    if isinstance(one, (list, tuple, np.ndarray)) and np.ndim(np.empty(np.shape(one) if hasattr(one, "shape") else 1)):
        if not isinstance(other, (list, tuple, np.ndarray)) or len(one) != len(other):
            return False
        return all(map(inner, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(inner(one[k], other[k]) for k in one)
    if isinstance(one, str):
        return isinstance(other, str) and same_texts(one, other)
    try:
        if one != one and other != other:  # two NaN
            return True
        return bool(one == other) or math.isclose(float(one), float(other), rel_tol=relative, abs_tol=absolute)
    except (TypeError, ValueError):
        held = serve.unwrap(one) if is_object(one) and type(one) is type(other) else one
        return type(one) is type(other) if held is one else inner(held, serve.unwrap(other))


def same_texts(one: str, other: str) -> bool:
    """Return whether two texts are equal, where the numbers in them may differ by rounding.

    Examples
    --------
    >>> same_texts("sum: 0.30000000000000004", "sum: 0.3"), same_texts("sum: 0.3", "none")
    (True, False)
    """
    parts, other_parts = NUMBER_IN_TEXT.split(one), NUMBER_IN_TEXT.split(other)
    numbers, other_numbers = NUMBER_IN_TEXT.findall(one), NUMBER_IN_TEXT.findall(other)
    return parts == other_parts and all(map(same_values, map(float, numbers), map(float, other_numbers)))

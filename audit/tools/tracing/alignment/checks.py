"""Checks of what an alignment assumes: draws are random, recorded, and treated like ordinary numbers.

An *ordinary* run gets the numbers of the original samplers. Ordinary runs with other seeds must have other draws, and a
tracked run with the draws of an ordinary run must return what the ordinary run returned. Needs Python 3.8 and numpy,
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
from epsaudit.tools.tracing.alignment.noise_laws import LAWS
from epsaudit.tools.tracing.alignment.ordinary_run import OrdinaryRun
from epsaudit.tools.tracing.alignment.run import (
    AlignmentRun,
    Parted,
    Runner,
    broken_numbers,
    is_object,
)
from epsaudit.tools.tracing.alignment.tracked import TrackedNumber
from epsaudit.tools.tracing.primitives import UNIFORM

SEEDS_COMPARED = 40
"""[formula] Number of ordinary runs whose draws are compared. A fair coin has the same outcome in all of them with
probability 2^-39, whose logarithm is below `COINCIDENCE`."""
COINCIDENCE = math.log(1e-9)
"""[chosen] Log probability below which equal discrete draws in all runs do not count as a coincidence."""
SAME_NUMBER = 1e-9
"""[formula] Relative difference of two results of the same arithmetic in another order."""
SIXTEEN_ROUNDINGS = 2.0**-48
"""[formula] Relative rounding error of sixteen operations on floats."""
WATCHED_RUNS = 4
"""[chosen] Number of ordinary runs in which the states of generators are stored, which takes longer than most draws."""
NUMBER_IN_TEXT = re.compile(r"[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?")
"""A decimal number without its sign."""


def require_random_draws(runs: Sequence[OrdinaryRun]) -> None:
    """Raise `Parted` if draws are equal, or begin at the same state, in runs with different seeds or within a run.

    ``runs`` are runs with ordinary numbers. Discrete draws may be equal by chance, and are judged by the probability of
    this coincidence.
    """
    continuous = [_continuous_noise(one) for one in runs]
    for number, values in enumerate(zip(*continuous)):  # noqa: B905  # strict since 3.10
        if len(runs) > 1 and len(set(values)) == 1:
            raise Parted(f"draw {number + 1} is the same for all seeds: its generator has a fixed seed")
    for one, noise in zip(runs, continuous):  # noqa: B905
        if len(set(noise)) < len(noise):
            raise Parted("two draws of a run are equal: their generators have the same seed")
        states = [state for state in one.states if state is not None]
        if len(set(states)) < len(states):
            raise Parted("two draws of a run begin at the same state: their generators have the same seed")
    watched = [one.states for one in runs if one.watches_generators]
    for number, some in enumerate(zip(*watched)):  # noqa: B905
        if len(watched) > 1 and some[0] is not None and len(set(some)) == 1:
            raise Parted(f"draw {number + 1} begins at the same state for all seeds: its generator has a fixed seed")
    for answers in zip(*([broken_numbers(step.answer) for step in one.steps] for one in runs)):  # noqa: B905
        if len(runs) > 1 and answers[0] and all(one == answers[0] for one in answers):
            raise Parted("a mechanism gives the same answer for all seeds: its generator has a fixed seed")
    if len({_discrete_outcomes(one) for one in runs}) == 1:
        log_probability = math.fsum(
            one.law.log_probability(one.outcome) for one in runs[0].choices if not one.is_position
        )
        if (len(runs) - 1) * log_probability < COINCIDENCE:
            raise Parted("the discrete draws are the same for all seeds: their generator has a fixed seed")


def _continuous_noise(run: OrdinaryRun) -> list[float]:
    """Return the draws of a run that have a density, in units of their scales."""
    return [one.value / one.scale for one in run.draws if one.law == UNIFORM or LAWS[one.law].continuous]


def _discrete_outcomes(run: OrdinaryRun) -> Any:
    """Return the outcomes of all discrete draws of a run, except for positions, which the run itself draws."""
    whole = [one.value for one in run.draws if one.law == "geometric"]
    return tuple(whole), tuple(repr(one.outcome) for one in run.choices if not one.is_position)


def require_no_memory(first: OrdinaryRun, again: OrdinaryRun) -> None:
    """Raise `Parted` if a later run with the seed of the first run makes more or fewer draws than the first run.

    The function then keeps something between runs, such as its noise or its answer. A different number of draws is
    allowed if the later run makes draws, and its generator has another or an unknown state at the first draw.
    """
    both = [(len(one.draws), len(one.choices), len(one.steps)) for one in (first, again)]
    same_start = not sum(both[1]) or (first.states[:1] and first.states[:1] == again.states[:1] != [None])
    if both[0] != both[1] and same_start:
        raise Parted("a later run with the same seed makes other draws: the function keeps something between runs")


def require_same_output(ordinary: OrdinaryRun, run: Runner) -> bool:
    """Raise `Parted` if a run with tracked numbers and the same draws returns something else than an ordinary run.

    It is also raised if a draw begins at the same state in both runs, although their seeds differ: then an earlier draw
    is the seed of its generator, and whoever sees the earlier draw knows the later one. ``run`` runs the function, and
    must use another seed than the ordinary run. Return whether both outputs are equal up to a few roundings.
    """
    given: dict[str, Any] = {
        "values": [one.value for one in ordinary.draws],
        "outcomes": [one.outcome for one in ordinary.choices],
        "answers": [one.answer for one in ordinary.steps],
    }
    tracked = run(AlignmentRun(0, **given, watches_generators=ordinary.watches_generators))
    if not same_values(ordinary.output, tracked.output):
        raise Parted("the function treats recorded draws differently from ordinary numbers")
    both = zip(ordinary.states, tracked.states)  # noqa: B905  # strict since 3.10
    if any(one == its is not None for one, its in both):
        raise Parted("a generator gets its seed from an earlier draw; use the same generator, or spawn another from it")
    output = tracked.output
    return same_values(ordinary.output, output, SIXTEEN_ROUNDINGS, 0.0)


def exceptions_of(runs: Sequence[OrdinaryRun]) -> set[str]:
    """Return the names of the exceptions that the function raised in runs with ordinary numbers.

    Raises `Parted` if every run raised an exception.
    """
    raised = [one.output[1] for one in runs if type(one.output) is tuple and one.output[:1] == ("raises",)]
    if len(raised) == len(runs):
        raise Parted(f"the function raises {raised[0]} in every run")
    return set(raised)


def same_values(one: Any, other: Any, relative: float = SAME_NUMBER, absolute: float = SAME_NUMBER) -> bool:
    """Return whether two outputs are equal up to the rounding of numbers, also of numbers within texts.

    ``relative`` and ``absolute`` are the tolerances for numbers. The second output may have tracked numbers.
    """
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
    """Return whether two texts are equal up to the rounding of the numbers in them.

    Examples
    --------
    >>> same_texts("sum: 0.30000000000000004", "sum: 0.3"), same_texts("sum: 0.3", "none")
    (True, False)
    """
    parts, other_parts = NUMBER_IN_TEXT.split(one), NUMBER_IN_TEXT.split(other)
    numbers, other_numbers = NUMBER_IN_TEXT.findall(one), NUMBER_IN_TEXT.findall(other)
    return parts == other_parts and all(map(same_values, map(float, numbers), map(float, other_numbers)))

"""Checks of what an alignment assumes: draws are random, recorded, and treated like ordinary numbers.

A *genuine* run gets the numbers of the original samplers. Genuine runs with other seeds must have other draws, and a
tracked run with the draws of a genuine run must return what the genuine run returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from epsaudit.tools.tracing.alignment.discrete import discrete_law
from epsaudit.tools.tracing.alignment.paths import paths
from epsaudit.tools.tracing.alignment.run import COMPARE, AlignmentRun, Parted, Runner, noise_law
from epsaudit.tools.tracing.alignment.tracked import TrackedNumber
from epsaudit.tools.tracing.listening import Listener, paused

GENUINE_RUNS = 40
"""[formula] Genuine runs whose discrete draws are compared; equal fair coins in all of them have probability 2^-39."""
COINCIDENCE = math.log(1e-9)
"""[chosen] Log probability below which equal discrete draws in all runs are no coincidence."""
SAMPLED_RUNS = 200
"""[chosen] Sampled runs on each side that must follow enumerated paths. Behaviour that occurs in one run of 100 is
missed with probability 0.13 in one side's runs, and 0.02 in those of both."""
SAME_NUMBER = 1e-9
"""[formula] Relative difference of two results of the same arithmetic in another order."""


class GenuineRun(Listener):
    """A run in which samplers answer as usual; it stores what they answered."""

    profiles = False

    def __init__(self) -> None:
        super().__init__()
        self.continuous: list[float] = []
        """Numbers with a density, without their centres, in the order of draws."""
        self.discrete: list[tuple[str, str, float]] = []
        """For each other draw its name, its outcome as text, and its log probability."""
        self.replayable = True
        """Whether a tracked run can be given these draws."""
        self.output: Any = None

    def drawn(self, kind: str, name: str, make: Any, *fields: Any) -> Any:
        """Call a sampler, and store its answer."""
        centre, states, fixed = fields
        with paused():
            answer = make()
            law, _, centre = noise_law(name, states["law"], 0.0 if centre is None else centre, fixed)
            if law is None or law == "geometric":
                known = discrete_law(name, make, fixed) if law is None else None
                log_probability = known.log_probability(answer) if known is not None and known.known else 0.0
                self.discrete.append((name, repr(answer), log_probability))
                self.replayable = False
                return answer
            numbers = np.asarray(answer, float) - np.asarray(centre, float)
            if {"low", "high"} & {*fixed}:
                low, high = fixed.get("low", 0.0), fixed.get("high", 1.0)
                numbers = (numbers - low) / (high - low)
            self.continuous += np.ravel(numbers).tolist()
            return answer

    def answer(self, kind: str, name: str, make: Any, *_: Any, **__: Any) -> Any:
        """Call a sampler that chooses from a population, or another recorded function."""
        self.replayable = self.replayable and kind != "sample"
        with paused():
            return make()

    def mechanism(self, name: str, make: Any, stated: Any) -> Any:
        """Call a mechanism of a library."""
        self.replayable = False
        with paused():
            return make()

    def finish(self, output: Any) -> None:
        """Store the output."""
        self.output = output


def require_random_draws(runs: Sequence[GenuineRun]) -> None:
    """Raise `Parted` if draws are equal in runs with different seeds, or within a run."""
    for number, values in enumerate(zip(*(one.continuous for one in runs), strict=False)):
        if len(runs) > 1 and len(set(values)) == 1:
            raise Parted(f"draw {number + 1} is the same for all seeds: its generator has a fixed seed")
    for one in runs:
        if len(set(one.continuous)) < len(one.continuous):
            raise Parted("two draws of a run are equal: their generators have the same seed")
    sequences = [tuple(one.discrete) for one in runs]
    if sequences[0] and len(set(sequences)) == 1:
        log_probability = (len(runs) - 1) * math.fsum(one[2] for one in sequences[0])
        if log_probability < COINCIDENCE:
            raise Parted("the discrete draws are the same for all seeds: their generator has a fixed seed")


def require_same_output(genuine: GenuineRun, run: Runner) -> None:
    """Raise `Parted` if a tracked run with the same draws returns something else than the genuine run."""
    if not genuine.replayable:
        return
    tracked = run(AlignmentRun(0, values=genuine.continuous))
    if not same_values(genuine.output, tracked.output):
        raise Parted("the function treats recorded draws differently from ordinary numbers")


def same_values(one: Any, other: Any) -> bool:
    """Return whether two outputs are equal, where numbers may differ by rounding."""
    if isinstance(other, TrackedNumber):
        other = other.value
    if isinstance(one, (list, tuple, np.ndarray)) and np.ndim(np.empty(np.shape(one) if hasattr(one, "shape") else 1)):
        if not isinstance(other, (list, tuple, np.ndarray)) or len(one) != len(other):
            return False
        return all(map(same_values, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same_values(one[k], other[k]) for k in one)
    try:
        return bool(one == other) or math.isclose(float(one), float(other), rel_tol=SAME_NUMBER, abs_tol=SAME_NUMBER)
    except (TypeError, ValueError):
        return type(one) is type(other)


def require_enumerated_paths(run: Runner, seeds: Iterable[int]) -> None:
    """Raise `Parted` if a sampled run follows a path that the enumeration does not have."""
    known = {_key(one) for one in paths(run)}
    for seed in seeds:
        if _key(run(AlignmentRun(seed))) not in known:
            reason = (
                "a sampled run followed a path that was not enumerated: it depends on earlier runs, or on something"
            )
            raise Parted(f"{reason} that is not recorded")


def _key(run: AlignmentRun) -> Any:
    events = tuple(
        (one.kind, one.terms, one.constant, one.outcome if one.kind == COMPARE else None) for one in run.events
    )
    return events, run.form, tuple(repr(one.outcome) for one in run.choices)

"""The test of a claimed coupling: a set of outputs that is likelier on x than its neighbourhood is on x'.

Theorem 17 of docs/explanation/theory.md. The set is chosen on training runs and certified on fresh ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.tools.maps.search import key_of

COUPLING_SCREENING_RUNS, SCREENED = 40, 4
"""Number of runs on each input of every pair, and number of pairs with the largest gaps that are trained on."""
COUPLING_TRAINING_RUNS = 240
"""Number of training runs on each input of these pairs. One half chooses a set, the other half the pair."""
MAX_DISTINCT = 80
"""Largest number of distinct outputs of each input in the linear program; rarer outputs are left out."""
Sampler = Callable[[Any, int], Sequence[Any]]
"""A function of an input and a number that returns that many outputs, of independent calls."""


@dataclass(frozen=True)
class ImpossibleCoupling:
    """A set of outputs that disproves a coupling, with its counts in fresh runs."""

    x: Any
    """The input whose outputs are in the set too often."""
    y: Any
    """The neighbour whose outputs are near the set too rarely."""
    outputs: tuple[Any, ...]
    """The set."""
    distance: Any
    """The distance that the map allows."""
    inside: int
    """Number of runs on x with an output in the set."""
    near: int
    """Number of runs on y with an output within the distance of the set."""
    runs: int
    """Number of runs on each input."""
    confidence: float

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.outputs[:3])) + ", ..." * (len(self.outputs) > 3)
        return (
            f"{self.inside:,} of {self.runs:,} outputs on {self.x!r} are in {{{shown}}}, and only {self.near:,} of "
            f"{self.runs:,} on {self.y!r} are within {self.distance} of it: no coupling has that distance"
        )


@dataclass(frozen=True)
class _Set:
    """A candidate set of outputs with its gap on the training runs."""

    gap: float
    outputs: tuple[Any, ...]
    keys: frozenset[Any]


def choose_set(first: Sequence[Any], second: Sequence[Any], is_near: Callable[[Any, Any], bool]) -> _Set:
    """Return the set of outputs of ``first`` whose share most exceeds the share of ``second`` near to it."""
    ones, others = (_distinct(part) for part in (first, second))
    p = np.array([count for _, count in ones]) / len(first)
    q = np.array([count for _, count in others]) / len(second)
    near = [(i, j) for i, (one, _) in enumerate(ones) for j, (other, _) in enumerate(others) if is_near(one, other)]
    rows = np.repeat(np.arange(len(near)), 2)
    columns = np.array([(i, len(p) + j) for i, j in near], dtype=int).reshape(-1)
    matrix = coo_array((np.tile([1.0, -1.0], len(near)), (rows, columns)), shape=(len(near), len(p) + len(q)))
    limits: dict[str, Any] = {"A_ub": matrix, "b_ub": np.zeros(len(near))} if near else {}
    found = linprog(np.concatenate([-p, q]), bounds=(0.0, 1.0), method="highs", **limits)
    solution = np.asarray(found.x)
    inside = solution[: len(p)] > 0.5
    outputs = tuple(one for (one, _), chosen in zip(ones, inside, strict=True) if chosen)
    return _Set(float(p @ solution[: len(p)] - q @ solution[len(p) :]), outputs, frozenset(map(key_of, outputs)))


def refute_coupling(
    sample: Sampler,
    pairs: Sequence[tuple[Any, Any, Any]],
    exceeds: Callable[[Any, Any, Any], bool],
    runs: int,
    confidence: float,
) -> ImpossibleCoupling | None:
    """Return a certificate that no coupling has the claimed distance, or None.

    Parameters
    ----------
    sample : Sampler
        Draws outputs.
    pairs : sequence of (x, y, allowed)
        Inputs, with the distance of outputs that the map allows. The best pair and direction are chosen on training
        runs.
    exceeds : callable
        ``exceeds(output, other, allowed)`` says whether two outputs are farther apart than allowed.
    runs : int
        Number of fresh runs on each input.
    confidence : float
        Confidence of a refutation.
    """
    ranked = [(0.0, x, y, allowed) for x, y, allowed in pairs]
    best: list[tuple[float, Any, Any, Any, _Set]] = []
    for training_runs in (COUPLING_SCREENING_RUNS, COUPLING_TRAINING_RUNS):
        best = [
            one
            for _, x, y, allowed in ranked
            for one in _candidate_events(
                sample, x, y, allowed, lambda one, other, most: not exceeds(one, other, most), training_runs
            )
        ]
        best.sort(key=lambda one: -one[0])
        ranked = [one[:4] for one in best[:SCREENED]]
    if not best:
        return None
    _, x, y, allowed, chosen = best[0]
    inside, near = _count_events(
        chosen, sample(x, runs), sample(y, runs), lambda one, other: not exceeds(one, other, allowed)
    )
    alpha = (1.0 - confidence) / 2.0
    if clopper_pearson_lower(inside, runs, alpha) <= clopper_pearson_upper(near, runs, alpha):
        return None
    return ImpossibleCoupling(x, y, chosen.outputs, allowed, inside, near, runs, confidence)


def _candidate_events(
    sample: Sampler, x: Any, y: Any, allowed: Any, is_near: Callable[[Any, Any, Any], bool], runs: int
) -> Iterator[tuple[float, Any, Any, Any, _Set]]:
    """Yield a set for each direction of a pair, with its gap on those training runs that did not choose it."""
    drawn, half = (sample(x, runs), sample(y, runs)), runs // 2

    def near(one: Any, other: Any) -> bool:
        return is_near(one, other, allowed)

    for first, second, outputs in ((x, y, drawn), (y, x, drawn[::-1])):
        chosen = choose_set(outputs[0][:half], outputs[1][:half], near)
        if chosen.outputs:
            inside, beside = _count_events(chosen, outputs[0][half:], outputs[1][half:], near)
            yield (inside - beside) / half, first, second, allowed, chosen


def _count_events(
    chosen: _Set, first: Sequence[Any], second: Sequence[Any], is_near: Callable[[Any, Any], bool]
) -> tuple[int, int]:
    """Return how many outputs of ``first`` are in the set, and how many of ``second`` are near to it."""
    inside = sum(key_of(one) in chosen.keys for one in first)
    known: dict[Any, bool] = {}
    near = 0
    for one in second:
        name = key_of(one)
        if name not in known:
            known[name] = any(is_near(other, one) for other in chosen.outputs)
        near += known[name]
    return inside, near


def _distinct(outputs: Sequence[Any]) -> list[tuple[Any, int]]:
    """Return the most frequent distinct outputs with their counts."""
    counts = Counter(map(key_of, outputs))
    first: dict[Any, Any] = {}
    for one in outputs:
        first.setdefault(key_of(one), one)
    return [(first[name], count) for name, count in counts.most_common(MAX_DISTINCT)]

"""The test of a claimed coupling: find a set of outputs that is likelier on x than its neighbourhood is on x'.

Such a set disproves the coupling by theorem 17 of docs/explanation/theory.md. The set is chosen on training runs and
certified on fresh runs.
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
"""Number of runs on each input of every pair, and number of pairs that are kept, where (x, x') and (x', x) are
different pairs. These have the largest gaps between the frequency of a set and that of its neighbourhood."""
COUPLING_TRAINING_RUNS = 240
"""Number of training runs on each input of the kept pairs. One half chooses a set, the other half the pair."""
MAX_DISTINCT = 80
"""Largest number of distinct outputs of each input in the linear program; rarer outputs are left out."""
Sampler = Callable[[Any, int], Sequence[Any]]
"""A function ``sample(data, number)`` that returns ``number`` independent outputs on an input."""


@dataclass(frozen=True)
class ImpossibleCoupling:
    """Evidence that random outputs on two inputs cannot be coupled within the distance that a map states.

    A coupling draws an output on each input together, so that the two are never farther apart than this distance. But a
    set of outputs occurs more often on ``x`` than outputs within the distance of the set occur on ``y``. The counts are
    from fresh runs.
    """

    x: Any
    """The input whose outputs are in the set too often."""
    y: Any
    """The neighbour whose outputs are near the set too rarely."""
    outputs: tuple[Any, ...]
    """The outputs in the set."""
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
    """A candidate set of outputs for the test of a coupling.

    ``gap`` is the frequency of the set on one input minus that of its neighbourhood on the other input. Both are from
    the training runs that chose the set.
    """

    gap: float
    outputs: tuple[Any, ...]
    keys: frozenset[Any]


def choose_set(first: Sequence[Any], second: Sequence[Any], is_near: Callable[[Any, Any], bool]) -> _Set:
    """Return the set of outputs that speaks most against a coupling, for samples of outputs on two inputs.

    It maximises the gap: the share of ``first`` that is in the set, minus the share of ``second`` that ``is_near`` to
    an output in the set. A linear program finds it. If outputs can be coupled so that they are always near to each
    other, the true gap is not positive for any set.
    """
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
    """Test whether random outputs on pairs of inputs can be coupled within a distance that a map states.

    A coupling draws an output on each of two inputs together, so that they are never farther apart than this distance.
    Return a certificate that no such coupling exists for one of the pairs, or None.

    Parameters
    ----------
    sample : Sampler
        Draws outputs on an input.
    pairs : sequence of (x, y, allowed)
        Two inputs, and the distance of outputs that the map allows. Training runs choose the pair and the order of its
        inputs that look most promising.
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
    """Yield a candidate set of outputs with its gap for (x, y), and another one for (y, x).

    The gap is defined in `choose_set`. One half of the runs chooses the set, and the other half measures the gap.
    """
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
    """Return how many outputs of ``first`` are in a set, and how many of ``second`` are near to an output in the set.

    The function ``is_near`` says whether two outputs are near to each other.
    """
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
    """Return the `MAX_DISTINCT` most frequent distinct outputs with their counts."""
    counts = Counter(map(key_of, outputs))
    first: dict[Any, Any] = {}
    for one in outputs:
        first.setdefault(key_of(one), one)
    return [(first[name], count) for name, count in counts.most_common(MAX_DISTINCT)]

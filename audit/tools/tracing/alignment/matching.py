"""Certain bounds from alignments that change the outcomes of discrete draws, as sampling and random branches need.

A *branch* is the function with fixed outcomes of its discrete draws. An alignment leads from a branch on x to a branch
on x', which may have other outcomes. A linear program then distributes the probability of each branch on x over the
branches on x' (the theorem on matched branches in docs/explanation/theory.md).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from epsaudit.tools.tracing.alignment.extra_draws import renumbered_form
from epsaudit.tools.tracing.alignment.paths import PathRun
from epsaudit.tools.tracing.alignment.run import COMPARE, Draw, RunEvent
from epsaudit.tools.tracing.alignment.shifts import largest_loss, stretch_or_shift
from epsaudit.tools.tracing.primitives import UNIFORM

MAX_PAIRS_OF_PATHS = 20_000
"""[time] Largest number of pairs of paths; each takes up to 2 ms."""
MAX_LOSS = 500.0
"""[formula] Largest loss of a branch, because e^loss must be a finite number."""
LOSS_ROUNDING = 1e-12
"""[formula] Relative rounding error of a product of probabilities, and of a sum of some thousand of them."""


class BranchPath(NamedTuple):
    """A path of a branch, without its discrete and uniform draws and their comparisons.

    A branch is the audited function with fixed outcomes of these draws.
    """

    key: Any
    """What is equal for corresponding paths of x and of x': comparisons without data, the output, and the laws."""
    events: tuple[RunEvent, ...]
    draws: tuple[Draw, ...]


class Branch(NamedTuple):
    """All paths of a function with the same outcomes of discrete and uniform draws, and their probability."""

    probability: float
    paths: list[BranchPath]


def branches_of(paths: Sequence[PathRun]) -> list[Branch] | None:
    """Group the paths of a function by the outcomes of their discrete and uniform draws, into branches.

    Return None if mechanisms with a stated loss are called, or if the outcomes may depend on the noise. They do not if
    they have the same probability on all paths of a branch, and if the probabilities of all branches add up to 1.
    """
    found: dict[Any, list[tuple[PathRun, BranchPath]]] = defaultdict(list)
    for path in paths:
        branch_path = _without_uniform_draws(path)
        if branch_path is None or path.steps:
            return None
        intervals = [path.intervals[((place, 1.0),)] for place, one in enumerate(path.draws) if one.law == UNIFORM]
        found[tuple(repr(one.outcome) for one in path.choices), tuple(intervals)].append((path, branch_path))
    branches = []
    for some in found.values():
        probabilities = [math.exp(path.log_probability) for path, _ in some]
        if max(probabilities) - min(probabilities) > LOSS_ROUNDING * max(probabilities):
            return None
        branches.append(Branch(probabilities[0], [one for _, one in some]))
    total = math.fsum(one.probability for one in branches)
    return merged(branches) if abs(total - 1.0) <= LOSS_ROUNDING * len(branches) else None


def merged(branches: Sequence[Branch]) -> list[Branch]:
    """Merge branches that have the same paths, such as random samples of records with the same sum."""
    found: dict[Any, Branch] = {}
    for one in branches:
        constants = tuple(tuple(event.constant for event in path.events) for path in one.paths)
        scales = tuple(tuple(draw.scale for draw in path.draws) for path in one.paths)
        key = tuple(path.key for path in one.paths), constants, scales
        before = found[key].probability if key in found else 0.0
        found[key] = Branch(before + one.probability, one.paths)
    return list(found.values())


def _without_uniform_draws(path: PathRun) -> BranchPath | None:
    """Return a path without its discrete and uniform draws, as a path of a branch.

    Return None if a uniform draw is returned, or compared with another draw.
    """
    kept = [place for place, one in enumerate(path.draws) if one.law != UNIFORM]
    places = {draw: place for place, draw in enumerate(kept)}

    def renumber(terms: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...] | None:
        if any(draw not in places for draw, _ in terms):
            return None
        return tuple((places[draw], weight) for draw, weight in terms)

    events = []
    for one in path.events:
        terms = renumber(one.terms)
        if terms is not None:
            events.append(one._replace(terms=terms))
        elif one.kind != COMPARE or len(one.terms) > 1:
            return None
    form = renumbered_form(path.form, renumber)
    if form is None:
        return None
    draws = tuple(path.draws[place] for place in kept)
    seen = tuple((one.kind, one.terms, one.outcome if one.kind == COMPARE else None) for one in events)
    return BranchPath((seen, form, tuple(one.law for one in draws)), tuple(events), draws)


def matched_epsilon(paths: Sequence[PathRun], paths_prime: Sequence[PathRun]) -> float:
    """Return an epsilon for which every event has a probability on x of at most e^epsilon times that on x'.

    It is found by distributing the branches on x over those on x', and is infinite if this fails. A branch is the
    function with fixed outcomes of its discrete draws.
    """
    mine, theirs = branches_of(paths), branches_of(paths_prime)
    if mine is None or theirs is None or len(mine) * sum(len(one.paths) for one in theirs) > MAX_PAIRS_OF_PATHS:
        return math.inf
    known: dict[Any, Any] = {}
    losses = np.array([[_loss_between(one, other, known) for other in theirs] for one in mine])
    p, q = (np.array([one.probability for one in side]) for side in (mine, theirs))
    return _least_epsilon_of_losses(losses, p, q)


def _loss_between(branch: Branch, other: Branch, known: dict[Any, Any]) -> float:
    """Return the largest loss over all paths of a branch if they are aligned with the paths of another branch.

    A branch is the function with fixed outcomes of its discrete draws. An alignment shifts the noise of a path on x so
    that a path on x' has the same output. The loss is infinite if a path has no alignment.
    """
    by_key = {one.key: one for one in other.paths}
    worst = -math.inf
    for one in branch.paths:
        its = by_key.get(one.key)
        shift = None if its is None else stretch_or_shift(one.events, its.events, one.draws, its.draws, known)
        if its is None or shift is None:
            return math.inf
        worst = max(worst, largest_loss(shift, one.draws, its.draws))
    return worst


def _least_epsilon_of_losses(losses: Any, p: Any, q: Any) -> float:
    """Return the smallest epsilon over all ways to distribute the branches on x over those on x'.

    The branches have the probabilities p and q. The weights w[i, j] sum to p[i] over j, and sum over i of w[i, j]
    e^losses[i, j] is at most e^epsilon q[j].
    """
    rows, columns = np.nonzero(losses <= MAX_LOSS)
    if len(set(rows.tolist())) < len(p):
        return math.inf
    factors, n = np.exp(losses[rows, columns]), len(rows)
    sums, totals = np.zeros((len(p), n + 1)), np.zeros((len(q), n + 1))
    sums[rows, np.arange(n)] = 1.0
    totals[columns, np.arange(n)] = factors / q[columns]
    totals[:, n] = -1.0
    cost = np.zeros(n + 1)
    cost[n] = 1.0
    answer: Any = linprog(cost, A_ub=totals, b_ub=np.zeros(len(q)), A_eq=sums, b_eq=p, method="highs")
    if answer.status != 0:
        return math.inf
    weights = np.maximum(answer.x[:n], 0.0)
    for row in range(len(p)):  # what solvers return sums to p but for their tolerance, which may exceed p
        own = np.flatnonzero(rows == row)
        if np.sum(weights[own]) < p[row] / 2.0:
            weights[own] = 0.0
            weights[own[np.argmin(factors[own] / q[columns[own]])]] = p[row]
        weights[own] *= p[row] / np.sum(weights[own])
    return float(np.log(np.max(totals[:, :n] @ weights)))

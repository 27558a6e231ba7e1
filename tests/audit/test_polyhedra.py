"""Whether two paths have draws in common: shortest paths and linear programs agree, and points confirm them."""

import math

import numpy as np
import pytest

from epsaudit.tools.tracing.alignment import polyhedra
from epsaudit.tools.tracing.alignment.polyhedra import intersect

FREE = (-math.inf, math.inf)


def random_intervals(rng, n):
    """Return intervals of some draws and of some differences of draws."""
    found = {}
    for one in range(n):
        for other in range(-1, one):
            if rng.random() < 0.5:
                key = ((one, 1.0),) if other < 0 else ((other, 1.0), (one, -1.0))
                low = rng.choice([-math.inf, float(rng.integers(-3, 3))])
                found[key] = low, max(low, -3.0) + float(rng.integers(1, 4)) if rng.random() < 0.6 else math.inf
    return found


@pytest.mark.parametrize("seed", range(60))
def test_shortest_paths_and_the_linear_program_agree(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    both = random_intervals(rng, 4), random_intervals(rng, 4)
    amounts = rng.integers(-2, 3, size=4) / 2.0
    by_paths = intersect(both[0], amounts, both[1])
    monkeypatch.setattr(polyhedra, "_is_difference", lambda key: False)
    assert by_paths == intersect(both[0], amounts, both[1])


def test_both_answers_occur():
    answers = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        both = random_intervals(rng, 4), random_intervals(rng, 4)
        answers.append(intersect(both[0], rng.integers(-2, 3, size=4) / 2.0, both[1]))
    assert 10 < sum(answers) < 50


def test_a_cycle_that_closes_exactly_has_no_interior():
    """z0 > z1 > z2 on one side, and z2 > z0 - 2 moved by 2 on the other."""
    first = {((0, 1.0), (1, -1.0)): (0.0, math.inf), ((1, 1.0), (2, -1.0)): (0.0, math.inf)}
    assert not intersect(first, (0.0, 0.0, 0.0), {((0, 1.0), (2, -1.0)): (-math.inf, 0.0)})
    assert intersect(first, (0.0, 0.0, 0.0), {((0, 1.0), (2, -1.0)): (-math.inf, 0.5)})
    assert not intersect(first, (1.0, 0.5, 0.0), {((0, 1.0), (2, -1.0)): (-math.inf, 1.0)})


def test_the_margin_is_that_of_the_smallest_noise():
    """Noise of scale 1e-12 can lie in an interval of this width."""
    narrow = {((0, 1.0),): (0.0, 1e-12)}
    assert intersect(narrow, (0.0,), {((0, 1.0),): (-math.inf, 0.5e-12)}, unit=1e-12)
    assert not intersect(narrow, (0.0,), {((0, 1.0),): (-math.inf, 1e-22)}, unit=1e-12)
    assert intersect({**narrow, ((0, 1.0), (1, 2.0)): (0.0, 1e-12)}, (0.0, 0.0), {((1, 1.0),): FREE}, unit=1e-12)


def test_other_weights_need_the_linear_program():
    first = {((0, 1.0), (1, 2.0)): (4.0, math.inf)}
    assert intersect(first, (0.0, 0.0), {((0, 1.0),): (-math.inf, 1.0)})
    assert not intersect(first, (0.0, 0.0), {((0, 1.0),): (-math.inf, 1.0), ((1, 1.0),): (-math.inf, 1.0)})
    assert intersect({}, (), {((0, 1.0),): FREE})

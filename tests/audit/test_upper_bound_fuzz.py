"""Upper bounds of random programs are never below a lower bound on their loss.

The lower bounds are exact losses of discrete programs, or limits from 200,000 runs that are wrong with probability
1e-6. An upper bound from runs holds with confidence 95 %, but its delta is much larger than what it leaves out here.
"""

import math

import pytest
from upper_bound_programs import random_program

from epsaudit import PureDP, bound_above

ROUNDING = 1e-9
"""Relative difference of two sums of probabilities."""


def bound_and_loss(seed):
    """Return the upper bound of a random program, and a lower bound on its loss at the delta of the upper bound."""
    program = random_program(seed)
    found = bound_above(program.function, (program.x, program.x_prime), claim=PureDP(1.0), runs=300, seed=seed)
    return found.upper_bound, program.true_loss_at_least(found.delta) if found.upper_bound < math.inf else 0.0


def wrong_seeds(bounds, factor=1.0):
    """Return the seeds of the programs whose upper bound, multiplied by a factor, is below the loss."""
    return [seed for seed, (upper, loss) in bounds.items() if factor * upper < loss * (1.0 - ROUNDING)]


@pytest.fixture(scope="module")
def bounds():
    return {seed: bound_and_loss(seed) for seed in range(12)}


def test_no_bound_is_below_the_loss(bounds):
    assert wrong_seeds(bounds) == []
    assert sum(upper < math.inf for upper, _ in bounds.values()) > len(bounds) / 2


def test_a_bound_that_is_too_small_by_a_fifth_would_be_caught(bounds):
    assert len(wrong_seeds(bounds, 0.8)) >= 2


@pytest.mark.slow
def test_no_bound_of_many_programs_is_below_the_loss():
    bounds = {seed: bound_and_loss(seed) for seed in range(12, 320)}
    assert wrong_seeds(bounds) == []
    assert len(wrong_seeds(bounds, 0.8)) >= 30

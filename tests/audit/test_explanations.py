"""Without an alignment within the claim, the place is named, and the cheapest alignment costs its closed form."""

import math

import numpy as np
import pytest

from epsaudit import ZCDP, ApproxDP, GaussianDP, PureDP, bound_above, trace
from epsaudit.experiments.traced_functions import CASES
from epsaudit.running.functions import mechanism_of
from epsaudit.tools.tracing import mechanism
from epsaudit.tools.tracing.alignment.explanation import explained
from epsaudit.tools.tracing.alignment.many_pairs import in_processes
from epsaudit.tools.tracing.alignment.run import runner
from epsaudit.tools.tracing.calls import call_of
from epsaudit.tools.tracing.suspicion import BUDGET, MOVES

PAIR = (1.0, 3.0)
TENTH = PureDP(0.1)


def line(function, word="# here"):
    """Number of the line of a function that has a comment."""
    lines = open(__file__).read().splitlines()  # noqa: SIM115
    start = function.__code__.co_firstlineno - 1
    return next(number for number, text in enumerate(lines[start:], start + 1) if text.endswith(word))


def alone(x, rng):
    first = 7.0 + rng.laplace(scale=4.0)
    return first, x + rng.laplace(scale=4.0)  # here


def together(x, rng):
    first = x + rng.laplace(scale=4.0)
    second = x + rng.laplace(scale=2.0)  # here
    return first, second, rng.laplace()


def gaussian(x, rng):
    noise = rng.normal(scale=4.0)  # here
    return x + noise


def scaled(x, rng):
    return rng.laplace(scale=1.0 / x)  # here


def compared_twice(x, rng):
    noise = rng.laplace(scale=4.0)
    low = noise > x
    return low, noise  # here


def noise_beside(x, rng):
    noise = rng.laplace(scale=4.0)
    return [x + noise, noise]  # here


def one_more(x, rng):
    total = x + rng.laplace(scale=4.0)
    if x > 2.0:
        total += rng.laplace()  # here
    return total


def constant_beside(x, rng):
    return x + rng.laplace(scale=4.0), x  # here


def unique(x, rng):
    keys = np.unique([1.0, x])  # here
    return [1.0 + rng.laplace() for _ in keys]


@mechanism(input="total", sensitivity=1.0, epsilon=0.5)
def noisy(total, rng):
    return total + rng.laplace(scale=2.0)


def by_a_mechanism(x, rng):
    return noisy(x, rng)  # here


@pytest.mark.parametrize(
    ("function", "claim", "upper_bound", "cheapest"),
    [
        (alone, TENTH, 0.5, 0.5),
        (together, PureDP(1.2), 1.5, 1.5),
        (gaussian, GaussianDP(0.1), 0.5, 0.5),
        (gaussian, ZCDP(0.1), 0.125, 0.125),
        (gaussian, TENTH, None, math.inf),
        (scaled, TENTH, None, math.inf),
        (noise_beside, TENTH, math.inf, 0.5),
        (noise_beside, ApproxDP(0.1, 1e-5), math.inf, 0.5 + 2.0 * math.log1p(-1e-5)),
        (one_more, TENTH, math.inf, 0.0),
        (constant_beside, TENTH, math.inf, 0.5),
        (by_a_mechanism, TENTH, None, 1.0),
    ],
)
def test_the_place_and_the_cost_of_the_cheapest_alignment(function, claim, upper_bound, cheapest):
    """Laplace noise costs the move by the scale, Gaussian noise mu or mu^2 / 2, and pure epsilon of it is infinite.

    ``upper_bound`` is None for bounds from runs.
    """
    found = bound_above(function, PAIR, claim=claim, runs=20, n_jobs=1)
    if upper_bound is not None:
        assert found.upper_bound == pytest.approx(upper_bound)
    assert not found.within_claim
    assert found.cheapest == pytest.approx(min(cheapest, found.upper_bound), abs=1e-9)
    assert (found.file, found.line) == (__file__, line(function))
    assert found.reason
    assert found.to_dict()["cheapest"] == (found.cheapest if found.cheapest < math.inf else None)


def test_nothing_is_explained_within_the_claim():
    found = bound_above(together, PAIR, claim=PureDP(1.5), n_jobs=1)
    assert (found.within_claim, found.cheapest, found.reason, found.line, found.explanation()) == (
        True,
        None,
        "",
        0,
        "",
    )


def test_the_explanation_says_what_pays():
    assert bound_above(alone, PAIR, claim=TENTH).explanation() == (
        "the cheapest alignment costs epsilon 0.500: laplace noise of scale 4 has to move by 2: by itself this costs "
        f"epsilon 0.5 where 0.1-DP is claimed (test_explanations.py:{line(alone)})"
    )
    assert "2 draws of noise have to move" in bound_above(together, PAIR, claim=PureDP(1.2)).explanation()
    assert (
        "the number of values from np.unique is 1 on x, 2 on x'" in bound_above(unique, (1.0, 2.0), claim=TENTH).reason
    )


def test_a_comparison_that_cannot_be_kept_is_named():
    """A shift of noise that is returned is 0, and moves the comparison with x to the other outcome in some runs."""
    found = bound_above(compared_twice, PAIR, claim=TENTH, runs=100)
    assert found.reason == "no shift of the noise keeps all comparisons and released numbers"
    assert found.line == line(compared_twice)


NOT_ALONE = {
    "repeats_until_above": "the loop makes more draws than the alignment needs",
    "sensitivity_of_zero": "a mechanism of sensitivity 0 states no loss",
    "exponential_among_seen": "a selection, whose line the study lists without naming it",
}
"""Leaky functions of the study `trace` whose line needs a replay."""


def test_alignments_name_the_lines_of_the_study():
    cases = [one for one in CASES if one.leaks and one.name not in NOT_ALONE]

    def place(number):
        case = cases[number]
        call = call_of(mechanism_of(case.function))
        both = [runner(call, one, look_for_samplers=True) for one in case.pair]
        found = explained(case.claim, [(both[0], both[1]), (both[1], both[0])], range(20))
        return found and found.stack[0][:2]

    places = dict(in_processes(place, range(len(cases)), n_jobs=1, name="the study"))
    expected = {one.name: (one.function.__code__.co_filename, one.line) for one in cases}
    assert {one.name: places[number] for number, one in enumerate(cases)} == expected
    assert len(cases) == 23


def test_the_place_of_a_sum_in_another_function_is_named():
    def added(values, noise):
        return np.array(values) + noise  # here

    def shared_noise(x, rng):
        return (added([x, 1.0], rng.laplace()) / 2.0).tolist()

    found = trace(shared_noise, PAIR, claim=TENTH)
    assert (found.suspicions[0].line, found.verdict) == (line(added), MOVES)


def test_code_without_a_file_has_no_place():
    names = {}
    exec("def added(x, rng):\n    return x + rng.laplace(), x + rng.laplace()", names)
    found = trace(names["added"], PAIR, claim=PureDP(3.0))
    assert (found.verdict, found.suspicions[0].where, found.cheapest) == (BUDGET, "?:0", 4.0)
    found = bound_above(names["added"], PAIR, claim=PureDP(3.0))
    assert (found.file, found.line, found.cheapest) == ("", 0, 4.0)

"""Monotone queries: answers, losses and sensitivities against enumeration, and the statements of source 000."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit.mechanisms.queries import DistinctValues, KthLargest, Maximum, MonotoneHull, Sum, Total


def hull_of(g):
    return lambda x: max(g(part) for n in range(len(x) + 1) for part in itertools.combinations(x, n))


def crooked(records):
    """Not monotone: whoever brings -3 lowers it, two equal records count once."""
    return sum(set(records)) - len(records)


def kth(place):
    return lambda x: sorted(x, reverse=True)[place - 1] if len(x) >= place else -math.inf


# query, records that try it (the most that a record can do among them), and f before rounding, written independently
CASES = {
    "maximum": (Maximum((0, 1, 2.5, 7)), (-1, 0, 1, 2, 2.5, 6, 99), kth(1)),
    "third largest": (KthLargest(range(0, 9, 2), place=3), (0, 1, 3, 4, 99), kth(3)),
    "sum": (Sum((0, 0.3, 1, 4.5)), (0, 0.1, 0.2, 0.7, 3, 99), lambda x: sum(map(Fraction, x))),
    "bounded sum": (Sum(range(0, 40, 3), most=5), (0, 1, 4.5, 5), lambda x: sum(map(Fraction, x))),
    "total": (Total((0, 1, 2, 5, 7), most=3), ((), ("a",), ("a", "b"), ("a", "a", "c")), lambda x: sum(map(len, x))),
    "distinct": (DistinctValues((0, 1, 2, 4, 5)), tuple("abcdefg"), lambda x: len(set(x))),
    "hull": (MonotoneHull(range(9), function=crooked, domain=(-3, 1, 2, 5)), (-3, 1, 2, 5), hull_of(crooked)),
}


@st.composite
def datasets(draw, count=1, most=5):
    """A case's name and so many datasets for it."""
    name = draw(st.sampled_from(sorted(CASES)))
    records = st.lists(st.sampled_from(CASES[name][1]), max_size=most).map(tuple)
    return name, *(draw(records) for _ in range(count))


def rounded(name, dataset):
    query, _, f = CASES[name]
    return next((y for y in query.outputs.tolist() if y >= f(dataset)), query.grid[-1])


def parts(dataset):
    return [kept for n in range(len(dataset) + 1) for kept in itertools.combinations(dataset, n)]


def fewest_removals(f, dataset, accepted):
    return min((len(dataset) - len(part) for part in parts(dataset) if accepted(f(part))), default=math.inf)


def distance(x, other):
    return ((Counter(x) - Counter(other)) + (Counter(other) - Counter(x))).total()


@given(datasets())
def test_answers_are_the_function_rounded_up(case):
    name, x = case
    assert CASES[name][0].value(x) == rounded(name, x)
    assert CASES[name][0].value(()) == CASES[name][0].grid[0]


@given(datasets())
@settings(max_examples=60, deadline=None)
def test_both_losses_are_the_fewest_removals(case):
    name, x = case
    query = CASES[name][0]
    answers = {part: rounded(name, part) for part in parts(x)}
    for y, loss, strict in zip(query.outputs, query.losses(x), query.strict_losses(x), strict=True):
        assert loss == fewest_removals(answers.get, x, lambda v, y=y: v <= y)
        assert strict == fewest_removals(answers.get, x, lambda v, y=y: v < y)


@given(datasets(count=2, most=6))
def test_lemmas_1_and_2(case):
    name, common, more = case
    query = CASES[name][0]
    for losses in (query.losses, query.strict_losses):
        small, large = losses(common), losses(common + more)
        assert np.all(small <= large)
        assert np.all(large <= small + len(more))


@given(datasets(count=2, most=6))
def test_proposition_3(case):
    name, x, other = case
    query = CASES[name][0]
    assert np.all(np.abs(query.losses(x) - query.losses(other)) <= distance(x, other))
    assert np.all(np.abs(query.strict_losses(x)[1:] - query.strict_losses(other)[1:]) <= distance(x, other))


@given(datasets(count=2, most=6), st.integers(1, 4))
def test_the_repaired_loss(case, tau):
    """Equations A and B: l* has sensitivity 1, and is at most 0 at the answer that tau removals would bring about."""
    name, x, more = case
    query = CASES[name][0]

    def repaired(dataset):
        return np.maximum(query.losses(dataset) - tau, tau - query.strict_losses(dataset))

    least = x[: max(0, len(x) - tau)]
    target = min(rounded(name, part) for part in parts(x) if len(x) - len(part) <= tau)
    assert repaired(x)[query.outputs.tolist().index(target)] <= 0
    assert target <= rounded(name, least)
    assert query.strict_losses(x)[0] == math.inf
    assert np.all(np.abs(repaired(x) - repaired(x + more)) <= len(more))


@given(datasets(most=4), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_sensitivities_are_those_of_enumeration(case, k):
    name, x = case
    query, records, _ = CASES[name]
    answer = rounded(name, x)
    near = {}
    for part in parts(x):
        for joining in range(k - (len(x) - len(part)) + 1):
            for new in itertools.combinations_with_replacement(records, joining):
                near[part + new] = abs(rounded(name, part + new) - answer)
    down = max(change for part, change in near.items() if not Counter(part) - Counter(x))
    assert query.down_sensitivity(x, k) == down
    assert query.local_sensitivity(x, k) == max(near.values())
    assert query.down_sensitivity(x, k) <= query.local_sensitivity(x, k) <= k * query.global_sensitivity

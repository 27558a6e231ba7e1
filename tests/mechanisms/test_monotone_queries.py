"""Monotone queries: answers, losses and sensitivities against enumeration, and the statements of source 000."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.down_sensitivity import GaussianBinarySearch, LaplaceBinarySearch, ShiftedInverseSensitivity
from epsaudit.mechanisms.queries import DistinctValues, KthLargest, Maximum, MonotoneHull, Sum, Total
from epsaudit.mechanisms.queries.grid import greatest_rise, rank


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


def test_sensitivities_are_infinite_where_they_are():
    grid = (0, 1, 2, 3, math.inf)
    for query in (Maximum(grid), Sum(grid), Total(grid)):
        data = (1, 2) if not isinstance(query, Total) else ((1,), ())
        assert query.local_sensitivity(data) == query.global_sensitivity == math.inf
        assert query.down_sensitivity(data) < 3
    third = KthLargest(grid, place=3)
    assert (third.local_sensitivity((3, 2, 1), k=2), third.local_sensitivity((3, 2, 1), k=3)) == (2, math.inf)
    assert Maximum(grid).down_sensitivity((1, 4)) == math.inf
    assert DistinctValues(grid).local_sensitivity(()) == 1


@given(st.lists(st.integers(0, 30), min_size=2, max_size=6, unique=True).map(sorted).map(tuple), st.integers(1, 12))
def test_the_greatest_rise_is_that_of_enumeration(grid, rise):
    changes = [grid[rank(grid, total + rise)] - grid[rank(grid, total)] for total in range(grid[-1] + 1)]
    assert greatest_rise(grid, rise) == max(changes)
    steps = range(grid[0], grid[-1] + 3, 3)
    changes = [steps[rank(steps, total + rise)] - steps[rank(steps, total)] for total in range(steps[-1] + 1)]
    assert greatest_rise(steps, rise) == max(changes)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_sum_of_negative_numbers_is_not_monotone(n):
    # source 000, 'Monotonicity Assumption': one record with -100 n moves the down sensitivity from k to 100 n
    x = (1,) * n
    joined = (*x, -100 * n)

    def down(data, k):
        return max(abs(sum(data) - sum(part)) for part in parts(data) if len(data) - len(part) <= k)

    for k in range(1, n + 1):
        assert (down(x, k), down(joined, k)) == (k, 100 * n)
        assert Sum(range(100)).down_sensitivity(x, k) == k
    with pytest.raises(AuditError, match=f"A record holds -{100 * n}; a sum is monotone"):
        Sum(range(100)).down_sensitivity(joined)


def test_without_monotonicity_lemma_2_holds_and_lemma_1_fails():
    small, large = (1, 1), (1, 1, -5)
    loss = {x: fewest_removals(sum, x, lambda v: v <= 0) for x in (small, large)}
    assert loss[large] <= loss[small] + 1
    assert loss[small] > loss[large]


def test_sums_are_exact():
    # 0.1 + 0.2 exceeds 0.3 in floating point and in truth; ten times 0.1 exceeds 1 in truth only
    assert Sum((0, 0.3, 1)).value((0.1, 0.2)) == 1
    assert sum([0.1] * 10) < 1
    assert Sum((0, 1, 2)).value((0.1,) * 10) == 2
    assert Sum(range(2**64)).value((2**63, 0.5)) == 2**63 + 1
    assert Sum((0, 1)).value((1e308, 1e308, 1e308)) == 1
    assert Sum((0, 1, 2)).losses((math.inf, 1)).tolist() == [2, 1, 0]


def test_arrays_are_datasets():
    assert Sum(range(9)).value(np.array([1, 2])) == 3
    assert DistinctValues(range(9)).value(np.array([1.0, 1.0, 2.0])) == 2


@given(datasets(most=4), st.data())
@settings(max_examples=60, deadline=None)
def test_every_mechanism_serves_every_query(case, data):
    name, x = case
    query, records, _ = CASES[name]
    joined = (*x, data.draw(st.sampled_from(records)))
    for mechanism in (
        ShiftedInverseSensitivity(query, 2.0, beta=0.9),
        LaplaceBinarySearch.calibrated(query, 2.0, beta=0.9),
        GaussianBinarySearch.calibrated(query, 0.5, beta=0.9),
    ):
        law, law_prime = mechanism(x), mechanism(joined)
        for claim in mechanism.claims:
            assert exact.exact_parameter(claim, law, law_prime) <= claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Sum((-1, 0)), "The grid begins at -1"),
        (lambda: DistinctValues((-1, 0)), "The grid begins at -1"),
        (lambda: Sum((0, 1), most=0), "most is 0"),
        (lambda: Sum((0, 1), most=2).value((3,)), "the most that one may hold is 2"),
        (lambda: Sum((0, 1)).value((math.nan,)), "A record holds nan"),
        (lambda: Total((0, 1)).value((3,)), "A record is 3; each record holds a tuple"),
        (lambda: Total((0, 1)).value(("abc",)), "A record is 'abc'; each record holds a tuple"),
        (lambda: Total((0, 9), amount=sum).value(((1, -2),)), "A record holds -1"),
        (lambda: DistinctValues((0, 1)).value((math.nan,)), "A record is NaN"),
        (lambda: KthLargest((0, 1), place=0), "place is 0"),
        (lambda: Maximum((0, 1), place=2), "place is 2"),
        (lambda: KthLargest((0, 1), place=2).value((math.nan,)), "A record is NaN"),
        (lambda: Maximum((0, 1)).down_sensitivity((), k=-1), "k is -1"),
        (lambda: MonotoneHull((0, 1), function=sum, domain=(1, 2)).value((3,)), "A record is 3; it must be one of"),
        (lambda: MonotoneHull((0, 1), function=lambda x: 5, domain=(1,)), "g\\(nobody\\) is 5, above the least"),
        (lambda: MonotoneHull((0, 1), function=lambda x: math.nan, domain=(1,)), "is NaN"),
        (lambda: MonotoneHull((0, 1), function=sum, domain=(0, 1)).value((0, 1) * 300), "has 90601 sub-multisets"),
    ],
)
def test_wrong_data_are_sentences(call, message):
    with pytest.raises(AuditError, match=message):
        call()

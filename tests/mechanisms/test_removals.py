"""Losses by removals and by changes against enumeration: queries, monotone ones, medians, inverse sensitivity."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from epsaudit import AddRemove, AuditError
from epsaudit.mechanisms import exact, selection
from epsaudit.mechanisms.broken.selection import DistanceOfAnswers
from epsaudit.mechanisms.enumerated_losses import EnumeratedLosses, interquartile_range
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses, SlopeLosses
from epsaudit.mechanisms.queries import DistinctValues, KthLargest, Maximum, MonotoneHull, Sum, Total
from epsaudit.mechanisms.queries.enumeration import (
    down_sensitivity,
    down_sensitivity_at_distance,
    removals_until,
)
from epsaudit.mechanisms.selection import ExponentialMechanism


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


@given(datasets())
def test_answers_are_the_function_rounded_up(case):
    name, x = case
    assert CASES[name][0].value(x) == rounded(name, x)
    assert CASES[name][0].value(()) == CASES[name][0].grid[0]


@given(datasets())
def test_both_losses_are_the_fewest_removals(case):
    name, x = case
    query = CASES[name][0]
    answers = {part: rounded(name, part) for part in parts(x)}
    for y, loss, strict in zip(query.outputs, query.losses(x), query.strict_losses(x), strict=True):
        assert loss == fewest_removals(answers.get, x, lambda v, y=y: v <= y)
        assert strict == fewest_removals(answers.get, x, lambda v, y=y: v < y)


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


GRIDS = st.sampled_from([(0, 1, 2, 3, 4), (-1.5, 0.0, 0.25, 7.0), range(5), range(-3, 12, 2), range(2)])


@given(GRIDS, st.integers(0, 9))
def test_a_crowd_has_one_loss_below_the_greatest_output(grid, loss):
    query = Maximum(grid)
    assert query.losses(query.crowd(loss)).tolist() == [loss] * (query.size - 1) + [0]
    assert AddRemove().holds(query.crowd(loss), query.crowd(loss + 1))


@given(GRIDS)
def test_outputs_and_indices_are_inverse(grid):
    query = Maximum(grid)
    indices, inside = query.indices_of(query.outputs)
    assert query.outputs.tolist() == list(grid)
    assert indices.tolist() == list(range(query.size))
    assert inside.all()
    absent = np.array([grid[0] - 1, grid[-1] + 1])
    assert not query.indices_of(absent)[1].any()


@pytest.mark.parametrize("grid", [range(2**64), range(-(2**63), 2**63), range(5, 2**63, 7)])
def test_grids_too_long_to_list(grid):
    query = Maximum(grid)
    ends = np.array([0, query.size - 1], dtype=np.uint64)
    assert query.outputs_at(ends).tolist() == [grid[0], grid[-1]]
    indices, inside = query.indices_of(query.outputs_at(ends))
    assert (indices.tolist(), inside.all()) == (ends.tolist(), True)
    assert query.loss((grid[0], grid[-1]))(ends).tolist() == [1, 0]
    assert query.value((grid[-1],)) == grid[-1]
    with pytest.raises(AuditError, match="can be listed"):
        query.losses(())


SELECTORS = list(selection.SELECTORS.values())
GRID = (0, 1, 2, 5)
MEDIAN, EVEN = (EnumeratedLosses(lambda dataset: sorted(dataset)[(len(dataset) - 1) // 2], GRID, n) for n in (5, 4))


def changes(x, y):
    return (Counter(x) - Counter(y)).total()


@pytest.mark.parametrize("median", [MEDIAN, EVEN], ids=["odd", "even"])
def test_the_median_formula_is_the_distance_by_enumeration(median):
    formula = MedianLosses(GRID)
    for dataset in median.datasets:
        reference = [
            min(changes(dataset, other) for other in median.datasets if median.function(other) == y) for y in GRID
        ]
        assert formula.losses(dataset).tolist() == reference == median.losses(dataset).tolist()
        assert formula.value(dataset) == median.value(dataset)
        for k in range(5):
            assert formula.local_sensitivity(dataset, k) == median.local_sensitivity(dataset, k)


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda selector: selector.name)
def test_every_claim_holds_on_all_neighbours(selector):
    mechanism = InverseSensitivity(1.0, EnumeratedLosses(max, (0, 1, 2), 3), selector)
    worst = dict.fromkeys(mechanism.claims, 0.0)
    for pair in mechanism.query.pairs:
        for claim in mechanism.claims:
            worst[claim] = max(worst[claim], exact.exact_parameter(claim, mechanism(pair.x), mechanism(pair.x_prime)))
    assert all(value <= claim.parameter + 1e-12 for claim, value in worst.items())


def outside(mechanism, dataset, beta):
    """Answers farther from the true one than Theorem 4 allows, as a mask over the candidates."""
    query = mechanism.query
    allowed = query.local_sensitivity(dataset, mechanism.reach(beta))
    return np.abs(np.array(query.candidates) - query.value(dataset)) > allowed


@pytest.mark.parametrize("beta", [0.5, 0.05])
def test_theorem_4_holds_exactly_and_by_coverage(beta):
    """One-sided Clopper-Pearson limits at 1e-6 an assertion: the false-alarm chance; the variant aims one step off."""
    mechanism = InverseSensitivity(2.0, MedianLosses(tuple(range(64))), ExponentialMechanism)
    rng = np.random.default_rng(3)
    for spread in (1.0, 8.0, 30.0):
        dataset = tuple(np.clip(np.rint(rng.normal(32, spread, 201)), 0, 63).astype(int).tolist())
        wrong = outside(mechanism, dataset, beta)
        assert np.exp(mechanism(dataset).log_probabilities)[wrong].sum() <= beta
        draws = mechanism(dataset).sample(20_000, rng)
        failures = int(np.isin(draws, np.array(mechanism.query.candidates)[wrong]).sum())
        assert (betaincinv(failures, 20_001 - failures, 1e-6) if failures else 0.0) <= beta
    variant = mechanism(dataset).sample(20_000, rng) + 40  # an answer far off, which the same test must notice
    allowed = mechanism.query.local_sensitivity(dataset, mechanism.reach(beta))
    failures = int(np.count_nonzero(np.abs(variant - mechanism.query.value(dataset)) > allowed))
    assert betaincinv(failures, max(20_001 - failures, 1e-9), 1e-6) > beta


SLOPES = (0, 1, 3)
QUERY = SlopeLosses(SLOPES, most=2)
POINTS = st.tuples(st.integers(-2, 2), st.integers(-9, 9))


def fit(dataset):
    """Least slope of the least sum of residuals."""
    return min(SLOPES, key=lambda slope: (sum(abs(b - slope * a) for a, b in dataset), slope))


@pytest.mark.parametrize("size", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_losses_are_those_of_enumeration(size):
    """Any record that could help is among these, and others whose leverage is less, none, or the other way round."""
    universe = (*((2, 2 * slope) for slope in SLOPES), (1, 9), (1, -2), (-2, 3), (0, 5))
    enumerated = EnumeratedLosses(fit, universe, size)
    assert enumerated.candidates == SLOPES
    for dataset in enumerated.datasets:
        assert QUERY.value(dataset) == enumerated.value(dataset)
        assert QUERY.losses(dataset).tolist() == enumerated.losses(dataset).tolist()
        for k in range(size + 1):
            assert QUERY.local_sensitivity(dataset, k) == enumerated.local_sensitivity(dataset, k)


@given(st.lists(POINTS, min_size=1, max_size=12), POINTS, st.data())
def test_lemma_1_and_the_fit(records, joining, data):
    place = data.draw(st.integers(0, len(records) - 1))
    other = [*records[:place], joining, *records[place + 1 :]]
    assert np.max(np.abs(QUERY.losses(records) - QUERY.losses(other))) <= 1
    assert QUERY.value(records) == fit(records)
    assert QUERY.losses(records)[SLOPES.index(fit(records))] == 0


@given(st.lists(st.sampled_from(range(8)), min_size=1, max_size=15))
def test_records_of_one_leverage_have_the_losses_of_their_median(records):
    candidates = tuple(range(8))
    slopes = SlopeLosses(candidates, most=5).losses([(5, 5 * record) for record in records])
    assert slopes.tolist() == MedianLosses(candidates).losses(records).tolist()


QUARTILES = EnumeratedLosses(interquartile_range, (0, 1, 2, 4), 4)


def walked(query, dataset):
    """Losses by walking from the dataset to all others, one replaced record at a time: breadth first."""
    found, seen, front = {}, {dataset}, {dataset}
    for steps in itertools.count():
        for one in front:
            found.setdefault(query.function(one), steps)
        around = {
            tuple(sorted((*one[:place], record, *one[place + 1 :])))
            for one in front
            for place in range(len(one))
            for record in query.universe
        }
        front = around - seen
        seen |= front
        if not front:
            return [found[candidate] for candidate in query.candidates]


def test_enumerated_losses_are_those_of_a_walk_and_move_by_one_at_most():
    for dataset in QUARTILES.datasets:
        assert QUARTILES.losses(dataset[::-1]).tolist() == walked(QUARTILES, dataset)
        assert QUARTILES.value(dataset) == interquartile_range(dataset)
        for k in range(QUARTILES.size + 1):
            near = np.array(QUARTILES.candidates)[QUARTILES.losses(dataset) <= k]
            assert QUARTILES.local_sensitivity(dataset, k) == np.abs(near - QUARTILES.value(dataset)).max()
    steps = []
    for query in (QUARTILES, DistanceOfAnswers(interquartile_range, (0, 1, 2, 4), 4)):
        pairs = [(x, y) for x, y in itertools.combinations(query.datasets, 2) if query.adjacency.holds(x, y)]
        steps.append(max(np.abs(query.losses(x) - query.losses(y)).max() for x, y in pairs))
    assert steps == [1, 4]  # the second is the incorrect variant


def test_an_enumerated_function_has_the_law_and_the_claim_of_its_losses_on_all_neighbours():
    mechanism = InverseSensitivity(1.0, QUARTILES)
    pairs = [(x, y) for x, y in itertools.combinations(QUARTILES.datasets, 2) if mechanism.adjacency.holds(x, y)]
    found = [exact.epsilon(mechanism(x), mechanism(y), 0.0) for x, y in pairs]
    (pair,) = mechanism.worst_pairs()
    assert exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 0.0) == pytest.approx(max(found))
    assert 0.6 < max(found) <= 1.0
    law, weights = mechanism(pair.x), np.exp(-0.5 * np.array(walked(QUARTILES, pair.x)))
    assert np.exp(law.log_probabilities) == pytest.approx(weights / weights.sum())


@pytest.mark.parametrize("gap", [1, 2])
def test_the_lead_of_an_enumerated_function_falls_from_the_gap_by_one(gap):
    pair = QUARTILES.lead(gap)
    QUARTILES.adjacency.check(pair)
    others = np.array(QUARTILES.candidates) != QUARTILES.value(pair.x)
    assert [QUARTILES.losses(side)[others].min() for side in (pair.x, pair.x_prime)] == [gap, gap - 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EnumeratedLosses(sum, (1,), 3), "at least two records"),
        (lambda: EnumeratedLosses(sum, (1, 1), 3), "all different"),
        (lambda: EnumeratedLosses(sum, (0, 1), 0), "number of records"),
        (lambda: EnumeratedLosses(sum, tuple(range(20)), 9), "at most 10,000 can be enumerated"),
        (lambda: EnumeratedLosses(len, (0, 1), 2).candidates, "1 different answers"),
        (lambda: EnumeratedLosses(sum, (0, math.inf), 2).candidates, "must be finite"),
        (lambda: QUARTILES.losses((0, 1, 2)), "must have 4 records"),
        (lambda: QUARTILES.losses((0, 1, 2, 3)), "in the universe of 4"),
        (lambda: QUARTILES.value((0, 1, 2, 4, 4)), "must have 4 records"),
        (lambda: QUARTILES.lead(9), "second least loss of 9"),
    ],
)
def test_what_cannot_be_enumerated_is_said(make, said):
    with pytest.raises(AuditError, match=said):
        make()


SUMS = [x for n in range(5) for x in itertools.combinations_with_replacement((-3, 1, 2), n)]


@pytest.mark.parametrize("function", [sum, crooked, lambda x: max(x, default=-4)], ids=["sum", "crooked", "maximum"])
def test_down_sensitivity_is_at_most_k_times_that_at_distance_k_less_one(function):
    """Note 2 of the source, for any function, whether or not records may be added; attained by equal steps."""
    for x, k in itertools.product(SUMS, (1, 2, 3)):
        here = down_sensitivity(function, x, k)
        among_data = down_sensitivity_at_distance(function, x, k - 1)
        assert here <= k * among_data
        if k < 3:
            assert among_data <= down_sensitivity_at_distance(function, x, k - 1, (-3, 1, 2))
    assert down_sensitivity(sum, (1, 1, 1), 3) == 3 * down_sensitivity_at_distance(sum, (1, 1, 1), 2) == 3.0


def test_down_sensitivity_at_distance_by_walking_from_neighbour_to_neighbour():
    """Datasets within k of x by k steps, each of one record more or less; the k-down sensitivity is not that at k."""

    def step(x):
        return {tuple(sorted((*x, record))) for record in (-3, 1, 2)} | {x[:i] + x[i + 1 :] for i in range(len(x))}

    for x in SUMS[:20]:
        near = {x}
        for k in range(3):
            greatest = max(down_sensitivity(crooked, one) for one in near)
            assert down_sensitivity_at_distance(crooked, x, k, (-3, 1, 2)) == greatest
            near |= set().union(*map(step, near))
    assert down_sensitivity(sum, (1, 1, 1), 2) == 2.0
    assert down_sensitivity_at_distance(sum, (1, 1, 1), 2) == 1.0


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_one_record_changes_the_down_sensitivity_of_a_sum_that_is_not_monotone_from_k_to_100_n(n):
    """The source's example, and that of its draft with -n, for which it is n. The loss moves by n, not by 1."""
    ones = (1,) * n
    for k in range(1, n + 1):
        assert down_sensitivity(sum, ones, k) == k
        assert down_sensitivity(sum, (*ones, -100 * n), k) == 100 * n
        assert down_sensitivity(sum, (*ones, -n), k) == n
    assert [removals_until(sum, ones, y) for y in range(n + 1)] == [n - y for y in range(n + 1)]
    assert [removals_until(sum, (*ones, -100 * n), y) for y in range(n + 1)] == [0] * (n + 1)
    assert removals_until(sum, (2, 3), -1) is None


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 6))
def test_monotone_queries_have_the_losses_and_sensitivities_of_enumeration(records, k):
    query = Maximum(tuple(range(6)))
    largest = lambda x: max(x, default=0)  # noqa: E731  # shorter than a function
    assert query.losses(records).tolist() == [removals_until(largest, records, y) for y in range(6)]
    assert query.down_sensitivity(records, k) == down_sensitivity(largest, records, k)

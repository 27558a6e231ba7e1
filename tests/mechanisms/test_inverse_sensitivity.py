"""Inverse sensitivity against enumeration: losses, Lemma 1, every selector's claims on all neighbours, Theorem 4."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from enumerated import EnumeratedLosses
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv

from epsaudit import AddRemove, Substitution
from epsaudit.mechanisms import exact, selection
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from epsaudit.mechanisms.selection import ExponentialMechanism
from epsaudit.mechanisms.stability import StableMedian, smooth_sensitivity

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


def test_losses_under_add_remove_count_additions_and_removals():
    total = EnumeratedLosses(sum, (1, 3), 4, AddRemove())
    assert total.candidates[:5] == (0, 1, 2, 3, 4)
    assert total.losses((1, 1))[:5].tolist() == [2, 1, 0, 1, 2]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=15), st.data())
def test_lemma_1_for_the_median(records, data):
    place, record = data.draw(st.integers(0, len(records) - 1)), data.draw(st.integers(0, 9))
    neighbour = [*records[:place], record, *records[place + 1 :]]
    losses = MedianLosses(tuple(range(10)))
    assert np.max(np.abs(losses.losses(records) - losses.losses(neighbour))) <= 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([AddRemove(), Substitution()]))
def test_lemma_1_for_random_functions(seed, relation):
    values = np.random.default_rng(seed)
    table = {}
    losses = EnumeratedLosses(
        lambda d: table.setdefault(tuple(sorted(d)), int(values.integers(0, 5))), (0, 1, 2), 3, relation
    )
    for x, x_prime in itertools.combinations(losses.datasets, 2):
        if relation.holds(x, x_prime):
            assert np.max(np.abs(losses.losses(x) - losses.losses(x_prime))) <= 1


def test_the_median_at_distance_k():
    """Propose-test-release and smooth sensitivity are both made of the local sensitivity at distance k."""
    median = StableMedian(0.0, 5.0)
    for x in MEDIAN.datasets[::5]:
        at = [MEDIAN.at_distance(x, k) for k in range(6)]
        assert smooth_sensitivity(median, x, 0.3) == pytest.approx(max(math.exp(-0.3 * k) * at[k] for k in range(6)))
        for bound in (0.5, 1.0, 2.5, 4.0):
            assert median.distance(x, bound) == min(k for k in range(6) if at[k] > bound)


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

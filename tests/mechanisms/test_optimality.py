"""Inverse and shifted inverse sensitivity beside the best mechanisms, which are solutions of linear programs.

Theorems 12 and 13 of docs/explanation/mechanisms.md bound every mechanism with pure DP. A mechanism on a few datasets
is a table of probabilities. Its privacy and its accuracy are linear in them, so that the best one can be computed.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from epsaudit.data.neighbours import AddRemove
from epsaudit.mechanisms.down_sensitivity import ShiftedInverseSensitivity
from epsaudit.mechanisms.enumerated_losses import EnumeratedLosses, interquartile_range
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from epsaudit.mechanisms.queries import Maximum, Sum
from epsaudit.mechanisms.queries.enumeration import sub_multisets


class Tables:
    """Linear programs over all tables of probabilities of mechanisms with epsilon-DP, and one number more, beta."""

    def __init__(self, datasets, outputs, neighbours, epsilon):
        self.place = {(x, y): i for i, (x, y) in enumerate(itertools.product(datasets, outputs))}
        self.datasets, self.outputs, self.size = datasets, outputs, len(datasets) * len(outputs) + 1
        self.rows, self.most = [], []
        for x, x_prime in neighbours:
            for y in outputs:
                for a, b in ((x, x_prime), (x_prime, x)):
                    self.at_most({(a, y): 1.0, (b, y): -math.exp(epsilon)}, 0.0)

    def row(self, weights):
        row = np.zeros(self.size)
        for cell, weight in weights.items():
            row[self.place[cell] if cell != "beta" else -1] = weight
        return row

    def at_most(self, weights, most):
        """Require the weighted sum of some probabilities, and of "beta", to be at most ``most``."""
        self.rows.append(self.row(weights))
        self.most.append(most)

    def least(self, weights):
        """Return the least weighted sum over all such tables."""
        sums = [self.row({(x, y): 1.0 for y in self.outputs}) for x in self.datasets]
        found = linprog(self.row(weights), self.rows, self.most, sums, [1.0] * len(sums), bounds=(0.0, 1.0))
        assert found.status == 0, found.message
        return found.fun


QUERIES = {
    "median": MedianLosses((0, 1, 3)),
    "quartiles": EnumeratedLosses(interquartile_range, (0, 1, 3), 4),
}


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("name", QUERIES)
def test_no_unbiased_mechanism_is_right_more_often_than_inverse_sensitivity_on_any_dataset(name, epsilon):
    """Theorem 12. The incorrect variants leave out the factor 4 of epsilon, or that mechanisms are to be unbiased."""
    query, size = QUERIES[name], 3 if name == "median" else 4
    datasets = list(itertools.combinations_with_replacement((0, 1, 3), size))
    neighbours = [pair for pair in itertools.combinations(datasets, 2) if query.adjacency.holds(*pair)]
    private, unbiased = (Tables(datasets, query.candidates, neighbours, epsilon) for _ in "ab")
    for x, y in unbiased.place:
        if y != query.value(x):
            unbiased.at_most({(x, y): 1.0, (x, query.value(x)): -1.0}, 0.0)
    four_times, once = (InverseSensitivity(factor * epsilon, query) for factor in (4.0, 1.0))
    exceeded = []
    for x in datasets:
        truth = query.candidates.index(query.value(x))
        best, biased = (-tables.least({(x, query.value(x)): -1.0}) for tables in (unbiased, private))
        bound = 1.0 / np.exp(-2.0 * epsilon * query.losses(x)).sum()
        law = np.exp(four_times(x).log_probabilities)
        assert best <= bound * (1 + 1e-7)
        assert law[truth] == pytest.approx(bound)
        assert law.argmax() == truth  # it is unbiased itself
        assert biased == pytest.approx(1.0)
        exceeded.append(best > np.exp(once(x).log_probabilities)[truth] * (1 + 1e-6))
    assert any(exceeded)


@pytest.mark.parametrize(
    ("x", "query"), [((2, 4), Maximum(range(6))), ((1, 1, 3, 5), Maximum(range(6))), ((1, 2, 2), Sum(range(6)))]
)
@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 1), (0.5, 2), (1.5, 1)])
def test_every_mechanism_errs_by_half_the_down_sensitivity_where_records_are_removed(x, query, epsilon, k):
    """Theorem 13: beta is at least 1 / (1 + e^(k epsilon)), attained for a maximum and one removal."""
    datasets = sorted(sub_multisets(x, k))
    neighbours = [pair for pair in itertools.combinations(datasets, 2) if AddRemove().holds(*pair)]
    outputs, half = query.outputs.tolist(), query.down_sensitivity(x, k) / 2.0
    tables = Tables(datasets, outputs, neighbours, epsilon)
    for part in datasets:
        wrong = {(part, y): 1.0 for y in outputs if abs(y - query.value(part)) >= half}
        tables.at_most({**wrong, "beta": -1.0}, 0.0)
    best, bound = tables.least({"beta": 1.0}), 1.0 / (1.0 + math.exp(k * epsilon))
    assert best >= bound * (1 - 1e-7)
    if k == 1 and isinstance(query, Maximum):
        assert best == pytest.approx(bound)
        assert best < 0.5  # the incorrect variant of the bound, that of a coin, is beaten


@pytest.mark.parametrize("query", [Maximum(range(6)), Sum(range(6))], ids=["maximum", "sum"])
def test_shifted_inverse_errs_by_the_down_sensitivity_of_more_removals_at_most(query):
    """Theorem 13, second half, by exact laws: on x and on all datasets that k removals leave of it."""
    mechanism, rng, k = ShiftedInverseSensitivity(query, 3.0, beta=0.2), np.random.default_rng(2), 2
    outputs = query.outputs
    for _ in range(10):
        x = tuple(sorted(rng.integers(0, 6, 9).tolist()))
        most = query.down_sensitivity(x, 2 * mechanism.tau + k)
        for part in sub_multisets(x, k):
            chances, truth = np.exp(mechanism(part).log_probabilities), query.value(part)
            assert chances[(outputs > truth) | (outputs < truth - most)].sum() <= mechanism.beta
            assert query.down_sensitivity(part, 2 * mechanism.tau) <= most

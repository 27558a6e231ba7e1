"""Shifted inverse sensitivity and noisy search: laws against the source's own pseudocode, claims, and accuracy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import PublishedBinarySearch
from epsaudit.mechanisms.down_sensitivity import GaussianBinarySearch, LaplaceBinarySearch, ShiftedInverseSensitivity
from epsaudit.mechanisms.laws import FiniteLaw
from epsaudit.mechanisms.queries import Maximum

SEARCHES = [LaplaceBinarySearch, GaussianBinarySearch, PublishedBinarySearch]
DATA = st.lists(st.integers(0, 20), max_size=12).map(tuple)


def tree(mechanism, dataset):
    """Probability of every output and the depth of the search, following the source's pseudocode line by line."""
    query, noise = mechanism.query, mechanism.noise
    losses, chances, deepest = query.losses(dataset), np.zeros(query.size), 0
    first = -1 if type(mechanism) is not PublishedBinarySearch else 0
    stack = [(first, query.size - 1, 1.0, 0)]
    while stack:
        i_min, i_max, chance, depth = stack.pop()
        if not i_min + 1 < i_max:
            chances[i_max] += chance
            deepest = max(deepest, depth)
            continue
        k = (i_min + i_max) // 2
        left = math.exp(noise.log_cdf(mechanism.tau - losses[k]))
        stack += [(i_min, k, chance * left, depth + 1), (k, i_max, chance * (1.0 - left), depth + 1)]
    return chances, deepest


@pytest.mark.parametrize("search", SEARCHES)
@given(size=st.integers(2, 40), dataset=DATA)
@settings(max_examples=40)
def test_a_search_has_the_law_and_the_depth_of_the_pseudocode(search, size, dataset):
    mechanism = search.calibrated(Maximum(range(size)), 1.0, beta=0.5)
    chances, deepest = tree(mechanism, dataset)
    assert np.exp(mechanism(dataset).log_density(mechanism.query.outputs)) == pytest.approx(chances, abs=1e-12)
    assert mechanism.steps == deepest


@pytest.mark.parametrize(
    "mechanism",
    [
        ShiftedInverseSensitivity(Maximum((0, 1, 2)), 1.0, beta=0.5),
        LaplaceBinarySearch.calibrated(Maximum((0, 1, 2)), 1.0, beta=0.5),
        GaussianBinarySearch.calibrated(Maximum((0, 1, 2)), 0.5, beta=0.5),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_all_small_neighbours_respect_every_claim(mechanism):
    for n in range(5):
        for dataset in itertools.combinations_with_replacement((0, 1, 2), n):
            for record in (0, 1, 2):
                law, law_prime = mechanism(dataset), mechanism((*dataset, record))
                for claim in mechanism.claims:
                    assert exact.exact_parameter(claim, law, law_prime) <= claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize(
    "calibrated",
    [ShiftedInverseSensitivity, LaplaceBinarySearch.calibrated_to_rho, *[search.calibrated for search in SEARCHES[:2]]],
)
@given(dataset=DATA, beta=st.floats(0.01, 0.5), size=st.integers(2, 25))
@settings(max_examples=40)
def test_accuracy(calibrated, dataset, beta, size):
    """f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability 1 - beta: source 000, Theorems 4 and 5."""
    query = Maximum(tuple(range(size)))
    mechanism = calibrated(query, 2.0, beta)
    removed = min(len(dataset), math.floor(2 * mechanism.tau))
    least = query.value(sorted(dataset)[: len(dataset) - removed])
    chances = np.exp(mechanism(dataset).log_density(query.outputs))
    accurate = (query.outputs >= least) & (query.outputs <= query.value(dataset))
    assert chances[accurate].sum() >= 1.0 - beta - 1e-12


def test_shifted_inverse_sensitivity_follows_its_formula():
    # l and lbar written out by hand for the data 1, 1, 2 on the grid 0, 1, 2
    mechanism = ShiftedInverseSensitivity(Maximum((0, 1, 2)), 2.0, beta=0.9)
    losses, strict, tau = [3, 1, 0], [math.inf, 3, 1], math.ceil(math.log(3 / 0.9))
    weights = [-max(a - tau, tau - b) for a, b in zip(losses, strict, strict=True)]
    law = mechanism((1, 1, 2))
    assert law.log_probabilities == pytest.approx(FiniteLaw((0, 1, 2), weights).log_probabilities)

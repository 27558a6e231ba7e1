"""The corpus of upper bounds is right: no exact loss is too small, and that of a discrete law is not too large.

Each mechanism runs 10,000 times on each dataset. A test raises a false alarm with probability at most 2e-5.
"""

import inspect
import itertools
import math
import pickle
import random
import secrets

import numpy as np
import pytest
from simple_events import certified_loss, flatten, greatest_loss
from upper_bound_cases import CASES, CHEATS
from upper_bound_laws import (
    approximate_loss,
    binomial_law,
    exponential_below,
    exponential_density,
    integral,
    median_density,
    permute_and_flip_law,
    pure_loss,
    refreshed_sparse_vector_law,
    softmax_law,
    sparse_vector_law,
    winner_law,
)

from epsaudit import PureDP

RUNS, FALSE_ALARM = 10_000, 1e-5
INVISIBLE = {
    "mean with private scale", "binomial noise, pure claim", "Poisson noise", "number of draws by the data",
    "draws counted until a sum", "draw times data", "recursion without end",  # the loss is large only in rare events
    "leak in one run of 1,000", "every hundredth run exact", "propose-test-release, low threshold",
    "stable histogram, low threshold",  # the leak itself is rare
    "adaptive scale, overspent", "odometer that forgets", "scale drawn and released", "sparse vector 3",
    "sparse vector 4", "sparse vector 6", "sparse vector, exact threshold",  # several numbers or rare answers count
    "rejection by the output",  # only the smallest outputs have a large loss
}  # fmt: skip
"""Incorrect mechanisms that no simple event refutes by 10,000 runs."""


def outputs(case):
    """Return the outputs of runs on x and on x', with all sources of randomness seeded."""
    rng = np.random.default_rng(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002  # one case uses the global generator
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "randbelow", lambda n: int(rng.integers(n)))
        with_seed = "seed" in inspect.signature(case.function).parameters

        def source():
            return int(rng.integers(2**32)) if with_seed else rng

        return tuple([case.function(data, source()) for _ in range(RUNS)] for data in (case.x, case.x_prime))


def is_discrete(output):
    return not flatten(output)[1]


def parameters():
    """Mark three of four cases as slow. The weekly tests run all cases."""
    for number, case in enumerate(CASES + CHEATS):
        yield pytest.param(case, id=case.name, marks=pytest.mark.slow if number % 4 else ())


@pytest.mark.parametrize("case", [*parameters()])
def test_no_exact_loss_is_too_small_and_no_discrete_one_too_large(case):
    both = outputs(case)
    lower = certified_loss(case.claim, *both, FALSE_ALARM)
    assert lower <= case.exact + 1e-9
    if case.is_incorrect and case.name not in INVISIBLE:
        assert lower > case.claim.parameter
    if (
        isinstance(case.claim, PureDP)
        and math.isfinite(case.exact)
        and all(is_discrete(one) for side in both for one in side[:100])
    ):
        assert greatest_loss(*both, FALSE_ALARM) >= case.exact - 1e-9


def test_a_loss_that_is_wrong_by_half_would_be_noticed():
    names = ("count", "Gaussian count", "count, Renyi", "RAPPOR", "noisy max", "shuffled responses")
    for case in (one for one in CASES if one.name in names):
        assert certified_loss(case.claim, *outputs(case), FALSE_ALARM) > 0.5 * case.exact
    names = ("count exceeds 4", "noisy max", "randomised response", "RAPPOR", "shuffled responses")
    for case in (one for one in CASES if one.name in names):
        assert greatest_loss(*outputs(case), FALSE_ALARM) < 2.0 * case.exact


def test_the_corpus_is_large_and_its_functions_can_be_imported():
    both = CASES + CHEATS
    assert len(CASES) >= 60
    assert len(CHEATS) >= 20
    assert sum(case.is_incorrect for case in CASES) >= 10
    assert len({case.name for case in both}) == len(both)
    assert {case.name for case in both if case.is_incorrect} > INVISIBLE
    assert all(pickle.loads(pickle.dumps(case.function)) is case.function for case in both)
    assert all(case.note and case.exact >= 0.0 for case in both)


def assert_equal_laws(law, other):
    assert law.keys() == other.keys()
    assert list(law.values()) == pytest.approx([other[one] for one in law], abs=1e-12)


SCORES = ([1, 1, 1, 1], [0, 2, 2, 2], [3, 0, 1, 1])


@pytest.mark.parametrize("scores", SCORES, ids=str)
def test_permute_and_flip_is_noisy_max_with_exponential_noise(scores):
    noisy = winner_law(scores, 2.0, exponential_density, exponential_below)
    assert_equal_laws(permute_and_flip_law(scores, 2.0), noisy)


@pytest.mark.parametrize("scores", SCORES, ids=str)
def test_the_exponential_mechanism_is_noisy_max_with_gumbel_noise(scores):
    def below(z):
        return np.exp(-np.exp(-np.maximum(z, -30.0)))

    def density(z):
        return below(z) * np.exp(-np.maximum(z, -30.0))

    assert_equal_laws(softmax_law(scores, 2.0), winner_law(scores, 2.0, density, below))


@pytest.mark.parametrize("stop", [1, 2, None])
def test_laws_of_sparse_vectors_and_densities_are_normalised(stop):
    queries = [0, 1, 1, 0]
    assert sum(sparse_vector_law(queries, 1.0, 2.0, 4.0, stop).values()) == pytest.approx(1.0, abs=1e-12)
    assert sum(refreshed_sparse_vector_law(queries, 1.0, 2.0, 4.0, 2).values()) == pytest.approx(1.0, abs=1e-12)
    assert sum(winner_law(queries, 2.0).values()) == pytest.approx(1.0, abs=1e-12)
    assert integral(median_density([0, 1, 2]), [0.0, 1.0, 2.0]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
def test_the_approximate_loss_is_the_largest_over_all_events(delta):
    law, law_prime = binomial_law(5, 0.4), binomial_law(5, 0.6)
    events = itertools.chain.from_iterable(itertools.combinations(law, size) for size in range(1, 7))
    sums = [(sum(law[one] for one in event), sum(law_prime[one] for one in event)) for event in events]
    worst = max(math.log((p - delta) / q) for a, b in sums for p, q in ((a, b), (b, a)) if p > delta)
    assert approximate_loss(law, law_prime, delta) == pytest.approx(worst, abs=1e-12)
    assert approximate_loss(law, law_prime, 0.0) == pytest.approx(pure_loss(law, law_prime))

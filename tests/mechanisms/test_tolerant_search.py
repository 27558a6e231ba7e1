"""The search that tolerates noise: its law, its claims, the constants of its proof, and its accuracy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv

from epsaudit import AuditError
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import TolerantSearchCountedOnce
from epsaudit.mechanisms.down_sensitivity import TolerantSearch, best_assumed_error, needed_rounds
from epsaudit.mechanisms.queries import Maximum, Sum
from epsaudit.mechanisms.search import ListedTolerantLaw, _Beliefs

THREE = Maximum((0, 1, 2))
ERRORS = st.floats(0.001, 0.45)


@pytest.mark.parametrize(("grid", "rounds"), [((0, 1, 2), 9), ((0, 1, 2), 2), ((0, 1), 8)])
def test_draws_follow_the_enumerated_law_and_not_its_variant(grid, rounds, fit):
    # p-values below 1e-6 fail: the false-alarm chance. Fewer rounds than outputs split pieces, more list them
    def law(sigma):
        return TolerantSearch(Maximum(grid), sigma, 2.5, rounds, 0.3)((1, 1, 2))

    draws = law(2.0).sample(200_000, np.random.default_rng(5))
    assert isinstance(law(2.0), ListedTolerantLaw)
    assert fit(law(2.0), draws) > 1e-6
    assert fit(law(2.3), draws) < 1e-6


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.integers(2, 40))
def test_pieces_and_lists_of_beliefs_agree(rounds, size):
    pieces, listed = _Beliefs.uniform(1, size), _Beliefs.listed(1, size)
    for earlier, left in rounds:
        median, below, at = listed.median()
        assert pieces.median()[0] == median
        assert np.allclose(pieces.median()[1:], (below, at))
        place = median - np.uint64(earlier and median[0] > 0)
        informative = place < size - 1
        for beliefs in (pieces, listed):
            beliefs.update(np.where(informative, place, 0), np.array([left]), informative, 0.3)


@given(st.lists(st.sampled_from((0, 1, 2)), max_size=8).map(tuple), st.sampled_from((0, 1, 2)))
@settings(max_examples=25, deadline=None)
def test_neighbours_respect_every_claim(dataset, joining):
    mechanism = TolerantSearch(THREE, 2.0, 2.0, 9, 0.35)
    law, law_prime = mechanism(dataset), mechanism((*dataset, joining))
    for claim in mechanism.claims:
        assert exact.exact_parameter(claim, law, law_prime) <= claim.parameter * (1 + 1e-9)


def test_the_variant_that_counts_once_breaks_both_claims():
    variant = TolerantSearchCountedOnce.calibrated(THREE, 0.5, beta=0.5, error=0.02)
    (pair,) = variant.worst_pairs()
    for claim in variant.claims:
        assert exact.exact_parameter(claim, variant(pair.x), variant(pair.x_prime)) > 1.5 * claim.parameter


@given(ERRORS)
def test_the_best_assumed_error_needs_the_fewest_rounds(p):
    def rate(q):
        a, b = ((1 - p) / (1 - q) + p / q) / 2, 1 / (4 * q * (1 - q))
        return -math.log(a * b)

    q = best_assumed_error(p)
    assert p < q < 0.5
    assert rate(q) > 0
    assert rate(q) >= max(rate(other) for other in np.linspace(0.01, 0.499, 300)) - 1e-12
    assert needed_rounds(math.log(100), 0.1, p) == math.ceil(2 * math.log(1000) / rate(q))


@given(ERRORS, st.floats(0.05, 0.45), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_one_round_of_the_proof(e, q, below, median, right):
    """The mean growth of 1 / w_t over the place and the answer, by Bayes' rule, is the factor of the proof."""
    below, upto = 0.5 * below, 0.5 + 0.5 * median
    share = (upto - 0.5) / (upto - below) if upto > below else 0.0
    e, growth = min(e, q), 0.0
    for place, chance in ((below, share), (upto, 1 - share)):
        own = 1 - place if right else place  # belief on the side that t is on
        total_for, total_against = own * (1 - q) + (1 - own) * q, own * q + (1 - own) * (1 - q)
        growth += chance * ((1 - e) * total_for / (1 - q) + e * total_against / q)
    assert growth == pytest.approx(((1 - e) / (1 - q) + e / q) / 2)


@pytest.mark.parametrize("dataset", [(), (0,) * 60, (1,) * 60, (2,) * 60, (0, 1, 2) * 20, (0,) * 60 + (2,)])
def test_exact_accuracy_on_three_outputs(dataset):
    mechanism = TolerantSearch.calibrated(THREE, 1.0, beta=0.5, error=0.05)
    law, answer = mechanism(dataset), THREE.value(dataset)
    least = answer - THREE.down_sensitivity(dataset, int(2 * mechanism.tau))
    inside = [least <= output <= answer for output in law.support]
    assert np.exp(law.log_probabilities)[inside].sum() >= 0.5


@pytest.mark.parametrize("query", [Maximum(range(2**64)), Sum(range(2**20))], ids=["2^64", "2^20"])
@pytest.mark.parametrize("records", [0, 300])
def test_accuracy_on_a_long_grid(query, records):
    # at a true coverage of 0.9 the upper limit falls below it with probability 1e-6 at most: the false-alarm chance
    mechanism = TolerantSearch.calibrated(query, 2.0, beta=0.1, error=0.02)
    rng = np.random.default_rng(11)
    dataset = tuple(int(v) for v in rng.integers(0, 2**12, records))
    answer, runs = query.value(dataset), 40
    least = answer - query.down_sensitivity(dataset, int(2 * mechanism.tau))
    draws = mechanism(dataset).sample(runs, rng).tolist()
    inside = sum(least <= draw <= answer for draw in draws)
    assert inside == runs or betaincinv(inside + 1, runs - inside, 1 - 1e-6) >= 0.9
    # the incorrect variant answers one place too far up, and is caught where records are few and f(x) certain
    if records == 0:
        assert not any(least <= draw + 1 <= answer for draw in draws)


def test_wrong_parameters_are_sentences():
    with pytest.raises(AuditError, match="error is"):
        TolerantSearch.calibrated(THREE, 1.0, error=0.5)
    with pytest.raises(AuditError, match="assumed_error is"):
        TolerantSearch(THREE, 1.0, 1.0, 5, 0.5)
    with pytest.raises(AuditError, match="rounds is 0"):
        TolerantSearch(THREE, 1.0, 1.0, 0, 0.3)

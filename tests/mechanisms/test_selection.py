"""Selection: exact laws against enumeration and against other algorithms for the same law, claims on all small data."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.selection import (
    Approvals,
    GapMaxAtTheGap,
    NoisyMaxAsBoundedRange,
    NoisyMaxExponentialAsBoundedRange,
)
from epsaudit.mechanisms.queries import MonotoneVoteCounts, VoteCounts
from epsaudit.mechanisms.selection import (
    ExponentialMechanism,
    GapMax,
    MonotoneExponentialMechanism,
    NoisyMaxExponential,
    NoisyMaxGumbel,
    NoisyMaxLaplace,
    PermuteAndFlip,
    PermuteAndFlipLaw,
    laplace_winner,
    log_choice,
)

CANDIDATES = ("red", "green", "blue")


def gain(mechanism, gap):
    """Log-factor by which the runner-up's probability grows from the first dataset of a lead to the second."""
    pair = mechanism.utilities.lead(gap)
    return (mechanism(pair.x_prime).log_probabilities - mechanism(pair.x).log_probabilities)[1]


def test_exponential_facts():
    # golden values at epsilon = 1 with two candidates
    assert gain(ExponentialMechanism(1.0), 0) == pytest.approx(0.380, abs=5e-4)
    assert gain(ExponentialMechanism(1.0), 20) == pytest.approx(0.9999, abs=5e-5)
    # 0.380 is what the gaining candidate sees; the one that loses the tie sees more
    tie = ExponentialMechanism(1.0), VoteCounts().lead(0)
    assert exact.epsilon(tie[0](tie[1].x), tie[0](tie[1].x_prime), 0.0) == pytest.approx(0.620, abs=5e-4)
    # the weight of the catalogue with monotone utilities, exp(u / 2): half the loss
    assert gain(MonotoneExponentialMechanism(0.5), 20) == pytest.approx(0.5, abs=5e-5)


@pytest.mark.parametrize("gap", range(2, 12))
def test_permute_and_flip_attains_its_claim_from_a_lead_of_two(gap):
    assert gain(PermuteAndFlip(1.0), gap) == pytest.approx(1.0, rel=1e-12)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5))
def test_permute_and_flip_by_enumerating_orders_and_flips(others):
    acceptance = np.array([1.0, *others])
    chances = np.zeros(len(acceptance))
    orders = list(itertools.permutations(range(len(acceptance))))
    for order in orders:
        still = 1.0
        for candidate in order:
            chances[candidate] += still * acceptance[candidate] / len(orders)
            still *= 1.0 - acceptance[candidate]
    with np.errstate(divide="ignore"):
        assert np.exp(log_choice(np.log(acceptance))) == pytest.approx(chances, abs=1e-12)


def test_permute_and_flip_is_noisy_max_with_exponential_noise(fit):
    # Ding et al. 2021; the noise has scale 2 / epsilon. p-values below 1e-6 fail: the false-alarm chance
    rng = np.random.default_rng(5)
    utilities = np.array([5.0, 4.0, 3.5, 0.0, 5.0])
    winners = np.argmax(utilities + rng.exponential(2.0, (200_000, 5)), axis=1)
    law = PermuteAndFlipLaw(tuple(range(5)), (utilities - 5.0) / 2.0)
    assert fit(law, winners) > 1e-6
    draws = law.sample(200_000, rng)
    assert fit(law, draws) > 1e-6
    variant = PermuteAndFlipLaw(tuple(range(5)), (utilities - 5.0) / 1.9)
    assert fit(variant, winners) < 1e-6
    assert fit(variant, draws) < 1e-6


def test_many_candidates_keep_their_digits():
    log_p = log_choice(np.concatenate([[0.0], np.full(199, -40.0)]))
    assert logsumexp(log_p) == pytest.approx(0.0, abs=1e-12)
    assert log_p[1] == pytest.approx(-40.0 - math.log(2.0), abs=1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [
        ExponentialMechanism(1.0, VoteCounts(CANDIDATES)),
        PermuteAndFlip(1.0, VoteCounts(CANDIDATES)),
        MonotoneExponentialMechanism(1.0, MonotoneVoteCounts(CANDIDATES)),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_all_neighbours_among_small_elections_respect_every_claim(mechanism):
    elections = [e for n in range(6) for e in itertools.combinations_with_replacement(CANDIDATES, n)]
    pairs = [pair for pair in itertools.combinations(elections, 2) if mechanism.adjacency.holds(*pair)]
    assert len(pairs) > 50
    p, q = (np.array([mechanism(pair[side]).log_probabilities for pair in pairs]) for side in (0, 1))
    pure, concentrated = mechanism.claims
    assert np.max(np.abs(p - q)) <= pure.epsilon + 1e-12
    for order in (1.01, 1.5, 2.0, 4.0, 32.0):
        for a, b in ((p, q), (q, p)):
            divergence = np.max(logsumexp(order * a + (1.0 - order) * b, axis=1)) / (order - 1.0)
            assert divergence <= concentrated.rho * order + 1e-12


CANDIDATES_MAX = ("red", "blue", "green")


def test_laplace_winner_against_quadrature():
    scores = np.array([2.0, 0.5, 0.0, -6.0])

    def density(t, i):
        below = [0.5 * math.exp(t - s) if t < s else 1 - 0.5 * math.exp(s - t) for s in np.delete(scores, i)]
        return 0.5 * math.exp(-abs(t - scores[i])) * math.prod(below)

    edges = [-45.0, *sorted(scores), 45.0]
    reference = [
        sum(quad(density, a, b, args=(i,), epsabs=1e-14)[0] for a, b in itertools.pairwise(edges)) for i in range(4)
    ]
    assert np.exp(laplace_winner(scores)) == pytest.approx(reference, abs=1e-11)


def test_exponential_and_gumbel_noise_are_permute_and_flip_and_the_exponential_mechanism():
    votes = ("red",) * 3 + ("blue",) * 2
    for noisy, plain in ((NoisyMaxExponential, PermuteAndFlip), (NoisyMaxGumbel, ExponentialMechanism)):
        laws = [kind(1.0, VoteCounts(CANDIDATES_MAX))(votes).log_probabilities for kind in (noisy, plain)]
        assert laws[0] == pytest.approx(laws[1], abs=1e-12)


@pytest.mark.parametrize("kind", [NoisyMaxLaplace, NoisyMaxExponential, NoisyMaxGumbel])
def test_claims_hold_on_all_small_elections(kind):
    mechanism = kind(1.0, Approvals(CANDIDATES_MAX))
    ballots = [b for n in range(4) for b in itertools.combinations(CANDIDATES_MAX, n)]
    for others in itertools.combinations_with_replacement(ballots[:5], 2):
        for a, b in itertools.combinations(ballots, 2):
            laws = mechanism((*others, a)), mechanism((*others, b))
            assert np.max(np.abs(laws[0].log_probabilities - laws[1].log_probabilities)) <= 1.0 + 1e-12
    pair = mechanism.utilities.lead(2)
    for claim in mechanism.claims:
        assert exact.exact_parameter(claim, mechanism(pair.x), mechanism(pair.x_prime)) <= claim.parameter + 1e-12


@pytest.mark.parametrize("variant", [NoisyMaxAsBoundedRange(1.0), NoisyMaxExponentialAsBoundedRange(1.0)])
def test_bounded_range_is_not_theirs(variant):
    pair = variant.worst_pairs()[0]
    assert exact.exact_parameter(variant.claim, variant(pair.x), variant(pair.x_prime)) > 1.19 * variant.claim.rho


@pytest.mark.parametrize(
    ("utilities", "s"), [(MonotoneVoteCounts(CANDIDATES_MAX), 1.0), (VoteCounts(CANDIDATES_MAX), 2.0)]
)
def test_gap_max_holds_on_all_small_elections_and_its_variant_does_not(utilities, s):
    elections = [e for n in range(7) for e in itertools.combinations_with_replacement(CANDIDATES_MAX, n)]
    pairs = [pair for pair in itertools.combinations(elections, 2) if utilities.adjacency.holds(*pair)]
    worst = {}
    for kind in (GapMax, GapMaxAtTheGap):
        mechanism = kind(1.0, utilities, 0.01, s)
        laws = {election: mechanism(election) for election in elections}
        worst[kind] = max(exact.delta(laws[x], laws[x_prime], 1.0) for x, x_prime in pairs)
    assert worst[GapMax] <= 0.01 + 1e-12
    assert worst[GapMaxAtTheGap] > 0.01 * math.exp(0.49)

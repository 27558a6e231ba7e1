"""Report noisy max and gap-max: laws against closed forms, quadrature and draws; claims on all small elections."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

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
    NoisyMaxExponential,
    NoisyMaxGumbel,
    NoisyMaxLaplace,
    PermuteAndFlip,
    laplace_winner,
)

CANDIDATES = ("red", "blue", "green")


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
        laws = [kind(1.0, VoteCounts(CANDIDATES))(votes).log_probabilities for kind in (noisy, plain)]
        assert laws[0] == pytest.approx(laws[1], abs=1e-12)


@pytest.mark.parametrize("kind", [NoisyMaxLaplace, NoisyMaxExponential, NoisyMaxGumbel])
def test_claims_hold_on_all_small_elections(kind):
    mechanism = kind(1.0, Approvals(CANDIDATES))
    ballots = [b for n in range(4) for b in itertools.combinations(CANDIDATES, n)]
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


@pytest.mark.parametrize(("utilities", "s"), [(MonotoneVoteCounts(CANDIDATES), 1.0), (VoteCounts(CANDIDATES), 2.0)])
def test_gap_max_holds_on_all_small_elections_and_its_variant_does_not(utilities, s):
    elections = [e for n in range(7) for e in itertools.combinations_with_replacement(CANDIDATES, n)]
    pairs = [pair for pair in itertools.combinations(elections, 2) if utilities.adjacency.holds(*pair)]
    worst = {}
    for kind in (GapMax, GapMaxAtTheGap):
        mechanism = kind(1.0, utilities, 0.01, s)
        laws = {election: mechanism(election) for election in elections}
        worst[kind] = max(exact.delta(laws[x], laws[x_prime], 1.0) for x, x_prime in pairs)
    assert worst[GapMax] <= 0.01 + 1e-12
    assert worst[GapMaxAtTheGap] > 0.01 * math.exp(0.49)

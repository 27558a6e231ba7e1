"""Private ratios: densities against quadrature, mixtures against their sums, bounds against enumeration, variants."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.local_sensitivity import PublishedBoundedRatio
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw
from epsaudit.mechanisms.ratio import (
    BoundedRatio,
    BoundedRatioLaw,
    CountsRatio,
    NaiveRatio,
    RatioLaw,
    SubstitutedCountsRatio,
    answers,
    greatest_gap,
)

SMALL = BoundedRatio(2.0, 0.05, 0.5)


@pytest.mark.parametrize(("a", "b", "noise", "share"), [(3, 7, 2.0, False), (0, 4, 0.5, False), (5, 2, 1.0, True)])
def test_ratio_density_against_quadrature(a, b, noise, share):
    law = RatioLaw(float(a), float(b), noise, share)
    ratios = np.array([-20.0, -1.0, -0.3, 0.0, 1e-3, 0.4, 0.5, 0.99, 1.0, 1.01, 3.0])
    for ratio, found in zip(ratios, law.log_density(ratios), strict=True):
        slope = 1.0 - ratio if share else 1.0

        def integrand(t, ratio=ratio, slope=slope):
            return abs(t) * math.exp(-(abs(ratio * t - a) + abs(slope * t - b)) / noise) / (4 * noise**2)

        kinks = sorted({0.0, *(a / ratio for _ in "a" if ratio), *(b / slope for _ in "b" if slope)})
        edges = [-math.inf, *kinks, math.inf]
        total = sum(quad(integrand, low, high, epsrel=1e-11)[0] for low, high in itertools.pairwise(edges))
        assert found == pytest.approx(math.log(total), abs=1e-8)


@pytest.mark.parametrize("mechanism", [SMALL, PublishedBoundedRatio(2.0, 0.05, 0.5)], ids=["corrected", "published"])
def test_the_merged_mixture_is_the_sum_over_the_noise(mechanism):
    law = BoundedRatioLaw(6, 30, mechanism)
    noise = np.arange(-60, 61)
    chances = DiscreteLaplaceLaw(0, 1.0 / mechanism.rate).log_density(noise)
    weights = (chances[:, None] + chances).ravel()
    scales = (mechanism.bound(6.0 + noise[:, None], 30.0 + noise) / mechanism.epsilon_release).ravel()
    points = law.centre + np.array([0.0, 1e-4, 1e-3, 0.01, 0.05, 0.2, 1.0, 4.0])
    released = ~np.isnan(scales)
    away = np.abs(points[:, None] - law.centre)
    sums = logsumexp(weights[released] - away / scales[released] - np.log(2 * scales[released]), axis=1)
    out = logsumexp(weights[~released])
    reference = np.logaddexp(sums, out + law.naive.log_density(points))
    assert law.log_density(points) == pytest.approx(reference, abs=2e-8)


def test_the_bound_is_the_greatest_local_sensitivity_within_the_margins():
    mechanism = BoundedRatio(2.0, 0.05, 0.5)
    for ones, records in itertools.product(range(-4, 40, 3), range(10, 40, 3)):
        bound = mechanism.bound(np.array([float(ones)]), np.array([float(records)]))[0]
        low, high = records - mechanism.margin, records + mechanism.margin
        if low <= 1:
            assert math.isnan(bound)
            continue
        counts = range(max(0, ones - mechanism.margin), max(0, ones + mechanism.margin) + 1)
        local = max(max(b - a, a) / (b * b - b) for b in range(low, high + 1) for a in counts)
        assert bound == pytest.approx(local)


def test_greatest_gap_against_all_integers():
    for a, low in itertools.product(range(12), range(2, 9)):
        best = max((b - a) / (b * b - b) for b in range(low, low + 15))
        found = greatest_gap(*(np.array([float(x)]) for x in (a, a, low, low + 14)))[0]
        assert found == pytest.approx(best)


@pytest.mark.parametrize(
    "mechanism", [BoundedRatio(1.0, 1e-6), BoundedRatio(2.0, 0.05, 0.5), BoundedRatio(0.5, 1e-3, 0.3)]
)
def test_the_margin_meets_delta_and_one_less_does_not(mechanism):
    def fails(margin):
        tail = 2.0 * math.exp(-mechanism.rate * (margin + 1)) / (1.0 + math.exp(-mechanism.rate))
        noise = np.arange(-margin, margin + 1)
        inside = np.exp(DiscreteLaplaceLaw(0, 1.0 / mechanism.rate).log_density(noise)).sum()
        assert tail == pytest.approx(1.0 - inside, abs=1e-12)
        return 2.0 * tail

    assert fails(mechanism.margin) <= mechanism.delta < fails(mechanism.margin - 1)


@pytest.mark.parametrize("mechanism", [NaiveRatio(1.0), CountsRatio(1.0)], ids=lambda m: m.name)
def test_pure_claims_hold_on_small_neighbours_under_add_remove(mechanism):
    for ones, zeros in itertools.product(range(3), range(1, 4)):
        for more in ((1, 0), (0, 1)):
            laws = mechanism(answers(ones, zeros)), mechanism(answers(ones + more[0], zeros + more[1]))
            assert exact.epsilon(*laws, 0.0) <= 1.0 + 1e-9


def test_substitution_needs_twice_the_noise():
    for ones in range(3):
        x, x_prime = answers(ones, 3 - ones), answers(ones + 1, 2 - ones)
        sound = exact.epsilon(SubstitutedCountsRatio(1.0)(x), SubstitutedCountsRatio(1.0)(x_prime), 0.0)
        assert sound <= 1.0 + 1e-9
        assert exact.epsilon(CountsRatio(1.0)(x), CountsRatio(1.0)(x_prime), 0.0) > 1.3

"""Rounded Gaussian noise, repeated responses along their curve, and odometers of Gaussian DP."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from epsaudit import GaussianDP, PureDP
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.analysts import Doubler, Gambler, NoisyGambler, RepeatedResponse, RoundedGaussian
from epsaudit.mechanisms.budgets import ConcentratedOdometer, Ledger, Request, Unlimited
from epsaudit.mechanisms.interactive import Interaction


def exactly(claim, mechanism):
    return exact.exact_parameter(claim, mechanism((0,)), mechanism((1,)))


@pytest.mark.parametrize(("mu", "cells"), [(0.3, 2), (1.0, 3), (2.5, 8)])
def test_cells_are_those_of_noisy_bits_and_keep_the_claims(mu, cells):
    """A chi-square p-value below 1e-6 fails; the incorrect variant has the noise of another mu."""
    mechanism = RoundedGaussian(mu, cells)
    noisy = 1.0 + np.random.default_rng(cells).normal(0.0, 1.0 / mu, 50_000)
    edges = 0.5 + (np.arange(1, cells) - cells / 2.0) / mu
    seen = np.bincount(np.searchsorted(edges, noisy), minlength=cells)
    for one, agrees in ((mechanism, True), (RoundedGaussian(1.5 * mu, cells), False)):
        p_value = chisquare(seen, np.exp(one((1,)).log_probabilities) * seen.sum()).pvalue
        assert bool(p_value > 1e-6) is agrees
    for claim in mechanism.claims:
        assert 0.6 * claim.parameter < exactly(claim, mechanism) <= claim.parameter * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "copies"), [(0.5, 3), (1.0, 4), (0.2, 7), (2.0, 1)])
def test_the_curve_is_that_of_optimal_composition(epsilon, copies):
    mechanism = RepeatedResponse(epsilon, copies)
    total = (1.0 + math.exp(epsilon)) ** copies
    for i, (loss, delta) in enumerate(mechanism.claim.points):
        assert loss == pytest.approx((copies - 2 * i) * epsilon)
        terms = (
            math.comb(copies, j) * (math.exp((copies - j) * epsilon) - math.exp((copies - 2 * i + j) * epsilon))
            for j in range(i)
        )
        assert delta == pytest.approx(math.fsum(terms) / total)  # Kairouz, Oh and Viswanath 2015, Theorem 3.3
    assert len(mechanism.claim.points) == copies // 2 + 1
    assert exactly(mechanism.claim, mechanism) == pytest.approx(1.0)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 0.5), st.floats(0.05, 0.5), st.integers(2, 4))
def test_no_adaptive_composition_goes_beyond_the_curve(cheap, dear, copies):
    curve = RepeatedResponse(0.5, copies).claim
    epsilons = tuple(sorted((cheap, dear)))
    for analyst in (Gambler(epsilons, copies, lead=1), Doubler(epsilons, copies)):
        asked = Interaction(analyst, Unlimited(PureDP(0.5 * copies)))
        assert exactly(curve, asked) <= 1.0 + 1e-9


def test_an_odometer_reads_gaussian_dp_as_zcdp_and_covers_the_loss_at_all_times():
    """Exact chance that the loss ever passes the reading, of an analyst who asks for what it likes."""
    odometer = ConcentratedOdometer(0.05, 1.5)
    ask = Request(RoundedGaussian(0.8))
    assert odometer.reading(Ledger().after(ask, True)) == pytest.approx(
        (odometer.slope + 1.0) * 0.32 + math.log(20.0) / odometer.slope
    )
    asked = Interaction(NoisyGambler((0.6, 1.0), 5, cells=5, lead=1), Unlimited(GaussianDP(3.0)))
    law, answers = asked((0,)), np.array(asked((0,)).support, float)
    exceeded = np.zeros(len(answers), bool)
    for rows, history in law.ledgers(answers):
        loss = np.zeros(len(rows))
        for round_, ledger in enumerate(history):
            last, column = ledger.entries[-1][0].mechanism, answers[rows, round_]
            loss += last((0,)).log_density(column) - last((1,)).log_density(column)
            exceeded[rows] |= loss > odometer.reading(ledger)
    chance = np.exp(law.log_probabilities[exceeded]).sum()
    assert 0.01 * odometer.failure < chance <= odometer.failure

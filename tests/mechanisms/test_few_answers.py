"""Rounded Gaussian noise, repeated responses along their curve, and odometers of Gaussian DP."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit
from scipy.stats import chisquare, norm

from epsaudit import ZCDP, ApproxDP, AuditError, GaussianDP, PureDP, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.analysts import Doubler, Gambler, NoisyGambler, RepeatedResponse, RoundedGaussian
from epsaudit.mechanisms.broken.accounting import LateStop, ResponseByCentralLimit
from epsaudit.mechanisms.budgets import ConcentratedOdometer, Ledger, Request, StopAt, TotalFilter, Unlimited
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


def test_more_cells_tell_nearly_all():
    fine = RoundedGaussian(1.0, cells=12)
    assert exactly(ZCDP(1.0), fine) > 0.9 * 0.5
    assert exactly(PureDP(1.0), RoundedGaussian(1.0, cells=20)) > 8.0  # no pure DP to speak of


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


@pytest.mark.parametrize(
    ("epsilon", "copies"),
    [(1.0, 400), (50.0, 20), (400.0, 2), (1.0, 1000), pytest.param(1.0, 3000, marks=pytest.mark.nightly)],
)
def test_many_answers_and_sure_ones_keep_their_digits(epsilon, copies):
    """Where e^loss is beyond all floats, or the chance of a lie below them."""
    mechanism = RepeatedResponse(epsilon, copies)
    lies = stats.binom(copies, expit(-epsilon))
    known = mechanism((1,)).log_probabilities
    assert known[::-1] == pytest.approx(lies.logpmf(range(copies + 1)), rel=1e-9, abs=1e-9)
    assert known[0] == pytest.approx(-copies * (epsilon + math.log1p(math.exp(-epsilon))))
    claim, pure = mechanism.claims
    assert claim.points[0] == (copies * epsilon, 0.0)
    assert exactly(claim, mechanism) == pytest.approx(1.0, abs=1e-9)
    assert exactly(pure, mechanism) == pytest.approx(copies * epsilon)
    assert claim.profile(0.0) <= 1.0


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 0.5), st.floats(0.05, 0.5), st.integers(2, 4))
def test_no_adaptive_composition_goes_beyond_the_curve(cheap, dear, copies):
    curve = RepeatedResponse(0.5, copies).claim
    epsilons = tuple(sorted((cheap, dear)))
    for analyst in (Gambler(epsilons, copies, lead=1), Doubler(epsilons, copies)):
        asked = Interaction(analyst, Unlimited(PureDP(0.5 * copies)))
        assert exactly(curve, asked) <= 1.0 + 1e-9


def test_the_curve_is_audited_in_its_own_parameter_and_its_limit_is_refuted():
    """At 99.9 %: a false alarm in 1,000 seeds for the sound one."""
    for kind, verdict in ((RepeatedResponse, "consistent"), (ResponseByCentralLimit, "violated")):
        result = audit(kind(0.5, 3), trials=200_000, confidence=0.999, seed=2, n_jobs=1)
        assert result.verdict == verdict
        assert 0.95 < result.lower_bound <= result.exact
    assert result.exact == pytest.approx(1.0643, abs=1e-4)
    many = ResponseByCentralLimit(0.05, 400)  # the limit is nearly right where it is a limit
    assert 1.0 < exactly(many.claim, many) < 1.01


def test_gaussian_budgets_hold_for_noisy_gamblers():
    for mus in ((0.3, 0.9), (0.5, 0.7, 1.1)):
        asked = Interaction(NoisyGambler(mus, 4, lead=1), TotalFilter(GaussianDP(1.3)))
        for claim in (GaussianDP(1.3), ZCDP(1.3**2 / 2.0)):
            assert 0.4 * claim.parameter < exactly(claim, asked) <= claim.parameter * (1 + 1e-9)


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


@pytest.mark.nightly
def test_many_small_gaussian_steps_use_an_odometer_up():
    """Ville's inequality is an equality in the limit: no odometer with a reading below this line covers Gaussian steps.

    Of 10,000 paths, five standard errors: a false alarm in 10^6 seeds. Steps between readings go unseen: up to 10 %.
    """
    odometer, mu, paths = ConcentratedOdometer(0.05, 0.5), 0.04, 10_000
    rng, loss, over = np.random.default_rng(4), np.zeros(10_000), np.zeros(10_000, bool)
    seen = {1.0: over, 0.9: over.copy()}
    for step in range(1, 5_001):
        loss += rng.normal(mu**2 / 2.0, mu, paths)
        line = (odometer.slope + 1.0) * step * mu**2 / 2.0
        for share, passed in seen.items():
            passed |= loss > line + share * math.log(20.0) / odometer.slope
    spread = 5.0 * math.sqrt(0.05 * 0.95 / paths)
    assert 0.9 * odometer.failure - spread < seen[1.0].mean() < odometer.failure + spread
    assert seen[0.9].mean() > odometer.failure  # the incorrect variant: a tenth off the offset


def test_an_odometer_that_is_read_late_is_exceeded():
    analyst, odometer = NoisyGambler((1.0, 3.0), 2, lead=1, cells=6), ConcentratedOdometer(0.05, 1.0)
    late, sound = (Interaction(analyst, kind(odometer, 4.5)) for kind in (LateStop, StopAt))
    assert late.claim == sound.claim == ApproxDP(4.5, 0.05)
    assert exactly(sound.claim, sound) <= 4.5 < 7.0 < exactly(late.claim, late)


def test_what_cannot_be_is_a_sentence():
    for call, words in (
        (lambda: RoundedGaussian(0.0), "mu is 0.0"),
        (lambda: RoundedGaussian(1.0, 1), "number of cells"),
        (lambda: RepeatedResponse(1.0, 0), "number of copies"),
        (lambda: RepeatedResponse(1.0, 2)((2,)), "one user's bit"),
        (lambda: RoundedGaussian(1.0)((0, 1)), "one user's bit"),
    ):
        with pytest.raises(AuditError, match=words):
            call()


def test_the_limit_has_the_mean_and_the_variance_of_the_loss():
    few = ResponseByCentralLimit(0.7, 9)
    p = math.exp(0.7) / (1.0 + math.exp(0.7))
    mean, variance = 0.7 * (2 * p - 1), 0.7**2 * 4 * p * (1 - p)
    assert few.mu == pytest.approx(2.0 * 3.0 * mean / math.sqrt(variance))
    assert few.claim.profile(0.0) == pytest.approx(2.0 * norm.cdf(few.mu / 2.0) - 1.0)

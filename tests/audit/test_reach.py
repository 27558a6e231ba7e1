"""What an audit says that it would have caught is caught by mechanisms that exist, whatever its last event was."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import ndtr

from epsaudit import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP, audit_sequentially
from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.record import Seen, detectable
from epsaudit.mechanisms.additive import Laplace

RUNS, NEEDED = 15_000, math.log(2e6 / 0.9)


def caught(claim, mean, most, audits=400):
    """Share of audits of N(0, 1) and N(mean, 1) that refute the claim at the best tangent, by events that common."""
    rng, shares = np.random.default_rng(1), []
    for threshold in np.linspace(0.0, 3.0, 25):
        rates = [float(ndtr(side * mean / 2 - threshold)) for side in (1, -1)]
        if sum(rates) <= most:
            tallies = rng.multinomial(RUNS, [*rates, 1.0 - sum(rates)], size=audits)
            found = [betting.average(tallies @ betting.log_factors(*at, 2)) for at in betting.tangents(claim)]
            shares += [float(np.mean(one >= NEEDED)) for one in found]
    return max(shares)


@pytest.mark.parametrize("most", [1.0, 0.2])
@pytest.mark.parametrize("claim", [ZCDP(0.5), RenyiDP(4.0, 2.0), GaussianDP(1.0)], ids=str)
def test_a_gaussian_is_caught_as_often_as_is_said(claim, most):
    """Of 400 audits 360: 6 of them are a standard error, and 36 are allowed."""
    stated = detectable(claim, [Seen(0.0, 2, 10_000, round(6_000 * most), round(4_000 * most))], RUNS, NEEDED)
    assert stated is not None
    ratio = stated / claim.parameter  # mu is sqrt(2 rho), or sqrt(2 epsilon / a)
    assert abs(caught(claim, ratio if isinstance(claim, GaussianDP) else math.sqrt(ratio), most) - 0.9) < 0.09


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(1.0, 0.05)], ids=str)
def test_the_event_that_tells_most_counts_and_not_a_rare_one(claim):
    """Nor one that was only ever seen by luck."""
    factor = math.e
    common, none = round(10_000 * 0.7), round(10_000 * 0.05)
    telling = Seen(None, 2, 10_000, round(common * factor / (1 + factor)) + none, round(common / (1 + factor)))
    rare = [Seen(None, 1, 10_000, 265, 0), Seen(None, 1, 10_000, 3, 0), Seen(None, 2, 40, 30, 10)]
    alone = detectable(claim, [telling], RUNS, NEEDED)
    assert alone is not None
    assert 1.0 < alone < 1.4
    if claim == ApproxDP(1.0, 0.05):
        assert detectable(claim, [telling, *rare], RUNS, NEEDED) == alone
    else:
        assert detectable(claim, [telling, *rare[1:]], RUNS, NEEDED) == alone


def test_nothing_is_caught_without_guesses_or_runs():
    some = Seen(None, 2, 100, 50, 20)
    assert detectable(PureDP(1.0), [], RUNS, NEEDED) is None
    assert detectable(PureDP(1.0), [dataclasses.replace(some, correct=0, wrong=0)], RUNS, NEEDED) is None
    assert detectable(PureDP(1.0), [some], 0, NEEDED) is None


def test_another_last_event_changes_little():
    """As where the last round was bet on a rare one."""
    result = audit_sequentially(Laplace(1.0), trials=20_000, confidence=1 - 5e-7, seed=1, n_jobs=1)
    *before, last = result.rounds
    changed = []
    for strategy in last.strategies:
        rare = dataclasses.replace(strategy.counts, guess_x_on_x=3, guess_x_on_x_prime=1, events=1)
        rare = dataclasses.replace(rare, guess_x_prime_on_x=0, guess_x_prime_on_x_prime=0)
        witness = dataclasses.replace(strategy.witness, guess_x_prime=None)
        changed.append(dataclasses.replace(strategy, counts=rare, witness=witness))
    other = dataclasses.replace(result, rounds=(*before, dataclasses.replace(last, strategies=tuple(changed))))
    assert other.detectable == pytest.approx(result.detectable, rel=0.05)
    assert result.detectable < 1.3

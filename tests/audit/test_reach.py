"""What an audit says that it would have caught is caught by mechanisms that exist, whatever its last event was."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from epsaudit import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP
from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.record import Seen, detectable

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

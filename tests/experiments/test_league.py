"""The league: laws with the truth that is stated, outputs that become numbers, and rows that are lost first."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

from epsaudit.experiments import league
from epsaudit.experiments.estimators import FIXED
from epsaudit.experiments.league_cases import LAWS, MST_PAIR, cases, mst, mst_mu, reader

DRAWS = 200_000


@pytest.mark.parametrize(
    ("name", "event", "likelier"),
    [
        ("point masses", lambda y: y == 1.0, "x"),
        ("point masses", lambda y: y == 0.0, "x_prime"),
        ("rarer event", lambda y: y > 0.995, "x"),
        ("five values alike", lambda y: y == 2.0, "x"),
    ],
)
def test_laws_attain_what_is_taken_for_their_truth(name, event, likelier):
    """Six standard errors of a log ratio of counts, a false alarm in 5e8."""
    law = next(law for law in LAWS if law.name == name)
    counts = [int(np.sum(event(y))) for y in law.draw(np.random.default_rng(1), DRAWS)]
    counts = counts if likelier == "x" else counts[::-1]
    assert abs(math.log(counts[0] / counts[1]) - law.claim.parameter) < 6.0 * math.sqrt(1 / counts[0] + 1 / counts[1])


@pytest.mark.parametrize("name", ["laplace half noise", "exponential factor two", "gaussian vector per coordinate"])
def test_outputs_become_numbers_that_are_higher_on_side_0(name):
    case = cases()[name]
    draw = case.numbers(0)
    above = [np.mean(draw(side, 20_000, np.random.default_rng(2)) > FIXED) for side in (0, 1)]
    assert above[0] > 1.2 * above[1]


def test_text_and_lists_do_not_become_numbers():
    text, lists = np.empty(500, object), np.empty(500, object)
    text[:], lists[:] = [f"total={k}" for k in range(500)], [[k] for k in range(500)]
    assert reader(text, text) is None
    assert reader(lists, lists) is None


def found(name, ours, **others):
    about = {"group": "g", "claimed": 1.0, "delta": 0.0, "runs": 10, "oracle": 2.0}
    return {**about, "case": name, "bounds": {league.WHOLE: ours, league.OURS.name: 9.0, **others}}


def test_cases_that_are_lost_stand_first_and_what_is_no_bound_wins_nothing():
    lost = [found("lost", ours, valid=0.8) for ours in (0.1, 0.4, 0.7)]
    met = [found("won", 1.0, valid=0.5, wild=5.0), found("text", 1.0), *lost]
    rows = list(league.compare_cases(met, {"valid", league.WHOLE, league.OURS.name}))
    assert [(row["case"], row["lost"]) for row in rows] == [("lost", True), ("won", False), ("text", False)]
    assert rows[1]["by"] == "valid"
    assert (rows[0]["share"], rows[2]["by"]) == (pytest.approx(0.5), "not applicable")  # medians of three


def test_what_is_above_the_truth_more_often_than_stated_is_beyond_the_tolerance():
    rows = list(league.count_above_truth([("Laplace", {"a": [0.9] * 90 + [1.1] * 10, "b": [0.9] * 50 + [1.1] * 50})]))
    assert [(row["above"], row["within"]) for row in rows] == [(10, True), (50, False)]
    assert rows[0]["low"] < 0.1 < rows[0]["high"]


def test_fits_of_mst_have_gaussian_noise_of_the_implied_mu():
    """The sum of the three counts of ones, whose noise has a standard deviation of 3 / mu."""
    for data, mean in ((MST_PAIR.x, 0.0), (MST_PAIR.x_prime, 3.0)):
        shown = np.sum(mst(data, 20_000, np.random.default_rng(3))[:, 1::2], axis=1)
        assert kstest(shown, norm(mean, 3.0 / mst_mu()).cdf).pvalue > 1e-6
        assert kstest(shown, norm(mean, 3.0 / 0.6).cdf).pvalue < 1e-6


@pytest.mark.slow
def test_a_stricter_level_is_asked_from_the_runs_on_that_refuted_at_the_first():
    runs = {
        (row["tool"], row["alpha"]): row["runs"]
        for row in league.measure_runs_to_refute(("laplace half noise", [100, 300], 0))
    }
    first, strict = ({tool: n for (tool, alpha), n in runs.items() if alpha == one} for one in league.ALPHAS)
    assert all(strict[tool] >= n for tool, n in first.items())
    assert first["histogram ratio"] == strict["histogram ratio"] == 100  # it knows no level
    assert (first["Rényi tester"], strict["Rényi tester"]) == (math.inf, math.inf)

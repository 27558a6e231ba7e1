"""Curves are where they should be: the claim's by its definition, the excluded region by the counts, in print too."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from epsaudit import ZCDP, ApproxDP, AuditResult, GaussianDP, PureDP, RenyiDP, audit, audit_sequentially
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.broken.additive import LaplaceHalfNoise
from epsaudit.mechanisms.exact import PrivacyProfile
from epsaudit.reporting import style
from epsaudit.reporting.figures import (
    allowed_trade_off,
    certified_polygon,
    certified_profile,
    privacy_profile,
    sequential_path,
    trade_off,
)

ERRORS = np.array([0.0, 1e-5, 0.01, 0.2, 0.5, 0.9, 1.0])
CLAIMS = [PureDP(1.0), ApproxDP(0.5, 0.01), GaussianDP(1.0), ZCDP(0.5), RenyiDP(2.0, 1.0)]


class TestAllowed:
    def test_closed_forms(self):
        e, delta = math.exp(0.5), 0.01
        expected = np.maximum.reduce([1 - delta - e * ERRORS, (1 - delta - ERRORS) / e, 0 * ERRORS])
        assert allowed_trade_off(ApproxDP(0.5, delta), ERRORS) == pytest.approx(expected, abs=1e-12)
        assert allowed_trade_off(GaussianDP(1.0), ERRORS) == pytest.approx(norm.cdf(norm.isf(ERRORS) - 1.0), abs=1e-12)

    @pytest.mark.parametrize("claim", CLAIMS, ids=str)
    def test_a_trade_off_curve_is_convex_decreasing_symmetric_and_below_chance(self, claim):
        errors = np.linspace(0.0, 1.0, 101)
        values = allowed_trade_off(claim, errors)
        assert np.all(np.diff(values) <= 1e-12)
        assert np.all(np.diff(values, 2) >= -1e-9)
        assert np.all(values <= 1.0 - errors + 1e-12)
        inside = (values > 1e-6) & (values < 1 - 1e-6)
        assert allowed_trade_off(claim, values[inside]) == pytest.approx(errors[inside], abs=1e-6)

    @pytest.mark.parametrize(
        "claim", [pytest.param(one, marks=pytest.mark.slow if isinstance(one, ZCDP) else ()) for one in CLAIMS], ids=str
    )
    def test_its_tangents_are_the_privacy_profile(self, claim):
        errors = np.concatenate([np.geomspace(1e-8, 1e-2, 200), np.linspace(0.01, 1.0, 2000)])
        values = allowed_trade_off(claim, errors)
        for epsilon in (0.0, 0.3, 1.0):
            gain = np.max(1.0 - values - math.exp(epsilon) * errors)
            assert gain == pytest.approx(claim.profile(epsilon), abs=2e-4)


def result(mechanism, claim=None, **changes):
    return audit(mechanism, claim=claim, trials=50_000, seed=1, n_jobs=1, **changes)


@pytest.fixture(scope="module")
def stored():
    return result(Laplace(1.0)).to_dict()


def seen(stored, right, wrong):
    """The stored result, had its first event been seen so often in 500 runs a side, and its second never."""
    counts = {"runs_x": 500, "runs_x_prime": 500, "guess_x_on_x": right, "guess_x_on_x_prime": wrong}
    never = {"guess_x_prime_on_x": 0, "guess_x_prime_on_x_prime": 0}
    return AuditResult.from_dict({**stored, "counts": {**stored["counts"], **counts, **never}})


class TestExcluded:
    @pytest.mark.parametrize("mechanism", [Laplace(1.0), Gaussian(1.0, 0.05), LaplaceHalfNoise(1.0)])
    def test_the_exact_curve_stays_out_of_it(self, mechanism):
        pair = mechanism.worst_pairs()[0]
        exact = PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime))
        p, p_prime = exact.events(np.linspace(-3.0, 3.0, 201))
        order = np.argsort(p_prime)
        found = result(mechanism, confidence=0.999)
        polygon = certified_polygon(found)
        assert len(polygon) > 2
        for likely, rare in polygon[1:-1]:  # some test of the exact curve does as well as each corner
            assert np.interp(likely, p_prime[order], 1.0 - p[order]) <= rare + 1e-6

    @given(st.integers(0, 400), st.integers(0, 400))
    def test_it_is_convex_whatever_was_counted(self, stored, right, wrong):
        polygon = certified_polygon(seen(stored, right, wrong))
        slopes = np.diff(polygon[:, 1]) / np.diff(polygon[:, 0])
        assert np.all(np.diff(slopes) >= -1e-9)
        assert np.all(polygon.sum(axis=1) <= 1.0 + 1e-12)

    @pytest.mark.parametrize("mechanism", [Laplace(1.0), Gaussian(1.0, 0.05), LaplaceHalfNoise(1.0)])
    def test_the_certified_profile_is_the_certificates_bound_and_below_the_exact_one(self, mechanism):
        pair = mechanism.worst_pairs()[0]
        exact = PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime))
        found = result(mechanism, confidence=0.999)
        epsilons = np.linspace(0.0, 3.0, 13)
        certified = certified_profile(found, epsilons)
        assert np.all(certified <= np.array([exact.delta(e) for e in epsilons]) + 1e-12)
        own = found.certificate.delta(found.counts, found.point[0], found.confidence)
        assert certified_profile(found, np.array([found.point[0]]))[0] == pytest.approx(float(own), abs=1e-12)

    def test_a_refuted_claim_runs_through_it_and_a_kept_one_does_not(self):
        for mechanism, refuted in ((LaplaceHalfNoise(1.0), True), (Laplace(1.0), False)):
            found = result(mechanism)
            corners = certified_polygon(found)[1:-1]
            claimed = allowed_trade_off(found.claim, corners[:, 0])
            assert np.any(claimed > corners[:, 1]) == refuted == found.violates_claim


def words(figure):
    text = style.render(figure, "svg").decode()
    assert "<text" in text  # text stays text
    return re.sub(r"\s+", " ", " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", text)))


class TestFigures:
    @pytest.mark.parametrize("draw", [privacy_profile, trade_off])
    @pytest.mark.parametrize("claim", [None, GaussianDP(2.0)])
    def test_each_says_its_confidence_runs_axes_and_claim(self, draw, claim):
        found = result(Laplace(1.0), claim)
        said = words(draw(found))
        for part in (found.mechanism, "50k runs", "95%", str(found.claim), "excluded"):
            assert part in said
        for part in ("nats", "probability") if draw is privacy_profile else ("says x",):
            assert part in said

    def test_sequential_paths_end_where_the_results_do(self):
        results = {
            "half the noise": audit_sequentially(LaplaceHalfNoise(1.0), trials=20_000, seed=1, n_jobs=1),
            "Laplace": audit_sequentially(Laplace(1.0), trials=2_000, seed=1, n_jobs=1),
        }
        figure = sequential_path(results)
        ends = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", None, "")]
        assert [float(line.get_ydata()[0]) for line in ends] == [r.lower_bound for r in results.values()]
        said = words(figure)
        for part in ("half the noise", "Laplace", "every moment", "95%", "runs", "claimed: 1"):
            assert part in said


class TestStudies:
    def test_text_in_pdf_is_text_and_colours_differ_in_grey(self):
        data = style.render(trade_off(result(Laplace(1.0))), "pdf")
        assert b"/FontType 42" in data or b"/CIDFontType2" in data
        assert b"/Type3" not in data
        import matplotlib
        from matplotlib.colors import to_rgb

        with style.styled():
            cycle = matplotlib.rcParams["axes.prop_cycle"].by_key()
            assert len({str(dash) for dash in cycle["linestyle"]}) == len(cycle["color"])
        assert matplotlib.rcParams["pdf.fonttype"] == matplotlib.rcParamsDefault["pdf.fonttype"]  # nothing leaks out
        greys = [np.dot(to_rgb(colour), [0.299, 0.587, 0.114]) for colour in (style.BLUE, style.VERMILION)]
        assert abs(greys[0] - greys[1]) > 0.05

"""Stable histograms: laws against draws, exact delta through marginals, mappings as outputs, and what an audit sees."""

import itertools
import math

import numpy as np
import pytest

from epsaudit import ApproxDP, AuditError, audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.selection import HistogramOneTooLow, HistogramWithoutThreshold
from epsaudit.mechanisms.histogram import StableHistogram
from epsaudit.outputs.normal_form import Items


def test_a_new_key_shows_with_half_of_delta():
    mechanism = StableHistogram(0.7, 0.01)
    pair = mechanism.worst_pairs()[1]
    mechanism.adjacency.check(pair)
    with_key, without = (mechanism(x).marginal("b") for x in (pair.x, pair.x_prime))
    shows = -math.expm1(float(with_key.log_probabilities[0]))
    assert shows == pytest.approx(math.exp(-0.7 * (mechanism.threshold - 1.0)) / 2.0)
    assert exact.delta(with_key, without, 0.0) == pytest.approx(0.005)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_marginals_of_all_neighbours_respect_the_claim(epsilon):
    mechanism = StableHistogram(epsilon, 0.01)
    laws = [mechanism(("a",) * count).marginal("a") for count in range(25)]
    assert max(exact.delta(x, x_prime, epsilon) for x, x_prime in itertools.pairwise(laws)) <= 0.01
    assert exact.epsilon(laws[2], laws[1], 0.0) == pytest.approx(epsilon)


def test_outputs_are_mappings_over_keys_of_any_kind():
    """Five standard errors: false alarms in 10^6; the incorrect variant without a threshold shows every key."""
    data = (None,) * 4 + ("tea",) * 5 + ((1, "x"),) * 3 + (2.5,)
    for mechanism in (StableHistogram(1.0, 0.05), HistogramWithoutThreshold(1.0, 0.05)):
        law = mechanism(data)
        draws = law.sample(100_000, np.random.default_rng(1))
        assert draws.shape == (100_000,)
        mappings = [dict(iter(output)) for output in draws.tolist()]
        for key, count in law.counts:
            seen = np.array([mapping[key] for mapping in mappings if key in mapping])
            assert np.all(seen >= mechanism.threshold)
            shows = -math.expm1(float(law.marginal(key).log_probabilities[0]))
            error = math.sqrt(max(shows * (1 - shows), 1e-12) / 100_000)
            assert abs(len(seen) / 100_000 - shows) <= 5 * error
            if shows > 0.999:
                assert abs(seen.mean() - count) < 5 * math.sqrt(2.0 / len(seen))
        assert np.all(np.isfinite(law.log_density(draws[:500])))
    assert len({tuple(key for key, _ in output) for output in draws.tolist()}) == 1


def test_an_unknown_key_is_impossible():
    law = StableHistogram(1.0, 0.05)(("a",) * 9)
    outputs = np.empty(2, object)
    outputs[:] = [Items.of({"b": 9.0}), Items.of({"a": 9.0})]
    assert np.isneginf(law.log_density(outputs)).tolist() == [True, False]


def test_an_audit_sees_the_key_in_the_variant_and_no_more_than_delta_in_the_mechanism():
    """At 99.9 % each; the incorrect variant shows the key always."""
    variant, sound = HistogramWithoutThreshold(1.0, 0.01), StableHistogram(1.0, 0.01)
    result = audit(variant, trials=10_000, confidence=0.999, seed=3)
    assert result.violates_claim
    assert any(event in str(result.witness) for event in ("y has 'b'", "len(y) >= 2"))  # of two keys, which is the same
    for pair in sound.worst_pairs():
        assert not audit(sound, pair, trials=10_000, confidence=0.999, seed=3).violates_claim


def test_exact_values_of_both_pairs():
    """A key that appears costs a delta of its own and no epsilon; keys that differ in no count cost nothing."""
    mechanism = StableHistogram(1.0, 1e-3)
    crowd, new_key = (
        exact.PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime)) for pair in mechanism.worst_pairs()
    )
    assert crowd.epsilon(1e-3) == pytest.approx(0.995, abs=1e-3)
    assert (new_key.epsilon(1e-3), new_key.delta(1.0)) == (0.0, pytest.approx(5e-4, rel=1e-9))
    assert math.isinf(new_key.epsilon(4e-4))
    same = exact.PrivacyProfile(mechanism(("a", "b")), mechanism(("b", "a")))
    assert same.delta(0.0) == 0.0
    # two keys that differ, as in no neighbours, are independent parts: twice the loss of one, nearly always released
    many = ("a",) * 40 + ("b",) * 40
    both = exact.PrivacyProfile(mechanism(many), mechanism(many[1:-1]))
    assert both.epsilon(0.0) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.nightly
def test_an_audit_sees_how_often_a_new_key_shows():
    """At 99.9 % each: most of delta / 2 is certified; the incorrect variant, one record too low, shows it too often."""
    sound, variant = StableHistogram(1.0, 0.1), HistogramOneTooLow(1.0, 0.1)
    result = audit(sound, sound.worst_pairs()[1], claim=ApproxDP(0.0, 0.05), trials=100_000, confidence=0.999, seed=4)
    assert not result.violates_claim
    assert 0.03 < result.delta_lower <= 0.05
    assert "has 'b'" in str(result.witness)
    assert audit(variant, trials=100_000, confidence=0.999, seed=4).violates_claim


def test_errors_are_sentences():
    with pytest.raises(AuditError, match="delta is 1"):
        StableHistogram(1.0, 1.0)

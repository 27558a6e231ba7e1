"""Every claim of the page is exceeded by the exact value on its pair, and every corrected variant keeps its own."""

import math

import numpy as np
import pytest

from epsaudit.experiments.histogram_utility import chance_within, coverage, error_within
from epsaudit.experiments.published_claims import findings
from epsaudit.experiments.published_statements import (
    KINDS,
    MISTAKE,
    READING,
    check_statement,
    median_moves,
    statements,
)
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.histogram import StableHistogram

FINDINGS, STATEMENTS = findings(), statements()
CHEAP = [finding for finding in FINDINGS if "ratio" not in finding.name]
PROBABILITIES = [statement for statement in STATEMENTS if statement.occurs]


@pytest.mark.parametrize("finding", CHEAP, ids=lambda finding: finding.name)
def test_the_exact_value_exceeds_the_published_claim_and_not_the_corrected_one(finding):
    pair, claim = finding.pair, finding.published.claim
    published = exact.exact_parameter(claim, finding.published(pair.x), finding.published(pair.x_prime))
    corrected = exact.exact_parameter(finding.kept, finding.corrected(pair.x), finding.corrected(pair.x_prime))
    assert published > 1.1 * claim.parameter or math.isinf(published)
    assert corrected <= finding.kept.parameter * (1 + 1e-9)


def test_every_row_says_what_it_is():
    """What a source warns of is no claim of its own, and what it does not say neither."""
    kinds = {one.name: one.texts["kind"] for one in (*FINDINGS, *STATEMENTS)}
    assert len(kinds) == len(FINDINGS) + len(STATEMENTS)
    assert set(kinds.values()) == set(KINDS)
    assert {name for name, kind in kinds.items() if kind == MISTAKE} == {
        finding.name for finding in FINDINGS if "noise at the local sensitivity" in finding.name
    }
    assert all(kinds[name] == READING for name in kinds if "as if" in name)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_what_is_stated_fails_and_what_is_corrected_holds(statement):
    row = check_statement(statement, runs=20_000, seed=1)  # an upper limit at 99.9 %: a false alarm in 1,000 for each
    assert row["fails"]
    if statement.occurs:
        assert statement.kept >= statement.stated > row["certified"] >= statement.exact
        return
    if statement.bound:
        assert 0.8 * statement.stated < statement.kept <= statement.stated < statement.exact / 2.0
    else:  # a formula, what is left out included: far nearer than the stated one
        wrong, left = (abs(math.log(value / statement.exact)) for value in (statement.stated, statement.kept))
        assert left < 0.06
        assert wrong > 5.0 * left


@pytest.mark.parametrize("statement", PROBABILITIES, ids=lambda statement: statement.name)
def test_exact_probabilities_are_those_of_what_is_drawn(statement):
    """Five standard errors: a false alarm in 10^6."""
    runs = 20_000
    seen = statement.occurs(runs, np.random.default_rng(7)) / runs
    spread = math.sqrt(statement.exact * (1.0 - statement.exact) / runs)
    assert abs(seen - statement.exact) <= 5.0 * spread
    assert abs(seen - statement.stated) > 5.0 * spread  # the incorrect variant: the stated probability does not fit


def test_the_utility_theorem_of_stable_histograms():
    """Of 1,000 runs on each dataset no lower limit at 99.9 % is above the exact value, and all keep the promise."""
    for row in coverage(runs=1000, seed=3):
        assert row["promised"] <= row["exact"]
        assert row["promised"] < row["certified"] <= row["exact"]
    mechanism = StableHistogram(0.5, 0.01)
    for beta in (0.01, 0.5):
        error = error_within(mechanism, 60, beta)
        for count in range(1, 61):
            assert chance_within(mechanism, [count] * (60 // count), error) >= 1.0 - beta
    # the incorrect variant: the error of the noise alone, without what the threshold takes
    noise_only = math.log(60 / 0.1) / mechanism.epsilon
    assert chance_within(mechanism, [math.ceil(noise_only)] * 4, noise_only - 1.0) < 0.9


@pytest.mark.parametrize(("records", "changes"), [(5, 1), (5, 2), (101, 1), (101, 20)])
def test_the_law_of_the_local_sensitivity_of_a_normal_median_against_draws(records, changes):
    """Five standard errors of 20,000 draws: a false alarm in 10^6. The variant forgets the records below the median."""
    ordered = np.sort(np.random.default_rng(11).normal(size=(20_000, records)), axis=1)
    middle = records // 2
    up, down = (np.abs(ordered[:, middle + side * changes] - ordered[:, middle]) for side in (1, -1))
    moved = np.maximum(up, down)
    for quantile in (0.1, 0.5, 0.9):
        reach = float(np.quantile(moved, quantile))
        spread = 5.0 * math.sqrt(quantile * (1.0 - quantile) / len(moved))
        assert median_moves(records, changes, reach) == pytest.approx(quantile, abs=spread)
        assert abs(np.mean(up <= reach) - quantile) > spread


def test_one_change_moves_a_normal_median_farther_than_any_constant_over_n_with_a_constant_probability():
    for records in (101, 1001, 10_001):
        exceeds = 1.0 - median_moves(records, 1, 4.0 * math.sqrt(2.0 * math.pi) / records)
        assert exceeds == pytest.approx(1.0 - (1.0 - math.exp(-4.0)) ** 2, rel=0.1)

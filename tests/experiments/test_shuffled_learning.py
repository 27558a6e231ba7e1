"""Learning and testing under shuffling: estimates, tests at their level, and what the source's choice (5) loses."""

import itertools

import numpy as np
import pytest

from epsaudit.experiments import shuffled_learning
from epsaudit.experiments.shuffled_learning import EPSILON, power, row_for
from epsaudit.mechanisms.amplification import numeric
from epsaudit.mechanisms.response import HadamardResponse


@pytest.mark.parametrize(("model", "epsilon"), [("central", None), ("local", 1.0), ("shuffled, public coin", 3.0)])
def test_a_third_of_alarms_are_false(model, epsilon, monkeypatch):
    monkeypatch.setattr(shuffled_learning, "DISTANCE", 0.0)
    # threshold and share of 4,000 runs each: a standard deviation of 0.011
    assert power(model, epsilon, 2000, 4000, np.random.default_rng(1)) == pytest.approx(1 / 3, abs=0.05)


def test_models_come_in_their_order_and_the_numeric_bound_is_kept():
    row = row_for(10_000, 200, seed=2)
    models = ("no privacy", "central", "shuffled", "shuffled, closed form", "local")
    for before, after in itertools.pairwise(models):
        assert row[f"distance, {before}"] < 1.03 * row[f"distance, {after}"]
    answers = HadamardResponse(row["local epsilon"], 100).clone_answers
    assert 0.99 * EPSILON < numeric(row["local epsilon"], 10_000, 1e-6, answers) <= EPSILON * (1 + 1e-9)
    # 'ignoring pesky constants': more than twice the epsilon that is wanted, exactly
    assert row["exact at (5)"] > 2.6 * EPSILON
    assert row["local epsilon, (5)"] > row["local epsilon"] > row["local epsilon, closed form"]

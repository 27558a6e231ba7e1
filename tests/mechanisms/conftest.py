"""Oracles that know nothing of the mechanisms: goodness of fit, and laws brought to one support."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from epsaudit.mechanisms.laws import FiniteLaw


@pytest.fixture
def fit():
    """Function of a finite law and draws that returns the chi-square p-value; outcomes expected < 10 times merged."""

    def p_value(law, draws):
        rows = draws.tolist()
        if draws.ndim == 2:  # a transcript has None where a matrix of numbers has NaN
            rows = [tuple(None if value != value else value for value in row) for row in rows]
        seen = Counter(rows)
        assert seen.keys() <= set(law.support), "a draw is off the support"
        observed = np.array([seen[value] for value in law.support], float)
        expected = len(draws) * np.exp(law.log_probabilities)
        common = expected >= 10.0
        observed = np.append(observed[common], observed[~common].sum())
        expected = np.append(expected[common], expected[~common].sum())
        if expected[-1] < 10.0:
            observed = np.append(observed[:-2], observed[-2:].sum())
            expected = np.append(expected[:-2], expected[-2:].sum())
        expected *= observed.sum() / expected.sum()
        return stats.chisquare(observed, expected).pvalue if len(observed) > 1 else 1.0

    return p_value


@pytest.fixture
def aligned():
    """Function of two laws that returns them on one support, if they are discrete with no density beside."""

    def on_one_support(law, law_prime):
        if not all(hasattr(one, "support") and not hasattr(one, "knots") for one in (law, law_prime)):
            return law, law_prime
        support = list(dict.fromkeys([*law.support, *law_prime.support]))
        return tuple(FiniteLaw(support, one.log_density(support)) for one in (law, law_prime))

    return on_one_support

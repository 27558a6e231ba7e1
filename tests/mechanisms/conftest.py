"""Oracles that know nothing of the mechanisms: goodness of fit, and laws brought to one support."""

import numpy as np
import pytest
from scipy import stats

from epsaudit.mechanisms.laws import FiniteLaw


@pytest.fixture
def fit():
    """Function of a discrete law and draws that returns the chi-square p-value; outcomes expected < 10 times merged."""

    def p_value(law, draws):
        support = list(law.support)
        values, counts = np.unique(draws, return_counts=True)
        seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
        assert set(seen) <= set(support), "a draw is off the support"
        observed = np.array([seen.get(value, 0) for value in support], float)
        expected = len(draws) * np.exp(law.log_probabilities)
        common = expected >= 10.0
        observed = np.append(observed[common], observed[~common].sum())
        expected = np.append(expected[common], expected[~common].sum())
        if expected[-1] < 10.0:
            observed = np.append(observed[:-2], observed[-2:].sum())
            expected = np.append(expected[:-2], expected[-2:].sum())
        expected *= observed.sum() / expected.sum()
        return stats.chisquare(observed, expected).pvalue

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

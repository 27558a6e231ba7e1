"""Roots lie where the sign changes, and where scipy finds them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from epsaudit.claims.conversions import root, roots

FUNCTIONS = [
    lambda x, a: math.exp(x) - a,
    lambda x, a: x**3 - a,
    lambda x, a: math.tanh(x) - a / (1 + a),
    lambda x, a: max(x - a, -1e-9),
    lambda x, a: math.copysign(1.0, x - a),
    lambda x, a: 1e-300 * (x - a) ** 3,
]


@given(st.sampled_from(FUNCTIONS), st.floats(0.01, 20.0), st.sampled_from([1e-14, 2e-12, 1e-6]))
def test_it_lies_where_the_sign_changes(function, a, xtol):
    found = root(lambda x: function(x, a), -6.0, 21.0, xtol=xtol)
    width = xtol + 2.0**-49 * (1.0 + abs(found))
    assert function(found - width, a) <= 0.0 <= function(found + width, a)


@pytest.mark.parametrize("function", FUNCTIONS[:3])
@pytest.mark.parametrize("a", [0.01, 0.5, 0.9])
def test_it_is_that_of_scipy(function, a):
    theirs = brentq(function, -6.0, 21.0, args=(a,), xtol=1e-14)
    assert root(lambda x: function(x, a), -6.0, 21.0, xtol=1e-14) == pytest.approx(theirs, abs=1e-13)


def test_many_are_found_at_once():
    values = np.array([0.5, 3.0, 19.0])
    assert roots(lambda x: x**3 - values, np.zeros(3), np.full(3, 21.0)) == pytest.approx(np.cbrt(values), rel=1e-11)


def test_no_bracket_is_an_error():
    with pytest.raises(ValueError, match="one sign"):
        root(lambda x: x * x + 1.0, 0.0, 1.0)

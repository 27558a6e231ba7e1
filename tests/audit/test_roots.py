"""Roots are those of scipy to the last bit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from epsaudit.roots import root

FUNCTIONS = [
    lambda x, a: math.exp(x) - a,
    lambda x, a: x**3 - a,
    lambda x, a: math.tanh(x) - a / (1 + a),
    lambda x, a: max(x - a, -1e-9),
    lambda x, a: math.copysign(1.0, x - a),
    lambda x, a: 1e-300 * (x - a) ** 3,
]


@given(st.sampled_from(FUNCTIONS), st.floats(0.01, 20.0), st.sampled_from([1e-14, 2e-12, 1e-6]))
def test_it_is_that_of_scipy_to_the_last_bit(function, a, xtol):
    low, high = -6.0, 21.0
    for rtol in (2.0**-50, 1e-12):
        given_scipy = brentq(function, low, high, args=(a,), xtol=xtol, rtol=rtol)
        assert root(lambda x: function(x, a), low, high, xtol=xtol, rtol=rtol) == given_scipy


def test_no_bracket_is_an_error():
    with pytest.raises(ValueError, match="one sign"):
        root(lambda x: x * x + 1.0, 0.0, 1.0)

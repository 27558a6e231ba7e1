"""Private ratios: local sensitivities by enumeration, and the worst pair of the published code."""

from fractions import Fraction

import pytest

from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.local_sensitivity import PublishedBoundedRatio
from epsaudit.mechanisms.ratio import answers, local_sensitivity


def enumerated(ones, records):
    """The greatest change of the share by one record more or less, in rational numbers."""
    moves = [(1, 1), (0, 1), (-1, -1), (0, -1)]
    neighbours = [(ones + a, records + b) for a, b in moves if 0 <= ones + a <= records + b]
    return max(abs(Fraction(ones, records) - Fraction(*one)) for one in neighbours)


@pytest.mark.parametrize("records", range(2, 31))
def test_local_sensitivities_of_a_share_against_enumeration(records):
    for ones in range(records + 1):
        assert local_sensitivity(ones, records) == pytest.approx(float(enumerated(ones, records)), rel=1e-12)


@pytest.mark.parametrize("records", range(2, 31))
def test_the_published_formula_is_too_large_where_all_records_are_alike_and_right_elsewhere(records):
    for ones in range(records + 1):
        published = Fraction(max(records - ones, ones), records**2 - records)
        assert (published > enumerated(ones, records)) == (ones in (0, records))


@pytest.mark.slow  # a mixture over both noisy counts takes a second each
def test_the_pair_that_is_audited_is_worse_than_half_and_half_and_than_its_neighbours():
    mechanism = PublishedBoundedRatio(1.0, 1e-6)

    def epsilon(ones, zeros):
        return exact.epsilon(mechanism(answers(ones, zeros)), mechanism(answers(ones, zeros - 1)), 1e-6)

    worst = epsilon(249, 83)
    assert (mechanism.pair.x, mechanism.pair.x_prime) == (answers(249, 83), answers(249, 82))
    assert worst == pytest.approx(5.834, abs=1e-3)
    assert epsilon(160, 160) == pytest.approx(3.133, abs=1e-3)
    assert epsilon(200, 200) == pytest.approx(2.733, abs=1e-3)
    assert worst > max(epsilon(249 + i, 83 + j) for i, j in ((4, 0), (-4, 0), (0, 4), (0, -4)))

"""Outputs with many places: every place is screened, and the result states how many were only screened.

Seeds are fixed. Each leak is at least 12 standard errors of its screening test, so that chance hides none.
"""

import numpy as np
import pytest

from epsaudit import PureDP, audit, vectorized
from epsaudit.experiments.black_box_functions import BOXES
from epsaudit.outputs.arrays import pack
from epsaudit.outputs.layouts import parts_at
from epsaudit.search.output_fields import OutputFields
from epsaudit.search.rare_regions import find_rare_regions
from epsaudit.search.readers import find_features
from epsaudit.witnesses.conditions import write_condition
from epsaudit.witnesses.parts import CategoryCode, Coordinate, NumberAt

RATES = (0.25, 0.75)


def leaky(side, size, rng, shape, at):
    """Return noise whose sign at one coordinate is a bit that is more likely under x'."""
    x = rng.normal(size=(size, int(np.prod(shape))))
    x[:, at] = np.where(rng.random(size) < RATES[side], 1, -1) * np.abs(x[:, at])
    return x.reshape(size, *shape)


def sides_of(make, size=1000):
    return [pack(make(side, size, np.random.default_rng(side))) for side in (0, 1)]


def mapping(side, size, rng):
    return [{f"k{place:04}": value for place, value in enumerate(row)} for row in leaky(side, size, rng, (1500,), 900)]


def records(side, size, rng):
    return [[dict(zip("abc", row, strict=True)) for row in x] for x in leaky(side, size, rng, (300, 3), 667).tolist()]


def image(side, size, rng):
    return [{"image": x, "label": int(x[0, 0] > 0)} for x in leaky(side, size, rng, (28, 28), 703)]


def beside(side, size, rng):
    pictures, bits = rng.normal(size=(size, 28, 28)), leaky(side, size, rng, (1,), 0)[:, 0]
    return [{"image": picture, "n": float(bit)} for picture, bit in zip(pictures, bits, strict=True)]


@pytest.mark.parametrize(
    ("make", "path", "places"),
    [
        pytest.param(mapping, ("k0900",), 1500, marks=pytest.mark.slow),
        pytest.param(records, (222, "b"), 900, marks=pytest.mark.slow),
        (beside, ("n",), 785),
    ],
)
def test_a_leak_in_one_of_many_places_is_looked_at_and_the_rest_counted(make, path, places):
    fields = OutputFields.find(*sides_of(make, 300))
    assert NumberAt(path) in fields.numbers
    assert (fields.places, fields.left_out, fields.n_unscreened) == (places, places - 512, 0)


def test_places_that_were_only_screened_are_counted_in_the_result():
    result = audit(vectorized(beside, claim=PureDP(0.3)), (0, 1), trials=1000, seed=1, n_jobs=1)
    assert any("785 places; 273 of them were examined by a quick screening test only" in note for note in result.notes)


def test_arrays_inside_records_are_read_as_arrays():
    outputs = pack([{"image": np.arange(6.0).reshape(2, 3) + run} for run in range(3)])
    assert parts_at(outputs, ("image",)).shape == (3, 2, 3)
    assert parts_at(outputs, ("image", 4)).tolist() == [4.0, 5.0, 6.0]


@pytest.mark.parametrize("size", [pytest.param(784, marks=pytest.mark.slow), 1000])
def test_two_coordinates_that_only_tell_together_are_found_among_all_pairs(size):
    x, x_prime = np.random.default_rng(0).normal(size=(2, 1000, size))
    x_prime[:, 7] = np.abs(x_prime[:, 7]) * np.sign(x_prime[:, 650])
    found = find_features(x, x_prime)
    assert "y[7] * y[650]" in [one.label for one in found.univariate]
    assert any(
        f"the search for rare regions of two fields covered 6 of {size:,} fields" in note for note in found.notes
    )


@pytest.mark.parametrize("sizes", [pytest.param((8, 9), marks=pytest.mark.slow), (7, 9)], ids=["vectors", "lists"])
def test_a_value_at_a_place_and_another_anywhere_are_one_event(sizes):
    def function(data, rng):  # on x', nine of ten lists of this form are drawn again
        while True:
            y = rng.integers(0, 10, rng.integers(*sizes)).tolist()
            if not (data and y[3] == 7 and 2 in y) or rng.random() > 0.9:
                return y

    result = audit(function, ([], [1]), claim=PureDP(0.5), trials=20_000, seed=1, n_jobs=1)
    assert str(result.witness) == "{(y[3] = 7 and y has 2)}"
    assert result.lower_bound > 1.5
    assert write_condition(result.witness.guess_x) == (
        "(7.0 <= number(y, 3) <= 7.0 and (getattr(y, 'ndim', 1) and not isinstance(y, str) and 2.0 in map(plain, "
        "getattr(getattr(y, 'flat', y), '__iter__', tuple)())))"
    )


def test_an_atom_of_a_long_array_is_found_wherever_it_is():
    x, x_prime = np.random.default_rng(0).laplace(size=(2, 2000, 784))
    x_prime[:60, 700] = 0.125
    assert CategoryCode((700,), (0.125,)) in find_features(x, x_prime).univariate


@pytest.mark.slow
def test_what_chance_chose_of_very_many_coordinates_is_not_learnt_from_where_one_surely_tells():
    """The leaking coordinate alone certifies 0.8.

    A score of a thousand other coordinates, selected by the same outputs, would certify next to nothing.
    """
    wide = vectorized(lambda data, size, rng: leaky(data, size, rng, (5000,), 3333), claim=PureDP(0.3))
    result = audit(wide, (0, 1), trials=2000, seed=1, n_jobs=1)
    assert result.lower_bound > 0.6
    assert "y[3333]" in str(result.witness)


@pytest.mark.slow
def test_a_faint_direction_of_a_long_array_is_found():
    """The arrays differ by 0.4 standard deviations in one direction.

    The best event certifies 1.0, an earlier version of the search 0.1.
    """
    direction = np.random.default_rng(7).normal(size=400)
    direction *= 0.4 / np.linalg.norm(direction)
    wide = vectorized(lambda data, size, rng: rng.normal(size=(size, 400)) + data * direction, claim=PureDP(0.3))
    assert audit(wide, (0, 1), trials=100_000, seed=1, n_jobs=1).lower_bound > 0.4


FIELDS = [Coordinate(0), Coordinate(1)]


def test_an_empty_box_of_one_in_a_thousand_is_seen_in_fifty_thousand_outputs():
    x, x_prime = (BOXES["empty box in two fields"].draw(side, 50_000, np.random.default_rng(side)) for side in (0, 1))
    (table,), _ = find_rare_regions(FIELDS, x, x_prime)
    shares = [np.mean(table(side) == 4.0) for side in (x, x_prime)]
    assert shares[0] < 2e-4
    assert shares[1] > 6e-4


def test_what_two_fields_tell_alone_is_no_region_of_both():
    """Chance makes a region in one of 200 datasets, so that at most two of 30 have one with probability 99.9 %."""
    found = 0
    for seed in range(30):
        x, x_prime = np.random.default_rng(seed).laplace(size=(2, 5_000, 2))
        found += len(find_rare_regions(FIELDS, x + 0.5, x_prime)[0]) > 0
    assert found <= 2


def test_a_pair_of_names_is_among_the_likeliest_where_nothing_else_tells():
    """Among 50,000 outputs, 15 with this pair of names are expected on x' and none on x.

    Chance may do the same for one of ten thousand pairs, so that the pair is not significant.
    """
    x, x_prime = (pack(BOXES["rare pair of names"].draw(side, 50_000, np.random.default_rng(side))) for side in (0, 1))
    found, _ = find_rare_regions(OutputFields.find(x, x_prime).symbols, x, x_prime)
    assert [table.written([0]) for table in found] == ["(y['first'] = 'n17' and y['last'] = 'm61')"]

"""Rare regions of two fields: found where an oracle's event would be, and not where nothing tells."""

import dataclasses

import numpy as np
import pytest

from epsaudit import audit, vectorized
from epsaudit.experiments.black_box_functions import BOXES
from epsaudit.experiments.black_boxes import CLAIM
from epsaudit.outputs.normal_form import pack
from epsaudit.witnesses.encoding import Fields, most_read, rare_regions
from epsaudit.witnesses.features import Coordinate
from epsaudit.witnesses.settings import LOOK

FIELDS = [Coordinate(0), Coordinate(1)]


def test_an_empty_box_of_one_in_a_thousand_is_seen_in_fifty_thousand_outputs():
    x, x_prime = (BOXES["empty box in two fields"].draw(side, 50_000, np.random.default_rng(side)) for side in (0, 1))
    (table,), _ = rare_regions(FIELDS, x, x_prime)
    shares = [np.mean(table(side) == 4.0) for side in (x, x_prime)]
    assert shares[0] < 2e-4
    assert shares[1] > 6e-4


def test_what_two_fields_tell_alone_is_no_region_of_both():
    """Of 30 pairs of sides at most two have a region by chance, of which one in 200 has: with probability 99.9 %."""
    found = 0
    for seed in range(30):
        x, x_prime = np.random.default_rng(seed).laplace(size=(2, 5_000, 2))
        found += len(rare_regions(FIELDS, x + 0.5, x_prime)[0]) > 0
    assert found <= 2


def test_a_pair_of_names_is_among_the_likeliest_where_nothing_else_tells():
    """Of 50,000 outputs 15 are expected on x' and none on x, which chance may make of one of ten thousand pairs."""
    x, x_prime = (pack(BOXES["rare pair of names"].draw(side, 50_000, np.random.default_rng(side))) for side in (0, 1))
    found, _ = rare_regions(Fields.of(x, x_prime).symbols, x, x_prime)
    assert [table.written([0]) for table in found] == ["(y['first'] = 'n17' and y['last'] = 'm61')"]


@pytest.mark.nightly
def test_a_pair_of_names_that_only_one_side_shows_is_refuted():
    box = dataclasses.replace(BOXES["rare pair of names"], rates=(0.0, 1e-3))
    result = audit(vectorized(box.draw, claim=CLAIM, name=box.name), (0, 1), trials=400_000, seed=0)
    assert result.lower_bound > 2.0
    assert "y['first'] = 'n17' and y['last'] = 'm61'" in str(result.witness)


def test_short_objects_are_all_read_and_long_ones_in_part():
    short, long = (np.empty(100, object) for _ in range(2))
    short[:], long[:] = [("a", 1.0)] * 100, [("a" * 500, 1.0)] * 100
    assert most_read(short) > 100_000
    assert most_read(long) == LOOK


def test_a_region_of_infinite_numbers_is_found_as_it_is():
    """Where one field is infinite, the other falls into an interval on one side alone: no edge of the first moves."""
    x, x_prime = np.random.default_rng(3).random((2, 20_000, 2))
    for side in (x, x_prime):
        side[side[:, 0] < 0.1, 0] = np.inf
    x_prime[(x_prime[:, 0] == np.inf) & (np.abs(x_prime[:, 1] - 0.5) < 0.03), 1] = 0.9
    (region,), _ = rare_regions([Coordinate(0), Coordinate(1)], x, x_prime)
    assert region.edges[1] == np.inf
    inside = [np.asarray(region(side)) == 4.0 for side in (x, x_prime)]
    assert np.count_nonzero(inside[0]) > 10 * np.count_nonzero(inside[1])

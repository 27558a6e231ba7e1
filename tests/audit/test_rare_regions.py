"""Rare regions of two fields: found where an oracle's event would be, and not where nothing tells."""

import numpy as np

from epsaudit.experiments.black_box_functions import BOXES
from epsaudit.outputs.normal_form import pack
from epsaudit.witnesses.encoding import Fields, rare_regions
from epsaudit.witnesses.features import Coordinate

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

"""Outputs that are mappings: which key is there, the number at it, and JSON that brings both back."""

import json
import math

import numpy as np
import pytest

from epsaudit.witnesses.features import Coordinate, Entry, Presence, feature_from_json, feature_to_json
from epsaudit.witnesses.scores import features_of


def outputs(*values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def test_presence_and_entry_read_mappings_and_nothing_else():
    seen = outputs((("a", 1.5), (None, 2.0)), (), None, (1.0, 2.0))
    assert Presence("a")(seen)[:2].tolist() == [1.0, 0.0]
    assert Presence(None)(seen)[:2].tolist() == [1.0, 0.0]
    assert np.isnan(Presence("a")(seen)[2:]).all()
    assert Entry("a")(seen)[0] == 1.5
    assert np.isnan(Entry("a")(seen)[1:]).all()


@pytest.mark.parametrize("key", ["a", None, 3, 2.5, ("a", 1), math.inf])
def test_features_survive_json(key):
    for feature in (Presence(key), Entry(key)):
        assert feature_from_json(json.loads(json.dumps(feature_to_json(feature)))) == feature


def test_the_most_telling_key_comes_first_and_vectors_keep_their_coordinates():
    x = outputs(*[(("a", 1.0), ("b", 2.0))] * 50, *[(("a", 1.0),)] * 50)
    x_prime = outputs(*[(("a", 1.0),)] * 100)
    assert features_of(x, x_prime)[:2] == [Presence("b"), Entry("b")]
    plain = outputs(*[(1.0, 2.0, 3.0)] * 10)
    assert Coordinate(0) in features_of(plain, plain)
    assert not any(isinstance(feature, Presence) for feature in features_of(plain, plain))

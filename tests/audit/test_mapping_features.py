"""Outputs that are mappings: which key is there, the number at it, and JSON that brings both back."""

import json
import math

import numpy as np
import pytest

from epsaudit.outputs.normal_form import Items, pack
from epsaudit.witnesses.encoding import Features, features_of
from epsaudit.witnesses.features import At, Contains, Coordinate, feature_from_dict, feature_to_dict


def test_keys_and_their_numbers_are_read_off_mappings():
    seen = pack([{"a": 1.5, None: 2.0}, {}, None, {"b": 1}])
    assert Contains("a")(seen).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert Contains(None)(seen).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert At(("a",))(seen)[0] == 1.5
    assert np.isnan(At(("a",))(seen)[1:]).all()


@pytest.mark.parametrize("key", ["a", None, 3.0, 2.5, ("a", 1.0), math.inf])
def test_features_survive_json(key):
    for feature in (Contains(key), At((key,))):
        assert feature_from_dict(json.loads(json.dumps(feature_to_dict(feature)))) == feature


def test_the_most_telling_key_comes_first_and_vectors_keep_their_coordinates():
    x = pack([{"a": 1.0, "b": 2.0}] * 50 + [{"a": 1.0}] * 50)
    x_prime = pack([{"a": 1.0}] * 100)
    assert features_of(x, x_prime) == [Contains("b"), Contains("a")]
    assert At(("b",)) in Features.of(x, x_prime).alone
    plain = pack([(1.0, 2.0, 3.0)] * 10 + [None])
    assert Coordinate(0) in Features.of(plain, plain).alone
    assert not any(isinstance(feature, Contains) for feature in features_of(plain, plain))


def test_a_mapping_is_no_tuple_of_pairs():
    assert Items.of({"a": 1.0}) != (("a", 1.0),)
    assert Items.of({}) != ()
    assert len({Items.of({}), ()}) == 2

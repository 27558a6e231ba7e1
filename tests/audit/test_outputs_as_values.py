"""Outputs are values of their own: neither their neighbours nor what a function does later changes one.

Each sound function's single release is exactly 1-DP; at 99.99 % an audit refutes it by chance once in 10,000. Each
leaky one has half of the noise that its claim needs, and hides it in memory that it uses again.
"""

import json
import math
import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.outputs.as_json import from_json, to_json
from epsaudit.outputs.normal_form import normal, normal_array, pack, values_of

PAIR = DatasetPair(0, 1)
CLAIM = PureDP(1.0)
LAST_BIT = np.finfo(np.longdouble).eps


def whole_numbers_beside_rare_floats(data, rng):
    """A float among whole numbers made floats of all in its block, and 'no float in this block' looked like a leak."""
    u = rng.random()
    if u < 0.001:
        return None
    return 0.5 if u < 0.001 + 0.04 * (math.e if data else 1.0) else 0


def test_numbers_of_two_types_in_one_block():
    sound = black_box(whole_numbers_beside_rare_floats, claim=CLAIM, pairs=[PAIR])
    assert not audit(sound, trials=50_000, confidence=0.9999, seed=0, n_jobs=1).violates_claim
    assert audit_sequentially(sound, trials=20_000, confidence=1 - 1e-6, seed=0, n_jobs=1).stopped != "refuted"


def short_floats_beside_refusals(data, rng):
    return None if rng.random() < 0.01 else np.float32(data + rng.laplace())


def long_integers_beside_floats(data, rng):
    return 0.5 if rng.random() < 0.01 else int(2**60 * (8 + data + rng.laplace()))


@pytest.mark.parametrize("function", [short_floats_beside_refusals, long_integers_beside_floats])
def test_numbers_that_a_block_could_round(function):
    sound = black_box(function, claim=CLAIM, pairs=[PAIR])
    for seed in range(2):
        assert not audit(sound, trials=20_000, confidence=0.9999, seed=seed, n_jobs=1).violates_claim


def leaky(make):
    """A function with half of the noise that writes its answer into memory of its own."""
    kept = make()

    def function(data, rng):
        kept[0] = data + 0.5 * rng.laplace()
        return kept

    return function


def leaky_mapping():
    kept = {}

    def function(data, rng):
        kept["answer"] = data + 0.5 * rng.laplace()
        return kept

    return function


@pytest.mark.parametrize(
    "function", [leaky(lambda: np.zeros(1)), leaky(lambda: [0.0]), leaky_mapping()], ids=["array", "list", "mapping"]
)
def test_an_object_that_is_filled_again_for_every_run(function):
    mechanism = black_box(function, claim=CLAIM, pairs=[PAIR])
    assert audit(mechanism, trials=8_000, confidence=0.9999, seed=1, n_jobs=1).violates_claim
    assert audit_sequentially(mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1).stopped == "refuted"


@pytest.mark.parametrize("dtype", [float, np.float32, object])
def test_a_buffer_that_is_filled_again_for_every_call(dtype):
    buffer = np.zeros(1 << 17, dtype)

    def function(data, size, rng):
        buffer[:size] = data + 0.5 * rng.laplace(size=size)
        return buffer[:size]

    mechanism = vectorized(function, claim=CLAIM, pairs=[PAIR])
    assert audit(mechanism, trials=8_000, confidence=0.9999, seed=1, n_jobs=1).violates_claim
    assert audit_sequentially(mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1).stopped == "refuted"


UNLIKE = {
    "nanoseconds": (lambda: pd.Timestamp(0, unit="ns"), lambda: pd.Timestamp(1, unit="ns")),
    "long doubles": (lambda: np.longdouble(1), lambda: np.longdouble(1) + LAST_BIT),
    "vectors of long doubles": (lambda: np.full(2, 1, np.longdouble), lambda: np.full(2, 1 + LAST_BIT)),
    "complex long doubles": (lambda: np.clongdouble(1j), lambda: np.clongdouble(1j) * (1 + LAST_BIT)),
    "no time and nothing": (lambda: np.datetime64("NaT"), lambda: None),
    "no times and nothings": (lambda: np.full(2, "NaT", "datetime64[s]"), lambda: [None, None]),
    "complex numbers with a NaN": (lambda: complex(math.nan, 1), lambda: complex(math.nan, 2)),
    "a complex number and a pair": (lambda: 1j, lambda: (0, 1)),
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_what_differs_stays_different(kind):
    first, second = (make() for make in UNLIKE[kind])
    assert normal(first) != normal(second)
    for value in (first, second):
        form = normal(value)
        assert {from_json(json.loads(json.dumps(to_json(form))))} == {form}  # of one object for NaN
        assert {form, normal(value), *values_of(pack([value])), values_of(pack([value, "a"]))[0]} == {form}


def test_a_column_of_numbers_keeps_what_no_float_holds():
    for column in (np.array([1, 1 + LAST_BIT]), np.array([1, 1 + LAST_BIT]) * 1j, np.array(["NaT", 0], "M8[s]")):
        assert values_of(normal_array(column)) == [normal(value) for value in column]
        assert len(set(normal_array(column).tolist())) == 2


def test_every_nan_is_one():
    nans = [math.nan, np.nan, Decimal("nan"), Decimal("sNaN"), complex("nan"), np.longdouble("nan"), pd.NaT]
    nans += [np.datetime64("NaT"), np.timedelta64("NaT"), np.float32("nan")]
    assert {normal(value) for value in nans} == {normal(math.nan)}


def holds_itself():
    kept = []
    kept.append(kept)
    return kept


def deep():
    value = ()
    for _ in range(5_000):
        value = (value,)
    return value


@pytest.fixture
def usual_depth():
    """Python's own limit of recursion, which some library may have raised."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_depth")
def test_lists_too_deep_in_a_file_are_no_output():
    data = 1.0
    for _ in range(5_000):
        data = [data]
    with pytest.raises(AuditError, match="is not an output"):
        from_json(data)


EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))


@pytest.mark.parametrize("make", [lambda: EARLY, holds_itself, deep], ids=["early", "holds itself", "deep"])
@pytest.mark.usefixtures("usual_depth")
def test_an_output_without_a_normal_form_is_refused_in_a_sentence(make):
    for function, adapter in [(lambda data, rng: make(), black_box), (lambda data, rng: [1.0, make()], black_box)]:
        with pytest.raises(AuditError, match="cannot be compared; return numbers"):
            adapter(function)(0).sample(1, np.random.default_rng(0))

"""Outputs are the same outputs whatever else is in their block, and of whatever dtype a mechanism returns them."""

import math

import numpy as np
import pytest

from epsaudit import DatasetPair, PureDP, audit, black_box, vectorized
from epsaudit.outputs.normal_form import Array, join

PAIR = DatasetPair(0, 1)
RECORD = np.dtype([("count", "f8"), ("cell", "i4")])


def records(told):
    made = np.zeros(len(told), RECORD)
    made["cell"] = told
    return made


KINDS = {
    "arrays of strings": lambda told: np.where(told[:, None], [["a", "b"]], [["a", "c"]]),
    "complex numbers": lambda told: np.where(told, 1 + 2j, 1 + 3j),
    "records": records,
    "masked numbers": lambda told: np.ma.masked_array(np.ones(len(told)), mask=told),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", KINDS)
def test_a_leak_is_seen_in_outputs_of_every_dtype(kind):
    """Told with probability 0.5 on x and 0.9 on x', so epsilon is log 5."""

    def flip(data, size, rng):
        return KINDS[kind](rng.random(size) < (0.9 if data else 0.5))

    bound = audit(vectorized(flip, claim=PureDP(1.0), pairs=[PAIR]), trials=20_000, seed=1, n_jobs=1).lower_bound
    assert 1.3 < bound <= math.log(5)


@pytest.mark.parametrize(("shape", "rate", "trials"), [(3, 0.2, 5_000), ((2, 2), 5e-3, 20_000)])
def test_refusals_and_exceptions_among_arrays_are_outcomes(shape, rate, trials):
    """Blocks without any are arrays, blocks with one are objects; on x none is ever seen."""

    def noisy(data, rng):
        if rng.random() < data * rate:
            raise ValueError("too few")
        return rng.normal(size=shape)

    result = audit(black_box(noisy, claim=PureDP(1.0), pairs=[PAIR]), trials=trials, seed=1, n_jobs=1)
    assert result.violates_claim
    assert "ValueError" in str(result.witness)


def test_matrices_among_refusals_keep_their_shape():
    (matrix, refusal) = join([np.arange(4.0).reshape(1, 2, 2), np.array([None], dtype=object)]).tolist()
    assert matrix == Array.of((0.0, 1.0, 2.0, 3.0), (2, 2)) != Array.of((0.0, 1.0, 2.0, 3.0), (4, 1))
    assert matrix != (0.0, 1.0, 2.0, 3.0)
    assert refusal is None


def test_the_shape_of_a_matrix_may_tell():
    """(2, 3) on x and (3, 2) on x', with a refusal now and then, so that blocks are objects."""

    def shaped(data, rng):
        if rng.random() < 0.01:
            return None
        return np.zeros((2, 3) if data else (3, 2))

    assert audit(black_box(shaped, claim=PureDP(1.0), pairs=[PAIR]), trials=20_000, seed=1).violates_claim

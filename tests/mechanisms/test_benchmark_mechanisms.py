"""The public benchmark's mechanisms against the catalogue's exact facts, and samplers against their own laws.

Chi-square and weighing tests have fixed seeds and reject a right sampler with probability 1e-4 at most.
"""

import numpy as np
import pytest

from epsaudit.experiments.benchmark_rows import rows
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.additive import LaplaceInDoubles
from epsaudit.mechanisms.broken.sparse_vector import SparseVector4, SparseVector5, SparseVector6
from epsaudit.mechanisms.sparse_vector import SparseVector1, SparseVector2

ROWS = {row.name: row for row in rows()}


def greatest_loss(mechanism, x, x_prime):
    law, law_prime = mechanism(x), mechanism(x_prime)
    log_p, log_p_prime = (np.asarray(one.log_density(np.array(law.support))) for one in (law, law_prime))
    with np.errstate(invalid="ignore"):
        return np.nanmax(np.abs(log_p - log_p_prime))


@pytest.mark.parametrize(("count", "loss"), [(1, 1.75), (2, 3.25)])
def test_sparse_vector_4_attains_what_can_be_proven(count, loss):
    found = greatest_loss(SparseVector4(1.0, count, 0.0), (0,) * 20, (1,) * (20 - count) + (-1,) * count)
    assert found == pytest.approx(loss, abs=1e-3)
    assert SparseVector4(1.0, count).truth.parameter == pytest.approx(loss)


@pytest.mark.parametrize(("m", "loss"), [(1, 0.82), (2, 1.70), (4, 3.55)])
def test_sparse_vector_6_has_no_end(m, loss):
    found = greatest_loss(SparseVector6(1.0, 1, 0.0), (0,) * (2 * m), (1,) * m + (-1,) * m)
    assert found == pytest.approx(loss, abs=0.01)


def test_sparse_vector_5_separates_two_answers():
    law, law_prime = (SparseVector5(1.0, threshold=0.0)(x) for x in ((0, 1), (1, 0)))
    outcome = np.array([[0, 1]])
    assert np.exp(law.log_density(outcome)) == pytest.approx(0.197, abs=5e-4)
    assert law_prime.log_density(outcome) == -np.inf


@pytest.mark.parametrize("mechanism", [SparseVector1(1.0, 1, 0.0), SparseVector2(1.0, 2, 0.0)])
def test_sparse_vector_1_and_2_keep_their_claim_on_random_neighbours(mechanism):
    rng = np.random.default_rng(5)
    losses = []
    for _ in range(20):
        x = rng.normal(0.0, 3.0, 7)
        losses.append(greatest_loss(mechanism, tuple(x), tuple(x + rng.choice([-1.0, 1.0], 7))))
    assert max(losses) <= 1.0 + 1e-9
    assert max(losses) > 0.5


@pytest.mark.parametrize(
    "name",
    ["truncated geometric", "report noisy max 1", "report noisy max 2", "report noisy max 3"]
    + [f"sparse vector {i}" for i in (1, 2, 4, 5, 6)],
)
def test_the_exact_column_is_what_the_laws_say(name):
    row = ROWS[name]
    sides = row.mechanism(row.pair.x), row.mechanism(row.pair.x_prime)
    value = exact.exact_parameter(row.mechanism.claim, *sides)
    assert value == pytest.approx(row.exact, abs=6e-5)


def test_laplace_in_doubles_cannot_reach_fine_bits_from_one():
    fine = [np.mean(np.mod(LaplaceInDoubles(1.0)(x).sample(50_000, np.random.default_rng(1)) * 2.0**53, 1.0) != 0)
            for x in ((), ("ann",))]  # fmt: skip
    assert fine[0] > 0.2
    assert fine[1] == 0.0

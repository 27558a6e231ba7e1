"""Bounded noise: its bound on the composition against exact convolutions, accuracy in every run, incorrect variants."""

import numpy as np
import pytest

from epsaudit import audit
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.broken.down_sensitivity import BoundedSearchCountedOnce
from epsaudit.mechanisms.down_sensitivity import BoundedBinarySearch, CosineLaw, crowds
from epsaudit.mechanisms.queries import Maximum, Total


def composed_delta(law: CosineLaw, epsilon: float, steps: int) -> float:
    """Exactly, by going through all tuples of outcomes."""
    p, q = np.exp(np.append(law.log_probabilities, -np.inf)), np.exp(np.append(-np.inf, law.log_probabilities))
    all_p, all_q = p, q
    for _ in range(steps - 1):
        all_p, all_q = np.multiply.outer(all_p, p).ravel(), np.multiply.outer(all_q, q).ravel()
    return float(np.maximum(all_p - np.exp(epsilon) * all_q, 0.0).sum())


@pytest.mark.parametrize(("reach", "power", "steps"), [(4, 3, 1), (12, 4, 2), (20, 5, 3), (9, 10, 4)])
def test_the_bound_is_above_the_exact_composition_and_within_a_factor(reach, power, steps):
    law = CosineLaw(reach, power)
    for epsilon in (0.3, 1.0, 2.0):
        truth = composed_delta(law, epsilon, steps)
        assert truth <= law.delta(epsilon, steps) <= 20 * truth + 1e-12


@pytest.mark.parametrize("query", [Maximum(range(50)), Total(range(0, 50))])
def test_every_run_is_accurate(query):
    mechanism, rng = BoundedBinarySearch(query, 1.0, 1e-3), np.random.default_rng(2)
    wrap = (lambda v: (None,) * v) if isinstance(query, Total) else (lambda v: v)
    for records in (0, 3, 90, 400):
        dataset = tuple(wrap(int(value)) for value in rng.integers(0, 4, records))
        answer = query.value(dataset)
        least = answer - query.down_sensitivity(dataset, 2 * mechanism.tau)
        outputs = mechanism(dataset).sample(2000, rng)
        assert least <= outputs.min() <= outputs.max() <= answer
        # and not only as far as runs go: no other output is possible
        law = mechanism(dataset)
        possible = np.array(law.support)[np.exp(law.log_probabilities) > 0.0]
        assert least <= possible.min() <= possible.max() <= answer


def test_the_claim_holds_for_every_crowd_and_that_of_one_comparison_does_not():
    sound, broken = (one(Maximum(range(64)), 1.0, 0.01) for one in (BoundedBinarySearch, BoundedSearchCountedOnce))
    for mechanism, exceeds in ((sound, False), (broken, True)):
        pairs = [crowds(mechanism.query, loss) for loss in range(2 * mechanism.tau + 1)]
        worst = max(exact.epsilon(mechanism(pair.x), mechanism(pair.x_prime), 0.01) for pair in pairs)
        assert (worst > 1.0) == exceeds
        assert audit(mechanism, trials=40_000, seed=3, confidence=0.999).violates_claim == exceeds

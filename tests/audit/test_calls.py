"""Functions with a seed, and asynchronous ones, are audited like others."""

import asyncio
import random

import numpy as np
import pytest

from epsaudit import AuditError, PureDP, audit, black_box
from epsaudit.adapters.calls import awaited, seeded

PAIR = (["ann"], ["ann", "bob"])


def made(epsilon):
    def count(people, seed):
        rng = random.Random(seed)
        return len(people) + (rng.expovariate(epsilon) - rng.expovariate(epsilon))

    return black_box(seeded(count), claim=PureDP(1.0), pairs=[PAIR])


def awaiting(scale):
    async def count(people, rng):
        await asyncio.sleep(0.0)
        return len(people) + rng.laplace(scale=scale)

    return black_box(awaited(count), claim=PureDP(1.0), pairs=[PAIR])


@pytest.mark.parametrize("mechanisms", [(made(1.0), made(2.0)), (awaiting(1.0), awaiting(0.5))], ids=["seed", "async"])
def test_half_the_noise_is_refuted_the_right_one_is_not_and_both_are_reproducible(mechanisms):
    right, wrong = (audit(one, trials=1_500, confidence=0.999, seed=1, n_jobs=1) for one in mechanisms)
    assert not right.violates_claim
    assert wrong.violates_claim
    assert wrong.reproducible
    assert wrong.mechanism == "count"
    assert audit(mechanisms[1], trials=1_500, confidence=0.999, seed=1, n_jobs=1).counts == wrong.counts


def test_a_seed_of_another_name_is_named():
    def count(people, random_state):
        return random.Random(random_state).random()

    assert 0.0 < seeded(count, "random_state")([], np.random.default_rng(1)) < 1.0
    with pytest.raises(AuditError, match="The function takes people, random_state, and no 'seed'; give its name"):
        seeded(count)

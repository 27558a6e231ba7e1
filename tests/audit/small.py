"""A mechanism and results that many tests ask for: Laplace noise, what each kind of audit finds of it, and a suite."""

from functools import cache

import numpy as np

from epsaudit import (
    AuditResult,
    DatasetPair,
    OneRunResult,
    PureDP,
    SequentialResult,
    audit,
    audit_scores,
    audit_sequentially,
    vectorized,
)
from epsaudit.audits.suite import run_suite
from epsaudit.running.registry import registered

NAMES = ("laplace", "gaussian-gdp", "broken/laplace-half-noise")


def noisy(scale=1.0, epsilon=1.0):
    """Laplace noise of a scale on a number, and the claim that it is epsilon-DP."""

    def draw(data, size, rng):
        return data + rng.laplace(scale=scale, size=size)

    return vectorized(draw, claim=PureDP(epsilon), pairs=[DatasetPair(0, 1)], name="noisy")


@cache
def kinds():
    """A result of each kind of audit, by its class: of two events, of one, and of one run."""
    rng = np.random.default_rng(1)
    coins = rng.random(1_000) < 0.5
    return {
        AuditResult: audit(noisy(epsilon=0.5), trials=4_000, seed=1, n_jobs=1),
        SequentialResult: audit_sequentially(noisy(epsilon=0.5), trials=2_000, seed=1, n_jobs=1),
        OneRunResult: audit_scores(coins, coins + rng.laplace(size=1_000), claim=PureDP(1.0), name="mine", seed=3),
    }


@cache
def suite():
    """A result of each of three registered mechanisms, the last of which is refuted."""
    return list(run_suite([registered()[name] for name in NAMES], trials=20_000, n_jobs=1))

"""The claim of DP-SGD: the loss distribution of a Poisson-sampled Gaussian, composed with itself by dp-accounting.

From sampling rate, noise and number of steps it computes (epsilon, delta), for adding or removing one record.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from epsaudit.accounting import INTERVAL, library
from epsaudit.claims import ApproxDP


@functools.lru_cache(maxsize=64)
def composed(rate: float, noise_multiplier: float, steps: int) -> Any:
    """Loss distribution of ``steps`` sums of sampled vectors of norm 1 with noise of that standard deviation.

    Each record is in a batch with probability ``rate``, independently (Poisson sampling). Pessimistic, as dp-accounting
    rounds losses up; the larger of adding and removing.

    Raises
    ------
    AuditError
        If dp-accounting is not installed.
    """
    single = library().from_gaussian_mechanism(
        noise_multiplier, sampling_prob=rate, value_discretization_interval=INTERVAL, use_connect_dots=True
    )
    return single.self_compose(steps) if steps > 1 else single


@functools.lru_cache(maxsize=64)
def poisson_claim(rate: float, noise_multiplier: float, steps: int, delta: float) -> ApproxDP:
    """Return the (epsilon, delta)-DP of DP-SGD with Poisson sampling.

    Examples
    --------
    Without sampling it is Gaussian DP of mu = sqrt(steps) / noise:

    >>> from epsaudit.claims import GaussianDP
    >>> ours, exact = poisson_claim(1.0, 4.0, 16, 1e-5).epsilon, GaussianDP(1.0).approximate(1e-5).epsilon
    >>> math.isclose(ours, exact, rel_tol=1e-3) and ours >= exact
    True
    """
    epsilon = float(composed(rate, noise_multiplier, steps).get_epsilon_for_delta(delta))
    return ApproxDP(epsilon, delta)


def full_batch_mu(noise_multiplier: float, steps: int) -> float:
    """Mu of the Gaussian DP of DP-SGD whose batches hold everybody (Dong, Roth and Su 2022, Corollary 3.3).

    Examples
    --------
    >>> full_batch_mu(4.0, 16)
    1.0
    """
    return math.sqrt(steps) / noise_multiplier

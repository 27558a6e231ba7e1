"""Claims computed from noise parameters by the dp-accounting library, for libraries that state none.

They hold for real numbers, so a mechanism that leaks by its last bits, or draws other noise than it documents, does not
satisfy them. Needs the extra ``accounting``.
"""

from __future__ import annotations

from epsaudit.claims.definitions import ApproxDP
from epsaudit.mechanisms import accounting


def gaussian(scale: float, delta: float) -> ApproxDP:
    """Claim of Gaussian noise at sensitivity 1.

    Examples
    --------
    >>> print(gaussian(1.0, 1e-5))
    (4.37718, 1e-05)-DP
    """
    return sampled_gaussian(scale, 1.0, delta)


def sampled_gaussian(scale: float, rate: float, delta: float) -> ApproxDP:
    """Claim of one sum of a Poisson sample with Gaussian noise, records at most 1 in norm: a step of DP-SGD.

    Examples
    --------
    >>> sampled_gaussian(2.0, 0.5, 1e-5).epsilon < gaussian(2.0, 1e-5).epsilon
    True
    """
    law = accounting.library().from_gaussian_mechanism(
        scale, sampling_prob=rate, value_discretization_interval=accounting.INTERVAL
    )
    return ApproxDP(law.get_epsilon_for_delta(delta), delta)

"""Exact privacy of a pair of known output laws: the ground truth for certified bounds.

The package takes two distributions that know their laws, and computes delta, epsilon, a divergence, or the least
parameter of a claim. Nothing here is random: finite laws are summed, densities on the line and mixtures integrated
to 1e-9.
"""

from epsaudit.mechanisms.exact.laws import knows_law
from epsaudit.mechanisms.exact.losses import NotKnownError
from epsaudit.mechanisms.exact.values import (
    PrivacyProfile,
    delta,
    epsilon,
    exact_parameter,
    likelihood_ratio_events,
    most_influential,
    renyi,
)

__all__ = [
    "NotKnownError",
    "PrivacyProfile",
    "delta",
    "epsilon",
    "exact_parameter",
    "knows_law",
    "likelihood_ratio_events",
    "most_influential",
    "renyi",
]

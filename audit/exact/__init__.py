"""Exact privacy of a pair of known output laws: the ground truth for certified bounds.

From two distributions that know their laws it computes delta, epsilon, a divergence or a claim's least parameter.
Nothing here is random: finite laws are summed, densities on the line and mixtures integrated to 1e-9.
"""

from epsaudit.exact.laws import knows_law
from epsaudit.exact.losses import NotKnownError
from epsaudit.exact.parameters import exact_parameter
from epsaudit.exact.profile import PrivacyProfile, delta, epsilon, likelihood_ratio_events, renyi

__all__ = [
    "NotKnownError",
    "PrivacyProfile",
    "delta",
    "epsilon",
    "exact_parameter",
    "knows_law",
    "likelihood_ratio_events",
    "renyi",
]

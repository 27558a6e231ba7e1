"""Binary search that tolerates wrong comparisons, so that its noise need not cover all of them at once.

For a monotone query and a noise budget the output is an underestimate of the answer, as from the other searches,
without their factor sqrt(log log |Y|). The price is a constant: see `TolerantSearch`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scipy.special import ndtri

from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP
from epsaudit.data.neighbours import AddRemove, DatasetPair
from epsaudit.errors import AuditError, fraction
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.down_sensitivity import crowds
from epsaudit.mechanisms.laws import NormalLaw
from epsaudit.mechanisms.queries import MonotoneQuery
from epsaudit.mechanisms.tolerant_law import ListedTolerantLaw, TolerantLaw, fits_a_list


@dataclass(frozen=True)
class TolerantSearch(Reference):
    """Search by T noisy comparisons of which a constant share may be wrong; T depends on |Y| and beta only.

    Beliefs w about which output to return start uniform. In each round m is their median, W_< and W_<= the belief
    below m and up to m; with probability (W_<= - 1/2) / w_m the comparison is at k = m - 1, else at k = m, so that the
    belief up to k is 1/2 on average. The round says 'left' if l(x, y_k) + N(0, sigma^2) <= tau; the beliefs on the side
    it names are multiplied by 1 - q, the others by q, and renormalised. What is returned is the median of the T
    medians m. Source: the route of note 7 of differentialprivacy.org, 'Beyond Local Sensitivity via Down
    Sensitivity', to Karp and Kleinberg (2007), 'Noisy binary search and its applications' (multiplicative weights),
    with the randomised place of Burnashev and Zigangirov (1974); the statement proven here is the following one.

    Privacy composes T comparisons of sensitivity 1; f(x) >= M(x) >= f(x) - DS^{2 tau}(x) with probability at least
    1 - beta for T = 2 log(|Y| / beta) / log(1 / (A B)) rounds: Theorem 1 of docs/explanation/mechanisms.md, which also
    says what the constants cost: the plain search with Gaussian noise has a lower tau for every |Y| up to 2^16384.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = TolerantSearch.calibrated(Maximum(range(1024)), rho=0.5, beta=0.05)
    >>> mechanism.rounds, round(mechanism.sigma, 3), round(mechanism.tau, 3), str(mechanism.claim)
    (210, 14.491, 18.571, '0.5-zCDP')
    >>> import numpy as np
    >>> mechanism((500,) * 100).sample(3, np.random.default_rng(0)).tolist()
    [500, 500, 500]
    """

    query: MonotoneQuery  # what is asked; |Y| up to 2^64
    sigma: float  # standard deviation of the noise, in records, above 0
    tau: float  # threshold on the noisy loss, in records, at least 0
    rounds: int  # T, at least 1
    # q, in (0, 1/2): probability of a wrong comparison that beliefs are updated with, above the true one
    assumed_error: float
    name: ClassVar[str] = "tolerant search, Gaussian noise"
    adjacency = AddRemove()
    wholes = {"rounds": (1, "rounds")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.assumed_error < 0.5:
            raise AuditError(f"assumed_error is {self.assumed_error!r}; it must be strictly between 0 and 1/2.")

    @classmethod
    def calibrated(cls, query: MonotoneQuery, rho: float, beta: float = 0.05, error: float = 0.1) -> TolerantSearch:
        """Choose T, sigma, tau and q for rho-zCDP and the accuracy of the class but for probability beta.

        ``error`` is p, in (0, 1/2): more of it needs more rounds and a threshold at a smaller multiple of sigma. tau
        falls with it, slowly, by 15 % from 0.1 to 1/2. Raises `AuditError` if a parameter is out of range.
        """
        rounds = needed_rounds(math.log(query.size), beta, error)
        sigma = math.sqrt(rounds / (2.0 * positive(rho, "rho")))
        return cls(query, sigma, -sigma * float(ndtri(error)), rounds, best_assumed_error(error))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.rounds / (2.0 * self.sigma**2)), GaussianDP(math.sqrt(self.rounds) / self.sigma))

    @property
    def noise(self) -> NormalLaw:
        return NormalLaw(0.0, self.sigma)

    def __call__(self, dataset: Sequence[Any]) -> TolerantLaw:
        """Prepare the output distribution on one dataset; it lists its law where Y is tiny.

        Elsewhere the law is not known exactly: an output depends on all comparisons through the path of medians, and
        their histories do not merge into a number of states that could be enumerated.
        """
        law = ListedTolerantLaw if fits_a_list(self.query.size, self.rounds) else TolerantLaw
        return law(self.query, self.query.loss(dataset), self.tau, self.noise, self.rounds, self.assumed_error)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Losses on both sides of tau, where a comparison tells most; far from attained, as one output sums up T."""
        return (crowds(self.query, math.floor(self.tau)),)


def best_assumed_error(error: float) -> float:
    """Return the q that needs the fewest rounds at a share p = ``error`` of wrong comparisons.

    It minimises A B of `TolerantSearch`: the zero of 2 (1 - 2 q) (p + q - 2 p q) = (1 - 2 p) q (1 - q) above p.

    Examples
    --------
    >>> round(best_assumed_error(1e-12), 6), round(best_assumed_error(0.1), 3)
    (0.333333, 0.384)
    """
    p = fraction(error, "error", open_below=True)
    if p >= 0.5:
        raise AuditError(f"error is {error!r}; it must be strictly between 0 and 1/2.")
    slope = 1.0 - 2.0 * p
    return (slope - 4.0 * p + math.sqrt((slope - 4.0 * p) ** 2 + 24.0 * slope * p)) / (6.0 * slope)


def needed_rounds(log_size: float, beta: float, error: float = 0.1) -> int:
    """Return T of `TolerantSearch` for log |Y| = ``log_size``, which may be beyond any real Y.

    Examples
    --------
    >>> needed_rounds(math.log(1024), 0.05), needed_rounds(math.log(2**64), 0.05)
    (210, 1001)
    """
    p, q = error, best_assumed_error(error)
    rate = math.log(8.0 * (q * (1.0 - q)) ** 2 / (p + q - 2.0 * p * q))
    return math.ceil(2.0 * (log_size - math.log(fraction(beta, "beta", open_below=True))) / rate)

"""Additive noise that is too small for the claim: scales halved, sensitivities halved, a formula beyond its range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace, SphericalGaussian
from epsaudit.mechanisms.queries import NumericQuery

SIGNED_SUM = NumericQuery(sum, 1.0, Substitution(), (DatasetPair((-1,), (1,)),))
"""Sum of records -1 and +1 under substitution, with sensitivity given as 1: the size of a record, not of a change."""


class LaplaceHalfNoise(Laplace):
    """Laplace noise of half the scale: 2 epsilon in truth, by every event on either half-line."""

    name: ClassVar[str] = "Laplace, half the noise"

    @property
    def scale(self) -> float:
        return super().scale / 2.0


class DiscreteLaplaceHalfNoise(DiscreteLaplace):
    """Two-sided geometric noise of half the scale: 2 epsilon in truth."""

    name: ClassVar[str] = "discrete Laplace, half the noise"

    @property
    def scale(self) -> float:
        return super().scale / 2.0


@dataclass(frozen=True)
class GaussianSensitivityOffByTwo(Gaussian):
    """Gaussian noise for sensitivity 1 on a sum of records -1 and +1, which a substitution moves by 2.

    The noise is half of what the claim needs: mu is twice the claimed one, and at (1, 1e-5) epsilon is 2.15 in truth.

    Examples
    --------
    >>> mechanism = GaussianSensitivityOffByTwo(1.0, 1e-5)
    >>> mechanism((1,)).centre - mechanism((-1,)).centre, mechanism.query.sensitivity
    (2.0, 1.0)
    """

    query: NumericQuery = SIGNED_SUM
    name: ClassVar[str] = "Gaussian, sensitivity off by two"


class SphericalGaussianPerCoordinate(SphericalGaussian):
    """Gaussian noise on vectors for the greatest change of one coordinate: sqrt(d) times too little in d dimensions.

    Examples
    --------
    >>> from epsaudit.mechanisms.queries import ClippedSum
    >>> mechanism = SphericalGaussianPerCoordinate(1.0, 1e-5, ClippedSum(4))
    >>> round(SphericalGaussian(1.0, 1e-5, ClippedSum(4)).sigma / mechanism.sigma, 6)
    2.0
    """

    name: ClassVar[str] = "Gaussian, vectors, sensitivity of one coordinate"

    @property
    def sigma(self) -> float:
        """For a record on the diagonal, as if its coordinates were asked for one by one."""
        return super().sigma / math.sqrt(self.query.dimension)


class ClassicalGaussian(Gaussian):
    """Gaussian noise of standard deviation sensitivity sqrt(2 log(1.25 / delta)) / epsilon, at any epsilon.

    The calibration of Dwork and Roth (2014), Theorem A.1, is proven for epsilon < 1 only; at (8, 0.2) epsilon is
    11.3 in truth. Balle and Wang (2018), Section 2, show that no sigma of order 1 / epsilon will do for large epsilon.

    Examples
    --------
    >>> round(ClassicalGaussian(8.0, 0.2).sigma, 4), round(Gaussian(8.0, 0.2).sigma, 4)
    (0.2393, 0.2893)
    """

    name: ClassVar[str] = "Gaussian, classical calibration"

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(self.epsilon, self.delta),)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in the unit of the query."""
        return self.query.sensitivity * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon


class LaplaceAsBoundedRange(Laplace):
    """Laplace noise, with the epsilon^2/8-zCDP claim that pure DP gives bounded-range mechanisms alone.

    It is epsilon-DP, and its losses reach from -epsilon to epsilon: at epsilon = 1 rho is 0.368 in truth, the relative
    entropy epsilon - 1 + e^-epsilon, against a claim of 0.125.

    Examples
    --------
    >>> print(LaplaceAsBoundedRange(1.0).claim, Laplace(1.0).claims[1])
    0.125-zCDP 0.462117-zCDP
    """

    name: ClassVar[str] = "Laplace, as if bounded-range"

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.epsilon**2 / 8.0),)

"""Additive noise that is too small or leaks by its last bits, and responses that are truthful too often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace, SphericalGaussian
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.queries import NumericQuery
from epsaudit.mechanisms.response import HadamardResponse, RandomisedResponse
from epsaudit.mechanisms.shuffling import ShuffledResponse, TwoBinomials

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


@dataclass(frozen=True)
class InverseLaplaceLaw:
    """centre + sign scale log(u), u uniform on the multiples of 2^-53: what double precision makes of it.

    Examples
    --------
    >>> InverseLaplaceLaw(1.0, 1.0).sample(3, np.random.default_rng(0)).shape
    (3,)
    """

    centre: float
    scale: float

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        sign = 2.0 * rng.integers(0, 2, size) - 1.0
        return self.centre + sign * (self.scale * np.log(1.0 - rng.random(size)))


class LaplaceInDoubles(Laplace):
    """The Laplace mechanism as textbooks print it, run in double precision.

    No finite epsilon: noise near zero has finer bits than any sum with 1 can keep, so an output with such bits shows
    that the answer was 0. About 40 % of the outputs on the answer 0 at epsilon = 1 do. `epsaudit.witnesses.FloatBits`
    sees it; families that take doubles for real numbers do not.
    """

    name: ClassVar[str] = "Laplace in doubles"

    def __call__(self, dataset: Any) -> InverseLaplaceLaw:  # type: ignore[override]  # its law is not Laplace's
        return InverseLaplaceLaw(float(self.query(dataset)), self.scale)


class ResponseWithCoin(RandomisedResponse):
    """Truthful with probability e^epsilon / (1 + e^epsilon), and otherwise an answer by a fair coin.

    The coin tells the truth half of the time: log(1 + 2 e^epsilon) in truth, 1.86 at epsilon = 1.
    """

    name: ClassVar[str] = "randomised response, coin in place of a lie"

    @property
    def truth(self) -> float:
        """Probability of a truthful answer, the coin's included."""
        intended = super().truth
        return intended + (1.0 - intended) / self.answers


@dataclass(frozen=True)
class ResponseForgettingAnswers(RandomisedResponse):
    """Truthful with probability e^epsilon / (1 + e^epsilon), as for two answers, where there are k.

    A lie is shared by k - 1 answers: epsilon + log(k - 1) in truth, 2.1 at epsilon = 1 and k = 4.
    """

    answers: int = 4
    name: ClassVar[str] = "randomised response, k forgotten"

    @property
    def truth(self) -> float:
        """Probability of a truthful answer, whatever k is."""
        return 1.0 / (1.0 + math.exp(-self.epsilon))


class HadamardWithCoin(HadamardResponse):
    """A symbol of C_x with probability e^epsilon / (1 + e^epsilon), and otherwise any symbol, one of C_x perhaps.

    log(1 + 2 e^epsilon) in truth if there is one block, and more with several.
    """

    name: ClassVar[str] = "Hadamard response, coin in place of another symbol"

    @cached_property
    def chances(self) -> Floats:
        """Probability of each symbol, shape (answers, symbols)."""
        lie = 1.0 / (1.0 + math.exp(self.epsilon))
        return (1.0 - lie) * self.owned / (self.block / 2) + lie / self.symbols


class ShuffledWithDropouts(ShuffledResponse):
    """Binary shuffled response of which nine in ten users drop out, with the amplification of all users claimed.

    'Privacy Doona' says what is left if users do not take part: the amplification of those who do.

    Examples
    --------
    >>> mechanism = ShuffledWithDropouts(1.0, 1000, 1e-3)
    >>> len(mechanism((1000, 0)).support), round(mechanism.claim.epsilon, 4)
    (101, 0.063)
    """

    name: ClassVar[str] = "shuffled response, nine in ten drop out"

    def __call__(self, dataset: Sequence[int]) -> TwoBinomials:
        """Only a tenth of each group answers, rounded up."""
        return TwoBinomials(-(-dataset[1] // 10), -(-dataset[0] // 10), self.truth)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One user who stays holds 0 or 1 among users who hold 0."""
        return (DatasetPair((self.users - 1, 1), (self.users, 0), "one user who stays holds 1 or 0"),)

"""Additive noise that is too small or leaks by its last bits, and responses that tell the truth too often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim
from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.mechanisms.additive import Gaussian, Laplace, SphericalGaussian
from epsaudit.mechanisms.queries import NumericQuery
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.mechanisms.shuffling import ShuffledResponse, TwoBinomials

SIGNED_SUM = NumericQuery(sum, 1.0, Substitution(), (DatasetPair((-1,), (1,)),))
"""Sum of records -1 and +1 under substitution. Its stated sensitivity 1 is the size of a record, not of a change."""


class LaplaceHalfNoise(Laplace):
    """Laplace noise of half the scale: the true loss is 2 epsilon, which every event on either half-line attains."""

    name: ClassVar[str] = "Laplace, half the noise"

    @property
    def scale(self) -> float:
        return super().scale / 2.0


@dataclass(frozen=True)
class GaussianSensitivityOffByTwo(Gaussian):
    """Gaussian noise for sensitivity 1 where substitution moves the sum by 2: at (1, 1e-5) the true epsilon is 2.15."""

    query: NumericQuery = SIGNED_SUM
    name: ClassVar[str] = "Gaussian, sensitivity off by two"


class SphericalGaussianPerCoordinate(SphericalGaussian):
    """Gaussian noise for the greatest change of one coordinate: too small by a factor of sqrt(d) in d dimensions."""

    name: ClassVar[str] = "Gaussian, vectors, sensitivity of one coordinate"

    @property
    def sigma(self) -> float:
        return super().sigma / math.sqrt(self.query.dimension)


class ClassicalGaussian(Gaussian):
    """Gaussian noise of standard deviation sensitivity sqrt(2 log(1.25 / delta)) / epsilon, at any epsilon.

    Dwork and Roth (2014), Theorem A.1, prove this calibration for epsilon < 1 only. At (8, 0.2) the true epsilon is
    11.3 (see Balle and Wang 2018, Section 2).
    """

    name: ClassVar[str] = "Gaussian, classical calibration"

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(self.epsilon, self.delta),)

    @property
    def sigma(self) -> float:
        return self.query.sensitivity * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon


class AsBoundedRange:
    """Mixin that claims epsilon^2/8-zCDP for a mechanism that is epsilon-DP but not of bounded range.

    The claim is true for bounded-range mechanisms only.
    """

    epsilon: float
    leads: ClassVar[tuple[int, ...]] = (1,)  # in mechanisms that select: a single vote breaks a tie

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.epsilon**2 / 8.0),)


class LaplaceAsBoundedRange(AsBoundedRange, Laplace):
    """Laplace noise with the zCDP claim of the exponential mechanism.

    At epsilon = 1 the true rho is epsilon - 1 + e^-epsilon = 0.368, and the claimed rho is epsilon^2/8 = 0.125.
    """

    name: ClassVar[str] = "Laplace, as if bounded-range"


@dataclass(frozen=True)
class InverseLaplaceLaw:
    """Law of centre + sign scale log(u) in double precision, with u uniform on the multiples of 2^-53."""

    centre: float
    scale: float

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        sign = 2.0 * rng.integers(0, 2, size) - 1.0
        return self.centre + sign * (self.scale * np.log(1.0 - rng.random(size)))


class LaplaceInDoubles(Laplace):
    """Laplace noise as textbooks print it, in double precision, where it leaks (Mironov 2012) and no epsilon is finite.

    Noise near zero has finer bits than a sum with 1 can keep. At epsilon = 1, 40 % of the outputs on the answer 0 have
    such bits, which show that the answer is not 1.
    """

    name: ClassVar[str] = "Laplace in doubles"

    def __call__(self, dataset: Any) -> InverseLaplaceLaw:  # type: ignore[override]  # its law is not Laplace's
        return InverseLaplaceLaw(float(self.query(dataset)), self.scale)


class ResponseWithCoin(RandomisedResponse):
    """Randomised response with a fair coin in place of the lie, so that the coin tells the truth half of the time.

    The true privacy loss is log(1 + 2 e^epsilon), which is 1.86 at epsilon = 1.
    """

    name: ClassVar[str] = "randomised response, coin in place of a lie"

    @property
    def truth(self) -> float:
        intended = super().truth
        return intended + (1.0 - intended) / self.answers


@dataclass(frozen=True)
class ResponseForgettingAnswers(RandomisedResponse):
    """Response that is truthful as often as for two answers, although k - 1 answers share the probability of a lie.

    The true privacy loss is epsilon + log(k - 1), which is 2.1 at epsilon = 1 and k = 4.
    """

    answers: int = 4
    name: ClassVar[str] = "randomised response, k forgotten"

    @property
    def truth(self) -> float:
        return 1.0 / (1.0 + math.exp(-self.epsilon))


class ShuffledWithDropouts(ShuffledResponse):
    """Shuffled response whose claim has the amplification of all users, although nine in ten drop out.

    'Privacy Doona' warns of this mistake.
    """

    name: ClassVar[str] = "shuffled response, nine in ten drop out"

    def __call__(self, dataset: Sequence[int]) -> TwoBinomials:
        return TwoBinomials(-(-dataset[1] // 10), -(-dataset[0] // 10), self.truth)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair((self.users - 1, 1), (self.users, 0), "one user who stays holds 1 or 0"),)

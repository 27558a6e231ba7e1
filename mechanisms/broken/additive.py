"""Additive noise that is too small or leaks by its last bits, and responses that are truthful too often."""

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
"""Sum of records -1 and +1 under substitution, with sensitivity given as 1: the size of a record, not of a change."""


class LaplaceHalfNoise(Laplace):
    """Laplace noise of half the scale: 2 epsilon in truth, by every event on either half-line."""

    name: ClassVar[str] = "Laplace, half the noise"

    @property
    def scale(self) -> float:
        return super().scale / 2.0


@dataclass(frozen=True)
class GaussianSensitivityOffByTwo(Gaussian):
    """Noise for sensitivity 1 where a substitution moves the sum by 2: at (1, 1e-5) epsilon is 2.15 in truth."""

    query: NumericQuery = SIGNED_SUM
    name: ClassVar[str] = "Gaussian, sensitivity off by two"


class SphericalGaussianPerCoordinate(SphericalGaussian):
    """Noise for the greatest change of one coordinate: sqrt(d) times too little in d dimensions."""

    name: ClassVar[str] = "Gaussian, vectors, sensitivity of one coordinate"

    @property
    def sigma(self) -> float:
        return super().sigma / math.sqrt(self.query.dimension)


class ClassicalGaussian(Gaussian):
    """Standard deviation sensitivity sqrt(2 log(1.25 / delta)) / epsilon, at any epsilon.

    Dwork and Roth (2014), Theorem A.1, prove it for epsilon < 1 only; at (8, 0.2) epsilon is 11.3 in truth (see Balle
    and Wang 2018, Section 2).
    """

    name: ClassVar[str] = "Gaussian, classical calibration"

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(self.epsilon, self.delta),)

    @property
    def sigma(self) -> float:
        return self.query.sensitivity * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon


class AsBoundedRange:
    """Beside another mechanism: with the epsilon^2/8-zCDP claim that pure DP gives bounded-range mechanisms alone."""

    epsilon: float
    leads: ClassVar[tuple[int, ...]] = (1,)  # where there is a race, one vote decides an even one

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ZCDP(self.epsilon**2 / 8.0),)


class LaplaceAsBoundedRange(AsBoundedRange, Laplace):
    """With the exponential mechanism's epsilon^2/8-zCDP: rho is epsilon - 1 + e^-epsilon, 0.368, not 0.125."""

    name: ClassVar[str] = "Laplace, as if bounded-range"


@dataclass(frozen=True)
class InverseLaplaceLaw:
    """centre + sign scale log(u), u uniform on the multiples of 2^-53: in double precision."""

    centre: float
    scale: float

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        sign = 2.0 * rng.integers(0, 2, size) - 1.0
        return self.centre + sign * (self.scale * np.log(1.0 - rng.random(size)))


class LaplaceInDoubles(Laplace):
    """Laplace noise as textbooks print it, in double precision, where it leaks (Mironov 2012): no finite epsilon.

    Noise near zero has finer bits than any sum with 1 can keep; 40 % of the outputs on the answer 0 at epsilon = 1
    have.
    """

    name: ClassVar[str] = "Laplace in doubles"

    def __call__(self, dataset: Any) -> InverseLaplaceLaw:  # type: ignore[override]  # its law is not Laplace's
        return InverseLaplaceLaw(float(self.query(dataset)), self.scale)


class ResponseWithCoin(RandomisedResponse):
    """A fair coin in place of the lie tells the truth half of the time: log(1 + 2 e^epsilon), 1.86 at epsilon = 1."""

    name: ClassVar[str] = "randomised response, coin in place of a lie"

    @property
    def truth(self) -> float:
        intended = super().truth
        return intended + (1.0 - intended) / self.answers


@dataclass(frozen=True)
class ResponseForgettingAnswers(RandomisedResponse):
    """Truthful as for two answers, where k - 1 share a lie: epsilon + log(k - 1), 2.1 at epsilon = 1, k = 4."""

    answers: int = 4
    name: ClassVar[str] = "randomised response, k forgotten"

    @property
    def truth(self) -> float:
        return 1.0 / (1.0 + math.exp(-self.epsilon))


class ShuffledWithDropouts(ShuffledResponse):
    """Nine in ten users drop out, with the amplification of all claimed: 'Privacy Doona' warns of it."""

    name: ClassVar[str] = "shuffled response, nine in ten drop out"

    def __call__(self, dataset: Sequence[int]) -> TwoBinomials:
        return TwoBinomials(-(-dataset[1] // 10), -(-dataset[0] // 10), self.truth)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        return (DatasetPair((self.users - 1, 1), (self.users, 0), "one user who stays holds 1 or 0"),)

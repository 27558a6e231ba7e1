"""Laplace noise by the inverse distribution function, in double precision: the leak that Mironov (2012) found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.laws import Floats


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

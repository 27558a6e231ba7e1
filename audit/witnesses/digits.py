"""Features that transform the number of another feature: distance from a centre, digits, bits and remainders."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.errors import whole_at_least
from epsaudit.outputs.arrays import Outputs
from epsaudit.witnesses.feature import Feature, FormattedLabel
from epsaudit.witnesses.number_format import MAX_PRINTED_DIGITS, N_PRINTED_DIGITS, format_number
from epsaudit.witnesses.parts import Value

N_MANTISSA_BITS = 52
"""[formula] Number of bits in the fraction of a double (IEEE 754)."""


class NumberTransform(FormattedLabel):
    """A feature that applies a function to the numbers of another feature."""

    feature: Feature

    def __call__(self, outputs: Outputs) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.transform(np.asarray(self.feature(outputs), float)), float)

    def transform(self, numbers: Floats) -> Any:
        """Return the transformed numbers of the other feature."""
        raise NotImplementedError


@dataclass(frozen=True)
class Deviation(NumberTransform):
    """The absolute difference between the number of another feature and a fixed centre."""

    feature: Feature
    centre: float
    form = "|{0.feature.label} - {0.shown_centre}|"

    @property
    def shown_centre(self) -> str:
        """The centre as text, with `N_PRINTED_DIGITS` significant digits."""
        return format_number(self.centre)

    def label_for(self, distances: Iterable[float]) -> str:
        """Return the label for use in an event that has the given distances as thresholds.

        The rounding error of the printed centre is at most a tenth of the smallest distance above 0.
        """
        least = min((distance for distance in distances if 0.0 < distance < math.inf), default=math.inf)
        written = (format_number(self.centre, digits) for digits in range(N_PRINTED_DIGITS, MAX_PRINTED_DIGITS + 1))
        near = (text for text in written if abs(float(text) - self.centre) <= least / 10.0)
        return f"|{self.feature.label} - {next(near, self.shown_centre)}|"

    def transform(self, numbers: Floats) -> Any:
        return np.abs(numbers - self.centre)


@dataclass(frozen=True)
class TrailingZeros(NumberTransform):
    """The number of trailing zero bits among the 52 bits of a double's mantissa."""

    feature: Feature
    form = "trailing zero bits of {0.feature.label}"

    def transform(self, numbers: Floats) -> Any:
        mantissas = numbers.view(np.int64) & ((1 << N_MANTISSA_BITS) - 1) | (1 << N_MANTISSA_BITS)
        return np.where(np.isfinite(numbers), np.frexp((mantissas & -mantissas).astype(float))[1] - 1.0, np.nan)


@dataclass(frozen=True)
class Exponent(NumberTransform):
    """The binary exponent of a number: the largest e for which 2^e is at most its absolute value; NaN for zero."""

    feature: Feature
    form = "exponent of {0.feature.label}"

    def transform(self, numbers: Floats) -> Any:
        known = np.isfinite(numbers) & (numbers != 0.0)
        return np.where(known, np.frexp(np.where(known, numbers, 1.0))[1] - 1.0, np.nan)


@dataclass(frozen=True)
class LowestBit(NumberTransform):
    """The exponent of the lowest set bit of a number: the largest k for which it is a multiple of 2^k; NaN for zero.

    Noise added to 1 in double precision leads only to multiples of 2^-53. Noise added to 0 also leads to finer numbers,
    which reveal that the answer was 0.
    """

    feature: Feature
    form = "lowest bit of {0.feature.label}"

    def transform(self, numbers: Floats) -> Any:
        return (
            Exponent(self.feature).transform(numbers) - N_MANTISSA_BITS + TrailingZeros(self.feature).transform(numbers)
        )


@dataclass(frozen=True)
class NegativeZero(NumberTransform):
    """A feature that is 1 where a number is -0.0, else 0.

    The numbers -0.0 and 0.0 are equal, but they are printed differently, and their inverses have different signs.
    """

    feature: Feature
    form = "[{0.phrases[0]}]"

    @property
    def phrases(self) -> tuple[str, str]:
        """The conditions, in words, that this feature is 1, and that it is 0."""
        return f"{self.feature.label} is -0.0", f"{self.feature.label} is not -0.0"

    def transform(self, numbers: Floats) -> Any:
        return (numbers == 0) & np.signbit(numbers)


@dataclass(frozen=True)
class Residue(NumberTransform):
    """The remainder of a whole number modulo ``modulus``; NaN for numbers that are not whole.

    For outputs that are Python ints, the remainder is exact even if the number is too large to be exact as a float.
    """

    feature: Feature
    modulus: int

    def __post_init__(self) -> None:
        whole_at_least(self.modulus, 2, "modulus")

    @property
    def label(self) -> str:
        inner = self.feature.label
        return f"{inner if inner.isidentifier() or inner.endswith(']') else f'({inner})'} mod {self.modulus}"

    def transform(self, numbers: Floats) -> Any:
        return np.where(np.floor(numbers) == numbers, np.mod(numbers, self.modulus), np.nan)

    def __call__(self, outputs: Outputs) -> Floats:
        remainders = super().__call__(outputs)
        if outputs.dtype == object and isinstance(self.feature, Value):
            for place, value in enumerate(outputs.tolist()):
                if type(value) is int:
                    remainders[place] = value % self.modulus
        return remainders


@dataclass(frozen=True)
class Scaled(NumberTransform):
    """A number times 10 to the power ``decimals``, rounded down. For example, 2.347 with 2 decimals gives 234.

    A small number is added before rounding, so that a number which is printed with these decimals gives exactly the
    digits that are printed.
    """

    feature: Feature
    decimals: int

    @property
    def label(self) -> str:
        return f"floor({10**self.decimals} {self.feature.label})" if self.decimals else f"floor({self.feature.label})"

    def transform(self, numbers: Floats) -> Any:
        return np.floor(numbers * 10.0**self.decimals + 1e-6)  # the addition corrects rounding errors


@dataclass(frozen=True)
class FilledForTrees(NumberTransform):
    """Another feature without NaN and with limited numbers, as a stored `epsaudit.witnesses.learnt.Tree` needs it.

    NaN becomes -2e30, and numbers are limited to [-1e30, 1e30].
    """

    feature: Feature
    form = "{0.feature.label}"

    def transform(self, numbers: Floats) -> Any:
        return np.where(np.isnan(numbers), -2e30, np.clip(numbers, -1e30, 1e30))

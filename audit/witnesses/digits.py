"""DOC"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.errors import whole_at_least
from epsaudit.outputs.normal_form import (
    Floats,
    Outputs,
)
from epsaudit.witnesses.feature import Feature, FormattedLabel
from epsaudit.witnesses.number_format import MAX_PRINTED_DIGITS, N_PRINTED_DIGITS, format_number
from epsaudit.witnesses.parts import Value

N_MANTISSA_BITS = 52
"""[formula] Bits of the fraction of a double (IEEE 754)."""


class NumberTransform(FormattedLabel):
    """Another feature's numbers, each turned into another one by `of`."""

    feature: Feature

    def __call__(self, outputs: Outputs) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.of(np.asarray(self.feature(outputs), float)), float)

    def of(self, numbers: Floats) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Deviation(NumberTransform):
    """Absolute distance of another feature from a centre."""

    feature: Feature
    centre: float
    form = "|{0.feature.label} - {0.shown}|"

    @property
    def shown(self) -> str:
        return format_number(self.centre)

    def within(self, distances: Iterable[float]) -> str:
        """Write the label with a centre that is rounded by at most a tenth of these distances."""
        least = min((distance for distance in distances if 0.0 < distance < math.inf), default=math.inf)
        written = (format_number(self.centre, digits) for digits in range(N_PRINTED_DIGITS, MAX_PRINTED_DIGITS + 1))
        near = (text for text in written if abs(float(text) - self.centre) <= least / 10.0)
        return f"|{self.feature.label} - {next(near, self.shown)}|"

    def of(self, numbers: Floats) -> Any:
        return np.abs(numbers - self.centre)


@dataclass(frozen=True)
class TrailingZeros(NumberTransform):
    """How many of the 52 bits of a double's mantissa are zero, counted from the last."""

    feature: Feature
    form = "trailing zero bits of {0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        mantissas = numbers.view(np.int64) & ((1 << N_MANTISSA_BITS) - 1) | (1 << N_MANTISSA_BITS)
        return np.where(np.isfinite(numbers), np.frexp((mantissas & -mantissas).astype(float))[1] - 1.0, np.nan)


@dataclass(frozen=True)
class Exponent(NumberTransform):
    """The binary exponent of a number: the largest e with 2^e at most its absolute value; NaN for zero."""

    feature: Feature
    form = "exponent of {0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        known = np.isfinite(numbers) & (numbers != 0.0)
        return np.where(known, np.frexp(np.where(known, numbers, 1.0))[1] - 1.0, np.nan)


@dataclass(frozen=True)
class LowestBit(NumberTransform):
    """The power of two that a number is an odd multiple of: the grid on which it lies; NaN for zero.

    Noise added to 1 in double precision leaves only multiples of 2^-53; noise added to 0 leaves finer ones, which
    are reachable from 0 alone.
    """

    feature: Feature
    form = "lowest bit of {0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        return Exponent(self.feature).of(numbers) - N_MANTISSA_BITS + TrailingZeros(self.feature).of(numbers)


@dataclass(frozen=True)
class NegativeZero(NumberTransform):
    """1 where a number is -0.0, else 0: it equals 0.0, but prints otherwise, and 1 / y has the other sign."""

    feature: Feature
    form = "[{0.phrases[0]}]"

    @property
    def phrases(self) -> tuple[str, str]:
        return f"{self.feature.label} is -0.0", f"{self.feature.label} is not -0.0"

    def of(self, numbers: Floats) -> Any:
        return (numbers == 0) & np.signbit(numbers)


@dataclass(frozen=True)
class Residue(NumberTransform):
    """The remainder of a whole number on division; NaN for numbers that are not whole.

    Of outputs that are ints, because no float is so exact, it is the exact one.
    """

    feature: Feature
    modulus: int

    def __post_init__(self) -> None:
        whole_at_least(self.modulus, 2, "modulus")

    @property
    def label(self) -> str:
        inner = self.feature.label
        return f"{inner if inner.isidentifier() or inner.endswith(']') else f'({inner})'} mod {self.modulus}"

    def of(self, numbers: Floats) -> Any:
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
    """A number times a power of ten, rounded down: its digits up to that decimal, as a whole number.

    Numbers that are printed with so many decimals are rounded to the whole number that they stand for.
    """

    feature: Feature
    decimals: int

    @property
    def label(self) -> str:
        return f"floor({10**self.decimals} {self.feature.label})" if self.decimals else f"floor({self.feature.label})"

    def of(self, numbers: Floats) -> Any:
        return np.floor(numbers * 10.0**self.decimals + 1e-6)  # but for rounding errors


@dataclass(frozen=True)
class FilledForTrees(NumberTransform):
    """Another feature, NaN as -2e30 and numbers within [-1e30, 1e30], which a tree in single precision can compare."""

    feature: Feature
    form = "{0.feature.label}"

    def of(self, numbers: Floats) -> Any:
        return np.where(np.isnan(numbers), -2e30, np.clip(numbers, -1e30, 1e30))

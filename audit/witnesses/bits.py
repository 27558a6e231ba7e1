"""What a number's last bits and its residues give away.

Each feature takes outputs and returns a small whole number for each. A double that was computed as x + noise is a
multiple of a power of two that depends on x (Mironov 2012): its lowest bit says which of two datasets could not have
produced it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import whole_at_least
from epsaudit.outputs.normal_form import Outputs, are_objects
from epsaudit.witnesses.features import Feature, Value, readable

MANTISSA = 52
"""Bits of the fraction of a double (IEEE 754)."""


@readable
@dataclass(frozen=True)
class TrailingZeros:
    """How many of the 52 bits of a double's mantissa are zero, counted from the last.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> TrailingZeros(Value())(np.array([1.0, 1.5, 1.0 + 2**-52])).tolist()
    [52.0, 51.0, 0.0]
    """

    feature: Feature

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"trailing zero bits of {self.feature.label}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`; 52 for zero."""
        numbers = np.asarray(self.feature(outputs), float)
        mantissas = numbers.view(np.int64) & ((1 << MANTISSA) - 1) | (1 << MANTISSA)
        zeros = np.frexp((mantissas & -mantissas).astype(float))[1] - 1
        return np.where(np.isfinite(numbers), zeros.astype(float), np.nan)


@readable
@dataclass(frozen=True)
class Exponent:
    """The binary exponent of a number: the largest e with 2^e at most its absolute value; NaN for zero.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> Exponent(Value())(np.array([1.0, -0.4])).tolist()
    [0.0, -2.0]
    """

    feature: Feature

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"exponent of {self.feature.label}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        numbers = np.asarray(self.feature(outputs), float)
        known = np.isfinite(numbers) & (numbers != 0.0)
        return np.where(known, np.frexp(np.where(known, numbers, 1.0))[1] - 1.0, np.nan)


@readable
@dataclass(frozen=True)
class LowestBit:
    """The power of two that a number is an odd multiple of: the grid on which it lies; NaN for zero.

    Noise added to 1 in double precision leaves only multiples of 2^-53; noise added to 0 leaves finer ones, which
    are reachable from 0 alone.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> LowestBit(Value())(np.array([1.0, 0.75, 1.0 + 2**-52])).tolist()
    [0.0, -2.0, -52.0]
    """

    feature: Feature

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"lowest bit of {self.feature.label}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        exponent = Exponent(self.feature)(outputs)
        return np.asarray(exponent - MANTISSA + TrailingZeros(self.feature)(outputs))


@readable
@dataclass(frozen=True)
class NegativeZero:
    """1 where a number is -0.0, else 0: it equals 0.0, but prints otherwise, and 1 / y has the other sign.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> NegativeZero(Value())(np.array([0.0, -0.0, -1.0])).tolist()
    [0.0, 1.0, 0.0]
    """

    feature: Feature

    @property
    def statement(self) -> str:
        """What holds where the feature is 1."""
        return f"{self.feature.label} is -0.0"

    @property
    def denial(self) -> str:
        """What holds where the feature is 0."""
        return f"{self.feature.label} is not -0.0"

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"[{self.statement}]"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        numbers = self.feature(outputs)
        return np.asarray((numbers == 0) & np.signbit(numbers), float)


@readable
@dataclass(frozen=True)
class Residue:
    """The remainder of a whole number on division; NaN for numbers that are not whole.

    Of outputs that are ints, because no float is so exact, it is the exact one.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> Residue(Value(), 2)(np.array([4.0, 7.0])).tolist(), Residue(Value(), 2).label
    ([0.0, 1.0], 'y mod 2')
    """

    feature: Feature
    modulus: int

    def __post_init__(self) -> None:
        whole_at_least(self.modulus, 2, "modulus")

    @property
    def label(self) -> str:
        """See `Feature`."""
        inner = self.feature.label
        return f"{inner if inner.isidentifier() or inner.endswith(']') else f'({inner})'} mod {self.modulus}"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        numbers = self.feature(outputs)
        with np.errstate(invalid="ignore"):
            remainders = np.where(np.floor(numbers) == numbers, np.mod(numbers, self.modulus), np.nan)
        if are_objects(outputs) and isinstance(self.feature, Value):
            for place, value in enumerate(outputs.tolist()):
                if type(value) is int:
                    remainders[place] = value % self.modulus
        return remainders

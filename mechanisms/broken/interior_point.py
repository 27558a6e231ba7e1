"""The optimiser with a log* recursion, its stability test left out: blocks chosen where they should be refused.

The claims are those of the sound mechanism; the laws are what the mistake makes of them.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.mechanisms.interior_point import InteriorPoint
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.quasi_concave import Stage


class UntestedStage(Stage):
    """A `epsaudit.mechanisms.quasi_concave.Stage` that takes the best block however small its lead is."""

    def log_pass(self, gap: NDArray[np.int64]) -> Floats:
        """Every gap passes."""
        return np.zeros(np.shape(gap))


class InteriorPointUntested(InteriorPoint):
    """`InteriorPoint` that never refuses: neighbours whose best blocks differ have outputs that tell them apart."""

    name: ClassVar[str] = "interior point, test forgotten"

    @cached_property
    def stage(self) -> Stage:
        """The sound plan, without its test."""
        sound = super().stage
        return UntestedStage(**{part.name: getattr(sound, part.name) for part in fields(Stage)})

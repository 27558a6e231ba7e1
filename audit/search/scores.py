"""Scores: one number for each output, which is larger where x is more likely.

The events of a score are its tails.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.outputs.arrays import Outputs
from epsaudit.outputs.atoms import find_atoms
from epsaudit.outputs.normal_form import to_float
from epsaudit.witnesses.events import Event, Interval, Region
from epsaudit.witnesses.feature import Feature


class Score(Protocol):
    """A function that gives every output a number, which is larger where x is more likely than x'.

    An attribute ``learnt`` that is true says that the score was fitted so closely that it looks better on its training
    outputs than it is.
    """

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return one number for each output, larger where x is more likely; NaN if the score does not apply."""

    def at_least(self, threshold: float) -> Event:
        """Return the event that contains all outputs whose score is at least ``threshold``."""

    def at_most(self, threshold: float) -> Event:
        """Return the event that contains all outputs whose score is at most ``threshold``."""


@dataclass(frozen=True)
class Monotone:
    """A score that is a feature (``sign`` 1) or its negative (``sign`` -1). Its events are tails of the feature."""

    feature: Feature
    sign: int
    learnt: bool = False

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        numbers = self.feature(outputs)
        return numbers if self.sign > 0 else -numbers

    def at_least(self, threshold: float) -> Event:
        return Region(self.feature, (Interval(low=threshold) if self.sign > 0 else Interval(high=-threshold),))

    def at_most(self, threshold: float) -> Event:
        return Monotone(self.feature, -self.sign).at_least(-threshold)


@dataclass(frozen=True)
class PiecewiseRatio:
    """A log likelihood ratio of x to x' that is constant on intervals of a feature and on certain single outputs.

    ``atoms`` are the single outputs, and ``atom_values`` their log ratios. ``interval_values`` are the log ratios of
    the intervals between the ``edges``.
    """

    feature: Feature
    atoms: tuple[Hashable, ...]
    atom_values: Floats
    edges: Floats
    interval_values: Floats

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        values = np.full(len(outputs), np.nan)
        if len(self.interval_values):
            numbers = self.feature(outputs)
            known = ~np.isnan(numbers)
            values[known] = self.interval_values[np.searchsorted(self.edges, numbers[known], side="left")]
        if self.atoms:
            position = find_atoms(outputs, self.atoms)
            values = np.where(position >= 0, self.atom_values[position], values)
        return values

    def at_least(self, threshold: float) -> Event:
        bounds = np.concatenate([[-np.inf], self.edges, [np.inf]])
        turns = np.diff(self.interval_values >= threshold, prepend=False, append=False)
        intervals: list[Interval] = []
        for low, high in bounds[np.flatnonzero(turns)].reshape(-1, 2):
            intervals.append(Interval(float(low), float(high), includes_low=False))
        included, excluded = [], []
        for atom, value in zip(self.atoms, self.atom_values, strict=True):
            if value >= threshold:
                included.append(atom)
            elif any(one.contains(np.array([to_float(atom)]))[0] for one in intervals):
                excluded.append(atom)
        return Region(self.feature, tuple(intervals), tuple(included), tuple(excluded))

    def at_most(self, threshold: float) -> Event:
        negative = replace(self, atom_values=-self.atom_values, interval_values=-self.interval_values)
        return negative.at_least(-threshold)

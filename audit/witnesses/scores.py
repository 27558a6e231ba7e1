"""Scores: one number an output, larger where x is likelier; events are its tails.

A family is fitted on training outputs of both datasets and gives scores; `epsaudit.witnesses.selection` cuts them at
thresholds. A new kind of witness is a new family here: nothing else needs to know it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs import Items, Outputs, are_numbers, are_objects, number, order_key
from epsaudit.witnesses.atoms import find_atoms, repeated
from epsaudit.witnesses.events import Event, Interval, Region
from epsaudit.witnesses.features import Coordinate, Deviation, Feature, Value
from epsaudit.witnesses.models import Tree
from epsaudit.witnesses.screening import screen
from epsaudit.witnesses.smoothing import Binned, smooth
from epsaudit.witnesses.structure import LEAST_SEEN, At, Contains
from epsaudit.witnesses.tree import cuts

Floats = NDArray[np.float64]
BITS_PER_SPLIT = 8.0
"""Evidence that a tree needs before it splits a feature once more: with less it splits at noise."""
CELLS = 96
"""Intervals along which a curve is followed."""
LEAST_FOR_A_CURVE = 200
"""Outputs of either side from which a smoothed ratio of densities is fitted. Set by hand in the first round; no
measurement is recorded."""
MOST_LEVELS = 4096
"""Different numbers between which a tree may split."""
TELLING = 6
"""Most coordinates that are looked at one by one: those that tell most."""


class Score(Protocol):
    """A fitted score.

    ``smooth`` says whether the log-likelihood ratio is likely to vary smoothly along the score, so that rare events
    at its ends can be judged from commoner ones nearby. A score with an attribute ``learnt`` that is true was fitted
    so closely that only the other half of the training outputs can judge it.
    """

    @property
    def smooth(self) -> bool:
        """See above."""

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return shape (size,), larger where x is likelier, NaN where the score has no opinion."""

    def at_least(self, threshold: float) -> Event:
        """Return the event that the score is at least ``threshold``."""

    def at_most(self, threshold: float) -> Event:
        """Return the event that the score is at most ``threshold``."""


class Family(Protocol):
    """A way to find scores.

    A family with an attribute ``again`` names the family to fit again where many more training outputs are worth it.
    """

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """Fit on training outputs of x and x'; an empty answer means that the family has nothing to say."""


@dataclass(frozen=True)
class Monotone:
    """A feature itself, or its negative, as the score: its events are tails."""

    feature: Feature
    sign: int
    learnt: bool = False

    @property
    def smooth(self) -> bool:
        """See `Score`; the leaves of a tree are judged one by one, and the last are often noise."""
        return not isinstance(self.feature, Tree)

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Score`."""
        numbers = self.feature(outputs)
        return numbers if self.sign > 0 else -numbers

    def at_least(self, threshold: float) -> Event:
        """See `Score`."""
        interval = Interval(low=threshold) if self.sign > 0 else Interval(high=-threshold)
        return Region(self.feature, (interval,))

    def at_most(self, threshold: float) -> Event:
        """See `Score`."""
        interval = Interval(high=threshold) if self.sign > 0 else Interval(low=-threshold)
        return Region(self.feature, (interval,))


@dataclass(frozen=True)
class Tails:
    """Tails of every feature: {y <= t}, {y >= t}, and both at once, {|y - median| >= t}."""

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        return self.on(features_of(outputs, outputs_prime), outputs, outputs_prime)

    def on(self, features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Score]:
        """Scores of the given features."""
        scores: list[Score] = []
        for feature in features:
            numbers = np.concatenate([feature(outputs), feature(outputs_prime)])
            numbers = numbers[np.isfinite(numbers)]
            if len(numbers) == 0 or np.all(numbers == numbers[0]):
                continue
            deviation = Deviation(feature, float(np.median(numbers)))
            scores += [Monotone(f, sign) for f in (feature, deviation) for sign in (1, -1)]
        return scores


@dataclass(frozen=True)
class PiecewiseRatio:
    """A log-likelihood ratio that is constant on single outputs (atoms) and on intervals of a feature."""

    feature: Feature
    atoms: tuple[Hashable, ...]
    atom_values: Floats
    edges: Floats
    interval_values: Floats
    smooth = False

    @property
    def pieces(self) -> int:
        """About how many intervals and atoms its events are made of: a ratio that only rises gives one."""
        turns = np.count_nonzero(np.diff(np.sign(np.diff(self.interval_values))))
        return 1 + int(turns) + len(self.atoms)

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Score`."""
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
        """See `Score`."""
        return self._event(self.interval_values >= threshold, self.atom_values >= threshold)

    def at_most(self, threshold: float) -> Event:
        """See `Score`."""
        return self._event(self.interval_values <= threshold, self.atom_values <= threshold)

    def _event(self, chosen_intervals: NDArray[np.bool_], chosen_atoms: NDArray[np.bool_]) -> Event:
        bounds = np.concatenate([[-np.inf], self.edges, [np.inf]])
        intervals: list[Interval] = []
        for i in np.flatnonzero(chosen_intervals):
            if intervals and intervals[-1].high == bounds[i]:
                intervals[-1] = Interval(intervals[-1].low, bounds[i + 1], includes_low=False)
            else:
                intervals.append(Interval(bounds[i], bounds[i + 1], includes_low=False))
        included = tuple(atom for atom, chosen in zip(self.atoms, chosen_atoms, strict=True) if chosen)
        excluded: tuple[Hashable, ...] = ()
        if intervals:
            excluded = tuple(
                atom
                for atom, chosen in zip(self.atoms, chosen_atoms, strict=True)
                if not chosen and any(i.contains(np.array([number(atom)]))[0] for i in intervals)
            )
        return Region(self.feature, tuple(intervals), included, excluded)


@dataclass(frozen=True)
class LikelihoodRatio:
    """Estimate the likelihood ratio: by counting on repeated outputs, by a tree and a curve on the other numbers.

    Its events are sets of atoms and unions of intervals. The tree is grown on one feature; the curve, which outputs
    that are single numbers have, has few intervals split at noise.

    Parameters
    ----------
    leaves : int
        Most intervals of the tree.
    most_atoms : int
        Most repeated outputs that are counted one by one; the commonest are kept.
    """

    leaves: int = 24
    most_atoms: int = 4096

    @property
    def again(self) -> Curves:
        """What gains most from many more training outputs: a peak of the ratio is found to the place."""
        return Curves(self)

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        atoms, ratios = self.count_atoms(outputs, outputs_prime)
        scores: list[Score] = []
        for feature in features_of(outputs, outputs_prime):
            if isinstance(feature, Value):
                edges, leaves = self._grow(feature, outputs, outputs_prime, atoms)
                scores.append(PiecewiseRatio(feature, atoms, ratios, edges, leaves))
                edges, values = _bend(feature, outputs, outputs_prime, atoms)
                if len(edges):
                    scores.append(PiecewiseRatio(feature, atoms, ratios, edges, values))
            else:
                scores += self.on([feature], outputs, outputs_prime)
        if not any(isinstance(score, PiecewiseRatio) and score.atoms for score in scores) and atoms:
            scores.append(PiecewiseRatio(Value(), atoms, ratios, np.empty(0), np.empty(0)))
        return scores

    def on(self, features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Score]:
        """Scores of the given features, by trees alone."""
        scores: list[Score] = []
        for feature in features:
            edges, leaves = self._grow(feature, outputs, outputs_prime, ())
            if len(edges):
                scores.append(PiecewiseRatio(feature, (), np.empty(0), edges, leaves))
        return scores

    def count_atoms(self, outputs: Outputs, outputs_prime: Outputs) -> tuple[tuple[Hashable, ...], Floats]:
        """Outputs that repeat, and the estimated log ratio of each."""
        least = 4 if are_numbers(outputs) else 1
        atoms, counts = repeated(outputs, outputs_prime, least)
        if len(atoms) > self.most_atoms:
            kept = min(self.most_atoms, int(np.count_nonzero(counts.sum(axis=0) > 1)))
            atoms, counts = atoms[:kept], counts[:, :kept]
        rates = np.log((counts + 0.5) / np.array([[len(outputs) + 1], [len(outputs_prime) + 1]]))
        return tuple(atoms), rates[0] - rates[1]

    def _grow(
        self, feature: Feature, outputs: Outputs, outputs_prime: Outputs, atoms: tuple[Hashable, ...]
    ) -> tuple[Floats, Floats]:
        """Fit the tree on the numbers that are no atoms; return its edges and the log ratio between them."""
        numbers = [_others(feature, side, atoms) for side in (outputs, outputs_prime)]
        total = len(numbers[0]) + len(numbers[1])
        if total < 20:
            return np.empty(0), np.empty(0)
        pooled = np.concatenate(numbers)
        order = np.sort(pooled)
        ends = np.flatnonzero(np.append(order[1:] > order[:-1], True))
        if len(ends) > MOST_LEVELS:
            ends = ends[np.linspace(0, len(ends) - 1, MOST_LEVELS).astype(int)]
        levels = np.searchsorted(order[ends], pooled, side="left")
        sides = (levels[: len(numbers[0])], levels[len(numbers[0]) :])
        seen = np.stack([np.bincount(side, minlength=len(ends)) for side in sides])
        last = cuts(seen, self.leaves, max(10, total // 2000), BITS_PER_SPLIT / total)
        edges = (order[ends[last]] + order[ends[last] + 1]) / 2.0
        a, b = (np.add.reduceat(side, np.append(0, last + 1)) for side in seen)
        return edges, np.log((a + 0.5) / (len(outputs) + 1)) - np.log((b + 0.5) / (len(outputs_prime) + 1))


@dataclass(frozen=True)
class Curves:
    """The curve of a likelihood ratio alone, along outputs that are single numbers."""

    ratio: LikelihoodRatio

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        if outputs.ndim > 1 or not are_numbers(outputs):
            return []
        atoms, ratios = self.ratio.count_atoms(outputs, outputs_prime)
        edges, values = _bend(Value(), outputs, outputs_prime, atoms)
        return [PiecewiseRatio(Value(), atoms, ratios, edges, values)] if len(edges) else []


def _bend(
    feature: Feature, outputs: Outputs, outputs_prime: Outputs, atoms: tuple[Hashable, ...]
) -> tuple[Floats, Floats]:
    """Fit a smooth curve to the log ratio along the numbers that are no atoms; return its edges and values between."""
    numbers = [_others(feature, side, atoms) for side in (outputs, outputs_prime)]
    pooled = np.concatenate(numbers)
    if min(map(len, numbers)) < LEAST_FOR_A_CURVE:
        return np.empty(0), np.empty(0)
    tail = np.geomspace(10.0 / len(pooled), 0.5, CELLS // 4)
    edges = np.unique(np.quantile(pooled, np.concatenate([tail, 1.0 - tail, np.linspace(0.02, 0.98, CELLS // 2)])))
    if len(edges) < 3:
        return np.empty(0), np.empty(0)
    centres = np.concatenate([[2 * edges[0] - edges[1]], (edges[:-1] + edges[1:]) / 2, [2 * edges[-1] - edges[-2]]])
    halves = [
        Binned(
            *(
                np.bincount(np.searchsorted(edges, side[part::2]), minlength=len(centres)).astype(float)
                for side in numbers
            )
        )
        for part in (0, 1)
    ]
    return edges, smooth(centres, *halves).log_ratio


def features_of(outputs: Outputs, outputs_prime: Outputs, most: int = 64) -> list[Feature]:
    """List the features of both sides' outputs: the number itself, each coordinate of a vector, keys of a mapping.

    Of the keys, those whose presence differs most between the sides come first.
    """
    if outputs.ndim > 1:
        coordinates = [Coordinate(i) for i in range(min(int(np.prod(outputs.shape[1:])), most))]
        return screen(coordinates, outputs, outputs_prime, TELLING)
    if are_objects(outputs):
        sample = [*outputs[:2000].tolist(), *outputs_prime[:2000].tolist()]
        longest = max((len(value) for value in sample if isinstance(value, tuple)), default=0)
        plain = any(number(value) == number(value) for value in sample)
        if longest and all(isinstance(value, Items) for value in sample if isinstance(value, tuple)):
            keys = _telling_keys(outputs, outputs_prime)[: most // 2]
            return [Value()] * plain + [feature for key in keys for feature in (Contains(key), At((key,)))]
        return [Value()] * plain + [Coordinate(i) for i in range(min(longest, most))]
    return [Value()] if are_numbers(outputs) else []


def _telling_keys(outputs: Outputs, outputs_prime: Outputs) -> list[Hashable]:
    """Keys of outputs that are mappings, by how much their presence differs between the sides."""
    counts, counts_prime = (
        Counter(key for value in side.tolist() if isinstance(value, Items) for key, _ in value)
        for side in (outputs, outputs_prime)
    )
    pooled = counts + counts_prime
    often = {key: seen for key, seen in pooled.items() if seen >= LEAST_SEEN}
    telling = {key: (counts[key] - counts_prime[key]) ** 2 / seen for key, seen in often.items()}
    return sorted(telling, key=lambda key: (-telling[key], -pooled[key], order_key(key)))


def _others(feature: Feature, outputs: Outputs, atoms: tuple[Hashable, ...]) -> NDArray[Any]:
    numbers = feature(outputs)
    keep = np.isfinite(numbers)
    if atoms:
        keep &= find_atoms(outputs, atoms) < 0
    others: NDArray[Any] = numbers[keep]
    return others

"""Rules that guess from a noisy update whether the batch contained a group of added examples.

A rule is learnt from training updates, half of which suggest directions and half of which choose among them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsaudit.array_types import Floats

PREFERENCE_FACTOR = 1.2
"""[chosen] A rule that is harder to explain replaces a simpler rule only if its strength is this many times larger."""


@dataclass(frozen=True, eq=False)
class Guess:
    """A rule that guesses, from one noisy update of DP-SGD, whether a group of crafted examples was added to the batch.

    The rule standardises the update, reduces it to one number and compares this number with a threshold.
    """

    centre: Floats
    """Mean of the training updates without the added examples, shape (dimensions,)."""
    weights: Floats | None
    """Weights of the standardised coordinates in the number; None if the number is the sum of their squares instead."""
    scale: Floats
    """Standard deviation of each coordinate of an update."""
    threshold: float
    """Value with which the number is compared."""
    above: bool
    """Whether a number above the threshold means that the added examples were included."""
    strength: float
    """Distance from the threshold to the mean of each kind of training update, in standard deviations."""

    def values(self, sums: Floats) -> Floats:
        """Reduce each update to the number that is compared with the threshold.

        ``sums`` has shape (n, dimensions), and the result has shape (n,).
        """
        with np.errstate(all="ignore"):
            apart = (sums - self.centre) / self.scale
            return np.asarray(np.sum(apart**2, axis=-1) if self.weights is None else apart @ self.weights)

    def __call__(self, update: Floats) -> bool:
        """Return the guess for one update: true if crafted examples seem to have been added to the batch."""
        return bool((self.values(update) > self.threshold) == self.above)


def best_threshold(without_group: Floats, with_group: Floats) -> tuple[float, bool, float]:
    """Return the threshold that best separates two samples, which are treated as normally distributed.

    Also returns whether the second sample lies above the threshold, and the strength: the distance from the threshold
    to the mean of each sample, in standard deviations of this sample.
    """
    means = np.array([without_group.mean(), with_group.mean()])
    deviations = np.array([without_group.std(), with_group.std()])
    total, apart = float(deviations.sum()), float(means[1] - means[0])
    if not math.isfinite(total) or not math.isfinite(apart) or apart == 0.0:
        return 0.0, True, 0.0
    # if one sample never varies, the threshold lies next to its value
    low, high = np.maximum(deviations, 1e-3 * total) if total > 0.0 else (1.0, 1.0)
    strength = abs(apart) / total if total > 1e-12 * abs(apart) else math.inf
    return float((means[0] * high + means[1] * low) / (low + high)), apart > 0.0, strength


def learn_guess(without_group: Floats, with_group: Floats, directions: Sequence[Floats]) -> Guess:
    """Learn a rule that guesses, from an update of DP-SGD, whether crafted examples were added to the batch.

    The arguments are samples of updates without and with these examples, and directions to try. The first half of the
    updates determines the scale of each coordinate and the difference of the two means. The second half chooses the
    strongest among several rules: projections on ``directions``, the projection on this difference and, if it is
    clearly stronger, the sum of squares.
    """
    half = len(without_group) // 2
    means = [one[:half].mean(axis=0) for one in (without_group, with_group)]
    centre = without_group[:half].mean(axis=0)
    with np.errstate(all="ignore"):
        variance = (without_group[:half].var(axis=0) + with_group[:half].var(axis=0)) / 2.0
    # Coordinates without noise get the largest weight. A coordinate that has the same value in all updates carries no
    # information, and its weight is 0.
    most = float(np.max(variance, initial=0.0))
    scale = np.sqrt(np.maximum(variance, 1e-12 * most)) if most > 0.0 else np.ones_like(variance)
    frozen = (variance <= 1e-20 * most) & (np.abs(means[1] - means[0]) <= 1e-9 * np.abs(means[0]) + 1e-12)
    found = []
    for weights in (*directions, means[1] - means[0], None):
        scaled = None if weights is None else np.where(frozen, 0.0, weights / scale)
        guess = Guess(centre, scaled, scale, 0.0, True, 0.0)
        threshold, above, strength = best_threshold(*(guess.values(one[half:]) for one in (without_group, with_group)))
        found.append(dataclasses.replace(guess, threshold=threshold, above=above, strength=strength))
    *linear, spread = found
    best = max(linear, key=lambda one: one.strength)
    return spread if spread.strength > PREFERENCE_FACTOR * best.strength else best

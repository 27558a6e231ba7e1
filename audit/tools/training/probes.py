"""The optimiser whose single steps are tested, and the pairs of crafted batches on which it is run.

Every test in `epsaudit.tools.training.step_tests` compares updates on a batch with updates on the same batch and a
group of added examples. Theorem, proof and limits: docs/explanation/theory.md#single-steps-of-dp-sgd.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError

ACCUMULATED_PARTS = 4
"""[chosen] Number of parts into which a batch is divided to test gradient accumulation."""
NORM_TOLERANCE = 1e-4
"""[chosen] Relative amount by which a clipped gradient in single precision may exceed the clipping norm."""
MAX_OTHER_EXAMPLES = 64
"""[time] Maximum number of other examples in a crafted batch. The tests do not need more, and each example costs time
in every step."""
MAX_GROUP_SIZE = 64
"""[memory] Maximum number of examples that are added to a batch at once."""
SEPARATION = 3.0
"""[formula] Number of standard deviations by which a group of added examples may move an update. Guesses measure the
noise most accurately near 3, where x phi(x / 2) / sqrt(Phi(x / 2) Phi(-x / 2)) has its maximum."""
MAX_STEPS_FACTOR = 20
"""[time] A test may make up to this many times ``steps`` guesses if fewer guesses could not refute anything, even if
all of them were correct."""
OptimiserStep = Callable[[Sequence[Floats]], ArrayLike]
"""One step of an optimiser. The argument is a list of gradient arrays, shape (examples, dimensions), one array for each
accumulated part of the batch. The result is the noisy mean gradient, shape (dimensions,)."""


@dataclass(frozen=True)
class Optimiser:
    """One step of the DP-SGD optimiser under test, together with the settings that are claimed for it.

    The tests multiply each update by ``batch / clip``. The result is the noisy sum of clipped gradients, in units of
    the clipping norm.
    """

    step: OptimiserStep
    clip: float
    """Norm to which the gradient of each example is claimed to be clipped."""
    noise: float
    """Claimed noise multiplier: standard deviation of the noise on the sum of clipped gradients, in clipping norms."""
    batch: float
    """Expected batch size, by which the step divides the sum."""
    sizes: tuple[int, ...]
    """Number of dimensions of each parameter of the model."""
    steps: int
    """Minimum number of guesses in each test."""
    level: float
    """Significance level of one test: maximum probability that it refutes a step that is private as claimed."""
    seed: int
    """Root of the random streams that decide whether a batch contains the added examples."""

    @property
    def dimensions(self) -> int:
        """Total number of dimensions of all parameters."""
        return sum(self.sizes)

    @property
    def n_others(self) -> int:
        """Number of examples in a crafted batch that are always there.

        A test runs the step on batches with and without a group of additional examples, which are not counted here.
        """
        return min(max(ACCUMULATED_PARTS, round(self.batch)), MAX_OTHER_EXAMPLES)

    @functools.cached_property
    def slices(self) -> list[slice]:
        """For each parameter of the model, the slice of the flat gradient vector that belongs to it."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(low, high) for low, high in itertools.pairwise(ends)]

    def alternating_direction(self, slices: Sequence[slice]) -> Floats:
        """Return a unit vector with entries of alternating sign in the given slices, and zeros elsewhere.

        Each slice has the same share of the squared norm.
        """
        vector = np.zeros(self.dimensions)
        for place in slices:
            signs = 1.0 - 2.0 * (np.arange(place.stop - place.start) % 2)
            vector[place] = signs / math.sqrt(len(signs) * len(slices))
        return vector

    @functools.cached_property
    def full_direction(self) -> Floats:
        """Unit vector over all parameters with entries of alternating sign.

        Each parameter of the model has the same share of its squared norm.
        """
        return self.alternating_direction(self.slices)

    @functools.cached_property
    def constant_direction(self) -> Floats:
        """Unit vector with equal coordinates.

        In most tests it is the direction of the gradients of all examples that are in every batch.
        """
        return np.full(self.dimensions, 1.0 / math.sqrt(self.dimensions))

    def group_size(self, separation: float = SEPARATION) -> int:
        """Return how many examples to add to a batch so that they move the sum by ``separation`` standard deviations.

        The standard deviation is that of the claimed noise. It is assumed that each added example moves the sum of
        gradients by one clipping norm. The number is rounded down and is between 1 and `MAX_GROUP_SIZE`.
        """
        return max(1, min(math.floor(separation * self.noise), MAX_GROUP_SIZE))

    def max_correct_probability(self, group: int) -> float:
        """Return the largest probability with which a guess can be correct if the step is private as claimed.

        The guess says whether ``group`` crafted examples were added to the batch.
        """
        return float(ndtr(group * (1.0 + NORM_TOLERANCE) / self.noise / 2.0))

    def p_value(self, n_correct: int, guesses: int, group: int) -> float:
        """Return a p-value for the hypothesis that the step is private as claimed.

        It is an upper bound on the probability of at least ``n_correct`` correct guesses among ``guesses``. Each guess
        says whether ``group`` crafted examples were added to a batch.
        """
        return float(bdtrc(n_correct - 1, guesses, self.max_correct_probability(group))) if n_correct else 1.0

    def n_guesses(self, group: int, steps: int) -> int:
        """Return the number of guesses that a test makes: ``steps``, or more if this number could not refute anything.

        More guesses are necessary if even a step without any noise, for which all guesses are correct, would not be
        refuted. Raises `AuditError` if the number would exceed `MAX_STEPS_FACTOR` times the setting ``steps``, because
        the noise multiplier is too small.
        """
        wrong = max(1.0 - self.max_correct_probability(group), 1e-300)
        least = math.ceil(1.2 * math.log(self.level) / math.log1p(-wrong))
        if least > MAX_STEPS_FACTOR * self.steps:
            raise AuditError(
                f"noise is {self.noise:g}: so little noise hides nearly nothing, and even a step without any "
                f"noise would be refuted only by {least:,} correct guesses in a test. "
                f"Give steps={math.ceil(least / MAX_STEPS_FACTOR):,}."
            )
        return max(least, steps)


@dataclass(frozen=True, eq=False)
class Probe:
    """A pair of crafted batches for one test: the second batch contains ``group`` additional examples.

    A test guesses from an update which of the two batches was used. Gradients are in units of the clipping norm.
    """

    name: str
    """Part of the training that is reported as faulty if the test refutes, unless the measured updates point to another
    part."""
    requirement: str
    """What must hold for a private step, as a sentence for the report."""
    example: Floats
    """Gradient of each added example, shape (dimensions,). All added examples are equal."""
    group: int
    """Number of added examples."""
    other: Floats
    """Gradient of each of the other examples, shape (dimensions,)."""
    n_others: int
    """Number of other examples, which are in both batches."""
    first: Floats | None = None
    """Gradient of the first of the other examples, or None if it equals ``other``."""
    parts: int = 1
    """Number of parts into which the batch is divided for gradient accumulation."""

    @functools.cached_property
    def batches(self) -> tuple[Floats, Floats]:
        """The gradients of the two batches: first without, then with the added examples.

        Each array has shape (examples, dimensions).
        """
        others = np.tile(self.other, (self.n_others, 1))
        if self.first is not None:
            others[0] = self.first
        return others, np.concatenate([np.tile(self.example, (self.group, 1)), others])

    def directions(self) -> list[Floats]:
        """Return unit vectors along which the group of added examples may move the sum of gradients.

        They are the direction of the gradients of the added examples, and that of the other examples in the batch. A
        gradient of zeros has no direction and is left out.
        """
        lengths = [(one, float(np.linalg.norm(one))) for one in (self.example, self.other)]
        return [one / length for one, length in lengths if length > 0.0]

    def noisy_sum(self, optimiser: Optimiser, included: bool) -> Floats:
        """Make one step of the optimiser and return the noisy sum of gradients, in clipping norms, shape (dimensions,).

        ``included`` says which of the two batches is used: the one without or the one with the added examples. Raises
        `AuditError` if the update has a wrong shape.
        """
        gradients = self.batches[included] * optimiser.clip  # a new array, because a step may write into it
        parts = [gradients] if self.parts == 1 else np.array_split(gradients, self.parts)
        with np.errstate(all="ignore"):  # a step may normalise gradients of zeros
            update = np.asarray(optimiser.step(parts), float)
        if update.shape != (optimiser.dimensions,):
            raise AuditError(f"The update has shape {update.shape}; it must be ({optimiser.dimensions},).")
        # values that are not finite, such as normalised gradients of zeros, count as zero in both kinds of batches
        return np.where(np.isfinite(update), update, 0.0) * (optimiser.batch / optimiser.clip)

    def noisy_sums(self, optimiser: Optimiser, number: int) -> tuple[Floats, Floats]:
        """Make ``number`` steps of the optimiser, alternately without and with the added examples.

        Returns two arrays of noisy sums of gradients, each of shape (number / 2, dimensions).
        """
        found = np.array([self.noisy_sum(optimiser, bool(one % 2)) for one in range(number)])
        return found[::2], found[1::2]

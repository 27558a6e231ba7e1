"""The base class of the ready trainers: settings of DP-SGD, the claim that follows from them, and a run's output."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ApproxDP, GaussianDP
from epsaudit.errors import AuditError, finite_at_least, fraction, whole_at_least

ModelArray = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Trained:
    """The output of one run of DP-SGD: the parameters before and after each step, and the trainer with its settings."""

    iterates: ModelArray
    """Parameters before the first step and after each step, shape (steps + 1, dimensions)."""
    trainer: DPSGDTrainer

    @property
    def parameters(self) -> ModelArray:
        """The parameters after the last step, shape (dimensions,)."""
        last: ModelArray = self.iterates[-1]
        return last

    @property
    def sums(self) -> Floats:
        """The noisy sums of clipped gradients of all steps, in units of the clipping norm, shape (steps, dimensions).

        They are computed from the differences of the parameters of consecutive steps.
        """
        scale = self.trainer.rate * self.trainer.examples / (self.trainer.learning_rate * self.trainer.clip)
        return np.asarray(-np.diff(self.iterates.astype(float), axis=0) * scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class DPSGDTrainer(ABC):
    """Base class of trainers that run DP-SGD (Abadi et al. 2016) with Poisson sampling and plain SGD steps.

    The gradients of single examples are clipped, and Gaussian noise is added to their sum. A subclass implements the
    training run as a call, so that an instance can be passed to `audit_training` as ``fit``. Raises `AuditError` if a
    setting is out of range.
    """

    steps: int
    """Number of steps of a training run."""
    rate: float
    """Sampling rate: probability that a record is in a batch."""
    noise: float
    """Noise multiplier: standard deviation of the noise on the sum of clipped gradients, in clipping norms."""
    examples: int
    """Public number of records. A step divides the noisy sum by ``rate * examples``."""
    clip: float = 1.0
    """Norm to which the gradient of each example is clipped."""
    learning_rate: float = 1.0
    delta: float = 1e-5
    """Delta of the claim."""
    name: ClassVar[str]

    def __post_init__(self) -> None:
        whole_at_least(self.steps, 1, "number of steps")
        whole_at_least(self.examples, 1, "number of examples")
        fraction(self.delta, "delta", open_below=True)
        for what in ("rate", "noise", "clip", "learning_rate"):
            if not finite_at_least(getattr(self, what), 0.0, what) > 0.0 or (what == "rate" and self.rate > 1.0):
                raise AuditError(f"{what} is {getattr(self, what):g}; it must be above 0, and a rate at most 1.")

    @property
    def claim(self) -> ApproxDP:
        """The (epsilon, delta)-DP claim that follows from the settings, computed by a privacy accountant.

        If ``rate`` is below 1, the extra ``accounting`` must be installed.
        """
        if self.rate == 1.0:
            return GaussianDP(self.mu).approximate(self.delta)
        from epsaudit.mechanisms.dp_sgd import poisson_claim

        found: ApproxDP = poisson_claim(self.rate, self.noise, self.steps, self.delta)
        return found

    @property
    def mu(self) -> float:
        """Parameter of the Gaussian DP claim for full batches, ``rate=1`` (Dong, Roth and Su 2022, corollary 3.3).

        Raises `AuditError` if ``rate`` is below 1.
        """
        if self.rate < 1.0:
            raise AuditError(f"rate is {self.rate:g}; only full batches, rate=1, have a mu. Use claim instead.")
        return math.sqrt(self.steps) / self.noise

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Total number of dimensions of all parameters."""

    @abstractmethod
    def __call__(
        self, features: ModelArray, targets: ModelArray, rng: np.random.Generator, gradients: ModelArray | None = None
    ) -> Trained:
        """Make one training run on the records, and return the parameters before and after each step.

        ``gradients``, shape (k, dimensions), contains canaries: each row enters batches as the gradient of one
        additional record would.
        """

    @abstractmethod
    def losses(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the loss of each record under these parameters, shape (n,)."""

    @abstractmethod
    def gradients_at(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the unclipped gradient of each record at these parameters, shape (n, dimensions)."""


def clip_rows(gradients: ModelArray, clip: float) -> ModelArray:
    """Scale down rows whose norm exceeds ``clip`` to this norm.

    >>> clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    norms = np.linalg.norm(gradients, axis=-1, keepdims=True)
    clipped: ModelArray = gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-30))
    return clipped

"""What the ready trainers share: the settings of DP-SGD, what it claims by them, and what it releases."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.conversions import Floats
from epsaudit.claims.definitions import ApproxDP, GaussianDP
from epsaudit.errors import AuditError, finite_at_least, fraction, whole_at_least

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Trained:
    """All that a run of DP-SGD releases."""

    iterates: Array
    """Parameters before the first step and after each, shape (steps + 1, dimensions)."""
    trainer: DPSGDTrainer

    @property
    def parameters(self) -> Array:
        """The last iterate."""
        last: Array = self.iterates[-1]
        return last

    @property
    def sums(self) -> Floats:
        """Noisy sums of clipped gradients, in clipping norms, shape (steps, dimensions)."""
        scale = self.trainer.rate * self.trainer.examples / (self.trainer.learning_rate * self.trainer.clip)
        return np.asarray(-np.diff(self.iterates.astype(float), axis=0) * scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class DPSGDTrainer(ABC):
    """DP-SGD (Abadi et al. 2016): Poisson batches, gradients of examples clipped, Gaussian noise, plain steps.

    A subclass trains when it is called, and is what `audit_training` takes for ``fit``. Raises `AuditError` for
    settings out of range.
    """

    steps: int
    rate: float
    """Probability that a record is in a batch."""
    noise: float
    """Standard deviation of the noise on a sum of clipped gradients, in clipping norms."""
    examples: int
    """Public number of records: a step is by the noisy sum over ``rate * examples``."""
    clip: float = 1.0
    learning_rate: float = 1.0
    delta: float = 1e-5
    """Of the claim."""
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
        """What the accountant says of these settings; with ``rate`` below 1 it needs the extra ``accounting``."""
        if self.rate == 1.0:
            return GaussianDP(self.mu).approximate(self.delta)
        from epsaudit.mechanisms.dp_sgd import poisson_claim

        found: ApproxDP = poisson_claim(self.rate, self.noise, self.steps, self.delta)
        return found

    @property
    def mu(self) -> float:
        """Of the Gaussian DP that full batches, ``rate=1``, give (Dong, Roth and Su 2022, corollary 3.3)."""
        if self.rate < 1.0:
            raise AuditError(f"Batches of rate {self.rate:g} are not mu-GDP for the sum of their steps; see claim.")
        return math.sqrt(self.steps) / self.noise

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Of all parameters together."""

    @abstractmethod
    def __call__(
        self, features: Array, targets: Array, rng: np.random.Generator, gradients: Array | None = None
    ) -> Trained:
        """Train once; rows of ``gradients``, shape (k, dimensions), join batches as those of records would."""

    @abstractmethod
    def losses(self, parameters: Array, features: Array, targets: Array) -> Floats:
        """Loss of each record, shape (n,)."""

    @abstractmethod
    def gradients_at(self, parameters: Array, features: Array, targets: Array) -> Floats:
        """Gradient of each record, not clipped, shape (n, dimensions)."""


def shortened(gradients: Array, clip: float) -> Array:
    """Clip rows to a norm.

    >>> shortened(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    norms = np.linalg.norm(gradients, axis=-1, keepdims=True)
    clipped: Array = gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-30))
    return clipped

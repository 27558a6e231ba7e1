"""DP-SGD (Abadi et al. 2016) for linear and logistic models, in numpy, and canaries for it.

Training releases the noisy sums of clipped gradients, and the weights that result from these sums. Besides the shared
parameters, a record may have a parameter of its own, like a row of an embedding table. Canaries on such parameters do
not interfere with each other, however many there are.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit

from epsaudit.array_types import Bools, Floats, Ints
from epsaudit.audits.one_run import StepCallback
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.accounting import INTERVAL, library
from epsaudit.mechanisms.base import positive

Loss = Literal["logistic", "squared"]
Observer = Callable[[int, Floats], None]
"""Called at each step of training with (step, noisy sum for the parameters of single records, shape (m,))."""


@dataclass(frozen=True, eq=False)
class Records:
    """Training data: n records with d features."""

    # shape (n, d): scaled by public constants, so that the scaling leaks nothing; include a column of ones for an
    # intercept
    features: Floats
    targets: Floats  # shape (n,): +1 or -1 for logistic loss, any number for squared loss
    own: Ints  # shape (n,): number of the record's own parameter, from 0 to m - 1; -1 if it has none
    weight: Floats  # shape (n,): the feature that belongs to the record's own parameter
    # shape (n,): whether the loss is minus ``weight`` times the own parameter; its gradient is the same at every
    # step, which makes the record a gradient canary
    constant: Bools

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, present: Bools) -> Records:
        return Records(*(getattr(self, field.name)[present] for field in dataclasses.fields(self)))

    @classmethod
    def plain(cls, features: Floats, targets: Floats) -> Records:
        """Return records without parameters of their own."""
        n = len(targets)
        return cls(features, targets, np.full(n, -1), np.zeros(n), np.zeros(n, dtype=bool))

    def join(self, others: Records) -> Records:
        return Records(
            *(np.concatenate([getattr(self, f.name), getattr(others, f.name)]) for f in dataclasses.fields(self))
        )


@dataclass(frozen=True, eq=False)
class Weights:
    """Trained weights: ``shared`` weights of the features, shape (d,), and ``own`` ones of records, shape (m,)."""

    shared: Floats
    own: Floats

    def predictions(self, records: Records) -> Floats:
        own = np.append(self.own, 0.0)[records.own] * records.weight
        return np.asarray(records.features @ self.shared + own)

    def losses(self, records: Records, loss: Loss) -> Floats:
        predicted = self.predictions(records)
        if loss == "logistic":
            return np.logaddexp(0.0, -records.targets * predicted)
        return np.asarray((predicted - records.targets) ** 2 / 2.0)


@dataclass(frozen=True, eq=False)
class DPSGD:
    """Training with Poisson batches, per-example clipping and Gaussian noise; dp-accounting computes the claim.

    >>> rng = np.random.default_rng(0)
    >>> x = np.c_[np.ones(2000), rng.uniform(-1, 1, 2000)]
    >>> learner = DPSGD("logistic", steps=200, rate=0.1, noise_multiplier=1.0, learning_rate=2.0)
    >>> data = Records.plain(x, np.sign(x[:, 1]))
    >>> weights = learner.train(data, 2000, 0, rng)
    >>> bool((np.sign(weights.predictions(data)) == data.targets).mean() > 0.95), str(learner.claim)
    (True, '(9.97..., 1e-05)-DP')
    """

    loss: Loss  # log(1 + exp(-y z)) or (z - y)^2 / 2 of the predictor z
    steps: int  # number of batches
    rate: float  # probability, in (0, 1], that a record is in a batch
    noise_multiplier: float  # standard deviation of the noise on the sum of a batch, in units of ``clip``
    clip: float = 1.0  # greatest norm of a record's gradient; longer ones are shortened
    learning_rate: float = 1.0  # step size for the mean gradient
    delta: float = 1e-5  # delta of the claim
    name: ClassVar[str] = "DP-SGD"

    def __post_init__(self) -> None:
        if self.loss not in ("logistic", "squared"):
            raise AuditError(f"loss is {self.loss!r}; it must be 'logistic' or 'squared'.")
        whole_at_least(self.steps, 1, "number of steps")
        if not 0.0 < self.rate <= 1.0:
            raise AuditError(f"rate is {self.rate!r}; the probability of being in a batch must be in (0, 1].")
        for what in ("noise_multiplier", "clip", "learning_rate"):
            positive(getattr(self, what), what.replace("_", " "))
        fraction(self.delta, "delta", open_below=True)

    @property
    def claim(self) -> Claim:
        return poisson_claim(self.rate, self.noise_multiplier, self.steps, self.delta)

    def train(
        self,
        records: Records,
        nominal: int,
        parameters: int,
        rng: np.random.Generator,
        observe: Observer | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Weights:
        """Train from weights of zero.

        ``nominal`` is the public number of records by which the sum of gradients is scaled to a mean, since the true
        number is private. ``parameters`` is the number of parameters that belong to single records. ``observe`` is
        called with the noisy sums, and ``progress`` with the number of steps done.
        """
        shared, own = np.zeros(records.features.shape[1]), np.zeros(parameters)
        norms = np.sqrt((records.features**2).sum(axis=1) + records.weight**2)
        expected = self.rate * nominal
        for step in range(self.steps):
            batch = self.batch(records, rng)
            drawn = records.take(batch)
            residuals = self.residuals(drawn, Weights(shared, own))
            residuals = residuals * self.shortening(np.abs(residuals) * norms[batch])
            total, total_own = residuals @ drawn.features, np.zeros(parameters)
            mine = drawn.own >= 0
            if parameters:
                total_own = np.bincount(drawn.own[mine], residuals[mine] * drawn.weight[mine], minlength=parameters)
            kept = self.kept(float(np.sqrt(total @ total + total_own @ total_own)), expected)
            scale = self.noise_scale(step, expected)
            noisy = kept * total + scale * rng.standard_normal(len(shared))
            noisy_own = kept * total_own + scale * rng.standard_normal(parameters)
            if observe is not None:
                observe(step, noisy_own)
            shared = shared - self.learning_rate * noisy / expected
            own = own - self.learning_rate * noisy_own / expected
            if progress is not None and (step % 64 == 63 or step == self.steps - 1):
                progress(step + 1, self.steps)
        return Weights(shared, own)

    def residuals(self, records: Records, weights: Weights) -> Floats:
        """Return the derivative of each record's loss with respect to its predictor.

        The derivative is 1 for a record with a constant gradient, so that the sum of gradients rises by this gradient.
        """
        predicted = weights.predictions(records)
        if self.loss == "logistic":
            derivative = -records.targets * expit(-records.targets * predicted)
        else:
            derivative = predicted - records.targets
        return np.where(records.constant, 1.0, derivative)

    def batch(self, records: Records, rng: np.random.Generator) -> Ints:
        """Draw the places of the records of one batch: each record independently with probability ``rate``."""
        return np.flatnonzero(rng.random(len(records)) < self.rate)

    def shortening(self, norms: Floats) -> Floats:
        """Return the factor, at most 1, that brings each gradient's norm to at most ``clip``."""
        return np.minimum(1.0, self.clip / np.maximum(norms, 1e-300))

    def kept(self, norm: float, expected: float) -> float:
        """Return the factor on the sum of a batch, which is 1 because the gradients are clipped already."""
        return 1.0

    def log_ratio(self, sums: Floats, shift: float, scale: float) -> Floats:
        """Return the log-likelihood ratio of sums: a sampled record that moves them by ``shift``, against noise alone.

        The noise has the standard deviation ``scale``, and the record is sampled with probability ``rate``.
        """
        ratio = shift * (2.0 * sums - shift) / (2.0 * scale**2)
        return ratio if self.rate == 1.0 else np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + ratio)

    def noise_scale(self, step: int, expected: float) -> float:
        """Return the standard deviation of the noise on the sum of a batch of ``expected`` records."""
        return self.noise_multiplier * self.clip


@functools.lru_cache(maxsize=64)
def composed(rate: float, noise_multiplier: float, steps: int) -> Any:
    """Return the privacy loss distribution of ``steps`` noisy sums of sampled vectors of norm 1.

    Each record is in a batch with probability ``rate``, independently (Poisson sampling). dp-accounting rounds
    losses up, and the result is the worse of adding and removing a record. Raises `AuditError` if dp-accounting is
    not installed.
    """
    single = library().from_gaussian_mechanism(
        noise_multiplier, sampling_prob=rate, value_discretization_interval=INTERVAL, use_connect_dots=True
    )
    return single.self_compose(steps) if steps > 1 else single


@functools.lru_cache(maxsize=64)
def poisson_claim(rate: float, noise_multiplier: float, steps: int, delta: float) -> ApproxDP:
    """Return the (epsilon, delta)-DP claim of DP-SGD with Poisson sampling.

    Without sampling, the claim is that of Gaussian DP with mu = sqrt(steps) / noise:

    >>> from epsaudit.claims.definitions import GaussianDP
    >>> ours, exact = poisson_claim(1.0, 4.0, 16, 1e-5).epsilon, GaussianDP(1.0).approximate(1e-5).epsilon
    >>> math.isclose(ours, exact, rel_tol=1e-3) and ours >= exact
    True
    """
    epsilon = float(composed(rate, noise_multiplier, steps).get_epsilon_for_delta(delta))
    return ApproxDP(epsilon, delta)


def full_batch_mu(noise_multiplier: float, steps: int) -> float:
    """Return mu of the Gaussian DP of DP-SGD whose batches hold all records (Dong, Roth and Su 2022, Corollary 3.3)."""
    return math.sqrt(steps) / noise_multiplier


LEAST_NOISE = 1e-3
"""Lower limit of the measured noise, in clipping norms. With noise this small a step reveals everything."""


class _Canaries:
    """Base of both audits: the learner's claim, and checks that raise `AuditError` for parameters out of range."""

    learner: DPSGD
    kind: ClassVar[str]

    @property
    def name(self) -> str:
        return f"{self.learner.name}, {self.kind}"

    @property
    def claim(self) -> Claim:
        return self.learner.claim


@dataclass(frozen=True, eq=False)
class GradientCanaries(_Canaries):
    """White-box audit of DP-SGD: canaries have Dirac vectors as gradients, and every noisy sum is observed.

    The score of a canary is the log-likelihood ratio of its coordinate over all steps: Poisson sampling of a
    gradient of the clipping norm in noise of the measured scale, against noise alone. The scale is the smaller of
    the claimed scale and the scale that each step's coordinates show, so a step with too little noise gets the
    weight that it deserves.

    Where batches are drawn without replacement, a canary takes the place of one of its ``companions``, and shifts the
    sum twice as far.
    """

    learner: DPSGD  # the training procedure
    data: Records  # the training data, always included
    canaries: int  # m, the number of canaries
    norm: float = 1.0  # norm of a canary's gradient in clipping norms; above 1 it shows whether clipping is missing
    companions: int = 0  # records per canary, always included, with the opposite gradient, of the clipping norm each
    kind: ClassVar[str] = "gradient canaries"

    def __post_init__(self) -> None:
        whole_at_least(self.canaries, 1, "number of canaries")
        whole_at_least(self.companions, 0, "number of companions")
        positive(self.norm, "norm of a canary's gradient")

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Train once with the included canaries, and score all of them from the noisy sums."""
        learner = self.learner
        mine = np.flatnonzero(included)
        records = self.data.join(self._gradients(mine, self.norm * learner.clip))
        others = np.tile(np.arange(self.canaries), self.companions)
        records = records.join(self._gradients(others, -learner.clip))
        # distance by which a canary moves its coordinate: twice as far if a companion leaves the batch
        away, shift = (-1.0, 2.0) if self.companions else (0.0, 1.0)
        total = np.zeros(self.canaries)

        def observe(step: int, sums: Floats) -> None:
            seen = sums / learner.clip - away
            spread = float(np.median(np.abs(seen - np.median(seen)))) / 0.6745  # a robust estimate for normal noise
            scale = max(min(spread, learner.noise_multiplier), LEAST_NOISE)
            np.add(total, learner.log_ratio(seen, shift, scale), out=total)

        learner.train(records, len(self.data), self.canaries, rng, observe, progress)
        return total

    def _gradients(self, own: np.ndarray, weight: float) -> Records:
        n = len(own)
        zeros = np.zeros((n, self.data.features.shape[1]))
        return Records(zeros, np.ones(n), own, np.full(n, weight), np.ones(n, dtype=bool))


@dataclass(frozen=True, eq=False)
class ExampleCanaries(_Canaries):
    """Black-box audit of DP-SGD: mislabelled examples, scored by minus their loss under the final weights.

    The examples may have parameters of their own, numbered from 0 to m - 1, like a rare category or word that occurs in
    only one record. Without such parameters, the canaries' gradients drown each other out.
    """

    learner: DPSGD  # the training procedure
    data: Records  # the training data, always included
    examples: Records  # with wrong targets; at least one
    kind: ClassVar[str] = "mislabelled examples"

    def __post_init__(self) -> None:
        if len(self.examples) == 0:
            raise AuditError("There are no canaries; give at least one mislabelled example.")

    @property
    def canaries(self) -> int:
        return len(self.examples)

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Train once with the included examples; score all of them by minus their loss."""
        records = self.data.join(self.examples.take(included))
        parameters = int(self.examples.own.max()) + 1
        weights = self.learner.train(records, len(self.data), parameters, rng, progress=progress)
        return -weights.losses(self.examples, self.learner.loss)


def mislabelled(data: Records, canaries: int, own: float, rng: np.random.Generator) -> Records:
    """Copy random records with the opposite target.

    Each copy has a parameter of its own, with ``own`` as its feature, unless ``own`` is 0.
    """
    chosen = rng.integers(0, len(data), canaries)
    return Records(
        data.features[chosen],
        -data.targets[chosen],
        np.arange(canaries) if own else np.full(canaries, -1),
        np.full(canaries, own),
        np.zeros(canaries, dtype=bool),
    )

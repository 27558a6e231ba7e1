"""DP-SGD of a JAX loss function with the gradient clipping, noise and sampling of jax-privacy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.errors import needs
from epsaudit.tools.training.dpsgd import DPSGDTrainer, ModelArray, Trained

BATCH_MULTIPLE = 32
"""Batches are padded to a multiple of this number of rows. JAX compiles a function anew for each batch size, and
padding keeps the number of different sizes small."""


@dataclass(frozen=True, kw_only=True, eq=False)
class JaxPrivacyTrainer(DPSGDTrainer):
    """A trainer that runs DP-SGD on a JAX loss function by means of jax-privacy; needs the extra ``training``.

    Batches come from `CyclicPoissonSampling`, clipped gradients from `clipped_grad` and noise from
    `gaussian_privatizer`, all of jax-privacy; the steps are plain SGD. A canary that is a gradient enters as an example
    whose loss is linear with this gradient.
    """

    loss: Callable[[Any, Any, Any], Any]
    """The loss of one record, ``loss(parameters, features, target)``."""
    start: Callable[[Any], Any]
    """Returns the initial parameters as a tree of arrays, ``start(key)``."""
    name: ClassVar[str] = "DP-SGD by jax-privacy"

    @cached_property
    def _parts(self) -> Any:
        """The number of dimensions, and three compiled functions of a flat parameter vector.

        They return the clipped gradient of a batch without noise, the losses of records, and the gradients of records.
        """
        with needs("training"):
            import jax
            import jax_privacy
            from jax import numpy as jnp
            from jax.flatten_util import ravel_pytree
        flat, tree = ravel_pytree(self.start(jax.random.key(0)))

        def single(parameters: Any, features: Any, target: Any) -> Any:
            return self.loss(tree(parameters), features, target)

        def either(parameters: Any, example: Any) -> Any:
            features, target, gradient, of_record = example
            return of_record * single(parameters, features, target) + jnp.sum(gradient * parameters)

        clipped = jax_privacy.clipped_grad(
            either, l2_clip_norm=self.clip, normalize_by=self.rate * self.examples, keep_batch_dim=False
        )
        losses = jax.jit(jax.vmap(single, (None, 0, 0)))
        gradients = jax.jit(jax.vmap(jax.grad(single), (None, 0, 0)))
        return flat.size, jax.jit(clipped), losses, gradients

    @property
    def dimensions(self) -> int:
        """Total number of dimensions of all parameters."""
        return int(self._parts[0])

    def __call__(
        self, features: ModelArray, targets: ModelArray, rng: np.random.Generator, gradients: ModelArray | None = None
    ) -> Trained:
        """Make one training run, and return the parameters before and after each step.

        The rows of ``gradients`` are canaries that are gradients instead of records.
        """
        dimensions, clipped, _, _ = self._parts
        import jax
        import jax_privacy
        from jax import numpy as jnp
        from jax.flatten_util import ravel_pytree

        n = len(features)
        inputs, classes = np.asarray(features, np.float32), np.asarray(targets)
        rows = np.zeros((0, 1), np.float32) if gradients is None else np.asarray(gradients, np.float32)
        first, key = jax.random.split(jax.random.key(int(rng.integers(2**31))))
        privatizer = jax_privacy.noise_addition.gaussian_privatizer(
            stddev=self.noise * self.clip / (self.rate * self.examples), prng_key=key
        )
        now = ravel_pytree(self.start(first))[0]
        state = privatizer.init(now)
        sampler = jax_privacy.batch_selection.CyclicPoissonSampling(sampling_prob=self.rate, iterations=self.steps)
        iterates = [np.asarray(now)]
        for places in sampler.batch_iterator(n + len(rows), rng):
            batch = np.asarray(places)
            batch = batch[batch >= 0]
            size = max(BATCH_MULTIPLE, -(-len(batch) // BATCH_MULTIPLE) * BATCH_MULTIPLE)
            canary_gradients = np.zeros((size, dimensions if len(rows) else 1), np.float32)
            of_record = np.zeros(size, np.float32)
            of_record[: len(batch)] = batch < n
            taken = np.zeros(size, int)
            taken[: len(batch)] = np.where(batch < n, batch, 0)
            others = np.flatnonzero(batch >= n)
            if len(others):
                canary_gradients[others] = rows[batch[others] - n]
            example = (
                jnp.asarray(inputs[taken]),
                jnp.asarray(classes[taken]),
                jnp.asarray(canary_gradients),
                of_record,
            )
            noisy, state = privatizer.update(clipped(now, example), state)
            now = now - self.learning_rate * noisy
            iterates.append(np.asarray(now))
        return Trained(np.array(iterates), self)

    def losses(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the loss of each record under these parameters, shape (n,)."""
        return np.asarray(self._parts[2](parameters, np.asarray(features, np.float32), np.asarray(targets)), float)

    def gradients_at(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the unclipped gradient of each record at these parameters, shape (n, dimensions)."""
        return np.asarray(self._parts[3](parameters, np.asarray(features, np.float32), np.asarray(targets)), float)

"""Single steps of the optimisers of Opacus and jax-privacy, in the form that `check_training` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.errors import needs
from epsaudit.tools.training.probes import OptimiserStep
from epsaudit.tools.training.torch_models import split_like


def opacus_step(optimizer: Any) -> OptimiserStep:
    """Return the step of an Opacus ``DPOptimizer`` (over plain SGD) as a function that `check_training` can test.

    The function writes crafted gradients into the attribute in which Opacus stores the gradients of single examples.
    Opacus then clips, accumulates, adds noise and scales. The returned update is the change of the optimiser's
    parameters divided by the learning rate. Needs the extra ``training``.
    """
    with needs("training"):
        import torch
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    rate = optimizer.param_groups[0]["lr"]

    def step(parts: Sequence[Floats]) -> Floats:
        before = [one.detach().clone() for one in parameters]
        for number, part in enumerate(parts):
            for one, given in zip(parameters, split_like(part, parameters), strict=True):
                one.grad_sample = torch.as_tensor(given, dtype=one.dtype)
            if number < len(parts) - 1:
                optimizer.signal_skip_step(True)
            optimizer.step()
            optimizer.zero_grad()
        moved = [((a - b.detach()) / rate).reshape(-1) for a, b in zip(before, parameters, strict=True)]
        return np.asarray(torch.cat(moved).numpy(), float)

    return step


def jax_privacy_step(clipped: Callable[[Any], Any], privatizer: Any, shapes: Sequence[int]) -> OptimiserStep:
    """Return a step made of jax-privacy's clipping and noise as a function that `check_training` can test.

    The step uses a linear loss, so that the gradients of the examples are exactly the crafted gradients. Needs the
    extra ``training``.

    Parameters
    ----------
    clipped : callable
        Returns the clipped gradient function of a loss, for example ``lambda loss: jax_privacy.clipped_grad(loss,
        l2_clip_norm=1.0, normalize_by=16)``.
    privatizer
        Adds noise to the clipped gradient; one of `jax_privacy.noise_addition`.
    shapes : sequence of int
        Number of dimensions of each parameter.
    """
    with needs("training"):
        import jax
        from jax import numpy as jnp
    ends = np.cumsum(shapes)[:-1]
    parameters = tuple(jnp.zeros(size) for size in shapes)
    state = privatizer.init(parameters)

    def loss(parameters: Any, example: Any) -> Any:
        return sum(jnp.sum(one * x) for one, x in zip(parameters, example, strict=True))

    gradient = jax.jit(clipped(loss))

    def step(parts: Sequence[Floats]) -> Floats:
        nonlocal state
        batch = tuple(map(jnp.asarray, np.split(np.vstack(parts), ends, axis=1)))
        noisy, state = privatizer.update(gradient(parameters, batch), state)
        return np.concatenate([np.asarray(one, float) for one in noisy])

    return step

"""DP-SGD of a PyTorch module with the optimiser and the batch sampler of Opacus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError, needs
from epsaudit.tools.training.dpsgd import DPSGDTrainer, ModelArray, Trained


@dataclass(frozen=True, kw_only=True, eq=False)
class OpacusTrainer(DPSGDTrainer):
    """A trainer that runs DP-SGD on a PyTorch module by means of Opacus, on the CPU; needs the extra ``training``.

    Batches come from `UniformWithReplacementSampler` and gradients of single examples from `GradSampleModule`. The
    `DPOptimizer`, which wraps plain SGD, clips the gradients, adds noise and scales. Canaries that are gradients are
    written into the attribute in which Opacus stores the gradients of single examples.
    """

    module: Callable[[], Any]
    """Returns a new `torch.nn.Module`; it is called once for each run."""
    loss: Callable[[Any, Any], Any] | None = None
    """Loss of each record, ``loss(outputs, targets)`` with shape (n,). The default is cross-entropy."""
    name: ClassVar[str] = "DP-SGD by Opacus"

    @cached_property
    def _example(self) -> Any:
        """An instance of the module that is never trained; it shows the names, shapes and types of the parameters.

        Raises `AuditError` if the module has no parameters, or parameters that do not require gradients.
        """
        with needs("training"):
            import torch
        with torch.random.fork_rng():
            made = self.module()
        frozen = [name for name, one in made.named_parameters() if not one.requires_grad]
        if frozen or not list(made.parameters()):
            raise AuditError(f"All parameters of the module must be trainable; {frozen or 'it has none'}.")
        return made

    @property
    def dimensions(self) -> int:
        """Total number of dimensions of all parameters."""
        return sum(one.numel() for one in self._example.parameters())

    def __call__(
        self, features: ModelArray, targets: ModelArray, rng: np.random.Generator, gradients: ModelArray | None = None
    ) -> Trained:
        """Make one training run, and return the parameters before and after each step.

        The rows of ``gradients`` are canaries that are gradients instead of records.
        """
        with needs("training"):
            import torch
            from opacus import GradSampleModule
            from opacus.optimizers import DPOptimizer
            from opacus.utils.uniform_sampler import UniformWithReplacementSampler
        loss, n = self._loss(), len(features)
        inputs, classes = self._tensors(features, targets)
        rows = torch.as_tensor(
            np.asarray(np.zeros((0, self.dimensions)) if gradients is None else gradients, np.float32)
        )
        with torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**62)))
            module = GradSampleModule(self.module(), loss_reduction="sum")
            parameters = list(module.parameters())
            optimizer = DPOptimizer(
                torch.optim.SGD(parameters, lr=self.learning_rate),
                noise_multiplier=self.noise,
                max_grad_norm=self.clip,
                expected_batch_size=self.rate * self.examples,
            )
            batches = UniformWithReplacementSampler(num_samples=n + len(rows), sample_rate=self.rate, steps=self.steps)
            iterates = [_flatten(parameters)]
            for batch in map(np.asarray, batches):
                records = batch[batch < n].astype(int)
                drawn = rows[batch[batch >= n].astype(int) - n]
                optimizer.zero_grad()
                if len(records):
                    loss(module(inputs[records]), classes[records]).sum().backward()
                for one, part in zip(parameters, split_like(drawn, parameters), strict=True):
                    one.grad_sample = torch.cat([one.grad_sample, part]) if len(records) else part
                optimizer.step()
                iterates.append(_flatten(parameters))
        return Trained(np.array(iterates), self)

    def losses(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the loss of each record under these parameters, shape (n,)."""
        import torch
        from torch.func import functional_call

        inputs, classes = self._tensors(features, targets)
        with torch.no_grad():
            found = self._loss()(functional_call(self._example, self._named(parameters), (inputs,)), classes)
        return np.asarray(found.numpy(), float)

    def gradients_at(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the unclipped gradient of each record at these parameters, shape (n, dimensions)."""
        import torch
        from torch.func import functional_call, grad, vmap

        loss, inputs = self._loss(), self._tensors(features, targets)

        def single(named: Any, one: Any, target: Any) -> Any:
            return loss(functional_call(self._example, named, (one[None],)), target[None])[0]

        found = vmap(grad(single), in_dims=(None, 0, 0))(self._named(parameters), *inputs)
        flat = [found[name].reshape(len(features), -1) for name, _ in self._example.named_parameters()]
        return np.asarray(torch.cat(flat, dim=1).numpy(), float)

    def _loss(self) -> Callable[[Any, Any], Any]:
        """Return the loss function of the trainer: the given one, or by default cross-entropy."""
        with needs("training"):
            import torch

        def cross_entropy(outputs: Any, targets: Any) -> Any:
            return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")

        return self.loss or cross_entropy

    def _tensors(self, features: ModelArray, targets: ModelArray) -> tuple[Any, Any]:
        """Convert features and targets to tensors and return both. Integer and boolean targets become int64."""
        import torch

        targets = np.asarray(targets)
        whole = targets.dtype.kind in "iub"
        return torch.as_tensor(np.asarray(features, np.float32)), torch.as_tensor(
            targets.astype(np.int64 if whole else np.float32)
        )

    def _named(self, parameters: ModelArray) -> dict[str, Any]:
        """Split a flat parameter vector into tensors, and return the tensors by the names of the parameters."""
        import torch

        named = dict(self._example.named_parameters())
        parts = zip(named.items(), split_like(parameters, [*named.values()]), strict=True)
        return {name: torch.as_tensor(part, dtype=one.dtype) for (name, one), part in parts}


def split_like(flat: Any, parameters: Sequence[Any]) -> Iterator[Any]:
    """Split flat vectors into parts with the shapes of the given parameters, and yield the parts.

    ``flat`` has the shape (..., dimensions), and each part the shape (..., *parameter.shape).
    """
    start = 0
    for one in parameters:
        yield flat[..., start : start + one.numel()].reshape(*flat.shape[:-1], *one.shape)
        start += one.numel()


def _flatten(parameters: list[Any]) -> ModelArray:
    """Concatenate the values of all parameters into one flat array, and return it."""
    return np.concatenate([one.detach().numpy().reshape(-1) for one in parameters])

"""DP-SGD of small models in numpy, which trains many models at once, so that 10,000 training runs take minutes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.tools.training.canaries import Canaries
from epsaudit.tools.training.dpsgd import DPSGDTrainer, ModelArray, Trained, clip_rows

Kind = Literal["logistic", "two layers", "convolution"]
KERNEL = 3
"""Width and height of a convolution kernel: the smallest size that has a central pixel."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallModel(DPSGDTrainer):
    """A classifier that is trained by DP-SGD in numpy.

    Targets are class numbers that start at 0. Features are flattened.

    >>> data = np.random.default_rng(0).normal(size=(500, 4))
    >>> trainer = SmallModel(inputs=4, classes=2, steps=50, rate=0.2, noise=1.0, examples=500)
    >>> trained = trainer(data, (data[:, 0] > 0).astype(int), np.random.default_rng(1))
    >>> bool(np.mean(trainer.losses(trained.parameters, data, data[:, 0] > 0)) < 0.4)
    True
    """

    inputs: int
    """Number of features of a record. For a convolution, the features are the pixels of a square image."""
    classes: int
    """Number of classes."""
    kind: Kind = "logistic"
    hidden: int = 16
    """Number of units of the middle layer, or number of kernels of a convolution."""
    at_once: int = 50
    """Number of training runs that `audit_training` makes in one call of `many`."""
    name: ClassVar[str] = "DP-SGD in numpy"

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("inputs", "classes", "hidden", "at_once"):
            whole_at_least(getattr(self, what), 1, what)
        if self.kind not in ("logistic", "two layers", "convolution"):
            raise AuditError(f"kind is {self.kind!r}; it must be 'logistic', 'two layers' or 'convolution'.")
        side = round(self.inputs**0.5)
        if self.kind == "convolution" and (side**2 != self.inputs or side < KERNEL):
            raise AuditError(
                f"inputs is {self.inputs}; a convolution needs square images of at least {KERNEL} x {KERNEL} pixels."
            )

    @functools.cached_property
    def _patches(self) -> NDArray[np.intp]:
        """Indices of the inputs of each position of the first layer, shape (positions, inputs per position)."""
        if self.kind != "convolution":
            return np.arange(self.inputs)[None]
        side = round(self.inputs**0.5)
        corner = (np.arange(side - KERNEL + 1)[:, None] * side + np.arange(side - KERNEL + 1)).reshape(-1, 1)
        places: NDArray[np.intp] = corner + (np.arange(KERNEL)[:, None] * side + np.arange(KERNEL)).reshape(1, -1)
        return places

    @functools.cached_property
    def _shapes(self) -> list[tuple[int, int]]:
        """Shape of the weight matrix of each layer, (inputs + 1, outputs). The last row contains the biases."""
        positions, width = self._patches.shape
        if self.kind == "logistic":
            return [(width + 1, self.classes)]
        return [(width + 1, self.hidden), (positions * self.hidden + 1, self.classes)]

    @property
    def dimensions(self) -> int:
        """Total number of dimensions of all parameters."""
        return sum(rows * columns for rows, columns in self._shapes)

    def __call__(
        self, features: ModelArray, targets: ModelArray, rng: np.random.Generator, gradients: ModelArray | None = None
    ) -> Trained:
        """Train once and return all iterates."""
        return self._train(features, targets, None, gradients, None, 1, rng)[0]

    def many(
        self,
        features: ModelArray,
        targets: ModelArray,
        canaries: Canaries,
        included: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> list[Trained]:
        """Train one model for each row of the boolean mask ``included``, shape (runs, m).

        A model is trained on the data and the canaries that its row selects.
        """
        runs, n = len(included), len(features)
        if canaries.features is None:
            return self._train(features, targets, None, canaries.gradients, included, runs, rng)
        features = np.concatenate([features, np.asarray(canaries.features)])
        targets = np.concatenate([targets, np.asarray(canaries.targets)])
        present = np.concatenate([np.ones((runs, n), bool), included], axis=1)
        return self._train(features, targets, present, None, None, runs, rng)

    def _train(
        self,
        features: ModelArray,
        targets: ModelArray,
        present: NDArray[np.bool_] | None,  # shape (runs, n)
        gradients: ModelArray | None,
        included: NDArray[np.bool_] | None,  # shape (runs, k)
        runs: int,
        rng: np.random.Generator,
    ) -> list[Trained]:
        """Train ``runs`` models at once with DP-SGD and return all iterates of each model.

        ``present`` says which records each run contains, and ``included`` which of the gradients; None means all.
        """
        images, classes = self._images(features), np.asarray(targets).astype(np.intp)
        rows = None if gradients is None or not len(gradients) else clip_rows(gradients, self.clip).astype(np.float32)
        iterates = np.empty((runs, self.steps + 1, self.dimensions), np.float32)
        now = iterates[:, 0] = self._start(runs, rng)
        for step in range(self.steps):
            batch = np.ones((runs, len(images)), bool)
            if self.rate < 1.0:
                batch = rng.random((runs, len(images)), np.float32) < self.rate
            if present is not None:
                batch &= present
            places = np.argsort(~batch, axis=1, kind="stable")[:, : max(1, int(batch.sum(axis=1).max()))]
            weights = np.take_along_axis(batch, places, axis=1)
            total = self._sum(now, images[places], classes[places], weights)
            if rows is not None:
                drawn = rng.random((runs, len(rows)), np.float32) < self.rate
                total += (drawn if included is None else drawn & included).astype(np.float32) @ rows
            total += self.noise * self.clip * rng.standard_normal(total.shape, np.float32)
            now = iterates[:, step + 1] = now - self.learning_rate / (self.rate * self.examples) * total
        return [Trained(one, self) for one in iterates]

    def _images(self, features: ModelArray) -> ModelArray:
        """Return the features as single-precision rows, one per record.

        Raises `AuditError` if a row has a wrong length.
        """
        images = np.asarray(features, np.float32).reshape(len(features), -1)
        if images.shape[1] != self.inputs:
            raise AuditError(f"Each record has {images.shape[1]} features; the model takes inputs={self.inputs}.")
        return images

    def _start(self, runs: int, rng: np.random.Generator) -> ModelArray:
        """Return the initial parameters of all runs, shape (runs, dimensions)."""
        if self.kind == "logistic":
            return np.zeros((runs, self.dimensions), np.float32)
        drawn = rng.standard_normal((runs, self.dimensions), np.float32)
        scales = [np.full(rows * columns, rows**-0.5, np.float32) for rows, columns in self._shapes]
        return np.asarray(drawn * np.concatenate(scales))

    def _layers(self, parameters: ModelArray) -> list[ModelArray]:
        """Split flat parameters, shape (runs, dimensions), into weight matrices of shape (runs, inputs, outputs)."""
        ends = np.cumsum([rows * columns for rows, columns in self._shapes])[:-1]
        parts = np.split(parameters, ends, axis=-1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _passes(
        self, parameters: ModelArray, images: ModelArray, classes: ModelArray
    ) -> tuple[list[tuple[ModelArray, ModelArray]], Floats]:
        """Run a forward and a backward pass.

        Images have shape (runs, n, inputs). Returns, for each layer, the inputs of the layer and the derivatives of the
        loss with respect to its outputs, both of shape (runs, n, positions, numbers); and the losses, shape (runs, n).
        """
        layers, seen = self._layers(parameters), []
        runs, n = images.shape[:2]
        ones = np.ones((runs, n, 1, 1), np.float32)
        values = images[..., self._patches]
        for number, weights in enumerate(layers):
            positions = values.shape[2]
            values = np.concatenate([values, np.broadcast_to(ones, (runs, n, positions, 1))], axis=3)
            seen.append(values)
            out = (values.reshape(runs, n * positions, -1) @ weights).reshape(runs, n, positions, -1)
            values = out if number == len(layers) - 1 else np.tanh(out).reshape(runs, n, 1, -1)
        scores = values[:, :, 0]
        scores = scores - scores.max(axis=2, keepdims=True)
        spread = np.exp(scores)
        totals = spread.sum(axis=2, keepdims=True)
        right = np.take_along_axis(scores, classes[..., None], axis=2)
        slopes = spread / totals
        np.put_along_axis(slopes, classes[..., None], np.take_along_axis(slopes, classes[..., None], 2) - 1.0, 2)
        found = [(seen[-1], slopes[:, :, None])]
        for inputs, weights in zip(seen[-2::-1], layers[:0:-1], strict=True):
            back = (found[-1][1].reshape(runs, n, -1) @ weights[:, :-1].swapaxes(1, 2)).reshape(runs, n, 1, -1)
            back = back * (1.0 - found[-1][0][..., :-1] ** 2)
            found.append((inputs, back.reshape(runs, n, inputs.shape[2], -1)))
        return found[::-1], np.asarray((np.log(totals) - right)[..., 0])

    def _sum(
        self, parameters: ModelArray, images: ModelArray, classes: ModelArray, weights: NDArray[np.bool_]
    ) -> ModelArray:
        """Return the sum of the clipped gradients of all records whose weight is true, shape (runs, dimensions)."""
        passes, _ = self._passes(parameters, images, classes)
        runs, squares = len(parameters), np.zeros(weights.shape, np.float32)
        for inputs, slopes in passes:
            if inputs.shape[2] == 1:
                squares += np.sum(inputs**2, axis=(2, 3)) * np.sum(slopes**2, axis=(2, 3))
            else:
                squares += np.sum((inputs.swapaxes(2, 3) @ slopes) ** 2, axis=(2, 3))
        kept = weights * np.minimum(1.0, self.clip / np.sqrt(np.maximum(squares, 1e-30)))
        sums = []
        for inputs, slopes in passes:
            left, right = inputs, slopes * kept[..., None, None]
            flat = [one.reshape(runs, -1, one.shape[3]) for one in (left, right)]
            sums.append((flat[0].swapaxes(1, 2) @ flat[1]).reshape(runs, -1))
        return np.concatenate(sums, axis=1)

    def losses(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the loss of each record under these parameters, shape (n,)."""
        images, classes = self._images(features), np.asarray(targets).astype(np.intp)
        return np.asarray(self._passes(parameters[None], images[None], classes[None])[1][0], float)

    def gradients_at(self, parameters: ModelArray, features: ModelArray, targets: ModelArray) -> Floats:
        """Return the unclipped gradient of each record at these parameters, shape (n, dimensions)."""
        images, classes = self._images(features), np.asarray(targets).astype(np.intp)
        passes, _ = self._passes(parameters[None], images[None], classes[None])
        parts = [(inputs[0].swapaxes(1, 2) @ slopes[0]).reshape(len(images), -1) for inputs, slopes in passes]
        return np.concatenate(parts, axis=1)

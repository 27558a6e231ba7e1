"""Canaries: records, or gradients, of which coins decide whether a training run sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.errors import AuditError, whole_at_least

HUGE = 1e3
"""Norm of a crafted gradient that must be clipped, in clipping norms."""
Data = tuple[ArrayLike, ArrayLike]
"""Features, shape (n, ...), and targets, shape (n,)."""


@dataclass(frozen=True, eq=False)
class Canaries:
    """Records of their own, or gradients that join batches as a record's would; at least one.

    >>> len(Canaries("blank", np.zeros((3, 64)), np.arange(3)))
    3
    """

    kind: str
    features: Any = None
    """Shape (m, ...), as those of the data."""
    targets: Any = None
    """Shape (m,)."""
    gradients: NDArray[Any] | None = None
    """Shape (m, dimensions of all parameters); in place of records."""

    def __post_init__(self) -> None:
        records = self.features is not None and self.targets is not None
        if records == (self.gradients is not None):
            raise AuditError(f"{self.kind} canaries must be features and targets, or gradients in their place.")
        if records and len(np.asarray(self.features)) != len(np.asarray(self.targets)):
            raise AuditError(f"{self.kind} canaries have targets other in number than features.")

    def __len__(self) -> int:
        given = self.gradients if self.features is None else self.features
        return 0 if given is None else len(given)

    def take(self, chosen: NDArray[Any]) -> Canaries:
        """Return some of them, by place or by truth."""
        given = (self.features, self.targets, self.gradients)
        return Canaries(self.kind, *(None if one is None else np.asarray(one)[chosen] for one in given))


def mislabelled(data: Data, number: int, rng: np.random.Generator) -> Canaries:
    """Copy different records of the data, each with one of the other classes as its target, all equally likely.

    >>> data = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    >>> made = mislabelled(data, 4, np.random.default_rng(0))
    >>> bool(np.all(made.targets != made.features[:, 0] // 2 % 2))
    True
    """
    features, targets = map(np.asarray, data)
    if not 1 <= whole_at_least(number, 1, "number of canaries") <= len(targets):
        raise AuditError(f"{number} records are to be mislabelled; the data have {len(targets)}.")
    classes, place = np.unique(targets, return_inverse=True)
    if len(classes) < 2:
        raise AuditError("The targets have one class; a record cannot be mislabelled.")
    chosen = rng.choice(len(targets), number, replace=False)
    moved = (place[chosen] + rng.integers(1, len(classes), number)) % len(classes)
    return Canaries("mislabelled", features[chosen], classes[moved])


def blank(data: Data, number: int = 1) -> Canaries:
    """Records whose features are all 0, with the classes as targets in turn; more than there are classes are alike."""
    features, targets = map(np.asarray, data)
    classes = np.unique(targets)
    shape = (whole_at_least(number, 1, "number of canaries"), *features.shape[1:])
    return Canaries("blank", np.zeros(shape, features.dtype), classes[np.arange(number) % len(classes)])


def dirac_gradients(number: int, dimensions: int) -> Canaries:
    """Gradients along one coordinate each, in turn, so long that they must be clipped: white box, no model needed.

    As many as dimensions are one a coordinate, eight times as many eight; coordinates are spread over all parameters.
    """
    whole_at_least(number, 1, "number of canaries")
    whole_at_least(dimensions, 1, "number of dimensions")
    gradients = np.zeros((number, dimensions), np.float32)
    places = (np.arange(number) * max(1, dimensions // number)) % dimensions
    gradients[np.arange(number), places] = HUGE
    return Canaries("Dirac gradient", gradients=gradients)


def random_gradients(number: int, dimensions: int, rng: np.random.Generator) -> Canaries:
    """Gradients in random directions, so long that they must be clipped: white box."""
    whole_at_least(number, 1, "number of canaries")
    drawn = rng.standard_normal((number, whole_at_least(dimensions, 1, "number of dimensions")))
    drawn *= HUGE / np.linalg.norm(drawn, axis=1, keepdims=True)
    return Canaries("random gradient", gradients=drawn.astype(np.float32))

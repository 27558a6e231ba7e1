"""Canaries: records or gradients that a training run contains or not, as fair coins decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.errors import AuditError, whole_at_least

HUGE_NORM = 1e3
"""Norm of a crafted gradient that must be clipped, in clipping norms."""
Data = tuple[ArrayLike, ArrayLike]
"""Features, shape (n, ...), and targets, shape (n,)."""


@dataclass(frozen=True, eq=False)
class Canaries:
    """A set of canaries of one kind: crafted records, or crafted gradients that enter a batch like a record's gradient.

    An audit includes each canary in the training data or not, as a fair coin decides. Raises `AuditError` if both
    records and gradients or neither are given, or if the numbers of features and targets differ.

    >>> len(Canaries("blank", np.zeros((3, 64)), np.arange(3)))
    3
    """

    kind: str
    """Name of the kind for reports, such as "mislabelled"."""
    features: Any = None
    """Features of the records, shape (m, ...); the trailing shape is that of the data."""
    targets: Any = None
    """Targets of the records, shape (m,)."""
    gradients: NDArray[Any] | None = None
    """Gradients instead of records, shape (m, total number of dimensions of all parameters)."""

    def __post_init__(self) -> None:
        records = self.features is not None and self.targets is not None
        if records == (self.gradients is not None):
            raise AuditError(f"{self.kind} canaries must have either features and targets, or gradients.")
        if records and len(np.asarray(self.features)) != len(np.asarray(self.targets)):
            sizes = f"{len(self.features)} features and {len(self.targets)} targets"
            raise AuditError(f"{self.kind} canaries have {sizes}; give equal numbers.")

    def __len__(self) -> int:
        given = self.gradients if self.features is None else self.features
        return 0 if given is None else len(given)

    def take(self, chosen: NDArray[Any]) -> Canaries:
        """Return the subset of the canaries that an index array or a boolean mask selects."""
        given = (self.features, self.targets, self.gradients)
        return Canaries(self.kind, *(None if one is None else np.asarray(one)[chosen] for one in given))


def mislabelled(data: Data, number: int, rng: np.random.Generator) -> Canaries:
    """Return canaries that are mislabelled copies of ``number`` distinct random records.

    The target of each copy is drawn uniformly from the classes other than the right one.

    >>> data = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    >>> made = mislabelled(data, 4, np.random.default_rng(0))
    >>> bool(np.all(made.targets != made.features[:, 0] // 2 % 2))
    True
    """
    features, targets = map(np.asarray, data)
    if not 1 <= whole_at_least(number, 1, "number of canaries") <= len(targets):
        raise AuditError(f"number is {number}; it must be between 1 and the {len(targets)} records of the data.")
    classes, place = np.unique(targets, return_inverse=True)
    if len(classes) < 2:
        raise AuditError("The targets have only one class; mislabelled records need at least two.")
    chosen = rng.choice(len(targets), number, replace=False)
    moved = (place[chosen] + rng.integers(1, len(classes), number)) % len(classes)
    return Canaries("mislabelled", features[chosen], classes[moved])


def blank(data: Data, number: int = 1) -> Canaries:
    """Return canaries that are records whose features are all 0; their targets are the classes in rotation.

    If ``number`` exceeds the number of classes, some of these records are equal.
    """
    features, targets = map(np.asarray, data)
    classes = np.unique(targets)
    shape = (whole_at_least(number, 1, "number of canaries"), *features.shape[1:])
    return Canaries("blank", np.zeros(shape, features.dtype), classes[np.arange(number) % len(classes)])


def dirac_gradients(number: int, dimensions: int) -> Canaries:
    """Return canaries that are gradients with one nonzero coordinate each, so long that they must be clipped.

    They are meant for a white-box audit and need no model. The coordinates are spread evenly over all ``dimensions``
    and repeat if ``number`` exceeds ``dimensions``: with eight times as many gradients as dimensions, each coordinate
    is used by eight gradients.
    """
    whole_at_least(number, 1, "number of canaries")
    whole_at_least(dimensions, 1, "number of dimensions")
    gradients = np.zeros((number, dimensions), np.float32)
    places = (np.arange(number) * max(1, dimensions // number)) % dimensions
    gradients[np.arange(number), places] = HUGE_NORM
    return Canaries("Dirac gradient", gradients=gradients)


def random_gradients(number: int, dimensions: int, rng: np.random.Generator) -> Canaries:
    """Return canaries that are gradients in random directions, so long that they must be clipped.

    They are meant for a white-box audit and need no model.
    """
    whole_at_least(number, 1, "number of canaries")
    drawn = rng.standard_normal((number, whole_at_least(dimensions, 1, "number of dimensions")))
    drawn *= HUGE_NORM / np.linalg.norm(drawn, axis=1, keepdims=True)
    return Canaries("random gradient", gradients=drawn.astype(np.float32))

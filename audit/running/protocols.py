"""The two protocols of what is audited: a mechanism, and the law of its output on one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs


@runtime_checkable
class OutputDistribution(Protocol):
    """The distribution (law) of a mechanism's output on one dataset, prepared so that sampling is cheap.

    A distribution that is known exactly has further members (`epsaudit.mechanisms.known_laws.known_forms`). A
    distribution that makes a separate call for every output may also have a method ``sample_interleaved(other, coins,
    rng)``. The method draws one output for each coin, in the order of the coins: from this distribution for 0, and from
    ``other`` for 1. It returns the outputs of this distribution and the outputs of ``other``.
    """

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Draw ``size`` independent outputs, shape (size, *output_shape). All randomness comes from ``rng``."""


OutputLaws = tuple[OutputDistribution, OutputDistribution]
"""The laws of the outputs M(x) and M(x')."""


@runtime_checkable
class Mechanism(Protocol):
    """A randomised algorithm, together with the privacy guarantee (claim) that is proven for it."""

    @property
    def name(self) -> str:
        """A short name for tables."""

    @property
    def claim(self) -> Claim | None:
        """The proven privacy guarantee, or None if the caller gives the claim to the audit."""

    @property
    def adjacency(self) -> Adjacency | None:
        """The neighbouring relation of the proof, or None if the caller guarantees that all pairs are neighbours."""

    def __call__(self, dataset: Any) -> OutputDistribution:
        """Return the output distribution on one dataset."""

    def worst_pairs(self) -> Sequence[DatasetPair]:
        """Return pairs of datasets on which the claim is attained or nearly attained. The result may be empty."""


def is_claim(claim: Any, name: str) -> Claim:
    """Return ``claim`` as it is; raise `AuditError`, which mentions ``name``, if it is not a claim."""
    if not isinstance(claim, Claim):
        raise AuditError(f"The claim of {name} is {claim!r}; give one, for instance epsilon=1.0 or claim=PureDP(1.0).")
    return claim

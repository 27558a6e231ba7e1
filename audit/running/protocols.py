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
    """The law of a mechanism's output on one dataset, prepared so that sampling is cheap.

    A law that is known exactly has further members (`epsaudit.mechanisms.known_laws.known_forms`). A law of which every
    output is a call of its own may also have ``sample_interleaved(other, coins, rng)``. It returns the outputs on this
    dataset, for coins that are 0, and on the dataset of ``other``, for coins that are 1, drawn in the order of the
    coins.
    """

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Draw ``size`` independent outputs, shape (size, *output_shape), all randomness from ``rng``."""


OutputLaws = tuple[OutputDistribution, OutputDistribution]
"""The laws of the outputs M(x) and M(x')."""


@runtime_checkable
class Mechanism(Protocol):
    """A randomised algorithm with its proven claim."""

    @property
    def name(self) -> str:
        """A short name for tables."""

    @property
    def claim(self) -> Claim | None:
        """The proven bound, or None if the audit is given one."""

    @property
    def adjacency(self) -> Adjacency | None:
        """The neighbouring relation of the proof, or None if the caller guarantees that the pairs are neighbours."""

    def __call__(self, dataset: Any) -> OutputDistribution:
        """Prepare the output distribution on one dataset."""

    def worst_pairs(self) -> Sequence[DatasetPair]:
        """Return pairs of datasets on which the claim is attained or nearly attained; there may be none."""


def is_claim(claim: Any, name: str) -> Claim:
    """Return ``claim`` as it is; raise `AuditError`, which mentions ``name``, if it is not a claim."""
    if not isinstance(claim, Claim):
        raise AuditError(f"The claim of {name} is {claim!r}; give one, for instance epsilon=1.0 or claim=PureDP(1.0).")
    return claim

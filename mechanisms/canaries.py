"""Canaries for DP-SGD: records that are put in by a coin each, and scored from what training releases.

From a training procedure and a dataset it makes a mechanism for `epsaudit.audit_one_run`. White-box canaries are made
in the space of gradients and scored from every step's noisy sum; black-box canaries are mislabelled examples, scored by
their loss.

Why each canary has a parameter of its own: with m canaries in a model of d < m shared parameters, their gradients
overlap, and what the others add is noise of m / d times a canary's square on top of the mechanism's own. The auditor
may choose the model, so it appends m parameters that the data do not use (an embedding table has such rows): canary
i's gradient is a Dirac vector, nothing interferes, and no matrix of m directions is kept. Training of the shared
parameters is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsaudit.audits.one_run.play import StepCallback
from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError, whole_at_least
from epsaudit.mechanisms.base import positive
from epsaudit.mechanisms.dp_sgd import DPSGD, Bools, Floats, Records

LEAST_NOISE = 1e-3
"""Least measured noise, in units of the clipping norm: a step without noise tells everything all the same."""


class _Canaries:
    """What both audits share: the learner's claim, and parameters that raise `AuditError` if they are out of range."""

    learner: DPSGD
    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """What is audited."""
        return f"{self.learner.name}, {self.kind}"

    @property
    def claim(self) -> Claim:
        """The learner's."""
        return self.learner.claim


@dataclass(frozen=True, eq=False)
class GradientCanaries(_Canaries):
    """White-box audit of DP-SGD: each canary's gradient is a Dirac vector, each step's noisy sum is seen.

    The score is the log-likelihood ratio of a canary's coordinates over all steps: Poisson sampling of a gradient of
    the clipping norm in noise of the measured scale, against noise alone. The scale is the smaller of what is claimed
    and what each step's coordinates show, so that a step with too little noise counts for what it gives away.

    Where batches are drawn without replacement, a canary takes the place of one of its ``companions``, and shifts the
    sum twice as far.
    """

    learner: DPSGD  # the training procedure
    data: Records  # what it learns from, always in
    canaries: int  # m, how many
    norm: float = 1.0  # of a canary's gradient before clipping, in clipping norms; above 1 it shows missing clipping
    companions: int = 0  # records per canary that are always in and pull the other way, each with the clipping norm
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
        # how far from the value without its canary a coordinate moves: twice as far if a companion makes room
        away, shift = (-1.0, 2.0) if self.companions else (0.0, 1.0)
        total = np.zeros(self.canaries)

        def observe(step: int, sums: Floats) -> None:
            seen = sums / learner.clip - away
            spread = float(np.median(np.abs(seen - np.median(seen)))) / 0.6745  # of a normal, robustly
            scale = max(min(spread, learner.noise_multiplier), LEAST_NOISE)
            np.add(total, learner.log_ratio(seen, shift, scale), out=total)

        learner.train(records, len(self.data), self.canaries, rng, observe, progress)
        return total

    def _gradients(self, own: np.ndarray, weight: float) -> Records:
        """Records of constant gradient ``weight`` on the parameters ``own``."""
        n = len(own)
        zeros = np.zeros((n, self.data.features.shape[1]))
        return Records(zeros, np.ones(n), own, np.full(n, weight), np.ones(n, dtype=bool))


@dataclass(frozen=True, eq=False)
class ExampleCanaries(_Canaries):
    """Black-box audit of DP-SGD: mislabelled examples, scored by minus their loss under the final weights.

    The examples may have parameters of their own, numbered from 0 to m - 1, as the rare category or word that occurs in
    only one record has. Without, canaries drown in each other's gradients.
    """

    learner: DPSGD  # the training procedure
    data: Records  # what it learns from, always in
    examples: Records  # with wrong targets; at least one
    kind: ClassVar[str] = "mislabelled examples"

    def __post_init__(self) -> None:
        if len(self.examples) == 0:
            raise AuditError("There are no canaries; give at least one mislabelled example.")

    @property
    def canaries(self) -> int:
        """How many examples there are."""
        return len(self.examples)

    def scores(self, included: Bools, rng: np.random.Generator, progress: StepCallback | None = None) -> Floats:
        """Train once with the included examples; score all of them by minus their loss."""
        records = self.data.join(self.examples.take(included))
        parameters = int(self.examples.own.max()) + 1
        weights = self.learner.train(records, len(self.data), parameters, rng, progress=progress)
        return -weights.losses(self.examples, self.learner.loss)


def mislabelled(data: Records, canaries: int, own: float, rng: np.random.Generator) -> Records:
    """Copy random records with the opposite target, each with a parameter of its own if ``own``, its feature, is not 0.

    Examples
    --------
    >>> data = Records.plain(np.ones((5, 1)), np.ones(5))
    >>> mislabelled(data, 2, 3.0, np.random.default_rng(0)).targets.tolist()
    [-1.0, -1.0]
    """
    chosen = rng.integers(0, len(data), canaries)
    return Records(
        data.features[chosen],
        -data.targets[chosen],
        np.arange(canaries) if own else np.full(canaries, -1),
        np.full(canaries, own),
        np.zeros(canaries, dtype=bool),
    )

"""Shared parts of private means: a noisy test of a score, and the law of a normal vector or a refusal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Floats
from epsaudit.mechanisms.exact.convolution import convolved
from epsaudit.mechanisms.exact.laws import loss_pair
from epsaudit.mechanisms.exact.losses import LossPair, Panels, merge_equal
from epsaudit.mechanisms.laws import NormalLaw
from epsaudit.mechanisms.stability import RefusalLaw


@dataclass(frozen=True)
class ScoreTest:
    """A test of a score: it passes where score + Z < k - t, with Z truncated Laplace noise on [-t, t].

    Scale b = sensitivity / epsilon and t = b log(1 + (e^epsilon - 1) / (2 delta)) make it (epsilon, delta)-DP (Geng,
    Ding, Guo and Kumar 2020, Theorem 1). k = ceil(2 t) is the least number for which score 0 always passes and score k
    never does: Lemma 5 of docs/explanation/covariance-aware-mean.md.

    >>> test = ScoreTest(1.0, 1e-6)
    >>> test.levels, [round(math.exp(test.log_chances(score)[0]), 6) for score in (0, 27, 28, 55)]
    (55, [1.0, 0.6428, 0.424503, 0.0])
    """

    epsilon: float
    delta: float
    sensitivity: float = 2.0

    @property
    def reach(self) -> float:
        """The greatest noise, t."""
        return self.sensitivity / self.epsilon * math.log1p(math.expm1(self.epsilon) / (2.0 * self.delta))

    @property
    def levels(self) -> int:
        """k, the least score that never passes."""
        return math.ceil(2.0 * self.reach)

    def log_chances(self, score: int) -> tuple[float, float]:
        z = self.levels - self.reach - score
        return self._log_below(z), self._log_below(-z)

    def _log_below(self, z: float) -> float:
        rate, t = self.epsilon / self.sensitivity, self.reach
        rest = -math.expm1(-t * rate)
        tail = math.exp(-min(abs(z), t) * rate) * -math.expm1((abs(z) - t) * rate) / (2.0 * rest) if abs(z) < t else 0.0
        if z > 0.0:
            return math.log1p(-tail)
        return math.log(tail) if tail > 0.0 else -math.inf


_ROUNDING = 1e-11
"""Largest variance or shift that counts as 0 up to rounding, relative to 1, after both covariances are scaled alike."""
_FAR = 20.0
"""Shifts and ratios of scales beyond which a grid of losses overflows. Laws this far apart hardly overlap."""


@dataclass(frozen=True, eq=False)
class RefusableNormal:
    """N(mean, covariance) with probability e^log_passes, else a refusal: a row of NaN."""

    mean: Floats  # shape (d,): centre of the normal law
    covariance: Floats  # shape (d, d): its covariance; where it is singular the law lives on an affine subspace
    log_passes: float = 0.0  # log_passes and log_refuses are the log-probabilities of an answer and of a refusal
    log_refuses: float = -math.inf

    @cached_property
    def _axes(self) -> tuple[Floats, Floats]:
        """Scaled eigenvectors, shape (d, rank), and a left inverse of them, shape (rank, d)."""
        scale = np.sqrt(np.where(np.diag(self.covariance) > 0.0, np.diag(self.covariance), 1.0))
        values, vectors = np.linalg.eigh(self.covariance / np.outer(scale, scale))
        kept = values > _ROUNDING
        roots = np.sqrt(values[kept])
        return scale[:, None] * vectors[:, kept] * roots, (vectors[:, kept] / roots).T / scale

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw ``size`` outputs, shape (size, d)."""
        axes, _ = self._axes
        outputs = rng.standard_normal((size, axes.shape[1])) @ axes.T
        outputs += self.mean
        outputs[np.flatnonzero(rng.random(size) < math.exp(self.log_refuses))] = np.nan
        return outputs

    def log_density(self, outputs: ArrayLike) -> Floats:
        """Log of the density at each row of numbers, on the law's subspace, and log-probability of a refusal at NaN."""
        rows = np.asarray(outputs, float) - self.mean
        axes, inverse = self._axes
        refused = np.isnan(rows).any(axis=1)
        rows = np.where(refused[:, None], 0.0, rows)
        standard = rows @ inverse.T
        scale = np.sqrt(np.where(np.diag(self.covariance) > 0.0, np.diag(self.covariance), 1.0))
        off = np.abs((rows - standard @ axes.T) / scale).max(axis=1, initial=0.0)
        _, log_volume = np.linalg.slogdet(axes.T @ axes)
        density = -0.5 * (np.square(standard).sum(axis=1) + log_volume + axes.shape[1] * math.log(2.0 * math.pi))
        density = np.where(off > 1e-7 * (1.0 + np.abs(standard).max(axis=1, initial=0.0)), -np.inf, density)
        return np.where(refused, self.log_refuses, self.log_passes + density)

    def loss_against(self, other: object) -> LossPair | None:
        """Return the privacy loss against another law of this kind.

        The result is None for two or more coordinates if the laws are far apart in one of them.
        """
        if not isinstance(other, RefusableNormal) or other.mean.shape != self.mean.shape:
            return None
        passes, refuses = (self.log_passes, other.log_passes), (self.log_refuses, other.log_refuses)
        pairs = None if -math.inf in passes else self._independent(other)
        if pairs is None:  # the answers of one law are impossible for the other
            return _atoms([[passes[0], -math.inf, refuses[0]], [-math.inf, passes[1], refuses[1]]])
        if not pairs:
            return _atoms([[passes[0], refuses[0]], [passes[1], refuses[1]]])
        if len(pairs) == 1:
            ((shift, scale),) = pairs
            first = RefusalLaw(NormalLaw(0.0, 1.0), passes[0], refuses[0])
            return loss_pair(first, RefusalLaw(NormalLaw(shift, scale), passes[1], refuses[1]))
        if any(abs(shift) > _FAR or not 1.0 / _FAR < scale < _FAR for shift, scale in pairs):
            return None  # losses too unequal for one grid
        normal = convolved([(loss_pair(NormalLaw(0.0, 1.0), NormalLaw(*pair)), 1) for pair in pairs])
        assert normal.lower is not None
        return _with_refusal(normal, passes, refuses, _with_refusal(normal.lower, passes, refuses, None))

    def _independent(self, other: RefusableNormal) -> list[tuple[float, float]] | None:
        """Return shift and scale of independent normal coordinates whose pairs with N(0, 1) have the same loss.

        The first covariance is whitened and the second diagonalised, since a linear map does not change the loss.
        Coordinates of equal variance are rotated so that one of them has the whole shift. None if the laws live on
        different subspaces.
        """
        axes, inverse = self._axes
        other_axes, _ = other._axes
        shift = other.mean - self.mean
        scale = np.sqrt(np.maximum(np.diag(self.covariance), np.diag(other.covariance)))
        scale[scale == 0.0] = 1.0
        moved = np.column_stack([other_axes, shift])
        outside = (moved - axes @ (inverse @ moved)) / scale[:, None]
        size = 1.0 + np.abs(moved / scale[:, None]).max(initial=0.0)
        if axes.shape[1] != other_axes.shape[1] or np.abs(outside).max(initial=0.0) > 1e-7 * size:
            return None
        ratios, turns = np.linalg.eigh((inverse @ other_axes) @ (inverse @ other_axes).T)
        shifts = turns.T @ (inverse @ shift)
        same = np.abs(ratios - 1.0) < _ROUNDING
        whole = float(np.linalg.norm(shifts[same]))
        pairs = [(float(s), math.sqrt(r)) for s, r in zip(shifts[~same], ratios[~same], strict=True)]
        return [(whole, 1.0), *pairs] if whole > _ROUNDING else pairs


def _atoms(log_chances: list[list[float]]) -> LossPair:
    aligned = np.array(log_chances)
    aligned = aligned[:, ~np.isneginf(aligned).all(axis=0)]
    return LossPair(*merge_equal(aligned, aligned[0] - aligned[1]), Panels.none())


def _with_refusal(
    normal: LossPair, passes: tuple[float, float], refuses: tuple[float, float], lower: LossPair | None
) -> LossPair:
    """Return the pair of laws of an answer or a refusal, given the pair of laws of answers."""
    atoms: NDArray[np.float64] = normal.atoms + np.array(passes)[:, None]
    losses = normal.losses + (passes[0] - passes[1])
    if max(refuses) > -math.inf:
        atoms = np.column_stack([atoms, refuses])
        losses = np.append(losses, refuses[0] - refuses[1])
    return LossPair(*merge_equal(atoms, losses), Panels.none(), lower=lower)

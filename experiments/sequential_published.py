"""What others' sequential auditors needed: their mechanisms, and the figures that their tables print.

The figures are quoted, not measured here: Kutta, Dunsche, Wei and Zikas, "Sequential Auditing for f-Differential
Privacy" (2026, arXiv:2602.06518), and González, Dulce-Rubio, Ramdas and Ribero, "Sequentially Auditing Differential
Privacy" (NeurIPS 2025, arXiv:2509.07055), averages at alpha = 0.05. Here, as in all of epsaudit, runs on both datasets
are counted. Kutta et al. refute the trade-off curve of Laplace noise where the claim here is pure DP, which allows
more; delta = 1e-5 for Gaussian noise on a mean is that of their code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from epsaudit import ApproxDP, Claim, DatasetPair, GaussianDP, Mechanism, PureDP
from epsaudit.mechanisms.additive import Gaussian, Laplace

Floats = NDArray[np.float64]
DELTA = 1e-5
"""Of the claims about Gaussian noise on a mean."""
LEAST_SIZE = 1e-12
"""What a noisy number of records is raised to; then outputs are as large as 1e14."""
CELLS = 2_000
"""Of a noisy number of records, for the density of outputs: it is then right to 1e-3 of its value."""


@dataclass(frozen=True)
class NoisyMean:
    """A mean of numbers with noise whose scale divides by the number of records, which nobody protected.

    With ``noisy_size``, the scale divides by a noisy number of records, and the sum by the true one: NonDPLaplace2 and
    NonDPGaussian2 of González et al.; without, both by the true one: NonDPLaplace1 and NonDPGaussian1.
    """

    noise: Literal["laplace", "norm"]
    noisy_size: bool
    epsilon: float
    name: str = "noisy mean"
    adjacency: None = None

    @property
    def claim(self) -> Claim:
        """What their authors test."""
        return PureDP(self.epsilon) if self.noise == "laplace" else ApproxDP(self.epsilon, DELTA)

    def __call__(self, dataset: Sequence[float]) -> NoisyMeanLaw:
        """Return the law of outputs on a dataset that is not empty."""
        return NoisyMeanLaw(self, len(dataset), sum(dataset) / len(dataset))

    def worst_pairs(self) -> list[DatasetPair]:
        """The pair that their tables are for."""
        return [DatasetPair((0.0,), (0.0, 1.0))]


@dataclass(frozen=True)
class NoisyMeanLaw:
    """The output law of a `NoisyMean`: noise around the mean, whose scale is 2 / (size epsilon)."""

    mechanism: NoisyMean
    size: int
    mean: float

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw outputs, shape (size,)."""
        draw = rng.laplace if self.mechanism.noise == "laplace" else rng.normal
        scale, records = 2.0 / self.mechanism.epsilon, np.full(size, float(self.size))
        if self.mechanism.noisy_size:
            records = np.maximum(LEAST_SIZE, records + draw(0.0, scale, size))
        return np.asarray(self.mean + draw(0.0, scale / records))

    def log_density(self, outputs: ArrayLike) -> Floats:
        """Logarithm of the density; with a noisy size interpolated between distances from the mean."""
        distance = np.abs(np.asarray(outputs, float) - self.mean)
        if not self.mechanism.noisy_size:
            scale = 2.0 / (self.mechanism.epsilon * self.size)
            return np.asarray(getattr(stats, self.mechanism.noise).logpdf(distance, scale=scale))
        distances, densities = self._table
        return np.asarray(np.interp(np.log(np.maximum(distance, distances[0])), np.log(distances), densities))

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Distances from the mean, and the logarithm of the density there: a mixture over noisy sizes."""
        law, scale = getattr(stats, self.mechanism.noise), 2.0 / self.mechanism.epsilon
        ends = np.geomspace(LEAST_SIZE, self.size + 40.0 * scale, CELLS + 1)
        sizes = np.concatenate([[LEAST_SIZE], np.sqrt(ends[1:] * ends[:-1])])
        masses = np.diff(law.cdf(ends - self.size, scale=scale), prepend=0.0)
        distances = np.geomspace(1e-9 * scale, 1e3 * scale / LEAST_SIZE, CELLS)
        parts = [law.pdf(some[:, None], scale=scale / sizes) @ masses for some in np.array_split(distances, 8)]
        return distances, np.log(np.maximum(np.concatenate(parts), 1e-300))


@dataclass(frozen=True)
class Published:
    """A row of others' tables: runs on both datasets together, None where they print none."""

    name: str
    mechanism: Mechanism
    claim: Claim
    kutta: float | None = None
    gonzalez: float | None = None
    gonzalez_refuted: float = 1.0

    @property
    def quoted(self) -> str:
        """Their figures as text; a share of audits that refuted, where not all did."""
        share = f" ({self.gonzalez_refuted:.0%} refuted)" if self.gonzalez_refuted < 1.0 else ""
        parts = [("Kutta et al.", self.kutta, ""), ("González et al.", self.gonzalez, share)]
        return "; ".join(f"{name} {runs:,.0f}{more}" for name, runs, more in parts if runs is not None)

    @property
    def others(self) -> tuple[float, ...]:
        """Their figures, with those of audits that did not all refute left out: an average over the quick ones."""
        rows = (self.kutta, self.gonzalez if self.gonzalez_refuted == 1.0 else None)
        return tuple(runs for runs in rows if runs is not None)


def published() -> list[Published]:
    """Rows of others' tables, in their order."""
    gaussian = Gaussian(1.0, GaussianDP(1.0).profile(1.0))  # mu = 1
    rows = [
        Published("Gaussian, mu 1 claimed as 0.5", gaussian, GaussianDP(0.5), kutta=376),
        Published("Gaussian, mu 1 claimed as 0.8", gaussian, GaussianDP(0.8), kutta=2_906),
        Published("Laplace, epsilon 1 claimed as 0.5", Laplace(1.0), PureDP(0.5), kutta=439),
        Published("Laplace, epsilon 1 claimed as 0.8", Laplace(1.0), PureDP(0.8), kutta=3_400),
    ]
    quoted: dict[tuple[Literal["laplace", "norm"], int, float], dict[str, float]] = {
        ("norm", 1, 0.01): {"gonzalez": 528},
        ("norm", 1, 0.1): {"gonzalez": 1_124},
        ("norm", 2, 0.01): {"gonzalez": 2_278, "gonzalez_refuted": 0.85},
        ("norm", 2, 0.1): {"gonzalez": 9_552, "gonzalez_refuted": 0.05},
        ("laplace", 1, 0.01): {"kutta": 173, "gonzalez": 662},
        ("laplace", 1, 0.1): {"kutta": 228, "gonzalez": 1_840},
        ("laplace", 2, 0.01): {"gonzalez": 384},
        ("laplace", 2, 0.1): {"gonzalez": 1_540},
    }
    for (noise, number, epsilon), figures in quoted.items():
        mechanism = NoisyMean(noise, number == 2, epsilon)
        name = f"NonDP{'Laplace' if noise == 'laplace' else 'Gaussian'}{number}, epsilon {epsilon:g}"
        rows.append(Published(name, mechanism, mechanism.claim, **figures))
    return rows

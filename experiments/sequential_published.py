"""The mechanisms that other sequential auditors test, and the numbers of runs that their tables print.

The numbers are quoted and not measured here. They come from Kutta, Dunsche, Wei and Zikas, "Sequential Auditing for
f-Differential Privacy" (2026, arXiv:2602.06518), and from González, Dulce-Rubio, Ramdas and Ribero, "Sequentially
Auditing Differential Privacy" (NeurIPS 2025, arXiv:2509.07055), as averages at alpha = 0.05. As everywhere in epsaudit,
runs on both datasets are counted. Kutta et al. refute the trade-off curve of Laplace noise, whereas the claim here is
pure DP, which allows more. The delta = 1e-5 for Gaussian noise on a mean is that of their code. The rows stand in a
module of their own, because the study of sequential audits and the league both use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from epsaudit import ApproxDP, Claim, DatasetPair, GaussianDP, Mechanism, PureDP
from epsaudit.array_types import Floats
from epsaudit.mechanisms.additive import Gaussian, Laplace

DELTA = 1e-5
"""Delta of the claims about Gaussian noise on a mean."""
LEAST_SIZE = 1e-12
"""Smallest value to which a noisy number of records is raised. Outputs may then be as large as 1e14."""
CELLS = 2_000
"""Number of cells of a noisy number of records in the computation of the output density, which is then accurate to 1e-3
of its value."""


@dataclass(frozen=True)
class NoisyMean:
    """A mean with noise whose scale is divided by the number of records, which is not protected.

    With ``noisy_size`` the scale is divided by a noisy number of records, and the sum by the true number: these are
    NonDPLaplace2 and NonDPGaussian2 of González et al. Otherwise both are divided by the true number: NonDPLaplace1 and
    NonDPGaussian1.
    """

    noise: Literal["laplace", "norm"]
    noisy_size: bool
    epsilon: float
    name: str = "noisy mean"
    adjacency: None = None

    @property
    def claim(self) -> Claim:
        """The claim that the authors of the mechanism test."""
        return PureDP(self.epsilon) if self.noise == "laplace" else ApproxDP(self.epsilon, DELTA)

    def __call__(self, dataset: Sequence[float]) -> NoisyMeanLaw:
        """Return the output law on a dataset with at least one record."""
        return NoisyMeanLaw(self, len(dataset), sum(dataset) / len(dataset))

    def worst_pairs(self) -> list[DatasetPair]:
        """Return the pair that the published tables use."""
        return [DatasetPair((0.0,), (0.0, 1.0))]


@dataclass(frozen=True)
class NoisyMeanLaw:
    """The output law of a `NoisyMean`: noise around the mean with scale 2 / (size epsilon)."""

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
        """Return the logarithm of the density. With a noisy size it is interpolated between distances from the mean."""
        distance = np.abs(np.asarray(outputs, float) - self.mean)
        if not self.mechanism.noisy_size:
            scale = 2.0 / (self.mechanism.epsilon * self.size)
            return np.asarray(getattr(stats, self.mechanism.noise).logpdf(distance, scale=scale))
        distances, densities = self._table
        return np.asarray(np.interp(np.log(np.maximum(distance, distances[0])), np.log(distances), densities))

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Distances from the mean, and the logarithm of the density at these distances.

        The density is a mixture over noisy numbers of records.
        """
        law, scale = getattr(stats, self.mechanism.noise), 2.0 / self.mechanism.epsilon
        ends = np.geomspace(LEAST_SIZE, self.size + 40.0 * scale, CELLS + 1)
        sizes = np.concatenate([[LEAST_SIZE], np.sqrt(ends[1:] * ends[:-1])])
        masses = np.diff(law.cdf(ends - self.size, scale=scale), prepend=0.0)
        distances = np.geomspace(1e-9 * scale, 1e3 * scale / LEAST_SIZE, CELLS)
        parts = [law.pdf(some[:, None], scale=scale / sizes) @ masses for some in np.array_split(distances, 8)]
        return distances, np.log(np.maximum(np.concatenate(parts), 1e-300))


@dataclass(frozen=True)
class Published:
    """A row of others' tables, with runs on both datasets together; None stands for a number that is not printed."""

    name: str
    mechanism: Mechanism
    claim: Claim
    kutta: float | None = None
    gonzalez: float | None = None
    gonzalez_refuted: float = 1.0

    @property
    def quoted(self) -> str:
        """The quoted numbers as text, with the share of audits that refuted the claim if not all of them did."""
        share = f" ({self.gonzalez_refuted:.0%} refuted)" if self.gonzalez_refuted < 1.0 else ""
        parts = [("Kutta et al.", self.kutta, ""), ("González et al.", self.gonzalez, share)]
        return "; ".join(f"{name} {runs:,.0f}{more}" for name, runs, more in parts if runs is not None)

    @property
    def others(self) -> tuple[float, ...]:
        """The quoted numbers, except averages over audits of which only some refuted the claim."""
        rows = (self.kutta, self.gonzalez if self.gonzalez_refuted == 1.0 else None)
        return tuple(runs for runs in rows if runs is not None)


def published() -> list[Published]:
    """Return the rows of others' tables, in the order of the tables."""
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

"""The laws of noise that an alignment may shift: their densities, and the largest loss that a shift can cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from epsaudit.tools.tracing.primitives import UNIFORM


class NoiseLaw(NamedTuple):
    """A law of noise with a scale.

    ``draw(rng, scale)`` draws a number z, and ``log_density(z, scale)`` returns its log density.
    """

    draw: Callable[[np.random.Generator, float], float]
    log_density: Callable[[float, float], float]
    largest_loss: Callable[[float, float, float], float]
    """A function of a shift and two scales. It returns the largest log ratio of the density of z with the first
    scale to that of z + shift with the second."""
    two_sided: bool = True
    """Whether shifts in both directions have a bounded loss."""
    continuous: bool = True


def _log_geometric(z: float, rate: float) -> float:
    """Return the log probability of z under the geometric law on 1, 2, ... with failure probability e^-(1/rate)."""
    return -(z - 1.0) / rate + math.log(-math.expm1(-1.0 / rate)) if z >= 1.0 and z == round(z) else -math.inf


def _two_sided_exponential(shift: float, scale: float, other: float) -> float:
    return math.log(other / scale) + abs(shift) / other if other >= scale else math.inf


def _one_sided_exponential(shift: float, scale: float, other: float) -> float:
    if shift < 0.0 or other < scale:
        return math.inf
    return math.log(other / scale) + shift / other


def _same_scale_upwards(shift: float, scale: float, other: float) -> float:
    return shift / scale if shift >= 0.0 and other == scale else math.inf


def _never_bounded(shift: float, scale: float, other: float) -> float:
    return 0.0 if shift == 0.0 and scale == other else math.inf


LAWS = {
    "laplace": NoiseLaw(
        lambda rng, scale: float(rng.laplace(scale=scale)),
        lambda z, scale: -abs(z) / scale - math.log(2.0 * scale),
        _two_sided_exponential,
    ),
    "normal": NoiseLaw(
        lambda rng, scale: float(rng.normal(scale=scale)),
        lambda z, scale: -0.5 * (z / scale) ** 2 - math.log(scale) - 0.5 * math.log(2.0 * math.pi),
        _never_bounded,
    ),
    "exponential": NoiseLaw(
        lambda rng, scale: float(rng.exponential(scale)),
        lambda z, scale: -z / scale - math.log(scale) if z >= 0.0 else -math.inf,
        _one_sided_exponential,
        two_sided=False,
    ),
    "gumbel": NoiseLaw(
        lambda rng, scale: float(rng.gumbel(scale=scale)),
        lambda z, scale: -z / scale - math.exp(-z / scale) - math.log(scale),
        _same_scale_upwards,
        two_sided=False,
    ),
    "logistic": NoiseLaw(
        lambda rng, scale: float(rng.logistic(scale=scale)),
        lambda z, scale: -abs(z) / scale - 2.0 * math.log1p(math.exp(-abs(z) / scale)) - math.log(scale),
        lambda shift, scale, other: abs(shift) / scale if scale == other else math.inf,
    ),
    "geometric": NoiseLaw(
        lambda rng, scale: float(rng.geometric(-math.expm1(-1.0 / scale))),
        _log_geometric,
        lambda shift, scale, other: (
            shift / scale if shift >= 0.0 and shift == round(shift) and scale == other else math.inf
        ),
        two_sided=False,
        continuous=False,
    ),
    "answer": NoiseLaw(
        lambda rng, scale: math.nan,  # a mechanism draws it
        lambda z, scale: 0.0,
        _never_bounded,
        continuous=False,
    ),
}
"""The laws by name, as the table of samplers names them. The scale of the geometric law is 1 / log(1 / (1 - p)), so
that a shift by k costs k / scale."""
ANSWER = "answer"
"""The law of the answer of a mechanism that is private by itself. An alignment does not shift it."""
FIXED = (UNIFORM, ANSWER)
"""Laws of numbers that are not shifted. Uniform draws are stretched from one interval to another instead."""

"""The rows of the public benchmark: mechanism, pair, and the best bounds that others have published for it.

Parameters and published bounds are those of Bichsel, Steffen, Bogunovic and Vechev (2021), "DP-Sniper", with about
4.3e8 runs for each pair at 90 % confidence, and of Ding, Wang, Wang, Zhang and Kifer (2018), "StatDP", as measured in
the same paper. The claimed epsilon is 0.1. The rows stand in a module of their own because several studies use them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsaudit import Mechanism
from epsaudit.data.neighbours import DatasetPair
from epsaudit.mechanisms.additive import Laplace, TruncatedGeometric
from epsaudit.mechanisms.broken.sparse_vector import (
    NoisyHistogramUpsideDown,
    SideBySide,
    SparseVector3,
    SparseVector4,
    SparseVector5,
    SparseVector6,
    ValueOfMax,
)
from epsaudit.mechanisms.response import Rappor
from epsaudit.mechanisms.sparse_vector import NumericalSparseVector, SparseVector1, SparseVector2
from epsaudit.mechanisms.vectors import IndexOfMax, NoisyHistogram, ParallelLaplace, RunningSums

EPSILON = 0.1
LOW_HIGH = ((0,) * 5 + (1,) * 5, (1,) * 5 + (0,) * 5)
FLAT_SPREAD = ((1,) * 10, (2,) * 5 + (0,) * 5)


@dataclass(frozen=True)
class Row:
    """One row of the benchmark's table.

    Attributes
    ----------
    name : str
        Name of the mechanism in the benchmark.
    mechanism : Mechanism
        The mechanism with the benchmark's parameters.
    pair : DatasetPair
        The benchmark's pair of datasets.
    exact : float
        Largest privacy loss on the pair. It is infinite if an outcome is possible on one dataset only or if the loss is
        unbounded, and NaN if only the mechanism's supremum over all pairs is known.
    sniper, statdp : float
        The bounds published for DP-Sniper and StatDP; NaN if there is none.
    broken : bool
        Whether the true epsilon exceeds the mechanism's claim.
    """

    name: str
    mechanism: Mechanism
    pair: DatasetPair
    exact: float
    sniper: float
    statdp: float
    broken: bool = False


def rows(epsilon: float = EPSILON) -> list[Row]:
    """Return all twenty rows, at the benchmark's epsilon or at another one.

    Examples
    --------
    >>> len(rows()), rows()[0].name
    (20, 'Laplace')
    """
    nan, inf = math.nan, math.inf
    head_counts = Laplace(epsilon).worst_pairs()[0]
    histogram = NoisyHistogram(epsilon).worst_pairs()[0]
    ahead = DatasetPair((1,) * 5, (0, 2, 2, 2, 2))
    swapped, flat = DatasetPair(*LOW_HIGH), DatasetPair(*FLAT_SPREAD)
    rappor, once = Rappor(), Rappor(f=0.95, p=0.0, q=1.0)
    return [
        Row("Laplace", Laplace(epsilon), head_counts, 0.1, 0.0976, 0.0998),
        Row("truncated geometric", TruncatedGeometric(epsilon), DatasetPair(2, 1), 0.1178, 0.1156, 0.1169),
        Row("noisy histogram 1", NoisyHistogram(epsilon), histogram, 0.1, 0.0978, 0.0994),
        Row("noisy histogram 2", NoisyHistogramUpsideDown(epsilon), histogram, 10.0, 4.6020, 10.002, True),
        Row("report noisy max 1", IndexOfMax(epsilon), ahead, 0.0946, 0.0925, 0.0921),
        Row("report noisy max 2", IndexOfMax(epsilon, noise="exponential"), ahead, 0.1, 0.0979, 0.0997),
        Row("report noisy max 3", ValueOfMax(epsilon), DatasetPair((0,) * 5, (1,) * 5), 0.25, 0.2488, 0.1991, True),
        Row(
            "report noisy max 4",
            ValueOfMax(epsilon, noise="exponential"),
            DatasetPair((1,) * 5, (2,) * 5),
            inf,
            0.3534,
            0.1988,
            True,
        ),
        Row("sparse vector 1", SparseVector1(epsilon, threshold=0.5), swapped, 0.0878, 0.0858, 0.0298),
        Row("sparse vector 2", SparseVector2(epsilon), swapped, 0.0875, 0.0859, 0.0407),
        Row("sparse vector 3", SparseVector3(epsilon), swapped, nan, 0.1822, 0.1793, True),
        Row("sparse vector 4", SparseVector4(epsilon), flat, 0.1725, 0.1696, 0.1719, True),
        Row("sparse vector 5", SparseVector5(epsilon), flat.swapped(), inf, 1.7612, nan, True),
        Row("sparse vector 6", SparseVector6(epsilon), swapped.swapped(), 0.4145, 0.2720, 0.3220, True),
        Row("RAPPOR", rappor, rappor.worst_pairs()[0], 0.4001, 0.3008, 0.2416),
        Row("one-time RAPPOR", once, once.worst_pairs()[0], 0.8007, 0.5999, 0.4706),
        Row("Laplace in parallel", ParallelLaplace(epsilon), DatasetPair(0, 1), 0.1, 0.0350, 0.0135),
        Row("sparse vector 3 and 4", SideBySide(epsilon), flat, inf, 0.2616, 0.1963, True),
        Row("prefix sum", RunningSums(epsilon), RunningSums(epsilon).worst_pairs()[0], 1.0, 0.5774, 0.3516),
        Row(
            "numerical sparse vector",
            NumericalSparseVector(epsilon),
            NumericalSparseVector(epsilon).worst_pairs()[0],
            nan,
            0.0345,
            nan,
        ),
    ]

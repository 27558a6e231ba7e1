"""Additive scores: sums of one piecewise linear function for each feature, learnt by logistic regression."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from epsaudit.array_types import Floats, Singles
from epsaudit.search.difference_tests import MAX_SCREENING_OUTPUTS
from epsaudit.search.encoding import Encoding
from epsaudit.search.limits import MAX_COORDINATES
from epsaudit.search.out_of_fold import select_learning_entries
from epsaudit.search.regression import fit_logistic_ridge
from epsaudit.search.spline_basis import KNOT_RANKS, FeatureBasis, build_bases
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.learnt import AdditiveModel

MAX_LEARNING_OUTPUTS = 350_000
"""[measured] Maximum number of outputs on each dataset from which scores are learnt. For sparse vector 3, the certified
bound is 0.81 of an oracle's bound with 150,000 outputs, and 0.96 with 300,000."""
MAX_DESIGN_ENTRIES = 160_000_000
"""[memory] Maximum number of entries of the matrix from which a sum is learnt: 640 MB. If the matrix would have more,
fewer outputs are used."""
RIDGE_PENALTIES = (30.0, 1000.0)
"""[chosen] Ridge penalties that are tried, in outputs. They correspond to typical log ratios of 0.2 and of 0.03. The
out-of-fold likelihood chooses between them."""
COEFFICIENT_SHAPES = ((1, 0), (1, 1), (2, 0), (4, 0))
"""[measured] Ways in which the features of an ordered group share coefficients: the number of parts into which the
group is divided, and the degree of the polynomial in the position that the coefficients follow within each part. For
numerical sparse vector, the best event of a sum with free coefficients has 0.75 of an oracle's bound, and with shared
coefficients 0.87. For parallel Laplace noise, where all coordinates have equal coefficients, it is 0.40 and 0.79."""


def fit_sums(
    data: Encoding, group: Sequence[Feature], ordered: bool, lines: bool = False
) -> list[tuple[float, NDArray[np.int64], AdditiveModel, Singles]]:
    """Learn additive scores: sums of one piecewise linear function for each feature of a group.

    The functions are curves, or straight lines if ``lines`` is true. If the group is ``ordered``, like the coordinates
    of a vector, or if ``lines`` is true, its features may also share coefficients (see `COEFFICIENT_SHAPES`). The best
    sum with shared coefficients and the best sum with free coefficients are both returned. The sum that fits all
    outputs best may be the worse one in the rare outputs of which events consist.

    Returns
    -------
    list of tuple
        For each sum: the gain in log likelihood over a fair coin for each entry, measured out of fold; the entries; the
        score; and its out-of-fold values on these entries.
    """
    size = len(group)
    if size == 0:
        return []
    most = min(MAX_LEARNING_OUTPUTS, MAX_DESIGN_ENTRIES // (2 * size * (1 if lines else len(KNOT_RANKS))))
    entries = select_learning_entries(data, MAX_SCREENING_OUTPUTS if size > MAX_COORDINATES else most)
    entries = entries[np.argsort(data.group[entries] // 2, kind="stable")]
    rows, folds = data.row[entries], data.group[entries] // 2
    weight, side = data.weight[entries].astype(np.float32), (data.group[entries] % 2 == 0).astype(np.float32)
    times = np.minimum(weight, MAX_SCREENING_OUTPUTS).astype(int)
    some = (
        np.repeat(rows, times) if len(rows) < MAX_SCREENING_OUTPUTS else rows[:: -(-len(rows) // MAX_SCREENING_OUTPUTS)]
    )
    curves, bases = build_bases(group, data, some, lines)
    designs: list[tuple[list[FeatureBasis], Singles, Floats | None]] = []
    width, columns = curves[0].width, list[Singles]()
    if (lines or (ordered and size > 2)) and width and all(one.width == width for one in curves):
        finest = COEFFICIENT_SHAPES[-1][0]
        part, place = np.arange(size) * finest // size, np.linspace(-1.0, 1.0, size)
        summed = np.zeros((2, finest, width, len(rows)), np.float32)
        for basis, at, far in zip(curves, part, place, strict=True):
            hat = basis.columns(data.numbers(basis.feature)[rows]).T
            summed[0, at] += hat
            summed[1, at] += np.float32(far) * hat
            columns += [] if lines else [hat]
        # All hat functions together are constant; centring them preserves single precision.
        summed -= summed.mean(axis=3, keepdims=True)
        for parts, degree in COEFFICIENT_SHAPES:
            pieces, powers = [], []
            for power, number in itertools.product(range(degree + 1), range(parts)):
                pieces.append(np.split(summed[power], parts)[number].sum(axis=0))
                powers.append((part * parts // finest == number) * place**power)
            designs.append((curves, np.concatenate(pieces).T, np.kron(np.transpose(powers), np.eye(width))))
    if bases := [one for one in bases if one.width > (not lines)]:
        columns = columns or [basis.columns(data.numbers(basis.feature)[rows]).T for basis in bases]
        designs.append((bases, np.concatenate(columns).T, None))
    found: dict[bool, tuple[float, list[FeatureBasis], Floats, Singles]] = {}
    for bases, design, shares in designs:
        free = shares is None
        penalties = [penalty * np.eye(design.shape[1]) for penalty in (RIDGE_PENALTIES if free else (1.0,))]
        for one, scores in zip(*fit_logistic_ridge(design, side, weight, folds, penalties), strict=True):
            gain = float(np.sum(weight * (math.log(2.0) + log_expit((2.0 * side - 1.0) * scores)), dtype=float))
            if free not in found or gain >= found[free][0]:
                found[free] = gain, bases, one if shares is None else shares @ one, scores
    sums = []
    for gain, bases, one, scores in found.values():
        each = np.split(one, np.cumsum([basis.width for basis in bases])[:-1])
        terms = tuple(basis.term(part) for basis, part in zip(bases, each, strict=True))
        sums.append((gain / len(entries), entries, AdditiveModel(terms), scores))
    return sums

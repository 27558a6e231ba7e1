"""What a sequential audit learns from: events of single numbers that a few runs find, and learnt sums of vectors.

A table of cells finds any event, but needs many runs: distance from the median tells the scale of the noise, and heavy
tails are cut at central quantiles. An audit learns many times, and most find nothing: features of long vectors are
chosen by a part of the outputs, their coefficients are few, and trees are learnt where a quick test shows an
interaction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from epsaudit.outputs.normal_form import Outputs, Singles, rows_of
from epsaudit.witnesses import (
    CandidateScore,
    Classifiers,
    Encoding,
    Event,
    Features,
    Interval,
    Region,
    encode,
    settings,
)
from epsaudit.witnesses.features import Combined, Coordinate, Feature, Value
from epsaudit.witnesses.learning import Basis, FromTable, bases_of, interacting, often_odd, planted, regress, sum_of
from epsaudit.witnesses.screening import screen
from epsaudit.witnesses.selection import Monotone

Floats = NDArray[np.float64]
HEAVY = 1_000.0
"""Times the middle fifth of all numbers that they must span for tails to be cut. A hundred thousand numbers with
Laplace noise span fifty times."""
CENTRAL = (0.75, 0.5, 0.35, 0.25)
"""Shares of all numbers, in the middle, within which tails may be cut. With them and distances from the median the
published NonDPLaplace2 at epsilon 0.01 and 0.1 is refuted after 1,037 and 1,522 runs at 5 % in the median (seeds 100 to
107), without after 1,742 and 3,002 (100 to 111)."""


@dataclass(frozen=True)
class Nearness:
    """Distance from a point, negative, or with ``sign`` -1 positive, as the score.

    >>> score = Nearness(Value(), 1, 2.0)
    >>> score(np.array([1.0, 5.0])).tolist(), str(score.at_least(-0.5)), str(score.at_most(-3.0))
    ([-1.0, -3.0], '{1.5 <= y <= 2.5}', '{y < -1 or y > 5}')
    """

    feature: Feature
    sign: int
    middle: float

    def __call__(self, outputs: Outputs) -> Floats:
        return -self.sign * np.abs(np.asarray(self.feature(outputs), float) - self.middle)

    def at_least(self, threshold: float) -> Event:
        return self._near(-threshold) if self.sign > 0 else self._far(threshold)

    def at_most(self, threshold: float) -> Event:
        return self._far(-threshold) if self.sign > 0 else self._near(threshold)

    def _near(self, distance: float) -> Event:
        return Region(self.feature, (Interval(self.middle - distance, self.middle + distance),))

    def _far(self, distance: float) -> Event:
        below = Interval(-math.inf, self.middle - distance, includes_high=False)  # no number is near and far
        return Region(self.feature, (below, Interval(self.middle + distance, math.inf, includes_low=False)))


@dataclass(frozen=True)
class Within:
    """A number between two others, or its negative, as the score, which has no opinion on what lies outside.

    >>> score = Within(Value(), 1, 0.0, 9.0)
    >>> score(np.array([4.0, 1e14])).tolist(), str(score.at_most(3.0)), str(score.at_least(4.0))
    ([4.0, nan], '{0 <= y <= 3}', '{4 <= y <= 9}')
    """

    feature: Feature
    sign: int
    low: float
    high: float

    def __call__(self, outputs: Outputs) -> Floats:
        numbers = np.asarray(self.feature(outputs), float)
        return np.where((numbers >= self.low) & (numbers <= self.high), self.sign * numbers, np.nan)

    def at_least(self, threshold: float) -> Event:
        interval = Interval(threshold, self.high) if self.sign > 0 else Interval(self.low, -threshold)
        return Region(self.feature, (interval,))

    def at_most(self, threshold: float) -> Event:
        interval = Interval(self.low, threshold) if self.sign > 0 else Interval(-threshold, self.high)
        return Region(self.feature, (interval,))


@dataclass(frozen=True)
class Middles(FromTable):
    """Distance from the median, and tails within central quantiles where the outer ones are heavy."""

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        feature, known = _numbers_of(data)
        if feature is not None:
            middle = float(np.median(known))
            yield from _both(data, Nearness(feature, 1, middle), Nearness(feature, -1, middle))
        yield from cut_tails(data)


def cut_tails(data: Encoding) -> Iterator[CandidateScore]:
    """Yield tails within central quantiles, of single numbers whose outer tails are heavy."""
    feature, known = _numbers_of(data)
    if feature is None:
        return
    low, high = np.quantile(known, [0.4, 0.6])
    with np.errstate(over="ignore"):
        heavy = 0.0 < high - low < (known[-1] - known[0]) / HEAVY
    for share in CENTRAL if heavy else ():
        ends = [float(end) for end in np.quantile(known, [0.5 - share / 2, 0.5 + share / 2], method="nearest")]
        yield from _both(data, Within(feature, 1, *ends), Within(feature, -1, *ends))


def _numbers_of(data: Encoding) -> tuple[Feature | None, Floats]:
    """Return the only feature of single numbers that hardly repeat, and the finite ones in order; else None."""
    feature = next(iter(data.features.alone), None)
    if not (isinstance(feature, Value) or feature == Coordinate(0)) or data.features.groups:
        return None, np.empty(0)
    known = np.sort(data.numbers(feature)[data.row])
    known = known[np.isfinite(known)]
    repeated = len(data.outputs) < len(data.row) or len(known) < settings.FEW_VALUES
    return (None if repeated else feature), known


def _both(data: Encoding, score: Nearness | Within, mirrored: Nearness | Within) -> Iterator[CandidateScore]:
    found = CandidateScore.of(score, score(data.outputs)[data.row], data.group, data.weight)
    if found is not None and len(found.thresholds) > 1:
        yield found
        yield found.mirrored(mirrored)


NARROW = 24
"""Features of a group up to which each has coefficients of its own at every knot; a fit takes the cube of this. A look
at 10,000 runs of 200 coordinates took 9.8 s of a processor with coefficients of their own for all, and takes 1.4 s."""
NUMBERS_TO_CHOOSE, LEAST_TO_SCREEN = 80_000, 1_000
"""Numbers of either side by which features of vectors longer than `MOST_PAIRED` are chosen, and outputs at least. With
all, 17,500 outputs of 20 coordinates take 0.3 s of a processor."""
FEW_TO_LOOK_AT = 4
"""Features of such vectors that are looked at one by one. A product of two coordinates of 20 is then refuted at 5 %
after 191 runs in the median, a tail of one after 310 (seeds 100 to 104); 281 and 362 where all were, and increments
learnt from. A leak of 1 in 100 outputs in one of 20 took the same 4,965 to 15,341 runs with all from 5,000 outputs of
either side on (seeds 100 to 105, 5 % and 1e-6)."""
CORRELATED = 0.3
"""Mean correlation of neighbours' signs from which their differences are learnt from: that of independent coordinates
is 0, that of running sums of 20 equal steps above 0.7. Set by hand."""
PARTS = (1, 2, 4)
"""Into how many parts coordinates of a long vector are divided, whose coefficients at a knot are the same in each:
those of `epsaudit.witnesses.settings.SHAPES`, which has the measurement."""


def is_long(outputs: Outputs) -> bool:
    """Whether outputs are vectors that take long to learn from."""
    return _length(outputs) > settings.MOST_PAIRED


def is_vector(outputs: Outputs) -> bool:
    """Whether outputs are vectors of several numbers, of which sums are learnt."""
    return _length(outputs) > 1


def table_of(
    outputs: Outputs, outputs_prime: Outputs, features: Features | None = None, *, learnt: bool = False
) -> Encoding:
    """Encode outputs, as many of x' as of x, with these features, or with those that a part of them shows to tell.

    If ``learnt``, the latter are only such that sums are learnt from, which are found in half the time.

    >>> x, x_prime = np.random.default_rng(0).normal(size=(2, 5000, 100))
    >>> len(table_of(x, x_prime).features.groups[0])
    100
    """
    if features is None and is_long(outputs):
        part = max(NUMBERS_TO_CHOOSE // _length(outputs), LEAST_TO_SCREEN)
        features = _telling(outputs[:part], outputs_prime[:part], learnt)
    return encode(outputs, outputs_prime, features, learnt=learnt)


def _telling(outputs: Outputs, outputs_prime: Outputs, learnt: bool) -> Features:
    """Features of long vectors: increments only of what looks like running sums, and few to look at one by one."""
    found = Features.of(outputs, outputs_prime, learnt=learnt)
    alone = tuple(screen(found.alone, outputs, outputs_prime, FEW_TO_LOOK_AT))
    rows = np.nan_to_num(np.asarray(rows_of(outputs), float), posinf=0.0, neginf=0.0)
    ranks = np.sign(rows - np.median(rows, axis=0))
    running = np.mean(ranks[:, 1:] * ranks[:, :-1]) > CORRELATED
    groups = found.groups
    if not running and any(isinstance(one, Combined) for one in groups[1]):
        groups = (groups[0], (), *groups[2:])
    return replace(found, alone=alone, groups=groups, alike=found.alike if running else 1)


@dataclass(frozen=True)
class Sums(FromTable):
    """Learnt sums: those of `epsaudit.witnesses.Classifiers`, of long vectors with few coefficients.

    The longest group is described by a line for each feature, or by one curve for all features of a part of the group;
    and the features of every group that tell most by a curve for each, but for coordinates that only lines are for.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        if not data.features.groups or data.size < settings.LEAST_TO_LEARN:
            return
        longest = max(data.features.groups, key=len)
        x, x_prime = (side[: 4 * LEAST_TO_SCREEN] for side in data.sides)
        groups = tuple(tuple(screen(group, x, x_prime, NARROW)) for group in _with_curves(data.features))
        narrow = replace(data, features=replace(data.features, groups=groups))
        if len(longest) > NARROW:
            yield from _wide_sum(data, longest)
        yield from Classifiers(trees=False).candidates(narrow)


def trees_of(data: Encoding, sums: Sequence[CandidateScore], promising: bool) -> Iterator[CandidateScore]:
    """Yield trees where something is ``promising``, or where products of two features tell more than the best sum.

    Of long vectors only the latter: some of their many sums promise by luck. Boosting takes most of the time.
    """
    features = tuple(dict.fromkeys(one for group in _with_curves(data.features) for one in group))
    if data.size < settings.LEAST_TO_PLANT or not 1 < len(features) <= settings.MOST_COORDINATES:
        return
    hopeful = promising and not is_long(data.outputs)
    if hopeful or interacting(data, next(group for group in data.features.groups if group), sums):
        yield from planted(data, features)


def _length(outputs: Outputs) -> int:
    """Coordinates of vectors; 0 of all else."""
    rows = rows_of(outputs) if len(outputs) else None
    return 0 if rows is None else int(rows.shape[1])


def _with_curves(features: Features) -> list[tuple[Feature, ...]]:
    """Groups that more is learnt of than a sum of lines."""
    return [group for group in features.groups if len(group) <= settings.MOST_COORDINATES]


def _wide_sum(data: Encoding, group: Sequence[Feature]) -> Iterator[CandidateScore]:
    """Yield the best sum of a long group."""
    best = max(_fits(data, group), key=lambda one: one.gain, default=None)
    if best is None:
        return
    score = sum_of(best.bases, best.coefficients)
    final, learnt = data.numbers(score)[data.row], Monotone(score, 1, learnt=True)
    candidate = CandidateScore.of(
        learnt, final, data.group, data.weight, best.judged.astype(float), margin=settings.HARD_TO_READ
    )
    if candidate is not None:
        yield candidate


@dataclass(frozen=True)
class _Fit:
    """A regression on columns of features: what it gains on held-out folds, and what it gives there."""

    gain: float
    coefficients: Floats
    judged: Singles
    bases: Sequence[Basis]


def _fits(data: Encoding, group: Sequence[Feature]) -> Iterator[_Fit]:
    """Fit a line for each feature, and curves that features in the same part of the group share."""
    numbers = np.array([data.numbers(feature) for feature in group])
    odd = often_odd(numbers)
    lines = [basis for basis in bases_of(group, numbers, odd, linear=True) if basis.width]
    if lines:
        design = np.concatenate([basis.columns(data.numbers(basis.feature)) for basis in lines], axis=1)
        eye = np.eye(design.shape[1])
        yield from _fit(data, design, [penalty * eye for penalty in settings.PENALTIES], lines, eye)
    curves = bases_of(group, numbers, odd)
    width = curves[0].width
    if width == 0 or any(basis.width != width for basis in curves):
        return
    finest = np.arange(len(curves)) * PARTS[-1] // len(curves)
    summed = np.zeros((PARTS[-1], len(numbers[0]), width), np.float32)
    for part, basis, one in zip(finest, curves, numbers, strict=True):
        summed[part] += basis.columns(one)
    summed -= summed.mean(axis=1, keepdims=True)  # all hats together are constant: single precision ends there
    for parts in PARTS:
        design = np.concatenate([some.sum(axis=0) for some in np.split(summed, parts)], axis=1)
        shares: Floats = np.kron(np.eye(parts)[finest * parts // PARTS[-1]], np.eye(width)).astype(float)
        yield from _fit(data, design, [np.eye(design.shape[1])], curves, shares)


def _fit(
    data: Encoding, design: Singles, penalties: Sequence[Floats], bases: Sequence[Basis], shares: Floats
) -> Iterator[_Fit]:
    """Regress on columns; ``shares``, shape (columns of bases, columns), says which coefficient a column has."""
    weight, side = data.weight.astype(np.float32), (data.group % 2 == 0).astype(np.float32)
    coefficients, judged = regress(design[data.row], side, weight, data.group // 2, penalties)
    for one, scores in zip(coefficients, judged, strict=True):
        gain = float(np.sum(weight * log_expit((2.0 * side - 1.0) * scores), dtype=float))
        yield _Fit(gain, shares @ one, scores, bases)

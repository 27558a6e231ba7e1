"""Families of scores: features as they are, likelihood ratios of cells, sums and trees learnt from many features.

They are learnt from the table of training outputs fold by fold, so that every output is judged by what it did not
teach, and written as plain numbers, so that a witness is saved without pickles. A new kind of witness is a new family.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, log_expit
from threadpoolctl import threadpool_limits

from epsaudit.outputs.normal_form import Floats, Outputs, Singles, are_numbers, kinds_of, values_of
from epsaudit.outputs.readings import Reading
from epsaudit.witnesses.encoding import (
    Encoding,
    Fields,
    codes_of,
    differences,
    encode,
    log_chance,
    pearson,
    pooled,
    screen,
    shrunk,
    statistic_of,
    sure,
    telling_coordinates,
)
from epsaudit.witnesses.features import (
    Additive,
    Code,
    Coordinate,
    Exponent,
    Feature,
    Filled,
    LowestBit,
    NegativeZero,
    Term,
    Together,
    TrailingZeros,
    Tree,
    Value,
)
from epsaudit.witnesses.selection import CandidateScore, Monotone, PiecewiseRatio, Score
from epsaudit.witnesses.settings import (
    CELLS,
    CELLS_TO_TEST,
    EASY_TO_READ,
    ERRORS,
    FALSE_FINDS,
    FEW_VALUES,
    FOLDS,
    HARD_TO_READ,
    KNOTS,
    LEARN_FROM,
    LEAST_SEEN,
    LEAST_TO_LEARN,
    LEAST_TO_PLANT,
    LEAVES,
    LOOK,
    MOST_COORDINATES,
    MOST_PARTS,
    MOST_REGRESSORS,
    PENALTIES,
    SHAPES,
    STEPS,
    TELLING,
    TREE_FROM,
    TREES,
)

IN_CACHE = 4096
"""Numbers whose hat functions are computed at once: in the processor's cache twice as fast as all."""


Shape = tuple[Floats, Floats]
"""An orthonormal matrix that free coefficients are multiplied by, shape (columns, free), and twice the quadratic form
that is taken from their log likelihood, shape (free, free)."""


def regress(
    design: Singles,
    side: Singles,
    weight: Singles,
    folds: NDArray[np.int8] | None,
    shapes: Sequence[Shape],
    steps: int = STEPS,
) -> tuple[Floats, Singles]:
    """Ridge logistic regressions of the side that an output came from, for every shape, and without each fold.

    They share one matrix of information, that at coefficients of 0, which bounds it everywhere, so that Newton's method
    with it never overshoots (Boehning and Lindsay 1988); where outputs tell little, it is the true one.

    Parameters
    ----------
    design : ndarray of float32, shape (entries, columns)
        Regressors.
    side, weight : ndarray of float32, shape (entries,)
        1 for x and 0 for x', and how often it was seen.
    folds : ndarray of int, shape (entries,), or None
        The fold of each entry; None for no folds.
    shapes : sequence of `Shape`
        Which coefficients there may be, and their penalties.

    Returns
    -------
    ndarray, shape (shapes, columns); ndarray of float32, shape (shapes, entries)
        Coefficients learnt from all entries, and the log odds of x of every entry, learnt without its fold.

    Examples
    --------
    Seen 3 times as often on x where the regressor is 1:

    >>> design, side, weight = np.float32([[1], [1]]), np.float32([1, 0]), np.float32([300, 100])
    >>> regress(design, side, weight, None, [(np.eye(1), np.zeros((1, 1)))], 20)[0].round(2).tolist()
    [[1.1]]
    """
    folds = np.zeros(len(design), np.int8) if folds is None else folds
    number = int(folds.max(initial=0)) + 1
    rows: list[Any] = [np.flatnonzero(folds == fold) for fold in range(number)]
    # a fold whose rows are neighbours as a slice, which copies nothing
    rows = [slice(one[0], one[-1] + 1) if len(one) and one[-1] - one[0] < len(one) else one for one in rows]
    parts = [(design[one], side[one, None], weight[one, None]) for one in rows]
    grams = np.array([(part * seen).T @ part for part, _, seen in parts], float) / 4.0
    total = grams.sum(axis=0) + 1e-3 * np.eye(design.shape[1])
    left_out = [*grams, np.zeros_like(total)] if number > 1 else [np.zeros_like(total)]
    factors = [[cho_factor(free.T @ (total - out) @ free + penalty) for free, penalty in shapes] for out in left_out]
    weights = np.zeros((len(left_out), len(shapes), design.shape[1]))
    for _ in range(steps):
        slopes = np.zeros_like(weights)
        flat = weights.reshape(-1, design.shape[1]).T.astype(np.float32)
        for fold, (part, own, seen) in enumerate(parts):
            slope = ((seen * (own - expit(part @ flat))).T @ part).reshape(weights.shape)
            slopes += slope
            if number > 1:
                slopes[fold] -= slope[fold]
        for k, factored in enumerate(factors):
            for v, (factor, (free, penalty)) in enumerate(zip(factored, shapes, strict=True)):
                weights[k, v] += free @ cho_solve(factor, free.T @ slopes[k, v] - penalty @ (free.T @ weights[k, v]))
    judged = np.empty((len(shapes), len(design)), np.float32)
    for fold, (one, (part, _, _)) in enumerate(zip(rows, parts, strict=True)):
        judged[:, one] = (part @ weights[fold].T.astype(np.float32)).T
    return weights[-1], judged


def hats(numbers: Floats, knots: Floats) -> Singles:
    """Hat functions at increasing knots, shape (size, knots); constant beyond the ends."""
    found = np.empty((len(knots), len(numbers)), np.float32)
    steps = np.diff(knots)[:, None]
    for start in range(0, len(numbers), IN_CACHE):  # so many that they stay in the processor's cache
        ramps = np.clip((numbers[start : start + IN_CACHE] - knots[:-1, None]) / steps, 0.0, 1.0)
        found[:, start : start + IN_CACHE] = 0.0 - np.diff(ramps, axis=0, prepend=1.0, append=0.0)
    return found.T


class Family(Protocol):
    """A way to find scores.

    One of your own is fitted on one half of the training outputs, and its scores are judged by the other half.
    """

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """Fit on training outputs of x and x'; an empty answer means that the family has nothing to say."""


class FromTable(ABC):
    """A family that judges its scores itself, from the table of all training outputs."""

    @abstractmethod
    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidate scores, judged by outputs that did not teach them."""

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        return [candidate.score for candidate in self.candidates(encode(outputs, outputs_prime))]


@dataclass(frozen=True)
class Tails(FromTable):
    """Tails of every feature: {y <= t}, {y >= t}, and both at once."""

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield the candidates of the features that tell most."""
        features = [one for one in data.features.alone if one not in data.features.regions]
        yield from self.of(features, data, errors_of(data.features.tried))

    def of(self, features: Sequence[Feature], data: Encoding, errors: float) -> Iterator[CandidateScore]:
        """Yield two candidates a feature, which need no fitting."""
        for feature in features:
            numbers = data.numbers(feature)[data.row]
            found = CandidateScore.of(Monotone(feature, 1), numbers, data.group, data.weight, errors=errors)
            if found is not None and len(found.thresholds) > 1:
                yield found
                yield found.mirrored(Monotone(feature, -1))


@dataclass(frozen=True)
class LikelihoodRatio(FromTable):
    """The likelihood ratio in a table: of outputs that repeat, counted one by one, and in cells of every feature.

    Its events are sets of atoms and unions of intervals.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield a candidate of the atoms, with the cells of numbers that are none, and of the features' cells."""
        yield from self.of(data.features.alone, data)

    def of(self, features: Sequence[Feature], data: Encoding) -> Iterator[CandidateScore]:
        if np.any(data.atoms >= 0):
            yield from self._table(data, Value(), True, ERRORS)
        for feature in features:
            plain = isinstance(feature, Value)
            if not (plain and np.any(data.atoms >= 0)):
                errors = (
                    ERRORS
                    if plain
                    else errors_of(data.features.scanned if feature in data.features.regions else data.features.tried)
                )
                yield from self._table(data, feature, False, errors)

    def _table(self, data: Encoding, feature: Feature, atoms: bool, errors: float) -> Iterator[CandidateScore]:
        """Count atoms and cells, and judge every fold by the ratios of the others."""
        cell = data.atoms.copy() if atoms else np.full(len(data.outputs), -1)
        single = int(cell.max()) + 1
        numbers = data.numbers(feature)
        free = np.isfinite(numbers) & (cell < 0)
        known = np.sort(numbers[data.row[free[data.row]]])
        values = known[np.append(True, known[1:] > known[:-1])[: len(known)]]
        coded = isinstance(feature, Code | Together)
        edges: Floats = np.empty(0)
        if isinstance(feature, Code | Together):
            edges = np.arange(0.5, feature.number - 1)
        elif len(known) >= FEW_VALUES and len(values) <= CELLS:
            edges = (values[1:] + values[:-1]) / 2.0
        elif len(known) >= FEW_VALUES:  # quantiles that crowd towards the ends
            tail = np.geomspace(10.0 / len(known), 0.5, CELLS // 4)
            ranks = np.concatenate([tail, 1.0 - tail, np.linspace(0.02, 0.98, CELLS // 2)])
            edges = np.unique(np.quantile(known, ranks))
        cells = single
        if len(edges) or coded:
            cell[free] = single + np.searchsorted(edges, numbers[free], side="left")
            cells += len(edges) + 1
        if cell.min() == cell.max():
            return
        places, kinds = cell[data.row], 2 * FOLDS
        inside = places >= 0
        counts = np.bincount(places[inside] * kinds + data.group[inside], data.weight[inside], minlength=cells * kinds)
        seen: Floats = counts.reshape(cells, FOLDS, 2).astype(float)
        total, counted = seen.sum(axis=1), cells if coded else single
        final = _ratios(total, counted)
        judged = np.array([_ratios(total - seen[:, fold], counted) for fold in range(FOLDS)])
        row, folds, side = np.nonzero(seen)
        first = np.zeros(single, np.int64)
        rows = np.flatnonzero((cell >= 0) & (cell < single))
        first[cell[rows]] = rows
        score = PiecewiseRatio(feature, tuple(values_of(data.outputs[first])), final[:single], edges, final[single:])
        group, weight = (2 * folds + side).astype(np.int8), seen[row, folds, side]
        options = {"errors": errors, "margin": EASY_TO_READ, "size": float(data.size)}
        candidate = CandidateScore.of(score, final[row], group, weight, judged[folds, row], **options)
        if candidate is not None:
            yield candidate


def errors_of(tried: int) -> float:
    """Standard errors to lower by where the best of so many scores is taken, many of which are alike."""
    return math.sqrt(ERRORS**2 + math.log(max(tried, 1)))


def _ratios(seen: Floats, single: int) -> Floats:
    """Log ratios of counts of shape (cells, 2): those of atoms shrunk; of many cells in order a piecewise linear curve.

    Its knots crowd towards the ends.
    """
    atoms, cells = seen[:single], seen[single:]
    number = len(cells)
    if number <= FEW_VALUES:
        return shrunk(seen)
    ranks = (np.cumsum(cells.sum(axis=1)) - cells.sum(axis=1) / 2.0 + 0.5) / (cells.sum() + 1.0)
    far = np.geomspace(5e-4, 0.5, number // 12)
    knots = np.unique(np.interp(np.concatenate([far, 1.0 - far[:-1]]), ranks, np.arange(number)))
    bends = np.diff(np.eye(len(knots)), axis=0)
    eye = np.eye(len(knots))
    penalty = 10.0 * bends.T @ bends + 0.1 * eye
    side, weight = np.tile(np.array([1.0, 0.0], np.float32), number), cells.ravel().astype(np.float32)
    design = np.repeat(hats(np.arange(number, dtype=float), knots), 2, axis=0)
    weights, _ = regress(design, side, weight, None, [(eye, penalty)], 3 * STEPS)
    return np.concatenate([shrunk(atoms), np.asarray(design[::2].astype(float) @ weights[0])])


def candidate_scores(
    families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs, data: Encoding | None = None
) -> Iterator[CandidateScore]:
    """Yield the candidates of all families, simpler ones first; ``data`` is the outputs' table, if there is one."""
    data = data or encode(outputs, outputs_prime)
    for family in families:
        if isinstance(family, FromTable):
            yield from family.candidates(data)
            continue
        half = len(outputs) // 2
        held_out = outputs[half:], outputs_prime[half:]
        group = np.repeat(np.array([0, 1], np.int8), [len(side) for side in held_out])
        for score in family.fit(outputs[:half], outputs_prime[:half]):
            values = np.concatenate([np.asarray(score(side), float) for side in held_out])
            margin = HARD_TO_READ if getattr(score, "learnt", False) else 0.0
            found = CandidateScore.of(score, values, group, np.ones(len(group)), margin=margin)
            if found is not None:
                yield found


@dataclass(frozen=True)
class Basis:
    """Columns that describe one feature: hat functions at a few knots, and indicators of -inf, inf and NaN.

    Of a ``linear`` one the first of two hats is left out: it is what the second leaves.
    """

    feature: Feature
    knots: Floats
    odd: NDArray[np.bool_]
    linear: bool = False

    @property
    def width(self) -> int:
        """Number of columns."""
        return max(len(self.knots) - self.linear, 0) + int(self.odd.sum())

    def columns(self, numbers: Floats) -> Singles:
        """Return shape (size, width)."""
        finite = np.isfinite(numbers)
        indicators = [kind[:, None] for kind, kept in zip(odd_of(numbers), self.odd, strict=True) if kept]
        if not len(self.knots):
            return np.concatenate(indicators, axis=1).astype(np.float32)
        skipped = int(self.linear)
        if finite.all() and not indicators:
            return hats(numbers, self.knots)[:, skipped:]
        found = hats(np.where(finite, numbers, self.knots[0]), self.knots)[:, skipped:] * finite[:, None]
        return np.concatenate([found, *indicators], axis=1, dtype=np.float32)

    def term(self, coefficients: Floats) -> Term:
        """The term that these coefficients of the columns make."""
        of_hats = self.width - int(self.odd.sum())
        values = [*([0.0] if self.linear else []), *coefficients[:of_hats].tolist()]
        rest = iter(coefficients[of_hats:].tolist())
        below, above, missing = (next(rest) if kept else 0.0 for kept in self.odd)
        return Term(self.feature, tuple(self.knots.tolist()), tuple(values), below, above, missing)


def bases_of(features: Sequence[Feature], numbers: Floats, odd: NDArray[np.bool_], linear: bool = False) -> list[Basis]:
    """The basis of each feature, ``numbers`` having shape (features, size).

    Knots are quantiles, or each number where few differ; of a line its ends.
    """
    found = []
    for feature, one in zip(features, np.sort(numbers, axis=1), strict=True):
        known = one[np.isfinite(one)]
        values = known[np.append(True, known[1:] > known[:-1])[: len(known)]]
        line = linear and len(known) > 0
        if line or len(values) > FEW_VALUES:
            values = np.unique(np.quantile(known, [KNOTS[0], KNOTS[-1]] if linear else KNOTS))
        found.append(Basis(feature, values, odd, line))
    return found


@dataclass(frozen=True)
class Classifiers(FromTable):
    """Scores learnt on groups of features: all coordinates, increments, releases, and combinations that tell most.

    Logistic regression on piecewise linear functions of each feature, with coefficients of their own or shared among
    coordinates (`SHAPES`), whatever judges the held-out folds best. Boosted trees find interactions; they are distilled
    to one tree, which is faster to apply and fits into JSON. Of vectors of more than `MOST_PARTS` coordinates they are
    learnt only where products of two tell more than a sum.

    Parameters
    ----------
    trees : bool
        Whether to learn a tree.
    """

    trees: bool = True

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield the best sums of two groups of features at most, and a tree."""
        if not data.features.groups or data.size < LEAST_TO_LEARN:
            return
        sums = []
        for number, group in enumerate(data.features.groups):
            if fitted := _sums(data, group, number < data.features.alike):
                sums.append(max(fitted, key=attrgetter("gain")))
        best = sorted(sums, key=lambda one: -one.gain / len(one.entries))[:2]
        found = [one for sum_ in best for one in judged_by(data, sum_.entries, sum_.score, sum_.judged)]
        yield from found
        groups = [group for group in data.features.groups if len(group) <= MOST_COORDINATES]
        features = tuple(dict.fromkeys(feature for group in groups for feature in group))
        if not self.trees or data.size < LEAST_TO_PLANT or len(features) < 2:
            return
        longest = max(groups, key=len)
        if len(longest) <= MOST_PARTS or interacting(data, longest, found):
            yield from planted(data, features)


@dataclass(frozen=True)
class FloatBits(FromTable):
    """Low bits of floating-point numbers, and the sign of zero: what an implementation leaks and real numbers do not.

    Mironov (2012). Not among the default families: almost every sampler in double precision, numpy's own included,
    fails this test, while proofs speak of real numbers. Ask for it to audit an implementation to the last bit.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidates of zeros and bits that tell something."""
        data = encode(*data.sides, data.features, once=False)
        rows = are_numbers(data.sides[0]) and data.sides[0].ndim > 1
        chosen = telling_coordinates(differences(*data.sides), MOST_COORDINATES) if rows else []
        sources: list[Feature] = [Coordinate(i) for i in chosen] or [Value()]
        zeros: list[Feature] = [NegativeZero(one) for one in sources]
        features = sure([(log_chance(*statistic_of(one, data.sides)), one) for one in zeros], TELLING)
        for feature in screen(sources, *data.sides, TELLING):
            known = np.asarray(feature(data.sides[0]), float)
            known = known[np.isfinite(known)]
            if len(known) and np.all(known == np.floor(known)) and np.ptp(known) > 2:
                continue  # whole numbers
            # the lowest bit must tell more than the exponent alone, which noise of any kind may move
            exponents, edges = codes_of(pooled(Exponent(feature), data.sides), CELLS_TO_TEST)
            bit, _ = codes_of(pooled(LowestBit(feature), data.sides), CELLS_TO_TEST)
            joint, freedom = pearson((bit + 1) * (len(edges) + 2) + exponents + 1, data.size)
            alone, alone_freedom = pearson(exponents, data.size)
            if log_chance(joint - alone, freedom - alone_freedom) > math.log(FALSE_FINDS / len(sources)):
                continue
            bits: list[Feature] = [LowestBit(feature), TrailingZeros(feature)]
            features += bits
            yield from planted(data, (*bits, Exponent(feature), feature))
        yield from Tails().of(features, data, errors_of(3 * len(sources)))
        yield from LikelihoodRatio().of(features, data)


@dataclass(frozen=True)
class Messages(FromTable):
    """What exceptions say, read as text. By default they count by type alone, as most callers only see that one was
    raised: ask for it where messages are passed on, as in logs and error pages.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidates of numbers and symbols in messages; outputs of one type of exception are kept apart."""
        if not any("raised" in kinds_of(side) for side in data.sides):
            return
        fields = Fields.of(*data.sides, (Reading("message"),))
        data = encode(*data.sides, replace(data.features, tried=data.features.tried + fields.places), once=False)
        features = screen([*fields.numbers, *fields.symbols], *data.sides, TELLING)
        numbers = [feature for feature in features if feature in fields.numbers]
        yield from Tails().of(numbers, data, errors_of(fields.places))
        yield from LikelihoodRatio().of(features, data)


def interacting(data: Encoding, features: Sequence[Feature], sums: Sequence[CandidateScore]) -> bool:
    """Whether products of two features are correlated with what the first of the sums leaves unexplained.

    A score test (Rao 1948) for every product of two signs, about medians and about quartiles of distances from them,
    by normal approximation; of chance alone one in a thousand tests of all products says so.
    """
    entries = first_of_each(data, LOOK)
    rows, weight = data.row[entries], data.weight[entries]
    fitted = next((one.score for one in sums if isinstance(one.score, Monotone)), None)
    odds = data.numbers(fitted.feature)[rows] if fitted is not None else np.zeros(len(rows))
    left = ((data.group[entries] % 2 == 0) - expit(odds)) * weight
    signs = []
    for feature in features:
        numbers = data.numbers(feature)[rows]
        known = np.isfinite(numbers)
        far = np.where(known, numbers, 0.0) - (np.median(numbers[known]) if known.any() else 0.0)
        away = np.abs(far)
        signs += [np.where(known, np.sign(far), 0.0), np.where(known, np.sign(away - np.median(away)), -1.0)]
    columns = np.array(signs, np.float32).T
    columns -= columns.mean(axis=0)
    products = (columns * left[:, None].astype(np.float32)).T @ columns
    spread = (columns**2 * (left**2)[:, None].astype(np.float32)).T @ columns**2
    others = np.kron(np.triu(np.ones((len(features), len(features))), 1), np.ones((2, 2)))
    gaps = others * np.abs(products) / np.sqrt(np.maximum(spread, LEAST_SEEN))
    tested = 2 * len(features) * (len(features) - 1)
    return bool(np.max(gaps) > math.sqrt(2.0 * math.log(max(tested, 1) / FALSE_FINDS)))


def learnt_from(terms: int) -> int:
    """Outputs of each side that a sum of so many terms is learnt from, at most."""
    return LOOK if terms > MOST_COORDINATES else min(LEARN_FROM, MOST_REGRESSORS // (2 * max(terms, 1) * len(KNOTS)))


def first_of_each(data: Encoding, most: int) -> NDArray[np.int64]:
    """Entries to learn from: all, or so many of either side."""
    if len(data.row) <= 2 * most or len(data.outputs) < len(data.row):
        return np.arange(len(data.row))
    return np.concatenate([np.flatnonzero(data.group % 2 == side)[:most] for side in (0, 1)])


def odd_of(numbers: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Where numbers are -inf, inf and NaN."""
    return numbers == -np.inf, numbers == np.inf, np.isnan(numbers)


def often_odd(numbers: Floats) -> NDArray[np.bool_]:
    """Whether a row of numbers, shape (rows, size), often holds -inf, inf and NaN."""
    if np.isfinite(numbers).all():
        return np.zeros(3, bool)
    return np.array([np.any(np.count_nonzero(kind, axis=1) >= LEAST_SEEN) for kind in odd_of(numbers)])


@dataclass(frozen=True)
class Sum:
    """A sum of terms, what it gains over a fair coin on held-out folds, and what it gives the entries there."""

    gain: float
    score: Additive
    entries: NDArray[np.int64]
    judged: Singles


def sums_of(
    data: Encoding,
    entries: NDArray[np.int64],
    design: Singles,
    shapes: Sequence[Shape],
    bases: Sequence[Basis],
    shares: Floats | None = None,
) -> Iterator[Sum]:
    """Learn sums from some entries, one for every shape.

    ``shares``, shape (columns of bases, columns of the design), say which coefficients columns share, if any do.
    """
    weight, side = data.weight[entries].astype(np.float32), (data.group[entries] % 2 == 0).astype(np.float32)
    coefficients, judged = regress(design, side, weight, data.group[entries] // 2, shapes)
    for one, scores in zip(coefficients, judged, strict=True):
        gain = float(np.sum(weight * (math.log(2.0) + log_expit((2.0 * side - 1.0) * scores)), dtype=float))
        parts = np.split(one if shares is None else shares @ one, np.cumsum([basis.width for basis in bases])[:-1])
        terms = tuple(basis.term(part) for basis, part in zip(bases, parts, strict=True))
        yield Sum(gain, Additive(terms), entries, scores)


def _sums(data: Encoding, group: Sequence[Feature], alike: bool) -> list[Sum]:
    """Learn sums of a group of features."""
    entries = first_of_each(data, learnt_from(len(group)))
    entries = entries[np.argsort(data.group[entries] // 2, kind="stable")]
    rows = data.row[entries]
    times = np.minimum(data.weight[entries], LOOK).astype(int)
    some = np.repeat(rows, times) if len(rows) < LOOK else rows[:: len(rows) // LOOK]
    if not len(group):
        return []
    numbers, linear = np.array([data.numbers(feature)[some] for feature in group]), len(group) > MOST_COORDINATES
    bases = [one for one in bases_of(group, numbers, often_odd(numbers), linear) if one.width > (not linear)]
    if not bases:
        return []
    design = np.concatenate([basis.columns(data.numbers(basis.feature)[rows]) for basis in bases], axis=1)
    return list(sums_of(data, entries, design, _shapes(bases, alike), bases))


def _shapes(bases: Sequence[Basis], alike: bool) -> list[Shape]:
    """Ridge penalties, and shapes that coefficients at the same knot of all coordinates have."""
    eye, size, each = np.eye(sum(basis.width for basis in bases)), len(bases), bases[0].width
    found: list[Shape] = [(eye, penalty * eye) for penalty in PENALTIES]
    if not alike or size < 3 or any(basis.width != each for basis in bases):
        return found
    for parts, degree in SHAPES:
        part = np.arange(size) * parts // size
        place = np.concatenate([np.linspace(-1.0, 1.0, int(np.sum(part == one))) for one in range(parts)])
        powers = [(part == one)[:, None] * place[:, None] ** np.arange(degree + 1) for one in range(parts)]
        free, _ = np.linalg.qr(np.kron(np.concatenate(powers, axis=1), np.eye(each)))
        found.append((free, np.eye(free.shape[1])))
    return found


def judged_by(
    data: Encoding, entries: NDArray[np.int64], score: Additive | Tree, judged: NDArray[np.floating]
) -> Iterator[CandidateScore]:
    """Yield the candidate of a score learnt from some entries; the others it judges itself, and none that are NaN."""
    final = data.numbers(score)[data.row]
    values, group = final.copy(), (2 * FOLDS + data.group % 2).astype(np.int8)
    values[entries], group[entries] = judged, data.group[entries]
    unjudged = entries[np.isnan(judged)]
    size = float(data.weight[group % 2 == 0].sum() - data.weight[unjudged[group[unjudged] % 2 == 0]].sum())
    learnt = Monotone(score, 1, learnt=True)
    found = CandidateScore.of(learnt, final, group, data.weight, values, margin=HARD_TO_READ, size=size)
    if found is not None:
        yield found


def planted(data: Encoding, features: tuple[Feature, ...]) -> Iterator[CandidateScore]:
    """Yield the candidate of a tree that imitates boosted trees on the features.

    It is judged by the entries that it was not learnt from, or fold by fold where it was learnt from all.
    """
    entries = first_of_each(data, TREE_FROM // 2)
    rows, folds, side = data.row[entries], data.group[entries] // 2, data.group[entries] % 2 == 0
    filled = tuple(Filled(feature) for feature in features)
    columns = np.column_stack([data.numbers(feature)[rows] for feature in filled]).astype(np.float32)
    weight = data.weight[entries]
    seen = np.rint(weight * min(1.0, TREE_FROM / weight.sum())).astype(int)
    if len(entries) < len(data.row) / 2:
        odds = boosted(columns, np.arange(len(entries)), side)
        yield from judged_by(data, entries, distilled(filled, columns, odds)[0], np.full(len(entries), np.nan))
        return
    odds, judged = np.zeros(len(entries)), np.zeros(len(entries))
    for fold in range(FOLDS):
        others, own = folds != fold, folds == fold
        if len(np.unique(side[others & (seen > 0)])) < 2 or not own.any():
            return
        learnt = boosted(columns, np.repeat(np.flatnonzero(others), seen[others]), side)
        odds += learnt / FOLDS
        judged[own] = distilled(filled, columns[others], learnt[others])[1].predict(columns[own])
    yield from judged_by(data, entries, distilled(filled, columns, odds)[0], judged)


def boosted(columns: Singles, rows: NDArray[np.int64], side: NDArray[np.bool_]) -> Floats:
    """Log odds of x in every row by gradient boosting, learnt from some of the rows, repeated as often as seen."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # a second to import, and only training needs it

    model = HistGradientBoostingClassifier(
        max_iter=TREES, max_leaf_nodes=16, min_samples_leaf=40, learning_rate=0.15, early_stopping=False, random_state=0
    )
    with threadpool_limits(1):  # its threads wait for one another at full speed where the machine is busy
        model.fit(columns[rows], side[rows])
        return np.asarray(model.decision_function(columns), float)


def distilled(features: tuple[Filled, ...], columns: Singles, odds: Floats) -> tuple[Tree, Any]:
    """One regression tree that imitates the log odds, and scikit-learn's form of it."""
    from sklearn.tree import DecisionTreeRegressor

    learner = DecisionTreeRegressor(max_leaf_nodes=LEAVES, min_samples_leaf=10, random_state=0).fit(columns, odds)
    tree = learner.tree_
    return Tree(
        features=features,
        columns=tuple(np.where(tree.children_left < 0, -1, tree.feature).tolist()),
        thresholds=tuple(tree.threshold.tolist()),
        left=tuple(np.maximum(tree.children_left, 0).tolist()),
        right=tuple(np.maximum(tree.children_right, 0).tolist()),
        values=tuple(tree.value.ravel().tolist()),
    ), learner

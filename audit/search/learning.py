"""Families of scores: features as they are, likelihood ratios of cells, sums and trees learnt from many features.

They are learnt from the table of training outputs fold by fold, so that every output is judged by what it did not
teach, and written as plain numbers, so that a witness is saved without pickles. A new kind of witness is a new family.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.special import expit, log_expit
from threadpoolctl import threadpool_limits

from epsaudit.outputs.arrays import Floats, Outputs, Singles, kinds_of, values_of
from epsaudit.outputs.readings import Reading
from epsaudit.search.encoding import (
    CELLS_TO_TEST,
    FALSE_FINDS,
    FEW_VALUES,
    FOLDS,
    LEAST_SEEN,
    LEAST_TO_LEARN,
    LOOK,
    MOST_COORDINATES,
    MOST_PARTS,
    TELLING,
    Encoding,
    Fields,
    codes_of,
    differences,
    different,
    encode,
    least,
    log_chance,
    pearson,
    pooled,
    screen,
    shrunk,
    statistic_of,
    sure,
)
from epsaudit.search.selection import ERRORS, CandidateScore, Monotone, PiecewiseRatio, Score
from epsaudit.witnesses.events import (
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

CELLS = 96
"""[chosen] Cells of a number: half of them in geometric steps towards the ends."""
EVEN_KNOTS, STIFF = 16, 30.0
"""[measured] Knots of a likelihood ratio in cells that lie in even steps of rank, and the ridge penalty on the steps
between knots, in outputs. Two audits each of four laws whose best events are two windows (NonDPLaplace2, NonDPGaussian2
at epsilon 0.01 and 0.1), a million runs: shares of an oracle's bound are 0.27 to 0.50 without such knots, 0.90 to 0.99
with 8 of them, 0.91 to 1.01 with 16. Laplace by 5,000 runs, 40 seeds: the lowest decile is 0.844, and 0.823 if the
penalty is 3."""
LEARN_FROM = 350_000
"""[measured] Outputs of each side that scores are learnt from. Sparse vector 3: a share of 0.81 with 150,000, 0.96 with
300,000."""
MOST_REGRESSORS = 160_000_000
"""[memory] Numbers in the matrix that a sum is learnt from: 640 MB. If it would be more, fewer outputs are."""
LEAST_TO_PLANT = 400
"""[chosen] Fewest outputs of each side that trees are learnt from."""
KNOTS = (0.01, 0.1, 0.3, 0.47, 0.53, 0.7, 0.9, 0.99)
"""[measured] Knots of hat functions, in ranks: far out, where events are cut, and close in the middle, where the
likelihood ratio of two Laplace laws has a step: prefix sum has a share of 0.96, and of 0.90 with one knot there."""
PENALTIES = (30.0, 1000.0)
"""[chosen] Ridge penalties, in outputs: a log ratio of 0.2 and of 0.03 is taken to be as likely as not; held-out folds
choose."""
SHAPES = ((1, 0), (1, 1), (2, 0), (4, 0))
"""[measured] Into how many parts coordinates that are alike are divided, and the degree of the polynomial in their
place that their coefficients follow in each. Numerical sparse vector: the best cut of free coefficients has a share of
0.75, of shared ones 0.87; Laplace in parallel 0.40 and 0.79, where all coordinates have the same ones."""
THINNED, MOST_THINNED = 64, 8
"""[time] Entries for each column that are enough for all steps but the last, and of how many at most one is taken."""
STEPS = 3
"""[time] Steps of Newton's method with the information at 0: exact for weak scores, and strong ones need no care."""
ROUNDED = 1e-5
"""[measured] Share of the trace of a matrix of information that is added where rounding to single precision made it
indefinite: ten times the error that 700,000 rows of sparse vector 3 showed."""
TREES, LEAVES, TREE_FROM = 30, 64, 30_000
"""[time] Boosted trees, leaves of the one tree that imitates them, and outputs of both sides that they are learnt
from."""
EASY_TO_READ, HARD_TO_READ = 0.02, 0.04
"""[measured] Shares by which a predicted bound must exceed that of simpler candidates: sets of outputs; unions of
intervals, sums and trees. Of Laplace by 100,000 runs 1 seed of 30 takes a lucky interval with 0.02 for these, none
with 0.04, where the smooth median's bound, of which intervals tell most, is the same."""


def regress(
    design: Singles,
    side: Singles,
    weight: Singles,
    folds: NDArray[Any],
    penalties: Sequence[Floats],
    steps: int = STEPS,
) -> tuple[Floats, Singles]:
    """Ridge logistic regressions of the side that an output came from, for every penalty, and without each fold.

    They share one matrix of information, that at coefficients of 0, which bounds it everywhere, so that Newton's method
    with it never overshoots (Boehning and Lindsay 1988); where outputs tell little, it is the true one.

    ``design`` has shape (entries, columns), ``side`` (1 for x, 0 for x'), ``weight`` (how often it was seen) and
    ``folds`` (increasing) have shape (entries,); penalties are twice the quadratic forms, of shape (columns, columns),
    that are taken from the log likelihood. Returns coefficients learnt from all entries, shape (penalties, columns),
    and the log odds of x of every entry, learnt without its fold, shape (penalties, entries).
    """
    cuts = np.searchsorted(folds, np.arange(1, int(folds.max(initial=0)) + 1))
    sides, weights = np.split(side[:, None], cuts), np.split(weight[:, None], cuts)
    parts = list(zip(np.split(design, cuts), sides, weights, strict=True))
    eye, factors = np.eye(design.shape[1]), []
    grams = np.zeros((len(parts) + 1, *eye.shape))  # the last is of what is left out of all: nothing
    for fold, (part, _, seen) in enumerate(parts):
        scaled = part if np.all(seen == 1.0) else part * np.sqrt(seen)
        grams[fold] = scaled.T @ scaled  # of one matrix, in half the time
    total = grams.sum(axis=0) / 4.0 + 1e-3 * eye
    for gram, penalty in itertools.product(grams, penalties):
        information = total - gram / 4.0 + penalty
        factor, failed = dpotrf(information)
        if failed:  # columns that all but depend on one another, summed in single precision
            factor, _ = dpotrf(information + ROUNDED * np.trace(information) * eye)
        factors.append(factor)
    found = np.zeros((len(grams), len(penalties), design.shape[1]))
    same = bool(np.all(weight == weight[:1]))  # of entries unlike in weight a few may be half of all
    thin = min(max(len(design) // (THINNED * design.shape[1]), 1), MOST_THINNED) if same else 1
    few = [(part[::thin].copy(), own[::thin], thin * seen[::thin]) for part, own, seen in parts] if thin > 1 else parts
    for step in range(steps + (thin > 1)):
        slopes = np.zeros_like(found)
        flat = found.reshape(-1, design.shape[1]).T.astype(np.float32)
        for fold, (part, own, seen) in enumerate(few if step < steps else parts):
            wrong = own - 0.5 - 0.5 * np.tanh(part @ (flat / 2.0))  # which is faster than expit
            slope = ((seen * wrong).T @ part).reshape(found.shape)
            slopes += slope
            slopes[fold] -= slope[fold]
        for number, factor in enumerate(factors):
            fold, which = divmod(number, len(penalties))
            found[fold, which] += dpotrs(factor, slopes[fold, which] - penalties[which] @ found[fold, which])[0]
    judged = []
    for one, (part, _, _) in zip(found[:-1], parts, strict=True):
        judged.append(part @ one.T.astype(np.float32))
    return found[-1], np.concatenate(judged).T


def hats(numbers: Floats, knots: Floats) -> Singles:
    """Hat functions at increasing knots, shape (size, knots); constant beyond the ends."""
    found, rest = np.empty((len(knots), len(numbers)), np.float32), 1.0
    for hat, knot, width in zip(found, knots, np.diff(knots), strict=False):
        ramp = np.clip((numbers - knot) / width, 0.0, 1.0)
        hat[:], rest = rest - ramp, ramp
    found[-1] = rest
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

    def candidates(
        self, data: Encoding, features: Sequence[Feature] | None = None, errors: float | None = None
    ) -> Iterator[CandidateScore]:
        """Yield two candidates a feature, which need no fitting; by default of those that tell most.

        Log odds are lowered by so many ``errors``, by default for the best of all that were tried.
        """
        errors = errors_of(data.features.tried) if errors is None else errors
        for feature in data.features.alone if features is None else features:
            if feature not in data.features.regions:
                numbers = data.numbers(feature)[data.row]
                found = CandidateScore.of(Monotone(feature, 1), numbers, data.group, data.weight, errors=errors)
                if found is not None and len(found.thresholds) > 1:
                    for one, other in ((found, found.turned), (found.turned, found)):
                        if one.lead > 1.0 or other.lead <= 1.0:  # what guesses wrong throughout is no candidate
                            yield one


@dataclass(frozen=True)
class LikelihoodRatio(FromTable):
    """The likelihood ratio in a table: of outputs that repeat, counted one by one, and in cells of every feature.

    Its events are sets of atoms and unions of intervals.
    """

    def candidates(self, data: Encoding, features: Sequence[Feature] | None = None) -> Iterator[CandidateScore]:
        """Yield a candidate of the atoms, with the cells of numbers that are none, and of the features' cells."""
        known, repeats, kinds = data.features, bool(np.any(data.atoms >= 0)), 2 * FOLDS
        tables: list[tuple[Feature, float]] = [(Value(), ERRORS)] if repeats else []
        for feature in known.alone if features is None else features:
            if not isinstance(feature, Value):
                tables.append((feature, errors_of(known.scanned if feature in known.regions else known.tried)))
            elif not repeats:
                tables.append((feature, ERRORS))
        for feature, errors in tables:
            # atoms, and infinite numbers, are cells of their own, others follow; every fold is judged by the rest
            cell = data.atoms.copy() if isinstance(feature, Value) else np.full(len(data.outputs), -1)
            single, coded = int(cell.max()) + 1, isinstance(feature, Code | Together)
            numbers = data.numbers(feature)
            free = np.isfinite(numbers) & (cell < 0)
            told = np.sort(numbers[data.row[free[data.row]]])
            values, edges = told[np.diff(told, prepend=-np.inf) > 0.0], np.empty(0)
            if isinstance(feature, Code | Together):
                edges = np.arange(0.5, feature.number - 1)
            elif len(told) >= FEW_VALUES and len(values) <= CELLS:
                edges = (values[1:] + values[:-1]) / 2.0
            elif len(told) >= FEW_VALUES:  # quantiles that crowd towards the ends
                tail = np.geomspace(10.0 / len(told), 0.5, CELLS // 4)
                ranks = np.concatenate([tail, 1.0 - tail, np.linspace(0.02, 0.98, CELLS // 2)])
                edges = np.unique(told[np.rint(ranks * (len(told) - 1)).astype(int)])
            first = np.zeros(single, np.int64)
            rows = np.flatnonzero(cell >= 0)
            first[cell[rows]] = rows
            cells, infinite = single, list[float]()
            if len(edges) or coded:
                for end, there in zip((-np.inf, np.inf), odd_of(numbers)[:2] & (cell < 0), strict=True):
                    if np.any(there):
                        infinite.append(end)
                        cell[there] = cells
                        cells += 1
                cell[free] = cells + np.searchsorted(edges, numbers[free], side="left")
                cells += len(edges) + 1
            if cell.min() == cell.max():
                continue
            places = cell[data.row]
            within = places >= 0
            places = places[within] * kinds + data.group[within]
            seen: Floats = (
                np.bincount(places, data.weight[within], cells * kinds).reshape(cells, FOLDS, 2).astype(float)
            )
            total, counted = seen.sum(axis=1), cells if coded else single + len(infinite)
            final, judged = _ratios(total, counted), np.empty((FOLDS, cells))
            for fold in range(FOLDS):
                judged[fold] = _ratios(total - seen[:, fold], counted)
            row, folds, side = np.nonzero(seen)
            atoms = tuple(values_of(data.outputs[first]))
            ratios = final[single + len(infinite) :]
            for end, ratio in zip(infinite, final[single:], strict=False):  # beyond the greatest finite number
                place = 0 if end < 0.0 else len(edges)
                edges = np.insert(edges, place, math.copysign(np.finfo(float).max, end))
                ratios = np.insert(ratios, place + (end > 0.0), ratio)
            score = PiecewiseRatio(feature, atoms, final[:single], edges, ratios)
            group, weight = (2 * folds + side).astype(np.int8), seen[row, folds, side]
            margin = EASY_TO_READ if coded or single else HARD_TO_READ
            options = {"errors": errors, "margin": margin, "size": float(data.size)}
            candidate = CandidateScore.of(score, final[row], group, weight, judged[folds, row], **options)
            if candidate is not None:
                yield candidate


def errors_of(tried: int) -> float:
    """Standard errors to lower by where the best of so many scores is taken, many of which are alike."""
    return math.sqrt(ERRORS**2 + math.log(max(tried, 1)))


def _ratios(seen: Floats, single: int) -> Floats:
    """Log ratios of counts of shape (cells, 2): those of atoms shrunk; of many cells in order a piecewise linear curve.

    Its knots crowd towards the ends, and some are everywhere.
    """
    atoms, cells = seen[:single], seen[single:]
    number = len(cells)
    if number <= FEW_VALUES:
        return shrunk(seen)
    ranks = (np.cumsum(cells.sum(axis=1)) - cells.sum(axis=1) / 2.0 + 0.5) / (cells.sum() + 1.0)
    far = np.geomspace(5e-4, 0.5, number // 12)
    even = (np.arange(EVEN_KNOTS) + 0.5) / EVEN_KNOTS
    knots = np.unique(np.interp(np.concatenate([far, 1.0 - far[:-1], even]), ranks, np.arange(number)))
    eye = np.eye(len(knots))
    bends = np.diff(eye, axis=0)
    penalty = STIFF * bends.T @ bends + 0.1 * eye
    side, weight = np.tile(np.array([1.0, 0.0], np.float32), number), cells.ravel().astype(np.float32)
    design = np.repeat(hats(np.arange(number, dtype=float), knots), 2, axis=0)
    weights, _ = regress(design, side, weight, np.zeros(len(side)), [penalty], 3 * STEPS)
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
        return max(len(self.knots) - self.linear, 0) + int(self.odd.sum())

    def columns(self, numbers: Floats) -> Singles:
        finite = np.isfinite(numbers)
        if finite.all() and len(self.knots) and not self.odd.any():
            return hats(numbers, self.knots)[:, int(self.linear) :]
        indicators = odd_of(numbers)[self.odd].T
        if not len(self.knots):
            return indicators.astype(np.float32)
        found = hats(np.where(finite, numbers, self.knots[0]), self.knots)[:, int(self.linear) :] * finite[:, None]
        return np.concatenate([found, indicators], axis=1, dtype=np.float32)

    def term(self, coefficients: Floats) -> Term:
        """The term that these coefficients of the columns make."""
        of_hats = self.width - int(self.odd.sum())
        values = [*([0.0] if self.linear else []), *coefficients[:of_hats].tolist()]
        rest = iter(coefficients[of_hats:].tolist())
        below, above, missing = (next(rest) if kept else 0.0 for kept in self.odd)
        return Term(self.feature, tuple(self.knots.tolist()), tuple(values), below, above, missing)


def bases_of(
    group: Sequence[Feature], data: Encoding, rows: NDArray[np.int64], lines: bool = False
) -> tuple[list[Basis], list[Basis]]:
    """The basis of each feature, and one of a line between ends if ``lines``, else the same.

    Knots are quantiles in these rows, or each number where few differ. Indicators are of what any feature often is.
    """
    ordered, odd = [], np.zeros(3, bool)
    for one in (data.numbers(feature)[rows] for feature in group):
        finite = np.isfinite(one)
        if not finite.all():
            odd |= np.count_nonzero(odd_of(one), axis=1) >= LEAST_SEEN
        ordered.append(np.sort(one[finite]))
    curves, straight = [], []
    for feature, one in zip(group, ordered, strict=True):
        values = different(one)
        knots = different(quantiles(one, KNOTS)) if len(values) > FEW_VALUES else values
        curves.append(Basis(feature, knots, odd))
        if lines:
            ends = different(quantiles(one, (KNOTS[0], KNOTS[-1]))) if len(one) else one
            straight.append(Basis(feature, ends, odd, len(one) > 0))
    return curves, straight or curves


def quantiles(ordered: Floats, shares: Sequence[float]) -> Floats:
    """What `numpy.quantile` gives, of numbers in order."""
    place = (len(ordered) - 1) * np.asarray(shares)
    below = place.astype(int)
    low, high, far = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)], place - below
    return np.asarray(np.where(far < 0.5, low + (high - low) * far, high - (high - low) * (1.0 - far)))


@dataclass(frozen=True)
class Classifiers(FromTable):
    """Scores learnt on groups of features: all coordinates, increments, releases, and combinations that tell most.

    Logistic regression on piecewise linear functions of each feature, with coefficients of their own or shared among
    coordinates (`SHAPES`), whatever judges the held-out folds best. Of a group of more features than ``curves`` each
    has a line, and those that tell most a curve. Boosted ``trees`` find interactions; they are distilled to one tree,
    which is faster to apply and fits into JSON. Of vectors of more than `MOST_PARTS` coordinates they are not learnt:
    products of two that tell are features.
    """

    trees: bool = True
    curves: int = MOST_COORDINATES

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        if not data.features.groups or data.size < LEAST_TO_LEARN:
            return
        sums, best = [], []
        for number, group in enumerate(data.features.groups):
            few, alike = group, number < data.features.alike
            if len(group) > self.curves:
                best += best_sums(data, group, alike, lines=True)
                few = tuple(screen(group, *data.sides, self.curves)) if len(group) <= MOST_COORDINATES else ()
            sums += best_sums(data, few, alike)
        for _, entries, score, judged in [*best, *sorted(sums, key=itemgetter(0), reverse=True)[:2]]:
            yield from judged_by(data, entries, score, judged)
        lengths = [len(group) for group in data.features.groups if len(group) <= MOST_COORDINATES]
        if self.trees and max(lengths) <= MOST_PARTS:
            odds = np.zeros(len(data.row))
            for _, entries, _, judged in sorted(sums, key=itemgetter(0))[-1:]:
                odds[entries] = judged
            yield from planted(data, odds=odds)


@dataclass(frozen=True)
class FloatBits(FromTable):
    """Low bits of floating-point numbers, and the sign of zero: what an implementation leaks and real numbers do not.

    Mironov (2012). Not among the default families: almost every sampler in double precision, numpy's own included,
    fails this test, while proofs speak of real numbers. Ask for it to audit an implementation to the last bit.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        data = encode(*data.sides, data.features, once=False)
        rows = data.sides[0].dtype == np.float64 and data.sides[0].ndim > 1
        chosen = least(differences(*data.sides), MOST_COORDINATES) if rows else []
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
        yield from Tails().candidates(data, features, errors_of(3 * len(sources)))
        yield from LikelihoodRatio().candidates(data, features)


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
        yield from Tails().candidates(data, numbers, errors_of(fields.places))
        yield from LikelihoodRatio().candidates(data, features)


def first_of_each(data: Encoding, most: int) -> NDArray[np.int64]:
    """Entries to learn from: all, or so many of either side."""
    if len(data.row) <= 2 * most or len(data.outputs) < len(data.row):
        return np.arange(len(data.row))
    return np.concatenate([np.flatnonzero(data.group % 2 == side)[:most] for side in (0, 1)])


def odd_of(numbers: Floats) -> NDArray[np.bool_]:
    """Where numbers are -inf, inf and NaN, shape (3, size)."""
    return np.array([numbers == -np.inf, numbers == np.inf, np.isnan(numbers)])


def best_sums(
    data: Encoding, group: Sequence[Feature], alike: bool, lines: bool = False
) -> list[tuple[float, NDArray[np.int64], Additive, Singles]]:
    """Learn sums of a curve, or a line, for each feature of a group; the best with shared and with free coefficients.

    Curves of features that are ``alike``, or many, may have the same coefficients in each of some parts (`SHAPES`).
    What fits all outputs best may cut the rare ones worse, so that both are judged by their events.
    Returns what it gains over a fair coin an entry of held-out folds, the entries, the sum, and what it gives them.
    """
    size = len(group)
    if size == 0:
        return []
    most = min(LEARN_FROM, MOST_REGRESSORS // (2 * size * (1 if lines else len(KNOTS))))
    entries = first_of_each(data, LOOK if size > MOST_COORDINATES else most)
    entries = entries[np.argsort(data.group[entries] // 2, kind="stable")]
    rows, folds = data.row[entries], data.group[entries] // 2
    weight, side = data.weight[entries].astype(np.float32), (data.group[entries] % 2 == 0).astype(np.float32)
    times = np.minimum(weight, LOOK).astype(int)
    some = np.repeat(rows, times) if len(rows) < LOOK else rows[:: -(-len(rows) // LOOK)]
    curves, bases = bases_of(group, data, some, lines)
    designs: list[tuple[list[Basis], Singles, Floats | None]] = []
    width, columns = curves[0].width, list[Singles]()
    if (lines or (alike and size > 2)) and width and all(one.width == width for one in curves):
        finest = SHAPES[-1][0]
        part, place = np.arange(size) * finest // size, np.linspace(-1.0, 1.0, size)
        summed = np.zeros((2, finest, width, len(rows)), np.float32)
        for basis, at, far in zip(curves, part, place, strict=True):
            hat = basis.columns(data.numbers(basis.feature)[rows]).T
            summed[0, at] += hat
            summed[1, at] += np.float32(far) * hat
            columns += [] if lines else [hat]
        summed -= summed.mean(axis=3, keepdims=True)  # all hats together are constant: single precision ends there
        for parts, degree in SHAPES:
            pieces, powers = [], []
            for power, number in itertools.product(range(degree + 1), range(parts)):
                pieces.append(np.split(summed[power], parts)[number].sum(axis=0))
                powers.append((part * parts // finest == number) * place**power)
            designs.append((curves, np.concatenate(pieces).T, np.kron(np.transpose(powers), np.eye(width))))
    if bases := [one for one in bases if one.width > (not lines)]:
        columns = columns or [basis.columns(data.numbers(basis.feature)[rows]).T for basis in bases]
        designs.append((bases, np.concatenate(columns).T, None))
    found: dict[bool, tuple[float, list[Basis], Floats, Singles]] = {}
    for bases, design, shares in designs:
        free = shares is None
        penalties = [penalty * np.eye(design.shape[1]) for penalty in (PENALTIES if free else (1.0,))]
        for one, scores in zip(*regress(design, side, weight, folds, penalties), strict=True):
            gain = float(np.sum(weight * (math.log(2.0) + log_expit((2.0 * side - 1.0) * scores)), dtype=float))
            if free not in found or gain >= found[free][0]:
                found[free] = gain, bases, one if shares is None else shares @ one, scores
    sums = []
    for gain, bases, one, scores in found.values():
        each = np.split(one, np.cumsum([basis.width for basis in bases])[:-1])
        terms = tuple(basis.term(part) for basis, part in zip(bases, each, strict=True))
        sums.append((gain / len(entries), entries, Additive(terms), scores))
    return sums


def judged_by(
    data: Encoding, entries: NDArray[np.int64], score: Additive | Tree, judged: NDArray[np.floating]
) -> Iterator[CandidateScore]:
    """Yield the candidate of a score that was learnt from some entries, fold by fold; the others it judges itself."""
    final = data.numbers(score)[data.row]
    values, group = final.copy(), (2 * FOLDS + data.group % 2).astype(np.int8)
    values[entries], group[entries] = judged, data.group[entries]
    learnt = Monotone(score, 1, learnt=True)
    found = CandidateScore.of(learnt, final, group, data.weight, values, margin=HARD_TO_READ)
    if found is not None:
        yield found


def planted(data: Encoding, features: tuple[Feature, ...] = (), odds: Floats | None = None) -> Iterator[CandidateScore]:
    """Yield the candidate of a tree that imitates boosted trees on the features, by default on those of all groups.

    Boosting takes most of the time, so that it learns from some entries of many. Of log ``odds`` of the entries, shape
    (entries,), that another score gives, at best each learnt without its fold, it must say more on the first fold.
    """
    groups = [group for group in data.features.groups if len(group) <= MOST_COORDINATES]
    features = features or tuple(dict.fromkeys(feature for group in groups for feature in group))
    if data.size < LEAST_TO_PLANT or len(features) < 2:
        return
    from sklearn.ensemble import HistGradientBoostingClassifier  # a second to import, and only training needs it
    from sklearn.tree import DecisionTreeRegressor

    entries = first_of_each(data, TREE_FROM // 2)
    rows, folds, side = data.row[entries], data.group[entries] // 2, data.group[entries] % 2 == 0
    filled = tuple(Filled(feature) for feature in features)
    columns = np.column_stack([data.numbers(feature)[rows] for feature in filled]).astype(np.float32)
    weight = data.weight[entries]
    seen = np.rint(weight * min(1.0, TREE_FROM / weight.sum())).astype(int)
    lesson = features, hash((columns.tobytes(), seen.tobytes(), data.group[entries].tobytes()))
    if lesson in data.features.trees:
        yield from judged_by(data, entries, *data.features.trees[lesson])
        return
    told, judged = np.zeros(len(entries)), np.zeros(len(entries))
    booster = HistGradientBoostingClassifier(
        max_iter=TREES, max_leaf_nodes=16, min_samples_leaf=40, learning_rate=0.15, early_stopping=False, random_state=0
    )
    imitator = DecisionTreeRegressor(max_leaf_nodes=LEAVES, min_samples_leaf=10, random_state=0)
    for fold in range(FOLDS):
        others, own = folds != fold, folds == fold
        some = np.repeat(np.flatnonzero(others), seen[others])
        if len(np.unique(side[some])) < 2 or not own.any():
            return
        with threadpool_limits(1):  # its threads wait for one another at full speed where the machine is busy
            learnt = booster.fit(columns[some], side[some]).decision_function(columns)
        if fold == 0 and odds is not None and not says_more(odds[entries][own], learnt[own], side[own], weight[own]):
            return
        told += learnt / FOLDS
        judged[own] = imitator.fit(columns[others], learnt[others]).predict(columns[own])
    tree = imitator.fit(columns, told).tree_
    score = Tree(
        features=filled,
        columns=tuple(np.where(tree.children_left < 0, -1, tree.feature).tolist()),
        thresholds=tuple(tree.threshold.tolist()),
        left=tuple(np.maximum(tree.children_left, 0).tolist()),
        right=tuple(np.maximum(tree.children_right, 0).tolist()),
        values=tuple(tree.value.ravel().tolist()),
    )
    data.features.trees[lesson] = score, judged
    yield from judged_by(data, entries, score, judged)


def says_more(odds: Floats, more: Floats, side: NDArray[np.bool_], weight: Floats) -> bool:
    """Whether ``more`` log odds of x tell a share of `HARD_TO_READ` above what other ``odds`` do.

    What they would add to the log likelihood is half the square of Rao's score statistic of a step towards them.
    """
    share, step = expit(odds), more - odds
    score = np.sum(weight * (side - share) * step)
    added = score**2 / (2.0 * np.sum(weight * share * (1.0 - share) * step**2) + 1e-300)
    gain = np.sum(weight * (math.log(2.0) + log_expit(np.where(side, odds, -odds))))
    return bool(score > 0.0 and added > HARD_TO_READ * gain)


DEFAULT_FAMILIES: tuple[Family, ...] = (Tails(), LikelihoodRatio(), Classifiers())
"""What 'auto' stands for: everything that treats floating-point numbers as the real numbers that proofs speak of."""
ALL_FAMILIES = (*DEFAULT_FAMILIES, FloatBits(), Messages())
"""What 'all' stands for: an implementation audited to the last bit, and to the text of its error messages."""

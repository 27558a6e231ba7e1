"""Learn scores of many features at once: naive Bayes, logistic regression, and gradient boosting distilled to a tree.

They are fitted on training outputs of both sides and written as plain numbers (`epsaudit.witnesses.models`), so that a
witness is saved without pickles. scikit-learn grows the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs import Outputs
from epsaudit.witnesses.atoms import row_codes
from epsaudit.witnesses.features import Feature
from epsaudit.witnesses.models import Additive, Filled, Term, Tree
from epsaudit.witnesses.regression import log_ratios, loss_of, regress
from epsaudit.witnesses.scores import Monotone, Score
from epsaudit.witnesses.screening import described, screen

Floats = NDArray[np.float64]
QUANTILES = (0.05, 0.275, 0.5, 0.725, 0.95)
"""Knots of the splines, in ranks: Harrell's for five knots (Regression Modeling Strategies, 2001)."""
FEW_VALUES = 16
"""Different values up to which a feature is taken as categories, not as a spline. Set by hand in the first round;
no measurement is recorded."""
RARE = 5
"""How often an odd value (NaN, an infinity) must be seen to have a coefficient of its own. Set by hand in the first
round; no measurement is recorded."""
PENALTY_OF_MANY = (100.0,)
"""The one penalty that is tried where there are many features. Set by hand in the first round; no measurement is
recorded."""
HELD_OUT = 4
"""One in so many training outputs is held out to choose a penalty."""
REPEATED = 0.5
"""Outputs of which fewer than this share differ are counted."""
TO_IMITATE = 16_000
"""About so many outputs of both sides are enough to imitate a classifier on."""
CELLS = 16
"""Cells between two knots in which naive Bayes counts."""
ENOUGH = 0.01
"""Gain of log likelihood that is not worth another step."""


@dataclass(frozen=True)
class Basis:
    """Columns that describe one feature: hat functions at a few knots, and indicators of infinities and NaN.

    Standardised: knots are quantiles of what training saw, or its values where these are few.
    """

    feature: Feature
    knots: tuple[float, ...]
    odd: tuple[bool, bool, bool]

    @classmethod
    def of(cls, feature: Feature, numbers: Floats, seen: Floats) -> Basis:
        """Place the knots by the numbers of training and by how often each was seen."""
        finite = np.isfinite(numbers)
        order = np.argsort(numbers[finite])
        known, below = numbers[finite][order], np.cumsum(seen[finite][order])
        knots = known[np.flatnonzero(np.diff(known, prepend=-np.inf))]
        if len(knots) > FEW_VALUES:
            knots = np.unique(known[np.searchsorted(below, np.array(QUANTILES) * below[-1])])
        odd = tuple(float(np.sum(seen[kind])) >= RARE for kind in _odd(numbers))
        return cls(feature, tuple(knots.tolist()), (odd[0], odd[1], odd[2]))

    def columns(self, numbers: Floats) -> NDArray[np.float32]:
        """Return shape (size, number of columns)."""
        found = np.zeros((len(numbers), self.width), np.float32)
        finite = np.isfinite(numbers)
        everywhere = bool(finite.all())
        if self.knots:
            position = self._position(numbers)
            place = position.astype(np.int64)
            rows, share = np.arange(len(numbers)), position - place
            found[rows, np.minimum(place + 1, len(self.knots) - 1)] = share
            found[rows, place] = 1.0 - share
        if not everywhere:
            found[~finite] = 0.0
            kinds = [kind for kind, kept in zip(_odd(numbers), self.odd, strict=True) if kept]
            for column, kind in enumerate(kinds, len(self.knots)):
                found[kind, column] = 1.0
        return found

    def counted(self, numbers: Floats, seen: Floats) -> tuple[NDArray[np.float32], Floats]:
        """Count the numbers in cells between the knots; return the cells' columns and their counts on either side.

        ``seen`` has shape (2, size), the counts shape (2, cells).
        """
        steps = max(len(self.knots) - 1, 0) * CELLS
        position = np.rint(self._position(numbers) * CELLS).astype(np.int64) if self.knots else np.zeros_like(numbers)
        cell = np.where(np.isfinite(numbers), position, steps + 1)
        for place, kind in enumerate(_odd(numbers), steps + 1):
            cell[kind] = place
        inside = (
            np.interp(np.arange(steps + 1) / CELLS, np.arange(len(self.knots)), self.knots) if self.knots else [0.0]
        )
        counts = [np.bincount(cell.astype(np.int64), weights=side, minlength=steps + 4) for side in seen]
        return self.columns(np.append(inside, [-np.inf, np.inf, np.nan])), np.stack(counts)

    def _position(self, numbers: Floats) -> Floats:
        """Place of each number along the knots, whole at a knot; 0 for what is no number."""
        places = np.arange(len(self.knots), dtype=float)
        return np.where(np.isfinite(numbers), np.interp(numbers, self.knots, places), 0.0)

    def term(self, coefficients: Floats) -> Term:
        """The term that these coefficients of the columns make."""
        values = coefficients[: len(self.knots)].tolist()
        rest = iter(coefficients[len(self.knots) :].tolist())
        below, above, missing = (next(rest) if kept else 0.0 for kept in self.odd)
        return Term(self.feature, self.knots, tuple(values), below, above, missing)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.knots) + sum(self.odd)


@dataclass(frozen=True)
class Classifiers:
    """Scores learnt on all coordinates and on the combinations of them that tell most.

    Naive Bayes adds up what each coordinate (or each increment) tells alone: right where coordinates are independent.
    Logistic regression on piecewise linear functions weighs them together. Gradient boosting finds interactions;
    it is distilled to one tree of at most ``leaves`` leaves, which is faster to apply and fits into JSON.

    Parameters
    ----------
    most : int
        Most combinations beside the coordinates.
    penalties : tuple of float
        Strengths of the ridge penalty that logistic regression tries on a quarter of its training outputs held out.
    leaves : int
        Most leaves of the distilled tree.
    least : int
        Fewest training outputs a side below which nothing is learnt.
    trees : bool
        Whether to learn a tree.
    """

    most: int = 8
    penalties: tuple[float, ...] = (1.0, 30.0, 1000.0)
    leaves: int = 64
    least: int = 400
    trees: bool = True

    @property
    def again(self) -> Classifiers:
        """What gains most from many more training outputs, at a price that grows with their number only."""
        return replace(self, penalties=PENALTY_OF_MANY, trees=False)

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        groups, extra = described(outputs, outputs_prime)
        if not groups or len(groups[0]) + len(extra) < 2 or len(outputs) < self.least:
            return []
        rows = _Rows.of(outputs, outputs_prime)
        scores: list[Feature] = [_naive_bayes(rows, group) for group in groups]
        table = _Table.of(rows, [*groups[0], *screen(extra, outputs, outputs_prime, self.most)])
        if table.bases:
            scores.append(table.logistic(self.penalties))
            if self.trees:
                features = [basis.feature for basis in table.bases]
                scores.append(boosted_tree(features, outputs, outputs_prime, self.leaves))
        return [Monotone(score, 1, learnt=True) for score in scores]


@dataclass(frozen=True)
class _Rows:
    """Different training outputs, and how often each was seen: shape (2, 2, rows) by held out or not, and by side.

    Where outputs rarely repeat, each is a row by itself.
    """

    outputs: Outputs
    seen: Floats

    @classmethod
    def of(cls, outputs: Outputs, outputs_prime: Outputs) -> _Rows:
        pooled = np.concatenate([outputs, outputs_prime])
        side = np.repeat([0, 1], [len(outputs), len(outputs_prime)])
        held_out = np.concatenate([np.arange(len(one)) % HELD_OUT == HELD_OUT - 1 for one in (outputs, outputs_prime)])
        first = place = np.arange(len(pooled))
        if pooled.ndim > 1:
            codes = row_codes(pooled.reshape(len(pooled), -1))
            _, different, inverse = np.unique(codes, return_index=True, return_inverse=True)
            if len(different) < REPEATED * len(pooled):
                first, place = different, inverse
        cells = (held_out * 2 + side) * len(first) + place
        return cls(pooled[first], np.bincount(cells, minlength=4 * len(first)).astype(float).reshape(2, 2, -1))

    def described(self, features: Sequence[Feature]) -> list[tuple[Basis, Floats]]:
        """Return the basis and the numbers of every feature that is not the same on all rows."""
        weights, found = self.seen.sum(axis=(0, 1)), []
        for feature in features:
            numbers = np.asarray(feature(self.outputs), float)
            if not (np.all(numbers == numbers[0]) or np.all(np.isnan(numbers))):
                found.append((Basis.of(feature, numbers, weights), numbers))
        return found


def _naive_bayes(rows: _Rows, features: Sequence[Feature]) -> Additive:
    """Add up the log ratios that each feature shows alone."""
    terms, seen = [], rows.seen.sum(axis=0)
    for basis, numbers in rows.described(features):
        columns, (counts, counts_prime) = basis.counted(numbers, seen)
        terms.append(basis.term(regress(columns, counts, counts_prime, 1.0, None, ENOUGH)))
    return Additive(tuple(terms))


@dataclass(frozen=True)
class _Table:
    """The columns that describe some features of the rows, side by side, and where those of each feature begin."""

    bases: list[Basis]
    columns: NDArray[np.float32]
    places: tuple[int, ...]
    seen: Floats

    @classmethod
    def of(cls, rows: _Rows, features: Sequence[Feature]) -> _Table:
        described = rows.described(features)
        bases = [basis for basis, _ in described]
        places = (0, *np.cumsum([basis.width for basis in bases]).astype(int).tolist())
        columns = np.empty((rows.seen.shape[2], places[-1]), np.float32)
        for (basis, numbers), start, end in zip(described, places, places[1:], strict=False):
            columns[:, start:end] = basis.columns(numbers)
        return cls(bases, columns, places, rows.seen)

    def logistic(self, penalties: Sequence[float]) -> Additive:
        """Logistic regression on all columns; of several penalties, the one with the least loss on what is held out."""
        weights, penalty = np.zeros(self.columns.shape[1]), penalties[0]
        if len(penalties) > 1:
            losses = []
            for one in penalties:
                weights = regress(self.columns, self.seen[0, 0], self.seen[0, 1], one, weights, ENOUGH)
                losses.append(loss_of(log_ratios(self.columns, weights), *self.seen[1]))
            penalty = penalties[int(np.argmin(losses))]
        counts, counts_prime = self.seen.sum(axis=0)
        weights = regress(self.columns, counts, counts_prime, penalty, weights, ENOUGH)
        places = zip(self.bases, self.places, self.places[1:], strict=False)
        return Additive(tuple(basis.term(weights[start:end]) for basis, start, end in places))


def boosted_tree(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, leaves: int) -> Tree:
    """Gradient boosting on the features, and one regression tree that imitates its log odds."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # a second to import, and only training needs it
    from sklearn.tree import DecisionTreeRegressor

    filled = tuple(Filled(feature) for feature in features)
    columns, side = _columns(filled, outputs, outputs_prime)
    model = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=16, min_samples_leaf=40, learning_rate=0.15, early_stopping=True, random_state=0
    ).fit(columns, side)
    some = columns[:: max(1, len(columns) // TO_IMITATE)]  # of odds, which have no noise, fewer are enough
    odds = model.decision_function(some)
    tree = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=10, random_state=0).fit(some, odds).tree_
    return Tree(
        features=filled,
        columns=tuple(np.where(tree.children_left < 0, -1, tree.feature).tolist()),
        thresholds=tuple(tree.threshold.tolist()),
        left=tuple(np.maximum(tree.children_left, 0).tolist()),
        right=tuple(np.maximum(tree.children_right, 0).tolist()),
        values=tuple(tree.value.ravel().tolist()),
    )


def _columns(
    features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs
) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    sides = [np.column_stack([feature(side) for feature in features]) for side in (outputs, outputs_prime)]
    side = np.repeat(np.array([1, 0], np.int8), [len(outputs), len(outputs_prime)])
    return np.concatenate(sides).astype(np.float32), side


def _odd(numbers: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    return numbers == -np.inf, numbers == np.inf, np.isnan(numbers)

"""Learn scores of many features at once: naive Bayes, logistic regression, and gradient boosting distilled to a tree.

Training outputs of both sides enter; scores made of plain numbers leave (`audit.witnesses.models`), so that a witness
is saved without pickles. scikit-learn does the learning.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.mechanism import Outputs
from audit.witnesses.features import Feature
from audit.witnesses.models import Additive, Filled, Term, Tree
from audit.witnesses.scores import Monotone, Score
from audit.witnesses.screening import described, screen

Floats = NDArray[np.float64]
QUANTILES = (0.05, 0.275, 0.5, 0.725, 0.95)
FEW_VALUES = 16
RARE = 5
PENALTY_OF_MANY = (100.0,)


@dataclass(frozen=True)
class Basis:
    """Columns that describe one feature: hat functions at a few knots, and indicators of infinities and NaN.

    Standardised: knots are quantiles of what training saw, or its values where these are few.
    """

    feature: Feature
    knots: tuple[float, ...]
    odd: tuple[bool, bool, bool]

    @classmethod
    def of(cls, feature: Feature, numbers: Floats) -> Basis:
        """Place the knots by training numbers of both sides."""
        finite = numbers[np.isfinite(numbers)]
        knots = np.unique(finite[:: max(1, len(finite) // 20_000)]) if len(finite) else finite
        if len(knots) > FEW_VALUES:
            knots = np.unique(np.quantile(finite, QUANTILES))
        odd = tuple(int(np.count_nonzero(kind)) >= RARE for kind in _odd(numbers))
        return cls(feature, tuple(knots.tolist()), (odd[0], odd[1], odd[2]))

    def columns(self, numbers: Floats) -> Floats:
        """Return shape (size, number of columns)."""
        finite = np.isfinite(numbers)
        inside = np.where(finite, numbers, 0.0)
        hats = [np.interp(inside, self.knots, row) * finite for row in np.eye(len(self.knots))]
        return np.column_stack(
            [*hats, *(kind.astype(float) for kind, kept in zip(_odd(numbers), self.odd, strict=True) if kept)]
        )

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
        scores: list[Feature] = [_naive_bayes(_Table.of(group, outputs, outputs_prime)) for group in groups]
        chosen = screen(extra, outputs, outputs_prime, self.most)
        table = _Table.of([*groups[0], *chosen], outputs, outputs_prime)
        if table.features:
            scores.append(_logistic(table, self.penalties))
            if self.trees:
                scores.append(boosted_tree(table.features, outputs, outputs_prime, self.leaves))
        return [Monotone(score, 1, learnt=True) for score in scores]


@dataclass(frozen=True)
class _Table:
    """Training numbers, one column a feature, x first, and which side each row comes from (1 for x)."""

    features: list[Feature]
    numbers: list[Floats]
    side: NDArray[np.int8]

    @classmethod
    def of(cls, features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> _Table:
        kept, numbers = [], []
        for feature in features:
            column = np.concatenate([np.asarray(feature(side), float) for side in (outputs, outputs_prime)])
            if not (np.all(column == column[0]) or np.all(np.isnan(column))):
                kept.append(feature)
                numbers.append(column)
        side = np.repeat(np.array([1, 0], np.int8), [len(outputs), len(outputs_prime)])
        return cls(kept, numbers, side)


def _naive_bayes(table: _Table) -> Additive:
    """Add up the log ratios that each feature shows alone."""
    terms = []
    for feature, numbers in zip(table.features, table.numbers, strict=True):
        basis = Basis.of(feature, numbers)
        terms.append(basis.term(_regress(basis.columns(numbers), table.side, 1.0)))
    return Additive(tuple(terms))


def _logistic(table: _Table, penalties: Sequence[float]) -> Additive:
    """Logistic regression on all bases together; of several penalties, the one with the least loss on a quarter."""
    bases = [Basis.of(feature, numbers) for feature, numbers in zip(table.features, table.numbers, strict=True)]
    if not bases:
        return Additive(())
    columns = np.column_stack([b.columns(n) for b, n in zip(bases, table.numbers, strict=True)]).astype(np.float32)
    penalty = penalties[0] if len(penalties) == 1 else _best_penalty(columns, table.side, penalties)
    weights = _regress(columns, table.side, penalty)
    places = np.cumsum([0, *(basis.width for basis in bases)])
    return Additive(tuple(basis.term(weights[a:b]) for basis, a, b in zip(bases, places, places[1:], strict=False)))


def _best_penalty(columns: NDArray[np.float32], side: NDArray[np.int8], penalties: Sequence[float]) -> float:
    held_out = np.arange(len(columns)) % 4 == 3
    sign = 2.0 * side[held_out] - 1.0

    def loss(penalty: float) -> float:
        logit = columns[held_out] @ _regress(columns[~held_out], side[~held_out], penalty)
        return float(np.sum(np.logaddexp(0.0, -sign * logit)))

    return min(penalties, key=loss)


def boosted_tree(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, leaves: int) -> Tree:
    """Gradient boosting on the features, and one regression tree that imitates its log odds."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # a second to import, and only training needs it
    from sklearn.tree import DecisionTreeRegressor

    filled = tuple(Filled(feature) for feature in features)
    columns, side = _columns(filled, outputs, outputs_prime)
    model = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=16, min_samples_leaf=40, learning_rate=0.15, early_stopping=True, random_state=0
    ).fit(columns, side)
    odds = model.decision_function(columns)
    least = max(10, len(columns) // 4000)
    tree = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=0).fit(columns, odds).tree_
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


def _regress(columns: NDArray[Any], side: NDArray[np.int8], penalty: float) -> Floats:
    """Ridge logistic regression without intercept (hat functions sum to one); the coefficients."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0 / penalty, solver="newton-cholesky", fit_intercept=False, tol=1e-4, max_iter=30)
    with warnings.catch_warnings():  # the other half of training judges a poor fit
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(columns, side)
    return np.asarray(model.coef_[0], float)


def _odd(numbers: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    return numbers == -np.inf, numbers == np.inf, np.isnan(numbers)

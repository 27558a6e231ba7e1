"""Scores that combine several features: additive scores, and trees for interactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from epsaudit.outputs.arrays import Floats
from epsaudit.search.additive_scores import fit_sums
from epsaudit.search.boosted_trees import distil_boosted_trees
from epsaudit.search.candidate import CandidateScore
from epsaudit.search.difference_tests import select_most_different
from epsaudit.search.encoding import Encoding
from epsaudit.search.family import TableFamily
from epsaudit.search.limits import MAX_COORDINATES, MAX_PARTS, MIN_OUTPUTS_TO_LEARN
from epsaudit.search.out_of_fold import evaluate_out_of_fold
from epsaudit.witnesses.feature import Feature


@dataclass(frozen=True)
class Classifiers(TableFamily):
    """Scores learnt from groups of features: all coordinates, increments, first and last numbers, and combinations.

    Additive scores are logistic regressions on piecewise linear functions of each feature. In a group of more than
    ``curves`` features, every feature has a straight line, and the features that differ most have a curve. If ``trees``
    is true, boosted trees search for interactions. They are not learnt from groups of more than `MAX_PARTS` features;
    for such vectors, products of two correlated coordinates are features.
    """

    trees: bool = True
    curves: int = MAX_COORDINATES

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        if not data.features.groups or data.size < MIN_OUTPUTS_TO_LEARN:
            return
        sums, best = [], []
        for number, group in enumerate(data.features.groups):
            few, ordered = group, number < data.features.n_ordered
            if len(group) > self.curves:
                best += fit_sums(data, group, ordered, lines=True)
                few = (
                    tuple(select_most_different(group, *data.sides, self.curves))
                    if len(group) <= MAX_COORDINATES
                    else ()
                )
            sums += fit_sums(data, few, ordered)
        for _, entries, score, out_of_fold in [*best, *sorted(sums, key=itemgetter(0), reverse=True)[:2]]:
            yield from evaluate_out_of_fold(data, entries, score, out_of_fold)
        lengths = [len(group) for group in data.features.groups if len(group) <= MAX_COORDINATES]
        if self.trees and max(lengths) <= MAX_PARTS:
            odds = np.zeros(len(data.row))
            for _, entries, _, out_of_fold in sorted(sums, key=itemgetter(0))[-1:]:
                odds[entries] = out_of_fold
            yield from learn_interactions(data, odds=odds)


def learn_interactions(
    data: Encoding, features: tuple[Feature, ...] = (), odds: Floats | None = None
) -> Iterator[CandidateScore]:
    """Yield candidates that find interactions of features, by default of all groups of features.

    This is the only function that uses `epsaudit.search.boosted_trees`, where its arguments are explained. To audit
    without boosted trees, return an empty iterator here.
    """
    yield from distil_boosted_trees(data, features, odds)

"""Losses of any function by enumeration: the slow oracle that inverse sensitivities are held against."""

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from epsaudit.data.neighbours import DatasetPair, Substitution
from epsaudit.mechanisms.inverse_sensitivity import Losses


@dataclass(frozen=True)
class EnumeratedLosses(Losses):
    """Losses of any function on all multisets of so many records: fewest changes to a dataset that has each answer."""

    function: object  # ``function(dataset) -> number``, blind to the order of the records
    universe: tuple  # all possible records
    size: int
    adjacency: ClassVar = Substitution()

    @cached_property
    def datasets(self):
        return tuple(itertools.combinations_with_replacement(self.universe, self.size))

    @cached_property
    def values(self):
        return tuple(self.function(dataset) for dataset in self.datasets)

    @cached_property
    def candidates(self):
        """All answers, in increasing order: the function is surjective, as the source assumes."""
        return tuple(sorted(set(self.values)))

    @cached_property
    def pairs(self):
        """Neighbours whose losses move in both directions or, failing that, all neighbours."""
        tables, found = [self.losses(dataset) for dataset in self.datasets], []
        for place, dataset in enumerate(self.datasets):
            for other in np.flatnonzero(self.distances(dataset) == 1):
                if other > place:
                    moves = tables[place] - tables[other]
                    found.append((moves.max() > 0 > moves.min(), DatasetPair(dataset, self.datasets[other])))
        return tuple(pair for both, pair in found if both) or tuple(pair for _, pair in found)

    def distances(self, dataset):
        """Fewest changes from a dataset to each of `datasets`, shape (datasets,)."""
        counts = np.array([[Counter(d)[record] for record in self.universe] for d in (dataset, *self.datasets)])
        return np.abs(counts[1:] - counts[0]).sum(axis=1) // 2

    def value(self, dataset):
        return self.function(tuple(dataset))

    def losses(self, dataset):
        distances, values = self.distances(dataset), np.array(self.values)
        return np.array([distances[values == candidate].min() for candidate in self.candidates])

    def local_sensitivity(self, dataset, changes):
        return float(np.abs(np.array(self.values)[self.distances(dataset) <= changes] - self.value(dataset)).max())

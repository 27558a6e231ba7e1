"""Losses of any function by enumeration: the slow oracle that inverse sensitivities are held against."""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.mechanisms.inverse_sensitivity import Losses


@dataclass(frozen=True)
class EnumeratedLosses(Losses):
    """Losses of any function on all multisets of a few records: distances to the datasets that have each answer.

    Sensitivities are those among the datasets that are enumerated: a few records in either direction of one that is far
    from the greatest size.
    """

    function: object  # ``function(dataset) -> number``, blind to the order of the records
    universe: tuple  # all possible records
    size: int  # number of records: exactly, under substitution, or at most, under add/remove
    relation: Adjacency = field(default_factory=Substitution)  # or `AddRemove`

    @property
    def adjacency(self):
        return self.relation

    @cached_property
    def datasets(self):
        sizes = range(0 if isinstance(self.relation, AddRemove) else self.size, self.size + 1)
        return tuple(d for n in sizes for d in itertools.combinations_with_replacement(self.universe, n))

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
        gaps = np.abs(counts[1:] - counts[0]).sum(axis=1)
        return gaps if isinstance(self.relation, AddRemove) else gaps // 2

    def value(self, dataset):
        return self.function(tuple(dataset))

    def losses(self, dataset):
        distances, values = self.distances(dataset), np.array(self.values)
        return np.array([distances[values == candidate].min() for candidate in self.candidates])

    def local_sensitivity(self, dataset, changes):
        return float(np.abs(np.array(self.values)[self.distances(dataset) <= changes] - self.value(dataset)).max())

    def at_distance(self, dataset, changes):
        """Greatest local sensitivity of a dataset within that many changes."""
        near = self.distances(dataset) <= changes
        return max(self.local_sensitivity(x, 1) for x, reached in zip(self.datasets, near, strict=True) if reached)

"""Scores by distance: how close a record is to the release, and how close to other records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from epsaudit.array_types import Floats, Singles
from epsaudit.tools.holdout.encoding import Encoded, EncodedRows
from epsaudit.tools.holdout.neighbours import NEIGHBOURS, Neighbours, find_neighbours

MAX_SEARCHED_DISTANCES = 20_000_000_000
"""[time] Maximum number of distances that are computed: records times rows of the release. They take half a minute on
two cores. Only a random sample of a larger release is searched for neighbours; exact copies are searched in all of it.
"""
MAX_REFERENCE = 20_000
"""[time] Largest number of other records among which neighbours are searched for the local density."""
SMOOTHING = 0.01
"""[chosen] Fraction of the median distance that is added to distances before their ratio is taken, so that a distance
of 0 gives a finite ratio."""


def release_rows_searched(encoded: Encoded) -> int:
    """Return the number of distinct rows of the released table that take part in the search for nearest neighbours.

    It is smaller than the release if the search would compute more than `MAX_SEARCHED_DISTANCES` distances.
    """
    return min(len(encoded.release), max(NEIGHBOURS, MAX_SEARCHED_DISTANCES // len(encoded.records)))


def distance_scores(encoded: Encoded, rng: np.random.Generator) -> dict[str, Floats]:
    """Return scores by the distance of each record to the released table, by name, with one value per distinct record.

    - ``copies``: the number of records of the released table that are equal to the record;
    - ``distance``, ``second distance``: the distance to the closest and to the second closest distinct record of the
      released table. It compares ranks of numbers, and categories. It is 0 only for equal records;
    - ``distance ratio``: the closest distance divided by the second closest. It is small if one record of the released
      table is much closer than all others;
    - ``scaled distance``, ``scaled distance ratio``: the same for a distance that compares standardised numbers;
    - ``local density``, ``near density``: the log ratio of the density of the released table around the record to the
      density of other train and holdout records around it. The densities are estimated from the distance to the first
      neighbour (``local density``) or to the fifth neighbour (``near density``). This is the attack DOMIAS (van Breugel
      et al. 2023, https://arxiv.org/abs/2302.12580) with nearest-neighbour densities.
    """
    searched = _sample_rows(encoded.release, release_rows_searched(encoded), rng)
    near = find_neighbours(encoded.records, _rows(encoded.release, searched), encoded.is_number)
    near = _with_zero(near, encoded.copies > 0)
    chosen = _sample_rows(encoded.records, MAX_REFERENCE, rng)
    own = np.full(len(encoded.records), -1)
    own[chosen] = np.arange(len(chosen))
    others = find_neighbours(encoded.records, _rows(encoded.records, chosen), encoded.is_number, own)
    others = _with_zero(others, encoded.records.counts > 1)
    return {
        "copies": encoded.copies,
        "distance": near.ranks[:, 0].astype(float),
        "second distance": near.ranks[:, 1].astype(float),
        "distance ratio": _quotient(near.ranks[:, 0], near.ranks[:, 1]),
        "scaled distance": near.scaled[:, 0].astype(float),
        "scaled distance ratio": _quotient(near.scaled[:, 0], near.scaled[:, 1]),
        "local density": _log_distance_ratio(others.ranks[:, 0], near.ranks[:, 0]),
        "near density": _log_distance_ratio(others.ranks[:, -1], near.ranks[:, -1]),
    }


def _sample_rows(part: EncodedRows, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return the indices of ``size`` random rows in ascending order; all rows if there are not more than ``size``."""
    return np.sort(rng.choice(len(part), size, replace=False)) if len(part) > size else np.arange(len(part))


def _rows(part: EncodedRows, rows: np.ndarray) -> EncodedRows:
    return replace(
        part,
        ranks=part.ranks[rows],
        scaled=part.scaled[rows],
        codes=part.codes[rows],
        bins=part.bins[rows],
        counts=part.counts[rows],
    )


def _with_zero(near: Neighbours, has_equal: np.ndarray) -> Neighbours:
    """Insert the distance 0 at the front for records that have an equal record, and return the corrected distances.

    This is necessary because the search can miss an equal record: it may be outside of the sample that was searched, or
    the search may have excluded it as the record itself. ``has_equal`` says which records have an equal one.
    """

    def first_zero(distances: Singles) -> Singles:
        shifted = np.hstack([np.zeros((len(distances), 1), np.float32), distances[:, :-1]])
        return np.where((has_equal & (distances[:, 0] > 0.0))[:, None], shifted, distances)

    return Neighbours(first_zero(near.ranks), first_zero(near.scaled))


def _quotient(first: Singles, second: Singles) -> Floats:
    """Return ``first / second`` elementwise, and 1 where ``second`` is 0."""
    return np.divide(first, second, out=np.ones(len(first)), where=second > 0.0)


def _log_distance_ratio(numerator: Singles, denominator: Singles) -> Floats:
    """Return the logarithm of the ratio of two arrays of distances.

    A small constant is added to both distances, so that the result is finite even if a distance is 0.
    """
    smoothing = SMOOTHING * (float(np.median(numerator)) or 1.0)
    return np.log((numerator + smoothing) / (denominator + smoothing))

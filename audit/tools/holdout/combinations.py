"""Scores by counts: how often combinations of a record's values occur in the release and among all records.

The values of numbers are their bins, except that single columns are counted by exact values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats, Ints
from epsaudit.tools.holdout.encoding import Encoded

MAX_COMBINATIONS = 200
"""[time] Number of pairs of columns, and of triples of columns, whose combinations are counted."""
QUERIES = 100
"""[time] Number of random sets of columns. For each set, the records that agree on it are counted."""
MAX_COUNTERS = 1 << 20
"""[memory] Number of possible combinations up to which each has a counter of its own."""
HASH_SEED = 64
"""[chosen] Seed of the random factors by which combinations of values are hashed to numbers."""


def rare_combination_scores(encoded: Encoded, rng: np.random.Generator) -> dict[str, Floats]:
    """Return scores that are high for records whose rare combinations of values also occur in the released table.

    There is one score for single columns, one for pairs and one for triples of columns. Each score is a weighted mean
    over combinations of columns of a log ratio: the frequency of the record's values in the released table, divided by
    their frequency among all records. The weight is the reciprocal of the number of records with these values, so that
    rare values count most. Returns the scores by name, with one value per distinct record.
    """
    n_columns = len(encoded.is_number)
    found = {}
    for size, name in enumerate(("rare values", "rare pairs", "rare triples")[:n_columns], start=1):
        total, weights = np.zeros((2, len(encoded.records)))
        for columns in _draw_combinations(n_columns, size, rng):
            among_records, in_release = count_agreeing(encoded, columns, exact=size == 1)
            weight = 1.0 / among_records
            total += weight * _log_frequency_ratio(in_release, among_records, encoded)
            weights += weight
        found[name] = total / weights
    return found


def query_scores(encoded: Encoded, rng: np.random.Generator) -> dict[str, Floats]:
    """Return scores that compare, for random sets of columns, how many records agree with a record on the whole set.

    - ``queries``: the mean log ratio of the number of agreeing records in the released table to the number among all
      records;
    - ``matched queries``: the fraction of the sets of columns on which some record of the released table agrees with
      the record, while no other train or holdout record does.

    Each score has one value per distinct record. Such counts are the features of the query-based attack on synthetic
    data (Houssiau et al. 2022, https://arxiv.org/abs/2211.06550; Meeus et al. 2023, https://arxiv.org/abs/2306.10308).
    """
    n_columns = len(encoded.is_number)
    total, matched = np.zeros((2, len(encoded.records)))
    for _ in range(QUERIES):
        size = round(min(2, n_columns) ** (1.0 - (share := rng.random())) * n_columns**share)
        columns = np.sort(rng.choice(n_columns, size, replace=False)).tolist()
        among_records, in_release = count_agreeing(encoded, columns)
        total += _log_frequency_ratio(in_release, among_records, encoded)
        matched += (in_release > 0) & (among_records == encoded.records.counts)
    return {"queries": total / QUERIES, "matched queries": matched / QUERIES}


def count_agreeing(encoded: Encoded, columns: Sequence[int], exact: bool = False) -> tuple[Floats, Floats]:
    """Count, for each distinct record, the records that agree with it on the given columns.

    Returns two arrays: the number of agreeing train and holdout records (including the record itself), and the number
    of agreeing records of the released table. Two records agree on a column if they have the same bin or category or,
    if ``exact`` is true, the same value.
    """
    values = [part.codes if exact else part.bins for part in (encoded.records, encoded.release)]
    cells = _number_cells(np.concatenate([one[:, columns] for one in values]))
    size, n = int(cells.max()) + 1, len(encoded.records)
    mine, others = cells[:n], cells[n:]
    among_records, in_release = (
        np.asarray(np.bincount(cell, part.counts, size)[mine], float)
        for cell, part in ((mine, encoded.records), (others, encoded.release))
    )
    return among_records, in_release


def _number_cells(values: Ints) -> Ints:
    """Return one integer per row of ``values``: equal rows have equal integers, and different rows different ones.

    The integers are small enough to be indices of an array of counters. Large tables are hashed; a collision is
    possible with negligible probability.
    """
    sizes = [int(size) + 1 for size in values.max(axis=0)]
    if math.prod(sizes) <= MAX_COUNTERS:
        return np.asarray(values @ np.cumprod([1, *sizes[:-1]]))
    # modulo 2^64, sums with random factors differ for different rows, except with a negligible probability
    factors = np.random.default_rng(HASH_SEED).integers(0, 1 << 63, values.shape[1]) * 2 + 1
    return np.asarray(np.unique(values @ factors, return_inverse=True)[1])


def _draw_combinations(n_columns: int, size: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Yield combinations of ``size`` columns as lists of column indices.

    All combinations are yielded if ``size`` is 1 or if there are at most `MAX_COMBINATIONS`. Otherwise this number of
    random combinations is yielded.
    """
    if size == 1 or math.comb(n_columns, size) <= MAX_COMBINATIONS:
        yield from map(list, itertools.combinations(range(n_columns), size))
        return
    for _ in range(MAX_COMBINATIONS):
        yield np.sort(rng.choice(n_columns, size, replace=False)).tolist()


def _log_frequency_ratio(in_release: Floats, among_records: Floats, encoded: Encoded) -> NDArray[np.float64]:
    """Return the log ratio of the frequency in the released table to the frequency among all train and holdout records.

    The arguments are counts; one half is added to each count so that the ratio is finite.
    """
    sizes = encoded.records.counts.sum() / encoded.release.counts.sum()
    return np.asarray(np.log((in_release + 0.5) / (among_records + 0.5) * sizes))

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
"""[chosen] Seed of the factors that number combinations."""


def rare_combination_scores(encoded: Encoded, rng: np.random.Generator) -> dict[str, Floats]:
    """Return for each distinct record whether the release contains its rare combinations of one to three columns.

    A score is the mean log ratio of the frequency of a combination in the release and among all records. The weight of
    a combination is the reciprocal of its number among all records.
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
    """Return for each distinct record how many records agree with it on random sets of columns.

    - ``queries``: the mean log ratio of the numbers of agreeing records in the release and among all records;
    - ``matched queries``: the fraction of the sets on which a record of the release agrees with this record, but no
      other record does.

    Counts of this kind are the features of the query-based attack on synthetic data (Houssiau et al. 2022,
    https://arxiv.org/abs/2211.06550; Meeus et al. 2023, https://arxiv.org/abs/2306.10308).
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
    """Return how many pooled records and how many records of the release agree with each record on some columns.

    Columns agree if they have the same bin or category; if ``exact`` is true, the same value. A pooled record agrees
    with itself.
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
    """Return one number for each row, the same for equal rows and small enough for an array of counters."""
    sizes = [int(size) + 1 for size in values.max(axis=0)]
    if math.prod(sizes) <= MAX_COUNTERS:
        return np.asarray(values @ np.cumprod([1, *sizes[:-1]]))
    # modulo 2^64, sums with random factors differ for different rows, except with a negligible probability
    factors = np.random.default_rng(HASH_SEED).integers(0, 1 << 63, values.shape[1]) * 2 + 1
    return np.asarray(np.unique(values @ factors, return_inverse=True)[1])


def _draw_combinations(n_columns: int, size: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Yield all combinations of columns, or `MAX_COMBINATIONS` random ones if there are more; all single columns."""
    if size == 1 or math.comb(n_columns, size) <= MAX_COMBINATIONS:
        yield from map(list, itertools.combinations(range(n_columns), size))
        return
    for _ in range(MAX_COMBINATIONS):
        yield np.sort(rng.choice(n_columns, size, replace=False)).tolist()


def _log_frequency_ratio(in_release: Floats, among_records: Floats, encoded: Encoded) -> NDArray[np.float64]:
    """Return the log ratio of smoothed frequencies in the release and among all records."""
    sizes = encoded.records.counts.sum() / encoded.release.counts.sum()
    return np.asarray(np.log((in_release + 0.5) / (among_records + 0.5) * sizes))

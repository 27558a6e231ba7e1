"""Scores of pooled records against a release. No score depends on the part of a record."""

from __future__ import annotations

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.running.streams import entropy, stream
from epsaudit.tools.holdout.combinations import query_scores, rare_combination_scores
from epsaudit.tools.holdout.distances import MAX_SEARCHED_DISTANCES, distance_scores, release_rows_searched
from epsaudit.tools.holdout.encoding import encode_tables
from epsaudit.tools.holdout.marginals import marginal_scores
from epsaudit.tools.holdout.tables import Table

SCORE_STREAM = 3
"""Number of the random stream of scores, which is independent of the streams of `epsaudit.audits.holdout.pairs`."""


def score_records(
    records: Table, release: Table, seed: int | None = None
) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:
    """Compute scores that compare train and holdout records with a released table, to guess which records are in train.

    The scores depend only on the set of records, the set of released records and the seed. They do not depend on the
    order of the records, nor on which record is in train, so that an attacker could compute them. Equal records have
    equal scores.

    Parameters
    ----------
    records : Table
        The records of train and holdout in one table, in any order.
    release : Table
        The released table, with the same columns; see `epsaudit.tools.holdout.tables.read_tables`.
    seed : int, optional
        Seed of random samples and of random sets of columns. By default a new seed is drawn.

    Returns
    -------
    scores : array of shape (n_records, n_scores)
    names : tuple of str
        What each score is; see the functions of `distances`, `combinations` and `marginals`.
    notes : tuple of str
        What was left out because of the size of the tables.
    """
    encoded = encode_tables(records, release)
    rng = stream(entropy(seed), "holdout", SCORE_STREAM)
    found = {
        **distance_scores(encoded, rng),
        **rare_combination_scores(encoded, rng),
        **query_scores(encoded, rng),
        **marginal_scores(encoded, rng),
    }
    searched = release_rows_searched(encoded)
    notes: tuple[str, ...] = ()
    if searched < len(encoded.release):
        notes = (
            f"Distances are to a random sample of {searched:,} of the {len(encoded.release):,} distinct records of the "
            f"release, because there are more than {MAX_SEARCHED_DISTANCES:,} pairs of records; exact copies were "
            "searched in all.",
        )
    return np.stack(list(found.values()), axis=1)[encoded.row_of], tuple(found), notes

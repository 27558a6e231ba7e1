"""Audits of released tables, such as synthetic data, with a holdout: read tables, check them, score them, audit them.

An attacker can compute the scores from the release and all records, without knowing which records are in train.
`epsaudit.audits.holdout` guesses from the scores, and its theorem gives the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epsaudit.audits.holdout import HoldoutResult, audit_holdout
from epsaudit.claims.definitions import Claim
from epsaudit.errors import public
from epsaudit.running.streams import entropy
from epsaudit.tools.holdout.checks import check_tables
from epsaudit.tools.holdout.scoring import score_records
from epsaudit.tools.holdout.tables import Table, find_strata, read_tables

__all__ = ["Table", "audit_tables", "check_tables", "read_tables", "score_records"]


@public
def audit_tables(
    train: Any,
    holdout: Any,
    release: Any,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    adjacency: str = "substitution",
    columns: Sequence[str] | None = None,
    strata: Sequence[str] = (),
    confidence: float = 0.95,
    name: str | None = None,
    seed: int | None = None,
) -> HoldoutResult:
    """Certify a lower bound on the privacy loss of a released table, such as synthetic data.

    The records were split at random into a train part and a holdout part, and the release was computed from the train
    part only. The audit computes several scores that compare each record with the released table: distances, densities,
    rare combinations of values, targeted queries and likelihoods. It then pairs train records with holdout records at
    random, and guesses from the scores which record of each pair is in the train part. The bound follows from the
    number of correct guesses; see `epsaudit.audit_holdout`.

    Parameters
    ----------
    train, holdout, release : path, data frame or mapping
        Tables with the same columns, in any order: the path of a .csv, .parquet, .npz or .npy file, a data frame of
        pandas or polars, or a mapping of names to columns. Columns contain numbers, text, booleans or dates, and may
        have missing values.
    claim, epsilon, delta, adjacency, confidence
        As for `epsaudit.audit_holdout`.
    columns : sequence of str, optional
        Names of the columns to use, such as all except an identifier. By default all columns are used.
    strata : sequence of str, optional
        Names of columns within whose values the split was made. Only records with the same values are matched.
    name : str, optional
        Name of the release in the result. By default its path, or 'release'.
    seed : int, optional
        Seed of the scores and of the audit. By default a new seed is drawn, which the result contains.

    Returns
    -------
    HoldoutResult

    Raises
    ------
    AuditError
        If a table cannot be read, if the columns differ, if the parts are not a random split, if two of the tables are
        the same, or if there are too few records.

    Examples
    --------
    The release contains copies of a tenth of the train records:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(800, 3)).round(3)
    >>> tables = [{"age": part[:, 0], "height": part[:, 1], "weight": part[:, 2]} for part in np.split(records, 2)]
    >>> release = {name: column[:40] for name, column in tables[0].items()}
    >>> result = audit_tables(*tables, release, epsilon=1.0, seed=1)
    >>> result.violates_claim, result.describe_counts()
    (True, '35 of 35 guesses are right, of 320 pairs')
    """
    seed = entropy(seed)
    tables = read_tables({"train": train, "holdout": holdout, "release": release}, columns)
    groups = find_strata(tables, strata)
    notes = check_tables(tables["train"], tables["holdout"], tables["release"], groups)
    scores, names, more = score_records(tables["train"].join(tables["holdout"]), tables["release"], seed)
    size = len(tables["train"])
    return audit_holdout(
        scores[:size],
        scores[size:],
        claim=claim,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        strata=groups,
        confidence=confidence,
        name=name or (str(release) if isinstance(release, str | Path) else "release"),
        names=names,
        notes=[*notes, *more],
        seed=seed,
    )

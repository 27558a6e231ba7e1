"""Audits of a release with a holdout: guess which record of each pair was in the train part.

Records were split at random into a train part and a holdout, and a release was computed from the train part. The audit
matches records of both parts at random and guesses, from scores of the records against the release, which record of
each pair was in the train part. The coins of the split take the place of canaries, so that nothing is trained again.
Theorems and proofs: docs/explanation/theory.md#a-release-and-a-holdout.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.audits.holdout.attack import learn_attack
from epsaudit.audits.holdout.pairs import Strata, match
from epsaudit.audits.holdout.result import HoldoutResult
from epsaudit.audits.holdout.substitution import check_adjacency, under_substitution
from epsaudit.audits.holdout.transforms import transforms
from epsaudit.audits.one_run.audit import check_terms
from epsaudit.bounds.one_run import GuessBound, tested_claim
from epsaudit.claims.definitions import Claim, GaussianDP, PureDP, claim_given
from epsaudit.errors import AuditError, public
from epsaudit.running.protocols import is_claim
from epsaudit.running.provenance import provenance
from epsaudit.running.streams import entropy

__all__ = ["HoldoutResult", "audit_holdout"]

MIN_PAIRS = 10
"""[chosen] Smallest number of pairs. Five guesses that are all correct show epsilon 0.2 at 95 % confidence."""


@public
def audit_holdout(
    train_scores: ArrayLike,
    holdout_scores: ArrayLike,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    adjacency: str = "substitution",
    strata: Strata | None = None,
    confidence: float = 0.95,
    name: str = "release",
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    seed: int | None = None,
) -> HoldoutResult:
    """Certify a lower bound on the privacy loss of a release, from scores of the train part and of a holdout.

    The records were split at random into a train part and a holdout, and a model or a synthetic table was computed from
    the train part. The audit forms random pairs of one train record and one holdout record. From a random part of the
    pairs it learns an attack, which consists of a score, its sign and a threshold. About the other pairs, the attack
    guesses which of the two records was in the train part; it may leave out pairs. The bound exceeds the true parameter
    with probability at most 1 - confidence, whatever the scores are.

    Parameters
    ----------
    train_scores, holdout_scores : array_like of float, shape (n,) or (n, columns)
        Scores of the records of each part against the release, such as the loss of a model. They may depend on the
        release and on the records, but not on the part of a record: compute them for all records in the same way.
        The direction of each column is learnt. The parts may have different sizes.
    claim, epsilon, delta
        As for `epsaudit.audit`. Without a claim, the result bounds epsilon under substitution.
    adjacency : 'substitution' or 'add-remove'
        The neighbouring relation of the claim. A claim for adding or removing a record implies a weaker claim for
        substitution, which is tested.
    strata : pair of array_like, optional
        The stratum of each train record and of each holdout record, if the split was made within strata.
    confidence : float
        One-sided confidence of the bound, in [0.5, 1).
    name : str
        Name of the release in the result.
    names : sequence of str, optional
        Names of the score columns.
    notes : sequence of str, optional
        Sentences that the result shows.
    seed : int, optional
        Seed of the matching and of the opened pairs; by default a fresh seed, which the result stores. The bound is
        void if the seed was chosen for the bound.

    Returns
    -------
    HoldoutResult

    Raises
    ------
    AuditError
        If scores are missing or have different columns in the two parts, if there are too few pairs, or if an argument
        is out of range.

    See Also
    --------
    epsaudit.audit_scores : Canaries that were put into the dataset by coins of their own.

    References
    ----------
    Theorems 15 and 16 of docs/explanation/theory.md.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses, losses_of_others = rng.exponential(0.2, size=500), rng.exponential(2.0, size=400)  # of a model
    >>> result = audit_holdout(losses, losses_of_others, epsilon=1.0, seed=1)
    >>> result.violates_claim, result.pairs, result.opened
    (True, 320, 80)
    """
    started = time.perf_counter()
    train, holdout = (
        _score_columns(part, what) for part, what in ((train_scores, "train"), (holdout_scores, "holdout"))
    )
    if train.shape[1] != holdout.shape[1]:
        raise AuditError(
            f"The train scores have {train.shape[1]} columns and the holdout scores {holdout.shape[1]}; give the same "
            "scores of both parts."
        )
    labels = list(names) or ([f"column {one}" for one in range(train.shape[1])] if train.shape[1] > 1 else ["score"])
    if len(labels) != train.shape[1]:
        raise AuditError(f"There are {len(labels)} names and {train.shape[1]} columns of scores; give one name each.")
    asked = claim_given(claim, epsilon, delta)
    stated = PureDP(0.0) if asked is None else is_claim(asked, name)
    relation = check_adjacency(adjacency, stated)
    seed = entropy(seed)
    pairs = match(len(train), len(holdout), seed, strata)
    if len(pairs.coins) < MIN_PAIRS:
        raise AuditError(f"There are {len(pairs.coins)} pairs of records; at least {MIN_PAIRS} are needed.")
    closed = ~pairs.opened
    size = int(closed.sum())
    is_planned = isinstance(stated, GaussianDP)  # theorem 8 needs a number of guesses that is fixed beforehand
    terms = check_terms(stated, "planned" if is_planned else "signs", "auto", confidence, size)
    tested = tested_claim(under_substitution(stated, relation), size, confidence)
    bound = GuessBound(tested, terms["method"], confidence, terms["rule"].decided_by_output)
    table = list(transforms(np.concatenate([train, holdout]), labels))
    values = np.stack([one.values for one in table], axis=1) if table else np.zeros((len(train) + len(holdout), 1))
    differences = pairs.differences(values[: len(train)], values[len(train) :])
    known = np.where(pairs.coins[:, None], differences, -differences)[pairs.opened]
    attack = learn_attack(known, differences[closed], [one.name for one in table] or ["score"], bound)
    scores = attack.scores(differences[closed]) if is_planned else attack.guesses(differences[closed])
    result = HoldoutResult(
        mechanism=name,
        canaries=size,
        counts=tuple(terms["rule"].count(pairs.coins[closed], scores, bound)),
        opened=int(pairs.opened.sum()),
        train=len(train),
        holdout=len(holdout),
        attack=attack.words_of_score if is_planned else attack.words,
        adjacency=relation,
        claimed=asked is not None,
        seed=seed,
        given=True,
        reproducible=False,
        notes=tuple(notes),
        provenance=provenance(),
        **terms,
    )
    return replace(result, seconds=time.perf_counter() - started)


def _score_columns(scores: ArrayLike, part: str) -> NDArray[np.float64]:
    """Return the scores of one part as a float array of shape (records, columns).

    Raises `AuditError` if the scores are not an array of numbers with one or two dimensions, if there are none, or if
    any of them is NaN. ``part`` is the name of the part in the message, 'train' or 'holdout'.
    """
    values = np.asarray(scores)
    if values.ndim not in (1, 2) or values.dtype.kind not in "fiub" or values.size == 0:
        raise AuditError(
            f"The {part} scores have shape {values.shape} and dtype {values.dtype}; they must be numbers, one for each "
            "record or one row for each record."
        )
    values = values.astype(float)
    if np.any(np.isnan(values)):
        raise AuditError(f"{int(np.isnan(values).sum())} of the {part} scores are NaN; give a number for each record.")
    return values.reshape(len(values), -1)

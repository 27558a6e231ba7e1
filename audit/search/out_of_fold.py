"""Evaluation of learnt scores on outputs that they were not learnt from.

A score that is learnt from some outputs looks better on these outputs than it is. Each fold of the outputs is therefore
evaluated by a score that was learnt from the other folds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epsaudit.search.candidate import CandidateScore
from epsaudit.search.encoding import Encoding
from epsaudit.search.family import COMPLEX_EVENT_MARGIN
from epsaudit.search.limits import N_FOLDS
from epsaudit.search.scores import Monotone
from epsaudit.witnesses.learnt import AdditiveModel


def select_learning_entries(data: Encoding, limit: int) -> NDArray[np.int64]:
    """Return the indices of the table entries from which a score is learnt.

    These are all entries if outputs repeat or if there are few entries, and otherwise the first ``limit`` entries of x
    and of x'.
    """
    if len(data.row) <= 2 * limit or len(data.outputs) < len(data.row):
        return np.arange(len(data.row))
    return np.concatenate([np.flatnonzero(data.group % 2 == side)[:limit] for side in (0, 1)])


def evaluate_out_of_fold(
    data: Encoding, entries: NDArray[np.int64], score: AdditiveModel, out_of_fold: NDArray[np.floating]
) -> Iterator[CandidateScore]:
    """Yield the candidate of a learnt score, evaluated on outputs that it was not learnt from.

    ``entries`` are the table entries from which the score was learnt. ``out_of_fold`` are their scores by models that
    were learnt without the fold of the entry. All other entries are evaluated by the score itself. Nothing is yielded
    if the score applies to no output.
    """
    final = data.numbers(score)[data.row]
    values, group = final.copy(), (2 * N_FOLDS + data.group % 2).astype(np.int8)
    values[entries], group[entries] = out_of_fold, data.group[entries]
    learnt = Monotone(score, 1, learnt=True)
    found = CandidateScore.of(learnt, final, group, data.weight, values, margin=COMPLEX_EVENT_MARGIN)
    if found is not None:
        yield found

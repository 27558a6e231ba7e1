"""DOC"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epsaudit.search.candidate import CandidateScore
from epsaudit.search.encoding import Encoding
from epsaudit.search.family import COMPLEX_EVENT_MARGIN
from epsaudit.search.limits import N_FOLDS
from epsaudit.search.scores import Monotone
from epsaudit.witnesses.learnt import Additive, Tree


def select_learning_entries(data: Encoding, most: int) -> NDArray[np.int64]:
    """Entries to learn from: all, or so many of either side."""
    if len(data.row) <= 2 * most or len(data.outputs) < len(data.row):
        return np.arange(len(data.row))
    return np.concatenate([np.flatnonzero(data.group % 2 == side)[:most] for side in (0, 1)])


def evaluate_out_of_fold(
    data: Encoding, entries: NDArray[np.int64], score: Additive | Tree, out_of_fold: NDArray[np.floating]
) -> Iterator[CandidateScore]:
    """Yield the candidate of a score that was learnt from some entries, fold by fold; the others it judges itself."""
    final = data.numbers(score)[data.row]
    values, group = final.copy(), (2 * N_FOLDS + data.group % 2).astype(np.int8)
    values[entries], group[entries] = out_of_fold, data.group[entries]
    learnt = Monotone(score, 1, learnt=True)
    found = CandidateScore.of(learnt, final, group, data.weight, values, margin=COMPLEX_EVENT_MARGIN)
    if found is not None:
        yield found

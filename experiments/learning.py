"""Learning problems on real surveys, for DP-SGD: statsmodels' `fair` for a logistic model, `anes96` for a linear one.

Records of `epsaudit.experiments.data` become features scaled by the questionnaire's own ranges: no constant is
estimated from the data, so preparing them costs no privacy.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from epsaudit.experiments.data import PARTIES, anes96, fair
from epsaudit.mechanisms.dp_sgd import Records


@cache
def affairs() -> Records:
    """Whether a wife of `fair` has had an affair (+1) or not (-1), from the eight other answers: 6,366 records.

    Examples
    --------
    >>> len(affairs()), affairs().features.shape, float((affairs().targets > 0).mean().round(3))
    (6366, (6366, 9), 0.322)
    """
    ranges = np.array([5.0, 42.0, 23.0, 5.5, 4.0, 20.0, 6.0, 6.0])  # greatest answer to each question
    answers = np.array([wife[1:] for wife in fair()], dtype=float)
    return Records.plain(
        _with_intercept(answers / ranges), np.array([1.0 if wife.affairs > 0 else -1.0 for wife in fair()])
    )


@cache
def leanings() -> Records:
    """Where a voter of `anes96` stands, from -1 (extremely liberal) to 1, from party, age, schooling, income and news.

    Examples
    --------
    >>> len(leanings()), leanings().features.shape
    (944, (944, 6))
    """
    answers = np.array(
        [
            (PARTIES.index(v.party) / 6.0, v.age / 100.0, v.education / 7.0, v.income / 24.0, v.days_of_tv_news / 7.0)
            for v in anes96()
        ]
    )
    return Records.plain(_with_intercept(answers), np.array([(voter.leaning - 4) / 3.0 for voter in anes96()]))


def _with_intercept(answers: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(answers)), 2.0 * answers - 1.0])

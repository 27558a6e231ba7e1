"""The first and the last number of vectors with gaps.

Some mechanisms answer a sequence of queries and release a number only for some of them, so that the other coordinates
hold no number. Which query is answered first or last, and with which number, is then a feature of its own.
"""

from __future__ import annotations

import numpy as np

from epsaudit.outputs.arrays import Outputs
from epsaudit.witnesses.combinations import FirstOrLastNumber, FirstOrLastPosition, read_coordinates
from epsaudit.witnesses.feature import Feature

MIN_SHARE_WITH_GAPS = 0.1
"""[chosen] Minimum share of vectors that must have a coordinate without a number, so that the first and last numbers
become features."""


def list_end_numbers(outputs: Outputs, outputs_prime: Outputs, size: int) -> list[Feature]:
    """Return the features for the first and last numbers of vectors with missing numbers, and for their positions.

    ``size`` is the number of coordinates. The list is empty if nearly all vectors are complete. The last number is a
    feature only if some vector holds more than one number.
    """
    sample = np.concatenate([read_coordinates(side[:2000], size) for side in (outputs, outputs_prime)])
    numbers = np.isfinite(sample).sum(axis=1)
    if size < 2 or np.mean(numbers < size) < MIN_SHARE_WITH_GAPS or not np.any(numbers):
        return []
    ends = (False, True) if np.max(numbers) > 1 else (False,)
    return [kind(size, last) for last in ends for kind in (FirstOrLastPosition, FirstOrLastNumber)]

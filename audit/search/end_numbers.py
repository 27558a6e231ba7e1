"""DOC"""

from __future__ import annotations

import numpy as np

from epsaudit.outputs.normal_form import (
    Outputs,
)
from epsaudit.witnesses.combinations import FirstOrLastNumber, FirstOrLastPosition, read_coordinates
from epsaudit.witnesses.feature import Feature

MIN_SHARE_WITH_GAPS = 0.1
"""[chosen] Least share of vectors with a place that holds no number, for which releases are features."""


def list_end_numbers(outputs: Outputs, outputs_prime: Outputs, size: int) -> list[Feature]:
    """List the places and numbers that vary, of vectors some of whose coordinates hold no number."""
    sample = np.concatenate([read_coordinates(side[:2000], size) for side in (outputs, outputs_prime)])
    numbers = np.isfinite(sample).sum(axis=1)
    if size < 2 or np.mean(numbers < size) < MIN_SHARE_WITH_GAPS or not np.any(numbers):
        return []
    ends = (False, True) if np.max(numbers) > 1 else (False,)
    return [kind(size, last) for last in ends for kind in (FirstOrLastPosition, FirstOrLastNumber)]

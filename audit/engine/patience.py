"""How many runs a safeguard of an audit makes of a slow function: as many as it has time for, and never too few."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patience:
    """The time at which an audit is to end, as `time.perf_counter` has it; infinite where no time was said."""

    until: float = math.inf

    def affords(self, run: Callable[[], Any], runs: int, each: int, least: int, most: int) -> int:
        """Return how many times ``each`` runs there is time for, from ``least`` to ``most``; ``run`` makes ``runs``.

        Where all the time in the world is left, nothing is run.

        Examples
        --------
        >>> Patience().affords(lambda: time.sleep(0.01), 1, 100, 2, 16)
        16
        >>> now = time.perf_counter()
        >>> [Patience(now + left).affords(lambda: None, 1, 100, 2, 16) for left in (0, 3600)]
        [2, 16]
        """
        if math.isinf(self.until):
            return most
        started = time.perf_counter()
        run()
        ended = time.perf_counter()
        pace = max((ended - started) / runs, 1e-9)
        return int(min(max((self.until - ended) / (pace * each), least), most))

"""The time of a hunt: when nothing new may start, when everything must have ended, and how many runs fit in between."""

from __future__ import annotations

import math
import time

MAX_LATENESS = 0.4
"""[chosen] Share of ``seconds`` by which a certification may end after ``seconds``. A hunt should end within 1.5 times
``seconds``; the remaining 0.1 is for delays that no estimate foresees, such as the end of a request that a program is
answering."""
SLOW_RUN_SECONDS = 1e-3
"""[chosen] A run that takes longer than this is slow. The runs of slow programs alternate between both datasets, with
one request for every two runs, which costs a twentieth of the time of such runs."""


def is_slow(pace: float) -> bool:
    """Return whether runs that take ``pace`` seconds each count as slow, that is longer than `SLOW_RUN_SECONDS`."""
    return pace > SLOW_RUN_SECONDS


class TimeBudget:
    """The time limit of a hunt, and estimates of the time that its last steps need.

    Parameters
    ----------
    seconds : float or None
        The time limit of the hunt, from now on; None for a hunt without a limit.

    Attributes
    ----------
    until : float
        Time, as returned by `time.perf_counter`, after which nothing new starts; infinite without a limit.
    latest : float
        Time at which everything has to have ended.
    certification_seconds : float
        Duration of the last certification, which is the estimate for the next one.
    process_seconds : float
        Estimated time to start the processes that check a refutation of a program.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds or 0.0
        started = time.perf_counter()
        self.until = started + (seconds or math.inf)
        self.latest = started + (1.0 + MAX_LATENESS) * (seconds or math.inf)
        self.certification_seconds = 0.0
        self.process_seconds = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether the hunt has a time limit."""
        return not math.isinf(self.until)

    def stop(self) -> None:
        """End the hunt early: from now on, no time is left for starting a new step."""
        self.until = -math.inf

    def left(self, share: float = 1.0) -> float:
        """Return the time in which new steps may start, in seconds, multiplied by ``share``.

        This time ends at ``until``, or earlier if the processes that check a refutation could otherwise not start
        before ``latest``. However long these processes take to start, at least half of the time limit is available for
        the search.
        """
        for_processes = min(self.process_seconds, (0.5 + MAX_LATENESS) * self._seconds)
        return (min(self.until, self.latest - for_processes) - time.perf_counter()) * share

    def affordable_runs(self, pace: float) -> float:
        """Return the number of runs for which there is time, if one run takes ``pace`` seconds.

        The time for starting the processes that check a refutation is subtracted first.
        """
        return (self.latest - self.process_seconds - time.perf_counter()) / max(pace, 1e-6)

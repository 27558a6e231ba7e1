"""Traces whose suspicions are dropped because a certain upper bound on the privacy loss is within the claim."""

from __future__ import annotations

from dataclasses import replace

from epsaudit.running.functions import FunctionMechanism
from epsaudit.running.protocols import Mechanism
from epsaudit.tools.tracing.alignment.bound import certain_bound
from epsaudit.tools.tracing.result import Trace
from epsaudit.tools.tracing.suspicion import ALIGNED, NOTHING_SEEN

SECONDS_FOR_BOUND = 10.0
"""[chosen] Number of seconds after which the search for a certain upper bound is given up."""


def with_bound(asked: Mechanism, found: Trace) -> Trace:
    """Return the trace ``found`` without its suspicions if a certain upper bound for its pair is within the claim.

    A certain bound covers all runs of the function ``asked``, and not only the traced runs. A suspicion only says that
    two runs with the same random numbers differ, or that the noise of one run cannot be shifted so that all of the run
    is the same on x'. The output may still have the same law within the claim, for example if a discrete draw has
    another outcome on x' than on x. The trace is returned unchanged if an alignment or the exact law decides it, if
    nothing is suspected or unknown, if something was not observed, if there is no claim, or if no bound within the
    claim is found in `SECONDS_FOR_BOUND`.
    """
    decided = found.verdict in (ALIGNED, NOTHING_SEEN) or found.exact is not None
    if found.claim is None or decided or found.unseen or not isinstance(asked, FunctionMechanism):
        return found
    bound = certain_bound(asked, found.pair, found.claim, found.seed, SECONDS_FOR_BOUND)
    if bound is None or not bound.within(0.0):
        return found
    return replace(found, suspicions=(), unlisted=(), cheapest=bound.upper_bound)

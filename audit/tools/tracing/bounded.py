"""Traces that are decided by a certain upper bound, where the traced runs alone decide nothing."""

from __future__ import annotations

from dataclasses import replace

from epsaudit.running.functions import FunctionMechanism
from epsaudit.running.protocols import Mechanism
from epsaudit.tools.tracing.alignment.bound import certain_bound
from epsaudit.tools.tracing.result import Trace
from epsaudit.tools.tracing.suspicion import ALIGNED, NOTHING_SEEN

SECONDS_FOR_BOUND = 10.0
"""[chosen] Seconds after which no alignment on all paths is searched any longer."""


def with_bound(asked: Mechanism, found: Trace) -> Trace:
    """Return a trace without its suspicions if a certain bound on the loss of the pair is within the claim.

    A suspicion says that one run has no alignment that keeps all of it, or what differs in a replay. There may be
    another alignment, such as one in which a discrete draw has another outcome on x' than on x.
    """
    decided = found.verdict in (ALIGNED, NOTHING_SEEN) or found.exact is not None
    if found.claim is None or decided or found.unseen or not isinstance(asked, FunctionMechanism):
        return found
    bound = certain_bound(asked, found.pair, found.claim, found.seed, SECONDS_FOR_BOUND)
    if bound is None or not bound.within(0.0):
        return found
    return replace(found, suspicions=(), unlisted=(), cheapest=bound.upper_bound)

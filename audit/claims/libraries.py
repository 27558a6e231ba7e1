"""Claims read from what a library says of itself: one short reader for each, of its documented interface.

No library is imported: readers take its objects. Each returns a `Claim`, or raises `AuditError` for what it does not
know. Tried with opendp 0.16.0, diffprivlib 0.6.6 and dp-accounting itself; the others with objects that stand for them.
"""

from __future__ import annotations

from typing import Any

from epsaudit.claims.curves import ApproxZCDP
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, PureDP
from epsaudit.errors import AuditError, clipped
from epsaudit.extras import needs


def from_opendp(measurement: Any, d_in: Any = 1, *, delta: float | None = None) -> Claim:
    """Read ``measurement.map(d_in)`` of OpenDP, by its output measure.

    A curve (a smoothed max divergence) is read at ``delta``.
    """
    measure, loss = str(measurement.output_measure), measurement.map(d_in)
    if "Approximate" in measure:
        loss, added = loss
        return ApproxZCDP(float(loss), float(added)) if "ZeroConcentrated" in measure else _of(loss, added)
    if "ZeroConcentratedDivergence" in measure:
        return ZCDP(float(loss))
    if "FixedSmoothedMaxDivergence" in measure:
        return _of(*loss)
    if "SmoothedMaxDivergence" in measure and delta is not None:
        return _of(loss.epsilon(delta), delta)
    if measure.startswith("MaxDivergence"):
        return _of(loss, 0.0)
    raise AuditError(f"The measurement's output measure is {measure}; give delta for a curve, or a claim of your own.")


def from_diffprivlib(accountant: Any) -> Claim:
    """Read what a ``BudgetAccountant`` of diffprivlib has counted, ``total()``."""
    return _of(*accountant.total())


def from_dp_accounting(event: Any, delta: float) -> ApproxDP:
    """Read the least epsilon of an event of dp-accounting at delta, by privacy loss distributions."""
    with needs("accounting"):
        from dp_accounting.pld import PLDAccountant
    return ApproxDP(float(PLDAccountant().compose(event).get_epsilon(delta)), delta)


def from_pipelinedp(accountant: Any) -> Claim:
    """Read the total budget that an accountant of PipelineDP was made with, which it keeps to itself."""
    try:
        return _of(accountant._total_epsilon, accountant._total_delta)
    except AttributeError:
        raise AuditError(
            f"{clipped(repr(accountant), 48)} keeps no _total_epsilon and _total_delta; give what it was "
            "made with as a claim."
        ) from None


def from_tumult(measurement: Any, d_in: Any = 1) -> Claim:
    """Read ``measurement.privacy_function(d_in)`` of Tumult Core, by its output measure; exact numbers round up."""
    measure, loss = type(measurement.output_measure).__name__, measurement.privacy_function(d_in)
    if measure == "PureDP":
        return _of(_rounded_up(loss), 0.0)
    if measure == "ApproxDP":
        return _of(*map(_rounded_up, loss))
    if measure == "RhoZCDP":
        return ZCDP(_rounded_up(loss))
    raise AuditError(f"The measurement's output measure is {measure}; it must be PureDP, ApproxDP or RhoZCDP.")


def from_smartnoise(reader: Any, query: str) -> Claim:
    """Read ``get_privacy_cost(query)`` of a private reader of SmartNoise SQL."""
    return _of(*reader.get_privacy_cost(query))


def _of(epsilon: Any, delta: Any) -> Claim:
    return ApproxDP(float(epsilon), float(delta)) if delta else PureDP(float(epsilon))


def _rounded_up(number: Any) -> float:
    return float(number.to_float(round_up=True) if hasattr(number, "to_float") else number)

"""Claims read from what a library says of itself, by its documented interface, and claims of numbers by name.

No library is imported: readers take its objects. Each returns a `Claim`, or raises `AuditError` for what it does not
know. Tried with opendp 0.16.0, diffprivlib 0.6.6, tmlt.core 0.20.0 and dp-accounting themselves; the others with
objects that stand for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from epsaudit.claims import stated
from epsaudit.claims.curves import ApproxZCDP
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, GaussianDP, PureDP, RenyiDP
from epsaudit.errors import AuditError
from epsaudit.extras import needs

CLAIMS: dict[tuple[str, ...], type[Claim]] = {
    ("epsilon",): PureDP,
    ("epsilon", "delta"): ApproxDP,
    ("epsilon", "order"): RenyiDP,
    ("rho",): ZCDP,
    ("mu",): GaussianDP,
    ("delta", "rho"): ApproxZCDP,
}
"""What the numbers of a claim that are given together make of it."""


def claim_from_numbers(numbers: Mapping[str, float]) -> Claim | None:
    """Return the claim that numbers make; None if they make none.

    Examples
    --------
    >>> claim_from_numbers({"epsilon": 1.0, "delta": 1e-6})
    ApproxDP(epsilon=1.0, delta=1e-06)
    """
    kind = next((kind for names, kind in CLAIMS.items() if set(names) == set(numbers)), None)
    return kind(**numbers) if kind else None


def from_opendp(measurement: Any, d_in: Any = 1, *, delta: float | None = None) -> Claim:
    """Read ``measurement.map(d_in)`` of OpenDP, by its output measure.

    A curve (a smoothed max divergence) is read at ``delta``.
    """
    return _read(stated.of_opendp, measurement, d_in, delta)


def from_diffprivlib(accountant: Any) -> Claim:
    """Read what a ``BudgetAccountant`` of diffprivlib has counted, ``total()``."""
    return _read(stated.of_diffprivlib, accountant)


def from_dp_accounting(event: Any, delta: float) -> Claim:
    """Read the least epsilon of an event of dp-accounting at delta, by privacy loss distributions."""
    with needs("accounting"):
        return _read(stated.of_dp_accounting, event, delta)


def from_pipelinedp(accountant: Any) -> Claim:
    """Read the total budget that an accountant of PipelineDP was made with, which it keeps to itself."""
    return _read(stated.of_pipelinedp, accountant)


def from_tumult(measurement: Any, d_in: Any = 1) -> Claim:
    """Read ``measurement.privacy_function(d_in)`` of Tumult Core, by its output measure; exact numbers round up."""
    return _read(stated.of_tumult, measurement, d_in)


def from_smartnoise(reader: Any, query: str) -> Claim:
    """Read ``get_privacy_cost(query)`` of a private reader of SmartNoise SQL."""
    return _read(stated.of_smartnoise, reader, query)


def _read(reader: Callable[..., dict[str, Any]], *given: Any) -> Claim:
    try:
        numbers = reader(*given)
    except ValueError as error:
        raise AuditError(str(error)) from None
    claim = claim_from_numbers(numbers)
    if claim is None:
        raise AuditError(f"The library states {numbers}, which is no claim.")
    return claim

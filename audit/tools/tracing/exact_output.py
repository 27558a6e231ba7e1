"""The exact privacy loss of an output whose numbers are data plus one random draw each, with nothing else random.

This is the theorem "Exact law of a traced output" of docs/explanation/theory.md. The traced process establishes the
form of the output (`epsaudit.tools.tracing.forms`). This module checks the conditions that remain, and computes the
loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from epsaudit.claims.definitions import Claim
from epsaudit.tools.tracing.losses import Laws, exact_loss, exceeds

MAX_ROUNDING_SHARE = 1e-8
"""[formula] Largest rounding error, as a share of a move and of a scale. It changes a loss by about this share, which
is far less than the share by which a loss has to exceed the claim
(`epsaudit.tools.tracing.losses.EXCESS_TOLERANCE`)."""


class OutputNumber(NamedTuple):
    """A number of the output: offset + factor * (standard number of the law), with a draw of its own."""

    law: str
    draw: int
    """Position of the draw among all draws of the run."""
    offset: float
    factor: float
    rounding_error: float
    """Largest distance of the computed number from the formula."""


def exact_laws(forms: Mapping[str, Any]) -> Laws | None:
    """Return the laws of those numbers of the output that differ between x and x'; the numbers are independent.

    Parameters
    ----------
    forms : mapping
        What `epsaudit.tools.tracing.forms.forms_of_output` returned.

    Returns
    -------
    list of pairs or None
        For each number its law on x and its law on x'; None if the laws are unknown.
    """
    from epsaudit.mechanisms.laws import LaplaceLaw, NormalLaw

    if "numbers" not in forms:
        return None
    sides = [[OutputNumber(*one) for one in side] for side in forms["numbers"]]
    if any(len({one.draw for one in side}) < len(side) for side in sides):  # two numbers share a draw
        return None
    classes: dict[str, Any] = {"laplace": LaplaceLaw, "normal": NormalLaw}
    found: Laws = []
    for one, other in zip(*sides, strict=True):
        scale, move = abs(one.factor), abs(other.offset - one.offset)
        error = one.rounding_error + other.rounding_error
        if one.law != other.law or scale != abs(other.factor) or not scale:
            return None
        if move <= error:  # the number may not move at all; leaving it out is post-processing
            continue
        if error > MAX_ROUNDING_SHARE * min(move, scale):
            return None
        found.append((classes[one.law](0.0, scale), classes[one.law](move, scale)))
    return found


def exact_excess(forms: Mapping[str, Any], claim: Claim | None) -> float | None:
    """Return the exact loss of the output as a value of the claim's parameter, if it exceeds the claim, else None.

    The result is also None if the loss is unknown.
    """
    laws = None if claim is None else exact_laws(forms)
    if claim is None or not laws:
        return None
    loss = exact_loss(claim, laws)
    return loss if loss is not None and exceeds(claim, loss) else None

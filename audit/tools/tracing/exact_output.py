"""The exact loss of an output: where every number of it is data plus a draw of its own, and nothing else is random.

This is the theorem "Exact law of a traced output" of docs/explanation/theory.md; `epsaudit.tools.tracing.opaque`
establishes
the form of the output in the traced process, and this file checks the conditions that remain and computes the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from epsaudit.claims.definitions import Claim
from epsaudit.tools.tracing.verdicts import EXCESS, parameter

BLURRED = 1e-8
"""[formula] Share of a move, and of a scale, that rounding may be. It changes a loss by about this share, far less than
the share by which a loss has to exceed the claim (`epsaudit.tools.tracing.verdicts.EXCESS`)."""


class Form(NamedTuple):
    """A number of the output: offset + factor * (standard number of this law), the draw's own."""

    law: str
    draw: int
    offset: float
    factor: float
    blur: float
    """How far the numbers of a computer may be from the formula."""


def exact_laws(told: Mapping[str, Any]) -> list[tuple[Any, Any]] | None:
    """Return the laws on x and on x' of the numbers that move, which are independent; None if they are not known.

    Parameters
    ----------
    told : mapping
        What `epsaudit.tools.tracing.opaque.forms_of_output` returned.
    """
    from epsaudit.mechanisms.laws import LaplaceLaw, NormalLaw

    if "numbers" not in told:
        return None
    sides = [[Form(*one) for one in side] for side in told["numbers"]]
    if any(len({one.draw for one in side}) < len(side) for side in sides):  # one draw in two numbers
        return None
    kinds: dict[str, Any] = {"laplace": LaplaceLaw, "normal": NormalLaw}
    found = []
    for one, other in zip(*sides, strict=True):
        scale, move, blur = abs(one.factor), abs(other.offset - one.offset), one.blur + other.blur
        if one.law != other.law or scale != abs(other.factor) or not scale:
            return None
        if move <= blur:  # no move as far as can be told: leaving a number out is post-processing
            continue
        if blur > BLURRED * min(move, scale):
            return None
        found.append((kinds[one.law](0.0, scale), kinds[one.law](move, scale)))
    return found


def exact_excess(told: Mapping[str, Any], claim: Claim | None) -> float | None:
    """Return the exact loss of the output in the claim's parameter, if it is known and exceeds the claim."""
    laws = None if claim is None else exact_laws(told)
    spent = parameter(claim, laws) if claim is not None and laws else None
    return None if spent is None or claim is None or spent <= claim.parameter * (1.0 + EXCESS) else spent

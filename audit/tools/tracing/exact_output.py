"""The exact privacy loss of an output whose numbers are data plus one random draw each, with nothing else random.

This is the theorem "Exact law of a traced output" of docs/explanation/theory.md. The recorded runs show the form of
each number of the output (`epsaudit.tools.tracing.alignment.recorded_pair`). This module checks the conditions that
remain, and computes the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epsaudit.claims.definitions import Claim
from epsaudit.tools.tracing.alignment.checks import SIXTEEN_ROUNDINGS
from epsaudit.tools.tracing.alignment.recorded_run import FollowedRun, RecordedRun
from epsaudit.tools.tracing.alignment.run import RETURN
from epsaudit.tools.tracing.losses import Laws, exact_loss, exceeds_claim

MAX_ROUNDING_SHARE = 1e-8
"""[formula] Largest rounding error, as a share of the distance by which a number moves, and of the scale of its
noise. It changes a loss by about this share, which is far less than the share by which a loss has to exceed the
claim (`epsaudit.tools.tracing.losses.EXCESS_TOLERANCE`)."""


def exact_laws(run: RecordedRun, run_prime: RecordedRun) -> Laws | None:
    """Return the laws on x and on x' of each number of the output that depends on the data.

    Each number must be data plus noise from a draw of its own, so that the numbers are independent.

    Parameters
    ----------
    run, run_prime : RecordedRun
        The runs on x and on x'.

    Returns
    -------
    list of pairs or None
        For each such number its law on x and its law on x'; None if the laws are unknown.
    """
    from epsaudit.mechanisms.laws import LaplaceLaw, NormalLaw

    sides = run.events, run_prime.events
    if run.steps or run_prime.steps or len(sides[0]) != len(sides[1]):
        return None
    if any(one.kind != RETURN for side in sides for one in side):
        return None
    if any(len(one.terms) != 1 for side in sides for one in side):
        return None
    if any(len({one.terms[0][0] for one in side}) < len(side) for side in sides):  # two numbers share a draw
        return None
    classes: dict[str, Any] = {"laplace": LaplaceLaw, "normal": NormalLaw}
    found: Laws = []
    for one, other in zip(*sides, strict=True):
        ((number, weight),), ((number_prime, weight_prime),) = one.terms, other.terms
        draw, draw_prime = run.draws[number], run_prime.draws[number_prime]
        scale, move = abs(weight) * draw.scale, abs(other.constant - one.constant)
        if draw.law != draw_prime.law or draw.law not in classes or scale != abs(weight_prime) * draw_prime.scale:
            return None
        size = max(map(abs, (one.constant, other.constant, one.outcome, other.outcome)))
        errors = (abs(a.outcome - a.constant - w * z.value) for a, w, z in (
            (one, weight, draw), (other, weight_prime, draw_prime)
        ))  # fmt: skip
        error = max(SIXTEEN_ROUNDINGS * size, *errors)
        if move <= error:  # the number may not move at all; leaving it out is post-processing
            continue
        if error > MAX_ROUNDING_SHARE * min(move, scale):
            return None
        found.append((classes[draw.law](0.0, scale), classes[draw.law](move, scale)))
    return found


def exact_excess(both: Sequence[FollowedRun], claim: Claim) -> float | None:
    """Return the exact privacy loss of the output, as a value of the claim's parameter, if it exceeds the claim.

    Return None if the loss is within the claim or unknown.

    Parameters
    ----------
    both : sequence of FollowedRun
        The runs from x to x' and those from x' to x.
    claim : Claim
        The claim.
    """
    (run, follower, parted), (run_prime, *_) = both
    if parted or run.form or run_prime.form or follower.form:
        return None
    laws = exact_laws(run, run_prime)
    loss = exact_loss(claim, laws) if laws else None
    return loss if loss is not None and exceeds_claim(claim, loss) else None

"""Suspicions about inputs of mechanisms: inputs that move further than stated, or that outputs reveal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit.claims.definitions import Claim
from epsaudit.tools.tracing.compared_runs import ComparedRuns
from epsaudit.tools.tracing.comparison import EQUALITY_TOLERANCE, are_numbers, n_beyond
from epsaudit.tools.tracing.losses import may_reveal
from epsaudit.tools.tracing.primitives import UTILITY_NORM
from epsaudit.tools.tracing.recorder import TraceEvent
from epsaudit.tools.tracing.suspicion import MOVES, PARAMETER, Findings, line_of

MIN_OUTPUTS_NEAR_ZERO = 16
"""[formula] Number of outputs near 0 on each side that are needed to compare their last bits. If half of the outputs
have fine bits, none of 16 has them with probability 2^-16."""


def find_sensitivities(moved: Sequence[TraceEvent], findings: Findings) -> None:
    """Report a suspicion for each mechanism whose inputs on x and on x' are too far apart.

    Their distance must not exceed the sensitivity that the mechanism states.
    """
    for one in moved:
        stated = one.states.get("sensitivity")
        if one.norm == UTILITY_NORM and one.shifts is None:
            findings.not_judged.append(f"{line_of(one)} {one.name}, which selects among other options")
        elif one.kind == "mechanism" and isinstance(stated, int | float):
            order, distance = {"l1": 1, "l2": 2}.get(one.norm, np.inf), math.inf
            if one.shifts is not None:
                distance = float(np.linalg.norm(one.shifts, order)) if one.shifts.size else 0.0
            if distance > stated * (1.0 + EQUALITY_TOLERANCE):
                sentence = f"input of {one.name} moves by {distance:.6g} where sensitivity {stated:.6g} is stated"
                findings.suspect(one.order, MOVES, sentence, one.stack)


def find_flat_losses(runs: ComparedRuns, findings: Findings) -> None:
    """Report a suspicion for each mechanism that gets a loss function with less curvature than it states.

    These are mechanisms that make the minimum of a loss private by adding noise to the loss.
    """
    for _, one in runs.pairs:
        if "least" in one.states and one.states["least"] < one.states["alpha"]:
            by = f"bends by {one.states['least']:.6g} on an axis, where {one.states['alpha']:.6g} is stated"
            findings.suspect(one.order, PARAMETER, f"the loss given to {one.name} {by}", one.stack)


def find_separated_samples(runs: ComparedRuns, findings: Findings, claim: Claim | None) -> None:
    """Report a suspicion for each call of a mechanism whose outputs differ too much between x and x'.

    The call was repeated many times with its inputs on both datasets. The claim limits how many outputs may be unlike
    all outputs on the other dataset; see `may_reveal`. If the trace compares last bits, these are compared as well.
    """
    pairs = {one.order: (before, one) for before, one in runs.pairs}
    for order, *sides in runs.trace["samples"]:
        before, one = pairs[order]
        n_revealing = n_beyond(*sides)
        if claim is not None and n_revealing and not may_reveal(claim, n_revealing):
            said = f"{n_revealing} of {len(sides[0])} outputs on one side are beyond all on the other"
            findings.suspect(order, MOVES, f"input of {one.name} moves, and {said}", one.stack)
        if runs.trace["bits"] and are_numbers(before.input, one.input):
            _compare_last_bits(findings, one, max(abs(before.input), abs(one.input)), sides)


def _compare_last_bits(findings: Findings, one: TraceEvent, largest: float, sides: Sequence[Any]) -> None:
    """Report a suspicion if the last bits of a mechanism's outputs reveal which of two inputs it had.

    The sum of the larger input and a float that nearly cancels it is a multiple of half a unit in the last place of
    that input. Among the outputs that are this close to 0, those that are not such a multiple are counted on each side.
    """
    finest, n_near, n_fine = 2.0 ** (math.frexp(largest)[1] - 54), [], []
    for side in sides:
        outputs = [each for each in side if isinstance(each, float) and 0.0 < abs(each) < largest / 4.0]
        n_near.append(len(outputs))
        n_fine.append(sum(math.fmod(each, finest) != 0.0 for each in outputs))
    most = int(n_fine[1] > n_fine[0])
    if min(n_near) >= MIN_OUTPUTS_NEAR_ZERO and min(n_fine) == 0 and 2 * n_fine[most] >= n_near[most]:
        x, x_prime = ("x'", "x") if most else ("x", "x'")
        said = f"{n_fine[most]} of {n_near[most]} outputs of {one.name} near 0 have bits on {x} that none has on"
        findings.suspect(one.order, MOVES, f"{said} {x_prime}: its noise is a float that is added", one.stack)

"""Suspicions about noise that is too small: the exact privacy loss of inputs that move is compared with the claim.

The loss is computed for each input alone and for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit.claims.definitions import Claim
from epsaudit.errors import QUOTED, clipped
from epsaudit.tools.tracing.compared_runs import ComparedRuns
from epsaudit.tools.tracing.comparison import are_equal, are_numbers, numbers_in
from epsaudit.tools.tracing.losses import Laws, dominating_laws, exact_loss, exceeds_claim
from epsaudit.tools.tracing.recorder import TraceEvent
from epsaudit.tools.tracing.replay import PROPORTION_TOLERANCE
from epsaudit.tools.tracing.suspicion import BUDGET, MOVES, Findings, line_of, sorted_lines


def find_losses(runs: ComparedRuns, moved: Sequence[TraceEvent], findings: Findings, claim: Claim | None) -> None:
    """Report a suspicion if noise is too small for the claim, given how far its inputs move between x and x'.

    An input is the data to which noise is added. First each input is judged by itself. If nothing is suspected, all
    inputs are judged together. An input is listed as not judged if its noise has an unknown law, or if the noisy value
    is rounded later.
    """
    known: list[tuple[TraceEvent, Laws]] = []
    for one in moved:
        words, laws = _noisy_laws(runs, one)
        _compare_with_claim(findings, claim, MOVES, words, one, laws)
        if laws:
            known.append((one, laws))
        if (not laws and one.kind != "mechanism") or one.states.get("rounded"):
            findings.not_judged.append(f"{line_of(one)} {one.name}, which meets data in a way that is not seen")
    if len(known) > 1 and not findings.has(MOVES):
        lines = ", ".join(sorted_lines([one for one, _ in known]))
        words = f"{len(known)} inputs move together ({clipped(lines, QUOTED)})"
        all_laws = [law for _, laws in known for law in laws]
        _compare_with_claim(findings, claim, BUDGET, words, known[-1][0], all_laws)


def _compare_with_claim(
    findings: Findings, claim: Claim | None, kind: str, words: str, one: TraceEvent, laws: Laws
) -> None:
    """Report a suspicion if the privacy loss of the noisy numbers of a call exceeds the claim.

    The loss is computed as if these numbers were released as they are.

    Parameters
    ----------
    findings : Findings
        Collects the suspicion.
    claim : Claim or None
        The claim.
    kind : str
        Kind of the suspicion.
    words : str
        How the input moves, for the sentence of the suspicion.
    one : TraceEvent
        The call.
    laws : Laws
        The laws of the noisy numbers; an empty list if they are unknown.
    """
    if claim is None or not laws:
        return
    loss = exact_loss(claim, laws)
    if loss is not None and exceeds_claim(claim, loss):
        loses = "together they lose" if kind == BUDGET else "by itself it loses"
        sentence = f"{words}: {loses} {claim.symbol} {loss:.6g} where {claim} is claimed"
        findings.suspect(one.order, kind, sentence, one.stack)


def _noisy_laws(runs: ComparedRuns, one: TraceEvent) -> tuple[str, Laws]:
    """Return a text on how an input moves between x and x', and the laws of the noisy numbers made of it.

    The list of laws is empty if they are unknown.
    """
    from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, LaplaceLaw, NormalLaw

    (law, scale), words, epsilon = _covering_noise(runs, one), f"input of {one.name} moves", one.states.get("epsilon")
    if scale is None and one.kind == "mechanism" and epsilon is not None:
        return words, [dominating_laws(float(epsilon), float(one.states.get("delta") or 0.0))]
    if scale is None or one.shifts is None:
        return words, []
    laws: Laws = []
    classes: Any = {"laplace": LaplaceLaw, "normal": NormalLaw, "discrete laplace": DiscreteLaplaceLaw}
    fits = np.size(scale) in (1, one.shifts.size)
    scales = np.resize(scale, one.shifts.shape).tolist() if fits else []
    for shift, width in zip(one.shifts.tolist(), scales, strict=False):
        if shift and (math.isinf(shift) or not 0.0 < width < math.inf or law == "exponential"):
            laws.append(dominating_laws(math.inf, 0.0))
        elif shift:
            whole = math.ceil(shift) if law == "discrete laplace" else shift
            laws.append((classes[law](0, width), classes[law](whole, width)))
    norm, distance = ("L2", np.linalg.norm(one.shifts)) if law == "normal" else ("L1", one.shifts.sum())
    by = f"{distance:.6g}" + f" in the {norm} norm" * bool(np.count_nonzero(one.shifts) > 1)
    width = float(np.ravel(scale)[0])
    return f"input moves by {by} where {law} noise of scale {width:.6g} is added", laws


def _covering_noise(runs: ComparedRuns, one: TraceEvent) -> tuple[str, Any]:
    """Return the law and the scale of the noise that is added to an input; the scale is None if it is unknown.

    The weights with which draws are multiplied are part of the scale. The difference of two exponential draws is
    recognised as Laplace noise, and the difference of two geometric draws as discrete Laplace noise.
    """
    (first, weight), *others = one.draws
    event, other = runs.events[first], runs.events[others[0][0]] if others else None
    law, states, scale = event.law, event.states, event.fixed.get("scale", 1.0)
    if one.kind == "mechanism":
        return law, states.get("scale") if law else None
    if len(others) > 1:
        return law, None
    if other is None:
        known = law in ("laplace", "normal", "exponential")
        return law, np.abs(np.asarray(numbers_in(scale)) * numbers_in(weight)) if known else None
    same_law = event.law == other.law and are_equal(event.fixed, other.fixed)
    opposite = are_numbers(weight) and math.isclose(others[0][1], -weight, rel_tol=2.0 * PROPORTION_TOLERANCE)
    if not same_law or not opposite:
        return law, None
    if law == "geometric" and abs(weight) == 1.0:
        return "discrete laplace", -1.0 / math.log1p(-event.fixed["p"])
    return "laplace", scale * abs(weight) if law == "exponential" else None

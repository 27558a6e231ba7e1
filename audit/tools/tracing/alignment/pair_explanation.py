"""What recorded runs of a pair show about a claim: why a run has no alignment within it, or what remains undecided.

An alignment that keeps a comparison or a converted number need not be the cheapest one. A function may continue with a
converted number as with any data, other noise may cover what follows, and another path may give the same output. This
module says where an alignment that keeps everything decides nevertheless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from epsaudit.claims.definitions import Claim
from epsaudit.tools.tracing.alignment.aligned import NO_SHIFT
from epsaudit.tools.tracing.alignment.explanation import (
    DIRECTIONS,
    Explanation,
    Prefixes,
    explain,
    most_expensive,
    run_raises,
)
from epsaudit.tools.tracing.alignment.recorded_run import FollowedRun
from epsaudit.tools.tracing.alignment.run import COMPARE, OTHER_DRAWS, RELEASE
from epsaudit.tools.tracing.losses import exceeds_claim
from epsaudit.tools.tracing.suspicion import Suspicion


class PairExplanation(NamedTuple):
    """The conclusions from recorded runs of a pair: a reason against the claim, costs, and what is undecided.

    A run supports the claim if it has an alignment within the claim: a shift of its noise with which the function on x'
    gives the same output.
    """

    why: Explanation | None
    """Why a run has no alignment within the claim, or None if no run shows a reason."""
    cost: float
    """Largest cost of an alignment within the claim, over all runs that have one, in the claim's parameter."""
    undecided: str
    """Why alignments do not decide some runs; empty if they decide all of them."""
    not_judged: tuple[str, ...]
    """Sentences with the place of comparisons of noise that cannot be kept within the claim."""


def explain_pair(claim: Claim, directions: Sequence[Sequence[FollowedRun]]) -> PairExplanation:
    """Return what recorded runs show about a claim: why a run has no alignment within it, and what alignments cost.

    An alignment shifts the noise of a run so that the run on the other dataset gives the same output. If all
    comparisons, released and returned numbers of a run can only be kept at a cost above the claim, but the released
    and returned numbers alone within it, then the comparisons are listed as not judged.

    Parameters
    ----------
    claim : Claim
        The claim.
    directions : sequence of sequence of FollowedRun
        The runs in each of the `DIRECTIONS`.
    """
    found: list[Explanation] = []
    undecided, not_judged, cost = "", list[str](), 0.0
    for runs, names in zip(directions, DIRECTIONS, strict=True):
        for one in runs:
            known = Prefixes(claim, one.first, one.second, names)
            reason, factor = _events_that_differ(one), known.explain_factor()
            why = explain(claim, *one, names)
            if reason and factor is not None:
                found.append(factor)
            elif reason or (why is not None and why.reason == NO_SHIFT and _draws_after_comparison(one)):
                undecided = undecided or reason or NO_SHIFT
            elif why is not None and why.aligned and not exceeds_claim(claim, known.cost_without_comparisons()):
                place = Suspicion("", "", why.stack).where
                not_judged.append(f"{place} noise is compared, and no alignment within the claim keeps the comparisons")
            elif why is not None:
                found.append(why)
            else:
                cost = max(cost, known.cost(known.n_events))
    return PairExplanation(most_expensive(found), cost, undecided, tuple(dict.fromkeys(not_judged)))


def _events_that_differ(runs: FollowedRun) -> str:
    """Return a sentence if the comparisons, or what follows a converted noisy number, depend on the data.

    The sentence is empty otherwise. A different number of draws and an exception do not count here.
    """
    first, second, parted = runs
    if parted not in ("", OTHER_DRAWS):
        return parted
    if run_raises(first) or run_raises(second) or len(first.draws) != len(second.draws):
        return ""
    events = [[(one.kind, one.terms) for one in run.events] for run in (first, second)]
    kinds = {kind for kind, _ in (*events[0], *events[1])}
    if COMPARE in kinds and events[0] != events[1]:
        return "what follows a comparison of noise depends on the data"
    if RELEASE in kinds and first.form != second.form:
        return "noise is converted and meets data later"
    return ""


def _draws_after_comparison(runs: FollowedRun) -> bool:
    """Return whether noise is compared with a number that depends on the data, and other noise is drawn later.

    The other noise may then cover what follows from the comparison.
    """
    compared = [
        max(draw for draw, _ in one.terms)
        for one, other in zip(runs.first.events, runs.second.events, strict=False)
        if one.kind == COMPARE and one.constant != other.constant
    ]
    return bool(compared) and min(compared) < len(runs.first.draws) - 1

"""The hunt: candidates are traced and screened, the most promising are audited, and refutations are certified.

The hunt has one error probability, alpha = 1 - confidence. The k-th audit may spend 3 alpha / (pi k)^2 of it, and so
may the k-th certification of a pair, as it was found or as it was shrunk. Audits and certifications use fresh runs
(docs/how-to/hunt.md says why this suffices). If a certification by fresh runs would take longer than there is time, the
bets of the audit are the certificate. Traces and the screen decide the order of candidates. They certify nothing,
except for a trace that knows the exact law of the output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Adjacency, DatasetPair
from epsaudit.errors import AuditError, public
from epsaudit.running.checkpoint import Checkpoint
from epsaudit.running.protocols import Mechanism
from epsaudit.running.served import Served
from epsaudit.running.streams import entropy
from epsaudit.tools.hunting.audit_queue import audit_in_order
from epsaudit.tools.hunting.boundary_pairs import boundary_pairs
from epsaudit.tools.hunting.candidate import Candidate, ParameterValues, as_candidate
from epsaudit.tools.hunting.context import HuntContext, ScreenedCandidate, hunt_identity
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.result import Hunt
from epsaudit.tools.hunting.screening import failure_sentences, screen_remaining
from epsaudit.tools.hunting.target import HuntTarget
from epsaudit.tools.hunting.time_budget import TimeBudget
from epsaudit.tools.hunting.tracing import HuntTracer

BOUNDARY_AUDIT_SHARE = 0.9
"""[chosen] Largest share of the time that may be spent on an audit of a pair of which one dataset always raised an
exception and the other never did. Such an audit is likelier to refute the claim than later ones. It takes some 60 runs,
for which half of the time is often too little."""


@public
def hunt(
    function: Mechanism | Callable[..., Any] | Served,
    candidates: Sequence[Candidate | DatasetPair | tuple[Any, Any]],
    *,
    claim: Claim | Callable[[ParameterValues], Claim],
    options: Options | None = None,
) -> Hunt:
    """Search for a pair of datasets, and for values of the mechanism's parameters, that refute a privacy claim.

    The hunt screens the candidates by a small number of runs, audits the most promising ones, and certifies
    refutations; the documentation of this module says what is certified. Once the claim is refuted for a parameter
    value and a neighbouring relation, no candidate is audited that covers only such refuted combinations. A refutation
    on empty data, or on data in which every record has a missing value, excludes only candidates with such data.

    Parameters
    ----------
    function : callable, Mechanism or Served
        The function, as for `epsaudit.black_box`; the parameters of a candidate are passed by name. It may also be a
        mechanism, or a function in another environment (`epsaudit.running.served.Served`).
    candidates : sequence
        Candidates that `epsaudit.tools.hunting.parameters.candidates` made, or pairs of datasets. Those of
        `epsaudit.AddRemove`, `epsaudit.Substitution` and the claim's relation that hold for a pair are its relations.
    claim : Claim or callable
        The claim, or a function that returns it for given values of the parameters.
    options : Options, optional
        Limits, seed, checkpoint and callbacks.

    Raises
    ------
    AuditError
        If no candidate is a pair of neighbours under the claim's relation, or if no candidate can be audited.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> def count(data, rng, clip=3):  # the bug: noise for one record, which counts up to clip times
    ...     return sum(min(value, clip) for value in data) + rng.laplace()
    >>> pairs = [([1], [1, 1]), ([4, 2, 9], [4, 2, 9, 7])]
    >>> found = hunt(count, pairs, claim=PureDP(1.0), options=Options(seed=1, n_jobs=1))
    >>> found.refuted, found.findings[0].result.x, found.findings[0].result.x_prime
    (True, '[]', '[2]')
    """
    started, options = time.perf_counter(), options or Options()
    budget = TimeBudget(options.seconds)
    adjacency: Any = options.adjacency
    given = [as_candidate(one, adjacency) for one in candidates]
    kept = under_relation(given, adjacency)
    name = options.name or str(getattr(function, "name", None) or getattr(function, "__name__", "function"))
    target = HuntTarget(function, claim, name)
    with contextlib.ExitStack() as stack:
        seed, checkpoint = _open_hunt_checkpoint(stack, target, options, kept)
        everyone = [ScreenedCandidate(number, one) for number, one in enumerate(kept)]
        context = HuntContext(target, options, budget, everyone, seed, checkpoint)
        tracer = HuntTracer(context)
        target.refuse_if_not_served(kept[0])
        audit_in_order(context, tracer, context.ordered_once("traces", tracer.suspected), more_to_come=True)
        if not context.interrupted:
            screened = context.ordered_once("hunt", lambda: screen_remaining(context))
            boundary = [one for one in boundary_pairs(context) if one in screened or one.number < 0]
            audit_in_order(context, tracer, boundary, more_to_come=True, time_share=BOUNDARY_AUDIT_SHARE)
            audit_in_order(context, tracer, [one for one in screened if one not in boundary])
        _refuse_if_nothing_audited(context)
    return Hunt(
        name,
        options,
        candidates=len(kept),
        screened=sum(one.seen for one in everyone),
        left_out=len(given) - len(kept),
        failures=failure_sentences(context),
        attempts=tuple(context.attempts),
        runs=context.runs,
        seconds=time.perf_counter() - started,
        seed=context.seed,
        interrupted=context.interrupted,
    )


def under_relation(given: Sequence[Candidate], adjacency: Adjacency | None) -> list[Candidate]:
    """Return the candidates whose datasets are neighbours under ``adjacency``, each with this relation only.

    If the relation is None, all candidates are returned unchanged. Raises `AuditError` if no candidate is left.
    """
    kept = list(given)
    if adjacency is not None:
        # keep the candidate's own object, which may have another position of the owner column than an equal relation
        under = [tuple(one for one in candidate.adjacencies if one == adjacency) for candidate in given]
        kept = [dataclasses.replace(one, adjacencies=own) for one, own in zip(given, under, strict=True) if own]
    if not kept:
        which = f"the relation of the claim, {adjacency}" if adjacency else "any known relation"
        raise AuditError(f"None of the {len(given)} candidates are neighbours under {which}; give pairs that are.")
    return kept


def _open_hunt_checkpoint(
    stack: contextlib.ExitStack, target: HuntTarget, options: Options, kept: Sequence[Candidate]
) -> tuple[int, Checkpoint | None]:
    """Open the checkpoint file of a hunt, and return the seed of the hunt and the checkpoint.

    Without a checkpoint in the options, return the seed and None. The checkpoint is closed together with ``stack``.
    """
    if options.checkpoint is None:
        return entropy(options.seed), None
    checkpoint = Checkpoint(options.checkpoint, {"hunt": hunt_identity(target, options, kept)}, options.seed)
    stack.enter_context(checkpoint)
    return checkpoint.seed, checkpoint


def _refuse_if_nothing_audited(context: HuntContext) -> None:
    """Raise `AuditError` if no candidate could be audited. The message contains the reason for the first candidate."""
    if not context.attempts and context.examined and all(one.failure for one in context.examined):
        first = context.examined[0].failure
        raise AuditError(f"None of the {len(context.examined)} candidates could be audited. The first: {first}")

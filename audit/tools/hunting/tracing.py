"""The traces of a hunt: the candidates whose trace suspects a leak are audited first.

A trace certifies nothing, except where it knows the exact law of the whole output.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.extensions import find_extension
from epsaudit.tools.hunting.candidate import Candidate, RelationAndValue, covered_combinations
from epsaudit.tools.hunting.context import HuntContext, ScreenedCandidate
from epsaudit.tools.hunting.exact_law import ExactLaw, PairTrace
from epsaudit.tools.hunting.screening import screen_candidate
from epsaudit.tools.hunting.shrinking import degenerate_kind

TRACE_TIMEOUT = 10.0
"""[chosen] Seconds after which a trace is given up, together with the traces of all candidates that have the same
parameters. A function that takes a second for each run would need more than half a minute for a trace."""


class HuntTracer:
    """Traces the candidates of a hunt: records the function on x and replays it on x' with the same random numbers.

    It remembers for which parameter values tracing failed, and does not trace with these values again.
    """

    def __init__(self, context: HuntContext) -> None:
        self._context = context
        self._untraceable: set[str] = set()
        """Digests of the parameters at which no trace comes to an end."""

    def traces(self, candidates: Sequence[Candidate], end: float) -> Iterator[PairTrace | None]:
        """Yield the trace of each candidate; None for a candidate whose data make tracing impossible.

        All candidates must have the same parameter values. The iteration stops early if the function is a program that
        cannot be traced, does not answer for too long, or is not finished at the time ``end``. In these cases,
        candidates with the same parameter values are not traced later either.
        """
        context, first = self._context, candidates[0]
        traces = find_extension("traces")
        key = first.parameters_key
        if traces is None or key in self._untraceable:
            return
        timeout = min(TRACE_TIMEOUT, max(end - time.perf_counter(), TRACE_TIMEOUT / 10.0))
        settings: dict[str, Any] = {"seed": context.seed % 2**32, "bits": context.options.witnesses == "all"}
        try:
            claim, mechanism = context.target.claim(first), context.target.mechanism(first)
            pairs = [one.pair for one in candidates]
            for found in traces(mechanism, pairs, claim=claim, timeout=timeout, **settings):
                yield None if isinstance(found, str) else found
        except AuditError:
            self._untraceable.add(key)

    def exact_law(self, candidate: Candidate) -> ExactLaw | None:
        """Trace a candidate; return the exact law (distribution) of its output if it refutes the claim, else None."""
        return ExactLaw.of_trace(next(self.traces([candidate], self._context.budget.latest), None))

    def suspected(self) -> list[ScreenedCandidate]:
        """Trace the candidates, and return those for which the trace suspects a leak, the largest suspected loss first.

        A trace runs the function on both datasets with the same random numbers. For each combination of a neighbouring
        relation, a parameter value and a kind of data (`degenerate_kind`), only one candidate is returned: one whose
        exact law refutes the claim, if there is any, else the one with the largest suspected loss. Tracing takes at
        most a sixth of the time that is left.
        """
        context = self._context
        end = time.perf_counter() + context.budget.left() / 6.0
        losses = self._losses(end)
        traced = [context.everyone[number] for number in losses if losses[number]]
        suspected, covered = list[ScreenedCandidate](), set[tuple[RelationAndValue, str]]()
        for one in sorted(traced, key=lambda one: (one.law is not None, losses[one.number]), reverse=True):
            kind = degenerate_kind(one.candidate)
            new = {(combination, kind) for combination in covered_combinations(one.candidate)} - covered
            if new and screen_candidate(context, one, end, 1):
                covered |= new
                suspected.append(one)
                one.kept = True
        return sorted(suspected, key=lambda one: losses[one.number], reverse=True)

    def _losses(self, end: float) -> dict[int, float]:
        """Trace all candidates until the time ``end``, and return the suspected privacy losses.

        The keys are the numbers of the candidates. Candidates for which there was no time are missing.
        """
        context = self._context
        by_parameters = defaultdict[str, list[ScreenedCandidate]](list)
        for one in context.everyone:
            by_parameters[one.candidate.parameters_key].append(one)
        losses: dict[int, float] = {}
        for group in by_parameters.values():
            if losses and time.perf_counter() > end:
                break
            for one, found in zip(group, self.traces([each.candidate for each in group], end), strict=False):
                losses[one.number], one.seen = 0.0 if found is None else found.loss, True
                one.law = ExactLaw.of_trace(found)
                context.options.report_progress(f"tracing: {len(losses)} of {len(context.everyone)} candidates")
                if time.perf_counter() > end:
                    break
        return losses

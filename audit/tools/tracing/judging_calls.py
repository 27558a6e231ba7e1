"""Suspicions about calls: draws that only one of the two runs makes, and arguments that depend on the data."""

from __future__ import annotations

from typing import Any

from epsaudit.tools.tracing.compared_runs import ComparedRuns
from epsaudit.tools.tracing.comparison import are_equal, difference_in_words, numbers_in
from epsaudit.tools.tracing.primitives import COMPILED_NORMS, UTILITY_NORM
from epsaudit.tools.tracing.recorder import TraceEvent
from epsaudit.tools.tracing.suspicion import BRANCHES, PARAMETER, Findings


def find_branches(runs: ComparedRuns, findings: Findings) -> None:
    """Report a suspicion if one run draws noise, or calls a mechanism, where the other run does not.

    Which draws are made then depends on the data. Only the first such draw or call is reported, because later calls of
    both runs cannot be compared.
    """
    met = {one.order for one in runs.events_prime}
    unmatched = [(place, one) for place, one in enumerate(runs.events) if one.is_judged and place not in met]
    unmatched += [(place, one) for place, one in enumerate(runs.events_prime) if one.is_judged and one.order is None]
    if not unmatched:
        return
    order, one = min(unmatched, key=lambda entry: entry[0])
    counts = [sum(each.key == one.key for each in events) for events in (runs.events, runs.events_prime)]
    x, x_prime = (("never", "once")[count] if count < 2 else f"{count} times" for count in counts)
    sentence = f"{one.name} is drawn {x} on x, {x_prime} on x': which draws are made depends on the data"
    findings.suspect(order, BRANCHES, *(runs.count_that_differs(order) or (sentence, one.stack)))


def find_parameters(runs: ComparedRuns, findings: Findings) -> None:
    """Report a suspicion for each argument that depends on the data although it must not.

    Such arguments are scales and sizes of noise, bounds, and the number of values that a mechanism is given.
    """
    for before, one in runs.pairs:
        if one.kind != "sample":
            _compare_fixed_arguments(runs, findings, before, one)
            _compare_sizes_of_inputs(findings, before, one)


def _compare_fixed_arguments(runs: ComparedRuns, findings: Findings, before: TraceEvent, one: TraceEvent) -> None:
    for name in sorted({*before.fixed, *one.fixed}):
        value, value_prime = before.fixed.get(name), one.fixed.get(name)
        if are_equal(value, value_prime):
            continue
        sentence = f"{one.name} is asked with {name} {difference_in_words(value, value_prime)}"
        explained: Any = runs.count_that_differs(one.order or 0) if name == "size" else None
        findings.suspect(one.order, PARAMETER, *(explained or (sentence, one.stack)))


def _compare_sizes_of_inputs(findings: Findings, before: TraceEvent, one: TraceEvent) -> None:
    x, x_prime = (None if (part := numbers_in(each.input)) is None else part.size for each in (before, one))
    # the input of compiled mechanisms is a list of records, whose number may depend on the data, unless it is bytes
    has_records = one.norm in COMPILED_NORMS and not isinstance(one.input, dict)
    if one.is_judged and x != x_prime and not (one.norm == UTILITY_NORM or has_records):
        sentence = f"{one.name} is given {x} values on x, {x_prime} on x': the shape depends on the data"
        findings.suspect(one.order, PARAMETER, sentence, one.stack)

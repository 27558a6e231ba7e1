"""The search for two neighbouring datasets such that the function raises an exception on only one of them.

An exception that is certain on one dataset and never raised on its neighbour reveals the dataset. A hunt therefore
looks for such pairs between screened datasets on which the function behaved differently.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from epsaudit.data.neighbours import Adjacency
from epsaudit.tools.hunting.boundaries import RecordTuple, bisect_path, max_bisection_steps, shortest_path
from epsaudit.tools.hunting.candidate import Candidate, ParameterValues
from epsaudit.tools.hunting.context import HuntContext, ScreenedCandidate
from epsaudit.tools.hunting.parameters import description_at
from epsaudit.tools.hunting.screening import screen_candidate
from epsaudit.tools.hunting.shrinking import candidate_with, records_of

BOUNDARY_RUNS = 8
"""[chosen] Largest number of runs of a dataset during a bisection; they show whether the function raises an exception
on it."""


def boundary_pairs(context: HuntContext) -> list[ScreenedCandidate]:
    """Return pairs of neighbouring datasets such that the function seems to raise an exception on exactly one of them.

    The hunt looks for one pair per neighbouring relation and combination of parameter values. It takes a screened
    candidate for which all runs on one dataset and no run on the other raised an exception, or else bisects a path
    between the datasets of two screened candidates. All bisections together take at most a sixth of the time left.
    """
    groups: dict[Any, list[ScreenedCandidate]] = defaultdict(list)
    for one in context.everyone:
        if not math.isnan(one.raised[0]) and records_of(one.candidate) is not None:
            for relation in one.candidate.adjacencies:
                groups[relation, one.candidate.parameters_key].append(one)
    end, found = time.perf_counter() + context.budget.left() / 6.0, list[ScreenedCandidate]()
    for (relation, _), group in groups.items():
        if all(context.is_refuted(one.candidate) for one in group):
            continue
        if at_boundary := [one for one in group if {*one.raised} == {0.0, 1.0}]:
            found += [max(at_boundary, key=lambda one: one.rank)]
            continue
        path = shortest_path(_datasets_by_outcome(group, 1.0), _datasets_by_outcome(group, 0.0), relation)
        if path is not None and time.perf_counter() < end:
            context.options.report_progress(f"bisecting what raises, {len(path)} datasets under '{relation}'")
            found += _bisect(context, group[0].candidate, relation, path, end)
    return found


def _datasets_by_outcome(group: Sequence[ScreenedCandidate], share_raised: float) -> list[RecordTuple]:
    """Return the datasets on which the share of runs that raised an exception is exactly ``share_raised``.

    The datasets are those of the candidates in ``group``. Equal datasets are returned once.
    """
    datasets: dict[str, RecordTuple] = {}
    for one in group:
        for share, rows in zip(one.raised, records_of(one.candidate) or (), strict=True):
            if share == share_raised:
                datasets[repr(rows)] = tuple(rows)
    return list(datasets.values())


def _bisect(
    context: HuntContext, template: Candidate, relation: Adjacency, path: Sequence[Any], end: float
) -> list[ScreenedCandidate]:
    """Bisect a path of datasets, and return the two consecutive datasets between which the exceptions end.

    The result is a list with one candidate, or an empty list if there are no such datasets or if they cannot be run.
    The candidate has the parameters, and the form of the data, of the candidate ``template``.
    """
    words, description = "the last data that raise and the first that do not", context.options.describe
    template = dataclasses.replace(template, adjacencies=(relation,), tries=words)
    if description is None:  # without a description, rows cannot be converted to a dataset
        template = dataclasses.replace(template, rows=None)
    examined: dict[int, ScreenedCandidate] = {}

    def describe(values: ParameterValues) -> Any:
        return None if description is None else description_at(description, values)

    def raises(place: int) -> tuple[bool, bool] | None:
        candidate = candidate_with(template, (path[place], path[place + 1]), template.parameters, describe)
        if candidate is None:
            return None
        examined[place] = one = ScreenedCandidate(-2 - place, candidate)
        steps_left = max(max_bisection_steps(path) - len(examined), 1)
        screen_candidate(context, one, end, steps_left, BOUNDARY_RUNS)
        return None if math.isnan(one.raised[0]) else (one.raised[0] >= 0.5, one.raised[1] >= 0.5)

    place = bisect_path(path, raises)
    return [] if place is None or examined[place].failure else [examined[place]]

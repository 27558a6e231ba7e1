"""Pipelines: lists of transformations, the last of which may be a measurement, as one object.

Needs Python 3.8 and no package, because it runs in the environment of the audited library.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

from epsaudit.tools.maps.domains import Frame, contains, draw_member
from epsaudit.tools.maps.search import accepted, plain
from epsaudit.tools.maps.subject import Adapter

JOINT_MEMBERS = 200
"""[time] Number of inputs that are passed through the stages. A call of most stages takes 50 microseconds."""


def is_pipeline(original: Any) -> bool:
    """Return whether an object is a pipeline, that is a plain list or tuple of stages.

    An `Adapter` describes one stage. It is a named tuple and therefore no pipeline.
    """
    return type(original) in (list, tuple)


def chained(stages: Sequence[Adapter]) -> Adapter:
    """Combine the stages of a pipeline into one transformation or measurement, and return it.

    Its function applies the stages one after the other, and its map applies their maps. Raises `TypeError` if there are
    no stages, if a stage before the last is a measurement, or if a later stage has data frames as inputs, because the
    conversion of data frames between stages is not known.
    """
    if not stages:
        raise TypeError("a pipeline needs at least one stage")
    for number, stage in enumerate(stages[:-1], 1):
        if not stage.output_metric:
            raise TypeError(f"stage {number} of {len(stages)} is a measurement, which only the last stage may be")
    if any(isinstance(stage.domain, Frame) for stage in stages[1:]):
        raise TypeError("only the first stage of a pipeline may have data frames as inputs")

    def call(data: Any) -> Any:
        for stage in stages:
            data = stage.call(data)
        return data

    first, last = stages[0], stages[-1]
    allowed = functools.partial(allowed_distance, stages)
    return first._replace(call=call, map=allowed, output_metric=last.output_metric, member=last.member)


def allowed_distance(stages: Sequence[Adapter], d_in: Any) -> Any:
    """Apply the maps of all stages of a pipeline, one after the other, to a distance of inputs.

    Return the distance of outputs that the last map states.
    """
    for stage in stages:
        d_in = stage.map(d_in)
    return d_in


def joints(stages: Sequence[Adapter], seed: int) -> list[str]:
    """Return sentences that say where consecutive stages of a pipeline do not fit together.

    Two stages do not fit if the output metric of the first differs from the input metric of the second, or if an output
    of the first is not in the input domain of the second. Outputs are checked for `JOINT_MEMBERS` random inputs.
    """
    found, rng = [], random.Random(seed)
    neighbours = [(number, stages[number - 1], stages[number]) for number in range(1, len(stages))]
    for number, one, other in neighbours:
        if one.output_metric != other.input_metric:
            found.append(
                f"stage {number} has outputs under {one.output_metric}, and stage {number + 1} has inputs under "
                f"{other.input_metric}"
            )
    excluded = set()
    for _ in range(JOINT_MEMBERS):
        x = data = draw_member(stages[0].domain, rng)
        if not accepted(stages[0], x):
            continue
        for number, one, other in neighbours:
            try:
                data = one.call(data)
            except Exception:  # the audit of the stage reports it
                break
            if not _is_member(other, data):
                if number not in excluded:
                    found.append(
                        f"stage {number} has the output {plain(data)!r} for the input {x!r} of the pipeline, which is "
                        f"not in the input domain of stage {number + 1}"
                    )
                excluded.add(number)
                break
    return found


def _is_member(stage: Adapter, data: Any) -> bool:
    """Return whether a value is in the input domain of a stage.

    The library decides if it can, and otherwise the description of the domain.
    """
    if stage.accepts is not None:
        return accepted(stage, data)
    return contains(stage.domain, plain(data))

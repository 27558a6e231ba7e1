"""The recorded run on x and its replay on x', with the calls of both that correspond to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from epsaudit.tools.tracing.comparison import are_equal, numbers_in
from epsaudit.tools.tracing.primitives import COMPILED_NORMS
from epsaudit.tools.tracing.recorder import KNOWN_LAWS, TraceEvent


class ComparedRuns:
    """Two recorded runs of one pair of datasets.

    Parameters
    ----------
    trace : mapping
        The trace, as `epsaudit.tools.tracing.replay.record_and_replay` returned it.
    """

    def __init__(self, trace: Mapping[str, Any]) -> None:
        self.trace = trace
        self.events, self.events_prime = (
            [TraceEvent(**one) for one in trace[name]] for name in ("events", "events_prime")
        )
        for number, one in enumerate(self.events):
            one.order = number
        self.pairs = [(self.events[one.order], one) for one in self.events_prime if one.order is not None]
        """The calls on x with the corresponding calls on x'."""
        self.responses: dict[Any, dict[str, Any]] = dict(trace["responses"])
        """For each draw that was nudged on x, how the parts of the output respond."""
        self.responses_prime: dict[Any, dict[str, Any]] = dict(trace["responses_prime"])
        """The same for these draws on x'."""

    def output_follows(self, event: TraceEvent) -> bool:
        """Return whether a number of the output follows the answer of a call."""
        return any(slope for slope, *_ in self.responses.get(event.order, {"": [1.0]}).values())

    def count_that_differs(self, order: float) -> tuple[str, Any] | None:
        """Return what numpy counted differently on both sides before a call: a sentence and its place, or None.

        Such a count explains why the number or the size of later draws differs.
        """
        for before, one in self.pairs:
            if one.kind == "count" and (one.order or 0) < order and before.states != one.states:
                counts = f"{one.name} gives {before.states['values']} values on x, {one.states['values']} on x'"
                return f"{counts}: the shape of the noise depends on the data", one.stack
        return None

    def moved_inputs(self) -> list[TraceEvent]:
        """Return the calls on x' whose input differs from that on x.

        Their attributes ``draws`` and ``shifts`` are set: the noise that covers the input, and how far each of its
        numbers moved.
        """
        return [
            replace(one, draws=[[one.order, 1.0]], shifts=_shifts(before.input, one.input))
            for before, one in self.pairs
            if one.is_judged and not are_equal(before.input, one.input)
        ]

    def hidden(self) -> list[TraceEvent]:
        """Return the draws of noise with a known law if the outputs of both runs are equal; else none.

        Where the data move neither the inputs of these draws nor the output, the noise may be compared with the data.
        """
        if not are_equal(self.trace["outcome"]["leaves"], self.trace["outcome_prime"]["leaves"]):
            return []
        return [one for before, one in self.pairs if one.kind == "draw" and are_equal(before.input, one.input)]


def _shifts(before: Any, after: Any) -> Any:
    """Return how far each number of an input moved, infinite where this is unknown; None if there are no numbers."""
    x, x_prime = numbers_in(before), numbers_in(after)
    if x is None or x_prime is None or x.shape != x_prime.shape:
        return None
    with np.errstate(invalid="ignore"):
        shifts = np.where(np.isclose(x, x_prime, 0.0, 0.0, True), 0.0, np.abs(x - x_prime))
    shifts[np.isnan(shifts)] = np.inf
    return shifts


def is_unlisted(event: TraceEvent) -> bool:
    """Return whether a call draws numbers by a sampler or a mechanism that cannot be judged."""
    drawn = event.kind == "sample" or (event.kind == "draw" and event.law not in KNOWN_LAWS)
    return drawn or (event.kind == "mechanism" and event.norm in COMPILED_NORMS)

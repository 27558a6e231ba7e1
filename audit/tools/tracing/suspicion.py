"""A suspicion: a place at which private data may reach the output without noise, or with too little noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.tools.tracing.recorder import TraceEvent

BRANCHES = "branches on private data"
PARAMETER = "a parameter depends on private data"
MOVES = "input moves further than is paid for"
BUDGET = "more budget spent than claimed"
RELEASED = "a private value is released without noise"
UNLISTED = "draws without a known mechanism"
ALIGNED = "an alignment within the claim"
NOTHING_SEEN = "nothing seen"

StackFrame = tuple[str, int, str]
"""File, line and function of a call."""


@dataclass(frozen=True)
class Suspicion:
    """A place in the audited code at which private data may reach the output without enough noise.

    Either two runs with the same random numbers differ there, or an input differs by more than its noise hides.
    """

    kind: str
    """One of `BRANCHES`, `PARAMETER`, `MOVES`, `BUDGET` and `RELEASED`."""
    sentence: str
    """What differs, with the values on both sides."""
    stack: tuple[StackFrame, ...] = ()
    """File, line and function of the calls that led to the place, the innermost first."""
    loss: float | None = None
    """The cost of the cheapest alignment of a run, or the exact loss of a discrete output, as a value of the claim's
    parameter; None if it is unknown. The cost is not a lower bound on the loss of the output, because another
    alignment may be cheaper."""

    @property
    def file(self) -> str:
        """The file of the suspected line, or '?' if it is unknown."""
        return self.stack[0][0] if self.stack else "?"

    @property
    def line(self) -> int:
        """The number of the suspected line, or 0 if it is unknown."""
        return self.stack[0][1] if self.stack else 0

    @property
    def where(self) -> str:
        """File name and line of the suspected place, such as 'count.py:12'."""
        return f"{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        return f"{self.where} {self.sentence}"


def line_of(event: TraceEvent) -> str:
    """Return file name and line of a recorded call, such as 'count.py:12'."""
    return Suspicion("", "", tuple(event.stack)).where


class Findings:
    """The suspicions that were found in one pair of runs, and sentences on what could not be judged."""

    def __init__(self) -> None:
        self._found: list[tuple[float, Suspicion]] = []
        self.not_judged: list[str] = []
        """Sentences on inputs that move and are not judged, because their noise is unknown."""

    def suspect(self, order: Any, kind: str, sentence: str, stack: Any) -> None:
        """Add a suspicion.

        ``order`` is the number of the recorded call that it is about, by which suspicions are sorted.
        """
        self._found.append((order, Suspicion(kind, sentence, tuple(map(tuple, stack)))))

    def has(self, kind: str) -> bool:
        """Return whether a suspicion of this kind has been added."""
        return any(suspicion.kind == kind for _, suspicion in self._found)

    def in_order(self) -> tuple[Suspicion, ...]:
        """Return the suspicions in the order of the calls that they are about.

        If several have the same kind and line, only the first of them is returned.
        """
        ordered = [one for _, one in sorted(self._found, key=lambda entry: entry[0])]
        first_of_each = {(one.kind, one.where): one for one in reversed(ordered)}
        return tuple(first_of_each.values())[::-1]


def sorted_lines(events: Sequence[TraceEvent]) -> list[str]:
    """Return the file names and lines of recorded calls, such as 'count.py:12', sorted and without repetitions."""
    return sorted({line_of(one) for one in events})

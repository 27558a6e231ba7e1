"""DOC"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from numpy.typing import NDArray

from epsaudit.outputs.normal_form import (
    Outputs,
    written,
)
from epsaudit.outputs.readings import Reading


class Feature(Protocol):
    """A number read off each output, as a frozen dataclass that survives JSON."""

    @property
    def label(self) -> str:
        """How the number is written in an event, for instance 'y[0]'."""

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return shape (size,), float64; NaN where an output has no such number."""


Path = tuple[Hashable, ...]
OPTIONAL_FIELD = {"later": True}
"""Metadata of a field that files of before do not have: its default is not written."""


def path_label(path: Path) -> str:
    """Write a path as a person would."""
    label = "y"
    for step in path:
        label = f"{step.name}({label})" if isinstance(step, Reading) else f"{label}[{written(step)}]"
    return label


class FormattedLabel:
    """A feature whose label is a form with its fields, and the place that its path leads to, filled in."""

    form = "y"

    @property
    def label(self) -> str:
        return self.form.format(self, place=path_label(getattr(self, "path", ())))

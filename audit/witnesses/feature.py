"""The interface of a feature: one number that is read off each output.

A feature is the output itself, a part of it, its kind, its last digits, a combination of parts, or a learnt score. It
accepts outputs of any kind and returns one float for each, NaN where there is none. New features are dataclasses that
are listed in `epsaudit.witnesses.serialisation`, so that stored results can be read.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from epsaudit.outputs.arrays import Outputs
from epsaudit.outputs.formatting import format_value
from epsaudit.outputs.layouts import OutputPath
from epsaudit.outputs.readings import Reading


class Feature(Protocol):
    """A number that is computed from each output. Features are frozen dataclasses that can be written to JSON."""

    @property
    def label(self) -> str:
        """The text of the feature in an event, for example 'y[0]'."""

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return the number of each output, shape (size,), float64; NaN where an output has no such number."""


OPTIONAL_FIELD = {"later": True}
"""Metadata of a field that was added after the first files were written. Its default value is not written, so that
older files stay valid."""


def path_label(path: OutputPath) -> str:
    """Return the text of a path inside an output, as an expression in y such as 'y[0][name]'."""
    label = "y"
    for step in path:
        label = f"{step.name}({label})" if isinstance(step, Reading) else f"{label}[{format_value(step)}]"
    return label


class FormattedLabel:
    """A feature whose label follows from the format string ``form``.

    In the format string, ``{0}`` stands for the feature and ``{place}`` for the label of its path. For example, the
    form 'len({place})' gives the label 'len(y[0])' for the path (0,).
    """

    form = "y"

    @property
    def label(self) -> str:
        return self.form.format(self, place=path_label(getattr(self, "path", ())))

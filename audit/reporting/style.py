"""The package's matplotlib style: a paper's widths and colours, blank figures, and files rendered from them.

Drawing functions are decorated with ``@styled()``, because matplotlib reads its settings when an artist is made and
again when it is drawn; `render` does the rest. No state of matplotlib is left changed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from epsaudit.text import visible

ONE_COLUMN = 3.4
"""Width in inches of a column of a two-column paper."""
TWO_COLUMNS = 7.0
"""Width in inches of its text."""
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
"""Okabe and Ito's palette (2008), told apart by colour-blind readers; always with a marker or dash of its own."""
MARKERS = "osD^vPX"
STYLE = Path(__file__).with_name("epsaudit.mplstyle")
FORMATS = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""Formats of figures, and what must be kept out of their files so that equal figures give equal bytes."""


@contextmanager
def styled() -> Iterator[None]:
    """Apply the package's style within; also a decorator."""
    with matplotlib.rc_context(fname=STYLE):
        yield


class Drawn(Figure):
    """A figure that a notebook shows, whether or not pyplot was imported there."""

    def _repr_png_(self) -> bytes:
        return render(self, "png")


def blank(width: float = ONE_COLUMN, height: float = 2.4) -> Figure:
    """Return an empty figure of that size in inches; call it within `styled`."""
    figure = Drawn(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def legend_below(figure: Figure, columns: int = 2) -> None:
    """Set the legend of the first axes below the figure, where it hides nothing."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=columns)


def words(text: str) -> str:
    r"""Write a name so that matplotlib draws it as it is: no dollars for mathematics, and no underscore first.

    A label that begins with an underscore would be left out of the legend.
    """
    plain = visible(text).replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain


def render(figure: Figure, kind: str) -> bytes:
    """Return the figure as 'png', 'pdf' or 'svg' bytes, without the date that would make files differ."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format=kind, metadata=FORMATS[kind])
    return buffer.getvalue()

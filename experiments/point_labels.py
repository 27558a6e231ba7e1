"""Labels of the points of a figure, placed so that no label covers a point, another label or a line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

MARKER, STEP = 5.0, 4.0
"""Width of a marker, and the distance between the positions that are tried for a label, both in points (1/72 inch)."""
MOST_STEPS = 12
DIRECTIONS = (
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
)
"""Directions in which a label may lie from its points, with the horizontal and vertical alignment of the text."""


def label_points(
    axes: Axes, points: Mapping[int, tuple[float, float]], obstacles: Sequence[Bbox] = ()
) -> list[Annotation]:
    """Write the number of every point beside it, and one common label for points that nearly cover each other.

    A label lies above, below, to the right or to the left of its points, at the smallest distance at which it covers
    nothing. A label that is not directly beside its points is connected with them by a line. If there is no room, the
    label lies to the left at the largest distance that is tried. Call this function when the axes have their final
    limits.

    Parameters
    ----------
    axes
        The axes in which the points are drawn already.
    points
        Number of each point, and its coordinates in the units of the axes.
    obstacles
        Boxes in pixels that labels must not cover, such as a line or a legend.

    Returns
    -------
    list of Annotation
        The labels, in the order of their first numbers.

    Examples
    --------
    >>> from epsaudit.tools.reporting.figures import new_figure
    >>> axes = new_figure().add_subplot()
    >>> [label.get_text() for label in label_points(axes, {1: (0.1, 0.5), 2: (0.1, 0.5), 3: (0.1, 0.5), 4: (0.8, 0.5)})]
    ['1-3', '4']
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # the layout places the axes
    pixels = figure.dpi / 72.0
    places = {number: axes.transData.transform(point) for number, point in points.items()}
    taken = [Bbox.from_bounds(*(place - MARKER * pixels / 2), *[MARKER * pixels] * 2) for place in places.values()]
    taken += obstacles
    labels = []
    for group in _groups(places, MARKER * pixels):
        box, label = Bbox.union([Bbox([places[number]] * 2) for number in group]), None
        for step, (right, up, horizontal, vertical) in itertools.product(range(1, MOST_STEPS + 1), DIRECTIONS):
            if label is not None:
                label.remove()
            anchor = np.mean(box, axis=0) + np.multiply([right, up], box.size) / 2
            label = axes.annotate(
                _ranges(group),
                axes.transData.inverted().transform(anchor),
                (right * step * STEP, up * step * STEP),
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=7,
                arrowprops={"arrowstyle": "-", "linewidth": 0.4, "shrinkA": 0, "shrinkB": 3} if step > 2 else None,
            )
            label.set_in_layout(False)  # otherwise the layout would move the axes
            extent = _text_extent(label)
            inside = axes.bbox.contains(*extent.min) and axes.bbox.contains(*extent.max)
            if inside and not any(extent.overlaps(other) for other in taken):
                break
        taken.append(extent)
        labels.append(label)
    return labels


def _text_extent(label: Annotation) -> Bbox:
    """Return the box of the text of a label in pixels, without the line that connects it with its points."""
    label.get_window_extent()  # computes the position of the text
    return Text.get_window_extent(label)


def _groups(places: Mapping[int, np.ndarray], distance: float) -> Iterator[list[int]]:
    """Yield lists of the numbers of points that are linked by distances below ``distance``, in pixels."""
    left = sorted(places)
    while left:
        group = [left.pop(0)]
        for member in group:  # grows while it is read
            near = [other for other in left if np.hypot(*(places[other] - places[member])) < distance]
            group += near
            left = [other for other in left if other not in near]
        yield sorted(group)


def _ranges(numbers: Sequence[int]) -> str:
    """Return increasing numbers as text, with three and more consecutive numbers as a range.

    Examples
    --------
    >>> _ranges([2, 3, 4, 5, 8, 9])
    '2-5, 8, 9'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)

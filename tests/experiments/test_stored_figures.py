"""Figures of studies, drawn again from the stored results: labels that can be read, and one meaning of each style."""

import itertools
import json
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Annotation, Text

from epsaudit.experiments import black_boxes, league, stated_power
from epsaudit.experiments.point_labels import label_points
from epsaudit.tools.reporting.figures import STYLE, new_figure

RESULTS = Path(__file__).parents[2] / "results"


def stored(name):
    """The facts and the rows of a file of results, with numbers that JSON does not know as numbers again."""
    facts = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    unusual = {"nan": float("nan"), "inf": float("inf")}
    return facts, [
        {key: unusual.get(value, value) if isinstance(value, str) else value for key, value in row.items()}
        for row in facts["rows"]
    ]


def boxes(axes):
    """Boxes of the labels of points in pixels."""
    labels = [one for one in axes.texts if isinstance(one, Annotation)]
    for label in labels:
        label.get_window_extent()  # computes the position
    return {label.get_text(): Text.get_window_extent(label) for label in labels}


@pytest.fixture(scope="module")
def board():
    return stored("league/data.json")


@pytest.fixture(scope="module")
def axes(board):
    facts, rows = board
    figure = league.draw_board(rows, facts["sets"])
    figure.draw_without_rendering()
    return figure.axes[0]


class TestLeague:
    def test_no_label_covers_another_label_or_a_point(self, axes):
        found = boxes(axes)
        assert len(found) > 10
        assert [pair for pair in itertools.combinations(found, 2) if found[pair[0]].overlaps(found[pair[1]])] == []
        for line in axes.lines[:2]:
            for place in axes.transData.transform(line.get_xydata()):
                assert [name for name, box in found.items() if box.contains(*place)] == []

    def test_every_point_has_its_number(self, axes, board):
        numbers = set()
        for text in boxes(axes):
            for part in text.split(", "):
                first, _, last = part.partition("-")
                numbers |= set(range(int(first), int(last or first) + 1))
        assert numbers == {number for number, row in enumerate(board[1], 1) if row["share"] == row["share"]}

    def test_points_within_the_tolerance_end_where_the_band_ends(self, axes, board):
        """A point may lie to the right of the line, but then inside the band, which the legend explains."""
        facts, rows = board
        (band,) = [patch for patch in axes.patches if patch.get_label() == "a valid bound may get here by chance"]
        assert band.get_x() == pytest.approx(0.05)
        limit = band.get_x() + band.get_width()
        assert limit == pytest.approx(league.tolerance(facts["sets"]) / facts["sets"])
        assert all((row["share"] <= limit) is row["within"] for row in rows if row["share"] == row["share"])
        assert any(0.05 < row["share"] <= limit for row in rows), "the band is there for such a row"


def test_labels_without_room_are_drawn_nevertheless():
    axes = new_figure().add_subplot()
    (label,) = label_points(axes, {1: (0.5, 0.5)}, [axes.bbox])
    assert label.get_text() == "1"


def test_intervals_of_stated_power_have_one_line_style():
    _, rows = stored("sequential/stated.json")
    axes = stated_power.draw_stated([row for row in rows if row["part"] == "stated"]).axes[0]
    intervals = [line for line in axes.lines if len(line.get_xdata()) == 2 and len(set(line.get_ydata())) == 1]
    assert len(intervals) == 20
    assert {line.get_linestyle() for line in intervals} == {"-"}
    handles, labels = axes.get_legend_handles_labels()
    assert len(labels) == 2
    assert {handle.get_linestyle() for handle in handles} == {"-"}


def test_leaky_boxes_are_drawn_like_violated_claims_of_other_figures():
    _, rows = stored("black-boxes/data.json")
    axes = black_boxes.shares_of(rows).axes[0]
    shown = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    styles = {name: (to_hex(line.get_color()).upper(), line.get_marker()) for name, line in shown.items()}
    assert styles == {"leaky": STYLE["violated"], "sound": STYLE["consistent"]}

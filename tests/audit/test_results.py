"""Results: conversion to JSON and back, bounds computed from counts, and files that are written completely or not at
all.
"""

import pytest
from small import kinds

from epsaudit import (
    AuditError,
    AuditResult,
    OneRunResult,
    PureDP,
    SequentialResult,
)
from epsaudit.audits.verify import load
from epsaudit.bounds.certificates import MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.results.result import save
from epsaudit.running.files import write_whole
from epsaudit.tools.cli.main import main
from epsaudit.witnesses.events import Interval, Region, Witness


def result(claim=None, **changes):
    fields = {
        "mechanism": "laplace",
        "claim": claim or PureDP(1.0),
        "pair": "0 against 1",
        "x": "0",
        "x_prime": "1",
        "trials": 10_000,
        "training_runs": 2_500,
        "confidence": 0.95,
        "certificate": MembershipGame(),
        "witness": Witness(Region(intervals=(Interval(high=0.0),)), Region(intervals=(Interval(low=1.0),))),
        "counts": Counts(3700, 3800, 1850, 700, 680, 1900),
        "exact": 1.0,
        "seed": 7,
    }
    return AuditResult(**(fields | changes))


class TestBounds:
    def test_they_follow_from_the_counts_by_hand(self):
        r = result()
        assert r.lower_bound == float(MembershipGame().epsilon(r.counts, 0.0, 0.95)) == r.epsilon_lower
        assert r.delta_lower == float(MembershipGame().delta(r.counts, 1.0, 0.95))
        assert r.runs == 7_500

    def test_violation_is_a_bound_above_the_claim(self):
        assert result(PureDP(0.5)).verdict == "violated"
        assert result(PureDP(1.5)).verdict == "consistent"
        assert result(PureDP(1.5), expected="violated").surprising

    def test_the_text_says_what_was_shown(self):
        text = str(result(PureDP(0.5)))
        for part in ("laplace", "0.5-DP", "95%", "contradicts the claim", "{y <= 0} for x", "1,850 of 3,700 on x", "7"):
            assert part in text
        assert "does not refute" in str(result(PureDP(1.5)))
        assert "private" not in text


@pytest.mark.parametrize("kind", [AuditResult, SequentialResult, OneRunResult])
class TestEveryKind:
    """What all kinds of results share: texts for a prompt and a notebook, a figure, a table and a file."""

    def test_a_bare_result_takes_one_line_and_print_at_most_ten(self, kind):
        found = kinds()[kind]
        assert kind.__name__ in repr(found)
        assert found.mechanism in repr(found)
        assert found.verdict in repr(found)
        assert len(repr(found).splitlines()) == 1
        assert len(repr(found)) < 200
        assert 1 < len(str(found).splitlines()) <= 10

    def test_a_bound_is_rounded_down_in_the_short_form(self, kind):
        found = kinds()[kind]
        shown = float(repr(found).split(">= ")[1].split(" at")[0])
        assert shown <= found.lower_bound

    def test_it_draws_itself(self, kind):
        from matplotlib.figure import Figure

        drawn = kinds()[kind].plot()
        assert isinstance(drawn, Figure)
        assert any(line.get_visible() for axes in drawn.axes for line in axes.lines)

    def test_it_is_a_line_of_a_table(self, kind):
        import pandas as pd

        found = kinds()[kind]
        frame = found.to_frame()
        assert frame.shape == (1, len(found.row()))
        assert frame["lower_bound"].item() == found.lower_bound
        assert frame["verdict"].item() == found.verdict
        together = pd.concat([one.to_frame() for one in kinds().values()])
        assert list(together.columns) == list(frame.columns)

    def test_it_is_saved_and_read_again_by_its_class_alone(self, kind, tmp_path):
        found = kinds()[kind]
        found.save(tmp_path / "one.json")
        assert kind.load(tmp_path / "one.json") == found
        others = {AuditResult, SequentialResult, OneRunResult} - {kind}
        for other in others:
            with pytest.raises(AuditError, match=f"it must hold one {other.__name__}"):
                other.load(tmp_path / "one.json")
            with pytest.raises(AuditError):
                other.from_dict(found.to_dict())


class TestFilesOfEveryKind:
    @pytest.fixture
    def file(self, tmp_path):
        save(kinds().values(), tmp_path / "all.json")
        return tmp_path / "all.json"

    def test_they_are_read_verified_and_compared(self, file, capsys):
        assert load(file) == list(kinds().values())
        assert main(["verify", str(file)]) == 0
        assert "3 of 3 results are as stored" in capsys.readouterr().out
        assert main(["compare", str(file), str(file)]) == 0
        printed = capsys.readouterr().out
        assert printed.count("no, the same runs") == 2  # of the sequential audit and of the one run
        assert "0 of 1 moved" in printed

    @pytest.mark.parametrize("option", ["--latex", "--markdown", "--csv", "--methods"])
    def test_they_are_reported_in_every_format(self, file, capsys, option):
        assert main(["report", str(file), option]) == 0
        printed = capsys.readouterr().out
        assert all(one.mechanism in printed for one in kinds().values())

    def test_they_stand_on_one_page_and_in_one_figure(self, file, tmp_path):
        page, figure = tmp_path / "all.html", tmp_path / "all.svg"
        assert main(["report", str(file), "--html", str(page), "--figure", str(figure)]) == 0
        assert page.read_text().count('<article class="card"') == 3
        assert "1,000, each in by a fair coin" in page.read_text()
        assert "An audit in one run has no pair" in page.read_text()
        assert figure.read_text().count(">noisy<") == 2
        assert figure.read_text().count(">mine<") == 1


class TestFiles:
    def test_a_folder_that_cannot_be_written_leaves_nothing(self, tmp_path):
        blocker = tmp_path / "file"
        blocker.write_text("in the way")
        with pytest.raises(AuditError, match="cannot be written"):
            write_whole(blocker / "audit.json", "x")
        assert [p.name for p in tmp_path.iterdir()] == ["file"]

    def test_a_failed_write_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "audit.json"
        path.write_text("old")

        def full(self, content):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(AuditError, match="No space left on device"):
            write_whole(path, "new")
        assert path.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["audit.json"]

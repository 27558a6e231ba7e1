"""Progress: speed, bound and time left, from a clock that the test turns."""

import io
import re
import sys
import time

import pytest
from recorded import cut, records

from epsaudit import DatasetPair, PureDP, audit, audit_sequentially, vectorized
from epsaudit.bounds.counts import Counts
from epsaudit.running.progress import Plan, Progress
from epsaudit.tools.reporting import progress
from epsaudit.tools.reporting.progress import Display, Lines

NOISE = vectorized(
    lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0), pairs=[DatasetPair(0, 1)], name="noise"
)

LEAKY = vectorized(
    lambda data, size, rng: data + rng.laplace(scale=0.3, size=size), claim=PureDP(1.0), pairs=[DatasetPair(0, 1)]
)


def step(done, total=1_000, before=0, bound=0.987654):
    return Progress("certification", done, total, before, Counts(1, 1, 1, 0, 0, 1), lambda counts: bound)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class TestLines:
    def test_a_line_every_so_often(self):
        clock, log = Clock(), io.StringIO()
        lines = Lines(every=30.0, stream=log, clock=clock)
        for second in range(100):
            clock.now = float(second)
            lines(step(10 * second + 10))
        assert log.getvalue().splitlines() == [
            "epsaudit: certification, 310 of 1,000 runs (31%), 10 runs/s, bound so far 0.9876, 0:01:07 left",
            "epsaudit: certification, 610 of 1,000 runs (61%), 10 runs/s, bound so far 0.9876, 0:00:39 left",
            "epsaudit: certification, 910 of 1,000 runs (91%), 10 runs/s, bound so far 0.9876, 0:00:09 left",
        ]


class TestCallback:
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_the_last_step_has_the_certified_bound(self, jobs):
        steps = []
        result = audit(NOISE, trials=50_000, seed=1, n_jobs=jobs, progress=steps.append)
        last = steps[-1]
        assert (last.stage, last.runs_done, last.runs_total) == ("certification", result.runs, result.runs)
        assert last.counts == result.counts
        assert last.lower_bound == result.lower_bound
        assert {step.stage for step in steps} == {"training", "certification"}
        assert all(step.lower_bound is None for step in steps if step.stage == "training")

    def test_a_resumed_audit_says_what_it_did_not_run(self, tmp_path):
        path = tmp_path / "run.checkpoint"
        audit(NOISE, trials=200_000, seed=1, checkpoint=path)
        cut(path, len(records(path)) - 5)
        steps = []
        audit(NOISE, trials=200_000, seed=1, checkpoint=path, progress=steps.append)
        assert len(steps) == 4
        assert steps[0].runs_before > 100_000


class Terminal(io.StringIO):
    def isatty(self):
        return True


def wait_for(screen, text):
    """Wait until the text is drawn, for half a minute at most."""
    ends = time.monotonic() + 30.0
    while text not in screen.getvalue() and time.monotonic() < ends:
        time.sleep(0.01)
    return screen.getvalue()


class TestDisplay:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch):
        monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.01)

    def test_one_audit_is_told_of_in_a_line_that_changes(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        with Display() as display:
            callback = display.callback("[b]:c")
            callback.begin(Plan("c", 1_250))
            callback(step(250))
            assert "[b]:c: 500 of 1,250 runs" in wait_for(screen, "500 of")
        assert screen.getvalue().endswith(" \r")  # the line is removed

    def test_several_audits_are_counted(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        with Display(total=3) as display:
            display.finish_one()
            assert "1 of 3 audits, 0:00:0" in wait_for(screen, "1 of 3")

    def test_nothing_is_shown_if_asked_for_quiet(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        with Display(quiet=True) as display:
            assert display.callback("a") is None
            display.show("a sentence")
        assert screen.getvalue() == ""


class TestLongAudits:
    """An audit that will take more than ten minutes says so, and names a number of runs that take a minute."""

    def said(self, plan, *steps):
        clock, log = Clock(), io.StringIO()
        lines = Lines(every=1e9, stream=log, clock=clock)
        lines.begin(plan)
        for now, done in steps:
            clock.now = now
            lines(step(done, plan.runs))
        return log.getvalue()

    def test_first_runs_predict_it(self):
        said = self.said(Plan("mean", 1_000_000, workers=2, seconds_per_run=0.05))
        assert said == "mean: 1,000,000 runs would take about 7 hours; trials=1000 would take about a minute.\n"

    def test_the_least_number_of_runs_may_take_longer_than_a_minute(self):
        said = self.said(Plan("mean", 10_000, workers=2, seconds_per_run=6.0))
        assert said == "mean: 10,000 runs would take about 8 hours; trials=100 would take about 10 minutes.\n"

    def test_several_workers_are_counted_if_several_make_the_runs(self):
        said = self.said(Plan("mean", 10**9, workers=2, seconds_per_run=1e-3))
        assert said == "mean: 1,000,000,000 runs would take about 6 days; trials=100000 would take about a minute.\n"

    def test_runs_so_far_predict_it_after_five_seconds(self):
        plan = Plan("mean", 1_000_000)
        assert self.said(plan, (0.0, 10), (4.9, 490)) == ""
        said = self.said(plan, (0.0, 10), (4.9, 490), (6.0, 600), (10.0, 1_000))
        assert said == "mean: 1,000,000 runs would take about 3 hours; trials=6000 would take about a minute.\n"

    def test_the_start_of_processes_is_not_counted(self):
        assert self.said(Plan("mean", 200_000), (20.0, 1_000), (22.0, 4_000), (26.0, 9_000)) == ""
        assert self.said(Plan("mean", 2_000_000), (20.0, 1_000), (26.0, 7_000)) != ""

    def test_answers_of_a_program_predict_it_before_a_chunk_is_finished(self):
        clock, log, answers = Clock(), io.StringIO(), iter([100, 104, 150, 200])
        lines = Lines(every=1e9, stream=log, clock=clock)
        lines.begin(Plan("count.R", 1_000_000, answered=lambda: next(answers)))
        told = []
        for clock.now in (2.0, 4.0, 10.0):
            told.append(lines.describe_shortly())
        assert told[0] == "count.R: first runs, 0:00:02 so far"
        assert told[1].startswith("count.R: first runs, 12 runs/s, ")
        assert told[2] == "count.R: first runs, 10 runs/s, 1 day, 3:46:40 left"
        assert (
            log.getvalue()
            == "count.R: 1,000,000 runs would take about 33 hours; trials=500 would take about a minute.\n"
        )

    def test_a_shorter_audit_says_nothing(self):
        assert self.said(Plan("mean", 10_000, workers=1, seconds_per_run=0.05), (10.0, 200)) == ""

    def test_trainings_have_no_quicker_number(self):
        assert self.said(Plan("fit", 400, 1, 60.0, least_runs=None)) == "fit: 400 runs would take about 7 hours.\n"


def sleepy(data, rng):
    time.sleep(0.02)
    return len(data) + rng.laplace()


class TestDefault:
    """Without an argument, an audit in Python shows a line on a terminal or in a notebook after five seconds."""

    def audit(self, monkeypatch, screen, **how):
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
        runs = iter(range(80))

        def function(data, rng):
            if next(runs, None) is None:
                raise KeyboardInterrupt
            return sleepy(data, rng)

        with pytest.raises(KeyboardInterrupt):
            audit(function, ([1], [1, 2]), epsilon=1.0, trials=100_000, seed=1, n_jobs=1, **how)
        return screen.getvalue()

    def test_on_a_terminal(self, monkeypatch):
        said = self.audit(monkeypatch, Terminal())
        assert "runs would take about" in said
        assert "function: first runs, " in said.replace("TestDefault.audit.<locals>.", "")
        assert re.search(r"runs/s, \d:\d\d:\d\d left", said)

    def test_in_a_notebook(self, monkeypatch):
        monkeypatch.setattr(progress, "is_notebook", lambda: True)
        monkeypatch.setattr("epsaudit.running.progress.is_notebook", lambda: True)
        assert re.search(r"runs/s, \d:\d\d:\d\d left", self.audit(monkeypatch, io.StringIO()))

    def test_not_in_a_log(self, monkeypatch):
        assert self.audit(monkeypatch, io.StringIO()) == ""

    @pytest.mark.parametrize("stream", [None, object()])
    def test_not_where_there_is_no_stream(self, monkeypatch, stream):
        monkeypatch.setattr(sys, "stderr", stream)
        audit(NOISE, trials=1_000, seed=1)

    def test_not_if_it_is_turned_off(self, monkeypatch):
        assert self.audit(monkeypatch, Terminal(), progress=False) == ""

    def test_true_announces_in_a_log_too(self, monkeypatch):
        assert "runs would take about" in self.audit(monkeypatch, io.StringIO(), progress=True)

    def test_a_short_audit_shows_nothing(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        audit(NOISE, trials=1_000, seed=1)
        audit_sequentially(NOISE, trials=1_000, seed=1)
        assert screen.getvalue() == ""

    def test_a_sequential_audit_has_a_bound_so_far(self):
        steps = []
        result = audit_sequentially(LEAKY, trials=20_000, seed=1, progress=steps.append)
        assert steps[-1].lower_bound == result.lower_bound
        assert len(steps) > len(result.rounds)

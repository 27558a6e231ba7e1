"""Progress: speed, bound and time left, from a clock that the test turns."""

import io
import sys

import pytest
from recorded import cut, records

from epsaudit import DatasetPair, PureDP, audit, vectorized
from epsaudit.bounds.counts import Counts
from epsaudit.running.progress import Progress
from epsaudit.tools.reporting.progress import Display, Lines

NOISE = vectorized(
    lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0), pairs=[DatasetPair(0, 1)], name="noise"
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


class TestDisplay:
    def test_one_audit_is_told_of_in_a_line_that_changes(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        with Display() as display:
            display.callback("[b]:c")(step(250))
        assert "[b]:c: certification, 250 of 1,000 runs (25%)" in screen.getvalue()

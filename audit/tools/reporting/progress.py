"""Progress of an audit in one line of text, which is redrawn on a terminal or in a notebook, and printed to a log.

A bound that is shown before the end is called 'bound so far', because only the bound of the last run is certified.
"""

from __future__ import annotations

import math
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TextIO

from epsaudit.errors import clipped
from epsaudit.running.pool import FEW_RUNS
from epsaudit.running.progress import Plan, ProgressCallback, is_notebook, is_terminal
from epsaudit.running.progress import Progress as Step
from epsaudit.text import lower, visible

LOG_SECONDS = 30.0
"""Seconds between two lines of a log, which makes 120 lines an hour."""
FIRST_SECONDS, REDRAW_SECONDS = 5.0, 1.0
"""[chosen] Seconds after which the line of an audit appears, and seconds between two drawings of the line."""
LONG_SECONDS = 600.0
"""[chosen] An audit that is expected to take longer says so before it goes on."""
MEASURED_SECONDS = 5.0
"""[chosen] Seconds of runs from which the length of an audit is predicted, if its first runs were not timed."""
LEAST_ANSWERS = 8
"""[chosen] Number of runs of a program that must have ended before its speed is shown. The same number of runs of a
function is timed."""
NOTEBOOK_WIDTH, NAME_WIDTH = 100, 24
"""[chosen] Number of characters of a line in a notebook, and of the name of an audit at its beginning."""


class Lines:
    """A progress callback of audits that prints a line of text at most once every ``every`` seconds.

    The lines are written to ``stream``, by default to standard error. If the first runs suggest that the audit will
    take more than ten minutes, an additional line says how long it will take, and which number of runs would take a
    minute. ``trials`` is the name of the setting in this line, such as 'trials='. ``name`` is the name of the audit in
    all lines, by default that of the mechanism.

    >>> from epsaudit import DatasetPair, PureDP, audit, vectorized
    >>> noise = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0))
    >>> result = audit(noise, DatasetPair(0, 1), trials=10_000, seed=0, progress=Lines(every=60.0))
    """

    def __init__(
        self,
        every: float = LOG_SECONDS,
        stream: TextIO | None = None,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        trials: str = "trials=",
    ) -> None:
        self._given = every, stream, name, clock, trials
        self._name = name or "epsaudit"
        self._plan: Plan | None = None
        self._step: Step | None = None
        self._rate = 0.0  # runs per second, by all workers; 0 if it is not known
        self._announced, self._answered = False, 0
        self._stage = ("", 0)
        self._first: tuple[float, int] | None = None  # time and number of runs when the stage was first told of
        self._started = self._said = self._began = self._last = clock()
        self.say: Callable[[str], None] = self._print
        """Prints a line."""

    def __reduce__(self) -> tuple[type[Lines], tuple[Any, ...]]:
        """Support pickling. The unpickled copy has the same settings, and its clock starts when it is unpickled.

        This is the right start time in a worker process, which begins its audit at that moment.
        """
        return Lines, self._given

    def begin(self, plan: Plan) -> None:
        """Store the plan of an audit before its first runs, and announce at once if the audit will take long."""
        self._plan, self._name = plan, self._given[2] or plan.name
        self._began = self._last = self._given[3]()
        self._answered = 0 if plan.answered is None else plan.answered()
        if plan.seconds_per_run is not None:
            self._rate = plan.workers / plan.seconds_per_run
            self._announce_if_long(plan.runs, self._rate)

    def __call__(self, step: Step) -> None:
        """Store the latest progress, and print a line if the last line is at least ``every`` seconds old."""
        every, _, _, clock, _ = self._given
        now = clock()
        if (step.stage, step.runs_total) != self._stage:
            self._stage, self._began, self._first = (step.stage, step.runs_total), self._last, None
        self._step, self._last = step, now
        seconds, fresh = now - self._began, step.runs_done - step.runs_before
        if seconds > 0.0 and fresh > 0:
            self._rate = fresh / seconds
            self._predict(now, step.runs_done, self._left(step))
        if now - self._said >= every:
            self._said = now
            self.say(self.describe(step))

    def describe(self, step: Step | None = None) -> str:
        """Return a line with the stage of the audit, the number of runs, the speed, the bound so far and the time left.

        ``step`` is the progress to describe, by default the latest one.
        """
        step = step or self._step
        if step is None:
            return self.describe_shortly()
        done, total = step.runs_done, step.runs_total
        known = f"{self._name}: {step.stage}, {done:,} of {total:,} runs ({done / total:.0%})"
        return ", ".join([known, *self._facts(step, step.stage == "certification")])

    def describe_shortly(self) -> str:
        """Return a shorter line for a terminal of 80 columns: number of runs, speed, bound so far and time left.

        The line counts down the time left even if there is no new progress.
        """
        step, plan, name = self._step, self._plan, clipped(self._name, NAME_WIDTH)
        if plan is None or step is None:
            self._measure_answers()
            return ", ".join([f"{name}: first runs", *self._facts(step, plan is not None)])
        known = f"{name}: {plan.runs - self._left(step):,} of {plan.runs:,} runs"
        return ", ".join([known, *self._facts(step, True)])

    def _measure_answers(self) -> None:
        """Estimate the speed of an external program from the number of its answers.

        This is done only until the first progress report, which comes late if a program is slow.
        """
        if self._plan is None or self._plan.answered is None or self._step is not None:
            return
        now, done = self._given[3](), self._plan.answered() - self._answered
        if (seconds := now - self._began) > 0.0 and done >= LEAST_ANSWERS:
            self._rate, self._last = done / seconds, now
            self._predict(now, done, self._plan.runs)

    def _facts(self, step: Step | None, ends: bool) -> list[str]:
        """Return parts of a progress line: the speed, the bound so far, and the time left or the time that has passed.

        A part is left out while it is unknown. The time left is included only if ``ends`` is true.
        """
        now, facts = self._given[3](), list[str]()
        if self._rate > 0.0:
            facts.append(f"{self._rate:,.{'0f' if self._rate >= 10.0 else '2g'}} runs/s")
        if step is not None and step.lower_bound is not None:
            facts.append(f"bound so far {lower(step.lower_bound)}")
        if self._rate > 0.0 and ends:
            seconds = max(self._left(step) / self._rate - (now - self._last), 0.0)
            facts.append(f"{timedelta(seconds=math.ceil(seconds))} left")
        elif self._rate == 0.0:
            facts.append(f"{timedelta(seconds=math.floor(now - self._started))} so far")
        return facts

    def _left(self, step: Step | None) -> int:
        """Return the number of runs that the audit still has to make; 0 if it is unknown.

        In the last stage, certification, only the runs of this stage are counted.
        """
        if step is not None and step.stage == "certification":
            return step.runs_total - step.runs_done
        done = 0 if step is None else step.runs_done
        return 0 if self._plan is None else max(self._plan.runs - done, 0)

    def _predict(self, now: float, done: int, left: int) -> None:
        """Predict how long the audit will take, and announce it if the time is long.

        The speed is measured from the first progress report on, so that the time for starting processes does not count.
        ``done`` is the number of finished runs, ``left`` the number of remaining runs.
        """
        if self._first is None:
            self._first = now, done
        seconds, runs = now - self._first[0], done - self._first[1]
        if seconds >= MEASURED_SECONDS and runs > 0:
            self._announce_if_long(left, runs / seconds)

    def _announce_if_long(self, left: int, rate: float) -> None:
        """Print, at most once, that the audit will take long, and which number of runs would take a minute.

        ``left`` is the number of remaining runs, and ``rate`` the number of runs per second.
        """
        plan = self._plan
        if self._announced or plan is None or left / rate <= LONG_SECONDS:
            return
        self._announced = True
        runs, which = (plan.runs, "") if left > 0.9 * plan.runs else (left, "the remaining ")
        sentence = f"{self._name}: {which}{runs:,} runs would take about {in_words(runs / rate)}"
        if plan.least_runs is not None:
            quick, workers = _round_down(60.0 * rate), 1
            if quick <= FEW_RUNS:  # these are made by one worker
                workers = plan.workers
                quick = _round_down(60.0 * rate / workers)
            quick = max(quick, plan.least_runs)
            sentence += f"; {self._given[4]}{quick} would take about {in_words(quick * workers / rate)}"
        self.say(f"{sentence}.")

    def _print(self, sentence: str) -> None:
        stream = self._given[1] or sys.stderr
        print("\r" * is_terminal(stream) + sentence, file=stream, flush=True)  # over the line of another process


def in_words(seconds: float) -> str:
    """Return a duration in words, rounded to minutes, hours or days.

    >>> in_words(25_000), in_words(59), in_words(1.4e6)
    ('7 hours', 'a minute', '16 days')
    """
    if seconds < 90:
        return "a minute"
    for unit, size in (("days", 86_400), ("hours", 3_600)):
        if seconds >= 1.5 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds / 60)} minutes"


def _round_down(number: float) -> int:
    """Return a number rounded down to one significant digit, and at least 1."""
    size = 10.0 ** math.floor(math.log10(max(number, 1.0)))
    return round(math.floor(max(number, 1.0) / size) * size)


class LiveLine:
    """A line on a terminal or in a notebook that is redrawn in place every second, and erased at the end.

    ``text`` is a function that returns the current text, or an empty text if there is nothing to show. The line appears
    after ``first`` seconds.
    """

    def __init__(self, text: Callable[[], str], first: float, stream: TextIO | None = None) -> None:
        self._text, self._first, self._stream = text, first, stream or sys.stderr
        self._width = 0  # of what is drawn
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread = threading.Thread(target=self._redraw, daemon=True, name="epsaudit-progress")

    def __enter__(self) -> LiveLine:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._over.set()
        self._thread.join()
        self._erase()

    def print(self, sentence: str) -> None:
        """Print a permanent line above the line that is redrawn."""
        with self._lock:
            self._erase()
            print(sentence, file=self._stream, flush=True)

    def _redraw(self) -> None:
        wait = self._first
        while not self._over.wait(wait):
            wait = REDRAW_SECONDS
            self._draw(self._text())

    def _draw(self, text: str) -> None:
        columns = NOTEBOOK_WIDTH if is_notebook() else shutil.get_terminal_size().columns
        text = clipped(visible(text), columns - 1)
        with self._lock:
            self._stream.write(f"\r{text:<{self._width}}")
            self._stream.flush()
            self._width = len(text)

    def _erase(self) -> None:
        with self._lock:
            if self._width:
                self._stream.write(f"\r{'':<{self._width}}\r")
                self._stream.flush()
                self._width = 0


@contextmanager
def show_progress() -> Iterator[ProgressCallback]:
    """Provide a callback that shows the progress of one audit, inside this context.

    On a terminal or in a notebook, the progress is a line that is redrawn in place. Elsewhere, it is lines of a log.
    """
    if not (is_notebook() or is_terminal(sys.stderr)):
        yield Lines()
        return
    lines = Lines(every=math.inf)
    with LiveLine(lines.describe_shortly, FIRST_SECONDS) as line:
        lines.say = line.print
        yield lines


class Display:
    """The progress display of a command-line command, on standard error.

    On a terminal it is one line, redrawn in place, that appears after a second. In a log it is a line of text now and
    then. ``total`` is the number of audits that the command makes; if ``quiet`` is true, nothing is shown.
    """

    def __init__(self, total: int = 1, quiet: bool = False) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._began = self._said = time.monotonic()
        self._text: Callable[[], str] = self._describe_audits if total > 1 else str
        self._line: LiveLine | None = None

    def __enter__(self) -> Display:
        if not self._quiet and is_terminal(sys.stderr):
            self._line = LiveLine(lambda: self._text(), REDRAW_SECONDS)
            self._line.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._line is not None:
            self._line.__exit__(*error)

    def show(self, sentence: str) -> None:
        """Show a sentence about the present step. In a log, print it only if the last one is `LOG_SECONDS` old."""
        now = time.monotonic()
        self._text = lambda: sentence
        if self._line is None and not self._quiet and now - self._said >= LOG_SECONDS:
            self._said = now
            print(f"epsaudit: {sentence}", file=sys.stderr, flush=True)

    def callback(self, name: str) -> ProgressCallback | None:
        """Return the progress callback for one audit of the command; None if nothing is to be shown.

        In a log, the callback prints lines, and it can be sent to a worker process. If the command makes several audits
        on a terminal, the callback prints only announcements that an audit will take long.
        """
        if self._quiet:
            return None
        if self._line is None or self._total > 1:
            return Lines(LOG_SECONDS if self._line is None else math.inf, name=name, trials="--trials ")
        lines = Lines(math.inf, name=name, trials="--trials ")
        self._text, lines.say = lines.describe_shortly, self._line.print
        return lines

    def finish_one(self) -> None:
        """Count one more audit of the command as finished."""
        self._done += 1

    def _describe_audits(self) -> str:
        """Return the number of finished audits and the time since the command started, as a line of text."""
        seconds = math.floor(time.monotonic() - self._began)
        return f"{self._done} of {self._total} audits, {timedelta(seconds=seconds)} so far"

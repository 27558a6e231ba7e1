"""What the fixture ``privacy_audit`` gives a test: sequential audits under the test's terms, which fail, pass or warn.

It takes who asks (a test, or a fixture of a wider scope) and the terms of call, marker and command line; a check fails
with an explanation, or tells the terminal what it would have caught.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import shlex
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from epsaudit.arguments import Pairs, Relation
from epsaudit.claims import Claim
from epsaudit.errors import AuditError, PowerWarning
from epsaudit.fingerprint import digest
from epsaudit.mechanism import Mechanism
from epsaudit.own_code import without_internals
from epsaudit.pytest_plugin import FALSE_ALARM, PROPERTY, RUNS, SECONDS, Asker, asking, option, read, share_of_suite
from epsaudit.sampling import Progress
from epsaudit.sequential import SequentialResult, audit_sequentially
from epsaudit.text import lower

LEAST_FALSE_ALARM = 1e-15
"""Of one check: 1 minus less is hardly told from 1 in floating point."""
QUIET_SECONDS = 3.0
"""Seconds of a check after which a terminal is told how far it is."""
TELLING = 2.0
"""A check that passes warns unless it would have caught so many times the claim: half of the noise that it needs."""
LEAST_TELLING = 0.1
"""Parameters up to this are all alike to a check of a claim near 0; the same as in `betting.detectable`."""
WIDTH = 80
"""Columns of a failure's text: those of an old terminal, which fit everywhere."""


@dataclass(frozen=True)
class _Terms:
    """What one audit may spend, how often the test and this check of it may be wrong, and its seed."""

    runs: int
    seconds: float
    test_false_alarm: float
    false_alarm: float
    seed: int


class PrivacyAudit:
    """What the fixture ``privacy_audit`` gives a test.

    The false-alarm probability of a test is shared among its checks: the first gets a half, the second a sixth, the
    k-th 1 / (k (k + 1)). All of these sum to 1, so that checks need not be counted beforehand.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def check(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        claim: Claim | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        adjacency: Relation | None = None,
        near: float | None = None,
        runs: int | None = None,
        seconds: float | None = None,
        false_alarm: float | None = None,
    ) -> SequentialResult:
        """Fail the test if the mechanism provably leaks more than its claim; warn if it could not have been caught.

        Parameters
        ----------
        mechanism, pairs, claim, epsilon, delta, adjacency, near
            As for `epsaudit.audit_sequentially`.
        runs, seconds, false_alarm : optional
            In place of the marker's and the command line's.

        Returns
        -------
        SequentialResult

        Raises
        ------
        AuditError
            If the claim, the pairs or the terms make no sense, or if nothing was tested, because the first thousand
            runs on both datasets raised the same exception, which is shown as the cause.
        """
        __tracebackhide__ = True
        given = (mechanism, pairs, claim, epsilon, delta, adjacency, near, runs, seconds, false_alarm)
        try:
            result, terms = self._audit(*given)
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        self._tell(result, terms, result.describe_detectable() if not result.violates_claim else "caught")
        if result.violates_claim:
            pytest.fail(self._failure(result, terms), pytrace=False)
        if _is_weak(result):
            warnings.warn(_weakness(result, terms), PowerWarning, stacklevel=2)
        return result

    def must_fail(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        claim: Claim | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        adjacency: Relation | None = None,
        runs: int | None = None,
        seconds: float | None = None,
        false_alarm: float | None = None,
    ) -> SequentialResult:
        """Fail the test unless `check` would fail: a positive control for a mechanism that is known to be bad.

        Parameters are those of `check`.
        """
        __tracebackhide__ = True
        given = (mechanism, pairs, claim, epsilon, delta, adjacency, None, runs, seconds, false_alarm)
        try:
            result, terms = self._audit(*given)
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        self._tell(result, terms, "caught, as it must be" if result.violates_claim else "not caught")
        if not result.violates_claim:
            said = (
                f"{result.mechanism} must fail its privacy audit, and did not: {result.claim} was not refuted in "
                f"{result.runs:,} runs. This positive control shows nothing; give it more runs, a better pair, or a "
                "worse bug."
            )
            pytest.fail(f"{textwrap.fill(said, WIDTH)}\n{self._details(result, terms)}", pytrace=False)
        return result

    def _audit(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None,
        claim: Claim | None,
        epsilon: float | None,
        delta: float,
        adjacency: Relation | None,
        near: float | None,
        runs: int | None,
        seconds: float | None,
        false_alarm: float | None,
    ) -> tuple[SequentialResult, _Terms]:
        asker = asking(self._config)
        number = _number(asker, mechanism, pairs, claim, epsilon, delta, adjacency)
        terms = self._terms(asker, number, runs, seconds, false_alarm)
        with _Progress(self._config, terms) as progress:
            result = audit_sequentially(
                mechanism,
                pairs,
                claim=claim,
                epsilon=epsilon,
                delta=delta,
                adjacency=adjacency,
                trials=terms.runs,
                seconds=terms.seconds,
                near=near,
                confidence=_confidence(terms.false_alarm),
                seed=terms.seed,
                progress=progress.step,
            )
        return result, terms

    def _terms(
        self, asker: Asker, number: int, runs: int | None, seconds: float | None, false_alarm: float | None
    ) -> _Terms:
        """The call's terms before the marker's before the command line's; the least false alarms of all."""
        marker = asker.node.get_closest_marker("privacy_audit")
        marked = dict(marker.kwargs) if marker is not None else {}
        unknown = set(marked) - {"runs", "seconds", "false_alarm"}
        if unknown or (marker is not None and marker.args):
            raise pytest.UsageError(
                "The marker privacy_audit takes runs=, seconds= and false_alarm=; "
                f"{sorted(unknown) or list(marker.args if marker else ())} was given."
            )
        given = {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}
        said = {name: read(name, value, name) for name, value in given.items() if value is not None}
        for name, value in marked.items():
            if value is not None:
                said.setdefault(name, read(name, value, f"{name} of the marker privacy_audit"))
        ceilings = (said.get("false_alarm"), option(self._config, "false-alarm"), share_of_suite(self._config, asker))
        test_alarm = min((value for value in ceilings if value is not None), default=FALSE_ALARM)
        alarm = test_alarm / (number * (number + 1))
        if alarm < LEAST_FALSE_ALARM:
            raise AuditError(
                f"The false-alarm probability left for check {number} of this test is {alarm:.2g}; it must be "
                f"at least {LEAST_FALSE_ALARM:g}. Allow the test more false alarms, or divide it."
            )
        return _Terms(
            int(said.get("runs") or option(self._config, "runs") or RUNS),
            float(said.get("seconds") or option(self._config, "seconds") or SECONDS),
            test_alarm,
            alarm,
            _seed(asker.name, number, int(option(self._config, "seed") or 0)),
        )

    def _tell(self, result: SequentialResult, terms: _Terms, verdict: str) -> None:
        asker = asking(self._config)
        line = (
            f"{asker.name}: {result.mechanism}, {result.claim}, {result.runs:,} runs, "
            f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {verdict}"
        )
        print(line)  # captured: -rP shows it beside the test, as does a failure
        asker.item.user_properties.append((PROPERTY, line))

    def _failure(self, result: SequentialResult, terms: _Terms) -> str:
        return f"{result.mechanism} leaks more than its claim of {result.claim}.\n{self._details(result, terms)}"

    def _details(self, result: SequentialResult, terms: _Terms) -> str:
        symbol, alarm = result.claim.symbol, f"{terms.false_alarm:.2g}"
        above = ">" if result.violates_claim else ">="  # what is refuted is not attained either
        reach = [] if result.violates_claim else [("reach", result.describe_detectable())]
        lines = [
            ("claim", f"{result.claim}: {symbol} = {result.proven:.6g}"),
            ("certified", f"{symbol} {above} {lower(result.lower_bound)}, wrong with probability {alarm}"),
            ("pair", f"x = {result.x}, x' = {result.x_prime}"),
            ("event", str(result.witness)),
            ("counts", f"{result.describe_counts()} (the last rounds)"),
            ("evidence", result.describe_evidence()),
            ("runs", _spent(result, terms)),
            *reach,
            ("seed", f"{terms.seed}, from the test's name" + ("" if result.reproducible else "; not reproducible")),
        ]
        # the command is for copying, and stays in one line
        return "\n".join([*(_entry(*line) for line in lines), f"  {'reproduce':<10} {self._command(terms)}"])

    def _command(self, terms: _Terms) -> str:
        options = [f"--privacy-runs={terms.runs}", f"--privacy-false-alarm={terms.test_false_alarm!r}"]
        if terms.seconds != SECONDS:
            options.append(f"--privacy-seconds={terms.seconds:g}")
        seed = int(option(self._config, "seed") or 0)
        options += [f"--privacy-seed={seed}"] * bool(seed)
        return shlex.join(["pytest", _plain(asking(self._config).item.nodeid), *options])


@dataclass
class _Progress:
    """Tells a terminal how far a check is, once it takes some seconds: in one line, which nothing captures."""

    config: pytest.Config
    terms: _Terms
    began: float = field(default_factory=time.monotonic)
    drawn: bool = False

    def __enter__(self) -> _Progress:
        return self

    def step(self, step: Progress) -> None:
        """Draw the line anew, after the first seconds."""
        if (seconds := time.monotonic() - self.began) >= QUIET_SECONDS:
            self._draw(
                f"{step.runs_done:,} of at most {step.runs_total:,} runs, "
                f"{seconds:.0f} of at most {self.terms.seconds:g} seconds"
            )

    def __exit__(self, *_: object) -> None:
        if self.drawn:
            self._draw("")

    def _draw(self, text: str) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or not terminal.isatty:
            return
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
            if not self.drawn:
                terminal.ensure_newline()
            terminal.rewrite(text, erase=True)
        self.drawn = True


def _is_weak(result: SequentialResult) -> bool:
    """Whether the runs would not have caught `TELLING` times the claim, by events as common as those seen."""
    return result.detectable is None or result.detectable > _telling(result)


def _telling(result: SequentialResult) -> float:
    return max(TELLING * result.proven, LEAST_TELLING)


def _weakness(result: SequentialResult, terms: _Terms) -> str:
    fitted = f", all that fitted into {terms.seconds:g} seconds," if result.stopped == "seconds" else ""
    return (
        f"The check of {result.mechanism} passed, but could hardly have failed: {result.runs:,} runs{fitted} do not "
        f"show {result.claim.symbol} = {_telling(result):.4g} where {result.claim} is claimed. It "
        f"{result.describe_detectable()}. Give it more runs or seconds, or a more telling pair."
    )


def _spent(result: SequentialResult, terms: _Terms) -> str:
    time_is_up = f" ({terms.seconds:g} seconds were over)" if result.stopped == "seconds" else ""
    return f"{result.runs:,} of at most {terms.runs:,}{time_is_up}"


def _entry(name: str, text: str) -> str:
    """Write a named line, wrapped under itself."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {name:<10} ",
        subsequent_indent=" " * 13,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _number(asker: Asker, *given: Any) -> int:
    """Number of this check among those of its test; under hypothesis, among the different ones."""
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is not None and hypothesis.currently_in_test_context():
        return asker.examples.setdefault(digest(given), len(asker.examples) + 1)
    asker.checks += 1
    return asker.checks


def _seed(name: str, check: int, salt: int) -> int:
    """Seed of one check of a test: a hash of the test's name, so that it is the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{salt}:{_plain(name)}:{check}".encode()).digest()[:6], "big")


def _plain(node_id: str) -> str:
    """The node id without the '@group' that pytest-xdist's loadgroup adds to it; folders and parameters keep theirs."""
    name = max(node_id.rfind("::"), node_id.rfind("]"), 0)
    return node_id[:name] + node_id[name:].partition("@")[0]


def _confidence(false_alarm: float) -> float:
    """1 - false_alarm, rounded up: no more false alarms than allowed."""
    confidence = 1.0 - false_alarm
    return confidence if 1.0 - confidence <= false_alarm else math.nextafter(confidence, 1.0)

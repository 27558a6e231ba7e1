"""What the fixture ``privacy_audit`` gives a test: sequential audits under the test's terms, which fail, pass or warn.

A check fails with an explanation, or tells the terminal what it would have caught. Its terms are those of the call, the
marker and the command line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import shlex
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import pytest

from epsaudit import frozen
from epsaudit.adapters.functions import Mechanism
from epsaudit.arguments import Pairs
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.claims.definitions import Claim
from epsaudit.data.fingerprint import digest
from epsaudit.data.neighbours import Relation
from epsaudit.engine.sampling import Progress
from epsaudit.errors import AuditError, PowerWarning, without_internals
from epsaudit.pytest_plugin import FALSE_ALARM, PROPERTY, RUNS, SECONDS, Asker, asking, option, read, share_of_suite
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

    @overload
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
    ) -> SequentialResult: ...

    @overload
    def check(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        runs: int | None = None,
        false_alarm: float | None = None,
        witness: str | Path,
    ) -> frozen.Verdict: ...

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
        witness: str | Path | None = None,
    ) -> SequentialResult | frozen.Verdict:
        """Fail the test if the mechanism provably leaks more than its claim; warn if it could not have been caught.

        Parameters
        ----------
        mechanism, pairs, claim, epsilon, delta, adjacency, near
            As for `epsaudit.audit_sequentially`.
        runs, seconds, false_alarm : optional
            In place of the marker's and the command line's.
        witness : path, optional
            A frozen test (`epsaudit freeze`), which holds a claim and most often the datasets, and is counted in place
            of an audit: nothing is learnt. It takes the runs of the file unless the terms say others, and no seconds.

        Returns
        -------
        SequentialResult, or `epsaudit.frozen.Verdict` with ``witness``

        Raises
        ------
        AuditError
            If the claim, the pairs or the terms make no sense, or if nothing was tested, because the first thousand
            runs on both datasets raised the same exception, which is shown as the cause.
        """
        __tracebackhide__ = True
        asked = {"claim": claim, "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "near": near}
        given = {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}
        if witness is not None:
            return self._count(mechanism, pairs, Path(witness), asked, given)
        result, terms = self._audit(mechanism, pairs, asked, given)
        self._tell(result, terms, result.describe_detectable() if not result.violates_claim else "caught")
        if result.violates_claim:
            said = f"{result.mechanism} leaks more than its claim of {result.claim}."
            pytest.fail(f"{said}\n{self._details(result, terms)}", pytrace=False)
        telling = max(TELLING * result.proven, LEAST_TELLING)
        if result.detectable is None or result.detectable > telling:  # by events as common as those seen
            warnings.warn(_weakness(result, terms, telling), PowerWarning, stacklevel=2)
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
        asked = {"claim": claim, "epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        given = {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}
        result, terms = self._audit(mechanism, pairs, asked, given)
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
        asked: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> tuple[SequentialResult, _Terms]:
        """Audit what is ``asked``, on the terms ``given`` by the call; an error shows the user's code alone."""
        __tracebackhide__ = True
        try:
            asker = asking(self._config)
            terms = self._terms(asker, _number(asker, mechanism, pairs, *asked.values()), given)
            with _progress(self._config, terms) as step:
                result = audit_sequentially(
                    mechanism,
                    pairs,
                    **asked,
                    trials=terms.runs,
                    seconds=terms.seconds,
                    confidence=_confidence(terms.false_alarm),
                    seed=terms.seed,
                    progress=step,
                )
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        return result, terms

    def _count(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None,
        witness: Path,
        asked: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> frozen.Verdict:
        """Run a frozen test on the terms ``given`` by the call, and fail the test if it refutes its claim."""
        __tracebackhide__ = True
        asker = asking(self._config)
        try:
            beside = [name for name, value in {**asked, "seconds": given["seconds"]}.items() if value]
            if beside:
                raise AuditError(
                    f"{witness} holds what it tests, and how; {' and '.join(beside)} cannot be given with it."
                )
            test = frozen.read(witness)
            terms = self._terms(asker, _number(asker, mechanism, pairs, witness), given, test.runs)
            test = dataclasses.replace(test, runs=terms.runs, false_alarm=terms.false_alarm)
            verdict = test.check(mechanism, pairs, seed=terms.seed)
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        said = f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {'caught' if verdict.refuted else 'passed'}"
        self._report(f"{asker.name}: {witness.name}, {verdict.runs:,} runs, {said}")
        if verdict.refuted:
            lines = [
                ("test", f"{witness}: {test.text}"),
                ("pair", f"x = {test.x}, x' = {test.x_prime}" if pairs is None else "that of the call"),
                ("counts", f"{verdict.runs:,} runs, {verdict.tally[0]:,} guessed right, {verdict.tally[1]:,} wrong"),
                ("certified", f"the claim does not hold, wrong with probability {terms.false_alarm:.2g}"),
                ("seed", f"{terms.seed}, from the test's name"),
            ]
            pytest.fail(f"The frozen test {witness.name} is failed.\n{self._listed(lines, terms)}", pytrace=False)
        return verdict

    def _terms(self, asker: Asker, number: int, given: Mapping[str, Any], runs: int = RUNS) -> _Terms:
        """The call's terms before the marker's before the command line's before ``runs``; the least false alarms."""
        marker = asker.node.get_closest_marker("privacy_audit")
        marked, others = (marker.kwargs, list(marker.args)) if marker is not None else ({}, [])
        unknown = sorted(set(marked) - {"runs", "seconds", "false_alarm"}) or others
        if unknown:
            raise pytest.UsageError(
                f"The marker privacy_audit takes runs=, seconds= and false_alarm=; {unknown} was given."
            )
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
            int(said.get("runs") or option(self._config, "runs") or runs),
            float(said.get("seconds") or option(self._config, "seconds") or SECONDS),
            test_alarm,
            alarm,
            _seed(asker.name, number, self._salt),
        )

    @property
    def _salt(self) -> int:
        return int(option(self._config, "seed") or 0)

    def _tell(self, result: SequentialResult, terms: _Terms, verdict: str) -> None:
        self._report(
            f"{asking(self._config).name}: {result.mechanism}, {result.claim}, {result.runs:,} runs, "
            f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {verdict}"
        )

    def _report(self, line: str) -> None:
        print(line)  # captured: -rP shows it beside the test, as does a failure
        asking(self._config).item.user_properties.append((PROPERTY, line))

    def _details(self, result: SequentialResult, terms: _Terms) -> str:
        symbol, alarm = result.claim.symbol, f"{terms.false_alarm:.2g}"
        above = ">" if result.violates_claim else ">="  # what is refuted is not attained either
        time_is_up = f" ({terms.seconds:g} seconds were over)" if result.stopped == "seconds" else ""
        reach = [] if result.violates_claim else [("reach", result.describe_detectable())]
        lines = [
            ("claim", f"{result.claim}: {symbol} = {result.proven:.6g}"),
            ("certified", f"{symbol} {above} {lower(result.lower_bound)}, wrong with probability {alarm}"),
            ("pair", f"x = {result.x}, x' = {result.x_prime}"),
            ("event", str(result.witness)),
            ("counts", f"{result.describe_counts()} (the last rounds)"),
            ("evidence", result.describe_evidence()),
            ("runs", f"{result.runs:,} of at most {terms.runs:,}{time_is_up}"),
            *reach,
            ("seed", f"{terms.seed}, from the test's name" + ("" if result.reproducible else "; not reproducible")),
        ]
        return self._listed(lines, terms)

    def _listed(self, lines: Iterable[tuple[str, str]], terms: _Terms) -> str:
        """Write named lines, and the command, which is for copying and stays in one line."""
        return "\n".join([*(_entry(*line) for line in lines), f"  {'reproduce':<10} {self._command(terms)}"])

    def _command(self, terms: _Terms) -> str:
        options = [f"--privacy-runs={terms.runs}", f"--privacy-false-alarm={terms.test_false_alarm!r}"]
        if terms.seconds != SECONDS:
            options.append(f"--privacy-seconds={terms.seconds:g}")
        if self._salt:
            options.append(f"--privacy-seed={self._salt}")
        return shlex.join(["pytest", _plain(asking(self._config).item.nodeid), *options])


@contextlib.contextmanager
def _progress(config: pytest.Config, terms: _Terms) -> Iterator[Callable[[Progress], None]]:
    """Tell a terminal how far a check is, once it takes some seconds: in one line, which nothing captures."""
    began, drawn = time.monotonic(), False
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")

    def draw(text: str) -> None:
        nonlocal drawn
        with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
            if not drawn:
                terminal.ensure_newline()
            terminal.rewrite(text, erase=True)
        drawn = True

    def step(step: Progress) -> None:
        seconds = time.monotonic() - began
        if seconds >= QUIET_SECONDS and terminal is not None and terminal.isatty:
            draw(
                f"{step.runs_done:,} of at most {step.runs_total:,} runs, "
                f"{seconds:.0f} of at most {terms.seconds:g} seconds"
            )

    try:
        yield step
    finally:
        if drawn:
            draw("")


def _weakness(result: SequentialResult, terms: _Terms, telling: float) -> str:
    fitted = f", all that fitted into {terms.seconds:g} seconds," if result.stopped == "seconds" else ""
    return (
        f"The check of {result.mechanism} passed, but could hardly have failed: {result.runs:,} runs{fitted} do not "
        f"show {result.claim.symbol} = {telling:.4g} where {result.claim} is claimed. It "
        f"{result.describe_detectable()}. Give it more runs or seconds, or a more telling pair."
    )


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

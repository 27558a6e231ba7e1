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
from epsaudit.adapters.functions import Mechanism, mechanism_of
from epsaudit.arguments import Pairs, claim_of, pairs_of
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.claims.definitions import Claim
from epsaudit.data.fingerprint import digest
from epsaudit.data.neighbours import DatasetPair, Relation
from epsaudit.engine.sampling import Progress
from epsaudit.errors import AuditError, PowerWarning, without_internals
from epsaudit.pytest_plugin import (
    ALARM,
    FALSE_ALARM,
    PROPERTY,
    RUNS,
    SECONDS,
    Asker,
    asking,
    option,
    read,
    share_of_suite,
)
from epsaudit.replay import SHARE, Failures, Kept, repeats_its_noise, replayed
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
    share: float = 1.0
    """Of the check's false-alarm probability: less than all where the event of an earlier failure is tried first."""

    @property
    def level(self) -> float:
        """The probability with which what is certified may be wrong."""
        return self.share * self.false_alarm


@dataclass(frozen=True)
class _Tried:
    """What the event of an earlier failure came to: the result if it refuted, the terms left, and a sentence."""

    terms: _Terms
    said: str = ""
    result: SequentialResult | None = None
    seconds: float = 0.0
    over: bool = False
    """Whether a check that passes now removes the entry."""


class PrivacyAudit:
    """What the fixture ``privacy_audit`` gives a test.

    The false-alarm probability of a test is shared among its checks: the first gets a half, the second a sixth, the
    k-th 1 / (k (k + 1)). All of these sum to 1, so that checks need not be counted beforehand.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failures = Failures(_folder(config))

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
        pairs = list(pairs) if isinstance(pairs, Iterator) else pairs  # which are listed again below
        result, tried, check = self._audit(mechanism, pairs, asked, given, self._try_first)
        terms = tried.terms
        verdict = result.describe_detectable() if not result.violates_claim else "caught"
        self._tell(result, terms, "; ".join([verdict, *([tried.said] if tried.said else [])]))
        if result.violates_claim:
            if tried.result is None:
                self._keep(check, result, mechanism, pairs, asked)
            said = f"{result.mechanism} leaks more than its claim of {result.claim}."
            pytest.fail(f"{said}\n{self._details(result, terms)}", pytrace=False)
        if tried.over:
            self._failures.forget(check)
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
        result, tried, _ = self._audit(mechanism, pairs, asked, given, lambda check, seed, terms, *_: _Tried(terms))
        terms = tried.terms
        self._tell(result, terms, "caught, as it must be" if result.violates_claim else "not caught", control=True)
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
        before: Callable[..., _Tried],
    ) -> tuple[SequentialResult, _Tried, str]:
        """Audit what is ``asked``, on the terms ``given`` by the call, after what is tried ``before``.

        An error shows the user's code alone. The text returned is what the check is known by from run to run.
        """
        __tracebackhide__ = True
        try:
            asker = asking(self._config)
            number = _number(asker, mechanism, pairs, *asked.values())
            check = f"{_plain(asker.name)}:{'given' if _in_hypothesis() else number}"
            terms = self._terms(asker, number, given)
            with _progress(self._config, terms) as step:
                tried = before(check, f"{asker.name}:{number}", terms, mechanism, pairs, asked, step)
                result = tried.result or audit_sequentially(
                    mechanism,
                    pairs,
                    **asked,
                    trials=terms.runs,
                    seconds=terms.seconds - tried.seconds,
                    confidence=_confidence(tried.terms.level),
                    seed=terms.seed,
                    progress=step,
                )
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        return result, tried, check

    def _try_first(
        self,
        check: str,
        place: str,
        terms: _Terms,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None,
        asked: Mapping[str, Any],
        step: Callable[[Progress], None],
    ) -> _Tried:
        """Count the event of an earlier failure in fresh runs, if there is one, for a share of the false alarms."""
        kept, said = self._failures.of(check)
        if kept is None or SHARE * terms.false_alarm < LEAST_FALSE_ALARM:
            return _Tried(terms, said, over=bool(said))
        known, claim, listed = _listed(mechanism, pairs, asked)
        if why := kept.why_stale(claim, listed):
            if _in_hypothesis():  # which shows every check other datasets
                return _Tried(terms)
            return _Tried(terms, f"the event kept of an earlier failure was ignored: {why}", over=True)
        first = dataclasses.replace(terms, share=SHARE, seed=_seed(place, f"replay:{kept.text()}", self._salt))
        began, after = time.monotonic(), dataclasses.replace(terms, share=1.0 - SHARE)
        try:
            result, runs = replayed(
                kept,
                known,
                claim,
                next(pair for pair in listed if kept.is_of(pair)),
                trials=terms.runs,
                seconds=terms.seconds / 2.0,
                confidence=_confidence(first.level),
                seed=first.seed,
                progress=step,
            )
        except AuditError as error:
            return _Tried(after, f"the event kept of an earlier failure was ignored: {error}", over=True)
        if result is not None:
            return _Tried(first, "the event of an earlier failure was tried first", result)
        said = f"the event of an earlier failure was tried first, in {runs:,} runs, and does not refute the claim now"
        return _Tried(after, said, None, time.monotonic() - began, over=True)

    def _keep(
        self, check: str, result: SequentialResult, mechanism: Any, pairs: Pairs | None, asked: Mapping[str, Any]
    ) -> None:
        """Keep what refuted the claim, unless the next process might draw the very same noise."""
        if self._failures.folder is None:
            return
        with contextlib.suppress(Exception):  # the failure is told, whatever becomes of its entry
            known, _, listed = _listed(mechanism, pairs, asked)
            pair = next(pair for pair in listed if str(pair) == result.pair)
            if not repeats_its_noise(known, pair, result.seed):
                self._failures.keep(check, Kept.of(check, result, pair))

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
        self._report(f"{asker.name}: {witness.name}, {verdict.runs:,} runs, {said}", terms.false_alarm)
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

    def _tell(self, result: SequentialResult, terms: _Terms, verdict: str, control: bool = False) -> None:
        self._report(
            f"{asking(self._config).name}: {result.mechanism}, {result.claim}, {result.runs:,} runs, "
            f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {verdict}",
            0.0 if control else terms.false_alarm,  # a control fails if a bad mechanism gets by
        )

    def _report(self, line: str, alarm: float) -> None:
        print(line)  # captured: -rP shows it beside the test, as does a failure
        asking(self._config).item.user_properties += [(PROPERTY, line), (ALARM, alarm)]

    def _details(self, result: SequentialResult, terms: _Terms) -> str:
        symbol, alarm = result.claim.symbol, f"{terms.level:.2g}"
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
            ("runs", f"{result.runs:,} of at most {result.trials:,}{time_is_up}"),
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
    if _in_hypothesis():
        return asker.examples.setdefault(digest(given), len(asker.examples) + 1)
    asker.checks += 1
    return asker.checks


def _in_hypothesis() -> bool:
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and bool(hypothesis.currently_in_test_context())


def _listed(
    mechanism: Mechanism | Callable[..., Any], pairs: Pairs | None, asked: Mapping[str, Any]
) -> tuple[Mechanism, Claim, list[DatasetPair]]:
    """What a check is about, as an audit reads it: the mechanism, the claim, and the pairs in their order."""
    known = mechanism_of(mechanism, asked["adjacency"])
    return known, claim_of(known, asked["claim"], asked["epsilon"], asked["delta"]), pairs_of(known, pairs)


def _folder(config: pytest.Config) -> Path | None:
    """Where refuted events are kept, beside what pytest's --lf knows; None with -p no:cacheprovider."""
    cache = getattr(config, "cache", None)
    with contextlib.suppress(OSError):
        return None if cache is None else Path(cache.mkdir("epsaudit"))
    return None


def _seed(name: str, check: int | str, salt: int) -> int:
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

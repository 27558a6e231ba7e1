"""What the fixture ``privacy_audit`` gives a test: sequential audits under the test's terms, which fail, pass or warn.

A check fails with an explanation, or tells the terminal what it would have caught.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import pytest

from epsaudit.adapters.functions import Mechanism, mechanism_of
from epsaudit.audits.question import claim_of, pairs_of
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.record import with_half_noise
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair, Pairs, Relation
from epsaudit.engine.copies import with_known_randomness
from epsaudit.engine.provenance import provenance
from epsaudit.engine.sampling import Progress
from epsaudit.errors import AuditError, PowerWarning, without_internals
from epsaudit.reporting.tables import failure, lines_of, told_apart, versions, weakness
from epsaudit.testing import counting
from epsaudit.testing.plugin import (
    ALARM,
    LEAST_FALSE_ALARM,
    PROPERTY,
    Terms,
    asking,
    certified,
    command_of,
    in_hypothesis,
    number_of,
    plain,
    reporting,
    salt_of,
    seed_of,
    terms_of,
)
from epsaudit.testing.replay import SHARE, Failures, Kept, replayed

QUIET_SECONDS = 3.0
"""Seconds of a check after which a terminal is told how far it is."""
LEAST_TELLING = 0.1
"""Parameters up to this are all alike to a check of a claim near 0; as in `epsaudit.audits.sequential.record`."""
KNOWN = (
    "this event refuted the claim in an earlier run, so it was tried first; pytest -p no:cacheprovider learns afresh"
)


class _Spent(TypedDict, total=False):
    runs: int | None
    seconds: float | None
    false_alarm: float | None


class _Claimed(_Spent, total=False):
    claim: Claim | None
    epsilon: float | None
    delta: float
    adjacency: Relation | None


class _Near(_Claimed, total=False):
    near: float | None


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
        self, mechanism: Mechanism | Callable[..., Any], pairs: Pairs | None = None, **asked: Unpack[_Near]
    ) -> SequentialResult: ...

    @overload
    def check(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        witness: str | Path,
        **spent: Unpack[_Spent],
    ) -> counting.Verdict: ...

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
    ) -> SequentialResult | counting.Verdict:
        """Fail the test if the mechanism provably leaks more than its claim; warn if it could not have been caught.

        Parameters
        ----------
        mechanism, pairs, claim, epsilon, delta, adjacency, near
            As for `epsaudit.audit_sequentially`.
        runs, seconds, false_alarm : optional
            In place of the marker's and the command line's.
        witness : path, optional
            A frozen test (`epsaudit freeze`), which holds a claim and most often the datasets, and is counted in place
            of an audit: nothing is learnt. It takes the runs of the file unless the terms say others.

        Returns
        -------
        SequentialResult, or `epsaudit.testing.frozen.Verdict` with ``witness``

        Raises
        ------
        AuditError
            If the claim, the pairs or the terms make no sense, or if nothing was tested, because the first thousand
            runs on both datasets raised the same exception, which is shown as the cause.
        """
        __tracebackhide__ = True
        asked = {"claim": claim, "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "near": near}
        call = _Call(mechanism, pairs, asked, {"runs": runs, "seconds": seconds, "false_alarm": false_alarm})
        return self._audit(call) if witness is None else self._count(call, Path(witness))

    @overload
    def must_fail(
        self, mechanism: Mechanism | Callable[..., Any], pairs: Pairs | None = None, **asked: Unpack[_Claimed]
    ) -> SequentialResult: ...

    @overload
    def must_fail(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        witness: str | Path,
        **spent: Unpack[_Spent],
    ) -> counting.Verdict: ...

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
        witness: str | Path | None = None,
    ) -> SequentialResult | counting.Verdict:
        """Fail the test unless `check` would fail: a positive control for a mechanism that is known to be bad.

        Parameters are those of `check`.
        """
        __tracebackhide__ = True
        asked = {"claim": claim, "epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        call = _Call(mechanism, pairs, asked, {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}, True)
        return self._audit(call) if witness is None else self._count(call, Path(witness))

    def _audit(self, call: _Call) -> SequentialResult:
        """Audit what is asked, after the event of an earlier failure; an error shows the user's code alone."""
        __tracebackhide__ = True
        asker = asking(self._config)
        try:
            number = number_of(asker, call.mechanism, call.pairs, *call.asked.values())
            check = f"{plain(asker.name)}:{'given' if in_hypothesis() else number}"  # known so from run to run
            terms = terms_of(self._config, asker, number, call.given)
            with _progress(self._config, terms) as step:
                tried = _Tried(terms) if call.control else self._try_first(call, terms, check, step)
                result = tried.result or audit_sequentially(
                    call.mechanism,
                    call.pairs,
                    **call.asked,
                    trials=terms.runs,
                    seconds=max(terms.seconds - tried.seconds, terms.seconds / 2.0),
                    confidence=tried.terms.confidence,
                    seed=terms.seed,
                    progress=step,
                )
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        terms = tried.terms
        ran = {**result.execution, "command": command_of(self._config, asker, terms)}
        named = dataclasses.replace(result, mechanism=plain(asker.name) + terms.which, execution=ran)
        certified(self._config, named)
        self._tell(call, result, tried)
        if result.violates_claim != call.control:
            pytest.fail(self._failure(call, result, tried, check), pytrace=False)
        if tried.over:
            self._failures.forget(check)
        telling = max(with_half_noise(result.claim) * result.proven, LEAST_TELLING)
        seen = result.detectable is not None and result.detectable <= telling  # by events as common as those seen
        if not seen and not call.control:
            warnings.warn(weakness(result, terms.seconds, telling), PowerWarning, stacklevel=3)
        return result

    def _try_first(self, call: _Call, terms: Terms, check: str, step: Callable[[Progress], None]) -> _Tried:
        """Count the event of an earlier failure in fresh runs, if there is one, for a share of the false alarms."""
        kept, said = (None, "") if reporting(self._config) else self._failures.of(check)
        if kept is None or SHARE * terms.false_alarm < LEAST_FALSE_ALARM:
            return _Tried(terms, said, over=bool(said))
        known, claim, listed = call.read()
        if why := kept.why_stale(claim, listed):
            if in_hypothesis():  # which shows every check other datasets
                return _Tried(terms)
            return _Tried(terms, f"the event kept of an earlier failure was ignored: {why}", over=True)
        seed = seed_of(asking(self._config).name, terms.number, salt_of(self._config), "replay", kept.text())
        first = dataclasses.replace(terms, share=SHARE, seed=seed)
        began, after = time.monotonic(), dataclasses.replace(terms, share=1.0 - SHARE)
        try:
            result, runs = replayed(
                kept,
                known,
                claim,
                next(pair for pair in listed if kept.is_of(pair)),
                trials=terms.runs,
                seconds=terms.seconds / 2.0,
                confidence=first.confidence,
                seed=first.seed,
                progress=step,
            )
        except AuditError as error:
            return _Tried(after, f"the event kept of an earlier failure was ignored: {error}", over=True)
        if result is not None:
            return _Tried(first, "the event of an earlier failure was tried first", result)
        said = f"the event of an earlier failure was tried first, in {runs:,} runs, and does not refute the claim now"
        return _Tried(after, said, None, time.monotonic() - began, over=True)

    def _failure(self, call: _Call, result: SequentialResult, tried: _Tried, check: str) -> str:
        """Say why the test fails, and keep what refuted the claim."""
        terms, pair = tried.terms, call.pair(result)
        sentence = f"{result.mechanism} leaks more than its claim of {result.claim}."
        if call.control:
            sentence = (
                f"{result.mechanism} must fail its privacy audit, and did not: {result.claim} was not refuted in "
                f"{result.runs:,} runs. This positive control shows nothing; give it more runs, a better pair, or a "
                "worse bug."
            )
        elif tried.result is None and pair is not None and self._failures.folder is not None:
            with contextlib.suppress(Exception):  # the failure is told, whatever becomes of its entry
                known = mechanism_of(call.mechanism, call.asked["adjacency"])
                known = with_known_randomness(known, pair, result.seed)
                if not getattr(known, "copies_repeat", False):  # else its next process might draw the very same noise
                    self._failures.keep(check, Kept.of(check, result, pair))
        seed = f"{terms.seed}, from the test's name" + (" and the event" if tried.result is not None else "")
        lines = [
            *([("check", f"number {terms.number} of this test")] if terms.which else []),
            *lines_of(result, pair, terms.level, terms.seconds),
            *([("before", KNOWN)] if tried.result is not None else []),
            ("seed", seed + ("" if result.reproducible else "; not reproducible")),
            versions(result.provenance),
        ]
        return failure(sentence, lines, command_of(self._config, asking(self._config), terms))

    def _count(self, call: _Call, witness: Path) -> counting.Verdict:
        """Run a frozen test on the terms given, and fail the test if it refutes its claim, a control if not."""
        __tracebackhide__ = True
        asker = asking(self._config)
        try:
            if beside := [name for name, value in call.asked.items() if value]:
                raise AuditError(
                    f"{witness} holds what it tests, and how; {' and '.join(beside)} cannot be given with it."
                )
            test = counting.read(witness)
            number = number_of(asker, call.mechanism, call.pairs, witness)
            terms = terms_of(self._config, asker, number, call.given, test.runs)
            test = dataclasses.replace(test, runs=terms.runs, false_alarm=terms.false_alarm)
            verdict = test.counted(call.mechanism, call.pairs, seed=terms.seed, seconds=terms.seconds)
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        said = f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {'caught' if verdict.refuted else 'passed'}"
        self._report(call, terms, f"{witness.name}, {verdict.runs:,} runs, {said}")
        if verdict.refuted != call.control:
            wrong = f"wrong with probability {terms.false_alarm:.2g}"
            told = told_apart(DatasetPair(test.x, test.x_prime)) if call.pairs is None else "that of the call"
            lines = [
                ("test", f"{witness}: {test.text}"),
                ("pair", told),
                ("counts", f"{verdict.runs:,} runs, {verdict.tally[0]:,} guessed right, {verdict.tally[1]:,} wrong"),
                ("certified", "nothing" if call.control else f"the claim does not hold, {wrong}"),
                ("seed", f"{terms.seed}, from the test's name"),
                versions(provenance()),
            ]
            sentence = "must refute this positive control, and did not" if call.control else "is failed"
            said = failure(f"The frozen test {witness.name} {sentence}.", lines, command_of(self._config, asker, terms))
            pytest.fail(said, pytrace=False)
        if verdict.doubt:
            warnings.warn(verdict.doubt, PowerWarning, stacklevel=3)
        return verdict

    def _tell(self, call: _Call, result: SequentialResult, tried: _Tried) -> None:
        terms, caught = tried.terms, result.violates_claim
        verdict = "caught" if caught else result.describe_detectable()
        if call.control:
            verdict = "caught, as it must be" if caught else "not caught"
        said = "; ".join([verdict, *([tried.said] if tried.said else []), *result.notes])
        what = f"{result.mechanism}, {result.claim}, {result.runs:,} runs, seed {terms.seed}"
        self._report(call, terms, f"{what}, false alarms {terms.false_alarm:.2g}: {said}")

    def _report(self, call: _Call, terms: Terms, said: str) -> None:
        asker = asking(self._config)
        print(line := f"{asker.name}{terms.which}: {said}")  # captured: -rP shows it beside the test, as a failure does
        alarm = 0.0 if call.control else terms.false_alarm  # a control fails if a bad mechanism gets by
        asker.item.user_properties += [(PROPERTY, line), (ALARM, alarm)]


@dataclass(frozen=True)
class _Call:
    """A check as it is called: what is audited and ``asked`` of it, the terms ``given``, and whether it must fail."""

    mechanism: Any
    pairs: Any
    asked: dict[str, Any]
    given: dict[str, Any]
    control: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.pairs, Iterator):  # which is read again
            object.__setattr__(self, "pairs", list(self.pairs))

    def read(self) -> tuple[Mechanism, Claim, list[DatasetPair]]:
        """What it is about, as an audit reads it: the mechanism, the claim, and the pairs in their order."""
        known, asked = mechanism_of(self.mechanism, self.asked["adjacency"]), self.asked
        return known, claim_of(known, asked["claim"], asked["epsilon"], asked["delta"]), pairs_of(known, self.pairs)

    def pair(self, result: SequentialResult) -> DatasetPair | None:
        """The pair that a result is about."""
        with contextlib.suppress(Exception):  # which would hide the failure that it is to describe
            return next(pair for pair in self.read()[2] if str(pair) == result.pair)
        return None


@dataclass(frozen=True)
class _Tried:
    """What the event of an earlier failure came to: the result if it refuted, the terms left, and a sentence."""

    terms: Terms
    said: str = ""
    result: SequentialResult | None = None
    seconds: float = 0.0
    over: bool = False
    """Whether a check that passes now removes the entry."""


@contextlib.contextmanager
def _progress(config: pytest.Config, terms: Terms) -> Iterator[Callable[[Progress], None]]:
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


def _folder(config: pytest.Config) -> Path | None:
    """Where refuted events are kept, beside what pytest's --lf knows; None with -p no:cacheprovider."""
    cache = getattr(config, "cache", None)
    with contextlib.suppress(OSError):
        return None if cache is None else Path(cache.mkdir("epsaudit"))
    return None

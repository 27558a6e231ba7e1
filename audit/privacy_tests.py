"""What the fixture ``privacy_audit`` gives a test: sequential audits under the test's terms, which fail, pass or warn.

A check fails with an explanation, or tells the terminal what it would have caught. Its terms are those of the call, the
marker and the command line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import pytest

from epsaudit import frozen
from epsaudit.adapters.functions import Mechanism, mechanism_of
from epsaudit.audits.question import claim_of, pairs_of
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.record import with_half_noise
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair, Pairs, Relation
from epsaudit.engine.sampling import Progress
from epsaudit.errors import AuditError, PowerWarning, without_internals
from epsaudit.privacy_terms import (
    LEAST_FALSE_ALARM,
    Terms,
    command_of,
    in_hypothesis,
    number_of,
    plain,
    salt_of,
    seed_of,
    terms_of,
)
from epsaudit.provenance import provenance
from epsaudit.pytest_plugin import ALARM, PROPERTY, asking, certified, reporting
from epsaudit.replay import SHARE, Failures, Kept, repeats_its_noise, replayed
from epsaudit.reporting.failures import failure, lines_of, told_apart, versions, weakness

QUIET_SECONDS = 3.0
"""Seconds of a check after which a terminal is told how far it is."""
KNOWN = (
    "this event refuted the claim in an earlier run, so it was tried first; pytest -p no:cacheprovider learns afresh"
)
LEAST_TELLING = 0.1
"""Parameters up to this are all alike to a check of a claim near 0; as in `epsaudit.audits.sequential.record`."""


@dataclass(frozen=True)
class _Tried:
    """What the event of an earlier failure came to: the result if it refuted, the terms left, and a sentence."""

    terms: Terms
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
        seconds: float | None = None,
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
            of an audit: nothing is learnt. It takes the runs of the file unless the terms say others.

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
            pair = self._pair(result, mechanism, pairs, asked)
            if tried.result is None and pair is not None:
                self._keep(check, result, mechanism, pair, asked)
            said = f"{result.mechanism} leaks more than its claim of {result.claim}."
            pytest.fail(self._failure(said, result, tried, pair), pytrace=False)
        if tried.over:
            self._failures.forget(check)
        telling = max(with_half_noise(result.claim) * result.proven, LEAST_TELLING)
        if result.detectable is None or result.detectable > telling:  # by events as common as those seen
            warnings.warn(weakness(result, terms.seconds, telling), PowerWarning, stacklevel=2)
        return result

    @overload
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
    ) -> SequentialResult: ...

    @overload
    def must_fail(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        runs: int | None = None,
        seconds: float | None = None,
        false_alarm: float | None = None,
        witness: str | Path,
    ) -> frozen.Verdict: ...

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
    ) -> SequentialResult | frozen.Verdict:
        """Fail the test unless `check` would fail: a positive control for a mechanism that is known to be bad.

        Parameters are those of `check`.
        """
        __tracebackhide__ = True
        asked = {"claim": claim, "epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        given = {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}
        if witness is not None:
            return self._count(mechanism, pairs, Path(witness), asked, given, control=True)
        result, tried, _ = self._audit(mechanism, pairs, asked, given, lambda terms, *_: _Tried(terms))
        terms = tried.terms
        self._tell(result, terms, "caught, as it must be" if result.violates_claim else "not caught", control=True)
        if not result.violates_claim:
            said = (
                f"{result.mechanism} must fail its privacy audit, and did not: {result.claim} was not refuted in "
                f"{result.runs:,} runs. This positive control shows nothing; give it more runs, a better pair, or a "
                "worse bug."
            )
            pytest.fail(self._failure(said, result, tried, self._pair(result, mechanism, pairs, asked)), pytrace=False)
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
            number = number_of(asker, mechanism, pairs, *asked.values())
            check = f"{plain(asker.name)}:{'given' if in_hypothesis() else number}"
            terms = terms_of(self._config, asker, number, given)
            with _progress(self._config, terms) as step:
                tried = before(terms, check, number, mechanism, pairs, asked, step)
                result = tried.result or audit_sequentially(
                    mechanism,
                    pairs,
                    **asked,
                    trials=terms.runs,
                    seconds=max(terms.seconds - tried.seconds, terms.seconds / 2.0),
                    confidence=tried.terms.confidence,
                    seed=terms.seed,
                    progress=step,
                )
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        name = plain(asker.name) + terms.which
        ran = {**result.execution, "command": command_of(self._config, asker, tried.terms)}
        certified(self._config, dataclasses.replace(result, mechanism=name, execution=ran))
        return result, tried, check

    def _try_first(
        self,
        terms: Terms,
        check: str,
        number: int,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None,
        asked: Mapping[str, Any],
        step: Callable[[Progress], None],
    ) -> _Tried:
        """Count the event of an earlier failure in fresh runs, if there is one, for a share of the false alarms."""
        kept, said = (None, "") if reporting(self._config) else self._failures.of(check)
        if kept is None or SHARE * terms.false_alarm < LEAST_FALSE_ALARM:
            return _Tried(terms, said, over=bool(said))
        known, claim, listed = _listed(mechanism, pairs, asked)
        if why := kept.why_stale(claim, listed):
            if in_hypothesis():  # which shows every check other datasets
                return _Tried(terms)
            return _Tried(terms, f"the event kept of an earlier failure was ignored: {why}", over=True)
        seed = seed_of(asking(self._config).name, number, salt_of(self._config), "replay", kept.text())
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

    def _keep(
        self, check: str, result: SequentialResult, mechanism: Any, pair: DatasetPair, asked: Mapping[str, Any]
    ) -> None:
        """Keep what refuted the claim, unless the next process might draw the very same noise."""
        if self._failures.folder is None:
            return
        with contextlib.suppress(Exception):  # the failure is told, whatever becomes of its entry
            known = mechanism_of(mechanism, asked["adjacency"])
            if not repeats_its_noise(known, pair, result.seed):
                self._failures.keep(check, Kept.of(check, result, pair))

    def _pair(
        self, result: SequentialResult, mechanism: Any, pairs: Pairs | None, asked: Mapping[str, Any]
    ) -> DatasetPair | None:
        """Return the pair that a result is about."""
        with contextlib.suppress(Exception):  # which would hide the failure that it is to describe
            return next(pair for pair in _listed(mechanism, pairs, asked)[2] if str(pair) == result.pair)
        return None

    def _failure(self, sentence: str, result: SequentialResult, tried: _Tried, pair: DatasetPair | None) -> str:
        terms = tried.terms
        seed = f"{terms.seed}, from the test's name" + (" and the event" if tried.result is not None else "")
        lines = [
            *([("check", f"number {terms.number} of this test")] if terms.which else []),
            *lines_of(result, pair, terms.level, terms.seconds),
            *([("before", KNOWN)] if tried.result is not None else []),
            ("seed", seed + ("" if result.reproducible else "; not reproducible")),
            versions(result.provenance),
        ]
        return failure(sentence, lines, command_of(self._config, asking(self._config), terms))

    def _count(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None,
        witness: Path,
        asked: Mapping[str, Any],
        given: Mapping[str, Any],
        control: bool = False,
    ) -> frozen.Verdict:
        """Run a frozen test on the terms ``given``, and fail the test if it refutes its claim, a control if not."""
        __tracebackhide__ = True
        asker = asking(self._config)
        try:
            beside = [name for name, value in asked.items() if value]
            if beside:
                raise AuditError(
                    f"{witness} holds what it tests, and how; {' and '.join(beside)} cannot be given with it."
                )
            test = frozen.read(witness)
            terms = terms_of(self._config, asker, number_of(asker, mechanism, pairs, witness), given, test.runs)
            test = dataclasses.replace(test, runs=terms.runs, false_alarm=terms.false_alarm)
            verdict = test.counted(mechanism, pairs, seed=terms.seed, seconds=terms.seconds)
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        said = f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {'caught' if verdict.refuted else 'passed'}"
        line = f"{asker.name}{terms.which}: {witness.name}, {verdict.runs:,} runs, {said}"
        self._report(line, 0.0 if control else terms.false_alarm)
        if verdict.refuted != control:
            wrong = f"wrong with probability {terms.false_alarm:.2g}"
            lines = [
                ("test", f"{witness}: {test.text}"),
                ("pair", told_apart(DatasetPair(test.x, test.x_prime)) if pairs is None else "that of the call"),
                ("counts", f"{verdict.runs:,} runs, {verdict.tally[0]:,} guessed right, {verdict.tally[1]:,} wrong"),
                ("certified", "nothing" if control else f"the claim does not hold, {wrong}"),
                ("seed", f"{terms.seed}, from the test's name"),
                versions(provenance()),
            ]
            command = command_of(self._config, asker, terms)
            sentence = "must refute this positive control, and did not" if control else "is failed"
            pytest.fail(failure(f"The frozen test {witness.name} {sentence}.", lines, command), pytrace=False)
        if verdict.doubt:
            warnings.warn(verdict.doubt, PowerWarning, stacklevel=3)
        return verdict

    def _tell(self, result: SequentialResult, terms: Terms, verdict: str, control: bool = False) -> None:
        self._report(
            f"{asking(self._config).name}{terms.which}: {result.mechanism}, {result.claim}, {result.runs:,} runs, "
            f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {'; '.join([verdict, *result.notes])}",
            0.0 if control else terms.false_alarm,  # a control fails if a bad mechanism gets by
        )

    def _report(self, line: str, alarm: float) -> None:
        print(line)  # captured: -rP shows it beside the test, as does a failure
        asking(self._config).item.user_properties += [(PROPERTY, line), (ALARM, alarm)]


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

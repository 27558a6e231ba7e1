"""What the fixture ``privacy_audit`` gives a test: sequential audits under the test's terms, which fail, pass or warn.

A check fails with an explanation, or tells the terminal what it would have caught. Its terms come from the call, the
marker and the command line, in this order; the least false-alarm probability counts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import shlex
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.record import with_half_noise
from epsaudit.audits.spec import MIN_TRIALS, check_pairs
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.data.candidates import relation_seen
from epsaudit.data.neighbours import DatasetPair, Pairs, Relation, adjacency_of, is_strategy
from epsaudit.errors import AuditError, PowerWarning, without_internals
from epsaudit.running.functions import mechanism_of
from epsaudit.running.identity import digest
from epsaudit.running.protocols import Mechanism
from epsaudit.running.provenance import provenance
from epsaudit.text import lower
from epsaudit.tools.reporting.tables import WIDTH, describe_pair
from epsaudit.tools.testing import frozen
from epsaudit.tools.testing.plugin import ALARM, ASKER, CERTIFIED, FALSE_ALARM, PROPERTY, RUNS, SECONDS, option, read

if TYPE_CHECKING:
    from epsaudit.tools.tracing import Trace

LEAST_TELLING = 0.1
"""Parameters up to this are all alike to a check of a claim near 0; as in `epsaudit.audits.sequential.record`."""
LEAST_FALSE_ALARM = 1e-15
"""Of one check: 1 minus less is hardly told from 1 in floating point."""


SHRINKING_SECONDS = 5.0
"""Of a failing check, for a simpler pair of its strategy. Set by hand, not measured."""


class PrivacyAudit:
    """The fixture ``privacy_audit``; the k-th check of a test gets 1 / (k (k + 1)) of its false-alarm probability."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def check(
        self,
        mechanism: Mechanism | Callable[..., Any] | None = None,
        pairs: Pairs | None = None,
        *,
        fresh: Callable[[], Callable[..., Any]] | None = None,
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
        mechanism, pairs, fresh, claim, epsilon, delta, adjacency, near
            As for `epsaudit.audit_sequentially`.
        runs, seconds, false_alarm : optional
            In place of the marker's and the command line's.
        witness : path, optional
            A frozen test (`epsaudit freeze`), which holds a claim and most often the datasets, and is counted in place
            of an audit: nothing is learnt. It takes the runs of the file unless the terms say others.

        Raises `AuditError` as audits do; an exception that every run raised is shown as the cause.
        """
        __tracebackhide__ = True
        asked: dict[str, Any] = {"fresh": fresh, "claim": claim, "epsilon": epsilon, "delta": delta}
        asked |= {"adjacency": adjacency, "near": near}
        asked |= {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}
        return self._judge(False, mechanism, pairs, witness, **asked)

    def must_fail(
        self,
        mechanism: Mechanism | Callable[..., Any] | None = None,
        pairs: Pairs | None = None,
        *,
        witness: str | Path | None = None,
        **asked: Any,
    ) -> SequentialResult | frozen.Verdict:
        """Fail the test unless `check`, whose parameters it takes, would: a control for what is known to be bad."""
        __tracebackhide__ = True
        return self._judge(True, mechanism, pairs, witness, **asked)

    def trace(
        self,
        function: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        adjacency: Relation | None = None,
        bits: bool = False,
        **claimed: Any,
    ) -> list[Trace]:
        """Fail the test with file and line if a private value of a pair gets past the noise, as `epsaudit.trace` says.

        ``claim``, or its numbers as for `check`, say what the noise is to pay for. It is no audit: a function that
        passes may leak.
        """
        __tracebackhide__ = True
        return self._traced(False, function, pairs, adjacency, bits, **claimed)

    def must_diverge(
        self, function: Mechanism | Callable[..., Any], pairs: Pairs | None = None, **asked: Any
    ) -> list[Trace]:
        """Fail the test unless `trace`, whose parameters it takes, would: a control for what is known to be bad."""
        __tracebackhide__ = True
        return self._traced(True, function, pairs, **asked)

    def _traced(
        self, must: bool, function: Any, pairs: Any, adjacency: Any = None, bits: bool = False, **claimed: Any
    ) -> list[Trace]:
        from epsaudit.tools.tracing import trace  # which others do without

        __tracebackhide__ = True
        asker = self._config.stash[ASKER]
        try:
            mechanism = mechanism_of(function, adjacency)
            asked: Any = {"claim": claim_given(**{"claim": None, **claimed}), "bits": bits}
            asked["seed"] = seed_of(asker.item.nodeid, 0, int(option(self._config, "seed") or 0))
            found = [trace(mechanism, one, **asked) for one in check_pairs(mechanism, pairs)]
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        print("\n".join(f"{asker.item.nodeid}: {one.sentence()}" for one in found))
        suspected = [one for one in found if one.suspicious]
        if suspected and not must:
            pytest.fail(f"{suspected[0].sentence()}\n\n{suspected[0]}", pytrace=False)
        if must and not suspected:
            pytest.fail(f"{found[0].name} must diverge, and {found[0].sentence()}.", pytrace=False)
        return found

    def _judge(
        self, must_fail: bool, mechanism: Any, pairs: Any, witness: str | Path | None, **asked: Any
    ) -> SequentialResult | frozen.Verdict:
        __tracebackhide__ = True
        asker, hypothesis = self._config.stash[ASKER], sys.modules.get("hypothesis")
        name = plain(asker.item.nodeid)
        given = {term: asked.pop(term, None) for term in ("runs", "seconds", "false_alarm")}
        try:
            if witness is not None and (beside := " and ".join(name for name, value in asked.items() if value)):
                raise AuditError(f"{witness} holds what it tests, and how; {beside} cannot be given with it.")
            test = None if witness is None else frozen.read(witness)
            number = asker.checks = asker.checks + 1
            if hypothesis is not None and hypothesis.currently_in_test_context():  # the different examples count
                number = asker.examples.setdefault(digest((mechanism, pairs, asked)), len(asker.examples) + 1)
            terms = terms_of(self._config, asker.item, number, given, RUNS if test is None else test.runs)
            options = [f"--privacy-runs={terms.runs}", f"--privacy-false-alarm={terms.test_false_alarm!r}"]
            options += [f"--privacy-seconds={terms.seconds:g}"] * (terms.seconds != SECONDS)
            options += [f"--privacy-seed={terms.salt}"] * bool(terms.salt)
            command = shlex.join(["pytest", name, *options])  # that runs the test again on the same terms
            if test is None:
                told = _audited(terms, must_fail, mechanism, pairs, **asked)
            else:
                told = _counted(test, Path(str(witness)), terms, mechanism, pairs, must_fail)
        except AuditError as error:
            raise without_internals(error) from error.__cause__

        if isinstance(told.result, SequentialResult):
            ran = {**told.result.execution, "command": command}
            kept = dataclasses.replace(told.result, mechanism=name + terms.which, execution=ran)
            self._config.stash[CERTIFIED][kept.mechanism] = kept
        print(line := f"{asker.item.nodeid}{terms.which}: {told.said}")  # captured: -rP shows it, as a failure does
        alarm = 0.0 if must_fail else terms.false_alarm  # a control fails if a bad mechanism gets by
        asker.item.user_properties += [(PROPERTY, line), (ALARM, alarm)]
        if told.caught != must_fail:
            # indented by four columns, so that it pastes into an issue: Markdown shows the lines as they stand
            how: dict[str, Any] = {"subsequent_indent": " " * 15, "break_long_words": False, "break_on_hyphens": False}
            lines = [
                textwrap.fill(said, WIDTH, initial_indent=f"    {label:<10} ", **how) for label, said in told.lines
            ]
            lines.append(f"    {'reproduce':<10} {command}")  # in one line, for copying
            pytest.fail("\n".join([textwrap.fill(told.failure, WIDTH), "", *lines]), pytrace=False)
        if told.doubt and not must_fail:
            warnings.warn(told.doubt, PowerWarning, stacklevel=3)
        return told.result


@dataclass(frozen=True)
class _Outcome:
    result: SequentialResult | frozen.Verdict
    caught: bool
    said: str
    failure: str
    lines: list[tuple[str, str]]
    doubt: str


def _audited(
    terms: Terms,
    must_fail: bool,
    mechanism: Any,
    pairs: Any,
    fresh: Callable[[], Callable[..., Any]] | None = None,
    adjacency: Relation | None = None,
    **claimed: Any,
) -> _Outcome:
    mechanism = mechanism_of(mechanism, adjacency, fresh)
    drawn = is_strategy(pairs)
    pairs = check_pairs(mechanism, pairs)
    asked: Any = {"trials": terms.runs, "seconds": terms.seconds, "confidence": terms.confidence, "seed": terms.seed}
    result = audit_sequentially(mechanism, pairs, **claimed, **asked)
    verdict = "caught" if result.violates_claim else result.describe_detectable()
    sentence = f"{result.mechanism} leaks more than its claim of {result.claim}."
    if must_fail:
        verdict = "caught, as it must be" if result.violates_claim else "not caught"
        sentence = (
            f"{result.mechanism} must fail its privacy audit, and did not: {result.claim} was not refuted in "
            f"{result.runs:,} runs. This positive control shows nothing; give it more runs, a better pair, or a worse "
            "bug."
        )
    symbol, pair = result.claim.symbol, result.among(pairs)
    above = ">" if result.violates_claim else ">="  # what is refuted is not attained either
    in_time = f", all that fitted into {terms.seconds:g} seconds," if result.stopped == "seconds" else ""
    lines = [
        *([("check", f"number {terms.number} of this test")] if terms.which else []),
        ("claim", f"{result.claim}: {symbol} = {result.proven:.6g}"),
        ("certified", f"{symbol} {above} {lower(result.lower_bound)}, wrong with probability {terms.false_alarm:.2g}"),
        ("pair", f"x = {result.x}, x' = {result.x_prime}" if pair is None else describe_pair(pair)),
        ("event", str(result.witness)),
        ("counts", f"{result.describe_counts()} (the last rounds)"),
        ("evidence", result.describe_evidence()),
        ("runs", f"{result.runs:,} of at most {result.trials:,}{in_time.rstrip(',')}"),
        *([] if result.violates_claim else [("reach", result.describe_detectable())]),
        *(("note", note) for note in result.notes),
        *(_simpler(pairs, mechanism, result, terms.seed) if drawn else []),
        ("seed", f"{terms.seed}, from the test's name{'' if result.reproducible else '; not reproducible'}"),
        ("versions", _versions(result.provenance)),
    ]
    telling = max(with_half_noise(result.claim) * result.proven, LEAST_TELLING)
    seen = result.detectable is not None and result.detectable <= telling  # by events as common as those seen
    doubt = (
        f"The check of {result.mechanism} passed, but could hardly have failed: {result.runs:,} runs{in_time} do not "
        f"show {symbol} = {telling:.4g} where {result.claim} is claimed. It {result.describe_detectable()}. Give it "
        "more runs or seconds, or a more telling pair."
    )
    said = (
        f"{result.mechanism}, {result.claim}, {result.runs:,} runs{in_time or ','} seed {terms.seed}, "
        f"false alarms {terms.false_alarm:.2g}: {'; '.join([verdict, *result.notes])}"
    )
    return _Outcome(result, result.violates_claim, said, sentence, lines, "" if seen else doubt)


def _simpler(
    drawn: Sequence[DatasetPair], mechanism: Mechanism, result: SequentialResult, seed: int
) -> Iterator[tuple[str, str]]:
    """Yield a simpler pair that leaks, too, no smaller than a strategy's; it is audited at 99 %, and not certified."""
    relation, pair = adjacency_of(mechanism.adjacency) or relation_seen(drawn), result.among(drawn)
    if pair is None or relation is None or not result.violates_claim:
        return
    from epsaudit.tools.hunting.description import Candidate  # whoever passes does without
    from epsaudit.tools.hunting.shrinking import shrink

    asked: Any = {"claim": result.claim, "trials": max(MIN_TRIALS, 4 * result.runs), "confidence": 0.99, "seed": seed}

    def leaks(one: Candidate) -> bool:
        small = min(len(one.pair.x), len(one.pair.x_prime)) < least
        return not small and audit_sequentially(mechanism, [one.pair], **asked).violates_claim

    with suppress(AuditError, TypeError):  # datasets without a length, or equal ones
        least = min(len(dataset) for one in drawn for dataset in (one.x, one.x_prime))
        found, _ = shrink(Candidate(pair, (relation,), ""), leaks, until=time.perf_counter() + SHRINKING_SECONDS)
        if found.pair is not pair:
            yield "simpler", describe_pair(found.pair)


def _counted(
    test: frozen.FrozenTest, witness: Path, terms: Terms, mechanism: Any, pairs: Any, must_fail: bool
) -> _Outcome:
    test = dataclasses.replace(test, runs=terms.runs, false_alarm=terms.false_alarm)
    verdict = test.counted(mechanism, pairs, seed=terms.seed, seconds=terms.seconds)
    wrong = f"wrong with probability {terms.false_alarm:.2g}"
    lines = [
        ("test", f"{witness}: {test.text}"),
        ("pair", describe_pair(DatasetPair(test.x, test.x_prime)) if pairs is None else "that of the call"),
        ("counts", f"{verdict.runs:,} runs, {verdict.tally[0]:,} guessed right, {verdict.tally[1]:,} wrong"),
        ("certified", "nothing" if must_fail else f"the claim does not hold, {wrong}"),
        ("seed", f"{terms.seed}, from the test's name"),
        ("versions", _versions(provenance())),
    ]
    sentence = "must refute this positive control, and did not" if must_fail else "is failed"
    said = (
        f"{witness.name}, {verdict.runs:,} runs, seed {terms.seed}, false alarms {terms.false_alarm:.2g}: "
        f"{'caught' if verdict.refuted else 'passed'}"
    )
    return _Outcome(verdict, verdict.refuted, said, f"The frozen test {witness.name} {sentence}.", lines, verdict.doubt)


def _versions(known: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {known[name]}" for name in ("epsaudit", "numpy", "scipy", "python") if name in known)


@dataclass(frozen=True)
class Terms:
    """What one audit may spend, how often the test and this check of it may be wrong, and its seed."""

    runs: int
    seconds: float
    test_false_alarm: float
    false_alarm: float
    seed: int
    number: int = field(default=1, repr=False)
    """Of the check among those of its test."""
    salt: int = field(default=0, repr=False)
    """What --privacy-seed mixes into every seed."""

    @property
    def which(self) -> str:
        return f", check {self.number}" if self.number > 1 else ""

    @property
    def confidence(self) -> float:
        """1 - false_alarm, rounded up: no more false alarms than allowed."""
        confidence = 1.0 - self.false_alarm
        return confidence if 1.0 - confidence <= self.false_alarm else math.nextafter(confidence, 1.0)


def terms_of(config: pytest.Config, item: pytest.Item, number: int, given: Mapping[str, Any], runs: int) -> Terms:
    """The call's terms before the marker's before the command line's before ``runs``; the least false alarms."""
    marker = item.get_closest_marker("privacy_audit")
    marked, others = (marker.kwargs, list(marker.args)) if marker is not None else ({}, [])
    if unknown := sorted(set(marked) - {"runs", "seconds", "false_alarm"}) or others:
        takes = "The marker privacy_audit takes runs=, seconds= and false_alarm="
        raise pytest.UsageError(f"{takes}; {unknown} was given.")
    said = {name: read(name, value, name) for name, value in given.items() if value is not None}
    for name, value in marked.items():
        if value is not None:
            said.setdefault(name, read(name, value, f"{name} of the marker privacy_audit"))
    ceilings = said.get("false_alarm"), option(config, "false-alarm")
    test_alarm = min((value for value in ceilings if value is not None), default=FALSE_ALARM)
    alarm = test_alarm / (number * (number + 1))
    if alarm < LEAST_FALSE_ALARM:
        left = f"The false-alarm probability left for check {number} of this test is {alarm:.2g}"
        must = f"it must be at least {LEAST_FALSE_ALARM:g}. Allow the test more false alarms, or divide it."
        raise AuditError(f"{left}; {must}")
    salt = int(option(config, "seed") or 0)
    return Terms(
        int(said.get("runs") or option(config, "runs") or runs),
        float(said.get("seconds") or option(config, "seconds") or SECONDS),
        test_alarm,
        alarm,
        seed_of(item.nodeid, number, salt),
        number,
        salt,
    )


def seed_of(name: str, check: int, salt: int) -> int:
    """Seed of one check of a test: a hash of the test's name, so that it is the same on every machine."""
    text = f"{salt}:{plain(name)}:{check}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def plain(node_id: str) -> str:
    """The node id without the '@group' that pytest-xdist's loadgroup adds to it; folders and parameters keep theirs."""
    name = max(node_id.rfind("::"), node_id.rfind("]"), 0)
    return node_id[:name] + node_id[name:].partition("@")[0]

"""The outcomes of checks: the audit or the frozen test that a check runs, and the texts that report its result."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.record import StrategyRecord, with_half_noise
from epsaudit.audits.spec import MIN_TRIALS, check_pairs
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import Claim
from epsaudit.data.candidates import common_relation
from epsaudit.data.neighbours import DatasetPair, Relation, adjacency_of, is_strategy
from epsaudit.errors import AuditError
from epsaudit.running.functions import mechanism_of
from epsaudit.running.protocols import Mechanism
from epsaudit.running.provenance import provenance
from epsaudit.text import lower
from epsaudit.tools.reporting.tables import describe_pair
from epsaudit.tools.testing import frozen
from epsaudit.tools.testing.terms import CheckTerms
from epsaudit.witnesses.events import Witness

MAX_SHRINKING_SECONDS = 5.0
"""[chosen] Time limit in seconds for a failing check to look for a simpler pair of its strategy."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one privacy check in a pytest test, with the texts that report it."""

    result: SequentialResult | frozen.Verdict
    caught: bool
    """Whether the check refuted the claim."""
    summary: str
    """One line for the terminal."""
    failure: str
    """First sentence of the failure message."""
    details: list[tuple[str, str]]
    """Labels and texts of the lines below that sentence."""
    doubt: str
    """Warning for a check that passed but could hardly have failed, or ''."""


def audit_outcome(
    terms: CheckTerms,
    must_fail: bool,
    mechanism: Any,
    pairs: Any,
    fresh: Callable[[], Callable[..., Any]] | None = None,
    adjacency: Relation | None = None,
    **claimed: Any,
) -> Outcome:
    """Audit a mechanism sequentially with the settings ``terms`` of a check, and return the outcome with its texts.

    ``must_fail`` says whether the check is a positive control, for which the texts differ. ``claimed`` contains the
    claim and further arguments of `audit_sequentially`.
    """
    mechanism = mechanism_of(mechanism, adjacency, fresh)
    drawn = is_strategy(pairs)
    pairs = check_pairs(mechanism, pairs)
    asked: Any = {"trials": terms.runs, "seconds": terms.seconds, "confidence": terms.confidence, "seed": terms.seed}
    result = audit_sequentially(mechanism, pairs, **claimed, **asked, progress=False)
    verdict = "caught" if result.violates_claim else result.describe_detectable()
    longest = longest_round(result)
    often = describe_frequencies(longest.witness, longest.counts, result.claim)
    sentence = f"{result.mechanism} leaks more than its claim of {result.claim}{f': {often}' if often else ''}."
    if must_fail:
        verdict = "caught, as it must be" if result.violates_claim else "not caught"
        sentence = (
            f"{result.mechanism} must fail its privacy audit, and did not: {result.claim} was not refuted in "
            f"{result.runs:,} runs. This positive control shows nothing; give it more runs, a better pair, or a worse "
            "bug."
        )
    symbol, pair = result.claim.symbol, result.find_pair(pairs)
    above = ">" if result.violates_claim else ">="  # a refuted value is exceeded
    in_time = f", all that fitted into {terms.seconds:g} seconds," if result.stopped == "seconds" else ""
    lines = [
        *([("check", f"number {terms.number} of this test")] if terms.which else []),
        ("pair", f"x = {result.x}, x' = {result.x_prime}" if pair is None else describe_pair(pair)),
        ("event", str(longest.witness)),
        ("counts", f"{longest.witness.describe(longest.counts)} (the longest round)"),
        ("claim", f"{result.claim}: {symbol} = {result.proven:.6g}"),
        ("certified", f"{symbol} {above} {lower(result.lower_bound)}, wrong with probability {terms.false_alarm:.2g}"),
        ("evidence", result.describe_evidence()),
        ("runs", f"{result.runs:,} of at most {result.trials:,}{in_time.rstrip(',')}"),
        *([] if result.violates_claim else [("reach", result.describe_detectable())]),
        *(("note", note) for note in result.notes),
        *(_simpler_pair(pairs, mechanism, result, terms.seed) if drawn else []),
        ("seed", f"{terms.seed}, from the test's name{'' if result.reproducible else '; not reproducible'}"),
        ("versions", _format_versions(result.provenance)),
    ]
    smallest = max(with_half_noise(result.claim) * result.proven, frozen.MIN_DETECTABLE)
    seen = result.detectable is not None and result.detectable <= smallest  # by events as frequent as the observed ones
    doubt = (
        f"The check of {result.mechanism} passed, but could hardly have failed: {result.runs:,} runs{in_time} do not "
        f"show {symbol} = {smallest:.4g} where {result.claim} is claimed. It {result.describe_detectable()}. Give it "
        "more runs or seconds, or a more telling pair."
    )
    said = (
        f"{result.mechanism}, {result.claim}, {result.runs:,} runs{in_time or ','} seed {terms.seed}, "
        f"false alarms {terms.false_alarm:.2g}: {'; '.join([verdict, *result.notes])}"
    )
    return Outcome(result, result.violates_claim, said, sentence, lines, "" if seen else doubt)


def longest_round(result: SequentialResult) -> StrategyRecord:
    """Return the record of the winning strategy in the longest round of betting on the last pair.

    A sequential audit bets in rounds. The longest round shows the frequencies of the event most accurately. The last
    round tends to exaggerate their difference, because it ends as soon as the wealth suffices.
    """
    last = result.rounds[-1]
    on_pair = [one for one in result.rounds if (one.pair, one.digest) == (last.pair, last.digest)]
    return max(on_pair, key=lambda one: one.runs).strategies[result.best]


def describe_frequencies(witness: Witness, counts: Counts, claim: Claim) -> str:
    """Return a clause on how much more often an event occurred on one dataset than on the other.

    It also says which ratio the claim allows. ``witness`` has up to two events, one that indicates x and one that
    indicates x'; the event with the larger ratio is described. Return an empty text if the ratio is within the claim.

    >>> from epsaudit import PureDP
    >>> from epsaudit.witnesses.events import Interval, Region
    >>> from epsaudit.witnesses.parts import Value
    >>> witness = Witness(Region(Value(), (Interval(-math.inf, 1.0, False, True),)), None)
    >>> describe_frequencies(witness, Counts(490, 530, 263, 43, 0, 0, events=1), PureDP(1.0))
    "{y <= 1} was seen 6.6 times as often on x as on x' (263 of 490 runs against 43 of 530), and 1-DP allows 2.7 times"
    """
    runs = {"x": int(counts.runs_x), "x'": int(counts.runs_x_prime)}
    seen = [
        (witness.guess_x, "x", "x'", counts.guess_x_on_x, counts.guess_x_on_x_prime),
        (witness.guess_x_prime, "x'", "x", counts.guess_x_prime_on_x_prime, counts.guess_x_prime_on_x),
    ]
    rates = [
        ((likely + 1) / (runs[on] + 2) / ((rare + 1) / (runs[other] + 2)), event, on, other, int(likely), int(rare))
        for event, on, other, likely, rare in seen
        if event is not None and runs[on] and runs[other]
    ]
    if not rates:
        return ""
    _, event, on, other, likely, rare = max(rates, key=lambda rate: rate[0])
    rate = max(rare, 1) / runs[other]
    ratio, allowed = likely / runs[on] / rate, float(claim.greatest(rate)) / rate
    if ratio <= allowed:
        return ""
    numbers = f"{likely:,} of {runs[on]:,} runs against {rare:,} of {runs[other]:,}"
    how = f"{_times(ratio)} as often on {on} as on {other} ({numbers})"
    if not rare:
        how = f"in {likely:,} of {runs[on]:,} runs on {on} and in none of {runs[other]:,} on {other}"
    return f"{event} was seen {how}, and {claim} allows {_times(allowed)}"


def _times(ratio: float) -> str:
    return f"{ratio:,.{0 if ratio >= 10.0 else 1}f} times"


def _simpler_pair(
    drawn: Sequence[DatasetPair], mechanism: Mechanism, result: SequentialResult, seed: int
) -> Iterator[tuple[str, str]]:
    """Look for a simpler pair of datasets on which the claim is refuted, too, for the failure message.

    Yields the label and the text of one line, or nothing if no simpler pair is found within the time limit. The
    datasets keep at least as many records as the smallest dataset that the hypothesis strategy drew. The audit of the
    simpler pair has a confidence of 0.99 only and certifies no bound.
    """
    relation, pair = adjacency_of(mechanism.adjacency) or common_relation(drawn), result.find_pair(drawn)
    if pair is None or relation is None or not result.violates_claim:
        return
    from epsaudit.tools.hunting.candidate import Candidate  # imported only by failing checks
    from epsaudit.tools.hunting.shrinking import shrink

    asked: Any = {"claim": result.claim, "trials": max(MIN_TRIALS, 4 * result.runs), "confidence": 0.99, "seed": seed}

    def leaks(one: Candidate) -> bool:
        small = min(len(one.pair.x), len(one.pair.x_prime)) < least
        return not small and audit_sequentially(mechanism, [one.pair], **asked, progress=False).violates_claim

    with suppress(AuditError, TypeError):  # datasets without a length, or equal ones
        least = min(len(dataset) for one in drawn for dataset in (one.x, one.x_prime))
        found, _ = shrink(Candidate(pair, (relation,), ""), leaks, until=time.perf_counter() + MAX_SHRINKING_SECONDS)
        if found.pair is not pair:
            yield "simpler", describe_pair(found.pair)


def frozen_outcome(
    test: frozen.FrozenTest, witness: Path, terms: CheckTerms, mechanism: Any, pairs: Any, must_fail: bool
) -> Outcome:
    """Run a frozen test with the number of runs and the false-alarm probability of ``terms``; return the outcome.

    ``witness`` is the path of the test's file. ``must_fail`` says whether the check is a positive control, for which
    the texts differ.
    """
    test = dataclasses.replace(test, runs=terms.runs, false_alarm=terms.false_alarm)
    verdict = test.count(mechanism, pairs, seed=terms.seed, seconds=terms.seconds)
    wrong = f"wrong with probability {terms.false_alarm:.2g}"
    lines = [
        ("test", f"{witness}: {test.text}"),
        ("pair", describe_pair(DatasetPair(test.x, test.x_prime)) if pairs is None else "that of the call"),
        ("counts", f"{verdict.runs:,} runs, {verdict.counts.correct:,} guessed right, {verdict.counts.wrong:,} wrong"),
        ("certified", "nothing" if must_fail else f"the claim does not hold, {wrong}"),
        ("seed", f"{terms.seed}, from the test's name"),
        ("versions", _format_versions(provenance())),
    ]
    sentence = f"refuted the claim: {_describe_guesses(verdict)}"
    if must_fail:
        sentence = "must refute this positive control, and did not"
    said = (
        f"{witness.name}, {verdict.runs:,} runs, seed {terms.seed}, false alarms {terms.false_alarm:.2g}: "
        f"{'caught' if verdict.refuted else 'passed'}"
    )
    return Outcome(verdict, verdict.refuted, said, f"The frozen test {witness.name} {sentence}.", lines, verdict.doubt)


def _describe_guesses(verdict: frozen.Verdict) -> str:
    """Return a clause on the result of a frozen test: how many guesses were right and wrong, and the allowed odds."""
    counts, test = verdict.counts, verdict.test
    correct, wrong = int(counts.correct), int(counts.wrong)
    by_delta = test.delta * test.events / 2.0 * verdict.runs / max(correct + wrong, 1)  # theory.md#membership-game
    fair = 1.0 / (1.0 + math.exp(-test.epsilon))
    allowed = fair + min(by_delta, 1.0) * (1.0 - fair)
    odds = f"{correct / max(wrong, 1):.1f}"
    most = f"{allowed / (1.0 - allowed):.1f}" if allowed < 1.0 else "any number"
    return (
        f"{correct:,} guesses of the dataset were right, {wrong:,} wrong, {odds} to 1, and {test.claim} allows {most}"
    )


def _format_versions(known: Mapping[str, str]) -> str:
    """Return a text with the versions of epsaudit, NumPy, SciPy and Python, as far as ``known`` contains them."""
    return ", ".join(f"{name} {known[name]}" for name in ("epsaudit", "numpy", "scipy", "python") if name in known)

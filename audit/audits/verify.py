"""Verification of stored results: bounds are computed again from the counts, and impossible counts are found.

If a result is reported as impossible, no audit can have produced it, or an audit produces it with a probability below
1e-9. A result that passes may still be invented. For example, no file shows that events were learnt from other runs, or
that the seed was not chosen for its bound.
"""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.fixed import audit
from epsaudit.audits.many_runs import ManyRunsResult, tried_ranks
from epsaudit.audits.one_run import OneRunResult, stored_counts
from epsaudit.audits.sequential import SequentialResult, refuse_if_irrefutable
from epsaudit.audits.sequential.game import N_STRATEGIES
from epsaudit.audits.spec import MIN_TRIALS
from epsaudit.bounds.certificates import Box, Counts, MembershipGame
from epsaudit.bounds.one_run import GuessBound
from epsaudit.claims.definitions import Claim
from epsaudit.codec import fields_to_json
from epsaudit.errors import AuditError, clipped, confidence_of
from epsaudit.outputs.arrays import pack
from epsaudit.results import compare
from epsaudit.results.result import AuditResult, Result, read_file
from epsaudit.running.copies import CopyTest
from epsaudit.running.registry import Entry
from epsaudit.running.runs import exact_parameter
from epsaudit.text import lower, percent, visible
from epsaudit.witnesses.events import Region, Witness
from epsaudit.witnesses.parts import VALUE

StoredResult = AuditResult | SequentialResult | OneRunResult | ManyRunsResult
TOLERANCE = 1e-9
"""[chosen] Relative difference that is ignored, because another version of scipy may cause it."""
CHANGE_LEVEL = 0.01
"""[chosen] Probability of a report that a mechanism has changed, if the mechanism has not changed and no seed
reproduces its outputs."""
MAX_RUNS = 2**62
"""[chosen] Upper limit on a number of runs: larger than any audit, and small enough that numpy does not overflow."""
MIN_FAIR_CHANCE = 1e-12
"""[chosen] Counts are impossible if fair coins produce such a split with a smaller probability than this."""
EXACT_VALUE = "the exact value"
DESCRIPTIONS = (
    "what only describes: names, datasets, the verdict expected, provenance, and whether the seed gives it again"
)
UNCHECKED: dict[type, str] = {
    AuditResult: "that the seed gives these counts, of events chosen before them",
    SequentialResult: "that the seed gives these counts, and that events and rates were learnt from the rounds before",
    OneRunResult: "that the coins were fair, the scores those of one run with them, and the rule fixed before it",
    ManyRunsResult: "that these were independent runs, or canaries declared independent, and their scores these",
}
"""For each kind of result, what a file alone does not show, beside `EXACT_VALUE` and `DESCRIPTIONS`."""


@dataclass(frozen=True)
class Verification:
    """The outcome of the verification of one stored result."""

    result: StoredResult
    """The result, with bounds computed from the stored counts, or from counts of a new run with the same seed."""
    differences: tuple[str, ...]
    """Sentences that each state a difference from the stored result."""
    how: str
    """How the result was verified: recomputed, or run again."""
    unchecked: tuple[str, ...]
    """What the verification could not check."""
    possible: bool = True
    """Whether an audit can have produced the stored numbers. If not, no bound follows from them."""

    @property
    def holds(self) -> bool:
        """Whether the verification found no difference."""
        return not self.differences


def rebuild(stored: dict[str, Any]) -> StoredResult:
    """Return the result of any kind of audit from its JSON object; raise `AuditError` if it is not a result."""
    kinds: dict[Any, type[StoredResult]] = {None: AuditResult, "sequential": SequentialResult, "one-run": OneRunResult}
    kinds["many-runs"] = ManyRunsResult
    if not isinstance(kind := stored.get("kind"), str | None) or kind not in kinds:
        raise AuditError(f"kind is {kind!r}; it must be 'sequential', 'one-run' or 'many-runs', or absent.")
    return kinds[kind].from_dict(stored)


def recompute(stored: dict[str, Any], entry: Entry | None = None) -> Verification:
    """Compute everything that follows from the counts of a stored result, and check that the counts are possible.

    If the result has the name of the registered ``entry``, it must have the entry's claim. If the entry has the pair of
    the result and knows the output laws, the exact value is computed, and a bound above the exact value is reported.
    Raises `AuditError` if the JSON object is not a result.

    >>> from epsaudit import PureDP, audit_scores
    >>> stored = audit_scores([True, False] * 10, range(20), claim=PureDP(1.0), seed=1).to_dict()
    >>> recompute(stored).holds, recompute({**stored, "lower_bound": 2.0}).holds
    (True, False)
    """
    result = rebuild(stored)
    differences, possible = _find_differences(result, stored)
    unchecked, how = [UNCHECKED[type(result)], DESCRIPTIONS], "recomputed from its counts"
    if isinstance(result, OneRunResult) and (chosen := stored_counts.describe_unverified_choice(result)) is not None:
        unchecked.append(chosen)
    if isinstance(result, ManyRunsResult) and not result.counts[0].by_rank:
        unchecked.append(f"that the threshold {result.counts[0].threshold:g} was fixed before the scores were seen")
    if possible and isinstance(result, AuditResult) and result.training_runs == 0:
        differences.append(
            f"No run chose the event, and {result.runs:,} counted it: no audit has such sizes. It is a recount, to be "
            "compared with what it recounts; nothing shows that its seed and size were not chosen for the bound."
        )
    if entry is not None and entry.name == result.mechanism and entry.claim != result.claim:
        differences.append(f"The claim is {result.claim}; {entry.name} is registered with {entry.claim}.")
    exact = None
    if (
        entry is not None
        and not isinstance(result, OneRunResult | ManyRunsResult)
        and (pair := result.find_pair(entry.all_pairs()))
    ):
        exact = exact_parameter(result.claim, (entry.mechanism(pair.x), entry.mechanism(pair.x_prime)))
    if exact is not None:
        how += " and laws"
        if result.exact is not None and not _agree(result.exact, exact):
            differences.append(f"exact is stored as {result.exact!r}, and is {exact!r} by the mechanism's laws.")
        if possible and result.lower_bound > exact * (1.0 + TOLERANCE) and getattr(result, "families", "") != "all":
            differences.append(
                f"BEYOND THE TRUTH: the lower bound, {result.lower_bound:.6g}, exceeds the exact value of this pair, "
                f"{exact:.6g}. Of bounds at {percent(result.confidence)} confidence a share of at most "
                f"{1 - result.confidence:.3g} does: the seed or the event may have been chosen for it."
            )
    elif result.exact is not None:
        unchecked.append(EXACT_VALUE)
    return Verification(result, tuple(differences), how, tuple(unchecked), possible)


def _find_differences(
    result: StoredResult, stored: dict[str, Any], names: list[str] | None = None
) -> tuple[list[str], bool]:
    """Return sentences about fields that are not as stored, and whether an audit can have produced the counts.

    With ``names`` only these fields are compared.
    """
    try:
        if differences := find_impossible(result):
            return differences, False
        computed = fields_to_json(result, names) if names else result.to_dict()
    except AuditError:
        raise
    except Exception as error:  # the schema does not check the fields of events
        what = f"{type(error).__name__} ({error})"
        raise AuditError(f"Some field of the result of {result.mechanism} is malformed: {what}.") from error
    said = {name: f"stored as {_format_json(stored[name])}" if name in stored else "absent" for name in computed}
    return [
        f"{name} is {said[name]}, and is {_format_json(value)} by the counts."
        for name, value in computed.items()
        if name not in stored or not _agree(stored[name], value)
    ], True


def rerun(stored: dict[str, Any], entry: Entry, n_jobs: int | None = None) -> Verification:
    """Audit the mechanism again from the stored seed, and compare everything that the seed determines.

    A result with differences according to `recompute` is not run again. If the mechanism uses randomness of its own,
    no seed reproduces the counts. In this case the stored event is counted in new runs, and Fisher's exact test
    compares the counts; it reports a change of an unchanged mechanism with probability at most 1 %.
    """
    found = recompute(stored, entry)
    before = found.result
    if not found.holds:
        return found
    if not isinstance(before, AuditResult):
        raise AuditError(f"{before.mechanism} was not audited by epsaudit.audit; it can be recomputed, not run again.")
    pairs = entry.all_pairs()
    mechanism = CopyTest(entry.mechanism, pairs[0], before.trials).mechanism if pairs else entry.mechanism
    if not (before.reproducible or getattr(mechanism, "reproducible", True)):  # the file alone is not trusted
        pair, seed = before.find_pair(pairs), before.seed + 1
        counted = compare.recount(before, entry.mechanism, pair, seed=seed, n_jobs=n_jobs)
        p_value = compare.fisher_p_value(before, counted)
        then, now = before.describe_counts(), counted.describe_counts()
        changed = f"The event was counted as {then}, and is counted as {now} now: p = {p_value:.2g}, beyond chance."
        how = f"its event counted again ({before.claim.symbol} >= {lower(counted.lower_bound)}), p = {p_value:.2g}"
        return Verification(before, (changed,) * (p_value <= CHANGE_LEVEL), how, found.unchecked)
    if before.families == "hunt":
        raise AuditError(f"{before.mechanism} was hunted, not audited by epsaudit.audit; it can only be recomputed.")
    if before.families == "own":
        raise AuditError(f"{before.mechanism} was audited with families of its own, which a result file does not hold.")
    asked: Any = {name: getattr(before, name) for name in ("claim", "trials", "confidence", "seed")}
    after = audit(entry.mechanism, entry.pairs, **asked, n_jobs=n_jobs, witnesses=before.families)
    expected, fresh = before.to_dict(), after.to_dict()
    changes = [
        f"{name} was {_format_json(expected[name])}, and is {_format_json(fresh[name])} now."
        for name in expected
        if name not in ("mechanism", "expected", "provenance") and not _agree(expected[name], fresh[name])
    ]
    return Verification(after, tuple(changes), f"run again from seed {before.seed}", (DESCRIPTIONS,))


def _agree(stored: Any, computed: Any) -> bool:
    """Return whether two JSON values are equal, with floats compared up to `TOLERANCE`."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        return stored.keys() == computed.keys() and all(_agree(stored[name], computed[name]) for name in stored)
    if isinstance(stored, list | tuple) and isinstance(computed, list | tuple):
        return len(stored) == len(computed) and all(map(_agree, stored, computed))
    if isinstance(stored, bool) or isinstance(computed, bool):
        return stored is computed
    numbers = isinstance(stored, int | float) and isinstance(computed, int | float)
    if numbers and not (isinstance(stored, int) and isinstance(computed, int)):
        return math.isclose(stored, computed, rel_tol=TOLERANCE, abs_tol=1e-300)
    return bool(stored == computed)


def _format_json(value: Any) -> str:
    return clipped(json.dumps(value, ensure_ascii=False), 100)


def load(path: Path) -> list[Result]:
    """Return the results in a file, of any kinds of audits, after checking that their bounds follow from their counts.

    Raises `AuditError` if the file cannot be read, if no audit can have produced a result, or if a bound does not
    follow from the counts.
    """
    found: list[Result] = []
    for place, stored in enumerate(read_file(path)):
        where = f"{path}: results[{place}]"
        try:
            result = rebuild(stored)
            names = ["lower_bound", "proven", "verdict"]
            if isinstance(result, SequentialResult):
                names += ["runs", "log_evidence", "path"]
            elif result.claim.claimed_point is not None:
                names += ["epsilon_lower"] * isinstance(result, AuditResult | ManyRunsResult)
                names += ["delta_lower"] * isinstance(result, AuditResult | OneRunResult)
            differences, _ = _find_differences(result, stored, names)
        except AuditError as error:
            raise AuditError(f"{where}: {error}") from None
        if differences:
            raise AuditError(f"{where}, {result.mechanism}: {differences[0]}")
        found.append(result)
    return found


def find_impossible(result: StoredResult) -> list[str]:
    """Return a sentence for each stored number that no audit can have produced; an empty list if all are possible."""
    said = []
    try:
        confidence_of(result.confidence)
    except AuditError as error:
        said.append(str(error))
    if (said_of_command := _check_command(result.execution.get("command", ""))) is not None:
        said.append(said_of_command)
    if result.seed < 0:
        said.append(f"The seed is {result.seed}; it must be a whole number of at least 0.")
    if result.exact is not None and not result.exact >= 0.0:
        said.append(f"The exact value is {result.exact}; it must be a number of at least 0.")
    if isinstance(result, OneRunResult):
        if not 0 < result.canaries < MAX_RUNS or not any(counts.guesses for counts in result.counts):
            said.append(f"There were {result.canaries} canaries; there must be some, and guesses about some of them.")
        return said or list(_check_one_run(result))
    if isinstance(result, ManyRunsResult):
        return said or list(_check_many_runs(result))
    recounted = isinstance(result, AuditResult) and result.training_runs == 0  # `recount` makes any number of runs
    if not (0 if recounted else MIN_TRIALS - 1) < result.trials < MAX_RUNS:
        said.append(f"There were {result.trials} runs in all; an audit has at least {MIN_TRIALS}.")
    if isinstance(result, AuditResult):
        return said or list(_check_fixed_size(result))
    return said or list(_check_sequential(result)) or list(_check_end(result))


def _check_command(command: Any) -> str | None:
    """Return a sentence if a recorded command is not quoted as `shlex.join` quotes; epsaudit quotes all commands so."""
    shown = clipped(visible(str(command)), 200)
    try:
        if isinstance(command, str) and shlex.join(shlex.split(command)) == command:
            return None
    except ValueError:  # no closing quotation
        pass
    return f"The command {shown!r} is not quoted as epsaudit writes commands: it is forged, or edited by hand."


def _check_fixed_size(result: AuditResult) -> Iterator[str]:
    """Yield sentences about everything in the result of a fixed-size audit that is impossible."""
    certificate, witness, counts = result.certificate, result.witness, result.counts
    if isinstance(certificate, MembershipGame):
        if certificate.share != MembershipGame.share:
            yield f"The game spent a share of {certificate.share} on its guesses; audits spend {MembershipGame.share}."
        if not _is_tangent(certificate.tangent, result.claim):
            yield f"The game was played at the tangent {certificate.tangent}; {result.claim} is not tested at it."
    if isinstance(certificate, Box):
        if certificate.split != Box.split:
            yield f"The box split its error at {certificate.split}; audits split it at {Box.split}."
        if (witness.guess_x if certificate.event == "x" else witness.guess_x_prime) is None:
            yield f"The box is about the event that guesses {certificate.event!r}, which the witness does not have."
    if counts.runs_x + counts.runs_x_prime != result.runs:
        yield f"The counts are of {int(counts.runs):,} runs; there were {result.runs:,} certification runs."
    yield from _check_counts(counts, witness)


def _is_tangent(tangent: float | None, claim: Claim) -> bool:
    """Return whether a membership game about this claim can have been played at this tangent of its profile."""
    if tangent is None or claim.claimed_point is not None:
        return (tangent is None) == (claim.claimed_point is not None)
    return isinstance(tangent, int | float) and 0.0 <= tangent < math.inf


def _check_one_run(result: OneRunResult) -> Iterator[str]:
    """Yield sentences about everything in the result of an audit of one run that is impossible."""
    if result.given and result.reproducible:
        yield "The coins and scores are said to be given by the user and also to follow from the seed."
    try:
        GuessBound(result.tested, result.method, result.confidence, result.rule.decided_by_output)
    except AuditError as error:
        yield str(error)
        return
    yield from stored_counts.find_contradictions(result)
    for one in result.counts:
        inside = one.correct_in + one.guessed_out - one.correct_out
        yield from _check_fair_coins(
            inside, one.guesses - inside, one.canaries - one.guesses, "guessed canaries were in", "out"
        )


def _check_many_runs(result: ManyRunsResult) -> Iterator[str]:
    """Yield sentences about everything in the result of an audit of many runs that is impossible."""
    if not 0 < min(result.included, result.excluded) <= max(result.included, result.excluded) < MAX_RUNS:
        yield f"{result.included} runs had the canary and {result.excluded} had not; there must be some of both."
        return
    if result.independent:
        yield from _check_fair_coins(result.included, result.excluded, 0, "canaries were in", "out")
    sides = {True: (result.included, result.excluded), False: (result.excluded, result.included)}
    for one in result.counts:
        if one.likely > sides[one.above][0] or one.rare > sides[one.above][1]:
            yield f"{one} is said to contain {one.likely:,} and {one.rare:,} runs; there were fewer runs."
            return
    tried = [(above, rank) for above, (_, runs) in sides.items() for rank in tried_ranks(runs)]
    if [one.by_rank for one in result.counts] == [False]:
        if not result.counts[0].above:
            yield "The threshold was fixed beforehand, and the scores below it were counted; audits count those above."
    elif [(one.above, one.rare) for one in result.counts] != tried or not all(one.by_rank for one in result.counts):
        yield "The counts are not about the tails that an audit tries."
    else:
        yield from _check_order_of_scores(result)


def _check_order_of_scores(result: ManyRunsResult) -> Iterator[str]:
    """Yield a sentence for every two tails whose counts or thresholds contradict each other.

    Let f(r) be the number of runs with the canary above the r-th highest score without it, and h(j) the number of
    runs without the canary above the j-th highest score with it. Both functions are nondecreasing, and f(r) < j is
    equivalent to h(j) >= r.
    """
    above = [one for one in result.counts if one.above]
    below = [one for one in result.counts if not one.above]
    for tails, sign in ((above, -1.0), (below, 1.0)):
        for first, second in itertools.pairwise(tails):
            if second.likely < first.likely:
                yield (
                    f"{first} is said to contain {first.likely:,} runs, and {second}, which contains it, only "
                    f"{second.likely:,}."
                )
            if not sign * first.threshold <= sign * second.threshold:
                yield (
                    f"The tails of ranks {first.rare:,} and {second.rare:,} are {first} and {second}; no order of the "
                    "scores has such thresholds."
                )
    for one in above:
        for other in below:
            place, others = result.included - other.rare + 1, result.excluded - other.likely
            if (one.likely < place) != (others >= one.rare):
                yield (
                    f"{one} is said to contain {one.likely:,} runs and {other} {other.likely:,}; no order of the "
                    "scores has such counts."
                )
            elif (one.threshold > other.threshold) if others < one.rare else (one.threshold < other.threshold):
                yield f"The thresholds of {one} and {other} contradict their counts; no order of the scores has both."


def _check_sequential(result: SequentialResult) -> Iterator[str]:
    """Yield sentences about everything in the result of a sequential audit that is impossible."""
    try:
        refuse_if_irrefutable(result.claim)
    except AuditError as error:
        yield str(error)
        return
    if not result.rounds or {len(round_.strategies) for round_ in result.rounds} != {N_STRATEGIES}:
        yield f"There must be rounds, and {N_STRATEGIES} strategies in each."
        return
    for round_ in result.rounds:
        if len({(strategy.counts.runs_x, strategy.counts.runs_x_prime) for strategy in round_.strategies}) != 1:
            yield "The strategies of a round are said to have guessed in different runs."
        moments = {tuple(look[0] for look in one.looks) for one in round_.strategies}
        if len(moments) != 1 or moments == {()}:
            yield "The strategies of a round have interim looks after different numbers of runs, or none."
        for strategy in round_.strategies:
            yield from _check_counts(strategy.counts, strategy.witness)
            looks, seen = [(0, 0, 0), *strategy.looks], strategy.seen
            rises = np.diff(np.array(looks, dtype=object), axis=0)
            if np.any(rises < 0) or np.any(rises[:, 1] + rises[:, 2] > rises[:, 0]):
                yield "The counts of the interim looks of a strategy decrease, or have more guesses than runs."
            if looks[-1] != seen:
                ends = f"end with {looks[-1]}, its counts are {seen}: runs, correct and wrong."
                yield f"The interim looks of a strategy {ends}"
            rates = strategy.correct, strategy.wrong
            if not 0.0 <= min(rates) <= max(rates) <= 1.0:
                yield f"A strategy bet on the rates {rates}; they must be probabilities."
            if not _is_tangent(strategy.tangent, result.claim):
                yield f"{result.claim} is said to have been tested at {strategy.tangent}, which is no tangent of it."
    last = result.rounds[-1]
    if not result.runs <= result.trials or min(round_.explored for round_ in result.rounds) < 0:
        yield f"The rounds have {result.runs:,} runs, of at most {result.trials:,} in all."
    if (last.pair, last.digest) != (result.pair, result.pair_digest):
        yield f"The pair is {result.pair}; the last round was on {last.pair}."


def _check_end(result: SequentialResult) -> Iterator[str]:
    """Yield sentences if the evidence contradicts the bound, or the reason why the audit stopped."""
    bound, refuted, proven = result.lower_bound, result.violates_claim, result.proven
    least = proven if proven > 0.0 else math.ulp(0.0)  # the smallest bound that refutes the claim
    if bound >= least and not refuted:
        yield f"A bound of {bound:.6g} refutes the claim; the rounds do not."
    if refuted and bound < proven * (1.0 - 1e-9):
        yield f"The rounds refute the claim; a bound of {bound:.6g} does not."
    if early := [runs for runs, then in result.path if runs < result.runs and then >= least]:
        yield f"The claim was refuted after {early[0]:,} runs, yet the audit is said to have gone on."
    if (result.stopped == "refuted") != refuted:
        yield f"The audit is said to have stopped as {result.stopped!r}; its evidence says otherwise."
    if result.stopped == "runs" and result.runs != result.trials:
        yield (
            f"The audit is said to have stopped because all runs were made; it made {result.runs:,} of "
            f"{result.trials:,} runs."
        )


def _check_counts(counts: Counts, witness: Witness) -> Iterator[str]:
    """Yield sentences about counts of events that are impossible for this witness."""
    on_x, on_x_prime = counts.runs_x, counts.runs_x_prime
    as_x = counts.guess_x_on_x, counts.guess_x_on_x_prime
    as_x_prime = counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime
    for side, runs, *seen in (("x", on_x, as_x[0], as_x_prime[0]), ("x'", on_x_prime, as_x[1], as_x_prime[1])):
        if min(*seen, runs) < 0 or sum(seen) > runs:
            yield f"The events were seen {seen[0]:,} and {seen[1]:,} times in {runs:,} runs on {side}."
    if counts.events != witness.events:
        yield f"The counts are of {counts.events} events, and the witness has {witness.events}."
    for guess, event, times in (("x", witness.guess_x, as_x), ("x'", witness.guess_x_prime, as_x_prime)):
        if event is None and times != (0, 0):
            yield f"{sum(times):,} outputs are said to be guesses {guess}; the witness has no event that guesses so."
        if isinstance(event, Region) and any(times) and not (event.included or _common_numbers(event).any()):
            yield f"{sum(times):,} outputs are said to be in {event}, which holds no output."
    first, second = witness.guess_x, witness.guess_x_prime
    if isinstance(first, Region) and isinstance(second, Region):
        single = pack([*first.included, *second.included])  # single outputs that one of the events includes
        common = len(single) and bool((first.contains(single) & second.contains(single)).any())
        if common or (first.feature == second.feature and _common_numbers(first, second).any()):
            yield f"The events, {witness}, hold outputs in common; an output can guess only one dataset."
    yield from _check_fair_coins(int(on_x), int(on_x_prime), 0, "runs were on x", "on x'")


def _check_fair_coins(first: int, second: int, unknown: int, what: str, other: str) -> Iterator[str]:
    """Yield a sentence if fair coins almost never split runs in this way.

    The coins of ``unknown`` further runs are not known; the split of these runs that fits best is assumed.
    """
    from scipy.stats import binom  # slow to import

    fewer, more = min(first, second), max(first, second)
    nearest = min(fewer + unknown, (fewer + more + unknown) // 2)
    if fewer >= 0 and 2.0 * float(binom.cdf(nearest, fewer + more + unknown, 0.5)) < MIN_FAIR_CHANCE:
        yield (
            f"{first:,} {what} and {second:,} {other}; fair coins produce such a split with a probability below "
            f"{MIN_FAIR_CHANCE:g}."
        )


def _common_numbers(*events: Region) -> NDArray[np.bool_]:
    """Return a mask of the numbers that all events contain, among the numbers at and next to every end of an interval.

    All events must have the same feature. If the events have any number in common, one of these numbers is in all of
    them. Excluded outputs are numbers only if the feature is the output itself.
    """
    ends = [end for event in events for interval in event.intervals for end in (interval.low, interval.high)]
    taken = [atom for event in events for atom in event.excluded if type(atom) is float]
    at = np.array([0.0, *ends, *taken])
    numbers = np.concatenate([np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)])
    held = np.ones(len(numbers), bool)
    for event in events:
        excluded = event.excluded if event.feature == VALUE else ()
        held &= Region(intervals=event.intervals, excluded=excluded).contains(numbers)
    return held

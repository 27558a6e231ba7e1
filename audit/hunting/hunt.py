"""A hunt: many candidate pairs and parameter values screened cheaply, the most promising ones audited and shrunk.

Of the one error probability, alpha = 1 - confidence, the k-th audit may spend 3 alpha / (pi k)^2, and as much the k-th
certification of a pair that was shrunk; both take fresh runs (docs/how-to/hunt.md says why the sum is at most alpha).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from epsaudit.adapters.external import in_turns, quickly
from epsaudit.adapters.functions import Mechanism, alarm_raises
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution, pair_of
from epsaudit.errors import AuditError
from epsaudit.hunting.certifying import Finding, certified
from epsaudit.hunting.description import Candidate
from epsaudit.hunting.options import Options, Target
from epsaudit.hunting.outcome import Attempt, Hunt, Record
from epsaudit.hunting.parameters import Served, Values, description_at
from epsaudit.hunting.relations import holds
from epsaudit.hunting.screening import Screened, screened
from epsaudit.hunting.shrinking import shrink

STEP_CONFIDENCE = 0.99
"""Of each test of shrinking: of a hundred simpler pairs that refute nothing, one is kept. It costs no more than a
failed certification."""
STEP_RUNS = 500, 20_000
"""The fewest and the most runs of a test of shrinking: else four times those that the refutation took."""
TRIES = 3
"""How many times a shrunk pair is certified, each on four times as many runs and with a share of its own, before the
pair that was refuted is certified instead."""
LONG = 1e-3
"""Seconds of a run from which on those of a program take turns. A request for every two runs costs 0.05 ms of processor
time a run in place of 0.007 (16,384 runs of a Laplace sum), a twentieth of such a run."""


class OutOfTime(KeyboardInterrupt):
    """The time of a hunt is up: raised wherever it is, through all that takes exceptions for outcomes."""


def hunt(
    function: Mechanism | Callable[..., Any] | Served,
    candidates: Sequence[Candidate | DatasetPair | tuple[Any, Any]],
    *,
    claim: Claim | Callable[[Values], Claim],
    options: Options | None = None,
) -> Hunt:
    """Look for a pair of datasets, and parameters, that refute a claim; see the module for what is certified.

    A relation under which the claim was refuted is hunted no further.

    `AuditError` if no candidate is a pair of neighbours as the claim is for.

    Parameters
    ----------
    function : callable
        As for `epsaudit.black_box`, parameters of the candidates by name; or a mechanism, for candidates without any;
        or what `epsaudit.hunting.parameters.served` returns of a function in another environment.
    candidates : sequence of Candidate, DatasetPair or (x, x_prime)
        What to try, the simplest first; `epsaudit.hunting.parameters.candidates` makes them of a description. Pairs
        alone are neighbours under whichever of `AddRemove` and `Substitution` holds for them, and under the relation
        that the claim is for.
    claim : Claim, or function of the parameters
        What to refute.
    options : Options, optional

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> def count(data, rng, clip=3):  # the bug: noise for one record, which counts up to clip times
    ...     return sum(min(value, clip) for value in data) + rng.laplace()
    >>> pairs = [([1], [1, 1]), ([4, 2, 9], [4, 2, 9, 7])]
    >>> found = hunt(count, pairs, claim=PureDP(1.0), options=Options(seed=1, n_jobs=1))
    >>> found.refuted, found.findings[0].result.x, found.findings[0].result.x_prime
    (True, '[]', '[2]')
    """
    started = time.perf_counter()
    options = options or Options()
    adjacency: Any = options.adjacency
    known = [candidate_of(one, adjacency) for one in candidates]
    kept = known
    if adjacency is not None:  # what is said is said under it alone; equal ones differ in the column of persons
        under = [tuple(held for held in one.adjacencies if held == adjacency) for one in known]
        kept = [dataclasses.replace(one, adjacencies=held) for one, held in zip(known, under, strict=True) if held]
    if not kept:
        which = f", under {adjacency}" if adjacency else ""
        raise AuditError(
            f"None of the {len(known)} candidates are neighbours as the claim is for{which}; give pairs that are."
        )
    name = options.name or str(getattr(function, "name", None) or getattr(function, "__name__", "function"))
    target = Target(function, claim, name)
    identity = "" if options.checkpoint is None else target.identity(kept, options)
    with Record.of(options.checkpoint, options.seed, identity) as record:
        until = math.inf if options.seconds is None else started + options.seconds
        hunting = _Hunting(target, options, _values_of(kept), record, until)
        ordered: list[Screened] = []
        attempts: list[Attempt] = []
        with contextlib.suppress(OutOfTime), _ending_at(until):  # in the screen, or between two audits
            third = started + (until - started) / 3.0
            ordered, hunting.runs = record.screen(kept, lambda: screened(target, options, kept, record.seed, third))
            if all(one.failure for one in ordered):
                first = ordered[0].failure
                raise AuditError(f"None of the {len(ordered)} candidates could be audited. The first: {first}")
            for attempt in hunting.attempts(ordered):
                attempts.append(attempt)  # one at a time, to be kept if the next is given up
    counted = len(kept), len(ordered), len(known) - len(kept)
    spent = hunting.runs, time.perf_counter() - started
    return Hunt(name, options, *counted, tuple(attempts), *spent, record.seed, hunting.interrupted)


@dataclass
class _Hunting:
    """The audits of a hunt, what is left of its time, and how many runs they took."""

    target: Target
    options: Options
    values: dict[str, list[Any]]
    """Of each parameter, the usual one first."""
    record: Record
    until: float
    runs: int = 0
    interrupted: bool = False

    def attempts(self, ordered: Sequence[Screened]) -> Iterator[Attempt]:
        """Audit the most promising candidates of each relation in turn, until it is refuted or time is up."""
        waiting = [one for one in ordered if not one.failure]
        adjacency: Any = self.options.adjacency
        every = {repr(relation): relation for one in waiting for relation in (one.candidate.adjacencies or (None,))}
        relations = list(every.values()) if adjacency is None else [adjacency]  # None for what somebody vouched for
        for number in range(1, self.options.audits + 1):
            first = number % max(len(relations), 1)
            in_turn = (
                one
                for relation in (*relations[first:], *relations[:first])
                for one in waiting
                if relation is None or relation in one.candidate.adjacencies
            )
            if (chosen := next(in_turn, None)) is None or self.left() <= 0.0:
                return
            waiting = [one for one in waiting if one is not chosen]  # datasets need not be comparable
            attempt = self.attempt(number, chosen, min(self.options.audits - number, len(waiting)))
            yield attempt
            if attempt.refuted:
                refuted = attempt.candidate.adjacencies or (None,)
                relations = [one for one in relations if one not in refuted]

    def attempt(self, number: int, found: Screened, more: int) -> Attempt:
        """Audit one candidate, with a quarter of the time that is left, half if no more are to come."""
        candidate, name = found.candidate, f"audit {number}"
        done = Attempt(candidate)
        try:
            self.options.say(f"{name}: {candidate.tries or candidate.pair}")
            seconds = self.left(0.25 if more else 0.5)  # the most promising ones are first
            share = self.options.share(number)
            result = self.audit(candidate, share, self.options.trials, name, seconds, found.pace)
            result = dataclasses.replace(result, notes=(*result.notes, *candidate.notes))
        except AuditError as error:
            return dataclasses.replace(done, failure=str(error))
        except KeyboardInterrupt as error:
            return dataclasses.replace(done, failure=f"{self.stop(error)} before its audit was done")
        done = dataclasses.replace(done, result=result)
        if not result.violates_claim:
            return done
        try:
            self.options.say(f"{name}: refuted after {result.runs:,} runs; shrinking")
            return dataclasses.replace(done, finding=self.finding(number, found, result))
        except AuditError as error:  # what only many runs on the smaller pair show, such as draws that are kept
            return dataclasses.replace(done, failure=f"refuted, and not certified anew: {error}")
        except KeyboardInterrupt as error:
            return dataclasses.replace(done, failure=f"refuted; {self.stop(error)} before it was shrunk")

    def finding(self, number: int, found: Screened, first: SequentialResult) -> Finding | None:
        """Shrink what was refuted, and certify what comes of it: the simplest pair, or else the one that was given."""
        if (known := self.record.finding(number)) is not None:
            return known
        smallest, pace, steps = self.shrunk(number, found, first)
        for attempt in range(2 * TRIES):
            if attempt and self.left() <= 0.0:
                break
            candidate, pace = (smallest, pace) if attempt < TRIES else (found.candidate, found.pace)
            certification = self.record.next_certification()
            self.options.say(f"certifying {candidate.pair}")
            finding = certified(
                _careful(self.target.mechanism(candidate.parameters), pace),
                candidate,
                self.target.claim(candidate.parameters),
                self.options,
                confidence=self.options.share(certification),
                seed=entry_seed(self.record.seed, f"certify {certification}"),
                least=first.runs * 4 ** (attempt % TRIES),
                affordable=self.left(0.25) / max(pace, 1e-6),
            )
            self.runs += finding.runs
            if finding.result.violates_claim:
                finding = dataclasses.replace(finding, steps=steps)
                self.record.keep(number, finding)
                return finding
        return None

    def shrunk(self, number: int, found: Screened, first: SequentialResult) -> tuple[Candidate, float, int]:
        """Return the simplest pair that audits still refute, seconds of a run on it, and how many were tested."""
        trials = min(max(4 * first.runs, STEP_RUNS[0]), STEP_RUNS[1])
        steps, pace, end = 0, found.pace, time.perf_counter() + self.left(0.5)

        def still(one: Candidate) -> bool:
            nonlocal steps, pace
            steps += 1
            self.options.say(f"shrinking, step {steps}: {one.pair}")
            try:  # in a quarter of the time, as others are to come
                seconds = (end - time.perf_counter()) / 4.0
                tried = self.audit(one, STEP_CONFIDENCE, trials, f"shrink {number} {steps}", seconds)
            except AuditError:
                return False
            if tried.violates_claim:  # smaller data may take longer
                pace = tried.seconds / tried.runs
            return tried.violates_claim

        described = self.options.describe
        describe = (lambda values: None) if described is None else functools.partial(description_at, described)
        limits: dict[str, Any] = {"until": end, "most_steps": self.options.steps}
        smallest, _ = shrink(found.candidate, still, describe=describe, values=self.values, **limits)
        return smallest, pace, steps

    def audit(
        self, candidate: Candidate, confidence: float, trials: int, name: str, seconds: float, pace: float | None = None
    ) -> SequentialResult:
        """Audit one pair; with the ``pace`` of its runs in seconds, so that a claim may be refuted by it."""
        mechanism = self.target.mechanism(candidate.parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an audit among many
            result = audit_sequentially(
                quickly(mechanism) if pace is None else _careful(mechanism, pace),
                [candidate.pair],
                claim=self.target.claim(candidate.parameters),
                trials=trials,
                seconds=None if math.isinf(seconds) else max(seconds, 0.1),
                confidence=confidence,
                seed=entry_seed(self.record.seed, name),
                n_jobs=self.options.n_jobs,
                witnesses=self.options.witnesses,
                checkpoint=None if pace is None else self.record.checkpoint(name),
                progress=lambda done: self.options.say(
                    f"{name}: {done.runs_done:,} of at most {done.runs_total:,} runs"
                ),
            )
        self.runs += result.runs
        return result

    def left(self, share: float = 1.0) -> float:
        """Seconds that are left, or a share of them."""
        return (self.until - time.perf_counter()) * share

    def stop(self, error: KeyboardInterrupt) -> str:
        """Begin nothing more."""
        self.until, self.interrupted = -math.inf, not isinstance(error, OutOfTime)
        return "interrupted" if self.interrupted else "out of time"


def _careful(mechanism: Mechanism, pace: float) -> Mechanism:
    """With the safeguards that suit a program whose runs take so many seconds."""
    return in_turns(mechanism) if pace > LONG else mechanism


@contextmanager
def _ending_at(until: float) -> Iterator[None]:
    """Raise `OutOfTime` in the main thread at a time, and every second after in case somebody's code swallowed it."""
    here = threading.current_thread() is threading.main_thread()
    if math.isinf(until) or not here or not hasattr(signal, "setitimer"):
        yield
        return

    with alarm_raises(OutOfTime):
        signal.setitimer(signal.ITIMER_REAL, max(until - time.perf_counter(), 1e-3), 1.0)
        yield


def candidate_of(one: Any, adjacency: Adjacency | None = None) -> Candidate:
    """Return a candidate, made of a pair where that is given, with the relations that hold for it."""
    if isinstance(one, Candidate):
        return one
    pair = pair_of(one)
    tried = dict.fromkeys([*([adjacency] if adjacency is not None else []), AddRemove(), Substitution()])
    return Candidate(pair, tuple(one for one in tried if holds(one, pair.x, pair.x_prime)), pair.name)


def _values_of(candidates: Sequence[Candidate]) -> dict[str, list[Any]]:
    """Values of each parameter in the order of the candidates, which begins with the usual ones."""
    found: dict[str, dict[str, Any]] = {}
    for one in candidates:
        for name, value in one.parameters.items():
            found.setdefault(name, {}).setdefault(repr(value), value)
    return {name: list(values.values()) for name, values in found.items()}

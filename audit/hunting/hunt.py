"""A hunt: many candidate pairs and parameter values screened cheaply, the most promising ones audited and shrunk.

Of the one error probability, alpha = 1 - confidence, the k-th audit may spend 3 alpha / (pi k)^2, and as much the k-th
certification of a pair that was shrunk; both take fresh runs (docs/how-to/hunt.md says why the sum is at most alpha).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from epsaudit.adapters.external import in_turns, quickly
from epsaudit.adapters.functions import FunctionMechanism, Mechanism, alarm_raises, mechanism_of
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.definitions import Claim
from epsaudit.data.fresh import digest
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Relation, Substitution, adjacency_of, pair_of
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.hunting.certifying import MOST_STEPS, Finding, Simpler, certified, shrink
from epsaudit.hunting.description import Candidate, Description
from epsaudit.hunting.outcome import Attempt, Hunt, Record
from epsaudit.hunting.parameters import Values, description_at
from epsaudit.hunting.relations import holds
from epsaudit.hunting.screening import Screened, screened
from epsaudit.witnesses import Family

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
Say = Callable[[str], None]


class OutOfTime(KeyboardInterrupt):
    """The time of a hunt is up: raised wherever it is, through all that takes exceptions for outcomes."""


@dataclass
class _Hunting:
    """What all steps of a hunt share."""

    target: Callable[[Values], Mechanism]
    claim: Callable[[Values], Claim]
    simpler: Simpler
    confidence: float
    trials: int
    n_jobs: int | None
    until: float
    say: Say
    record: Record
    most_steps: int = MOST_STEPS
    witnesses: str | Sequence[Family] = "auto"
    runs: int = 0
    interrupted: bool = False
    mechanisms: dict[str, Mechanism] = field(default_factory=dict)

    def mechanism(self, parameters: Values) -> Mechanism:
        """Make the mechanism of these values once: a child or a cache belongs to it."""
        key = digest(dict(parameters))  # repr cuts long arrays
        if key not in self.mechanisms:
            self.mechanisms[key] = self.target(parameters)
        return self.mechanisms[key]

    def share(self, number: int) -> float:
        """The confidence of the k-th audit, and of the j-th certification."""
        return 1.0 - 3.0 * (1.0 - self.confidence) / (math.pi * number) ** 2

    def audit(
        self, candidate: Candidate, confidence: float, trials: int, name: str, seconds: float, pace: float | None = None
    ) -> SequentialResult:
        """Audit one pair; with the ``pace`` of its runs in seconds, so that a claim may be refuted by it."""
        mechanism = self.mechanism(candidate.parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an audit among many
            result = audit_sequentially(
                quickly(mechanism) if pace is None else self.careful(mechanism, pace),
                [candidate.pair],
                claim=self.claim(candidate.parameters),
                trials=trials,
                seconds=None if math.isinf(seconds) else max(seconds, 0.1),
                confidence=confidence,
                seed=entry_seed(self.record.seed, name),
                n_jobs=self.n_jobs,
                witnesses=self.witnesses,
                checkpoint=None if pace is None else self.record.checkpoint(name),
                progress=lambda done: self.say(f"{name}: {done.runs_done:,} of at most {done.runs_total:,} runs"),
            )
        self.runs += result.runs
        return result

    def careful(self, mechanism: Mechanism, pace: float) -> Mechanism:
        """With the safeguards that suit a program whose runs take so many seconds."""
        return in_turns(mechanism) if pace > LONG else mechanism

    def left(self, share: float = 1.0) -> float:
        return (self.until - time.perf_counter()) * share

    def attempt(self, number: int, found: Screened, more: int) -> Attempt:
        """Audit one candidate, with a quarter of the time that is left, half if no more are to come."""
        candidate, name = found.candidate, f"audit {number}"
        done = Attempt(candidate)
        try:
            self.say(f"{name}: {candidate.tries or candidate.pair}")
            seconds = self.left(0.25 if more else 0.5)  # the most promising ones are first
            result = self.audit(candidate, self.share(number), self.trials, name, seconds, found.pace)
            result = dataclasses.replace(result, notes=(*result.notes, *candidate.notes))
        except AuditError as error:
            return dataclasses.replace(done, failure=str(error))
        except KeyboardInterrupt as error:
            return dataclasses.replace(done, failure=f"{self.stop(error)} before its audit was done")
        if not result.violates_claim:
            return dataclasses.replace(done, result=result)
        try:
            self.say(f"{name}: refuted after {result.runs:,} runs; shrinking")
            return dataclasses.replace(done, result=result, finding=self.finding(number, found, result))
        except AuditError as error:  # what only many runs on the smaller pair show, such as draws that are kept
            return dataclasses.replace(done, result=result, failure=f"refuted, and not certified anew: {error}")
        except KeyboardInterrupt as error:
            return dataclasses.replace(done, result=result, failure=f"refuted; {self.stop(error)} before it was shrunk")

    def stop(self, error: KeyboardInterrupt) -> str:
        """Begin nothing more."""
        self.until, self.interrupted = -math.inf, not isinstance(error, OutOfTime)
        return "interrupted" if self.interrupted else "out of time"

    def finding(self, number: int, found: Screened, first: SequentialResult) -> Finding | None:
        """Shrink what was refuted, and certify what comes of it."""
        candidate = found.candidate
        if (known := self.record.finding(number)) is not None:
            return known
        budget = min(max(4 * first.runs, STEP_RUNS[0]), STEP_RUNS[1])
        steps, pace, end = 0, found.pace, time.perf_counter() + self.left(0.5)

        def still(one: Candidate) -> bool:
            nonlocal steps, pace
            steps += 1
            self.say(f"shrinking, step {steps}: {one.pair}")
            try:  # in a quarter of the time, as others are to come
                seconds = (end - time.perf_counter()) / 4.0
                tried = self.audit(one, STEP_CONFIDENCE, budget, f"shrink {number} {steps}", seconds)
            except AuditError:
                return False
            if tried.violates_claim:  # smaller data may take longer
                pace = tried.seconds / tried.runs
            return tried.violates_claim

        smallest, _ = shrink(candidate, self.simpler, still, end, self.most_steps)
        for attempt in range(2 * TRIES):
            if attempt and self.left() <= 0.0:
                break
            tried, pace = (smallest, pace) if attempt < TRIES else (candidate, found.pace)
            certification = self.record.next_certification()
            self.say(f"certifying {tried.pair}")
            finding = certified(
                self.careful(self.mechanism(tried.parameters), pace),
                tried,
                self.claim(tried.parameters),
                self.share(certification),
                entry_seed(self.record.seed, f"certify {certification}"),
                least=first.runs * 4 ** (attempt % TRIES),
                most=4 * self.trials,
                affordable=self.left(0.25) / max(pace, 1e-6),
                n_jobs=self.n_jobs,
                witnesses=self.witnesses,
            )
            self.runs += finding.runs
            if finding.result.violates_claim:
                finding = dataclasses.replace(finding, steps=steps)
                self.record.keep(number, finding)
                return finding
        return None


def hunt(
    function: Mechanism | Callable[..., Any] | None,
    candidates: Sequence[Candidate | DatasetPair | tuple[Any, Any]],
    *,
    claim: Claim | Callable[[Values], Claim],
    adjacency: Relation | None = None,
    describe: Description | Callable[[Values], Description] | None = None,
    make: Callable[[Values], Mechanism] | None = None,
    name: str | None = None,
    confidence: float = 0.95,
    audits: int = 6,
    trials: int = 50_000,
    seconds: float | None = None,
    steps: int = MOST_STEPS,
    witnesses: str | Sequence[Family] = "auto",
    seed: int | None = None,
    n_jobs: int | None = None,
    progress: Say | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Hunt:
    """Look for a pair of datasets, and parameters, that refute a claim; see the module for what is certified.

    A relation under which the claim was refuted is hunted no further.

    `AuditError` if no candidate is a pair of neighbours as the claim is for, or arguments are out of range.

    Parameters
    ----------
    function : callable
        As for `epsaudit.black_box`, parameters of the candidates by name; or a mechanism, for candidates without any.
        None where ``make`` says it.
    candidates : sequence of Candidate, DatasetPair or (x, x_prime)
        What to try, the simplest first; `epsaudit.hunting.parameters.candidates` makes them of a description. Pairs
        alone are neighbours under whichever of `AddRemove` and `Substitution` holds for them, and under ``adjacency``.
    claim : Claim, or function of the parameters
        What to refute.
    adjacency : Adjacency, optional
        The relation that the claim is for; pairs of others are left out. None tries all, and the verdict names them.
    describe : Table, Answers, or function of the parameters, optional
        The description that candidates were made of, by which records are taken away and simplified. Without it the
        items of lists, tuples and arrays are, their numbers within those of the pair.
    make : callable, optional
        Makes the mechanism at values of the parameters, as `epsaudit.hunting.parameters.served` does of another
        environment.
    confidence : float
        That no claim that holds is refuted, in the whole hunt.
    audits : int
        How many candidates are audited at most.
    trials : int
        Runs of each audit at most.
    seconds : float, optional
        For the whole hunt: a third of them at most for the screen. What has begun by then is given up, and the hunt
        returns what it has; not in a thread, nor where a mechanism has a time limit of its own, where what has begun
        is ended.
    steps : int
        Tests of each shrinking at most; 0 leaves pairs as they are.
    witnesses : 'auto', 'all' or families
        As for `epsaudit.audit`: 'all' looks at the last bits of floating-point numbers, too.
    checkpoint : path, optional
        A folder from which the same hunt goes on after an interruption.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> def count(data, rng, clip=3):  # the bug: noise for one record, which counts up to clip times
    ...     return sum(min(value, clip) for value in data) + rng.laplace()
    >>> found = hunt(count, [([1], [1, 1]), ([4, 2, 9], [4, 2, 9, 7])], claim=PureDP(1.0), seed=1, n_jobs=1)
    >>> found.refuted, found.findings[0].result.x, found.findings[0].result.x_prime
    (True, '[]', '[2]')
    """
    started = time.perf_counter()
    confidence, relation = confidence_of(confidence), adjacency_of(adjacency)
    whole_at_least(audits, 1, "audits")
    known = [candidate_of(one, relation) for one in candidates]
    kept = known
    if relation is not None:  # what is said is said under it alone; equal ones differ in the column of persons
        under = [tuple(held for held in one.adjacencies if held == relation) for one in known]
        kept = [dataclasses.replace(one, adjacencies=held) for one, held in zip(known, under, strict=True) if held]
    if not kept:
        which = f", under {relation}" if relation else ""
        raise AuditError(
            f"None of the {len(known)} candidates are neighbours as the claim is for{which}; give pairs that are."
        )
    claim_at = functools.partial(_claim_at, claim)
    described = (lambda values: None) if describe is None else functools.partial(description_at, describe)
    simpler = Simpler(described, _values_of(kept))
    say = progress or (lambda sentence: None)
    title = name or str(getattr(function, "name", None) or getattr(function, "__name__", "function"))
    target = make or functools.partial(_here, function, title)
    numbers = (str(relation), confidence, trials, audits, *([] if witnesses == "auto" else [witnesses]))
    identity = "" if checkpoint is None else _identity(title, target, kept, claim_at, *numbers)
    with Record.of(checkpoint, seed, identity) as record:
        until = math.inf if seconds is None else started + seconds
        steps = whole_at_least(steps, 0, "steps")
        shared = (confidence, trials, n_jobs, until, say, record, steps, witnesses)
        hunting = _Hunting(target, claim_at, simpler, *shared)
        ordered: list[Screened] = []
        attempts: list[Attempt] = []
        try:
            with _ending_at(until):
                third = started + (until - started) / 3.0
                ordered, runs = record.screen(kept, lambda: screened(hunting, kept, audits, third))
                hunting.runs += runs
                if all(one.failure for one in ordered):
                    first = ordered[0].failure
                    raise AuditError(f"None of the {len(ordered)} candidates could be audited. The first: {first}")
                for attempt in _audited(hunting, ordered, audits, relation):
                    attempts.append(attempt)  # one at a time, to be kept if the next is given up
        except OutOfTime:  # between two audits, or in the screen
            pass
    counted = len(kept), len(ordered), len(known) - len(kept)
    spent = hunting.runs, time.perf_counter() - started
    return Hunt(title, relation, confidence, *counted, tuple(attempts), *spent, record.seed, hunting.interrupted)


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


def _audited(
    hunting: _Hunting, ordered: Sequence[Screened], audits: int, adjacency: Adjacency | None
) -> Iterator[Attempt]:
    """Audit the most promising candidates of each relation in turn, until it is refuted or time is up."""
    waiting = [one for one in ordered if not one.failure]
    every = {repr(relation): relation for one in waiting for relation in (one.candidate.adjacencies or (None,))}
    relations = list(every.values()) if adjacency is None else [adjacency]  # None for what somebody vouched for
    refuted: list[Adjacency | None] = []
    for number in range(1, audits + 1):
        relations = [one for one in relations if one not in refuted]
        first = number % max(len(relations), 1)
        in_turn = (
            one
            for relation in (*relations[first:], *relations[:first])
            for one in waiting
            if relation is None or relation in one.candidate.adjacencies
        )
        if (chosen := next(in_turn, None)) is None or hunting.left() <= 0.0:
            return
        waiting = [one for one in waiting if one is not chosen]  # datasets need not be comparable
        attempt = hunting.attempt(number, chosen, min(audits - number, len(waiting)))
        yield attempt
        if attempt.refuted:
            refuted += attempt.candidate.adjacencies or (None,)


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


def _here(function: Any, name: str, parameters: Values) -> Mechanism:
    """The mechanism of a function of this process."""
    given = functools.partial(function, **copy.deepcopy(dict(parameters))) if parameters else function
    found = mechanism_of(given)
    return dataclasses.replace(found, name=name) if isinstance(found, FunctionMechanism) else found


def _claim_at(claim: Claim | Callable[[Values], Claim], parameters: Values) -> Claim:
    """The claim for these values; what a function of the user raises is a sentence, and of this candidate alone."""
    if isinstance(claim, Claim):
        return claim
    try:
        return claim(parameters)
    except AuditError:
        raise
    except Exception as error:
        raise AuditError(f"The claim for {dict(parameters)!r} raises {type(error).__name__}: {error}.") from error


def _identity(name: str, target: Any, candidates: Sequence[Candidate], claim: Any, *numbers: Any) -> str:
    def stated(parameters: Values) -> str:
        try:
            return repr(claim(parameters))
        except AuditError as error:
            return str(error)

    mechanism = target(candidates[0].parameters)
    code = digest(getattr(mechanism, "fingerprint", mechanism))  # what was found of other code says nothing of this
    parts = [(one.pair.x, one.pair.x_prime, dict(one.parameters), stated(one.parameters)) for one in candidates]
    return digest([name, code, parts, numbers])

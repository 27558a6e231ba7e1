"""A hunt: many candidate pairs and parameter values screened cheaply, the most promising ones audited and shrunk.

Of the one error probability, alpha = 1 - confidence, the k-th audit may spend 3 alpha / (pi k)^2, and as much the k-th
certification of a pair that was shrunk; both take fresh runs (docs/how-to/hunt.md says why the sum is at most alpha).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.adapters.external import in_turns, quickly
from epsaudit.adapters.functions import Mechanism, alarm_raises
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution, pair_of
from epsaudit.engine.checkpoint import Checkpoint
from epsaudit.engine.workers import entropy
from epsaudit.errors import AuditError
from epsaudit.hunting.certifying import Finding, certified
from epsaudit.hunting.description import Candidate, holds
from epsaudit.hunting.parameters import Options, Served, Target, Values, description_at
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


@dataclass(frozen=True)
class Attempt:
    """A candidate that was audited."""

    candidate: Candidate
    result: SequentialResult | None = None
    """None where there could be no audit."""
    failure: str = ""
    """Why not."""
    finding: Finding | None = None
    """What a refuted claim was shrunk to."""

    @property
    def refuted(self) -> bool:
        """Whether the audit refuted the claim."""
        return self.result is not None and self.result.violates_claim


@dataclass(frozen=True)
class Hunt:
    """What a hunt came to."""

    name: str
    """Of the function."""
    options: Options
    """How it was done: the relation that the claim is for, the confidence of the whole hunt, and the rest."""
    candidates: int
    screened: int
    """For how many candidates there was time."""
    left_out: int
    """Pairs that are not neighbours under the claim's relation."""
    attempts: tuple[Attempt, ...]
    """What was audited, in order."""
    runs: int
    """All runs, the screen's and those of shrinking included."""
    seconds: float
    seed: int
    interrupted: bool = False
    """Whether Ctrl-C ended it; ``attempts`` are what it had by then."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was refuted, shrunk and certified anew."""
        return tuple(one.finding for one in self.attempts if one.finding is not None)

    @property
    def audits(self) -> tuple[SequentialResult, ...]:
        """The audits themselves."""
        return tuple(one.result for one in self.attempts if one.result is not None)

    @property
    def refuted(self) -> bool:
        """Whether the claim was refuted, under its relation, or under any if it was not said which it is for."""
        return any(one.refuted for one in self.attempts)

    def verdicts(self) -> dict[str, bool]:
        """Say of each relation that was tried whether the claim was refuted under it."""
        tried: dict[str, bool] = {}
        for one in self.attempts:
            if one.result is None:  # no audit, no verdict
                continue
            for relation in one.candidate.adjacencies or ("a relation that the caller vouches for",):
                if self.options.adjacency in (None, relation):
                    tried[str(relation)] = tried.get(str(relation), False) or one.refuted
        return tried

    def sentence(self) -> str:
        """Say what was found, under which relation."""
        tried = self.verdicts()
        under = {kind: [name for name, one in tried.items() if one is kind] for kind in (True, False)}
        parts = [f"refuted under '{name}'" for name in under[True]]
        parts += [f"not refuted under '{name}'" for name in under[False]]
        said = "; ".join(parts) or "nothing could be audited"
        if self.options.adjacency is None and any(tried.values()) and (len(tried) == 1 or not all(tried.values())):
            said += "; it is a violation only if the claim is for that relation"
        return (
            f"{self.name}: {said}. {self.screened:,} of {self.candidates:,} candidates were screened and "
            f"{len(self.audits)} audited, by {self.runs:,} runs in {self.seconds:.0f} s; if the claim is true, "
            f"a hunt refutes it with probability at most {1.0 - self.options.confidence:.3g}."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return what tables show of each audit."""
        found = []
        for number, one in enumerate(self.attempts, start=1):
            finding, result = one.finding, one.result
            best = finding.result if finding is not None else result
            # claim and bound are those of its values
            shown = (finding.candidate if finding is not None else None) or one.candidate
            found.append(
                {
                    "number": number,
                    "parameters": shown.given or None,
                    "tries": one.candidate.tries or str(one.candidate.pair),
                    "relation": "; ".join(map(str, one.candidate.adjacencies)) or "vouched for",
                    "proven": None if best is None else best.proven,
                    "certified": None if best is None else best.lower_bound,
                    "runs": None if result is None else result.runs,
                    "verdict": one.failure or ("refuted" if one.refuted else "not refuted"),
                    "pair": None if finding is None else finding.pair,
                    "event": None if finding is None else finding.result.describe_event(),
                }
            )
        return found


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
    values: dict[str, dict[str, Any]] = {}
    for one in kept:
        for parameter, value in one.parameters.items():
            values.setdefault(parameter, {}).setdefault(repr(value), value)
    until = math.inf if options.seconds is None else started + options.seconds
    with contextlib.ExitStack() as stack:
        file = None
        if options.checkpoint is not None:
            identity = {"hunt": target.identity(kept, options)}
            path = Path(options.checkpoint) / "hunt.checkpoint"
            file = stack.enter_context(Checkpoint(path, identity, options.seed))
        seed = entropy(options.seed) if file is None else file.seed
        tried = {parameter: list(found.values()) for parameter, found in values.items()}
        hunting = _Hunting(target, options, tried, seed, file, until)
        ordered: list[Screened] = []
        attempts: list[Attempt] = []
        with contextlib.suppress(OutOfTime), _ending_at(until):  # in the screen, or between two audits
            ordered = hunting.screened(kept, started + (until - started) / 3.0)
            if all(one.failure for one in ordered):
                first = ordered[0].failure
                raise AuditError(f"None of the {len(ordered)} candidates could be audited. The first: {first}")
            for attempt in hunting.attempts(ordered):
                attempts.append(attempt)  # one at a time, to be kept if the next is given up
    counted = len(kept), len(ordered), len(known) - len(kept)
    spent = hunting.runs, time.perf_counter() - started
    return Hunt(name, options, *counted, tuple(attempts), *spent, seed, hunting.interrupted)


@dataclass
class _Hunting:
    """The audits of a hunt, what is left of its time, and how many runs they took."""

    target: Target
    options: Options
    values: dict[str, list[Any]]
    """Of each parameter, the usual one first."""
    seed: int
    file: Checkpoint | None
    """What a hunt that was killed goes on from. Audits keep checkpoints of their own beside it."""
    until: float
    runs: int = 0
    certified: int = 0
    interrupted: bool = False

    def screened(self, candidates: Sequence[Candidate], until: float) -> list[Screened]:
        """Return the order of the candidates, as it is known or is made now."""
        known = None if self.file is None else self.file.read("hunt", "screen")
        if known is not None:
            self.runs = int(known["runs"])
            return [Screened(candidates[n], tuple(rank), *more) for n, rank, *more in known["rows"]]
        found, self.runs = screened(self.target, self.options, candidates, self.seed, until)
        if self.file is not None:
            places = {id(one): place for place, one in enumerate(candidates)}
            rows = [[places[id(one.candidate)], list(one.rank), one.failure, one.pace] for one in found]
            self.file.write("hunt", "screen", "", {"rows": rows, "runs": self.runs})
        return found

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
        candidate, name, failure = found.candidate, f"audit {number}", ""
        result, finding = None, None
        try:
            self.options.say(f"{name}: {candidate.tries or candidate.pair}")
            seconds = self.left(0.25 if more else 0.5)  # the most promising ones are first
            share = self.options.share(number)
            audited = self.audit(candidate, share, self.options.trials, name, seconds, found.pace)
            result = dataclasses.replace(audited, notes=(*audited.notes, *candidate.notes))
        except AuditError as error:
            failure = str(error)
        except KeyboardInterrupt as error:
            failure = f"{self.stop(error)} before its audit was done"
        if result is not None and result.violates_claim:
            try:
                self.options.say(f"{name}: refuted after {result.runs:,} runs; shrinking")
                finding = self.finding(number, found, result)
            except AuditError as error:  # what only many runs on the smaller pair show, such as draws that are kept
                failure = f"refuted, and not certified anew: {error}"
            except KeyboardInterrupt as error:
                failure = f"refuted; {self.stop(error)} before it was shrunk"
        return Attempt(candidate, result, failure, finding)

    def finding(self, number: int, found: Screened, first: SequentialResult) -> Finding | None:
        """Shrink what was refuted, and certify what comes of it: the simplest pair, or else the one that was given."""
        if self.file is not None and (known := self.file.read("hunt", "finding", str(number))) is not None:
            return Finding.from_dict(known)
        smallest, pace, steps = self.shrunk(number, found, first)
        for attempt in range(2 * TRIES):
            if attempt and self.left() <= 0.0:
                break
            candidate, pace = (smallest, pace) if attempt < TRIES else (found.candidate, found.pace)
            if self.file is not None:  # written before it begins, so that no share is spent twice
                self.certified = sum(1 for _ in self.file.every("hunt", "certification"))
                self.file.write("hunt", "certification", str(self.certified + 1), {})
            self.certified += 1
            self.options.say(f"certifying {candidate.pair}")
            finding = certified(
                _careful(self.target.mechanism(candidate.parameters), pace),
                candidate,
                self.target.claim(candidate.parameters),
                self.options,
                confidence=self.options.share(self.certified),
                seed=entry_seed(self.seed, f"certify {self.certified}"),
                least=first.runs * 4 ** (attempt % TRIES),
                affordable=self.left(0.25) / max(pace, 1e-6),
            )
            self.runs += finding.runs
            if finding.result.violates_claim:
                finding = dataclasses.replace(finding, steps=steps)
                if self.file is not None:
                    self.file.write("hunt", "finding", str(number), finding.to_dict())
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

        described: Any = self.options.describe  # None, too, is at every value what it is
        smallest, _ = shrink(
            found.candidate,
            still,
            describe=lambda values: description_at(described, values),
            values=self.values,
            until=end,
            most_steps=self.options.steps,
        )
        return smallest, pace, steps

    def audit(
        self, candidate: Candidate, confidence: float, trials: int, name: str, seconds: float, pace: float | None = None
    ) -> SequentialResult:
        """Audit one pair; with the ``pace`` of its runs in seconds, so that a claim may be refuted by it."""
        mechanism = self.target.mechanism(candidate.parameters)
        folder = None if pace is None or self.file is None else self.file.path.parent
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an audit among many
            result = audit_sequentially(
                quickly(mechanism) if pace is None else _careful(mechanism, pace),
                [candidate.pair],
                claim=self.target.claim(candidate.parameters),
                trials=trials,
                seconds=None if math.isinf(seconds) else max(seconds, 0.1),
                confidence=confidence,
                seed=entry_seed(self.seed, name),
                n_jobs=self.options.n_jobs,
                witnesses=self.options.witnesses,
                checkpoint=folder and folder / f"{name.replace(' ', '-')}.checkpoint",
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

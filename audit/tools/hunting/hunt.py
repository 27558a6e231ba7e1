"""A hunt: candidates are traced, or screened by few runs, the most promising audited, certified anew, and shrunk.

Of the one error probability, alpha = 1 - confidence, the k-th audit may spend 3 alpha / (pi k)^2, and as much the k-th
certification, of a pair as it was found or shrunk; both take fresh runs (docs/how-to/hunt.md says why this suffices).
Where certifying anew would take longer than there is time, the audit's own bets are the certificate. Traces and the
screen order candidates and certify nothing, but for a trace that knows the exact law of the output itself.
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import dataclasses
import functools
import math
import os
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.sequential.checks import MAX_CALLS, RUNS_PER_CALL, RUNS_PER_STREAM
from epsaudit.audits.spec import AuditSpec, check_families
from epsaudit.audits.suite import entry_seed
from epsaudit.bounds.certificates import Counts
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution, pair_of
from epsaudit.errors import AuditError, clipped
from epsaudit.extensions import find_extension
from epsaudit.outputs.arrays import align_dtypes, join_outputs, values_of
from epsaudit.outputs.normal_form import Raised
from epsaudit.results.result import AuditResult
from epsaudit.running.checkpoint import Checkpoint, Identity
from epsaudit.running.copies import PROCESSES
from epsaudit.running.functions import FunctionMechanism, mechanism_of
from epsaudit.running.identity import digest, fingerprint
from epsaudit.running.pool import check_restart
from epsaudit.running.programs import CommandMechanism, alternating, assumed_independent, dataset_to_json
from epsaudit.running.protocols import Mechanism
from epsaudit.running.provenance import provenance
from epsaudit.running.record import AuditRecord
from epsaudit.running.runs import Runs
from epsaudit.running.served import Served
from epsaudit.running.streams import entropy
from epsaudit.search import Bound, best_of, candidate_scores
from epsaudit.text import lower
from epsaudit.tools.hunting.boundaries import bisected, nearest, steps_of
from epsaudit.tools.hunting.description import LONGEST_NOTE, AsChecked, Candidate, holds
from epsaudit.tools.hunting.parameters import Options, Values, description_at
from epsaudit.tools.hunting.ranking import promise
from epsaudit.tools.hunting.shrinking import alone, candidate_with, edge_of, rows_of, shrink
from epsaudit.witnesses.conditions import MAX_CONDITION_LENGTH, MAX_SIMPLE_PARTS

RUNS = 128
"""Runs of a candidate on each side that the screen ranks it by; where time is limited, slow ones get fewer."""
TRACED = 10.0
"""Seconds after which a trace is given up, and with it those of all candidates with the same parameters: a trace of
what takes a second a run takes longer than half a minute. Set by hand."""
KEPT = 12
"""So many are audited where nothing limits them, and the best with each value of a parameter, under each relation."""
Audited = TypeVar("Audited", SequentialResult, AuditResult)
LEAST_AUDIT = 512
"""Runs that an audit has time for, if there is any: with fewer little more than what is blatant is refuted."""
STEP_CONFIDENCE = 0.99
"""Of each test of shrinking; what is kept by mistake costs no more than a failed certification."""
STEP_RUNS = 500, 20_000
"""The fewest and the most runs of a test of shrinking: else four times those that the refutation took."""
TRIES = 3
"""How many times a pair is certified at most, each on four times as many runs and with a share of its own."""
MOST_OF_IT = 0.75
"""Of the bound that the most runs would certify, what the runs that are taken show."""
LONG = 1e-3
"""Seconds of a run from which on those of a program take turns: a request for every two runs costs a twentieth."""
TO_LEARN = 20_000
"""The most runs that the event is learnt from, or as many as refuted the claim, as an event that takes more is not seen
in fewer: else half of those that may certify it, but eight times those that refuted the claim. An event learnt from
2,000 runs certifies 5.2 of a loss of 10."""
LEAST_RUNS = 128
"""Where the doubling of certifying runs begins."""
LATE = 0.4
"""Share of ``seconds`` by which certifying may end late. A hunt is to end within one and a half times ``seconds``; the
rest is for what no estimate foresees, as the end of a request that is being answered."""
APART = 0.9
"""[chosen] Share of the time that an audit may take at most where one dataset always raised and the other never: it is
likelier to refute than what comes later, in some 60 runs, and half of the time is often less."""
RUNS_TO_COMPARE = 16
"""Runs on each side that processes started anew are compared with, where the bets of an audit are the certificate."""
ALIKE = 1e-4
"""Probability of losing what independent runs refuted in that comparison. The processes, of four runs on each side at
least, then differ significantly where each keeps its noise: at the level of one of the 64 tests, 1.6e-6, if 3 to 13 of
16 see the event, with probability at most C(32, 6)^-1 = 1.1e-6; if fewer or more do, as none or all of the 16 runs do,
with at most C(24, 16) / C(80, 16) = 2.7e-11."""
AT_A_BOUNDARY = 8
"""Runs of a dataset, at most, that say whether it raises, in a bisection between data that do and data that do not."""


class Trace(Protocol):
    """What a hunt reads of a trace; `epsaudit.tools.tracing.Trace` is one."""

    @property
    def loss(self) -> float: ...
    @property
    def refuted(self) -> bool: ...
    @property
    def suspicious(self) -> bool: ...
    @property
    def exact(self) -> float | None: ...
    def sentence(self) -> str:
        """Return the sentence that names the line that leaks."""


class Law(NamedTuple):
    """The exact law of an output on a pair of datasets, which refutes the claim by itself."""

    exact: float
    """The loss, in the claim's parameter."""
    said: str
    """The trace's sentence, which names the line that draws the noise."""

    @classmethod
    def of(cls, trace: Trace | None) -> Law | None:
        """Return the law that a trace knows of the whole output, if the claim is refuted by it."""
        known = trace is not None and trace.refuted and trace.exact is not None
        return cls(trace.exact, trace.sentence()) if known else None  # type: ignore[union-attr,arg-type]  # as known

    def note(self, claim: Claim) -> str:
        """Say what is exact, and how to see it again."""
        exact = f"by the exact law of the output, {claim.symbol} = {self.exact:.6g} on this pair"
        return f"{exact}, as `epsaudit trace --certify` shows again: {self.said}"


@dataclass(frozen=True)
class Finding:
    """A refuted claim as it is to be reported."""

    result: AuditResult | SequentialResult
    """Of a readable event; where none suffices, of one that a script counts, or of a learnt one. Of the audit that
    refuted the claim, where there was no time to certify it anew. Where a law is known, it need not refute the claim.
    """
    candidate: Candidate = field(compare=False)
    """What was certified."""
    steps: int = 0
    """Tests that shrinking took."""
    strongest: Finding | None = None
    """Of the pair as it was found, where more is certified on it than on the simplest."""
    law: Law | None = None
    """Where the exact law of the output on this pair refutes the claim, whatever the runs show."""

    @property
    def pair(self) -> str:
        """Both datasets, and where they differ if long ones begin alike."""
        return str(alone(self.candidate.pair))

    def to_dict(self) -> dict[str, Any]:
        more = self.strongest and self.strongest.to_dict()
        law = self.law and self.law._asdict()
        told = {"result": self.result.to_dict(), "steps": self.steps, "pair": self.as_json(), "strongest": more}
        return told | ({"law": law} if law else {})

    def as_json(self) -> list[Any] | None:
        """Return the two datasets and the parameters as JSON values; None if JSON cannot write them."""
        pair = self.candidate.pair
        with contextlib.suppress(AuditError):
            return [dataset_to_json(one) for one in (pair.x, pair.x_prime, dict(self.candidate.parameters))]
        return None

    def __str__(self) -> str:
        said = str(self.result)
        if self.law is not None:
            said = f"{self.result.mechanism}: {self.result.claim} is refuted {self.law.note(self.result.claim)}\n{said}"
        if (more := self.strongest) is None:
            return said
        bound = f"{more.result.claim.symbol} >= {lower(more.result.lower_bound)}"
        return f"{said}\nMore is certified on the pair as it was found: {bound} on {more.pair}"


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
    law: Law | None = None
    """The exact law of the output, where it refutes the claim."""

    @property
    def refuted(self) -> bool:
        return self.law is not None or (self.result is not None and self.result.violates_claim)

    @property
    def verdict(self) -> str:
        by_runs = self.result is not None and self.result.violates_claim
        if self.law is not None and not by_runs:
            return f"refuted by the exact law of the output, {self.law.exact:.4g}"
        return self.failure or ("refuted" if self.refuted else "not refuted")


@dataclass(frozen=True)
class Hunt:
    """What a hunt came to."""

    name: str
    """Of the function."""
    options: Options
    candidates: int
    screened: int
    """For how many candidates there was time."""
    left_out: int
    """Pairs that are not neighbours under the claim's relation."""
    failures: tuple[str, ...]
    """Sentences on candidates of which every run failed, by value of the parameters."""
    attempts: tuple[Attempt, ...]
    runs: int
    """All runs, the screen's and those of shrinking included."""
    seconds: float
    seed: int
    interrupted: bool = False
    """Whether Ctrl-C ended it; ``attempts`` are what it had by then."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(one.finding for one in self.attempts if one.finding is not None)

    @property
    def audits(self) -> tuple[SequentialResult, ...]:
        return tuple(one.result for one in self.attempts if one.result is not None)

    @property
    def refuted(self) -> bool:
        """Whether the claim was refuted, under its relation, or under any if it was not said which it is for."""
        return any(one.refuted for one in self.attempts)

    def verdicts(self) -> dict[str, bool]:
        tried: dict[str, bool] = {}
        for one in self.attempts:
            for relation in one.candidate.adjacencies or ("a relation that the caller vouches for",):
                audited = one.result is not None or one.law is not None  # no audit, no verdict
                if audited and self.options.adjacency in (None, relation):
                    tried[str(relation)] = tried.get(str(relation), False) or one.refuted
        return tried

    def sentence(self) -> str:
        tried = self.verdicts()
        refuted_first = sorted(tried, key=tried.__getitem__, reverse=True)
        parts = [f"{'' if tried[name] else 'not '}refuted under '{name}'" for name in refuted_first]
        said = "; ".join(parts) or "nothing could be audited"
        if self.options.adjacency is None and any(tried.values()) and (len(tried) == 1 or not all(tried.values())):
            said += "; it is a violation only if the claim is for that relation"
        return " ".join(
            [
                f"{self.name}: {said}.",
                *self.failures,
                f"{self.screened:,} of {self.candidates:,} candidates were screened and "
                f"{len(self.audits)} audited, by {self.runs:,} runs in {self.seconds:.0f} s; if the claim is true, "
                f"a hunt refutes it with probability at most {1.0 - self.options.confidence:.3g}.",
            ]
        )

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for number, one in enumerate(self.attempts, start=1):
            finding, best = one.finding, ((one.finding and one.finding.strongest) or one.finding or one).result
            relation = "; ".join(map(str, one.candidate.adjacencies)) or "vouched for"
            tries, given = one.candidate.tries or str(one.candidate.pair), (finding or one).candidate.given
            tried = "; ".join(filter(None, [tries, relation, given]))
            row = {
                "number": number,
                "parameters": given or None,  # claim and bound are those of its values
                "tries": tries,
                "relation": relation,
                "tried": f"{tried[:1].upper()}{tried[1:]}.",
                "proven": best and best.proven,
                "certified": best and best.lower_bound,
                "runs": one.result and one.result.runs,
                "verdict": one.verdict,
                "pair": finding and finding.pair,
                "event": finding and finding.result.describe_event(),
            }
            found.append(row)
        return found


def hunt(
    function: Mechanism | Callable[..., Any] | Served,
    candidates: Sequence[Candidate | DatasetPair | tuple[Any, Any]],
    *,
    claim: Claim | Callable[[Values], Claim],
    options: Options | None = None,
) -> Hunt:
    """Look for a pair of datasets, and parameters, that refute a claim; see the module for what is certified.

    What was refuted, with a value of a parameter and under a relation, is hunted no further; where it was on data that
    are empty, or all missing, on such data only. `AuditError` if no candidate is a pair of neighbours as the claim is
    for.

    The function is as for `epsaudit.black_box`, with parameters of the candidates by name; or a mechanism, or
    `epsaudit.running.served.Served`. Candidates are what `epsaudit.tools.hunting.parameters.candidates` gives, or
    pairs,
    which are neighbours under whichever of `AddRemove`, `Substitution` and the claim's relation holds for them. The
    claim may be a function of the parameters.

    >>> from epsaudit import PureDP
    >>> def count(data, rng, clip=3):  # the bug: noise for one record, which counts up to clip times
    ...     return sum(min(value, clip) for value in data) + rng.laplace()
    >>> pairs = [([1], [1, 1]), ([4, 2, 9], [4, 2, 9, 7])]
    >>> found = hunt(count, pairs, claim=PureDP(1.0), options=Options(seed=1, n_jobs=1))
    >>> found.refuted, found.findings[0].result.x, found.findings[0].result.x_prime
    (True, '[]', '[2]')
    """
    started, options = time.perf_counter(), options or Options()
    adjacency: Any = options.adjacency
    kept = known = [candidate_of(one, adjacency) for one in candidates]
    if adjacency is not None:  # what is said is said under it alone; equal ones differ in the column of persons
        under = [tuple(held for held in one.adjacencies if held == adjacency) for one in known]
        kept = [dataclasses.replace(one, adjacencies=held) for one, held in zip(known, under, strict=True) if held]
    if not kept:
        which = f", under {adjacency}" if adjacency else ""
        none = f"None of the {len(known)} candidates are neighbours as the claim is for{which}"
        raise AuditError(f"{none}; give pairs that are.")
    name = options.name or str(getattr(function, "name", None) or getattr(function, "__name__", "function"))
    until, latest = (started + share * (options.seconds or math.inf) for share in (1.0, 1.0 + LATE))
    everyone = [_Screened(number, one) for number, one in enumerate(kept)]
    hunting = _Hunting(function, claim, name, options, everyone, 0, until, latest)
    with contextlib.ExitStack() as stack:
        if options.checkpoint is None:
            hunting.seed = entropy(options.seed)
        else:
            record = Checkpoint(options.checkpoint, {"hunt": hunting.identity()}, options.seed)
            hunting.file = stack.enter_context(record)
            hunting.seed = record.seed
        hunting.audit_all(hunting.in_order("traces", hunting.traced), more=True)
        if not hunting.interrupted:
            others = hunting.in_order("hunt", hunting.screened)
            apart = [one for one in hunting.at_boundaries() if one in others or one.number < 0]
            hunting.audit_all(apart, more=True, most=APART)
            hunting.audit_all([one for one in others if one not in apart])
        if not hunting.attempts and hunting.ordered and all(one.failure for one in hunting.ordered):
            first = hunting.ordered[0].failure
            raise AuditError(f"None of the {len(hunting.ordered)} candidates could be audited. The first: {first}")
    attempts, left_out = tuple(hunting.attempts), len(known) - len(kept)
    screened = sum(one.seen for one in everyone)
    spent, failed = (hunting.runs, time.perf_counter() - started), hunting.failures()
    of = len(kept), screened, left_out, failed
    return Hunt(name, options, *of, attempts, *spent, hunting.seed, hunting.interrupted)


@dataclass(eq=False)
class _Screened:
    number: int
    candidate: Candidate
    rank: tuple[float, float] = (0.0, 0.0)  # as `promise` says
    seen: bool = False  # traced, or screened
    kept: bool = False  # suspected by a trace, or kept by all rounds
    failure: str = ""
    pace: float = 0.0  # seconds of a run
    raised: tuple[float, float] = (math.nan, math.nan)  # shares of the runs on x, and on x', that raised
    law: Law | None = None


@dataclass
class _Hunting:
    function: Any
    claimed: Claim | Callable[[Values], Claim]
    name: str
    options: Options
    everyone: Sequence[_Screened]
    seed: int
    until: float
    latest: float  # when what certifies has to end; ``until`` is when nothing else begins
    file: Checkpoint | None = None
    ordered: list[_Screened] = field(default_factory=list)  # those that runs were made of, the most promising first
    times: Counter[Any] = field(default_factory=Counter)  # how often each aspect was audited
    attempts: list[Attempt] = field(default_factory=list)
    found: defaultdict[Any, set[str]] = field(default_factory=lambda: defaultdict(set))  # kinds of data, by aspect
    made: dict[str, Mechanism] = field(default_factory=dict)  # by parameters: a child or a cache belongs to it
    runs: int = 0
    certified: int = 0
    took: float = 0.0  # seconds of the last certification, which those that follow take, too
    restarts: float = 0.0  # seconds that it takes to start the processes that check a refutation
    untraced: set[str] = field(default_factory=set)  # parameters at which no trace comes to an end
    interrupted: bool = False

    def in_order(self, name: str, make: Callable[[], list[_Screened]]) -> list[_Screened]:
        """Return candidates to be audited, the most promising first, as the checkpoint holds them if they were made."""
        record = AuditRecord(self.file, name)
        facts = ("rank", "seen", "kept", "failure", "pace", "raised", "law")

        def read(known: dict[str, Any]) -> list[_Screened]:
            self.runs = known["runs"]
            for one, told in zip(self.everyone, known["everyone"], strict=True):
                vars(one).update(told)
                one.law = one.law and Law(*one.law)
            return [self.everyone[place] for place in known["ordered"]]

        if (found := record.once("choice", read)) is None:
            found = made = make()
            everyone = [{name: getattr(one, name) for name in facts} for one in self.everyone]
            places = [one.number for one in made]
            record.record_once("choice", lambda: {"runs": self.runs, "everyone": everyone, "ordered": places})
        self.ordered += found
        return found

    def traced(self) -> list[_Screened]:
        """Return what traces suspect: of each value, relation and kind of data one with a known law, or else the worst.

        Traced is all that is a function of Python, in a sixth of the time at most.
        """
        end, alike = time.perf_counter() + self.left() / 6.0, defaultdict[str, list[_Screened]](list)
        for one in self.everyone:
            alike[digest(dict(one.candidate.parameters))].append(one)
        losses, kinds, suspected = dict[int, float](), set[Any](), list[_Screened]()
        for some in alike.values():
            if losses and time.perf_counter() > end:
                break
            for one, found in zip(some, self.traces([each.candidate for each in some], end), strict=False):
                losses[one.number], one.seen = 0.0 if found is None else found.loss, True
                one.law = Law.of(found)
                self.options.say(f"tracing: {len(losses)} of {len(self.everyone)} candidates")
                if time.perf_counter() > end:
                    break
        suspicious = [self.everyone[number] for number in losses if losses[number]]
        for one in sorted(suspicious, key=lambda one: (one.law is not None, losses[one.number]), reverse=True):
            new = {(aspect, edge_of(one.candidate)) for aspect in aspects_of(one.candidate)} - kinds
            if new and self.look(one, end, 1):
                kinds |= new
                suspected.append(one)
                one.kept = True
        return sorted(suspected, key=lambda one: losses[one.number], reverse=True)

    def traces(self, candidates: Sequence[Candidate], end: float) -> Iterator[Trace | None]:
        """Trace candidates with the same parameters; None for what cannot be traced, as its data, say.

        Nothing comes, now and later, of a program, and of what is silent for too long, or at the moment ``end``.
        """
        first, bits = candidates[0], self.options.witnesses == "all"
        traces = find_extension("traces")
        if traces is None or (key := digest(dict(first.parameters))) in self.untraced:
            return
        timeout = min(TRACED, max(end - time.perf_counter(), TRACED / 10.0))
        try:
            how: Any = {"claim": self.claim(first), "seed": self.seed % 2**32, "bits": bits, "timeout": timeout}
            for found in traces(self.mechanism(first), [one.pair for one in candidates], **how):
                yield None if isinstance(found, str) else found
        except AuditError:
            self.untraced.add(key)

    def law(self, candidate: Candidate) -> Law | None:
        """Return the exact law of the output on a pair, where it refutes the claim."""
        found = next(self.traces([candidate], self.latest), None)
        return Law.of(found)

    def screened(self) -> list[_Screened]:
        """Sample what was not audited nor is known, in a third of the time at most; one of each if there are enough."""
        remaining = [one for one in self.everyone if not one.kept and not self.known(one.candidate)]
        most = 0 if len(self.attempts) == self.options.audits else len(remaining)
        until, tried = time.perf_counter() + self.left() / 3.0, list[_Screened]()
        for one in first_of_each(remaining, most):
            if tried and time.perf_counter() > until:
                break
            tried.append(one)
            self.options.say(f"screening: {len(tried)} of {len(remaining)} candidates")
            self.look(one, until, len(remaining) - len(tried) + 1)
        able = sorted((one for one in tried if not one.failure), key=lambda one: one.rank, reverse=True)
        for one in first_of_each(able, KEPT):
            one.kept = True
        return sorted(tried, key=lambda one: (one.kept, *one.rank), reverse=True)

    def at_boundaries(self) -> list[_Screened]:
        """Return pairs of neighbours, one that raises and one that does not, on a way from raising data to calm data.

        For each combination of values and each relation it is a candidate that was screened, or is found by bisection,
        in a sixth of the time.
        """
        groups: dict[Any, list[_Screened]] = defaultdict(list)
        for one in self.everyone:
            if not math.isnan(one.raised[0]) and rows_of(one.candidate) is not None:
                for relation in one.candidate.adjacencies:
                    groups[relation, digest(dict(one.candidate.parameters))].append(one)
        end, found = time.perf_counter() + self.left() / 6.0, list[_Screened]()
        for (relation, _), some in groups.items():
            if all(self.known(one.candidate) for one in some):
                continue
            if apart := [one for one in some if {*one.raised} == {0.0, 1.0}]:
                found += [max(apart, key=lambda one: one.rank)]
                continue
            told: dict[float, dict[str, Any]] = {0.0: {}, 1.0: {}}
            for one in some:
                for share, rows in zip(one.raised, rows_of(one.candidate) or (), strict=True):
                    told.get(share, {})[repr(rows)] = tuple(rows)
            way = nearest(list(told[1.0].values()), list(told[0.0].values()), relation)
            if way is not None and time.perf_counter() < end:
                self.options.say(f"bisecting what raises, {len(way)} datasets under '{relation}'")
                found += self.bisected(some[0].candidate, relation, way, end)
        return found

    def bisected(self, like: Candidate, relation: Adjacency, way: Sequence[Any], end: float) -> list[_Screened]:
        """Return the neighbours on a way between which raising ends, as a candidate; none where it does not end."""
        tries, described = "the last data that raise and the first that do not", self.options.describe
        like = dataclasses.replace(like, adjacencies=(relation,), tries=tries)
        if described is None:  # how rows become a dataset is not known
            like = dataclasses.replace(like, rows=None)
        looked: dict[int, _Screened] = {}

        def describe(values: Values) -> Any:
            return None if described is None else description_at(described, values)

        def raises(place: int) -> tuple[bool, bool] | None:
            candidate = candidate_with(like, (way[place], way[place + 1]), like.parameters, describe)
            if candidate is None:
                return None
            looked[place] = one = _Screened(-2 - place, candidate)
            self.look(one, end, max(steps_of(way) - len(looked), 1), AT_A_BOUNDARY)
            return None if math.isnan(one.raised[0]) else (one.raised[0] >= 0.5, one.raised[1] >= 0.5)

        place = bisected(way, raises)
        return [] if place is None or looked[place].failure else [looked[place]]

    def failures(self) -> tuple[str, ...]:
        """Say of which candidates every run failed, of those with each value of a parameter."""
        tried: dict[str, list[_Screened]] = defaultdict(list)
        for one in self.ordered:
            for with_value in [f" with {name}={value!r}" for name, value in one.candidate.parameters.items()] or [""]:
                tried[with_value].append(one)
        failed = {value: [one.failure for one in some if one.failure] for value, some in tried.items()}
        return tuple(
            f"{'All' if len(some) == len(tried[value]) else f'{len(some):,} of'} {len(tried[value]):,} candidates"
            f"{clipped(value, LONGEST_NOTE)} failed; the first: {some[0].rstrip('.')}."
            for value, some in failed.items()
            if some
        )

    def look(self, one: _Screened, end: float, waiting: int, most: int = RUNS) -> bool:
        """Rank a candidate by runs, for which it has its share of the time; False, and why, if it cannot be audited."""
        one.seen = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                claim, pairs = self.claim(one.candidate), [one.candidate.pair]
                mechanism = self.mechanism(one.candidate)
                spec = AuditSpec.of(mechanism, pairs, claim=claim, trials=self.options.trials)
                seed, begin = entry_seed(self.seed, f"screen {one.number}"), time.perf_counter()
                screening = Runs(spec, seed, n_jobs=1)
                screening.prepare()
                start = time.perf_counter()
                both: Any = screening.draw(0, 1, 1)  # a run may take a hundred times as long as others
                took = max(time.perf_counter() - start, 1e-9)
                if (fit := ((end - start) / waiting - took) / took) >= 1.0:
                    more = screening.draw(0, int(min(fit, most - 1)), 0)
                    both = align_dtypes(*map(join_outputs, zip(both, more, strict=True)))
                self.runs += screening.total
                one.pace = (time.perf_counter() - start) / (2 * len(both[0]))  # without the start of a program
                if isinstance(mechanism, CommandMechanism) and not mechanism.fresh:  # see `by_bets`
                    asked = PROCESSES * (start - begin + 8.0 * one.pace) / (os.cpu_count() or 1)
                    self.restarts = max(self.restarts, asked + 2 * RUNS_TO_COMPARE * one.pace)
                values = [value for side in both for value in values_of(side)]
                raised = [np.mean([isinstance(value, Raised) for value in values_of(side)]) for side in both]
                one.raised = float(raised[0]), float(raised[1])
                if isinstance(values[0], Raised) and len(set(map(repr, values))) == 1:
                    raise AuditError(f"every run {values[0]!r}")
                one.rank = promise(both[0], both[1], claim, check_families(self.options.witnesses))
        except AuditError as error:
            one.failure = str(error)
        return not one.failure

    def once(self, name: str, kind: type[Audited], audit: Callable[[], Audited]) -> Audited:
        """Do an audit, unless the checkpoint holds its result, or why it failed, which counts as what it came to."""
        record = AuditRecord(self.file, name)

        def read(known: dict[str, Any]) -> Audited | str:
            if "failure" in known:
                return str(known["failure"])
            return dataclasses.replace(kind.from_dict(known["result"]), seconds=known["seconds"])

        if (found := record.once("result", read)) is None:
            try:
                found = made = audit()
                written = {"result": made.to_dict(), "seconds": made.seconds}
            except AuditError as error:
                found = str(error)
                written = {"failure": found}
            record.record_once("result", lambda: written)
        if isinstance(found, str):
            raise AuditError(found)
        return found

    def identity(self) -> Identity:
        """What a checkpoint knows the hunt by, in words that a refusal can quote; `AuditError` as `check_restart`."""
        tries = [one.candidate for one in self.everyone]
        tried = [(one.pair.x, one.pair.x_prime, dict(one.parameters), str(one.adjacencies)) for one in tries]
        mechanism, options, claim = self.mechanism(tries[0]), self.options, self.claimed
        check_restart(mechanism)
        return {
            "mechanism": self.name,
            "candidates": digest(tried),
            **{name: str(getattr(options, name)) for name in ("adjacency", "confidence", "audits", "trials", "steps")},
            "witnesses": options.witnesses if isinstance(options.witnesses, str) else digest(list(options.witnesses)),
            "claim": repr(claim) if isinstance(claim, Claim) else digest(claim),
            "version of epsaudit": provenance()["epsaudit"],
            **fingerprint(mechanism, options.describe, claim),
        }

    def audit_all(self, ordered: Sequence[_Screened], more: bool = False, most: float = 0.5) -> None:
        """Audit the most promising, each value of a parameter and each relation once before any of them again.

        ``more`` are to come, which the time is left for. An audit that is expected to refute the claim within the share
        ``most`` of the time goes on.
        """
        limited = self.options.audits is not None or not math.isinf(self.until)
        waiting = [one for one in ordered if not one.failure and (limited or one.kept)]
        while self.options.audits is None or len(self.attempts) < self.options.audits:
            waiting = [one for one in waiting if not self.known(one.candidate)]
            if not waiting or self.left() <= self.took:  # to certify what it would refute
                return
            number, times = len(self.attempts) + 1, self.times
            chosen = min(waiting, key=functools.partial(self.turn, suspected=more))
            others = {aspect for one in waiting for aspect in aspects_of(one.candidate)} - {*times}
            times.update(aspects_of(chosen.candidate))
            waiting.remove(chosen)
            candidate, name = chosen.candidate, f"audit {number}"
            result, finding, failure, stage, program = None, None, "", "its audit was done", False
            law = chosen.law
            try:
                self.options.say(f"{name}: {candidate.tries or candidate.pair}")
                program = isinstance(self.mechanism(candidate), CommandMechanism)
                # even shares of the time, one to certify, and twice as much where others are to come from the screen
                coming = min(len(waiting), KEPT, (self.options.audits or math.inf) - number)
                share = 1.0 / max(2 + coming + 2 * more, len(others))
                seconds = max(self.left(share), min(LEAST_AUDIT * chosen.pace, self.left(0.5)))
                confidence, trials = self.options.share(number), self.options.trials
                turns = chosen.pace > LONG and not math.isinf(self.until)
                audited = self.audit(candidate, confidence, trials, name, seconds, self.left(most), turns)
                result = dataclasses.replace(audited, notes=(*audited.notes, *candidate.notes))
                if result.violates_claim or law is not None:
                    stage = "it was certified"
                    how = f"after {result.runs:,} runs" if law is None else "by the exact law of its output"
                    self.options.say(f"{name}: refuted {how}")
                    finding = self.finding(number, chosen, result)
            except AuditError as error:
                failure = f"refuted, and not certified anew: {error}" if result is not None else str(error)
            except KeyboardInterrupt:
                self.until, self.interrupted = -math.inf, True
                failure = f"{'refuted; ' if result is not None else ''}interrupted before {stage}"
            refuted = result is not None and result.violates_claim
            if refuted and program and finding is None:  # no process that was started anew has seen it
                result, refuted, failure = None, False, failure or "refuted, and not certified anew"
            for aspect in aspects_of(candidate) if refuted or law is not None else ():
                self.found[aspect].add(edge_of(candidate))
            self.attempts.append(Attempt(candidate, result, failure, finding, law))

    def turn(self, one: _Screened, suspected: bool) -> tuple[int, int]:
        """Sort candidates to be audited: by how often their values were, and under a deadline as values are listed.

        Of a deadline each audit takes so much that later ones may have nothing left. What is suspected, or refuted by
        the outputs of the screen, if these were those of an audit, comes before.
        """
        often = min(self.times[aspect] for aspect in aspects_of(one.candidate))
        if suspected or math.isinf(self.until) or one.rank[0] > 1.0:
            return often, -1
        return often, self.listed[digest(dict(one.candidate.parameters))]

    @functools.cached_property
    def listed(self) -> dict[str, int]:
        """The place of each combination of values among all, the usual ones first."""
        keys = dict.fromkeys(digest(dict(one.candidate.parameters)) for one in self.everyone)
        return {key: place for place, key in enumerate(keys)}

    def known(self, candidate: Candidate) -> bool:
        """Whether a claim was refuted already at all its values, under all its relations, on such data or on any."""
        kinds = {"", edge_of(candidate)}
        return all(kinds & self.found[aspect] for aspect in aspects_of(candidate))

    def finding(self, number: int, refuted: _Screened, first: SequentialResult) -> Finding | None:
        """Certify what was refuted as it was found, and what it is shrunk to in the time that is left.

        Where the exact law refutes the claim, runs are made to certify it, too, and are told whatever they show.
        """
        law = refuted.law
        best, place = None, 1 + sum(one.finding is not None for one in self.attempts)

        def certified(candidate: Candidate, pace: float, steps: int = 0, law: Law | None = None) -> Finding | None:
            made: AuditResult | None = None
            for attempt in range(TRIES if first.violates_claim else 1):
                least = first.runs * 4**attempt
                if ((attempt or steps) and self.left() <= self.took) or self.lacks_time(candidate, pace, least):
                    break
                started, self.certified = time.perf_counter(), self.certified + 1
                self.options.say(f"certifying {candidate.pair}")
                certify = functools.partial(self.certify, candidate, pace, least=least)
                made = self.once(f"certify {self.certified}", AuditResult, certify)
                self.runs, self.took = self.runs + made.trials, time.perf_counter() - started
                if made.violates_claim or law is not None:
                    return Finding(with_law(made, law), candidate, steps, law=law)
            if steps:
                return None
            if first.violates_claim and self.bets_certify(candidate, pace):
                return Finding(with_law(self.by_bets(candidate, first), law), candidate, law=law)
            return None if law is None else Finding(with_law(first, law), candidate, law=law)

        try:
            if (best := certified(refuted.candidate, refuted.pace, law=law)) is not None:
                self.options.hold(place, best, self.seed)
            smallest, steps = self.shrunk(number, refuted.candidate, first, law)
            looked = _Screened(-1, smallest)  # smaller data may take longer
            if smallest is refuted.candidate or not self.look(looked, time.perf_counter() + self.left(0.25), 1):
                return best
            if law is not None and (law := self.law(smallest)) is None:
                return best
            if (found := certified(smallest, looked.pace, steps, law)) is not None:
                stronger = best is not None and best.result.lower_bound > found.result.lower_bound
                best = dataclasses.replace(found, strongest=best if stronger else None)
                self.options.hold(place, best, self.seed)
        except (AuditError, KeyboardInterrupt) as error:
            if best is None:
                raise
            if isinstance(error, KeyboardInterrupt):
                self.until, self.interrupted = -math.inf, True
        return best

    def lacks_time(self, candidate: Candidate, pace: float, least: int) -> bool:
        """Whether bets certify what is refuted, and the fewest runs to certify an event end later than a hunt may."""
        learnt = max(2 * least, self.fewest_to_learn(candidate, pace))
        fewest = 2 * learnt + max(2 * least, 2 * LEAST_RUNS)
        return self.room(pace) < fewest and self.bets_certify(candidate, pace)

    def room(self, pace: float) -> float:
        """How many runs there is time for, until a hunt that is late has to end, beside the check by processes."""
        return (self.latest - self.restarts - time.perf_counter()) / max(pace, 1e-6)

    def fewest_to_learn(self, candidate: Candidate, pace: float) -> int:
        """How many runs on each side show whether those of a program depend on one another; none of a function."""
        mechanism = self.mechanism(candidate)
        if not isinstance(mechanism, CommandMechanism):
            return 1
        return MAX_CALLS * (RUNS_PER_STREAM if pace > LONG else RUNS_PER_CALL)

    def bets_certify(self, candidate: Candidate, pace: float) -> bool:
        """Whether an audit's bets are a certificate: of a program if it was audited in turns, in which runs are calls.

        Outputs of one request may depend on one another, for which an audit that is to be certified anew does not look.
        """
        mechanism = self.mechanism(candidate)
        if not isinstance(mechanism, CommandMechanism) or mechanism.fresh:
            return True
        return pace > LONG and not math.isinf(self.until) and alternating(mechanism) is not mechanism

    def by_bets(self, candidate: Candidate, first: SequentialResult) -> SequentialResult:
        """Return the audit that refuted a claim as its certificate, once processes that are started anew answer alike.

        Its bound holds at whatever time it stopped, and its share of the error probability is spent. `AuditError` if
        they answer otherwise.
        """
        mechanism = self.mechanism(candidate)
        if isinstance(mechanism, CommandMechanism) and not mechanism.fresh:
            self.say_how_long_it_takes()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                asked: Any = {"claim": self.claim(candidate), "trials": self.options.trials}
                spec = AuditSpec.of(alternating(mechanism), [alone(candidate.pair)], **asked)
                run, witness = Runs(spec, first.seed, n_jobs=1), first.witness
                outputs: Any = run.draw(0, RUNS_TO_COMPARE, 0)
                (a, c), (b, d) = map(witness.count, outputs)
                counts = Counts(RUNS_TO_COMPARE, RUNS_TO_COMPARE, a, b, c, d, events=witness.events)
                made = run.compare_copies(0, witness, counts, True, self.latest, fewest=2, level=ALIKE)
            self.runs += 2 * RUNS_TO_COMPARE + made
        why = "the bets of the audit certify it, as there was no time to certify an event by fresh runs"
        return dataclasses.replace(first, notes=(*first.notes, why))

    def say_how_long_it_takes(self) -> None:
        self.options.say(f"starting {PROCESSES} processes to check it, which takes some {self.restarts:.0f} s")

    def shrunk(
        self, number: int, refuted: Candidate, first: SequentialResult, law: Law | None
    ) -> tuple[Candidate, int]:
        """Return the simplest candidate that tests find, or traces that know the law, and how many of them it took."""
        trials = min(max(4 * first.runs, STEP_RUNS[0]), STEP_RUNS[1])
        steps, end = 0, time.perf_counter() + (self.left() - self.took) / 2.0

        def still(one: Candidate) -> float:
            nonlocal steps
            if one.parameters != refuted.parameters and self.known(one):
                return 0.0
            edge = edge_of(one)  # of which there is a finding, if of another pair's data
            if edge != edge_of(refuted) and all(edge in self.found[aspect] for aspect in aspects_of(one)):
                return 0.0
            steps += 1
            self.options.say(f"shrinking, step {steps}: {one.pair}")
            if law is not None:
                return 0.0 if (shown := self.law(one)) is None else shown.exact
            seconds = (end - time.perf_counter()) / 4.0  # as others are to come
            try:
                tried = self.audit(one, STEP_CONFIDENCE, trials, f"shrink {number} {steps}", seconds)
            except AuditError:
                return 0.0
            return 1.0 / tried.runs if tried.violates_claim else 0.0

        described: Any = self.options.describe  # None, too, is at every value what it is
        values: dict[str, dict[str, Any]] = {}  # of each parameter, the usual one first
        for one in self.everyone:
            for parameter, value in one.candidate.parameters.items():
                values.setdefault(parameter, {}).setdefault(repr(value), value)
        smallest, _ = shrink(
            refuted,
            still,
            describe=lambda values: description_at(described, values),
            values={parameter: list(tried.values()) for parameter, tried in values.items()},
            until=end,
            most_steps=self.options.steps,
        )
        return smallest, steps

    def certify(self, candidate: Candidate, pace: float, least: int) -> AuditResult:
        """Choose an event, the shortest kind that suffices, on runs of their own; certify most of what it shows."""
        started, mechanism = time.perf_counter(), self.mechanism(candidate)
        mechanism = alternating(mechanism) if pace > LONG else mechanism
        affordable = max(self.left(0.5) / max(pace, 1e-6), 4.0 * least, 2.0 * LEAST_RUNS)
        claim, options = self.claim(candidate), self.options
        most, confidence = 4 * options.trials, options.share(self.certified)
        seed = entry_seed(self.seed, f"certify {self.certified}")
        asked: Any = {"trials": most, "confidence": confidence, "witnesses": options.witnesses}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spec = AuditSpec.of(mechanism, [alone(candidate.pair)], claim=claim, **asked)
            run = Runs(spec, seed, options.n_jobs)
            run.prepare()
            room = self.room(pace)
            size = int(min(max(4 * least, most // 4), max(TO_LEARN, least) // 2, affordable / 4.0))
            size = max(size, self.fewest_to_learn(candidate, pace))
            outputs = run.draw(0, size, 0)
            run.test(0, outputs)
            scores = list(candidate_scores(spec.families, *outputs))
        sizes = sorted({min(LEAST_RUNS << k, most) for k in range(most.bit_length())})
        sizes = [runs for runs in sizes if runs <= affordable / 2.0]
        for parts in (MAX_SIMPLE_PARTS, MAX_CONDITION_LENGTH, math.inf):  # that read well, that a script counts, any
            choose = functools.cache(
                lambda runs, parts=parts: best_of(scores, Bound(claim, runs, confidence), parts=parts)
            )
            if (limit := choose(sizes[-1]).predicted) > claim.parameter:
                break
        enough = max(np.nextafter(claim.parameter, np.inf), MOST_OF_IT * limit)
        runs = sizes[min(bisect.bisect_left(sizes, enough, key=lambda n: choose(n).predicted), len(sizes) - 1)]
        choice, runs = choose(runs), int(min(2 * runs, most, max(room - 2 * size, LEAST_RUNS)))  # twice, for luck
        counts = run.count(0, choice.witness, runs)
        chosen = ["the pair and the event were chosen by earlier runs, none of which counts"]
        traced = self.traces([candidate], time.perf_counter() + (self.latest - time.perf_counter()) / 4.0)
        chosen += (f"a trace names {one.sentence()}" for one in traced if one and one.suspicious)
        shared = run.result_fields(0, [*run.notes(0), *candidate.notes, *chosen])
        result = AuditResult(
            **{**shared, "trials": 2 * size + runs, "seed": seed},
            training_runs=2 * size,
            certificate=choice.certificate,
            witness=choice.witness,
            counts=counts,
            families="hunt",
        )
        if result.lower_bound > 0.0:
            now = time.perf_counter()
            # a quarter more where certifying took longer than there was time, but no longer than a hunt may be late
            until = min(max(self.until, now + (now - started) / 4.0), self.latest)
            if result.violates_claim and isinstance(mechanism, CommandMechanism) and not mechanism.fresh:
                self.say_how_long_it_takes()
            run.compare_copies(0, choice.witness, counts, result.violates_claim, until)
        return result

    def audit(
        self,
        candidate: Candidate,
        confidence: float,
        trials: int,
        name: str,
        seconds: float,
        most: float = 0.0,
        turns: bool = False,
    ) -> SequentialResult:
        """Audit for these seconds, and as long as it is expected to refute the claim within ``most``."""
        mechanism = assumed_independent(self.mechanism(candidate))  # certification sees whether its runs depend
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            audited = functools.partial(
                audit_sequentially,
                alternating(mechanism) if turns else mechanism,
                [alone(candidate.pair)],
                claim=self.claim(candidate),
                trials=trials,
                seconds=None if math.isinf(seconds) else lambda done: max(seconds, done * most, 0.1),
                confidence=confidence,
                seed=entry_seed(self.seed, name),
                n_jobs=self.options.n_jobs,
                witnesses=self.options.witnesses,
                progress=lambda at: self.options.say(f"{name}: {at.runs_done:,} of at most {at.runs_total:,} runs"),
            )
            result = self.once(name, SequentialResult, audited)
        self.runs += result.runs
        return result

    def mechanism(self, candidate: Candidate) -> Mechanism:
        parameters = dict(candidate.parameters)
        if (key := digest(parameters)) not in self.made:  # repr cuts long arrays
            if isinstance(self.function, Served):
                made: Mechanism = self.function(parameters)
            else:
                own = copy.deepcopy(parameters)
                made = mechanism_of(functools.partial(self.function, **own) if own else self.function)
                if isinstance(made, FunctionMechanism):
                    made = dataclasses.replace(made, name=self.name)
            if isinstance(made, FunctionMechanism | CommandMechanism):
                made = dataclasses.replace(made, adjacency=AsChecked())
            self.made[key] = made
        return self.made[key]

    def claim(self, candidate: Candidate) -> Claim:
        if isinstance(self.claimed, Claim):
            return self.claimed
        parameters = dict(candidate.parameters)
        try:
            return self.claimed(parameters)
        except AuditError:
            raise
        except Exception as error:
            raise AuditError(f"The claim for {parameters!r} raises {type(error).__name__}: {error}.") from error

    def left(self, share: float = 1.0) -> float:
        """Seconds, or a share of them, until nothing begins: so that checking what is refuted by then ends in time.

        Half of the time is left to look for it, though, however long it takes to start processes.
        """
        restarts = min(self.restarts, (0.5 + LATE) * (self.options.seconds or 0.0))
        return (min(self.until, self.latest - restarts) - time.perf_counter()) * share


def with_law(result: Audited, law: Law | None) -> Audited:
    """Return a result that says what the exact law of the output is on its pair, if that is known."""
    if law is None:
        return result
    return dataclasses.replace(result, exact=law.exact, notes=(*result.notes, law.note(result.claim)))


def candidate_of(one: Any, adjacency: Adjacency | None = None) -> Candidate:
    """Return a candidate, made of a pair where that is given, with the relations that hold for it."""
    if isinstance(one, Candidate):
        return one
    pair = pair_of(one)
    tried = dict.fromkeys([*([adjacency] if adjacency is not None else []), AddRemove(), Substitution()])
    return Candidate(pair, tuple(one for one in tried if holds(one, pair.x, pair.x_prime)), pair.name)


def aspects_of(candidate: Candidate) -> list[tuple[str, str, str]]:
    """List what a candidate is the first of: each of its relations, with each value of its parameters."""
    values = [(name, digest(value)) for name, value in candidate.parameters.items()] or [("", "")]
    return [(repr(one), *value) for one in candidate.adjacencies or (None,) for value in values]


def first_of_each(listed: list[_Screened], most: int) -> list[_Screened]:
    """Return the first of each aspect, and the next ones up to so many."""
    seen, first, rest = set[Any](), list[_Screened](), list[_Screened]()
    for one in listed:
        (rest if seen.issuperset(aspects := aspects_of(one.candidate)) else first).append(one)
        seen.update(aspects)
    return [*first, *rest[: max(0, most - len(first))]]

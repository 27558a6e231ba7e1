"""The sequential audit: rounds of the membership game with witnesses chosen from earlier rounds only.

Chunks of a round draw from their own streams, so the result depends on the seed and the budget only, not on which
worker computed which chunk or how many were drawn beyond the stopping time.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from epsaudit.audits.fixed import AuditSpec, PreparedAudit, prepare, recording
from epsaudit.audits.sequential.learning import Learner, Plans, no_bet, simpler_event
from epsaudit.audits.sequential.record import Round, Stopped, StrategyRecord
from epsaudit.audits.sequential.record import SequentialResult as SequentialResult
from epsaudit.bounds import betting
from epsaudit.bounds.betting import Accounts
from epsaudit.bounds.certificates import Counts
from epsaudit.claims.conversions import Floats
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.data.neighbours import DatasetPair, Pairs, Relation
from epsaudit.errors import AuditError, finite_at_least, seconds_of
from epsaudit.outputs.normal_form import Outputs, alike, join
from epsaudit.running.functions import Mechanism, OutputLaws
from epsaudit.running.independence import (
    LEVEL,
    CopyTest,
    Rates,
    affordable,
    dependence_of_outputs,
    refuse,
    refuse_if_all_failed,
)
from epsaudit.running.provenance import STAGES, digest, stream
from epsaudit.running.sampling import AuditRecord, Chunk, Progress, ProgressCallback, changed, draw_by_coins, learn
from epsaudit.search import Family
from epsaudit.witnesses.conditions import MAX_SIMPLE_PARTS, count_parts
from epsaudit.witnesses.events import Witness

STRATEGIES = 2
"""A conservative strategy and an aggressive one; see `epsaudit.audits.sequential.learning`."""
FIRST_ROUND = 24
"""[measured] Runs of the first round for each pair, on which nothing is bet. Mean runs to a refutation of 18 claims on
single numbers, at 5 % and 1e-6 and 12 seeds each, are 2 % more both with 12 and with 48."""
MOST_REMEMBERED, MOST_NUMBERS_REMEMBERED = 100_000, 20_000_000
"""[measured] Runs of a pair, and numbers in their outputs (160 MB), after which those of no further chunk are kept to
learn from. Of 200 coordinates with noise 1, moved by 0.2 together, 400,000 runs certify 0.050 to 0.053 on three seeds;
with 4,000,000 numbers 0 to 0.025."""
ENOUGH_FAILURES = 1_000
"""Runs after which a mechanism that only ever raised the same exception is given up."""
MORE_CALLS = 64
"""Most calls to each side, beyond the budget, that show whether outputs depend on their call; the audit may have had
few."""
FEWEST_CALLS = 16
"""[time] Such calls, of two runs on each side, where an audit has no time left: ten seconds of 0.15 seconds a run."""
RUNS_A_CALL, RUNS_A_STREAM = 32, 4
"""Runs on each side in such a call of a function or program that makes many a call, and with such a stream of what
makes one. Then half of all pairs a lag apart, against half at random, have a p-value below 1e-20 where 4 in 5 pairs
within a call lie on one side of the median; and where all outputs of a stream are equal."""
ENOUGH_TO_TRUST = 1 << 12
"""Runs after which what is remembered shows the same of a function that is called once a run."""
Seen = NDArray[np.int64]
"""Counts of guesses: shape (..., strategies, 6), the last axis 2 * guess + side, guess 'x', 'x'' or none."""
OUTCOMES = np.zeros((6, 3))
OUTCOMES[range(6), [betting.CORRECT, betting.WRONG, betting.WRONG, betting.CORRECT] + [betting.ABSTAINED] * 2] = 1.0


def audit_sequentially(
    mechanism: Mechanism | Callable[..., Any] | None = None,
    pairs: Pairs | None = None,
    *,
    fresh: Callable[[], Callable[..., Any]] | None = None,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    order: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    adjacency: Relation | None = None,
    trials: int = 1_000_000,
    seconds: float | Callable[[float], float] | None = None,
    near: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
    progress: ProgressCallback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> SequentialResult:
    """Audit until the claim is refuted or the budget is spent; the bound holds at every stopping time.

    Every run is a round of the membership game on which strategies bet against the claim; if the claim is true, their
    wealth is a supermartingale and stays small (docs/explanation/theory.md#testing-by-betting). Witnesses, tangents and
    bets are relearned from all runs so far as they come in.

    Parameters
    ----------
    mechanism, pairs, fresh, claim, epsilon, delta, order, rho, mu, adjacency, seed, n_jobs, witnesses, progress,
    checkpoint
        As for `epsaudit.audit`. Of several pairs, each round bets on the one with the greatest estimated growth and
        spends a fifth of its runs on the others.
    trials : int
        The most runs, on both datasets together; at least 100.
    seconds : float, or a function, optional
        The most time: a round ends with it, and none begins half of which would not. After a restart it begins anew.
        A function gives it for the share done of the runs that a refutation is expected to take, by the growth that the
        bets hope for: 0 where none grows.
        What refutes the claim is then checked in fresh runs for as long as there is time, and in 64 or so at least.
    near : float, optional
        Stop, too, when the running bound is within this distance of the claim: the claim is nearly attained, and
        more runs would show little.
    confidence : float
        Probability that the running bound never exceeds the truth, in [0.5, 1); 1 - 1e-6 for a regression test.

    Raises `AuditError` as `epsaudit.audit` does; and before any run for a claim that no number of runs could refute,
    after a thousand if all of them raised the same exception.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, vectorized
    >>> noisy_count = vectorized(
    ...     lambda data, size, rng: len(data) + rng.laplace(scale=0.5, size=size),  # half the noise it needs
    ...     claim=PureDP(1.0), name="noisy count", pairs=[DatasetPair(("ann",), ("ann", "bob"))],
    ... )
    >>> result = audit_sequentially(noisy_count, seed=1)
    >>> result.stopped, result.runs < 2000
    ('refuted', True)
    """
    started = time.perf_counter()
    spec = AuditSpec.of(
        mechanism, pairs, fresh=fresh, claim=claim_given(claim, epsilon, delta, order, rho, mu), adjacency=adjacency,
        trials=trials, confidence=confidence, witnesses=witnesses,
    )  # fmt: skip
    refuse_if_irrefutable(spec.claim)
    given = seconds if seconds is None or callable(seconds) else seconds_of(seconds)

    def until(done: float) -> float:
        return math.inf if given is None else started + (given(done) if callable(given) else given)

    distance = finite_at_least(near, 0.0, "near") if near is not None else None
    with recording(spec, seed, n_jobs, progress, checkpoint, "sequential", distance) as means:
        return certified_in_rounds(spec, *means, until, distance)


def refuse_if_irrefutable(claim: Claim) -> None:
    """Raise `AuditError` for a claim that no bet can refute."""
    epsilon, delta = claim.claimed_point or (0.0, claim.profile(0.0))
    if epsilon > betting.LARGEST_EPSILON or delta > betting.LARGEST_DELTA:
        raise AuditError(
            f"No number of runs refutes a claim as weak as {claim}; its epsilon must be at most "
            f"{betting.LARGEST_EPSILON:g}, its delta, or the total variation distance that it allows, at most 1 - 1e-9."
        )


@dataclass
class _Pair:
    index: int
    pair: DatasetPair
    sides: OutputLaws
    learner: Learner
    plans: Plans
    outputs: tuple[list[Outputs], list[Outputs]]
    sizes: tuple[list[int], list[int]]  # of the blocks in which they were drawn
    remembered: int = 0

    def remember(self, outputs: tuple[Outputs | None, Outputs | None] | None) -> None:
        for memory, sizes, some in zip(self.outputs, self.sizes, outputs or (None, None), strict=True):
            if some is not None:
                memory.append(some)
                sizes.append(len(some))
                self.remembered += len(some)

    @property
    def growth(self) -> float:
        """Growth of log-wealth a run that the better strategy expects of the next round."""
        return max(plan.growth for plan in self.plans)

    def keeps(self, done: int) -> bool:
        """Whether outputs are kept after so many more runs than are remembered."""
        runs = self.remembered + done
        numbers = max((memory[0][:1].size for memory in self.outputs if memory), default=1)
        return runs < MOST_REMEMBERED and runs * numbers < MOST_NUMBERS_REMEMBERED

    def joined(self) -> tuple[Outputs, Outputs]:
        """All outputs that are remembered, of either side in one array, in which they are held from now on."""
        for memory in self.outputs:
            memory[:] = [join(memory)]
        return alike(self.outputs[0][0], self.outputs[1][0])


def certified_in_rounds(
    spec: AuditSpec,
    seed: int,
    n_jobs: int | None = None,
    progress: ProgressCallback | None = None,
    record: AuditRecord | None = None,
    until: Callable[[float], float] = lambda done: math.inf,
    near: float | None = None,
) -> SequentialResult:
    """Bet in rounds until there is a reason to stop, and report; what the checkpoint's section holds is not drawn.

    ``until`` is the moment of `time.perf_counter` at which to stop, by the share done as `audit_sequentially` says.
    """
    record = record or AuditRecord()
    if record.kept and (finished := record.once("result", SequentialResult.from_dict)) is not None:
        return finished
    run, claim, trials = prepare(spec, seed, n_jobs, record), spec.claim, spec.trials
    middles = isinstance(spec.witnesses, str)
    pairs = []
    for index, (pair, sides) in enumerate(zip(spec.pairs, run.sides, strict=True)):
        learner = Learner(spec.families, middles, claim, 1.0 - spec.confidence)
        pairs.append(_Pair(index, pair, sides, learner, (no_bet(claim), no_bet(claim)), ([], []), ([], [])))
    accounts = Accounts(claim, spec.confidence, STRATEGIES)
    rounds: list[Round] = []
    runs, pace, last, threads = 0, 0.0, pairs[0], ThreadpoolController()
    missing, grows = accounts.needed, 0.0  # log-evidence, and how much of it the next bets are to win a run
    stopped: Stopped | None = None

    def end() -> float:
        return until(runs / (runs + max(missing, 0.0) / grows) if grows > 0.0 else 0.0)

    while stopped is None:
        if runs >= trials:
            stopped = "runs"
            break
        # a few runs to begin with, then as many as all before, and no last round of less than half as many; steps of a
        # half refute after as many runs on average, from rounds whose learning takes half as much time again
        number, left = len(rounds), trials - runs
        size = min(FIRST_ROUND * len(pairs), left)
        if rounds:
            size = left if left < runs + runs // 2 else runs
        started = time.perf_counter()
        if rounds and started + pace * size / 2 > until(1.0):
            stopped = "seconds"
            break
        # learn; draw from the other pairs without betting; bet on the one with the greatest estimated growth
        growth = []
        for one in pairs:
            if one.learner.size != one.remembered and all(one.outputs):
                # more threads slow such small fits, and fits may end early: a worse witness costs power, not validity
                with threads.limit(limits=1), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    one.plans = one.learner.plan(*one.joined())
            growth.append(one.growth if one.learner.made else math.inf)
        best, *others = np.argsort(np.negative(growth), kind="stable")
        grows = pairs[best].growth
        if rounds and time.perf_counter() + pace * size / 2 > end():
            stopped = "seconds"
            break
        last, explored = pairs[best], 0
        for at in others:  # an even share of the first round each, else of a fifth
            other, each = pairs[at], size // (5 * len(others)) if rounds else size // len(pairs)
            if each and other.keeps(0):
                for drawn in _draw(run, record, other, number, each, runs, ()):
                    other.remember(drawn.outputs)
                explored += each
        runs += explored
        plans = last.plans
        accounts.open(plans)
        seen: Seen = np.zeros((STRATEGIES, 6), dtype=np.int64)
        interim: list[Floats] = []
        for drawn in _draw(run, record, last, number, size - explored, runs, [plans[0].witness, plans[1].witness]):
            so_far = seen + drawn.seen  # (looks, strategies, 6)
            lacking = accounts.needed - accounts.against_claim(so_far @ OUTCOMES)
            crossed = np.flatnonzero(lacking <= 0.0)
            at = int(crossed[0]) if len(crossed) else len(so_far) - 1
            runs += int(drawn.seen[at, 0].sum())
            seen, missing = so_far[at], float(lacking[at])
            last.remember(drawn.outputs)
            interim.append(seen @ OUTCOMES)
            accounts.look(interim[-1])
            if len(crossed):
                stopped = "refuted"
            elif near is not None and accounts.bound >= claim.parameter - near:
                stopped = "near"
            elif (now := time.perf_counter()) + (now - started) / len(interim) > end():
                stopped = "seconds"
            if stopped is not None:
                break
        accounts.close(interim[-1])
        strategies = []
        for row, plan in enumerate(plans):
            correct, wrong, nothing = np.array(interim, dtype=int)[:, row].T
            looks = zip((correct + wrong + nothing).tolist(), correct.tolist(), wrong.tolist(), strict=True)
            a, b, c, d, e, f = seen[row].tolist()
            counts = Counts(a + c + e, b + d + f, a, b, c, d, events=plan.witness.events)
            bet = (plan.witness, plan.tangent, plan.correct, plan.wrong, plan.past)
            strategies.append(StrategyRecord(*bet, counts, tuple(looks)))
        rounds.append(Round(str(last.pair), explored, tuple(strategies), digest((last.pair.x, last.pair.x_prime))))
        if runs >= ENOUGH_FAILURES:
            _refuse_if_all_failed(run, pairs)
        pace = (time.perf_counter() - started) / size
        if progress is not None:
            progress(Progress("certification", runs, trials))
    _refuse_if_all_failed(run, pairs)
    for one in pairs:
        if all(one.outputs):
            _refuse_if_dependent(one, run.copy_test, seed, LEVEL / len(pairs), stopped == "refuted", end())
    shared = run.shared(last.index, run.copy_test.notes.get(id(last.sides), ()))
    result = SequentialResult(**shared, stopped=stopped, rounds=tuple(rounds))
    more: list[str] = []
    if stopped == "refuted":
        if count_parts(result.witness) > MAX_SIMPLE_PARTS:
            x, x_prime = last.joined()
            simpler = simpler_event(x, x_prime, claim)
            said = []
            for which in ("guess_x", "guess_x_prime"):
                event = getattr(simpler, which, None)
                if event is not None:
                    on_x, on_x_prime = (np.count_nonzero(event.contains(side)) for side in (x, x_prime))
                    seen_in = f"{on_x:,} of {len(x):,} runs on x and {on_x_prime:,} of {len(x_prime):,} on x'"
                    said.append(f"{event}, seen in {seen_in}")
            more += [f"a simpler event, not certified: {'; '.join(said)}"] if said else []
        more += run.copy_test.of_a_refutation()
    if result.lower_bound > 0.0:
        looked = run.copy_test.again(last.sides, result.witness, None, seed, result.violates_claim, end())
        more += [f"{looked:,} more runs looked at copies"] if looked else []
    if more:
        result = dataclasses.replace(result, notes=(*result.notes, *more))
    if record.kept:
        record.record_once("result", result.to_dict)
    return result


def _refuse_if_all_failed(run: PreparedAudit, pairs: Sequence[_Pair]) -> None:
    blocks: list[Outputs] = []
    for one in pairs:
        blocks += [*one.outputs[0], *one.outputs[1]]
    refuse_if_all_failed(run.mechanism.name, blocks, run.mechanism, pairs[0].pair.x)


def _refuse_if_dependent(one: _Pair, copy_test: CopyTest, seed: int, level: float, refuted: bool, until: float) -> None:
    # the audit may stop after any chunk, depending on what it saw: that after the k-th has a share 1 / (k (k + 1))
    one.joined()
    for (memory,), sizes, side in zip(one.outputs, one.sizes, ("x", "x'"), strict=True):
        share = level / (8 * len(sizes) * (len(sizes) + 1))
        if (finding := dependence_of_outputs(memory, (sizes,), share)) is not None:
            refuse(finding, side)
    more: tuple[list[Outputs], list[Outputs]] = ([], [])
    random_call_order = getattr(one.sides[0], "tossed", False) or getattr(one.sides[1], "tossed", False)
    in_turns = hasattr(one.sides[0], "take_turns") and hasattr(one.sides[1], "take_turns")
    if copy_test.calls > 2 and (random_call_order or (in_turns and refuted and one.remembered < ENOUGH_TO_TRUST)):
        # ask again in many calls: the few of an audit that ended early show too little
        most = min(RUNS_A_CALL if random_call_order else RUNS_A_STREAM, max(copy_test.calls // (2 * MORE_CALLS), 2))
        calls = min(MORE_CALLS, copy_test.calls // (2 * most))
        rng = stream(seed, "sequential", 0, 0, 0, 1, MORE_CALLS)
        once = functools.partial(draw_by_coins, one.sides, np.array([0, 1] * 2, np.int8), rng)
        size = affordable(until, once, 4, 2 * calls, 2, most)
        calls = affordable(until, once, 4, 4, FEWEST_CALLS, calls) if size == 2 else calls
        coins = np.repeat(np.array([0, 1], np.int8), size)
        for call in range(calls):
            rng = stream(seed, "sequential", 0, 0, 0, 1, call)
            for found, outputs in zip(more, draw_by_coins(one.sides, rng.permutation(coins), rng), strict=True):
                found += [] if outputs is None else [outputs]
        for found, side in zip(more, ("x", "x'"), strict=True):
            if (finding := dependence_of_outputs(join(found), ([size] * calls,), level / 8)) is not None:
                refuse(finding, side)
    x, x_prime = join([*one.outputs[0], *more[0]]), join([*one.outputs[1], *more[1]])
    copy_test.at(one.sides, (x, x_prime))
    half = min(len(x), len(x_prime)) // 2
    rates = Rates.of((x[:half], x_prime[:half]))
    later = np.array([rates.seen(0, x[half:]), rates.seen(1, x_prime[half:])])
    rates.refuse_if_moved(later, only_stopped=True)


@dataclass(frozen=True)
class Drawn:
    """What a chunk came to: counts of its guesses up to every look, shape (looks, strategies, 6), and outputs."""

    seen: Seen
    outputs: tuple[Outputs | None, Outputs | None] | None
    changed: tuple[bool, ...]
    seconds: float = 0.0


@dataclass(frozen=True)
class Part:
    """A chunk of the game, after which of its runs the evidence is looked at, and whether its outputs are kept."""

    chunk: Chunk
    looks: NDArray[np.intp]
    keep: bool


def _draw(
    run: PreparedAudit,
    record: AuditRecord,
    one: _Pair,
    number: int,
    size: int,
    before: int,
    witnesses: Sequence[Witness],
) -> Iterator[Drawn]:
    """Draw a round on a pair, chunk by chunk and in order; chunks that the checkpoint holds are not drawn again.

    The evidence is looked at after each run, or every thousandth of all. Whoever has seen enough closes the generator.
    """
    chunk = min(max(-(-size // 16), 16), 1 << 16)
    planned = digest(json.dumps([witness.to_dict() for witness in witnesses])) if record.kept else ""
    parts: list[tuple[Part, Drawn | None]] = []
    for place, done in enumerate(range(0, size, chunk)):
        ends = min(chunk, size - done)
        looks = np.unique(np.append(np.arange(1, ends + 1, max(1, (before + done) // 1000)), ends))
        key = Chunk((STAGES["sequential"], one.index, number, place), ends)
        part = Part(key, looks, one.keeps(done))
        parts.append((part, _held(record, part, planned, len(witnesses)) if record.kept else None))
    enough = False
    missing = (part for part, held in parts if held is None and not enough)
    fresh = run.workers.each(_guessed, (one.sides, witnesses, run.seed), missing, size, in_order=True)
    try:
        for part, held in parts:
            drawn = held
            if drawn is None:
                _, drawn = next(fresh)
                if record.kept:  # what no seed gives again however quickly it is drawn
                    seconds = drawn.seconds if getattr(run.mechanism, "reproducible", True) else math.inf
                    numbers = {"seen": drawn.seen.tolist(), "changed": list(drawn.changed)}
                    record.record(part.chunk, drawn.outputs, seconds, planned=planned, **numbers)
            learn(one.sides, drawn.changed)
            yield drawn
    except GeneratorExit:
        enough = True
        for _ in fresh:  # a few chunks: to stop workers in the middle takes longer than they do
            pass
        raise
    finally:
        fresh.close()


def _guessed(shared: tuple[OutputLaws, Sequence[Witness], int], part: Part) -> Drawn:
    sides, witnesses, seed = shared
    started, size = time.perf_counter(), part.chunk.size
    rng = stream(seed, "sequential", *part.chunk.key[1:])
    side = rng.integers(0, 2, size, dtype=np.int8)
    codes = np.empty((len(witnesses), size), dtype=np.int8)
    codes[:] = 4 + side
    drawn = draw_by_coins(sides, side, rng)
    for which, outputs in enumerate(drawn):
        if outputs is None:
            continue
        mine = np.flatnonzero(side == which)
        for row, witness in enumerate(witnesses):
            for guess, mask in enumerate(witness.guesses(outputs)):
                if mask is not None:
                    codes[row, mine[mask]] = 2 * guess + which
    look = np.searchsorted(part.looks, np.arange(1, size + 1))  # the first that counts each run
    shape = (len(part.looks), len(witnesses), 6)
    places = np.ravel_multi_index((look, np.arange(len(witnesses))[:, None], codes), shape) if witnesses else codes
    seen = np.bincount(places.ravel(), minlength=math.prod(shape)).reshape(shape).cumsum(axis=0)
    return Drawn(seen, drawn if part.keep else None, changed(sides), time.perf_counter() - started)


def _held(record: AuditRecord, part: Part, planned: str, strategies: int) -> Drawn | None:
    held = record.recorded(part.chunk)
    if held is None:
        return None
    if held.get("planned") != planned:
        record.refuse_other_events()
    with record.making_sense("chunk"):
        seen = np.array(held["seen"], dtype=np.int64).reshape(len(part.looks), strategies, 6)
        fits = part.keep == (held["outputs"] is not None) and np.all(seen[-1].sum(axis=-1) == part.chunk.size)
        if not fits or np.any(seen < 0) or len(held["changed"]) != 2:
            raise ValueError
    return Drawn(seen, held["outputs"], tuple(map(bool, held["changed"])))

"""The sequential audit: rounds of the membership game with witnesses chosen from earlier rounds only.

`audit_sequentially` takes a mechanism, a budget and a seed and returns a `SequentialResult`. Chunks of a round draw
from their own streams, so the result depends on the seed and the budget only, not on which worker computed which chunk
or how many were drawn beyond the stopping time.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import joblib
import numpy as np
from numpy.typing import NDArray

from epsaudit.arguments import (
    Pairs,
    Relation,
    claim_of,
    families_of,
    jobs_of,
    pairs_of,
    progress_of,
    seconds_of,
    trials_of,
)
from epsaudit.auditor import exact_parameter, prepared
from epsaudit.claims import Claim
from epsaudit.copies import Copies
from epsaudit.dependence import LEVEL, dependence_of_outputs, refuse
from epsaudit.determinism import refuse_if_drawn_before, with_known_randomness
from epsaudit.errors import AuditError, confidence_of, finite_at_least
from epsaudit.failures import refuse_if_all_failed
from epsaudit.mechanism import Mechanism, mechanism_of, takes_turns
from epsaudit.neighbours import DatasetPair, shorten
from epsaudit.outputs import Outputs, alike, join
from epsaudit.parallel import jobs_allowed, jobs_to_use
from epsaudit.provenance import provenance
from epsaudit.sampling import Progress, ProgressCallback, Sides, draw_by_coins, entropy, learn, notes_on
from epsaudit.sequential import betting
from epsaudit.sequential.accounts import Accounts
from epsaudit.sequential.drawing import STREAM, TALLY_OF_CODE, Codes, counts_of, guessed_chunk, tallies_of
from epsaudit.sequential.learning import Plans, no_bet, plans
from epsaudit.sequential.record import Round, SequentialResult, Stopped, StrategyRecord
from epsaudit.sequential.schedule import STRATEGIES, chunk_sizes, looked_at_each, remembered, round_sizes
from epsaudit.sequential.schedule import looks as moments_of
from epsaudit.witnesses import Family, Witness

ENOUGH_FAILURES = 1_000
"""Runs after which a mechanism that only ever raised the same exception is given up."""
MORE_CALLS = 64
"""Calls to each side, beyond the budget, that show whether outputs depend on their call; the audit may have had few."""
RUNS_A_CALL, RUNS_A_STREAM = 32, 4
"""Runs on each side in such a call of a function or program that makes many a call, and with such a stream of what
makes one. Then half of all pairs a lag apart, against half at random, have a p-value below 1e-20 where 4 in 5 pairs
within a call lie on one side of the median; and where all outputs of a stream are equal."""
ENOUGH_TO_TRUST = 1 << 12
"""Runs after which what is remembered shows the same of a function that is called once a run."""


def audit_sequentially(
    mechanism: Mechanism | Callable[..., Any],
    pairs: Pairs | None = None,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    adjacency: Relation | None = None,
    trials: int = 1_000_000,
    seconds: float | None = None,
    near: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
    progress: ProgressCallback | None = None,
) -> SequentialResult:
    """Audit until the claim is refuted or the budget is spent; the bound holds at every stopping time.

    Every run is a round of the membership game on which strategies bet against the claim; if the claim is true, their
    wealth is a supermartingale and stays small (`epsaudit.sequential.betting`). Witnesses, tangents and bets are
    relearned from all runs so far as they come in.

    Parameters
    ----------
    mechanism, pairs, claim, epsilon, delta, adjacency, seed, n_jobs, witnesses, progress
        As for `epsaudit.audit`. Of several pairs, each round bets on the one with the greatest estimated growth and
        spends a fifth of its runs on the others.
    trials : int
        The most runs, on both datasets together; at least 100.
    seconds : float, optional
        The most time: no round begins that would, at the pace so far, not end in time.
    near : float, optional
        Stop, too, when the running bound is within this distance of the claim: the claim is nearly attained, and
        more runs would show little.
    confidence : float
        Probability that the running bound never exceeds the truth, in [0.5, 1); 1 - 1e-6 for a regression test.

    Returns
    -------
    SequentialResult

    Raises
    ------
    AuditError
        As for `epsaudit.audit`; and before any run for a claim that no number of runs could refute, after a thousand if
        all of them raised the same exception.

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
    mechanism = mechanism_of(mechanism, adjacency)
    claim = claim_of(mechanism, claim, epsilon, delta)
    refuse_if_irrefutable(claim)
    trials = trials_of(trials)
    confidence = confidence_of(confidence)
    until = started + seconds_of(seconds) if seconds is not None else math.inf
    distance = finite_at_least(near, 0.0, "near") if near is not None else None
    seed = entropy(seed)
    families = families_of(witnesses)
    candidates = pairs_of(mechanism, pairs)
    n_jobs, progress = jobs_of(n_jobs), progress_of(progress)
    mechanism = with_known_randomness(mechanism, candidates[0], seed)
    prefer: Literal["threads", "processes"] = (
        "threads" if getattr(mechanism, "releases_the_interpreter", True) else "processes"
    )
    sequential = _SequentialAudit(
        claim,
        [_PairState(pair, prepared(mechanism, pair)) for pair in candidates],
        families,
        1.0 - confidence,
        distance,
        trials,
        seed,
        jobs_allowed(mechanism, n_jobs),
        prefer,
    )
    refuse_if_drawn_before(mechanism, candidates[0], sequential.states[0].sides, seed)
    copies = Copies(mechanism, seed)
    stopped = sequential.run(until, progress, mechanism)
    refuse_if_all_failed(mechanism.name, sequential.remembered(), mechanism, candidates[0].x)
    for state in sequential.states:
        state.refuse_if_dependent(copies, seed, LEVEL / len(sequential.states), refuted=stopped == "refuted")
    state = sequential.last
    result = SequentialResult(
        mechanism=mechanism.name,
        claim=claim,
        pair=str(state.pair),
        x=shorten(state.pair.x),
        x_prime=shorten(state.pair.x_prime),
        trials=trials,
        confidence=confidence,
        stopped=stopped,
        rounds=tuple(sequential.rounds),
        exact=exact_parameter(claim, state.sides),
        seed=seed,
        reproducible=bool(getattr(mechanism, "reproducible", True)),
        notes=(*notes_on(state.sides), *copies.notes(state.sides)),
        provenance=provenance(),
        seconds=time.perf_counter() - started,
    )
    if result.lower_bound > 0.0:
        copies.count_again(state.sides, result.witness, result.runs, result.violates_claim)
    return result


def refuse_if_irrefutable(claim: Claim) -> None:
    """Raise `AuditError` for a claim that no bet can refute."""
    epsilon, delta = claim.claimed_point or (0.0, claim.profile(0.0))
    if epsilon > betting.LARGEST_EPSILON or delta > betting.LARGEST_DELTA:
        raise AuditError(
            f"No number of runs refutes a claim as weak as {claim}; its epsilon must be at most "
            f"{betting.LARGEST_EPSILON:g}, its delta, or the total variation distance that it allows, at most 1 - 1e-9."
        )


@dataclass
class _PairState:
    """A pair, its two output distributions, and the outputs remembered of each."""

    pair: DatasetPair
    sides: Sides
    outputs: tuple[list[Outputs], list[Outputs]] = field(default_factory=lambda: ([], []))
    remembered: int = 0
    plans: Plans | None = None
    planned_at: int = -1

    def remember(self, outputs: tuple[Outputs | None, Outputs | None]) -> None:
        for memory, some in zip(self.outputs, outputs, strict=True):
            if some is not None:
                memory.append(some)
                self.remembered += len(some)

    def refuse_if_dependent(self, copies: Copies, seed: int, level: float, refuted: bool) -> None:
        """Raise `AuditError` if what is remembered shows that runs depend on one another.

        The audit may stop after any chunk, depending on what it saw: that after the k-th has a share 1 / (k (k + 1)).
        """
        if not all(self.outputs):
            return
        for memory, side in zip(self.outputs, ("x", "x'"), strict=True):
            chunks = len(memory)
            share = level / (8 * chunks * (chunks + 1))
            refuse(dependence_of_outputs(join(memory), ([len(block) for block in memory],), share), side)
        more: tuple[list[Outputs], list[Outputs]] = ([], [])
        tossed = any(getattr(side, "tossed", False) for side in self.sides)
        in_turns = all(map(takes_turns, self.sides))
        if tossed or (in_turns and refuted and self.remembered < ENOUGH_TO_TRUST):
            more = self._more_calls(seed, level / 8, RUNS_A_CALL if tossed else RUNS_A_STREAM)
        copies.look(self.sides, (join([*self.outputs[0], *more[0]]), join([*self.outputs[1], *more[1]])), share)

    def _more_calls(self, seed: int, level: float, size: int) -> tuple[list[Outputs], list[Outputs]]:
        """Ask again in many calls: the few of an audit that ended early show too little."""
        coins = np.repeat(np.array([0, 1], np.int8), size)
        calls: tuple[list[Outputs], list[Outputs]] = ([], [])
        for number in range(MORE_CALLS):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, 0, 0, 0, 1, number)))
            for found, outputs in zip(calls, draw_by_coins(self.sides, rng.permutation(coins), rng), strict=True):
                found += [] if outputs is None else [outputs]
        for found, name in zip(calls, ("x", "x'"), strict=True):
            refuse(dependence_of_outputs(join(found), ([size] * MORE_CALLS,), level), name)
        return calls

    def learn(self, families: Sequence[Family], claim: Claim, alpha: float) -> None:
        """Plan the next round from everything remembered, if there is anything new."""
        if self.planned_at == self.remembered or not all(self.outputs):
            return
        blocks = alike(*(join(memory) for memory in self.outputs))
        # more threads slow such small fits, and fits may end early: a worse witness costs power, not validity
        with _thread_pools().limit(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.plans = plans(families, blocks[0], blocks[1], claim, alpha)
        self.planned_at = self.remembered


@functools.cache
def _thread_pools() -> Any:
    """Handle on the thread pools of numerical libraries, which takes milliseconds to find."""
    import sklearn  # noqa: F401  # has pools of its own, and is slow to import
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _SequentialAudit:
    """Accounts and rounds as the audit goes on."""

    def __init__(
        self,
        claim: Claim,
        states: Sequence[_PairState],
        families: Sequence[Family],
        alpha: float,
        near: float | None,
        trials: int,
        seed: int,
        n_jobs: int | None,
        prefer: Literal["threads", "processes"],
    ) -> None:
        self.claim, self.states, self.families, self.alpha, self.near = claim, states, families, alpha, near
        self.trials, self.seed, self.n_jobs, self.prefer = trials, seed, n_jobs, prefer
        self.accounts = Accounts(claim, 1.0 - alpha, STRATEGIES)
        self.runs = 0
        self.rounds: list[Round] = []
        self.last = states[0]

    def run(self, until: float, progress: ProgressCallback | None, mechanism: Mechanism) -> Stopped:
        """Run rounds until there is a reason to stop."""
        pace = 0.0
        stopped: Stopped | None = None
        for number, size in enumerate(round_sizes(self.trials, len(self.states))):
            begun = time.perf_counter()
            if self.rounds and begun + pace * size > until:
                stopped = "seconds"
                break
            for state in self.states:
                state.learn(self.families, self.claim, self.alpha)
            stopped = self._round(number, size)
            if self.runs >= ENOUGH_FAILURES:
                refuse_if_all_failed(mechanism.name, self.remembered(), mechanism, self.states[0].pair.x)
            pace = (time.perf_counter() - begun) / size
            if progress is not None:
                progress(Progress("certification", self.runs, self.trials))
            if stopped is not None:
                break
        return stopped or "runs"

    def remembered(self) -> Iterator[Outputs]:
        """Yield all blocks of outputs that are remembered, on both datasets of every pair."""
        return (block for state in self.states for side in state.outputs for block in side)

    def _round(self, number: int, size: int) -> Stopped | None:
        """Draw from the other pairs without betting, then bet on the one with the greatest estimated growth."""
        ranked = sorted(
            range(len(self.states)),
            key=lambda i: -max((plan.growth for plan in self.states[i].plans or ()), default=math.inf),
        )
        others, explored = ranked[1:], 0
        each = looked_at_each(size, len(self.states), first=number == 0)
        for index in others:
            state = self.states[index]
            if each and any(remembered([each], state.remembered)):
                for _, outputs in self._draw(state, index, number, each, []):
                    state.remember(outputs)
                explored += each
        self.last = self.states[ranked[0]]
        return self._bet(self.last, ranked[0], number, size - explored, explored)

    def _bet(self, state: _PairState, index: int, number: int, size: int, explored: int) -> Stopped | None:
        planned = state.plans or (no_bet(self.claim),) * STRATEGIES
        self.accounts.open(planned)
        self.runs += explored
        seen = np.zeros((STRATEGIES, 6), dtype=np.int64)
        looks: list[betting.Floats] = []
        stopped: Stopped | None = None
        for codes, outputs in self._draw(state, index, number, size, [plan.witness for plan in planned]):
            length, refuted = self._stopping(codes, seen)
            seen += np.array([np.bincount(row[:length], minlength=6) for row in codes])
            self.runs += length
            state.remember(outputs)
            looks.append(np.array([tallies_of(row) for row in seen]))
            self.accounts.look(looks[-1])
            if refuted:
                stopped = "refuted"
            elif self.near is not None and self.accounts.bound >= self.claim.parameter - self.near:
                stopped = "near"
            if stopped is not None:
                break
        self.accounts.close(looks[-1])
        strategies = (
            StrategyRecord(
                plan.witness, plan.tangent, plan.correct, plan.wrong, plan.past, counts_of(row, plan.witness), interim
            )
            for plan, row, interim in zip(planned, seen, map(_interim, np.swapaxes(looks, 0, 1)), strict=True)
        )
        self.rounds.append(Round(str(state.pair), explored, tuple(strategies)))
        return stopped

    def _stopping(self, codes: Codes, seen: NDArray[np.int64]) -> tuple[int, bool]:
        """Test after every run, or every thousandth of all runs; return where to stop, and whether that refutes."""
        size = codes.shape[1]
        moments, steps = moments_of(size, self.runs), TALLY_OF_CODE[codes]
        tallies = np.stack(
            [np.cumsum(steps == outcome, axis=1).T[moments - 1] for outcome in range(3)], axis=-1
        ) + np.array([tallies_of(row) for row in seen])  # (looks, strategies, 3)
        crossed = np.flatnonzero(self.accounts.against_claim(tallies) >= self.accounts.needed)
        return (int(moments[crossed[0]]), True) if len(crossed) else (size, False)

    def _draw(
        self, state: _PairState, index: int, number: int, size: int, witnesses: Sequence[Witness]
    ) -> Iterator[tuple[Codes, tuple[Outputs | None, Outputs | None]]]:
        """Draw a round chunk by chunk, in order; chunks beyond the stopping time are discarded."""
        sizes = chunk_sizes(size)
        keep = remembered(sizes, state.remembered)
        jobs = jobs_to_use(self.n_jobs, size)
        group = len(sizes) if jobs is None else 1 if jobs == 1 else 8
        with joblib.Parallel(n_jobs=jobs, prefer=self.prefer) as parallel:
            for first in range(0, len(sizes), group):
                for codes, outputs, seen in parallel(
                    joblib.delayed(guessed_chunk)(
                        state.sides, witnesses, sizes[i], self.seed, (STREAM, index, number, i), keep[i]
                    )
                    for i in range(first, min(first + group, len(sizes)))
                ):
                    learn(state.sides, seen)
                    yield codes, outputs


def _interim(tallies: betting.Floats) -> tuple[tuple[int, int, int], ...]:
    """Runs, correct and wrong guesses of tallies, shape (looks, 3)."""
    return tuple((int(tally.sum()), int(tally[betting.CORRECT]), int(tally[betting.WRONG])) for tally in tallies)

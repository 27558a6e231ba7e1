"""The game itself: rounds of runs, each judged by witnesses that only the rounds before it could choose.

A mechanism, a budget and a seed enter, a `SequentialResult` leaves. Chunks of a round draw from their own streams, so
the result depends on the seed and the budget only, not on who computed which chunk or how many were drawn in vain.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import joblib
import numpy as np
from numpy.typing import NDArray

from epsaudit.auditor import (
    LEAST_TRIALS,
    checked_claim,
    checked_pairs,
    exact_parameter,
    families_of,
    prepared,
)
from epsaudit.blocks import joined
from epsaudit.claims import Claim
from epsaudit.dependence import LEVEL, dependence_of_outputs, refuse
from epsaudit.determinism import Constants, with_known_randomness
from epsaudit.errors import AuditError, finite_at_least, fraction, whole_at_least
from epsaudit.failures import refuse_if_all_failed
from epsaudit.mechanism import Mechanism, Outputs
from epsaudit.neighbours import DatasetPair, shorten
from epsaudit.parallel import jobs_allowed, jobs_to_use
from epsaudit.provenance import provenance
from epsaudit.sampling import Progress, ProgressCallback, Sides, draw_by_coins, entropy, learn, notes_on
from epsaudit.sequential import betting
from epsaudit.sequential.accounts import Accounts
from epsaudit.sequential.drawing import STREAM, TALLY_OF_CODE, Codes, counts_of, judged_chunk, tallies_of
from epsaudit.sequential.learning import Plans, nothing, plans
from epsaudit.sequential.record import Play, Round, SequentialResult, Stopped
from epsaudit.witnesses import Family, Witness

STRATEGIES = 2
ENOUGH_FAILURES = 1_000
"""Runs after which a mechanism that only ever raised the same exception is given up."""
FIRST_ROUND = 24
LEAST_TO_TRUST, ENOUGH_TO_TRUST = 1 << 10, 1 << 12
"""Runs, beyond the budget, that show whether outputs depend on their call, where an audit refutes with few calls."""
CALLS_TO_TRUST = 16
MOST_REMEMBERED = 100_000
"""Runs of a pair whose outputs are kept to learn from."""


def audit_sequentially(
    mechanism: Mechanism,
    pairs: DatasetPair | Sequence[DatasetPair] | None = None,
    *,
    claim: Claim | None = None,
    trials: int = 1_000_000,
    seconds: float | None = None,
    near: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
    progress: ProgressCallback | None = None,
) -> SequentialResult:
    """Audit until the claim is refuted or the budget is spent; the bound holds at every moment of the way.

    Every run is a round of a guessing game on which sixty bettors stake money against the claim; see
    `epsaudit.sequential.betting` for why the claim's being true keeps them poor. Witnesses, tangents and bets are
    relearned from all runs so far as they come in.

    Parameters
    ----------
    mechanism, pairs, claim, seed, n_jobs, witnesses, progress
        As for `epsaudit.audit`. Several pairs compete: each round bets on the one that looks worst, and spends a fifth
        of its runs on looking at the others.
    trials : int
        The most runs, on both datasets together; at least 100.
    seconds : float, optional
        The most time: no round begins that would, at the pace so far, not end in time.
    near : float, optional
        Stop, too, when the running bound is within this distance of the claim: the claim is nearly attained, and
        more runs would show little.
    confidence : float
        Probability that the running bound never exceeds the truth, in (0, 1); 1 - 1e-6 for a regression test.

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
    claim = checked_claim(mechanism, claim)
    _refuse_if_irrefutable(claim)
    trials = whole_at_least(trials, LEAST_TRIALS, "trials")
    confidence = fraction(confidence, "confidence", open_below=True)
    until = started + finite_at_least(seconds, 0.0, "seconds") if seconds is not None else math.inf
    distance = finite_at_least(near, 0.0, "near") if near is not None else None
    seed = entropy(seed)
    candidates = checked_pairs(mechanism, pairs)
    mechanism = with_known_randomness(mechanism, candidates[0], seed)
    prefer: Literal["threads", "processes"] = (
        "threads" if getattr(mechanism, "releases_the_interpreter", True) else "processes"
    )
    game = _Game(
        claim,
        [_Table(pair, prepared(mechanism, pair)) for pair in candidates],
        families_of(witnesses),
        1.0 - confidence,
        distance,
        trials,
        seed,
        jobs_allowed(mechanism, n_jobs),
        prefer,
    )
    constants = Constants(mechanism, seed)
    stopped = game.play(until, progress, mechanism.name)
    refuse_if_all_failed(mechanism.name, game.remembered())
    for table in game.tables:
        table.refuse_if_dependent(constants, seed, refuted=stopped == "refuted")
    table = game.last
    return SequentialResult(
        mechanism=mechanism.name,
        claim=claim,
        pair=str(table.pair),
        x=shorten(table.pair.x),
        x_prime=shorten(table.pair.x_prime),
        trials=trials,
        confidence=confidence,
        stopped=stopped,
        rounds=tuple(game.rounds),
        exact=exact_parameter(claim, table.sides),
        seed=seed,
        reproducible=bool(getattr(mechanism, "reproducible", True)),
        notes=(*notes_on(table.sides), *constants.notes(table.sides)),
        provenance=provenance(),
        seconds=time.perf_counter() - started,
    )


def _refuse_if_irrefutable(claim: Claim) -> None:
    epsilon, delta = claim.claimed_point or (0.0, claim.profile(0.0))
    if epsilon > betting.LARGEST_EPSILON or delta > betting.LARGEST_DELTA:
        raise AuditError(
            f"No number of runs refutes a claim as weak as {claim}; its epsilon must be at most "
            f"{betting.LARGEST_EPSILON:g}, its delta, or the total variation distance that it allows, at most 1 - 1e-9."
        )


@dataclass
class _Table:
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

    def refuse_if_dependent(self, constants: Constants, seed: int, refuted: bool) -> None:
        """Raise `AuditError` if what is remembered shows that runs depend on one another.

        The audit may stop after any chunk, depending on what it saw: that after the k-th has a share 1 / (k (k + 1)).
        """
        if not all(self.outputs):
            return
        for memory, side in zip(self.outputs, ("x", "x'"), strict=True):
            chunks = len(memory)
            level = LEVEL / (8 * chunks * (chunks + 1))
            refuse(dependence_of_outputs(joined(memory), ([len(block) for block in memory],), level), side)
        tossed = any(getattr(side, "tossed", False) for side in self.sides)
        if refuted and tossed and self.remembered < ENOUGH_TO_TRUST:
            self._refuse_if_calls_depend(seed)
        constants.look(self.sides, (joined(self.outputs[0]), joined(self.outputs[1])))

    def _refuse_if_calls_depend(self, seed: int) -> None:
        """Ask again what makes many outputs a call: the few calls of an audit that ended early show too little."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, 0, 0, 0, 1)))
        size = max(self.remembered, LEAST_TO_TRUST) // (2 * CALLS_TO_TRUST)
        coins = np.repeat(np.array([0, 1], np.int8), size)
        calls = [draw_by_coins(self.sides, coins, rng) for _ in range(CALLS_TO_TRUST)]
        for outputs, name in zip(zip(*calls, strict=True), ("x", "x'"), strict=True):
            sizes = [len(one) for one in outputs if one is not None]
            refuse(dependence_of_outputs(joined(outputs), (sizes,), LEVEL / 8), name)

    def learn(self, families: Sequence[Family], claim: Claim, alpha: float) -> None:
        """Plan the next round from everything remembered, if there is anything new."""
        if self.planned_at == self.remembered or not all(self.outputs):
            return
        blocks = [joined(memory) for memory in self.outputs]
        if blocks[0].dtype != blocks[1].dtype or blocks[0].shape[1:] != blocks[1].shape[1:]:
            both = joined(blocks)
            blocks = [both[: len(blocks[0])], both[len(blocks[0]) :]]
        # fits this small only suffer from more threads, and may end early: a poorer witness costs power, not validity
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


class _Game:
    """Accounts and rounds as the audit goes on."""

    def __init__(
        self,
        claim: Claim,
        tables: Sequence[_Table],
        families: Sequence[Family],
        alpha: float,
        near: float | None,
        trials: int,
        seed: int,
        n_jobs: int | None,
        prefer: Literal["threads", "processes"],
    ) -> None:
        self.claim, self.tables, self.families, self.alpha, self.near = claim, tables, families, alpha, near
        self.trials, self.seed, self.n_jobs, self.prefer = trials, seed, n_jobs, prefer
        self.accounts = Accounts(claim, 1.0 - alpha, STRATEGIES)
        self.runs = 0
        self.rounds: list[Round] = []
        self.last = tables[0]

    def play(self, until: float, progress: ProgressCallback | None, name: str) -> Stopped:
        """Play rounds until there is a reason to stop."""
        pace = 0.0
        stopped: Stopped | None = None
        for number, size in enumerate(_round_sizes(self.trials, len(self.tables))):
            begun = time.perf_counter()
            if self.rounds and begun + pace * size > until:
                stopped = "seconds"
                break
            for table in self.tables:
                table.learn(self.families, self.claim, self.alpha)
            stopped = self._round(number, size)
            if self.runs >= ENOUGH_FAILURES:
                refuse_if_all_failed(name, self.remembered())
            pace = (time.perf_counter() - begun) / size
            if progress is not None:
                progress(Progress("certification", self.runs, self.trials))
            if stopped is not None:
                break
        return stopped or "runs"

    def remembered(self) -> Iterator[Outputs]:
        """Yield all blocks of outputs that are remembered, on both datasets of every pair."""
        return (block for table in self.tables for side in table.outputs for block in side)

    def _round(self, number: int, size: int) -> Stopped | None:
        """Look at the other pairs without betting, then bet on the one that looks worst."""
        ranked = sorted(
            range(len(self.tables)),
            key=lambda i: -max((plan.growth for plan in self.tables[i].plans or ()), default=math.inf),
        )
        others, looked = ranked[1:], 0
        each = size // (5 * len(others)) if others and number else size // len(self.tables) if others else 0
        for index in others:
            table = self.tables[index]
            if each and table.remembered < MOST_REMEMBERED:
                for _, outputs in self._draw(table, index, number, each, []):
                    table.remember(outputs)
                looked += each
        self.last = self.tables[ranked[0]]
        return self._bet(self.last, ranked[0], number, size - looked, looked)

    def _bet(self, table: _Table, index: int, number: int, size: int, looked: int) -> Stopped | None:
        planned = table.plans or (nothing(self.claim),) * STRATEGIES
        self.accounts.open(planned)
        self.runs += looked
        seen = np.zeros((STRATEGIES, 6), dtype=np.int64)
        marks: list[betting.Floats] = []
        stopped: Stopped | None = None
        for codes, outputs in self._draw(table, index, number, size, [plan.witness for plan in planned]):
            length, refuted = self._look(codes, seen)
            seen += np.array([np.bincount(row[:length], minlength=6) for row in codes])
            self.runs += length
            table.remember(outputs)
            marks.append(np.array([tallies_of(row) for row in seen]))
            self.accounts.look(marks[-1])
            if refuted:
                stopped = "refuted"
            elif self.near is not None and self.accounts.bound >= self.claim.parameter - self.near:
                stopped = "near"
            if stopped is not None:
                break
        self.accounts.close(marks[-1])
        plays = (
            Play(plan.witness, plan.tangent, plan.correct, plan.wrong, plan.past, counts_of(row, plan.witness), marked)
            for plan, row, marked in zip(planned, seen, map(_marks, np.swapaxes(marks, 0, 1)), strict=True)
        )
        self.rounds.append(Round(str(table.pair), looked, tuple(plays)))
        return stopped

    def _look(self, codes: Codes, seen: NDArray[np.int64]) -> tuple[int, bool]:
        """Look after every run, or every thousandth of all runs; return where to stop, and whether that refutes."""
        size = codes.shape[1]
        looks = np.unique(np.append(np.arange(0, size, max(1, self.runs // 1000)), size - 1))
        steps = TALLY_OF_CODE[codes]
        tallies = np.stack([np.cumsum(steps == outcome, axis=1).T[looks] for outcome in range(3)], axis=-1) + np.array(
            [tallies_of(row) for row in seen]
        )  # (looks, strategies, 3)
        crossed = np.flatnonzero(self.accounts.against_claim(tallies) >= self.accounts.needed)
        return (int(looks[crossed[0]]) + 1, True) if len(crossed) else (size, False)

    def _draw(
        self, table: _Table, index: int, number: int, size: int, witnesses: Sequence[Witness]
    ) -> Iterator[tuple[Codes, tuple[Outputs | None, Outputs | None]]]:
        """Draw a round chunk by chunk, in order; chunks that nobody asks for any more are lost."""
        chunk = min(max(-(-size // 16), 16), 1 << 16)
        sizes = [min(chunk, size - done) for done in range(0, size, chunk)]
        jobs = jobs_to_use(self.n_jobs, size)
        group = len(sizes) if jobs is None else 1 if jobs == 1 else 8
        with joblib.Parallel(n_jobs=jobs, prefer=self.prefer) as parallel:
            for first in range(0, len(sizes), group):
                keep = table.remembered < MOST_REMEMBERED
                for codes, outputs, seen in parallel(
                    joblib.delayed(judged_chunk)(
                        table.sides, witnesses, sizes[i], self.seed, (STREAM, index, number, i), keep
                    )
                    for i in range(first, min(first + group, len(sizes)))
                ):
                    learn(table.sides, seen)
                    yield codes, outputs


def _marks(tallies: betting.Floats) -> tuple[tuple[int, int, int], ...]:
    """Runs, correct and wrong guesses of tallies, shape (marks, 3)."""
    return tuple((int(tally.sum()), int(tally[betting.CORRECT]), int(tally[betting.WRONG])) for tally in tallies)


def _round_sizes(trials: int, pairs: int) -> Iterator[int]:
    """Sizes of rounds: a few runs to begin with, then half as many again as all before."""
    done = 0
    while done < trials:
        size = FIRST_ROUND * pairs if done == 0 else max(done // 2, 8)
        size = min(size, trials - done)
        if trials - done - size < 16:  # no crumbs
            size = trials - done
        yield size
        done += size

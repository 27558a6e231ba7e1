"""The rounds of a sequential audit: learn, explore, bet, look, until there is a reason to stop; then check and report.

It stands alone because this loop is all that a sequential audit does; plans, chunks, checks and accounts are elsewhere.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import ThreadpoolController

from epsaudit.audits.sequential.checks import refuse_if_dependent
from epsaudit.audits.sequential.chunks import draw_round
from epsaudit.audits.sequential.learning import Learner, PlannedBets, simpler_event
from epsaudit.audits.sequential.memory import PairMemory
from epsaudit.audits.sequential.record import Round, SequentialResult, Stopped, StrategyRecord
from epsaudit.audits.spec import AuditSpec
from epsaudit.bounds.betting import Accounts
from epsaudit.bounds.counts import Counts
from epsaudit.running.dependence import LEVEL
from epsaudit.running.identity import digest
from epsaudit.running.progress import Progress
from epsaudit.running.runs import Runs
from epsaudit.witnesses.conditions import MAX_SIMPLE_PARTS, count_condition_parts

N_STRATEGIES = 2
"""[chosen] A conservative strategy and an aggressive one; see `epsaudit.audits.sequential.learning`."""
FIRST_ROUND = 24
"""[measured] Runs of the first round for each pair, on which nothing is bet. Mean runs to a refutation of 18 claims on
single numbers, at 5 % and 1e-6 and 12 seeds each, are 2 % more both with 12 and with 48."""
MIN_FAILURES = 1_000
"""[chosen] An audit ends after this many runs if all of them raised the same exception."""


class Game:
    """A sequential audit, played as rounds of bets against the claim.

    Parameters
    ----------
    spec : AuditSpec
        What is audited.
    runs : Runs
        The runs of the audit.
    deadline : callable
        A function that returns the time, as `time.perf_counter` counts it, at which the audit stops. Its argument is
        the number of runs so far, as a share of the runs that a refutation is expected to take.
    near : float, optional
        Stop also if the running bound is within this distance of the claim.
    """

    def __init__(self, spec: AuditSpec, runs: Runs, deadline: Callable[[float], float], near: float | None) -> None:
        self.spec, self.runs, self.near = spec, runs, near
        self._deadline = deadline
        built_in = isinstance(spec.witnesses, str)
        self.pairs = [
            PairMemory(index, pair, Learner(spec.families, built_in, spec.claim, spec.confidence))
            for index, pair in enumerate(spec.pairs)
        ]
        self.accounts = Accounts(spec.claim, spec.confidence, N_STRATEGIES)
        self.rounds: list[Round] = []
        self.total = 0  # runs so far
        self.pace = 0.0  # seconds of a run in the last round
        self.last = self.pairs[0]  # the pair that was bet on last
        self.stopped: Stopped | None = None
        self._missing = self.accounts.needed  # log-evidence that a refutation still lacks
        self._growth = 0.0  # log-evidence that the next bets are expected to win in one run
        self._threads = ThreadpoolController()

    def play(self) -> SequentialResult:
        """Play rounds until there is a reason to stop, check the runs, and return the result.

        Raises `AuditError` if runs depend on one another, or if all of them raised the same exception.
        """
        self.runs.prepare()
        while self.stopped is None:
            if self.total >= self.spec.trials:
                self.stopped = "runs"
            else:
                self._play_round(self._round_size())
        self._refuse_if_all_failed()
        for memory in self.pairs:
            if all(memory.outputs):
                level = LEVEL / len(self.pairs)
                refuse_if_dependent(self.runs, memory, level, self.stopped == "refuted", self._end())
        return self._result()

    def _round_size(self) -> int:
        """Return the number of runs of the next round.

        The first round has a few runs. Every later round has as many runs as all rounds before it together. With rounds
        of half this size, a refutation takes as many runs on average, and learning takes half as much time again. A
        round takes all remaining runs if it would leave fewer than half of its own number.
        """
        left = self.spec.trials - self.total
        if not self.rounds:
            return min(FIRST_ROUND * len(self.pairs), left)
        return left if left < self.total + self.total // 2 else self.total

    def _end(self) -> float:
        """Return the time at which the audit stops, given its expected progress towards a refutation.

        The progress is the number of runs so far, as a share of the runs that a refutation is expected to take. The
        number of missing runs is the log-evidence that a refutation still lacks, divided by its expected growth in one
        run.
        """
        if self._growth <= 0.0:
            return self._deadline(0.0)
        return self._deadline(self.total / (self.total + max(self._missing, 0.0) / self._growth))

    def _play_round(self, size: int) -> None:
        """Play a round of ``size`` runs: learn, explore other pairs, bet on the best pair, and record the outcome.

        If there is no time for half of the round, the audit stops instead.
        """
        started, number = time.perf_counter(), len(self.rounds)
        if self.rounds and started + self.pace * size / 2 > self._deadline(1.0):
            self.stopped = "seconds"
            return
        best, *others = self._learn()
        if self.rounds and time.perf_counter() + self.pace * size / 2 > self._end():
            self.stopped = "seconds"
            return
        self.last = best
        explored = self._explore(others, number, size)
        self.total += explored
        interim = self._bet(number, size - explored, started)
        self.accounts.close(interim[-1].outcomes)
        self._record_round(explored, interim)
        if self.total >= MIN_FAILURES:
            self._refuse_if_all_failed()
        self.pace = (time.perf_counter() - started) / size

    def _learn(self) -> list[PairMemory]:
        """Plan the next round on every pair, and return the pairs, the one with the greatest expected growth first."""
        growth = []
        for memory in self.pairs:
            memory.learn(self._threads)
            growth.append(memory.growth if memory.learner.made else math.inf)
        order = [self.pairs[at] for at in np.argsort(np.negative(growth), kind="stable")]
        self._growth = order[0].growth
        return order

    def _explore(self, others: list[PairMemory], number: int, size: int) -> int:
        """Draw outputs on the pairs ``others``, which are not bet on in this round, and return the number of runs.

        The outputs are kept to learn from them. In the first round, all pairs have the same number of runs. In later
        rounds, the pairs ``others`` together have a fifth of the ``size`` runs of the round.
        """
        explored = 0
        for memory in others:
            each = size // (5 * len(others)) if self.rounds else size // len(self.pairs)
            if each and memory.has_room(0):
                for chunk in draw_round(self.runs, memory, number, each, self.total, ()):
                    memory.keep(chunk.outputs)
                explored += each
        return explored

    def _bet(self, number: int, size: int, started: float) -> list[Counts]:
        """Make the runs of a round on the best pair, and bet on them until there is a reason to stop.

        The round has at most ``size`` runs. It ends at the first interim look at which the claim is refuted; other
        reasons to stop are looked for after every chunk of runs. Returns the counts at the last look of every chunk,
        whose fields have shape (strategies,).
        """
        memory, plans = self.last, self.last.plans
        self.accounts.open(plans)
        counts = Counts.of_cells(np.zeros((N_STRATEGIES, 6), dtype=np.int64))
        interim: list[Counts] = []
        witnesses = [plan.witness for plan in plans]
        for chunk in draw_round(self.runs, memory, number, size, self.total, witnesses):
            in_chunk = Counts.of_cells(chunk.cells)  # fields of shape (looks, strategies)
            so_far = counts + in_chunk
            missing = self.accounts.needed - self.accounts.against_claim(so_far.outcomes)
            crossed = np.flatnonzero(missing <= 0.0)
            at = int(crossed[0]) if len(crossed) else len(missing) - 1
            self.total += int(in_chunk.at((at, 0)).runs)
            counts, self._missing = so_far.at(at), float(missing[at])
            memory.keep(chunk.outputs)
            interim.append(counts)
            self.accounts.look(counts.outcomes)
            if self.runs.progress is not None:
                self.runs.progress(self._progress(counts))
            self.stopped = self._reason_to_stop(bool(len(crossed)), (time.perf_counter() - started) / len(interim))
            if self.stopped is not None:
                break
        return interim

    def _progress(self, counts: Counts) -> Progress:
        bound = self.accounts.bound
        return Progress("certification", self.total, self.spec.trials, 0, counts.at(0), lambda counts: bound)

    def _reason_to_stop(self, refuted: bool, seconds_per_chunk: float) -> Stopped | None:
        if refuted:
            return "refuted"
        if self.near is not None and self.accounts.bound >= self.spec.claim.parameter - self.near:
            return "near"
        return "seconds" if time.perf_counter() + seconds_per_chunk > self._end() else None

    def _record_round(self, explored: int, interim: list[Counts]) -> None:
        plans: PlannedBets = self.last.plans
        strategies = []
        for row, plan in enumerate(plans):
            looks = [one.at(row) for one in interim]
            seen = dataclasses.replace(looks[-1], events=plan.witness.events)
            outcomes = [Counts.of_outcomes(one.runs, one.correct, one.wrong) for one in looks]
            bet = (plan.witness, plan.tangent, plan.correct, plan.wrong, plan.past)
            strategies.append(StrategyRecord(*bet, seen, tuple(outcomes)))
        pair = self.last.pair
        self.rounds.append(Round(str(pair), explored, tuple(strategies), digest((pair.x, pair.x_prime))))

    def _refuse_if_all_failed(self) -> None:
        self.runs.refuse_if_all_failed([block for one in self.pairs for side in one.outputs for block in side])

    def _result(self) -> SequentialResult:
        """Return the result of the audit, after a comparison of the mechanism with fresh copies of itself.

        The notes of the result mention this comparison and, if the certified event is complicated, a simpler event.
        Raises `AuditError` if the copies show that the mechanism keeps something from run to run.
        """
        assert self.stopped is not None
        pair = self.last.index
        shared = self.runs.result_fields(pair, self.runs.notes(pair))
        result = SequentialResult(**shared, stopped=self.stopped, rounds=tuple(self.rounds))
        notes: list[str] = []
        if self.stopped == "refuted":
            if count_condition_parts(result.witness) > MAX_SIMPLE_PARTS:
                notes += self._simpler_event()
            notes += self.runs.copy_test.notes_on_a_refutation()
        if result.lower_bound > 0.0:
            made = self.runs.compare_copies(pair, result.witness, None, result.violates_claim, self._end())
            notes += [f"{made:,} more runs looked at copies"] if made else []
        return dataclasses.replace(result, notes=(*result.notes, *notes)) if notes else result

    def _simpler_event(self) -> list[str]:
        """Return a note in which the result names a simple event that also distinguishes the datasets, with its counts.

        The list is empty if no simple event distinguishes the datasets.
        """
        x, x_prime = self.last.joined()
        simpler = simpler_event(x, x_prime, self.spec.claim)
        found = []
        for which in ("guess_x", "guess_x_prime"):
            event = getattr(simpler, which, None)
            if event is not None:
                on_x, on_x_prime = (np.count_nonzero(event.contains(side)) for side in (x, x_prime))
                seen_in = f"{on_x:,} of {len(x):,} runs on x and {on_x_prime:,} of {len(x_prime):,} on x'"
                found.append(f"{event}, seen in {seen_in}")
        return [f"a simpler event, not certified: {'; '.join(found)}"] if found else []

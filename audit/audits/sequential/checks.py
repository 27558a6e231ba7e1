"""Whether the runs of a sequential audit depend on one another; it is tested when the audit has stopped.

An audit that stops early has made few calls, which may show too little. So some mechanisms are called again, with runs
that count for nothing else.
"""

from __future__ import annotations

import functools

import numpy as np

from epsaudit.audits.sequential.memory import PairMemory
from epsaudit.outputs.arrays import Outputs, join_outputs
from epsaudit.running.chunks import can_interleave, draw_by_coins, need_random_order
from epsaudit.running.copies import affordable
from epsaudit.running.dependence import dependence_of_outputs, refuse
from epsaudit.running.rates import Rates
from epsaudit.running.runs import Runs
from epsaudit.running.streams import stream

MAX_CALLS = 64
"""[chosen] Maximum number of further calls on each dataset, beyond the budget, that test whether outputs depend on the
call in which they were made."""
MIN_CALLS = 16
"""[time] Minimum number of these further calls, which are made even if the audit has no time left. Each call then makes
two runs on each dataset, so all calls take ten seconds if a run takes 0.15 seconds."""
RUNS_PER_CALL, RUNS_PER_STREAM = 32, 4
"""[formula] Maximum number of runs on each dataset in one of these further calls. The first number is for a function or
program that makes many runs in one call. The second number is for a mechanism that is called once for each run; it
counts the runs with one random stream. With these numbers, the p-value of the test is below 1e-20 in two cases: 4 in 5
pairs of runs within a call are on the same side of the median, or all outputs of a stream are equal."""
ENOUGH_RUNS = 1 << 12
"""[chosen] After this many kept runs, a function that is called once for each run is not called again: the kept runs
suffice."""


def refuse_if_dependent(runs: Runs, memory: PairMemory, level: float, refuted: bool, until: float) -> None:
    """Raise `AuditError` if the outputs of a pair show that runs depend on one another.

    The tests use the outputs that ``memory`` keeps of the pair and, if needed, outputs of further calls of the
    mechanism. ``level`` is the significance level of all tests together, and ``refuted`` says whether the claim was
    refuted. The tests should end at the time ``until``, as `time.perf_counter` counts it.
    """
    # An audit may stop after any chunk, depending on what it saw: stopping after chunk k has the share 1 / (k (k + 1)).
    memory.joined()
    for (outputs,), sizes, side in zip(memory.outputs, memory.sizes, ("x", "x'"), strict=True):
        share = level / (8 * len(sizes) * (len(sizes) + 1))
        if (finding := dependence_of_outputs(outputs, (sizes,), share)) is not None:
            refuse(finding, side)
    further = _draw_in_many_calls(runs, memory, level, refuted, until)
    x, x_prime = (join_outputs([*kept, *more]) for kept, more in zip(memory.outputs, further, strict=True))
    runs.test(memory.index, (x, x_prime))
    half = min(len(x), len(x_prime)) // 2
    rates = Rates.of((x[:half], x_prime[:half]))
    later = np.array([rates.seen(0, x[half:]), rates.seen(1, x_prime[half:])])
    rates.refuse_if_moved(later, only_stopped=True)


def _draw_in_many_calls(
    runs: Runs, memory: PairMemory, level: float, refuted: bool, until: float
) -> tuple[list[Outputs], list[Outputs]]:
    """Draw outputs on x and on x' in many separate calls, and test whether they depend on the call.

    Return the outputs as two lists of arrays, which are empty if no further calls are needed. Raise `AuditError` if the
    outputs depend on the call. The arguments are those of `refuse_if_dependent`.
    """
    laws, copy_calls = runs.laws[memory.index], runs.copy_test.calls
    found: tuple[list[Outputs], list[Outputs]] = ([], [])
    many_runs_per_call = need_random_order(laws)
    is_needed = many_runs_per_call or (can_interleave(laws) and refuted and memory.kept < ENOUGH_RUNS)
    if copy_calls <= 2 or not is_needed:
        return found
    most = min(RUNS_PER_CALL if many_runs_per_call else RUNS_PER_STREAM, max(copy_calls // (2 * MAX_CALLS), 2))
    calls = min(MAX_CALLS, copy_calls // (2 * most))
    rng = stream(runs.seed, "sequential", 0, 0, 0, 1, MAX_CALLS)
    once = functools.partial(draw_by_coins, laws, np.array([0, 1] * 2, np.int8), rng)
    size = affordable(until, once, 4, 2 * calls, 2, most)
    if size == 2:
        calls = affordable(until, once, 4, 4, MIN_CALLS, calls)
    coins = np.repeat(np.array([0, 1], np.int8), size)
    for call in range(calls):
        rng = stream(runs.seed, "sequential", 0, 0, 0, 1, call)
        for blocks, outputs in zip(found, draw_by_coins(laws, rng.permutation(coins), rng), strict=True):
            blocks += [] if outputs is None else [outputs]
    for blocks, side in zip(found, ("x", "x'"), strict=True):
        if (finding := dependence_of_outputs(join_outputs(blocks), ([size] * calls,), level / 8)) is not None:
            refuse(finding, side)
    return found

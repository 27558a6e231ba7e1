"""A run that is recorded on x and replayed on x', with the further runs that judging both needs.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import pickle
from typing import Any

from epsaudit.tools.tracing import primitives
from epsaudit.tools.tracing.recorder import RANDOM_KINDS, Recorder, TraceEvent, value_to_json
from epsaudit.tools.tracing.runs import Call, run_once

NUDGES = (1e-6, 1e3, 2e3, -3e3)
"""[chosen] Amounts that are added to an answer to see whether the output follows it: a tiny one, and three that are far
larger than any rounding (see `PROPORTION_TOLERANCE`). A selection does not follow the answer: the tiny amount does not
change it, and its changes by the others are not proportional."""
PROPORTION_TOLERANCE = 2.0 / NUDGES[1]
"""[formula] Relative tolerance for changes to be proportional to the nudges. Whole numbers are rounded before and after
a nudge, so that a change may be off by 2."""
SAMPLE_RUNS = 100
"""[formula] Further runs on each side if an input moves that meets noise of an unknown law. For Laplace noise with a
fifth of the scale of the move, 100 outputs on one side are beyond all outputs on the other; for noise as large as the
move half of them are."""
MAX_NUDGED_DRAWS = SAMPLE_RUNS // 4
"""[time] Largest number of draws whose answers are nudged; each needs four runs. The other draws are taken to reach the
output."""
MECHANISM_CALLS = 512
"""[formula] Calls of a mechanism in compiled code on each of two inputs, to see whether its outputs are apart. Under
1-DP a range with half of the outputs on one side has at least a fifth of the outputs on the other side. That it has
none of 512 outputs has probability 1e-45."""
MAX_ARRAY_PLACES = 64
"""[time] Largest number of places of an array that are sampled. All runs take 17 ms to send for 64 places, and 2.6 s
for 10,000."""
BIT_TEST_CALLS = 2048
"""[formula] Calls of a mechanism on each of two inputs to compare the last bits of its outputs. For Gaussian noise of
scale 5 beside a step of 1, about 80 outputs are near 0."""


def record_and_replay(
    call: Call, x: Any, x_prime: Any, seed: int, free_runs: int, bits: bool = False
) -> dict[str, Any]:
    """Record the function on x, replay it on x', make further runs, and return everything as JSON can represent it.

    Parameters
    ----------
    call : callable
        Calls the audited function.
    x, x_prime : any
        The two datasets.
    seed : int
        Seed of all runs.
    free_runs : int
        Number of further runs on each side with other random numbers. They show whether a part of the output is random
        at all.
    bits : bool
        Whether to sample mechanisms of libraries, so that the last bits of their outputs can be compared.

    Returns
    -------
    dict
        "events" and "events_prime" are the recorded calls of both runs. "outcome" and "outcome_prime" are their
        outputs, and "repeated" is the output of a replay on x itself. "constant" names the parts of the output that
        are the same in all runs of a side and differ between the sides. "responses" says how the output follows
        nudged draws, and "samples" has outputs of single draws and mechanisms on both sides. "unseen" and "unread"
        say what was not observed.
    """
    both, recorded = (pickle.dumps(x, -1), pickle.dumps(x_prime, -1)), Recorder()
    outcome, repeated = run_once(call, both[0], recorded, seed), run_once(call, both[0], Recorder(recorded), seed)
    replay = Recorder(recorded)
    outcome_prime = run_once(call, both[1], replay, seed)
    leaves = outcome["leaves"], outcome_prime["leaves"]
    differing = [name for name in {**leaves[0], **leaves[1]} if leaves[0].get(name, ...) != leaves[1].get(name, ...)]
    matched = {one.order: one for one in replay.events if one.order is not None}
    moved = {
        order: recorded.events[order] for order, one in matched.items() if one.input != recorded.events[order].input
    }
    followed = {"add": moved, "draw": matched if differing else moved}
    nudged = [order for order, one in matched.items() if order in followed.get(one.kind, ())]
    is_random = any(event.kind in RANDOM_KINDS for event in recorded.events + replay.events)
    constant, samples = _make_further_runs(call, both, recorded, seed, leaves, differing, moved, free_runs, is_random)
    samples.update(_mechanism_samples(recorded, replay, moved, bits))
    return {
        "events": [vars(event) for event in recorded.events],
        "events_prime": [vars(event) for event in replay.events],
        "outcome": outcome,
        "outcome_prime": outcome_prime,
        "repeated": repeated["leaves"],
        "constant": constant if free_runs or not is_random else [],
        "responses": [
            [order, _response(call, both[0], recorded, order, leaves[0], seed)] for order in nudged[:MAX_NUDGED_DRAWS]
        ],
        "samples": [[order, *made] for order, made in samples.items()],
        "bits": bits,
        "unseen": sorted({*recorded.unseen, *replay.unseen}),
        "unread": sorted({*outcome.get("unread", ()), *outcome_prime.get("unread", ())}),
    }


def _make_further_runs(
    call: Call,
    both: tuple[bytes, bytes],
    recorded: Recorder,
    seed: int,
    leaves: tuple[dict[str, Any], dict[str, Any]],
    differing: list[str],
    moved: dict[int, TraceEvent],
    free_runs: int,
    is_random: bool,
) -> tuple[list[str], dict[int, Any]]:
    """Make further runs on both sides with other random numbers.

    Returns
    -------
    constant : list of str
        The names of those differing parts of the output that were the same in all runs of a side.
    samples : dict
        For each sum that moved and has noise of an unknown law, the lists of its values on x and on x'.
    """
    unknown = [order for order, one in moved.items() if one.kind == "add" and not one.states["is_linear"]]
    samples: dict[int, Any] = {order: ([], []) for order in unknown}
    constant = differing
    for number in range(2 * max(free_runs, SAMPLE_RUNS * bool(samples)) if is_random else 2):
        if not constant and not samples:
            break
        side, free = number % 2, Recorder(recorded, ())
        found = run_once(call, both[side], free, seed + 1 + number)["leaves"]
        constant = [name for name in constant if found.get(name, ...) == leaves[side].get(name, ...)]
        for place, event in enumerate(free.events):
            if event.order in samples:
                value: Any = free.results.get(place)
                some = value.ravel()[:MAX_ARRAY_PLACES] if hasattr(value, "ravel") else value
                samples[event.order][side].append(value_to_json(some))
    return constant, samples


def _mechanism_samples(
    recorded: Recorder, replay: Recorder, moved: dict[int, TraceEvent], bits: bool
) -> dict[int, list[list[Any]]]:
    """Call each mechanism whose input moved many more times with both inputs, and return the answers by its number.

    Only mechanisms in compiled code are called, or all mechanisms if ``bits`` is true.
    """
    samples: dict[int, list[list[Any]]] = {}
    for number, repeat in replay.repeats.items():
        event, order = replay.events[number], replay.events[number].order
        if order is not None and order in moved and (bits or event.norm in primitives.COMPILED_NORMS):
            calls = range(BIT_TEST_CALLS if bits else MECHANISM_CALLS)
            both = recorded.repeats[order], repeat
            samples[order] = [[value_to_json(again()) for _ in calls] for again in both]
    return samples


def _response(
    call: Call, data: bytes, recorded: Recorder, order: int, before: dict[str, Any], seed: int
) -> dict[str, tuple[float, bool]]:
    """Return how each part of the output responds when the answer of a recorded draw is nudged.

    Returns
    -------
    dict
        For each part that responds or is a number, its name with two values. The first is the change for each unit of
        the nudge; it is 0 for a part that does not change in proportion. The second is true if the first describes the
        whole response. It is false for a number that is rounded later, which changes in proportion to large nudges and
        not at all by the tiny one, and for a part that changes without any proportion, as a selection does.
    """
    # sums with the nudged answer are computed again, so that only the draws are as recorded
    runs = [run_once(call, data, Recorder(recorded, RANDOM_KINDS, (order, by)), seed)["leaves"] for by in NUDGES]
    found: dict[str, tuple[float, bool]] = {}
    is_integer = type(recorded.results[order]) is int
    for name, value in before.items():
        after = [one.get(name) for one in runs]
        if all(type(one) in (int, float) for one in (value, *after)):
            tiny, *large = ((one - value) / by for one, by in zip(after, NUDGES))  # noqa: B905  # strict since 3.10
            slope = large[-1]
            proportional = slope and all(abs(one - slope) <= PROPORTION_TOLERANCE * abs(slope) for one in large)
            is_complete = bool(tiny) or (is_integer if proportional else not any(large))
            found[name] = slope if proportional else tiny, is_complete
        elif after != [value] * len(after):
            found[name] = 0.0, False
    return found

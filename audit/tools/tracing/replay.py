"""The recording of a run on x, its replay on x' with the same random numbers, and further runs to judge both.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import pickle
from typing import Any

from epsaudit.tools.tracing import primitives
from epsaudit.tools.tracing.outputs import value_to_json
from epsaudit.tools.tracing.recorder import KNOWN_LAWS, RANDOM_KINDS, Recorder, TraceEvent
from epsaudit.tools.tracing.runs import Call, execute

NUDGES = (1e-6, 1e3, 2e3, -3e3)
"""[chosen] Amounts that are added to the answer of a draw to see whether the output changes in proportion: a tiny one,
and three that are far larger than any rounding (see `PROPORTION_TOLERANCE`). A selection does not change in proportion:
the tiny amount does not change it, and its changes by the others are not proportional."""
PROPORTION_TOLERANCE = 2.0 / NUDGES[1]
"""[formula] Relative tolerance within which changes of the output are proportional to the `NUDGES`. Whole numbers are
rounded before and after an amount is added, so that a change may be off by 2."""
SAMPLE_RUNS = 100
"""[formula] Number of further runs on each dataset if the output differs, and noise of an unknown law or samples are
drawn. For Laplace noise with a fifth of the scale of the difference between x and x', 100 outputs on one side are
beyond all outputs on the other; for noise as large as the difference half of them are."""
MAX_NUDGED_DRAWS = SAMPLE_RUNS // 4
"""[time] Largest number of draws to which the `NUDGES` are added; each draw needs four runs on each dataset. The other
draws are taken to reach the output."""
MECHANISM_CALLS = 512
"""[formula] Number of calls of a mechanism in compiled code on each of two inputs, to see whether its outputs are too
far apart. Under 1-DP a range with half of the outputs on one side has probability 0.18 at least on the other side. That
it has none of 512 outputs there has probability 1e-45."""
MAX_SAMPLED_PARTS = 64
"""[time] Largest number of parts of the output that are sampled. All runs take 17 ms to send for 64 parts, and 2.6 s
for 10,000."""
BIT_TEST_CALLS = 2048
"""[formula] Number of calls of a mechanism on each of two inputs to compare the last bits of its outputs. For Gaussian
noise of scale 5 and inputs that differ by 1, about 80 outputs are near 0."""


def record_and_replay(
    call: Call, x: Any, x_prime: Any, seed: int, free_runs: int, bits: bool = False
) -> dict[str, Any]:
    """Record a run of the audited function on x, replay it on x' with the same random numbers, and make further runs.

    Return all recorded values in a form that JSON can represent.

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
        are the same in all runs on a dataset and differ between x and x'. "responses" and "responses_prime" say how
        the outputs on x and on x' change when the `NUDGES` are added to a draw. "samples" has outputs of single
        mechanisms on both datasets, and "parts" has values of parts of the output on both datasets. "unseen" and
        "unread" say what was not observed.
    """
    both, recorded = (pickle.dumps(x, -1), pickle.dumps(x_prime, -1)), Recorder()
    outcome = execute(call, both[0], recorded, seed).outcome
    repeated = execute(call, both[0], Recorder(recorded), seed).outcome
    replay = Recorder(recorded)
    outcome_prime = execute(call, both[1], replay, seed).outcome
    leaves = outcome["leaves"], outcome_prime["leaves"]
    differing = [name for name in {**leaves[0], **leaves[1]} if leaves[0].get(name, ...) != leaves[1].get(name, ...)]
    matched = {one.order: number for number, one in enumerate(replay.events) if one.order is not None}
    moved = {
        order: recorded.events[order]
        for order, number in matched.items()
        if replay.events[number].input != recorded.events[order].input
    }
    nudged = [order for order in (matched if differing else moved) if recorded.events[order].kind == "draw"]
    nudged = nudged[:MAX_NUDGED_DRAWS]
    events = recorded.events + replay.events
    is_random = any(one.kind in RANDOM_KINDS for one in events)
    is_unknown = any(one.kind == "sample" or (one.kind == "draw" and one.law not in KNOWN_LAWS) for one in events)
    n_runs = max(free_runs, SAMPLE_RUNS * is_unknown) if is_random else 1
    constant, parts = _make_further_runs(call, both, seed, leaves, differing, n_runs, is_unknown)
    return {
        "events": [vars(event) for event in recorded.events],
        "events_prime": [vars(event) for event in replay.events],
        "outcome": outcome,
        "outcome_prime": outcome_prime,
        "repeated": repeated["leaves"],
        "constant": constant if free_runs or not is_random else [],
        "responses": [[order, _response(call, both[0], recorded, order, leaves[0], seed)] for order in nudged],
        "responses_prime": [
            [order, _response(call, both[1], replay, matched[order], leaves[1], seed)] for order in nudged if differing
        ],
        "samples": [[order, *made] for order, made in _mechanism_samples(recorded, replay, moved, bits).items()],
        "parts": parts,
        "bits": bits,
        "unseen": sorted({*recorded.unseen, *replay.unseen}),
        "unread": sorted({*outcome.get("unread", ()), *outcome_prime.get("unread", ())}),
    }


def _make_further_runs(
    call: Call,
    both: tuple[bytes, bytes],
    seed: int,
    leaves: tuple[dict[str, Any], dict[str, Any]],
    differing: list[str],
    n_runs: int,
    samples_parts: bool,
) -> tuple[list[str], dict[str, Any]]:
    """Make further runs on both datasets with other random numbers, to see which parts of the output are random.

    Returns
    -------
    constant : list of str
        The names of those parts of the output that differ between x and x' and were the same in all runs on a dataset.
    parts : dict
        If ``samples_parts`` is true, for each other part that differs and is a number on both datasets, the lists of
        its values on x and on x' in further runs.
    """
    numbers = [name for name in differing if all(type(one.get(name)) in (int, float) for one in leaves)]
    parts: dict[str, Any] = {name: ([], []) for name in numbers[:MAX_SAMPLED_PARTS] if samples_parts}
    constant = differing
    for number in range(2 * n_runs):
        if not constant and not parts:
            break
        side = number % 2
        found = execute(call, both[side], Recorder(replays=False), seed + 1 + number).outcome["leaves"]
        constant = [name for name in constant if found.get(name, ...) == leaves[side].get(name, ...)]
        for name, sides in parts.items():
            sides[side].append(found.get(name))
    return constant, {name: sides for name, sides in parts.items() if name not in constant}


def _mechanism_samples(
    recorded: Recorder, replay: Recorder, moved: dict[int, TraceEvent], bits: bool
) -> dict[int, list[list[Any]]]:
    """Repeat each call of a mechanism whose input differs between x and x' many times, with both inputs.

    Return the answers on x and on x' by the number of the call. Only mechanisms in compiled code are called, or all
    mechanisms if ``bits`` is true.
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
    call: Call, data: bytes, recorded: Recorder, number: int, before: dict[str, Any], seed: int
) -> dict[str, tuple[float, bool, bool]]:
    """Return how each part of the output changes when the `NUDGES` are added to the answer of a recorded draw.

    Returns
    -------
    dict
        For each part that changes or is a number, its name with three values. The first is the change of the part for
        each unit that is added. The second is true if the first describes all changes. It is false for a number that is
        rounded later, which changes in proportion to large amounts and not at all by the tiny one, and for a part that
        changes without any proportion, as a selection does. The third is true if the part changes in proportion to
        large amounts.
    """
    recorders = [Recorder(recorded, nudge=(number, by)) for by in NUDGES]
    runs = [execute(call, data, one, seed).outcome["leaves"] for one in recorders]
    found: dict[str, tuple[float, bool, bool]] = {}
    is_integer = type(recorded.results[number]) is int
    for name, value in before.items():
        after = [one.get(name) for one in runs]
        if all(type(one) in (int, float) for one in (value, *after)):
            tiny, *large = ((one - value) / by for one, by in zip(after, NUDGES))  # noqa: B905  # strict since 3.10
            slope = large[-1]
            proportional = slope != 0.0 and all(abs(one - slope) <= PROPORTION_TOLERANCE * abs(slope) for one in large)
            is_complete = bool(tiny) or (is_integer if proportional else not any(large))
            found[name] = slope if proportional else tiny, is_complete, proportional
        elif after != [value] * len(after):
            found[name] = 0.0, False, False
    return found

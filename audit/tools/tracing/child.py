"""The program of the process in which a function is traced: it sends one recorded trace for each pair of datasets.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import sys
from typing import Any, Callable  # noqa: UP035  # as in the other modules that Python 3.8 may run

from epsaudit import serve
from epsaudit.tools.tracing.listening import np
from epsaudit.tools.tracing.outputs import RAISES
from epsaudit.tools.tracing.recorder import Recorder
from epsaudit.tools.tracing.replacement import replace_samplers
from epsaudit.tools.tracing.replay import record_and_replay
from epsaudit.tools.tracing.runs import Call, execute, only_returns_none

NOTHING = {RAISES: None, "": None}
"""The named parts of the output None, as `epsaudit.tools.tracing.runs.execute` stores them."""


def trace_all(answers: Any, call: Call, pairs: Any, discrete: Any = None, **settings: Any) -> None:
    """Send the recorded trace of each pair to the parent process.

    Parameters
    ----------
    answers : Connection
        The connection to the parent. Each answer is JSON in bytes: an object with the trace, or a sentence that says
        why there is none.
    call : callable
        Calls the audited function.
    pairs : sequence
        The pairs of datasets.
    discrete : callable, optional
        The function `epsaudit.tools.tracing.alignment.discrete_pair.discrete_pair`, which computes exact laws of
        outputs from discrete draws. It is an argument because it needs more packages than this module; without it,
        such laws are not computed.
    **settings
        Further arguments of `epsaudit.tools.tracing.replay.record_and_replay`.
    """
    try:
        data = pickle.dumps(pairs[0][0], -1)
        # run before the samplers are replaced, because functions import libraries when they are first called
        first = execute(call, data, Recorder(replays=False), 0).outcome
    except Exception:  # the run below reports it
        data, first = b"", {}
    replace_samplers()
    repeats = functools.lru_cache(None)(lambda: bool(first) and _repeats_first_run(call, data, first))
    for x, x_prime in pairs:
        try:
            answer: Any = record_and_replay(call, x, x_prime, **settings)
            if _returns_nothing(call, (x, x_prime), answer, settings["seed"]):
                answers.send_bytes(json.dumps("The function returned None in every run; is a return missing?").encode())
                continue
            answer["aligned"] = _runs_to_align(call, (x, x_prime), answer, settings, repeats, discrete)
        except Exception as error:  # a dataset that cannot be copied
            answer = f"The function cannot be traced: {type(error).__name__}: {error}."
        answers.send_bytes(json.dumps(answer).encode())


def _returns_nothing(call: Call, pair: Any, trace: Any, seed: int) -> bool:
    """Return whether both runs of a trace, and further runs on both datasets, returned None.

    The result is false for a function that tells events to a privacy accountant, because it need not return anything.
    """
    states = any(event["kind"] == "event" for event in trace["events"])
    if states or any(trace[side]["leaves"] != NOTHING for side in ("outcome", "outcome_prime")):
        return False
    both = [pickle.dumps(one, -1) for one in pair]

    def returns_none(side: int, number: int) -> bool:
        return bool(execute(call, both[side], Recorder(replays=False), seed + 1 + number).outcome["leaves"] == NOTHING)

    return only_returns_none(returns_none)


def _repeats_first_run(call: Call, data: bytes, first: Any) -> bool:
    """Return whether a run with seed 0 has the same output as the first run of this process, which had the same seed.

    ``first`` is the outcome of the first run, with the original samplers. If the outputs differ, the function may keep
    something between runs, such as noise that it draws only once, or it has a generator of its own.
    """
    return bool(execute(call, data, Recorder(replays=False), 0).outcome["leaves"] == first["leaves"])


def _runs_to_align(
    call: Call, pair: Any, trace: Any, settings: Any, repeats: Callable[[], bool], discrete: Any
) -> dict[str, Any]:
    """Record the runs of a pair from which the parent process computes alignments of the noise or exact laws.

    An alignment shifts the noise of a run so that the run on the other dataset gives the same output. Return the result
    of `recorded_pair`, or of ``discrete`` if the function only samples, shuffles or draws uniform numbers. If neither
    can decide the pair, return a dictionary with the reason as "why".
    """
    if trace["unseen"] or trace["unread"] or settings["bits"]:
        return {"why": "a draw or a part of the output is not observed, or last bits of floats are compared"}
    if np is None:
        return {"why": "numpy is not installed"}
    kinds, both = {event["kind"] for event in trace["events"]}, [pickle.dumps(one, -1) for one in pair]
    if discrete is not None and "sample" in kinds and not kinds & {"draw", "mechanism", "event"}:
        known = discrete(call, (both[0], both[1]), settings["seed"])
        return known if known is not None else {"why": "the law of the output is not known"}
    from epsaudit.tools.tracing.alignment.recorded_pair import recorded_pair

    n_calls = tuple(sum(event["kind"] == "draw" for event in trace[name]) for name in ("events", "events_prime"))
    mechanisms = any(event["kind"] == "mechanism" for event in trace["events"])
    found = recorded_pair(call, (both[0], both[1]), settings["seed"], n_calls, mechanisms)
    if "runs" in found and mechanisms:
        found["doubt"] = "a mechanism of a library is called"
    elif "runs" in found and found["doubt"] is None and not repeats():
        found["doubt"] = "with the same seed the function does not return what it returned first"
    return found


def trace_served(given: Any, number: int) -> None:
    """Trace a function that the command line names, in the Python environment of this process.

    Parameters
    ----------
    given : Namespace
        The arguments of `epsaudit.serve`: the function, its parameters, and the form of the data.
    number : int
        File descriptor of the connection to the parent, which sends the settings and the pairs.
    """
    from multiprocessing.connection import Connection

    answers = Connection(number)
    settings = json.loads(answers.recv_bytes())
    sys.path.insert(0, os.getcwd())
    try:
        server = serve.Server(
            serve.import_function(given.function), given.parameters, serve.DATASET_FORMS[given.data], given.fresh
        )
    except (Exception, SystemExit) as error:
        answers.send_bytes(json.dumps(f"{given.function} cannot be traced: {type(error).__name__}: {error}").encode())
        return

    def call(data: Any, rng: Any, seed: int) -> Any:
        handed = {name: rng if kind == "rng" else seed % 2**32 for name, kind in server.asked[0].items()}
        return server.made()(data, **given.parameters, **handed)

    pairs = [[server.form(serve.decode_dataset(one)) for one in pair] for pair in settings.pop("pairs")]
    trace_all(answers, call, pairs, **settings)

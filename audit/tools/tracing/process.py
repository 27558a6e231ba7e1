"""The child process in which a function is traced, so that replaced samplers do not affect the parent process.

A function of Python is traced in a fork of this process. A function that is served in another environment is traced by
a process of that environment, which gets the modules that need no package by their path.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epsaudit import serve
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, cause_of, clipped, seconds_of
from epsaudit.running.child import LAST_WORDS
from epsaudit.running.programs import CommandMechanism, dataset_to_json
from epsaudit.running.protocols import Mechanism
from epsaudit.tools.tracing import child as traced_process
from epsaudit.tools.tracing.alignment.certain import finite_parameter
from epsaudit.tools.tracing.alignment.discrete_pair import discrete_pair
from epsaudit.tools.tracing.alignment.pair_explanation import explain_pair
from epsaudit.tools.tracing.alignment.recorded_run import FollowedRun
from epsaudit.tools.tracing.bounded import with_bound
from epsaudit.tools.tracing.calls import call_of
from epsaudit.tools.tracing.exact_output import exact_excess
from epsaudit.tools.tracing.judge import judge
from epsaudit.tools.tracing.losses import exceeds_claim, free_runs
from epsaudit.tools.tracing.result import Trace
from epsaudit.tools.tracing.suspicion import PARAMETER, RELEASED, Suspicion

RECORDER_SCRIPT = """import sys, types
folder, number = sys.argv.pop(1), int(sys.argv.pop(1))
for name in ("epsaudit", "epsaudit.tools", "epsaudit.tools.tracing"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder + name[len("epsaudit"):].replace(".", "/")]
from epsaudit import serve
given = serve.parse_arguments()
from epsaudit.tools.tracing.child import trace_served
trace_served(given, number)"""
"""The program that traces a function in an environment without epsaudit. It imports the modules that need no package by
their path, and nothing else of epsaudit."""


def traces(
    asked: Mechanism,
    pairs: Sequence[DatasetPair],
    *,
    claim: Claim | None,
    seed: int,
    bits: bool = False,
    timeout: float = 300.0,
    looks_for_bounds: bool = False,
) -> Iterator[Trace | str]:
    """Trace a mechanism on each pair, one pair after the other, in a child process.

    A trace records a run on x and replays it on x' with the same random numbers. Samplers are replaced in the child
    process only.

    Parameters
    ----------
    asked : Mechanism
        The mechanism.
    pairs : sequence of DatasetPair
        The pairs.
    claim, seed, bits, timeout
        As for `epsaudit.trace`.
    looks_for_bounds : bool
        Whether to look for a certain upper bound for pairs with suspicions, or with something that cannot be judged;
        see `epsaudit.tools.tracing.bounded.with_bound`.

    Yields
    ------
    Trace or str
        For each pair its trace, or a sentence that says why it could not be traced.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise AuditError("A trace needs a POSIX system: Linux, macOS, or WSL on Windows.")
    if isinstance(asked, CommandMechanism) and serve.__file__ not in asked.program.words:
        raise AuditError(f"{asked.name} is a program, which cannot be traced; give a function of Python.")
    timeout, context = seconds_of(timeout, "timeout"), multiprocessing.get_context("fork")
    settings: dict[str, Any] = {"seed": seed, "free_runs": free_runs(claim), "bits": bits}
    started, (connection, child_connection) = time.perf_counter(), context.Pipe()
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # standard error of a served function, which is closed below
    child = context.Process(target=_run_child, args=(asked, pairs, settings, child_connection, errors), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forks beside threads, which the child does not need
        child.start()
    child_connection.close()
    try:
        if isinstance(asked, CommandMechanism):
            settings["pairs"] = [list(map(dataset_to_json, (one.x, one.x_prime))) for one in pairs]
            connection.send_bytes(json.dumps(settings).encode())
        for pair in pairs:
            if not connection.poll(timeout):
                raise AuditError(f"{asked.name} was silent for {timeout:g} seconds while it was traced.")
            answer = serve.decode_dataset(json.loads(connection.recv_bytes()))
            if isinstance(answer, str):
                yield answer
            else:
                found = _judged(asked.name, pair, claim, answer, started, seed)
                kinds = {event["kind"] for event in answer["events"]}
                # mechanisms of libraries are taken at their word by a bound, and judged by a replay
                looks = looks_for_bounds and not bits and not kinds & {"mechanism", "event"}
                yield with_bound(asked, found) if looks else found
            started = time.perf_counter()
    except (EOFError, ConnectionError):
        child.join()
        said = f"ended its process while it was traced, with status {child.exitcode}."
        errors.seek(0)
        cause = clipped(cause_of(errors.read().decode("utf-8", "replace")), LAST_WORDS)
        raise AuditError(f"{asked.name} {said}" + f" Its standard error says: {cause!r}." * bool(cause)) from None
    finally:
        connection.close()
        child.kill()
        child.join()
        errors.close()


def _judged(
    name: str, pair: DatasetPair, claim: Claim | None, answer: dict[str, Any], started: float, seed: int
) -> Trace:
    """Return the trace of a pair, given the recorded runs that the child process has sent.

    An alignment shifts the noise of a run so that the other dataset gives the same output. If alignments decide the
    pair, they replace the suspicions from the replay: by the reason why no alignment is within the claim, or by nothing
    if all traced runs have an alignment within the claim and no mechanism of a library is called.
    """
    suspicions, unlisted, unseen, n_calls = judge(answer, claim)
    exact = cheapest = None
    if claim is not None and not unseen and "runs" in answer["aligned"]:
        directions, others = (
            [[FollowedRun.of_json(one) for one in runs] for runs in answer["aligned"].get(name, ())]
            for name in ("runs", "runs with released sums")
        )
        why, cost, undecided, not_judged = explain_pair(claim, directions)
        if undecided and why is None and others:
            why, cost, undecided, not_judged = explain_pair(claim, others)
        if why is not None:
            shown = [one for one in suspicions if one.kind == RELEASED == why.kind]  # with the values on both sides
            suspicions = (*shown,) or (Suspicion(why.kind, why.reason, why.stack, why.loss),)
            unlisted, cheapest = (), why.cheapest
        elif not undecided and not any(event["kind"] == "mechanism" for event in answer["events"]):
            # a mechanism may contradict what it states
            suspicions, unlisted = (), not_judged
            cheapest = cost if answer["aligned"]["straight"] else None
        else:
            unlisted = (*unlisted, *not_judged, *filter(None, [undecided]))
        if answer["aligned"]["straight"] and not answer["aligned"]["doubt"]:
            exact = exact_excess([one for one, *_ in directions], claim)
    if "contradicted" in answer["aligned"]:
        unlisted = (*unlisted, answer["aligned"]["why"])
    if claim is not None and not unseen and not suspicions and "laws" in answer["aligned"]:
        suspicions = suspicions_of_laws(claim, answer["aligned"])
    seconds = time.perf_counter() - started
    return Trace(
        name, pair, claim, suspicions, unlisted, unseen, n_calls, seconds, seed, exact=exact, cheapest=cheapest
    )


def suspicions_of_laws(claim: Claim, found: Mapping[str, Any]) -> tuple[Suspicion, ...]:
    """Return a suspicion if the exact loss of an output from discrete draws exceeds the claim; else an empty tuple.

    The suspicion is about the first draw whose law differs between x and x'.
    """
    loss = finite_parameter(claim, found["laws"])
    if loss is None or not exceeds_claim(claim, loss):
        return ()
    which = f"the law of {found['name']} depends on the data" if found["name"] else "discrete draws decide the output"
    sentence = f"{which}: the output loses {claim.symbol} {loss:.6g} where {claim} is claimed"
    return (Suspicion(PARAMETER, sentence, tuple(map(tuple, found["stack"])), loss),)


def _run_child(asked: Mechanism, pairs: Sequence[DatasetPair], settings: Any, answers: Any, errors: Any) -> None:
    """Trace all pairs in this forked process.

    If the function lives in another environment, the Python of that environment replaces the process and does the same.
    """
    gc.freeze()  # a garbage collection would copy all memory that is shared with the parent
    try:
        if not isinstance(asked, CommandMechanism):
            traced_process.trace_all(
                answers, call_of(asked), [(one.x, one.x_prime) for one in pairs], discrete_pair, **settings
            )
            return
        python, *words = asked.program.words
        words = words[words.index(serve.__file__) + 1 :]
        null = os.open(os.devnull, os.O_RDWR)
        for standard_stream, opened in enumerate((null, null, errors.fileno())):
            os.dup2(opened, standard_stream)
        os.set_inheritable(answers.fileno(), True)
        os.chdir(asked.program.folder or os.curdir)
        folder = str(Path(serve.__file__).parent)
        os.execvp(python, [python, "-c", RECORDER_SCRIPT, folder, str(answers.fileno()), *words])
    except BrokenPipeError:
        pass
    except Exception as error:
        answers.send_bytes(json.dumps(f"{asked.name} cannot be traced: {error}.").encode())
    finally:
        os._exit(0)  # without the exit handlers of the parent, which this fork has inherited

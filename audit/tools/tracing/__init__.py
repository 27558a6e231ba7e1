"""A function traced: recorded on x and replayed on x' with the same random answers, to name the line that leaks.

What differs then is a branch, a size, a parameter or an input that depends on private data. It is a suspicion, never a
verdict on privacy. A verdict comes from the exact law of the output itself, where every number of it is data plus a
draw of its own and nothing else is random (`epsaudit.tools.tracing.exact_output`), or, with ``certify``, from an
audit of the
pair by runs of the whole function. The idea is that of dp-recorder (Cebere, Erb, Desfontaines, Bellet and Fitzsimons
2026, arXiv:2602.17454), here without instrumenting the code.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from epsaudit import serve
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.spec import check_trials
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair, Relation, pair_of
from epsaudit.errors import AuditError, cause_of, clipped, seconds_of
from epsaudit.running.child import LAST_WORDS
from epsaudit.running.functions import FunctionMechanism, mechanism_of
from epsaudit.running.programs import CommandMechanism, dataset_to_json
from epsaudit.running.protocols import Mechanism, is_claim
from epsaudit.running.streams import entropy
from epsaudit.text import lower
from epsaudit.tools.tracing import child as traced_process
from epsaudit.tools.tracing.exact_output import exact_excess
from epsaudit.tools.tracing.recorder import Call, mechanism
from epsaudit.tools.tracing.verdicts import MOVES, NOTHING_SEEN, UNLISTED, Judge, Suspicion, free_runs

__all__ = ["Suspicion", "Trace", "mechanism", "trace", "traces"]

START = """import sys, types
folder, number = sys.argv.pop(1), int(sys.argv.pop(1))
for name in ("epsaudit", "epsaudit.tools", "epsaudit.tools.tracing"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder + name[len("epsaudit"):].replace(".", "/")]
from epsaudit import serve
given = serve.parse_arguments()
from epsaudit.tools.tracing.child import main
main(given, number)"""
"""Runs the recorder in an environment that has no epsaudit: its modules by path, and nothing else of the package."""


@dataclass(frozen=True)
class Trace:
    """What a recorded run and its replay came to."""

    name: str
    pair: DatasetPair
    claim: Claim | None
    suspicions: tuple[Suspicion, ...]
    """In the order of calls: the first is where the runs part."""
    unlisted: tuple[str, ...]
    """Places of draws that belong to no known mechanism, which are listed and not judged."""
    unseen: tuple[str, ...]
    """What was not seen: threads, processes, compiled code."""
    calls: int
    """Draws, sums and mechanisms that were recorded on x."""
    seconds: float = field(compare=False)
    seed: int
    certificate: SequentialResult | None = None
    """Of a statistical audit from end to end."""
    exact: float | None = None
    """The exact loss of the output on this pair in the claim's parameter, if it is known and exceeds the claim."""

    @property
    def suspicious(self) -> bool:
        return bool(self.suspicions)

    @property
    def loss(self) -> float:
        """The largest loss of a suspected component in claims, to order pairs by; infinite where one is not known."""
        worst = max((math.inf if one.loss is None else one.loss for one in self.suspicions), default=0.0)
        return worst / (self.claim.parameter or 1.0 if self.claim else 1.0)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted: by the exact loss of the output, or by a statistical audit."""
        return self.exact is not None or (self.certificate is not None and self.certificate.violates_claim)

    @property
    def verdict(self) -> str:
        """The kind of the first suspicion, or what there is in place of one."""
        apart = self.unlisted or self.unseen
        return self.suspicions[0].kind if self.suspicions else UNLISTED if apart else NOTHING_SEEN

    def sentence(self) -> str:
        """Say the verdict in one sentence, with file and line where there is something to point at."""
        if self.suspicions:
            return str(self.suspicions[0])
        if aside := [*self.unlisted[:3], *self.unseen]:
            said = f"{UNLISTED}, which are not judged" if self.unlisted else "not all is seen"
            return f"{said}: {'; '.join(aside)}"
        return f"{NOTHING_SEEN} in {self.calls} calls, on this pair"

    def lines(self) -> list[tuple[str, str]]:
        """Return labelled lines of all that is known."""
        found = [("verdict", self.verdict)]
        for one in self.suspicions:
            found += [("at", str(one)), *(("in", f"{file}:{line}, {name}") for file, line, name in one.stack)]
        found += [*(("not judged", one) for one in self.unlisted), *(("not seen", one) for one in self.unseen)]
        said = "nothing: this is a suspicion"
        if self.exact is not None and self.claim is not None:
            said = f"{self.claim.symbol} = {self.exact:.6g} of the output on this pair, from its exact law; no runs"
        elif (known := self.certificate) is not None:
            bound = f"{known.claim.symbol} >= {lower(known.lower_bound)} in {known.runs:,} runs, end to end"
            said = f"{bound}; the claim of {known.claim} is {'' if known.violates_claim else 'not '}refuted"
        shows = self.suspicions or self.certificate
        return [*found, ("certified" if self.exact is None else "exact", said)] if shows else found

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.sentence()}", *(f"  {name:<10}  {said}" for name, said in self.lines())])

    def to_dict(self) -> dict[str, Any]:
        same = "name", "verdict", "calls", "seconds", "seed", "exact", "refuted", "unlisted", "unseen"
        told = {name: getattr(self, name) for name in same}
        told |= {"claim": None if self.claim is None else str(self.claim), "sentence": self.sentence()}
        told["suspicions"] = [{**vars(one), "file": one.file, "line": one.line} for one in self.suspicions]
        return {**told, "certificate": None if self.certificate is None else self.certificate.to_dict()}


def trace(
    function: Mechanism | Callable[..., Any],
    pair: DatasetPair | tuple[Any, Any],
    *,
    claim: Claim | None = None,
    adjacency: Relation | None = None,
    seed: int | None = 0,
    bits: bool = False,
    certify: bool = False,
    trials: float = 100_000,
    confidence: float = 0.95,
    timeout: float = 300.0,
) -> Trace:
    """Record a function on x, replay it on x' with the same random answers, and say where a private value gets through.

    Parameters
    ----------
    function : callable or Mechanism
        As for `epsaudit.black_box`. It runs in a child process, in which what draws random numbers is replaced; what
        `epsaudit.running.served.Served` makes runs in its environment.
    pair : DatasetPair or (x, x_prime)
        Neighbouring datasets.
    claim : Claim, optional
        What the noise is to pay for; without it what depends on data, and what a mechanism states, is judged.
    bits : bool
        Also call each mechanism of a library 2,048 times on both inputs, and look at the last bits of its outputs.
    certify : bool
        Where something is suspected, or nothing can be judged, audit the pair by `epsaudit.audit_sequentially`, with
        ``trials`` and ``confidence``, unless the exact law of the output refutes the claim. It needs a claim.
    timeout : float
        Seconds, before the child is ended.

    Raises
    ------
    AuditError
        If the function cannot be called so, is silent for too long, or ends its process.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> def mean(values, rng):
    ...     return sum(values) / len(values) + rng.laplace(scale=1.0 / len(values))
    >>> found = trace(mean, ([0.0, 1.0], [0.0, 1.0, 1.0]), claim=PureDP(1.0))
    >>> found.verdict, found.suspicions[0].sentence
    ('a parameter depends on private data', "numpy.random.laplace is asked with scale 0.5 on x, 0.333333 on x'")
    """
    asked, two, most = mechanism_of(function, adjacency), pair_of(pair), check_trials(trials)
    claim = claim if claim is not None else asked.claim
    if claim is not None:
        is_claim(claim, "the function")
    elif certify:
        raise AuditError("A certificate is against a claim; give one, for instance claim=PureDP(1.0).")
    (found,) = traces(asked, [two], claim=claim, seed=entropy(seed), bits=bits, timeout=timeout)
    if isinstance(found, str):
        raise AuditError(found)
    if not certify or found.verdict == NOTHING_SEEN or found.exact is not None:
        return found
    how: Any = {"trials": most, "confidence": confidence, "seed": found.seed, "witnesses": "all" if bits else "auto"}
    return dataclasses.replace(found, certificate=audit_sequentially(asked, [two], claim=claim, **how))


def traces(
    asked: Mechanism,
    pairs: Sequence[DatasetPair],
    *,
    claim: Claim | None,
    seed: int,
    bits: bool = False,
    timeout: float = 300.0,
) -> Iterator[Trace | str]:
    """Trace pairs one after the other in one child process; a sentence says why one was not traced."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise AuditError("A trace needs a POSIX system: Linux, macOS, or WSL on Windows.")
    if isinstance(asked, CommandMechanism) and serve.__file__ not in asked.program.words:
        said = "is a program of its own, of which nothing is seen; a function of Python is traced."
        raise AuditError(f"{asked.name} {said}")
    timeout, context = seconds_of(timeout, "timeout"), multiprocessing.get_context("fork")
    settings: dict[str, Any] = {"seed": seed, "free_runs": free_runs(claim), "bits": bits}
    started, (ours, theirs) = time.perf_counter(), context.Pipe()
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # what a served function writes to standard error, closed below
    child = context.Process(target=_child, args=(asked, pairs, settings, theirs, errors), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, none of which is needed
        child.start()
    theirs.close()
    try:
        if isinstance(asked, CommandMechanism):
            settings["pairs"] = [list(map(dataset_to_json, (one.x, one.x_prime))) for one in pairs]
            ours.send_bytes(json.dumps(settings).encode())
        for pair in pairs:
            if not ours.poll(timeout):
                raise AuditError(f"{asked.name} was silent for {timeout:g} seconds while it was traced.")
            told = serve.decode_dataset(json.loads(ours.recv_bytes()))
            if not isinstance(told, str):
                judge = Judge(told, claim)
                exact = exact_excess(told["forms"], claim)
                suspicions = judge.suspicions()
                if exact is not None and not suspicions:
                    at = tuple(map(tuple, told["outcome"]["at"]))
                    suspicions = (Suspicion(MOVES, "the numbers that are returned move further than their noise", at),)
                found = suspicions, judge.unlisted(), judge.unseen(), len(judge.events)
                seconds = time.perf_counter() - started
                told = Trace(asked.name, pair, claim, *found, seconds, seed, exact=exact)
            yield told
            started = time.perf_counter()
    except (EOFError, ConnectionError):
        child.join()
        said = f"ended its process while it was traced, with status {child.exitcode}."
        errors.seek(0)
        cause = clipped(cause_of(errors.read().decode("utf-8", "replace")), LAST_WORDS)
        raise AuditError(f"{asked.name} {said}" + f" Its standard error says: {cause!r}." * bool(cause)) from None
    finally:
        ours.close()
        child.kill()
        child.join()
        errors.close()


def _child(asked: Mechanism, pairs: Sequence[DatasetPair], settings: Any, answers: Any, errors: Any) -> None:
    """Record in a fork of this process, so that nothing of it is changed, or in that of another environment."""
    gc.freeze()  # a collection would copy all that both share
    try:
        if not isinstance(asked, CommandMechanism):
            traced_process.record_all(answers, _call(asked), [(one.x, one.x_prime) for one in pairs], **settings)
            return
        python, *words = asked.program.words
        words = words[words.index(serve.__file__) + 1 :]
        null = os.open(os.devnull, os.O_RDWR)
        for standard, opened in enumerate((null, null, errors.fileno())):
            os.dup2(opened, standard)
        os.set_inheritable(answers.fileno(), True)
        os.chdir(asked.program.folder or os.curdir)
        folder = str(Path(serve.__file__).parent)
        os.execvp(python, [python, "-c", START, folder, str(answers.fileno()), *words])
    except BrokenPipeError:
        pass
    except Exception as error:
        answers.send_bytes(json.dumps(f"{asked.name} cannot be traced: {error}.").encode())
    finally:
        os._exit(0)  # nothing of the parent's is to be ended here


def _call(asked: Mechanism) -> Call:
    """Return what calls a mechanism once, as the recorder does."""
    if not isinstance(asked, FunctionMechanism):
        return lambda data, rng, seed: asked(data).sample(1, rng)[0]

    def call(data: Any, rng: Any, seed: int) -> Any:
        takes, size = asked.takes, [1] * (not asked.one_by_one)
        source = SimpleNamespace(integers=lambda most: seed % most) if takes.what == "seed" else rng
        return takes.of(asked.function() if asked.fresh else asked.function)(data, *size, *[source] * bool(takes.what))

    return call

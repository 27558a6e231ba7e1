"""A function traced: recorded on x and replayed on x' with the same random answers, to name the line that leaks.

What differs then is a branch, a size, a parameter or an input that depends on private data. It is a suspicion, never a
verdict on privacy; with ``certify`` it is the exact loss of the component, or a statistical audit of the pair, that
decides. The idea is that of dp-recorder (Cebere, Erb, Desfontaines, Bellet and Fitzsimons 2026, arXiv:2602.17454), here
without instrumenting the code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epsaudit.adapters.external import command, dataset_to_json
from epsaudit.adapters.functions import FunctionMechanism, Mechanism, is_claim, mechanism_of
from epsaudit.audits.fixed import trials_of
from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair, Relation, pair_of
from epsaudit.engine.provenance import entropy
from epsaudit.errors import AuditError, OwnCodeError, seconds_of
from epsaudit.text import lower
from epsaudit.tracing import recorder
from epsaudit.tracing.primitives import mechanism
from epsaudit.tracing.verdicts import (
    BRANCHES,
    BUDGET,
    MOVES,
    NOTHING_SEEN,
    PARAMETER,
    RELEASED,
    UNLISTED,
    Judge,
    Suspicion,
)

__all__ = [
    "BRANCHES",
    "BUDGET",
    "MOVES",
    "NOTHING_SEEN",
    "PARAMETER",
    "RELEASED",
    "UNLISTED",
    "Suspicion",
    "Trace",
    "mechanism",
    "trace",
]

FOLDER = Path(__file__).parents[1]
START = """import sys, types
for name, path in (("epsaudit", sys.argv[1]), ("epsaudit.tracing", sys.argv[1] + "/tracing")):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [path]
from epsaudit.tracing.recorder import main
main()"""
"""Runs the recorder in an environment that has no epsaudit: its modules by path, and nothing else of the package."""


STILL = 1e-6
"""Probability at most that an output is said to be released as it is, of a mechanism that satisfies its claim."""
UNKNOWN_EPSILON = 3.0
"""In place of a claim's epsilon that is greater or not known: 271 runs a side. Set by hand, for speed."""


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

    @property
    def suspicious(self) -> bool:
        return bool(self.suspicions)

    @property
    def exact(self) -> float | None:
        """The greatest exact loss of a component, in the claim's parameter; None where none is known."""
        return max((one.exact for one in self.suspicions if one.exact is not None), default=None)

    @property
    def refuted(self) -> bool:
        """Whether a certificate refutes the claim: the exact loss of what is released, or a statistical audit."""
        exact = self.claim is not None and self.exact is not None and self.exact > self.claim.parameter
        return exact or (self.certificate is not None and self.certificate.violates_claim)

    @property
    def verdict(self) -> str:
        if self.suspicions:
            return self.suspicions[0].kind
        return UNLISTED if self.unlisted or self.unseen else NOTHING_SEEN

    def sentence(self) -> str:
        """Say the verdict in one sentence, with file and line where there is something to point at."""
        if self.suspicions:
            return str(self.suspicions[0])
        if self.unlisted or self.unseen:
            return f"{UNLISTED}, which are not judged: {'; '.join([*self.unlisted[:3], *self.unseen])}"
        return f"{NOTHING_SEEN} in {self.calls} calls, on this pair"

    def lines(self) -> list[tuple[str, str]]:
        """Return labelled lines of all that is known."""
        found = [("verdict", self.verdict)]
        for one in self.suspicions:
            found += [("at", str(one)), *(("in", f"{file}:{line}, {name}") for file, line, name in one.stack)]
        found += [("not judged", one) for one in self.unlisted]
        found += [("not seen", one) for one in self.unseen]
        if self.exact is not None and self.claim is not None:
            said = f"{self.claim.symbol} = {self.exact:.6g} of the component on its two inputs, from its law; no runs"
            found.append(("exact", said))
        elif self.certificate is not None:
            known, said = self.certificate, "refuted" if self.certificate.violates_claim else "not refuted"
            bound = f"{known.claim.symbol} >= {lower(known.lower_bound)} in {known.runs:,} runs, end to end"
            found.append(("certified", f"{bound}; the claim of {known.claim} is {said}"))
        elif self.suspicions:
            found.append(("certified", "nothing: this is a suspicion"))
        return found

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.sentence()}", *(f"  {label:<10}  {said}" for label, said in self.lines())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        told = {
            name: getattr(self, name) for name in ("name", "verdict", "calls", "seconds", "seed", "exact", "refuted")
        }
        told |= {"claim": None if self.claim is None else str(self.claim), "sentence": self.sentence()}
        told |= {"unlisted": list(self.unlisted), "unseen": list(self.unseen)}
        certified = None if self.certificate is None else self.certificate.to_dict()
        return {**told, "suspicions": [one.to_dict() for one in self.suspicions], "certificate": certified}


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
        As for `epsaudit.black_box`. Numpy's generators, `random`, `secrets`, `os.urandom`, scipy, torch and jax are
        seen where they are used, and mechanisms of libraries as a whole; yours join by `mechanism`. It runs in a child
        process, in which these are replaced.
    pair : DatasetPair or (x, x_prime)
        Neighbouring datasets.
    claim : Claim, optional
        What the noise is to pay for. Without it only what depends on the data, and what a mechanism itself states, is
        judged.
    bits : bool
        Also call each mechanism of a library 2,048 times on both inputs, and look at the last bits of its outputs.
    certify : bool
        Where something is suspected and no exact loss is known, or nothing can be judged, audit the pair by
        `epsaudit.audit_sequentially`, with ``trials`` and ``confidence``; it needs a claim.
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
    asked, two = mechanism_of(function, adjacency), pair_of(pair)
    claim = _settled(claim if claim is not None else asked.claim, certify)
    root, started = entropy(seed), time.perf_counter()
    told = _forked((_call(asked), two.x, two.x_prime, root, free_runs(claim), bits), seconds_of(timeout, "timeout"))
    found = _judged(asked.name, two, claim, told, root, started)
    return _certified(found, asked, trials, confidence, bits) if certify else found


def trace_served(
    function: str,
    pair: DatasetPair,
    *,
    python: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    data: str = "plain",
    fresh: bool = False,
    claim: Claim | None = None,
    seed: int | None = 0,
    bits: bool = False,
    certify: bool = False,
    trials: float = 100_000,
    confidence: float = 0.95,
    timeout: float = 300.0,
) -> Trace:
    """Trace ``module:function`` or ``FILE.py:function`` as `epsaudit serve` runs it, under another Python if need be.

    ``python`` is a Python from 3.8 on or the folder of an environment, which needs no epsaudit; the others are as for
    `trace`, and as for ``epsaudit serve``.
    """
    claim = _settled(claim, certify)
    where = str(Path(python) / "bin" / "python") if python and os.path.isdir(python) else python or sys.executable
    root, started, given = entropy(seed), time.perf_counter(), dict(parameters or {})
    asked = {"function": function, "parameters": given, "data": data, "fresh": fresh, "seed": root, "bits": bits}
    asked |= {"pair": [dataset_to_json(one) for one in (pair.x, pair.x_prime)], "free_runs": free_runs(claim)}
    how: Any = {"capture_output": True, "text": True, "timeout": seconds_of(timeout, "timeout"), "check": False}
    try:
        done = subprocess.run([where, "-c", START, str(FOLDER)], input=json.dumps(asked), **how)
    except subprocess.TimeoutExpired:
        raise AuditError(f"{function} was silent for {timeout:g} seconds while it was traced.") from None
    except OSError as error:
        raise AuditError(f"{where} cannot be run ({error.strerror or error}).") from error
    if done.returncode != 0 or not done.stdout.strip():
        last = " ".join(done.stderr.strip().splitlines()[-1:]) or f"it ended with status {done.returncode}"
        raise OwnCodeError(f"{function} cannot be traced: {last}")
    found = _judged(function, pair, claim, json.loads(done.stdout), root, started)
    if not certify:
        return found
    words = [where, str(FOLDER / "serve.py"), function, json.dumps(given), "--data", data, *["--fresh"] * fresh]
    return _certified(found, command(words, pairs=[pair], name=function, timeout=timeout), trials, confidence, bits)


def _settled(claim: Claim | None, certify: bool) -> Claim | None:
    if claim is None and certify:
        raise AuditError("A certificate is against a claim; give one, for instance claim=PureDP(1.0).")
    return None if claim is None else is_claim(claim, "the function")


def free_runs(claim: Claim | None) -> int:
    """Return how many runs on each side show that a part of the output is drawn at all, under a true claim.

    If it is A on x with probability a and B on x' with b, epsilon-DP leaves a <= 1 - e^-epsilon b, so that n runs on
    each side are all alike with probability (1 - e^-epsilon)^n at most.
    """
    epsilon = min(getattr(claim, "epsilon", UNKNOWN_EPSILON), UNKNOWN_EPSILON)
    return 2 if epsilon == 0.0 else math.ceil(math.log(STILL) / math.log1p(-math.exp(-epsilon)))


def _judged(
    name: str, pair: DatasetPair, claim: Claim | None, told: Mapping[str, Any], seed: int, started: float
) -> Trace:
    judge = Judge(told, claim)
    suspicions, unlisted, unseen = judge.suspicions(), judge.unlisted(), list(told["unseen"])
    if told["outcome"]["leaves"] != told["repeated"]:
        unseen.append("the output varies though nothing of it was drawn where it is seen: compiled code, or state")
    if all(raised := [told[side]["leaves"][0][1] for side in ("outcome", "outcome_prime")]):
        unseen.append(f"{' and '.join(dict.fromkeys(raised))} is raised on both: nothing after that is seen")
    seconds = time.perf_counter() - started
    return Trace(name, pair, claim, suspicions, unlisted, tuple(unseen), len(judge.events), seconds, seed)


def _certified(found: Trace, asked: Mechanism, trials: float, confidence: float, bits: bool) -> Trace:
    """Join a statistical audit, unless nothing is to be decided or the exact loss decides it."""
    if found.verdict == NOTHING_SEEN or found.exact is not None:
        return found
    how: Any = {"trials": trials_of(trials), "confidence": confidence, "seed": found.seed}
    how["witnesses"] = "all" if bits else "auto"
    return dataclasses.replace(found, certificate=audit_sequentially(asked, [found.pair], claim=found.claim, **how))


def _call(asked: Mechanism) -> recorder.Call:
    """Return what calls a mechanism once, as the recorder does."""
    if not isinstance(asked, FunctionMechanism):
        return lambda data, rng, seed: asked(data).sample(1, rng)[0]
    what, name = asked.takes.what, asked.takes.name

    def call(data: Any, rng: Any, seed: int) -> Any:
        function = asked.function() if asked.fresh else asked.function
        given: list[Any] = [data] if asked.one_by_one else [data, 1]
        source = [] if not what else [seed % 2**32 if what == "seed" else rng]
        return function(*given, **{name: source[0]}) if name else function(*given, *source)

    return call


def _forked(asked: tuple[Any, ...], timeout: float) -> dict[str, Any]:
    """Trace in a fork of this process, so that nothing of it is changed."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise AuditError("A trace needs a POSIX system: Linux, macOS, or WSL on Windows.")
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(asked, theirs), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, none of which the child needs
        child.start()
    theirs.close()
    try:
        if not ours.poll(timeout):
            raise AuditError(f"The function was silent for {timeout:g} seconds while it was traced.")
        answer: Any = ours.recv()
    except EOFError:
        child.join(1.0)
        raise AuditError(f"The function ended its process while it was traced, with status {child.exitcode}.") from None
    finally:
        ours.close()
        if child.is_alive():
            child.kill()
        child.join()
    if isinstance(answer, str):
        raise AuditError(answer)
    return dict(answer)


def _child(asked: tuple[Any, ...], answers: Any) -> None:
    with contextlib.suppress(BrokenPipeError):
        try:
            recorder.warm(*asked[:2])
            answers.send(recorder.examine(*asked))
        except Exception as error:  # what cannot be copied, say
            answers.send(f"The function cannot be traced: {type(error).__name__}: {error}.")
        answers.close()
    os._exit(0)  # nothing of the parent's is to be ended here

"""What is hunted in another environment: a function that `epsaudit.adapters.serve` serves there, at any parameters."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.external import CHILDREN, CommandDistribution, CommandMechanism, command
from epsaudit.adapters.functions import Mechanism
from epsaudit.claims import stated
from epsaudit.claims.definitions import Claim
from epsaudit.claims.libraries import CLAIMS, claim_from_numbers
from epsaudit.data.fresh import digest
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import values_of

FILE = Path(__file__).parents[1] / "adapters" / "serve.py"
"""Run by path, so that it needs nothing of this environment."""


def served(
    function: str, environment: str | None = None, *, data: str = "plain", timeout: float = 300.0
) -> Callable[[Mapping[str, Any]], CommandMechanism]:
    """Return what makes a mechanism of a function and values of its parameters, for `epsaudit.hunting.hunt.hunt`.

    Parameters
    ----------
    function : str
        'module:function', or 'FILE.py:function'.
    environment : str, optional
        A Python, or the folder of a virtual environment; this one by default.
    data : 'plain', 'array' or 'frame'
        What the function takes a dataset as.
    timeout : float
        Seconds of silence after which it is given up.

    Examples
    --------
    >>> served("mine.py:count")({"scale": 0.5}).name
    'mine.py:count'
    """
    python = python_of(environment)

    def make(parameters: Mapping[str, Any]) -> CommandMechanism:
        try:
            words = [python, str(FILE), function, json.dumps(dict(parameters)), "--data", data]
        except TypeError as error:
            raise AuditError(f"The parameters {dict(parameters)!r} cannot be written as JSON ({error}).") from None
        return command(words, name=function, timeout=timeout)

    return make


def stated_claims(
    function: str, environment: str | None, parameters: Sequence[Mapping[str, Any]], *, timeout: float = 300.0
) -> Callable[[Mapping[str, Any]], Claim]:
    """Ask a library for its claim at each of the parameters, where it is installed.

    Parameters
    ----------
    function : str
        'module:function', or 'FILE.py:function': of the parameters by name. It returns what
        `epsaudit.claims.stated.numbers_of` reads: a measurement, an accountant, or numbers.
    environment : str, optional
        As for `served`.
    parameters : sequence of mapping
        Values that the hunt will try.
    timeout : float
        Seconds until it must have answered.

    Raises
    ------
    AuditError
        If anything that it states is no claim.
    """
    asked = json.dumps([dict(one) for one in parameters])
    words = [python_of(environment), stated.__file__, str(FILE), function, asked]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AuditError(f"{function} states no claim: {error}.") from None
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) < len(parameters):
        reason = (done.stderr.strip().splitlines() or ["it ended without an answer"])[-1]
        raise AuditError(f"{function} states no claim: {reason}")
    found = {}
    for one, numbers in zip(parameters, answers, strict=True):
        at = f" with {dict(one)}" if one else ""
        if "error" in numbers:
            raise AuditError(f"{function} states no claim{at}: {numbers['error']}.")
        claim = claim_from_numbers(numbers)
        if claim is None:
            known = "; ".join(", ".join(names) for names in CLAIMS)
            raise AuditError(f"{function} states {numbers}{at}, which is no claim; one is made of: {known}.")
        found[digest(dict(one))] = claim
    return lambda values: found[digest(dict(values))]


def quickly(mechanism: Mechanism) -> Mechanism:
    """Return a mechanism for tests that certify nothing: a program's without the thousands of runs of safeguards.

    An audit of a program asks for thousands of runs more, which show whether outputs of one call depend on each other.
    Of other mechanisms it is the same one.
    """
    if not isinstance(mechanism, CommandMechanism):
        return mechanism
    return _Trusted(mechanism.program, mechanism.name, mechanism.claim, mechanism.adjacency, mechanism.pairs)


@dataclass(frozen=True)
class _Trusted(CommandMechanism):
    """A program that is taken to give independent outputs."""

    trusted = True

    @property
    def reproducible(self) -> bool:
        return False

    def __call__(self, dataset: Any) -> _TrustedOutputs:
        law = super().__call__(dataset)
        return _TrustedOutputs(law.program, law.dataset)


@dataclass(frozen=True)
class _TrustedOutputs(CommandDistribution):
    tossed = False


def in_turns(mechanism: Mechanism) -> Mechanism:
    """Return a mechanism whose runs on x and on x' take turns, of a program that says that each is a call of its own.

    What lasts from one run to the next then tells nothing of the coins, as in `epsaudit.black_box`, and the audit asks
    for 512 runs more in place of 4,096. It costs a request for every two runs. Of others it is the same one.
    """
    if not isinstance(mechanism, CommandMechanism):
        return mechanism
    with CHILDREN.borrow(mechanism.program) as child:
        if not child.single:
            return mechanism
    return _InTurns(mechanism.program, mechanism.name, mechanism.claim, mechanism.adjacency, mechanism.pairs)


@dataclass(frozen=True)
class _InTurns(CommandMechanism):
    """A program that calls its function once a run."""

    def __call__(self, dataset: Any) -> _OutputsInTurns:
        law = super().__call__(dataset)
        return _OutputsInTurns(law.program, law.dataset)


@dataclass(frozen=True)
class _OutputsInTurns(CommandDistribution):
    tossed = False

    def take_turns(
        self, other: _OutputsInTurns, side: NDArray[np.int8], rng: np.random.Generator
    ) -> tuple[list[Any], list[Any]]:
        """See `epsaudit.adapters.functions.TakesTurns`: coins alike that follow one another are one request."""
        values: tuple[list[Any], list[Any]] = ([], [])
        for which, coins in itertools.groupby(side.tolist()):
            values[which].extend(values_of((self, other)[which].sample(len(list(coins)), rng)))
        return values


def python_of(environment: str | None) -> str:
    """Return the Python of an environment; raises `AuditError` for a folder that has none."""
    if environment is None:
        return sys.executable
    folder = Path(environment)
    if not folder.is_dir():
        return environment
    found = next((path for name in ("bin/python", "Scripts/python.exe") if (path := folder / name).exists()), None)
    if found is None:
        raise AuditError(f"{environment} has no bin/python; give a Python, or the folder of a virtual environment.")
    return str(found)

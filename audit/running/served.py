"""Mechanisms made of functions in other Python environments, and the claims that these libraries state.

`epsaudit.serve` runs the functions there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit import serve
from epsaudit.claims import stated
from epsaudit.claims.definitions import CLAIMS, Claim, claim_from_numbers
from epsaudit.errors import AuditError, cause_of
from epsaudit.running.programs import CommandMechanism, command


@dataclass(frozen=True)
class Served:
    """A function in another Python environment. Calling the object with parameter values returns a mechanism.

    >>> Served("statistics:mean")({}).name
    'statistics:mean'
    """

    function: str
    """'module:function', or 'FILE.py:function'."""
    environment: str | None = None
    """A Python executable, or the folder of a virtual environment; by default the current environment."""
    data: str = "plain"
    """The type of the dataset that the function takes: 'plain', 'array' or 'frame'."""
    timeout: float = 300.0
    """Seconds of silence after which the process is given up."""
    fresh: bool = False
    """Whether the function is a factory, called for every run, whose result takes the dataset."""

    def __call__(self, parameters: Mapping[str, Any]) -> CommandMechanism:
        """Return the mechanism for these values of the parameters; raise `AuditError` if JSON cannot write them."""
        try:
            arguments = json.dumps(dict(parameters))
        except TypeError as error:
            raise AuditError(f"The parameters {dict(parameters)!r} cannot be written as JSON ({error}).") from None
        words = [python_of(self.environment), serve.__file__, self.function, arguments, "--data", self.data]
        return command([*words, *["--fresh"] * self.fresh], name=self.function, timeout=self.timeout)


def stated_claims(
    function: str, environment: str | None, parameters: Sequence[Mapping[str, Any]], *, timeout: float = 300.0
) -> Callable[[Mapping[str, Any]], Claim]:
    """Ask a library, in its own Python environment, which privacy claims it states for given parameter values.

    Parameters
    ----------
    function : str
        The function that states the claim, as for `Served`. It takes the parameters by name and returns something that
        `epsaudit.claims.stated.read_statement` can read.
    environment : str, optional
        As for `Served`.
    parameters : sequence of mappings
        The values of the parameters.
    timeout : float
        Seconds after which the process is given up.

    Returns
    -------
    callable
        Maps values of the parameters to the claim.

    Raises `AuditError` if the function states no claim, or not in time.
    """
    asked = json.dumps([dict(one) for one in parameters])
    words = [python_of(environment), stated.__file__, serve.__file__, function, asked]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AuditError(f"{function} states no claim: {error}.") from None
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) < len(parameters):
        reason = cause_of(done.stderr) or "it ended without an answer"
        raise AuditError(f"{function} states no claim: {reason}")
    found: dict[str, Claim] = {}
    for one, said in zip(parameters, answers, strict=True):
        at = f" with {dict(one)}" if one else ""
        if "error" in said:
            raise AuditError(f"{function} states no claim{at}: {said['error']}.")
        if (claim := claim_from_numbers(said)) is None:
            known = "; ".join(", ".join(names) for names in CLAIMS)
            raise AuditError(f"{function} states {said}{at}, which is no claim; one is made of: {known}.")
        found[json.dumps(dict(one))] = claim
    return lambda values: found[json.dumps(dict(values))]


def python_of(environment: str | None) -> str:
    """Return the Python executable of an environment; raise `AuditError` for a folder that has none."""
    if environment is None:
        return sys.executable
    folder = Path(environment)
    if not folder.is_dir():
        return environment
    found = next((path for name in ("bin/python", "Scripts/python.exe") if (path := folder / name).exists()), None)
    if found is None:
        raise AuditError(f"{environment} has no bin/python; give a Python, or the folder of a virtual environment.")
    return str(found)

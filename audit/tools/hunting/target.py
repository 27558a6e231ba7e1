"""The target of a hunt: the function as a mechanism, and its claim, for given values of the parameters."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError
from epsaudit.running.child_pool import CHILDREN
from epsaudit.running.functions import FunctionMechanism, mechanism_of
from epsaudit.running.programs import CommandMechanism
from epsaudit.running.protocols import Mechanism
from epsaudit.running.served import Served
from epsaudit.tools.hunting.candidate import Candidate, ParameterValues
from epsaudit.tools.hunting.relations import AlreadyChecked


class HuntTarget:
    """The function for which a hunt searches datasets that refute its privacy claim, and this claim.

    Parameters
    ----------
    function : callable, Mechanism or Served
        The function.
    claim : Claim or callable
        The claim, or a function that returns it for given values of the parameters.
    name : str
        The name of the function in reports.
    """

    def __init__(self, function: Any, claim: Claim | Callable[[ParameterValues], Claim], name: str) -> None:
        self.function, self.claimed, self.name = function, claim, name
        self._mechanisms: dict[str, Mechanism] = {}
        """Mechanisms by a digest of the parameters. Each keeps its child process or cache for all candidates."""

    def mechanism(self, candidate: Candidate) -> Mechanism:
        """Return the audited function as a mechanism that passes it the parameter values of the candidate."""
        parameters, key = dict(candidate.parameters), candidate.parameters_key
        if key not in self._mechanisms:
            if isinstance(self.function, Served):
                made: Mechanism = self.function(parameters)
            else:
                own = copy.deepcopy(parameters)
                made = mechanism_of(functools.partial(self.function, **own) if own else self.function)
                if isinstance(made, FunctionMechanism):
                    made = dataclasses.replace(made, name=self.name)
            if isinstance(made, FunctionMechanism | CommandMechanism):
                made = dataclasses.replace(made, adjacency=AlreadyChecked())
            self._mechanisms[key] = made
        return self._mechanisms[key]

    def claim(self, candidate: Candidate) -> Claim:
        """Return the privacy claim for the parameter values of the candidate.

        Raises `AuditError` if the user's function that computes the claim raises an exception.
        """
        if isinstance(self.claimed, Claim):
            return self.claimed
        parameters = dict(candidate.parameters)
        try:
            return self.claimed(parameters)
        except AuditError:
            raise
        except Exception as error:
            raise AuditError(f"The claim for {parameters!r} raises {type(error).__name__}: {error}.") from error

    def refuse_if_not_served(self, candidate: Candidate) -> None:
        """Raise `AuditError` if the audited function lives in another process and cannot be found there.

        This test before the first run avoids a failure for every candidate.
        """
        mechanism = self.mechanism(candidate)
        if isinstance(mechanism, CommandMechanism):
            with CHILDREN.borrow(mechanism.program):
                pass

    def keeps_a_process(self, candidate: Candidate) -> bool:
        """Return whether the audited function is an external program whose process is reused for many runs."""
        mechanism = self.mechanism(candidate)
        return isinstance(mechanism, CommandMechanism) and not mechanism.fresh

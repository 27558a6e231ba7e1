"""What a hunt is asked: a function and a claim, at values of the function's other parameters, and its options."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epsaudit.adapters.functions import FunctionMechanism, Mechanism, mechanism_of
from epsaudit.audits.question import trials_of
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Relation, adjacency_of
from epsaudit.engine.provenance import digest, fingerprint
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.hunting.description import Candidate, Description
from epsaudit.hunting.parameters import Served, Values
from epsaudit.witnesses import Family

MOST_STEPS = 200
"""Tests of one shrinking at most. Of the leaky functions of the tests none took more than 60."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a hunt is done; raises `AuditError` for what is out of range.

    Attributes
    ----------
    adjacency : Adjacency, optional
        The relation that the claim is for; pairs of others are left out. None tries all, and the verdict names them.
    describe : Table, Answers, or function of the parameters, optional
        The description that candidates were made of, by which records are taken away and simplified. Without it the
        items of lists, tuples and arrays are, their numbers within those of the pair.
    confidence : float
        That no claim that holds is refuted, in the whole hunt.
    audits : int
        How many candidates are audited at most.
    trials : int
        Runs of each audit at most.
    seconds : float, optional
        For the whole hunt: a third of them at most for the screen. What has begun by then is given up, and the hunt
        returns what it has; not in a thread, nor where a mechanism has a time limit of its own, where what has begun
        is ended.
    steps : int
        Tests of each shrinking at most; 0 leaves pairs as they are.
    witnesses : 'auto', 'all' or families
        As for `epsaudit.audit`: 'all' looks at the last bits of floating-point numbers, too.
    seed, n_jobs
        As for `epsaudit.audit`.
    progress : callable, optional
        Is told, in a sentence, what begins.
    checkpoint : path, optional
        A folder from which the same hunt goes on after an interruption.
    name : str, optional
        What the function is called; by default as it is named.
    """

    adjacency: Relation | None = None
    describe: Description | Callable[[Values], Description] | None = None
    confidence: float = 0.95
    audits: int = 6
    trials: int = 50_000
    seconds: float | None = None
    steps: int = MOST_STEPS
    witnesses: str | Sequence[Family] = "auto"
    seed: int | None = None
    n_jobs: int | None = None
    progress: Callable[[str], None] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", adjacency_of(self.adjacency))
        object.__setattr__(self, "confidence", confidence_of(self.confidence))
        whole_at_least(self.audits, 1, "audits")
        whole_at_least(self.steps, 0, "steps")
        trials_of(self.trials)

    def say(self, sentence: str) -> None:
        """Tell what begins, if anybody wants to know."""
        if self.progress is not None:
            self.progress(sentence)

    def share(self, number: int) -> float:
        """The confidence of the k-th audit, and of the j-th certification: all together err with 1 - confidence."""
        return 1.0 - 3.0 * (1.0 - self.confidence) / (math.pi * number) ** 2


@dataclass(frozen=True)
class Target:
    """The function that is hunted, and what is claimed of it."""

    function: Mechanism | Callable[..., Any] | Served
    claimed: Claim | Callable[[Values], Claim]
    name: str
    _made: dict[str, Mechanism] = field(default_factory=dict)

    def mechanism(self, parameters: Values) -> Mechanism:
        """The mechanism at these values, made once: a child or a cache belongs to it."""
        key = digest(dict(parameters))  # repr cuts long arrays
        if key not in self._made:
            self._made[key] = self._at(parameters)
        return self._made[key]

    def _at(self, parameters: Values) -> Mechanism:
        if isinstance(self.function, Served):
            return self.function(parameters)
        given: Any = self.function
        if parameters:
            given = functools.partial(given, **copy.deepcopy(dict(parameters)))
        found = mechanism_of(given)
        return dataclasses.replace(found, name=self.name) if isinstance(found, FunctionMechanism) else found

    def claim(self, parameters: Values) -> Claim:
        """The claim at these values; what a function of the user raises is an `AuditError`, of this candidate alone."""
        if isinstance(self.claimed, Claim):
            return self.claimed
        try:
            return self.claimed(parameters)
        except AuditError:
            raise
        except Exception as error:
            raise AuditError(f"The claim for {dict(parameters)!r} raises {type(error).__name__}: {error}.") from error

    def identity(self, candidates: Sequence[Candidate], options: Options) -> str:
        """What a folder remembers a hunt by: its code, candidates, claims, and the options that change answers."""

        def stated(parameters: Mapping[str, Any]) -> str:
            try:
                return repr(self.claim(parameters))
            except AuditError as error:
                return str(error)

        mechanism = self._at(candidates[0].parameters)
        code = fingerprint(mechanism)
        tried = [(one.pair.x, one.pair.x_prime, dict(one.parameters), stated(one.parameters)) for one in candidates]
        chosen = str(options.adjacency), options.confidence, options.trials, options.audits, options.witnesses
        return digest([self.name, code, tried, chosen])

"""What a hunt takes from a trace of a pair: the exact law of the output, where it refutes the claim by itself.

The module stands alone because both the order of the audits and the result of a hunt use the law, while tracing is a
separate tool that a hunt finds only if it is installed.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol, TypeVar

from epsaudit.audits.sequential import SequentialResult
from epsaudit.claims.definitions import Claim
from epsaudit.results.result import AuditResult

AnyResult = TypeVar("AnyResult", SequentialResult, AuditResult)


class PairTrace(Protocol):
    """The attributes of a trace that a hunt uses.

    A trace records a function on x and replays it on x' with the same random numbers, to find the line of code that
    leaks. This protocol avoids an import of `epsaudit.tools.tracing.Trace`, which has these attributes.
    """

    @property
    def loss(self) -> float: ...
    @property
    def suspicious(self) -> bool: ...
    @property
    def exact(self) -> float | None: ...
    def sentence(self) -> str:
        """Return a sentence that names the line of code that leaks."""


class ExactLaw(NamedTuple):
    """The exact privacy loss on a pair of datasets, computed from the known distribution of the output.

    It refutes the claim without any runs. A trace knows it, for example, if each number of the output is data plus
    noise of a known distribution.
    """

    exact: float
    """The exact loss on the pair, as a value of the claim's parameter."""
    said: str
    """The sentence of the trace, which names the line that draws the noise."""

    @classmethod
    def of_trace(cls, trace: PairTrace | None) -> ExactLaw | None:
        """Return the exact law (distribution) of the output that a trace has found.

        Return None if there is no trace, or if the law is unknown or does not refute the claim.
        """
        if trace is None or trace.exact is None:
            return None
        return cls(trace.exact, trace.sentence())

    def note(self, claim: Claim) -> str:
        """Return a note for a result that states the exact loss and the command that computes it again."""
        exact = f"by the exact law of the output, {claim.symbol} = {self.exact:.6g} on this pair"
        return f"{exact}, as `epsaudit trace --certify` shows again: {self.said}"


def with_law(result: AnyResult, law: ExactLaw | None) -> AnyResult:
    """Return a copy of the result that contains the exact loss of its pair and a note about it.

    If ``law`` is None, the result is returned unchanged.
    """
    if law is None:
        return result
    return dataclasses.replace(result, exact=law.exact, notes=(*result.notes, law.note(result.claim)))

"""Traces: a function is recorded on x and replayed on x' with the same random numbers, to name the line that leaks.

If the function draws noise of known laws, a few runs are followed on the other dataset, and the trace says why a run
has no alignment of the noise within the claim (`epsaudit.tools.tracing.alignment.pair_explanation`). If all randomness
is a few discrete draws, the exact law of the output decides (`epsaudit.tools.tracing.alignment.discrete_pair`).
Otherwise the trace says what differs in a replay (`epsaudit.tools.tracing.judge`): a branch, a size, a parameter or an
input that depends on private data. These are suspicions, and they are dropped if a certain upper bound is within the
claim (`epsaudit.tools.tracing.bounded`). The claim is refuted by the exact law of the output, if every number of it is
data plus a draw of its own and nothing else is random (`epsaudit.tools.tracing.exact_output`). With ``certify``, it can
also be refuted by an audit of the pair, which runs the whole function. The idea is that of dp-recorder (Cebere, Erb,
Desfontaines, Bellet and Fitzsimons 2026, arXiv:2602.17454), here without instrumenting the code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from epsaudit.audits.sequential import audit_sequentially
from epsaudit.audits.spec import check_trials
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair, Relation, pair_of
from epsaudit.data.pairs import warn_of_strings
from epsaudit.errors import AuditError, public
from epsaudit.running.functions import mechanism_of
from epsaudit.running.protocols import Mechanism, is_claim
from epsaudit.running.streams import entropy
from epsaudit.tools.tracing.declaration import mechanism
from epsaudit.tools.tracing.process import traces
from epsaudit.tools.tracing.result import Trace
from epsaudit.tools.tracing.suspicion import ALIGNED, NOTHING_SEEN, Suspicion

__all__ = ["Suspicion", "Trace", "mechanism", "trace", "traces"]


@public
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
    """Find the line of a function at which private data reach the output without enough noise.

    The function is recorded on the dataset x of a pair, and replayed on x' with the same random numbers. The result
    lists what then depends on the data, such as a branch, a parameter of noise, or a part of the output.

    Parameters
    ----------
    function : callable or Mechanism
        The function, as for `epsaudit.black_box`. It runs in a child process in which everything that draws random
        numbers is replaced. A function that `epsaudit.running.served.Served` made runs in its own environment.
    pair : DatasetPair or (x, x_prime)
        Neighbouring datasets.
    claim : Claim, optional
        The claim that the noise has to satisfy. Without a claim, only dependence on the data and the statements of
        mechanisms are judged.
    adjacency : relation, optional
        The neighbouring relation, as for `epsaudit.black_box`.
    seed : int, optional
        Seed of all runs.
    bits : bool
        Whether to call each mechanism of a library 2,048 more times on both inputs, and compare the last bits of its
        outputs.
    certify : bool
        Whether to audit the pair by `epsaudit.audit_sequentially` if something is suspected, or if something cannot be
        judged, unless the exact law of the output already refutes the claim. This needs a claim.
    trials : float
        Largest number of runs of this audit.
    confidence : float
        Confidence of this audit.
    timeout : float
        Seconds without an answer after which the child process is ended.

    Raises
    ------
    AuditError
        If the function cannot be called in this way, is silent for too long, or ends its process.

    Examples
    --------
    >>> from epsaudit import PureDP
    >>> def mean(values, rng):
    ...     return sum(values) / len(values) + rng.laplace(scale=1.0 / len(values))
    >>> found = trace(mean, ([0.0, 1.0], [0.0, 1.0, 1.0]), claim=PureDP(1.0))
    >>> found.verdict, found.suspicions[0].sentence
    ('a parameter depends on private data', "laplace noise has scale 0.5 on x, 0.333333 on x'")
    """
    asked, both, max_runs = mechanism_of(function, adjacency), pair_of(pair), check_trials(trials)
    warn_of_strings([both])
    claim = claim if claim is not None else asked.claim
    if claim is not None:
        is_claim(claim, "the function")
    elif certify:
        raise AuditError("A certificate is against a claim; give one, for instance claim=PureDP(1.0).")
    how: dict[str, Any] = {"seed": entropy(seed), "bits": bits, "timeout": timeout, "looks_for_bounds": True}
    (found,) = traces(asked, [both], claim=claim, **how)
    if isinstance(found, str):
        raise AuditError(found)
    if not certify or found.verdict in (NOTHING_SEEN, ALIGNED) or found.exact is not None:
        return found
    certificate = audit_sequentially(
        asked,
        [both],
        claim=claim,
        trials=max_runs,
        confidence=confidence,
        seed=found.seed,
        witnesses="all" if bits else "auto",
    )
    return dataclasses.replace(found, certificate=certificate)

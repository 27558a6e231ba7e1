"""An upper bound on all neighbouring pairs of small datasets, with progress and a checkpoint."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import AddRemove, DatasetPair, Relation, adjacency_of
from epsaudit.errors import AuditError, confidence_of, public, whole_at_least
from epsaudit.running.checkpoint import Checkpoint
from epsaudit.running.functions import mechanism_of
from epsaudit.running.identity import digest, fingerprint
from epsaudit.running.protocols import Mechanism, is_claim
from epsaudit.running.streams import entropy
from epsaudit.tools.tracing.alignment.bound import MAX_DELTA, PairBound, UpperBound
from epsaudit.tools.tracing.alignment.exhaustive import neighbouring_pairs
from epsaudit.tools.tracing.alignment.many_pairs import in_processes
from epsaudit.tools.tracing.alignment.time_limit import TimeLimit
from epsaudit.tools.tracing.calls import call_of

IDENTITY_OF_PAIR = "name", "pair", "claim"
"""Fields of an `UpperBound` that a checkpoint does not store for each pair."""


@dataclasses.dataclass(frozen=True)
class AllPairsBound:
    """An upper bound on the privacy loss of a function on all neighbouring pairs of small datasets."""

    n_pairs: int
    """Number of pairs."""
    n_certain: int
    """Number of pairs with a certain bound, which needs no confidence."""
    n_above: int
    """Number of pairs whose bound is above the claim or missing, or has a larger ``delta`` than allowed."""
    delta: float
    """Largest ``delta`` of the bound of a pair: a probability that the bound does not cover."""
    runs: int
    """Number of runs in each direction for a pair whose bound is not certain; 0 if all are certain."""
    worst: UpperBound
    """The bound of a pair that is above the claim if there is one, and otherwise the largest bound."""

    @property
    def upper_bound(self) -> float:
        """Upper bound on the claim's parameter for all pairs; infinite if some pair has no bound."""
        return self.worst.upper_bound

    @property
    def certain(self) -> bool:
        """Whether the bounds of all pairs hold with certainty, and not only at a confidence level."""
        return self.n_certain == self.n_pairs

    @property
    def within_claim(self) -> bool:
        """Whether the bound of every pair is at most the claimed value, with at most the allowed ``delta``."""
        return self.n_above == 0

    def sentence(self) -> str:
        """Return the bound on all pairs as one line, or the worst pair with its bound if this is above the claim."""
        if self.n_above:
            which = "The only pair has" if self.n_pairs == 1 else f"{self.n_above:,} of {self.n_pairs:,} pairs have"
            return f"{which} no bound within the claim; worst is {self.worst.pair}: {self.worst.sentence()}"
        said = f"all {self.n_pairs:,} pairs: {dataclasses.replace(self.worst, delta=self.delta).amount()}"
        if self.certain:
            return f"{said}, certain"
        n_runs = f"{self.n_pairs - self.n_certain:,} of the pairs by {self.runs:,} runs"
        return f"{said}, confidence {self.worst.confidence:.0%} ({n_runs})"

    def __str__(self) -> str:
        return f"{self.worst.name}: {self.sentence()}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON object, in which "worst" is the bound of the worst pair."""
        names = "n_pairs n_certain n_above delta runs certain within_claim"
        content: dict[str, Any] = {name: getattr(self, name) for name in names.split()}
        worst = self.worst.to_dict()
        return {
            "name": self.worst.name,
            "upper_bound": worst["upper_bound"],
            **content,
            "sentence": self.sentence(),
            "worst": worst,
        }


@public
def bound_above_all(
    function: Mechanism | Callable[..., Any],
    domain: Sequence[Any],
    k: int,
    *,
    claim: Claim | None = None,
    adjacency: Relation = AddRemove,
    form: Callable[[list[Any]], Any] = list,
    least: int = 0,
    runs: int = 10_000,
    confidence: float = 0.95,
    max_delta: float = MAX_DELTA,
    seed: int | None = 0,
    n_jobs: int = -1,
    timeout: float = 300.0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AllPairsBound:
    """Return an upper bound on the privacy loss of a function, for all neighbouring datasets of at most ``k`` records.

    The datasets are all multisets of records from ``domain``, as lists in the order of the domain. The bound of each
    pair of neighbours is that of `epsaudit.bound_above`.

    Parameters
    ----------
    function, claim, runs, seed, n_jobs, timeout
        As for `epsaudit.bound_above`.
    domain : sequence
        The possible records.
    k : int
        The largest number of records in a dataset.
    adjacency : relation
        `AddRemove` (of one record) or `Substitution` (of one record).
    form : callable
        Makes the dataset that the function takes from a list of records, for example `numpy.array`.
    least : int
        The smallest number of records in a dataset.
    confidence : float
        Confidence of the bounds from runs, for all pairs together.
    max_delta : float
        Largest ``delta`` of the bound of a pair that counts as within the claim.
    checkpoint : path, optional
        File in which finished pairs are recorded. After an interruption, the same call resumes from them.
    progress : callable, optional
        Called with the number of finished pairs and the number of all pairs, before the first pair and after each.

    Raises
    ------
    AuditError
        If there is no claim, if the function cannot be called or takes too long, if there are too many pairs, or if the
        checkpoint belongs to another function, claim or domain.

    Examples
    --------
    >>> from epsaudit import PureDP, bound_above_all
    >>> def histogram(data, rng):
    ...     return [data.count(key) + rng.laplace(scale=1.0) for key in "abc"]
    >>> print(bound_above_all(histogram, "abc", 3, claim=PureDP(1.0)))
    histogram: all 30 pairs: at most epsilon 1.000, certain
    """
    asked = mechanism_of(function)
    claim = claim if claim is not None else asked.claim
    is_claim(claim, "the function")
    assert claim is not None
    relation, runs = adjacency_of(adjacency), whole_at_least(runs, 10, "runs")
    alpha = 1.0 - confidence_of(confidence)
    pairs = [DatasetPair(form(one.x), form(one.x_prime)) for one in neighbouring_pairs(domain, k, adjacency, least)]
    if not pairs:
        raise AuditError(f"There are no pairs of {least} to {k} records; take more records.")
    with ExitStack() as stack:
        record = None
        if checkpoint is not None:
            identity = {
                **fingerprint(asked, claim),
                "claim": str(claim),
                "domain": digest(list(domain)),
                "form of the data": digest(form),
                "number of records": k,
                **({"least number of records": least} if least else {}),
                "relation": str(relation),
                "number of runs": runs,
                "confidence": confidence,
            }
            record = stack.enter_context(Checkpoint(checkpoint, {asked.name: identity}, seed))
        settings: dict[str, Any] = {"claim": claim, "runs": runs, "alpha": alpha / len(pairs)}
        settings["seed"] = entropy(seed) if record is None else record.seed
        limit, summary = TimeLimit(timeout), _Summary(len(pairs), max_delta)
        finished: set[int] = set()
        for key, data in record.every(asked.name, "pair") if record is not None else ():
            try:
                number = int(key)
                summary.add(number, UpperBound(asked.name, pairs[number], claim, **data))
            except (TypeError, ValueError, IndexError) as error:
                raise AuditError(f"A pair in {checkpoint} makes no sense; give another file.") from error
            finished.add(number)
        if progress is not None:
            progress(len(finished), len(pairs))
        left = [number for number in range(len(pairs)) if number not in finished]

        call = limit.of(call_of(asked))

        def work(number: int) -> UpperBound:
            return PairBound(call, asked.name, pairs[number], **settings).best()

        for number, found in in_processes(work, left, n_jobs=n_jobs, name=asked.name, limit=limit):
            if record is not None:
                names = [one.name for one in dataclasses.fields(found) if one.name not in IDENTITY_OF_PAIR]
                record.write(asked.name, "pair", str(number), {name: getattr(found, name) for name in names})
            summary.add(number, found)
            if progress is not None:
                progress(summary.n_done, len(pairs))
    return summary.result(confidence)


class _Summary:
    """Summary of the bounds of all pairs so far, which stores only the worst bound."""

    def __init__(self, n_pairs: int, max_delta: float) -> None:
        self.n_pairs, self.max_delta = n_pairs, max_delta
        self.n_done = self.n_certain = self.n_above = self.runs = 0
        self.delta = 0.0
        self.worst: tuple[tuple[bool, float, float, int], UpperBound] | None = None

    def add(self, number: int, found: UpperBound) -> None:
        """Add the bound of the pair with this number to the summary.

        Of two equal bounds, the one of the pair with the smaller number counts as worse, so that the result does not
        depend on which process is faster.
        """
        self.n_done += 1
        above = not found.within(self.max_delta)
        self.n_certain += found.certain
        self.n_above += above
        self.delta, self.runs = max(self.delta, found.delta), max(self.runs, found.runs)
        rank = above, found.upper_bound, found.delta, -number
        if self.worst is None or rank > self.worst[0]:
            self.worst = rank, found

    def result(self, confidence: float) -> AllPairsBound:
        """Return the bound on all pairs, which holds with this confidence."""
        assert self.worst is not None
        worst = dataclasses.replace(self.worst[1], confidence=confidence)
        return AllPairsBound(self.n_pairs, self.n_certain, self.n_above, self.delta, self.runs, worst)

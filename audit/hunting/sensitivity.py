"""A probe of sensitivity: whether a function changes more between neighbours than is claimed, before any noise.

Nothing is random about what it finds: a change above the claim is a fact, which anyone can recompute.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsaudit.data.neighbours import Adjacency, Relation, adjacency_of, shorten
from epsaudit.errors import AuditError, finite_at_least, whole_at_least
from epsaudit.hunting.description import Candidate, Description, one_of
from epsaudit.hunting.parameters import Values, candidates, combinations, description_at
from epsaudit.hunting.relations import ORDERS, Norm

EXAMPLES = 500
"""Datasets that are drawn beside those listed: a search of a second where the function takes little."""
ULP = 2.0**-52
"""The relative error of one floating-point operation, twice over."""
LARGEST = 1e300
"""What hypothesis climbs to in place of infinity, which it does not take."""


@dataclass(frozen=True)
class Probe:
    """The largest change that was found, against the claim."""

    exceeded: bool
    """Whether a change is larger than claimed by more than rounding explains."""
    by_rounding: bool
    """Whether one is larger, but by no more than what floating-point sums of so many numbers lose."""
    change: float
    """The one that is largest in units of its claim; infinite where one answer is no finite number."""
    claimed: float
    candidate: Candidate
    """The pair, with the parameters."""
    answers: tuple[Any, Any]
    """What the function returned on x and on x'."""
    adjacency: Adjacency
    """The relation under which they are neighbours."""
    norm: Norm
    searched: int
    """How many pairs were looked at."""

    def __str__(self) -> str:
        said = [repr(one) if isinstance(one, _Raised) else f"is {shorten(one)}" for one in self.answers]
        pair = self.candidate.pair
        values = f"{said[0]} on x = {shorten(pair.x)}", f"{said[1]} on x' = {shorten(pair.x_prime)}"
        told = f" with {dict(self.candidate.parameters)}" if self.candidate.parameters else ""
        where = f"it {values[0]}, and {values[1]}{told} ({self.candidate.tries})"
        sizes = f"by {self.change:.6g} in {self.norm}, and {self.claimed:.6g} is claimed"
        if self.exceeded:
            return f"The function changes {sizes}: under {self.adjacency}, {where}."
        rounding = " by more than rounding explains" if self.by_rounding else ""
        among = f"{self.searched:,} pairs under {self.adjacency}"
        return f"No change above the claim{rounding} in {among}; the largest is {sizes}: {where}."


def probe(
    function: Callable[..., Any],
    description: Description | Callable[[Values], Description],
    claimed: float | Callable[..., float],
    *,
    norm: Norm = "l1",
    adjacency: Relation,
    parameters: Mapping[str, Any] | None = None,
    examples: int = EXAMPLES,
    seed: int = 0,
) -> Probe:
    """Search neighbours for a change of a function that is larger than claimed.

    The description's pairs come first; if none exceeds the claim, hypothesis (if it is installed) draws datasets,
    climbs to larger changes, and shrinks what exceeds.

    Parameters
    ----------
    function : callable
        The mechanism before noise: of a dataset and the parameters by name; returns a number, an array, or a mapping.
    description : Table, Answers, or function of the parameters
        The data, as for `epsaudit.hunting.parameters.candidates`.
    claimed : float or callable
        The claimed sensitivity; where it depends, a function of a dataset and the parameters, as one of the number of
        records: the larger of both sides counts.
    norm : 'l1', 'l2' or 'linf'
    adjacency : Adjacency
        The relation that the claim is for.
    parameters : mapping, optional
        Values of the parameters.
    examples : int
        How many datasets are drawn for each combination of parameters; 0 for none.
    seed : int
        Of the drawing.

    Examples
    --------
    >>> from epsaudit import AddRemove
    >>> from epsaudit.hunting.description import numbers
    >>> def clipped_sum(data, low, high):
    ...     return sum(min(max(value, low), high) for value in data)
    >>> within = lambda values: numbers(values["low"], values["high"])
    >>> found = probe(clipped_sum, within, lambda data, low, high: high - low, adjacency=AddRemove(),
    ...               parameters={"low": [0, -1, 5], "high": [10]})
    >>> print(found)  # of a sum, one record more changes it by as much as it may be, not by the width of its range
    The function changes by 10 in l1, and 5 is claimed: under add or remove one record, it is 0 on x = [], and is 10.0 \
on x' = [10.0] with {'low': 5, 'high': 10} (the greatest value added to empty data).
    """
    one_of(norm, Norm, "norm of the sensitivity")
    whole_at_least(examples, 0, "examples")
    if not callable(claimed):
        finite_at_least(claimed, 0.0, "claimed sensitivity")
    relation = adjacency_of(adjacency)
    if relation is None:
        raise AuditError("adjacency is None; a sensitivity is that of a relation, AddRemove() or Substitution().")
    found = _Largest(function, claimed, norm, relation)
    for candidate in candidates(description, parameters, relation):
        found.look(candidate)
    for values, _ in combinations(parameters or {}):
        if found.best is None or not found.best.exceeded:
            _climb(found, description_at(description, values), values, examples, seed)
    if found.best is None:
        raise AuditError("The function raises on every pair of the description; it has no sensitivity to probe.")
    return replace(found.best, searched=found.searched)


@dataclass
class _Largest:
    """The largest change among the candidates that were looked at."""

    function: Callable[..., Any]
    claimed: float | Callable[..., float]
    norm: Norm
    adjacency: Adjacency
    best: Probe | None = None
    searched: int = 0

    def look(self, candidate: Candidate) -> Probe | None:
        """Compare the function on both datasets, and keep the largest change; None where both raise."""
        sides = candidate.pair.x, candidate.pair.x_prime
        answers = [_answer(self.function, side, candidate.parameters) for side in sides]
        claims = [_claim(self.claimed, side, candidate.parameters) for side in sides]
        self.searched += 1
        if all(isinstance(answer, _Raised) for answer in answers) or not any(map(math.isfinite, claims)):
            return None
        claimed = max(filter(math.isfinite, claims))
        change, size = _change(answers[0], answers[1], ORDERS[self.norm])
        records = max(len(side) if hasattr(side, "__len__") else 1 for side in sides) + 1
        slack = ULP * records * (size + records * claimed) if math.isfinite(size) else 0.0
        above = change > claimed
        exceeded = above and change - claimed > slack
        compared = (change, claimed, candidate, (answers[0], answers[1]))
        seen = Probe(exceeded, above and not exceeded, *compared, self.adjacency, self.norm, self.searched)
        if self.best is None or _rank(seen, slack) > _rank(self.best):
            self.best = seen  # larger by more than rounding: of equal ones the first is the simplest
        return seen


@dataclass(frozen=True)
class _Raised:
    """In place of an answer."""

    exception: str

    def __repr__(self) -> str:
        return f"raises {self.exception}"


class _FoundError(Exception):
    """Ends a search by hypothesis, which then shrinks."""


def _climb(found: _Largest, description: Description, values: Values, examples: int, seed: int) -> None:
    """Draw candidates, climb to larger changes, and shrink the first that exceeds the claim; not without hypothesis."""
    try:
        import hypothesis
    except ImportError:
        return
    if examples == 0:
        return
    last: list[Probe] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.target, hypothesis.Phase.shrink],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(description.strategy(found.adjacency))
    def climb(candidate: Candidate) -> None:
        seen = found.look(replace(candidate, parameters=values))
        if seen is None:
            return
        hypothesis.target(min(_rank(seen)[-1], LARGEST))
        if seen.exceeded:
            last[:] = [seen]
            raise _FoundError

    try:
        climb()
    except _FoundError:
        found.best = last[0]  # the simplest, which is what hypothesis shows last


def _rank(seen: Probe, slack: float = 0.0) -> tuple[bool, bool, float]:
    """Whether a change exceeds its claim, if only by rounding, and how many times the claim it is, less some slack."""
    least = seen.change - slack
    ratio = least / seen.claimed if seen.claimed else (math.inf if least > 0.0 else 0.0)
    return seen.exceeded, seen.by_rounding, ratio


def _answer(function: Callable[..., Any], dataset: Any, parameters: Values) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(copy.deepcopy(dataset), **parameters)
    except Exception as error:
        return _Raised(type(error).__name__)


def _claim(claimed: float | Callable[..., float], dataset: Any, parameters: Values) -> float:
    if not callable(claimed):
        return claimed
    try:
        return float(claimed(copy.deepcopy(dataset), **parameters))
    except (ArithmeticError, ValueError):  # as of no records
        return math.nan


def _change(one: Any, other: Any, order: float) -> tuple[float, float]:
    """How far apart two answers are, and how large the larger is; infinitely where only one is there, or finite."""
    if isinstance(one, _Raised) or isinstance(other, _Raised):
        return math.inf, math.inf
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = dict.fromkeys([*one, *other])
        one, other = ([answer.get(key, 0.0) for key in keys] for answer in (one, other))
    try:
        first, second = (np.ravel(np.asarray(answer, float)) for answer in (one, other))
    except (TypeError, ValueError):
        raise AuditError(f"The function returned {shorten(one)}; a sensitivity is that of numbers.") from None
    if first.shape != second.shape:
        return math.inf, math.inf
    with np.errstate(all="ignore"):
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        apart = np.where(same, 0.0, np.abs(first - second))
    if not np.isfinite(apart).all():
        return math.inf, math.inf
    finite = np.concatenate([first, second])[np.isfinite(np.concatenate([first, second]))]
    return float(np.linalg.norm(apart, order)) if len(apart) else 0.0, float(np.abs(finite).max(initial=0.0))

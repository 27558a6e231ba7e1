"""The paths of a function on one dataset: all combinations of outcomes of its comparisons and discrete draws.

The recorder decides the outcomes, so that each run follows one path, whatever the values of its draws are. A path
stores the intervals in which its linear combinations of draws lie. The enumeration ends with `Parted` if a number is
released before the function returns (what follows may depend on its value in any way), or if there are too many paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from scipy import stats

from epsaudit.tools.tracing.alignment.discrete import LISTED_REST, DiscreteLaw
from epsaudit.tools.tracing.alignment.noise_laws import LAWS
from epsaudit.tools.tracing.alignment.run import COMPARE, AlignmentRun, Draw, Parted, Runner, ordered
from epsaudit.tools.tracing.alignment.tracked import Terms
from epsaudit.tools.tracing.primitives import UNIFORM

MAX_PATHS = 4096
"""[time] Largest number of paths on one dataset; a path takes some 0.2 ms."""
MAX_WORK = 100_000
"""[time] Largest number of draws and comparisons on all paths together. They take some seconds."""
MAX_PATH_EVENTS = 2_000
"""[time] Largest number of comparisons on one path. A loop that ends with probability 1 has paths of every length."""
LEAST_LOG_PROBABILITIES = math.log(1e-9), math.log(1e-12), math.log(1e-16)
"""[measured] Paths of discrete draws that are less likely are not followed; their probability counts as delta. The
smallest limit is used by which there are not too many paths. Discrete Laplace noise that is made of flips of coins with
rejection has 1,143 paths at epsilon 1 by the third limit and leaves out 1e-12; 884 paths at epsilon 0.5 by the second
one (9e-11); 632 at 0.3 and 792 at 0.2 by the first one (1e-7); and too many at 0.1."""

SAMPLED_RUNS = 200
"""[chosen] Number of sampled runs on each side that must follow enumerated paths. Behaviour that occurs in one run
of 100 is missed with probability 0.13 by the runs of one side, and 0.02 by those of both."""

NumberRange = tuple[float, float]


class PathRun(AlignmentRun):
    """A run along one path: given decisions come first, and then the first possible outcome of each further decision.

    A decision is the outcome of a comparison of noisy numbers or of a discrete draw.
    """

    def __init__(
        self,
        decisions: tuple[Any, ...],
        list_whole_numbers: bool = False,
        least_log_probability: float = LEAST_LOG_PROBABILITIES[-1],
    ) -> None:
        super().__init__(0, list_whole_numbers=list_whole_numbers)
        self.decisions, self.least_log_probability = decisions, least_log_probability
        self.taken: list[tuple[Any, tuple[Any, ...]]] = []
        """For each decision its outcome and the other possible outcomes."""
        self.intervals: dict[tuple[tuple[int, float], ...], NumberRange] = {}
        """The interval of each linear combination whose first weight is 1."""
        self.drawn_at: list[tuple[int, int]] = []
        """For each draw the numbers of events and of discrete draws before it."""
        self.n_truncated = 0
        """Number of discrete draws that have further outcomes, which are too rare to be listed."""
        self.log_probability = 0.0
        """Log probability of the discrete draws and of the intervals of uniform draws."""

    def draw(self, law: str, scale: float) -> float:
        self.draws.append(Draw(law, scale, 0.0))
        self.drawn_at.append((len(self.events), len(self.choices)))
        one = ((len(self.draws) - 1, 1.0),)
        if law == UNIFORM:
            self.intervals[one] = (0.0, 1.0)
        elif not LAWS[law].two_sided and law != "gumbel":
            self.intervals[one] = (0.0, math.inf)
        return 0.0

    def compare(self, terms: Terms, constant: float, natural: bool) -> bool:
        self._require_active()
        if len(self.events) >= MAX_PATH_EVENTS:
            raise Parted("too many comparisons on one path")
        items = ordered(terms)
        weight = items[0][1]
        key, edge = tuple((draw, one / weight) for draw, one in items), -constant / weight
        low, high = self.intervals.get(key, (-math.inf, math.inf))
        halves = {True: (max(low, edge), high), False: (low, min(high, edge))}
        if weight < 0.0:
            halves = {True: halves[False], False: halves[True]}
        possible = tuple(one for one, (start, end) in halves.items() if self._is_possible(key, start, end))
        outcome = self._decide(possible)
        if self.draws[key[0][0]].law == UNIFORM and len(key) == 1:
            self.log_probability += math.log((halves[outcome][1] - halves[outcome][0]) / (high - low))
            self._require_likely()
        self.intervals[key] = halves[outcome]
        self._record(COMPARE, terms, constant, outcome)
        return bool(outcome)

    def _is_possible(self, key: tuple[tuple[int, float], ...], start: float, end: float) -> bool:
        """Return whether a linear combination of draws can lie in an interval.

        The ends belong to the interval for noise with whole values, and not for noise with a density.
        """
        return start < end or (start == end and not self.is_continuous(dict(key)))

    def _decide(self, possible: tuple[Any, ...]) -> Any:
        """Return the next given decision, or the first possible outcome if all given decisions are used.

        If only one outcome is possible, return it without using a decision.
        """
        if not possible:
            raise Parted("no outcome is possible")
        if len(possible) == 1:
            return possible[0]
        number = len(self.taken)
        outcome = self.decisions[number] if number < len(self.decisions) else possible[0]
        self.taken.append((outcome, tuple(one for one in possible if one is not outcome)))
        return outcome

    def _require_likely(self) -> None:
        if self.log_probability < self.least_log_probability:
            raise TooRare("a path is too rare")

    def release(self, terms: Terms, constant: float, value: float) -> float:
        raise Parted("a noisy number is used before the function returns")

    def choose(self, law: DiscreteLaw, make: Any = None) -> Any:
        if law.outcomes is None:
            raise Parted("a discrete draw has too many outcomes")
        self.n_truncated += law.truncated
        outcome = self._decide(tuple(one for one in law.outcomes if law.log_probability(one) > -math.inf))
        self.log_probability += law.log_probability(outcome)
        self._require_likely()
        return self.keep_choice(law, outcome)

    def kept(self, answer: Any) -> Any:
        number = len(self.draws)
        kept = super().kept(answer)
        if len(self.draws) == number:
            raise Parted("a mechanism of a library has an answer without numbers")
        self.drawn_at += [(len(self.events), len(self.choices))] * (len(self.draws) - len(self.drawn_at))
        return kept

    def kept_object(self, answer: Any) -> Any:
        raise Parted("a mechanism of a library has an answer with parts that are no numbers")

    def history(self, draw: int) -> Any:
        """Return all events and outcomes of discrete draws before a draw, as a value that can be compared."""
        n_events, n_choices = self.drawn_at[draw]
        events = tuple((one.kind, one.terms, one.constant, one.outcome) for one in self.events[:n_events])
        return events, tuple(repr(one.outcome) for one in self.choices[:n_choices])

    @property
    def largest_probability(self) -> float:
        """An upper bound on the probability of the path.

        It is the product of the probabilities of the discrete draws and of the intervals of single draws.
        """
        total = math.exp(self.log_probability)
        for key, (low, high) in self.intervals.items():
            law, scale, _ = self.draws[key[0][0]]
            if len(key) == 1 and law in DISTRIBUTIONS:
                total *= interval_probability(law, scale, low, high)
        return total


class TooRare(Parted):
    """Raised to end a run on a path that is so improbable that it is not followed."""


DISTRIBUTIONS: dict[str, Any] = {
    "laplace": stats.laplace,
    "normal": stats.norm,
    "exponential": stats.expon,
    "gumbel": stats.gumbel_r,
    "logistic": stats.logistic,
}
"""Distributions of the noise with a density."""


@lru_cache(4096)
def interval_probability(law: str, scale: float, low: float, high: float) -> float:
    """Return the probability that noise with a density lies in an interval, without cancellation in either tail."""
    known, low, high = DISTRIBUTIONS[law], low / scale, high / scale
    return max(float(known.cdf(high) - known.cdf(low)), float(known.sf(low) - known.sf(high)))


class TooMany(Parted):
    """Raised to end an enumeration that has too many paths."""


def paths(
    run: Runner,
    limit: int = MAX_PATHS,
    list_whole_numbers: bool = False,
    rare: list[float] | None = None,
    least_log_probability: float = LEAST_LOG_PROBABILITIES[-1],
) -> Iterator[PathRun]:
    """Yield the runs along all paths of a function on one dataset, except for paths that are too rare.

    ``run`` runs the function. With ``list_whole_numbers``, geometric draws are discrete draws with a list of outcomes.
    The probabilities of paths that are too rare, and of outcomes that are not listed, are appended to ``rare``. Raises
    `Parted` if the paths cannot be enumerated.
    """
    pending: list[tuple[Any, ...]] = [()]
    count = work = 0
    while pending:
        if count >= limit or work > MAX_WORK:
            raise TooMany(f"there are more than {limit:,} paths, or they are too long")
        count += 1
        path = PathRun(pending.pop(), list_whole_numbers, least_log_probability)
        try:
            run(path)
        except TooRare:
            path.form = None
            if rare is not None:
                rare.append(math.exp(path.log_probability))
        if path.n_truncated and rare is not None:
            rare.append(path.n_truncated * LISTED_REST)
        work += len(path.events) + len(path.draws)
        known = len(path.decisions)
        outcomes = tuple(outcome for outcome, _ in path.taken)
        for number in range(known, len(path.taken)):
            pending.extend((*outcomes[:number], other) for other in path.taken[number][1])
        if path.form is not None:
            yield path


@dataclass
class Side:
    """One dataset of a pair, with a function that runs the audited function on it, and with all of its paths."""

    run: Runner
    rare: float = 0.0
    """An upper bound on the probability of the paths that are not listed."""

    def paths(self) -> list[PathRun]:
        """Return all paths of the function on this dataset. Raises `Parted` if they cannot be enumerated."""
        return _list_or_raise(self._paths)

    def discrete_paths(self) -> list[PathRun]:
        """Return all paths of a function whose draws are all discrete; geometric draws are listed as well.

        Raises `Parted` if there are other draws, or if the paths cannot be enumerated.
        """
        return _list_or_raise(self._discrete_paths)

    @cached_property
    def _discrete_paths(self) -> list[PathRun] | str:
        """The paths that `discrete_paths` returns, or the reason why they cannot be enumerated."""
        return self._enumerated(True, lambda path: None if is_discrete_path(path) else "a draw has a density")

    def _enumerated(self, list_whole_numbers: bool, why_not: Callable[[PathRun], str | None]) -> list[PathRun] | str:
        """Return all paths, or the reason why they cannot be enumerated.

        ``why_not`` is called with each path, and may return such a reason.
        """
        found: list[PathRun] | str = ""
        for least in LEAST_LOG_PROBABILITIES:
            listed, rare = list[PathRun](), list[float]()
            how: Any = {"list_whole_numbers": list_whole_numbers, "rare": rare, "least_log_probability": least}
            try:
                for path in paths(self.run, **how):
                    listed.append(path)
                    if (other := why_not(path)) is not None:
                        return other
            except TooMany as many:
                return found or many.reason
            except Parted as parted:
                return parted.reason
            self.rare, found = math.fsum(rare), listed
            if not rare:
                break
        return found

    @cached_property
    def is_discrete(self) -> bool:
        """Whether all paths can be listed and all draws are discrete, with none of them geometric.

        Geometric draws are excluded because an alignment may shift them like noise.
        """
        listed = self._discrete_paths
        return not isinstance(listed, str) and not any(
            one.law.name == "geometric" for path in listed for one in path.choices
        )

    @cached_property
    def _paths(self) -> list[PathRun] | str:
        if self.is_discrete:
            return self._discrete_paths
        return self._enumerated(False, lambda path: None)


def _list_or_raise(found: list[PathRun] | str) -> list[PathRun]:
    if isinstance(found, str):
        raise Parted(found)
    return found


def is_discrete_path(path: PathRun) -> bool:
    """Return whether all draws on a path are discrete, or uniform and only compared with numbers."""
    return (
        all(one.law == UNIFORM for one in path.draws)
        and all(len(key) == 1 for key in path.intervals)
        and all(one.kind == COMPARE for one in path.events)
    )


def require_enumerated_paths(side: Side, seeds: Iterable[int], list_whole_numbers: bool = False) -> None:
    """Run the function with the given seeds, and raise `Parted` if a run follows a path that was not enumerated.

    Such a run shows that the function depends on earlier runs, or on something that is not recorded.
    """
    known = set(map(_path_key, side.discrete_paths() if list_whole_numbers else side.paths()))
    for seed in seeds:
        if _path_key(side.run(AlignmentRun(seed, list_whole_numbers=list_whole_numbers))) not in known:
            reason = (
                "a sampled run followed a path that was not enumerated: it depends on earlier runs, or on something"
            )
            raise Parted(f"{reason} that is not recorded")


def _path_key(run: AlignmentRun) -> Any:
    events = tuple(
        (one.kind, one.terms, one.constant, one.outcome if one.kind == COMPARE else None) for one in run.events
    )
    return events, run.form, tuple(repr(one.outcome) for one in run.choices)

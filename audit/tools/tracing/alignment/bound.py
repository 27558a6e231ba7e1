"""The entry point of upper bounds on the privacy loss: `bound_above`, and the steps to the bound of one pair."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import DatasetPair, Relation, pair_of
from epsaudit.data.pairs import warn_of_strings
from epsaudit.errors import AuditError, confidence_of, public, whole_at_least
from epsaudit.results.result import UPPER_SLACK
from epsaudit.running.functions import mechanism_of
from epsaudit.running.protocols import Mechanism, is_claim
from epsaudit.running.streams import entropy
from epsaudit.text import upper
from epsaudit.tools.tracing.alignment.aligned import Aligned, AllKept, ByOutput, Strategy
from epsaudit.tools.tracing.alignment.certain import (
    NOT_LISTED,
    CertainBound,
    PathLoss,
    combined,
    exact_bound,
    from_pure,
    path_losses,
    path_losses_by_output,
)
from epsaudit.tools.tracing.alignment.checks import (
    SEEDS_COMPARED,
    WATCHED_RUNS,
    exceptions_of,
    require_no_memory,
    require_random_draws,
    require_same_output,
)
from epsaudit.tools.tracing.alignment.explanation import EXPLAINED_RUNS, explained
from epsaudit.tools.tracing.alignment.many_pairs import in_processes
from epsaudit.tools.tracing.alignment.matching import matched_epsilon
from epsaudit.tools.tracing.alignment.ordinary_run import OrdinaryRun
from epsaudit.tools.tracing.alignment.paths import SAMPLED_RUNS, Side, require_enumerated_paths
from epsaudit.tools.tracing.alignment.run import AlignmentRun, Parted, runner
from epsaudit.tools.tracing.alignment.sampled import Sample, excess, sample_losses, upper_mean
from epsaudit.tools.tracing.alignment.step_filter import SameAnswers, Spent, bound_of, budget_for, spent
from epsaudit.tools.tracing.alignment.time_limit import TimeLimit
from epsaudit.tools.tracing.calls import call_of
from epsaudit.tools.tracing.losses import EXCESS_TOLERANCE, exceeds_claim
from epsaudit.tools.tracing.primitives import UNIFORM
from epsaudit.tools.tracing.runs import Call, only_returns_none

ALIGNMENT_TRAINING_RUNS = 200
"""[measured] Number of training runs in each direction (x to x', and x' to x), at most a fifth of all runs."""
CHECKED_REPEATS = 2
"""[formula] Number of runs that are repeated with the same draws and another seed. Another output shows that not all
randomness is recorded."""
MAX_LEFT_OUT = 0.5
"""[chosen] Largest probability that a bound may leave uncovered. If it would be larger, there is no bound, and the
reason is reported."""
CHUNK = 1_000
"""[time] Number of fresh runs that a process does at once. They take about 2 s."""
FEWEST_RUNS = 10
"""[chosen] Smallest number of runs that can be asked for."""
LARGE = 100.0
"""[formula] From bounds of this size on, `UPPER_SLACK` is not removed before rounding, because it would change the
third decimal."""
ABOVE = "the cheapest alignment costs more than the claim"
ONE_SIDED = "an output is possible on one dataset only"
MAX_DELTA = 1e-3
"""[chosen] Largest probability that a bound may leave uncovered by default. If 10,000 runs all have an alignment,
the bound leaves 4e-4 uncovered at a confidence of 95 %."""


@dataclass(frozen=True)
class UpperBound:
    """An upper bound on the privacy loss of a function on one pair of datasets, or the reason why there is none."""

    name: str
    """Name of the function."""
    pair: DatasetPair
    """The two datasets."""
    claim: Claim
    """The claim in whose parameter the bound is stated."""
    upper_bound: float
    """Upper bound on the claim's parameter on this pair; infinite if there is none."""
    delta: float
    """Probability that the bound does not cover, in addition to the claim's own delta; 0 if it covers all draws."""
    certain: bool
    """Whether the bound holds for all draws, without a confidence, under the assumptions `UpperBound.ASSUMED`."""
    paths: int
    """Number of paths that were enumerated; 0 if the bound comes from runs."""
    runs: int
    """Number of runs in each direction that certify the bound; 0 for a certain bound."""
    confidence: float
    """Confidence of a bound that is not certain."""
    reason: str = ""
    """Why no bound within the claim was found; empty otherwise."""
    file: str = ""
    """File of the draw, the comparison or the released number that costs more than the claim; empty if it is
    unknown, or if the bound is within the claim."""
    line: int = 0
    """Line in this file."""
    cheapest: float | None = None
    """Cost, in the claim's parameter, of the cheapest alignment that was found for a run for which none was found
    within the claim. If no alignment keeps the whole run, it is the cost of what comes before ``line``. None if the
    bound is within the claim, or if no run could be compared."""

    ASSUMED = (
        "all randomness comes from recorded draws (equal draws gave equal outputs, twice); floating-point numbers are "
        "treated as real numbers"
    )

    @property
    def within_claim(self) -> bool:
        """Whether the bound is at most the claimed value."""
        return not exceeds_claim(self.claim, self.upper_bound)

    def within(self, max_delta: float) -> bool:
        """Return whether the bound is at most the claimed value, and its ``delta`` at most ``max_delta``."""
        return self.within_claim and self.delta <= max_delta

    def amount(self) -> str:
        """Return the bound as text, without a statement of how it was obtained."""
        said = f"at most {self.claim.symbol} {rounded_up(self.upper_bound)}"
        if isinstance(self.claim, ApproxDP):
            said += f" at delta {self.claim.delta:g}"
        if self.delta:
            said += f" except with probability {upper(self.delta, 2)}"
        return said

    def sentence(self) -> str:
        """Return the bound and how it was obtained as one line of text."""
        if self.upper_bound == math.inf:
            return f"no upper bound: {self.reason}{self._at()}"
        how = f"certain ({_counted(self.paths, 'path')})" if self.certain else (
            f"confidence {self.confidence:.0%} ({self.runs:,} runs)"
        )  # fmt: skip
        return f"{self.amount()}, {how}"

    def explanation(self) -> str:
        """Return one line on what costs more than the claim, and where; empty if the bound is within the claim.

        The cost is that of the cheapest alignment. An alignment shifts the noise of a run so that the function on x'
        gives the same output.
        """
        if self.cheapest is None:
            return ""
        cost = f"{self.claim.symbol} {self.cheapest:.3f}"
        if self.upper_bound == math.inf:
            return f"the cheapest alignment of what comes before costs {cost}"
        return f"the cheapest alignment costs {cost}: {self.reason}{self._at()}"

    def _at(self) -> str:
        return f" ({Path(self.file).name}:{self.line})" if self.file else ""

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence()}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result in values that JSON can represent; infinite numbers become None."""
        attributes = "name upper_bound delta certain paths runs confidence reason file line cheapest"
        content: dict[str, Any] = {name: getattr(self, name) for name in attributes.split()}
        for name in ("upper_bound", "cheapest"):
            content[name] = None if content[name] == math.inf else content[name]
        return {
            **content,
            "pair": str(self.pair),
            "claim": str(self.claim),
            "sentence": self.sentence(),
            "assumed": self.ASSUMED,
        }


def rounded_up(value: float) -> str:
    """Return an upper bound as text with three decimals, rounded up.

    Bounds from runs are larger than the computed loss by 1e-6 of its value, to allow for rounding. Below `LARGE`, a
    share of `UPPER_SLACK` is removed before rounding up, so that 1.000001 is printed as 1.000 and not as 1.001.
    """
    if value == math.inf:
        return "inf"
    slack = UPPER_SLACK if value < LARGE else 0.0
    return f"{math.ceil(value / (1.0 + slack) * 1000.0 - 1e-9) / 1000.0:.3f}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@public
def bound_above(
    function: Mechanism | Callable[..., Any],
    pairs: DatasetPair | tuple[Any, Any] | Sequence[Any],
    *,
    claim: Claim | None = None,
    adjacency: Relation | None = None,
    runs: int = 10_000,
    confidence: float = 0.95,
    seed: int | None = 0,
    n_jobs: int = -1,
    timeout: float = 300.0,
) -> UpperBound:
    """Return an upper bound on the privacy loss of a function on pairs of datasets.

    The function runs in child processes in which random draws are replaced by objects that record what is computed
    from them. The bound follows from the shift of these draws with which the function on x' gives the output that it
    gave on x (the theorem on alignments in docs/explanation/theory.md).

    Parameters
    ----------
    function : callable or Mechanism
        The function, as for `epsaudit.black_box`.
    pairs : (x, x_prime), DatasetPair, or a list of these
        Neighbouring datasets. The result is the largest bound of all pairs, with the largest ``delta`` of all pairs. It
        is certain if the bounds of all pairs are certain.
    claim : Claim, optional
        The claim in whose parameter the bound is stated, by default that of the mechanism.
    adjacency : relation, optional
        The neighbouring relation, as for `epsaudit.black_box`.
    runs : int
        Number of runs in each direction, if not all paths can be enumerated.
    confidence : float
        Confidence of a bound from runs, for all pairs together.
    seed : int, optional
        Seed of all runs.
    n_jobs : int
        Number of processes; -1 for all cores.
    timeout : float
        Largest number of seconds for one run of the function.

    Returns
    -------
    UpperBound
        The bound, or the reason why there is none.

    Raises
    ------
    AuditError
        If there is no claim, if the function cannot be called, or if a run takes longer than ``timeout``.

    Examples
    --------
    >>> from epsaudit import PureDP, bound_above
    >>> def count(data, rng):
    ...     return len(data) + rng.laplace(scale=1.0)
    >>> print(bound_above(count, (["a"], ["a", "b"]), claim=PureDP(1.0)))
    count: at most epsilon 1.000, certain (1 path)
    """
    listed = [pair_of(one) for one in (pairs if isinstance(pairs, list) else [pairs])]
    warn_of_strings(listed)
    asked = mechanism_of(function, adjacency)
    how: dict[str, Any] = {"runs": runs, "confidence": confidence, "seed": seed, "n_jobs": n_jobs, "timeout": timeout}
    return largest(bound_each(asked, listed, claim, **how))


def largest(found: Sequence[UpperBound]) -> UpperBound:
    """Combine the bounds of several pairs into a bound that holds for all of them.

    It is the largest bound, with the largest ``delta``: the probability that some bound does not cover.
    """
    worst = max(found, key=lambda one: (one.upper_bound, one.delta))
    delta, runs = max(one.delta for one in found), max(one.runs for one in found)
    return replace(worst, delta=delta, certain=all(one.certain for one in found), runs=runs)


def bound_each(
    asked: Mechanism,
    pairs: Sequence[DatasetPair],
    claim: Claim | None,
    *,
    runs: int,
    confidence: float,
    seed: int | None,
    n_jobs: int,
    timeout: float,
) -> list[UpperBound]:
    """Return the upper bound of each pair. All bounds hold together with the given confidence.

    Raises `AuditError` if there are no pairs, if neither the caller nor the mechanism states a claim, or if the
    function cannot be called or takes too long.
    """
    claim = claim if claim is not None else asked.claim
    is_claim(claim, "the function")
    assert claim is not None
    if not pairs:
        raise AuditError("There are no pairs; give at least one.")
    runs, alpha = whole_at_least(runs, FEWEST_RUNS, "runs"), (1.0 - confidence_of(confidence)) / len(pairs)
    limit = TimeLimit(timeout)
    call = limit.of(call_of(asked))
    how: dict[str, Any] = {"claim": claim, "runs": runs, "alpha": alpha, "seed": entropy(seed)}
    each = [PairBound(call, asked.name, one, **how) for one in pairs]
    settings: dict[str, Any] = {"n_jobs": n_jobs, "name": asked.name, "limit": limit}
    found = dict(in_processes(lambda number: each[number].prepare(), range(len(each)), **settings))
    prepared = {number: one for number, one in found.items() if isinstance(one, Sampling)}
    # share fresh runs among all processes, also those of a single pair
    chunks = [range(start, min(start + CHUNK, runs)) for start in range(0, runs, CHUNK)]
    tasks = [(number, chunk) for number in sorted(prepared) for chunk in chunks]

    def losses_of(task: int) -> list[list[float]]:
        number, chunk = tasks[task]
        return each[number].fresh_losses(prepared[number], chunk)

    parts = dict(in_processes(losses_of, range(len(tasks)), **settings))

    def conclude(place: int) -> UpperBound:
        number = sorted(prepared)[place]
        some = [parts[task] for task, (one, _) in enumerate(tasks) if one == number]
        return each[number].conclude(
            prepared[number], [[loss for one in some for loss in one[side]] for side in (0, 1)]
        )

    concluded = dict(in_processes(conclude, range(len(prepared)), **settings))
    found.update({number: concluded[place] for place, number in enumerate(sorted(prepared))})
    bounds = [one for _, one in sorted(found.items()) if isinstance(one, UpperBound)]
    return [replace(one, confidence=confidence) for one in bounds]


def certain_bound(asked: Mechanism, pair: DatasetPair, claim: Claim, seed: int, seconds: float) -> UpperBound | None:
    """Return a certain upper bound on the privacy loss of a pair, or None if none is found in this number of seconds.

    A certain bound has no confidence, because it comes from all paths of the function and not from sampled runs.
    """
    bound = PairBound(call_of(asked), asked.name, pair, claim, FEWEST_RUNS, 0.05, seed)

    def certain(_: int) -> UpperBound | None:
        try:
            return bound.certain()
        except Parted:
            return None

    try:
        ((_, found),) = in_processes(certain, [0], n_jobs=1, name=asked.name, seconds=seconds)
    except (AuditError, TimeoutError):
        return None
    return found if found is not None and found.certain else None


@dataclass(frozen=True)
class BoundPlan:
    """A plan for fresh runs, which training runs have made: a strategy for each direction, and an epsilon.

    A strategy shifts the noise of a run on x so that the run on x' gives the same output. The fresh runs shall certify
    the epsilon as a bound on the loss of these shifts.
    """

    strategies: Sequence[Strategy]
    """The strategy for each direction: from x to x', and from x' to x."""
    samples: Sequence[Sample]
    """The losses of the training runs in each direction."""
    left_out: float
    """Share of training runs without an alignment."""
    epsilon: float
    budget: Spent | None = None
    """Largest total loss that mechanisms of libraries may state in a run, if the strategy repeats their answers."""


@dataclass(frozen=True)
class Sampling:
    """The intermediate result for a pair that needs fresh runs: the plan for them, and any certain bound."""

    plan: BoundPlan
    certain: UpperBound | None
    """A bound that is certain, but above the claim or not for all draws; None if there is none."""
    known_exceptions: frozenset[str]
    """Names of the exceptions that the function raises with ordinary numbers."""


@dataclass
class PairBound:
    """The computation of the upper bound of one pair of datasets.

    It needs a process in which samplers are replaced by samplers that record their draws.
    """

    call: Call
    name: str
    pair: DatasetPair
    claim: Claim
    runs: int
    alpha: float
    seed: int

    def __post_init__(self) -> None:
        both = self.pair.x, self.pair.x_prime
        self.known_exceptions: set[str] = set()
        self.returned_none = True  # until `_check_repeats` sees another output
        self._is_exact = False  # until `certain` enumerates the laws of both outputs
        settings: dict[str, Any] = {"seed": self.seed + SEEDS_COMPARED, "known_exceptions": self.known_exceptions}
        self.watched = [runner(self.call, one, look_for_samplers=True, **settings) for one in both]
        self.sides = [Side(runner(self.call, one, **settings)) for one in both]
        self.directions = [(self.sides[0], self.sides[1]), (self.sides[1], self.sides[0])]

    def best(self) -> UpperBound:
        """Return the best upper bound of the pair.

        An exact bound comes from the laws of both outputs, and a certain bound from all paths of the function.
        Otherwise the bound comes from fresh runs, with a confidence.
        """
        prepared = self.prepare()
        if isinstance(prepared, UpperBound):
            return prepared
        return self.conclude(prepared, self.fresh_losses(prepared, range(self.runs)))

    def prepare(self) -> UpperBound | Sampling:
        """Return a bound that needs no fresh runs, or else a plan for the fresh runs.

        Raises `AuditError` if all runs returned None and the bound would be 0, because this would mislead.
        """
        prepared = self._prepared()
        if isinstance(prepared, Sampling):
            return prepared
        if self.returned_none and prepared.upper_bound == prepared.delta == 0.0 and self._returns_nothing():
            raise AuditError(f"{self.name} returned None in every run; is a return missing?")
        return self._explained(prepared)

    def _prepared(self) -> UpperBound | Sampling:
        """Return a bound that needs no fresh runs, or else a plan for the fresh runs.

        Unlike `prepare`, this method does not explain why a bound is above the claim.
        """
        try:
            certain = self.certain()
        except Parted as parted:
            return self._none(parted.reason)
        if certain is not None and (certain.reason or certain.within_claim or not certain.delta or self._is_exact):
            return certain
        plan = first = self._trained([AllKept(), AllKept()])
        if plan.left_out or not self._within(_in_parameter(self.claim, plan.epsilon)):
            plan = min(plan, self._trained([ByOutput(), ByOutput()]), key=lambda one: (one.left_out, one.epsilon))
        of_steps = self._plan_of_steps()
        if of_steps is not None:
            plan = min(plan, of_steps, key=lambda one: (one.left_out, self._promised(one)))
        if plan.epsilon < math.inf:
            return Sampling(plan, certain, frozenset(self.known_exceptions))
        return certain if certain is not None else self._without_bound(first.samples)

    def certain(self) -> UpperBound | None:
        """Return the best certain bound, which comes from all paths of the function, or None if there is none.

        Raises `Parted` if draws are not random, or if a run depends on anything but its dataset and its draws. The
        result has no bound, and a reason, if a sampled run takes a path that was not enumerated.
        """
        self._check_repeats()
        exact = exact_bound(self.claim, *self.sides)
        if exact is not None:
            self._is_exact = exact.delta <= NOT_LISTED and all(side.is_discrete for side in self.sides)
            if self._is_exact or not exact.delta:
                return self._verified(exact)
        by_paths = self._certain_by_paths()
        for one in (by_paths, exact):
            if one is not None and self._within(one.value) and one.delta <= NOT_LISTED:
                return self._verified(one)
        others = [] if by_paths is None else [self._certain_by_output(), self._certain_by_matching()]
        if by_paths is not None and not isinstance(self.claim, PureDP):
            others.append(self._certain_by_paths(equal=True))
        candidates = [one for one in (exact, by_paths, *others) if one is not None and one.delta <= MAX_LEFT_OUT]
        best = min(candidates, key=lambda one: (one.value, one.delta), default=None)
        return None if best is None or best.value == math.inf else self._verified(best)

    def fresh_losses(self, prepared: Sampling, numbers: range) -> list[list[float]]:
        """Run the function anew, and return the losses of all runs for each direction (x to x', and x' to x).

        The loss of a run is that of the shift of its noise with which the other dataset gives the same output.
        ``numbers`` selects the seeds, so that several processes can share the runs of a pair.
        """
        self.known_exceptions |= prepared.known_exceptions
        seeds = range(self.seed + 2_000_000 + numbers.start, self.seed + 2_000_000 + numbers.stop)
        strategies = zip(prepared.plan.strategies, self.directions, strict=True)
        return [sample_losses(strategy, side.run, other.run, seeds).losses for strategy, (side, other) in strategies]

    def conclude(self, prepared: Sampling, losses: Sequence[Sequence[float]]) -> UpperBound:
        """Return the upper bound of the pair, given the losses of fresh runs in both directions.

        It is the bound that these losses certify, or the certain bound of ``prepared`` if that is not larger.
        """
        self.known_exceptions |= prepared.known_exceptions
        sampled = self._sampled(prepared.plan, losses)
        certain = prepared.certain
        better = certain is not None and certain.upper_bound <= sampled.upper_bound
        return self._explained(certain if certain is not None and better else sampled)

    def _verified(self, one: CertainBound) -> UpperBound:
        """Check a certain bound against sampled runs, and return it.

        If a sampled run follows a path that was not enumerated, return a result without a bound.
        """
        try:
            for side in self.sides:
                seeds = range(self.seed + 3_000_000, self.seed + 3_000_000 + SAMPLED_RUNS)
                require_enumerated_paths(side, seeds, one.listed)
        except Parted as parted:
            return self._none(parted.reason)
        found = self._result(one.value, one.delta, certain=True, n_paths=one.n_paths)
        return found if one.value < math.inf else replace(found, reason=ONE_SIDED)

    def _within(self, value: float) -> bool:
        return not exceeds_claim(self.claim, value)

    def _returns_nothing(self) -> bool:
        """Return whether many further runs return None on both datasets."""
        both = self.pair.x, self.pair.x_prime

        def returns_none(side: int, number: int) -> bool:
            seed = self.seed + number
            return runner(self.call, both[side], seed)(OrdinaryRun(seed)).output is None

        return only_returns_none(returns_none)

    def _check_repeats(self) -> None:
        """Raise `Parted` if draws are not random, or if a run depends on anything but its dataset and its draws."""
        for side, dataset in zip(self.watched, (self.pair.x, self.pair.x_prime), strict=True):
            seeds = range(self.seed, self.seed + SEEDS_COMPARED)
            ordinary = [
                runner(self.call, dataset, seed)(OrdinaryRun(seed, number < WATCHED_RUNS))
                for number, seed in enumerate(seeds)
            ]
            self.returned_none &= all(one.output is None for one in ordinary)
            require_random_draws(ordinary)
            again = OrdinaryRun(self.seed, watches_generators=True)
            require_no_memory(ordinary[0], runner(self.call, dataset, self.seed)(again))
            self.known_exceptions |= exceptions_of(ordinary)
            for number in range(CHECKED_REPEATS):
                first = side(AlignmentRun(self.seed + number))
                again = runner(self.call, dataset, self.seed + 1 + number)(
                    AlignmentRun(0, first, values=[one.value for one in first.draws])
                )
                same = [one[:4] for one in first.events] == [one[:4] for one in again.events]
                if not same or first.form != again.form:
                    raise Parted("equal draws gave another output: not all randomness is recorded")
            for one in ordinary:
                require_same_output(one, side)

    def _certain_by_paths(self, equal: bool = False) -> CertainBound | None:
        try:
            return self._combine([path_losses(*both, equal) for both in self.directions])
        except Parted:
            return None

    def _certain_by_output(self) -> CertainBound | None:
        try:
            return self._combine([path_losses_by_output(*both) for both in self.directions])
        except Parted:
            return None

    def _certain_by_matching(self) -> CertainBound | None:
        """Return a certain bound from alignments that may change the outcomes of discrete draws.

        Such an alignment maps runs on x to runs on x' with the same output, for example with another random sample of
        records. Return None if the function makes no discrete or uniform draw.
        """
        mine, theirs = (side.paths() for side in self.sides)
        if not any(path.choices or any(one.law == UNIFORM for one in path.draws) for path in (*mine, *theirs)):
            return None
        epsilon = max(0.0, matched_epsilon(mine, theirs), matched_epsilon(theirs, mine))
        left_out = max(side.rare for side in self.sides)
        return CertainBound(_in_parameter(self.claim, epsilon), left_out, max(len(mine), len(theirs)))

    def _combine(self, both: list[list[PathLoss]]) -> CertainBound:
        """Compute a bound from the losses of all paths in each direction, and return the larger of the two bounds."""
        values = [combined(self.claim, one) for one in both]
        value, delta = max(one for one, _ in values), max(one for _, one in values)
        return CertainBound(value, delta, max(len(side.paths()) for side in self.sides))

    def _trained(self, strategies: Sequence[AllKept | ByOutput]) -> BoundPlan:
        """Train a strategy to shift noise in each direction, and return the plan for the fresh runs.

        The plan has the bound that these runs shall certify.
        """
        n, samples = min(ALIGNMENT_TRAINING_RUNS, max(1, self.runs // 5)), list[Sample]()
        seeds = range(self.seed + 1_000_000, self.seed + 1_000_000 + n)
        for strategy, (side, other) in zip(strategies, self.directions, strict=True):
            if isinstance(strategy, ByOutput):
                for seed in seeds:
                    with contextlib.suppress(Parted):
                        strategy.learn(side.run(AlignmentRun(seed)), other.run)
            samples.append(sample_losses(strategy, side.run, other.run, seeds))
        return BoundPlan(strategies, samples, *self._planned(samples))

    def _plan_of_steps(self) -> BoundPlan | None:
        """Return a plan in which mechanisms of libraries give the same answers on both datasets.

        The losses that the mechanisms state are added up. Return None if the function calls no such mechanism, or if
        most training runs differ in something else.
        """
        n, found, samples = min(ALIGNMENT_TRAINING_RUNS, max(1, self.runs // 5)), list[Spent](), list[Sample]()
        for side, other in self.directions:
            samples.append(Sample())
            for seed in range(self.seed + 1_000_000, self.seed + 1_000_000 + n):
                try:
                    run = side.run(AlignmentRun(seed))
                    if not run.steps:
                        return None
                    found.append(spent(run, other.run))
                    samples[-1].add(seed, Aligned(0.0))  # the budget contains what every training run spends
                except Parted as parted:
                    samples[-1].add(seed, Aligned(math.inf, None, parted.reason))
        left_out = 1.0 - len(found) / (2 * n)
        if left_out > MAX_LEFT_OUT:
            return None
        strategy = SameAnswers(budget_for(self.claim, found, self._least_left_out(left_out)))
        return BoundPlan([strategy] * 2, samples, left_out, 0.0, strategy.budget)

    def _promised(self, plan: BoundPlan) -> float:
        """Return the bound that a plan for fresh runs is expected to give.

        Fresh runs give this bound if they agree with the training runs from which the plan was made.
        """
        if plan.budget is None:
            return _in_parameter(self.claim, plan.epsilon)
        return bound_of(self.claim, plan.budget, self._least_left_out(plan.left_out))[0]

    def _least_left_out(self, share: float) -> float:
        """Return the upper confidence limit that fresh runs give if this share of them has no alignment.

        An alignment shifts the noise of a run so that the other dataset gives the same output.
        """
        return upper_mean(np.full(self.runs, share), self.alpha / 2.0)

    def _sampled(self, plan: BoundPlan, losses: Sequence[Sequence[float]]) -> UpperBound:
        """Return the bound that the losses of fresh runs certify, for the plan that training runs made."""
        epsilon = plan.epsilon
        deltas = [upper_mean(excess(np.array(one), epsilon), self.alpha / 2.0) for one in losses]
        delta = max(deltas)
        if delta > MAX_LEFT_OUT:
            return self._without_bound(plan.samples)
        if plan.budget is not None:
            value, delta = bound_of(self.claim, plan.budget, delta)
            if value == math.inf:
                return self._none("the mechanisms that are called state no loss in this claim's parameter at its delta")
            return self._result(value, delta, runs=self.runs)
        if isinstance(self.claim, ApproxDP):
            if delta > self.claim.delta:
                reason = (
                    f"runs without an alignment at epsilon {epsilon:.3g} may have probability {delta:.2g}, more than "
                    f"the claim's delta"
                )
                return self._none(reason)
            return self._result(epsilon, 0.0, runs=self.runs)
        return self._result(_in_parameter(self.claim, epsilon), delta, runs=self.runs)

    def _planned(self, samples: Sequence[Sample]) -> tuple[float, float]:
        """Return the share of training runs without an alignment, and the epsilon that fresh runs shall certify.

        An alignment shifts the noise of a run so that the other dataset gives the same output. The epsilon is the
        claim's if few training runs exceed it, and otherwise the largest finite loss of a training run. For a claim of
        pure DP, it is the largest loss also if that is below the claim.
        """
        losses = np.concatenate([np.array(one.losses) for one in samples])
        finite = losses[np.isfinite(losses)]
        if any(np.mean(np.isinf(one.losses)) > MAX_LEFT_OUT for one in samples):
            return 1.0, math.inf
        point = self.claim.claimed_point
        claimed = point[0] if point is not None else math.inf
        largest, slack = max(0.0, float(finite.max())), 1.0 + EXCESS_TOLERANCE
        left_out = float(np.mean(losses == math.inf))
        allowed = max(self.claim.delta if isinstance(self.claim, ApproxDP) else 0.0, left_out)
        if float(np.mean(excess(losses, claimed))) <= allowed * slack or largest <= claimed * slack:
            return left_out, (min(largest, claimed) if isinstance(self.claim, PureDP) else claimed) * slack
        return left_out, largest * slack

    def _without_bound(self, samples: Sequence[Sample]) -> UpperBound:
        """Return a result without a bound, and with the most frequent reason why runs have no alignment.

        An alignment shifts the noise of a run so that the other dataset gives the same output.
        """
        failed = [(one.reasons.most_common(1)[0][0], one) for one in samples if one.reasons]
        if not failed:
            return self._none("the loss of the cheapest alignment has no finite bound in this claim's parameter")
        reason, worst = failed[0]
        return self._explained(self._none(""), [worst.failed[reason]], reason)

    def _explained(self, found: UpperBound, seeds: Sequence[int] = (), reason: str = ABOVE) -> UpperBound:
        """Add the place in the audited code that costs too much to a result that is above the claim.

        Runs with the given seeds are tried first. If no run shows a place, the given reason is reported. A reason that
        the result already has is kept.
        """
        if found.within_claim:
            return found
        tried = [*seeds, *range(self.seed, self.seed + EXPLAINED_RUNS)]
        one = explained(self.claim, [(one.run, other.run) for one, other in self.directions], tried)
        if one is None:
            cheapest = found.upper_bound if found.upper_bound < math.inf else None
            return replace(found, reason=found.reason or reason, cheapest=cheapest)
        at: Any = {"file": one.stack[0][0], "line": one.stack[0][1]} if one.stack else {}
        return replace(found, reason=found.reason or one.reason, cheapest=min(one.cheapest, found.upper_bound), **at)

    def _none(self, reason: str) -> UpperBound:
        return replace(self._result(math.inf, 1.0), reason=reason)

    def _result(self, value: float, delta: float, certain: bool = False, n_paths: int = 0, runs: int = 0) -> UpperBound:
        return UpperBound(self.name, self.pair, self.claim, value, delta, certain, n_paths, runs, 1.0 - self.alpha)


def _in_parameter(claim: Claim, epsilon: float) -> float:
    """Return the largest value of the claim's parameter that epsilon-DP allows.

    For a claim of (epsilon, delta)-DP, this is epsilon itself.
    """
    return epsilon if isinstance(claim, ApproxDP) else from_pure(claim, epsilon)

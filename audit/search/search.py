"""The search of an audit of fixed size: choose the pair, the event and the certificate on training runs.

Nothing that is decided here certifies anything: the certification runs are fresh, so the bound is valid whatever was
chosen (docs/explanation/theory.md). It stands alone because the choice can be improved without touching validity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from threadpoolctl import threadpool_limits

from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs, align_dtypes, join_outputs
from epsaudit.running.chunks import BLOCK
from epsaudit.running.rates import Rates
from epsaudit.running.runs import Runs, Specification
from epsaudit.search import Bound, Choice, Family
from epsaudit.search.pair_search import PairSearch
from epsaudit.search.selection import OPTIMISTIC_SD, choice_rank
from epsaudit.witnesses.conditions import MAX_SIMPLE_PARTS, count_condition_parts

FIRST_PERCENT, MAX_PERCENT = 10, 30
"""[measured] Percentage of the runs of an audit of at most a million runs that the first part of training takes, and
maximum percentage that both parts of training take. Certified bounds were compared with an oracle's bound. For
registered mechanisms (a million runs, two seeds) the mean ratio is 0.971 and the lowest decile 0.955. With a maximum of
20 they are 0.971 and 0.953; if training begins with 2 and quadruples, they are 0.968 and 0.932, and it takes more time.
For the public benchmark (4.3 million runs, four seeds) they are 0.936 and 0.828; with a maximum of 20, 0.921 and 0.794;
with 40, 0.932 and 0.797."""
MAX_FIRST_RUNS, MAX_VALIDATION_RUNS = 400_000, 4_000_000
"""[time] Maximum number of runs of the first and of the second part of training."""
MIN_TRIALS_TO_VALIDATE = 100_000
"""[chosen] Audits with fewer runs have no second part of training."""
FEW_PAIRS = 4
"""[time] Up to 4 pairs are compared in one round; with more pairs, each round keeps a quarter."""
OPTIMISTIC_GAIN, WELL_KNOWN = 1.04, 0.95
"""[measured] A second part of training is drawn if another event's optimistic bound is 4 % higher than the optimistic
bound of the chosen event, or if the cautious bound of the chosen event is below 95 % of its optimistic bound. For both
optimistic bounds, log odds are lowered by `OPTIMISTIC_SD` standard errors (by `RIVAL_PAIR` for events on another pair).
With 0.9 in place of 0.95, the mean ratio to an oracle's bound for registered mechanisms is the same (0.967 over 3
seeds), and the lowest decile is 0.942 instead of 0.951. With 0.97 both are the same (2 seeds), and training takes a
fifth longer."""
RIVAL_PAIR = -1.0
"""[measured] Number of standard errors by which the log odds of another pair are lowered before it is compared with the
best pair. A negative number raises the log odds, because the error of another pair is independent. For registered
mechanisms with several pairs (a million runs, seeds 8400 to 8403), the mean ratio to an oracle's bound is 0.988, and
0.976 if the number is 0.25. The smallest ratio, that of `shifted-inverse-distinct`, is 0.99, and 0.69 with 0.25."""
ERRORS_BETWEEN_PAIRS = 0.5
"""[chosen] Number of standard errors by which the log odds of every pair are lowered before pairs are compared after
the second part of training."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of training: the chosen pair of datasets, witness and certificate.

    Attributes
    ----------
    pair : int
        Index of the chosen pair among the pairs of the audit.
    choice : Choice
        The witness and the certificate.
    runs : int
        Number of training runs, on both datasets of all pairs. The audit adds the runs of copies of the mechanism.
    notes : tuple of str
        Notes for the result about training.
    rates : Rates, optional
        Frequencies of simple properties of the first training outputs, with which certification runs are compared.
    """

    pair: int
    choice: Choice
    runs: int
    notes: tuple[str, ...] = ()
    rates: Rates | None = None


class SearchSpecification(Specification, Protocol):
    """The part of an audit's specification that a search needs: that of its runs, and the families of witnesses."""

    @property
    def families(self) -> Sequence[Family]: ...


class Search:
    """The search for the pair of datasets, the event and the certificate that give the largest bound.

    Parameters
    ----------
    spec : SearchSpecification
        The claim, the families of witnesses, the pairs, the number of runs and the confidence.
    """

    def __init__(self, spec: SearchSpecification) -> None:
        self._spec = spec
        self._used = self._copy_runs = 0  # training runs so far, and runs of copies before training
        self._objective = self._bound()

    def choose(self, runs: Runs) -> TrainingResult:
        """Draw training runs, and return the chosen pair, event and certificate.

        All pairs are compared on the first part of training. A second part is drawn for the best pair and its rivals in
        two cases: if another event may be worth more than the runs that it takes to find it, or if the bound of the
        chosen event is uncertain. Everything is then learnt again from all outputs.

        Raises `AuditError` if the trials are too few for the number of pairs.
        """
        self._copy_runs = runs.copy_runs
        with threadpool_limits(1):  # the matrices are small, and other audits may use the other cores
            searches = self._compare(runs)
            best = searches[0]
            choice = best.best(self._objective)
            further = max_further_runs(self._spec.trials)
            rivals = self._rivals(searches, choice, further)
            if further and (rivals or choice.cautious < WELL_KNOWN * choice.optimistic):
                best = self._train_more(runs, [best, *(one for one in rivals if one is not best)], further)
                choice = best.best(self._objective)
            return TrainingResult(best.pair, choice, self._used, tuple(self._notes(best, choice)))

    def _bound(self, further: int = 0) -> Bound:
        """Return the objective of the search: the bound that the remaining runs are predicted to certify.

        ``further`` is a number of runs that training may still take away from certification.
        """
        certifying = self._spec.trials - self._used - further - self._copy_runs
        return Bound(self._spec.claim, certifying, self._spec.confidence)

    def _compare(self, runs: Runs) -> list[PairSearch]:
        """Draw the first part of training and compare all pairs. Return the searches of the last round, the best first.

        With many pairs this is successive halving (Jamieson and Talwalkar 2016): there are several rounds of equal
        cost, and after each round only the quarter of the pairs with the largest optimistic bounds is kept, but at
        least `FEW_PAIRS` of them.
        """
        pairs, size = len(self._spec.pairs), self._runs_per_side()
        if size < 8:
            raise AuditError(
                f"{self._spec.trials} trials are too few for {pairs} pairs; give fewer pairs or more trials."
            )
        self._used = 2 * size * pairs
        self._objective = self._bound()
        rounds = 1 if pairs <= FEW_PAIRS else 1 + math.ceil(math.log(pairs / FEW_PAIRS, FEW_PAIRS))
        remaining: Sequence[int] = range(pairs)
        outputs: dict[int, tuple[Outputs, Outputs]] = {}
        searches: list[PairSearch] = []
        for number in range(rounds):
            is_last = number == rounds - 1
            each = size * pairs // (rounds * len(remaining))
            if each < 2:
                raise AuditError(f"The trials are too few for {pairs} pairs; give fewer pairs or more trials.")
            searches = []
            for pair in remaining:
                drawn = runs.train(pair, each, pair + number * pairs)
                if number:
                    drawn = align_dtypes(
                        *(join_outputs([old, new]) for old, new in zip(outputs[pair], drawn, strict=True))
                    )
                outputs[pair] = drawn
                searches.append(PairSearch(pair, self._spec.families, drawn))
            if len(searches) > 1:
                searches.sort(key=_rank_by(self._objective, None if is_last else OPTIMISTIC_SD), reverse=True)
            if not is_last:
                remaining = [one.pair for one in searches[: max(FEW_PAIRS, len(remaining) // FEW_PAIRS)]]
        return searches

    def _runs_per_side(self) -> int:
        """Return the number of runs on each dataset of each pair in the first part of training."""
        return first_training_runs(self._spec.trials) // (2 * len(self._spec.pairs))

    def _rivals(self, searches: Sequence[PairSearch], choice: Choice, further: int) -> list[PairSearch]:
        """Return the searches for which a second part of training may pay off. That of the best pair may be among them.

        Each of them may find an event with a larger bound than ``choice``, even if ``further`` runs are spent on
        finding it.
        """
        objective, least = self._bound(further), OPTIMISTIC_GAIN * choice.optimistic
        return [
            one
            for one in searches
            if one.best(objective, OPTIMISTIC_SD if one is searches[0] else RIVAL_PAIR).predicted > least
        ]

    def _train_more(self, runs: Runs, searches: Sequence[PairSearch], further: int) -> PairSearch:
        """Divide ``further`` training runs among the searches, learn again, and return the best search."""
        each = further // (2 * len(searches))
        self._used += 2 * each * len(searches)
        self._objective, parts = self._bound(), itertools.count()
        for one in searches:
            sizes = (min(BLOCK, each - start) for start in range(0, each, BLOCK))
            one.add((runs.train(one.pair, size, next(parts), "validation") for size in sizes), self._objective)
        return max(searches, key=_rank_by(self._objective, ERRORS_BETWEEN_PAIRS))

    def _notes(self, best: PairSearch, choice: Choice) -> list[str]:
        """Return notes for the result.

        They say whether outputs were so large that less than half of the first ones were read. If the chosen event is
        complicated, they name the best simple event and the bound that training predicts for it.
        """
        notes, looked_at = list(best.features.notes), len(best.outputs[0])
        size = self._runs_per_side()
        if 2 * looked_at < size:
            notes.append(f"outputs are so large that {looked_at:,} of {size:,} training runs a side were looked at")
        if count_condition_parts(choice.witness) > MAX_SIMPLE_PARTS:
            simple = best.best(self._objective, parts=MAX_SIMPLE_PARTS)
            if simple.predicted > 0.0:
                worth = f"{simple.predicted:.2g} where the chosen one promises {choice.predicted:.2g}"
                notes.append(
                    f"a simpler event, not certified: {simple.witness}; training runs promise a bound of {worth}"
                )
        return notes


def _rank_by(objective: Bound, errors: float | None) -> Callable[[PairSearch], tuple[float, ...]]:
    return lambda one: choice_rank(one.best(objective, errors))


def first_training_runs(trials: int) -> int:
    """Return the number of runs of the first part of training, for an audit of ``trials`` runs.

    It is a tenth of the trials up to a million trials, then 100,000, and a hundredth from ten million trials on (at
    most `MAX_FIRST_RUNS`). In an audit of fewer than 100,000 trials it is larger: 10,000, or a quarter of the trials if
    that is less.
    """
    tenth = min(trials * FIRST_PERCENT // 100, 100_000)
    return min(max(trials // 100, tenth, min(trials // 4, 10_000)), MAX_FIRST_RUNS)


def max_further_runs(trials: int) -> int:
    """Return the maximum number of runs of the second part of training, for an audit of ``trials`` runs.

    Both parts together take at most three tenths of the trials. The number is 0 for audits of few trials.
    """
    further = trials * MAX_PERCENT // 100 - first_training_runs(trials)
    return min(further, MAX_VALIDATION_RUNS) if trials >= MIN_TRIALS_TO_VALIDATE else 0

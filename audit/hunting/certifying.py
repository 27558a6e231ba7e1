"""The last steps of a hunt: a refuted pair is shrunk, and certified on fresh runs that chose nothing.

Shrinking proposes fewer records first, then simpler values, in hypothesis' own order, and certifies nothing: its tests
look at runs of their own. Then the best event of at most two thresholds or outputs is certified by the fewest runs that
suffice, and the best event of any kind beside it, each learnt from runs of its own; the error probability is divided
equally between the two bounds."""

from __future__ import annotations

import dataclasses
import difflib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epsaudit.adapters.external import dataset_to_json
from epsaudit.adapters.functions import Mechanism
from epsaudit.audits.question import Begun, Question, begun
from epsaudit.audits.suite import entry_seed
from epsaudit.audits.verify import checked
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.sampling import certification_counts, training_outputs
from epsaudit.errors import AuditError, clipped
from epsaudit.hunting.description import Candidate, Description
from epsaudit.hunting.parameters import Values
from epsaudit.hunting.relations import holds
from epsaudit.results.result import AuditResult
from epsaudit.text import lower
from epsaudit.witnesses import Bound, CandidateScore, Choice, Family, best_of, candidate_scores
from epsaudit.witnesses.readable import Readable, parts_of

MOST_STEPS = 200
"""Tests of one shrinking at most. Of the leaky functions of the tests none took more than 60."""
KINDS = (list, tuple, np.ndarray)
"""Datasets of which records can be taken away without a description of the data."""

Rows = Sequence[Any]

TO_LEARN = 2_000, 20_000
"""The fewest and the most runs that the events are learnt from: else eight times those that refuted the claim."""
LEAST_RUNS = 128
"""Where the doubling of runs begins: as many correct guesses and no wrong one certify epsilon = 3.3 at 99 %."""


@dataclass(frozen=True)
class Simpler:
    """Proposes what is simpler than a candidate: neighbours still, under all of its relations."""

    describe: Callable[[Values], Description | None] = lambda parameters: None
    """The description of the data at values of the parameters; where it is None, records are the items of lists, tuples
    and arrays, whose numbers stay in the range that was given: what else is in the claim's domain is not known."""
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of each parameter, the simplest first."""

    def than(self, candidate: Candidate, given: Candidate) -> Iterator[Candidate]:
        """Yield proposals, those that take most away first, for a candidate that came of the one that was given."""
        ranges: dict[int | None, tuple[Any, Any]] = {}
        if self.describe(candidate.parameters) is None:  # how rows become a dataset is not known
            candidate = dataclasses.replace(candidate, rows=None)
            ranges = _ranges(rows_of(dataclasses.replace(given, rows=None)) or ((), ()))
        rows = rows_of(candidate)
        if rows is not None:
            for x, x_prime in (*_fewer(*rows), *_alike(*rows), *_plainer(*rows, ranges)):
                if (made := self._made(candidate, x, x_prime, candidate.parameters)) is not None:
                    yield made
        for name, value in candidate.parameters.items():
            known = list(self.values.get(name, ()))
            place = next((n for n, other in enumerate(known) if repr(other) == repr(value)), 0)
            for other in known[:place]:
                parameters = {**candidate.parameters, name: other}
                if rows is None:
                    yield dataclasses.replace(candidate, parameters=parameters)
                elif (made := self._made(candidate, *rows, parameters)) is not None:
                    yield made

    def _made(self, candidate: Candidate, x: Rows, x_prime: Rows, parameters: Values) -> Candidate | None:
        """Make a candidate of rows; None if they are no neighbours as those of the old one were."""
        description = self.describe(parameters) if candidate.rows is not None else None
        if description is not None:
            made = description.candidate(x, x_prime, candidate.tries)
        else:
            sides = _as_before(candidate.pair.x, x), _as_before(candidate.pair.x_prime, x_prime)
            holding = tuple(one for one in candidate.adjacencies if holds(one, *sides))
            made = Candidate(DatasetPair(*sides), holding, candidate.tries) if holding else None
        if made is None or not candidate.adjacencies:
            return None
        if not all(relation in made.adjacencies for relation in candidate.adjacencies):
            return None  # what it refutes is said of each of them
        pair = dataclasses.replace(made.pair, name="")
        return dataclasses.replace(made, pair=pair, adjacencies=candidate.adjacencies, parameters=parameters)


def shrink(
    candidate: Candidate,
    simpler: Simpler,
    still: Callable[[Candidate], bool],
    until: float = math.inf,
    most_steps: int = MOST_STEPS,
) -> tuple[Candidate, int]:
    """Return the simplest candidate found that passes the test ``still``, and how many were tested.

    It begins with ``candidate``, and stops at the time ``until`` of `time.perf_counter`, or after so many steps.

    Examples
    --------
    >>> from epsaudit.data.neighbours import AddRemove
    >>> pair = DatasetPair([3, 9, 4, 7], [3, 9, 4, 7, 120])
    >>> found, steps = shrink(Candidate(pair, (AddRemove(),), ""), Simpler(), lambda one: max(one.pair.x_prime) > 10)
    >>> found.pair.x, found.pair.x_prime, steps
    ([], [11], 12)
    """
    tested: set[str] = set()
    given, improved = candidate, True
    while improved:
        improved = False
        for one in simpler.than(candidate, given):
            key = repr((one.pair.x, one.pair.x_prime, dict(one.parameters)))
            if key in tested:
                continue
            if len(tested) >= most_steps or time.perf_counter() > until:
                return candidate, len(tested)
            tested.add(key)
            if still(one):
                candidate, improved = one, True
                break
    return candidate, len(tested)


def rows_of(candidate: Candidate) -> tuple[Rows, Rows] | None:
    """Return the records of both datasets; None where a dataset is of a kind whose records are not known."""
    if candidate.rows is not None:
        return candidate.rows
    sides = candidate.pair.x, candidate.pair.x_prime
    if not all(isinstance(side, KINDS) and getattr(side, "ndim", 1) > 0 for side in sides):
        return None
    x, x_prime = (tuple(side.tolist() if isinstance(side, np.ndarray) else side) for side in sides)
    return x, x_prime


def _as_before(old: Any, rows: Rows) -> Any:
    if isinstance(old, np.ndarray):
        return np.array(rows, dtype=old.dtype).reshape(len(rows), *old.shape[1:])
    return type(old)(rows)


def _blocks(x: Rows, x_prime: Rows) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Places of records that both datasets have, in order, and of those that one alone has."""
    match = difflib.SequenceMatcher(None, list(map(repr, x)), list(map(repr, x_prime)), autojunk=False)
    common = [(b.a + n, b.b + n) for b in match.get_matching_blocks() for n in range(b.size)]
    first, second = {i for i, _ in common}, {j for _, j in common}
    return common, [i for i in range(len(x)) if i not in first], [j for j in range(len(x_prime)) if j not in second]


def _fewer(x: Rows, x_prime: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Without common records: all, halves, quarters, ..., one; then without records of one dataset alone."""
    common, own, own_prime = _blocks(x, x_prime)
    size = len(common)
    while size:
        for start in range(0, len(common), size):
            gone = common[start : start + size]
            yield _without(x, {i for i, _ in gone}), _without(x_prime, {j for _, j in gone})
        size //= 2
    yield from ((_without(x, {i}), x_prime) for i in own)
    yield from ((x, _without(x_prime, {j})) for j in own_prime)
    yield from ((_without(x, {i}), _without(x_prime, {j})) for i, j in zip(own, own_prime, strict=False))


def _without(rows: Rows, places: set[int]) -> Rows:
    return tuple(row for place, row in enumerate(rows) if place not in places)


def _alike(x: Rows, x_prime: Rows) -> Iterator[tuple[Rows, Rows]]:
    """With all common records equal to the first."""
    common, _, _ = _blocks(x, x_prime)
    if len({repr(x[i]) for i, _ in common}) > 1:
        first = x[common[0][0]]
        sides = zip((x, x_prime), map(set, zip(*common, strict=True)), strict=True)
        made = [tuple(first if n in shared else row for n, row in enumerate(rows)) for rows, shared in sides]
        yield made[0], made[1]


def _plainer(x: Rows, x_prime: Rows, ranges: Mapping[int | None, tuple[Any, Any]]) -> Iterator[tuple[Rows, Rows]]:
    """With one value, wherever a column holds it, made simpler, within the column's range if that is known."""
    for column in _columns(x, x_prime):
        low, high = ranges.get(column, (-math.inf, math.inf))
        values = {repr(value): value for row in (*x, *x_prime) for value in _cell(row, column)}
        for text, value in values.items():
            for other in simpler_values(value):
                if low <= other <= high:
                    made = [tuple(_replaced(row, column, text, other) for row in rows) for rows in (x, x_prime)]
                    yield made[0], made[1]


def _columns(x: Rows, x_prime: Rows) -> Sequence[int | None]:
    """Places within records; None where records are no lists."""
    width = max((len(row) for row in (*x, *x_prime) if isinstance(row, (list, tuple))), default=0)
    return range(width) if width else (None,)


def _ranges(rows: tuple[Rows, Rows]) -> dict[int | None, tuple[Any, Any]]:
    """The least and the greatest number of each column."""
    found = {}
    for column in _columns(*rows):
        cells = [value for row in (*rows[0], *rows[1]) for value in _cell(row, column)]
        numbers = [value for value in cells if isinstance(value, (int, float, np.number)) and value == value]
        if numbers:
            found[column] = min(numbers), max(numbers)
    return found


def _cell(row: Any, column: int | None) -> list[Any]:
    if column is None:
        return [row]
    return [row[column]] if isinstance(row, (list, tuple)) and column < len(row) else []


def _replaced(row: Any, column: int | None, text: str, other: Any) -> Any:
    if not any(repr(value) == text for value in _cell(row, column)):
        return row
    return other if column is None else type(row)(other if n == column else part for n, part in enumerate(row))


def simpler_values(value: Any) -> list[Any]:
    """List simpler values of the same type, the simplest first; none for what has no order of its own, as text.

    Examples
    --------
    >>> simpler_values(-120), simpler_values(2.5), simpler_values("a")
    ([0, 1, -60, -119, 120], [0.0, 1.0, 2.0, 1.5], [])
    """
    if isinstance(value, (bool, np.bool_)):
        return [False] if value else []
    if isinstance(value, (int, np.integer)):
        whole = int(value)
        return _before(whole, [0, 1, abs(whole), whole // 2, whole - (1 if whole > 0 else -1)])
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if not math.isfinite(number):
            return [0.0, 1.0]
        near = [0.0, 1.0, abs(number), float(int(number)), float(int(number / 2))]
        return _before(number, [*near, round(number, 1), number - math.copysign(1.0, number)])
    return []


def _before(value: Any, others: list[Any]) -> list[Any]:
    return sorted({other for other in others if _order(other) < _order(value)}, key=_order)


def _order(value: Any) -> tuple[bool, float, bool]:
    return (value != int(value), abs(value), value < 0)


@dataclass(frozen=True)
class Finding:
    """A refuted claim as it is to be reported."""

    result: AuditResult
    """The pair and the readable event, certified; where no readable event suffices, the learnt one."""
    learnt: AuditResult | None
    """The best event of any kind, certified at the same confidence on other runs; None if it is the readable one."""
    candidate: Candidate | None = field(default=None, compare=False)
    """What was certified; None of one that was read from a file, if JSON could not write it."""
    steps: int = 0
    """Tests that shrinking took."""
    runs: int = 0
    """Runs that learnt and certified."""

    @property
    def pair(self) -> str:
        """Both datasets, and where they differ if long ones begin alike."""
        if self.candidate is None:
            return f"{self.result.x} against {self.result.x_prime}"
        return str(dataclasses.replace(self.candidate.pair, name=""))

    @property
    def records(self) -> int | None:
        """Records of the larger dataset, or numbers of a vector of answers; None where they are not known."""
        rows = None if self.candidate is None else rows_of(self.candidate)
        return None if rows is None else max(map(len, rows))

    @property
    def parts(self) -> int | None:
        """Thresholds and single outputs of the certified events; None of those that no short condition says."""
        return parts_of(self.result.witness)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object."""
        learnt = None if self.learnt is None else self.learnt.to_dict()
        return {"result": self.result.to_dict(), "learnt": learnt, "steps": self.steps, "pair": self.as_json()}

    def as_json(self) -> list[Any] | None:
        """Return the two datasets and the parameters as JSON values; None if JSON cannot write them."""
        if self.candidate is None:
            return None
        try:
            pair, parameters = self.candidate.pair, dict(self.candidate.parameters)
            return [dataset_to_json(one) for one in (pair.x, pair.x_prime, parameters)]
        except AuditError:
            return None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """Read what `to_dict` returned; raises `AuditError` for what no audit can have given."""
        first: Any = checked(data["result"], "the hunt's result")  # an `AuditResult`, as they were written
        second: Any = None if data["learnt"] is None else checked(data["learnt"], "the hunt's learnt")
        x, x_prime, parameters = data["pair"] or (None, None, {})
        candidate = Candidate(DatasetPair(x, x_prime), (), "", parameters) if data["pair"] else None
        return cls(first, second, candidate, steps=int(data["steps"]))

    def __str__(self) -> str:
        if self.learnt is None:
            return str(self.result)
        return f"{self.result}\n  learnt     {self.learnt.describe_event()}: {_certifies(self.learnt)}"


def certified(
    mechanism: Mechanism,
    candidate: Candidate,
    claim: Claim,
    confidence: float,
    seed: int,
    *,
    least: int,
    most: int,
    affordable: float = math.inf,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
) -> Finding:
    """Choose the events on runs of their own, and certify each on fresh ones; the confidence is of both together.

    About ``least`` runs are known to be enough, and at most ``most`` are counted. There is time to learn from as many
    as are ``affordable``, if that is less than the usual number.
    """
    each = 1.0 - (1.0 - confidence) / 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        question = Question.of(mechanism, [candidate.pair], claim, None, 0.0, None, 100, each, witnesses)
        run = begun(question, seed, n_jobs, Section())
        size = min(max(4 * least, TO_LEARN[0] // 2), TO_LEARN[1] // 2)
        size = int(min(size, max(affordable / 2.0, LEAST_RUNS)))
        outputs = training_outputs(run.sides[0], size, seed, 0, workers=run.workers)
        run.copies.look(run.sides[0], outputs)
        scores = list(candidate_scores(question.families, *outputs))
    readable, runs = _enough(scores, claim, each, most, simple=True)
    learnt, more = _enough(scores, claim, each, most, simple=False)
    best = readable if readable.predicted > claim.parameter or learnt.predicted <= claim.parameter else learnt
    runs = runs if best is readable else more
    chosen = "the pair and the event were chosen by earlier runs, none of which counts"
    result = _counted(run, best, runs, seed, *candidate.notes, chosen)
    if learnt.witness == best.witness:
        return Finding(result, None, candidate, runs=2 * size + runs)
    others = _counted(run, learnt, runs, entry_seed(seed, "the learnt event"), *candidate.notes, "the learnt event")
    note = f"the learnt event {clipped(others.describe_event(), 100)} {_certifies(others)}, on other runs"
    result = dataclasses.replace(result, notes=(*result.notes, note))
    return Finding(result, others, candidate, runs=2 * size + 2 * runs)


def _certifies(result: AuditResult) -> str:
    return f"certifies {result.claim.symbol} >= {lower(result.lower_bound)} by {result.runs:,} runs"


def _enough(
    scores: Sequence[CandidateScore], claim: Claim, confidence: float, most: int, *, simple: bool
) -> tuple[Choice, int]:
    """Choose for the fewest runs by which a bound above the claim is predicted; twice as many are counted, for luck."""
    runs = LEAST_RUNS
    while True:
        objective = Bound(claim, runs, confidence)
        choice = best_of(scores, Readable(objective) if simple else objective)
        if choice.predicted > claim.parameter or runs >= most:
            return choice, min(2 * runs, most)
        runs = min(2 * runs, most)


def _counted(run: Begun, choice: Choice, runs: int, seed: int, *notes: str) -> AuditResult:
    """Count the events of a choice on fresh runs, and only count: `epsaudit verify --rerun` counts them again."""
    sides = run.sides[0]
    counts = certification_counts(sides, choice.witness, runs, seed, workers=run.workers)
    result = AuditResult(
        **{**run.shared(0, [*run.copies.notes(sides), *notes]), "trials": runs, "seed": seed},
        training_runs=0,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        families="own",
    )
    if result.lower_bound > 0.0:
        run.copies.count_again(sides, choice.witness, runs, result.violates_claim)
    return result

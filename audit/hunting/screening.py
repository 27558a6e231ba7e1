"""The screen of a hunt: a few runs of every candidate, which order them, and alarms, which say what they show.

All candidates get a few runs; the better quarter gets four times as many, again and again, as in successive halving
(Jamieson and Talwalkar 2016). Where time is limited, each round has a third of it, and slow candidates get fewer. An
alarm is a hint in words that orders a hunt, never a certificate: it is looked for among many features of the same
outputs, and no confidence is computed. What chance may do under the claim is kept back (`LUCK`).
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from epsaudit.audits.question import Question, begun, families_of
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.conversions import roots
from epsaudit.claims.definitions import Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.sampling import training_outputs
from epsaudit.errors import AuditError, clipped
from epsaudit.hunting.description import Candidate
from epsaudit.outputs.normal_form import Items, Outputs, Raised, kind_of, normal, number, values_of, written
from epsaudit.outputs.packed import alike, join
from epsaudit.witnesses import DEFAULT_FAMILIES, Bound, Family, LikelihoodRatio, Tails, best_of, candidate_scores
from epsaudit.witnesses.settings import OPTIMISTIC

if TYPE_CHECKING:
    from epsaudit.hunting.hunt import _Hunting


RUNS = 32, 128, 512
"""Runs on each side in each round of the screen."""
FEW = 4
"""Runs on each side, at least, where there is a limit of time: a candidate may take a hundred times as long as others,
and they get their turn."""
SLOW = 0.01
"""Seconds of a run beyond which quicker candidates are audited first: four thousand runs take 40 s."""
KEPT = 4
"""A round keeps one in so many, but at least twice as many as are audited."""
SHOWN = 30
"""Outputs on each side that alarms look at."""
CHEAP: tuple[Family, ...] = (Tails(), LikelihoodRatio())

Floats = NDArray[np.float64]
Sides: TypeAlias = list[list[Any]]
"""Outputs in normal form on x and on x'."""

LUCK = 0.01
"""An alarm is kept back if a mechanism that attains its claim can raise it with this probability: with ten runs on each
side for claims above epsilon = 1.3, with thirty above 2.5."""
FEWEST = 10
"""Runs on each side below which nothing is said."""
WIDEST = 64
"""Coordinates of which pairs are compared: 2,016 differences, in 2 ms."""
ROUNDING = 1e-9
"""Share of the size of outputs below which a difference is rounding: a million times that of a sum of two floats."""
DIGITS = 12
"""Significant digits from which on a number of the data is taken for one that no noise or grid meets by chance."""

STEPS = 101
"""Probabilities of an event on the side where it is rarer at which its luck is calculated: a percent apart."""
LONGEST = 60
"""Characters of an output that are shown."""


@dataclass(frozen=True)
class Screened:
    """A candidate, what its outputs promise beside the claim, and why it cannot be audited if it cannot."""

    candidate: Candidate
    rank: tuple[float, float, float] = (0.0, 0.0, 0.0)
    alarms: tuple[str, ...] = ()
    failure: str = ""
    pace: float = 0.0
    """Seconds of a run."""

    @property
    def promises(self) -> bool:
        """Whether an audit of what the outputs show would refute the claim, or an alarm says so."""
        return self.rank[0] > 0.0 or self.rank[1] > 1.0


def screened(
    hunting: _Hunting, candidates: Sequence[Candidate], audits: int, until: float
) -> tuple[list[Screened], int]:
    """Return the candidates for which there was time, the most promising first, and how many runs that took."""
    drawn: dict[int, tuple[Outputs, Outputs]] = {}
    sides: dict[int, Any] = {}
    found: dict[int, Screened] = {}
    spent: dict[int, float] = {}
    remaining, runs, started = list(range(len(candidates))), 0, time.perf_counter()
    for turn, size in enumerate(RUNS):
        end = until if math.isinf(until) else started + (until - started) * (turn + 1) / len(RUNS)
        for done, place in enumerate(remaining):
            if found and time.perf_counter() > (end if turn else until):  # the first round is for all, if it can be
                break
            hunting.say(f"screen, round {turn + 1} of {len(RUNS)}: {done + 1} of {len(remaining)} candidates")
            one, begun_at = candidates[place], time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seed = entry_seed(hunting.record.seed, f"screen {place}")
                    if place not in sides:
                        sides[place] = _drawn_from(hunting, one, seed)
                    for more in _drawn(sides[place], size, seed, turn, end, len(remaining) - done):
                        before = drawn.get(place)
                        drawn[place] = more if before is None else alike(*map(join, zip(before, more, strict=True)))
                        runs += 2 * len(more[0])
                    spent[place] = spent.get(place, 0.0) + time.perf_counter() - begun_at
                    pace = spent[place] / (2 * len(drawn[place][0]))
                    found[place] = replace(_judged(hunting, one, drawn[place]), pace=pace)
            except AuditError as error:
                found[place] = Screened(one, failure=str(error))
        promising = sorted((n for n in remaining if n in found), key=lambda n: found[n].rank, reverse=True)
        remaining = [n for n in promising if not found[n].failure][: max(2 * audits, len(remaining) // KEPT)]

    def worth(place: int) -> tuple[float, ...]:
        one = found[place]
        slowness = _slowness(one.pace) if one.promises and not math.isinf(until) else 0
        return (place in remaining, one.promises, -slowness, *one.rank)

    places = sorted(found, key=worth, reverse=True)
    return [found[place] for place in places], runs


def _drawn_from(hunting: _Hunting, one: Candidate, seed: int) -> Any:
    asked = (hunting.mechanism(one.parameters), [one.pair], hunting.claim(one.parameters), None, 0.0, None)
    question = Question.of(*asked, hunting.trials, hunting.confidence, _simple(hunting))
    return begun(question, seed, 1, Section()).sides[0]


def _drawn(sides: Any, size: int, seed: int, turn: int, end: float, waiting: int) -> Iterator[tuple[Outputs, Outputs]]:
    """Draw so many runs on each side; or a few, and as many more as fit an even share of the time to the end."""
    if math.isinf(end):
        yield training_outputs(sides, size, seed, turn)
        return
    started = time.perf_counter()
    yield training_outputs(sides, FEW, seed, len(RUNS) + turn)
    now = time.perf_counter()
    fit = math.inf if now == started else ((end - started) / waiting - (now - started)) * FEW / (now - started)
    if fit >= 1.0:
        yield training_outputs(sides, int(min(fit, size - FEW)), seed, turn)


def _slowness(seconds: float) -> int:
    """How slow a run is, in powers of four from `SLOW` on: the quick ones first, as audits take thousands of runs."""
    return max(0, round(math.log(max(seconds, 1e-6) / SLOW, 4.0)))


def _simple(hunting: _Hunting) -> tuple[Family, ...]:
    """The families that are cheap, and those that were asked for by name."""
    return CHEAP + tuple(one for one in families_of(hunting.witnesses) if one not in DEFAULT_FAMILIES)


def _judged(hunting: _Hunting, one: Candidate, both: tuple[Outputs, Outputs]) -> Screened:
    """Predict the bound that an audit gives, in claims: whatever is above 1 would be refuted."""
    seen = [values_of(side) for side in both]
    kinds = {repr(value) if isinstance(value, Raised) else None for side in seen for value in side}
    if len(kinds) == 1 and None not in kinds:
        return Screened(one, failure=f"every run {kinds.pop()}")
    claim = hunting.claim(one.parameters)
    objective = Bound(claim, hunting.trials, hunting.confidence)
    choice = best_of(candidate_scores(_simple(hunting), *both), objective, OPTIMISTIC)
    enough = len(seen[0]) >= FEWEST
    heard = tuple(map(str, alarms(seen[0][:SHOWN], seen[1][:SHOWN], one.pair, claim))) if enough else ()
    rank = (float(bool(heard)), choice.predicted / claim.parameter if claim.parameter else choice.predicted)
    return Screened(one, (*rank, choice.significance), heard)


@dataclass(frozen=True)
class Alarm:
    """What some runs showed."""

    kind: str
    """'constant', 'shared noise', 'one sign' or 'repeat'."""
    sentence: str
    """What was seen, in words."""

    def __str__(self) -> str:
        return self.sentence


def alarms(
    outputs: Sequence[Any],
    outputs_prime: Sequence[Any],
    pair: DatasetPair | None = None,
    claim: Claim | None = None,
    before_noise: Callable[[Any], Any] | None = None,
) -> list[Alarm]:
    """Say what is suspicious about some outputs on x and on x', the most telling first; nothing, mostly.

    - 'constant': the output, or a part of it, its length, type or keys, is the same in all runs on either side, and not
      the same on both.
    - 'shared noise': two coordinates vary, and their difference or sum is constant, and not the same on both sides.
    - 'one sign': all outputs on either side lie on one side of what they would be without noise, which moves.
    - 'repeat': a number of many digits that only one dataset holds comes out as it is, more than once.

    Parameters
    ----------
    outputs, outputs_prime : sequences
        At least `FEWEST` on each side, in normal form or not.
    pair : DatasetPair, optional
        What they are of; without it the last two alarms are not looked for.
    claim : Claim, optional
        What is claimed, epsilon = 1 by default: a weak claim allows more.
    before_noise : callable, optional
        The function of a dataset to which noise is added. Else 'one sign' tries `STATISTICS` of the data.

    Examples
    --------
    >>> for alarm in alarms([(2.0, 1.3 + i) for i in range(10)], [(3.0, 1.1 + i) for i in range(10)]):
    ...     print(alarm)
    y[0] is 2 in all 10 runs on x and is 3 in all 10 on x': no noise is added to it.
    """
    sides = [list(map(normal, side)) for side in (outputs, outputs_prime)]
    if min(map(len, sides)) < FEWEST:
        raise AuditError(f"There are {len(sides[0])} and {len(sides[1])} outputs; alarms need {FEWEST} on each side.")
    claim = claim or PureDP(1.0)
    found = _constant(sides) or _shared(sides)
    if found and _luck(claim, len(sides[0]), len(sides[1]), len(sides[1])) > LUCK:
        found = []
    if pair is not None:
        found += _repeats(sides, pair)
        found = found or _one_sign(sides, pair, claim, before_noise)  # which what has no noise has, too
    return found


def _luck(claim: Claim, runs: int, runs_prime: int, times: int) -> float:
    """The greatest probability under a claim that an event is never seen on one side and so often on the other."""
    p = np.linspace(0.0, 1.0, STEPS)

    def refused(p_prime: Floats) -> Floats:
        return np.where(claim.least(p, p_prime) <= claim.parameter, -1.0, 1.0)

    most = np.where(refused(np.ones(STEPS)) < 0.0, 1.0, roots(refused, p, np.ones(STEPS), xtol=1e-4))
    return float(np.max((1.0 - p) ** runs * bdtrc(times - 1, runs_prime, most)))


def _constant(sides: Sides) -> list[Alarm]:
    """The simplest thing that never changes on either side and differs between them."""
    if all(len(set(map(written, side))) == 1 for side in sides) and written(sides[0][0]) != written(sides[1][0]):
        one, other = (
            repr(side[0]) if isinstance(side[0], Raised) else f"is {clipped(written(side[0]), LONGEST)}"
            for side in sides
        )
        return [Alarm("constant", f"The output {_in_all(sides, one, other)}: it has no noise.")]
    tables = [[dict(_aspects(value)) for value in side] for side in sides]
    for name in dict.fromkeys(name for table in tables for row in table for name in row):
        ones, others = ({row.get(name, "not there") for row in table} for table in tables)
        if len(ones) == len(others) == 1 and ones != others:
            why = "no noise is added to it" if name.startswith("y") else "it tells the datasets apart"
            return [Alarm("constant", f"{name} {_in_all(sides, f'is {ones.pop()}', f'is {others.pop()}')}: {why}.")]
    return []


def _in_all(sides: Sides, one: str, other: str) -> str:
    return f"{one} in all {len(sides[0])} runs on x and {other} in all {len(sides[1])} on x'"


def _aspects(value: Any, name: str = "y") -> Iterator[tuple[str, str]]:
    """What an output consists of, as text by name: kinds, lengths and keys of what holds others, and what is inside."""
    parts = _parts(value, name)
    yield f"The type of {name}", kind_of(value)
    if parts is None:
        yield name, clipped(written(value), LONGEST)
        return
    yield f"The length of {name}", str(len(parts))
    for inner, part in parts:
        if isinstance(value, Items):
            yield f"The key of {inner}", "there"
        yield from _aspects(part, inner)


def _parts(value: Any, name: str) -> list[tuple[str, Any]] | None:
    """Parts of an output with their names, None where it has none."""
    if isinstance(value, Items):
        return [(f"{name}[{written(key)}]", part) for key, part in value]
    return [(f"{name}[{place}]", part) for place, part in enumerate(value)] if isinstance(value, tuple) else None


def _leaves(value: Any, name: str = "y") -> Iterator[tuple[str, Any]]:
    """Everything inside an output that holds nothing else, by name."""
    parts = _parts(value, name)
    if parts is None:
        yield name, value
    for inner, part in parts or ():
        yield from _leaves(part, inner)


def _numbers(sides: Sides) -> tuple[list[str], list[Floats]]:
    """Names of the places where every output has a finite number, and a matrix of these for each side."""
    tables = [[{name: number(leaf) for name, leaf in _leaves(value)} for value in side] for side in sides]
    rows = [row for table in tables for row in table]
    names = [name for name in rows[0] if all(math.isfinite(row.get(name, math.nan)) for row in rows)]
    return names, [np.array([[row[name] for name in names] for row in table]) for table in tables]


def _shared(sides: Sides) -> list[Alarm]:
    """Coordinates that vary together: their difference, their sum, or the sum of all does not."""
    names, tables = _numbers(sides)
    names, tables = names[:WIDEST], [table[:, :WIDEST] for table in tables]
    first, second = np.triu_indices(len(names), 1)
    size = np.max([np.abs(table).max(axis=0, initial=0.0) for table in tables], axis=0) if names else np.zeros(0)
    vary = np.all([np.ptp(table, axis=0) > ROUNDING * size for table in tables], axis=0) if names else size > 0
    both, largest = vary[first] & vary[second], np.maximum(size[first], size[second])
    for words, sign in (("difference", -1.0), ("sum", 1.0)):
        combined = [table[:, first] + sign * table[:, second] for table in tables]
        found = np.flatnonzero(both & _constant_and_apart(combined, largest))
        if len(found):
            pair = f"{names[first[found[0]]]} and {names[second[found[0]]]}"
            one, other = (f"is {table[0, found[0]]:.6g}" for table in combined)
            more = f" (and so for {len(found) - 1} other pairs)" if len(found) > 1 else ""
            sentence = f"The {words} of {pair} {_in_all(sides, one, other)}: they have the same noise{more}."
            return [Alarm("shared noise", sentence)]
    totals = [table.sum(axis=1, keepdims=True) for table in tables]
    if len(names) > 2 and vary.any() and _constant_and_apart(totals, np.array([size.sum()]))[0]:
        one, other = (f"is {total[0, 0]:.6g}" for total in totals)
        return [Alarm("shared noise", f"The sum of all numbers {_in_all(sides, one, other)}: their noise cancels.")]
    return []


def _constant_and_apart(tables: list[Floats], size: Floats) -> NDArray[np.bool_]:
    """Which columns are constant on each side, and not the same, where rounding is a share of ``size``."""
    constant = np.all([np.ptp(table, axis=0) <= ROUNDING * size for table in tables], axis=0)
    apart: NDArray[np.bool_] = constant & (np.abs(tables[0][0] - tables[1][0]) > ROUNDING * size)
    return apart


def _repeats(sides: Sides, pair: DatasetPair) -> list[Alarm]:
    """A number of many digits that one dataset alone holds, in several outputs on it and in none on the other."""
    held = [{leaf for leaf in _data(dataset) if _has_many_digits(leaf)} for dataset in (pair.x, pair.x_prime)]
    seen = [Counter(leaf for value in side for leaf in {leaf for _, leaf in _leaves(value)}) for side in sides]
    for here, there, name in ((0, 1, "x"), (1, 0, "x'")):
        for value in sorted(held[here] - held[there]):
            times = seen[here][value]
            if times > 1 and value not in seen[there]:
                runs = f"{times} of {len(sides[here])} runs on {name}"
                return [Alarm("repeat", f"{value!r}, which {name} alone holds, comes out as it is in {runs}.")]
    return []


def _data(dataset: Any) -> list[Any]:
    try:
        return [leaf for _, leaf in _leaves(normal(dataset))]
    except AuditError:  # datasets are of any kind
        return []


def _has_many_digits(value: Any) -> bool:
    finite = isinstance(value, float) and math.isfinite(value)
    return finite and len(f"{value:.15e}".partition("e")[0].rstrip("0")) > DIGITS


def _one_sign(sides: Sides, pair: DatasetPair, claim: Claim, before_noise: Callable[[Any], Any] | None) -> list[Alarm]:
    """Noise of one sign: what lies between the answers without noise, which differ, is then seen on one side alone."""
    names, tables = _numbers(sides)
    for words, truths in _truths(pair, before_noise).items():
        if not len(names) == len(truths[0]) == len(truths[1]):
            continue
        for place, (name, *both) in enumerate(zip(names, *truths, strict=True)):
            for never, sign in (("below", 1.0), ("above", -1.0)):
                outputs, answers = [sign * table[:, place] for table in tables], [sign * answer for answer in both]
                least = int(answers[0] > answers[1])  # the side with the lower answer
                between = int(np.sum(outputs[least] < answers[1 - least]))
                if not between or any(np.any(side < answer) for side, answer in zip(outputs, answers, strict=True)):
                    continue
                if _luck(claim, len(outputs[1 - least]), len(outputs[least]), between) <= LUCK:
                    where = f"({both[0]:.6g} on x, {both[1]:.6g} on x') in {sum(map(len, sides))} runs"
                    return [Alarm("one sign", f"{name} is never {never} {words} {where}.")]
    return []


def _truths(pair: DatasetPair, before_noise: Callable[[Any], Any] | None) -> dict[str, tuple[list[float], list[float]]]:
    """What an output may be without noise, on x and on x', by its name."""
    found = {}
    for words, function in ({"the answer without noise": before_noise} if before_noise else STATISTICS).items():
        try:
            both = [[number(leaf) for leaf in _data(function(dataset))] for dataset in (pair.x, pair.x_prime)]
        except Exception:  # no statistic of such data
            continue
        if all(map(math.isfinite, both[0] + both[1])):
            found[words] = (both[0], both[1])
    return found


STATISTICS: Mapping[str, Callable[[Any], Any]] = {
    "the data": lambda data: data,
    "the number of records": len,
    "the sum of the data": sum,
    "the mean of the data": statistics.fmean,
    "the least of the data": min,
    "the greatest of the data": max,
    "the median of the data": statistics.median,
}
"""What outputs are often made of by adding noise."""

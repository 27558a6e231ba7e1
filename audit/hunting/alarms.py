"""Cheap alarms: what ten to thirty runs on each side show at a glance, said in words.

Outputs on both datasets of a pair enter, sentences leave. An alarm is a hint that orders a hunt, never a certificate:
it is looked for among many features of the same outputs, and no confidence is computed. What chance may do under the
claim is kept back (`LUCK`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from epsaudit.claims.conversions import roots
from epsaudit.claims.definitions import Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, clipped
from epsaudit.outputs.normal_form import Items, Raised, kind_of, normal, number, written

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
SHOWN = 60
"""Characters of an output that are shown."""


@dataclass(frozen=True)
class Alarm:
    """What some runs showed.

    Attributes
    ----------
    kind : str
        'constant', 'shared noise', 'one sign' or 'repeat'.
    sentence : str
        What was seen, in words.
    """

    kind: str
    sentence: str

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
        The deterministic function of a dataset to which noise is added, if it is known. Else 'one sign' tries the data
        themselves where they are answers, and counts, sums, means, ends and medians of plain numbers.

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
        one, other = (_outcome(side[0]) for side in sides)
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


def _outcome(value: Any) -> str:
    return repr(value) if isinstance(value, Raised) else f"is {clipped(written(value), SHOWN)}"


def _aspects(value: Any, name: str = "y") -> Iterator[tuple[str, str]]:
    """What an output consists of, as text by name: kinds, lengths and keys of what holds others, and what is inside."""
    parts = _parts(value, name)
    yield f"The type of {name}", kind_of(value)
    if parts is None:
        yield name, clipped(written(value), SHOWN)
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
                runs = f"{times} of {len(sides[here])} runs"
                return [
                    Alarm("repeat", f"{value!r}, which {name} alone holds, comes out as it is in {runs} on {name}.")
                ]
    return []


def _data(dataset: Any) -> list[Any]:
    try:
        return [leaf for _, leaf in _leaves(normal(dataset))]
    except AuditError:  # datasets are of any kind
        return []


def _has_many_digits(value: Any) -> bool:
    return (
        isinstance(value, float)
        and math.isfinite(value)
        and len(f"{value:.15e}".partition("e")[0].rstrip("0")) > DIGITS
    )


def _one_sign(sides: Sides, pair: DatasetPair, claim: Claim, before_noise: Callable[[Any], Any] | None) -> list[Alarm]:
    """Noise of one sign: what lies between the answers without noise, which differ, is then seen on one side alone."""
    names, tables = _numbers(sides)
    for words, truths in _truths(pair, before_noise).items():
        for place, (name, *both) in enumerate(zip(names, *truths, strict=False)):
            for never, sign in (("below", 1.0), ("above", -1.0)):
                outputs, answers = [sign * table[:, place] for table in tables], [sign * answer for answer in both]
                least = int(answers[0] > answers[1])  # the side with the lower answer
                between = int(np.sum(outputs[least] < answers[1 - least]))
                one_sided = all(np.all(side >= answer) for side, answer in zip(outputs, answers, strict=True))
                same = len(names) == len(truths[0]) == len(truths[1])
                if (
                    same
                    and one_sided
                    and between
                    and _luck(claim, len(outputs[1 - least]), len(outputs[least]), between) <= LUCK
                ):
                    where = f"{both[0]:.6g} on x, {both[1]:.6g} on x'"
                    return [
                        Alarm("one sign", f"{name} is never {never} {words} ({where}) in {sum(map(len, sides))} runs.")
                    ]
    return []


def _truths(pair: DatasetPair, before_noise: Callable[[Any], Any] | None) -> dict[str, tuple[list[float], list[float]]]:
    """What an output may be without noise, on x and on x', by its name."""
    functions: Mapping[str, Callable[[Any], Any]] = (
        {"the answer without noise": before_noise} if before_noise else SIMPLE
    )
    found = {}
    for words, function in functions.items():
        try:
            both = [[number(leaf) for leaf in _data(function(dataset))] for dataset in (pair.x, pair.x_prime)]
        except Exception:  # no statistic of such data
            continue
        if all(map(math.isfinite, both[0] + both[1])):
            found[words] = (both[0], both[1])
    return found


SIMPLE: Mapping[str, Callable[[Any], Any]] = {
    "the data": lambda data: data,
    "the number of records": len,
    "the sum of the data": sum,
    "the mean of the data": statistics.fmean,
    "the least of the data": min,
    "the greatest of the data": max,
    "the median of the data": statistics.median,
}
"""What outputs are often made of by adding noise."""

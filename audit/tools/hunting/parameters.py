"""What a hunt is asked: candidates of described data and of parameters, as a schema file says them, and the options."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from epsaudit.audits.spec import check_trials
from epsaudit.data.neighbours import Adjacency, Relation, adjacency_of, shorten
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.search import Family
from epsaudit.tools.hunting.description import (
    Answers,
    Candidate,
    Column,
    Description,
    Table,
    numbers,
    relation_named,
    symbols,
)

MOST_STEPS = 200
"""Tests of one shrinking at most. Of the leaky functions of the tests none took more than 60."""
Values = Mapping[str, Any]
"""One value of each parameter."""


class Schema(NamedTuple):
    """What a schema file says: the arguments of `candidates`."""

    description: Callable[[Values], Description]
    """Of the parameters' values, to which the data may refer."""
    parameters: Mapping[str, Sequence[Any]]
    adjacency: Adjacency | None


def candidates(
    description: Description | Callable[[Values], Description],
    parameters: Mapping[str, Any] | None = None,
    adjacency: Relation | None = None,
) -> list[Candidate]:
    """List what a hunt tries: pairs of datasets, each with values of the mechanism's parameters, simplest first.

    The data are described by a `Table`, by `Answers`, or by a function of the values. Every parameter that has another
    value than its first makes a candidate more complex. With ``adjacency`` pairs of this relation alone are listed.

    >>> found = candidates(lambda values: numbers(*values["bounds"]), {"bounds": [(0, 1), (1000, 1001)], "k": [1, 2]})
    >>> len({tuple(one.parameters.items()) for one in found}), dict(found[0].parameters), found[0].pair.x_prime
    (4, {'bounds': (0, 1), 'k': 1}, [1.0])
    """
    found = [
        dataclasses.replace(one, parameters=values, complexity=one.complexity + others)
        for values, others in combinations(parameters or {})
        for one in description_at(description, values).pairs(adjacency)
    ]
    return sorted(found, key=lambda one: one.complexity)


def description_at(description: Description | Callable[[Values], Description], values: Values) -> Description:
    """Return the description of the data at values of the parameters."""
    return description(values) if callable(description) else description


def read_schema(source: str | os.PathLike[str] | Mapping[str, Any]) -> Schema:
    """Read what data and parameters are from a JSON or TOML file, or from the object that such a file holds.

    Its ``data`` is ``{"numbers": [low, high]}``, ``{"symbols": [...]}``, ``{"columns": [...]}`` with objects of the
    attributes of `Column`, or ``{"answers": {...}}`` with those of `Answers`; other attributes of `Table` stand beside.
    ``parameters`` holds a list of values for each; ``{"parameter": "bounds"}`` in the data stands for a value of that
    parameter. ``adjacency`` is a name of `epsaudit.tools.hunting.description.NAMED`. `AuditError` if it cannot be
    read, or says what no description takes.

    >>> schema = read_schema({"data": {"numbers": {"parameter": "bounds"}}, "parameters": {"bounds": [[0, 1], [5, 6]]}})
    >>> [one.pair.x_prime for one in candidates(*schema)[:2]]
    [[1.0], [0.0]]
    """
    content: Any = source
    if not isinstance(source, Mapping):
        path = Path(source)
        try:
            text = path.read_text(encoding="utf-8")
            content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        except (OSError, ValueError) as error:
            raise AuditError(f"The schema {str(path)!r} cannot be read as JSON or TOML: {error}.") from error
    if not isinstance(content, Mapping) or not isinstance(content.get("data"), Mapping):
        raise AuditError(f"The schema {shorten(source)} describes no data; write what its columns are under 'data'.")
    if unknown := {*content} - {"data", "parameters", "adjacency"}:
        raise AuditError(f"A schema has no {min(unknown)!r}; it has data, parameters, adjacency.")
    description = functools.partial(_described, content["data"])
    parameters = content.get("parameters", {})
    adjacency = relation_named(content["adjacency"]) if "adjacency" in content else None
    for values, _ in combinations(parameters):
        description(values)  # which says now what is wrong with any
    return Schema(description, parameters, adjacency)


def combinations(parameters: Mapping[str, Any]) -> list[tuple[Values, int]]:
    """List all combinations of values, and in how many parameters each has not the first, the fewest first."""
    for name, values in parameters.items():
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)) or not values:
            given = shorten(values)
            raise AuditError(f"The values of parameter {name!r} are {given}; write a list, as [{given}].")
    combined = [
        ({name: value for name, (_, value) in zip(parameters, choice, strict=True)}, sum(at > 0 for at, _ in choice))
        for choice in itertools.product(*map(enumerate, parameters.values()))
    ]
    return sorted(combined, key=lambda one: one[1])


def _described(data: Mapping[str, Any], values: Values) -> Description:
    told: dict[str, Any] = _put_in(data, values)
    kind = next((name for name in ("answers", "numbers", "symbols", "columns") if name in told), None)
    if kind is None:
        says = ", ".join(told) or "nothing"
        raise AuditError(f"The data of the schema says {says}; it needs one of numbers, symbols, columns, answers.")
    first = told.pop(kind)
    try:
        if kind == "answers":
            return Answers(**first, **told)
        if isinstance(first, str):
            raise TypeError("give a list")
        if kind == "columns":
            return Table([Column(**one) for one in first], **told)
        return (numbers if kind == "numbers" else symbols)(*first, **told)
    except TypeError as error:
        raise AuditError(f"The {kind} of the schema are {shorten(first)}, and there is {told}: {error}.") from None


def _put_in(told: Any, values: Values) -> Any:
    if isinstance(told, Mapping):
        if list(told) == ["parameter"]:
            name = told["parameter"]
            if name not in values:
                raise AuditError(f"The data refers to the parameter {name!r}; there are {', '.join(values) or 'none'}.")
            return values[name]
        return {key: _put_in(part, values) for key, part in told.items()}
    return [_put_in(part, values) for part in told] if isinstance(told, (list, tuple)) else told


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a hunt is done; raises `AuditError` for what is out of range."""

    adjacency: Relation | None = None
    """The relation that the claim is for; pairs of others are left out. None tries all, and the verdict names them."""
    describe: Description | Callable[[Values], Description] | None = None
    """What candidates were made of, by which they are shrunk; without it the items of lists, tuples and arrays are."""
    confidence: float = 0.95
    """That no claim that holds is refuted, in the whole hunt."""
    audits: int | None = None
    """How many candidates are audited at most; by default all that the screen kept, or as many as there is time for."""
    trials: int = 50_000
    """Runs of each audit at most."""
    seconds: float | None = None
    """For the whole hunt, a third of them at most for the screen. Nothing begins after that, and what is certified by
    then ends within one and a half times as long, where starting a program's processes takes no longer than half."""
    steps: int = MOST_STEPS
    """Tests of each shrinking at most."""
    witnesses: str | Sequence[Family] = "auto"
    """As for `epsaudit.audit`, as seed and n_jobs: 'all' looks at the last bits of floating-point numbers, too."""
    seed: int | None = None
    n_jobs: int | None = None
    progress: Callable[[str], None] | None = None
    """Is told, in a sentence, what begins."""
    found: Callable[[int, Any, int], None] | None = None
    """Is given the number of a finding, the `epsaudit.tools.hunting.hunt.Finding`, and the seed of the hunt, as soon
    as it is certified as it was found, and again when it was shrunk."""
    checkpoint: str | os.PathLike[str] | None = None
    """A file from which the same hunt goes on after an interruption; not with ``seconds``."""
    name: str | None = None
    """What the function is called; by default as it is named."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", adjacency_of(self.adjacency))
        object.__setattr__(self, "confidence", confidence_of(self.confidence))
        if self.audits is not None:
            whole_at_least(self.audits, 1, "audits")
        whole_at_least(self.steps, 0, "steps")
        object.__setattr__(self, "trials", check_trials(self.trials))
        if self.checkpoint is not None and self.seconds is not None:
            raise AuditError("What a hunt has time for differs each time; give either seconds or a checkpoint.")

    def say(self, sentence: str) -> None:
        if self.progress is not None:
            self.progress(sentence)

    def hold(self, number: int, finding: Any, seed: int) -> None:
        if self.found is not None:
            self.found(number, finding, seed)

    def share(self, number: int) -> float:
        """The confidence of the k-th audit, and of the j-th certification: all together err with 1 - confidence."""
        return 1.0 - 3.0 * (1.0 - self.confidence) / (math.pi * number) ** 2

"""Candidates with values of the mechanism's parameters, and the schema file from which they can be read.

A schema file describes the data and lists values of the parameters in JSON or TOML, so that a hunt needs no Python.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from epsaudit.data.neighbours import Adjacency, Relation
from epsaudit.data.records import shorten
from epsaudit.errors import AuditError
from epsaudit.tools.hunting.candidate import Candidate, ParameterValues
from epsaudit.tools.hunting.columns import Column
from epsaudit.tools.hunting.description import Answers, Description, Table, numbers, symbols
from epsaudit.tools.hunting.relations import relation_named


class Schema(NamedTuple):
    """The content of a schema file, which describes data and parameter values for a hunt.

    The fields are the arguments of `candidates`.
    """

    description: Callable[[ParameterValues], Description]
    """Returns the description of the data for given values of the parameters, to which the schema may refer."""
    parameters: Mapping[str, Sequence[Any]]
    """The values to try for each parameter of the mechanism, by name."""
    adjacency: Adjacency | None
    """The relation that the schema names, or None."""


def candidates(
    description: Description | Callable[[ParameterValues], Description],
    parameters: Mapping[str, Any] | None = None,
    adjacency: Relation | None = None,
) -> list[Candidate]:
    """Return the candidates of a hunt: pairs of datasets, each combined with values of the mechanism's parameters.

    The simplest candidates come first. The datasets are derived from a description of the data.

    Parameters
    ----------
    description : Table, Answers or callable
        The description of the data, or a function that returns it for given values of the parameters.
    parameters : mapping, optional
        The values to try for each parameter, the usual value first. A candidate is more complex for every parameter
        that does not have its first value.
    adjacency : relation, optional
        If given, only pairs that are neighbours under this relation are listed.

    Examples
    --------
    >>> found = candidates(lambda values: numbers(*values["bounds"]), {"bounds": [(0, 1), (1000, 1001)], "k": [1, 2]})
    >>> len({tuple(one.parameters.items()) for one in found}), dict(found[0].parameters), found[0].pair.x_prime
    (4, {'bounds': (0, 1), 'k': 1}, [1.0])
    """
    found = [
        dataclasses.replace(one, parameters=values, complexity=one.complexity + n_changed)
        for values, n_changed in value_combinations(parameters or {})
        for one in description_at(description, values).pairs(adjacency)
    ]
    return sorted(found, key=lambda one: one.complexity)


def description_at(
    description: Description | Callable[[ParameterValues], Description], values: ParameterValues
) -> Description:
    """Return the description of the data for the given parameter values.

    ``description`` is the description itself, or a function that returns it for parameter values.
    """
    return description(values) if callable(description) else description


def read_schema(source: str | os.PathLike[str] | Mapping[str, Any]) -> Schema:
    """Read a schema from a JSON or TOML file, or from the object that such a file contains.

    The entry ``data`` describes the data by one of four keys. It may also contain further attributes of `Table`.

    - ``"numbers": [low, high]`` for a list of numbers between bounds,
    - ``"symbols": [...]`` for a list of symbols,
    - ``"columns": [...]`` with one object of attributes for each `Column`,
    - ``"answers": {...}`` with the attributes of `Answers`.

    The entry ``parameters`` has a list of values for each parameter. If ``data`` contains ``{"parameter": "bounds"}``,
    the value of the parameter 'bounds' is inserted there. The entry ``adjacency`` is a name in
    `epsaudit.tools.hunting.relations.RELATIONS_BY_NAME`.

    Raises
    ------
    AuditError
        If the file cannot be read, or if a description does not accept what the file says.

    Examples
    --------
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
    description = functools.partial(_read_description, content["data"])
    parameters = content.get("parameters", {})
    adjacency = relation_named(content["adjacency"]) if "adjacency" in content else None
    for values, _ in value_combinations(parameters):
        description(values)  # raises now if the description is invalid for any combination of values
    return Schema(description, parameters, adjacency)


def value_combinations(parameters: Mapping[str, Any]) -> list[tuple[ParameterValues, int]]:
    """Return all combinations of parameter values, each with the number of values that are not first in their list.

    The combinations are sorted by this number. Raises `AuditError` if the values of a parameter are not a list.
    """
    for name, values in parameters.items():
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)) or not values:
            given = shorten(values)
            raise AuditError(f"The values of parameter {name!r} are {given}; write a list, as [{given}].")
    combined = [
        ({name: value for name, (_, value) in zip(parameters, choice, strict=True)}, sum(at > 0 for at, _ in choice))
        for choice in itertools.product(*map(enumerate, parameters.values()))
    ]
    return sorted(combined, key=lambda one: one[1])


def _read_description(data: Mapping[str, Any], values: ParameterValues) -> Description:
    """Return the description of the data that the entry ``data`` of a schema contains.

    References to parameters in the entry are replaced by ``values``. Raises `AuditError` for an invalid entry.
    """
    attributes: dict[str, Any] = _insert_values(data, values)
    kind = next((name for name in ("answers", "numbers", "symbols", "columns") if name in attributes), None)
    if kind is None:
        says = ", ".join(attributes) or "nothing"
        raise AuditError(f"The data of the schema says {says}; it needs one of numbers, symbols, columns, answers.")
    first = attributes.pop(kind)
    try:
        if kind == "answers":
            return Answers(**first, **attributes)
        if isinstance(first, str):
            raise TypeError("give a list")
        if kind == "columns":
            return Table([Column(**one) for one in first], **attributes)
        return (numbers if kind == "numbers" else symbols)(*first, **attributes)
    except TypeError as error:
        raise AuditError(
            f"The {kind} of the schema, {shorten(first)} with {attributes}, cannot be read: {error}."
        ) from None


def _insert_values(part: Any, values: ParameterValues) -> Any:
    """Return a copy of a part of a schema, with each ``{"parameter": name}`` replaced by that parameter's value."""
    if isinstance(part, Mapping):
        if list(part) == ["parameter"]:
            name = part["parameter"]
            if name not in values:
                raise AuditError(f"The data refers to the parameter {name!r}; there are {', '.join(values) or 'none'}.")
            return values[name]
        return {key: _insert_values(inner, values) for key, inner in part.items()}
    return [_insert_values(inner, values) for inner in part] if isinstance(part, (list, tuple)) else part

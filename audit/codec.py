"""Conversion of dataclasses to JSON and back by their fields and type hints, and checks against JSON Schemas."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from epsaudit.errors import QUOTED, AuditError, clipped

FIELDS_WITH_TEXT = ("witness", "rule")
"""Fields whose JSON object also contains their text, for people who read the file."""
NON_FINITE = ("inf", "-inf", "nan")
"""The texts by which JSON represents floats that JSON numbers cannot represent."""


def to_json(value: Any) -> Any:
    """Return the JSON value of a dataclass, a container, a number of Python or numpy, or an object with ``to_dict``.

    Fields of a dataclass whose value is '' are left out. Tuples become lists, and floats that are not finite become
    one of the texts `NON_FINITE`.
    """
    if isinstance(value, dict):
        return {key: to_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(part) for part in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        return fields_to_json(value, [one.name for one in dataclasses.fields(value) if getattr(value, one.name) != ""])
    value = value.item() if hasattr(value, "item") else value
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def fields_to_json(thing: Any, names: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Return a JSON object with the attributes of an object that have the given names."""
    found = {name: (getattr(thing, name), to_json(getattr(thing, name))) for name in names}
    return {
        name: {"text": str(one), **said} if name in FIELDS_WITH_TEXT else said for name, (one, said) in found.items()
    }


def from_json(hint: Any, data: Any) -> Any:
    """Return the object that a JSON value represents; its type is the one that the type hint names.

    A JSON value that does not fit the hint of a number, a text or a tuple is returned unchanged. The class that
    receives it must refuse it.
    """
    inside = get_args(hint)
    if hasattr(hint, "from_dict"):
        return hint.from_dict(data)
    if isinstance(hint, types.UnionType) and type(None) in inside:
        return None if data is None else from_json(inside[0], data)
    if get_origin(hint) is tuple and isinstance(data, list) and (... in inside or len(inside) == len(data)):
        return tuple(from_json(inside[0] if ... in inside else inside[place], part) for place, part in enumerate(data))
    if hint is float and data in NON_FINITE:
        return float(data)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint(**fields_from_json(hint, data))
    return data


def fields_from_json(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the dataclass ``kind`` from a JSON object with its fields.

    Each value is converted by the type hint of its field. Values of unknown fields are returned unchanged.
    """
    hints = _hints(kind)
    return {name: from_json(hints.get(name), value) for name, value in data.items()}


_hints = functools.cache(get_type_hints)


class Tagged:
    """Base class for a family of frozen dataclasses in one module, which JSON objects name by their class names."""

    _what: ClassVar[str]
    """What the error message calls a JSON object that belongs to no class of the family, such as 'not a claim'."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object from which `from_dict` restores this object."""
        names = [one.name for one in dataclasses.fields(self)]  # type: ignore[arg-type]  # kinds are dataclasses
        return {"kind": type(self).__name__, **fields_to_json(self, names)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the object from the JSON object that `to_dict` returned.

        The JSON object may also contain the text of the object, which is ignored. Raises `AuditError` for other JSON.
        """
        kinds = {kind.__name__: kind for kind in cls._kinds()}
        try:
            fields = {name: value for name, value in data.items() if name not in ("kind", "text")}
            kind = kinds[data["kind"]]
            return kind(**fields_from_json(kind, fields))
        except (AttributeError, KeyError, TypeError):
            raise AuditError(f"{data!r} is {cls._what}; its kind must be one of {', '.join(kinds)}.") from None

    @classmethod
    def _kinds(cls) -> list[type[Self]]:
        """Return all dataclasses among this class and its subclasses in the same module."""
        below = [kind for one in cls.__subclasses__() if one.__module__ == cls.__module__ for kind in one._kinds()]
        return [cls, *below] if "__dataclass_fields__" in vars(cls) else below


def strict_json(text: str) -> Any:
    """Return the value of a JSON text, and refuse a text that has no clear meaning.

    Raises `ValueError` if the text is not JSON, if it contains NaN or Infinity, which Python reads although they are
    not JSON, or if a field of an object occurs twice. JSON readers differ in which of the two values they use.

    >>> strict_json('{"epsilon": 1, "epsilon": 2}')
    Traceback (most recent call last):
        ...
    ValueError: the field 'epsilon' is given twice
    """
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_fields)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _unique_fields(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object from its fields; raise `ValueError` if a field occurs twice."""
    found: dict[str, Any] = {}
    for name, value in fields:
        if name in found:
            raise ValueError(f"the field {name!r} is given twice")
        found[name] = value
    return found


def check_schema(data: Any, name: str, where: str = "") -> None:
    """Raise `AuditError` if ``data`` does not conform to the JSON Schema with this name.

    The message starts with ``where`` and names the field that is wrong.

    >>> check_schema({"kind": "PureDP", "epsilon": "high"}, "claim", "mine.json: ")
    Traceback (most recent call last):
        ...
    epsaudit.errors.AuditError: mine.json: epsilon is 'high'; it must be number.
    """
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator(name)(data)
    except JsonSchemaValueException as error:
        field = str(error.name).removeprefix("data").removeprefix(".") or "The JSON"
        must = error.message.removeprefix(f"{error.name} must ")
        if error.rule not in ("type", "required", "additionalProperties") and "description" in error.definition:
            must = f"be {error.definition['description']}"
        raise AuditError(f"{where}{field} is {clipped(repr(error.value), QUOTED)}; it must {must}.") from None
    except RecursionError:
        raise AuditError(f"{where}the JSON is nested too deeply.") from None


def schema(name: str) -> dict[str, Any]:
    """Return a JSON Schema of the package by its name.

    The name is that of a schema file, such as 'results', or of a definition in the schema 'results', such as 'claim'.
    """
    text = files("epsaudit.results").joinpath("schemas", f"{name}.json")
    if text.is_file():
        return dict(json.loads(text.read_text(encoding="utf-8")))
    definitions = schema("results")["definitions"]
    return {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": definitions, **definitions[name]}


@functools.cache
def _validator(name: str) -> Callable[[Any], Any]:
    import fastjsonschema

    compiled: Callable[[Any], Any] = fastjsonschema.compile(schema(name), use_default=False)
    return compiled

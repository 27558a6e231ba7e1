"""Files against their JSON Schemas: what is not as the schema says is refused in a sentence that names the field.

What of the schemas is promised to stay is said in docs/reference/files.md.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from epsaudit.errors import AuditError, clipped

LONGEST = 60
"""Characters of a value that a sentence quotes."""
TYPES = {"integer": "a whole number", "object": "a JSON object", "array": "a list", "null": "null", "string": "text"}
RULES = {
    "const": "{!r}",
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minItems": "of at least {}",
    "maxItems": "of at most {}",
}


def check(data: Any, name: str, where: str = "") -> None:
    """Raise `AuditError`, a sentence that starts with ``where`` and names the field, if ``data`` breaks a schema.

    >>> check({"kind": "PureDP", "epsilon": "high"}, "claim", "mine.json: ")
    Traceback (most recent call last):
        ...
    epsaudit.errors.AuditError: mine.json: epsilon is 'high'; it must be a number.
    """
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator(name)(data)
    except JsonSchemaValueException as error:
        raise AuditError(f"{where}{_sentence(error)}") from None
    except RecursionError:
        raise AuditError(f"{where}the JSON is nested too deeply.") from None


def read(path: Path, what: str) -> Any:
    """Read a JSON file; raises `AuditError` if it cannot be read as ``what``, in words."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise AuditError(f"{path} cannot be read as {what}: {str(said).rstrip('.')}.") from error


def schema(name: str) -> dict[str, Any]:
    """Return a schema of the package: of a kind of file, or of a definition in ``results``."""
    folder = files("epsaudit.results").joinpath("schemas")
    text = folder.joinpath(f"{name}.json")
    if text.is_file():
        return dict(json.loads(text.read_text(encoding="utf-8")))
    definitions = schema("results")["definitions"]
    return {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": definitions, **definitions[name]}


@functools.cache
def _validator(name: str) -> Callable[[Any], Any]:
    import fastjsonschema

    compiled: Callable[[Any], Any] = fastjsonschema.compile(schema(name), use_default=False)
    return compiled


def _sentence(error: Any) -> str:
    """Say what is wrong where, in the words of the schema's rule."""
    field = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in error.path[1:])
    rule, wanted, value = error.rule, error.rule_definition, error.value
    if rule == "required":
        missing = next(name for name in wanted if name not in value)
        return f"{field}.{missing} is missing.".lstrip(".")
    if rule == "additionalProperties":
        known = error.definition["properties"]
        unknown = next(name for name in value if name not in known)
        return f"{field}.{unknown} is not known here; fields are {', '.join(known)}.".lstrip(".")
    must = error.definition.get("description", "as the schema says")
    if rule == "type":
        must = " or ".join(TYPES.get(kind, f"a {kind}") for kind in ([wanted] if isinstance(wanted, str) else wanted))
    elif rule == "enum":
        must = "one of " + ", ".join(map(repr, wanted))
    elif rule in RULES:
        must = RULES[rule].format(wanted)
    return f"{field.lstrip('.') or 'The JSON'} is {clipped(repr(value), LONGEST)}; it must be {must}."


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object whose readers cannot differ in which of two values a field has."""
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found

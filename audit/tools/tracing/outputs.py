"""Conversion of an output of the audited function to named parts that JSON can represent.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from epsaudit import serve

RAISES = ".exception"
"""Name of the part that says which exception was raised; None if the function returned."""


def value_to_json(value: Any) -> Any:
    """Convert a value to a form that JSON can represent.

    A value that contains an object of an unknown type becomes ``{"object": name of its type}``.
    """
    try:
        return serve.encode_value(value)
    except Exception:  # an object's own methods may raise anything
        return {"object": type(value).__name__}


def traced_output_to_json(output: Any) -> Any:
    """Convert an output to a form that JSON can represent.

    Only the parts of an unknown type become ``{"object": name of the type}``; other parts keep their values.
    """
    with contextlib.suppress(Exception):  # an object's own methods may raise anything
        return serve.encode_value(output)
    if isinstance(output, dict):
        return {"items": [[value_to_json(key), traced_output_to_json(part)] for key, part in output.items()]}
    if isinstance(output, (list, tuple)):
        return list(map(traced_output_to_json, output))
    return {"object": type(output).__name__}


def unread_types(parts: Any) -> Iterator[str]:
    """Yield the type names of the objects in an output that could not be converted to JSON."""
    if isinstance(parts, dict):
        if "object" in parts:
            yield parts["object"]
        parts = parts.get("items")
    for part in parts if isinstance(parts, list) else ():
        yield from unread_types(part)


def named_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all parts of an output, each with a name such as '[0]' or "['mean']".

    The length of a sequence, the shape of an array, and the order of the keys of a dictionary are parts as well.
    """
    is_mapping = isinstance(value, dict) and "items" in value
    parts = value.get("items", value.get("array")) if isinstance(value, dict) else value
    if not isinstance(parts, list):
        yield name, value
        return
    yield f"{name}.length", len(parts)
    if is_mapping:
        yield f"{name}.keys", [key for key, _ in parts]
    elif isinstance(value, dict):
        yield f"{name}.shape", value["shape"]
    for key, part in parts if is_mapping else enumerate(parts):
        yield from named_leaves(part, f"{name}[{key!r}]")

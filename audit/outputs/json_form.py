"""Outputs in normal form as JSON and back, bit by bit: for results, checkpoints and the protocol of programs.

`epsaudit.serve` writes numbers, strings, bytes and dates for both sides of the protocol. This module adds the
containers of the normal form, which a program without epsaudit does not have, and reads everything back.
"""

from __future__ import annotations

import base64
import datetime
import io
import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs, normalise_array, pack_objects
from epsaudit.outputs.normal_form import Array, Items, Raised, TimedOut, normalise, refusal_of
from epsaudit.serve import encode_value


def output_to_json(value: Any) -> Any:
    """Return a JSON value for an output in normal form; `output_from_json` restores the same output, bit by bit."""
    if value is None or isinstance(value, _SCALARS):
        return encode_value(value)
    for kind, write in _CONTAINER_WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise refusal_of(value)


def output_from_json(data: Any) -> Any:
    """Return the output in normal form that a JSON value represents; raise `AuditError` if it represents no output."""
    try:
        return normalise(_decode(data))
    except AuditError:  # a part is wrong
        raise
    except (ValueError, TypeError, ArithmeticError, KeyError):
        raise AuditError(f"{data!r} is not an output.") from None
    except RecursionError:
        raise AuditError("A list of lists of lists that is too deep to read is not an output.") from None


def block_to_json(outputs: Outputs) -> Any:
    """Return a JSON object for an array of outputs; `block_from_json` restores the same array, bit by bit.

    The messages of exceptions are stored beside the outputs, because `output_to_json` writes only their types.
    """
    if outputs.dtype == object:
        values = outputs.tolist()
        messages = [value.message if isinstance(value, Raised) else "" for value in values]
        return {"outputs": _encode_all(values), **({"messages": messages} if any(messages) else {})}
    block = io.BytesIO()
    np.lib.format.write_array(block, outputs, allow_pickle=False)
    return {"npy": base64.b64encode(block.getvalue()).decode("ascii")}


def block_from_json(data: Any) -> Outputs:
    """Return the array of outputs from the JSON object that `block_to_json` returned."""
    if "npy" in data:
        block = io.BytesIO(base64.b64decode(data["npy"]))
        return normalise_array(np.lib.format.read_array(block, allow_pickle=False))
    outputs = pack_objects(list(map(output_from_json, data["outputs"])))
    for place, message in enumerate(data.get("messages", ())):
        if message and isinstance(outputs[place], Raised):
            outputs[place] = Raised(outputs[place].exception, str(message))
    return outputs


def _encode_all(values: Any) -> list[Any]:
    return list(map(output_to_json, values))


def _decode(data: Any) -> Any:
    """Return the output that a JSON value represents, not yet in normal form.

    If the JSON value is malformed, an exception of one of several types is raised; `output_from_json` catches them.
    """
    if data is None or isinstance(data, (str, bool, int, float)):
        return data
    if isinstance(data, list):
        return _decode_all(data)
    if "array" in data:
        parts, shape = data["array"], data["shape"]
        if len(shape) < 2 or int(np.prod(shape)) != len(parts) or min(shape) < 0:
            raise ValueError
        return Array.of(_decode_all(parts), list(map(int, shape)))
    name = next((name for name in _DECODERS if name in data), "")
    content, decode = _DECODERS[name]
    if not isinstance(data[name], content):
        raise TypeError
    return decode(data[name])


def _decode_all(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(map(output_from_json, parts))


_CONTAINER_WRITERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (Array, lambda array: {"array": _encode_all(array), "shape": list(array.shape)}),
    (Items, lambda items: {"items": list(map(_encode_all, items.as_given()))}),
    (frozenset, lambda parts: {"set": sorted(_encode_all(parts), key=json.dumps)}),
    (TimedOut, lambda _: {"timeout": True}),
    (tuple, lambda parts: {"tuple": _encode_all(parts)}),
    (Raised, lambda raised: {"raises": raised.exception}),
)
"""The types of the normal form that `epsaudit.serve` does not write, and how this module writes each of them."""
_SCALARS = (str, int, float, bytes, Decimal, Fraction, datetime.date, datetime.time, datetime.timedelta)
"""The types of the normal form that `epsaudit.serve.encode_value` writes."""
_DECODERS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "hex": (str, lambda text: int(text, 16)),
    "float": (str, float),
    "items": (list, lambda pairs: Items.of(map(_decode_all, pairs))),
    "set": (list, lambda parts: {*_decode_all(parts)}),
    "timeout": (bool, {True: TimedOut()}.__getitem__),
    "tuple": (list, _decode_all),
    "raises": (str, Raised),
    "bytes": (str, bytes.fromhex),
    "decimal": (str, Decimal),
    "fraction": (list, lambda parts: Fraction(*map(_decode, parts))),
    "datetime": (str, datetime.datetime.fromisoformat),
    "date": (str, datetime.date.fromisoformat),
    "time": (str, datetime.time.fromisoformat),
    "timedelta": (list, lambda parts: datetime.timedelta(*parts)),
}
"""For each field by which a JSON object says that it is an output: the type of the content, and how it is read."""

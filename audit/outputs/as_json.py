"""Outputs in normal form as JSON and back, bit by bit: for results, checkpoints and the protocol of external programs.

`block_to_json` and `block_from_json` are for many, with numbers in numpy's own format. Reading runs no code.
"""

from __future__ import annotations

import base64
import io
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import (
    Array,
    Complex,
    Items,
    Outputs,
    Raised,
    TimedOut,
    kind_of,
    normal,
    normal_array,
    refused,
    too_long,
)


def to_json(value: Any) -> Any:
    """Return a JSON value that `from_json` turns back into the normal form, bit by bit."""
    if value is None or isinstance(value, (str, bool)) or (isinstance(value, int) and not too_long(value)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Array):
        return {"array": _parts(value), "shape": list(value.shape)}
    for name, (kind, _, write, _) in _FORMS.items():
        if isinstance(value, kind):
            return {name: write(value)}
    raise refused(value)


def from_json(data: Any) -> Any:
    """Rebuild an output's normal form; raises `AuditError` for what is none.

    Examples
    --------
    >>> from_json(to_json((1.0, None, 0.1))), from_json([1, True])
    ((1.0, None, 0.1), (1.0, 1.0))
    """
    try:
        return normal(_read(data))
    except AuditError:  # of a part
        raise
    except (ValueError, TypeError, ArithmeticError, KeyError):
        raise AuditError(f"{data!r} is not an output.") from None
    except RecursionError:
        raise AuditError("A list of lists of lists that is too deep to read is not an output.") from None


def block_to_json(outputs: Outputs) -> Any:
    """Write outputs so that `block_from_json` gives them back bit by bit."""
    if outputs.dtype == object:
        values = outputs.tolist()
        messages = [value.message if isinstance(value, Raised) else "" for value in values]
        return {"outputs": _parts(values), **({"messages": messages} if any(messages) else {})}
    block = io.BytesIO()
    np.lib.format.write_array(block, outputs, allow_pickle=False)
    return {"npy": base64.b64encode(block.getvalue()).decode("ascii")}


def block_from_json(data: Any) -> Outputs:
    """Read what `block_to_json` wrote."""
    if "npy" in data:
        block = io.BytesIO(base64.b64decode(data["npy"]))
        return normal_array(np.lib.format.read_array(block, allow_pickle=False))
    outputs = np.empty(len(data["outputs"]), dtype=object)
    outputs[:] = list(map(from_json, data["outputs"]))
    for place, message in enumerate(data.get("messages", ())):
        if message and isinstance(outputs[place], Raised):
            outputs[place] = Raised(outputs[place].exception, str(message))
    return outputs


def _read(data: Any) -> Any:
    if data is None or isinstance(data, (str, bool, int, float)):
        return data
    if isinstance(data, list):
        return _tuple(data)
    if "array" in data:
        parts, shape = data["array"], data["shape"]
        if len(shape) < 2 or int(np.prod(shape)) != len(parts) or min(shape) < 0:
            raise ValueError
        return Array.of(_tuple(parts), list(map(int, shape)))
    name = next((name for name in _FORMS if name in data), "")
    _, content, _, read = _FORMS[name]
    if not isinstance(data[name], content):
        raise TypeError
    return read(data[name])


def _tuple(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(map(from_json, parts))


def _complex(parts: list[Any]) -> Any:
    real, imaginary = _tuple(parts)
    if {kind_of(real), kind_of(imaginary)} != {"number"}:
        raise ValueError
    return Complex((real, imaginary)) if imaginary != 0 else real


def _parts(values: Any) -> list[Any]:
    return list(map(to_json, values))


_FORMS: dict[str, tuple[type, type, Any, Any]] = {
    "hex": (int, str, hex, lambda text: int(text, 16)),
    "float": (float, str, repr, float),
    "items": (
        Items,
        list,
        lambda items: list(map(_parts, items.as_given())),
        lambda pairs: Items.of(map(_tuple, pairs)),
    ),
    "set": (frozenset, list, lambda parts: sorted(_parts(parts), key=json.dumps), lambda parts: {*_tuple(parts)}),
    "timeout": (TimedOut, bool, lambda _: True, {True: TimedOut()}.__getitem__),
    "complex": (Complex, list, _parts, _complex),
    "tuple": (tuple, list, _parts, _tuple),
    "raises": (Raised, str, lambda raised: raised.exception, Raised),
    "bytes": (bytes, str, bytes.hex, bytes.fromhex),
    "decimal": (Decimal, str, str, Decimal),
    "fraction": (Fraction, list, lambda it: _parts(it.as_integer_ratio()), lambda it: Fraction(*map(_read, it))),
    "datetime": (datetime, str, datetime.isoformat, datetime.fromisoformat),
    "date": (date, str, date.isoformat, date.fromisoformat),
    "time": (time, str, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, list, lambda it: [it.days, it.seconds, it.microseconds], lambda it: timedelta(*it)),
}
"""How an output stands in an object of one field: the field, the output's type, the field's, writing and reading.

Of two types that an output is of, the first counts: a mapping is a tuple, too.
"""

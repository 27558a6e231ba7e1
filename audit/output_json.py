"""Outputs in JSON and back, bit by bit: what results, checkpoints and the protocol of external programs hold.

`to_json` and `from_json` are for one output in the normal form of `epsaudit.outputs`; `block_to_json` and
`block_from_json` are for many, with numbers in numpy's own format. Reading runs no code.
"""

from __future__ import annotations

import base64
import datetime
import io
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.outputs import (
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
    """Return a JSON value that `from_json` turns back into the normal form, bit by bit.

    Examples
    --------
    >>> to_json((1.0, b"a")), to_json(Fraction(1, 3))
    ({'tuple': [1.0, {'bytes': '61'}]}, {'fraction': [1, 3]})
    """
    match value:
        case int() if too_long(value):
            return {"hex": hex(value)}
        case None | str() | bool() | int():
            return value
        case float():
            return value if -float("inf") < value < float("inf") else {"float": repr(value)}
        case Items():
            return {"items": [[to_json(key), to_json(part)] for key, part in value]}
        case Array():
            return {"array": [to_json(part) for part in value], "shape": list(value.shape)}
        case frozenset():
            return {"set": sorted(map(to_json, value), key=json.dumps)}
        case TimedOut():
            return {"timeout": True}
        case Complex():
            return {"complex": [to_json(part) for part in value]}
        case tuple():
            return {"tuple": [to_json(part) for part in value]}
        case Raised():
            return {"raises": value.exception}
        case bytes():
            return {"bytes": value.hex()}
        case Decimal():
            return {"decimal": str(value)}
        case Fraction():
            return {"fraction": [to_json(value.numerator), to_json(value.denominator)]}
        case datetime.datetime():
            return {"datetime": value.isoformat()}
        case datetime.date():
            return {"date": value.isoformat()}
        case datetime.time():
            return {"time": value.isoformat()}
        case datetime.timedelta():
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
    raise refused(value)


def from_json(data: Any) -> Any:
    """Rebuild an output's normal form; raises `AuditError` for what is none.

    Examples
    --------
    >>> from_json(to_json((1.0, None, 0.1))), from_json([1, True])
    ((1.0, None, 0.1), (1.0, 1.0))
    """
    try:
        match data:
            case {"array": list(parts), "shape": list(shape)}:
                numbers = tuple(map(from_json, parts))
                if len(shape) > 1 and int(np.prod(shape)) == len(numbers) and min(shape, default=0) >= 0:
                    return Array.of(numbers, [int(length) for length in shape])
            case _:
                return normal(_plain_from_json(data))
    except AuditError:  # of a part
        raise
    except (ValueError, TypeError, ArithmeticError, KeyError):
        pass
    except RecursionError:
        raise AuditError("A list of lists of lists that is too deep to read is not an output.") from None
    raise AuditError(f"{data!r} is not an output.")


def block_to_json(outputs: Outputs) -> Any:
    """Write outputs so that `block_from_json` gives them back bit by bit.

    Examples
    --------
    >>> kept = block_to_json(np.array([0.1, np.nan])), block_to_json(np.array([None, ("a", 1.0)], dtype=object))
    >>> [block_from_json(side).tolist() for side in kept]
    [[0.1, nan], [None, ('a', 1.0)]]
    """
    if outputs.dtype == object:
        return {"outputs": [to_json(value) for value in outputs.tolist()]}
    block = io.BytesIO()
    np.lib.format.write_array(block, outputs, allow_pickle=False)
    return {"npy": base64.b64encode(block.getvalue()).decode("ascii")}


def block_from_json(data: Any) -> Outputs:
    """Read what `block_to_json` wrote."""
    if "npy" in data:
        block = io.BytesIO(base64.b64decode(data["npy"]))
        return normal_array(np.lib.format.read_array(block, allow_pickle=False))
    outputs = np.empty(len(data["outputs"]), dtype=object)
    outputs[:] = [from_json(value) for value in data["outputs"]]
    return outputs


def _plain_from_json(data: Any) -> Any:
    match data:
        case None | str() | bool() | int() | float():
            return data
        case {"float": str(text)}:
            return float(text)
        case {"tuple": list(parts)} | list(parts):
            return tuple(from_json(part) for part in parts)
        case {"items": list(pairs)}:
            return Items.of((from_json(key), from_json(value)) for key, value in pairs)
        case {"set": list(parts)}:
            return frozenset(from_json(part) for part in parts)
        case {"timeout": True}:
            return TimedOut()
        case {"raises": str(name)}:
            return Raised(name)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"complex": [real, imaginary]}:
            pair = Complex((from_json(real), from_json(imaginary)))
            if set(map(kind_of, pair)) == {"number"}:
                return pair if pair[1] != 0 else pair[0]
        case {"decimal": str(text)}:
            return Decimal(text)
        case {"hex": str(text)}:
            return int(text, 16)
        case {"fraction": [over, under]}:
            return Fraction(_plain_from_json(over), _plain_from_json(under))
        case {"datetime": str(text)}:
            return datetime.datetime.fromisoformat(text)
        case {"date": str(text)}:
            return datetime.date.fromisoformat(text)
        case {"time": str(text)}:
            return datetime.time.fromisoformat(text)
        case {"timedelta": [int(days), int(seconds), int(microseconds)]}:
            return datetime.timedelta(days, seconds, microseconds)
    raise ValueError

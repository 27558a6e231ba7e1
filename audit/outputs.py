"""Outputs as JSON and back, bit by bit: what a checkpoint keeps of training.

Arrays of outputs enter, JSON values leave, and the other way round; nothing that JSON cannot hold exactly is written,
and reading runs no code.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np

from epsaudit.mechanism import Items, Outputs, Raised, TimedOut
from epsaudit.witnesses.atoms import atom_from_json, atom_to_json

PLAIN = (str, int, bool, type(None), float, Raised, TimedOut)


def outputs_to_json(outputs: Outputs) -> Any:
    """Write outputs so that `outputs_from_json` gives them back bit by bit; None where JSON cannot.

    Examples
    --------
    >>> kept = outputs_to_json(np.array([0.1, np.nan])), outputs_to_json(np.array([None, ("a", 1)], dtype=object))
    >>> [outputs_from_json(side).tolist() for side in kept]
    [[0.1, nan], [None, ('a', 1)]]
    """
    if outputs.dtype.kind in "biufcUS":
        block = io.BytesIO()
        np.lib.format.write_array(block, outputs, allow_pickle=False)
        return {"npy": base64.b64encode(block.getvalue()).decode("ascii")}
    if outputs.dtype != object or outputs.ndim != 1:
        return None
    values = outputs.tolist()
    return {"outputs": [atom_to_json(value) for value in values]} if all(map(_is_exact, values)) else None


def outputs_from_json(data: Any) -> Outputs:
    """Read what `outputs_to_json` wrote."""
    if "npy" in data:
        block = io.BytesIO(base64.b64decode(data["npy"]))
        numbers: Outputs = np.lib.format.read_array(block, allow_pickle=False)
        return numbers
    outputs = np.empty(len(data["outputs"]), dtype=object)
    outputs[:] = [atom_from_json(value) for value in data["outputs"]]
    return outputs


def _is_exact(value: Any) -> bool:
    kind = type(value)
    if kind in PLAIN:
        return True
    if kind is Items:
        return all(_is_exact(key) and _is_exact(part) for key, part in value)
    return kind in (tuple, frozenset) and all(map(_is_exact, value))

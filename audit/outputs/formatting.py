"""The text of outputs: how a result, an event or a message writes one value.

The text of a value is the same in every process and contains all digits, so two values with the same text are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from epsaudit.serve import MAX_DECIMAL_BITS

MAX_EXACT_INTEGER = 2**53
"""[formula] Floats represent all whole numbers up to this absolute value; beyond it they skip some."""


def format_value(value: Any) -> str:
    """Return the text of an output in normal form, which results, events and messages show.

    It is what `repr` returns, with three differences: whole numbers have no '.0', sets are written in sorted order,
    which is the same in every process, and very long whole numbers are written in hexadecimal digits.

    >>> format_value((1.0, "a", frozenset({2.5, 1.0})))
    "(1, 'a', frozenset({1, 2.5}))"
    """
    kind = type(value)
    if kind is float and value.is_integer() and abs(value) <= MAX_EXACT_INTEGER:
        return repr(int(value)) if value or not np.signbit(value) else "-0"
    if kind is float or kind is str:  # the most frequent types come first
        return repr(value)
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(sorted(map(format_value, value)))}}})" if value else "frozenset()"
    if kind is tuple:
        return f"({', '.join(map(format_value, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Fraction):
        return f"Fraction({format_value(value.numerator)}, {format_value(value.denominator)})"
    return write_plain(value)


def write_plain(value: Any) -> str:
    """Return the `repr` of a value; a very long whole number, which `repr` may refuse, gets hexadecimal digits."""
    return hex(value) if isinstance(value, int) and value.bit_length() > MAX_DECIMAL_BITS else repr(value)


def list_names(names: Sequence[str], max_names: int = 8) -> str:
    """Return the first ``max_names`` names, separated by commas, followed by the number of the other names.

    >>> list_names(["a", "b", "c"], 2)
    'a, b, ... 1 more'
    """
    return ", ".join(names[:max_names]) + (f", ... {len(names) - max_names} more" if len(names) > max_names else "")

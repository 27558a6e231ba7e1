"""Parts of outputs that the default witnesses do not read, such as types, time zones and last bits.

The first outputs of each dataset are observed as the mechanism returned them. Where an ignored part differs between the
two datasets, a result says so in one note. This is no part of any certificate.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.outputs.layouts import OutputPath
from epsaudit.serve import unwrap

MAX_OBSERVED = 1000
"""[time] Maximum number of outputs of each dataset that are observed, which takes 1 to 10 microseconds each."""
MAX_OBSERVED_PARTS = 64
"""[time] Maximum number of parts of an output that are observed."""
MAX_CHANCE = 1e-4
"""[chosen] Significance level at which the ignored parts of two datasets count as different."""
MIN_CONSTANT_OUTPUTS = 10
"""[chosen] Number of outputs of each dataset that must agree before a part counts as constant. If a fair coin decides
the part in every run, the parts of both datasets are constant and different with probability 2^-19."""
SHORT_BITS = 26
"""[chosen] A double is called short if at least its last 26 bits are zero. Rounded numbers and numbers in single
precision (29 zero bits) are short; continuous noise is short with probability 2^-26."""

IgnoredPart = tuple[str, OutputPath, str]
"""An ignored part of an output: its kind, the path of the value inside the output, and the content of the part."""
IgnoredParts = Counter[IgnoredPart]
"""The number of outputs of one dataset with each ignored part. The key `TOTAL` counts all observed outputs."""
TOTAL: IgnoredPart = ("", (), "")
"""The key of the number of all observed outputs in `IgnoredParts`."""
PLAIN_TYPES = {float, int, str, bool, bytes, bytearray, type(None)}
"""Types of values that hold no further values."""
VALUE_TYPES, LAST_BITS, SIGN_OF_ZERO = "types of values", "last bits of numbers", "sign of zero"
ONLY_IF_CONSTANT = {
    VALUE_TYPES: "",
    LAST_BITS: " (witnesses='all' reads them)",
    SIGN_OF_ZERO: " (witnesses='all' reads it)",
}
"""Kinds that are reported only if every dataset always has a single content, and the words that the note adds.
Correct mechanisms change the frequency of these contents: a noisy count that is cut off at 0 returns the integer 0
more often on one dataset."""
BY_FREQUENCY: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "time zone": ((datetime.datetime, datetime.time), lambda one: (str(one.tzinfo), one.fold)),
    "nanoseconds": (datetime.datetime, lambda one: getattr(one, "nanosecond", 0)),
    "digits of a Decimal": (Decimal, lambda one: (one.as_tuple().exponent, one.as_tuple().digits[-1:])),
    "what lies under a mask": (np.ma.MaskedArray, lambda one: one.data[np.ma.getmaskarray(one)].tobytes()),
    "names of the fields of an array": (np.ndarray, lambda one: one.dtype.names),
}
"""Kinds that are reported if the frequencies of their contents differ: the type of the value, and the function that
returns the content."""


def observe(ignored: IgnoredParts, output: Any) -> None:
    """Count the ignored parts of one output, which must have the form in which the mechanism returned it.

    Ignored parts are properties of an output that the default witnesses do not read, such as the types of values or a
    time zone. The counts are added to ``ignored``. Only the first `MAX_OBSERVED` outputs are counted.
    """
    if ignored[TOTAL] >= MAX_OBSERVED:
        return
    found: list[IgnoredPart] = [TOTAL]
    by_kind: dict[str, set[str]] = {}
    remaining: list[tuple[OutputPath, Any]] = [((), output)]
    for path, value in itertools.islice(remaining, MAX_OBSERVED_PARTS):  # the list grows in the loop
        kind = type(value)
        if kind is float or isinstance(value, np.floating):
            found.append((VALUE_TYPES, path, kind.__qualname__))
            found += _read_number(path, float(value))
            continue
        if kind in PLAIN_TYPES:
            found.append((VALUE_TYPES, path, kind.__qualname__))
            continue
        numeric = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        found.append((VALUE_TYPES, path, f"array of {value.dtype.str}" if numeric else kind.__qualname__))
        for name, (known, read) in BY_FREQUENCY.items():
            if isinstance(value, known):
                by_kind.setdefault(name, set()).add(repr(read(value)))
        if numeric and not isinstance(value, np.ma.MaskedArray):
            if value.dtype.kind == "f":
                found += _read_numbers(path, _to_doubles(value.reshape(-1)[:MAX_OBSERVED_PARTS]).tolist())
        elif isinstance(value, Mapping):
            for key, part in itertools.islice(value.items(), MAX_OBSERVED_PARTS):
                step = key if type(key) in (int, str, float, bool, bytes) else type(key).__qualname__
                remaining += [((*path, "a key"), key), ((*path, step), part)]
        elif isinstance(value, (list, tuple)):
            remaining += [((*path, place), part) for place, part in enumerate(value[:MAX_OBSERVED_PARTS])]
        elif isinstance(value, (set, frozenset)):
            remaining += [((*path, "an element"), part) for part in itertools.islice(value, MAX_OBSERVED_PARTS)]
        else:
            with contextlib.suppress(Exception):  # the normal form refuses what cannot be read
                if (held := unwrap(value)) is not value:
                    remaining.append(((*path, "the content"), held))
                if hasattr(value, "to_list") or hasattr(value, "dtypes"):
                    by_kind.setdefault("names or types of a frame, a series or an index", set()).add(
                        _frame_labels(value)
                    )
    found += [(name, (), " ".join(sorted(contents))) for name, contents in by_kind.items()]
    ignored.update(found)  # faster than to count every part by itself


def observe_rows(ignored: IgnoredParts, outputs: NDArray[Any]) -> None:
    """Count the ignored parts of many outputs, which are the rows of an array of numbers.

    The counts are those of `observe`, and are added to ``ignored``. Only the first `MAX_OBSERVED` outputs are counted.
    """
    rows = outputs[: max(MAX_OBSERVED - ignored[TOTAL], 0)]
    if len(rows):
        ignored[TOTAL] += len(rows)
        ignored[VALUE_TYPES, (), f"array of {rows.dtype.str}"] += len(rows)
        if rows.dtype.kind == "f":
            _count_numbers(ignored, _to_doubles(rows.reshape(len(rows), -1)[:, :MAX_OBSERVED_PARTS]))


def find_differing(ignored: IgnoredParts, ignored_prime: IgnoredParts) -> list[str]:
    """Return the kinds of ignored parts, such as 'time zone', that differ between the outputs on x and on x'.

    The arguments are the counts that `observe` made on x and on x'.
    """
    contents: dict[tuple[str, OutputPath], set[str]] = {}
    for kind, path, content in [*ignored, *ignored_prime]:
        if kind:
            contents.setdefault((kind, path), set()).add(content)
    found = set()
    for (kind, path), some in contents.items():
        table = [[side[kind, path, content] for content in sorted(some)] for side in (ignored, ignored_prime)]
        if kind in ONLY_IF_CONSTANT:
            constant = [_find_constant(counts) for counts in table]
            if None not in constant and constant[0] != constant[1]:
                found.add(kind + ONLY_IF_CONSTANT[kind])
        elif len(some) > 1 and all(map(any, table)):
            from scipy.stats import chi2_contingency  # slow to import

            if chi2_contingency(table, correction=False).pvalue < MAX_CHANCE:
                found.add(kind)
    return sorted(found)


def _find_constant(counts: list[int]) -> int | None:
    """Return the index of the only content that was observed, given how often each content was observed.

    Return None if several contents were observed, or if too few outputs were observed.
    """
    most = max(counts)
    return counts.index(most) if MIN_CONSTANT_OUTPUTS <= most == sum(counts) else None


def _to_doubles(numbers: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return numbers.astype(np.float64)


def _read_number(path: OutputPath, number: float) -> list[IgnoredPart]:
    """Return whether the last bits of a number are zero ('short' or 'long'), or the sign of a zero, as ignored parts.

    The list is empty if the number is infinite or NaN.
    """
    if number == 0.0:
        return [(SIGN_OF_ZERO, path, "-" if _is_negative_zero(number) else "+")]
    return [(LAST_BITS, path, "short" if _is_short(number) else "long")] if math.isfinite(number) else []


def _read_numbers(path: OutputPath, numbers: Sequence[float]) -> list[IgnoredPart]:
    """Return the same ignored parts as `_read_number`, for all numbers of an array together.

    The last bits are 'long' if those of one number are, and the sign is '-' if one of the zeros is negative.
    """
    finite = [number for number in numbers if math.isfinite(number)]
    some = [number for number in finite if number != 0.0]
    found = [(LAST_BITS, path, "short" if all(map(_is_short, some)) else "long")] if some else []
    if len(some) < len(finite):
        found.append((SIGN_OF_ZERO, path, "-" if any(map(_is_negative_zero, finite)) else "+"))
    return found


def _is_short(number: float) -> bool:
    return math.ldexp(math.frexp(number)[0], 53 - SHORT_BITS).is_integer()


def _is_negative_zero(number: float) -> bool:
    return number == 0.0 and math.copysign(1.0, number) < 0.0


def _count_numbers(ignored: IgnoredParts, rows: NDArray[np.float64]) -> None:
    """Count the ignored parts that `_read_numbers` returns, for every row of an array.

    A row contains the numbers of one output.
    """
    zero = rows == 0.0
    some = np.isfinite(rows) & ~zero
    scaled = np.ldexp(np.frexp(rows)[0], 53 - SHORT_BITS)
    n_some, n_long = (int(np.count_nonzero(one.any(axis=1))) for one in (some, some & (scaled != np.floor(scaled))))
    ignored[LAST_BITS, (), "long"] += n_long
    ignored[LAST_BITS, (), "short"] += n_some - n_long
    if zero.any():
        n_zero, n_negative = (int(np.count_nonzero(one.any(axis=1))) for one in (zero, zero & np.signbit(rows)))
        ignored[SIGN_OF_ZERO, (), "-"] += n_negative
        ignored[SIGN_OF_ZERO, (), "+"] += n_zero - n_negative


def _frame_labels(value: Any) -> str:
    """Return a text of the names, types and attributes of a frame, a series or an index, but not of its values."""
    labelled = (value, getattr(value, "index", None), getattr(value, "columns", None))
    names = itertools.product(labelled, ("name", "names", "dtype", "dtypes", "attrs"))
    return repr([getattr(one, name, None) for one, name in names])

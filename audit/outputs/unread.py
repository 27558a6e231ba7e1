"""What the normal form leaves out, looked at in passing: a result says which kinds of it differ between x and x'."""

from __future__ import annotations

import datetime
import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from scipy.special import chdtrc

from epsaudit.outputs.normal_form import Raised, TimedOut

LOOKED_AT = 1000
"""[time] Outputs of a dataset that are looked at."""
PARTS = 64
"""[time] Parts of each that are."""
RARE = 1e-4
"""[chosen] A difference that chance makes less often is said."""


class Unread:
    """How often outputs of one dataset had which parts that no witness reads.

    Examples
    --------
    >>> sides = Unread(), Unread()
    >>> for digit in range(50):
    ...     sides[0].look(Decimal(f"0.{digit}"))
    ...     sides[1].look([Decimal(f"0.{digit}0")])
    >>> differing(*sides)
    ['digits of a Decimal']
    """

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()
        self.looked = 0

    def look(self, output: Any) -> None:
        """Look at an output as the mechanism returned it."""
        if self.looked < LOOKED_AT:
            self.looked += 1
            found = list(_parts(output))
            kinds = {kind: " ".join(sorted(what for one, what in found if one == kind)) for kind, _ in found}
            self.seen.update(kinds.items())

    def look_at(self, outputs: Any) -> None:
        """Look at some of many outputs, a list or an array, of which plain numbers are passed over."""
        masked = isinstance(outputs, np.ma.MaskedArray)
        if masked or isinstance(outputs, list) or (isinstance(outputs, np.ndarray) and outputs.dtype.kind == "O"):
            for place in range(min(LOOKED_AT - self.looked, len(outputs))):
                self.look(outputs[place : place + 1] if masked else outputs[place])

    def take(self) -> Unread:
        """Return what was seen, and forget it here."""
        taken = Unread()
        taken.add(self)
        self.looked, self.seen = 0, Counter()
        return taken

    def add(self, other: Unread) -> None:
        """Add what was seen elsewhere."""
        self.looked += other.looked
        self.seen += other.seen


def differing(first: Unread, second: Unread) -> list[str]:
    """Name the kinds of parts whose distributions differ, by Pearson's test of homogeneity."""
    found = []
    for kind in sorted({kind for kind, _ in first.seen + second.seen}):
        names = [name for name in first.seen + second.seen if name[0] == kind]
        table = np.array([[side.seen[name] for name in names] for side in (first, second)], float)
        sizes = table.sum(axis=1, keepdims=True)
        if len(names) > 1 and sizes.all():
            expected = table.sum(axis=0) * sizes / sizes.sum()
            if chdtrc(len(names) - 1, np.sum((table - expected) ** 2 / expected)) < RARE:
                found.append(kind)
    return found


def _parts(output: Any) -> Iterator[tuple[str, str]]:
    """Kind and content of the first parts of an output that its normal form leaves out."""
    left = [output]
    for _ in range(PARTS):
        if not left:
            return
        value, inside = left.pop(), iter(())
        if value is None or isinstance(value, (float, int, str, bytes, Raised, TimedOut)):
            continue
        if isinstance(value, datetime.datetime):
            yield "time zone", str(value.tzinfo)
        elif isinstance(value, Decimal):
            digits = value.as_tuple()
            yield "digits of a Decimal", f"{digits.exponent} {digits.digits[-1:]}"
        elif isinstance(value, np.ma.MaskedArray):
            yield "what lies under a mask", str(zlib.crc32(value.data[np.ma.getmaskarray(value)].tobytes()))
        elif isinstance(value, np.ndarray) and value.dtype.names:
            yield "names of the fields of an array", " ".join(value.dtype.names)
        elif isinstance(value, Mapping):
            inside = itertools.chain.from_iterable(value.items())
        elif isinstance(value, (list, tuple, set, frozenset)):
            inside = iter(value)
        elif hasattr(value, "to_list") and hasattr(value, "dtype"):  # a series
            inside = iter(value[:PARTS].to_list())
        elif hasattr(value, "__dict__") and not hasattr(value, "__next__"):
            yield "type of an object", type(value).__qualname__
            inside = iter(vars(value).values())
        left += itertools.islice(inside, PARTS)

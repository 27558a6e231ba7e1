"""Readings: what a person sees in a value that a program returns as one piece, as tuples and mappings of its parts.

Text is read as JSON, as words and numbers, as characters, and by what it is made of; a time by the fields of a
calendar; anything by a checksum. A reading takes one output in normal form and returns another, None where it does not
apply.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Items, normal, written

WORD = re.compile(r"(?<![\w.)])-?\d+\.\d+(?:e[-+]?\d+)?(?![.\d])|(?<![\w.)\-])-\d+|\d+|[^\W\d_]+")
"""Numbers with or without decimals, of addresses and versions the parts, and words of letters."""


@dataclass(frozen=True)
class Reading:
    """A way to read a value, by its name, as a step of a path.

    Examples
    --------
    >>> Reading("words")("10.3.44.1: 17 of user93 took -0.25 s")
    (10.0, 3.0, 44.0, 1.0, 17.0, 'of', 'user', 93.0, 'took', -0.25, 's')
    >>> Reading("json")('{"n": [1, 2]}'), Reading("json")("no")
    ({'n': (1, 2)}, None)
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in READINGS:
            raise AuditError(f"The reading is {self.name!r}; it must be one of {', '.join(READINGS)}.")

    def __call__(self, value: Any) -> Any:
        """Return what is read, None where this reading does not apply."""
        kind, read = READINGS[self.name]
        return read(value) if isinstance(value, kind) else None


def _json(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return None
    try:
        return normal(json.loads(text))
    except (ValueError, RecursionError, AuditError):
        return None


def _words(text: str) -> tuple[Any, ...]:
    return tuple([float(word) if word[0] == "-" or word[0].isdecimal() else word for word in WORD.findall(text)])


def _text(text: str) -> Items:
    """What a text is made of."""
    pairs = set(itertools.pairwise(text))
    return Items(
        (
            ("digits", float(sum(map(str.isdigit, text)))),
            ("lines", float(text.count("\n"))),
            ("lower", float(sum(map(str.islower, text)))),
            ("pairs that repeat", float(max(len(text) - 1, 0) - len(pairs))),
            ("spaces", float(sum(map(str.isspace, text)))),
            ("upper", float(sum(map(str.isupper, text)))),
        )
    )


def _time(moment: Any) -> Items:
    names = ("year", "month", "day", "hour", "minute", "second", "microsecond")
    fields = [(name, float(getattr(moment, name))) for name in names if hasattr(moment, name)]
    if isinstance(moment, datetime.date):
        fields.append(("weekday", float(moment.weekday())))
        fields.append(("days", float(moment.toordinal())))
    return Items(fields)


def _duration(duration: datetime.timedelta) -> Items:
    names = ("days", "seconds", "microseconds")
    return Items((name, float(getattr(duration, name))) for name in names)


READINGS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "json": (str, _json),
    "words": (str, _words),
    "characters": (str, lambda text: tuple(map(float, map(ord, text)))),
    "bytes": (bytes, lambda value: tuple(map(float, value))),
    "text": (str, _text),
    "time": ((datetime.date, datetime.time), _time),
    "duration": (datetime.timedelta, _duration),
    "checksum": (object, lambda value: float(zlib.crc32(written(value).encode("utf-8", "backslashreplace")))),
}
"""Every reading: of which type of value, and how."""

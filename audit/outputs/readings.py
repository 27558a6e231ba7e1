"""Readings: functions that find the parts of a value that a program returned as one piece, such as a text.

A reading takes one output in normal form and returns another one, often a tuple or a mapping of the parts. It returns
None for a value to which it does not apply. `READINGS` lists all readings.
"""

from __future__ import annotations

import bisect
import csv
import datetime
import functools
import io
import itertools
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from epsaudit.errors import AuditError
from epsaudit.outputs.formatting import format_value
from epsaudit.outputs.normal_form import Array, Items, Raised, kind_of, normalise

WORD = re.compile(r"(?<![\w.)])-?\d+\.\d+(?:e[-+]?\d+)?(?![.\d])|(?<![\w.)\-])-\d+|\d+|[^\W\d_]+")
"""The words of a text: numbers with or without decimals, the parts of addresses and versions, and words of letters."""
NUMBER_PATTERN = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)
"""Matches a field that is a number."""
MOMENT_PATTERN = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z?)?", re.ASCII)
"""Matches a field that is a date, or a date and time, in the format of ISO 8601."""
NUMBER_STARTS = frozenset("+-.0123456789")
"""The characters with which a number or a date begins."""
NAMED_VALUES = re.compile(r"([^\W\d][\w.-]*)(?:=|:\s+)(\"[^\"]*\"|[^\s,;&|\"]+)")
"""A name and its value, as in ``key=value`` and ``key: value``."""
FIELD_DELIMITERS = {"commas": ",", "semicolons": ";", "tabs": "\t", "bars": "|"}
"""The readings that divide one line into fields, and the delimiter of each."""
PUNCTUATION = ".,;:!?()[]{}<>\"'"
"""Characters that are removed from both ends of a token."""
MAX_REPEAT_LENGTH = 64
"""[time] Maximum length of a repeated part of a text that is searched, in characters."""
MAX_XML_LENGTH = 1_000_000
"""[time] Maximum length of an XML document that is parsed, in characters."""


@dataclass(frozen=True)
class Reading:
    """A function, known by its name, that finds the parts of an output that was returned as one piece, such as a text.

    A reading can be a step of a path inside an output. `READINGS` lists all names.

    >>> Reading("words")("10.3.44.1: 17 of user93 took -0.25 s")
    (10.0, 3.0, 44.0, 1.0, 17.0, 'of', 'user', 93.0, 'took', -0.25, 's')
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in READINGS:
            raise AuditError(f"The reading is {self.name!r}; it must be one of {', '.join(READINGS)}.")

    def __call__(self, value: Any) -> Any:
        """Return the result of the reading for a value, or None if the reading does not apply to the value."""
        kind, read = READINGS[self.name]
        return read(value) if isinstance(value, kind) else None


def _read_json_text(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return None
    try:
        return normalise(json.loads(text))
    except (ValueError, RecursionError, AuditError):
        return None


def _read_xml(text: str) -> Any:
    """Return the normal form of the XML document in a text, or None if the text is no XML document or is too long.

    A document with a document type is not read, because a document type may define entities.
    """
    if not text.lstrip().startswith("<") or len(text) > MAX_XML_LENGTH or "<!DOCTYPE" in text:
        return None
    try:
        return _read_element(ElementTree.fromstring(text))
    except (ElementTree.ParseError, ValueError, RecursionError):
        return None


def _read_element(element: ElementTree.Element) -> Any:
    """Return the content of an XML element: its text if it has no attributes and no children, otherwise a mapping.

    The mapping contains attributes, text and children by name. Several children with the same name become a tuple.
    """
    words = " ".join(filter(None, [(element.text or "").strip(), *((one.tail or "").strip() for one in element)]))
    if not element.attrib and len(element) == 0:
        return _read_field(words)
    found: dict[str, list[Any]] = {f"@{name}": [_read_field(value.strip())] for name, value in element.attrib.items()}
    if words:
        found["#text"] = [_read_field(words)]
    for child in element:
        found.setdefault(child.tag, []).append(_read_element(child))
    return Items.of({name: parts[0] if len(parts) == 1 else tuple(parts) for name, parts in sorted(found.items())})


def _read_field(text: str) -> Any:
    """Return the number or the date that a text represents, or the text itself."""
    if text[:1] not in NUMBER_STARTS or len(text) > 300:
        return text
    if NUMBER_PATTERN.fullmatch(text):
        return normalise(int(text)) if text.isdigit() else float(text)
    if MOMENT_PATTERN.fullmatch(text):
        try:
            return normalise((datetime.datetime if len(text) > 10 else datetime.date).fromisoformat(text))
        except (ValueError, OverflowError):
            return text
    return text


def _read_fields(text: str, delimiter: str) -> tuple[Any, ...] | None:
    """Return the fields of a text that is a single row of fields, or None if the text has several rows.

    Quoted fields may contain delimiters and line breaks.
    """
    if '"' not in text:
        return None if "\n" in text.rstrip() else tuple([_read_field(one.strip()) for one in text.split(delimiter)])
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return None
    return tuple([_read_field(one.strip()) for one in rows[0]]) if len(rows) == 1 else None


def _read_tokens(text: str) -> tuple[Any, ...]:
    return tuple([_read_field(token.strip(PUNCTUATION)) for token in text.split()])


def _read_named_values(text: str) -> Items | None:
    found = {name: _read_field(value.strip('" ')) for name, value in reversed(NAMED_VALUES.findall(text))}
    return Items.of(dict(sorted(found.items()))) if found else None


def _read_words(text: str) -> tuple[Any, ...]:
    return tuple([float(word) if word[0] == "-" or word[0].isdecimal() else word for word in WORD.findall(text)])


def _count_characters(text: str) -> Items:
    """Return statistics of a text that do not depend on its meaning, such as its number of digits."""
    pairs, words = set(itertools.pairwise(text)), text.split()

    def all_differ(length: int) -> bool:
        number = max(len(text) - length + 1, 0)
        return len({text[start : start + length] for start in range(number)}) == number

    longest = 1  # length of the longest part that occurs twice
    if len(pairs) < len(text) - 1:
        longest = 2 + bisect.bisect_left(range(3, MAX_REPEAT_LENGTH + 1), True, key=all_differ)
    found = {
        "digits": sum(map(str.isdigit, text)),
        "lines": text.count("\n"),
        "longest repeat": longest,
        "lower": sum(map(str.islower, text)),
        "pairs that repeat": max(len(text) - 1, 0) - len(pairs),
        "spaces": sum(map(str.isspace, text)),
        "upper": sum(map(str.isupper, text)),
        "words that repeat": len(words) - len(set(words)),
    }
    return Items.of({name: float(number) for name, number in found.items()})


PARTS_OF_TIME = ("year", "month", "day", "hour", "minute", "second", "microsecond", "days", "seconds", "microseconds")
"""The attributes of a date, a time or a duration; each type has some of them."""


def _read_time(value: Any) -> Items:
    found = {name: float(getattr(value, name)) for name in PARTS_OF_TIME if hasattr(value, name)}
    if isinstance(value, datetime.date):
        found |= {"weekday": float(value.weekday()), "days": float(value.toordinal())}
    return Items(tuple(found), tuple(found.values()))


READINGS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "json": (str, _read_json_text),
    "xml": (str, _read_xml),
    **{name: (str, functools.partial(_read_fields, delimiter=one)) for name, one in FIELD_DELIMITERS.items()},
    "lines": (str, lambda text: tuple([_read_field(line.strip()) for line in text.splitlines()])),
    "tokens": (str, _read_tokens),
    "tokens with digits": (
        str,
        lambda text: tuple(
            [one for one in _read_tokens(text) if not isinstance(one, str) or any(map(str.isdigit, one))]
        ),
    ),
    "named": (str, _read_named_values),
    "words": (str, _read_words),
    "characters": (str, lambda text: tuple(map(float, map(ord, text)))),
    "bytes": (bytes, lambda value: tuple(map(float, value))),
    "text": (str, _count_characters),
    "time": ((datetime.date, datetime.time), _read_time),
    "duration": (datetime.timedelta, _read_time),
    "keys": (Items, lambda mapping: tuple([key for key, _ in mapping.as_given()])),
    "shape": (Array, lambda array: tuple(map(float, array.shape))),
    "kind": (object, kind_of),
    "message": (Raised, lambda raised: raised.message),
    "checksum": (object, lambda value: float(zlib.crc32(format_value(value).encode("utf-8", "backslashreplace")))),
}
"""All readings by name: the type of the values to which a reading applies, and the function that reads them."""


def suitable_readings(texts: Sequence[str], before: Sequence[str], few: int) -> Iterator[str]:
    """Yield the names of the readings that suit a sample of texts.

    ``before`` are the names of the readings that were applied to obtain these texts. JSON, XML, fields and named values
    are read only if most texts contain them, and if no other reading than 'json', 'xml' and 'lines' was applied before.
    If most texts have the same number of words, the words at one position can be compared. Then tokens are not read,
    and fields are read only if there are more than ``few`` words.
    """
    outside = [name for name in before if name not in ("json", "xml", "lines")]
    half = len(texts) / 2
    for name in ("json", "xml") if not outside else ():
        if sum(READINGS[name][1](text) is not None for text in texts) > half:
            yield name
            return
    fields: list[str] = []
    number, seen = _most_common(len(_read_words(text)) for text in texts)
    moving, spaced = seen <= half, sum(len(text.split()) > 1 for text in texts) > half
    if not outside:
        if moving or number > few:
            many = "lines" not in before and sum("\n" in text for text in texts) > half
            splits = (*FIELD_DELIMITERS, "tokens") if moving else FIELD_DELIMITERS
            fields = ["lines"] if many else []
            for name in splits if not many else ():
                fields_of, seen = _most_common(len(READINGS[name][1](text) or ()) for text in texts)
                fields += [name] if fields_of > 1 and seen > half else []
        yield from fields
        names = [tuple(name for name, _ in NAMED_VALUES.findall(text)) for text in texts]
        if sum(map(bool, names)) > half and (moving or _most_common(names)[1] <= half):
            yield "named"
    if moving and spaced and not fields:
        yield "tokens with digits"
    yield "words"
    if spaced or not outside:
        yield "text"
    if not (spaced and outside):
        yield "characters"


def _most_common(values: Iterable[Hashable]) -> tuple[Any, int]:
    return Counter(values).most_common(1)[0]

"""``epsaudit list``: what is registered, or what released libraries have, one mechanism a line."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from epsaudit.claims import Claim
from epsaudit.commands import AS_EXPECTED, say_json, sayer
from epsaudit.errors import AuditError, meant
from epsaudit.registry import Entry, Library, Listed, libraries, library, registered

Row = Entry | Listed


def listing(options: SimpleNamespace) -> int:
    """List the entries whose name matches the pattern, or holds it."""
    if options.library is None:
        groups: dict[str, Sequence[Row]] = {"": list(registered().values())}
    else:
        chosen = [library(options.library)] if options.library else libraries().values()
        groups = {_heading(one): one.rows for one in chosen}
    names = [row.name for rows in groups.values() for row in rows]
    kept = set(_matching(names, options.pattern))
    say = sayer(options)
    listed: list[dict[str, Any]] = []
    first = max(map(len, kept), default=0)
    for heading, rows in groups.items():
        if heading and any(row.name in kept for row in rows):
            say(heading)
        for row in (row for row in rows if row.name in kept):
            claim = _claim(row)
            say(f"{row.name:<{first}}  {claim}, {row.expected}")
            if options.long:
                say(f"  {row.reason or row.source}")
            facts = {"expected": row.expected, "source": row.source, "reason": row.reason}
            listed.append({"name": row.name, "claim": str(claim), **facts})
    say_json(options, listed)
    return AS_EXPECTED


def _heading(one: Library) -> str:
    return f"--library {one.name}: {one.version}, {one.built() or 'not installed yet: the first audit does that'}"


def _matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that match a pattern, or hold it; all for none."""
    if pattern is None:
        return list(names)
    found = [name for name in names if pattern in name or fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise AuditError(f"Nothing that is listed matches {pattern!r}.{meant(pattern, names)}")
    return found


def _claim(row: Row) -> Claim | str:
    """The claim, or why it cannot be calculated here."""
    try:
        return row.claim if isinstance(row, Entry) and not hasattr(row, "stated_claim") else row.stated_claim
    except AuditError as error:
        return f"({error})"

"""``epsaudit list``: what is registered, and what released libraries have."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from epsaudit.adapters import registry
from epsaudit.adapters.registry import Entry, Listed, registered
from epsaudit.claims.definitions import Claim
from epsaudit.cli import AS_EXPECTED, say_json, sayer
from epsaudit.errors import AuditError, meant


def listing(pattern: str | None, *, long: bool, library: str | None, as_json: bool, quiet: bool) -> int:
    """List the mechanisms whose name matches the pattern, or holds it."""
    groups: dict[str, Sequence[Entry | Listed]]
    if library is None:
        groups = {"": list(registered().values())}
    else:
        chosen = [registry.library(library)] if library else registry.libraries().values()
        not_yet = "not installed yet: the first audit does that"
        groups = {f"--library {one.name}: {one.version}, {one.built() or not_yet}": one.rows for one in chosen}
    names = [row.name for rows in groups.values() for row in rows]
    kept = {name for name in names if pattern is None or pattern in name or fnmatch.fnmatchcase(name, pattern)}
    if pattern is not None and not kept:
        raise AuditError(f"Nothing that is listed matches {pattern!r}.{meant(pattern, names)}")
    say = sayer(quiet or as_json)
    listed: list[dict[str, Any]] = []
    first = max(map(len, kept), default=0)
    for heading, rows in groups.items():
        if heading and any(row.name in kept for row in rows):
            say(heading)
        for row in (row for row in rows if row.name in kept):
            claim = _claim(row)
            say(f"{row.name:<{first}}  {claim}, {row.expected}")
            if long:
                say(f"  {row.reason or row.source}")
            facts = {"expected": row.expected, "source": row.source, "reason": row.reason}
            listed.append({"name": row.name, "claim": str(claim), **facts})
    say_json(as_json, listed)
    return AS_EXPECTED


def _claim(row: Entry | Listed) -> Claim | str:
    """The claim, or why it cannot be calculated here."""
    try:
        return row.claim if isinstance(row, Entry) and not hasattr(row, "stated_claim") else row.stated_claim
    except AuditError as error:
        return f"({error})"

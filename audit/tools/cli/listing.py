"""The command ``epsaudit list``, which lists mechanisms."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from epsaudit.errors import AuditError, suggest_name
from epsaudit.running import registry
from epsaudit.running.registry import Entry, Listed, registered, usable
from epsaudit.tools.cli import AS_EXPECTED, attributes, print_json, printer


def list_mechanisms(
    pattern: str | None, *, long: bool, library: str | None, as_json: bool, quiet: bool, verbose: bool
) -> int:
    """Run ``epsaudit list``: print the mechanisms whose names match or contain ``pattern``, with their claims.

    A mechanism is left out if a library that it needs is not installed. With ``verbose``, or if no name matches, a
    warning names these mechanisms and libraries.
    """
    groups: dict[str, Sequence[Entry | Listed]] = {}
    if library is None:
        groups[""] = list((registered if verbose else usable)().values())
    else:
        for one in [registry.library(library)] if library else registry.libraries().values():
            built = one.built() or "not installed yet: the first audit does that"
            groups[f"--library {one.name}: {one.version}, {built}"] = one.rows
    names = [row.name for rows in groups.values() for row in rows]
    kept = {name for name in names if pattern is None or pattern in name or fnmatch.fnmatchcase(name, pattern)}
    if pattern is not None and not kept:
        if library is None and not verbose:
            registered()  # says what is left out, which may be what was asked for
        raise AuditError(f"No name matches {pattern!r}.{suggest_name(pattern, names)}")
    show, listed, first = printer(quiet or as_json), [], max(map(len, kept), default=0)
    for heading, rows in groups.items():
        shown = [row for row in rows if row.name in kept]
        if heading and shown:
            show(heading)
        for row in shown:
            try:
                claim = str(row.stated_claim if hasattr(row, "stated_claim") else row.claim)
            except AuditError as error:  # the claim needs a package that is not installed
                claim = f"({error})"
            show(f"{row.name:<{first}}  {claim}, {row.expected}" + f"\n  {row.reason or row.source}" * long)
            listed.append({"name": row.name, "claim": claim, **attributes(row, "expected", "source", "reason")})
    print_json(as_json, listed)
    return AS_EXPECTED

"""Checks that the commands which read result files share."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from epsaudit.errors import AuditError, suggest_name
from epsaudit.text import visible


def matching_names(names: Sequence[str], patterns: Sequence[str], file: Path) -> list[str]:
    """Return the names that match any of the patterns, or all names if there are no patterns.

    Raises `AuditError` if a pattern matches no name, or if there are no names.
    """
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise AuditError(f"{file} has no result named {pattern!r}.{suggest_name(pattern, names)}")
    if not names:
        raise AuditError(f"{file} contains no results.")
    return [name for name in names if not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def refuse_to_import(names: Sequence[str], file: Path, run: bool) -> None:
    """Raise `AuditError` if a name would import a module that only the result file names, and ``run`` is false.

    ``names`` are names of mechanisms; 'module:object' imports a module. A result file may come from somebody else, so
    that the user has to allow the import by the option --run.
    """
    if not run and (foreign := [name for name in dict.fromkeys(names) if ":" in name]):
        raise AuditError(
            f"Not run, because only {file} names it: {', '.join(map(visible, foreign))} would be imported. Read it "
            "first; --run runs it, and --mechanism PACKAGE.MODULE:OBJECT runs what you name."
        )

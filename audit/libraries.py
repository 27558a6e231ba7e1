"""What `epsaudit audit --library` audits: mechanisms of released libraries, each version in an environment of its own.

A package contributes libraries through the entry-point group ``epsaudit.libraries``; each entry point is a function
without arguments that returns them. They are apart from `epsaudit.registry`, because auditing them installs software.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from epsaudit.claims import Claim
from epsaudit.errors import AuditError, meant
from epsaudit.registry import Entry, Expected, collected


class Listed(Protocol):
    """A mechanism of a library as it is listed, without anything installed."""

    @property
    def name(self) -> str:
        """Version and mechanism, 'opendp-0.16.0/laplace'."""

    @property
    def stated_claim(self) -> Claim:
        """What is claimed of it; raises `AuditError` if that cannot be calculated here."""

    @property
    def expected(self) -> Expected:
        """The verdict that is expected."""

    @property
    def source(self) -> str:
        """Where mechanism and claim come from."""

    @property
    def reason(self) -> str:
        """What is known to be wrong with it, '' if nothing is."""


@dataclass(frozen=True)
class Library:
    """A library at one version.

    Attributes
    ----------
    name : str
        What a user types: 'opendp'.
    version : str
        Name and version: 'opendp-0.16.0'.
    rows : tuple of Listed
        Its mechanisms.
    built : callable
        Returns the path of its Python, None if it is not installed yet.
    entries : callable
        Installs it if need be, and returns the entries of some of its rows, in order; raises `AuditError` with the
        reason if it cannot be installed.
    """

    name: str
    version: str
    rows: tuple[Listed, ...]
    built: Callable[[], Path | None]
    entries: Callable[[Sequence[Listed]], Sequence[Entry]]


def libraries() -> dict[str, Library]:
    """Collect every library that installed packages register, by name; see `epsaudit.registry.collected`."""
    return collected("epsaudit.libraries", "libraries", Library)


def library(name: str) -> Library:
    """Look one up; raises `AuditError` for a name that means nothing."""
    known = libraries()
    if name not in known:
        there = ", ".join(known) or "none: a package registers them in the entry-point group epsaudit.libraries"
        raise AuditError(f"{name!r} is not a library; there are {there}.{meant(name, known)}")
    return known[name]


def entry_of(name: str) -> Entry | None:
    """Return the entry of the mechanism 'version/label', installed if need be; None if no library has it."""
    for one in libraries().values():
        for row in one.rows:
            if row.name == name:
                return one.entries([row])[0]
    return None


def matching(found: Sequence[Library], patterns: Sequence[str]) -> dict[str, list[Listed]]:
    """Return the rows of each library that one of the patterns names, with or without the version; all for none.

    Raises
    ------
    AuditError
        If a pattern names none.
    """
    kept: dict[str, list[Listed]] = {one.name: [] if patterns else list(one.rows) for one in found}
    for pattern in patterns:
        named = [(one, row) for one in found for row in one.rows if _names(pattern, row)]
        if not named:
            there = [row.name for one in found for row in one.rows]
            close = meant(pattern, [*there, *(name.partition("/")[2] for name in there)])
            raise AuditError(f"{pattern!r} names none of {', '.join(there)}.{close}")
        for one, row in named:
            if row not in kept[one.name]:
                kept[one.name].append(row)
    return kept


def _names(pattern: str, row: Listed) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in (row.name, row.name.partition("/")[2]))

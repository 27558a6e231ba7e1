"""What `epsaudit list` shows: named mechanisms with the verdict that theory expects.

A package contributes entries through the entry-point group ``epsaudit.registry``; each entry point is a function
without arguments that returns them. The harness itself knows none, so that it imports nothing it audits.
"""

from __future__ import annotations

import fnmatch
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Literal, Protocol, TypeVar

import cloudpickle

from epsaudit.claims import Claim
from epsaudit.errors import AuditError
from epsaudit.extras import MissingExtraError, left_out
from epsaudit.mechanism import Mechanism
from epsaudit.neighbours import DatasetPair

Expected = Literal["consistent", "violated"]


@dataclass(frozen=True)
class Entry:
    """One row of the main table: a mechanism audited against one claim.

    Attributes
    ----------
    name : str
        Unique, in kebab-case: what a user types.
    mechanism : Mechanism
        What is run.
    claim : Claim
        What is audited: the mechanism's own claim or another one that is made for it.
    pairs : sequence of DatasetPair, optional
        The pairs to audit; by default the mechanism's worst pairs.
    expected : 'consistent' or 'violated'
        What theory says of the claim.
    source : str
        Where the mechanism and the claim come from, with theorem numbers.
    reason : str
        For a incorrect variant: in one line, what is wrong.
    witnesses : 'auto' or 'all'
        As for `epsaudit.audit`: 'all' for a claim about an implementation to the last bit.
    """

    name: str
    mechanism: Mechanism
    claim: Claim
    pairs: Sequence[DatasetPair] | None = None
    expected: Expected = "consistent"
    source: str = ""
    reason: str = ""
    witnesses: str = "auto"


class Named(Protocol):
    """Whatever packages register under a name."""

    @property
    def name(self) -> str:
        """What a user types."""


Registered = TypeVar("Registered", bound=Named)


def registered() -> dict[str, Entry]:
    """Collect every installed entry by name; see `collected`."""
    entries: dict[str, Entry] = collected("epsaudit.registry", "mechanisms")
    return entries


def collected(group: str, what: str) -> dict[str, Registered]:
    """Collect by name what installed packages list under an entry-point group, in the order in which they list it.

    Parameters
    ----------
    group : str
        The group; each of its entry points names a function that returns an iterable.
    what : str
        What is registered, for the error.

    What needs a library that is not installed is left out with a warning, `epsaudit.extras.LeftOut`.

    Raises
    ------
    AuditError
        If two packages register one name.
    """
    found: dict[str, Registered] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            contributed: Iterable[Registered] = point.load()()
        except MissingExtraError as error:
            left_out(f"The {what} of {point.value} are", error)
            continue
        for one in contributed:
            if one.name in found:
                raise AuditError(f"Two {what} are registered as {one.name!r}; names must be unique.")
            found[one.name] = one
    return found


def chosen(names: Sequence[str], *, by_value: bool = False) -> list[Entry]:
    """Look up registered names, patterns ('broken/*') and package.module:object; everything registered for no names.

    With ``by_value`` the code of an object's module is pickled with it, for workers that cannot import it.

    Raises
    ------
    AuditError
        If a name means nothing, or an object is no mechanism or has no claim.
    """
    known = registered() if not names or any(":" not in name for name in names) else {}  # which takes seconds
    if not names:
        return list(known.values())
    entries: dict[str, Entry] = {}
    for name in names:
        if ":" in name:
            entry = _own(name, by_value)
            entries[entry.name] = entry
            continue
        matches = fnmatch.filter(known, name)
        if not matches:
            raise AuditError(
                f"{name!r} is not registered; 'epsaudit list' shows what is, and package.module:object names your own."
            )
        entries.update({match: known[match] for match in matches})
    return list(entries.values())


def _own(name: str, by_value: bool) -> Entry:
    """Import ``package.module:object``, with the current folder importable as for ``python -m``."""
    module_name, _, path = name.partition(":")
    sys.path.insert(0, os.getcwd())  # and there it stays, for workers that import the module again
    try:
        found: Any = importlib.import_module(module_name)
        if by_value:
            cloudpickle.register_pickle_by_value(found)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise AuditError(f"{name!r} cannot be imported ({error}); give package.module:object.") from error
    if isinstance(found, Entry):
        return found
    if not isinstance(found, Mechanism):
        raise AuditError(
            f"{name!r} is a {type(found).__name__}, not a mechanism; wrap a function by epsaudit.black_box or "
            "epsaudit.vectorized."
        )
    if not isinstance(found.claim, Claim):
        raise AuditError(f"{name!r} has no claim to audit; give it one, for instance claim=PureDP(1.0).")
    return Entry(name, found, found.claim)

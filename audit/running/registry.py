"""What `epsaudit list` shows: named mechanisms with the verdict that theory expects, and released libraries of them.

A package contributes entries through the entry-point group ``epsaudit.registry``, and libraries, which are installed
to be audited, through ``epsaudit.libraries``; each entry point is a function without arguments that returns them.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle

from epsaudit.claims.definitions import Claim, Expected
from epsaudit.data.neighbours import DatasetPair
from epsaudit.data.records import shorten
from epsaudit.errors import AuditError, LeftOut, MissingExtraError, OwnCodeError, Unusable, left_out, suggest_name
from epsaudit.running.functions import FunctionMechanism, called
from epsaudit.running.protocols import Mechanism


@dataclass(frozen=True)
class Entry:
    """One row of the main table: a mechanism audited against one claim."""

    name: str
    """Unique, in kebab-case: what a user types."""
    mechanism: Mechanism
    claim: Claim  # what is audited: the mechanism's own claim or another one that is made for it
    pairs: Sequence[DatasetPair] | None = None  # by default the mechanism's worst pairs
    expected: Expected | None = "consistent"  # what theory says; None where nobody knows
    source: str = ""  # where the mechanism and the claim come from, with theorem numbers
    reason: str = ""  # of an incorrect variant, in one line, what is wrong
    witnesses: str = "auto"  # as for `epsaudit.audit`: 'all' for a claim about an implementation to the last bit

    def all_pairs(self) -> Sequence[DatasetPair]:
        """Return its pairs, or the mechanism's own."""
        return self.pairs or self.mechanism.worst_pairs()


Listed = Any
"""A mechanism of a library as it is listed, nothing being installed: ``name`` ('opendp-0.16.0/laplace'), ``expected``,
``source`` and ``reason`` as of `Entry`, and ``stated_claim``, an `AuditError` if it cannot be calculated here."""


@dataclass(frozen=True)
class Library:
    """A library at one version."""

    name: str
    """What a user types: 'opendp'."""
    version: str  # name and version: 'opendp-0.16.0'
    rows: tuple[Listed, ...]
    built: Callable[[], Path | None]  # the path of its Python; None if it is not installed yet
    entries: Callable[[Sequence[Listed]], Sequence[Entry]]  # of rows; installs it if need be


Registered = TypeVar("Registered")


def registered() -> dict[str, Entry]:
    """Collect every installed entry by name; see `collected`."""
    return collected("epsaudit.registry", "mechanisms", Entry)


def libraries() -> dict[str, Library]:
    """Collect every registered library by name; see `collected`."""
    return collected("epsaudit.libraries", "libraries", Library)


def collected(group: str, what: str, kind: type[Registered]) -> dict[str, Registered]:
    """Collect by name what installed packages list under an entry-point group, in the order in which they list it.

    What cannot be used is left out with a warning: `LeftOut` where a library is missing, `Unusable` otherwise.
    """
    found: dict[str, Registered] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            for one in point.load()():
                if isinstance(one, kind) and one.name not in found:  # type: ignore[attr-defined]  # both kinds have one
                    found[one.name] = one  # type: ignore[attr-defined]  # as above
                else:
                    wrong = f"{shorten(one)} is no {kind.__name__}, or its name is taken."
                    left_out(f"One of the {what} of {point.value} is", wrong, Unusable)
        except MissingExtraError as error:
            left_out(f"The {what} of {point.value} are", error)
        except (Exception, SystemExit) as error:
            left_out(f"The {what} of {point.value} are", f"it raised {type(error).__name__}: {error}.", Unusable)
    return found


def chosen(names: Sequence[str], *, by_value: bool = False) -> list[Entry]:
    """Look up registered names, patterns ('broken/*') and package.module:object; everything registered for no names.

    With ``by_value`` an object's module is pickled with it, for workers that cannot import it. `AuditError` for others.
    """
    if not names:
        return list(registered().values())
    known: Mapping[str, Entry] = {}
    if any(":" not in name for name in names):  # else it would take seconds for nothing
        with warnings.catch_warnings():  # nobody asked for what needs a library that is not there
            warnings.simplefilter("ignore", LeftOut)
            warnings.simplefilter("always", Unusable)
            known = registered()
    entries: dict[str, Entry] = {}
    for name in names:
        if ":" in name:
            entry = _own(name, by_value)
            if entry.name in entries:  # two of one name: told apart by what was typed
                entry = dataclasses.replace(entry, name=name)
            entries[entry.name] = entry
        elif matches := fnmatch.filter(known, name):
            entries.update({match: known[match] for match in matches})
        else:
            own = "'epsaudit list' shows what is, and package.module:object names your own."
            raise AuditError(f"{name!r} is not registered.{suggest_name(name, known)} {own}")
    return list(entries.values())


def own_object(name: str, by_value: bool = False) -> Any:
    """Import ``package.module:object``, with the current folder importable as for ``python -m``, or FILE.py:object."""
    module_name, _, path = name.partition(":")
    folder = os.getcwd()
    if module_name.endswith(".py"):
        if not os.path.isfile(module_name):
            raise AuditError(f"There is no file {module_name!r} for {name!r}; give FILE.py:object.")
        folder, file = os.path.split(os.path.abspath(module_name))
        module_name = file.removesuffix(".py")
    if not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise AuditError(f"{name!r} names no object; give package.module:object, or FILE.py:object.")
    sys.path.insert(0, folder)  # and there it stays, for workers that import the module again
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise AuditError(f"There is no module {error.name!r} for {name!r}; give package.module:object.") from None
        raise OwnCodeError(f"{module_name} cannot be imported: it raised {type(error).__name__}: {error}.") from error
    if by_value:
        cloudpickle.register_pickle_by_value(found)
    for part in path.split("."):
        if not hasattr(found, part):
            there = getattr(found, "__dict__", {})
            mechanisms = [known for known, value in there.items() if isinstance(value, (Entry, Mechanism))]
            raise AuditError(
                f"{module_name} has no {path!r}.{suggest_name(part, mechanisms)} Give package.module:object."
            )
        found = getattr(found, part)
    return found


def library(name: str) -> Library:
    """Look one up; raises `AuditError` for a name that means nothing."""
    known = libraries()
    if name not in known:
        there = ", ".join(known) or "none: a package registers them in the entry-point group epsaudit.libraries"
        raise AuditError(f"{name!r} is not a library; there are {there}.{suggest_name(name, known)}")
    return known[name]


def _own(name: str, by_value: bool) -> Entry:
    found = own_object(name, by_value)
    if isinstance(found, Entry):
        return found
    if not isinstance(found, Mechanism):
        by = "wrap a function by epsaudit.black_box or epsaudit.vectorized"
        raise AuditError(f"{name!r} is of type {type(found).__name__}, not a mechanism; {by}.")
    if not isinstance(found.claim, Claim):
        raise AuditError(f"{name!r} has no claim to audit; give it one, for instance claim=PureDP(1.0).")
    named = not isinstance(found, FunctionMechanism) or found.name != called(found.function)
    return Entry(found.name if named else name, found, found.claim, expected=None)


def entry_of(name: str) -> Entry | None:
    """Return the entry of the mechanism 'version/label', installed if need be; None if no library has it."""
    rows = ((one, row) for one in libraries().values() for row in one.rows)
    return next((one.entries([row])[0] for one, row in rows if row.name == name), None)


def matching(found: Sequence[Library], patterns: Sequence[str]) -> dict[str, list[Listed]]:
    """Return the rows of each library that one of the patterns names, with or without the version; all for none."""
    labels = {row.name: (row.name, row.name.partition("/")[2]) for one in found for row in one.rows}
    for pattern in patterns:
        if not any(fnmatch.filter(both, pattern) for both in labels.values()):
            close = suggest_name(pattern, [label for both in labels.values() for label in both])
            raise AuditError(f"{pattern!r} names none of {', '.join(labels)}.{close}")
    kept: dict[str, list[Listed]] = {one.name: [] for one in found}
    for pattern in patterns or ["*"]:
        for one in found:
            kept[one.name] += [row for row in one.rows if fnmatch.filter(labels[row.name], pattern)]
    return {name: list({row.name: row for row in rows}.values()) for name, rows in kept.items()}

"""The registry that `epsaudit list` shows: named mechanisms with the expected verdict, and released libraries.

A package adds mechanisms through the entry-point group ``epsaudit.registry``, and libraries, which are installed when
they are audited, through ``epsaudit.libraries``. Each entry point is a function without arguments that returns a list.
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
from epsaudit.errors import (
    AuditError,
    LeftOut,
    MissingExtraError,
    OwnCodeError,
    Unusable,
    left_out,
    suggest_name,
    with_article,
)
from epsaudit.running.functions import FunctionMechanism, called, mechanism_of
from epsaudit.running.protocols import Mechanism


@dataclass(frozen=True)
class Entry:
    """A registered mechanism together with the claim to audit. It is one row of the main table.

    Attributes
    ----------
    name : str
        The unique name in kebab-case, which a user types.
    mechanism : Mechanism
        The mechanism.
    claim : Claim
        The claim to audit, which may differ from the claim of the mechanism.
    pairs : sequence of DatasetPair, optional
        The pairs of datasets; by default the mechanism's worst pairs.
    expected : Expected, optional
        The verdict that theory predicts; None if it is unknown.
    source : str
        Where the mechanism and the claim come from, with theorem numbers.
    reason : str
        What is wrong with an incorrect variant, in one line.
    witnesses : str
        As for `epsaudit.audit`. It is 'all' if the claim is about an implementation including its floating-point bits.
    """

    name: str
    mechanism: Mechanism
    claim: Claim
    pairs: Sequence[DatasetPair] | None = None
    expected: Expected | None = "consistent"
    source: str = ""
    reason: str = ""
    witnesses: str = "auto"

    def all_pairs(self) -> Sequence[DatasetPair]:
        """Return the pairs of the entry or, if it has none, the worst pairs of its mechanism."""
        return self.pairs or self.mechanism.worst_pairs()


Listed = Any
"""A mechanism of a library, as it is listed before the library is installed. It has the attributes ``name`` (for
example 'opendp-0.16.0/laplace'), ``expected``, ``source`` and ``reason`` of an `Entry`, and an attribute
``stated_claim``, which raises `AuditError` if the claim cannot be calculated in this environment."""


@dataclass(frozen=True)
class Library:
    """A library at one version.

    Attributes
    ----------
    name : str
        The name that a user types, for example 'opendp'.
    version : str
        The name and the version, for example 'opendp-0.16.0'.
    rows : tuple of Listed
        The mechanisms of the library, one for each row of the list that a user sees.
    built : callable
        Returns the path of the library's Python executable, or None if the library is not installed yet.
    entries : callable
        Returns the registry entries of the given rows. It installs the library if necessary.
    """

    name: str
    version: str
    rows: tuple[Listed, ...]
    built: Callable[[], Path | None]
    entries: Callable[[Sequence[Listed]], Sequence[Entry]]


Registered = TypeVar("Registered")


def registered() -> dict[str, Entry]:
    """Return all mechanisms that installed packages register, by name.

    Mechanisms that cannot be used are left out with a warning.
    """
    return collect("epsaudit.registry", "mechanisms", Entry)


def usable() -> dict[str, Entry]:
    """Return all registered mechanisms by name, without warnings about mechanisms whose library is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOut)
        warnings.simplefilter("always", Unusable)
        return registered()


def libraries() -> dict[str, Library]:
    """Return all libraries that installed packages register, by name.

    Libraries that cannot be used are left out with a warning.
    """
    return collect("epsaudit.libraries", "libraries", Library)


def collect(group: str, what: str, kind: type[Registered]) -> dict[str, Registered]:
    """Return the objects of class ``kind`` that installed packages register in an entry-point group, by name.

    An object that cannot be used is left out with a warning: `LeftOut` if a library is missing, `Unusable` otherwise.
    ``what`` is the plural noun for these objects in a warning.
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
    """Return the registry entries that names select.

    A name is a registered name, a pattern such as 'broken/*', or the place of an object of the user's, such as
    'package.module:object'. Without names, all registered entries are returned. If ``by_value`` is true, an object is
    pickled together with its module, for workers that cannot import the module. Raises `AuditError` for a name that is
    not registered.
    """
    if not names:
        return list(registered().values())
    known: Mapping[str, Entry] = {}
    if any(":" not in name for name in names):  # loading the registry takes seconds
        known = usable()
    entries: dict[str, Entry] = {}
    for name in names:
        if ":" in name:
            entry = own_entry(name, by_value)
            if entry.name in entries:  # two entries have the same name: use the name that was typed
                entry = dataclasses.replace(entry, name=name)
            entries[entry.name] = entry
        elif matches := fnmatch.filter(known, name):
            entries.update({match: known[match] for match in matches})
        else:
            own = "'epsaudit list' shows what is, and package.module:object names your own."
            raise AuditError(f"{name!r} is not registered.{suggest_name(name, known)} {own}")
    return list(entries.values())


def own_object(name: str, by_value: bool = False) -> Any:
    """Import an object of the user's, which is named as ``package.module:object`` or ``FILE.py:object``.

    Modules in the current folder can be imported, as with ``python -m``. If ``by_value`` is true, the object will be
    pickled together with its module. Raises `AuditError` if the module cannot be imported or has no such object.
    """
    module_name, _, path = name.partition(":")
    folder = os.getcwd()
    if module_name.endswith(".py"):
        if not os.path.isfile(module_name):
            hint = suggest_name(module_name, map(str, Path(os.path.dirname(module_name)).glob("*.py")))
            raise AuditError(f"There is no file {module_name!r} for {name!r}; give FILE.py:object.{hint}")
        folder, file = os.path.split(os.path.abspath(module_name))
        module_name = file.removesuffix(".py")
    if not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise AuditError(f"{name!r} names no object; give package.module:object, or FILE.py:object.")
    sys.path.insert(0, folder)  # it stays there for workers, which import the module again
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            hint = suggest_name(module_name, [file.stem for file in Path(folder).glob("*.py")])
            said = f"There is no module {error.name!r} for {name!r}; give package.module:object.{hint}"
            raise AuditError(said) from None
        raise OwnCodeError(f"{module_name} cannot be imported: it raised {type(error).__name__}: {error}.") from error
    if by_value:
        cloudpickle.register_pickle_by_value(found)
    for part in path.split("."):
        if not hasattr(found, part):
            there = getattr(found, "__dict__", {})
            auditable = [known for known, value in there.items() if isinstance(value, Entry) or callable(value)]
            hint = suggest_name(part, auditable) or " Give package.module:object."
            raise AuditError(f"{module_name} has no {path!r}.{hint}")
        found = getattr(found, part)
    return found


def library(name: str) -> Library:
    """Return the registered library with this name; raise `AuditError` if there is none."""
    known = libraries()
    if name not in known:
        there = ", ".join(known) or "none: a package registers them in the entry-point group epsaudit.libraries"
        raise AuditError(f"{name!r} is not a library; there are {there}.{suggest_name(name, known)}")
    return known[name]


def own_entry(
    name: str,
    by_value: bool = False,
    *,
    pairs: Sequence[DatasetPair] = (),
    claim: Claim | None = None,
    fresh: bool = False,
) -> Entry:
    """Return a registry entry for an object of the user's: an `Entry`, a mechanism, or a function.

    ``name`` is the place of the object, such as 'package.module:object'. ``pairs`` and ``claim`` replace those of a
    mechanism; a function has none and needs both. If ``fresh`` is true, the object is a factory, which is called
    without arguments before every run and returns the function. Raises `AuditError` if the object cannot be audited.
    """
    found = own_object(name, by_value)
    if isinstance(found, Entry):
        return dataclasses.replace(found, pairs=pairs or found.pairs, claim=claim or found.claim)
    is_mechanism = isinstance(found, Mechanism) and not isinstance(found, type)
    if not is_mechanism and not callable(found):
        raise AuditError(f"{name!r} is of type {type(found).__name__}; it must be a mechanism, or a function.")
    if not is_mechanism and not pairs:
        raise AuditError(
            f"{name!r} is {with_article(type(found).__name__)} without datasets; give two neighbouring ones, such as "
            f"""--pair '["ann"]' '["ann", "bob"]', or make a mechanism of it by epsaudit.black_box."""
        )
    mechanism = mechanism_of(None, fresh=found) if fresh else mechanism_of(found)
    if (claim := claim or mechanism.claim) is None or not isinstance(claim, Claim):
        raise AuditError(f"{name!r} has no claim to audit; give one, such as --epsilon 1, or claim=PureDP(1.0).")
    named = is_mechanism and (not isinstance(mechanism, FunctionMechanism) or mechanism.name != called(found.function))
    return Entry(mechanism.name if named else name, mechanism, claim, pairs or None, expected=None)


def entry_of(name: str) -> Entry | None:
    """Return the entry of a library's mechanism by its full name, for example 'opendp-0.16.0/laplace'.

    The library is installed if necessary. Returns None if no registered library has a mechanism of this name.
    """
    rows = ((one, row) for one in libraries().values() for row in one.rows)
    return next((one.entries([row])[0] for one, row in rows if row.name == name), None)


def matching(found: Sequence[Library], patterns: Sequence[str]) -> dict[str, list[Listed]]:
    """Return the listed mechanisms of each library that match one of the patterns, by the library's name.

    A pattern may contain the version ('opendp-0.16.0/laplace') or not ('laplace'). Without patterns, all mechanisms are
    returned. Raises `AuditError` for a pattern that matches nothing.
    """
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

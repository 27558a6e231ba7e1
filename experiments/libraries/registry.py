"""The libraries of `epsaudit audit --library NAME`: the newest version of each by its name, older ones by version.

Each library has the rows of `catalogue` and `findings` for it.
"""

from __future__ import annotations

from collections.abc import Callable

from epsaudit.adapters.registry import Library
from epsaudit.experiments.libraries.catalogue import diffprivlib_rows, opacus_rows, opendp_rows, smartnoise_rows
from epsaudit.experiments.libraries.corpus import Bug, bugs
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.libraries.rows import Row, entries
from epsaudit.experiments.libraries.unreported import unreported
from epsaudit.experiments.libraries.unreported_small import unreported_small

TABLES: tuple[Callable[[], list[Bug]], ...] = (
    bugs,
    unreported,
    unreported_small,
)
"""To add a table, add its function."""


def findings() -> list[Bug]:
    """Return the findings of all tables.

    Examples
    --------
    >>> findings()[0].reports
    ('IBM/differential-privacy-library#94',)
    """
    return [bug for table in TABLES for bug in table()]


def libraries() -> list[Library]:
    """Return the libraries, for the entry-point group ``epsaudit.libraries``.

    Examples
    --------
    >>> [library.name for library in libraries()][:5]
    ['opendp', 'diffprivlib', 'smartnoise-synth', 'opacus', 'diffprivlib-0.3.0']
    """
    newest = (opendp_rows(), diffprivlib_rows(), smartnoise_rows(), opacus_rows())
    names = {rows[0].version: rows[0].version.rpartition("-")[0] for rows in newest}
    by_version: dict[str, dict[str, Row]] = {rows[0].version: {row.name: row for row in rows} for rows in newest}
    for row in (case.row for bug in findings() for case in bug.cases):
        by_version.setdefault(row.version, {}).setdefault(row.name, row)
    return [
        Library(names.get(version, version), version, tuple(rows.values()), ENVIRONMENTS[version].built, entries)
        for version, rows in by_version.items()
    ]

"""The libraries that `epsaudit audit --library NAME` accepts.

The newest version of a library is listed under the library's name, and every older version under its name and version.
"""

from __future__ import annotations

from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.libraries.rows import Row, entries, findings, sound
from epsaudit.running.registry import Library

NEWEST = ("opendp-0.16.0", "diffprivlib-0.6.6", "smartnoise-synth-1.0.6", "opacus-1.6.0")


def libraries() -> list[Library]:
    """Return the libraries; the entry-point group ``epsaudit.libraries`` calls this function.

    Examples
    --------
    >>> [library.name for library in libraries()][:5]
    ['opendp', 'diffprivlib', 'smartnoise-synth', 'opacus', 'diffprivlib-0.3.0']
    """
    by_version: dict[str, list[Row]] = {version: [] for version in NEWEST}
    for row in (*(case for bug in findings() for case in bug.cases), *sound()):
        if row.pairs:
            by_version.setdefault(row.version, []).append(row)
    return [
        Library(
            version.rpartition("-")[0] if version in NEWEST else version,
            version,
            tuple(rows),
            ENVIRONMENTS[version].built,
            entries,
        )
        for version, rows in by_version.items()
    ]

"""All that was found wrong in released libraries: public reports first, then what nobody has reported."""

from __future__ import annotations

from collections.abc import Callable

from epsaudit.experiments.libraries.corpus import Bug, bugs
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

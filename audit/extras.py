"""What the core does without and reports, studies, accounting and clusters need: imported late, missed in one sentence.

The table says which extra of pyproject.toml brings a library; a test compares both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from epsaudit.errors import AuditError

EXTRAS = {
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "pandas": "studies",
    "polars": "studies",
    "statsmodels": "studies",
    "dp_accounting": "accounting",
    "dask": "cluster",
    "distributed": "cluster",
}


class MissingExtraError(AuditError):
    """A library that is not installed; the message says how to get it."""


class LeftOut(UserWarning):
    """What is not there because of a library that is not installed."""


class Unusable(LeftOut):
    """What is not there because a package registers what cannot be used."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Raise `MissingExtraError`, which says what extra to install, for the failure to import a library within.

    Examples
    --------
    >>> with needs("report"):
    ...     import a_library_for_drawing
    Traceback (most recent call last):
        ...
    epsaudit.extras.MissingExtraError: a_library_for_drawing is not installed; pip install 'epsaudit[report]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or str(error)).partition(".")[0]
        if name == "epsaudit":
            raise
        raise MissingExtraError(
            f"{name} is not installed; pip install 'epsaudit[{EXTRAS.get(name, extra)}]'."
        ) from error


def left_out(what: str, why: object, category: type[LeftOut] = LeftOut) -> None:
    """Warn that something is left out, and why; the command line prints it as a sentence."""
    warnings.warn(f"{what} left out: {why}", category, stacklevel=3)

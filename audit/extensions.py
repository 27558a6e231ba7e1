"""Find functions of the tools and of the reference mechanisms by which the core draws figures, traces, and so on.

The core never imports these functions. It finds them by the entry points of the group ``epsaudit.extensions``, so that
it also works where they are not installed. `EXTENSIONS` names and describes each extension.
"""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import Any

from epsaudit.errors import AuditError

ENTRY_POINT_GROUP = "epsaudit.extensions"
EXTENSIONS = {
    "exact_parameter": "the exact parameter of a claim for two output laws, None where it is not known",
    "load": "the results in a file, of every kind",
    "plot": "a matplotlib figure of a result",
    "progress": "a context manager that shows the progress of an audit",
    "separate_half": "the guess rule 'half' of earlier versions, which their result files name",
    "traces": "traces of a function on pairs of datasets",
}
"""The names of all extensions, each with what the function returns."""


@functools.cache
def find_extension(name: str) -> Any:
    """Return the function or class that an installed package registers under this extension name, or None.

    >>> find_extension("exact_parameter") is not None
    True
    """
    assert name in EXTENSIONS
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return point.load()
    return None


def extension(name: str) -> Any:
    """Return the function or class that an installed package registers under this extension name.

    Raises `AuditError` if no package registers this name.
    """
    found = find_extension(name)
    if found is None:
        raise AuditError(f"This needs {EXTENSIONS[name]}, which is not installed: install epsaudit as a whole.")
    return found

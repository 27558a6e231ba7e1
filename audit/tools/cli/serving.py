"""The command ``epsaudit serve``, which serves a Python function to an audit."""

from __future__ import annotations

import os
import shutil
import sys

from epsaudit import serve as server
from epsaudit.errors import AuditError
from epsaudit.tools.cli import AS_EXPECTED


def serve(function: str | None, parameters: str | None, *, python: str | None, data: str, fresh: bool) -> int:
    """Run ``epsaudit serve``: replace this process by a server that answers an audit's requests to run ``function``.

    If no function is given, print the path of the server program and return 0.
    """
    if function is None:
        print(server.__file__)
        return AS_EXPECTED
    python = python or sys.executable
    if shutil.which(python) is None:
        raise AuditError(f"--python is {python!r}, which is not an executable program; give a Python interpreter.")
    os.execvp(python, [python, server.__file__, function, parameters or "{}", "--data", data, *["--fresh"] * fresh])

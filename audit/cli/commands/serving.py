"""``epsaudit serve``: becomes the program that serves a function, or says where its file is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

from epsaudit.cli.commands import AS_EXPECTED
from epsaudit.errors import AuditError

FILE = Path(__file__).parents[2] / "adapters" / "serve.py"
"""Run by path, so that it needs nothing of this environment."""


def serve(options: SimpleNamespace) -> int:
    """Become the program."""
    if options.function is None:
        print(FILE)
        return AS_EXPECTED
    python = options.python or sys.executable
    if shutil.which(python) is None:
        raise AuditError(f"--python is {python!r}, which is no program that may be run.")
    words = [str(FILE), options.function, options.parameters or "{}", "--data", options.data]
    os.execvp(python, [python, *words])

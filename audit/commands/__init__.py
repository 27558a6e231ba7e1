"""What the subcommands of ``epsaudit`` do, one module each; their words and options are in `epsaudit.cli`.

A command takes its options as one object and returns an exit status. What it says goes through `sayer`, so that names
are printed as they are, whatever signs are in them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

AS_EXPECTED, SURPRISED, BAD_INPUT, OWN_CODE, INTERNAL, INTERRUPTED, NOBODY_READS = 0, 1, 2, 3, 4, 130, 141
"""Exit statuses: every verdict as expected, one not, wrong input, the audited code failed, a defect here, Ctrl-C, and
what shells say of a program whose output nobody reads any more."""


def sayer(options: Any) -> Callable[[str], None]:
    """Return what prints a line as it is; with ``--quiet`` and ``--json``, what does nothing."""
    silent = options.quiet or getattr(options, "json", False)
    return (lambda text: None) if silent else (lambda text: print(text, flush=True))


def say_json(options: Any, data: Any) -> None:
    """Print ``data`` as JSON if that was asked for."""
    if options.json:
        json.dump(data, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
        sys.stdout.write("\n")

"""What the subcommands of ``epsaudit`` do, one module each; their words and options are in `epsaudit.cli`.

A command takes its options as one object and returns an exit status. What it says goes through `printer` or `say`, so
that names are printed as they are, whatever signs are in them.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

AS_EXPECTED, SURPRISED, BAD_INPUT, OWN_CODE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit statuses: every verdict as expected, one not, wrong input, the audited code failed, a defect here, Ctrl-C."""


def printer(options: Any = None, *, stderr: bool = False) -> Console:
    """Return a console that prints names as they are: no markup, no emoji codes, nothing cut off.

    It is silent with ``--quiet`` and ``--json``.
    """
    from rich.console import Console

    silent = getattr(options, "quiet", False) or getattr(options, "json", False)
    return Console(stderr=stderr, quiet=silent, markup=False, emoji=False, highlight=False, soft_wrap=True)


def say_json(options: Any, data: Any) -> None:
    """Print ``data`` as JSON if that was asked for."""
    if options.json:
        json.dump(data, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
        sys.stdout.write("\n")

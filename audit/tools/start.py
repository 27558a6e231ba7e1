"""The entry of the command `epsaudit`, which says what to install if the command line is not installed."""

import sys

from epsaudit.errors import MissingExtraError, needs


def main() -> int:
    """Run the command line and return its exit status; 2 if a library of the extra ``tools`` is not installed."""
    try:
        with needs("tools"):
            from epsaudit.tools.cli.main import main as run
    except MissingExtraError as error:
        print(f"epsaudit: {error}", file=sys.stderr)
        return 2
    return run()

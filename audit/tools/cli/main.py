"""The command ``epsaudit``: its subcommands and its exit status.

The modules of the subcommands are imported only when a subcommand runs, so that help and completion are fast.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from epsaudit.errors import AuditError, LeftOut, OwnCodeError, Unusable, own_lines
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, COMMANDS, INTERNAL, INTERRUPTED, NOBODY_READS, OWN_CODE, Command
from epsaudit.tools.cli.settings import read_settings

NOTES = """\b
Exit status:
  0    every verdict is as expected
  1    a verdict is not: a claim is refuted, a bound has changed, or a file does not verify
  2    the input is wrong
  3    the audited code, or a package that registers mechanisms, has failed
  4    epsaudit itself has a defect
  130  interrupted by Ctrl-C
  141  the reader of the output has stopped reading

Completion: eval "$(_EPSAUDIT_COMPLETE=bash_source epsaudit)", or with zsh_source or fish_source."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. An error is printed as one sentence on standard error.

    ``arguments`` are the words after ``epsaudit``, by default those of ``sys.argv``.
    """
    left_out: list[Warning | str] = []
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="epsaudit")  # spells out Greek letters for terminals that lack them
    try:
        with _show_warnings(left_out):
            words = (sys.argv[1:] if arguments is None else list(arguments)) or ["--help"]
            how: dict[str, Any] = {"prog_name": "epsaudit", "standalone_mode": False, "obj": words}
            if words[0] == "audit":
                settings = read_settings(EPSAUDIT.commands["audit"], Path.cwd())
                if any(word.startswith(("--command", "--library")) for word in words):
                    settings.pop("names", None)  # something else is named
                how["default_map"] = {"audit": settings}
            status = EPSAUDIT.main(words, **how) or AS_EXPECTED
            sys.stdout.flush()
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "epsaudit"
        return _complain(f"{error.format_message().rstrip()} See '{where} --help'.", BAD_INPUT)
    except AuditError as error:
        lines = getattr(error, "lines", "") or own_lines(error.__cause__)
        return _complain(str(error), OWN_CODE if lines or isinstance(error, OwnCodeError) else BAD_INPUT, lines)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted.", INTERRUPTED)
    except (Exception, SystemExit) as error:
        of_click = traceback.extract_tb(error.__traceback__)[-1].filename == click.core.__file__
        if isinstance(error, SystemExit) and not error.code:  # shell completion ends this way
            return AS_EXPECTED
        if isinstance(error.__context__, BrokenPipeError) or (isinstance(error, SystemExit) and of_click):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes stdout when it exits
            return NOBODY_READS  # rich and click raise this
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return _complain(f"The output cannot be written ({error.strerror}).", BAD_INPUT)
        if lines := own_lines(error):
            return _complain(f"The audited code raised {type(error).__name__}:", OWN_CODE, lines)
        said = "".join(traceback.format_exception(error))
        return _complain("This is a defect of epsaudit; please report it with the lines below.", INTERNAL, said)
    unusable = any(isinstance(one, Unusable) for one in left_out)
    return OWN_CODE if unusable and status == AS_EXPECTED else int(status)


ASCII_SPELLINGS = {
    "ε": "epsilon",
    "δ": "delta",
    "ρ": "rho",
    "µ": "mu",
    "é": "e",
    "≥": ">=",
    "≤": "<=",
    "′": "'",
    "…": "...",
}
"""ASCII spellings of the special characters in the output."""


def _spell_out(error: Any) -> tuple[str, int]:
    """Spell out characters that the encoding of the terminal lacks, for example 'ε' as 'epsilon'.

    This is an error handler for Python's codecs: it gets the encoding error, and returns the replacement and the
    position at which encoding continues.
    """
    return "".join(ASCII_SPELLINGS.get(one, "?") for one in error.object[error.start : error.end]), error.end


codecs.register_error("epsaudit", _spell_out)


def _complain(sentence: str, status: int, lines: str = "") -> int:
    """Print an error message in one line on standard error, followed by the text ``lines``, and return ``status``."""
    sentence = re.sub(r"\s*\n\s*", " ", sentence.strip())
    print(f"epsaudit: {sentence}\n{lines}", end="", file=sys.stderr)
    return status


@contextlib.contextmanager
def _show_warnings(left_out: list[Warning | str]) -> Iterator[None]:
    """Print warnings of epsaudit as plain sentences on standard error inside this context.

    Warnings about mechanisms or outputs that had to be left out, for example because a library is missing, are also
    appended to the list ``left_out``.
    """
    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, LeftOut):
                left_out.append(message)
            if category is UserWarning or issubclass(category, LeftOut):
                print(f"epsaudit: {message}", file=sys.stderr)
            else:
                otherwise(message, category, *rest, **more)

        warnings.showwarning = show
        yield


EPSAUDIT = click.Group(
    "epsaudit",
    [Command(name, **table) for name, table in COMMANDS.items()],
    help="Certified lower bounds on privacy loss.",
    epilog=NOTES,
    no_args_is_help=False,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
click.version_option(package_name="epsaudit", message="%(prog)s %(version)s")(EPSAUDIT)
for contributed in entry_points(group="epsaudit.commands"):
    EPSAUDIT.add_command(contributed.load())


if __name__ == "__main__":
    sys.exit(main())

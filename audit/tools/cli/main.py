"""The ``epsaudit`` command: its subcommands, which ``commands.toml`` lists with their options, and exit statuses.

Words come in and go to the functions of `epsaudit.tools.cli`, which are imported only then: help and completion,
which need the words alone, come at once.
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
from typing import Any

import click

from epsaudit.errors import AuditError, LeftOut, OwnCodeError, Unusable, own_lines
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, COMMANDS, INTERNAL, INTERRUPTED, NOBODY_READS, OWN_CODE, Command

NOTES = """\b
Exit status:
  0    every verdict is as expected
  1    one is not: a claim is refuted, a bound moved, a file does not verify
  2    the input was wrong
  3    the code that is audited failed, or a package that registers some
  4    epsaudit itself has a defect
  130  Ctrl-C
  141  whoever read the output stopped reading

Completion: eval "$(_EPSAUDIT_COMPLETE=bash_source epsaudit)", or zsh_source, or fish_source."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; what went wrong is one sentence on standard error."""
    left_out: list[Warning | str] = []
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="epsaudit")  # for terminals without Greek letters
    try:
        with _sentences(left_out):
            words = sys.argv[1:] if arguments is None else list(arguments)
            status = EPSAUDIT.main(words, prog_name="epsaudit", standalone_mode=False, obj=words) or AS_EXPECTED
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
        if isinstance(error, SystemExit) and not error.code:  # completion ends so
            return AS_EXPECTED
        if isinstance(error.__context__, BrokenPipeError) or (isinstance(error, SystemExit) and of_click):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left at its end
            return NOBODY_READS  # rich and click leave so
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return _complain(f"The output cannot be written ({error.strerror}).", BAD_INPUT)
        if lines := own_lines(error):
            return _complain(f"The audited code raised {type(error).__name__}:", OWN_CODE, lines)
        said = "".join(traceback.format_exception(error))
        return _complain("This is a defect of epsaudit; please report it with the lines below.", INTERNAL, said)
    unusable = any(isinstance(one, Unusable) for one in left_out)
    return OWN_CODE if unusable and status == AS_EXPECTED else int(status)


WORDS = {"ε": "epsilon", "δ": "delta", "ρ": "rho", "µ": "mu", "é": "e", "≥": ">=", "≤": "<=", "′": "'", "…": "..."}


def _in_words(error: Any) -> tuple[str, int]:
    return "".join(WORDS.get(one, "?") for one in error.object[error.start : error.end]), error.end


codecs.register_error("epsaudit", _in_words)


def _complain(sentence: str, status: int, lines: str = "") -> int:
    sentence = re.sub(r"\s*\n\s*", " ", sentence.strip())
    print(f"epsaudit: {sentence}\n{lines}", end="", file=sys.stderr)
    return status


@contextlib.contextmanager
def _sentences(left_out: list[Warning | str]) -> Iterator[None]:
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

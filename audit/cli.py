"""The ``epsaudit`` command: its subcommands with their options, and the exit statuses.

Words come in and go to the functions of `epsaudit.commands`, which are imported only then: help and completion, which
need the words alone, come at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from epsaudit.commands import AS_EXPECTED, BAD_INPUT, INTERNAL, INTERRUPTED, NOBODY_READS, OWN_CODE
from epsaudit.commands.words import Command, NamedPath, Number, Option, completing
from epsaudit.errors import AuditError, OwnCodeError, confidence_of, finite_at_least, fraction, own_lines
from epsaudit.extras import LeftOut, Unusable

NOTES = """\b
Exit status:
  0    every verdict is as expected
  1    one is not: a claim is refuted, a bound moved, a file does not verify
  2    the input was wrong
  3    the code that is audited failed, or a package that registers some
  4    epsaudit itself has a defect
  130  Ctrl-C
  141  whoever read the output stopped reading

Defaults of options may stand in pyproject.toml, in a table for each command: [tool.epsaudit.audit].

Completion: eval "$(_EPSAUDIT_COMPLETE=bash_source epsaudit)", or zsh_source, or fish_source."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; what went wrong is one sentence on standard error."""
    left_out: list[Warning | str] = []
    try:
        with _sentences(left_out):
            words = None if arguments is None else list(arguments)
            status = EPSAUDIT.main(words, prog_name="epsaudit", standalone_mode=False) or AS_EXPECTED
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "epsaudit"
        return _complain(f"{error.format_message().rstrip()} See '{where} --help'.", BAD_INPUT)
    except AuditError as error:
        lines = getattr(error, "lines", "") or own_lines(error.__cause__)
        return _complain(str(error), OWN_CODE if lines or isinstance(error, OwnCodeError) else BAD_INPUT, lines)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted.", INTERRUPTED)
    except (Exception, SystemExit) as error:
        if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left at its end
            return NOBODY_READS
        if isinstance(error, SystemExit) and not error.code:  # completion ends so
            return AS_EXPECTED
        if lines := own_lines(error):
            return _complain(f"The audited code raised {type(error).__name__}:", OWN_CODE, lines)
        said = "".join(traceback.format_exception(error))
        return _complain("This is a defect of epsaudit; please report it with the lines below.", INTERNAL, said)
    unusable = any(isinstance(one, Unusable) for one in left_out)
    return OWN_CODE if unusable and status == AS_EXPECTED else int(status)


def _complain(sentence: str, status: int, lines: str = "") -> int:
    """Print a sentence, and lines of a traceback below it; return the exit status."""
    sentence = re.sub(r"\s*\n\s*", " ", sentence.strip())
    print(f"epsaudit: {sentence}\n{lines}", end="", file=sys.stderr)
    return status


@contextlib.contextmanager
def _sentences(left_out: list[Warning | str]) -> Iterator[None]:
    """Print what is left out as a sentence and collect it; other warnings are shown as they are."""
    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, LeftOut):
                left_out.append(message)
                print(f"epsaudit: {message}", file=sys.stderr)
            else:
                otherwise(message, category, *rest, **more)

        warnings.showwarning = show
        yield


def _positive(value: Any, what: str) -> float:
    return finite_at_least(value, 0.0, what)


def _error(value: Any, what: str) -> float:
    return fraction(value, what, open_below=True)


QUIET = Option("--quiet", "-q", is_flag=True, help="Print errors alone; the exit status says the rest.")
JSON = Option("--json", is_flag=True, help="Print the result as JSON, and nothing else.")
JOBS = Option("--jobs", type=int, help="Parallel workers.  [default: every core]")
CLAIM, PROGRAM = "A claim, for a program", "A program in any language (docs: how-to/other-languages)"
RESULT = click.Argument(["file"], help="A result file.", type=NamedPath(), metavar="RESULT.json")
MECHANISMS = completing("registry", "registered")

AUDIT = Command(
    "audit",
    "auditing.audit",
    "Audit registered mechanisms, or your own. Each gets a certified lower bound on its privacy loss, which may refute "
    "what is claimed.",
    [
        click.Argument(
            ["names"],
            help="Registered names or patterns, or package.module:object for your own mechanism; all that are "
            "registered if there is none.",
            nargs=-1,
            metavar="[NAME]...",
            shell_complete=MECHANISMS,
        ),
        Option("--trials", type=Number(_positive), help="Runs of each.  [default: 1e6; 1e5 with --library]"),
        Option("--confidence", type=Number(confidence_of), default=0.95, help="Of all bounds together."),
        Option("--seed", type=int, help="Makes the result reproducible.  [default: a fresh one, printed]"),
        JOBS,
        Option("--cluster", metavar="ADDRESS", help="Run on the workers of this dask scheduler."),
        Option(
            "--library",
            multiple=True,
            metavar="NAME",
            shell_complete=completing("libraries", "libraries"),
            help="Audit a released library, installed on demand in its own environment; may be given again. NAMEs "
            "choose among its mechanisms.",
        ),
        Option(
            "--out",
            type=NamedPath(),
            heading="What is written and printed",
            help="Folder for audit.json, .csv, .tex, .html, .png and .pdf.",
        ),
        Option(
            "--checkpoint",
            type=NamedPath(),
            heading="What is written and printed",
            help="Record finished chunks in this file; the same command goes on from them after any interruption.",
        ),
        Option("--json", is_flag=True, heading="What is written and printed", help=JSON.help),
        Option("--quiet", "-q", is_flag=True, heading="What is written and printed", help=QUIET.help),
        Option("--command", "program", metavar="'PROGRAM ARGUMENTS'", heading=PROGRAM, help="Audit this program."),
        Option(
            "--pair",
            nargs=2,
            multiple=True,
            metavar="X X_PRIME",
            heading=PROGRAM,
            help="Two neighbouring datasets as JSON; may be given again.",
        ),
        Option(
            "--timeout",
            type=Number(_positive),
            default=300.0,
            metavar="SECONDS",
            heading=PROGRAM,
            help="Of silence, before the program is given up.",
        ),
        Option(
            "--epsilon", type=float, heading=CLAIM, help="Pure DP; with --delta approximate, with --order Renyi DP."
        ),
        Option("--delta", type=float, heading=CLAIM, help="Of approximate DP."),
        Option("--order", type=float, heading=CLAIM, help="Of Renyi DP."),
        Option("--rho", type=float, heading=CLAIM, help="zCDP."),
        Option("--mu", type=float, heading=CLAIM, help="Gaussian DP."),
    ],
    """
    epsaudit audit laplace 'broken/*' --trials 1e5
    epsaudit audit mypackage.privacy:mechanism --seed 1 --out results
    epsaudit audit --command 'Rscript count.R' --pair '[1]' '[1, 2]' --epsilon 1
    """,
)
LIST = Command(
    "list",
    "listing.listing",
    "List registered mechanisms. Or those of released libraries, one a line.",
    [
        click.Argument(
            ["pattern"], help="Only names that match it, or hold it.", required=False, shell_complete=MECHANISMS
        ),
        Option("--long", "-l", is_flag=True, help="Say also where each comes from, or what is wrong with it."),
        Option(
            "--library",
            is_flag=False,
            flag_value="",
            metavar="[NAME]",
            help="List this released library's mechanisms instead, or all libraries'.",
        ),
        JSON,
        QUIET,
    ],
    """
    epsaudit list 'broken/*' --long
    epsaudit list --library opendp
    """,
)
COMPARE = Command(
    "compare",
    "comparing.compare_files",
    "Test whether bounds moved beyond chance. The exit status is 1 if one did.",
    [
        click.Argument(["old"], help="A result file.", type=NamedPath(), metavar="OLD.json"),
        click.Argument(["new"], help="The same, of newer code.", type=NamedPath(), metavar="NEW.json"),
        Option("--error", type=Number(_error), default=0.01, help="Probability of saying so if nothing did."),
        JSON,
        QUIET,
    ],
)
RECOUNT = Command(
    "recount",
    "comparing.recount",
    "Count old events on today's code. What is written can be compared with the result file that they are from.",
    [
        click.Argument(["old"], help="A result file.", type=NamedPath(), metavar="OLD.json"),
        Option("--out", type=NamedPath(), required=True, metavar="NEW.json", help="What is written."),
        Option("--seed", type=int, help="Other than the old one.  [default: a fresh one]"),
        JOBS,
        QUIET,
    ],
    "epsaudit recount old.json --out new.json && epsaudit compare old.json new.json",
)
VERIFY = Command(
    "verify",
    "verify.verify_file",
    "Recompute bounds from their counts. Or run the audits again; the exit status is 1 if anything is not as stored.",
    [
        RESULT,
        click.Argument(["names"], help="Only these results: names or patterns.", nargs=-1, metavar="[NAME]..."),
        Option("--rerun", is_flag=True, help="Run the audits again from their seeds, and compare."),
        Option(
            "--mechanism",
            metavar="PACKAGE.MODULE:OBJECT",
            help="What to run for a result that is not under a registered name.",
        ),
        JOBS,
        JSON,
        QUIET,
    ],
    "epsaudit verify results/audit.json laplace --rerun",
)
TEXTS = {
    "latex": "a table for LaTeX (booktabs)",
    "markdown": "a table in Markdown",
    "csv": "all fields, numbers in full precision",
    "methods": "the methods paragraphs of a paper and their BibTeX entries",
}
REPORT = Command(
    "report",
    "report.report",
    "Write tables, figures, a page of results. And the methods paragraphs of a paper.",
    [
        RESULT,
        Option(
            "--only", multiple=True, metavar="NAME", help="Only these results; a name or a pattern, may be repeated."
        ),
        Option("--html", type=NamedPath(), metavar="FILE", help="One self-contained page."),
        *(
            Option(f"--{name}", is_flag=False, flag_value="-", metavar="[FILE]", help=f"{words}; printed without FILE.")
            for name, words in TEXTS.items()
        ),
        Option("--figure", type=NamedPath(), metavar="FILE", help="A figure; FILE ends in .pdf, .png or .svg."),
        Option(
            "--kind",
            type=click.Choice(["bounds", "profile", "trade-off"]),
            default="bounds",
            help="Of the figure: certified against proven bounds, or the curve of one result.",
        ),
    ],
    """
    epsaudit report results/audit.json --markdown
    epsaudit report audit.json --only laplace --figure curve.pdf --kind trade-off
    """,
)
EXPERIMENT = click.Group(
    "experiment",
    help="List or run the published studies. Or say which results are stale.",
    no_args_is_help=False,
)
EXPERIMENT.add_command(Command("list", "experiment.listing", "List the studies.", [JSON, QUIET]))
EXPERIMENT.add_command(
    Command(
        "run",
        "experiment.run",
        "Run one study or all; the same seed gives the same data.",
        [
            click.Argument(
                ["name"], help="A study of the list, or 'all'.", shell_complete=completing("studies", "studies")
            ),
            Option("--quick", is_flag=True, help="A few seconds instead of minutes, for a look."),
            Option("--seed", type=int, default=0, help="Root of all random streams."),
            Option(
                "--out", type=NamedPath(), help="Folder of folders.  [default: results, results-quick with --quick]"
            ),
            Option(
                "--allow-modified",
                is_flag=True,
                help="Write although sources differ from the commit, which the results name then.",
            ),
            QUIET,
        ],
    )
)
EXPERIMENT.add_command(
    Command(
        "status",
        "experiment.status",
        "Say which stored results are older than the code that they depend on.",
        [
            click.Argument(
                ["folder"], help="What holds them: results if it is not given.", type=NamedPath(), default="results"
            ),
            JSON,
            QUIET,
        ],
    )
)
EPSAUDIT = click.Group(
    "epsaudit",
    help="Certified lower bounds on privacy loss.",
    epilog=NOTES,
    no_args_is_help=False,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
click.version_option(package_name="epsaudit", message="%(prog)s %(version)s")(EPSAUDIT)
for command in (AUDIT, LIST, REPORT, VERIFY, COMPARE, RECOUNT, EXPERIMENT):
    EPSAUDIT.add_command(command)


def _read_defaults() -> None:
    from epsaudit.commands.defaults import defaults

    click.get_current_context().default_map = defaults(EPSAUDIT.commands, Path.cwd())


EPSAUDIT.callback = _read_defaults


if __name__ == "__main__":
    sys.exit(main())

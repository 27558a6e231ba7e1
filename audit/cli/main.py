"""The ``epsaudit`` command: its subcommands with their options, and the exit statuses.

Words come in and go to the functions of `epsaudit.cli`, which are imported only then: help and completion,
which need the words alone, come at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any

import click

from epsaudit.cli import (
    ABOVE_0,
    AS_EXPECTED,
    BAD_INPUT,
    CHANCE,
    CONFIDENCE,
    DRAWN,
    INTERNAL,
    INTERRUPTED,
    JOBS,
    LIBRARIES,
    MECHANISMS,
    NOBODY_READS,
    OWN_CODE,
    PATH,
    PRINTED,
    QUIET,
    SEED,
    Command,
    argument,
    option,
)
from epsaudit.errors import AuditError, LeftOut, OwnCodeError, Unusable, own_lines

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
    try:
        with _sentences(left_out):
            words = sys.argv[1:] if arguments is None else list(arguments)
            status = EPSAUDIT.main(words, prog_name="epsaudit", standalone_mode=False, obj=words) or AS_EXPECTED
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


FORM = click.Choice(["plain", "array", "frame"])
NAMES = {"nargs": -1, "metavar": "[NAME]..."}
RESULT = argument("file", "A result file.", type=PATH, metavar="RESULT.json")
OLD = argument("old", "A result file.", type=PATH, metavar="OLD.json")

PROGRAM = {
    "A program in any language (docs: how-to/other-languages)": [
        option("--command 'PROGRAM ARGUMENTS'", "Audit this program.", name="program"),
        option("--pair X X_PRIME", "Two neighbouring datasets as JSON; may be given again.", nargs=2, multiple=True),
        option("--timeout SECONDS", "Of silence, before the program is given up.", type=ABOVE_0, default=300.0),
        option("--fresh", "Start the program anew for every run, whatever it keeps."),
    ],
    "A claim, for a program": [
        option("--epsilon", "Pure DP; with --delta approximate, with --order Renyi DP.", type=float),
        option("--delta", "Of approximate DP, or with --rho of approximate zCDP.", type=float),
        option("--order", "Of Renyi DP.", type=float),
        option("--rho", "zCDP.", type=float),
        option("--mu", "Gaussian DP.", type=float),
    ],
}
AUDIT = Command(
    "audit",
    "auditing.audit",
    "Audit registered mechanisms, or your own. Each gets a certified lower bound on its privacy loss, which may refute "
    "what is claimed.",
    [
        argument(
            "names",
            "Registered names or patterns, or package.module:object for your own mechanism; all that are registered "
            "if there is none.",
            shell_complete=MECHANISMS,
            **NAMES,
        ),
        option("--trials", "Runs of each.  [default: 1e6; 1e5 with --library]", type=ABOVE_0),
        option("--confidence", "Of all bounds together.", **CONFIDENCE),
        *DRAWN,
        option("--stop-early", "End each audit when its claim is refuted; it takes --trials at most."),
        option("--cluster ADDRESS", "Run on the workers of this dask scheduler."),
        option(
            "--library NAME",
            "Audit a released library, installed on demand in its own environment; may be given again. NAMEs choose "
            "among its mechanisms.",
            multiple=True,
            shell_complete=LIBRARIES,
        ),
    ],
    {
        "What is written and printed": [
            option("--out", "Folder for audit.json, .csv, .tex, .html, .png and .pdf.", type=PATH),
            option(
                "--checkpoint",
                "Record finished chunks in this file; the same command goes on from them after any interruption.",
                type=PATH,
            ),
            *PRINTED,
        ],
        **PROGRAM,
    },
    """
    epsaudit audit laplace 'broken/*' --trials 1e5
    epsaudit audit mypackage.privacy:mechanism --seed 1 --out results
    epsaudit audit --command 'Rscript count.R' --pair '[1]' '[1, 2]' --epsilon 1
    """,
)
FREEZE = Command(
    "freeze",
    "auditing.freeze_test",
    "Learn offline, and write a test that only counts. Any language runs it without learning, in milliseconds (docs: "
    "reference/frozen-tests).",
    [
        argument("names", "One registered name, or package.module:object.", shell_complete=MECHANISMS, **NAMES),
        option("--out FILE", "What is written, a witness.json.", type=PATH, required=True),
        option("--trials", "Runs to learn from.", type=ABOVE_0, default=100_000),
        option("--runs", "Runs that the test may take.", type=int, default=20_000),
        option("--false-alarm", "Probability at most that the test refutes a true claim.", type=CHANCE, default=1e-6),
        SEED,
        QUIET,
    ],
    PROGRAM,
    """
    epsaudit freeze mine:count --pair '[1]' '[1, 2]' --epsilon 1 --out witness.json
    epsaudit freeze --command 'Rscript count.R' --pair '[1]' '[1, 2]' --epsilon 1 --out witness.json
    """,
)
LIST = Command(
    "list",
    "auditing.listing",
    "List registered mechanisms. Or those of released libraries, one a line.",
    [
        argument("pattern", "Only names that match it, or hold it.", required=False, shell_complete=MECHANISMS),
        option("--long -l", "Say also where each comes from, or what is wrong with it."),
        option("--library [NAME]", "List a released library's mechanisms instead, or all libraries'.", flag_value=""),
        *PRINTED,
    ],
    examples="""
    epsaudit list 'broken/*' --long
    epsaudit list --library opendp
    """,
)
COMPARE = Command(
    "compare",
    "files.compare_files",
    "Test whether bounds moved beyond chance. The exit status is 1 if one did.",
    [
        OLD,
        argument("new", "The same, of newer code.", type=PATH, metavar="NEW.json"),
        option("--error", "Probability of saying so if nothing did.", type=CHANCE, default=0.01),
        *PRINTED,
    ],
)
RECOUNT = Command(
    "recount",
    "files.recount",
    "Count old events on today's code. What is written can be compared with the result file that they are from.",
    [
        OLD,
        option("--out NEW.json", "What is written.", type=PATH, required=True),
        option("--seed", "Other than the old one.  [default: a fresh one]", type=int),
        JOBS,
        QUIET,
    ],
    examples="epsaudit recount old.json --out new.json && epsaudit compare old.json new.json",
)
VERIFY = Command(
    "verify",
    "files.verify_file",
    "Recompute bounds from their counts. Or run the audits again; the exit status is 1 if anything is not as stored.",
    [
        RESULT,
        argument("names", "Only these results: names or patterns.", **NAMES),
        option("--rerun", "Run the audits again from their seeds, and compare."),
        option("--mechanism PACKAGE.MODULE:OBJECT", "What to run for a result that is not under a registered name."),
        JOBS,
        *PRINTED,
    ],
    examples="epsaudit verify results/audit.json laplace --rerun",
)
TEXTS = {
    "latex": "a table for LaTeX (booktabs)",
    "markdown": "a table in Markdown",
    "csv": "all fields, numbers in full precision",
    "methods": "the methods paragraphs of a paper and their BibTeX entries",
}
REPORT = Command(
    "report",
    "files.report",
    "Write tables, figures, a page of results. And the methods paragraphs of a paper.",
    [
        RESULT,
        option("--only NAME", "Only these results; a name or a pattern, may be repeated.", multiple=True),
        option("--html FILE", "One self-contained page.", type=PATH),
        *(
            option(f"--{name} [FILE]", f"{about}; printed without FILE.", flag_value="-")
            for name, about in TEXTS.items()
        ),
        option("--figure FILE", "A figure; FILE ends in .pdf, .png or .svg.", type=PATH),
        option(
            "--kind",
            "Of the figure: certified against proven bounds, or the curve of one result.",
            type=click.Choice(["bounds", "profile", "trade-off"]),
            default="bounds",
        ),
    ],
    examples="""
    epsaudit report results/audit.json --markdown
    epsaudit report audit.json --only laplace --figure curve.pdf --kind trade-off
    """,
)
REPRODUCE = Command(
    "reproduce",
    "files.reproduce",
    "Write a refuted claim as a script that stands alone. It has at most 60 lines and needs scipy and the library; "
    "function and datasets are known of audits of 'epsaudit serve'.",
    [
        RESULT,
        argument("name", "Of the result, where the file has several.", required=False),
        option("--out FILE", "The script.  [default: printed]", type=PATH),
        option("--issue FILE", "The text of an issue for the maintainers, in Markdown.", type=PATH),
        option("--function 'MODULE:FUNCTION PARAMETERS'", "What 'epsaudit serve' takes, where the file does not say."),
        option("--pair X X_PRIME", "The two datasets as JSON, where the file does not say.", nargs=2),
    ],
    examples="""
    epsaudit reproduce results/audit.json --out reproducer.py --issue issue.md
    epsaudit reproduce audit.json mean --function 'mine.py:mean' --pair '[1]' '[1, 2]'
    """,
)
SERVE = Command(
    "serve",
    "files.serve",
    "Serve a Python function to an audit, under any Python from 3.8 on. It speaks the protocol of --command; without a "
    "function it prints the path of the one file that does.",
    [
        argument("function", "module:function, or FILE.py:function; it takes a dataset.", required=False),
        argument("parameters", "The function's other arguments, as a JSON object.", required=False),
        option("--python PYTHON", "Of the environment that has the library.  [default: this one]"),
        option(
            "--data",
            "What the function takes a dataset as: JSON values, a numpy array, or a frame of pandas.",
            type=FORM,
            default="plain",
        ),
        option("--fresh", "Call it without arguments before every run: it makes what takes the dataset."),
    ],
    examples="""
    epsaudit audit --command 'epsaudit serve mine.py:count' --pair '[1]' '[1, 2]' --epsilon 1
    epsaudit serve --python env/bin/python --data array 'library.tools:mean' '{"epsilon": 1}'
    """,
)
HUNT = Command(
    "hunt",
    "hunting.run",
    "Find datasets and parameters that refute a claim. It needs a function and a short description of its data; what "
    "it finds is shrunk to the simplest pair and certified anew (docs: how-to/hunt).",
    [
        argument(
            "words",
            "A Python or the folder of an environment, this one if it is not given; and module:function, or "
            "FILE.py:function, as for serve.",
            nargs=-1,
            metavar="[ENV] MODULE:FUNCTION",
        ),
        option("--schema FILE", "The description of data and parameters: JSON or TOML.", type=PATH),
        option("--pair X X_PRIME", "Two datasets as JSON to try instead; may be given again.", nargs=2, multiple=True),
        option("--parameters JSON", "The function's other arguments, as a JSON object."),
        option("--adjacency NAME", "The relation that the claim is for, as in a schema.  [default: all are tried]"),
        option("--data", "What the function takes a dataset as.  [default: as the schema says]", type=FORM),
        option("--fresh", "Call it without arguments before every run: it makes what takes the dataset."),
        option("--audits", "Candidates that are audited at most.", type=int, default=6),
        option("--trials", "Runs of each audit at most.", type=ABOVE_0, default=50_000),
        option("--seconds", "For the whole hunt.  [default: no limit]", type=ABOVE_0),
        option(
            "--witnesses",
            "What events are learnt from: all looks at the last bits of floating-point numbers, too.",
            type=click.Choice(["auto", "all"]),
            default="auto",
        ),
        option("--timeout SECONDS", "Of silence, before the function is given up.", type=ABOVE_0, default=300.0),
        option("--confidence", "That no claim that holds is refuted.", **CONFIDENCE),
        *DRAWN,
    ],
    {
        "What is written and printed": [
            option("--out", "Folder for hunt.md, hunt.json, and a result file of each refuted pair.", type=PATH),
            *PRINTED,
        ],
        "A claim": [
            *PROGRAM["A claim, for a program"],
            option(
                "--claim MODULE:FUNCTION",
                "Read what the library states: a function in ENV, of the parameters, that returns its measurement or "
                "accountant, or numbers.",
            ),
        ],
    },
    """
    epsaudit hunt mine.py:count --schema schema.json --epsilon 1
    epsaudit hunt env library.tools:mean --schema schema.toml --epsilon 1 --seconds 120 --out found
    """,
)


EPSAUDIT = click.Group(
    "epsaudit",
    [AUDIT, FREEZE, LIST, REPORT, VERIFY, COMPARE, RECOUNT, HUNT, REPRODUCE, SERVE],
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

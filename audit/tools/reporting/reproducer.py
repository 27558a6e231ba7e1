"""A refuted claim as a short script and as the text of an issue, for the maintainers of the audited code.

A script needs only the audited library: it counts the event in new runs and computes exact p-values with its own code.
If a part of the finding is not known or would be too long, the script says so in a sentence and uses the stored counts
instead.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import keyword
import os
import re
import subprocess
import symtable
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.audits.sequential import SequentialResult
from epsaudit.bounds.certificates import MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.data.neighbours import RELATION_NOTE, DatasetPair
from epsaudit.errors import AuditError, cause_of
from epsaudit.results.result import AuditResult
from epsaudit.text import lower, percent, visible
from epsaudit.tools.reporting.tables import describe_pair
from epsaudit.tools.reporting.templating import fill_template
from epsaudit.witnesses.conditions import NoShortCondition, write_condition, write_literal

MAX_LINES = 60
"""Maximum number of lines of a script, so that its recipient reads it before running it."""
TARGET_P_VALUE = 1e-6
"""The p-value that the new runs of a script are expected to reach."""
MAX_SCRIPT_RUNS = 1 << 20
"""Maximum number of runs of a script whose stored result has no counts of the same game."""
MAX_FRESH_P_VALUE = 0.01
"""If the new runs of a script give a larger p-value than this, the script is refused because it shows nothing."""
SCRIPT_NAMES = {
    "run",
    "guess",
    "number",
    "plain",
    "tail",
    "p_value",
    "X",
    "X_PRIME",
    "EPSILON",
    "DELTA",
    "STORED",
    "counts",
}
RESERVED_NAMES = SCRIPT_NAMES | {"side", "audited", "copy", "math", "random", "Counter", "run_path"}
"""Names that a script defines or imports. The module of the audited function must not define them if it is copied into
the script."""
TANGENT_GRID = np.linspace(0.0, 8.0, 33)
"""Epsilons at which a claim about a whole curve is tested if its result has a Clopper-Pearson box as certificate."""


@dataclass(frozen=True)
class AuditedFunction:
    """The audited function as a reproducing script calls it, with its source code and the versions of its libraries.

    The script calls the function in the same way as ``epsaudit serve``. The fields ``takes``, ``versions`` and
    ``source`` are what the server program prints with ``--describe``. Raises `AuditError` if the name of a keyword
    argument is not an identifier, because the script contains this name as code.
    """

    name: str
    """Name of the function, 'module:function' or 'file.py:function'."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of every call."""
    data: str = "plain"
    """Type in which the function receives its data: 'plain', 'array' or 'frame'."""
    takes: Mapping[str, str] = field(default_factory=dict)
    """Parameters that receive randomness, and its kind: 'seed' or 'rng'."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the libraries that the module imports."""
    source: str = ""
    """Source code of the module, or '' if the module is installed."""
    python: str = ""
    """Python interpreter that runs the function."""
    folder: str = ""
    """Folder in which the module is searched."""

    def __post_init__(self) -> None:
        """Raise `AuditError` if the name of a keyword argument is not an identifier."""
        for name in [*self.parameters, *self.takes]:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise AuditError(f"{name!r} cannot be a parameter of {self.name}: it is not an identifier.")

    @property
    def file(self) -> str:
        """Path of the file that contains the function, if its name contains a path, as in 'FILE.py:function'."""
        return os.path.join(self.folder, self.name.rpartition(":")[0])

    @property
    def import_folder(self) -> str:
        """Folder that the script has to add to the import path before it can import the function."""
        return os.path.dirname(self.file) if self.file.endswith(".py") else self.folder

    @property
    def title(self) -> str:
        """Name of the library function that the audited function calls, such as 'diffprivlib.tools.mean'.

        If none is found in the source code, it is the name of the audited function.
        """
        with contextlib.suppress(SyntaxError):
            module, origin = ast.parse(self.source), dict[str, str]()
            for node in ast.walk(module):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                    origin |= {one.asname or one.name: of + one.name for one in node.names}
            libraries = {*self.versions} - {"numpy", "pandas", "scipy"}
            functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
            functions.sort(key=lambda node: node.name != self.local_name.partition(".")[0])  # it comes first
            for node in (part for one in functions for part in ast.walk(one)):
                if isinstance(node, ast.Call) and (name := re.match(r"[\w.]+", ast.unparse(node.func))):
                    head, dot, rest = name[0].partition(".")
                    if origin.get(head, "").partition(".")[0] in libraries:
                        return f"{origin[head]}{dot}{rest}"
        return self.name

    @property
    def local_name(self) -> str:
        """Name by which the script calls the function.

        It is the function's own name, or 'audited' if the script uses the function's name for something else.
        """
        head, dot, path = self.name.rpartition(":")[2].partition(".")
        return f"{'audited' if head in RESERVED_NAMES else head}{dot}{path}"

    def inline(self) -> list[str]:
        """Return the source lines of the function's module, to be copied into the script.

        Return an empty list if the module cannot be copied, because it needs its own location or defines a name that
        the script uses.
        """
        if "__" in self.source or "from ." in self.source:
            return []
        names = symtable.symtable(self.source, self.name, "exec").get_symbols()
        defined = {name.get_name() for name in names if name.is_assigned() and not name.is_imported()}
        return [] if defined & RESERVED_NAMES else self.source.strip().splitlines()


@dataclass(frozen=True)
class Reproducer:
    """Writes a refuted claim as a script and as the text of an issue, so that others can reproduce the refutation.

    The script draws one of the two datasets by a coin, runs the function, and guesses the dataset from the output (the
    membership game). It also tests the stored counts if they come from this game. Otherwise, as for sequential audits
    and Clopper-Pearson boxes, it uses new runs only. Raises `AuditError` if the claim is not refuted.
    """

    result: AuditResult | SequentialResult
    pair: DatasetPair | None = None
    function: AuditedFunction | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.result, AuditResult | SequentialResult):
            said = f"{self.result.mechanism} is a {type(self.result).__name__}"
            raise AuditError(f"{said}; only audits on pairs of datasets can be reproduced by a script.")
        if not self.result.violates_claim:
            name, exact = self.result.mechanism, self.result.exact
            if exact is not None and exact > self.result.proven:
                why = f"the exact value {exact:.4g} refutes the claim, which a trace with --certify shows again"
                raise AuditError(f"The runs of {name} do not refute the claim; {why}.")
            raise AuditError(f"The claim of {name} is not refuted; there is nothing to reproduce.")

    @functools.cached_property
    def game(self) -> MembershipGame:
        """The membership game that the script plays: a coin chooses a dataset, and a guess from the output names it.

        The object says at which point of the claim the guesses are tested.
        """
        result, claim = self.result, self.result.claim
        if isinstance(result, SequentialResult):
            return MembershipGame(result.rounds[-1].strategies[result.best].tangent)
        if isinstance(result.certificate, MembershipGame):
            return result.certificate
        if claim.claimed_point is not None:
            return MembershipGame()
        bounds = MembershipGame().delta(result.counts, TANGENT_GRID, result.confidence)
        return MembershipGame(float(TANGENT_GRID[int(np.argmax(claim.least_at(TANGENT_GRID, bounds)))]))

    @property
    def stored(self) -> bool:
        """Whether the stored counts of the result come from the script's game, so that the script can test them."""
        return isinstance(self.result, AuditResult) and self.game is self.result.certificate

    def omissions(self) -> list[str]:
        """Return sentences with the reasons why the script cannot make new runs; an empty list if it can."""
        found = []
        if self.function is None:
            found.append("The function is not known; give it as MODULE:FUNCTION.")
        if self.pair is None:
            found.append("The datasets are not known completely; give them as JSON.")
        try:
            self._body()
        except NoShortCondition as reason:
            found.append(f"The script makes no new runs, because {reason}; use epsaudit recount for that.")
        return found

    def script(self) -> str:
        """Return the source code of the script.

        The module of the audited function is copied into the script if it is short enough, and imported otherwise.
        Raises `AuditError` if neither new runs nor stored counts can be used, or if the script is too long.
        """
        result, (epsilon, delta), reasons = self.result, self.game.point(self.result.claim), self.omissions()
        if reasons and not self.stored:
            raise AuditError(f"{result.mechanism} has no script. {' '.join(reasons)}")
        function = self.function or AuditedFunction(result.mechanism)
        found = " ".join(f"{name} {version}" for name, version in function.versions.items())
        about = [
            f"{function.title}: {result.claim} does not hold.",
            f"Found {f'with {found} ' if found else ''}by epsaudit: {result.claim.symbol} >= "
            f"{lower(result.lower_bound)} at {percent(result.confidence)} confidence.",
        ]
        if reasons:
            about += textwrap.wrap(f"x = {result.x}; x' = {result.x_prime}.", 110)
            about += textwrap.wrap(" ".join([f"Event: {result.witness}.", *reasons]), 110)
        seen, stored = result.counts.to_dict(), dict[Any, int]()
        if self.stored:
            for side in ("x", "x_prime"):
                guessed: dict[Any, int] = {
                    (side, guess): seen[f"guess_{guess}_on_{side}"] for guess in ("x", "x_prime")
                }
                stored |= {**guessed, (side, None): seen[f"runs_{side}"] - sum(guessed.values())}
        module, _, name = function.name.rpartition(":")
        for inline in ("\n".join(function.inline()), ""):
            text = fill_template(
                "reproducer.txt",
                about="\n".join(about).replace("\\", "\\\\").replace('"', "'"),
                body={} if reasons else self._body(),
                function=function,
                inline=inline,
                module=module,
                head=name.partition(".")[0],
                called=function.local_name.partition(".")[0],
                epsilon=epsilon,
                delta=delta,
                share=self.game.share,
                events=seen["events"],
                stored={key: value for key, value in stored.items() if value},
                runs=0 if reasons else self._runs(),
            )
            if len(text.splitlines()) <= MAX_LINES:
                return text
        raise AuditError(
            f"The script of {result.mechanism} would have more than {MAX_LINES} lines; its conditions are too long."
        )

    def issue(self) -> str:
        """Return the text of an issue in Markdown, for the maintainers of the audited library.

        It includes the script if there is one, and the reasons from `omissions`.
        """
        result, (epsilon, delta), reasons = self.result, self.game.point(self.result.claim), self.omissions()
        text = self.script() if self.stored or not reasons else ""
        data = result.pair if result.x == result.x_prime else f"x = {result.x}, x' = {result.x_prime}"
        command = result.execution.get("command", "")
        return fill_template(
            "issue.txt",
            result=result,
            title=self.function.title if self.function else result.mechanism,
            versions=self.function.versions if self.function else {},
            implied="" if result.claim.claimed_point else f", which implies ({epsilon:.4g}, {delta:.4g})-DP,",
            data=data if self.pair is None else describe_pair(self.pair),
            sequential=isinstance(result, SequentialResult),
            reasons=reasons,
            command=command if command.startswith("pytest ") else "",
            script=text,
        )

    def rerun(self, text: str) -> float | None:
        """Run the given script in the Python environment of the audited function; return the p-value of its new runs.

        Returns None if the script makes no new runs. Raises `AuditError` if the script fails, or if the p-value exceeds
        `MAX_FRESH_P_VALUE`: the script would then show nothing.
        """
        if self.function is None or self.omissions():
            return None
        with tempfile.TemporaryDirectory() as folder:
            (path := Path(folder, "script.py")).write_text(text, encoding="utf-8")
            words = [self.function.python or sys.executable, str(path)]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        found = re.search(r"^fresh runs: .* p-value (\S+)$", done.stdout, re.MULTILINE)
        name = f"The script of {self.function.name}"
        if found is None:
            reason = cause_of(done.stderr) or "it printed no p-value"
            raise AuditError(f"{name} does not run by {words[0]}: {reason.rstrip('.')}.")
        if (p_value := float(found[1])) > MAX_FRESH_P_VALUE:
            raise AuditError(
                f"{name} shows nothing: its fresh runs have a p-value of {p_value:.3g}, above {MAX_FRESH_P_VALUE:g}."
            )
        return p_value

    def _body(self) -> dict[str, Any]:
        """Return the code fragments that the script needs for new runs: datasets, arguments, and conditions of guesses.

        Raises `NoShortCondition` if a fragment would be too long.
        """
        witness, pair, function = self.result.witness, self.pair or DatasetPair(None, None), self.function
        events = {"x": witness.guess_x, "x_prime": witness.guess_x_prime}
        guesses = {name: write_condition(event) for name, event in events.items() if event is not None}
        x, x_prime = write_literal(pair.x), write_literal(pair.x_prime)
        if max(len(x), len(x_prime)) > 1_000:
            raise NoShortCondition("the datasets are too long to print")
        fresh = {"seed": "random.getrandbits(32)", "rng": "np.random.default_rng()"}
        given = [
            f", {name}={write_literal(value)}" for name, value in (function.parameters if function else {}).items()
        ]
        given += [f", {name}={fresh[kind]}" for name, kind in (function.takes if function else {}).items()]
        return {
            "x": x,
            "x_prime": x_prime
            + "".join(f"  # {_line(note)}" for note in self.result.notes if note.startswith(RELATION_NOTE)),
            "given": "".join(given),
            "guesses": guesses,
        }

    def _runs(self) -> int:
        """Return the number of runs of the script: a power of 2 that is expected to give a p-value of `TARGET_P_VALUE`.

        If no number below the limit suffices, return the limit. The limit is the number of certification runs if the
        script uses the stored counts, and `MAX_SCRIPT_RUNS` otherwise.
        """
        result, runs = self.result, 64
        counted = int(result.counts.runs)
        most = counted if self.stored else MAX_SCRIPT_RUNS
        while runs < most:
            share = runs / counted
            scaled = {name: round(value * share) for name, value in result.counts.to_dict().items()}
            counts = Counts(**{**scaled, "events": result.counts.events})
            if self.game.parameter(result.claim, counts, 1.0 - TARGET_P_VALUE) > result.proven:
                return 2 * runs  # twice the expected number, because new runs may be unlucky
            runs *= 2
        return most


def _line(text: str) -> str:
    """Return the text without line breaks, so that it can be a comment of the script and cannot end this comment."""
    return visible(" ".join(text.split()))

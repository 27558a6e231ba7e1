"""A refuted claim as a short script and as the text of an issue, for those who maintain the code.

A script needs the library alone, counts afresh and computes exact p-values by code of its own. What is not known, or
cannot be written so short, it says in a sentence; then it takes the counts that are stored.
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
from epsaudit.bounds.certificates import Counts, MembershipGame
from epsaudit.data.neighbours import RELATION_NOTE, DatasetPair
from epsaudit.errors import AuditError, cause_of
from epsaudit.results.result import AuditResult
from epsaudit.text import lower, percent, visible
from epsaudit.tools.reporting.tables import told_apart
from epsaudit.witnesses.conditions import NoShortCondition, write_condition, write_literal

MOST_LINES = 60
"""Lines of a script, so that whoever gets it reads it before running it."""
SMALL = 1e-6
"""The p-value that fresh runs are expected to reach."""
MOST_RUNS = 1 << 20
"""Runs of a script whose counts are not those of the result."""
SHOWN = 0.01
"""The p-value of fresh runs above which a script shows nothing."""
OWN = {"run", "guess", "number", "plain", "tail", "p_value", "X", "X_PRIME", "EPSILON", "DELTA", "STORED", "counts"}
NAMES = OWN | {"side", "audited", "copy", "math", "random", "Counter", "run_path"}
"""What a script defines or imports itself, and what is audited must not define."""
TANGENTS = np.linspace(0.0, 8.0, 33)
"""Where a claim about a whole curve is tested whose result is of a Clopper-Pearson box."""


@dataclass(frozen=True)
class Function:
    """What a script calls: as ``epsaudit serve`` does, whose ``--describe`` says the last three."""

    name: str
    """'module:function'."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: str = "plain"
    """Or 'array' or 'frame'."""
    takes: Mapping[str, str] = field(default_factory=dict)
    """Which of its parameters are given randomness, and what: 'seed' or 'rng'."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the libraries that its module names."""
    source: str = ""
    """Of its module, '' for one that is installed."""
    python: str = ""
    """That it runs in."""
    folder: str = ""
    """That its module is looked for in."""

    def __post_init__(self) -> None:
        """Raise `AuditError` for a keyword argument that is no name: a script contains it as code."""
        for name in [*self.parameters, *self.takes]:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise AuditError(f"{name!r} is no name of a parameter of {self.name}.")

    @property
    def file(self) -> str:
        return os.path.join(self.folder, self.name.rpartition(":")[0])

    @property
    def home(self) -> str:
        return os.path.dirname(self.file) if self.file.endswith(".py") else self.folder

    @property
    def title(self) -> str:
        """The library's function that it calls, 'diffprivlib.tools.mean', or else itself."""
        with contextlib.suppress(SyntaxError):
            module, origin = ast.parse(self.source), dict[str, str]()
            for node in ast.walk(module):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                    origin |= {one.asname or one.name: of + one.name for one in node.names}
            libraries = {*self.versions} - {"numpy", "pandas", "scipy"}
            functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
            functions.sort(key=lambda node: node.name != self.called.partition(".")[0])  # itself first
            for node in (part for one in functions for part in ast.walk(one)):
                if isinstance(node, ast.Call) and (name := re.match(r"[\w.]+", ast.unparse(node.func))):
                    head, dot, rest = name[0].partition(".")
                    if origin.get(head, "").partition(".")[0] in libraries:
                        return f"{origin[head]}{dot}{rest}"
        return self.name

    @property
    def called(self) -> str:
        head, dot, path = self.name.rpartition(":")[2].partition(".")
        return f"{'audited' if head in NAMES else head}{dot}{path}"

    def inline(self) -> list[str]:
        """The lines of its module, none where they need the module's place or have names of the script's own."""
        if "__" in self.source or "from ." in self.source:
            return []
        names = symtable.symtable(self.source, self.name, "exec").get_symbols()
        defined = {name.get_name() for name in names if name.is_assigned() and not name.is_imported()}
        return [] if defined & NAMES else self.source.strip().splitlines()


@dataclass(frozen=True)
class Reproducer:
    """A refuted claim to be shown to others; raises `AuditError` for a claim that is not refuted.

    A script plays the membership game; those of sequential audits and of Clopper-Pearson boxes count afresh only.
    """

    result: AuditResult | SequentialResult
    pair: DatasetPair | None = None
    function: Function | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.result, AuditResult | SequentialResult):
            said = f"{self.result.mechanism} is a {type(self.result).__name__}"
            raise AuditError(f"{said}; a reproducer is made of an audit on pairs of datasets.")
        if not self.result.violates_claim:
            name, exact = self.result.mechanism, self.result.exact
            if exact is not None and exact > self.result.proven:
                why = f"the exact value {exact:.4g} refutes the claim, which a trace with --certify shows again"
                raise AuditError(f"The runs of {name} do not refute the claim; {why}.")
            raise AuditError(f"The claim of {name} is not refuted; there is nothing to reproduce.")

    @functools.cached_property
    def game(self) -> MembershipGame:
        result, claim = self.result, self.result.claim
        if isinstance(result, SequentialResult):
            return MembershipGame(result.rounds[-1].strategies[result.best].tangent)
        if isinstance(result.certificate, MembershipGame):
            return result.certificate
        if claim.claimed_point is not None:
            return MembershipGame()
        bounds = MembershipGame().delta(result.counts, TANGENTS, result.confidence)
        return MembershipGame(float(TANGENTS[int(np.argmax(claim.least_at(TANGENTS, bounds)))]))

    @property
    def stored(self) -> bool:
        return isinstance(self.result, AuditResult) and self.game is self.result.certificate

    def left_out(self) -> list[str]:
        """Sentences about what a script cannot run, which is then left to the counts; none if it can run."""
        found = []
        if self.function is None:
            found.append("The function is not known: give it as module:function.")
        if self.pair is None:
            found.append("The datasets are not known whole: give them as JSON.")
        try:
            self._body()
        except NoShortCondition as reason:
            found.append(f"It does not count afresh, for {reason}; epsaudit recount does.")
        return found

    def script(self) -> str:
        """Write the script: the function's own module in it where that is short, else its name."""
        result, (epsilon, delta), reasons = self.result, self.game.point(self.result.claim), self.left_out()
        if reasons and not self.stored:
            raise AuditError(f"{result.mechanism} has no script. {' '.join(reasons)}")
        function = self.function or Function(result.mechanism)
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
            text = written(
                "reproducer.txt",
                about="\n".join(about).replace("\\", "\\\\").replace('"', "'"),
                body={} if reasons else self._body(),
                function=function,
                inline=inline,
                module=module,
                head=name.partition(".")[0],
                called=function.called.partition(".")[0],
                epsilon=epsilon,
                delta=delta,
                share=self.game.share,
                events=seen["events"],
                stored={key: value for key, value in stored.items() if value},
                runs=0 if reasons else self._runs(),
            )
            if len(text.splitlines()) <= MOST_LINES:
                return text
        raise AuditError(f"The script of {result.mechanism} has over {MOST_LINES} lines.")

    def issue(self) -> str:
        """Write the text of an issue in Markdown; what cannot be written is left out, as `left_out` says."""
        result, (epsilon, delta), reasons = self.result, self.game.point(self.result.claim), self.left_out()
        text = self.script() if self.stored or not reasons else ""
        data = result.pair if result.x == result.x_prime else f"x = {result.x}, x' = {result.x_prime}"
        command = result.execution.get("command", "")
        return written(
            "issue.txt",
            result=result,
            title=self.function.title if self.function else result.mechanism,
            versions=self.function.versions if self.function else {},
            implied="" if result.claim.claimed_point else f", which implies ({epsilon:.4g}, {delta:.4g})-DP,",
            data=data if self.pair is None else told_apart(self.pair),
            sequential=isinstance(result, SequentialResult),
            reasons=reasons,
            command=command if command.startswith("pytest ") else "",
            script=text,
        )

    def fresh(self, text: str) -> float | None:
        """Run a script where its function runs; return the p-value of the fresh runs, or None if it makes none.

        `AuditError` if it fails, or if the p-value is above `SHOWN`: then the script shows nothing.
        """
        if self.function is None or self.left_out():
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
        if (p_value := float(found[1])) > SHOWN:
            raise AuditError(f"{name} shows nothing: its fresh runs have a p-value of {p_value:.3g}, above {SHOWN:g}.")
        return p_value

    def _body(self) -> dict[str, Any]:
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
        """The least power of 2 of runs expected to reach `SMALL`, but no more than were certified, or `MOST_RUNS`."""
        result, runs = self.result, 64
        counted = int(result.counts.runs)
        most = counted if self.stored else MOST_RUNS
        while runs < most:
            share = runs / counted
            scaled = {name: round(value * share) for name, value in result.counts.to_dict().items()}
            counts = Counts(**{**scaled, "events": result.counts.events})
            if self.game.parameter(result.claim, counts, 1.0 - SMALL) > result.proven:
                return 2 * runs  # for luck is not always kind
            runs *= 2
        return most


def _line(text: str) -> str:
    """Write a text in one line, so that it cannot end a comment of a script."""
    return visible(" ".join(text.split()))


def templates(**how: Any) -> Any:
    """Return what fills in the templates of reports."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsaudit.tools.reporting"), undefined=jinja2.StrictUndefined, **how
    )
    environment.filters |= {"lower": lower, "percent": percent}
    return environment


def written(template: str, **facts: Any) -> str:
    """Fill in a template of plain text."""
    environment = templates(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    text: str = environment.get_template(template).render(**facts)
    return text

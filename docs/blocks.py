"""Run the code blocks of a documentation page and compare their printed output with the output shown on the page.

The blocks of a page form one script, which runs in the current folder:

- All Python blocks of a page share one namespace. A Python block whose first line is ``# NAME.py`` is not run but
  written to that file. A YAML or TOML block is written to the file that its first line names, too.
- A bash block runs with the programs of this Python environment first on the path. Exit status 1 is the verdict of an
  audit and does not count as a failure.
- Pages install epsaudit from ``/path/to/epsaudit``, which stands for this repository, because no package index has it.
  With ``INSTALL``, lines that begin with ``pip install`` are run. Otherwise it is checked that this repository has the
  extras and this environment the packages that they name.
- A text block is compared with the output of the block before it. White space is ignored, and ``...`` stands for
  omitted text.
- JSON, YAML and TOML blocks must be well formed.

A block that cannot be run is marked by ``<!-- skip: next "reason" -->`` above it, and a block that needs a library by
``<!-- skip: next if(missing("torch"), reason="needs torch") -->``. ``python docs/blocks.py`` runs the blocks and writes
their current output into the pages. It does not change an output in which a line begins with ``...``; such an output
must be edited by hand.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from unittest import SkipTest

import yaml
from sybil import Sybil
from sybil.example import Example, SybilFailure
from sybil.parsers.markdown import CodeBlockParser, SkipParser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILE = re.compile(r"# (\.?[\w-]+\.(?:py|ini|toml|yaml))\n")
OUTPUT = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
LEFT_OUT = re.compile(r"^\s*\.\.\.", re.MULTILINE)
"""Three dots at the beginning of a line stand for omitted lines; elsewhere they are often part of a usage message."""
SECONDS, INSTALL_SECONDS = 300, 1_800
"""Time limit of a bash block, and of a block that installs something."""
PROGRAMS = str(Path(sys.executable).parent)
"""Folder in which bash blocks look for programs first."""
PLACEHOLDER = re.compile(r"/path/to/epsaudit(?:\[([\w,]*)\])?")
"""What pages install, with the names of extras."""
ONLY_WEEKLY = {"pre-commit"}
"""Packages that pages install and the environment of the tests does not have; `tests/test_walk.py` installs them."""
INSTALL = False
"""Whether lines that install something are run."""
SOURCE, EXTRAS = str(ROOT), None
"""What is installed in place of ``/path/to/epsaudit``, and the extras in place of those of the page if this is text."""


class OtherOutput(SybilFailure):
    """A failure because a block printed another output than the page shows."""

    def __init__(self, example: Example, printed: str) -> None:
        super().__init__(example, f"the page shows\n{example.parsed}\nbut it prints\n{printed}")
        self.printed = printed


def failures(page: Path) -> Iterator[SybilFailure]:
    """Run the blocks of a page in the current folder and yield a failure for each block that went wrong."""
    before, here = set(sys.modules), Path.cwd()
    sys.path.insert(0, str(here))
    try:
        document = BLOCKS.parse(page)
        document.namespace["missing"] = missing
        for example in document.examples():
            try:
                example.evaluate()
            except SkipTest as skipped:
                if len(str(skipped)) < 6:
                    yield SybilFailure(example, "skipped without a reason")
            except SybilFailure as failure:
                yield failure
    finally:
        sys.path.remove(str(here))
        for name in set(sys.modules) - before:  # modules that the page wrote to a file and imported
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == here:
                del sys.modules[name]


def missing(library: str) -> bool:
    """Return whether a library cannot be imported."""
    return importlib.util.find_spec(library) is None


def languages(page: Path) -> set[str]:
    """Return the set of languages of the code blocks of a page, with '' for a block without a language."""
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {(language.split() or [""])[0] for language in fences[::2]}


def rewrite(page: Path) -> int:
    """Run the blocks of a page, write their output into the page, and return the number of outputs that changed.

    If a block fails for another reason, or an output with omitted lines differs, print these failures, leave the page
    unchanged and return 0.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = list(failures(page))
    others = [one for one in found if not isinstance(one, OtherOutput) or LEFT_OUT.search(one.example.parsed)]
    for one in others:
        print(one)
    if others:  # a failed block may have changed the output of later blocks
        return 0
    text = page.read_text(encoding="utf-8")
    for one in reversed(found):  # from the end of the page, so that earlier positions stay valid
        body = "\n".join(line.rstrip() for line in one.printed.strip("\n").splitlines())
        start, end = one.example.region.start, one.example.region.end
        text = f"{text[:start]}```text\n{body}\n```{text[end:]}"
    page.write_text(text, encoding="utf-8")
    return len(found)


def _run_python(example: Example) -> None:
    if _is_file(example):
        return
    # The name is that of a script, so that functions are sent to workers by value.
    example.namespace.setdefault("__name__", "__main__")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example.parsed, f"{example.path}:{example.line}", "exec", dont_inherit=True), example.namespace)
    example.namespace["printed"] = printed.getvalue()


def _run_bash(example: Example) -> str | None:
    commands = []
    for line in example.parsed.splitlines():
        if INSTALL or not line.startswith("pip install"):
            commands.append(PLACEHOLDER.sub(_what_to_install, line))
        elif complaint := _cannot_install(line):
            return complaint
    done = subprocess.run(
        ["bash", "-c", "\n".join(commands)],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ".", "COLUMNS": "120"},
        timeout=INSTALL_SECONDS if INSTALL else SECONDS,
        check=False,
    )
    importlib.invalidate_caches()  # the block may have installed or written modules
    example.namespace["printed"] = done.stdout
    if done.returncode in (0, 1) and "Traceback" not in done.stderr:
        return None
    return f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"


def _what_to_install(found: re.Match[str]) -> str:
    """Return the source of epsaudit, with extras, for its placeholder."""
    extras = found[1] if EXTRAS is None else EXTRAS
    return f"{SOURCE}[{extras}]" if extras else SOURCE


def _cannot_install(line: str) -> str | None:
    """Return why a line ``pip install ...`` could not do what a page expects from it, or None if it could."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in shlex.split(line, comments=True)[2:]:
        if found := PLACEHOLDER.fullmatch(word):
            if unknown := {*filter(None, (found[1] or "").split(","))} - {*project["optional-dependencies"]}:
                return f"epsaudit has no extra {', '.join(sorted(unknown))}: {line}"
        elif not word.startswith("-") and word not in ONLY_WEEKLY:
            try:
                distribution(word)
            except PackageNotFoundError:
                return f"{word} is not installed here, so that this cannot be checked: {line}"
            if word == project["name"]:
                return f"{word} is on no package index; install it from /path/to/{word}: {line}"
    return None


def _compare(example: Example) -> str | None:
    printed = example.namespace.pop("printed", None)
    if printed is None:
        return "a block of text after no block that printed anything"
    if not doctest.OutputChecker().check_output(example.parsed, printed, OUTPUT):
        raise OtherOutput(example, printed)
    return None


def _is_file(example: Example) -> bool:
    """Return whether the block names a file in its first line, and if so, write the block to this file."""
    named = FILE.match(example.parsed)
    if named:
        Path(named[1]).write_text(example.parsed, encoding="utf-8")
    return bool(named)


def _loads(reader: Callable[[str], Any]) -> Callable[[Example], None]:
    def load(example: Example) -> None:
        _is_file(example)
        reader(example.parsed)

    return load


EVALUATORS: dict[str, Callable[[Example], str | None]] = {
    "python": _run_python,
    "bash": _run_bash,
    "text": _compare,
    "json": _loads(json.loads),
    "yaml": _loads(yaml.safe_load),
    "toml": _loads(tomllib.loads),
}
BLOCKS = Sybil([SkipParser(), *(CodeBlockParser(language, run) for language, run in EVALUATORS.items())])


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        print(f"{path.relative_to(ROOT)}: {rewrite(path)} outputs changed")

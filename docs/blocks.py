"""Run the code blocks of a page of the documentation and compare what they print with what the page shows.

A page is one script, run in the current folder:

- A block of python runs in one namespace a page; one whose first line is ``# NAME.py`` is written to that file.
- A block of bash runs with this environment's programs first on the path; exit status 1 is a verdict, no failure.
- A block of text is what the block before it printed, up to white space, with ``...`` for what is left out.
- Blocks of json, yaml and toml must be well formed.

What cannot run stands under ``<!-- skip: next "reason" -->``. ``python docs/blocks.py`` writes what the blocks print
now into the pages, but for outputs in which a line begins with ``...``: those a person has to mend.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

import yaml
from sybil import Sybil
from sybil.example import Example, SybilFailure
from sybil.parsers.markdown import CodeBlockParser, SkipParser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILE = re.compile(r"# (\w+\.(?:py|ini|toml))\n")
OUTPUT = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
LEFT_OUT = re.compile(r"^\s*\.\.\.", re.MULTILINE)
"""A line that begins so stands for others; elsewhere three dots are often part of a usage message."""
SECONDS = 300
PROGRAMS = str(Path(sys.executable).parent)
"""Where programs of bash blocks are looked for first."""


class OtherOutput(SybilFailure):
    """A block printed something else than the page shows."""

    def __init__(self, example: Example, printed: str) -> None:
        super().__init__(example, f"the page shows\n{example.parsed}\nbut it prints\n{printed}")
        self.printed = printed


def failures(page: Path) -> Iterator[SybilFailure]:
    """Run the page's blocks in the current folder and yield what went wrong."""
    before, here = set(sys.modules), Path.cwd()
    sys.path.insert(0, str(here))
    try:
        for example in BLOCKS.parse(page).examples():
            try:
                example.evaluate()
            except SkipTest as skipped:
                if len(str(skipped)) < 6:
                    yield SybilFailure(example, "skipped without a reason")
            except SybilFailure as failure:
                yield failure
    finally:
        sys.path.remove(str(here))
        for name in set(sys.modules) - before:  # the page's own modules
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == here:
                del sys.modules[name]


def languages(page: Path) -> set[str]:
    """Return the languages of the page's code blocks, '' for a block without one."""
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {(language.split() or [""])[0] for language in fences[::2]}


def rewrite(page: Path) -> int:
    """Write what the blocks print into the page and return how many outputs changed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = list(failures(page))
    others = [one for one in found if not isinstance(one, OtherOutput) or LEFT_OUT.search(one.example.parsed)]
    for one in others:
        print(one)
    if others:  # what the other blocks print may follow from it
        return 0
    text = page.read_text(encoding="utf-8")
    for one in reversed(found):  # from the end, so that places before it stay
        body = "\n".join(line.rstrip() for line in one.printed.strip("\n").splitlines())
        start, end = one.example.region.start, one.example.region.end
        text = f"{text[:start]}```text\n{body}\n```{text[end:]}"
    page.write_text(text, encoding="utf-8")
    return len(found)


def _run_python(example: Example) -> None:
    if _is_file(example):
        return
    example.namespace.setdefault("__name__", "__main__")  # so that functions travel by value, as those of a script do
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example.parsed, f"{example.path}:{example.line}", "exec", dont_inherit=True), example.namespace)
    example.namespace["printed"] = printed.getvalue()


def _run_bash(example: Example) -> str | None:
    done = subprocess.run(
        ["bash", "-c", example.parsed],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ".", "COLUMNS": "120"},
        timeout=SECONDS,
        check=False,
    )
    example.namespace["printed"] = done.stdout
    if done.returncode in (0, 1) and "Traceback" not in done.stderr:
        return None
    return f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"


def _compare(example: Example) -> str | None:
    printed = example.namespace.pop("printed", None)
    if printed is None:
        return "a block of text after no block that printed anything"
    if not doctest.OutputChecker().check_output(example.parsed, printed, OUTPUT):
        raise OtherOutput(example, printed)
    return None


def _run_toml(example: Example) -> None:
    _is_file(example)
    tomllib.loads(example.parsed)


def _is_file(example: Example) -> bool:
    """Whether the block is a file, which is then written."""
    named = FILE.match(example.parsed)
    if named:
        Path(named[1]).write_text(example.parsed, encoding="utf-8")
    return bool(named)


def _loads(reader: Callable[[str], Any]) -> Callable[[Example], None]:
    def load(example: Example) -> None:
        reader(example.parsed)

    return load


EVALUATORS: dict[str, Callable[[Example], str | None]] = {
    "python": _run_python,
    "bash": _run_bash,
    "text": _compare,
    "json": _loads(json.loads),
    "yaml": _loads(yaml.safe_load),
    "toml": _run_toml,
}
BLOCKS = Sybil([SkipParser(), *(CodeBlockParser(language, run) for language, run in EVALUATORS.items())])


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        print(f"{path.relative_to(ROOT)}: {rewrite(path)} outputs changed")

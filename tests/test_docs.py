"""The documentation keeps its word: its code runs, prints what it shows, and its links lead somewhere."""

import importlib.util
import math
import os
import re
import sys
from pathlib import Path

import pytest
from warm import warm

ROOT = Path(__file__).parents[1]


def load(name):
    """A module of docs/, which is not part of the package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


blocks, constants = load("blocks"), load("constants")
notebook, findings = load("notebook"), load("findings")
every_page = pytest.mark.parametrize("page", blocks.PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The path of programs that need not import before they begin."""
    folder = tmp_path_factory.mktemp("bin")
    with warm(folder):
        yield f"{folder}{os.pathsep}{blocks.PROGRAMS}"


LONG = {
    f"docs/{page}.md"
    for page in (
        *(f"tutorials/{at}" for at in ("audit-to-paper", "first-model", "privacy-test")),
        *(f"explanation/{at}" for at in ("covariance-aware-mean", "group-wise-privacy", "theory")),
        *(f"how-to/{at}" for at in ("flakiness-budget", "hunt", "neighbours", "one-run", "other-languages", "trace")),
        "how-to/verify-and-compare",
        *(f"reference/{at}" for at in ("claims", "frozen-tests", "outputs")),
    )
}
"""Commands and audits of ten seconds and more; README and the first tutorial run the like daily."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=pytest.mark.slow if name in LONG else ())
        for page in blocks.PAGES
        for name in [str(page.relative_to(ROOT))]
    ],
)
def test_code_blocks_do_what_the_page_says(page, tmp_path, monkeypatch, request):
    if "bash" in blocks.languages(page):
        monkeypatch.setattr(blocks, "PROGRAMS", request.getfixturevalue("programs"))
    monkeypatch.chdir(tmp_path)
    if found := list(map(str, blocks.failures(page))):
        pytest.fail("\n".join(found), pytrace=False)


@every_page
def test_every_code_block_has_a_language_that_is_checked(page):
    assert blocks.languages(page) <= set(blocks.EVALUATORS)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "but it prints\n2"),
        ("```bash\nexit 3\n```\n", "exit status 3"),
        ("```text\n3\n```\n", "after no block"),
        ("```bash\npip install epsaudit\n```\n", "epsaudit is on no package index"),
        ("```bash\npip install '/path/to/epsaudit[all]'\n```\n", "epsaudit has no extra all"),
        ("```bash\npip install --quiet numpy no-such-package\n```\n", "no-such-package is not installed here"),
    ],
)
def test_a_page_that_does_not_keep_its_word_is_found(block, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(block, encoding="utf-8")
    (failure,) = blocks.failures(page)
    assert complaint in str(failure)


def test_install_lines_install_this_repository_where_they_are_run(tmp_path, monkeypatch):
    """A program `pip` that prints its words takes the place of pip."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "pip").chmod(0o755)
    monkeypatch.setattr(blocks, "PROGRAMS", str(tmp_path))
    page = tmp_path / "page.md"
    page.write_text(
        "```bash\npip install '/path/to/epsaudit[tools]' pytest\n```\n\n```text\nX\n```\n", encoding="utf-8"
    )
    assert "but it prints\n\n" in str(*blocks.failures(page)) + "\n", "by default nothing is installed"
    monkeypatch.setattr(blocks, "INSTALL", True)
    for extras, expected in ((None, "[tools]"), ("report", "[report]"), ("", "")):
        monkeypatch.setattr(blocks, "EXTRAS", extras)
        assert f"but it prints\ninstall {ROOT}{expected} pytest\n" in str(*blocks.failures(page))


def test_no_page_installs_a_name_that_no_index_has():
    for page in [*blocks.PAGES, *(ROOT / "docs").rglob("*.ipynb")]:
        said = re.findall(r"pip install[^`\n]*", page.read_text(encoding="utf-8"))
        named = [line for line in said if re.search(r"(?<![\w/.])epsaudit(?!\[?[\w,]*\]? @ git)(?![\w/])", line)]
        assert named == [], f"{page} must say from which path or repository epsaudit is installed"


def test_an_output_that_changed_is_written_into_its_page(tmp_path):
    page = tmp_path / "page.md"
    text = "# Two\n\n```python\nprint(1 + 1)\n```\n\n```text\n{}\n```\n\nThe end.\n"
    page.write_text(text.format(3), encoding="utf-8")
    assert blocks.rewrite(page) == 1
    assert page.read_text(encoding="utf-8") == text.format(2)


@pytest.mark.slow
def test_the_notebook_shows_what_it_says():
    """In a kernel of its own, which takes seconds to start: only there are figures shown as people see them."""
    stored = notebook.nbformat.read(notebook.PATH, as_version=4)
    cells = notebook.shown(notebook.executed())
    kinds = {kind for cell in cells for kind, _ in cell}
    assert {"text/html", "image/png", "stream"} <= kinds
    assert cells == notebook.shown(stored), "'python docs/notebook.py' writes what the cells show now"


NUMBER = re.compile(r"(?<![\w.,:/^-])(?:\d+\.\d+(?:e-?\d+)?|\d+(?= %))(?![\w]|\.\d)")
DERIVED = re.compile(r"<!-- derived: (\S+) = (.*?) -->")
NOT_FROM_RUNS = {
    3.11: "the least version of Python",
    3.8: "the least version of Python of a server of functions",
    0.95: "the confidence by default",
    0.05: "the significance level by default",
}
ELSEWHERE = {"scores": [0.3], "other-languages": [1.2], "check-training": [1.4, 0.16]}
"""Numbers in commands and settings that pages give as examples in the text, and the ratio and the noise that
tests/audit/test_check_training.py tests."""


def unexplained(page):
    """Numbers in the prose of a page that no code, output or derivation of the page gives.

    Decimals and percentages count, except in tables, whose numbers come from results, and in addresses. A number is
    given if one in a block rounds to it, up or down. The comment ``<!-- derived: 33 = exp(3.503) -->`` derives a number
    from such numbers.
    """
    text = page.read_text(encoding="utf-8")
    blocks_of_page = re.findall(r"^ *```\w+\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    given = [float(one) for one in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", "".join(blocks_of_page).replace(",", ""))]

    def is_given(number, values):
        decimals = len(number.partition("e")[0].partition(".")[2])
        return any(abs(float(number) - value) < (1 + 1e-9) * 10**-decimals for value in values)

    derived = []
    for number, formula in DERIVED.findall(text):
        assert all(is_given(one, given) for one in NUMBER.findall(formula)), f"{page}: {formula}"
        value = eval(formula, {"exp": math.exp, "log": math.log})
        assert is_given(number, [value]), f"{page}: {formula} is {value}"
        derived.append(value)
    prose = re.sub(r"^ *```\w+\n.*?^ *```|<!--.*?-->|\]\([^)]*\)|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    given += [*NOT_FROM_RUNS, *ELSEWHERE.get(page.stem, [])]
    known = [*given, *(100 * value for value in given), *derived]
    return [number for number in NUMBER.findall(prose) if not is_given(number, known)]


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in blocks.PAGES
        if page.parent.name in ("tutorials", "how-to") or page.name in ("README.md", "index.md")
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_numbers_in_the_prose_are_those_of_the_runs(page):
    assert unexplained(page) == []


def test_a_number_that_no_run_printed_is_found(tmp_path):
    page = tmp_path / "page.md"
    said = "It is at least {}. <!-- derived: 33 = exp(3.503) -->\n\n```text\nepsilon >= 3.503, mu >= 1.918\n```\n"
    for number, wrong in (
        ("1.92", False),
        ("1.91", False),
        ("2.03", True),
        ("33 %", False),
        ("35 %", True),
        ("7 %", True),
    ):
        page.write_text(said.format(number), encoding="utf-8")
        assert unexplained(page) == ([number.removesuffix(" %")] if wrong else [])


def test_links_between_pages_and_to_files_of_the_repository_lead_somewhere():
    broken = []
    for page in blocks.PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path = (page.parent / target.split("#")[0]).resolve()
            elsewhere = re.match(r"[a-z]+:|#", target)
            if not elsewhere and not path.exists() and path.name != "constants.md":  # made by the build
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


def test_pages_that_the_code_refers_to_exist():
    for source in [*(ROOT / "audit").rglob("*.py"), *(ROOT / "mechanisms").rglob("*.py")]:
        for page, anchor in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", source.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), f"{source} refers to {page}"
            headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w]+", "-", heading.lower()).strip("-") for heading in headings}
            assert not anchor or anchor in anchors, f"{source} refers to {page}#{anchor}"


def test_every_constant_has_a_reason():
    without = [
        f"{one.module}.{', '.join(one.names)} (line {one.line})" for one in constants.constants() if not one.reason
    ]
    assert not without


def test_every_constant_outside_the_tools_says_of_which_kind_it_is():
    untuned = {("epsaudit.results.result", ("SCHEMA",)), ("epsaudit.running.streams", ("STAGES",))}
    found = [one for one in constants.constants() if not one.module.startswith("epsaudit.tools.")]
    assert untuned <= {(one.module, one.names) for one in found}
    reasons = [one.reason for one in found if (one.module, one.names) not in untuned]
    assert len(reasons) > 40
    assert [why for why in reasons if not re.match(r"\[(formula|measured|time|memory|chosen)\] ", why)] == []


class TestFindings:
    @pytest.mark.parametrize("page", sorted(findings.PAGES.glob("*.md")), ids=lambda page: page.stem)
    def test_what_tables_and_results_say_is_what_the_script_writes(self, page):
        text = page.read_text(encoding="utf-8")
        assert len(findings.BLOCK.findall(text)) == 1
        assert findings.written(page, findings.stored()) == text, "python docs/findings.py writes it anew"

    @pytest.mark.parametrize("page", sorted(set(findings.PAGES.glob("*.md")) - {findings.PAGES / "index.md"}))
    def test_a_page_has_all_its_parts_and_a_short_script(self, page):
        text = page.read_text(encoding="utf-8")
        assert all(
            f"\n## {part}\n" in text for part in ("What is claimed", "What is wrong", "Exact value", "Reproduce")
        )
        (script,) = re.findall(r"<!-- skip: next .*? -->\n\n```python\n(.*?)```", text, re.DOTALL)
        compile(script, page.name, "exec")
        assert len(script.splitlines()) <= 40
        if page.stem not in {one.page for one in findings.statements()}:  # a pair disproves a map without statistics
            assert re.search(r"^from scipy\.stats import (beta|binom)\b", script, re.MULTILINE)  # limits or p-value

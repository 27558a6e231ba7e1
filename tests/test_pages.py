"""Pages of docs/explanation: theorems have a number of their own, and figures quoted from results are those there."""

import contextlib
import csv
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs/explanation").glob("*.md"))


def theorems(page):
    """Numbers of the theorems that a page states, in bold or as headings, in their order."""
    return [int(number) for number in re.findall(r"^(?:\*\*|#+ )Theorem (\d+)\b", page.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_numbered_theorems_count_from_one(page):
    numbers = theorems(page)
    assert numbers == list(range(1, len(numbers) + 1))


def test_theorems_that_docstrings_cite_are_on_their_page():
    """Every "Theorem n of docs/explanation/page.md", whose number must occur there."""
    cited = Counter()
    for source in (*ROOT.glob("mechanisms/**/*.py"), *ROOT.glob("audit/**/*.py"), *ROOT.glob("experiments/*.py")):
        text = re.sub(r"\s+", " ", source.read_text())
        cited.update(re.findall(r"Theorem (\d+) of docs/explanation/([\w-]+)\.md", text))
    assert len(cited) >= 4
    for number, page in cited:
        assert int(number) in theorems(ROOT / f"docs/explanation/{page}.md")


def test_the_shares_of_the_loss_that_audits_of_groups_certify():
    with (ROOT / "results/groups/data.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["certified asinh"]]
    shares = {int(row["count"]): float(row["certified asinh"]) / float(row["asinh"]) for row in rows}
    assert [f"{shares[size]:.2f}" for size in (0, 10, 30, 100)] == ["0.62", "0.62", "0.62", "0.47"]
    assert shares[300] == shares[1000] == 0.0
    page = (ROOT / "docs/explanation/group-wise-privacy.md").read_text()
    assert "0.62 of $v$ for up to 30 records and 0.47 of $v$ for 100" in page


def test_the_table_of_traced_functions_counts_the_stored_results():
    counts = {}
    with (ROOT / "results/trace/data.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            refuted, named, leaks = row["black box"] == "refuted", row["line"] == "yes", row["leaks"] == "True"
            found = (1, refuted, named, 0, 0) if leaks else (0, 0, 0, 1, refuted or row["line"] == "no")
            counts[row["kind"]] = [a + b for a, b in zip(counts.get(row["kind"], [0] * 5), found, strict=True)]
    page = (ROOT / "docs/how-to/trace.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| ([a-z ]+) \| (\d+(?: \| \d+){4}) \|$", page, re.MULTILINE)
    assert {kind: [int(one) for one in row.split(" | ")] for kind, row in table} == counts
    assert f"the {sum(row[0] + row[3] for row in counts.values())} small functions" in page


def test_the_shares_that_one_run_certifies():
    with (ROOT / "results/one-run/data.csv").open(encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file) if row["part"] == "by canaries" and row["mechanism"] == "Gaussian noise"
        ]
    kinds = {"point": "one run, (ε, δ) claimed: certified ε, sharp bound", "curve": "one run, curve claimed"}
    share = {
        (kind, int(row["canaries"])): f"{float(row['share']):.2f}"
        for kind, name in kinds.items()
        for row in rows
        if row["audited"].startswith(name)
    }
    many = (10_000, 100_000)
    points, curves = (" to ".join(share[kind, size] for size in many) for kind in kinds)
    guide = (ROOT / "docs/how-to/one-run.md").read_text(encoding="utf-8")
    assert f"| 100 | {share['point', 100]} | {share['curve', 100]} |" in guide
    assert f"| $10^4$ to $10^5$ | {points} | {curves} |" in guide
    limits = " ".join((ROOT / "docs/explanation/limits.md").read_text(encoding="utf-8").split())
    numbers = (100, 1_000, 10_000, 100_000)
    assert (
        "certifies {} with 100 canaries, {} with 1,000, {} with 10,000 and {} with 100,000".format(
            *(share["point", size] for size in numbers)
        )
        in limits
    )
    assert f"one run certifies {share['curve', 100]} with 100 canaries and {curves} with" in limits
    assert f"canaries, {points} of epsilon where" in (ROOT / "docs/explanation/theory.md").read_text(encoding="utf-8")


SOURCES = (ROOT / "docs/reference/sources.md").read_text(encoding="utf-8")


def test_every_name_of_the_table_of_sources_exists():
    """Names below epsaudit, such as `mechanisms.ratio.BoundedRatio`; a module alone counts, too."""
    names = set(re.findall(r"`((?:claims|audits|mechanisms|experiments|tools)\.[\w.]+)`", SOURCES))
    assert len(names) > 60
    for name in sorted(names):
        parts = f"epsaudit.{name}".split(".")
        found = None
        for end in range(len(parts), 1, -1):
            with contextlib.suppress(ModuleNotFoundError):
                found = importlib.import_module(".".join(parts[:end]))
                break
        for part in parts[end:]:
            assert hasattr(found, part), name
            found = getattr(found, part)


def test_every_file_of_the_table_of_sources_exists():
    files = set(re.findall(r"`((?:tests|results)/[\w./-]+)`", SOURCES))
    assert len(files) > 15
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_table_of_sources_counts_its_rows():
    rows = [line for line in SOURCES.splitlines() if line.startswith("| ") and not line.startswith("| statement")]
    open_rows = [line for line in rows if line.endswith("| - |")]
    shown, named = len(rows) - len(open_rows), len(open_rows)
    assert f"Of {len(rows)} rows {shown} are shown, and {named} are named" in SOURCES
    assert all("open" in line or "not here" in line or "`" in line for line in open_rows)

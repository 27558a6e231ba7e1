"""Every registered study runs quickly, writes what a study writes, and gives the same data for the same seed."""

import csv
import importlib
import inspect
import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from epsaudit.experiments import front
from epsaudit.experiments.studies import Study, studies
from epsaudit.tools.cli.main import main

RESULTS = Path(__file__).parents[2] / "results"
QUICK = Path(__file__).parent / "quick"
"""Data of quick studies; `epsaudit experiment run all --quick --seed 1 --out tests/experiments/quick` writes it."""

STUDIES = studies()
DIFFER = ("speed", "trace")
"""Studies that measure time, so that no two runs write the same. All are run by ``make slow`` alone."""


@pytest.fixture(scope="module")
def another_process():
    """A process that runs on one core, and so starts none of its own: the data must not depend on that either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        pool.submit(abs, 0).result()  # now it is there
    with pool:
        yield pool


COMMAND = ["experiment", "run", "--quick", "--seed", "1", "--out"]


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFER)
def test_a_quick_run_writes_everything(name, tmp_path, capsys):
    assert main([*COMMAND, str(tmp_path), name]) == 0
    check_complete(tmp_path / name)


def test_a_part_of_a_study_is_run_alone(tmp_path):
    """It has a page and a provenance of its own beside the data that the whole study writes."""
    assert main([*COMMAND, str(tmp_path), "libraries/traced-libraries"]) == 0
    part = tmp_path / "libraries" / "traced-libraries"
    assert {one.name for one in part.iterdir()} >= {"data.json", "data.csv", "README.md", "provenance.json"}
    assert not (tmp_path / "libraries" / "hunts").exists()
    assert "a trace names file and line" in (part / "README.md").read_text(encoding="utf-8")


def test_a_part_that_does_not_exist_is_refused(tmp_path, capsys):
    assert main([*COMMAND, str(tmp_path), "libraries/traced-librarys"]) == 2
    assert "Did you mean 'libraries/traced-libraries'" in capsys.readouterr().err


def check_complete(first):
    """Whether a quick run of a study wrote everything."""
    name = first.name
    parts = [path.parent for path in first.rglob("data.json")]
    assert len(parts) == len(STUDIES[name].modules)
    for part in parts:
        rows = list(csv.reader((part / "data.csv").open(encoding="utf-8")))
        assert len(rows) > 1
        assert all(len(row) == len(rows[0]) for row in rows)
        json.loads((part / "data.json").read_text(encoding="utf-8"), parse_constant=_reject)
        table = (part / "table.tex").read_text(encoding="utf-8")
        assert r"\toprule" in table
        assert table.count(r"\begin{") == table.count(r"\end{")
    drawn = {path.stem for path in first.rglob("*.png")}
    assert drawn == {path.stem for path in first.rglob("*.pdf")}
    assert all(b"/Type3" not in path.read_bytes() for path in first.rglob("*.pdf"))  # text is text
    assert f"- **What**: {STUDIES[name].summary}" in (first / "README.md").read_text(encoding="utf-8")
    assert _answer(first)
    provenance = json.loads((first / "provenance.json").read_text())
    assert (provenance["seed"], provenance["quick"]) == (1, True)
    assert {"command", "started", "machine", "seconds"} <= set(provenance["execution"])
    assert sum(path.stat().st_size for path in first.rglob("*")) < 4_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in STUDIES if one not in DIFFER])
def test_a_quick_run_writes_the_same_data_in_another_process(name, tmp_path, capsys, another_process):
    first, second = tmp_path / "first" / name, tmp_path / "second" / name
    other = another_process.submit(main, [*COMMAND, str(second.parent), name])  # on the other core, meanwhile
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "2")
        assert main([*COMMAND, str(first.parent), name]) == 0
    assert other.result() == 0
    check_complete(first)
    for file in (path.relative_to(first) for path in first.rglob("*") if path.suffix in (".csv", ".tex")):
        assert (first / file).read_bytes() == (second / file).read_bytes(), file
    assert _answer(first) == _answer(second)  # from the data alone
    if STUDIES[name].network:  # whose quick look reads the results
        return
    stored = sorted(path.relative_to(QUICK / name) for path in (QUICK / name).rglob("*.csv"))
    assert stored == sorted(path.relative_to(first) for path in first.rglob("*.csv"))
    for file in stored:
        assert _values(first / file) == _values(QUICK / name / file, near), f"{file}: store it anew if it is to differ"


def near(number):
    """But for last digits, which differ between machines."""
    return pytest.approx(number, rel=1e-6, nan_ok=True)


def _values(path, number=float):
    def value(cell):
        try:
            return number(float(cell))
        except ValueError:
            return cell

    return [[value(cell) for cell in row] for row in csv.reader(path.open(encoding="utf-8"))]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_imported_and_says_what_it_measures(name):
    modules = [importlib.import_module(one) for one in STUDIES[name].modules]
    assert STUDIES[name].about or modules[0].__doc__.startswith(f"{STUDIES[name].summary}.\n")
    assert all(list(inspect.signature(one.main).parameters)[:3] == ["out", "seed", "quick"] for one in modules)


def _answer(folder):
    readme = (folder / "README.md").read_text(encoding="utf-8")
    (answer,) = re.findall(r"^- \*\*Found\*\* \(a quick look, not a result\): (.+)$", readme, flags=re.MULTILINE)
    return answer


def _reject(constant):
    raise AssertionError(f"{constant} is no JSON; write it as text")


def test_the_list_names_all_with_a_summary(capsys):
    assert main(["experiment", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(STUDIES)
    assert all(len(line.split()) > 3 for line in lines)


def test_all_runs_every_study_into_its_own_folder(tmp_path, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(Study, "run", lambda self, out, seed, quick: ran.append((self.name, out.name, seed, quick)))
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", "run", "all", "--seed", "5", "--quick"]) == 0
    assert ran == [(name, name, 5, True) for name in STUDIES if name != "libraries"]  # which need the network


def test_the_index_of_results_has_every_folder():
    listed = re.findall(r"^- \[(.+)\]\(\1\): ", (RESULTS / "README.md").read_text(encoding="utf-8"), re.M)
    assert listed == sorted(one.name for one in RESULTS.iterdir() if one.is_dir() and one.name != "latest")


@pytest.mark.slow
def test_the_index_is_written_from_the_folders(tmp_path):
    for name in ("curves", "of-an-earlier-name"):
        (tmp_path / name).mkdir()
    (tmp_path / "audit.json").write_bytes((RESULTS / "audit.json").read_bytes())
    front.main(tmp_path)
    said = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert f"- [curves](curves): {studies()['curves'].summary}" in said

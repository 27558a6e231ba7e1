"""`epsaudit report`: what is asked for is written, of the results that are asked for."""

import csv

import pytest

from epsaudit.adapters.registry import registered
from epsaudit.audits.suite import run
from epsaudit.audits.verify import load
from epsaudit.cli.main import main
from epsaudit.reporting.tables import family_confidence
from epsaudit.results.result import save

NAMES = ("laplace", "gaussian-gdp", "broken/laplace-half-noise")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "audit.json"
    save(run([registered()[name] for name in NAMES], trials=20_000, n_jobs=1), path)
    return path


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("--latex", [r"\toprule", r"\texttt{laplace}", r"broken/\allowbreak{}laplace", r"95\%", "20k runs each"]),
        ("--markdown", ["| laplace |", "at 95% (Bonferroni)"]),
        ("--csv", ["mechanism,claim,parameter"]),
        ("--methods", [r"\cite{clopper1934use}", "@article{clopper1934use,"]),
    ],
)
def test_texts_are_printed_or_written(file, capsys, tmp_path, option, parts):
    assert main(["report", str(file), option]) == 0
    printed = capsys.readouterr().out
    assert all(part in printed for part in parts)
    assert main(["report", str(file), option, str(tmp_path / "new" / "text")]) == 0
    assert (tmp_path / "new" / "text").read_text(encoding="utf-8") == printed
    assert capsys.readouterr().out == ""


def test_only_some_results_keep_the_confidence_of_all(file, capsys):
    chosen = ["report", str(file), "--only", "broken/*", "--only", "laplace"]
    assert main([*chosen, "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert "gaussian" not in printed
    assert "2 audits" in printed
    assert "together at 95%" in printed
    assert main([*chosen, "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["mechanism"] for row in rows] == ["laplace", "broken/laplace-half-noise"]


def test_the_family_is_what_bonferroni_says(file):
    results = load(file)
    assert family_confidence(results) == pytest.approx(0.95)
    assert family_confidence(results * 30) == 0.0


@pytest.mark.parametrize("kind", ["profile", "trade-off"])
@pytest.mark.parametrize("name", NAMES)
def test_curves_of_one_result(file, tmp_path, kind, name):
    path = tmp_path / "curve.svg"
    assert main(["report", str(file), "--only", name, "--figure", str(path), "--kind", kind]) == 0
    text = path.read_text()
    for part in (name, "20k runs", "98.", "confidence", "exact for the pair", "excluded"):
        assert part in text


@pytest.mark.parametrize(("ending", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_figures_in_every_format(file, tmp_path, ending, start):
    assert main(["report", str(file), "--figure", str(tmp_path / f"f.{ending}")]) == 0
    assert (tmp_path / f"f.{ending}").read_bytes().startswith(start)

"""Environments of library versions, found, keyed and built whole; which versions bisecting tries. No network."""

import json
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from epsaudit import ZCDP, AuditError, DatasetPair, PureDP, audit, trace
from epsaudit.experiments.libraries import bisecting, environments, interpreters
from epsaudit.experiments.libraries.bisecting import Tried, bisect
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, Environment
from epsaudit.experiments.libraries.interpreters import Interpreter
from epsaudit.experiments.libraries.rows import Row, entries
from epsaudit.running import registry
from epsaudit.running.registry import Library
from epsaudit.running.served import Served
from epsaudit.tools.cli import AS_EXPECTED
from epsaudit.tools.cli.main import main
from epsaudit.tools.tracing.suspicion import MOVES, NOTHING_SEEN

HERE = ".".join(map(str, sys.version_info[:2]))
VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
LEAKS = {"1.1", "1.2", "1.3"}
TOY = """
import random
def noisy(value):
    return value + {scale} * (random.SystemRandom().expovariate(1) - random.SystemRandom().expovariate(1))
"""
RUN, STATES = "toynoise.noisy(data)", "getattr(toynoise, 'EPSILON', 1.0)"
PAIRS = (DatasetPair(0.0, 1.0),)


def write_wheel(folder, version, text):
    about = f"toynoise-{version}.dist-info"
    with zipfile.ZipFile(folder / f"toynoise-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("toynoise/__init__.py", text)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: toynoise\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """An index of wheels, environments in a folder of the test's own, and rows of toynoise 1.2 and 1.5."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in VERSIONS:
        write_wheel(folder, version, TOY.format(scale=0.3 if version in LEAKS else 1.0))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("EPSAUDIT_LIBRARIES", str(tmp_path / "libraries"))
    return folder


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Libraries of toynoise: the newest version, whose row is sound, and an older one, whose row is not."""
    made = {}
    for version, role in (("1.5", "control"), ("1.2", "affected")):
        name = f"toynoise-{version}"
        (tmp_path / f"{name}.txt").write_text(f"toynoise=={version}\n")
        environment = Environment(name, (HERE,), requirements=tmp_path / f"{name}.txt")
        monkeypatch.setitem(ENVIRONMENTS, name, environment)
        made[version] = Row(name, "noisy", "import toynoise", RUN, PureDP(1.0), PAIRS, role, states=STATES)
    newest, old = made["1.5"], made["1.2"]
    found = {
        "toynoise": Library("toynoise", newest.version, (newest,), newest.environment.built, entries),
        old.version: Library(old.version, old.version, (old,), old.environment.built, entries),
    }
    monkeypatch.setattr(registry, "libraries", lambda: found)
    return made


@pytest.fixture
def pretended(monkeypatch, rows):
    """Nothing is installed: versions and verdicts are what the test says; returns what was tried, in order."""

    def pretend(verdicts):
        order = []

        def tried(row, version, **settings):
            order.append((version, settings))
            if (refuted := verdicts[version]) is None:
                return Tried(version, None, "cannot be run", "ImportError: no noise")
            result = SimpleNamespace(violates_claim=refuted, claim=PureDP(1.0), lower_bound=2.0 * refuted, runs=100)
            return Tried(version, result, "refuted" if refuted else "not refuted")

        monkeypatch.setattr(Environment, "python", lambda environment: sys.executable)
        monkeypatch.setattr(bisecting, "released", lambda python, package, *options: list(verdicts))
        monkeypatch.setattr(bisecting, "_try_version", tried)
        return order

    return pretend


def toy(first, last, vain=(), newest=24):
    """Versions 1.0 to 1.24 of which some are affected, and some cannot be run."""
    return {f"1.{n}": None if n in vain else first <= n <= last for n in range(newest + 1)}


class TestSearch:
    @pytest.mark.parametrize(("first", "last"), [(0, 24), (2, 2), (0, 5), (1, 12), (2, 23), (2, 24)])
    def test_edges_are_found_by_few_audits(self, pretended, rows, first, last):
        order = pretended(toy(first, last))
        found = bisect(rows["1.2"])
        assert (found.first_affected, found.last_affected) == (f"1.{first}", f"1.{last}")
        assert found.first_not_refuted == (None if last == 24 else f"1.{last + 1}")
        assert len({version for version, _ in order}) == len(order) <= 10

    def test_every_version_that_runs_is_placed_whatever_cannot_be_run_alone(self, pretended, rows):
        for vain in range(13):
            for last in range(2, 13):
                if vain == 2:
                    continue
                pretended(toy(2, last, {vain}, newest=12))
                found = bisect(rows["1.2"])
                assert found.first_affected == "1.2"
                assert found.last_affected == f"1.{last - (last == vain)}"

    def test_all_versions_are_tried_where_that_is_asked(self, pretended, rows):
        verdicts = toy(2, 10) | {"1.4": False, "1.20": True}
        order = pretended(verdicts)
        found = bisect(rows["1.2"], every=True)
        assert [version for version, _ in order] == list(verdicts)
        assert (found.first_affected, found.last_affected, found.first_not_refuted) == ("1.2", "1.20", "1.21")
        assert "Versions between the first and the last affected that were not refuted: 1.4, 1.11" in found.sentence()
        assert "assumes that the verdict changes only once" not in found.sentence()

    def test_the_error_probability_is_shared_by_all_versions(self, pretended, rows):
        order = pretended(toy(2, 10))
        bisect(rows["1.2"], confidence=0.9)
        errors = {1.0 - settings["confidence"] for _, settings in order}
        assert sum(errors) * 25 == pytest.approx(0.1)
        assert len({settings["seed"] for _, settings in order}) == len(order)


class TestCommand:
    def test_it_starts_where_the_library_is_known_to_be_affected(self, pretended, rows, capsys):
        order = pretended({version: version in LEAKS for version in VERSIONS} | {"0.9": None})
        assert main(["bisect", "toynoise", "noisy", "--seed", "1"]) == AS_EXPECTED
        assert order[0][0] == "1.2"
        out, err = capsys.readouterr()
        assert "first affected     1.1 (1.0 is not refuted)" in out
        assert "last affected      1.3 (1.4 is not refuted)" in out
        assert "first not refuted  1.4\n" in out
        assert "0.9 cannot be run: ImportError: no noise\n" in out
        assert "Seed 1." in out
        assert "epsaudit: 1.2: refuted, 0 s" in err


@pytest.mark.slow
def test_versions_are_installed_audited_and_placed(wheels, rows, capsys):
    write_wheel(wheels, "0.9", "def loud(value): return value\n")
    write_wheel(wheels, "1.5", TOY.format(scale=0.5) + "EPSILON = 2.0\n")  # half the noise, and says so
    (wheels / "toynoise-0.8-py3-none-any.whl").write_text("no wheel")
    words = ["bisect", "toynoise", "noisy", "--all", "--trials", "5000", "--confidence", "0.9999", "--jobs", "1"]
    assert main([*words, "--seed", "1", "--json"]) == AS_EXPECTED
    said = json.loads(capsys.readouterr().out)
    assert said["versions"] == ["0.8", "0.9", *VERSIONS]
    tried = {one["version"]: one for one in said["tried"]}
    assert tried["0.8"]["verdict"] == "cannot be installed"
    assert tried["0.8"]["reason"].startswith("pip says: ")
    assert tried["0.9"]["verdict"] == "cannot be run"
    assert "AttributeError" in tried["0.9"]["reason"]
    assert {version for version, one in tried.items() if one["verdict"] == "refuted"} == LEAKS
    assert tried["1.5"]["claim"] == "2-DP"
    assert (said["first_affected"], said["last_affected"], said["first_not_refuted"]) == ("1.1", "1.3", "1.4")


def written(folder, text, name="toynoise-1.2", pythons=(HERE,), **more):
    path = folder / f"{name}.txt"
    path.write_text(text)
    return Environment(name, pythons, requirements=path, **more)


class TestInterpreters:
    @pytest.mark.parametrize("says", ["exit 127", "echo nonsense", 'echo \'["3.11.0", "/x", "CPython"]\''])
    def test_a_shim_that_does_not_run_or_lies_is_passed_over(self, says, tmp_path, monkeypatch):
        shim = tmp_path / "python9.9"
        shim.write_text(f"#!/bin/sh\n{says}\n")
        shim.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        assert interpreters.find.__wrapped__("9.9") is None


class TestKeys:
    def test_another_pin_or_another_python_is_another_environment(self, tmp_path):
        one, python = written(tmp_path, "a==1\nb==2\n", "one"), Interpreter("3.11.7", "/usr/bin/python3.11")
        same = written(tmp_path, "# in another order\nb == 2\nA==1  # why\n", "same")
        assert one.key(python) == same.key(python)
        others = [
            written(tmp_path, "a==1\nb==3\n", "other").key(python),
            one.key(Interpreter("3.11.8", "/usr/bin/python3.11")),
            one.key(Interpreter("3.11.7", "/opt/python3.11")),
        ]
        assert len({one.key(python), *others}) == 4

    @pytest.mark.parametrize("line", ["numpy", "numpy>=1.0", "==1.0", "--index-url https://elsewhere"])
    def test_what_is_not_pinned_is_refused(self, line, tmp_path):
        with pytest.raises(AuditError, match="write every requirement as 'name==version'"):
            written(tmp_path, f"a==1\n{line}\n")

    def test_every_file_of_requirements_belongs_to_a_version_and_pins_the_library_at_it(self):
        assert {path.stem for path in environments.REQUIREMENTS.glob("*.txt")} == set(ENVIRONMENTS)
        for name, environment in ENVIRONMENTS.items():
            library, _, version = name.rpartition("-")
            assert {pin.replace("_", "-"): known for pin, known in environment.pins.items()}[library] == version


class TestBuilding:
    @pytest.mark.slow
    def test_a_library_is_installed_audited_and_refuted_from_its_own_environment(
        self, wheels, tmp_path, capfd, monkeypatch
    ):
        environment = written(tmp_path, "toynoise==1.2\n")
        assert environment.built() is None
        folder = environment.folder(environment.interpreter())
        leftover = folder.with_name(f"{folder.name}.partial")
        for half in (leftover, folder):  # of a build that was killed, and of an environment that lost its Python
            half.mkdir(parents=True)
            (half / "rubbish").write_text("half")
        assert environment.built() is None
        with ThreadPoolExecutor(2) as pool:
            pythons = list(pool.map(lambda _: environment.python(), range(2)))
        assert capfd.readouterr().err.count("installing into") == 1
        assert pythons == [environment.built()] * 2
        assert not leftover.exists()
        assert not (folder / "rubbish").exists()

        monkeypatch.setitem(ENVIRONMENTS, "toynoise-1.2", environment)
        row = Row("toynoise-1.2", "noisy", "import toynoise", RUN, PureDP(1.0), PAIRS, "affected")
        entry = row.entry()
        result = audit(entry.mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1)
        assert result.violates_claim
        assert not result.reproducible
        with pytest.raises(AuditError, match="the library states the claim 2-DP, but the row states 1-DP"):
            replace(row, states="2.0").entry()
        with pytest.raises(AuditError, match=r"states no claim: .*AttributeError"):
            replace(row, states="toynoise.EPSILON").entry()


PACKAGES = {
    "smartnoise-sql-1.0.10": """
from snsql.sql._mechanisms.laplace import Laplace
def run(data, factor):
    return Laplace(1.0, lower=0, upper=1, max_contrib=1).release([factor * len(data)])[0]""",
    "dpmm-0.1.9": """
from dpmm.models.base.utils import gaussian_noise
def run(data, factor):
    return factor * len(data) + gaussian_noise(1.0, 1)[0]""",
}
"""What releases a count, or more than that, with noise for a count."""


@pytest.mark.libraries
@pytest.mark.parametrize(("name", "claim"), [*zip(PACKAGES, (PureDP(1.0), ZCDP(0.5)), strict=True)], ids=PACKAGES)
def test_noise_of_packages_is_traced_as_a_mechanism(name, claim, tmp_path):
    requirements = Path(__file__).parent / "requirements" / f"{name}.txt"
    python = Environment(name, ("3.11",), ("antlr4-python3-runtime",), requirements).python()
    (tmp_path / "mine.py").write_text(PACKAGES[name])
    function, pair = Served(f"{tmp_path}/mine.py:run", str(python)), ([1], [1, 1])
    assert trace(function({"factor": 1.0}), pair, claim=claim).verdict == NOTHING_SEEN
    found = trace(function({"factor": 2.0}), pair, claim=claim)
    assert (found.verdict, found.suspicions[0].where) == (MOVES, "mine.py:4")

"""Environments of library versions: found, keyed, built whole or not at all, and never silently missing; no network."""

import ast
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from epsaudit import AuditError, DatasetPair, audit
from epsaudit.claims import definitions as claims
from epsaudit.experiments.libraries import environments, interpreters
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, Environment
from epsaudit.experiments.libraries.interpreters import Interpreter
from epsaudit.experiments.libraries.rows import ADAPTERS, Row

HERE = ".".join(map(str, sys.version_info[:2]))
TOY = """
import random
SCALE = 0.5
def noisy(value):
    return value + SCALE * (random.SystemRandom().expovariate(1) - random.SystemRandom().expovariate(1))
"""
ADAPTER = """
import toynoise
from serving import repeated, serve

def noisy(epsilon):
    return {"kind": "PureDP", "epsilon": epsilon}, repeated(toynoise.noisy)

serve(noisy)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A folder with the wheel of a library whose noise has half the scale that it needs."""
    folder = tmp_path_factory.mktemp("wheels")
    about = "toynoise-1.0.dist-info"
    with zipfile.ZipFile(folder / "toynoise-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("toynoise/__init__.py", TOY)
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: toynoise\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return folder


@pytest.fixture(scope="module")
def offline(wheels, tmp_path_factory):
    """No registry, only the folder of wheels; environments in a folder of the test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setenv("EPSAUDIT_LIBRARIES", str(tmp_path_factory.mktemp("libraries")))
        yield


def written(folder, text, name="toynoise-1.0", pythons=(HERE,), **more):
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
            assert environment.pins[library] == version


@pytest.mark.usefixtures("offline")
class TestBuilding:
    @pytest.mark.slow
    def test_a_library_is_installed_audited_and_refuted_from_its_own_environment(self, tmp_path, capfd, monkeypatch):
        environment = written(tmp_path, "toynoise==1.0\n")
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

        (tmp_path / "serving.py").write_text((ADAPTERS / "serving.py").read_text())
        (tmp_path / "toy.py").write_text(ADAPTER)
        monkeypatch.setattr("epsaudit.experiments.libraries.rows.ADAPTERS", tmp_path)
        monkeypatch.setitem(ENVIRONMENTS, "toynoise-1.0", environment)
        given = ("toynoise-1.0", "noisy", "toy", "noisy", {"epsilon": 1.0})
        row = Row(*given, claims.PureDP(1.0), DatasetPair(0.0, 1.0), expected="violated")
        entry = row.entry()
        result = audit(entry.mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1)
        assert result.violates_claim
        assert not result.reproducible
        with pytest.raises(AuditError, match="the library claims 1-DP, and the row says 2-DP"):
            Row(*given, claims.PureDP(2.0), DatasetPair(0.0, 1.0)).entry()
        with pytest.raises(AuditError, match=r"toynoise-1.0/noisy: the adapter fails and says: .*KeyError"):
            Row(*given[:3], "other", {}, claims.PureDP(1.0), DatasetPair(0.0, 1.0)).entry()


class TestServing:
    @pytest.mark.parametrize("path", sorted(ADAPTERS.glob("*.py")), ids=lambda path: path.name)
    def test_every_adapter_is_python_3_8(self, path):
        source = path.read_text(encoding="utf-8")
        assert ast.parse(source, feature_version=(3, 8)).body
        with pytest.raises(SyntaxError):
            ast.parse(f"{source}\nmatch 1:\n    case 1:\n        pass\n", feature_version=(3, 8))

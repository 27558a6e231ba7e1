"""Provenance: what stands in every result, what only in files, and what never."""

import getpass
import json
import platform
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from small import noisy

from epsaudit import audit
from epsaudit.audits.verify import load
from epsaudit.results.result import save
from epsaudit.running.provenance import execution, provenance, typed_command


@pytest.fixture
def result():
    return audit(noisy(), trials=5000, seed=1, witnesses="all")


def test_versions_are_those_installed_and_the_commit_is_gits():
    found = provenance()
    assert found["numpy"] == version("numpy")
    assert found["python"] == platform.python_version()
    folder = str(Path(__file__).parent)
    in_git = subprocess.run(["git", "-C", folder, "rev-parse"], capture_output=True).returncode == 0
    assert ("commit" in found) == in_git


def test_time_and_machine_are_in_files_and_nowhere_in_results(result, tmp_path):
    assert "execution" not in result.to_dict()
    save([result], tmp_path / "audit.json")
    (stored,) = json.loads((tmp_path / "audit.json").read_text())["results"]
    assert set(stored["execution"]) == {"started", "machine", "command", "seconds"}
    assert stored["families"] == "all"
    (after,) = load(tmp_path / "audit.json")
    assert after == result
    assert after.execution == result.execution
    assert after.seconds == pytest.approx(result.seconds, abs=1e-3)


def test_neither_host_nor_user_nor_folders_are_given_away():
    written = json.dumps(execution(0.0))
    assert socket.gethostname() not in written.replace(platform.system(), "")
    assert f"/{getpass.getuser()}/" not in written
    assert not typed_command().startswith("/")

"""epsaudit audit --library: what is audited, what is said of one that cannot be installed, and with what status."""

import pytest

from epsaudit import AuditError, DatasetPair, PureDP, vectorized
from epsaudit.audits.verify import load
from epsaudit.results.result import save
from epsaudit.running import registry
from epsaudit.running.registry import Entry, Library
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, SURPRISED
from epsaudit.tools.cli.main import main

QUICK = ["--trials", "20000", "--seed", "1", "--jobs", "1"]
GONE = "gone-2.0 is not installed: pip says: no such thing."


class Row(Entry):
    """An entry stands for a row here: it has all that a row is listed by."""

    @property
    def stated_claim(self):
        return self.claim


def noisy(name, scale, expected="consistent"):
    mechanism = vectorized(
        lambda data, size, rng: data + rng.laplace(scale=scale, size=size),
        claim=PureDP(1.0),
        pairs=[DatasetPair(0, 1)],
        name=name,
    )
    reason = "half the noise" if expected == "violated" else ""
    return Row(name, mechanism, PureDP(1.0), expected=expected, source="a toy", reason=reason)


def gone(rows):
    raise AuditError(GONE)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    toy = (noisy("toy-1.0/noisy", 1.0), noisy("toy-1.0/half", 0.5, "violated"), noisy("toy-1.0/unexpected", 0.5))
    found = {
        "toy": Library("toy", "toy-1.0", toy, lambda: None, list),
        "gone": Library("gone", "gone-2.0", (noisy("gone-2.0/noisy", 1.0),), lambda: None, gone),
    }
    monkeypatch.setattr(registry, "libraries", lambda: found)
    return found


class TestAudit:
    def test_mechanisms_as_expected_are_status_0(self, capsys, tmp_path):
        assert main(["audit", "--library", "toy", "noisy", "half", *QUICK, "--out", str(tmp_path)]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert "2 audits: 1 violated, 1 consistent" in printed
        assert [result.mechanism for result in load(tmp_path / "audit.json")] == ["toy-1.0/noisy", "toy-1.0/half"]

    def test_a_surprise_is_status_1(self, capsys):
        assert main(["audit", "--library", "toy", *QUICK]) == SURPRISED
        assert "Not as expected (!): toy-1.0/unexpected" in " ".join(capsys.readouterr().out.split())

    def test_a_library_that_cannot_be_installed_is_never_passed_over_in_silence(self, capsys):
        assert main(["audit", "--library", "gone", *QUICK]) == BAD_INPUT
        assert GONE in capsys.readouterr().err
        assert main(["audit", "--library", "gone", "--library", "toy", "noisy", *QUICK]) == SURPRISED
        out, err = capsys.readouterr()
        assert "toy-1.0/noisy: 1-DP claimed" in out
        assert GONE in err


class TestListAndVerify:
    def test_libraries_are_listed_with_their_mechanisms(self, capsys):
        assert main(["list", "--long", "--library"]) == AS_EXPECTED
        everything = capsys.readouterr().out
        assert "--library gone: gone-2.0, not installed yet" in everything
        assert main(["list", "--long", "--library", "toy"]) == AS_EXPECTED
        printed = capsys.readouterr().out
        assert printed in everything
        assert "toy-1.0/half        1-DP, violated" in printed
        assert "half the noise" in printed
        assert "gone" not in printed

    def test_a_result_is_run_again_by_its_own_name(self, capsys, tmp_path):
        assert main(["audit", "--library", "toy", "half", *QUICK, "--out", str(tmp_path)]) == AS_EXPECTED
        assert main(["verify", str(tmp_path / "audit.json"), "--rerun", "--jobs", "1"]) == AS_EXPECTED
        assert "run again from seed" in capsys.readouterr().out
        renamed = [load(tmp_path / "audit.json")[0]]
        object.__setattr__(renamed[0], "mechanism", "gone-2.0/noisy")
        save(renamed, tmp_path / "gone.json")
        assert main(["verify", str(tmp_path / "gone.json"), "--rerun"]) == BAD_INPUT
        assert GONE in capsys.readouterr().err

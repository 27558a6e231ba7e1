"""epsaudit bisect: which versions are tried, what is said of them, and the whole on wheels of a toy; no network."""

import json
import sys
import zipfile
from types import SimpleNamespace

import pytest

from epsaudit import AuditError, DatasetPair, PureDP
from epsaudit.adapters import registry
from epsaudit.adapters.registry import Library
from epsaudit.cli import AS_EXPECTED, BAD_INPUT, SURPRISED
from epsaudit.cli.main import main
from epsaudit.experiments.libraries import bisecting, interpreters
from epsaudit.experiments.libraries.bisecting import Bisection, Tried, bisect, environments_at, released
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, Environment, NotInstalledError
from epsaudit.experiments.libraries.rows import ADAPTERS, Row, entries

HERE = ".".join(map(str, sys.version_info[:2]))
VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
LEAKS = {"1.1", "1.2", "1.3"}
TOY = """
import random
def noisy(value):
    return value + {scale} * (random.SystemRandom().expovariate(1) - random.SystemRandom().expovariate(1))
"""
ADAPTER = """
import toynoise
from serving import repeated, serve

def noisy():
    return {"kind": "PureDP", "epsilon": getattr(toynoise, "EPSILON", 1.0)}, repeated(toynoise.noisy)

serve(noisy)
"""


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
    (tmp_path / "serving.py").write_text((ADAPTERS / "serving.py").read_text())
    (tmp_path / "toy.py").write_text(ADAPTER)
    monkeypatch.setattr("epsaudit.experiments.libraries.rows.ADAPTERS", tmp_path)
    return folder


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Libraries of toynoise: the newest version, whose row is sound, and an older one, whose row is not."""
    made = {}
    for version, expected in (("1.5", "consistent"), ("1.2", "violated")):
        name = f"toynoise-{version}"
        (tmp_path / f"{name}.txt").write_text(f"toynoise=={version}\n")
        environment = Environment(name, (HERE,), requirements=tmp_path / f"{name}.txt")
        monkeypatch.setitem(ENVIRONMENTS, name, environment)
        made[version] = Row(name, "noisy", "toy", "noisy", {}, PureDP(1.0), DatasetPair(0.0, 1.0), expected=expected)
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
        monkeypatch.setattr(bisecting, "_tried", tried)
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

    def test_two_side_by_side_that_cannot_be_run_end_the_search_there(self, pretended, rows):
        order = pretended(toy(0, 24, vain=set(range(14))))
        found = bisect(rows["1.2"], start="1.20")
        assert found.first_affected == "1.14"
        assert found.lines()[0] == ("first affected", "1.14 (nothing is known of 1.0 to 1.13)")
        assert len(order) <= 8

    def test_all_versions_are_tried_where_that_is_asked(self, pretended, rows):
        verdicts = toy(2, 10) | {"1.4": False, "1.20": True}
        order = pretended(verdicts)
        found = bisect(rows["1.2"], every=True)
        assert [version for version, _ in order] == list(verdicts)
        assert (found.first_affected, found.last_affected, found.first_not_refuted) == ("1.2", "1.20", "1.21")
        assert "Not refuted between the first and the last affected: 1.4, 1.11" in found.sentence()
        assert "taken to change once" not in found.sentence()

    def test_the_error_probability_is_shared_by_all_versions(self, pretended, rows):
        order = pretended(toy(2, 10))
        bisect(rows["1.2"], confidence=0.9)
        errors = {1.0 - settings["confidence"] for _, settings in order}
        assert sum(errors) * 25 == pytest.approx(0.1)
        assert len({settings["seed"] for _, settings in order}) == len(order)

    def test_others_get_16_times_the_runs_of_the_first_unless_all_are_tried(self, pretended, rows):
        order = pretended(toy(2, 10))
        bisect(rows["1.2"], trials=50_000)
        assert [settings["trials"] for _, settings in order] == [50_000] + [2_000] * (len(order) - 1)
        order = pretended(toy(2, 10))
        bisect(rows["1.2"], trials=50_000, every=True)
        assert {settings["trials"] for _, settings in order} == {50_000}

    def test_what_is_not_refuted_to_begin_with_ends_it(self, pretended, rows):
        order = pretended(toy(2, 10))
        found = bisect(rows["1.5"], start="1.15")
        assert len(order) == 1
        assert found.first_affected is found.first_not_refuted is None
        assert found.lines() == []
        assert (
            "1 of 25 released versions were audited. None was refuted: start at another one, or try all."
            in found.sentence()
        )

    def test_a_version_that_nobody_released_is_a_sentence(self, pretended, rows):
        pretended(toy(2, 10))
        with pytest.raises(AuditError, match=r"pip knows no toynoise 2\.0 for this Python; it knows 1\.0, 1\.1,"):
            bisect(rows["1.2"], start="2.0")

    def test_an_environment_has_the_pins_of_the_row_but_one(self, rows, tmp_path, monkeypatch):
        monkeypatch.setenv("EPSAUDIT_LIBRARIES", str(tmp_path / "libraries"))
        (tmp_path / "own.txt").write_text("Other==3\ntoynoise==1.2\n")
        own = Environment("toynoise-1.2", ("3.10",), ("other",), tmp_path / "own.txt")
        (there,) = environments_at(own, "1.3")
        assert (there.name, there.pythons, there.from_source) == ("toynoise-1.3", ("3.10",), ("other",))
        assert there.pins == {"other": "3", "toynoise": "1.3"}
        assert environments_at(own, "1.2") == [own]
        same, known = environments_at(own, "1.5")
        assert same.pins == {"other": "3", "toynoise": "1.5"}
        assert known is ENVIRONMENTS["toynoise-1.5"]


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

    def test_json_has_what_is_printed(self, pretended, rows, capsys):
        pretended({version: version in LEAKS for version in VERSIONS})
        assert main(["bisect", "toynoise-1.2", "noisy", "--all", "--json", "--seed", "1"]) == AS_EXPECTED
        said = json.loads(capsys.readouterr().out)
        assert (said["first_affected"], said["last_affected"], said["first_not_refuted"]) == ("1.1", "1.3", "1.4")
        assert [one["verdict"] for one in said["tried"]] == ["not refuted", *["refuted"] * 3, *["not refuted"] * 2]
        assert said["tried"][1]["certified"] == 2.0

    def test_nothing_refuted_is_status_1(self, pretended, rows, capsys):
        pretended(dict.fromkeys(VERSIONS, False))
        assert main(["bisect", "toynoise", "noisy", "--seed", "1", "--quiet"]) == SURPRISED
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["toynose", "noisy"], "'toynose' is not a library; there are toynoise, toynoise-1.2. Did you mean"),
            (["toynoise", "nosy"], "'nosy' names none of toynoise-1.5/noisy, toynoise-1.2/noisy. Did you mean"),
            (["toynoise", "noisy", "--trials", "3"], "--trials is 3"),
        ],
    )
    def test_bad_input_is_a_sentence(self, rows, words, says, capsys):
        assert main(["bisect", *words]) == BAD_INPUT
        assert says in capsys.readouterr().err

    def test_several_rows_are_refused(self, rows, capsys):
        one = rows["1.5"]
        other = Row(one.version, "loud", "toy", "noisy", {}, PureDP(1.0), one.pair)
        found = registry.libraries()
        found["toynoise"] = Library("toynoise", one.version, (one, other), lambda: None, entries)
        assert main(["bisect", "toynoise", "*o*"]) == BAD_INPUT
        assert "'*o*' names noisy, loud; name one." in capsys.readouterr().err


@pytest.fixture
def versions_of(tmp_path, monkeypatch, rows):
    """Nothing is installed, but adapters run: each environment's module stands beside them; returns where to write."""

    def there(environment):
        folder = tmp_path / environment.pins["toynoise"]
        if not folder.is_dir():
            raise NotInstalledError(environment.name, "pip says: no such version")
        (folder / "serving.py").write_text((ADAPTERS / "serving.py").read_text())
        (folder / "toy.py").write_text(ADAPTER)
        monkeypatch.setattr("epsaudit.experiments.libraries.rows.ADAPTERS", folder)
        return sys.executable

    def write(version, text):
        (tmp_path / version).mkdir()
        (tmp_path / version / "toynoise.py").write_text(text)

    monkeypatch.setattr(Environment, "python", there)
    monkeypatch.setenv("EPSAUDIT_LIBRARIES", str(tmp_path / "libraries"))
    return write


class TestOneVersion:
    AUDIT = {"trials": 5_000, "confidence": 0.9999, "seed": 1, "n_jobs": 1}

    def test_it_is_audited_against_what_it_claims_itself(self, versions_of, rows):
        versions_of("1.3", TOY.format(scale=0.25) + "EPSILON = 2.0\n")
        versions_of("1.4", TOY.format(scale=0.5) + "EPSILON = 2.0\n")
        for version, verdict in (("1.3", "refuted"), ("1.4", "not refuted")):
            found = bisecting._tried(rows["1.2"], version, **self.AUDIT)
            assert (found.verdict, found.result.claim, found.reason) == (verdict, PureDP(2.0), "")
            assert found.result.mechanism == f"toynoise-{version}/noisy"

    def test_what_cannot_be_installed_or_run_says_why(self, versions_of, rows):
        versions_of("0.9", "def loud(value): return value\n")
        found = bisecting._tried(rows["1.2"], "0.9", **self.AUDIT)
        assert (found.refuted, found.verdict) == (None, "cannot be run")
        assert found.reason.startswith("the adapter fails and says: AttributeError: ")
        found = bisecting._tried(rows["1.2"], "0.8", **self.AUDIT)
        assert (found.verdict, found.reason) == ("cannot be installed", "pip says: no such version")

    def test_where_the_rows_own_requirements_do_not_do_those_of_the_version_may(self, versions_of, rows, tmp_path):
        versions_of("1.5", TOY.format(scale=0.3))
        (tmp_path / "own.txt").write_text("toynoise==1.2\n")
        ENVIRONMENTS["toynoise-1.2"] = Environment("toynoise-1.2", (), requirements=tmp_path / "own.txt")
        there = Environment.python
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Environment, "python", lambda one: there(one) if one.pythons else gone(one))
            assert bisecting._tried(rows["1.2"], "1.5", **self.AUDIT).verdict == "refuted"
            assert bisecting._tried(rows["1.2"], "1.3", **self.AUDIT).reason == "it is gone"


def gone(environment):
    raise NotInstalledError(environment.name, "it is gone")


def test_pip_says_which_versions_there_are(wheels):
    python = interpreters.find(HERE).path
    assert released(python, "toynoise") == list(VERSIONS)
    with pytest.raises(AuditError, match=r"pip cannot list the versions of loudnoise: .*loudnoise"):
        released(python, "loudnoise")


def test_versions_for_other_pythons_are_named(wheels, monkeypatch):
    """One of three is for a Python that there is not; nothing is installed."""
    page = wheels / "index.html"
    page.write_text(
        "".join(
            f'<a href="toynoise-{version}-py3-none-any.whl" data-requires-python="{python}">{version}</a>\n'
            for version, python in (("1.0", "&lt;3"), ("1.1", "&gt;=3"), ("1.2", "&gt;=3"))
        )
    )
    monkeypatch.setenv("PIP_FIND_LINKS", page.as_uri())
    python = interpreters.find(HERE).path
    assert released(python, "toynoise") == ["1.1", "1.2"]
    assert released(python, "toynoise", "--ignore-requires-python") == ["1.0", "1.1", "1.2"]


@pytest.mark.nightly(seconds=65)
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
    assert "has no attribute 'noisy'" in tried["0.9"]["reason"]
    assert {version for version, one in tried.items() if one["verdict"] == "refuted"} == LEAKS
    assert tried["1.5"]["claim"] == "2-DP"
    assert (said["first_affected"], said["last_affected"], said["first_not_refuted"]) == ("1.1", "1.3", "1.4")


def test_what_is_known_of_neighbours_is_said():
    result = SimpleNamespace(violates_claim=True)
    found = Bisection("toynoise", "noisy", ("1.0", "1.1", "1.2"), (Tried("1.1", result, "refuted"),), 0.95, 1)
    assert found.lines() == [
        ("first affected", "1.1 (nothing is known of 1.0)"),
        ("last affected", "1.1 (nothing is known of 1.2)"),
        ("first not refuted", "none"),
    ]


def test_releases_for_other_pythons_are_no_part_of_the_search_and_said_to_be_unknown(pretended, rows, monkeypatch):
    pretended({"1.1": True, "1.2": True, "1.3": False})
    known = {(): ["1.1", "1.2", "1.3"], ("--ignore-requires-python",): ["0.8", "0.9", "1.0", "1.1", "1.2", "1.3"]}
    monkeypatch.setattr(bisecting, "released", lambda python, package, *options: known[options])
    found = bisect(rows["1.2"])
    assert found.elsewhere == ("0.8", "0.9", "1.0")
    assert found.lines()[0] == ("first affected", "1.1 (the oldest release for this Python)")
    assert "Nothing is known of releases for other Pythons: 0.8 to 1.0." in found.sentence()

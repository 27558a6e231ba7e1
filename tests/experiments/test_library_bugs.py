"""The corpus of known bugs: every row has its result, each is what its counts say, and the page says no more."""

import json

import numpy as np
import pytest

from epsaudit import audit, vectorized
from epsaudit.audits import verify
from epsaudit.audits.verify import load
from epsaudit.cli import AS_EXPECTED
from epsaudit.cli.main import main
from epsaudit.errors import AuditError
from epsaudit.experiments import library_bugs
from epsaudit.experiments.hunts_sound import sound
from epsaudit.experiments.libraries.corpus import Bug, bugs
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.libraries.registry import findings, libraries
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.selection import PermuteAndFlipLaw
from epsaudit.results.result import read

CASES = [case for bug in findings() for case in bug.cases]
STORED = {row["mechanism"]: row for row in json.loads((library_bugs.STORED / "data.json").read_text())["rows"]}
IS_MEASURED = set(STORED) == {case.row.name for case in CASES}
later = pytest.mark.skipif(not IS_MEASURED, reason="results/library-bugs is of a table with other rows: run it anew")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.row.name)


class TestCorpus:
    def test_names_are_unique_and_roles_say_what_is_expected(self):
        names = [case.row.name for case in CASES]
        assert len(set(names)) == len(names)
        for case in CASES:
            assert (case.row.expected == "violated") == (case.role == "affected"), case.row.name
            assert bool(case.row.reason) == (case.role == "affected"), case.row.name

    def test_every_bug_has_an_affected_case_and_one_that_is_not(self):
        for bug in findings():
            roles = {case.role for case in bug.cases}
            assert roles == {"not reproduced"} or ("affected" in roles and roles & {"fixed", "control"}), bug.title
            assert all("/" in report and report.rpartition("#")[2].isdigit() for report in bug.reports)

    def test_what_has_no_public_report_has_a_page(self):
        pages = [bug.page for bug in findings() if bug.page]
        assert len(set(pages)) == len(pages)
        with pytest.raises(AuditError, match="'noise' has no public report and no page"):
            Bug((), "noise", "all", "none", "any", ())

    def test_every_version_is_in_use(self):
        assert {case.row.version for case in CASES} | {one.version for one in sound()} == set(ENVIRONMENTS)

    def test_names_of_libraries_rows_are_unique_and_what_is_wrong_with_them_is_said(self):
        rows = [row for library in libraries() for row in library.rows]
        assert len({row.name for row in rows}) == len(rows)
        assert all(bool(row.reason) == (row.expected == "violated") for row in rows)


@each_case
def test_every_row_has_a_result_that_its_counts_bear_out(case):
    if not IS_MEASURED and case.row.name not in STORED:
        pytest.skip("not measured yet: run the study library-bugs")
    (stored,) = read(library_bugs.STORED / library_bugs.file_of(case))
    found = verify.recompute(stored)
    assert found.holds, found.differences
    result = found.result
    assert result.mechanism == case.row.name
    assert result.claim.to_dict() == pytest.approx(case.row.stated_claim.to_dict())
    assert (result.trials, result.expected) == (case.trials, case.row.expected)
    assert result.pair in map(str, case.row.pairs)
    assert result.families == case.row.witnesses
    assert result.provenance["library"] == case.row.version
    assert not result.reproducible
    assert result.verdict == case.row.expected
    assert result.confidence >= 1.0 - (1.0 - library_bugs.TOGETHER) / len(STORED) - 1e-12


@later
def test_the_stored_page_and_table_are_those_of_the_stored_results(tmp_path):
    out = tmp_path / library_bugs.STORED.name
    library_bugs.main(out, seed=0, quick=True)
    for name in ("page.md", "data.csv"):
        assert (out / name).read_text() == (library_bugs.STORED / name).read_text(), name
    stored, made = (json.loads((folder / "data.json").read_text()) for folder in (library_bugs.STORED, out))
    assert stored == made
    assert {path.name for path in (library_bugs.STORED / "audits").iterdir()} == {
        library_bugs.file_of(case).rpartition("/")[2] for case in CASES
    }


@later
@pytest.mark.nightly
def test_a_row_without_a_result_stands_in_the_table_and_ends_the_study_with_its_name(tmp_path, monkeypatch, capsys):
    (tmp_path / "audits").mkdir()
    for case in CASES[1:]:
        name = library_bugs.file_of(case)
        (tmp_path / name).write_bytes((library_bugs.STORED / name).read_bytes())
    monkeypatch.setattr(library_bugs, "STORED", tmp_path)
    out = tmp_path / "out"
    assert main(["experiment", "run", "library-bugs", "--quick", "--out", str(out)]) == 2
    assert f"{CASES[0].row.name}: no result is stored" in capsys.readouterr().err
    assert f"| `{CASES[0].row.name}` | affected | 1-DP | - | - | - | - | no result is stored |" in (
        out / "library-bugs" / "page.md"
    ).read_text(encoding="utf-8")


def test_what_cannot_be_installed_or_run_is_in_the_table_with_its_reason(tmp_path, monkeypatch):
    asked = []

    def absent(case, confidence, seed):
        asked.append(case.row.name)
        if case.row.version == "diffprivlib-0.3.0":
            raise library_bugs.NotInstalledError(case.row.version, "it wants Python 2.0, and none is on PATH.")
        raise library_bugs.AuditError("its program ended.")

    (bug,) = [bug for bug in bugs() if "IBM/differential-privacy-library#19" in bug.reports]
    names = [case.row.name for case in bug.cases]
    monkeypatch.setattr(library_bugs, "findings", lambda: [bug])
    monkeypatch.setattr(library_bugs, "run", absent)
    found, missing = library_bugs.audited(tmp_path, 0)
    assert not found
    for name in names:
        gone = name.startswith("diffprivlib-0.3.0")
        said = "not installed: it wants Python 2.0, and none is on PATH." if gone else "not audited: its program ended."
        assert missing[name] == said
    assert asked == [names[0], *names[2:]]  # once a version


def test_permute_and_flip_would_have_been_seen():
    """What opendp#2911 says of noisy max is true of permute-and-flip: the same pair, claim and runs refute it."""
    (bug,) = [bug for bug in bugs() if "opendp/opendp#2911" in bug.reports]
    row, trials = bug.cases[0].row, bug.cases[0].trials

    def law(scores):
        return PermuteAndFlipLaw((0, 1), np.array(scores, float) - max(scores))

    mechanism = vectorized(
        lambda scores, size, rng: law(scores).sample(size, rng), claim=row.stated_claim, pairs=[row.pair]
    )
    assert audit(mechanism, trials=trials, confidence=0.9999, seed=1, n_jobs=1).violates_claim
    rho = exact.exact_parameter(row.stated_claim, law(row.pair.x), law(row.pair.x_prime))
    assert f"rho = {rho:.4f}" in bug.trigger


def test_gaussian_noise_of_diffprivlib_is_enough_in_real_numbers():
    case = next(case for case in CASES if case.row.name == "diffprivlib-0.6.6/gaussian-bits")
    assert case.calculated().epsilon < case.row.stated_claim.epsilon


@pytest.mark.libraries
@each_case
def test_each_case_is_as_expected_when_it_is_run(case):
    result = library_bugs.run(case, 0.9999, seed=7)
    assert result.verdict == case.row.expected, str(result)


@pytest.mark.libraries
@pytest.mark.parametrize("name", ["opendp", "diffprivlib"])
def test_a_whole_library_is_audited_from_the_command_line(name, tmp_path):
    options = ["--trials", "5e4", "--confidence", "0.9999", "--seed", "1", "--out", str(tmp_path)]
    assert main(["audit", "--library", name, *options]) == AS_EXPECTED
    known = next(library for library in libraries() if library.name == name)
    assert [result.mechanism for result in load(tmp_path / "audit.json")] == [row.name for row in known.rows]

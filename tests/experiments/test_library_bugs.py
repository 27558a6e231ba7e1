"""The corpus of known bugs: every row has its result, each is what its counts say, and the page says no more."""

import json

import pytest

from epsaudit.audits import verify
from epsaudit.audits.verify import load
from epsaudit.errors import AuditError
from epsaudit.experiments import library_bugs, maps_of_libraries, score_tools
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.experiments.libraries.registry import libraries
from epsaudit.experiments.libraries.rows import Bug, findings, sound
from epsaudit.results.result import read_file
from epsaudit.tools.cli import AS_EXPECTED
from epsaudit.tools.cli.main import main

CASES = [case for bug in findings() for case in bug.cases]
STORED = {row["mechanism"]: row for row in json.loads((library_bugs.STORED / "data.json").read_text())["rows"]}
IS_MEASURED = set(STORED) == {case.name for case in CASES}
later = pytest.mark.skipif(not IS_MEASURED, reason="the stored results are of a table with other rows")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class TestCorpus:
    def test_names_are_unique_and_roles_say_what_is_expected(self):
        names = [case.name for case in CASES]
        assert len(set(names)) == len(names)
        for case in CASES:
            assert (case.expected == "violated") == (case.role == "affected"), case.name
            assert bool(case.reason) == (case.role == "affected"), case.name

    def test_every_bug_has_an_affected_case_and_one_that_is_not(self):
        for bug in findings():
            roles = {case.role for case in bug.cases}
            assert roles == {"not reproduced"} or ("affected" in roles and roles & {"fixed", "control"}), bug.title
            assert all("/" in report and report.rpartition("#")[2].isdigit() for report in bug.reports)

    def test_what_has_no_public_report_has_a_page(self):
        pages = [bug.page for bug in findings() if bug.page]
        assert len(set(pages)) == len(pages)
        with pytest.raises(AuditError, match="'noise' has no public report and no page"):
            Bug("noise", "all", "none", "any", ())

    def test_every_version_is_in_use(self):
        asked = {version for version, *_ in score_tools.CALLS.values()}
        maps = {one.version for one in maps_of_libraries.statements()} - {""}
        assert asked | maps | {case.version for case in CASES} | {one.version for one in sound()} == set(ENVIRONMENTS)


@each_case
def test_every_row_has_a_result_that_its_counts_bear_out(case):
    if not IS_MEASURED and case.name not in STORED:
        pytest.skip("not measured yet: run the study library-bugs")
    (stored,) = read_file(library_bugs.STORED / library_bugs.file_of(case))
    found = verify.recompute(stored)
    assert found.holds, found.differences
    result = found.result
    assert result.mechanism == case.name
    assert result.claim.to_dict() == pytest.approx(case.stated_claim.to_dict())
    assert (result.trials, result.expected) == (case.trials, case.expected)
    assert result.pair in map(str, case.pairs)
    assert result.families == case.witnesses
    assert result.provenance["library"] == case.version
    assert not result.reproducible
    assert result.verdict == case.expected
    assert result.confidence >= 1.0 - (1.0 - library_bugs.JOINT_CONFIDENCE) / len(STORED) - 1e-12


@later
@pytest.mark.slow
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


@pytest.mark.libraries
@each_case
def test_each_case_is_as_expected_when_it_is_run(case):
    result = library_bugs.run(case, 0.9999, seed=7)
    assert result.verdict == case.expected, str(result)


@pytest.mark.libraries
@pytest.mark.parametrize("name", ["opendp", "diffprivlib"])
def test_a_whole_library_is_audited_from_the_command_line(name, tmp_path):
    options = ["--trials", "5e4", "--confidence", "0.9999", "--seed", "1", "--out", str(tmp_path)]
    assert main(["audit", "--library", name, *options]) == AS_EXPECTED
    known = next(library for library in libraries() if library.name == name)
    assert [result.mechanism for result in load(tmp_path / "audit.json")] == [row.name for row in known.rows]

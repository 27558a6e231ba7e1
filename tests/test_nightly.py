"""What `make nightly` rests on: an order of the day, and tests that are left out, not failed, where they do not fit."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

THEIRS = """
import pytest

@pytest.mark.nightly
@pytest.mark.parametrize("number", range(30))
def test_number(number):
    print("ran", number)
    assert number != 7
"""


@pytest.fixture
def night(pytester, monkeypatch):
    """Function of the settings of a night: what is run, in order, and what came of it."""
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text(encoding="utf-8"))
    pytester.makeini("[pytest]\nmarkers = nightly\n")
    pytester.makepyfile(THEIRS)

    def run(**settings):
        for name in ("DAY", "SECONDS", "END"):
            monkeypatch.delenv(f"NIGHTLY_{name}", raising=False)
        for name, value in settings.items():
            monkeypatch.setenv(f"NIGHTLY_{name.upper()}", value)
        done = pytester.runpytest_inprocess("-m", "nightly", "-s", "-p", "no:cacheprovider")
        ran = [int(line.split()[-1]) for line in done.stdout.lines if "ran " in line]
        return ran, done.parseoutcomes(), done.ret

    return run


def test_the_order_is_of_the_day(night):
    first, again, other = (night(day=day)[0] for day in ("2026-01-01", "2026-01-01", "2026-01-02"))
    assert first == again != other
    assert sorted(first) == sorted(other) == list(range(30))


def test_a_failure_fails_and_running_out_of_time_does_not(night):
    _, outcomes, status = night(seconds="100")
    assert (outcomes, status) == ({"passed": 29, "failed": 1}, pytest.ExitCode.TESTS_FAILED)
    ran, outcomes, status = night(seconds="-1")
    assert (ran, outcomes, status) == ([], {"skipped": 30}, pytest.ExitCode.OK)


def test_what_takes_longer_than_is_left_is_not_begun(night, pytester):
    """A test that states no seconds takes 20."""
    pytester.makepyfile(
        test_stated="""
        import pytest

        @pytest.mark.nightly(seconds=1_000)
        def test_long():
            print("ran 1000")

        @pytest.mark.nightly(seconds=5)
        def test_short():
            print("ran 5")
        """
    )
    ran, outcomes, status = night(seconds="15")
    assert (ran, outcomes, status) == ([5], {"passed": 1, "skipped": 31}, pytest.ExitCode.OK)
    assert set(night(seconds="900")[0]) == {*range(30), 5}

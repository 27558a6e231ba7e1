"""What a check says when it could not have failed, takes long, or is asked wrongly; and who may ask."""

import re

import hypothesis
import pytest
import scipy.stats  # noqa: F401  # pytester forgets what is imported inside
import sklearn.ensemble  # noqa: F401

import epsaudit.audits.fixed
import epsaudit.testing.fixture  # noqa: F401
from epsaudit.audits.verify import load
from epsaudit.cli.main import main

pytest_plugins = ["pytester"]

COUNT = """
    import pytest
    from hypothesis import given, settings, strategies as st
    from epsaudit import AuditError, PowerWarning

    def count(people, size, rng):
        return len(people) + rng.laplace(size=size)

    def leak(people, size, rng):
        return len(people) + rng.laplace(scale=0.4, size=size)

    PAIR = ([1], [1, 2])
"""


@pytest.fixture
def suite(pytester):
    """Function that writes a test module below `COUNT` and runs it in this process, hypothesis as users have it."""

    def run(body, *options):
        pytester.makepyfile(test_mine=COUNT + body)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    hypothesis.settings.register_profile("ours", hypothesis.settings.default)
    hypothesis.settings.load_profile("default")
    yield run
    hypothesis.settings.load_profile("ours")


def test_a_check_that_could_not_have_failed_warns_at_the_users_line(suite):
    body = """
    def test_weak(privacy_audit):
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=150)

    def test_strong(privacy_audit):
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=2_000)

    def test_no_time(privacy_audit):
        privacy_audit.check(count, PAIR, epsilon=1.0, seconds=1e-9)

    def test_control(privacy_audit):
        privacy_audit.must_fail(leak, PAIR, epsilon=1.0)
    """
    result = suite(body)
    result.assert_outcomes(passed=4, warnings=2)
    said = result.stdout.str()
    assert (
        "PowerWarning: The check of count passed, but could hardly have failed: 150 runs do not show epsilon = 2 where "
        "1-DP is claimed. It would " in said
    )
    assert "privacy_audit.check(count, PAIR, epsilon=1.0, runs=150)" in said
    assert "16 runs, all that fitted into 1e-09 seconds, do not show" in said
    strict = suite(body, "-W", "error::epsaudit.PowerWarning", "-k", "strong or no_time")
    strict.assert_outcomes(passed=1, failed=1, deselected=2)


def test_a_check_is_limited(suite, pytester):
    body = """
    import time

    def test_slow(privacy_audit):
        def slow(people, rng):
            time.sleep(0.005)
            return len(people) + rng.laplace()

        result = privacy_audit.check(slow, PAIR, epsilon=1.0)
        assert result.stopped == "seconds" and 24 < result.runs < 200
    """
    suite(body, "--privacy-seconds=0.5").assert_outcomes(passed=1, warnings=1)
    assert "(default 60)" in pytester.runpytest_inprocess("--help").stdout.str()


def test_under_given_examples_share_the_false_alarms_and_repeat_themselves(suite):
    result = suite("""
    def drift(number, size, rng):
        return number + rng.laplace(size=size)

    @given(st.integers(1, 3))
    @settings(max_examples=5, database=None)
    def test_leak(privacy_audit, number):
        privacy_audit.check(drift, (0, number), epsilon=1.0, runs=2_000)

    SPENT = []

    @given(number=st.integers(0, 1))
    def test_right(privacy_audit, number):
        result = privacy_audit.check(drift, (number, 1 - number), epsilon=1.0, runs=200)
        SPENT.append(1 - result.confidence)

    def test_what_was_spent():
        assert sorted(SPENT) == pytest.approx([1e-6 / 6, 1e-6 / 2])

    class TestMethods:
        @given(number=st.just(1))
        def test_right(self, privacy_audit, number):
            privacy_audit.check(drift, (0, number), epsilon=1.0, runs=200)
    """)
    result.assert_outcomes(passed=3, failed=1)
    text = result.stdout.str()
    assert "drift leaks more than its claim of 1-DP." in text
    assert "x = 0, x' = 2" in text
    for word in ("Flaky", "HealthCheck", "Deadline"):
        assert word not in text


def test_what_is_asked_wrongly_is_one_sentence_below_the_users_line(suite):
    result = suite("""
    def unbound(people, epsilon):
        return len(people) + 1 / epsilon

    def turned(rng, people):
        return len(people) + rng.laplace()

    def many(people, epsilon, rng):
        return len(people) + rng.laplace(scale=1 / epsilon)

    def unpacked(people, bounds, rng):
        low, high = bounds
        return len(people) + rng.laplace()

    def silent(people, rng):
        return people["age"] + rng.laplace()

    @pytest.mark.parametrize("function", [unbound, turned, many, unpacked, silent])
    def test_calls(privacy_audit, function):
        privacy_audit.check(function, PAIR, epsilon=1.0)  # mine

    def test_pairs(privacy_audit):
        privacy_audit.must_fail(count, 3, epsilon=1.0)  # mine
    """)
    result.assert_outcomes(failed=6)
    text = result.stdout.str()
    assert len(re.findall(r"# mine\n(?: +\^+\n)?E +epsaudit\.errors\.(?:AuditError|OwnCodeError): ", text)) == 6
    for words in (
        "It was called as unbound(people=x, epsilon=rng); bind what differs, as functools.partial(unbound, ...=...).",
        "It was called as turned(rng=x, people=rng); ",
        "It was called as many(people=x, epsilon=size, rng=rng); ",
        "It was called as unpacked(people=x, bounds=size, rng=rng); ",
        ">       low, high = bounds",
        "raised TypeError: list indices must be integers or slices, not str.\n",
        ">       return len(people) + 1 / epsilon",
        "pairs is 3; write (x, x_prime)",
    ):
        assert words in text
    assert "epsaudit/" not in text.replace("\\", "/")


def test_a_session_writes_what_it_certified_and_two_are_compared(suite, pytester, capsys):
    """A test's name gives its seed: the same code gives the same counts."""
    body = """
    def test_count(privacy_audit):
        privacy_audit.check(leak, PAIR, epsilon=1.0, runs=1_000)
    """
    for name, scale in (("old", 0.4), ("same", 0.4), ("less", 1.0)):
        suite(
            body.replace("leak", f"lambda people, size, rng: len(people) + rng.laplace(scale={scale}, size=size)"),
            f"--privacy-report={name}.json",
        )
    (result,) = load(pytester.path / "old.json")
    assert (result.mechanism, result.verdict) == ("test_mine.py::test_count", "violated")
    assert result.execution["command"].startswith("pytest test_mine.py::test_count --privacy-runs=1000")
    capsys.readouterr()
    assert main(["compare", "old.json", "same.json"]) == 0
    assert "no, the same runs" in capsys.readouterr().out
    main(["compare", "old.json", "less.json"])
    assert "other counts: the same seed and budget gave other counts than before" in " ".join(
        capsys.readouterr().out.split()
    )


FROZEN = """
    from epsaudit.testing import frozen

    @pytest.fixture(scope="module")
    def witness(tmp_path_factory):
        path = tmp_path_factory.mktemp("frozen") / "witness.json"
        frozen.freeze(count, PAIR, epsilon=1.0, trials=12_000, runs=4_000, seed=1).save(path)
        return path
"""


def test_a_frozen_test_is_counted_under_the_terms_of_the_test(suite):
    body = """
    def test_right(privacy_audit, witness):
        assert privacy_audit.check(count, witness=witness).runs == 4_000

    @pytest.mark.privacy_audit(runs=300)
    def test_terms_of_the_marker(privacy_audit, witness):
        assert privacy_audit.check(count, witness=witness, false_alarm=1e-9).runs == 300

    def test_leak(privacy_audit, witness):
        privacy_audit.check(leak, PAIR, witness=witness)
    """
    result = suite(FROZEN + body, "-rP", "--privacy-false-alarm=1e-4")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "The frozen test witness.json is failed.",
            "    certified  the claim does not hold, wrong with probability 5e-05",
            "    reproduce  pytest *::test_leak --privacy-runs=4000 --privacy-false-alarm=0.0001",
            "*::test_right: witness.json, 4,000 runs, seed *, false alarms 5e-05: passed",
            "*::test_terms_of_the_marker: witness.json, 300 runs, seed *, false alarms 5e-10: passed",
        ]
    )


def test_every_check_that_ran_counts_towards_the_total_of_false_alarms(suite):
    result = suite("""
    @pytest.fixture
    def checked(privacy_audit):
        privacy_audit.check(leak, PAIR, epsilon=1.0)

    def test_fixture(checked):
        pass

    def test_skipped(privacy_audit):
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=500)
        pytest.skip("the rest")

    @pytest.fixture
    def checked_after(privacy_audit):
        yield
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=500)

    def test_after(checked_after):
        pass

    def test_passed(privacy_audit):
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=500)
    """)
    result.assert_outcomes(passed=2, skipped=1, errors=1)
    result.stdout.fnmatch_lines(["4 privacy audits; *", "The suite's total false-alarm probability is at most 2e-06."])

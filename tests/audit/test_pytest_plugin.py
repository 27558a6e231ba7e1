"""The privacy_audit fixture: it fails for what leaks, passes for what does not, and says what a person needs.

Every run inside is seeded by its test's name; a right mechanism fails one of these with probability 1e-6 at most.
"""

import json
import re

import fastjsonschema  # noqa: F401  # pytester forgets what is imported inside
import pytest
import scipy.stats  # noqa: F401
import sklearn.ensemble  # noqa: F401

import epsaudit.audits.fixed  # noqa: F401
from epsaudit.testing import fixture
from epsaudit.testing.fixture import Terms, plain, seed_of

pytest_plugins = ["pytester"]

NOISY = """
    import pytest
    from epsaudit import AuditError, DatasetPair, PowerWarning, PureDP, black_box
    from epsaudit.testing.fixture import terms_of
    from epsaudit.testing.plugin import ASKER, RUNS

    def noisy(scale):
        def count(people, size, rng):
            return len(people) + rng.laplace(scale=scale, size=size)
        return count

    PAIRS = [((), (7,))]
"""


@pytest.fixture
def suite(pytester):
    """Function that writes a test module below `NOISY` and runs it with the given options."""

    def run(body, *options, inprocess=True):
        pytester.makepyfile(test_leaks=NOISY + body)
        run_ = pytester.runpytest_inprocess if inprocess else pytester.runpytest_subprocess
        return run_("-p", "no:cacheprovider", "--strict-markers", *options)

    return run


def test_a_leak_fails_with_all_that_is_needed(suite):
    result = suite("""
    def test_leak(privacy_audit):
        privacy_audit.check(noisy(0.5), epsilon=1.0, pairs=PAIRS)
    """)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    for words in (
        "count leaks more than its claim of 1-DP.",
        "claim      1-DP: epsilon = 1",
        "certified  epsilon > 1.",
        "wrong with probability 5e-07",
        "pair       x = (), x' = (7,)",
        "event      {y <= ",
        " on x, ",
        f"seed       {seed_of('test_leaks.py::test_leak', 1, 0)}",
        "reproduce  pytest test_leaks.py::test_leak --privacy-runs=100000 --privacy-false-alarm=1e-06",
    ):
        assert words in text
    assert "Traceback" not in text
    assert "testing/" not in text


def test_the_line_that_reproduces_does(suite, pytester):
    body = """
    @pytest.mark.parametrize("scale", [0.5], ids=["a b"])
    def test_leak(privacy_audit, scale):
        privacy_audit.check(noisy(scale), epsilon=1.0, pairs=PAIRS)
    """
    first = suite(body, "--privacy-false-alarm=1e-4", "--privacy-seed=3").stdout.str()
    line = re.search(r"reproduce  pytest (.*)", first).group(1)
    assert line.startswith("'test_leaks.py::test_leak[a b]' ")
    import shlex

    second = pytester.runpytest_inprocess("-p", "no:cacheprovider", *shlex.split(line)).stdout.str()
    told = [re.search(r"  claim  (.|\n)*  seed .*", text).group(0) for text in (first, second)]
    assert told[0] == told[1]


def test_what_is_right_passes_and_says_what_it_would_have_caught(suite):
    body = """
    def test_right(privacy_audit):
        result = privacy_audit.check(noisy(1.0), epsilon=1.0, pairs=PAIRS, runs=20_000)
        assert 0.5 < result.lower_bound < 1.0

    def test_other():
        pass
    """
    result = suite(body, "-rP")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*privacy audits*",
            "test_leaks.py::test_right: count, 1-DP, 20,000 runs, seed *would have caught epsilon >= 1.*",
        ]
    )
    quiet = suite(body.replace("20_000", "2_000").replace("0.5 <", "0.0 <"))
    said = "1 privacy audit; -rP or -v says what each would have caught."
    quiet.stdout.fnmatch_lines([said, "The suite's total false-alarm probability is at most 5e-07."])


def test_a_failing_pair_of_a_strategy_is_made_simpler(suite, monkeypatch):
    monkeypatch.setattr(fixture, "SHRINKING_SECONDS", 600.0)  # a busy machine is late
    result = suite("""
    from hypothesis import strategies as st
    from epsaudit import Substitution

    def total(people, size, rng):
        return sum(people) + rng.laplace(scale=20, size=size)

    people = st.lists(st.integers(0, 100), min_size=2, max_size=3)
    PAIRS = st.tuples(people, st.integers(0, 100)).map(lambda drawn: (drawn[0], [drawn[1], *drawn[0][1:]]))

    def test_leak(privacy_audit):
        privacy_audit.check(total, PAIRS, epsilon=1.0, adjacency=Substitution())
    """)
    result.assert_outcomes(failed=1)
    simpler = re.search(r"simpler    x = (\[.*\]), x' = (\[.*\])", result.stdout.str())
    sizes = [len(json.loads(dataset)) for dataset in simpler.groups()]
    assert sizes == [2, 2], "as few records as the strategy has"


def test_a_check_that_ended_at_its_limit_is_said_to_have(suite):
    result = suite("""
    import time

    @pytest.mark.filterwarnings("ignore::epsaudit.PowerWarning")
    def test_slow(privacy_audit):
        def slow(people, rng):
            time.sleep(0.01)
            return len(people) + rng.laplace()
        privacy_audit.check(slow, epsilon=1.0, pairs=PAIRS, seconds=0.3)
    """)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 of them ended at the limit of seconds, with fewer runs than were allowed."])


def test_positive_controls(suite):
    result = suite("""
    def test_bad(privacy_audit):
        privacy_audit.must_fail(noisy(0.5), epsilon=1.0, pairs=PAIRS)

    def test_good(privacy_audit):
        privacy_audit.must_fail(noisy(2.0), epsilon=1.0, pairs=PAIRS, runs=2_000)
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "count must fail its privacy audit, and did not: 1-DP was not refuted in 2,000",
            "    certified  epsilon >= 0.*",
            "    reach      would have caught epsilon >= 1.*",
        ]
    )
    assert "total false-alarm probability" not in result.stdout.str()  # no right mechanism fails a control
    details = re.search(r"count must fail(.|\n)*?  seed .*", result.stdout.str()).group(0)
    assert max(map(len, details.splitlines())) <= 80


TERMS = """
    def test_default(request, privacy_audit):
        print("TERMS", terms_of(request.config, request.config.stash[ASKER].item, 3, {}, RUNS))

    @pytest.mark.privacy_audit(runs=500, false_alarm=1e-3)
    def test_marked(request, privacy_audit):
        print("TERMS", terms_of(request.config, request.config.stash[ASKER].item, 1, {}, RUNS))

    @pytest.mark.privacy_audit(runs=500, false_alarm=1e-3)
    def test_called(request, privacy_audit):
        given = {"runs": 700, "seconds": 2.0, "false_alarm": 1e-9}
        print("TERMS", terms_of(request.config, request.config.stash[ASKER].item, 1, given, RUNS))
"""


@pytest.mark.parametrize(
    ("options", "terms"),
    [
        ([], [(100_000, 60.0, 1e-6 / 12), (500, 60.0, 5e-4), (700, 2.0, 5e-10)]),
        (
            ["--privacy-runs=1e6", "--privacy-seconds=5"],
            [(1_000_000, 5.0, 1e-6 / 12), (500, 5.0, 5e-4), (700, 2.0, 5e-10)],
        ),
        (["--privacy-false-alarm=1e-4"], [(100_000, 60.0, 1e-4 / 12), (500, 60.0, 5e-5), (700, 2.0, 5e-10)]),
    ],
)
def test_terms_come_from_the_call_the_marker_and_the_command_line(suite, options, terms):
    text = suite(TERMS, "-rP", *options).stdout.str()
    said = re.findall(
        r"TERMS Terms\(runs=(\d+), seconds=([\w.]+), test_false_alarm=.*, false_alarm=([\d.e-]+), seed=(\d+)\)", text
    )
    found = [(int(runs), float(seconds), float(alarm)) for runs, seconds, alarm, _ in said]
    assert found == [(runs, seconds, pytest.approx(alarm)) for runs, seconds, alarm in terms]
    assert len({seed for *_, seed in said}) == 3


def test_terms_from_the_ini_file(suite, pytester):
    pytester.makeini("[pytest]\nprivacy_runs = 2e4\nprivacy_false_alarm = 1e-5\n")
    assert "Terms(runs=20000, seconds=60.0, test_false_alarm=1e-05" in suite(TERMS, "-rP").stdout.str()


def test_checks_need_not_be_counted(suite):
    # 1/2 + 1/6 + 1/12 + ... = 1
    suite("""
    def test_many(privacy_audit):
        spent = sum(
            1 - privacy_audit.check(noisy(1.0), epsilon=1.0, pairs=PAIRS, runs=100, seconds=1e-9).confidence
            for _ in range(5)
        )
        assert 0.8e-6 < spent <= 5 / 6 * 1e-6
    """).assert_outcomes(passed=1)


@pytest.mark.parametrize("alarm", [0.3, 1e-6, 1e-12, 3.3e-15])
def test_no_more_false_alarms_than_allowed(alarm):
    assert 0.9 * alarm < 1.0 - Terms(100, 1.0, alarm, alarm, 0).confidence <= alarm


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--privacy-runs=many", "--privacy-runs is 'many'; it must be a whole number"),
        ("--privacy-seconds=0", "--privacy-seconds is 0; it must be above 0"),
        ("--privacy-false-alarm=0", "--privacy-false-alarm is 0; it must be strictly between 0 and 1"),
        ("--privacy-seed=x", "--privacy-seed is 'x'; it must be a whole number"),
    ],
)
def test_what_an_option_cannot_be_is_said_before_any_test(suite, option, words):
    result = suite(TERMS, option, inprocess=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {words}" in result.stderr.str()


@pytest.mark.parametrize(
    "name", ["a.py::b", "a@b/c.py::d", "a@b/c.py::D::e", "c.py::d[a@b]", "c@d/e.py::f[a::b@c]", "c.py::d[a]b@c]"]
)
def test_the_group_is_no_part_of_the_name(name):
    assert plain(name) == plain(f"{name}@group") == name


def test_seeds_belong_to_names():
    names = ["a.py::b", "a@b/c.py::d", "a@b/c.py::e", "c.py::d[a@b]", "c.py::d[a@c]"]
    assert len({seed_of(name, 1, 0) for name in names}) == 5
    assert seed_of("a.py::b", 1, 0) == seed_of("a.py::b@group", 1, 0)
    assert (
        len({seed_of("a.py::b", 1, 0), seed_of("a.py::b", 2, 0), seed_of("a.py::b", 1, 1), seed_of("a.py::c", 1, 0)})
        == 4
    )

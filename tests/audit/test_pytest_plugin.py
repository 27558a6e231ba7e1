"""The privacy_audit fixture: it fails for what leaks, passes for what does not, and says what a person needs.

That is also what a check says when it could not have failed, takes long, or is asked wrongly; and who may ask.

Every run inside is seeded by its test's name; a right mechanism fails one of these with probability 1e-6 at most.
"""

import json
import math
import re

import fastjsonschema  # noqa: F401  # pytester forgets what is imported inside
import hypothesis
import pytest
import scipy.stats  # noqa: F401

import epsaudit.audits.fixed  # noqa: F401
from epsaudit import ApproxDP, GaussianDP, PureDP
from epsaudit.audits.verify import load
from epsaudit.bounds.counts import Counts
from epsaudit.tools.cli.main import main
from epsaudit.tools.testing import outcomes
from epsaudit.tools.testing.outcomes import describe_frequencies
from epsaudit.tools.testing.terms import CheckTerms, derive_seed, strip_group
from epsaudit.witnesses.events import Interval, Region, Witness
from epsaudit.witnesses.parts import Value

pytest_plugins = ["pytester"]

NOISY = """
    import pytest
    from hypothesis import given, settings, strategies as st
    from epsaudit.tools.testing.terms import resolve_terms
    from epsaudit.tools.testing.plugin import CURRENT_TEST, DEFAULT_RUNS

    def noisy(scale):
        def count(people, size, rng):
            return len(people) + rng.laplace(scale=scale, size=size)
        return count

    PAIRS = [((), (7,))]

    def count(people, size, rng):
        return len(people) + rng.laplace(size=size)

    def leak(people, size, rng):
        return len(people) + rng.laplace(scale=0.4, size=size)

    PAIR = ([1], [1, 2])
"""


@pytest.fixture
def suite(pytester):
    """Function that writes a test module below `NOISY` and runs it in this process, hypothesis as users have it."""

    def run(body, *options):
        pytester.makepyfile(test_leaks=NOISY + body)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--strict-markers", *options)

    hypothesis.settings.register_profile("ours", hypothesis.settings.default)
    hypothesis.settings.load_profile("default")
    yield run
    hypothesis.settings.load_profile("ours")


def test_a_leak_fails_with_all_that_is_needed(suite):
    result = suite("""
    def test_leak(privacy_audit):
        privacy_audit.check(noisy(0.5), epsilon=1.0, pairs=PAIRS)
    """)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    for words in (
        "count leaks more than its claim of 1-DP: {y ",
        "claim      1-DP: epsilon = 1",
        "certified  epsilon > 1.",
        "wrong with probability 5e-07",
        "pair       x = (), x' = (7,)",
        "event      {y <= ",
        " on x, ",
        f"seed       {derive_seed('test_leaks.py::test_leak', 1, 0)}",
        "reproduce  pytest test_leaks.py::test_leak --privacy-runs=100000 --privacy-false-alarm=1e-06",
    ):
        assert words in text
    flat = " ".join(text.split())
    first = re.search(
        r"was seen (\S+) times as often on x'? as on x'? \(.* runs against .*\), and 1-DP allows 2\.7 times\.", flat
    )
    assert float(first.group(1)) > 2.7
    assert flat.index("was seen") < flat.index("counts ") < flat.index("evidence ")  # the bets come last
    assert "Traceback" not in text
    assert "testing/" not in text


@pytest.mark.parametrize(
    ("option", "variable", "annotated"), [("github", "", 1), ("text", "true", 0), (None, "true", 1), (None, "", 0)]
)
def test_a_failed_check_is_annotated_for_github(suite, monkeypatch, option, variable, annotated):
    monkeypatch.setenv("GITHUB_ACTIONS", variable)
    body = """
    def test_leak(privacy_audit):
        privacy_audit.check(noisy(0.5), epsilon=1.0, pairs=PAIRS)

    def test_right(privacy_audit):
        privacy_audit.check(noisy(1.0), epsilon=1.0, pairs=PAIRS, runs=200)
    """
    result = suite(body, *([f"--privacy-format={option}"] if option else []))
    lines = [line for line in result.stdout.lines if line.startswith("::error ")]
    assert len(lines) == annotated
    for line in lines:
        assert re.match(
            r"::error file=test_leaks.py,line=\d+,title=test_leaks.py%3A%3Atest_leak::count leaks more than its claim",
            line,
        )


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


@pytest.mark.slow
def test_a_failing_pair_of_a_strategy_is_made_simpler(suite, monkeypatch):
    monkeypatch.setattr(outcomes, "MAX_SHRINKING_SECONDS", 600.0)  # a busy machine is late
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
        print("TERMS", resolve_terms(request.config, request.config.stash[CURRENT_TEST].item, 3, {}, DEFAULT_RUNS))

    @pytest.mark.privacy_audit(runs=500, false_alarm=1e-3)
    def test_marked(request, privacy_audit):
        print("TERMS", resolve_terms(request.config, request.config.stash[CURRENT_TEST].item, 1, {}, DEFAULT_RUNS))

    @pytest.mark.privacy_audit(runs=500, false_alarm=1e-3)
    def test_called(request, privacy_audit):
        given = {"runs": 700, "seconds": 2.0, "false_alarm": 1e-9}
        print("TERMS", resolve_terms(request.config, request.config.stash[CURRENT_TEST].item, 1, given, DEFAULT_RUNS))
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
        r"TERMS CheckTerms\(runs=(\d+), seconds=([\w.]+), test_false_alarm=.*, false_alarm=([\d.e-]+), seed=(\d+)\)",
        text,
    )
    found = [(int(runs), float(seconds), float(alarm)) for runs, seconds, alarm, _ in said]
    assert found == [(runs, seconds, pytest.approx(alarm)) for runs, seconds, alarm in terms]
    assert len({seed for *_, seed in said}) == 3


def test_terms_from_the_ini_file(suite, pytester):
    pytester.makeini("[pytest]\nprivacy_runs = 2e4\nprivacy_false_alarm = 1e-5\n")
    assert "Terms(runs=20000, seconds=60.0, test_false_alarm=1e-05" in suite(TERMS, "-rP").stdout.str()


@pytest.mark.parametrize("alarm", [0.3, 1e-6, 1e-12, 3.3e-15])
def test_no_more_false_alarms_than_allowed(alarm):
    assert 0.9 * alarm < 1.0 - CheckTerms(100, 1.0, alarm, alarm, 0).confidence <= alarm


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
    result = suite(TERMS, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {words}" in result.stderr.str()


@pytest.mark.parametrize(
    "name", ["a.py::b", "a@b/c.py::d", "a@b/c.py::D::e", "c.py::d[a@b]", "c@d/e.py::f[a::b@c]", "c.py::d[a]b@c]"]
)
def test_the_group_is_no_part_of_the_name(name):
    assert strip_group(name) == strip_group(f"{name}@group") == name


def test_seeds_belong_to_names():
    names = ["a.py::b", "a@b/c.py::d", "a@b/c.py::e", "c.py::d[a@b]", "c.py::d[a@c]"]
    assert len({derive_seed(name, 1, 0) for name in names}) == 5
    assert derive_seed("a.py::b", 1, 0) == derive_seed("a.py::b@group", 1, 0)
    assert (
        len(
            {
                derive_seed("a.py::b", 1, 0),
                derive_seed("a.py::b", 2, 0),
                derive_seed("a.py::b", 1, 1),
                derive_seed("a.py::c", 1, 0),
            }
        )
        == 4
    )


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
        assert result.stopped == "seconds" and result.runs < 200  # a busy machine makes few
    """
    result = suite(body, "--privacy-seconds=0.5")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["1 of them ended at the limit of seconds, with fewer runs than were allowed."])
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
    assert "drift leaks more than its claim of 1-DP: " in text
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
    assert (result.mechanism, result.verdict) == ("test_leaks.py::test_count", "violated")
    assert result.execution["command"].startswith("pytest test_leaks.py::test_count --privacy-runs=1000")
    capsys.readouterr()
    assert main(["compare", "old.json", "same.json"]) == 0
    assert "no, the same runs" in capsys.readouterr().out
    main(["compare", "old.json", "less.json"])
    assert "other counts: the same seed and budget gave other counts than before" in " ".join(
        capsys.readouterr().out.split()
    )


FROZEN = """
    from epsaudit.tools.testing.freezing import freeze

    @pytest.fixture(scope="module")
    def witness(tmp_path_factory):
        path = tmp_path_factory.mktemp("frozen") / "witness.json"
        freeze(count, PAIR, epsilon=1.0, trials=12_000, runs=4_000, seed=1).save(path)
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
            "The frozen test witness.json refuted the claim: * guesses of the dataset were*",
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
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=100)
        pytest.skip("the rest")

    @pytest.fixture
    def checked_after(privacy_audit):
        yield
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=100)

    def test_after(checked_after):
        pass

    def test_passed(privacy_audit):
        privacy_audit.check(count, PAIR, epsilon=1.0, runs=100)
    """)
    result.assert_outcomes(passed=2, skipped=1, errors=1)
    result.stdout.fnmatch_lines(["4 privacy audits; *", "The suite's total false-alarm probability is at most 2e-06."])


WITNESS = Witness(
    Region(Value(), (Interval(-math.inf, 1.0, False, True),)), Region(Value(), (Interval(2.0, math.inf),))
)


@pytest.mark.parametrize(
    ("counts", "claim", "says"),
    [
        (
            (500, 500, 300, 60, 60, 300),
            PureDP(1.0),
            "{y <= 1} was seen 5.0 times as often on x as on x' (300 of 500 runs against 60 of 500), and 1-DP all",
        ),
        (
            (500, 500, 200, 90, 10, 300),
            PureDP(1.0),
            "30 times as often on x' as on x (300 of 500 runs against 10 of 500), and 1-DP allows 2.7 times",
        ),
        (
            (500, 500, 99, 0, 10, 11),
            PureDP(1.0),
            "in 99 of 500 runs on x and in none of 500 on x', and 1-DP allows 2.7",
        ),
        ((500, 500, 300, 60, 60, 300), GaussianDP(1.0), "), and 1-GDP allows 3.6 times"),
        ((500, 500, 300, 60, 60, 300), ApproxDP(1.0, 0.06), "), and (1, 0.06)-DP allows 3.2 times"),
        ((500, 500, 120, 60, 60, 120), PureDP(1.0), ""),
        ((0, 0, 0, 0, 0, 0), PureDP(1.0), ""),
    ],
)
def test_frequencies_are_compared_with_what_the_claim_allows(counts, claim, says):
    said = describe_frequencies(WITNESS, Counts(*counts), claim)
    assert says in said
    assert bool(says) == bool(said)

"""Upper bounds on all pairs of small datasets, on the command line and in tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from epsaudit import AddRemove, AuditError, MaxChange, PureDP, Substitution, bound_above, bound_above_all
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, INTERRUPTED, SURPRISED
from epsaudit.tools.cli.main import main
from epsaudit.tools.tracing.alignment.exhaustive import MAX_PAIRS, neighbouring_pairs
from epsaudit.tools.tracing.alignment.many_pairs import in_processes

pytest_plugins = ["pytester"]
ONE = PureDP(1.0)


def histogram(data, rng):
    return [data.count(key) + rng.laplace() for key in "abc"]


def counts_a_second_b_twice(data, rng):
    return [data.count("a") + rng.laplace(), data.count("b") + (data.count("b") >= 2) + rng.laplace()]


def releases_noise(data, rng):
    noise = rng.laplace()
    return [len(data) + noise, noise]


class TestPairs:
    @pytest.mark.parametrize("relation", [AddRemove(), Substitution()], ids=str)
    @pytest.mark.parametrize(("domain", "k"), [("ab", 3), ("abc", 2), ([0, 1, None], 3)])
    def test_each_unordered_pair_of_neighbours_is_listed_once(self, domain, k, relation):
        """The truth is a search among all pairs of lists."""
        found = neighbouring_pairs(domain, k, relation)
        multisets = {tuple(sorted(one, key=str)) for size in range(k + 1) for one in _lists(list(domain), size)}
        expected = {
            frozenset((one, other))
            for one in multisets
            for other in multisets
            if relation.holds(list(one), list(other))
        }
        listed = [frozenset(tuple(sorted(side, key=str)) for side in (one.x, one.x_prime)) for one in found]
        assert Counter(listed) == Counter(expected)

    def test_datasets_are_in_the_order_of_the_domain(self):
        assert [one.x_prime for one in neighbouring_pairs("ba", 2)][2:] == [
            ["b", "b"],
            ["b", "a"],
            ["b", "a"],
            ["a", "a"],
        ]

    @pytest.mark.parametrize(
        ("domain", "k", "relation", "said"),
        [
            ("aba", 2, AddRemove, "record twice"),
            ("", 2, AddRemove, "too small"),
            ("a", 2, Substitution, "too small"),
            ("ab", 0, AddRemove, "k is 0"),
            ("ab", 2, MaxChange, "not under"),
            (range(100), 9, AddRemove, f"at most {MAX_PAIRS:,} pairs"),
        ],
    )
    def test_what_cannot_be_listed_is_refused(self, domain, k, relation, said):
        with pytest.raises(AuditError, match=said):
            neighbouring_pairs(domain, k, relation)


def _lists(domain, size):
    return [[]] if size == 0 else [[one, *rest] for one in domain for rest in _lists(domain, size - 1)]


class TestAllPairs:
    @pytest.mark.parametrize(("k", "n"), [(1, 3), pytest.param(4, 60, marks=pytest.mark.slow)])
    def test_a_sound_function_is_bounded_on_all_pairs(self, k, n):
        found = bound_above_all(histogram, "abc", k, claim=ONE, n_jobs=2)
        assert found.sentence() == f"all {n} pairs: at most epsilon 1.000, certain"
        assert (found.n_pairs, found.n_certain, found.n_above, found.within_claim) == (n, n, 0, True)
        assert found.upper_bound == pytest.approx(1.0)

    def test_the_pairs_at_fault_are_found_and_the_smallest_is_named(self):
        """Two pairs of twelve: the second b joins ['b'], or ['a', 'b']."""
        found = bound_above_all(counts_a_second_b_twice, "ab", 3, claim=ONE, n_jobs=2)
        assert (found.n_pairs, found.n_above, found.within_claim) == (12, 2, False)
        assert found.sentence() == (
            "2 of 12 pairs have no bound within the claim; worst is ['b'] against ['b', 'b']: "
            "at most epsilon 2.000, certain (1 path)"
        )
        assert bound_above_all(counts_a_second_b_twice, "ab", 1, claim=ONE, n_jobs=2).within_claim

    def test_without_a_bound_the_line_is_named(self):
        found = bound_above_all(releases_noise, "ab", 1, claim=ONE, n_jobs=2, runs=100)
        assert "2 of 2 pairs have no bound within the claim; worst is [] against ['a']: no upper bound: " in str(found)
        assert f"(test_upper_bound_interface.py:{releases_noise.__code__.co_firstlineno + 2})" in str(found)
        assert found.to_dict()["upper_bound"] is None
        assert found.to_dict()["worst"]["pair"] == "[] against ['a']"

    def test_the_worst_pair_is_that_of_a_list(self):
        found = bound_above_all(histogram, "abc", 1, claim=ONE, adjacency=Substitution, n_jobs=1)
        alone = bound_above(histogram, neighbouring_pairs("abc", 1, Substitution), claim=ONE)
        assert found.upper_bound == alone.upper_bound == pytest.approx(2.0)
        assert "3 of 3 pairs" in found.sentence()

    def test_bounds_from_runs_share_the_confidence(self):
        """All 2 pairs together leave out what one pair leaves out at half the error."""
        found = bound_above_all(lambda data, rng: round(len(data) + rng.laplace()), "a", 2, claim=ONE, runs=400)
        assert not found.certain
        assert found.delta == pytest.approx(1.0 - 0.0125 ** (1.0 / 400))
        assert found.within_claim is False, "0.01 is more than a bound may leave out unless it is asked for"
        asked = bound_above_all(
            lambda data, rng: round(len(data) + rng.laplace()), "a", 2, claim=ONE, runs=400, max_delta=0.02
        )
        assert asked.within_claim
        assert "except with probability 0.011, confidence 95% (2 of the pairs by 400 runs)" in asked.sentence()

    def test_progress_is_told(self):
        told = []
        bound_above_all(histogram, "abc", 2, claim=ONE, progress=lambda *step: told.append(step))
        assert told == [(done, 12) for done in range(13)]

    def test_datasets_take_the_form_that_is_asked_for(self):
        import numpy as np

        found = bound_above_all(lambda x, rng: x.sum() + rng.laplace(), [0.0, 1.0], 2, claim=ONE, form=np.array)
        assert found.sentence() == "all 6 pairs: at most epsilon 1.000, certain"

    def test_a_function_that_ends_its_process_is_refused(self):
        with pytest.raises(AuditError, match="ended its process"):
            bound_above_all(lambda data, rng: os._exit(3), "ab", 2, claim=ONE)

    def test_processes_end_where_the_answers_are_not_awaited(self):
        """The second answer would take a minute."""
        started = time.monotonic()
        answers = in_processes(lambda n: time.sleep(60.0 * n) or n, range(2), n_jobs=2, name="f")
        assert next(answers) == (0, 0)
        answers.close()
        assert time.monotonic() - started < 50.0


class TestCheckpoint:
    def test_finished_pairs_are_not_bounded_again(self, tmp_path):
        def stop(done, total):
            if done == 5:
                raise KeyboardInterrupt

        whole = bound_above_all(histogram, "ab", 2, claim=ONE)
        how = {"claim": ONE, "checkpoint": tmp_path / "c"}
        with pytest.raises(KeyboardInterrupt):
            bound_above_all(histogram, "ab", 2, **how, progress=stop)
        told = []
        assert bound_above_all(histogram, "ab", 2, **how, progress=lambda *step: told.append(step)) == whole
        assert told[0] == (5, 6)
        told.clear()
        assert bound_above_all(histogram, "ab", 2, **how, progress=lambda *step: told.append(step)) == whole
        assert told == [(6, 6)]

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"domain": "abd"}, "differs in domain"),
            ({"claim": PureDP(2.0)}, r"claim \(1-DP there, 2-DP here\)"),
            ({"k": 2}, r"number of records \(1 there, 2 here\)"),
            ({"adjacency": Substitution}, "relation"),
            ({"runs": 20}, "number of runs"),
            ({"function": counts_a_second_b_twice}, "mechanism"),
        ],
    )
    def test_that_of_another_bound_is_refused(self, changed, said, tmp_path):
        how = {"function": histogram, "domain": "abc", "k": 1, "claim": ONE, "checkpoint": tmp_path / "c"}
        bound_above_all(**how)
        with pytest.raises(AuditError, match=said):
            bound_above_all(**{**how, **changed})


MINE = """
import time

def count(data, rng):
    return len(data) + rng.laplace()

def half(data, rng, scale=0.5):
    return len(data) + rng.laplace(scale=scale)

def twice(data, rng):
    noise = rng.laplace()
    return [len(data) + noise, noise]

def rounded(data, rng):
    return round(len(data) + rng.laplace())

def slow_for_b(data, rng):
    time.sleep(60.0 * data.count("b"))
    return len(data) + rng.laplace()

def total(data, rng):
    return data.sum() + rng.laplace()

class Client:
    def __call__(self, data, rng):
        return len(data) + rng.laplace()

def clipped(rows, rng, limit=1, scale=1.0):
    return sum(min(row["age"], limit) for row in rows if row["member"]) + rng.laplace(scale=scale * limit)

def mean(values, rng):
    return sum(values) / len(values) + rng.laplace(scale=3.0)

def said(value, rng):
    return value if rng.random() < 0.7 else "no" if value == "yes" else "yes"
"""
ROWS = {
    "data": {
        "columns": [
            {"name": "age", "type": "integer", "bounds": [0, 2]},
            {"name": "member", "type": "boolean"},
        ],
        "form": "records",
    },
    "parameters": {"limit": [1, 2]},
}
PAIR = ["--pair", "[1]", "[1, 2]"]
DOMAIN = ["--exhaustive", "2", "--domain", '["a", "b"]']


@pytest.fixture
def bound(tmp_path, monkeypatch, capsys):
    """A command that bounds a function of a file of its own name, since modules are imported once in a process."""
    name = f"mine_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)

    def run(function, *words, above=True, env=()):
        status = main(["trace", *env, f"{name}.py:{function}", *["--above"] * above, *words])
        printed = capsys.readouterr()
        return status, (printed.out or printed.err).replace(name, "mine")

    return run


class TestCommand:
    @pytest.mark.parametrize(
        ("function", "words", "status", "said"),
        [
            ("count", PAIR, AS_EXPECTED, "mine.py:count: at most epsilon 1.000, certain (1 path)\n"),
            ("half", PAIR, SURPRISED, "mine.py:half: at most epsilon 2.000, certain (1 path)\n"),
            ("half", [*PAIR, "--parameters", '{"scale": 2}'], AS_EXPECTED, "at most epsilon 0.500, certain"),
            ("twice", [*PAIR, "--trials", "100"], SURPRISED, "no upper bound: "),
            ("twice", [*PAIR, "--trials", "100"], SURPRISED, "(mine.py:12)\n"),
            (
                "twice",
                [*PAIR, "--trials", "100"],
                SURPRISED,
                "\n  the cheapest alignment of what comes before costs eps",
            ),
            (
                "half",
                PAIR,
                SURPRISED,
                "\n  the cheapest alignment costs epsilon 2.000: laplace noise of scale 0.5 has to",
            ),
            ("half", DOMAIN, SURPRISED, "by itself this costs epsilon 2 where 1-DP is claimed (mine.py:8)\n"),
            (
                "rounded",
                [*PAIR, "--trials", "100"],
                SURPRISED,
                "except with probability 0.037, confidence 95% (100 runs)",
            ),
            ("rounded", [*PAIR, "--trials", "100", "--max-delta", "0.05"], AS_EXPECTED, "probability 0.037"),
            ("rounded", [*PAIR, "--trials", "100", "--confidence", "0.5"], SURPRISED, "confidence 50%"),
            ("count", [*PAIR, *PAIR[:2], "[]"], AS_EXPECTED, "mine.py:count on [1] against []: at most epsilon 1.000"),
            (
                "count",
                [*PAIR, *PAIR[:2], "[1, 2, 3]"],
                SURPRISED,
                "mine.py:count on [1] against [1, 2, 3]: at most epsilon 2.0",
            ),
            ("total", [*PAIR[:2], "[1, 1]", "--data", "array"], AS_EXPECTED, "at most epsilon 1.000"),
            ("Client", [*PAIR, "--fresh"], AS_EXPECTED, "at most epsilon 1.000"),
            ("count", DOMAIN, AS_EXPECTED, "mine.py:count: all 6 pairs: at most epsilon 1.000, certain\n"),
            ("half", DOMAIN, SURPRISED, "6 of 6 pairs have no bound within the claim; worst is [] against ['a']: "),
            ("half", [*DOMAIN, "--adjacency", "substitution"], AS_EXPECTED, "all 3 pairs: at most epsilon 0.000"),
        ],
    )
    def test_prints_the_bound_and_exits_with_its_verdict(self, bound, function, words, status, said):
        answered, printed = bound(function, *words, "--epsilon", "1")
        assert said in printed
        assert answered == status

    @pytest.mark.parametrize(
        ("function", "schema", "k", "words", "status", "said"),
        [
            (
                *("clipped", ROWS, 1, ["--parameters", '{"limit": 2}'], AS_EXPECTED),
                "mine.py:clipped: all 6 pairs: at most epsilon 1.000, certain\n",
            ),
            (
                *("clipped", ROWS, 1, [], AS_EXPECTED),
                "mine.py:clipped with limit=1: all 6 pairs: at most epsilon 1.000, certain\n"
                "mine.py:clipped with limit=2: all 6 pairs: at most epsilon 1.000, certain\n",
            ),
            ("clipped", ROWS, 1, ["--parameters", '{"scale": 0.5}'], SURPRISED, "clipped with limit=1: 2 of 6 pairs"),
            (
                *("clipped", {**ROWS, "adjacency": "substitution"}, 1, ["--parameters", '{"limit": 1}'], AS_EXPECTED),
                "all 15 pairs: at most epsilon 1.000, certain",
            ),
            (
                *("mean", {"data": {"numbers": [0, 3], "integer": True, "least": 1}, "adjacency": "substitution"}),
                *(1, [], AS_EXPECTED, "all 6 pairs: at most epsilon 1.000, certain"),
            ),
            (
                *("said", {"data": {"symbols": ["yes", "no"], "form": "one"}}, 2, [], AS_EXPECTED),
                "all 1 pairs: at most epsilon 0.848, certain",
            ),
            pytest.param(
                *("clipped", {**ROWS, "adjacency": "substitution"}, 2, ["--parameters", '{"limit": 1}'], AS_EXPECTED),
                "all 105 pairs: at most epsilon 1.000, certain",
                marks=pytest.mark.slow,
            ),
            pytest.param(
                *("clipped", ROWS, 2, ["--parameters", '{"scale": 0.5}'], SURPRISED, "with limit=1: 14 of 42 pairs"),
                marks=pytest.mark.slow,
            ),
        ],
        ids=["one combination", "all", "leak", "substitution", "least", "one record", "105 pairs", "14 of 42 pairs"],
    )
    def test_a_schema_describes_the_records(self, bound, tmp_path, function, schema, k, words, status, said):
        (tmp_path / "schema.json").write_text(json.dumps(schema))
        exhaustive = ["--exhaustive", str(k), "--schema", "schema.json", "--epsilon", "1"]
        answered, printed = bound(function, *exhaustive, *words)
        assert said in printed
        assert answered == status

    def test_json_of_a_schema_with_combinations_is_a_list(self, bound, tmp_path):
        (tmp_path / "schema.json").write_text(json.dumps(ROWS))
        words = ["--exhaustive", "1", "--schema", "schema.json", "--epsilon", "1", "--json"]
        _, printed = bound("clipped", *words)
        assert [one["name"].partition(" ")[2] for one in json.loads(printed)] == ["with limit=1", "with limit=2"]
        _, printed = bound("clipped", *words, "--parameters", '{"limit": 1}')
        assert json.loads(printed)["n_pairs"] == 6

    @pytest.mark.parametrize(
        ("schema", "words", "said"),
        [
            ({"data": {"numbers": [0, 3]}}, [], "Column 'value' has no finite list of values"),
            ({"data": {"answers": {}}}, [], "Query answers have no records"),
            ({"data": {"columns": [{"name": "who", "type": "integer", "role": "owner"}]}}, [], "names persons"),
            ({"data": {"numbers": [0, 10**6], "integer": True}}, [], "Column 'value' has no finite list"),
            ({"data": {"numbers": [0, 1], "integer": True, "least": 5}}, [], "There are no pairs of 5 to 2 records"),
            (ROWS, ["--checkpoint", "done"], "--checkpoint is for one combination of parameters"),
            (ROWS, ["--domain", "[1]"], "--exhaustive needs --domain with the possible records or --schema"),
            (ROWS, ["--data", "array"], "The schema states the type of the data"),
        ],
    )
    def test_refuses_a_schema_without_a_list_of_records(self, bound, tmp_path, schema, words, said):
        (tmp_path / "schema.json").write_text(json.dumps(schema))
        status, printed = bound("clipped", "--exhaustive", "2", "--schema", "schema.json", "--epsilon", "1", *words)
        assert said in printed
        assert status == BAD_INPUT

    def test_json_holds_each_bound(self, bound):
        _, printed = bound("count", *PAIR, "--mu", "1", "--json")
        (one,) = json.loads(printed)
        assert one["certain"] is True
        assert one["claim"] == "1-GDP"
        assert one["pair"] == "[1] against [1, 2]"
        status, printed = bound("count", *DOMAIN, "--epsilon", "1", "--json")
        assert (status, json.loads(printed)["n_pairs"]) == (AS_EXPECTED, 6)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (PAIR, "An upper bound needs a claim"),
            (["--epsilon", "1"], "An upper bound needs --pair X X_PRIME, or --exhaustive K with --domain"),
            ([*PAIR, "--epsilon", "1", "--certify"], "--certify has no meaning for an upper bound"),
            ([*PAIR, "--epsilon", "1", "--timeout", "0"], "timeout is 0.0; it must be above 0"),
            ([*PAIR, "--epsilon", "1", "--domain", "[1]"], "--domain is for all pairs of small datasets"),
            ([*PAIR, "--epsilon", "1", "--parameters", "[1]"], "--parameters is [1]; it must be a JSON object"),
            (["--epsilon", "1", "--exhaustive", "2"], "--exhaustive needs --domain"),
            ([*PAIR, *DOMAIN, "--epsilon", "1"], "takes no --pair"),
            (["--epsilon", "1", "--exhaustive", "2", "--domain", "7"], "--domain is 7; it must be a JSON list"),
        ],
    )
    def test_refuses_in_a_sentence(self, bound, words, said):
        status, printed = bound("count", *words)
        assert said in printed
        assert status == BAD_INPUT

    def test_refuses_another_environment(self, bound):
        status, printed = bound("count", *PAIR, "--epsilon", "1", env=["env"])
        assert status == BAD_INPUT
        assert "in the environment of epsaudit, and not in 'env'" in printed

    def test_options_of_bounds_need_the_option_above(self, bound):
        assert "--domain is for upper bounds; add --above" in bound("count", *PAIR, *DOMAIN[2:], above=False)[1]

    def test_ctrl_c_is_one_sentence_and_finished_pairs_are_kept(self, tmp_path):
        """The pair with b would take minutes, and the process of the other pair waits for more."""
        (tmp_path / "mine.py").write_text(MINE)
        words = ["trace", "mine.py:slow_for_b", "--above", "--exhaustive", "1", *DOMAIN[2:], "--epsilon", "1"]
        command = [sys.executable, "-m", "epsaudit", *words, "--checkpoint", "c", "--jobs", "2"]
        started = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
        until = time.monotonic() + 60.0
        while not _recorded(tmp_path / "c-wal") and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(started.pid, signal.SIGINT)  # as a terminal does: every process gets it
        _, said = started.communicate(timeout=30)
        assert said.decode() == "epsaudit: interrupted; the same command goes on from the pairs in c.\n"
        assert started.returncode == INTERRUPTED


def _recorded(path):
    """Whether the log of a checkpoint has the bound of a pair."""
    return path.exists() and b'"upper_bound":' in path.read_bytes()


def test_the_fixture_fails_with_pair_sentence_and_line(pytester):
    pytester.makepyfile("""
        def count(data, rng):
            return len(data) + rng.laplace()

        def half(data, rng):
            return len(data) + rng.laplace(scale=0.5)

        def twice(data, rng):
            noise = rng.laplace()
            return [len(data) + noise, noise]

        def rounded(data, rng):
            return round(len(data) + rng.laplace())

        PAIRS = [([], [1]), ([1], [1, 2])]

        def test_sound(privacy_audit):
            (one, other) = privacy_audit.bound_above(count, PAIRS, epsilon=1.0)
            assert one.certain and other.upper_bound < 1.001

        def test_half(privacy_audit):
            privacy_audit.bound_above(half, PAIRS, epsilon=1.0)

        def test_half_of_its_own_claim(privacy_audit):
            privacy_audit.bound_above(half, PAIRS, epsilon=2.0)

        def test_twice(privacy_audit):
            privacy_audit.bound_above(twice, PAIRS, epsilon=1.0, runs=100)

        def test_few_runs(privacy_audit):
            privacy_audit.bound_above(rounded, PAIRS[:1], epsilon=1.0, runs=200)

        def test_few_runs_allowed(privacy_audit):
            privacy_audit.bound_above(rounded, PAIRS[:1], epsilon=1.0, runs=200, max_delta=0.02)

        def test_equal_datasets(privacy_audit):
            privacy_audit.bound_above(count, [([1], [1])], epsilon=1.0)
        """)
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(passed=3, failed=4)
    ran.stdout.fnmatch_lines(
        [
            "half has no upper bound within its claim.",
            "    claim      1-DP",
            "    pair       [[]] against [[]1]",
            "    bound      at most epsilon 2.000, certain (1 path)",
            "    at         *.py:5",
            "    because    the cheapest alignment costs epsilon 2.000: laplace noise of scale 0.5 has to move by 1: *",
            "twice has no upper bound within its claim.",
            "    at         *.py:9",
            "    because    the cheapest alignment of what comes before costs epsilon 1.000",
            "    bound      at most epsilon 1.000 except with probability 0.019, confidence 95% (200 runs)",
            "    allowed    a bound may leave out a probability of 0.001",
            "*Both datasets of the pair * are the same*",
        ]
    )

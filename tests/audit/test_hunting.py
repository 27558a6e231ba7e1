"""Hunts: leaky functions are found from a description of their data alone, sound ones are never refuted."""

import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from epsaudit import AddRemove, ApproxDP, AuditError, DatasetPair, PureDP, Substitution, vectorized
from epsaudit.audits.sequential import SequentialResult
from epsaudit.audits.verify import load, recompute
from epsaudit.data.neighbours import MaxChange
from epsaudit.running import child, copies
from epsaudit.running.served import Served
from epsaudit.tools.cli.main import main
from epsaudit.tools.hunting import screening, single_audit, time_budget
from epsaudit.tools.hunting.boundaries import bisect_path, max_bisection_steps, path_between, shortest_path
from epsaudit.tools.hunting.candidate import as_candidate
from epsaudit.tools.hunting.columns import Column
from epsaudit.tools.hunting.description import Table, numbers, symbols
from epsaudit.tools.hunting.hunt import hunt
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.parameters import candidates
from epsaudit.tools.hunting.relations import AddRemovePerson, SubstitutePerson
from epsaudit.tools.hunting.shrinking import records_of, shrink
from epsaudit.witnesses.conditions import MAX_SIMPLE_PARTS, count_condition_parts

WITHIN, SYMBOLS = numbers(0, 4), symbols("a", "b")


def scale_of_half(values, rng):
    return len(values) + rng.laplace(scale=0.5)


def no_clipping(values, rng):
    return float(np.nansum(values)) + rng.laplace(scale=4.0)


def exact_length(values, rng):
    return rng.laplace(), len(values)


def raises_on_empty(values, rng):
    return min(4.0, max(0.0, values[0])) + rng.laplace(scale=4.0)


def noise_by_size(values, rng):
    return rng.laplace(scale=1.0 + len(values))


def keeps_a_symbol(values, rng):
    return sorted({*values, "a"}) if rng.random() < 0.5 else ["a", "b"]


def majority_of_little_noise(values, rng):
    scores = np.array([list(values).count(symbol) for symbol in ("a", "b")])
    return "ab"[int(np.argmax(scores + rng.gumbel(scale=0.4, size=2)))]


LEAKY = {
    scale_of_half: WITHIN,
    no_clipping: WITHIN,
    exact_length: WITHIN,
    raises_on_empty: WITHIN,
    noise_by_size: WITHIN,
    keeps_a_symbol: SYMBOLS,
    majority_of_little_noise: SYMBOLS,  # in which a trace sees nothing
}
"""Functions, and the data for which they promise 1-DP when one record is added or removed."""


def clipped(values):
    return sum(min(max(value, 0.0), 4.0) for value in values if value == value)


def count(values, rng):
    return len(values) + rng.laplace()


def clipped_sum(values, rng):
    return clipped(values) + rng.laplace(scale=4.0)


def mean(values, rng):
    return (clipped(values) + rng.laplace(scale=8.0)) / max(1.0, len(values) + rng.laplace(scale=2.0))


def majority(values, rng):
    scores = np.array([list(values).count(symbol) for symbol in ("a", "b")])
    return "ab"[int(np.argmax(scores + rng.gumbel(scale=2.0, size=2)))]


def refuses(values, rng):
    if len(values) + rng.laplace() < 1.0:
        raise ValueError("too few")
    return 1.0


SOUND = {**dict.fromkeys((count, clipped_sum, mean, refuses), WITHIN), majority: SYMBOLS}


def short(description, adjacency=AddRemove, most=8):
    """Candidates that are spread over all of a description, simple ones among them."""
    listed = candidates(description, adjacency=adjacency)
    return listed[:: max(1, len(listed) // most)]


def hunted(function, description, found=None, **options):
    claim = options.pop("claim", PureDP(1.0))
    settings = {"adjacency": AddRemove, "describe": description, "n_jobs": 1, "seed": 1}
    quick = {"audits": 2, "trials": 2_000, "steps": 8}
    asked = Options(**{**settings, **quick, **options})
    return hunt(function, short(description) if found is None else found, claim=claim, options=asked)


def some_daily(functions, *daily):
    """Mark all functions but a few as slow."""
    marks = [() if function in daily else pytest.mark.slow for function in functions]
    return [pytest.param(one, id=one.__name__, marks=mark) for one, mark in zip(functions, marks, strict=True)]


@pytest.mark.parametrize("function", some_daily(LEAKY, scale_of_half))
def test_a_leak_is_found_with_no_pair_given_and_shrunk_to_three_records(function):
    description = LEAKY[function]
    found = hunted(function, description)
    assert found.refuted
    assert len(found.findings) <= 2, "on empty data, and on any"
    finding = found.findings[0]
    sides = finding.candidate.pair.x, finding.candidate.pair.x_prime
    assert sum(map(len, sides)) <= 3
    assert AddRemove().holds(*sides)
    assert count_condition_parts(finding.result.witness) <= MAX_SIMPLE_PARTS
    assert finding.result.violates_claim
    assert 256 <= finding.result.training_runs <= 20_000
    stored = finding.result.to_dict()
    assert recompute(stored).holds
    assert not recompute({**stored, "training_runs": 0, "trials": finding.result.runs}).holds, "of no hunt"
    assert json.loads(json.dumps(finding.to_dict()))["pair"][:2] == list(sides)
    assert "contradicts the claim" in str(finding)


def two_faults(values, rng, query):
    """A blatant sum beside a sound count, and what always fails."""
    if query == "none":
        raise TypeError(query)
    if query == "sum":
        return sum(values) + rng.laplace(scale=2.0) if values else math.nan
    return len(values) + int(rng.geometric(1.0 - math.exp(-1.0)) - rng.geometric(1.0 - math.exp(-1.0)))


@pytest.mark.slow
def test_the_blatant_is_found_beside_the_sound_in_the_domain_of_the_data():
    """Empty data are one finding, sums another; what is certified of either is most of what the most runs show."""
    within, held = numbers(10, 11, beyond=False), []
    parameters = {"query": ["count", "none", "sum"]}
    listed = [one for one in candidates(within, parameters, AddRemove) if len(one.pair.x) < 2][::4]
    asked = {"audits": 3, "trials": 2_000, "steps": 2}
    options = Options(
        **asked, adjacency=AddRemove, describe=within, seed=1, n_jobs=1, found=lambda *one: held.append(one)
    )
    seen = hunt(two_faults, listed, claim=PureDP(1.0), options=options)
    empty, summed = seen.findings
    assert {one.candidate.parameters["query"] for one in seen.findings} == {"sum"}
    assert seen.attempts[0].candidate.parameters["query"] == "sum", "as a trace suspects it"
    line = two_faults.__code__.co_firstlineno + 5
    assert any(f"a trace names test_hunting.py:{line} input moves by" in note for note in summed.result.notes)
    assert [len(one.candidate.pair.x) > 0 for one in (empty, summed)] == [False, True]
    for one in (empty, summed):
        assert all(10 <= value <= 11 for value in (*one.candidate.pair.x, *one.candidate.pair.x_prime))
        assert max(one, one.strongest or one, key=lambda one: one.result.lower_bound).result.lower_bound > 3.0
    assert [held[0][0], *held[-1]] == [1, 2, summed, 1]
    assert re.search(
        r"All \d+ candidates with query='none' failed; the first: every run raises TypeError\.", seen.sentence()
    )
    assert {one.candidate.parameters["query"] for one in seen.attempts} == {"count", "sum"}


@pytest.mark.parametrize("function", some_daily(SOUND, count))
def test_a_sound_function_is_not_refuted(function):
    """At 99.99 % for each hunt: at most one false alarm in a thousand such tests."""
    description = SOUND[function]
    found = hunted(function, description, short(description, most=6), confidence=0.9999, audits=1, trials=400)
    assert not found.refuted
    assert found.attempts
    assert "not refuted under 'add or remove one record'" in found.sentence()


@pytest.mark.slow
def test_whole_hunts_err_as_seldom_as_they_say():
    """Mechanisms that attain their claim, each of 60 hunts at 80 %: of these at most 12 may err on average.

    Under the claim more than 24 do so with a probability below 4e-4; the shares are spent by few, so that it is 0 or 1.
    """
    wrong = 0
    for seed in range(60):
        options = Options(confidence=0.8, audits=3, trials=500, n_jobs=1, seed=seed)
        wrong += hunt(randomized_response, [("yes", "no")] * 3, claim=PureDP(1.0), options=options).refuted
    assert wrong <= 24


def test_shares_of_the_error_probability_add_up_to_it():
    spent = [1.0 - Options(confidence=0.9).confidence_of_test(number) for number in range(1, 2_000)]
    assert 0.0499 < math.fsum(spent) < 0.05


def randomized_response(truth, rng):
    return truth if rng.random() < 1.0 / (1.0 + math.exp(-1.0)) else {"yes": "no", "no": "yes"}[truth]


@pytest.mark.slow
def test_a_broken_budget_would_be_noticed(monkeypatch):
    """With every share at one half, a mechanism that attains its claim is refuted by one of twenty audits.

    At one half an audit of 200 runs refutes it with a probability of about 1/6, and so one of twenty with 0.97; with
    the shares as they are, any does with 0.05 at most.
    """
    options = Options(audits=20, trials=200, seed=2, n_jobs=1)
    assert not hunt(randomized_response, [("yes", "no")] * 2, claim=PureDP(1.0), options=options).refuted
    monkeypatch.setattr(Options, "confidence_of_test", lambda self, number: 0.5)
    assert hunt(randomized_response, [("yes", "no")] * 20, claim=PureDP(1.0), options=options).refuted


def by_substitution(values, rng):
    """The sum of values in [-1, 1]: changing a record moves it by 2, adding one by 1."""
    return float(np.clip(values, -1.0, 1.0).sum()) + rng.laplace()


@pytest.mark.slow
def test_the_verdict_names_the_relation_and_calls_nothing_else_a_violation():
    added, replaced = DatasetPair([1.0], [1.0, 1.0], "added"), DatasetPair([1.0], [-1.0], "replaced")

    def hunted_under(pairs, adjacency=None):
        options = Options(adjacency=adjacency, n_jobs=1, seed=1, audits=2, trials=600)
        return hunt(by_substitution, pairs, claim=PureDP(1.0), options=options)

    both = hunted_under([added, replaced])
    assert both.verdicts() == {"add or remove one record": False, "substitute one record": True}
    assert "it is a violation only if the claim is for that relation" in both.sentence()
    one = hunted_under([added, replaced], AddRemove)
    assert not one.refuted
    assert one.left_out == 1
    assert "substitute" not in one.sentence()
    with pytest.raises(
        AuditError, match="None of the 1 candidates are neighbours under the relation of the claim, subst"
    ):
        hunted_under([added], Substitution)


class Killed(BaseException):
    pass


def test_a_hunt_that_was_killed_goes_on_to_the_same_end(tmp_path):
    """Killed in the first audit, in shrinking, and before certifying; what is done is not done again."""
    listed = [([0.0] * 20, [*[0.0] * 20, 4.0]), ([4.0] * 20, [4.0] * 21)]  # which take two steps to shrink
    whole, heard = hunted(scale_of_half, WITHIN, listed), []

    def stopping_at(word):
        def say(sentence):
            heard.append(sentence)
            if word in sentence:
                raise Killed

        return say

    kept = {"checkpoint": tmp_path / "kept"}
    for word in ("audit 1: ", "certifying", "step 2"):
        with pytest.raises(Killed):
            hunted(scale_of_half, WITHIN, listed, progress=stopping_at(word), **kept)
    for _ in range(2):
        done = hunted(scale_of_half, WITHIN, listed, progress=heard.append, **kept)
        assert [one.result.to_dict() for one in done.attempts] == [one.result.to_dict() for one in whole.attempts]
        assert [one.to_dict() for one in done.findings] == [one.to_dict() for one in whole.findings]
        assert done.runs == whole.runs
    assert sum("tracing: 1 of" in one for one in heard) == 1
    drawn = [one for one in heard if "of at most" in one]
    assert 0 < len(set(drawn)) == len(drawn), "audits and steps are remembered"


def raises_on_seven(values, rng):
    if 7 in values:
        raise ValueError("seven")
    return len(values) + rng.laplace()


def test_a_hunt_that_was_killed_after_its_traces_finds_the_pair_that_raises(tmp_path):
    """The choice among several such pairs is made from shares and ranks that the checkpoint gives back."""
    listed = [([], [7]), *(([n], [n, 7]) for n in (1, 2, 3))]
    options = {"audits": 1, "trials": 200, "seed": 1, "n_jobs": 1, "steps": 0}

    def stop(sentence):
        if "audit 1: " in sentence:
            raise Killed

    def run(**more):
        return hunt(raises_on_seven, listed, claim=PureDP(1.0), options=Options(**options, **more))

    with pytest.raises(Killed):
        run(checkpoint=tmp_path / "kept", progress=stop)
    whole, done = run(), run(checkpoint=tmp_path / "kept")
    assert done.refuted
    assert [one.result.to_dict() for one in done.attempts] == [one.result.to_dict() for one in whole.attempts]


ASKED = {"function": exact_length, "description": WITHIN, "found": [([1.0], [1.0, 2.0])], "steps": 0, "audits": 1}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("hunt") / "kept"
    hunted(**ASKED, checkpoint=path)
    return path


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"found": [([1.0], [1.0, 1.0])]}, "belongs to another audit: it differs in candidates"),
        ({"claim": PureDP(0.5)}, r"it differs in claim \(PureDP\(epsilon=1.0\) there, PureDP\(epsilon=0.5\) here\)"),
        ({"function": no_clipping}, "differs in mechanism"),
        ({"seed": 2}, "differs in seed"),
        ({"seconds": 10.0}, "give either seconds or a checkpoint"),
        ({"function": lambda values: float(np.random.default_rng().normal())}, "so no checkpoint can be kept"),
    ],
)
def test_a_checkpoint_is_of_one_hunt(change, refusal, kept):
    with pytest.raises(AuditError, match=refusal):
        hunted(**{**ASKED, **change}, checkpoint=kept)


@pytest.fixture
def no_audit(monkeypatch):
    def cannot(*arguments, **options):
        raise AuditError("not this one")

    monkeypatch.setattr(single_audit, "audit_sequentially", cannot)


@pytest.mark.usefixtures("no_audit")
def test_what_failed_before_an_interruption_fails_alike_after_it(tmp_path):
    asked = {**ASKED, "checkpoint": tmp_path / "kept"}
    assert [[one.failure for one in hunted(**asked).attempts] for _ in range(2)] == [["not this one"]] * 2


def test_what_always_fails_is_a_sentence():
    def fails(values, rng):
        raise OSError("no disk")

    with pytest.raises(AuditError, match=r"could be audited\. The first: every run raises OSErr"):
        hunt(fails, [([1], [1, 1])], claim=PureDP(1.0), options=Options(n_jobs=1, seed=1))


class TestShrinking:
    def shrunk(self, x, x_prime, still, relation=None):
        start = as_candidate((x, x_prime))
        return shrink(start, lambda one: still(one.pair.x, one.pair.x_prime))[0].pair

    def test_common_records_go_first(self):
        pair = self.shrunk(list(range(50)), [*range(50), 7], lambda x, y: 7 in y and 30 in x)
        assert (pair.x, pair.x_prime) == ([30], [30, 7])

    def test_values_become_simple_and_neighbours_stay_neighbours(self):
        pair = self.shrunk((2.5, 7.25), (2.5, -103.7), lambda x, y: min(y) < -3)
        assert (pair.x, pair.x_prime) == ((0.0,), (-4.0,))

    def test_without_a_description_values_stay_within_those_given(self):
        """Of data that are promised to be at least 1, 0 is none."""
        pair = self.shrunk([(1.5, "a"), (3.0, "b")], [(10.0, "a"), (3.0, "b")], lambda x, y: x[0][0] != y[0][0])
        assert (pair.x, pair.x_prime) == ([(1.5, "a")], [(2.0, "a")])

    def test_a_description_says_what_data_may_be(self):
        table = numbers(0, 9, integer=True, form="array")
        start = candidates(table, adjacency=AddRemove)[-1]
        longer = lambda one: len(one.pair.x_prime) != len(one.pair.x)  # noqa: E731
        found, _ = shrink(start, longer, describe=lambda values: table)
        assert sum(map(len, records_of(found))) == 1
        assert isinstance(found.pair.x, np.ndarray)


SERVED = '''
import random

def clipped_sum(values, clip=3, seed=None):
    """The bug: noise for one record, which counts up to clip times."""
    draws = random.Random(seed)
    return sum(min(value, clip) for value in values) + draws.expovariate(1) - draws.expovariate(1)

def sound(values, clip=3, seed=None):
    return clipped_sum(values, clip, seed) * 0

class Measurement:
    """As one of OpenDP."""

    output_measure = "MaxDivergence"

    def map(self, distance):
        print("maps")
        return 3.0 * distance

class Old:
    """As one of OpenDP up to 0.4."""

    output_distance_type = "f64"

    def check(self, distance, epsilon):
        return epsilon >= 0.7 * distance

def stated(clip=3):
    return {3: Measurement(), 4: (Old(), 10.0)}.get(clip, {"epsilon": clip})

def unknown(clip=3):
    return {"rho": 1.0, "mu": 1.0}

def wrong(clip=3):
    raise ValueError("no such clip")
'''


@pytest.fixture
def served(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(SERVED)
    monkeypatch.chdir(tmp_path)
    schema = {"data": {"numbers": [2, 3], "integer": True, "form": "array"}, "parameters": {"clip": [3]}}
    (tmp_path / "schema.json").write_text(json.dumps({**schema, "adjacency": "add-remove"}))
    python = os.path.relpath(sys.executable)
    return ["hunt", python, "mine.py:clipped_sum", "--epsilon", "1", "--seed", "1", "--jobs", "1", "--quiet"]


def test_the_command_finds_what_a_script_without_epsaudit_shows_again(served, capsys):
    more = ["--parameters", '{"clip": 3}', "--trials", "2000", "--out", "found"]
    assert main([*served, "--pair", "[4, 2]", "[4, 2, 9]", "--adjacency", "add-remove", *more]) == 1
    (result,) = load(Path("found/refuted-1.json"))
    assert (result.x, result.x_prime) == ("[]", "[2]")
    assert "--pair '[]' '[2]'" in result.execution["command"]
    assert "mine.py:clipped_sum --epsilon 1 --seed 1" in result.execution["command"]
    assert main(["verify", "found/refuted-1.json", "--quiet"]) == 0
    assert main(["verify", "found/audited.json", "--quiet"]) == 0
    assert "mine.py:clipped_sum: refuted under" in Path("found/hunt.md").read_text()
    notes = ("neighbours under 'add or remove one record'", "parameters clip=3")
    assert result.notes[:2] == load(Path("found/audited.json"))[0].notes[-2:] == notes
    assert main(["report", "found/refuted-1.json", "--html", "page.html"]) == 0
    assert "neighbours under &#39;add or remove one record&#39;" in Path("page.html").read_text()
    assert main(["reproduce", "found/refuted-1.json", "--run", "--out", "script.py", "--issue", "issue.md"]) == 0
    assert re.match(r"epsaudit: p-value of fresh runs by \S+: \S+\n$", capsys.readouterr().err)
    issue = Path("issue.md").read_text()
    assert "- Neighbours under 'add or remove one record'\n- Parameters clip=3\n" in issue
    script = Path("script.py").read_text()
    assert "X_PRIME = [2]  # neighbours under 'add or remove one record'\n" in script
    assert "clipped_sum(copy.deepcopy(data), clip=3" in script
    assert len(script.splitlines()) <= 60
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=60, check=True)
    assert all(float(found) < 1e-2 for found in re.findall(r"(?:p-value|counts:) ([\d.e-]+)$", done.stdout, re.M))


class TestWhatIsPrinted:
    """A hunt prints what it refuted, with its datasets, and a summary of the rest; --verbose prints all rows."""

    PAIRS = ("--pair", "[]", "[2]", "--pair", "[3]", "[3, 3]", "--pair", "[2]", "[2, 2]", "--trials", "1000")
    RELATION = ("--adjacency", "add-remove")

    def printed(self, served, capsys, function, *more, status):
        words = [{"mine.py:clipped_sum": function}.get(word, word) for word in served if word != "--quiet"]
        assert main([*words, *self.RELATION, *self.PAIRS, *more]) == status
        return " ".join(capsys.readouterr().out.split())

    def test_a_summary_of_a_sound_function(self, served, capsys):
        text = self.printed(served, capsys, "mine.py:sound", status=0)
        assert "3 audits did not refute the claim; the largest certified bound is " in text
        assert "--verbose lists all. mine.py:sound: not refuted" in text
        assert "what was tried" not in text

    def test_all_rows_if_they_are_asked_for(self, served, capsys):
        text = self.printed(served, capsys, "mine.py:sound", "-v", status=0)
        assert text.count("not refuted") == 4
        assert "lists all" not in text

    def test_a_refuted_pair_is_printed_as_datasets(self, served, capsys):
        text = self.printed(served, capsys, "mine.py:clipped_sum", status=1)
        assert re.search(r" pair \[[\d, ]*\] against \[[\d, ]+\] ", text)
        assert "refuted │" in text
        assert "what was tried" in text

    def test_a_dry_run_hunts_nothing(self, served, capsys, monkeypatch):
        monkeypatch.setattr("epsaudit.tools.cli.hunting.hunting.hunt", None)
        text = self.printed(served, capsys, "mine.py:sound", "--dry-run", "--out", "found", status=0)
        assert text.startswith("Nothing was hunted. A hunt would trace 3 candidates, screen them by 256 runs each (")
        assert "and audit 3 or so (at most a minute), by at most 1,000 runs each. An audit can" in text
        assert re.search(r"certify at most epsilon 5\.\d+, where 1-DP is claimed", text)
        assert not Path("found").exists()

    @pytest.mark.parametrize(
        ("function", "says"),
        [
            ("mine.py:clipped_som", "cannot be served. mine.py has no 'clipped_som'. Did you mean 'clipped_sum'?"),
            ("mime.py:sound", "'mime.py:sound' cannot be served. There is no file 'mime.py'. Did you mean 'mine.py'?"),
        ],
    )
    def test_a_name_that_is_wrong_is_refused_before_candidates_are_tried(
        self, served, capsys, function, says, monkeypatch
    ):
        monkeypatch.setattr(screening, "screen_candidate", None)
        words = [{"mine.py:clipped_sum": function}.get(word, word) for word in served]
        assert main([*words, *self.RELATION, "--schema", "schema.json"]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.slow
def test_a_claim_is_read_where_the_library_is(served, capsys):
    """A claim of three for noise that loses three; of clip for noise that loses clip."""
    data = {"numbers": [0, {"parameter": "clip"}], "integer": True, "beyond": False}
    content = {"data": data, "parameters": {"clip": [3, 4]}, "adjacency": "add-remove"}
    Path("schema.json").write_text(json.dumps(content))
    words = ["hunt", sys.executable, "mine.py:clipped_sum", "--seed", "1", "--jobs", "1", "--confidence", "0.9999"]
    quick = ["--schema", "schema.json", "--audits", "2", "--trials", "1000", "--claim"]
    assert main([*words, *quick, "mine.py:stated", "--json"]) == 0
    audited = json.loads(capsys.readouterr().out)["audits"]
    assert {(one["parameters"], one["proven"]) for one in audited} <= {("clip=3", 3.0), ("clip=4", 7.0)}
    assert main([*words, *quick, "mine.py:stated", "--epsilon", "1"]) == 2
    assert "Give either --claim" in capsys.readouterr().err
    assert main([*words, *quick, "mine.py:unknown"]) == 2
    assert (
        "states {'rho': 1.0, 'mu': 1.0} with {'clip': 3}, which is no claim; one is made of" in capsys.readouterr().err
    )
    assert main([*words, *quick, "mine.py:wrong"]) == 2
    assert "mine.py:wrong states no claim with {'clip': 3}: ValueError: no such clip." in capsys.readouterr().err
    assert main([*words, *quick, "mine.py:nothing"]) == 2
    assert "mine.py:nothing states no claim: mine.py has no 'nothing'." in capsys.readouterr().err


@pytest.mark.slow  # 17 processes are started
def test_what_no_process_started_anew_sees_is_not_refuted_in_a_hurry(tmp_path, monkeypatch):
    """Noise is drawn once a process, so that within one all outputs on either dataset differ from the other's."""
    (tmp_path / "kept.py").write_text(
        "import random\nNOISE = random.gauss(0, 9)\ndef count(x): return len(x) + NOISE\n"
    )
    monkeypatch.chdir(tmp_path)
    options = Options(seconds=60.0, audits=1, seed=1, n_jobs=1)
    seen = hunt(Served("kept.py:count"), [([1], [1, 1])], claim=PureDP(1.0), options=options)
    assert not seen.refuted
    assert (
        "refuted, and not certified anew: Processes of the program that were started anew" in seen.attempts[0].failure
    )


def test_shrinking_stays_within_the_relation_of_the_claim():
    """Three records are a person's; one of them more is none of the claim's business."""
    people = Table(
        [Column("who", "integer", role="owner"), Column("v", bounds=(0, 4))], most_rows_a_person=3, beyond=False
    )

    def rows_with_noise_for_one(rows, rng):
        return max(len(rows), 1) + rng.laplace(scale=1 / 3)

    listed = [one for one in candidates(people, adjacency=AddRemovePerson) if len(one.adjacencies) > 1 and one.pair.x]
    seen = hunted(rows_with_noise_for_one, people, listed[:3], adjacency=AddRemovePerson, audits=1)
    assert seen.refuted
    for finding in seen.findings:
        assert AddRemovePerson().holds(*finding.candidate.rows)


@pytest.mark.usefixtures("no_audit")
def test_no_audit_is_no_verdict():
    """Nothing was audited, nor is any law known, which is not 'not refuted'."""
    seen = hunted(majority_of_little_noise, SYMBOLS, [(["a"], ["a", "a"])])
    assert seen.verdicts() == {}
    assert "nothing could be audited" in seen.sentence()
    assert "and 0 audited" in seen.sentence()


def test_time_is_shared_evenly_and_half_goes_to_what_is_soon_refuted(monkeypatch):
    given = []

    def none(*arguments, seconds, **options):
        given.append((seconds(0.0), seconds(1.0)))
        raise AuditError("not this one")

    monkeypatch.setattr(single_audit, "audit_sequentially", none)
    pairs = [("yes", "no"), ("no", "yes"), ("yes", "maybe")]
    for few, shares in ((None, (4, 3, 2)), (1, (2,))):
        given.clear()
        hunt(majority, pairs, claim=PureDP(1.0), options=Options(seconds=1e4, audits=few, seed=1, n_jobs=1))
        assert [round(1e4 / most) for most, _ in given] == [*shares]
        assert [round(1e4 / most) for _, most in given] == [2] * len(shares)


def test_what_takes_many_runs_to_refute_is_certified_by_an_event_of_as_many():
    """A clipped mean of one value, and of two by half of the noise: only in the middle it loses more than claimed."""

    def mean(data, size, rng):
        return np.clip(data / 2.0 + rng.laplace(scale=1.0 - data / 2.0, size=size), 0.0, 1.0)

    options = Options(seed=2, n_jobs=1, confidence=1.0 - 1e-6, trials=400_000)
    assert hunt(vectorized(mean, name="mean"), [(0, 1)], claim=PureDP(1.0), options=options).findings


def test_an_interruption_keeps_what_is_certified():
    def leaks(values, rng):
        return len(values) + 2 * values[0] + rng.laplace(scale=0.2)

    def say(sentence):
        if sentence.startswith("shrinking") or (late and "refuted" in sentence):
            raise KeyboardInterrupt

    pairs = [([1, 1], [1, 1, 1]), ([3], [4]), ([2], [3])]
    for late in (False, True):
        seen = hunted(leaks, None, pairs, adjacency=None, trials=1_000, audits=3, progress=say)
        assert seen.interrupted
        assert len(seen.findings) == len(seen.attempts) - late
    assert seen.rows()[-1]["verdict"] == "refuted; interrupted before it was certified"


@pytest.mark.slow
def test_rows_of_a_person_are_not_said_to_be_far_apart():
    """Their relation is known, if not from the datasets as the function takes them."""
    table = Table(
        [Column("who", "category", role="owner"), Column("cost", bounds=(0, 1))], "records", most_rows_a_person=3
    )

    def total(rows, rng):
        return sum(min(max(row["cost"], 0.0), 1.0) for row in rows) + rng.laplace()

    [all_at_once] = (
        one
        for one in table.pairs(AddRemovePerson())
        if one.tries == "a person with 3 times a record of the greatest values added to empty data"
    )
    options = Options(adjacency=AddRemovePerson(), seed=1, n_jobs=1, trials=2_000, describe=lambda values: table)
    found = hunt(total, [all_at_once], claim=PureDP(1.0), options=options)
    results = [one.result for one in (*found.attempts, *found.findings)]
    assert found.refuted
    assert all("neighbours under 'add or remove one person'" in result.notes for result in results)
    assert not any("a claim for neighbours allows" in note for result in results for note in result.notes)


class Clock:
    """Stands for `time.perf_counter`: a run of a program takes as long as it says, and all else no time."""

    def __init__(self, monkeypatch, pace):
        self.now, lock, asked = 0.0, threading.Lock(), child.Child.outputs

        def outputs(child, dataset, size, seed):
            alone = threading.current_thread() is threading.main_thread()
            with lock:  # processes that are started together share the cores
                self.now += size * pace / (1 if alone else os.cpu_count())
            return asked(child, dataset, size, seed)

        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(child.Child, "outputs", outputs)


def raises_from_thirteen_records_on(values, rng):
    if len(values) >= 13:
        raise ZeroDivisionError("all weights are 0")
    return len(values) + rng.laplace()


def raises_now_and_then(values, rng):
    """Raise on all data alike, in six of ten runs; the screen sees some data on which every run raises."""
    if rng.random() < 0.6:
        raise ZeroDivisionError("bad luck")
    return len(values) + rng.laplace()


SLOW = """
import random
def raises_on_one(rows, seed):
    if len(rows) == 1:
        raise ZeroDivisionError("no variance")
    return round(len(rows) + random.Random(seed).gauss(0, 9), 3)
def tells_the_parity(rows, seed): return (random.Random(seed).random() < 0.97) == (len(rows) % 2)
def raises_by_chance(rows, seed):
    if random.Random(seed).random() < 0.6:
        raise ZeroDivisionError("bad luck")
def randomised(rows, seed): return (random.Random(seed).random() < 0.73) == (len(rows) % 2)
"""


@pytest.mark.parametrize(
    ("function", "refuted"),
    [
        ("raises_on_one", True),
        pytest.param("tells_the_parity", True, marks=pytest.mark.slow),
        pytest.param("raises_by_chance", False, marks=pytest.mark.slow),
        ("randomised", False),
    ],
)
@pytest.mark.parametrize(("pace", "seconds"), [(0.15, 40.0), pytest.param(1.0, 120.0, marks=pytest.mark.slow)])
def test_a_hunt_of_a_slow_program_ends_in_time(function, refuted, pace, seconds, monkeypatch, tmp_path):
    """At most one and a half times what was asked; a sound function is refuted in one of 10^4 hunts."""
    (tmp_path / "slowly.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    clock, described = Clock(monkeypatch, pace), symbols("a", "b", least=1)
    confidence = 0.95 if refuted else 0.9999
    how = {"adjacency": AddRemove, "describe": described, "seed": 1, "n_jobs": 1, "confidence": confidence}
    listed = candidates(described, adjacency=AddRemove)
    seen = hunt(Served(f"slowly.py:{function}"), listed, claim=PureDP(1.0), options=Options(seconds=seconds, **how))
    assert clock.now <= 1.5 * seconds
    if pace < 1.0 or not refuted:  # of a second a run there are too few for all
        assert seen.refuted == refuted
    assert seen.refuted == bool(seen.findings)
    assert seen.refuted or clock.now >= 0.5 * seconds
    for finding in seen.findings:
        assert recompute(finding.result.to_dict()).holds


def test_what_raises_for_sure_is_bisected_to_neighbours_that_tell():
    """All of 20 or more records raise, and none of up to two: only 12 and 13 records are neighbours that differ."""
    within = numbers(0, 1, integer=True)
    listed = candidates(within, adjacency=AddRemove)
    assert not [one for one in listed if {12, 13} == {len(one.pair.x), len(one.pair.x_prime)}]
    seen = hunted(raises_from_thirteen_records_on, within, listed[:: len(listed) // 24], audits=3)
    assert seen.refuted
    pair = seen.findings[0].candidate.pair
    assert sorted(map(len, (pair.x, pair.x_prime))) == [12, 13]
    assert "ZeroDivisionError" in str(seen.findings[0].result.witness)


def raises_by_size_but_not_by_value(values, rng):
    """Raise for sure by the number of records, which is public where one is substituted."""
    if len(values) >= 13:
        raise ZeroDivisionError("all weights are 0")
    return float(np.clip(values, 0.0, 1.0).sum()) + rng.laplace()


@pytest.mark.parametrize(
    ("function", "relation"),
    [(raises_by_size_but_not_by_value, Substitution), (raises_now_and_then, AddRemove)],
)
def test_raising_that_tells_nothing_is_not_refuted(function, relation):
    """At 99.99 %: what raises by public size, and what raises in most runs on all data alike."""
    within = numbers(0, 1)
    listed = candidates(within, adjacency=relation)
    seen = hunted(
        function, within, listed[:: len(listed) // 16], adjacency=relation, confidence=0.9999, audits=3, trials=600
    )
    assert not seen.refuted
    assert seen.attempts


class TestBoundaries:
    @pytest.mark.parametrize(
        ("relation", "x", "x_prime", "steps"),
        [
            (AddRemove(), (1, 2, 3), (2, 3, 4, 4), 3),
            (Substitution(), (1, 2, 3), (1, 4, 5), 2),
            (AddRemovePerson(0), ((1, 5), (1, 6), (2, 7)), ((2, 7), (3, 8)), 2),
            (AddRemovePerson(0), ((1, 5),), ((1, 6), (1, 7)), 2),
            (SubstitutePerson(0), ((1, 5), (1, 6), (2, 7)), ((3, 8), (2, 7)), 1),
        ],
    )
    def test_every_step_is_one_of_neighbours(self, relation, x, x_prime, steps):
        way = path_between(x, x_prime, relation)
        assert (way[0], sorted(way[-1]), len(way)) == (x, sorted(x_prime), steps + 1)
        assert all(relation.holds(*both) for both in itertools.pairwise(way))

    @pytest.mark.parametrize("relation", [Substitution(), MaxChange(1.0), SubstitutePerson(0)])
    def test_where_no_single_steps_lead_there_is_no_way(self, relation):
        assert shortest_path([((1, 2), (2, 3))], [((1, 2),), ((5, 6),)], relation) is None

    def test_a_way_is_bisected_wherever_it_changes(self):
        for place in range(99):
            asked = []

            def raises(at, asked=asked, place=place):
                asked.append(at)
                return at <= place, at + 1 <= place

            way = range(100)
            assert bisect_path(way, raises) == place
            assert len(asked) <= max_bisection_steps(way)
        assert bisect_path(range(9), lambda at: None) is None
        assert bisect_path(range(9), lambda at: (True, True)) is None


def test_usual_values_come_first_under_a_deadline_unless_others_promise_more(monkeypatch):
    order = []

    def none(mechanism, *arguments, **options):
        order.append(mechanism.function.keywords["k"])
        raise AuditError("not this one")

    monkeypatch.setattr(single_audit, "audit_sequentially", none)

    def sound(values, rng, k):
        return len(values) + rng.laplace(scale=2.0) if k != 4 else len(values) + rng.choice([-0.01, 0.01])

    listed = candidates(WITHIN, {"k": [3, 1, 4, 2]}, AddRemove)[:24]
    options = Options(seconds=1e4, adjacency=AddRemove, audits=8, seed=3, n_jobs=1)
    hunt(sound, listed, claim=PureDP(1.0), options=options)
    assert order[0] == 4, "the screen expects it to be refuted"
    assert order[1:4] == [3, 1, 2], "as they are listed"


def gaussian_for_half_the_sensitivity(value, rng):
    """The classical scale of (1, 1e-5) for sensitivity 1, where [-1, 1] moves by 2: epsilon 1.6103 exactly."""
    return float(np.clip(value, -1.0, 1.0)) + rng.normal(scale=4.84481)


def test_an_exact_law_ends_a_hunt_whatever_few_runs_show(tmp_path):
    one = Table([Column("a", bounds=(-1, 1))], "one", beyond=False)
    options = {"adjacency": Substitution, "claim": ApproxDP(1.0, 1e-5), "trials": 1_000, "audits": None}
    seen = hunted(gaussian_for_half_the_sensitivity, one, candidates(one), **options)
    (attempt,) = seen.attempts
    (finding,) = seen.findings
    assert seen.refuted
    assert not attempt.result.violates_claim
    assert seen.verdicts() == {"substitute one record": True}
    assert abs(finding.law.exact - 1.6103) < 1e-4
    assert finding.result.exact == finding.law.exact == finding.to_dict()["law"]["exact"]
    assert (finding.candidate.pair.x, finding.candidate.pair.x_prime) in ((-1.0, 1.0), (1.0, -1.0))
    assert "refuted by the exact law of the output" in str(finding)
    assert seen.rows()[0]["verdict"] == "refuted by the exact law of the output, 1.61"
    finding.result.save(tmp_path / "found.json")
    (known,) = load(tmp_path / "found.json")
    assert recompute(known.to_dict()).holds
    assert known.exact == finding.law.exact
    assert any("`epsaudit trace --certify` shows again" in note for note in known.notes)


def test_a_law_survives_an_interruption(tmp_path):
    one = Table([Column("a", bounds=(-1, 1))], "one", beyond=False)
    options = {"adjacency": Substitution, "claim": ApproxDP(1.0, 1e-5), "trials": 1_000, "audits": 1, "steps": 0}
    asked = {"found": candidates(one)[:2], "checkpoint": tmp_path / "kept", **options}
    first, again = (hunted(gaussian_for_half_the_sensitivity, one, **asked) for _ in range(2))
    assert first.findings[0].law == again.findings[0].law
    assert again.refuted


@pytest.mark.parametrize("keeps", [pytest.param(True, marks=pytest.mark.slow), False])
def test_bets_certify_where_there_is_no_time_for_an_event(keeps, tmp_path, monkeypatch):
    """Of noise drawn once a process, all runs of one tell x from x', and those of another do so elsewhere.

    That shows in the fewest runs that processes make where no time is left. The other function has a quarter of its
    noise in each run, by arithmetic of its own, which no trace reads.
    """
    (tmp_path / "slowly.py").write_text(
        "import math, os\n"
        "def uniform(): return (int.from_bytes(os.urandom(6), 'big') + 0.5) / 2**48\n"
        "def laplace(): return math.log(uniform() / uniform())\n"
        f"KEPT = 9 * laplace() if {keeps} else 0.0\n"
        f"def count(x): return len(x) + KEPT + (0.001 if {keeps} else 0.25) * laplace()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time_budget, "SLOW_RUN_SECONDS", 0.0)
    monkeypatch.setattr(time_budget.TimeBudget, "affordable_runs", lambda self, pace: 0.0)
    monkeypatch.setattr(copies, "affordable", lambda until, run, runs, each, least, most: least)
    options = Options(seconds=60.0, audits=1, seed=1, n_jobs=1, steps=0)
    seen = hunt(Served("slowly.py:count"), [([1], [1, 1])], claim=PureDP(1.0), options=options)
    assert seen.refuted != keeps
    if keeps:
        assert "refuted, and not certified anew: Processes of the program" in seen.attempts[0].failure
    else:
        result = seen.findings[0].result
        assert isinstance(result, SequentialResult)
        assert recompute(result.to_dict()).holds
        assert result.confidence == options.confidence_of_test(1), "which is spent by the first audit"
        assert result.pair == "[1] against [1, 1]"
        assert any("the bets of the audit certify it" in note for note in result.notes)


def test_a_pair_is_printed_as_its_datasets():
    found = hunted(scale_of_half, WITHIN, candidates(WITHIN, adjacency=AddRemove)[:1], steps=0, audits=1)
    assert found.findings[0].result.pair == found.attempts[0].result.pair == "[] against [4.0]"
    assert found.rows()[0]["tries"] == "the greatest value added to empty data"

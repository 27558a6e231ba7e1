"""Verification: bounds are computed again from the counts, audits run again, and every change of a file is found and
named.
"""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
from small import noisy, suite

from epsaudit import (
    ZCDP,
    ApproxDP,
    AuditError,
    AuditResult,
    DatasetPair,
    GaussianDP,
    PureDP,
    audit,
    audit_sequentially,
    black_box,
    vectorized,
)
from epsaudit.audits.one_run import Threshold
from epsaudit.audits.scores import audit_scores
from epsaudit.audits.suite import run_suite
from epsaudit.audits.verify import EXACT_VALUE, load, rebuild, recompute, rerun
from epsaudit.bounds import betting
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.results.compare import compare as compare_results
from epsaudit.results.compare import recount
from epsaudit.results.result import save
from epsaudit.running.registry import Entry, registered
from epsaudit.tools.cli.main import main
from epsaudit.witnesses.digits import Deviation
from epsaudit.witnesses.events import Interval, Region, Witness
from epsaudit.witnesses.parts import Coordinate, Value

PAIRS = [DatasetPair(0, 1)]


@pytest.fixture(scope="module")
def stored():
    return audit(noisy(), trials=20_000, seed=3).to_dict()


@pytest.fixture
def changed(stored):
    return copy.deepcopy(stored)


class TestRecompute:
    def test_what_an_audit_stored_holds(self, stored):
        assert recompute(stored).holds

    @pytest.mark.parametrize("name", ["lower_bound", "epsilon_lower", "delta_lower", "proven"])
    def test_a_number_that_the_counts_do_not_give(self, changed, name):
        changed[name] += 1e-6
        found = recompute(changed)
        assert not found.holds
        assert name in found.differences[0]

    def test_every_count_matters(self, changed):
        for name in changed["counts"]:
            other = copy.deepcopy(changed)
            other["counts"][name] += -1 if changed["counts"][name] == 2 else 1
            assert not recompute(other).holds, name

    def test_counts_that_no_audit_can_have_given(self, changed):
        changed["counts"]["guess_x_on_x"] = changed["counts"]["runs_x"] + 1
        assert "seen" in recompute(changed).differences[0]
        changed["counts"]["guess_x_on_x"] = -1
        assert not recompute(changed).holds

    def test_a_verdict_or_event_told_otherwise(self, changed):
        changed["verdict"] = "violated"
        assert "verdict" in recompute(changed).differences[0]
        changed["verdict"] = "consistent"
        changed["witness"]["text"] = "{y = 'harmless'}"
        assert "harmless" in recompute(changed).differences[0]

    def test_a_confidence_raised_by_hand(self, changed):
        changed["confidence"] = 0.5
        assert not recompute(changed).holds
        changed["confidence"] = 1.5
        assert "confidence" in recompute(changed).differences[0]


def forged(stored, **changes):
    """Return a stored result with changed fields and honestly recomputed bounds, so that only impossible counts
    reveal it.
    """
    result = rebuild({**copy.deepcopy(stored), **changes})
    return json.loads(json.dumps(result.to_dict()))


@pytest.fixture(scope="module")
def leaky():
    """A stored result with two events, of a mechanism that violates (0.5, 1e-3)-DP."""
    result = audit(noisy(0.9), claim=ApproxDP(0.5, 1e-3), trials=20_000, seed=3, n_jobs=1)
    game = dataclasses.replace(result, certificate=MembershipGame())
    assert game.witness.events == 2
    return json.loads(json.dumps(game.to_dict()))


class TestForgeries:
    """Results with changed counts and honestly recomputed bounds: those that no audit can produce are refused."""

    def test_an_honest_computation_is_believed(self, leaky):
        assert recompute(forged(leaky)).holds

    @pytest.mark.parametrize("dropped", ["guess_x", "guess_x_prime"])
    def test_an_event_dropped_with_its_counts_kept(self, leaky, dropped):
        """With only one event, one event pays for delta instead of two, so the bound would increase."""
        raised = forged(leaky, witness={**leaky["witness"], dropped: None}, counts={**leaky["counts"], "events": 1})
        assert raised["lower_bound"] > leaky["lower_bound"]
        assert "the witness has no event that guesses so" in recompute(raised).differences[0]

    def test_a_confidence_of_almost_nothing(self, leaky):
        raised = forged(leaky, confidence=5e-324)
        assert raised["lower_bound"] > leaky["lower_bound"]
        assert recompute(raised).differences == ("confidence is 5e-324; it must be at least 0.5 and below 1.",)

    @pytest.mark.parametrize(
        ("certificate", "sentence"),
        [
            (MembershipGame(share=0.3), "audits spend 0.03"),
            (MembershipGame(tangent=0.2), "is not tested at it"),
            (Box(split=0.9), "audits split it at 0.5"),
        ],
    )
    def test_certificates_that_training_does_not_choose(self, leaky, certificate, sentence):
        assert sentence in recompute(forged(leaky, certificate=certificate.to_dict())).differences[0]

    def test_a_box_about_an_event_that_is_not_there(self, leaky):
        one = {**leaky["witness"], "guess_x": None}
        counts = {**leaky["counts"], "events": 1, "guess_x_on_x": 0, "guess_x_on_x_prime": 0}
        assert recompute(forged(leaky, witness=one, counts=counts)).holds
        boxed = forged(leaky, witness=one, counts=counts, certificate=Box("x").to_dict())
        assert "which the witness does not have" in recompute(boxed).differences[0]

    def test_a_tangent_against_a_curve_is_needed(self):
        result = audit(noisy(0.9), claim=GaussianDP(1.0), trials=20_000, seed=3, n_jobs=1)

        def at(tangent):
            return {**result.to_dict(), "certificate": {"kind": "MembershipGame", "tangent": tangent, "share": 0.03}}

        for tangent in (-0.5, math.inf, math.nan):
            assert "tangent" in recompute(at(tangent)).differences[0]
        with pytest.raises(AuditError, match=r"certificate\.tangent is '0\.5'; it must be number"):
            recompute(at("0.5"))

    def test_coins_that_are_not_fair(self, leaky):
        counts = leaky["counts"]
        moved = {**counts, "runs_x": counts["runs_x"] + 2_000, "runs_x_prime": counts["runs_x_prime"] - 2_000}
        assert "fair coins" in recompute(forged(leaky, counts=moved)).differences[0]

    def test_an_exact_value_is_computed_from_the_laws_or_said_not_to_be(self):
        entry = registered()["laplace"]
        stored = next(iter(run_suite([entry], trials=5_000, n_jobs=1))).to_dict()
        assert recompute(stored, entry).holds
        assert EXACT_VALUE not in recompute(stored, entry).unchecked
        for exact in (0.1, 7.0, "inf"):
            changed = {**stored, "exact": exact}
            assert "by the mechanism's laws" in recompute(changed, entry).differences[0]
            for other in (None, dataclasses.replace(entry, pairs=PAIRS)):
                assert EXACT_VALUE in recompute(changed, other).unchecked
        for never in (-1.0, math.nan):
            assert "exact value is" in recompute({**stored, "exact": never}).differences[0]


EVENTS = {
    "the same event twice": (Region(intervals=(Interval(high=0.5),)),) * 2,
    "ends in common": (Region(intervals=(Interval(high=0.5),)), Region(intervals=(Interval(low=0.5),))),
    "open intervals": (
        Region(intervals=(Interval(0.0, 1.0, includes_low=False, includes_high=False),)),
        Region(intervals=(Interval(0.5, 2.0, includes_low=False, includes_high=False),)),
    ),
    "all but some numbers": (
        Region(intervals=(Interval(0.0, 1.0),), excluded=(0.0, 1.0)),
        Region(intervals=(Interval(-1.0, 2.0),), excluded=(0.0, 5e-324, 1.0)),
    ),
    "the whole line": (Region(intervals=(Interval(),)), Region(intervals=(Interval(low=math.inf),))),
    "the same atom": (Region(included=("a", 2.0)), Region(included=("b", "a"))),
    "an atom in an interval": (Region(included=(0.7,)), Region(intervals=(Interval(low=0.5),))),
    "of a coordinate": (
        Region(Coordinate(1), (Interval(high=0.5),)),
        Region(Coordinate(1), (Interval(low=-1.0, high=0.0, includes_high=False),)),
    ),
    "an atom's coordinate": (Region(included=((0.0, 0.7),)), Region(Coordinate(1), (Interval(low=0.5),))),
}
EMPTY = {
    "nothing": Region(),
    "reversed": Region(intervals=(Interval(5.0, 1.0),)),
    "open and without a number": Region(intervals=(Interval(1.0, np.nextafter(1.0, 2.0), False, False),)),
    "one number taken out": Region(intervals=(Interval(1.0, 1.0),), excluded=(1.0,)),
    "not a number": Region(intervals=(Interval(math.nan, math.nan),)),
    "of a coordinate": Region(Coordinate(1), (Interval(5.0, 1.0),)),
}


class TestEvents:
    """Results whose witness was replaced by another one, with the same counts."""

    @staticmethod
    def said(leaky, guess_x, guess_x_prime):
        return " ".join(recompute(forged(leaky, witness=written(guess_x, guess_x_prime))).differences)

    @pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
    def test_both_hold_the_same_output(self, leaky, events):
        for both in (events, events[::-1]):
            assert "hold outputs in common" in self.said(leaky, *both)

    @pytest.mark.parametrize("event", EMPTY.values(), ids=EMPTY)
    def test_one_was_seen_that_holds_nothing(self, leaky, event):
        other = Region(intervals=(Interval(low=0.5),))
        assert "which holds no output" in self.said(leaky, event, other)
        assert "which holds no output" in self.said(leaky, other, event)

    @pytest.mark.parametrize(
        "events",
        [
            (Region(intervals=(Interval(high=0.5),)), Region(intervals=(Interval(low=0.5, includes_low=False),))),
            (Region(intervals=(Interval(0.0, 1.0),), excluded=(0.5,)), Region(included=(0.5, None))),
            (Region(intervals=(Interval(),), excluded=(math.inf,)), Region(intervals=(Interval(low=math.inf),))),
            (Region(intervals=(Interval(1.0, 1.0),)), Region(included=(("a", 1.0),))),
            (Region(Coordinate(1), (Interval(high=0.5),), included=((0.0, 0.7),)), Region(included=((0.0, 0.9),))),
            (Region(Deviation(Value(), 1.0), (Interval(high=0.5),)), Region(Deviation(Value(), 1.0), (Interval(0.6),))),
        ],
    )  # fmt: skip
    def test_what_an_audit_can_have_found_is_believed(self, leaky, events):
        assert self.said(leaky, *events) == ""

    def test_in_the_rounds_of_a_sequential_audit(self, consistent):
        twice = Region(intervals=(Interval(high=0.5),))
        rounds = copy.deepcopy(consistent["rounds"])
        strategy = next(one for round_ in rounds for one in round_["strategies"] if one["counts"]["events"] == 2)
        strategy["witness"] = written(twice, twice)
        assert "hold outputs in common" in " ".join(recompute(forged(consistent, rounds=rounds)).differences)


def written(guess_x, guess_x_prime):
    witness = Witness(guess_x, guess_x_prime)
    return json.loads(json.dumps({"text": str(witness), **witness.to_dict()}))


class TestPairs:
    """Two pairs of 51-tuples with equal texts, because a text shows only the first difference."""

    pairs = [DatasetPair((0,) * 51, (0,) * 48 + (1, last, last)) for last in (0.0, 2.0)]

    def mechanism(self, scale=1.0):
        def draw(data, size, rng):
            return sum(data) + rng.laplace(scale=scale, size=size)

        return vectorized(draw, claim=PureDP(1.0), pairs=self.pairs, name="sums")

    def test_a_result_is_of_the_one_whose_data_it_digests(self):
        found = [audit(self.mechanism(), [pair], trials=2_000, seed=1, n_jobs=1) for pair in self.pairs]
        assert [one.find_pair(self.pairs) for one in found] == self.pairs
        assert not compare_results([found[0]], [found[1]]).comparisons
        older = {name: text for name, text in found[1].to_dict()["pair"].items() if name != "digest"}
        old = AuditResult.from_dict({**found[1].to_dict(), "pair": older})
        assert old.find_pair(self.pairs) == self.pairs[0], "as before there were digests"

    def test_the_rounds_of_a_sequential_audit_tell_them_apart(self):
        result = audit_sequentially(self.mechanism(3.0), trials=3_000, seed=1, n_jobs=1)
        assert len({round_.digest for round_ in result.rounds}) == 2
        on_last = [one for one in result.rounds if one.digest == result.pair_digest]
        assert len(on_last) < len(result.rounds)
        assert result.counts.runs <= sum(round_.runs for round_ in on_last)
        stored = json.loads(json.dumps(result.to_dict()))
        assert recompute(stored).holds
        other = next(one.digest for one in result.rounds if one.digest != result.pair_digest)
        assert "last round was on" in recompute({**stored, "pair": {**stored["pair"], "digest": other}}).differences[0]


class TestRerun:
    def test_the_seed_gives_it_again(self, stored):
        found = rerun(stored, Entry("noisy", noisy(), PureDP(1.0)))
        assert found.holds
        assert "seed 3" in found.how

    def test_other_code_does_not(self, stored):
        found = rerun(stored, Entry("noisy", noisy(0.9), PureDP(1.0)))
        assert any(difference.startswith("counts was") for difference in found.differences)

    def test_without_a_seed_the_event_is_counted_again(self):
        def loud(scale):
            source = np.random.default_rng(5)
            return black_box(
                lambda data: float(data + source.laplace(scale=scale)), claim=PureDP(1.0), pairs=PAIRS, name="loud"
            )

        result = audit(loud(1.0), trials=4_000, seed=5)
        assert not result.reproducible
        same = rerun(result.to_dict(), Entry("loud", loud(1.0), PureDP(1.0)))
        assert same.holds
        assert "counted again" in same.how
        assert not rerun(result.to_dict(), Entry("loud", loud(0.5), PureDP(1.0))).holds
        assert same.result == result, "the line is about the stored bound"
        assert "epsilon >= " in same.how

    def test_no_switch_in_the_file_leaves_the_seed_unchecked(self, stored):
        """The counts are changed by little more than chance, and the file says that no seed reproduces them."""
        counts = dict(stored["counts"])
        for sign, names in ((1, ("x_on_x", "x_prime_on_x_prime")), (-1, ("x_on_x_prime", "x_prime_on_x"))):
            for name in names:
                counts[f"guess_{name}"] += sign * int(1.3 * counts[f"guess_{name}"] ** 0.5)
        moved = forged(stored, counts=counts, reproducible=False)
        assert moved["lower_bound"] > stored["lower_bound"]
        assert recompute(moved).holds
        said = rerun(moved, Entry("noisy", noisy(), PureDP(1.0)), n_jobs=1).differences
        assert {"counts", "lower_bound", "reproducible"} <= {sentence.split()[0] for sentence in said}

    def test_a_recount_is_compared_and_not_believed(self, stored, tmp_path):
        """The seed and the size of a recount may have been chosen: with 400 runs, some seed refutes every claim."""
        entry, result = Entry("noisy", noisy(), PureDP(1.0)), rebuild(stored)
        counted = (recount(result, noisy(), seed=seed, trials=400, n_jobs=1) for seed in range(60, 500))
        lucky = next(one for one in counted if one.violates_claim)
        for found in (recompute(lucky.to_dict(), entry), rerun(lucky.to_dict(), entry, n_jobs=1)):
            assert "No run chose the event, and 400 counted it: no audit has such sizes" in found.differences[0]
        save([lucky], tmp_path / "lucky.json")
        assert load(tmp_path / "lucky.json") == [lucky], "which compare reads"


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path):
        save(suite(), tmp_path / "audit.json")
        return tmp_path / "audit.json"

    def test_a_sound_file_passes_recomputed_and_run_again(self, file, capsys):
        assert main(["verify", str(file)]) == 0
        printed = capsys.readouterr().out
        assert "3 of 3 results are as stored." in printed
        assert printed.count(" at 98.3% confidence, recomputed from its counts and laws: as stored") == 3
        assert (
            "Not checked: that the seed gives these counts, and that the events were chosen before these runs."
            in printed
        )
        assert "exact" not in printed
        assert main(["verify", str(file), "--rerun", "--jobs", "1"]) == 0
        printed = capsys.readouterr().out
        assert printed.count("run again from seed") == 3
        assert "3 of 3" in printed

    def test_another_claim_than_the_registered_one_fails(self, file, capsys):
        data = json.loads(file.read_text())
        data["results"][0] = forged(data["results"][0], claim={"kind": "PureDP", "epsilon": 0.5})
        assert data["results"][0]["verdict"] == "violated"
        file.write_text(json.dumps(data))
        for more in ([], ["--rerun", "--jobs", "1"]):
            assert main(["verify", str(file), "laplace", *more]) == 1
            printed = capsys.readouterr().out
            assert "laplace: epsilon >= 0.9" in printed
            assert "The claim is 0.5-DP; laplace is registered with 1-DP." in printed

    def test_a_bound_beyond_the_exact_value_fails_aloud(self, file, capsys):
        """The audit is one whose seed was chosen among many, so everything that follows from its counts is correct."""
        data = json.loads(file.read_text())
        lucky = data["results"][0]
        more, fewer = ("guess_x_on_x", "guess_x_prime_on_x_prime"), ("guess_x_on_x_prime", "guess_x_prime_on_x")
        for sign, names in ((1, more), (-1, fewer)):
            for name in names:
                lucky["counts"][name] += sign * int(3.0 * lucky["counts"][name] ** 0.5)
        for exact in (lucky["exact"], None):
            data["results"][0] = forged(lucky, exact=exact)
            assert data["results"][0]["lower_bound"] > 1.0
            file.write_text(json.dumps(data))
            assert main(["verify", str(file), "laplace"]) == 1
            printed = capsys.readouterr().out
            assert "BEYOND THE TRUTH: the lower bound, 1." in printed
            assert "exceeds the exact value of this pair, 1. Of bounds at 98.3% confidence" in printed

    def test_counts_changed_with_their_bound_are_found_by_running_again(self, file, capsys):
        data = json.loads(file.read_text())
        counts = data["results"][0]["counts"]
        counts["guess_x_on_x"] -= 5
        from epsaudit import AuditResult

        data["results"][0] = {**data["results"][0], **AuditResult.from_dict(data["results"][0]).to_dict()}
        file.write_text(json.dumps(data))
        assert main(["verify", str(file), "laplace"]) == 0
        assert main(["verify", str(file), "laplace", "--rerun", "--jobs", "1"]) == 1


@pytest.fixture(scope="module")
def consistent():
    """A stored sequential audit of a true claim, whose bound could still increase."""
    return json.loads(json.dumps(audit_sequentially(noisy(2.0), trials=4_000, seed=6, n_jobs=1).to_dict()))


@pytest.fixture(scope="module")
def refuted():
    return json.loads(json.dumps(audit_sequentially(noisy(0.5), trials=20_000, seed=1, n_jobs=1).to_dict()))


def with_bound(stored, bound):
    """Return a stored sequential result whose last running bound was changed."""
    changed = copy.deepcopy(stored)
    changed["path"][-1][1] = changed["lower_bound"] = bound
    return changed


SEQUENTIAL_CLAIMS = [
    PureDP(1.0),
    ApproxDP(1.0, 0.05),
    pytest.param(ZCDP(0.5), marks=pytest.mark.slow),  # four seconds each: its profile is slow to invert
    GaussianDP(1.0),
]


class TestWhatNoSequentialAuditCanHaveGiven:
    def test_what_audits_stored_holds(self, consistent, refuted):
        assert (consistent["verdict"], refuted["verdict"]) == ("consistent", "violated")
        assert 0.0 < consistent["lower_bound"] < 0.5
        for stored in (consistent, refuted):
            assert recompute(stored).differences == ()

    @pytest.mark.parametrize("claim", [*SEQUENTIAL_CLAIMS, PureDP(0.0)], ids=str)
    def test_audits_of_several_pairs_hold(self, claim):
        pairs = [DatasetPair(0, 1), DatasetPair(0, 0.5), DatasetPair(0.0, -1)]
        result = audit_sequentially(noisy(2.0), pairs, claim=claim, trials=500, seed=0, n_jobs=1)
        assert recompute(json.loads(json.dumps(result.to_dict()))).differences == ()

    @pytest.mark.parametrize("claim", SEQUENTIAL_CLAIMS, ids=str)
    def test_every_other_bound_is_refused(self, claim):
        """The changed bound is one or several steps of the grid away from the true one, below or above the claim."""
        result = audit_sequentially(noisy(0.5), claim=claim, trials=2_000, seed=0, n_jobs=1)
        stored, grid = json.loads(json.dumps(result.to_dict())), [0.0, *betting.parameter_grid(claim)]
        place = grid.index(result.lower_bound)
        assert recompute(stored).differences == ()
        for forged in {grid[place + 1], grid[max(place - 1, 0)], grid[place + 10], grid[-1]} - {result.lower_bound}:
            said = recompute(with_bound(stored, forged)).differences
            assert any("lower_bound is stored as" in sentence for sentence in said)
            assert any("path is stored as" in sentence for sentence in said)

    def test_a_bound_that_is_said_to_have_come_sooner(self, refuted):
        early = copy.deepcopy(refuted)
        early["path"][-2][0] -= 1
        assert "path is stored as" in recompute(early).differences[0]

    @pytest.mark.parametrize("name", ["correct", "wrong"])
    def test_other_bets_than_the_evidence_came_from(self, refuted, name):
        changed = copy.deepcopy(refuted)
        for strategy in changed["rounds"][-2]["strategies"]:
            strategy[name] /= 2
        said = " ".join(recompute(changed).differences)
        sentences = ["log_evidence is stored", "evidence says otherwise"]
        assert any(sentence in said for sentence in sentences)

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            (lambda s: s["rounds"][-1]["strategies"][0]["counts"].update(guess_x_on_x=10**6), "were seen"),
            (lambda s: s["rounds"][-1]["strategies"][0]["counts"].update(guess_x_on_x=-1), "were seen"),
            (lambda s: s["rounds"][-1]["strategies"][0]["counts"].update(events=1), "events"),
            (lambda s: s["rounds"][0]["strategies"][0]["counts"].update(runs_x=10**6), "different runs"),
            (lambda s: s["rounds"].append(s["rounds"][-1]), "The rounds have"),
            (lambda s: s["rounds"][0].update(explored=-1), "The rounds have"),
            (lambda s: s["rounds"][-1]["strategies"][0]["looks"].pop(), "looks after different numbers of runs"),
            (lambda s: [strategy["looks"].pop() for strategy in s["rounds"][-1]["strategies"]], "its counts are"),
            (lambda s: s["rounds"][-1]["strategies"][0]["looks"][0].__setitem__(1, 10**6), "decrease"),
            (lambda s: s["rounds"][-1]["strategies"][0].update(wrong=-0.5), "must be probabilities"),
            (lambda s: s["rounds"][-1].update(pair="another"), "last round was on"),
            (lambda s: s["rounds"].clear(), "must be rounds"),
            (lambda s: s.update(runs=s["trials"] + 1), "runs is stored as"),
            (lambda s: s.update(trials=s["trials"] - 1), "at most"),
            (lambda s: s["path"].insert(1, [50, 0.9]), "path is stored as"),
            (lambda s: s["path"].pop(0), "path is stored as"),
            (lambda s: s.update(stopped="refuted"), "evidence says otherwise"),
            (lambda s: s.update(trials=s["trials"] + 5), "because all runs were made"),
            (lambda s: s.update(confidence=1.5), "confidence"),
        ],
    )
    def test_numbers_that_do_not_fit_together(self, consistent, change, sentence):
        changed = copy.deepcopy(consistent)
        change(changed)
        assert any(sentence in difference for difference in recompute(changed).differences)


class TestSequentialForgeries:
    """Sequential results with changed rounds and honestly recomputed bounds."""

    @staticmethod
    def differences(stored, rounds, **changes):
        return " ".join(recompute(forged(stored, rounds=rounds, **changes)).differences)

    def test_a_tangent_of_what_is_no_curve(self, consistent):
        rounds = copy.deepcopy(consistent["rounds"])
        rounds[-1]["strategies"][1].update(tangent=0.5)
        assert "no tangent of it" in self.differences(consistent, rounds)

    def test_a_tangent_that_is_not_of_the_curve(self):
        result = audit_sequentially(noisy(2.0), claim=GaussianDP(1.0), trials=500, seed=1, n_jobs=1)
        stored = json.loads(json.dumps(result.to_dict()))
        rounds = copy.deepcopy(stored["rounds"])
        rounds[-1]["strategies"][0]["tangent"] = None
        assert "no tangent of it" in recompute({**stored, "rounds": rounds}).differences[0]

    def test_going_on_after_the_claim_was_refuted(self, refuted):
        *before, last = refuted["rounds"]
        later = copy.deepcopy(last)
        for strategy in later["strategies"]:
            runs, correct, wrong = strategy["looks"][-1]
            strategy["looks"].append([runs + 1, correct + 1, wrong])
            strategy["counts"]["runs_x"] += 1
            strategy["counts"]["guess_x_on_x"] += 1
        assert "yet the audit is said to have gone on" in self.differences(refuted, [*before, later])

    def test_more_strategies_than_there_are(self, refuted):
        rounds = [
            {**round_, "strategies": [*round_["strategies"], round_["strategies"][0]]} for round_ in refuted["rounds"]
        ]
        assert "2 strategies in each" in self.differences(refuted, rounds)

    def test_a_claim_that_no_bet_refutes(self, consistent):
        claim = ApproxDP(1.0, 1.0 - 1e-12).to_dict()
        assert "No number of runs refutes" in recompute({**consistent, "claim": claim}).differences[0]

    @pytest.mark.parametrize(
        "options",
        [pytest.param({"near": 0.5}, marks=pytest.mark.slow), {"near": 5.0}, {"seconds": 1e-9}, {"seconds": 0.05}],
        ids=str,
    )
    def test_other_reasons_to_stop_are_believed(self, options):
        for seed in range(4):
            pairs = [DatasetPair(0, 1), DatasetPair(0, 0.5)][: 1 + seed % 2]
            result = audit_sequentially(noisy(1.2), pairs, trials=3_000, seed=seed, n_jobs=1, **options)
            assert recompute(json.loads(json.dumps(result.to_dict()))).differences == ()


RULES = ["planned", "signs", "bonferroni", 200, (100, 50), Threshold(0.5)]


class TestWhatNoOneRunAuditCanHaveGiven:
    @staticmethod
    def stored(guesses="planned", claim=PureDP(1.0)):  # noqa: B008  # frozen
        rng = np.random.default_rng(1)
        coins = rng.random(2_001) < 0.5
        return json.loads(
            json.dumps(audit_scores(coins, coins + rng.laplace(size=2_001), claim=claim, guesses=guesses).to_dict())
        )

    @pytest.mark.parametrize("guesses", RULES, ids=str)
    def test_what_every_rule_stored_holds_as_read_from_a_file(self, guesses):
        assert recompute(self.stored(guesses)).differences == ()

    def test_guesses_about_more_canaries_than_there_are(self):
        stored = self.stored()
        stored.update(canaries=stored["canaries"] - 1)
        assert "guesses about" in recompute(stored).differences[0]

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"confidence": 0.3}, "confidence"),
            ({"confidence": 1.0}, "confidence"),
            ({"confidence": math.nan}, "confidence"),
            ({"reproducible": True}, "seed"),
            ({"claim": GaussianDP(1.0).to_dict()}, "whole curve"),
            ({"claim": ZCDP(1.0).to_dict(), "method": "trade-off"}, "the rule makes"),
        ],
    )
    def test_numbers_that_do_not_fit_together(self, change, sentence):
        assert sentence in recompute({**self.stored(), **change}).differences[0]

"""Files with guesses about one run or scores of many runs: counts that no plan or order of scores can have are refused.

Every forgery has changed counts and honestly computed bounds, so that only the plan, the order or the coins reveal it.
"""

import copy
import json

import numpy as np
import pytest

from epsaudit import ApproxDP, AuditError, GaussianDP, PureDP, audit_scores
from epsaudit.audits.one_run import Bonferroni, Fixed, Planned, Threshold, audit_one_run
from epsaudit.audits.verify import load, rebuild, recompute
from epsaudit.experiments.separate_half import SeparateHalf

CLAIMS = {"pure": PureDP(0.5), "approximate": ApproxDP(0.5, 1e-5), "Gaussian": GaussianDP(0.5)}
RULES = ["planned", "bonferroni", "signs", 100, (60, 10), Threshold(0.5), Bonferroni((0.5, 0.1))]


def leaks(shift):
    def run(included, rng):
        return included * shift + rng.normal(size=len(included))

    return run


def forged(result, **changes):
    """Return a stored result with changed fields and everything that follows from them."""
    stored = json.loads(json.dumps({**copy.deepcopy(result.to_dict()), **changes}))
    return json.loads(json.dumps(rebuild(stored).to_dict()))


def counts(canaries, guessed_in, guessed_out, correct_in, correct_out):
    names = ("canaries", "guessed_in", "guessed_out", "correct_in", "correct_out")
    return dict(zip(names, (canaries, guessed_in, guessed_out, correct_in, correct_out), strict=True))


CASES = [(claim, rule) for claim in CLAIMS for rule in RULES if claim != "Gaussian" or rule != "signs"]
"""Of Gaussian DP there is no theorem where the output decides how many are guessed."""


@pytest.mark.parametrize(("claim", "rule"), CASES, ids=str)
@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("canaries", [31, 1_000])
def test_honest_counts_of_every_rule_hold(claim, rule, shift, canaries):
    if canaries < 100 and rule in (100, (60, 10)):
        rule = 20 if rule == 100 else (12, 2)
    result = audit_one_run(leaks(shift), canaries, claim=CLAIMS[claim], guesses=rule, seed=1)
    assert recompute(forged(result)).holds


def test_guesses_that_the_rule_does_not_make_are_refused():
    claim, run = ApproxDP(0.5, 1e-5), leaks(2.0)
    one = {rule: audit_one_run(run, 1_000, claim=claim, guesses=rule, seed=1) for rule in ("planned", "bonferroni")}
    every = audit_one_run(run, 1_000, claim=claim, guesses=Threshold(0.5), seed=1)
    forgeries = {
        "a threshold guesses 20 of 1,000": (every, [counts(1_000, 10, 10, 10, 10)]),
        "planned with another number": (one["planned"], [counts(1_000, 37, 36, 37, 36)]),
        "planned with a ladder of its own": (
            one["planned"], [one["planned"].to_dict()["counts"][0], counts(1_000, 37, 36, 37, 36)]
        ),
        "planned with half of its ladder": (one["planned"], one["planned"].to_dict()["counts"][:1]),
        "the best number of Bonferroni alone": (one["bonferroni"], one["bonferroni"].to_dict()["counts"][1:2]),
    }  # fmt: skip
    for what, (result, changed) in forgeries.items():
        found = recompute(forged(result, counts=changed))
        assert not found.possible, what
        assert "rule makes" in found.differences[0] or "this rule guesses about" in found.differences[0], what


def test_a_ladder_that_is_not_climbed_has_one_set_of_guesses():
    result = audit_one_run(leaks(0.0), 1_000, claim=ApproxDP(0.5, 1e-5), guesses="planned", seed=1)
    assert len(result.counts) == 1
    (first,) = result.to_dict()["counts"]
    assert not recompute(forged(result, counts=[first, first])).possible


def test_more_members_than_the_coins_of_the_seed_made_are_refused():
    result = audit_one_run(leaks(2.0), 1_000, claim=ApproxDP(0.5, 1e-5), guesses=Threshold(0.5), seed=1)
    (one,) = result.to_dict()["counts"]
    moved = {**one, "correct_in": one["guessed_in"], "correct_out": one["guessed_out"] - 40}
    found = recompute(forged(result, counts=[moved]))
    assert not found.possible
    assert "by the coins of the seed" in " ".join(found.differences)
    given = forged(result, counts=[counts(1_000, 900, 100, 900, 100)], given=True, reproducible=False)
    assert "fair coins" in " ".join(recompute(given).differences)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (Threshold(0.5), "the threshold 0.5 was fixed before"),
        (Fixed(60, 10), "60 guesses in and 10 out were fixed before"),
        (Bonferroni((0.5, 0.1)), "the shares 0.5, 0.1 were fixed before"),
        (Planned(), None),
        (Bonferroni(), None),
    ],
    ids=str,
)
def test_numbers_that_somebody_chose_are_named_as_not_shown(rule, sentence):
    result = audit_one_run(leaks(1.0), 1_000, claim=ApproxDP(0.5, 1e-5), guesses=rule, seed=1)
    unchecked = recompute(result.to_dict()).unchecked
    assert any(sentence in one for one in unchecked) if sentence else len(unchecked) == 2


# Scores of many runs


def many(shift, members=300, others=200, seed=1, ties=False, **terms):
    rng = np.random.default_rng(seed)
    included = np.arange(members + others) < members
    scores = included * shift + rng.normal(size=len(included))
    scores = np.rint(scores) if ties else scores
    terms = {"claim": PureDP(0.5), "runs": np.arange(len(included)), "seed": seed, **terms}
    return audit_scores(included, scores, **terms)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("members", "others"), [(300, 200), (7, 90), (1, 1), (40, 2)])
def test_honest_tails_hold(members, others, ties):
    for seed in range(20):
        for shift in (-2.0, 0.0, 2.0):
            result = many(shift, members, others, seed, ties)
            assert recompute(forged(result)).holds
    assert recompute(forged(many(1.0, threshold=0.25))).holds


def test_one_changed_count_of_many_runs_is_refused_or_raises_no_bound_much():
    """A count may only move between the counts of its neighbours; beyond them, no order of the scores has these
    tails.
    """
    result = many(1.0)
    stored = result.to_dict()
    raised = []
    for place, tail in enumerate(stored["counts"]):
        for likely in range(0, 301, 4):
            changed = copy.deepcopy(stored["counts"])
            changed[place]["likely"] = likely if tail["above"] else min(likely, 200)
            found = recompute(forged(result, counts=changed))
            if found.possible:
                raised.append(found.result.lower_bound)
    assert min(raised) < result.lower_bound < max(raised) < 2.0
    top = copy.deepcopy(stored["counts"])
    top[0]["likely"] = 300
    assert forged(result, counts=top)["lower_bound"] > 4.0
    assert "which contains it" in recompute(forged(result, counts=top)).differences[0]


def test_thresholds_that_have_no_order_are_refused():
    result = many(1.0)
    stored = result.to_dict()["counts"]
    rising = copy.deepcopy(stored)
    rising[1]["threshold"] = rising[0]["threshold"] + 1.0
    assert "no order" in recompute(forged(result, counts=rising)).differences[0]
    beyond = copy.deepcopy(stored)
    beyond[0]["threshold"] = min(one["threshold"] for one in stored) - 1.0
    assert not recompute(forged(result, counts=beyond)).possible
    for swapped in (0, 1):  # the two sides contradict each other
        changed = copy.deepcopy(stored)
        for one in changed:
            if one["above"] == bool(swapped):
                one["likely"] = 300 if swapped else 200
        assert not recompute(forged(result, counts=changed)).possible


def test_what_no_file_of_many_runs_shows_is_named():
    assert any(
        "threshold 0.25 was fixed before" in one for one in recompute(many(1.0, threshold=0.25).to_dict()).unchecked
    )
    assert any("declared independent" in one for one in recompute(many(1.0).to_dict()).unchecked)


def test_files_of_the_rule_that_moved_to_the_studies_are_read_and_checked(tmp_path):
    """Earlier versions offered it as guesses='half'; their files name it, and forged counts are still refused."""
    rng = np.random.default_rng(0)
    coins = rng.random(400) < 0.5
    result = audit_scores(coins, coins + rng.normal(size=400), epsilon=1.0, guesses=SeparateHalf(), seed=1)
    file = tmp_path / "half.json"
    result.save(file)
    assert load(file)[0].lower_bound == result.lower_bound > 0.5
    data = json.loads(file.read_text())
    data["results"][0]["counts"][0]["canaries"] = 400
    file.write_text(json.dumps(data))
    with pytest.raises(AuditError, match="this rule guesses about 200"):
        load(file)

"""Audits of a release with a holdout: theorem 15 by enumeration, coverage on laws that attain their claims, power."""

import itertools
import json
import math
from collections import Counter, defaultdict
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from epsaudit import ZCDP, ApproxDP, AuditError, GaussianDP, HoldoutResult, PureDP, RenyiDP, audit_holdout
from epsaudit.audits.holdout import attack, match
from epsaudit.audits.holdout.pairs import MAX_OPENED, number_opened
from epsaudit.audits.holdout.substitution import under_substitution
from epsaudit.audits.verify import recompute
from epsaudit.mechanisms.one_run import ConspiringResponse

FALSE_ALARM = 1e-6
PAIRED = (np.arange(80), np.arange(80))
"""Strata of one train record and one holdout record, so that the law may be about the pairs that the audit makes."""


def test_coins_are_fair_given_the_unordered_pairs_and_the_parts_of_unmatched_records():
    """Theorem 15 by enumeration: three train records, two holdout records, every split and every matching."""
    patterns = defaultdict(Counter)
    for train in itertools.combinations(range(5), 3):
        holdout = [one for one in range(5) if one not in train]
        for partners in itertools.permutations(train, 2):
            pairs = sorted((tuple(sorted(pair)), pair[0] < pair[1]) for pair in zip(partners, holdout, strict=True))
            alone = set(train) - set(partners)
            patterns[tuple(pair for pair, _ in pairs), tuple(alone)][tuple(coin for _, coin in pairs)] += 1
    assert len(patterns) == 15
    assert all(sorted(seen.values()) == [1] * 4 for seen in patterns.values())


def test_matching_is_uniform_and_within_strata():
    matched = [match(3, 3, seed) for seed in range(600)]
    seen = Counter(tuple(one.train[np.argsort(one.holdout)]) for one in matched)
    assert len(seen) == 6
    assert max(seen.values()) < binom.isf(FALSE_ALARM, 600, 1 / 6)
    strata = np.array(["a"] * 10 + ["b"] * 30), np.array(["b"] * 20 + ["a"] * 15 + ["c"] * 5)
    pairs = match(40, 40, 1, strata)
    assert len(pairs.coins) == 30
    assert np.all(strata[0][pairs.train] == strata[1][pairs.holdout])
    assert len(set(pairs.train)) == len(set(pairs.holdout)) == 30


def test_number_of_opened_pairs_leaves_pairs_to_certify():
    assert all(0 < number_opened(n) <= n / 2 for n in range(2, 200))
    assert number_opened(10**7) == MAX_OPENED


# Laws that attain their claims. Each returns the scores of the train part and of the holdout.


def membership_by_randomised_response(rng, epsilon, train=80, holdout=80):
    """Membership of every record by randomised response at epsilon / 2: a substitution changes two answers."""
    truthful = rng.random(train + holdout) < expit(epsilon / 2)
    return truthful[:train].astype(float), (~truthful[train:]).astype(float)


def coin_by_randomised_response(rng, epsilon):
    """The coin of each pair by randomised response; the record that the answer names has the higher score."""
    answer = np.where(rng.random(80) < expit(epsilon), 0.5, -0.5)
    return answer, -answer


def with_point_masses_and_duplicates(rng, epsilon):
    """Randomised response about half of the records; the others are equal to many records of both parts."""
    train, holdout = membership_by_randomised_response(rng, epsilon)
    train[40:], holdout[40:] = rng.choice([0.5, 0.25], (2, 40))
    return train, holdout


def with_delta(rng, epsilon, delta):
    """The coin of each pair is revealed with probability delta, and otherwise answered by randomised response."""
    answer = np.where(rng.random(80) < expit(epsilon), 0.5, -0.5)
    answer = np.where(rng.random(80) < delta, 1.0, answer)
    return answer, -answer


def jointly(rng, epsilon, delta):
    """The worst case of theorem 7: answers about all pairs, now and then conditioned on many being right."""
    coins = rng.random(80) < 0.5
    answers = np.asarray(ConspiringResponse(epsilon, delta, 80, 66).scores(coins, rng))
    right = np.where(coins, answers, -answers)
    return right, -right


def gaussian(rng, mu):
    """A noisy vector of memberships: a substitution moves two coordinates by one."""
    noise = rng.normal(scale=math.sqrt(2.0) / mu, size=160)
    return 1.0 + noise[:80], noise[80:]


LAWS = {
    "records": (lambda rng: membership_by_randomised_response(rng, 1.0), PureDP(1.0), {}),
    "unequal parts": (lambda rng: membership_by_randomised_response(rng, 1.0, 110, 60), PureDP(1.0), {}),
    "sorted rows": (lambda rng: map(np.sort, membership_by_randomised_response(rng, 1.0)), PureDP(1.0), {}),
    "pairs": (lambda rng: coin_by_randomised_response(rng, 1.0), PureDP(1.0), {"strata": PAIRED}),
    "point masses": (lambda rng: with_point_masses_and_duplicates(rng, 1.0), PureDP(1.0), {}),
    "delta": (lambda rng: with_delta(rng, 1.0, 0.05), ApproxDP(1.0, 0.05), {"strata": PAIRED}),
    "jointly": (lambda rng: jointly(rng, 1.0, 1e-3), ApproxDP(1.0, 1e-3), {"strata": PAIRED}),
    "Gaussian": (lambda rng: gaussian(rng, 1.0), GaussianDP(1.0), {}),
    "columns": (lambda rng: several_columns(rng, 1.0), PureDP(1.0), {}),
    "add or remove": (
        lambda rng: membership_by_randomised_response(rng, 1.0), PureDP(0.5), {"adjacency": "add-remove"}
    ),
}  # fmt: skip


def several_columns(rng, epsilon):
    """A column that attains the claim between columns of noise, from which an attack could be learnt by mistake."""
    train, holdout = membership_by_randomised_response(rng, epsilon)
    return (np.column_stack([rng.normal(size=80), part, rng.integers(3, size=80)]) for part in (train, holdout))


def exceeded(law, claim, options, repetitions, seed=0):
    """Return how many of the bounds exceed the claim."""
    wrong = 0
    for number in range(repetitions):
        scores = law(np.random.default_rng([seed, number]))
        wrong += audit_holdout(*scores, claim=claim, seed=number, **options).violates_claim
    return wrong


@pytest.mark.parametrize("name", LAWS)
def test_coverage(name):
    assert exceeded(*LAWS[name], 100) <= binom.isf(FALSE_ALARM, 100, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_coverage_over_2000_repetitions(name):
    assert exceeded(*LAWS[name], 2_000, seed=1) <= binom.isf(FALSE_ALARM, 2_000, 0.05)


def test_a_law_beyond_its_claim_fails_the_coverage_test():
    law, _, options = LAWS["records"]
    assert exceeded(law, PureDP(0.3), options, 100) > binom.isf(FALSE_ALARM, 100, 0.05)


def test_an_attack_learnt_from_the_pairs_that_certify_fails_the_coverage_test(monkeypatch):
    """The control: with the coins of all pairs, noise in many columns is held for a leak."""

    def noise(rng):
        return rng.normal(size=(80, 20)), rng.normal(size=(80, 20))

    assert exceeded(noise, PureDP(0.0), {}, 60) <= binom.isf(FALSE_ALARM, 60, 0.05)
    learn, pairs = attack.learn_attack, []

    def remember(*arguments):
        pairs.append(match(*arguments))
        return pairs[-1]

    def learn_from_all(opened, closed, *rest):
        coins = pairs[-1].coins[~pairs[-1].opened]
        return learn(np.where(coins[:, None], closed, -closed), closed, *rest)

    monkeypatch.setattr("epsaudit.audits.holdout.match", remember)
    monkeypatch.setattr("epsaudit.audits.holdout.learn_attack", learn_from_all)
    assert exceeded(noise, PureDP(0.0), {}, 60) > binom.isf(FALSE_ALARM, 60, 0.05)


def copies_of_a_tenth(rng):
    """Distances to the closest record of a release that consists of copies of a tenth of the train records."""
    distances = rng.gamma(20.0, size=1200)
    distances[:60] = 0.0
    return distances[:600], distances[600:]


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_a_tenth_are_found(seed):
    """All copies among the unopened pairs are guessed, and nothing else, so that the bound is that of an oracle."""
    result = audit_holdout(*copies_of_a_tenth(np.random.default_rng(seed)), seed=seed)
    assert result.best.correct == result.best.guesses > 35
    assert result.lower_bound > 2.5
    assert "whether score is 0" in result.attack


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_the_direction_and_the_column_are_learnt(turn):
    rng = np.random.default_rng(1)
    train, holdout = rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    train[:, 1] += 3.0 * turn
    result = audit_holdout(train, holdout, epsilon=1.0, seed=1, names=["a", "b", "c"])
    assert result.violates_claim
    assert "b" in result.attack


def test_a_combination_of_columns_is_learnt():
    rng = np.random.default_rng(2)
    train, holdout = rng.normal(size=(2_000, 6)) + 0.6, rng.normal(size=(2_000, 6))
    alone = audit_holdout(train[:, 0], holdout[:, 0], seed=1).lower_bound
    assert audit_holdout(train, holdout, seed=1).lower_bound > alone + 0.5


def test_a_claim_for_adding_or_removing_is_converted():
    assert under_substitution(PureDP(1.0), "add-remove") == PureDP(2.0)
    assert under_substitution(GaussianDP(1.0), "add-remove") == GaussianDP(2.0)
    assert under_substitution(ZCDP(1.0), "add-remove") == ZCDP(4.0)
    converted = under_substitution(ApproxDP(1.0, 1e-5), "add-remove")
    assert converted == ApproxDP(2.0, (1.0 + math.e) * 1e-5)
    scores = copies_of_a_tenth(np.random.default_rng(0))
    for claim, factor in ((PureDP(0.1), 2.0), (GaussianDP(0.1), 2.0), (ZCDP(0.1), 4.0), (ApproxDP(0.1, 1e-6), 2.0)):
        bounds = [
            audit_holdout(*scores, claim=stated, adjacency=adjacency, seed=1).lower_bound
            for stated, adjacency in ((claim, "add-remove"), (under_substitution(claim, "add-remove"), "substitution"))
        ]
        assert bounds[0] == pytest.approx(bounds[1] / factor, rel=2e-3)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"claim": RenyiDP(2.0, 0.1), "adjacency": "add-remove"}, "no conversion"),
        ({"adjacency": "remove"}, "'substitution' or 'add-remove'"),
        ({"names": ["a", "b"]}, "2 names and 1 columns"),
        ({"strata": (np.zeros(600), np.zeros(3))}, "strata have shapes"),
        ({"strata": (np.zeros(600), np.ones(600))}, "No stratum has records in both parts"),
        ({"strata": (np.arange(600), np.arange(595, 1195))}, "There are 5 pairs"),
        ({"confidence": 2.0}, "confidence"),
    ],
)
def test_wrong_arguments_are_refused(asked, text):
    with pytest.raises(AuditError, match=text):
        audit_holdout(*copies_of_a_tenth(np.random.default_rng(0)), **asked)


@pytest.mark.parametrize(
    ("train", "holdout", "text"),
    [
        ([[1.0, 2.0]] * 20, [[1.0]] * 20, "2 columns and the holdout scores 1"),
        ([1.0, math.nan] * 10, [1.0] * 20, "10 of the train scores are NaN"),
        (["a"] * 20, [1.0] * 20, "they must be numbers"),
        ([], [1.0] * 20, r"shape \(0,\)"),
        (np.zeros((5, 2, 2)), [1.0] * 20, r"shape \(5, 2, 2\)"),
    ],
)
def test_scores_of_a_wrong_shape_are_refused(train, holdout, text):
    with pytest.raises(AuditError, match=text):
        audit_holdout(train, holdout)


def test_too_few_pairs_name_the_number_that_is_needed():
    rng = np.random.default_rng(3)
    result = audit_holdout(rng.random(40), rng.random(40) + 5.0, epsilon=4.0, seed=1)
    needed = 166  # the smallest number with 0.05 ** (1 / number) > e^4 / (1 + e^4)
    assert 0.05 ** (1 / needed) > expit(4.0) > 0.05 ** (1 / (needed - 1))
    assert "20 pairs" in result.limits
    assert f"at least {needed} pairs" in result.limits
    assert audit_holdout(rng.random(40), rng.random(40) + 5.0, epsilon=1.0, seed=1).limits is None


def test_scores_that_are_all_equal_certify_nothing():
    result = audit_holdout(np.zeros(50), np.zeros(50), epsilon=1.0, seed=1)
    assert result.lower_bound == 0.0
    assert "no score differs" in result.attack


def test_infinite_scores_are_ranked():
    rng = np.random.default_rng(4)
    train, holdout = rng.normal(size=300), rng.normal(size=300)
    train[:150] = math.inf
    assert audit_holdout(train, holdout, seed=1).lower_bound > 2.0


def test_a_result_without_a_claim_says_what_the_bound_is_about():
    result = audit_holdout(*copies_of_a_tenth(np.random.default_rng(0)), seed=1)
    assert not result.violates_claim
    assert "under substitution of a record" in str(result)
    assert "claimed" not in str(result)
    assert max(map(len, str(result).splitlines())) < 200


@pytest.mark.parametrize("claim", [None, PureDP(1.0), ApproxDP(1.0, 1e-5), GaussianDP(0.5), ZCDP(0.1)])
@pytest.mark.parametrize("adjacency", ["substitution", "add-remove"])
def test_a_stored_result_is_verified_and_a_forged_one_is_not(claim, adjacency, tmp_path):
    rng = np.random.default_rng(0)
    result = audit_holdout(rng.random(600), rng.random(600) + 0.5, claim=claim, adjacency=adjacency, seed=1)
    result.save(tmp_path / "holdout.json")
    assert HoldoutResult.load(tmp_path / "holdout.json") == result
    stored = json.loads(json.dumps(result.to_dict()))
    assert recompute(stored).holds
    assert not recompute({**stored, "lower_bound": stored["lower_bound"] + 1.0}).holds
    assert not recompute({**stored, "adjacency": {"substitution": "add-remove"}.get(adjacency, "substitution")}).holds


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"opened": 20}, "an audit opens"),
        ({"train": 300}, "cannot be made of 300 train"),
        ({"claim": {"kind": "PureDP", "epsilon": 3.0}, "claimed": False}, "said to have no claim"),
    ],
)
def test_impossible_numbers_are_found(changed, text):
    stored = audit_holdout(*copies_of_a_tenth(np.random.default_rng(0)), epsilon=1.0, seed=1).to_dict()
    found = recompute({**json.loads(json.dumps(stored)), **changed})
    assert not found.possible
    assert any(text in one for one in found.differences)


def test_reports_describe_a_holdout(tmp_path):
    page = pytest.importorskip("epsaudit.tools.reporting.page")
    result = audit_holdout(*copies_of_a_tenth(np.random.default_rng(0)), epsilon=1.0, seed=1)
    assert "matched at random" in page.methods([result], 0.95)
    assert "110 pairs" in page.methods([result], 0.95)


class Tags(HTMLParser):
    """Collect tags and visible text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.text = Counter(), []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("claim", [None, PureDP(1.0), GaussianDP(0.5)])
def test_the_page_for_a_board_says_what_was_certified(claim):
    holdout_page = pytest.importorskip("epsaudit.tools.reporting.holdout_page")
    name = "<script>alert(1)</script>"
    found = audit_holdout(*copies_of_a_tenth(np.random.default_rng(0)), claim=claim, seed=1, name=name)
    tags = Tags()
    tags.feed(holdout_page.render_holdout(found))
    text = " ".join(" ".join(tags.text).split())
    assert tags.tags["script"] == 0
    assert name in text
    if claim != GaussianDP(0.5):
        share = round(100 * found.best.guesses / found.pairs)
        assert f"guesses correctly in 100 of 100 cases for {share} % of the records" in text
    assert ("Claim" in text) is (claim is not None)


@pytest.mark.parametrize(("claim", "certain"), [(PureDP(1.0), True), (ApproxDP(1.0, 1e-5), False), (ZCDP(0.01), False)])
def test_the_page_states_a_share_of_right_guesses_only_where_no_delta_allows_more(claim, certain):
    holdout_page = pytest.importorskip("epsaudit.tools.reporting.holdout_page")
    rng = np.random.default_rng(6)
    result = audit_holdout(rng.random(400), rng.random(400) + 0.9, claim=claim, seed=1)
    assert result.lower_bound > 0.0
    assert ("right guesses of 100 leads to" in holdout_page.render_holdout(result)) is certain


def test_the_page_of_a_release_without_a_leak_proves_nothing():
    holdout_page = pytest.importorskip("epsaudit.tools.reporting.holdout_page")
    rng = np.random.default_rng(5)
    page = holdout_page.render_holdout(audit_holdout(rng.random(300), rng.random(300), epsilon=1.0, seed=1))
    assert "does not prove" in page
    assert "reveals who" not in page

"""Audits of one run: 500 audits each of mechanisms with a known leak, guess rules that must not use the coins,
results, errors.
"""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from epsaudit import (
    ZCDP,
    ApproxDP,
    ApproxZCDP,
    AuditError,
    GaussianDP,
    OneRunResult,
    PureDP,
    RenyiDP,
    TradeOff,
    audit_one_run,
    audit_scores,
)
from epsaudit.audits.one_run import (
    Bonferroni,
    Fixed,
    GuessRule,
    Signs,
    Threshold,
)
from epsaudit.audits.one_run.audit import canary_order
from epsaudit.audits.one_run.planning import planned_guesses
from epsaudit.bounds import one_run as bounds
from epsaudit.bounds.one_run import DELTA_ERROR_SHARE, GuessBound, GuessSet
from epsaudit.experiments.separate_half import SeparateHalf
from epsaudit.mechanisms.one_run import ConspiringResponse, NoisyVectorSum, ResponsePerRecord, SpillingResponse

AUDITS = 500
ALLOWED = int(binom.ppf(0.999, AUDITS, 0.05))  # false alarm of one test: 0.1 %
EVERYBODY = Threshold(0.0)
HALF = SeparateHalf()

RESPONSE = ResponsePerRecord(1.0, 500)
SPILLING = SpillingResponse(1.0, 1e-3, 200, 10)
# delta lifts the probability of 235 or more right answers among 300 from 2.2 % to just below 5 %
CONSPIRING = ConspiringResponse(1.0, 0.999 * bounds.delta_bound(300, 300, 235, 1.0, 0.95), 300, 235)
SUM = NoisyVectorSum(1.0, 300)
APPROXIMATE_SUM = NoisyVectorSum(1.0, 300, delta=1e-3)


def wrong(mechanism, guesses, method="auto", claim=None, audits=AUDITS):
    """Return how many of the audits certify more than the true parameter."""
    truth = mechanism.claim.parameter
    return sum(
        audit_one_run(mechanism, claim=claim, guesses=guesses, method=method, seed=seed).lower_bound > truth + 1e-9
        for seed in range(audits)
    )


def alternating(coins):
    """Sort coins so that canaries that are in and canaries that are out alternate, as long as there are both."""
    pairs = min(coins.sum(), (~coins).sum())
    return np.concatenate([np.tile([True, False], pairs), np.full(len(coins) - 2 * pairs, coins.sum() > pairs)])


class TestCoverage:
    @pytest.mark.parametrize(
        ("mechanism", "guesses", "method"),
        [
            (RESPONSE, EVERYBODY, "sharp"),
            (RESPONSE, "planned", "auto"),
            (RESPONSE, HALF, "auto"),
            (RESPONSE, "bonferroni", "auto"),
            (SPILLING, EVERYBODY, "sharp"),
            (SPILLING, EVERYBODY, "binomial"),
            (CONSPIRING, EVERYBODY, "sharp"),
            (CONSPIRING, EVERYBODY, "binomial"),
            (CONSPIRING, EVERYBODY, "trade-off"),
            (CONSPIRING, "planned", "auto"),
            (CONSPIRING, HALF, "auto"),
            (CONSPIRING, "bonferroni", "auto"),
            (SUM, "planned", "auto"),
            (APPROXIMATE_SUM, "planned", "binomial"),
            *(
                pytest.param(*case, marks=pytest.mark.slow)
                for case in (
                    (SUM, "bonferroni", "auto"),
                    (APPROXIMATE_SUM, HALF, "auto"),
                    (APPROXIMATE_SUM, "bonferroni", "trade-off"),
                )
            ),
        ],
        ids=lambda value: getattr(value, "name", value),
    )
    def test_at_most_one_bound_in_twenty_is_above_the_truth(self, mechanism, guesses, method):
        assert wrong(mechanism, guesses, method) <= ALLOWED

    @pytest.mark.parametrize(
        "claim",
        [
            ZCDP(0.125),
            RenyiDP(4.0, 0.5),
            ApproxZCDP(0.125, 1e-3),
            TradeOff.of(GaussianDP(0.5).profile, np.linspace(0.0, 3.0, 9)),
        ],
        ids=lambda claim: type(claim).__name__,
    )
    def test_a_claim_without_a_theorem_is_tested_by_what_it_implies(self, claim):
        """Gaussian noise with mu = 1/2 satisfies all of these claims; with a quarter of the noise it satisfies none."""
        for mechanism, refuted in ((NoisyVectorSum(0.5, 300), range(8)), (NoisyVectorSum(2.0, 1000), range(45, 51))):
            found = [audit_one_run(mechanism, claim=claim, seed=seed) for seed in range(50)]
            assert sum(one.lower_bound > claim.parameter for one in found) in refuted
            nothing = audit_scores(np.arange(400) % 2 == 0, np.random.default_rng(0).random(400), claim=claim)
        assert nothing.lower_bound == 0.0
        assert found[0].epsilon_lower is None
        assert found[0].reach > claim.parameter
        assert OneRunResult.from_dict(json.loads(json.dumps(found[0].to_dict()))).lower_bound == found[0].lower_bound

    def test_numbers_of_guesses_for_each_parameter_cost_nothing(self):
        # the claim is far below the truth, 1: the parameters above it are tested by numbers of their own
        found = [audit_one_run(RESPONSE, claim=PureDP(0.2), seed=seed) for seed in range(200)]
        assert sum(len(result.counts) > 3 for result in found) > 150
        assert sum(result.lower_bound > 1.0 for result in found) <= binom.ppf(0.999, 200, 0.05)

    def test_randomised_response_attains_the_level(self):
        # binomials are discrete: the largest tail below 5 % of Binomial(500, 0.731) is 4.3 %
        expected = max(t for t in (binom.sf(k, 500, 1 / (1 + math.exp(-1))) for k in range(300, 500)) if t <= 0.05)
        seen = wrong(RESPONSE, EVERYBODY)
        assert binom.ppf(0.0005, AUDITS, expected) <= seen <= binom.ppf(0.9995, AUDITS, expected)

    def test_conspiring_response_attains_the_level_with_delta(self):
        assert 0.0499 < CONSPIRING.reached < 0.05
        seen = wrong(CONSPIRING, EVERYBODY, "sharp")
        assert binom.ppf(0.0005, AUDITS, 0.05) <= seen <= ALLOWED

    @pytest.mark.parametrize("guesses", [EVERYBODY, "planned", HALF])
    def test_a_mechanism_that_reveals_everybody_now_and_then_is_covered_however_many_guesses(self, guesses):
        def all_or_nothing(included, rng):
            """Reveal all coins with probability 0.1, which is (0, 0.1)-DP; the coins do not influence when that
            happens.
            """
            noise = rng.standard_normal(len(included))
            return np.where(included, 1.0, -1.0) if rng.random() < 0.1 else noise

        claim = ApproxDP(0.5, 0.1)
        above = sum(
            audit_one_run(all_or_nothing, 4000, claim=claim, guesses=guesses, seed=seed).lower_bound > 0.0
            for seed in range(300)
        )
        assert above <= binom.ppf(0.999, 300, 0.05)

    @pytest.mark.slow
    def test_forgetting_delta_is_seen(self):
        # the incorrect variant that must fail: the same mechanism audited as if delta were 0
        # 6.8 % are above, so it takes 6,000 to see it
        assert wrong(CONSPIRING, EVERYBODY, claim=PureDP(1.0), audits=6000) > binom.ppf(0.999, 6000, 0.05)

    def test_choosing_among_numbers_of_guesses_without_paying_is_seen(self):
        # the incorrect variant that must fail: the best of 21 numbers of guesses, each at 95 %, on scores without ties
        rng = np.random.default_rng(0)
        above = 0
        for _ in range(100):
            included = rng.random(400) < 0.5
            scores = RESPONSE_400.scores(included, rng) * (1.0 + rng.random(400))
            found = [
                audit_scores(included, scores, claim=PureDP(1.0), guesses=number).lower_bound
                for number in range(20, 201, 9)
            ]
            above += max(found) > 1.0
        assert above > binom.ppf(0.999, 100, 0.05)

    @pytest.mark.parametrize(
        ("claim", "guesses"),
        [
            (PureDP(0.05), 100),
            (PureDP(0.05), HALF),
            (PureDP(0.05), "bonferroni"),
            (ApproxDP(0.1, 1e-5), "planned"),
            (GaussianDP(0.1), "planned"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("layout", [np.sort, pytest.param(alternating, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("score", [np.zeros_like, lambda noise: np.clip(noise, -1.0, 1.0)])
    def test_ties_do_not_tell_coins_by_which_the_rows_are_laid_out(self, claim, guesses, layout, score):
        rng = np.random.default_rng(0)
        sizes = [*range(300, 500, 21)] * 8  # odd and even; a plan is made once for each
        above = sum(
            audit_scores(
                layout(rng.random(size) < 0.5),
                score(rng.standard_normal(size)),
                claim=claim,
                guesses=guesses,
                seed=int(rng.integers(2**63)),
            ).lower_bound
            > 0.0
            for size in sizes
        )
        assert above <= binom.ppf(0.999, len(sizes), 0.05)

    @pytest.mark.parametrize(
        ("layout", "score"),
        [
            (np.sort, np.zeros_like),  # the one that one order for all audits fails
            pytest.param(np.sort, np.sign, marks=pytest.mark.slow),
            pytest.param(alternating, np.zeros_like, marks=pytest.mark.slow),
        ],
    )
    def test_guesses_among_ties_are_right_by_chance_at_every_size(self, layout, score):
        """Each of the 498 sizes, and their total, has a false-alarm probability of 1 in 1,000."""
        rng = np.random.default_rng(1)
        right = [guessed_right(size, layout, score, rng, rng.integers(2**63, size=10).tolist()) for size in SIZES]
        assert min(right) >= LEAST_BY_CHANCE
        assert max(right) <= MOST_BY_CHANCE
        every = 80 * len(SIZES)
        assert binom.ppf(0.0005, every, 0.5) <= sum(right) <= binom.isf(0.0005, every, 0.5)

    def test_one_order_for_all_audits_would_tell_them(self):
        # the variant that must fail: at some of the sizes one permutation has almost every guess right, or wrong
        rng = np.random.default_rng(1)
        right = [guessed_right(size, np.sort, np.zeros_like, rng, [0] * 10) for size in SIZES]
        assert min(right) < LEAST_BY_CHANCE < MOST_BY_CHANCE < max(right)

    def test_the_order_is_drawn_afresh_kept_and_printed(self):
        coins = np.sort(np.random.default_rng(3).random(1000) < 0.5)
        results = [audit_scores(coins, np.zeros(1000), claim=PureDP(1.0), guesses=200) for _ in range(20)]
        assert len({result.seed for result in results}) == 20
        assert len({result.counts for result in results}) > 5  # fewer has a probability below 1e-9
        for result in results:
            again = audit_scores(coins, np.zeros(1000), claim=PureDP(1.0), guesses=200, seed=result.seed)
            assert again == result == OneRunResult.from_dict(json.loads(json.dumps(result.to_dict())))
            assert f"seed       {result.seed}, which decides only the order of the canaries" in str(result)
            assert not result.reproducible

    def test_coins_that_are_not_fair_are_not_covered(self):
        # the incorrect variant that must fail: guesses 'in' are right more than half of the times without a mechanism
        rng = np.random.default_rng(1)
        coins = [rng.random(200) < 0.58 for _ in range(20)]
        found = [audit_scores(coin, rng.random(200), claim=PureDP(0.0), guesses=(200, 0)).lower_bound for coin in coins]
        assert sum(bound > 0.0 for bound in found) > binom.ppf(0.999, 20, 0.05)
        with pytest.raises(AuditError, match="canaries are in; fair coins produce such a split"):
            audit_scores(rng.random(200) < 0.9, rng.random(200), claim=PureDP(0.0))


SIZES = range(8, 1501, 3)  # odd and even
LEAST_BY_CHANCE, MOST_BY_CHANCE = (int(quantile(0.0005 / len(SIZES), 80, 0.5)) for quantile in (binom.ppf, binom.isf))


def guessed_right(size, layout, score, rng, seeds):
    """Return the number of correct guesses among eight guesses per audit, summed over one audit for every seed."""
    return sum(
        audit_scores(
            layout(rng.random(size) < 0.5), score(rng.standard_normal(size)), claim=PureDP(1.0), guesses=8, seed=seed
        )
        .counts[0]
        .correct
        for seed in seeds
    )


RESPONSE_400 = ResponsePerRecord(1.0, 400)


class TestSees:
    def test_half_the_noise_is_refuted(self):
        claim = NoisyVectorSum(1.0, 20_000).claim
        assert audit_one_run(NoisyVectorSum(2.0, 20_000), claim=claim, seed=0).violates_claim

    def test_nearly_everything_is_certified_of_randomised_response(self):
        result = audit_one_run(ResponsePerRecord(2.0, 100_000), guesses=EVERYBODY, seed=0)
        assert 1.96 < result.lower_bound < 2.03


class TestRules:
    included = np.array([True, False, True, False, True, False])
    scores = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])

    def counts(self, guesses, **keywords):
        return audit_scores(self.included, self.scores, claim=PureDP(1.0), guesses=guesses, **keywords).counts

    def test_fixed_numbers_are_the_extremes(self):
        assert self.counts((2, 1)) == (GuessSet.of(6, 2, 1, 1, 1),)
        assert self.counts(3) == (GuessSet.of(6, 2, 1, 1, 1),)

    def test_a_threshold_guesses_everybody(self):
        assert self.counts(Threshold(2.5)) == (GuessSet.of(6, 3, 3, 2, 2),)

    def test_a_separate_half_guesses_about_the_other_half_only(self):
        rng = np.random.default_rng(0)
        included = rng.random(1000) < 0.5
        scores = included + rng.standard_normal(1000)
        (counts,) = audit_scores(included, scores, claim=ApproxDP(1.0, 1e-5), guesses=HALF, seed=7).counts
        assert counts.canaries == 500
        # what the guessed half's coins say has no part in how many are guessed
        flipped = included.copy()
        guessed = canary_order(1000, 7)[1::2]
        flipped[guessed] = ~flipped[guessed]
        (other,) = audit_scores(flipped, scores, claim=ApproxDP(1.0, 1e-5), guesses=HALF, seed=7).counts
        assert (other.guessed_in, other.guessed_out) == (counts.guessed_in, counts.guessed_out)
        assert other.correct == counts.guesses - counts.correct

    def test_a_separate_half_pays_for_delta(self):
        (counts,) = (result := audit_one_run(APPROXIMATE_SUM, guesses=HALF, seed=3)).counts
        numbers = counts.canaries, counts.guesses, counts.correct
        assert result.lower_bound == bounds.epsilon_bound(*numbers, 1e-3, 0.95, "sharp", DELTA_ERROR_SHARE)
        assert 0.0 < result.lower_bound < bounds.epsilon_bound(*numbers, 1e-3, 0.95)

    def test_the_plan_does_not_look_at_the_answers(self):
        claim = ApproxDP(2.0, 1e-5)
        rng = np.random.default_rng(0)
        sizes = {
            audit_scores(rng.random(2000) < 0.5, rng.random(2000), claim=claim).counts[0].guesses for _ in range(5)
        }
        assert sizes == {planned_guesses(2000, GuessBound(claim, "sharp", 0.95))}

    def test_the_plan_could_refute_the_claim(self):
        chosen = planned_guesses(10_000, GuessBound(ApproxDP(4.0, 1e-5), "sharp", 0.95))
        assert bounds.epsilon_bound(10_000, chosen, chosen, 1e-5, 0.95) > 1.25 * 4.0

    def test_several_numbers_share_the_error(self):
        rng = np.random.default_rng(0)
        included = rng.random(1000) < 0.5
        result = audit_scores(included, included * 1.0, claim=PureDP(1.0), guesses=Bonferroni((1.0, 0.1)))
        assert [c.guesses for c in result.counts] == [1000, 100]
        assert result.shared_confidence == pytest.approx(0.975)
        alone = [bounds.epsilon_bound(1000, c.guesses, c.correct, 0.0, 0.975) for c in result.counts]
        assert result.lower_bound == max(alone)

    @pytest.mark.parametrize("rule", [Fixed(3, 4), Signs(), Bonferroni((0.5, 0.1)), Threshold(0.3)])
    def test_rules_come_back_from_json(self, rule):
        assert GuessRule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule


class TestResult:
    @pytest.mark.parametrize(
        ("mechanism", "guesses", "method"),
        [(RESPONSE, EVERYBODY, "auto"), (SUM, "bonferroni", "auto"), (APPROXIMATE_SUM, "signs", "binomial")],
    )
    def test_it_comes_back_from_a_file_with_its_bounds_recomputed(self, tmp_path, mechanism, guesses, method):
        result = audit_one_run(mechanism, guesses=guesses, method=method, seed=1)
        result.save(tmp_path / "result.json")
        again = OneRunResult.load(tmp_path / "result.json")
        assert again == result
        data = json.loads((tmp_path / "result.json").read_text())["results"][0]
        data["lower_bound"], data["delta_lower"] = 99.0, 0.9
        assert OneRunResult.from_dict(data).lower_bound == result.lower_bound
        assert OneRunResult.from_dict(data).delta_lower == result.delta_lower

    def test_the_same_seed_gives_the_same_result_and_another_seed_another(self):
        assert audit_one_run(SUM, seed=5) == audit_one_run(SUM, seed=5)
        assert audit_one_run(SUM, seed=5).counts != audit_one_run(SUM, seed=6).counts

    def test_its_streams_are_none_that_numpy_spawns_or_another_audit_draws_from(self):
        seen = []

        def shuffled_by_its_own_children(included, rng):
            seen.append(rng.bit_generator.seed_seq.spawn_key)
            flips = np.random.default_rng(np.random.SeedSequence(7).spawn(1)[0]).random(len(included)) < 0.5
            return np.where(flips, 1.0, -1.0)  # who seeds themselves with the audit's seed does not draw its coins

        result = audit_one_run(shuffled_by_its_own_children, 500, claim=PureDP(0.5), guesses=EVERYBODY, seed=7)
        assert not result.violates_claim
        assert seen == [(4, 1)]

    def test_too_few_guesses_say_so(self):
        result = audit_one_run(ResponsePerRecord(5.0, 100), guesses=50, seed=0)
        assert "could not have refuted the claim" in str(result)
        assert audit_one_run(ResponsePerRecord(1.0, 100), guesses=50, seed=0).limits is None

    def test_delta_is_bounded_at_the_claimed_epsilon(self):
        included = np.random.default_rng(0).random(1000) < 0.5
        for method in ("sharp", "binomial", "trade-off"):
            result = audit_scores(included, included * 1.0, claim=ApproxDP(1.0, 1e-5), guesses=200, method=method)
            assert result.delta_lower is not None
            assert result.delta_lower > 1e-5
            assert result.violates_claim
        assert audit_scores(included, included * 1.0, claim=GaussianDP(1.0)).delta_lower is None

    def test_a_curve_bounds_no_epsilon(self):
        result = audit_one_run(SUM, seed=1)
        assert result.epsilon_lower is None
        with pytest.raises(AuditError, match="bounds its epsilon at no single delta"):
            result.epsilon_at(1e-5)


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ({"claim": None}, "The claim of train is None; give one, for instance"),
            ({"claim": [1.0]}, r"The claim of train is \[1\.0\]; give one, for instance"),
            ({"guesses": "best"}, "guesses is 'best'"),
            ({"guesses": 0}, "it must be from 1 to 500"),
            ({"method": "f-dp"}, "method is 'f-dp'"),
            ({"confidence": 1.0}, "confidence"),
            ({"claim": GaussianDP(1.0), "method": "sharp"}, "whole curve"),
            ({"method": "trade-off", "guesses": "signs"}, "no theorem for a number of guesses that the output decides"),
            ({"canaries": 0}, "number of canaries"),
            ({"canaries": None}, "How many canaries"),
        ],
    )
    def test_they_come_before_the_run(self, arguments, sentence):
        def train(included, rng):
            raise AssertionError("nothing may be run")

        given = {"canaries": 500, "claim": PureDP(1.0)} | arguments
        with pytest.raises(AuditError, match=sentence):
            audit_one_run(train, **given)

    def test_coins_must_be_true_or_false(self):
        with pytest.raises(AuditError, match="True or False"):
            audit_scores(np.array([0.0, 0.5]), np.zeros(2), claim=PureDP(1.0))

    def test_counts_that_cannot_be_are_refused(self):
        for numbers in ((10, 5, 5, 6, 0), (10, 6, 5, 0, 0), (10, 5, 5, -1, 0)):
            with pytest.raises(AuditError):
                GuessSet.of(*numbers)

    def test_a_function_that_spoils_its_argument_changes_nothing(self):
        def spoil(included, rng):
            scores = included + rng.standard_normal(len(included))
            included[:] = scores > 0
            return scores

        result = audit_one_run(spoil, 1000, claim=PureDP(5.0), seed=1)
        assert 0.5 < result.best.correct / result.best.guesses < 0.8

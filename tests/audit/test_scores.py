"""Audits of scores: coverage for tight mechanisms with many runs, data that are refused, and estimates that are
printed.
"""

import json

import numpy as np
import polars
import pytest
from scipy.stats import binom

from epsaudit import ZCDP, ApproxDP, AuditError, GaussianDP, PureDP, TradeOff, audit_scores
from epsaudit.audits.many_runs import ManyRunsResult, Tail, rank_p_value, tail_bound
from epsaudit.audits.one_run import Planned
from epsaudit.audits.score_checks import describe_direction, find_shared_coins
from epsaudit.audits.usual_estimates import usual_estimates
from epsaudit.audits.verify import load, recompute
from epsaudit.experiments.scores import LAWS, corrected, split
from epsaudit.tools.cli.main import main
from epsaudit.tools.reporting.figures import plot_scores, render_figure

AUDITS = 400
ALLOWED = int(binom.ppf(0.999, AUDITS, 0.05))  # false alarm of one test: 0.1 %


def many(law, runs, seed, **settings):
    rng = np.random.default_rng(seed)
    included = np.arange(2 * runs) < runs
    values = np.where(included, law.scores(rng, 2 * runs, True), law.scores(rng, 2 * runs, False))
    return audit_scores(included, values, claim=law.claim, runs=np.arange(2 * runs), seed=seed, **settings)


class TestManyRuns:
    @pytest.mark.parametrize(
        "law",
        [pytest.param(law, marks=pytest.mark.slow if isinstance(law.claim, ZCDP | TradeOff) else ()) for law in LAWS],
        ids=lambda law: law.name,
    )
    def test_at_most_one_bound_in_twenty_is_above_the_truth(self, law):
        audits = 30 if isinstance(law.claim, ZCDP | TradeOff) else 60
        above = sum(many(law, 100, seed).lower_bound > law.claim.parameter for seed in range(audits))
        assert above <= binom.ppf(0.999, audits, 0.05)

    def test_one_rank_attains_its_level_where_the_claim_is_attained(self):
        # members are as randomised response makes them of others, by the event of 1 / (1 + e): the p-value is exact
        rng, above = np.random.default_rng(0), 0
        for _ in range(AUDITS):
            others = np.sort(rng.random(200))
            members = np.where(rng.random(200) < np.e / (1 + np.e), 1 - rng.random(200) / (1 + np.e), 0)
            tail = Tail.of(200, 200, True, 40, int(np.sum(members > others[-40])), 0.0)
            above += tail_bound(PureDP(1.0), tail, 0.05) > 1.0
        assert binom.ppf(0.0005, AUDITS, 0.03) <= above <= ALLOWED

    def test_choosing_among_ranks_without_paying_is_seen(self):
        # the incorrect variant that must fail: the best of all ranks, each at 95 %
        law = next(one for one in LAWS if one.name == "nothing")
        above = 0
        for seed in range(60):
            found = many(law, 100, seed)
            above += max(tail_bound(law.claim, tail, 0.05) for tail in found.counts) > 0.0
        assert above > binom.ppf(0.999, 60, 0.05)

    def test_the_p_value_is_that_of_drawn_order_statistics(self):
        rng = np.random.default_rng(0)
        tails = rng.beta(5, 96, size=200_000)
        drawn = np.mean(rng.binomial(100, np.minimum(1.0, np.e * tails)) >= 25)
        # rounded up by at most a tenth in all cells; half a per cent is four standard errors
        assert drawn * 0.98 <= rank_p_value(PureDP(1.0), 5, 100, 25, 100, 1e-6) <= drawn * 1.15

    @pytest.mark.parametrize(
        "claim", [PureDP(0.5), ApproxDP(0.5, 1e-5), GaussianDP(0.5), TradeOff(((0.0, 0.2), (1.0, 0.01)))], ids=str
    )
    def test_a_leak_is_seen_in_the_claims_own_parameter(self, claim):
        rng = np.random.default_rng(3)
        values = np.concatenate([rng.normal(2.0, size=300), rng.normal(size=300)])
        result = audit_scores(np.arange(600) < 300, values, claim=claim, runs=np.arange(600), seed=1)
        assert result.claim.parameter < result.lower_bound < result.reach
        stored = json.loads(json.dumps(result.to_dict()))
        assert ManyRunsResult.from_dict(stored) == result
        assert recompute(stored).holds
        stored["counts"][0]["likely"] = 301
        assert not recompute(stored).possible

    def test_a_threshold_fixed_before_is_a_box_on_four_counts(self):
        members, values = (np.repeat(one, [480, 20, 480, 20]) for one in ([1, 0, 0, 1], [1, 1, -1, -1]))
        result = audit_scores(members, values,
                              epsilon=2.0, runs=np.arange(1000), threshold=0.0, seed=1)  # fmt: skip
        assert result.lower_bound == pytest.approx(2.7319, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("law", [one for one in LAWS if one.claim.claimed_point is not None], ids=lambda law: law.name)
def test_formulas_that_were_written_anew_are_those_of_jax_privacy(law):
    auditing = pytest.importorskip("jax_privacy").auditing
    inside, outside = law.draw(np.random.default_rng(5), 300)
    theirs, delta = auditing.CanaryScoreAuditor(inside, outside), law.claim.claimed_point[1]
    found = theirs.epsilon_clopper_pearson(0.05, delta)
    assert corrected(inside, outside, law.claim, 0) == pytest.approx(found, abs=1e-9)
    found = theirs.epsilon_clopper_pearson(0.05, delta, threshold_strategy=auditing.Split(seed=3))
    assert split(inside, outside, law.claim, 3) == pytest.approx(found, abs=1e-9)


class TestOneRun:
    def test_a_plan_for_each_parameter_sees_what_a_plan_for_the_claim_does_not(self):
        rng = np.random.default_rng(5)
        coins = rng.random(20_000) < 0.5
        values = rng.normal(size=20_000) + 4.0 * coins
        result = audit_scores(coins, values, claim=ApproxDP(1.0, 1e-6), seed=1)
        of_claim = result.counts[0]
        only = audit_scores(coins, values, claim=ApproxDP(1.0, 1e-6), guesses=of_claim.guesses, seed=1)
        assert result.rule == Planned()
        assert only.lower_bound < 4.9 < 6.5 < result.lower_bound < result.reach
        assert recompute(json.loads(json.dumps(result.to_dict()))).holds

    def test_guesses_with_abstentions_are_taken_as_they_are(self):
        coins = np.random.default_rng(0).random(400) < 0.5
        guesses = np.where(np.arange(400) < 100, 2.0 * coins - 1.0, 0.0)
        result = audit_scores(coins, guesses, epsilon=1.0, guesses="signs", seed=1)
        assert (result.best.guesses, result.best.correct) == (100, 100)

    def test_runs_with_several_canaries_are_one_run_with_all_of_them(self):
        rng = np.random.default_rng(0)
        coins, values = rng.random(300) < 0.5, rng.normal(size=300)
        asked = {"epsilon": 1.0, "seed": 2}
        found = audit_scores(
            coins, values, runs=np.repeat([1, 2, 3], 100), canaries=np.tile(np.arange(100), 3), **asked
        )
        assert found.counts == audit_scores(coins, values, **asked).counts


class TestRefusals:
    COINS = np.random.default_rng(5).random(200) < 0.5
    VALUES = COINS + np.random.default_rng(2).normal(size=200)

    @pytest.mark.parametrize(
        ("changed", "sentence"),
        [
            ({"canaries": np.arange(200) // 2}, "is twice in run 0: both scores have the same coin"),
            ({"scored": np.where(COINS, "model a", "model b")}, "scored distinguishes members from others"),
            ({"scored": np.argsort(np.argsort(~COINS, kind="stable"))}, "by different models"),
            ({"threshold": VALUES[7]}, "is one of the scores, so it was probably chosen"),
            ({"scores": np.where(np.arange(200) < 3, np.nan, VALUES)}, "3 scores are NaN"),
            ({"included": np.arange(200) % 20 > 0}, "fair coins produce such a split"),
            ({"runs": [1, 2]}, "it must have a value for each of 200 scores"),
            ({"runs": np.arange(200), "guesses": "signs"}, "guesses and method are arguments for one run"),
            ({"runs": np.arange(200), "included": np.ones(200)}, "some of both are needed"),
            (
                {"included": np.tile([1, 0], 100), "runs": np.arange(200) // 4, "canaries": np.arange(200) % 4},
                "They were halved; the bound needs",
            ),
            ({"runs": np.arange(200) // 5}, "Run 0 has 5 scores, and nothing says which canary each is about"),
            ({"runs": np.zeros(12), "included": np.ones(12), "scores": VALUES[:12]}, "Run 0.0 has 12 scores, and noth"),
            ({"canaries": np.zeros(200)}, "if they are of different runs, name the run of each"),
            ({"runs": [None, *range(199)]}, "runs has no value in row 1"),
            ({"runs": np.arange(200) // 2, "canaries": [*range(199), np.nan]}, "canaries has no value in row 200"),
            ({"threshold": 0.5, "guesses": 20}, "Both guesses and threshold"),
            ({"epsilon": None}, "The claim of mechanism is None; give one, for instance"),
            ({"epsilon": None, "runs": np.arange(200)}, "The claim of mechanism is None; give one, for instance"),
            ({"epsilon": None, "claim": 1.0}, r"The claim of mechanism is 1\.0; give one, for instance"),
        ],
    )
    def test_what_voids_the_bound_is_refused_in_a_sentence(self, changed, sentence):
        given = {"included": self.COINS, "scores": self.VALUES, "epsilon": 1.0} | changed
        with pytest.raises(AuditError, match=sentence):
            audit_scores(**given)

    def test_one_run_with_many_canaries_needs_no_names_of_them(self):
        named = audit_scores(self.COINS, self.VALUES, epsilon=1.0, runs=np.zeros(200), seed=1)
        assert named == audit_scores(self.COINS, self.VALUES, epsilon=1.0, seed=1)

    @pytest.mark.parametrize(
        ("changed", "note"),
        [
            ({"included": np.arange(200) % 2}, "If they were halved in place of tossed for, the bound is void"),
            ({"scores": np.random.default_rng(6).normal(size=200)}, "they may ignore membership"),
            ({"epsilon": 30.0}, "could not have refuted the claim"),
            ({"epsilon": 9.0, "runs": np.arange(200)}, "could not have refuted the claim"),
        ],
    )
    def test_what_may_void_it_is_a_note_of_the_result(self, changed, note):
        given = {"included": self.COINS, "scores": self.VALUES, "epsilon": 1.0, "seed": 1} | changed
        assert note in str(audit_scores(**given))
        assert note not in str(audit_scores(self.COINS, self.VALUES, epsilon=1.0, seed=1))


class TestSharedCoins:
    """Rows that share a coin are one observation. Audited as several, they would refute a true claim far too often."""

    @staticmethod
    def responses(rows, seed, **columns):
        """Audit 200 runs of randomised response, which attains 1-DP, with every score written ``rows`` times."""
        rng = np.random.default_rng(seed)
        coins = rng.random(200) < 0.5
        told = np.where(rng.random(200) < np.e / (1.0 + np.e), coins, ~coins) * 2.0 - 1.0
        run, row = np.indices((200, rows)).reshape(2, -1)
        named = {"runs": run, "canaries": row}
        given = {key: named[key] for key in columns}
        return audit_scores(
            np.repeat(coins, rows), np.repeat(told, rows), epsilon=1.0, guesses="signs", seed=seed, **given
        )

    @pytest.mark.parametrize("rows", [5, 20])
    @pytest.mark.parametrize("columns", [{"runs": 1}, {"runs": 1, "canaries": 1}], ids=["no canaries", "canaries"])
    def test_no_true_claim_is_refuted_by_rows_that_share_a_coin(self, rows, columns):
        # without the refusals 62 of 300 sets with 5 rows and 72 with 20 refute a true claim
        reasons = r"nothing says which|share their coins|fair coins produce such a split|They were halved"
        for seed in range(30):
            with pytest.raises(AuditError, match=reasons):
                self.responses(rows, seed, **columns)

    def test_one_row_a_run_is_refuted_as_rarely_as_it_should_be(self):
        # the sound twin of the case above: a bound above the truth in 5 % at most
        above = sum(self.responses(1, seed).violates_claim for seed in range(300))
        assert above <= binom.ppf(0.999, 300, 0.05)

    @pytest.mark.parametrize("axis", [0, 1])
    @pytest.mark.parametrize("opposite", [False, True])
    def test_copies_of_canaries_and_of_runs_are_refused(self, axis, opposite):
        rng = np.random.default_rng(1)
        coins = np.moveaxis(rng.random((60, 50)) < 0.5, 0, axis)
        run, canary = np.indices(coins.shape).reshape(2, -1)
        asked = {"scores": rng.normal(size=3_000), "runs": run, "canaries": canary, "epsilon": 1.0}
        assert audit_scores(coins.reshape(-1), **asked).lower_bound == 0.0
        copied = np.moveaxis(coins, axis, 0)  # a view
        copied[7] = copied[3] ^ opposite
        what = ("Runs", "Canaries")[axis]
        with pytest.raises(AuditError, match=rf"{what} 3 and 7 .* they share their coins"):
            audit_scores(coins.reshape(-1), **asked)

    def test_fair_coins_are_hardly_ever_called_copies(self):
        # of few coins many repeat themselves: a false alarm has a probability below 1e-6
        rng = np.random.default_rng(2)
        for runs, canaries in [(2, 500), (500, 2), (3, 3), (12, 200), (40, 40)]:
            for _ in range(20):
                coins = rng.random((runs, canaries)) < 0.5
                run, canary = np.indices(coins.shape).reshape(2, -1)
                assert find_shared_coins(coins.reshape(-1), run, canary)[0] > 1e-6
                assert find_shared_coins(coins.reshape(-1), canary, run)[0] > 1e-6

    def test_halves_of_shadow_models_are_refused_with_the_way_on(self):
        rng = np.random.default_rng(3)
        coins = np.argsort(rng.random((64, 200)), axis=0) < 32
        run, canary = np.indices(coins.shape).reshape(2, -1)
        values = rng.laplace(size=(64, 200)) + coins
        asked = {"epsilon": 1.0, "seed": 1}
        with pytest.raises(AuditError, match=r"They were halved; .* Instead, audit one canary over all of its runs"):
            audit_scores(coins.reshape(-1), values.reshape(-1), runs=run, canaries=canary, **asked)
        one = audit_scores(coins[:, 0], values[:, 0], runs=np.arange(64), canaries=np.zeros(64), **asked)
        assert (one.included, one.excluded) == (32, 32)


class TestDirection:
    COINS = np.random.default_rng(0).random(400) < 0.5

    @pytest.mark.parametrize("runs", [None, np.arange(400)], ids=["one run", "many runs"])
    def test_members_that_score_lower_are_noted_with_the_remedy(self, runs):
        values = np.random.default_rng(1).normal(size=400) - 3.0 * self.COINS
        asked = {"epsilon": 1.0, "runs": runs, "seed": 1}
        said = str(audit_scores(self.COINS, values, **asked))
        assert "Members score lower than others (area 0.0" in said
        assert "turn the score round: -scores, or --names score=-loss" in said
        turned = audit_scores(self.COINS, -values, **asked)
        assert turned.violates_claim
        assert turned.notes == ()

    def test_scores_that_tell_nothing_are_rarely_said_to_point_the_other_way(self):
        # at most half of MAX_REVERSED_P_VALUE of them are: more than 4 of 1,000 have a probability below 2e-4
        rng = np.random.default_rng(2)
        notes = [describe_direction(rng.normal(size=400), self.COINS) for _ in range(1_000)]
        assert sum("lower" in str(one) for one in notes) <= 4
        assert sum("alike" in str(one) for one in notes) > 940


class TestCommand:
    @pytest.fixture
    def columns(self):
        rng = np.random.default_rng(8)
        members = rng.random(600) < 0.5
        return {"member": members.astype(int), "loss": rng.normal(size=600) + 2.0 * members, "run": np.arange(600)}

    @pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "npy"])
    def test_files_of_all_kinds_give_one_answer(self, columns, kind, tmp_path, capsys):
        path = tmp_path / f"scores.{kind}"
        if kind in ("csv", "parquet"):
            frame = polars.DataFrame(columns)
            (frame.write_csv if kind == "csv" else frame.write_parquet)(path)
        elif kind == "npz":
            np.savez(path, **columns)
        else:
            np.save(path, np.stack(list(columns.values()), axis=1))
        names = [] if kind == "npy" else ["--names", "included=member,score=loss"]
        asked = ["scores", str(path), *names, "--epsilon", "1", "--seed", "3", "--json"]
        assert main([*asked, "--out", str(tmp_path / "found.json"), "--figure", str(tmp_path / "scores.png")]) == 1
        told = json.loads(capsys.readouterr().out)
        expected = audit_scores(columns["member"], columns["loss"], runs=columns["run"], epsilon=1.0, seed=3)
        assert told["lower_bound"] == expected.lower_bound == load(tmp_path / "found.json")[0].lower_bound
        assert told["no_bounds"]["plug-in"] > expected.lower_bound
        assert (tmp_path / "scores.png").stat().st_size > 10_000

    def test_two_columns_of_scores_are_many_runs(self, columns, tmp_path, capsys):
        members = columns["member"] == 1
        np.savez(tmp_path / "two.npz", **{"in": columns["loss"][members], "out": columns["loss"][~members]})
        assert main(["scores", str(tmp_path / "two.npz"), "--epsilon", "1", "--delta", "1e-5"]) == 1
        assert f"{members.sum()} with the canary, {(~members).sum()} without" in capsys.readouterr().out

    def test_four_counts_need_no_file(self, capsys):
        assert main(["scores", "--counts", "480", "20", "480", "20", "--epsilon", "2", "--one-run"]) == 1
        assert "no bound   plug-in: epsilon 3.178" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("text", "more", "sentence"),
        [
            ("included,score\nmaybe,1\n", [], "A value of included is 'maybe'"),
            ("included,score\n1,high\n", [], "A score in"),
            ("included,loss\n1,2\n", [], "has no column 'score'; it has 'included', 'loss'. See --names"),
            ("included,score\n1\n", [], "has rows of different lengths"),
            ("included,score\n1,2\n", ["--names", "scores=a"], "did you mean 'score'"),
            ("included,score\n1,2\n", ["--counts", "1", "2", "3", "4"], "Give a file of scores, or --counts"),
        ],
    )
    def test_files_that_are_no_scores_are_refused_in_a_sentence(self, text, more, sentence, tmp_path, capsys):
        (tmp_path / "mine.csv").write_text(text)
        assert main(["scores", str(tmp_path / "mine.csv"), "--epsilon", "1", *more]) == 2
        assert sentence.lower() in capsys.readouterr().err.lower()


def test_the_usual_estimates_are_no_bounds():
    # nothing leaks, and each is above 0 in more than one case in twenty; Clopper-Pearson limits, each at half of the
    # level, hide that of two equal laws
    rng = np.random.default_rng(0)
    above = {}
    for _ in range(100):
        for name, value in usual_estimates(rng.normal(size=100), rng.normal(size=100), PureDP(0.0)).items():
            above[name] = above.get(name, 0) + (value > 0.0)
    del above["Clopper-Pearson at the threshold that looks best"]
    assert min(above.values()) > binom.ppf(0.999, 100, 0.05)


def test_a_picture_of_one_run_has_the_thresholds_of_its_guesses():
    rng = np.random.default_rng(0)
    coins = rng.random(1000) < 0.5
    values = coins + rng.normal(size=1000)
    drawn = plot_scores(values[coins], values[~coins], audit_scores(coins, values, claim=GaussianDP(0.5), seed=1))
    assert [line.get_linestyle() for line in drawn.axes[0].lines] == [":", ":"]
    assert render_figure(drawn, "png")

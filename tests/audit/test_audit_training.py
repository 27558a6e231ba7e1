"""Audits of training: a sound trainer is not refuted and leaky ones are, by every score; a killed audit goes on."""

import json
import sys
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits

from epsaudit import AuditError, GaussianDP
from epsaudit.audits.many_runs import ManyRunsResult
from epsaudit.audits.verify import load, recompute
from epsaudit.training import (
    Canaries,
    JaxPrivacyTrainer,
    OpacusTrainer,
    SmallModel,
    audit_training,
    blank,
    dirac_gradients,
    learnt,
    losses,
    mislabelled,
    products,
    random_gradients,
)

IMAGES, DIGITS = load_digits(return_X_y=True)
DATA = (IMAGES[:120] / 16.0, DIGITS[:120])
KINDS = ("logistic", "two layers", "convolution")


def trainer(kind="logistic", **changed):
    settings = {"steps": 10, "rate": 1.0, "noise": 3.0, "examples": 120, "learning_rate": 2.0, "hidden": 4}
    return SmallModel(**{"inputs": 64, "classes": 10, "kind": kind} | settings | changed)


def settings(model):
    return {field.name: getattr(model, field.name) for field in fields(model)}


class Quiet(SmallModel):
    """A quarter of the noise that is claimed."""

    def _train(self, *given):
        return SmallModel(**settings(self) | {"noise": self.noise / 4.0})._train(*given)


def quiet(**changed):
    return Quiet(**settings(trainer(**changed)))


class TestSmallModels:
    @pytest.mark.parametrize("kind", KINDS)
    def test_it_learns_and_its_gradients_are_those_of_its_losses(self, kind):
        rng = np.random.default_rng(0)
        model = trainer(kind, steps=60, noise=0.5, rate=0.2)
        trained = model(*DATA, rng)
        assert trained.iterates.shape == (61, model.dimensions)
        assert np.mean(model.losses(trained.parameters, *DATA)) < 1.0 < np.log(10.0)
        slope = model.gradients_at(trained.parameters, DATA[0][:5], DATA[1][:5])
        for place in rng.choice(model.dimensions, 8):
            step = np.zeros(model.dimensions, np.float32)
            step[place] = 0.01
            up, down = (model.losses(trained.parameters + sign * step, DATA[0][:5], DATA[1][:5]) for sign in (1, -1))
            assert (up - down) / 0.02 == pytest.approx(slope[:, place], abs=2e-4)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_step_is_the_sum_of_clipped_gradients_and_the_noise_claimed(self, kind):
        model = trainer(kind, steps=2, noise=1e-6, clip=0.3)
        trained = model(*DATA, np.random.default_rng(1))
        rows = model.gradients_at(trained.iterates[1], *DATA)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        assert trained.sums[1] * 0.3 == pytest.approx(np.sum(rows * np.minimum(1.0, 0.3 / norms), axis=0), abs=1e-3)
        noisy = trainer(kind, steps=1, noise=3.0)
        drawn = [noisy(*DATA, np.random.default_rng(seed)).sums[0] for seed in range(2)]
        # of this many numbers the standard deviation is within 10 % but once in 10^9 times
        if kind == "logistic":  # both start at the same parameters
            assert np.std(drawn[0] - drawn[1]) / 3.0 / 2**0.5 == pytest.approx(1.0, rel=0.18)

    def test_many_at_once_are_as_one_by_one(self):
        model, canaries = trainer(steps=3, noise=1e-6), mislabelled(DATA, 3, np.random.default_rng(0))
        included = np.array([[True, False, True], [False, False, False]])
        both = model.many(*DATA, canaries, included, np.random.default_rng(1))
        for row, trained in zip(included, both, strict=True):
            mine = canaries.take(np.flatnonzero(row))
            data = [np.concatenate(parts) for parts in zip(DATA, (mine.features, mine.targets), strict=True)]
            assert trained.parameters == pytest.approx(model(*data, np.random.default_rng(2)).parameters, abs=1e-4)


class TestBounds:
    @pytest.mark.parametrize("make", [trainer, quiet])
    def test_one_run_sees_too_little_noise_and_no_sound_training(self, make):
        model = make(steps=4, noise=8.0)
        canaries = dirac_gradients(model.dimensions, model.dimensions)
        result = audit_training(
            model, DATA, canaries=canaries, claim=GaussianDP(0.25), score="gradient", iterates="all", seed=4
        )
        assert result.violates_claim == (make is quiet)
        assert recompute(json.loads(json.dumps(result.to_dict()))).holds

    @pytest.mark.parametrize("make", [trainer, quiet])
    @pytest.mark.parametrize("canaries", ["random", "blank"])
    def test_many_runs_see_it_too(self, make, canaries):
        model = make(steps=4, noise=2.0, at_once=100)
        chosen = (
            random_gradients(1, model.dimensions, np.random.default_rng(0)) if canaries == "random" else blank(DATA)
        )
        result = audit_training(
            model, DATA, canaries=chosen, mu=1.0, score="gradient",
            iterates="all", runs=300, seed=2,
        )  # fmt: skip
        assert result.violates_claim == (make is quiet)
        assert isinstance(result, ManyRunsResult)

    @pytest.mark.slow
    def test_at_most_one_bound_in_twenty_is_above_the_truth(self):
        model = trainer(steps=1, noise=1.0, at_once=200)
        single = dirac_gradients(1, model.dimensions)
        found = [
            audit_training(model, DATA, canaries=single, mu=1.0, score="gradient", runs=200, seed=seed).lower_bound
            for seed in range(100)
        ]
        assert np.median(found) > 0.3
        assert np.sum(np.array(found) > 1.0) <= binom.ppf(0.999, 100, 0.05)

    def test_learnt_canaries_tell_more_than_those_they_were_chosen_from(self):
        model = trainer(noise=0.5, steps=20)
        candidates = mislabelled(DATA, 60, np.random.default_rng(3))
        kept = learnt(model, DATA, candidates, 10, score="reference", seed=5)
        assert kept.kind == "learnt mislabelled"

        def told(canaries):
            asked = {"canaries": canaries, "runs": 40, "guesses": 40 * len(canaries), "epsilon": 0.1}
            result = audit_training(model, DATA, score="reference", seed=6, **asked)
            return result.best.correct / result.best.guesses

        assert told(kept) > told(candidates)


class TestFunctionsOfAnybody:
    @staticmethod
    def means(features, targets, rng):
        return np.sum(features, axis=0) + 2.0 * rng.normal(size=features.shape[1])

    def audit(self, **changed):
        canaries = Canaries("own", np.eye(30), np.zeros(30))
        asked = {"canaries": canaries, "mu": 1.0, "score": lambda model, given: given.features @ model, "seed": 3}
        return audit_training(self.means, (np.zeros((5, 30)), np.zeros(5)), **asked | changed)

    def test_a_function_that_returns_a_model_or_scores(self):
        by_model = self.audit()
        assert "scored by a function of the model" in str(by_model)
        assert by_model.counts == self.audit(score=None).counts

    def test_a_killed_audit_goes_on_to_the_same_result(self, tmp_path):
        class KilledError(Exception):
            pass

        def kill(step):
            if step.runs_done == 20:
                raise KilledError

        told, path = [], tmp_path / "audit.ck"
        with pytest.raises(KilledError):
            self.audit(runs=40, checkpoint=path, progress=kill)
        found = self.audit(runs=40, checkpoint=path, progress=told.append)
        assert (len(told), told[0].runs_before, told[-1].runs_before) == (40, 1, 20)
        assert found == self.audit(runs=40)
        with pytest.raises(AuditError, match="belongs to another audit: it differs in score"):
            self.audit(runs=40, checkpoint=path, score=None)

    def test_a_ready_trainer_goes_on_after_it_was_used_and_not_with_other_settings(self, tmp_path):
        asked = {"canaries": blank(DATA), "mu": 1.0, "runs": 60, "checkpoint": tmp_path / "audit.ck"}
        found = audit_training(trainer(), DATA, **asked)
        used = trainer()
        used(*DATA, np.random.default_rng(0))
        assert audit_training(used, DATA, **asked) == found
        with pytest.raises(AuditError, match="belongs to another audit: it differs in training"):
            audit_training(trainer(noise=2.0), DATA, **asked)

    def test_a_time_budget_ends_it_between_runs(self):
        assert "ended it after 1 of 500 runs" in str(self.audit(runs=500, seconds=1e-9))

    def test_independence_that_is_declared_is_printed_with_the_bound(self, tmp_path):
        found = self.audit(runs=30, assume="independent")
        assert "if canaries are independent" in found.sentence()
        assert "declared, not shown" in str(found)
        found.save(tmp_path / "found.json")
        assert load(tmp_path / "found.json")[0].independent

    def test_runs_that_share_something_refute_independence(self):
        def shared(features, targets, rng):
            return self.means(features, targets, rng) + 3.0 * rng.normal()

        with pytest.raises(AuditError, match="canaries are not independent"):
            audit_training(
                shared, (np.zeros((5, 30)), np.zeros(5)), canaries=Canaries("own", np.eye(30), np.zeros(30)), mu=1.0,
                score=None, runs=20, assume="independent", seed=1,
            )  # fmt: skip


class TestRefusals:
    SINGLE, MANY = dirac_gradients(1, 650), mislabelled(DATA, 20, np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("changed", "sentence"),
        [
            ({"canaries": SINGLE}, "One canary in one run shows nothing"),
            ({"canaries": SINGLE, "runs": 9}, "are gradients, which have no loss"),
            ({"canaries": dirac_gradients(2, 9), "score": "gradient"}, "have 9 dimensions; DP-SGD in numpy has 650"),
            ({"seconds": 3.0}, "of one run there is no such time"),
            ({"score": "los"}, "Did you mean 'loss'"),
            ({"iterates": "some"}, "must be 'last' or 'all'"),
            ({"fit": lambda features, targets, rng: 0, "epsilon": 1.0}, "is no ready trainer"),
            ({"fit": lambda features, targets, rng: 0}, "What is claimed"),
            ({"canaries": SINGLE, "runs": 9, "fit": lambda features, targets, rng: 0, "epsilon": 1.0, "score": None}, "takes no gradients="),  # noqa: E501
            ({"data": (DATA[0][:, :5], DATA[1])}, "A canary's features have shape"),
            ({"assume": "iid"}, "it may be 'independent'"),
            ({"canaries": SINGLE, "runs": 9, "assume": "independent"}, "of many canaries, or None"),
            ({"canaries": SINGLE, "runs": 9, "guesses": 5}, "guesses= and method= are of many canaries"),
        ],
    )  # fmt: skip
    def test_before_training_in_a_sentence(self, changed, sentence):
        given = {"fit": trainer(), "data": DATA, "canaries": self.MANY} | changed
        with pytest.raises(AuditError, match=sentence):
            audit_training(**given)

    @pytest.mark.parametrize("changed", [{"rate": 1.5}, {"noise": 0.0}, {"kind": "deep"}, {"inputs": 65, "kind": "convolution"}])  # fmt: skip # noqa: E501
    def test_settings_out_of_range(self, changed):
        with pytest.raises(AuditError, match=r"must be|takes square images"):
            trainer(**changed)

    @pytest.mark.parametrize(("library", "make"), [("torch", OpacusTrainer), ("jax", JaxPrivacyTrainer)])
    def test_without_a_library_the_sentence_says_how_to_get_it(self, library, make, monkeypatch):
        monkeypatch.setitem(sys.modules, library, None)
        own = {"module": None} if library == "torch" else {"loss": None, "start": None}
        made = make(steps=1, rate=1.0, noise=1.0, examples=9, **own)
        with pytest.raises(AuditError, match=f"{library} is not installed; pip install"):
            audit_training(made, DATA, canaries=self.MANY, score="loss")


def torch_trainer(noise):
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    layers = lambda: torch.nn.Sequential(  # noqa: E731
        torch.nn.Unflatten(1, (1, 8, 8)), torch.nn.Conv2d(1, 2, 3), torch.nn.Tanh(), torch.nn.Flatten(),
        torch.nn.Linear(72, 10),
    )  # fmt: skip
    return OpacusTrainer(module=layers, steps=4, rate=1.0, noise=noise, examples=120, learning_rate=2.0)


def jax_trainer(noise):
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_privacy")

    def loss(parameters, features, target):
        hidden = jax.numpy.tanh(features @ parameters[0])
        return -jax.nn.log_softmax(hidden @ parameters[1])[target]

    def start(key):
        return [jax.random.normal(key, (64, 8)) / 8, jax.random.normal(key, (8, 10)) / 3]

    return JaxPrivacyTrainer(loss=loss, start=start, steps=4, rate=1.0, noise=noise, examples=120, learning_rate=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("make", [torch_trainer, jax_trainer])
class TestReadyTrainers:
    def test_a_step_is_the_sum_of_clipped_gradients(self, make):
        model = make(1e-5)
        trained = model(*DATA, np.random.default_rng(0))
        rows = model.gradients_at(trained.iterates[2], *DATA)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        assert trained.sums[2] == pytest.approx(np.sum(rows * np.minimum(1.0, 1.0 / norms), axis=0), abs=0.02)
        assert np.mean(losses(trained, mislabelled(DATA, 9, np.random.default_rng(0)))) < 0.0

    def test_the_claim_is_not_refuted_and_one_of_a_quarter_of_the_noise_is(self, make):
        for noise in (8.0, 2.0):
            model = make(noise)
            canaries = dirac_gradients(model.dimensions, model.dimensions)
            result = audit_training(model, DATA, canaries=canaries, mu=0.25, score="gradient", iterates="all", seed=4)
            assert result.violates_claim == (noise == 2.0)

    def test_a_batch_without_records_has_canaries_and_noise_alone(self, make):
        model = make(1.0)
        rows = dirac_gradients(2, model.dimensions).gradients
        trained = type(model)(**settings(model) | {"rate": 1e-3})(*DATA, np.random.default_rng(0), gradients=rows)
        assert np.std(trained.sums) == pytest.approx(1.0, rel=0.2)
        assert np.all(np.isfinite(products(trained, Canaries("own", gradients=rows))))

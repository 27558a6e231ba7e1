"""DP-SGD's parts by crafted gradients: each incorrect variant is refuted with its part named, sound twins are not."""

import sys

import numpy as np
import pytest
from scipy import stats

from epsaudit import AuditError
from epsaudit.experiments.plumbing_training import BATCH, LEAKY, PRIVATE, SHAPES, by_quantile, clipped, made
from epsaudit.tools.training import check_training, jax_privacy_step, opacus_step

EXAMPLES, STEPS = 400, 50
SOUND = 2.75  # epsilon at delta 1e-5 of 50 steps of rate 0.04 with noise 1, from above: dp_accounting says 2.66
FEW_STEPS = {"steps": 200, "accumulates": False}
"""Settings of tests in which the step is sound, and the sampler or the accountant is at fault or not."""
sound = made(clipped)


def poisson(rng):
    return lambda: [np.flatnonzero(rng.random(EXAMPLES) < BATCH / EXAMPLES) for _ in range(STEPS)]


def shuffled(rng):
    return lambda: [batch for _ in range(2) for batch in np.split(rng.permutation(EXAMPLES), EXAMPLES // BATCH)]


def leaked(rng):
    return lambda: poisson(np.random.default_rng(3))()


def check(step, **more):
    asked = {"clip": 1.0, "noise": 1.0, "batch": BATCH, "shapes": SHAPES, "accumulates": True}
    return check_training(step, **asked | more)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_sound_training_is_not_refuted(seed):
    rng = np.random.default_rng(seed)
    found = check(sound(rng), batches=poisson(rng), examples=EXAMPLES, epsilon=SOUND, delta=1e-5)
    assert found
    assert {part.name for part in found.parts} >= {
        "noise",
        "clipping",
        "normaliser",
        "accumulation",
        "sampler",
        "accountant",
    }
    assert "refute nothing" in str(found)


def test_in_many_dimensions_noise_is_not_taken_for_a_move():
    # a direction that is learnt from the steps that measure it would move by 11 clipping norms
    rng = np.random.default_rng(0)
    step = lambda parts: (clipped(parts[0]) + rng.normal(size=3000)) / BATCH  # noqa: E731
    found = check(step, shapes=[3000], steps=200, accumulates=False)
    assert found, str(found)


def weekly_but(daily, variants):
    """Mark all variants as slow, except the daily ones."""
    return [pytest.param(one, marks=() if one in daily else pytest.mark.slow) for one in variants]


FIRST_OF_PART = {part: variant for variant, (part, _) in reversed(LEAKY.items())}


@pytest.mark.parametrize("variant", weekly_but(list(PRIVATE)[::3], PRIVATE))
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_private_training_is_not_refuted_however_it_clips(variant, seed):
    """Each is refuted with probability 1e-6 at most."""
    found = check(PRIVATE[variant](np.random.default_rng(seed)), seed=seed)
    assert found, str(found)


@pytest.mark.parametrize("variant", weekly_but({*FIRST_OF_PART.values(), "the sum is clipped"}, LEAKY))
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 21))])
def test_an_incorrect_step_is_refuted_with_its_part_named(variant, seed):
    name, make = LEAKY[variant]
    found = check(make(np.random.default_rng(seed)), seed=seed)
    assert not found
    assert name in {part.name for part in found.refuted}
    assert name in str(found)
    if variant in ("the sum is clipped", "the sum is clipped to ten norms"):
        assert {part.name for part in found.refuted} == {"clipping"}


@pytest.mark.parametrize("noise", weekly_but({0.4, 6.0}, [0.4, 0.7, 2.0, 6.0]))
@pytest.mark.parametrize("ratio", [1.0, 1.5])
def test_at_other_noise_multipliers_it_is_the_ratio_that_counts(noise, ratio):
    rng = np.random.default_rng(3)
    step = lambda parts: (ratio * sum(map(clipped, parts)) + noise * rng.normal(size=80)) / BATCH  # noqa: E731
    assert bool(check(step, noise=noise)) == (ratio == 1.0)


def test_noise_that_is_too_little_to_show_anything_is_refused_before_any_step():
    def never(parts):
        raise AssertionError

    with pytest.raises(AuditError, match=r"noise is 0.1: so little noise hides nearly nothing.*Give steps="):
        check(never, noise=0.1)


def test_a_step_may_write_into_its_gradients():
    rng = np.random.default_rng(5)

    def step(parts):
        for part in parts:
            part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1.0)
        return (np.sum(np.vstack(parts), axis=0) + rng.normal(size=80)) / BATCH

    assert check(step)


@pytest.mark.parametrize("batches", [shuffled, leaked])
def test_batches_that_are_not_poisson_are_refuted(batches):
    rng = np.random.default_rng(2)
    found = check(sound(rng), batches=batches(rng), examples=EXAMPLES, **FEW_STEPS)
    assert {part.name for part in found.refuted} == {"sampler"}


def test_another_rate_is_refuted():
    rng = np.random.default_rng(2)
    batches = lambda: [np.arange(EXAMPLES)[rng.random(EXAMPLES) < 0.06] for _ in range(STEPS)]  # noqa: E731
    found = check(sound(rng), batches=batches, examples=EXAMPLES, **FEW_STEPS)
    assert [part.name for part in found.refuted] == ["sampler"]


def test_an_accountant_that_counts_half_the_steps_is_refuted():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rng = np.random.default_rng(4)
    half = pld.from_gaussian_mechanism(1.0, sampling_prob=BATCH / EXAMPLES).self_compose(STEPS // 2)
    asked = {"batches": poisson(rng), "examples": EXAMPLES, "delta": 1e-5, **FEW_STEPS}
    found = check(sound(rng), epsilon=half.get_epsilon_for_delta(1e-5), **asked)
    assert [part.name for part in found.refuted] == ["accountant"]


def test_boolean_masks_are_read_as_their_places():
    rng = np.random.default_rng(6)
    masks = lambda: [rng.random(EXAMPLES) < BATCH / EXAMPLES for _ in range(STEPS)]  # noqa: E731
    asked = {"examples": EXAMPLES, **FEW_STEPS}
    assert check(sound(rng), batches=masks, **asked)
    assert check(sound(rng), batches=lambda: [one.tolist() for one in masks()], **asked)
    fixed = masks()
    found = check(sound(rng), batches=lambda: fixed, **asked)
    assert {part.name for part in found.refuted} == {"sampler"}


@pytest.mark.parametrize("make", [sound, pytest.param(by_quantile, marks=pytest.mark.slow)])
def test_p_values_of_private_steps_are_not_too_small(make):
    # a test's p-value is below 0.05 with probability 0.05 at most
    values = np.array(
        [
            part.p_value
            for seed in range(8)
            for part in check(make(np.random.default_rng(seed)), seed=seed, steps=60).parts
        ]
    )
    assert stats.binom.sf(np.sum(values <= 0.05) - 1, len(values), 0.05) > 1e-6


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"noise": 0.0}, "none may be 0"),
        ({"epsilon": 1.0}, "without delta= or batches="),
        ({"batches": lambda: [[0]]}, "without the size of the dataset"),
        ({"batches": lambda: [[9]], "examples": 5}, "of indices from 0 to 4"),
        ({"batches": lambda: [[True, False]], "examples": 5}, r"A batch is a mask of shape \(2,\); .* \(5,\)"),
        ({"batches": lambda: [[0.5]], "examples": 5}, "A batch holds float64 numbers; give the indices"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_a_sentence(changed, sentence):
    given = {"clip": 1.0, "noise": 1.0, "batch": 4, "shapes": SHAPES, "steps": 20} | changed
    with pytest.raises(AuditError, match=sentence):
        check_training(sound(np.random.default_rng(0)), **given)


def test_an_update_of_another_shape_is_refused():
    with pytest.raises(AuditError, match="The update has shape \\(3,\\); it must be"):
        check_training(lambda parts: np.zeros(3), clip=1.0, noise=1.0, batch=4, shapes=SHAPES)


@pytest.mark.parametrize(("library", "make"), [("torch", opacus_step), ("jax", jax_privacy_step)])
def test_without_a_library_the_sentence_says_how_to_get_it(library, make, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(AuditError, match=f"{library} is not installed; pip install"):
        make(*[None] * (1 if library == "torch" else 3))


@pytest.mark.slow
class TestJaxPrivacy:
    def test_its_gradients_noise_and_sampler_are_as_claimed_and_twice_the_clipping_is_refuted(self):
        private = pytest.importorskip("jax_privacy")
        clipped = lambda loss: private.clipped_grad(loss, l2_clip_norm=1.0, normalize_by=BATCH)  # noqa: E731
        noise = private.noise_addition.gaussian_privatizer(stddev=1.0 / BATCH, prng_key=1)
        rng = np.random.default_rng(0)
        sampler = private.batch_selection.CyclicPoissonSampling(sampling_prob=BATCH / EXAMPLES, iterations=STEPS)
        step = jax_privacy_step(clipped, noise, SHAPES)
        asked = {"clip": 1.0, "noise": 1.0, "batch": BATCH, "shapes": SHAPES}
        batches = lambda: [one[one >= 0] for one in sampler.batch_iterator(EXAMPLES, rng)]  # noqa: E731
        found = check_training(step, **asked, batches=batches, examples=EXAMPLES)
        assert found, str(found)
        twice = jax_privacy_step(lambda loss: private.clipped_grad(loss, l2_clip_norm=2.0, normalize_by=BATCH), noise, SHAPES)  # fmt: skip # noqa: E501
        assert {part.name for part in check_training(twice, **asked).refuted} == {"clipping"}


@pytest.mark.slow
class TestOpacus:
    @pytest.fixture
    def optimizer(self):
        torch = pytest.importorskip("torch")
        optimizers = pytest.importorskip("opacus.optimizers")
        layers = [torch.nn.Parameter(torch.zeros(size)) for size in SHAPES]
        plain = torch.optim.SGD(layers, lr=0.5)
        made = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": BATCH}
        return lambda kind="DPOptimizer", **more: getattr(optimizers, kind)(plain, **{**made, **more})

    def test_its_optimiser_and_sampler_are_as_it_accounts_for(self, optimizer):
        torch = pytest.importorskip("torch")
        sampler = pytest.importorskip("opacus.utils.uniform_sampler").UniformWithReplacementSampler
        rdp = pytest.importorskip("opacus.accountants").RDPAccountant()
        made = sampler(num_samples=EXAMPLES, sample_rate=BATCH / EXAMPLES, steps=STEPS)
        for _ in range(STEPS):
            rdp.step(noise_multiplier=1.0, sample_rate=BATCH / EXAMPLES)
        torch.manual_seed(0)
        found = check(opacus_step(optimizer()), batches=lambda: list(made), examples=EXAMPLES, epsilon=rdp.get_epsilon(1e-5), delta=1e-5)  # fmt: skip # noqa: E501
        assert found, str(found)

    def test_clipping_twice_is_no_global_clipping(self, optimizer):
        torch = pytest.importorskip("torch")
        torch.manual_seed(0)
        made = optimizer("DPPerLayerOptimizer", max_grad_norm=[1.0] * len(SHAPES), noise_multiplier=1 / 3**0.5)
        found = check_training(opacus_step(made), clip=1.0, noise=1.0, batch=BATCH, shapes=SHAPES)
        assert {part.name for part in found.refuted} == {"clipping"}

"""DP-SGD's parts by crafted gradients: each incorrect variant is refuted with its part named, sound twins are not."""

import math
import sys

import numpy as np
import pytest

from epsaudit import AuditError
from epsaudit.training import check_training, jax_privacy_step, opacus_step

SHAPES, BATCH, EXAMPLES, STEPS = [20, 40, 20], 16, 400, 50
SOUND = 2.75  # epsilon at delta 1e-5 of 50 steps of rate 0.04 with noise 1, from above: dp_accounting says 2.66


def clipped(gradients):
    return np.sum(gradients / np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1.0), axis=0)


def sound(rng, dimensions=80):
    return lambda parts: (sum(map(clipped, parts)) + rng.normal(size=dimensions)) / BATCH


def per_layer(gradients):
    return np.concatenate([clipped(part) for part in np.split(gradients, np.cumsum(SHAPES)[:-1], axis=1)])


def one_layer_without_noise(rng):
    return lambda parts: (clipped(np.vstack(parts)) + rng.normal(size=80) * (np.arange(80) >= 20)) / BATCH


def shared_twices(rng):
    def step(parts):
        noise = rng.normal(size=40)
        return (clipped(np.vstack(parts)) + np.concatenate([noise[:20], rng.normal(size=40), noise[:20]])) / BATCH

    return step


def normed(gradients):
    """Batch norm: what an example gives depends on the others."""
    return gradients / (1.0 + np.std(gradients, axis=0))


VARIANTS = {
    "division by the true batch size": (
        "normaliser",
        lambda rng: lambda parts: sound(rng)(parts) * BATCH / sum(map(len, parts)),
    ),
    "clipping after averaging": (
        "clipping",
        lambda rng: (
            lambda parts: clipped(np.mean(np.vstack(parts), axis=0, keepdims=True)) + rng.normal(size=80) / BATCH
        ),
    ),
    "noise seeded once": ("noise", lambda rng: lambda parts: sound(np.random.default_rng(7))(parts)),
    "half of the noise": (
        "noise",
        lambda rng: lambda parts: (clipped(np.vstack(parts)) + 0.5 * rng.normal(size=80)) / BATCH,
    ),
    "a layer without noise": ("noise", one_layer_without_noise),
    "noise shared by layers": ("noise", shared_twices),
    "noise before accumulation": (
        "accumulation",
        lambda rng: (
            lambda parts: np.mean(
                [(len(parts) * clipped(part) + rng.normal(size=80)) / BATCH for part in parts], axis=0
            )
        ),
    ),
    "accumulation without rescaling": (
        "accumulation",
        lambda rng: lambda parts: (len(parts) * sum(map(clipped, parts)) + rng.normal(size=80)) / BATCH,
    ),
    "batch norm": ("clipping", lambda rng: lambda parts: sound(rng)([normed(np.vstack(parts))])),
    "per-layer clipping": (
        "clipping",
        lambda rng: lambda parts: (per_layer(np.vstack(parts)) + rng.normal(size=80)) / BATCH,
    ),
}


def poisson(rng):
    return lambda: [np.flatnonzero(rng.random(EXAMPLES) < BATCH / EXAMPLES) for _ in range(STEPS)]


def shuffled(rng):
    return lambda: [batch for _ in range(2) for batch in np.split(rng.permutation(EXAMPLES), EXAMPLES // BATCH)]


def leaked(rng):
    return lambda: poisson(np.random.default_rng(3))()


def check(step, steps=60, **more):
    asked = {"clip": 1.0, "noise": 1.0, "batch": BATCH, "shapes": SHAPES, "accumulates": True}
    return check_training(step, steps=steps, **asked, **more)


@pytest.mark.parametrize("seed", range(3))
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
    found = check_training(
        sound(np.random.default_rng(0), 3000), clip=1.0, noise=1.0, batch=BATCH, shapes=[3000], steps=60
    )
    assert found, str(found)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_incorrect_step_is_refuted_with_its_part_named(variant):
    name, make = VARIANTS[variant]
    found = check(make(np.random.default_rng(1)), steps=400 if variant == "per-layer clipping" else 60)
    assert not found
    assert name in {part.name for part in found.refuted}
    assert name in str(found)


@pytest.mark.parametrize("batches", [shuffled, leaked])
def test_batches_that_are_not_poisson_are_refuted(batches):
    rng = np.random.default_rng(2)
    found = check(sound(rng), batches=batches(rng), examples=EXAMPLES)
    assert {part.name for part in found.refuted} == {"sampler"}


def test_another_rate_is_refuted():
    rng = np.random.default_rng(2)
    found = check(sound(rng), batches=lambda: [np.arange(EXAMPLES)[rng.random(EXAMPLES) < 0.06] for _ in range(STEPS)], examples=EXAMPLES)  # fmt: skip # noqa: E501
    assert [part.name for part in found.refuted] == ["sampler"]


def test_an_accountant_that_counts_half_the_steps_is_refuted():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rng = np.random.default_rng(4)
    half = pld.from_gaussian_mechanism(1.0, sampling_prob=BATCH / EXAMPLES).self_compose(STEPS // 2)
    asked = {"batches": poisson(rng), "examples": EXAMPLES, "delta": 1e-5}
    found = check(sound(rng), epsilon=half.get_epsilon_for_delta(1e-5), **asked)
    assert [part.name for part in found.refuted] == ["accountant"]


def test_p_values_of_sound_steps_are_not_too_small():
    # at most 1 in 100 is below 0.01, but for four standard errors, as if a tenth of them were independent
    rng = np.random.default_rng(0)
    values = [part.p_value for _ in range(10) for part in check(sound(rng)).parts]
    assert np.mean(np.array(values) <= 0.01) <= 0.01 + 4 * math.sqrt(0.01 / 26)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"noise": 0.0}, "none may be 0"),
        ({"epsilon": 1.0}, "The accountant is checked with delta="),
        ({"batches": lambda: [[0]]}, "Of how many examples"),
        ({"batches": lambda: [[9]], "examples": 5}, "of places from 0 to 4"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_a_sentence(changed, sentence):
    given = {"clip": 1.0, "noise": 1.0, "batch": 4, "shapes": SHAPES} | changed
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
        found = check_training(step, **asked, steps=200, batches=batches, examples=EXAMPLES)
        assert found, str(found)
        twice = jax_privacy_step(lambda loss: private.clipped_grad(loss, l2_clip_norm=2.0, normalize_by=BATCH), noise, SHAPES)  # fmt: skip # noqa: E501
        assert {part.name for part in check_training(twice, **asked, steps=200).refuted} == {"clipping"}


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

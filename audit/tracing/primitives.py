"""Tables of what draws random numbers: samplers, and the mechanisms of libraries with the parameters that they state.

Of a sampler it is said how its arguments are called and which law it draws from, of a mechanism what it is given, what
it states and what else must not depend on data. Needs Python 3.8 alone, as `epsaudit.tracing.recorder`, which replaces
all of these while a function is traced.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

SAMPLING = frozenset(["uniform", "whole numbers", "bits", "choice", "order", "counts"])
"""Laws of draws by which records are sampled, shuffled or answered at random: a proof may allow as many as there are
records, so that their number and their parameters are listed and not judged."""


def _table(text: str) -> dict[str, tuple[str, str]]:
    """Read lines of a law and the calls that draw from it, each with the names of its arguments by position."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        law, _, calls = line.partition(":")
        for call in calls.split(","):
            name, _, words = call.strip().partition(" ")
            found[name] = law, words
    return found


NUMPY = _table("""
laplace: laplace loc scale size
normal: normal loc scale size, standard_normal size dtype out, randn *
exponential: exponential scale size, standard_exponential size dtype method out
geometric: geometric p size
gumbel: gumbel loc scale size
logistic: logistic loc scale size
gamma: gamma shape scale size, standard_gamma shape size dtype out
poisson: poisson lam size
Student: standard_t df size, standard_cauchy size
normal vectors: multivariate_normal mean cov size
others: dirichlet alpha size, beta a b size, chisquare df size
uniform: uniform low high size, random size dtype out, random_sample size, rand *
whole numbers: integers low high size dtype endpoint, randint low high size dtype
bits: bytes length
counts: binomial n p size, multinomial n pvals size, hypergeometric ngood nbad nsample size
choice: choice a size replace p axis shuffle
order: permutation x axis, permuted x axis, shuffle x axis
""")
"""Methods of numpy's generators."""

PYTHON = _table("""
normal: gauss mu sigma, normalvariate mu sigma
exponential: expovariate lambd
gamma: gammavariate alpha beta
uniform: random, uniform a b
bits: getrandbits k, randbytes n
whole numbers: randrange start stop step, randint a b
choice: choice a, choices a p
order: sample x k, shuffle x
""")
"""Methods of `random.Random`."""

OTHERS = {
    "secrets": _table("bits: randbits k, token_bytes n\nwhole numbers: randbelow n"),
    "os": _table("bits: urandom n"),
    "scipy.stats.laplace": _table("laplace: rvs loc scale size"),
    "scipy.stats.norm": _table("normal: rvs loc scale size"),
    "scipy.stats.expon": _table("exponential: rvs loc scale size"),
    "torch": _table("""
        normal: normal mean std size, randn *, randn_like like
        uniform: rand *, rand_like like, bernoulli p
        whole numbers: randint low high size
        order: randperm n"""),
    "torch.Tensor": _table("""
        normal: normal_ self mean std
        exponential: exponential_ self lambd
        uniform: uniform_ self low high, bernoulli_ self p"""),
    "torch.distributions.Laplace": _table("laplace: sample self shape, rsample self shape"),
    "jax.random": _table("""
        normal: normal key size dtype
        laplace: laplace key size dtype
        exponential: exponential key size dtype
        gumbel: gumbel key size dtype
        uniform: uniform key size dtype low high, bernoulli key p size
        order: permutation key n"""),
}
"""Functions of modules and methods of classes that may be imported; it is not seen what their draws are added to."""


class Stated(NamedTuple):
    """A call of a mechanism, private by itself: its input may move by as much as it states, and nothing else may."""

    input: Any
    states: dict[str, Any] = {}
    """'sensitivity', 'epsilon', 'delta', 'law' and 'scale', as far as known."""
    fixed: dict[str, Any] = {}
    """What must not depend on data."""
    norm: str = "l1"
    """In which the distance of two inputs is measured against the sensitivity: 'l1', 'l2' or 'linf'; or 'records' and
    'opendp', which are not judged so, and 'event', of which nothing may depend on data."""
    map: Any = None
    """Gives for two inputs their distance, the loss that is stated for it, and in which measure."""
    after: Any = None
    """Makes of the answer and the recorded event what is answered in its place."""


OPAQUE = ("opendp", "records")
"""Norms of mechanisms whose noise is drawn in compiled code."""
NOISE = ("epsilon", "delta", "sensitivity")
BOUNDS = ("lower", "upper", "gamma", "candidates", "measure", "monotonic", "value0", "value1", "utility_list")
FAR = 50.0
"""Of the point at which the curvature of a loss is looked at beside 0: logistic loss bends by e^-50 there."""
BENT = 1e-3
"""Relative error of second derivatives by differences, and more."""


def attributes(owner: Any, *names: str) -> dict[str, Any]:
    """Return those attributes that are there and not None, with a leading underscore or without."""
    found = {name: getattr(owner, name, getattr(owner, f"_{name}", None)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _of_diffprivlib(owner: Any, value: Any) -> Stated:
    known, law = attributes(owner, *NOISE), {"Laplace": "laplace", "Geometric": "discrete laplace"}
    states = {**known, "law": law.get(type(owner).__name__)}
    fixed = {**known, **attributes(owner, *BOUNDS)}
    return Stated(attributes(owner, "utility").get("utility", value), states, fixed, "linf of a utility")


def _of_objective(owner: Any, function: Any) -> Stated:
    """Objective perturbation: how much a record may bend the loss, and alpha, how much all of them must."""
    bend = float(owner.function_sensitivity) * float(owner.data_sensitivity)
    known, after = attributes(owner, "epsilon", "alpha"), functools.partial(_probed, owner)
    return Stated(
        None, {**known, "sensitivity": bend}, {**known, **attributes(owner, "dimension")}, "linf", None, after
    )


def _probed(owner: Any, function: Any, event: Any) -> Any:
    """Return a noisy objective of diffprivlib, which tells at its first call how much it bends along each axis.

    Noise is linear and does not bend. The input becomes the second derivatives at 0, a little less, so that errors do
    not count; 'least' is the least of those at `FAR` on each axis.
    """

    def bends(weights: Any, others: Any, axis: int, at: float, step: float = 1e-3) -> float:
        slopes = []
        for side in (-step, step):
            point = weights * 0.0
            point[axis] = at + side
            slopes.append(function(point, *others)[1][axis])
        return float(slopes[1] - slopes[0]) / (2.0 * step) * float(attributes(owner, "n")["n"])

    def call(weights: Any, *others: Any) -> Any:
        if event.input is None:
            axes = range(len(weights))
            event.input = [bends(weights, others, axis, 0.0) * (1.0 - BENT) for axis in axes]
            event.states["least"] = min(bends(weights, others, axis, FAR) for axis in axes) * (1.0 + BENT)
        return function(weights, *others)

    return call


def _of_measurement(measurement: Any, value: Any) -> Stated:
    return Stated(value, norm="opendp", map=functools.partial(_loss_of_measurement, measurement))


def _loss_of_measurement(measurement: Any, one: Any, other: Any) -> Any:
    metric, measure = (str(getattr(measurement, name, "")) for name in ("input_metric", "output_measure"))
    sides = [
        list(side) if hasattr(side, "tolist") or isinstance(side, (list, tuple)) else [side] for side in (one, other)
    ]
    try:
        gaps = [abs(float(left) - float(right)) for left, right in zip(*sides)]  # noqa: B905  # strict since 3.10
    except (TypeError, ValueError):  # of records
        return None
    if len(sides[0]) != len(sides[1]) or not any(name in metric for name in ("Absolute", "L1", "L2", "LInf")):
        return None
    far = math.hypot(*gaps) if "L2" in metric else max(gaps) if "LInf" in metric else sum(gaps)
    for distance in (far, math.ceil(far)):
        try:
            return [far, float(measurement.map(distance)), measure]
        except Exception:  # of a measurement that wants its distance in another type
            continue
    return None


def _of_step(optimizer: Any, _: Any) -> Stated:
    grads = [one.summed_grad for one in optimizer.params if one.summed_grad is not None]
    sums = [one.detach().double().flatten().tolist() for one in grads]
    clip, noise = optimizer.max_grad_norm, optimizer.noise_multiplier
    fixed = attributes(optimizer, "noise_multiplier", "max_grad_norm", "expected_batch_size")
    return Stated(sums, {"sensitivity": clip, "scale": noise * clip}, fixed, "l2")


MECHANISMS: list[tuple[str, str, str, Any]] = [
    ("diffprivlib.mechanisms", "Vector", "randomise", _of_objective),
    ("diffprivlib.mechanisms", "*", "randomise", _of_diffprivlib),
    ("opendp.mod", "Measurement", "__call__", _of_measurement),
    ("opendp.mod", "Measurement", "invoke", _of_measurement),
    ("opacus.optimizers.optimizer", "DPOptimizer", "add_noise", _of_step),
    ("pydp.algorithms._algorithm", "MetaAlgorithm", "quick_result", lambda _, value: Stated(value, norm="records")),
    (
        "pydp.algorithms.numerical_mechanisms", "*", "add_noise",
        lambda owner, value: Stated(value, attributes(owner, *NOISE), attributes(owner, *NOISE)),
    ),
    (
        "dp_accounting.privacy_accountant", "PrivacyAccountant", "compose",
        lambda _, event: Stated(None, {}, {"event": repr(event)}, "event"),
    ),
]  # fmt: skip
"""Mechanisms of libraries: module, class ('*' for all that have the method), method, and what reads a call of (self,
argument). One of your own joins by `epsaudit.tracing.mechanism`."""

"""Tables of what draws random numbers: samplers, and the mechanisms of libraries with the parameters that they state.

Of a sampler it is said how its arguments are called and which law it draws from, of a mechanism what it is given, what
it states and what else must not depend on data. Needs Python 3.8 alone, as `epsaudit.tools.tracing.recorder`, which
replaces all of these while a function is traced.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from typing import Any, NamedTuple

SAMPLED = "sampled"
"""The law, as it is listed below, of draws by which records are sampled, shuffled or answered at random: a proof may
allow as many as there are records, so that their number and their parameters are listed and not judged."""


def _table(text: str) -> dict[str, tuple[str, str]]:
    """Read lines of a law and the calls that draw from it, each with the names of its arguments by position."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        law, _, calls = line.partition(": ")
        for call in calls.split(", "):
            name, _, words = call.partition(" ")
            found[name] = law, words
    return found


SAMPLERS = {
    "numpy.random.Generator numpy.random.RandomState numpy.random": _table("""
        laplace: laplace loc scale size
        normal: normal loc scale size, standard_normal size dtype out, randn *
        exponential: exponential scale size, standard_exponential size dtype method out
        geometric: geometric p size
        other: gumbel loc scale size, logistic loc scale size, gamma shape scale size, standard_gamma shape size
        other: poisson lam size, standard_t df size, standard_cauchy size, multivariate_normal mean cov size
        other: dirichlet alpha size, beta alpha beta size, chisquare df size, f dfnum dfden size, pareto shape size
        other: lognormal mean sigma size, negative_binomial n p size, noncentral_chisquare df nonc size
        other: noncentral_f dfnum dfden nonc size, power shape size, rayleigh scale size, wald mean scale size
        other: triangular left mode right size, vonmises mu kappa size, weibull shape size, zipf shape size
        other: logseries p size, multivariate_hypergeometric colors nsample size method
        sampled: uniform low high size, random size dtype out, random_sample size, rand *, bytes length
        sampled: integers low high size dtype endpoint, randint low high size dtype, binomial n p size
        sampled: multinomial n pvals size, hypergeometric ngood nbad nsample size
        sampled: choice a size replace p axis shuffle, permutation x axis, permuted x axis, shuffle x axis"""),
    "random.Random random.SystemRandom random": _table("""
        normal: gauss mu sigma, normalvariate mu sigma
        exponential: expovariate lambd
        other: gammavariate alpha beta
        sampled: random, uniform low high, getrandbits k, randbytes n, randrange start stop step, randint low high
        sampled: choice a, choices a p, sample x k, shuffle x"""),
    "secrets": _table("sampled: randbits k, token_bytes n, randbelow n"),
    "os": _table("sampled: urandom n"),
    "torch": _table("""
        normal: normal mean std size, randn *, randn_like like
        sampled: rand *, rand_like like, bernoulli p, randint low high size, randperm n"""),
    "torch.Tensor": _table("""
        normal: normal_ mean std
        exponential: exponential_ lambd
        sampled: uniform_ low high, bernoulli_ p"""),
    "torch.distributions.Laplace": _table("laplace: sample shape, rsample shape"),
    "jax.random": _table("""
        normal: normal key size dtype
        laplace: laplace key size dtype
        exponential: exponential key size dtype
        other: gumbel key size dtype
        sampled: uniform key size dtype low high, bernoulli key p size, randint key size low high dtype
        sampled: choice key a size replace p, permutation key x"""),
    "dpmm.models.base.utils": _table("laplace: laplace_noise scale size\nnormal: gaussian_noise sigma size"),
}
"""Functions of modules, and methods of classes, which have the object before these arguments. Where several have the
same ones the last names them. An argument 'a' or 'x' is a population that is taken from. Of other laws no loss is
computed, and it is not seen what is done with draws of torch and jax."""


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
    after: Any = None
    """Makes of the answer and the recorded event what is answered in its place."""


OPAQUE = ("opendp", "records")
"""Norms of mechanisms whose noise is drawn in compiled code."""
NOISE = ("epsilon", "delta", "sensitivity")
BOUNDS = ("lower", "upper", "gamma", "monotonic", "value0", "value1")
UTILITY = "linf of a utility"
"""Norm of a selection, whose input is a utility for each option. Options are no parameter of noise: those of a private
quantile are the intervals between sorted values, whose number and widths depend on the data."""
FAR = 50.0
"""Of the point at which the curvature of a loss is looked at beside 0: logistic loss bends by e^-50 there."""
STEP = BENT = 1e-3
"""[formula] Distance of differences that stand for second derivatives, and more than their relative error: of logistic
loss, whose fourth derivative is at most its second, STEP^2 / 6, and 6e-8 / STEP in single precision."""


def attributes(owner: Any, *names: str) -> dict[str, Any]:
    """Return those attributes that are there and not None, with a leading underscore or without."""
    found = {name: getattr(owner, name, getattr(owner, f"_{name}", None)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _of_diffprivlib(owner: Any, value: Any) -> Stated:
    known = attributes(owner, *NOISE)
    if callable(value):  # an objective: how much a record may bend the loss, and alpha, how much all of them must
        bend = float(owner.function_sensitivity) * float(owner.data_sensitivity)
        known.update(attributes(owner, "alpha", "dimension"))
        return Stated(None, {**known, "sensitivity": bend}, known, "linf", functools.partial(_probed, owner))
    states = dict(known)
    if type(owner).__name__ == "Laplace" and known.get("epsilon") and not known.get("delta"):
        states.update(law="laplace", scale=known["sensitivity"] / known["epsilon"])
    fixed = {**known, **attributes(owner, *BOUNDS)}
    return Stated(attributes(owner, "utility").get("utility", value), states, fixed, UTILITY)


def _probed(owner: Any, function: Any, event: Any) -> Any:
    """Return a noisy objective of diffprivlib, which tells at its first call how much it bends along each axis.

    Noise is linear and does not bend. The input becomes the second derivatives at 0, a little less, so that errors do
    not count; 'least' is the least of those at `FAR` on each axis.
    """

    def bends(at: float, axes: Any, others: Any) -> list[float]:
        ends = ([function(axis * (at + step), *others)[1] @ axis for axis in axes] for step in (-STEP, STEP))
        many = float(attributes(owner, "n")["n"])
        return [float(high - low) / (2.0 * STEP) * many for low, high in zip(*ends)]  # noqa: B905  # strict since 3.10

    def call(weights: Any, *others: Any) -> Any:
        if event.input is None:
            axes = importlib.import_module("numpy").eye(len(weights))
            event.input = [bend * (1.0 - BENT) for bend in bends(0.0, axes, others)]
            event.states["least"] = min(bends(FAR, axes, others)) * (1.0 + BENT)
        return function(weights, *others)

    return call


def _of_measurement(measurement: Any, value: Any) -> Stated:
    """What it loses of a move by 1 is what noise of a scale loses: pure of Laplace noise, concentrated of Gaussian."""
    metric, measure = (str(getattr(measurement, name, "")) for name in ("input_metric", "output_measure"))
    states: dict[str, Any] = {}
    for unit in (1, 1.0):
        with contextlib.suppress(Exception):  # of a measurement that wants its distance in another type
            loss = float(measurement.map(unit))
            if measure.startswith("MaxDivergence") and any(name in metric for name in ("Absolute", "L1")):
                states = {"law": "laplace", "scale": 1.0 / loss}
            elif measure.startswith("ZeroConcentrated") and any(name in metric for name in ("Absolute", "L2")):
                states = {"law": "normal", "scale": 1.0 / math.sqrt(2.0 * loss)}
    return Stated(value, states, norm="opendp")


def _of_step(optimizer: Any, _: Any) -> Stated:
    grads = [one.summed_grad for one in optimizer.params if one.summed_grad is not None]
    sums = [one.detach().double().flatten().tolist() for one in grads]
    clip, noise = optimizer.max_grad_norm, optimizer.noise_multiplier
    fixed = attributes(optimizer, "noise_multiplier", "max_grad_norm", "expected_batch_size")
    return Stated(sums, {"sensitivity": clip, "scale": noise * clip}, fixed, "l2")


def _of_smartnoise(owner: Any, values: Any) -> Stated:
    """Of sums, of which a person is in so many of one."""
    fixed = attributes(owner, "epsilon", "delta", "lower", "upper", "max_contrib", "scale")
    law = {"laplace": "laplace", "gaussian": "normal"}.get(owner.mechanism.name)
    reach = max(abs(owner.lower), abs(owner.upper)) * owner.max_contrib
    return Stated(values, {"sensitivity": reach, "law": law, "scale": owner.scale}, fixed)


MECHANISMS: list[tuple[str, str, str, Any]] = [
    ("diffprivlib.mechanisms", "*", "randomise", _of_diffprivlib),
    ("opendp.mod", "Measurement", "__call__", _of_measurement),
    ("opendp.mod", "Measurement", "invoke", _of_measurement),
    ("opacus.optimizers.optimizer", "DPOptimizer", "add_noise", _of_step),
    ("snsql.sql._mechanisms.base", "AdditiveNoiseMechanism", "release", _of_smartnoise),
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
"""Mechanisms of libraries: module, class with those that derive from it ('*' for all that have the method), method,
and what reads a call of (self, argument). One of your own joins by `epsaudit.tools.tracing.mechanism`."""

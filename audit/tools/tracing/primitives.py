"""Tables of functions that draw random numbers: samplers, and private mechanisms of libraries.

The table of samplers has the law of each sampler and the names of its arguments. The table of mechanisms has functions
that read from a call what the mechanism is given, what it states, and what must not depend on the data. While a
function is traced, `epsaudit.tools.tracing.replacement` replaces everything in these tables. Needs Python 3.8 and no
package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from typing import Any, NamedTuple

SAMPLED = "sampled"
"""The law under which the table lists draws that sample, shuffle or randomise records. A proof may allow one draw for
each record, so that the number and the parameters of such draws are listed and not judged."""
UNIFORM = "uniform"
"""The law of uniform draws, which also sample or randomise records."""


def _read_table(text: str) -> dict[str, tuple[str, str]]:
    """Parse a table of samplers, and return the law and the argument names of each function.

    Each line has a law, a colon, and the functions that draw from it, separated by commas. A function's name is
    followed by the names of its positional arguments.
    """
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        law, _, calls = line.partition(": ")
        for call in calls.split(", "):
            name, _, words = call.partition(" ")
            found[name] = law, words
    return found


SAMPLERS = {
    "numpy.random.Generator numpy.random.RandomState numpy.random": _read_table("""
        laplace: laplace loc scale size
        normal: normal loc scale size, standard_normal size dtype out, randn *
        exponential: exponential scale size, standard_exponential size dtype method out
        geometric: geometric p size
        gumbel: gumbel loc scale size
        logistic: logistic loc scale size
        other: gamma shape scale size, standard_gamma shape size
        other: poisson lam size, standard_t df size, standard_cauchy size, multivariate_normal mean cov size
        other: dirichlet alpha size, beta alpha beta size, chisquare df size, f dfnum dfden size, pareto shape size
        other: lognormal mean sigma size, negative_binomial n p size, noncentral_chisquare df nonc size
        other: noncentral_f dfnum dfden nonc size, power shape size, rayleigh scale size, wald mean scale size
        other: triangular left mode right size, vonmises mu kappa size, weibull shape size, zipf shape size
        other: logseries p size, multivariate_hypergeometric colors nsample size method
        uniform: uniform low high size, random size dtype out, random_sample size, rand *
        sampled: bytes length
        sampled: integers low high size dtype endpoint, randint low high size dtype, binomial n p size
        sampled: multinomial n pvals size, hypergeometric ngood nbad nsample size
        sampled: choice a size replace p axis shuffle, permutation x axis, permuted x axis, shuffle x axis"""),
    "random.Random random.SystemRandom random": _read_table("""
        normal: gauss mu sigma, normalvariate mu sigma
        exponential: expovariate lambd
        other: gammavariate alpha beta
        uniform: random, uniform low high
        sampled: getrandbits k, randbytes n, randrange start stop step, randint low high
        sampled: choice a, choices a p, sample x k, shuffle x"""),
    "secrets": _read_table("sampled: randbits k, token_bytes n, randbelow n"),
    "os": _read_table("sampled: urandom n"),
    "torch": _read_table("""
        normal: normal mean std size, randn *, randn_like like
        uniform: rand *
        sampled: rand_like like, bernoulli p, randint low high size, randperm n"""),
    "torch.Tensor": _read_table("""
        normal: normal_ mean std
        exponential: exponential_ lambd
        sampled: uniform_ low high, bernoulli_ p"""),
    "torch.distributions.Laplace": _read_table("laplace: sample shape, rsample shape"),
    "jax.random": _read_table("""
        normal: normal key size dtype
        laplace: laplace key size dtype
        exponential: exponential key size dtype
        gumbel: gumbel key size dtype
        uniform: uniform key size dtype low high
        sampled: bernoulli key p size, randint key size low high dtype
        sampled: choice key a size replace p, permutation key x"""),
    "dpmm.models.base.utils": _read_table("laplace: laplace_noise scale size\nnormal: gaussian_noise sigma size"),
}
"""The samplers of modules and classes. A key names one or several owners with the same functions, of which the last is
named in reports. Methods of a class have the object before the listed arguments. An argument 'a' or 'x' is a population
from which values are drawn. The loss of draws under the law 'other' is not computed, and operations on draws of torch
and jax are not followed."""


class Stated(NamedTuple):
    """What a call of a private mechanism states about its privacy, and the input of the call.

    The mechanism is private by itself as long as its input moves by at most the stated sensitivity, and nothing else
    depends on the data.
    """

    input: Any
    """The data that the mechanism is given."""
    states: dict[str, Any] = {}
    """The stated 'sensitivity', 'epsilon' and 'delta', and the 'law' and 'scale' of the noise, if they are known."""
    fixed: dict[str, Any] = {}
    """The arguments and attributes that must not depend on the data."""
    norm: str = "l1"
    """The norm in which the distance of two inputs is compared with the sensitivity: 'l1', 'l2' or 'linf'. Inputs
    with the norms 'records' and 'opendp' are not compared. 'event' stands for an event of a privacy accountant, of
    which nothing may depend on the data."""
    after: Any = None
    """None, or a function of the mechanism's answer and the recorded event that returns another answer in its place."""
    written: Any = None
    """For a mechanism that writes its answer into an object: two functions, which read and write the answer."""
    law_of_step: str | None = None
    """The law of the noise, which only upper bounds use: a step that also samples loses less than its noise alone."""


COMPILED_NORMS = ("opendp", "records")
"""Norms of mechanisms whose noise is drawn in compiled code."""
PRIVACY_PARAMETERS = ("epsilon", "delta", "sensitivity")
"""Attributes of mechanisms that state their privacy."""
OTHER_PARAMETERS = ("lower", "upper", "gamma", "monotonic", "value0", "value1")
"""Further attributes of mechanisms of diffprivlib that must not depend on the data."""
UTILITY_NORM = "linf of a utility"
"""Norm of a selection, whose input is one utility for each option. The options are no parameter of the noise: those of
a private quantile are the intervals between sorted values, whose number and widths depend on the data."""
FAR_POINT = 50.0
"""[chosen] Distance from 0 of the second point at which the curvature of a loss is measured. The curvature of the
logistic loss is e^-50 there."""
DIFFERENCE_STEP = CURVATURE_TOLERANCE = 1e-3
"""[formula] Step of the finite differences that approximate second derivatives, and a bound on their relative error.
For the logistic loss, whose fourth derivative is at most its second, the error is DIFFERENCE_STEP^2 / 6, plus 6e-8 /
DIFFERENCE_STEP in single precision."""


def attributes_of(owner: Any, *names: str) -> dict[str, Any]:
    """Return the attributes of an object that have these names and are not None, by name.

    In the object, the names may begin with an underscore.
    """
    found = {name: getattr(owner, name, getattr(owner, f"_{name}", None)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _read_diffprivlib(owner: Any, value: Any) -> Stated:
    """Return what a call of a mechanism of diffprivlib states.

    The input of the mechanism `Vector` is a loss function. The mechanism states how much one record may change the
    curvature of the loss (the sensitivity), and how large the curvature of all records together is at least ('alpha').
    """
    known = attributes_of(owner, *PRIVACY_PARAMETERS)
    if callable(value):
        curvature = float(owner.function_sensitivity) * float(owner.data_sensitivity)
        known.update(attributes_of(owner, "alpha", "dimension"))
        return Stated(
            None, {**known, "sensitivity": curvature}, known, "linf", functools.partial(_measure_curvature, owner)
        )
    states = dict(known)
    if type(owner).__name__ == "Laplace" and known.get("epsilon") and not known.get("delta"):
        states.update(law="laplace", scale=known["sensitivity"] / known["epsilon"])
    fixed = {**known, **attributes_of(owner, *OTHER_PARAMETERS)}
    return Stated(attributes_of(owner, "utility").get("utility", value), states, fixed, UTILITY_NORM)


def _measure_curvature(owner: Any, function: Any, event: Any) -> Any:
    """Return a noisy objective of diffprivlib that measures the curvature of the loss at its first call.

    The noise of the objective is linear and does not change the curvature. The event's input becomes the list of the
    second derivatives at 0 along each axis, reduced by `CURVATURE_TOLERANCE` so that rounding does not count as a move.
    The event's state 'least' becomes the smallest second derivative at `FAR_POINT` on each axis.
    """

    def curvatures(at: float, axes: Any, others: Any) -> list[float]:
        steps = -DIFFERENCE_STEP, DIFFERENCE_STEP
        ends = ([function(axis * (at + step), *others)[1] @ axis for axis in axes] for step in steps)
        n_records = float(attributes_of(owner, "n")["n"])
        slopes = zip(*ends)  # noqa: B905  # strict since 3.10
        return [float(high - low) / (2.0 * DIFFERENCE_STEP) * n_records for low, high in slopes]

    def call(weights: Any, *others: Any) -> Any:
        if event.input is None:
            axes = importlib.import_module("numpy").eye(len(weights))
            event.input = [one * (1.0 - CURVATURE_TOLERANCE) for one in curvatures(0.0, axes, others)]
            event.states["least"] = min(curvatures(FAR_POINT, axes, others)) * (1.0 + CURVATURE_TOLERANCE)
        return function(weights, *others)

    return call


def _stated_by_opendp(measurement: Any, value: Any) -> Stated:
    """Return what a call of a measurement of OpenDP states.

    The scale of its noise follows from the privacy loss that its map gives for an input that moves by 1.
    """
    metric, measure = (str(getattr(measurement, name, "")) for name in ("input_metric", "output_measure"))
    states: dict[str, Any] = {}
    for unit in (1, 1.0):
        with contextlib.suppress(Exception):  # a measurement may want its distance in another type
            loss = float(measurement.map(unit))
            if measure.startswith("MaxDivergence") and any(name in metric for name in ("Absolute", "L1")):
                states = {"law": "laplace", "scale": 1.0 / loss}
            elif measure.startswith("ZeroConcentrated") and any(name in metric for name in ("Absolute", "L2")):
                states = {"law": "normal", "scale": 1.0 / math.sqrt(2.0 * loss)}
    return Stated(value, states, norm="opendp")


def _read_opacus(optimizer: Any, _: Any) -> Stated:
    """Return what a step of an optimiser of Opacus states.

    The input is the sum of clipped gradients, the sensitivity is the clipping norm, and the scale of the noise follows
    from the noise multiplier.
    """
    grads = [one.summed_grad for one in optimizer.params if one.summed_grad is not None]
    sums = [one.detach().double().flatten().tolist() for one in grads]
    clip, noise = optimizer.max_grad_norm, optimizer.noise_multiplier
    fixed = attributes_of(optimizer, "noise_multiplier", "max_grad_norm", "expected_batch_size")
    stated = Stated(sums, {"sensitivity": clip, "scale": noise * clip}, fixed, "l2")
    owner = next(one for one in type(optimizer).__mro__ if "add_noise" in vars(one))
    if owner.__name__ != "DPOptimizer":  # noise of another law, or in other processes
        return stated

    def read() -> NoisyGradients:
        return NoisyGradients([_clone(one.grad) for one in optimizer.params])

    def write(noisy: NoisyGradients) -> None:
        for one, grad in zip(optimizer.params, noisy.gradients):  # noqa: B905  # strict since 3.10
            one.grad = _clone(grad)

    return stated._replace(written=(read, write), law_of_step="normal")


class NoisyGradients:
    """The answer of a step of Opacus: noisy gradients.

    Torch computes with them in compiled code, so that their numbers cannot be tracked.
    """

    def __init__(self, gradients: list[Any]) -> None:
        self.gradients = gradients


def _clone(gradient: Any) -> Any:
    return None if gradient is None else gradient.clone()


def _read_smartnoise(owner: Any, values: Any) -> Stated:
    """Return what a call of a mechanism of SmartNoise SQL states.

    The input is a list of sums. The sensitivity is the largest absolute value of a row, times the number of rows that
    one person may contribute.
    """
    fixed = attributes_of(owner, "epsilon", "delta", "lower", "upper", "max_contrib", "scale")
    law = {"laplace": "laplace", "gaussian": "normal"}.get(owner.mechanism.name)
    reach = max(abs(owner.lower), abs(owner.upper)) * owner.max_contrib
    return Stated(values, {"sensitivity": reach, "law": law, "scale": owner.scale}, fixed)


def _read_pydp(owner: Any, value: Any) -> Stated:
    """Return what a call of a numerical mechanism of PyDP states."""
    known = attributes_of(owner, *PRIVACY_PARAMETERS)
    return Stated(value, known, {**known})


MECHANISMS: list[tuple[str, str, str, Any]] = [
    ("diffprivlib.mechanisms", "*", "randomise", _read_diffprivlib),
    ("opendp.mod", "Measurement", "__call__", _stated_by_opendp),
    ("opendp.mod", "Measurement", "invoke", _stated_by_opendp),
    ("opacus.optimizers.optimizer", "DPOptimizer", "add_noise", _read_opacus),
    ("snsql.sql._mechanisms.base", "AdditiveNoiseMechanism", "release", _read_smartnoise),
    ("pydp.algorithms._algorithm", "MetaAlgorithm", "quick_result", lambda _, value: Stated(value, norm="records")),
    (
        "pydp.algorithms.numerical_mechanisms", "*", "add_noise",
        _read_pydp,
    ),
    (
        "dp_accounting.privacy_accountant", "PrivacyAccountant", "compose",
        lambda _, event: Stated(None, {}, {"event": repr(event)}, "event"),
    ),
]  # fmt: skip
"""The mechanisms of libraries. An entry has the module, the class (with its subclasses; '*' for all classes that have
the method), the method, and the function that reads a call from the object and the first argument. Users declare
their own mechanisms with `epsaudit.tools.tracing.mechanism`."""

"""Tables of what draws random numbers: samplers, and the mechanisms of libraries with the parameters that they state.

Of a sampler it is said how its arguments are called and which law it draws from, of a mechanism where its input is,
what it states (sensitivity, epsilon, delta, scale) and what else must not depend on data. Needs Python 3.8 alone, as
`epsaudit.tracing.recorder`, which replaces all of these while a function is traced.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
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


class Mechanism(NamedTuple):
    """A function that is private by itself: what it is given may move, by as much as it states, and nothing else."""

    module: str
    owner: str
    """A class of the module; '*' for all that have the method, '' for a function."""
    method: str
    input: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
    """Reads what may depend on data from (self, arguments, keywords)."""
    states: Callable[[Any], dict[str, Any]]
    """Reads what it states: 'sensitivity', 'epsilon', 'delta', 'law' and 'scale', as far as known."""
    fixed: tuple[str, ...] = ()
    """Attributes that must not depend on data."""
    norm: str = "l1"
    """In which the distance of two inputs is measured against the sensitivity: 'l1', 'l2' or 'linf'; or 'records' and
    'opendp', which are not judged so, 'curvature', and 'event', of which nothing may depend on data."""
    loss: Callable[[Any, Any, Any], Any] | None = None
    """Reads from (self, input, other input) the loss that it states for these two, and in which measure."""


def given(owner: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Return the first argument."""
    return arguments[0] if arguments else next(iter(keywords.values()), None)


def held(*names: str) -> Callable[..., Any]:
    """Return what reads the first attribute of these that is there, or else the first argument."""

    def read(owner: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        found = attribute(owner, *names)
        return given(owner, arguments, keywords) if found is None else found

    return read


def attribute(owner: Any, *names: str) -> Any:
    """Return the first attribute of these that is there and not None, with a leading underscore or without."""
    for name in names:
        for spelt in (name, f"_{name}"):
            if getattr(owner, spelt, None) is not None:
                return getattr(owner, spelt)
    return None


def attributes(*names: str, **laws: str) -> Callable[[Any], dict[str, Any]]:
    """Return what reads these attributes as what is stated, and the law by the name of the class."""

    def read(owner: Any) -> dict[str, Any]:
        stated = {name: attribute(owner, name) for name in names}
        stated["law"] = laws.get(type(owner).__name__)
        return {name: value for name, value in stated.items() if value is not None}

    return read


OPAQUE = ("opendp", "records")
"""Norms of mechanisms whose noise is drawn in compiled code."""


def _loss_of_measurement(measurement: Any, one: Any, other: Any) -> Any:
    """The distance of two answers, what OpenDP's ``map`` says of it, and in which measure; None of records."""
    metric, measure = (str(getattr(measurement, name, "")) for name in ("input_metric", "output_measure"))
    sides = [
        list(side) if hasattr(side, "tolist") or isinstance(side, (list, tuple)) else [side] for side in (one, other)
    ]
    try:
        gaps = [abs(float(left) - float(right)) for left, right in zip(*sides)]  # noqa: B905  # strict since 3.10
    except (TypeError, ValueError):
        return None
    if len(sides[0]) != len(sides[1]) or not any(name in metric for name in ("Absolute", "L1", "L2", "LInf")):
        return None
    far = (
        math.sqrt(math.fsum(gap * gap for gap in gaps))
        if "L2" in metric
        else max(gaps)
        if "LInf" in metric
        else sum(gaps)
    )
    for distance in (far, math.ceil(far)):
        try:
            return [far, float(measurement.map(distance)), measure]
        except Exception:  # of a measurement that wants its distance in another type
            continue
    return None


def _of_vector(owner: Any) -> dict[str, Any]:
    """What diffprivlib's objective perturbation states: how much a record bends a loss, and alpha, how much all do."""
    bend = float(attribute(owner, "function_sensitivity")) * float(attribute(owner, "data_sensitivity"))
    stated = attributes("epsilon", "alpha")(owner)
    return {**stated, "curvature": bend}


FAR = 50.0
"""Of the point at which the curvature of a loss is looked at beside 0: logistic loss bends by e^-50 there."""


def probed(function: Any, event: Any, owner: Any) -> Any:
    """Return diffprivlib's noisy objective, which writes down at its first call how much it bends along each axis.

    Noise is linear and does not bend. The input becomes the second derivatives at 0, and at `FAR` on each axis.
    """

    def bends(weights: Any, others: Any, axis: int, at: float, step: float = 1e-3) -> float:
        slopes = []
        for side in (-step, step):
            point = weights * 0.0
            point[axis] = at + side
            slopes.append(function(point, *others)[1][axis])
        return float(slopes[1] - slopes[0]) / (2.0 * step) * float(attribute(owner, "n"))

    def call(weights: Any, *others: Any) -> Any:
        if event.input is None:
            axes = range(len(weights))
            event.input = [[bends(weights, others, axis, at) for axis in axes] for at in (0.0, FAR)]
        return function(weights, *others)

    return call


def _gradients(owner: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return [one.summed_grad.detach().double().flatten().tolist() for one in owner.params if one.summed_grad is not None]


DIFFPRIVLIB = attributes("epsilon", "delta", "sensitivity", Laplace="laplace", Geometric="discrete laplace")
BOUNDS = ("lower", "upper", "gamma", "candidates", "measure", "monotonic", "value0", "value1", "utility_list")
NOISE = ("epsilon", "delta", "sensitivity")
STEP = ("noise_multiplier", "max_grad_norm", "expected_batch_size")
MECHANISMS = [
    Mechanism(
        "diffprivlib.mechanisms", "Vector", "randomise", lambda *_: None, _of_vector, ("epsilon", "alpha", "dimension"),
        "curvature",
    ),
    Mechanism(
        "diffprivlib.mechanisms", "*", "randomise", held("utility"), DIFFPRIVLIB, (*NOISE, *BOUNDS), "linf of a utility"
    ),
    Mechanism("opendp.mod", "Measurement", "__call__", given, lambda _: {}, (), "opendp", _loss_of_measurement),
    Mechanism("opendp.mod", "Measurement", "invoke", given, lambda _: {}, (), "opendp", _loss_of_measurement),
    Mechanism(
        "opacus.optimizers.optimizer",
        "DPOptimizer",
        "add_noise",
        _gradients,
        lambda owner: {"sensitivity": owner.max_grad_norm, "scale": owner.noise_multiplier * owner.max_grad_norm},
        STEP,
        "l2",
    ),
    Mechanism("pydp.algorithms._algorithm", "MetaAlgorithm", "quick_result", given, lambda _: {}, (), "records"),
    Mechanism("pydp.algorithms.numerical_mechanisms", "*", "add_noise", given, attributes(*NOISE), NOISE),
    Mechanism("dp_accounting.privacy_accountant", "PrivacyAccountant", "compose", given, lambda _: {}, (), "event"),
]  # fmt: skip
"""Mechanisms of libraries. One of your own joins by `mechanism`."""

CALLED: Callable[..., Any] | None = None
"""Answers calls of decorated mechanisms while a function is traced."""


def mechanism(
    input: str = "value",  # the word of the table
    sensitivity: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    norm: str = "l1",
    fixed: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Tell traces that a function is private by itself, and what it states; it is called as before.

    Parameters
    ----------
    input : str
        The parameter that may depend on data.
    sensitivity, epsilon, delta : str or number, optional
        What the function states: a number, or the parameter that is it.
    norm : str
        In which inputs of neighbours are ``sensitivity`` apart at most: 'l1', 'l2', 'linf' or 'records'.
    fixed : tuple of str
        Other parameters that must not depend on data.

    Examples
    --------
    >>> @mechanism(input="total", sensitivity="sensitivity", epsilon="epsilon")
    ... def noisy(total, sensitivity, epsilon, rng):
    ...     return total + rng.laplace(scale=sensitivity / epsilon)
    >>> import numpy as np
    >>> noisy(3.0, 1.0, 1.0, np.random.default_rng(0)) > 0
    True
    """
    import inspect

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            if CALLED is None:
                return function(*arguments, **keywords)
            bound = signature.bind(*arguments, **keywords)
            bound.apply_defaults()
            named = bound.arguments
            terms = {"sensitivity": sensitivity, "epsilon": epsilon, "delta": delta}
            stated = {name: named.get(one, one) if isinstance(one, str) else one for name, one in terms.items()}
            stated = {name: value for name, value in stated.items() if value is not None}
            others = {name: named[name] for name in fixed}
            name = getattr(function, "__qualname__", "mechanism")
            return CALLED(name, lambda: function(*arguments, **keywords), named[input], stated, others, norm)

        return call

    return wrap

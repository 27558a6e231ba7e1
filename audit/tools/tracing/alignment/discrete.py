"""Laws of discrete draws, whose outcomes an alignment keeps: integers, binomial numbers, choices, permutations.

A law lists its outcomes if there are few, so that all paths of a function with discrete draws can be enumerated.
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MAX_OUTCOMES = 4096
"""[time] Largest number of outcomes of one draw that are listed."""


LISTED_REST = 1e-15
"""[chosen] Total probability of the outcomes of an unbounded law that are not listed; it counts as delta."""


@dataclass(frozen=True)
class DiscreteLaw:
    """The law of a discrete draw, such as an integer, a choice or a permutation.

    ``draw`` draws an outcome, and ``log_probability`` returns the log probability of an outcome.
    """

    name: str
    draw: Callable[[np.random.Generator], Any] = field(compare=False)
    log_probability: Callable[[Any], float] = field(compare=False)
    outcomes: tuple[Any, ...] | None = field(default=None, compare=False)
    """All outcomes, or None if there are too many."""
    key: Any = None
    """The parameters of the law, by which two laws are compared."""
    truncated: int = 0
    """Number of draws of an unbounded law. For each of them, the outcomes that are not listed have the total
    probability `LISTED_REST`."""
    known: bool = True
    """Whether probabilities are known. If not, the law must be the same on both datasets."""


def uniform_law(name: str, outcomes: Callable[[], Any], count: int, draw: Any, contains: Any) -> DiscreteLaw:
    """Return the law of a draw with ``count`` equally likely outcomes.

    ``outcomes`` lists them, ``draw`` draws one of them, and ``contains`` says whether a value is one of them.
    """
    listed = tuple(outcomes()) if count <= MAX_OUTCOMES else None
    log_share = -math.log(count) if count else -math.inf
    return DiscreteLaw(name, draw, lambda one: log_share if contains(one) else -math.inf, listed, count)


def discrete_law(name: str, make: Any, fixed: dict[str, Any]) -> DiscreteLaw:
    """Return the law of a call of a sampler of whole numbers, such as `integers`, `binomial` or `poisson`.

    ``fixed`` has the parameters of the call by name. The law of any other sampler is unknown: ``make()`` draws its
    outcome, the log probability is taken as 0, and an alignment requires equal parameters on both datasets.
    """
    short, size = name.rpartition(".")[2], fixed.get("size")
    if size is not None and short in ("integers", "randint", "binomial", "poisson"):
        single = {key: value for key, value in fixed.items() if key != "size"}
        if all(np.ndim(value) == 0 for value in single.values()):
            return array_law(discrete_law(name, make, single), make, tuple(map(int, np.ravel(np.asarray(size)))))
    if size is None and short in ("integers", "randint", "randrange", "randbelow", "getrandbits", "randbits"):
        whole = _range(name, short, fixed)
        count = (whole.stop - whole.start - 1) // whole.step + 1  # len() fails for more than 2^63 numbers
        return uniform_law(
            name,
            lambda: whole,
            count,
            lambda rng: whole.start + whole.step * (int(rng.integers(count)) if count < 2**62 else _large(rng, count)),
            lambda one: int(one) in whole,  # a range looks for a number of numpy by trying all of its numbers
        )
    if size is None and short == "binomial":
        return binomial_law(int(fixed["n"]), float(fixed["p"]))
    if size is None and short == "poisson":
        return poisson_law(float(fixed["lam"]))
    return unknown_law(name, make, fixed)


def unknown_law(name: str, make: Any, fixed: dict[str, Any]) -> DiscreteLaw:
    """Return the law of a sampler that ``make()`` calls and of which only the parameters ``fixed`` are known."""
    parameters = parameters_key(sorted(fixed.items(), key=lambda one: one[0]))
    return DiscreteLaw(name, lambda _: make(), lambda _: 0.0, None, parameters, known=False)


def table_law(name: str, first: int, logs: Any, draw: Any, key: Any, truncated: int) -> DiscreteLaw:
    """Return the law of a whole number with the log probabilities ``logs``, which begin at the number ``first``.

    ``truncated`` is 1 if the table leaves out rare outcomes, and 0 otherwise.
    """
    known = dict(enumerate(np.asarray(logs, float).tolist(), first))
    listed = tuple(known) if len(known) <= MAX_OUTCOMES else None
    return DiscreteLaw(name, draw, lambda one: known.get(one, -math.inf), listed, key, truncated)


def array_law(law: DiscreteLaw, make: Any, shape: tuple[int, ...]) -> DiscreteLaw:
    """Return the law of an array whose components are independent draws from ``law``.

    ``make()`` draws such an array with the sampler that the audited function has called.
    """
    count, few = math.prod(shape), law.outcomes
    listed = None
    if few is not None and count * math.log(max(2, len(few))) <= math.log(MAX_OUTCOMES):
        listed = tuple(np.array(one).reshape(shape) for one in itertools.product(few, repeat=count))

    def log_probability(values: Any) -> float:
        one = np.asarray(values)
        return math.fsum(map(law.log_probability, one.ravel().tolist())) if one.shape == shape else -math.inf

    return DiscreteLaw(
        f"{law.name} in an array",
        lambda _: make(),
        log_probability,
        listed,
        (law.key, shape),
        count * law.truncated,
    )


@functools.lru_cache(256)
def binomial_law(n: int, p: float) -> DiscreteLaw:
    """Return the binomial law of ``n`` trials with success probability ``p``."""
    from scipy import stats  # missing in some environments of traced functions

    logs = stats.binom.logpmf(np.arange(n + 1), n, p)
    return table_law("binomial", 0, logs, lambda rng: int(rng.binomial(n, p)), (n, p), truncated=0)


@functools.lru_cache(256)
def poisson_law(mean: float) -> DiscreteLaw:
    """Return the Poisson law with this mean, without its rarest outcomes."""
    from scipy import stats

    last = int(stats.poisson.isf(LISTED_REST, mean))
    logs = stats.poisson.logpmf(np.arange(last + 1), mean)
    return table_law("poisson", 0, logs, lambda rng: int(rng.poisson(mean)), mean, truncated=1)


@functools.lru_cache(256)
def geometric_law(scale: float) -> DiscreteLaw:
    """Return the geometric law on 1, 2, ... with failure probability e^-(1/scale), without its rarest outcomes."""
    from scipy import stats

    p = -math.expm1(-1.0 / scale)
    last = int(stats.geom.isf(LISTED_REST, p))
    logs = -np.arange(last) / scale + math.log(p)
    return table_law("geometric", 1, logs, lambda rng: int(rng.geometric(p)), scale, truncated=1)


def _range(name: str, short: str, fixed: dict[str, Any]) -> range:
    """Return the range of integers from which a sampler draws, given its name and its parameters."""
    if short in ("getrandbits", "randbits"):
        return range(2 ** int(fixed["k"]))
    if short == "randbelow":
        return range(int(fixed["n"]))
    if short == "randrange":
        low, high = fixed.get("start", 0), fixed.get("stop")
    else:
        low, high = fixed.get("low", 0), fixed.get("high")
    low, high = (0, int(low)) if high is None else (int(low), int(high))
    inclusive = fixed.get("endpoint") or (short == "randint" and not name.startswith("numpy"))
    return range(low, high + bool(inclusive), int(fixed.get("step", 1)))


def _large(rng: np.random.Generator, count: int) -> int:
    bits = count.bit_length() + 64
    return int.from_bytes(rng.bytes(bits // 8 + 1), "big") % count


def index_law(name: str, make: Any) -> tuple[DiscreteLaw, Callable[[Any], Any]]:
    """Return the law of the positions that a random choice draws, and a function that picks the members there.

    Samplers such as `choice` and `shuffle` draw members of a population, which may be private. Only the positions are
    random, so an alignment keeps the positions. ``make`` is the call of the original sampler.
    """
    short, arguments, keywords = name.rpartition(".")[2], list(make.args), dict(make.keywords)
    places: list[tuple[Any, Any]] = [(keywords, key) for key in ("a", "x", "seq", "population") if key in keywords]
    first = name.startswith("jax")  # whose first argument is a key
    places += [(arguments, place) for place, one in enumerate(arguments) if place >= first and is_population(one)]
    if not places:
        raise TypeError(f"{name} has no population")
    owner, at = places[0]
    population = owner[at]
    whole = list(range(population)) if isinstance(population, (int, np.integer)) else population
    n = len(whole)
    if short in ("permutation", "shuffle") and "axis" not in keywords:
        law = uniform_law(
            name,
            lambda: itertools.permutations(range(n)),
            math.factorial(n),
            lambda rng: tuple(map(int, rng.permutation(n))),
            lambda order: len(order) == n,
        )
        if short == "shuffle":
            return law, lambda order: _reorder(population, order)
        return law, lambda order: np.asarray(whole)[list(order)]
    after = arguments[at + 1 :] if owner is arguments else arguments[1:]
    asked = {**dict(zip(SAMPLE_ARGUMENTS.get(short, ()), after)), **keywords}  # noqa: B905  # strict since 3.10
    sample = sample_law(name, n, asked)
    if sample is not None:
        return sample, lambda drawn: _members(name, whole, drawn)
    others = [one for place, one in enumerate(arguments) if (owner is not arguments or place != at) and place]
    # another choice: call the sampler with positions in place of the population
    owner[at] = range(n) if name.startswith("random") else np.arange(n)
    law = DiscreteLaw(
        name,
        lambda _: make.func(*arguments, **keywords),
        lambda _: 0.0,
        None,
        parameters_key((n, others, {key: one for key, one in keywords.items() if owner is not keywords or key != at})),
        known=False,
    )
    return law, lambda places: _take(whole, places)


SAMPLE_ARGUMENTS = {"choice": ("size", "replace", "p", "axis"), "choices": ("weights", "cum_weights"), "sample": ("k",)}
"""The positional arguments of each sampler after the population."""


def sample_law(name: str, n: int, asked: dict[str, Any]) -> DiscreteLaw | None:
    """Return the law of the positions of one or several members that are drawn from a population.

    ``n`` is the size of the population and ``asked`` has the other arguments by name. The result is None for arguments
    whose law is not known, such as weights without replacement.
    """
    short = name.rpartition(".")[2]
    unknown = any(asked.get(one) for one in ("cum_weights", "counts", "axis")) or not asked.get("shuffle", True)
    if short not in SAMPLE_ARGUMENTS or not n or unknown:
        return None
    weights = asked.get("weights" if short == "choices" else "p")
    shares = np.full(n, 1.0 / n) if weights is None else np.asarray(weights, float) / np.sum(weights)
    k = asked.get("k", 1) if short == "choices" else asked.get("k") if short == "sample" else asked.get("size")
    if k is None:
        return choice_law(name, n, shares)
    replace = short == "choices" or (short == "choice" and asked.get("replace", True))
    if not isinstance(k, (int, np.integer)) or (not replace and (k > n or weights is not None)):
        return None
    return positions_law(name, shares, int(k), bool(replace))


def positions_law(name: str, shares: Any, k: int, replace: bool) -> DiscreteLaw:
    """Return the law of ``k`` positions that are drawn from a population.

    The draws have the probabilities ``shares`` with replacement, and equal probabilities without replacement.
    """
    n = len(shares)
    if not replace:
        return uniform_law(
            name,
            lambda: itertools.permutations(range(n), k),
            math.perm(n, k),
            lambda rng: tuple(map(int, rng.choice(n, size=k, replace=False))),
            lambda drawn: len(drawn) == k and all(one < n for one in drawn),
        )
    with np.errstate(divide="ignore"):
        logs = np.log(shares).tolist()
    return DiscreteLaw(
        name,
        lambda rng: tuple(map(int, rng.choice(n, size=k, p=shares))),
        lambda drawn: sum(logs[one] if one < n else -math.inf for one in drawn) if len(drawn) == k else -math.inf,
        tuple(itertools.product(range(n), repeat=k)) if n**k <= MAX_OUTCOMES else None,
        (n, k, tuple(shares)),
    )


def choice_law(name: str, n: int, shares: Any) -> DiscreteLaw:
    """Return the law of one position among ``n``, which is drawn with the probabilities ``shares``."""
    return DiscreteLaw(
        name,
        lambda rng: int(rng.choice(n, p=shares)),
        lambda one: math.log(shares[one]) if one < n and shares[one] > 0.0 else -math.inf,
        tuple(range(n)) if n <= MAX_OUTCOMES else None,
        (n, tuple(shares)),
    )


def is_population(value: Any) -> bool:
    """Return whether an argument can be a population from which members are drawn.

    This is a sequence, an array, or a number n that stands for 0, ..., n - 1.
    """
    return isinstance(value, (int, np.integer, list, tuple, str, range, np.ndarray)) or (
        hasattr(value, "__len__") and hasattr(value, "__getitem__")
    )


def parameters_key(parameters: Any) -> Any:
    """Return a value by which the parameters of two calls can be compared.

    Parameters that cannot be pickled differ from all other parameters.
    """
    try:
        return pickle.dumps(parameters, -1)
    except Exception:
        return object()


def _members(name: str, whole: Any, drawn: Any) -> Any:
    """Return the members of a population at the drawn positions.

    The result is one member, an array for a sampler of numpy, or a list for a sampler of the module random.
    """
    if not isinstance(drawn, tuple):
        return whole[drawn]
    return [whole[one] for one in drawn] if name.startswith("random") else np.asarray(whole)[list(drawn)]


def _take(whole: Any, places: Any) -> Any:
    """Return the members of a population at the given positions, which a sampler has drawn.

    The result has the form of the positions: an array, a list, or a single member.
    """
    if isinstance(places, np.ndarray):
        return np.asarray(whole)[places]
    return [whole[one] for one in places] if isinstance(places, (list, tuple)) else whole[places]


def _reorder(population: Any, order: Any) -> None:
    """Reorder a list or an array in place, so that it follows the given order of positions."""
    population[:] = [population[place] for place in order] if isinstance(population, list) else population[list(order)]

"""Discrete draws, whose outcomes an alignment keeps: integers, binomial numbers, choices, permutations.

A law has a finite list of outcomes if there are few, so that a function whose draws are all discrete can be enumerated.
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
"""[chosen] Probability of the outcomes of an unbounded law that are not listed; it counts as delta."""


@dataclass(frozen=True)
class DiscreteLaw:
    """The law of a discrete draw."""

    name: str
    draw: Callable[[np.random.Generator], Any] = field(compare=False)
    log_probability: Callable[[Any], float] = field(compare=False)
    outcomes: tuple[Any, ...] | None = field(default=None, compare=False)
    """All outcomes, or None if there are too many."""
    key: Any = None
    """The parameters, by which two laws are compared."""
    truncated: bool = False
    """Whether there are further outcomes, with probability `LISTED_REST` together."""
    known: bool = True
    """Whether probabilities are known. Otherwise both sides must have the same law."""


def uniform_law(name: str, outcomes: Callable[[], Any], count: int, draw: Any, contains: Any) -> DiscreteLaw:
    """Return a law with equally likely outcomes."""
    listed = tuple(outcomes()) if count <= MAX_OUTCOMES else None
    log_share = -math.log(count) if count else -math.inf
    return DiscreteLaw(name, draw, lambda one: log_share if contains(one) else -math.inf, listed, count)


def discrete_law(name: str, make: Any, fixed: dict[str, Any]) -> DiscreteLaw:
    """Return the law of a sampler of numbers, with the parameters that it was called with.

    A sampler without a known law gets its outcome from ``make()``. Its log probability is then 0, and the alignment
    requires equal parameters on both sides.
    """
    short, size = name.rpartition(".")[2], fixed.get("size")
    if size is None and short in ("integers", "randint", "randrange", "randbelow", "getrandbits", "randbits"):
        low, high = _range(name, short, fixed)
        return uniform_law(
            name,
            lambda: range(low, high),
            high - low,
            lambda rng: int(rng.integers(low, high)) if high - low < 2**62 else low + _large(rng, high - low),
            lambda one: low <= one < high,
        )
    if size is None and short == "binomial":
        return binomial_law(int(fixed["n"]), float(fixed["p"]))
    if size is None and short == "poisson":
        return poisson_law(float(fixed["lam"]))
    parameters = parameters_key(sorted(fixed.items(), key=lambda one: one[0]))
    return DiscreteLaw(name, lambda _: make(), lambda _: 0.0, None, parameters, known=False)


def table_law(name: str, first: int, logs: Any, draw: Any, key: Any, truncated: bool) -> DiscreteLaw:
    """Return a law on consecutive whole numbers with known log probabilities."""
    known = dict(enumerate(np.asarray(logs, float).tolist(), first))
    listed = tuple(known) if len(known) <= MAX_OUTCOMES else None
    return DiscreteLaw(name, draw, lambda one: known.get(one, -math.inf), listed, key, truncated)


@functools.lru_cache(256)
def binomial_law(n: int, p: float) -> DiscreteLaw:
    """Return the binomial law."""
    from scipy import stats  # missing in some environments of traced functions

    logs = stats.binom.logpmf(np.arange(n + 1), n, p)
    return table_law("binomial", 0, logs, lambda rng: int(rng.binomial(n, p)), (n, p), truncated=False)


@functools.lru_cache(256)
def poisson_law(mean: float) -> DiscreteLaw:
    """Return the Poisson law, without its rarest outcomes."""
    from scipy import stats

    last = int(stats.poisson.isf(LISTED_REST, mean))
    logs = stats.poisson.logpmf(np.arange(last + 1), mean)
    return table_law("poisson", 0, logs, lambda rng: int(rng.poisson(mean)), mean, truncated=True)


@functools.lru_cache(256)
def geometric_law(scale: float) -> DiscreteLaw:
    """Return the geometric law on 1, 2, ... with failure probability e^-(1/scale), without its rarest outcomes."""
    from scipy import stats

    p = -math.expm1(-1.0 / scale)
    last = int(stats.geom.isf(LISTED_REST, p))
    logs = -np.arange(last) / scale + math.log(p)
    return table_law("geometric", 1, logs, lambda rng: int(rng.geometric(p)), scale, truncated=True)


def _range(name: str, short: str, fixed: dict[str, Any]) -> tuple[int, int]:
    if short in ("getrandbits", "randbits"):
        return 0, 2 ** int(fixed["k"])
    if short == "randbelow":
        return 0, int(fixed["n"])
    if short == "randrange":
        low, high = fixed.get("start", 0), fixed.get("stop")
    else:
        low, high = fixed.get("low", 0), fixed.get("high")
    low, high = (0, int(low)) if high is None else (int(low), int(high))
    inclusive = fixed.get("endpoint") or (short == "randint" and not name.startswith("numpy"))
    return low, high + bool(inclusive)


def _large(rng: np.random.Generator, count: int) -> int:
    bits = count.bit_length() + 64
    return int.from_bytes(rng.bytes(bits // 8 + 1), "big") % count


def index_law(name: str, make: Any) -> tuple[DiscreteLaw, Callable[[Any], Any]]:
    """Return the law of the positions that a choice from a population draws, and a function that takes them.

    ``make`` is the partial call of the original sampler. Only positions are random, so an alignment keeps positions.
    """
    short, arguments, keywords = name.rpartition(".")[2], list(make.args), dict(make.keywords)
    places: list[tuple[Any, Any]] = [(keywords, key) for key in ("a", "x", "seq", "population") if key in keywords]
    places += [(arguments, place) for place, one in enumerate(arguments) if is_population(one)]
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
    if short == "choices" and n:
        weights = keywords.get("weights", next((one for one in arguments if one is not population), None))
        if keywords.get("k", 1) == 1 and "cum_weights" not in keywords and len(arguments) <= 2:
            law = choice_law(name, n, None if weights is None else np.asarray(weights, float) / np.sum(weights))
            return law, lambda one: [whole[one]]
    others = [one for place, one in enumerate(arguments) if (owner is not arguments or place != at) and place]
    weights = keywords.get("p")
    if short == "choice" and n and not others and not {*keywords} - {"p", "a", "seq"}:
        return choice_law(name, n, weights), lambda one: whole[one]
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


def choice_law(name: str, n: int, weights: Any) -> DiscreteLaw:
    """Return the law of the position of one member, with given probabilities or equal ones."""
    shares = np.full(n, 1.0 / n) if weights is None else np.asarray(weights, float)
    return DiscreteLaw(
        name,
        lambda rng: int(rng.choice(n, p=shares)),
        lambda one: math.log(shares[one]) if one < n and shares[one] > 0.0 else -math.inf,
        tuple(range(n)) if n <= MAX_OUTCOMES else None,
        (n, tuple(shares)),
    )


def is_population(value: Any) -> bool:
    """Return whether an argument can be the population of a choice."""
    return isinstance(value, (int, np.integer, list, tuple, str, range, np.ndarray)) or (
        hasattr(value, "__len__") and hasattr(value, "__getitem__")
    )


def parameters_key(parameters: Any) -> Any:
    """Return parameters as a value that can be compared; parameters that cannot be pickled differ from all others."""
    try:
        return pickle.dumps(parameters, -1)
    except Exception:
        return object()


def _take(whole: Any, places: Any) -> Any:
    """Return the members of a population at positions, in the form in which the sampler returns them."""
    if isinstance(places, np.ndarray):
        return np.asarray(whole)[places]
    return [whole[one] for one in places] if isinstance(places, (list, tuple)) else whole[places]


def _reorder(population: Any, order: Any) -> None:
    """Reorder a mutable sequence in place."""
    population[:] = [population[place] for place in order] if isinstance(population, list) else population[list(order)]

"""Functions whose output has a smaller privacy loss than one of their components, each with a leaky twin, for traces.

The component is one sum with one noise draw. It loses more than the output, because other noise covers it, because a
difference cancels it, or because it is not returned. With ``leaks`` the same function has only a fraction of the noise,
or returns something that it should keep, so that the output itself violates the claim. A trace may suspect a sound
function, but with ``certify`` it must refute only the leaky twin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from epsaudit import AuditError, Claim, GaussianDP, PureDP, trace

ONE, GAUSSIAN = PureDP(1.0), GaussianDP(1.0)
USERS = ([0.0] * 20, [1.0] + [0.0] * 19)
"""Two datasets of 20 users that differ in one value."""
COUNTS = ([3.0, 1.0, 2.0], [3.0, 3.0, 4.0])
"""Two vectors that agree in their first part."""
SUBSAMPLED = math.log1p((math.e - 1.0) / 0.5)
"""Epsilon of the noise for which a record that is sampled with probability 1/2 is 1-DP."""
TRIALS = 2_000
"""[time] Maximum number of runs of an audit. It is enough to refute every leaky twin at 99.99 %, in about 0.2 s."""

Released = Callable[[Any, np.random.Generator], Any]
Built = tuple[Released, tuple[Any, Any], Claim]
CASES: dict[str, Callable[[bool], Built]] = {}
"""For each name, a function that takes ``leaks`` and returns the sound or leaky function with its pair and claim."""


def case(name: str, pair: tuple[Any, Any] = (2.0, 3.0), claim: Claim = ONE) -> Callable[[Any], Any]:
    """Register a function of ``(scale of noise, whether it leaks, data, rng)`` in `CASES` under a name."""

    def listed(function: Any) -> Any:
        def build(leaks: bool) -> Built:
            return lambda data, rng: function(0.2 if leaks else 1.0, leaks, data, rng), pair, claim

        CASES[name] = build
        return function

    return listed


@case("noise of each user, summed", USERS, GAUSSIAN)
def _(scale, leaks, data, rng):
    return sum(value + rng.normal(scale=scale * 20**-0.5) for value in data)


@case("noisy records, averaged", USERS, GAUSSIAN)
def _(scale, leaks, data, rng):
    return np.mean(np.array(data) + rng.normal(scale=scale * 20**-0.5, size=20))


@case("noisy leaves, summed", ([3.0, 1.0, 2.0], [4.0, 0.0, 2.0]))
def _(scale, leaks, data, rng):
    noisy = np.array(data) + rng.laplace(scale=scale, size=3)
    return (noisy[:1] if leaks else noisy).sum()


@case("two Gaussian numbers added", claim=GAUSSIAN)
def _(scale, leaks, data, rng):
    return data + rng.normal(scale=scale * 0.75) + rng.normal(scale=scale * 0.75)


@case("little and much Laplace noise added")
def _(scale, leaks, data, rng):
    return data + rng.laplace(scale=0.5 * scale) + rng.laplace(scale=2.0 * scale)


@case("a noisy number released with more noise")
def _(scale, leaks, data, rng):
    noisy = data + rng.laplace(scale=0.5 * scale)
    return 3.0 + 2.0 * noisy + rng.laplace(scale=4.0 * scale)


@case("a part of a noisy array that does not move", COUNTS)
def _(scale, leaks, data, rng):
    return (np.array(data) + rng.laplace(size=3))[1 if leaks else 0]


@case("a part of a list of noisy numbers that does not move", COUNTS)
def _(scale, leaks, data, rng):
    return [value + rng.laplace() for value in data][2 if leaks else 0]


@case("difference of noisy numbers that move alike")
def _(scale, leaks, data, rng):
    first = 3.0 * data + rng.laplace(scale=scale)
    return first - ((0.0 if leaks else 3.0) * data + rng.laplace(scale=scale))


@case("ratio of noisy numbers")
def _(scale, leaks, data, rng):
    count = data + rng.laplace(scale=2.0 * scale)
    return (data + rng.laplace(scale=2.0 * scale)) / (1.0 if leaks else max(count, 1.0))


@case("greatest of noisy numbers", ([3.0, 1.0, 2.0], [4.0, 1.0, 2.0]))
def _(scale, leaks, data, rng):
    return max(value + rng.laplace(scale=scale) for value in data)


@case("median of noisy numbers", ([3.0, 1.0, 2.0], [3.0, 1.0, 3.0]))
def _(scale, leaks, data, rng):
    return np.median(np.array(data) + rng.laplace(scale=scale, size=3))


@case("which noisy number is the greatest", COUNTS)
def _(scale, leaks, data, rng):
    return int(np.argmax(np.array(data) + rng.laplace(scale=(0.3 if leaks else 4.0), size=3)))


@case("rounded")
def _(scale, leaks, data, rng):
    return round(data + rng.laplace(scale=scale), 1)


@case("clipped")
def _(scale, leaks, data, rng):
    return min(max(data + rng.laplace(scale=scale), 0.0), 4.0)


@case("clipped to a single number")
def _(scale, leaks, data, rng):
    return float(np.clip(6.0 * data + rng.laplace(scale=scale), 0.0, 0.0 if not leaks else 99.0))


@case("branch on a noisy number")
def _(scale, leaks, data, rng):
    noisy = data + rng.laplace(scale=scale)
    return noisy if noisy > 2.0 else 0.0


@case("branch on a noisy number made a float")
def _(scale, leaks, data, rng):
    noisy = float(3.0 * data + rng.laplace(scale=scale))
    return noisy if leaks else (0.0 if noisy > -1e9 else noisy)


@case("noise multiplied")
def _(scale, leaks, data, rng):
    return 7.0 * (data + scale * rng.laplace())


@case("noise of one draw in two fields")
def _(scale, leaks, data, rng):
    noisy = data + rng.laplace(scale=scale)
    return {"first": noisy, "again": 2.0 * noisy + 1.0}


@case("one draw added twice")
def _(scale, leaks, data, rng):
    noise = rng.laplace(scale=scale)
    return data + noise, 5.0 + data + noise


@case("noise of two generators with one seed")
def _(scale, leaks, data, rng):
    seed = int.from_bytes(rng.bytes(8), "big")
    return tuple(data + np.random.default_rng(seed).laplace(scale=scale) for _ in range(2))


@case("a private number that is not returned")
def _(scale, leaks, data, rng):
    noisy = 4.0 * data + rng.laplace(scale=scale)
    return noisy if leaks else data + rng.laplace()


@case("sampled with probability 1/2", (0.0, 1.0))
def _(scale, leaks, data, rng):
    kept = leaks or rng.random() < 0.5
    return kept * data + rng.laplace(scale=scale / SUBSAMPLED)


@case("written as text")
def _(scale, leaks, data, rng):
    return f"{data + rng.laplace(scale=scale):.1f}"


@case("a plain sum")
def _(scale, leaks, data, rng):
    return data + rng.laplace(scale=scale)


def verdict(name: str, leaks: bool, confidence: float, seed: int) -> str:
    """Trace one function with a certificate; return 'violated', 'consistent', or the message of the refusal."""
    function, pair, claim = CASES[name](leaks)
    try:
        found = trace(function, pair, claim=claim, certify=True, trials=TRIALS, confidence=confidence, seed=seed)
    except AuditError as error:
        return str(error)
    return "violated" if found.refuted else "consistent"

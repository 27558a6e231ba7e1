"""The laws and mechanisms on which the league compares auditors, and how their outputs become numbers.

Most of the compared estimators accept numbers only. A vector is turned into a number as in DP-Sniper (Bichsel et al.
2021), by a logistic regression on its coordinates; a symbol is turned into a number by how often it occurs on each
dataset, as in a histogram. Both rules are learned from separate draws, which do not count as runs. No published rule
exists for text, records and lists of different lengths, so estimators that take numbers are not run on these. The cases
stand in a module of their own because the league and its tests share them.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epsaudit import ApproxDP, Claim, DatasetPair, Mechanism, PureDP, vectorized
from epsaudit.array_types import Floats
from epsaudit.experiments import benchmark_rows, scores
from epsaudit.experiments.black_box_functions import BOXES
from epsaudit.experiments.estimators import FIXED, Draw
from epsaudit.experiments.oracle import tails_of
from epsaudit.experiments.sequential_published import published
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.registry import entries
from epsaudit.mechanisms.response import RandomisedResponse

NAMES: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("league.toml").read_text(encoding="utf-8"))
LEARNED_FROM, MOST_SYMBOLS = 20_000, 200
"""Number of draws, of both datasets together, from which the rule that turns outputs into numbers is learned; and the
largest number of different symbols. Outputs with more different symbols are treated as text."""


@dataclass(frozen=True)
class Case:
    """A mechanism with a pair and a claim on which estimators are compared.

    If the output laws are unknown but the probabilities of the best event are known, ``rates`` holds these
    probabilities under x and under x'.
    """

    group: str
    name: str
    mechanism: Mechanism
    pair: DatasetPair
    claim: Claim
    rates: tuple[float, float] | None = None

    @property
    def point(self) -> tuple[float, float]:
        """Epsilon and delta of the claim, or NaN for a claim that is not stated as epsilon and delta."""
        return self.claim.claimed_point or (math.nan, math.nan)

    def sides(self) -> list[Any]:
        """Return the output laws on both datasets of the pair."""
        return [self.mechanism(self.pair.x), self.mechanism(self.pair.x_prime)]

    def tails(self) -> Floats | None:
        """Return the tail probabilities that the oracle needs, or None if the output laws are unknown."""
        if self.rates is not None:
            p, q = self.rates
            return np.array([[1.0, 1.0 - p], [1.0, 1.0 - q], [p, 1.0], [q, 1.0]])
        sides = self.sides()
        known = all(exact.knows_law(side) and callable(getattr(side, "log_density", None)) for side in sides)
        return tails_of(*sides, draws=100_000)[0] if known else None

    def numbers(self, seed: int) -> Draw | None:
        """Return a function ``draw(side, size, rng)`` that draws outputs as numbers.

        The result is None if the outputs cannot become numbers.

        Side 0 is the dataset on which the numbers tend to be higher; this may be either dataset of the pair. The
        numbers are shifted and scaled so that the threshold with the best Clopper-Pearson bound lies at 1/2 and the
        quartiles are 1 apart.
        """
        rng, sides = np.random.default_rng([seed, LEARNED_FROM]), self.sides()
        read = reader(*(side.sample(LEARNED_FROM // 2, rng) for side in sides))
        if read is None:
            return None
        numbers = [read(side.sample(LEARNED_FROM // 2, rng)) for side in sides]
        seen = {}
        for first, sign in ((0, 1.0), (1, -1.0), (0, -1.0), (1, 1.0)):
            high, low = sign * numbers[first], sign * numbers[1 - first]
            values = np.unique(np.quantile([*high, *low], np.linspace(0.0, 1.0, 200), method="nearest"))
            at = (values[1:] + values[:-1]) / 2.0 if len(values) > 1 else values
            bounds = scores.at_thresholds(high, low, at, self.claim, 0.05)
            seen[first, sign] = float(np.max(bounds)), float(at[np.argmax(bounds)])
        first, sign = max(seen, key=lambda way: seen[way][0])
        threshold, spread = seen[first, sign][1], float(np.diff(np.quantile(numbers[0], [0.25, 0.75]))[0]) or 1.0

        def draw(side: int, size: int, rng: np.random.Generator) -> Floats:
            return np.asarray((sign * read(sides[side ^ first].sample(size, rng)) - threshold) / spread + FIXED)

        return draw


def reader(outputs: Any, outputs_prime: Any) -> Callable[[Any], Floats] | None:
    """Return a function that turns outputs into numbers, learned from outputs on both datasets.

    The result is None if there is no published rule for outputs of this kind.

    Examples
    --------
    >>> reader(np.array([1, 2]), np.array([2, 3]))(np.array([4]))
    array([4.])
    >>> reader(np.array(["a", "a"], object), np.array(["a", "b"], object))(np.array(["b", "a"], object)).round(2)
    array([-1.1 ,  0.51])
    """
    if not all(isinstance(one, np.ndarray) for one in (outputs, outputs_prime)):
        return None
    if outputs.dtype.kind not in "biuf":
        try:
            counts, counts_prime = (Counter(one.tolist()) for one in (outputs, outputs_prime))
        except TypeError:  # lists and mappings cannot be counted as symbols
            return None
        if len(counts | counts_prime) > MOST_SYMBOLS:
            return None
        return lambda given: np.array([math.log((counts[y] + 0.5) / (counts_prime[y] + 0.5)) for y in given.tolist()])
    if outputs.ndim == 1:
        return lambda given: np.nan_to_num(np.asarray(given, float), nan=-1.0, posinf=1e9, neginf=-1e9)

    def coordinates(given: Any) -> Floats:
        """Return the coordinates and, as in DP-Sniper, an indicator of whether each coordinate is a finite number."""
        flat = np.asarray(given, float).reshape(len(given), -1)
        return np.concatenate([np.where(np.isfinite(flat), flat, -1.0), ~np.isfinite(flat)], axis=1)

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    features = [coordinates(one) for one in (outputs, outputs_prime)]
    model.fit(np.concatenate(features), np.repeat([1, 0], [len(one) for one in features]))
    return lambda given: np.asarray(model.decision_function(coordinates(given)))


def clipped(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
    """Return Laplace samples clipped to [0, 1].

    The two point masses at the ends hold most of the probability, and the pair of laws attains epsilon 1.
    """
    high, low = scores.shifted(rng, size, "laplace", 1.0)
    return np.clip(high, 0.0, 1.0), np.clip(low, 0.0, 1.0)


def alike(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
    """Return samples of a binomial law with five values, which is the same on both datasets."""
    return rng.binomial(4, 0.5, size) + 0.0, rng.binomial(4, 0.5, size) + 0.0


LAWS = (
    *(law for law in scores.LAWS if law.claim.claimed_point is not None),
    scores.Law("five values alike", PureDP(0.0), alike),
    scores.Law("point masses", PureDP(1.0), clipped),
    scores.Law("rarer event", PureDP(1.0), partial(scores.rare, share=0.005)),
)
"""Three laws of this module, and seven laws of the study of scores. The other laws of that study are one of the seven
under a claim of another kind."""


@cache
def cases() -> dict[str, Case]:
    """Return all cases by name.

    The cases are four known laws, ten cases from each list of `NAMES`, and the mechanisms in published tables of other
    sequential auditors.
    """
    known: dict[str, tuple[Mechanism, Claim]] = {
        "Laplace, epsilon 1": (Laplace(1.0), PureDP(1.0)),
        "randomised response, epsilon 3": (RandomisedResponse(3.0), PureDP(3.0)),
        "discrete Laplace, epsilon 0.5": (DiscreteLaplace(0.5), PureDP(0.5)),
        "Gaussian, (1, 1e-5)": (Gaussian(1.0, 1e-5), ApproxDP(1.0, 1e-5)),
    }
    found = [Case("known law", name, one, one.worst_pairs()[0], claim) for name, (one, claim) in known.items()]
    rows = {row.name: row for row in benchmark_rows.rows()}
    for name in NAMES["public benchmark"]:
        found.append(Case("public benchmark", name, rows[name].mechanism, rows[name].pair, PureDP(0.1)))
    for name in NAMES["output of a system"]:
        box = BOXES[name]
        mechanism = vectorized(box.draw, claim=PureDP(0.3), name=name)
        found.append(Case("output of a system", name, mechanism, DatasetPair(0, 1), PureDP(0.3), box.rates))
    for one in published():
        if one.claim.claimed_point is not None:
            found.append(Case("published", one.name, one.mechanism, one.mechanism.worst_pairs()[0], one.claim))
    broken = {entry.name: entry for entry in entries()}
    for name in NAMES["incorrect variant"]:
        entry = broken[f"broken/{name}"]
        pair = (entry.pairs or entry.mechanism.worst_pairs())[0]
        found.append(Case("incorrect variant", name.replace("-", " "), entry.mechanism, pair, entry.claim))
    return {case.name: case for case in found}


@cache
def mst_mu(epsilon: float = 1.0, delta: float = 1e-2) -> float:
    """Return the parameter mu of MST's Gaussian noise.

    The noise satisfies the largest zCDP that implies the claim (Canonne, Kamath and Steinke 2020).

    >>> round(mst_mu(), 4)
    0.4548
    """

    def excess(rho: float) -> float:
        def at(order: float) -> float:
            return (order - 1.0) * (order * rho - epsilon) + order * math.log1p(-1.0 / order) - math.log(order - 1.0)

        least = minimize_scalar(at, bounds=(1.01, 1_000.0), method="bounded", options={"xatol": 1e-10})
        return float(least.fun) - math.log(delta)

    return math.sqrt(2.0 * brentq(excess, 1e-4, epsilon))


def mst(data: Any, size: int, rng: np.random.Generator) -> Floats:
    """Return the noisy marginals from which MST fits its model, shape (size, 6).

    The setting is that of Ganev, Annamalai and Kulynych (2026). The data have three binary columns. The whole budget is
    spent on the marginals of the columns, a third on each, so that no tree has to be chosen. The model and the records
    that MST writes are post-processing of these marginals.
    """
    marginals = np.stack([np.sum(data == bit, axis=0) for bit in (0, 1)], axis=-1).ravel()
    return np.asarray(marginals + rng.normal(scale=math.sqrt(3.0) / mst_mu(), size=(size, 6)))


MST_PAIR = DatasetPair(np.zeros((10, 3), int), np.vstack([np.ones((1, 3), int), np.zeros((10, 3), int)]))

"""Tests of single steps of DP-SGD: who sees an update guesses whether the batch held a few more crafted examples.

Each test is valid for every step that is private, however it clips, scales and adds noise, and names the part at fault.
Theorem, proof and limits: docs/explanation/theory.md#single-steps-of-dp-sgd.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr

from epsaudit.claims.conversions import Floats
from epsaudit.errors import AuditError
from epsaudit.running.streams import stream
from epsaudit.tools.training.canaries import HUGE

MICRO = 4
"""[chosen] Parts into which a batch is accumulated."""
SLACK = 1e-4
"""[chosen] Share by which single precision may exceed the clipping norm."""
MOST_ROWS = 64
"""[time] Examples of a crafted batch: the tests do not need more, and each one costs time in every step."""
MOST_GROUP = 64
"""[memory] Examples that are added to a batch at a time."""
LEARNING, SELECTING = 120, 40
"""[measured] Updates that a test learns its guess from, and those by which it compares candidates. With these, all
incorrect variants of tests/audit/test_check_training.py are refuted with each of 20 seeds."""
CLEARLY = 1.2
"""[chosen] How many times stronger a guess must be that is less easily explained, to be preferred."""
LAG = 240
"""[formula] Repeated noise is looked for at a multiple of 240 steps: most periods up to 20 divide 240."""
SEPARATION = 3.0
"""[formula] Standard deviations by which a group may move an update: near 3 a guess tells most of the noise, for there
x phi(x / 2) / sqrt(Phi(x / 2) Phi(-x / 2)) is greatest."""
MOST_STEPS = 20
"""[time] How many times ``steps`` a test may take, if fewer right guesses could refute nothing."""
TESTS = 20
"""[chosen] About as many tests share the level: they decide how many guesses are made, but not what refutes."""
NORMS = (0.5, 0.8, *np.geomspace(1.1, HUGE, 20).tolist())
"""[chosen] Norms of an added example, in clipping norms: up to a factor of 1.4 apart."""
ORDER = ("noise", "clipping", "normaliser", "accumulation")  # in which tests are listed
Step = Callable[[Sequence[Floats]], ArrayLike]
"""Takes arrays of gradients, shape (examples, dimensions), one for each part accumulated; returns the noisy mean."""


@dataclass(frozen=True)
class Part:
    """One test of one part of training."""

    name: str
    """'noise', 'clipping', 'normaliser', 'accumulation', 'sampler' or 'accountant'."""
    asked: str
    """What must hold."""
    seen: str
    p_value: float
    """Probability at most of what was seen, or more, where it holds; 0 where it is no matter of chance."""


@dataclass(frozen=True)
class Optimiser:
    """A step, and what is claimed of it. Updates are multiplied by ``batch / clip``: sums, in clipping norms."""

    step: Step
    clip: float
    noise: float
    batch: float
    sizes: tuple[int, ...]
    steps: int
    level: float
    """Probability that a test refutes a private step at most."""
    seed: int

    @property
    def dimensions(self) -> int:
        return sum(self.sizes)

    @property
    def rows(self) -> int:
        return min(max(MICRO, round(self.batch)), MOST_ROWS)

    @functools.cached_property
    def places(self) -> list[slice]:
        """Where each parameter lies in the gradient."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(low, high) for low, high in itertools.pairwise(ends)]

    def alternating(self, places: Sequence[slice]) -> Floats:
        """Return a unit vector with equal weight in each of these parameters, and in each signs in turn."""
        vector = np.zeros(self.dimensions)
        for place in places:
            signs = 1.0 - 2.0 * (np.arange(place.stop - place.start) % 2)
            vector[place] = signs / math.sqrt(len(signs) * len(places))
        return vector

    @functools.cached_property
    def everywhere(self) -> Floats:
        return self.alternating(self.places)

    @functools.cached_property
    def level_direction(self) -> Floats:
        """A unit vector of equal numbers, for the gradients of other examples."""
        return np.full(self.dimensions, 1.0 / math.sqrt(self.dimensions))

    def group(self, separation: float = SEPARATION) -> int:
        """Return how many examples, added together, make a loss of about this many standard deviations."""
        return max(1, min(math.floor(separation * self.noise), MOST_GROUP))

    def right(self, group: int) -> float:
        """Return the greatest probability of a right guess that a private step allows."""
        return float(ndtr(group * (1.0 + SLACK) / self.noise / 2.0))

    def p_value(self, right: int, guesses: int, group: int) -> float:
        """Return an upper bound on the probability of ``right`` or more right guesses, if the step is private."""
        return float(bdtrc(right - 1, guesses, self.right(group))) if right else 1.0

    def guesses(self, group: int, steps: int) -> int:
        """Return how many guesses a test makes: enough to refute a step without noise.

        Raises `AuditError` if the noise multiplier is so small that this takes too many.
        """
        wrong = max(1.0 - self.right(group), 1e-300)
        least = math.ceil(1.2 * math.log(self.level) / math.log1p(-wrong))
        if least > MOST_STEPS * self.steps:
            raise AuditError(
                f"noise is {self.noise:g}: so little noise hides nearly nothing, and a step without any would be "
                f"refuted only by {least:,} right guesses in a test. Give steps={math.ceil(least / MOST_STEPS):,}."
            )
        return max(least, steps)


@dataclass(frozen=True, eq=False)
class Probe:
    """Two batches: the second one holds the first one and ``group`` crafted examples."""

    name: str
    """The part that is at fault if the test refutes, unless what was measured says otherwise."""
    asked: str
    example: Floats
    """Gradient of each example that may be added, in clipping norms."""
    group: int
    other: Floats
    """Gradient of each of the other examples, in clipping norms."""
    rows: int
    """Number of other examples."""
    first: Floats | None = None
    """Gradient of the first of the other examples, where it has one of its own."""
    parts: int = 1

    @functools.cached_property
    def batches(self) -> tuple[Floats, Floats]:
        """Gradients without and with the group, in clipping norms."""
        others = np.tile(self.other, (self.rows, 1))
        if self.first is not None:
            others[0] = self.first
        return others, np.concatenate([np.tile(self.example, (self.group, 1)), others])

    def directions(self) -> list[Floats]:
        """Return unit vectors along which the group may move the sum: its own, and that of the others."""
        lengths = [(one, float(np.linalg.norm(one))) for one in (self.example, self.other)]
        return [one / length for one, length in lengths if length > 0.0]

    def sum(self, optimiser: Optimiser, included: bool) -> Floats:
        """Make one step, and return the noisy sum in clipping norms."""
        gradients = self.batches[included] * optimiser.clip  # new: a step may write into it
        with np.errstate(all="ignore"):  # normalised gradients of zeros
            update = np.asarray(optimiser.step(np.array_split(gradients, self.parts)), float)
        if update.shape != (optimiser.dimensions,):
            raise AuditError(f"The update has shape {update.shape}; it must be ({optimiser.dimensions},).")
        # what is not finite counts as zero: normalised gradients of zeros are, with and without other examples
        return np.where(np.isfinite(update), update, 0.0) * (optimiser.batch / optimiser.clip)

    def sums(self, optimiser: Optimiser, number: int) -> tuple[Floats, Floats]:
        """Make ``number`` steps, in turns without and with the group; return both, shape (number / 2, dimensions)."""
        found = np.array([self.sum(optimiser, bool(one % 2)) for one in range(number)])
        return found[::2], found[1::2]


@dataclass(frozen=True, eq=False)
class Guess:
    """A rule by which an update is taken for one of a batch with the group."""

    centre: Floats
    weights: Floats | None
    """The update is projected on these; None for the sum of squares of its differences from the centre."""
    scale: Floats
    threshold: float
    above: bool
    strength: float
    """How many standard deviations both kinds of updates lie apart from the threshold, as far as learnt."""

    def values(self, sums: Floats) -> Floats:
        """Return one number for each update, shape (n,)."""
        with np.errstate(all="ignore"):
            apart = (sums - self.centre) / self.scale
            return np.asarray(np.sum(apart**2, axis=-1) if self.weights is None else apart @ self.weights)

    def __call__(self, update: Floats) -> bool:
        return bool((self.values(update) > self.threshold) == self.above)


def _threshold(without: Floats, among: Floats) -> tuple[float, bool, float]:
    """Return the number that parts two normal samples best, whether the second is above it, and the strength."""
    means = np.array([without.mean(), among.mean()])
    deviations = np.array([without.std(), among.std()])
    total, apart = float(deviations.sum()), float(means[1] - means[0])
    if not math.isfinite(total) or not math.isfinite(apart) or apart == 0.0:
        return 0.0, True, 0.0
    # where one kind never varies, the threshold lies beside it
    low, high = np.maximum(deviations, 1e-3 * total) if total > 0.0 else (1.0, 1.0)
    strength = abs(apart) / total if total > 1e-12 * abs(apart) else math.inf
    return float((means[0] * high + means[1] * low) / (low + high)), apart > 0.0, strength


def learn(without: Floats, among: Floats, directions: Sequence[Floats]) -> Guess:
    """Return the best guess: half of the updates suggests weights, the other half chooses among them."""
    half = len(without) // 2
    means = [one[:half].mean(axis=0) for one in (without, among)]
    centre = without[:half].mean(axis=0)
    with np.errstate(all="ignore"):
        variance = (without[:half].var(axis=0) + among[:half].var(axis=0)) / 2.0
    # coordinates without noise weigh most; a coordinate that is always the same number tells nothing: its weight is 0
    most = float(np.max(variance, initial=0.0))
    scale = np.sqrt(np.maximum(variance, 1e-12 * most)) if most > 0.0 else np.ones_like(variance)
    frozen = (variance <= 1e-20 * most) & (np.abs(means[1] - means[0]) <= 1e-9 * np.abs(means[0]) + 1e-12)
    found = []
    for weights in (*directions, means[1] - means[0], None):
        scaled = None if weights is None else np.where(frozen, 0.0, weights / scale)
        guess = Guess(centre, scaled, scale, 0.0, True, 0.0)
        threshold, above, strength = _threshold(*(guess.values(one[half:]) for one in (without, among)))
        found.append(dataclasses.replace(guess, threshold=threshold, above=above, strength=strength))
    *linear, spread = found
    best = max(linear, key=lambda one: one.strength)
    return spread if spread.strength > CLEARLY * best.strength else best


def promise(optimiser: Optimiser, probe: Probe, strength: float) -> float:
    """Return by how many standard deviations the share of right guesses is expected to exceed the allowed share.

    The share is that of a guess of this strength.
    """
    allowed = optimiser.right(probe.group)
    return float((ndtr(strength) - allowed) / math.sqrt(allowed * (1.0 - allowed)))


def most_promising(optimiser: Optimiser, probes: Iterator[Probe]) -> Probe:
    """Return the candidate that tells most, by a few steps of each."""
    best, most = None, -math.inf
    for probe in probes:
        without, among = probe.sums(optimiser, SELECTING)
        strength = max(_threshold(without @ one, among @ one)[2] for one in probe.directions())
        learnt = learn(without, among, ()).strength  # of other directions, and of how much updates vary
        if (now := promise(optimiser, probe, learnt if learnt > CLEARLY * strength else strength)) > most or not best:
            best, most = probe, now
    assert best is not None
    return best


def tested(optimiser: Optimiser, probe: Probe, number: int) -> Part:
    """Learn a guess for a probe, and count how often it is right in new steps, whose batches coins choose."""
    without, among = probe.sums(optimiser, LEARNING)
    guess = learn(without, among, probe.directions())
    guesses = optimiser.guesses(probe.group, optimiser.steps)
    coins = stream(optimiser.seed, "training", number).random(guesses) < 0.5
    right = sum(guess(probe.sum(optimiser, bool(coin))) == coin for coin in coins)
    direction = probe.directions()[0] if guess.weights is None else guess.weights / guess.scale
    direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
    one, other = without @ direction, among @ direction
    moved = abs(float(np.mean(other) - np.mean(one))) / probe.group
    noise = math.sqrt((np.var(one) + np.var(other)) / 2.0) / optimiser.noise
    much = "no noise" if noise < 1e-6 else f"{noise:.3g} times the noise"
    added = "an added example moves" if probe.group == 1 else f"each of {probe.group} added examples moves"
    seen = f"{added} it by {moved:.3g} norms, beside {much}; {right:,} of {guesses:,} guesses were right"
    p = optimiser.p_value(right, guesses, probe.group)
    name = probe.name
    if p <= optimiser.level:
        name = _fault(optimiser, probe, math.inf if guess.weights is None else 1.0 / max(noise, 1e-300), moved)
    return Part(name, probe.asked, seen, p)


def _fault(optimiser: Optimiser, probe: Probe, noise: float, moved: float) -> str:
    """Name the part at fault: noise that is so many times too small, or a move that is so many times too large."""
    length = float(np.linalg.norm(probe.other))
    if probe.example @ probe.other < -1e-9:  # does what others give change where an example gives nothing?
        along, changes = probe.other / length, []
        for one in (probe, dataclasses.replace(probe, example=1e-6 * optimiser.everywhere)):
            without, among = one.sums(optimiser, LEARNING)
            changes.append(abs(float(np.mean(among @ along) - np.mean(without @ along))))
        if changes[1] > 0.25 * changes[0] and changes[1] > 0.5 * optimiser.noise:
            return "normaliser"
    return "noise" if noise >= moved else "clipping"


def step_parts(optimiser: Optimiser, accumulates: bool) -> list[Part]:
    """Test noise, clipping and normaliser of a step, and noise and clipping again where a batch is accumulated."""
    optimiser.guesses(optimiser.group(), optimiser.steps)  # refuses too little noise before any step
    numbers = itertools.count()
    again = (_beside, _norms, _influence)
    found = [tested(optimiser, probe(optimiser, 1), next(numbers)) for probe in again]
    found += [tested(optimiser, probe(optimiser), next(numbers)) for probe in (_weakest, _layers, _normaliser)]
    found += _fresh(optimiser, next(numbers))
    refuted = {part.name for part in found if part.p_value <= optimiser.level}
    for probe in again if accumulates else ():
        part = tested(optimiser, probe(optimiser, MICRO), next(numbers))
        # a fault that shows without accumulation keeps its name
        found.append(part if part.name in refuted else dataclasses.replace(part, name="accumulation"))
    return sorted(found, key=lambda part: ORDER.index(part.name))


def _probe(optimiser: Optimiser, parts: int, name: str, asked: str, example: Floats, **changed: Any) -> Probe:
    of = "" if parts == 1 else f", where {parts} parts are accumulated"
    other = optimiser.level_direction / 2.0
    given: dict[str, Any] = {
        "group": optimiser.group(),
        "other": other,
        "rows": optimiser.rows,
        "parts": parts,
    } | changed
    return Probe(name, asked + of, example, **given)


def _beside(optimiser: Optimiser, parts: int) -> Probe:
    """Other gradients of any norm: none, below, at and above the clipping norm, and one of them huge."""
    asked = "noise hides an example beside any other gradients"
    make = functools.partial(_probe, optimiser, parts, "noise", asked, HUGE * optimiser.everywhere)
    level = optimiser.level_direction
    candidates = [make(other=norm * level) for norm in (0.5, 0.0, 1.0, 2.0, HUGE)]
    return most_promising(optimiser, iter([*candidates, make(first=HUGE * level)]))


def _weakest(optimiser: Optimiser) -> Probe:
    """Directions in which there may be less noise than in others."""
    asked = "noise hides an example in every direction"
    sums = np.array([_beside_half(optimiser).sum(optimiser, False) for _ in range(LEARNING)])
    apart = sums - sums.mean(axis=0)
    variance = np.var(sums, axis=0)
    directions = [optimiser.everywhere]
    nothing = variance <= 1e-20 * max(float(variance.max()), 1e-300)
    if np.all(np.isfinite(variance)) and not nothing.all():
        coordinate = np.zeros(optimiser.dimensions)
        coordinate[np.argmin(np.where(nothing, np.inf, variance))] = 1.0
        directions.append(coordinate)
        if nothing.any():
            signs = np.where(nothing, 1.0 - 2.0 * (np.arange(len(variance)) % 2), 0.0)
            directions.append(signs / np.linalg.norm(signs))
        if 2 * optimiser.dimensions <= LEARNING:  # enough updates for a covariance
            directions.append(np.linalg.eigh(np.cov(sums.T).reshape(len(variance), -1))[1][:, 0])
        if (pair := _alike(optimiser, apart)) is not None:
            directions.append(pair)
    make = functools.partial(_probe, optimiser, 1, "noise", asked)
    return most_promising(optimiser, (make(HUGE * one) for one in directions))


def _beside_half(optimiser: Optimiser) -> Probe:
    return _probe(optimiser, 1, "noise", "", HUGE * optimiser.everywhere)


def _alike(optimiser: Optimiser, apart: Floats) -> Floats | None:
    """Return the difference, or sum, of the two parameters whose noise is most alike, as a unit vector."""
    best, most = None, 0.0
    for one, other in itertools.combinations(optimiser.places, 2):
        width = min(one.stop - one.start, other.stop - other.start)
        a, b = (slice(place.start, place.start + width) for place in (one, other))
        product = float(np.sum(apart[:, a] * apart[:, b]))
        alike = product / max(math.sqrt(float(np.sum(apart[:, a] ** 2) * np.sum(apart[:, b] ** 2))), 1e-300)
        if abs(alike) > most:
            most = abs(alike)
            best = optimiser.alternating([a, b])
            best[b] *= -np.sign(alike)
    return best


def _norms(optimiser: Optimiser, parts: int) -> Probe:
    asked = "an example of any norm moves the sum by one clipping norm at most"
    make = functools.partial(_probe, optimiser, parts, "clipping", asked)
    return most_promising(optimiser, (make(norm * optimiser.everywhere) for norm in NORMS))


def _layers(optimiser: Optimiser) -> Probe:
    asked = "an example moves each parameter by one clipping norm at most"
    make = functools.partial(_probe, optimiser, 1, "clipping", asked)
    return most_promising(optimiser, (make(HUGE * optimiser.alternating([place])) for place in optimiser.places))


def _influence(optimiser: Optimiser, parts: int) -> Probe:
    """Examples that may change what others give, in other directions and in the opposite one."""
    asked = "an example, with what it changes of others, moves the sum by one clipping norm at most"
    first = np.zeros(optimiser.dimensions)
    first[0] = 0.5
    level = optimiser.level_direction
    make = functools.partial(_probe, optimiser, parts, "clipping", asked)
    groups = sorted({1, optimiser.group()})
    return most_promising(
        optimiser,
        (
            make(-HUGE * level, other=other, group=group)
            for group, other in itertools.product(groups, (first, level / 2.0))
        ),
    )


def _normaliser(optimiser: Optimiser) -> Probe:
    """Examples against many others whose weight may depend on how many there are."""
    asked = f"the sum is divided by a constant, as the expected batch size of {optimiser.batch:g}"
    level, groups = optimiser.level_direction, sorted({1, optimiser.group()})
    rows = max(optimiser.rows, 4 * groups[-1])
    make = functools.partial(_probe, optimiser, 1, "normaliser", asked, HUGE * level, other=-HUGE * level, rows=rows)
    return most_promising(optimiser, (make(group=one) for one in groups))


def _fresh(optimiser: Optimiser, number: int) -> list[Part]:
    """Guess with the noise of earlier steps subtracted: of the step before, and of many steps before."""
    group = optimiser.group(1.0)  # noise that is known makes all guesses right: the less a group moves, the more
    probe = dataclasses.replace(_beside_half(optimiser), group=group)
    lag = LAG * math.ceil(optimiser.guesses(group, 3 * optimiser.steps // 4) / LAG)
    coins = stream(optimiser.seed, "training", number).random(3 * lag) < 0.5
    along = [optimiser.alternating([place]) for place in optimiser.places]
    sums = np.empty((3 * lag, len(along)))  # of each step in each parameter
    for place, coin in enumerate(coins):
        update = probe.sum(optimiser, bool(coin))
        sums[place] = [update @ one for one in along]
    first, later, last = slice(0, lag), slice(lag, 2 * lag), slice(2 * lag, 3 * lag)
    means = np.array([sums[first][coins[first] == which].mean(axis=0) for which in (False, True)])
    noise = sums - means[coins.astype(int)]
    found = []
    for apart, when in ((1, "one step"), (lag, f"{lag} steps")):
        fresh = sums.copy()
        fresh[lag:] -= noise[lag - apart : -apart]
        # what the second part teaches is tried on the third
        counts = []
        for values in (sums, fresh):
            without, among = (values[later][coins[later] == which] for which in (False, True))
            guess = learn(without, among, [means[1] - means[0]])
            counts.append(sum(guess(one) == coin for one, coin in zip(values[last], coins[last], strict=True)))
        plain, right = counts
        seen = f"less the noise of {when} before, {right:,} of {lag:,} guesses were right, else {plain:,}"
        # if they are right without the earlier noise, other tests say why
        p = optimiser.p_value(right, lag, group) if right > plain else 1.0
        found.append(Part("noise", "noise is fresh in each step", seen, p))
    return found

"""Tests of single steps of DP-SGD: an observer guesses from an update whether the batch contained added examples.

Each test is valid for every private step, no matter how the step clips, scales and adds noise. A test that refutes the
step also names the faulty part. Theorem, proof and limits: docs/explanation/theory.md#single-steps-of-dp-sgd.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from epsaudit.array_types import Floats
from epsaudit.running.streams import stream
from epsaudit.tools.training.canaries import HUGE_NORM
from epsaudit.tools.training.guesses import PREFERENCE_FACTOR, best_threshold, learn_guess
from epsaudit.tools.training.probes import ACCUMULATED_PARTS, Optimiser, Probe

LEARNING_STEPS, SELECTION_STEPS = 120, 40
"""[measured] Number of updates from which a test learns its guess, and number of updates by which it compares candidate
batches. With these numbers all incorrect variants of tests/audit/test_check_training.py are refuted with each of 20
seeds."""
LAG_MULTIPLE = 240
"""[formula] A test looks for repeated noise at a distance of a multiple of 240 steps, because most periods up to 20
divide 240."""
EXAMPLE_NORMS = (0.5, 0.8, *np.geomspace(1.1, HUGE_NORM, 20).tolist())
"""[chosen] Norms of an added example that the clipping test tries, in clipping norms. Neighbouring norms differ by a
factor of at most 1.4."""
PART_ORDER = ("noise", "clipping", "normaliser", "accumulation")  # the order of the tests in a report


@dataclass(frozen=True)
class Part:
    """The result of one test of one part of DP-SGD, such as its noise or its clipping."""

    name: str
    """'noise', 'clipping', 'normaliser', 'accumulation', 'sampler' or 'accountant'."""
    requirement: str
    """What must hold for private training."""
    observation: str
    """What the test observed."""
    p_value: float
    """Upper bound on the probability of this observation, or a more extreme one, if the requirement holds. The value is
    0 if the observation proves the fault without any chance."""


def expected_excess(optimiser: Optimiser, probe: Probe, strength: float) -> float:
    """Return how far the expected share of correct guesses exceeds the share that a private step allows.

    The unit is the standard deviation of one guess. ``strength`` is that of the guessing rule; see `Guess.strength`.
    """
    allowed = optimiser.max_correct_probability(probe.group)
    return float((ndtr(strength) - allowed) / math.sqrt(allowed * (1.0 - allowed)))


def choose_most_informative(optimiser: Optimiser, probes: Iterator[Probe]) -> Probe:
    """Return the probe (pair of crafted batches) whose updates reveal best which of the two batches was used.

    A small number of steps with each probe decides.
    """
    best, most = None, -math.inf
    for probe in probes:
        without_group, with_group = probe.noisy_sums(optimiser, SELECTION_STEPS)
        strength = max(best_threshold(without_group @ one, with_group @ one)[2] for one in probe.directions())
        # the learnt rule also tries the difference of the means and the sum of squares
        learnt = learn_guess(without_group, with_group, ()).strength
        if learnt > PREFERENCE_FACTOR * strength:
            strength = learnt
        excess = expected_excess(optimiser, probe, strength)
        if best is None or excess > most:
            best, most = probe, excess
    assert best is not None
    return best


def run_test(optimiser: Optimiser, probe: Probe, number: int) -> Part:
    """Test a step of the optimiser with one probe, which is a pair of crafted batches, and return the result.

    First a guessing rule is learnt from training steps. Then fair coins choose a batch for each of many new steps, and
    the test counts how often the rule guesses the coin correctly. ``number`` selects the random stream of the coins.
    """
    without_group, with_group = probe.noisy_sums(optimiser, LEARNING_STEPS)
    guess = learn_guess(without_group, with_group, probe.directions())
    guesses = optimiser.n_guesses(probe.group, optimiser.steps)
    coins = stream(optimiser.seed, "training", number).random(guesses) < 0.5
    n_correct = sum(guess(probe.noisy_sum(optimiser, bool(coin))) == coin for coin in coins)
    direction = probe.directions()[0] if guess.weights is None else guess.weights / guess.scale
    direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
    one, other = without_group @ direction, with_group @ direction
    moved = abs(float(np.mean(other) - np.mean(one))) / probe.group
    noise = math.sqrt((np.var(one) + np.var(other)) / 2.0) / optimiser.noise
    much = "there is no noise" if noise < 1e-6 else f"the noise is {noise:.3g} times the claimed noise"
    added = "an added example moves" if probe.group == 1 else f"each of {probe.group} added examples moves"
    observation = f"{added} the sum by {moved:.3g} norms, and {much}; {n_correct:,} of {guesses:,} guesses were correct"
    p = optimiser.p_value(n_correct, guesses, probe.group)
    name = probe.name
    if p <= optimiser.level:
        name = _name_fault(optimiser, probe, math.inf if guess.weights is None else 1.0 / max(noise, 1e-300), moved)
    return Part(name, probe.requirement, observation, p)


def _name_fault(optimiser: Optimiser, probe: Probe, noise: float, moved: float) -> str:
    """Return the name of the faulty part ('noise', 'clipping' or 'normaliser') after a test has refuted the step.

    ``noise`` is the factor by which the noise is too small, and ``moved`` the number of clipping norms by which an
    added example moves the sum of gradients. The larger one of them is blamed: noise or clipping. It is the normaliser
    instead if the contribution of the other examples changes even when the added examples have nearly no gradient.
    """
    length = float(np.linalg.norm(probe.other))
    if probe.example @ probe.other < -1e-9:  # test whether the others change beside examples without gradient
        along, changes = probe.other / length, []
        for one in (probe, dataclasses.replace(probe, example=1e-6 * optimiser.full_direction)):
            without_group, with_group = one.noisy_sums(optimiser, LEARNING_STEPS)
            changes.append(abs(float(np.mean(with_group @ along) - np.mean(without_group @ along))))
        if changes[1] > 0.25 * changes[0] and changes[1] > 0.5 * optimiser.noise:
            return "normaliser"
    return "noise" if noise >= moved else "clipping"


def run_step_tests(optimiser: Optimiser, accumulates: bool) -> list[Part]:
    """Test the noise, clipping and normaliser of a step, and the accumulation of gradients if the step supports it.

    Returns one `Part` per test, in the order of `PART_ORDER`.
    """
    # raises an error before any step if there is too little noise
    optimiser.n_guesses(optimiser.group_size(), optimiser.steps)
    numbers = itertools.count()
    again = (_probe_beside_others, _probe_norms, _probe_influence)
    found = [run_test(optimiser, probe(optimiser, 1), next(numbers)) for probe in again]
    found += [
        run_test(optimiser, probe(optimiser), next(numbers))
        for probe in (_probe_weakest_direction, _probe_layers, _probe_normaliser)
    ]
    found += _test_fresh_noise(optimiser, next(numbers))
    refuted = {part.name for part in found if part.p_value <= optimiser.level}
    for probe in again if accumulates else ():
        part = run_test(optimiser, probe(optimiser, ACCUMULATED_PARTS), next(numbers))
        # a fault that is also found without accumulation keeps its name
        found.append(part if part.name in refuted else dataclasses.replace(part, name="accumulation"))
    return sorted(found, key=lambda part: PART_ORDER.index(part.name))


def _make_probe(
    optimiser: Optimiser, parts: int, name: str, requirement: str, example: Floats, **changed: Any
) -> Probe:
    """Return a probe, that is a pair of crafted batches, with the usual settings.

    Each added example has the gradient ``example``. ``changed`` contains fields of `Probe` that replace usual settings.
    """
    of = "" if parts == 1 else f", where {parts} parts are accumulated"
    other = optimiser.constant_direction / 2.0
    given: dict[str, Any] = {
        "group": optimiser.group_size(),
        "other": other,
        "n_others": optimiser.n_others,
        "parts": parts,
    } | changed
    return Probe(name, requirement + of, example, **given)


def _probe_beside_others(optimiser: Optimiser, parts: int) -> Probe:
    """Return a probe that tests whether noise hides added examples for any gradients of the other examples.

    A probe is a pair of crafted batches, of which the second contains the added examples. Several gradients of the
    other examples are tried: with norm 0, with a norm below, at or above the clipping norm, and with one huge gradient.
    The probe that reveals the added examples best is returned.
    """
    requirement = "noise hides an example, whatever the other gradients are"
    make = functools.partial(_make_probe, optimiser, parts, "noise", requirement, HUGE_NORM * optimiser.full_direction)
    level = optimiser.constant_direction
    candidates = [make(other=norm * level) for norm in (0.5, 0.0, 1.0, 2.0, HUGE_NORM)]
    return choose_most_informative(optimiser, iter([*candidates, make(first=HUGE_NORM * level)]))


def _probe_weakest_direction(optimiser: Optimiser) -> Probe:
    """Return a probe that tests whether the noise is large enough in every direction.

    A probe is a pair of crafted batches, of which the second contains added examples. Their gradients have the
    direction with the least noise. Several directions are tried, which are estimated from updates without the added
    examples: the coordinate with the smallest variance, the coordinates without noise, the last principal component,
    and two parameters whose noise is correlated.
    """
    requirement = "noise hides an example in every direction"
    sums = np.array([_default_probe(optimiser).noisy_sum(optimiser, False) for _ in range(LEARNING_STEPS)])
    apart = sums - sums.mean(axis=0)
    variance = np.var(sums, axis=0)
    directions = [optimiser.full_direction]
    nothing = variance <= 1e-20 * max(float(variance.max()), 1e-300)
    if np.all(np.isfinite(variance)) and not nothing.all():
        coordinate = np.zeros(optimiser.dimensions)
        coordinate[np.argmin(np.where(nothing, np.inf, variance))] = 1.0
        directions.append(coordinate)
        if nothing.any():
            signs = np.where(nothing, 1.0 - 2.0 * (np.arange(len(variance)) % 2), 0.0)
            directions.append(signs / np.linalg.norm(signs))
        if 2 * optimiser.dimensions <= LEARNING_STEPS:  # enough updates for a covariance
            directions.append(np.linalg.eigh(np.cov(sums.T).reshape(len(variance), -1))[1][:, 0])
        if (pair := _most_correlated_direction(optimiser, apart)) is not None:
            directions.append(pair)
    make = functools.partial(_make_probe, optimiser, 1, "noise", requirement)
    return choose_most_informative(optimiser, (make(HUGE_NORM * one) for one in directions))


def _default_probe(optimiser: Optimiser) -> Probe:
    """Return a probe with the usual settings, that is a pair of crafted batches that differ in added examples.

    The gradients of the added examples have the direction `Optimiser.full_direction`.
    """
    return _make_probe(optimiser, 1, "noise", "", HUGE_NORM * optimiser.full_direction)


def _most_correlated_direction(optimiser: Optimiser, apart: Floats) -> Floats | None:
    """Return a unit vector along which the noise of the two most correlated parameters cancels.

    ``apart`` contains noisy sums of gradients minus their mean. The vector is the difference of the two parameters if
    their noise is positively correlated, and their sum otherwise. Returns None if no parameters are correlated.
    """
    best, most = None, 0.0
    for one, other in itertools.combinations(optimiser.slices, 2):
        width = min(one.stop - one.start, other.stop - other.start)
        a, b = (slice(place.start, place.start + width) for place in (one, other))
        product = float(np.sum(apart[:, a] * apart[:, b]))
        alike = product / max(math.sqrt(float(np.sum(apart[:, a] ** 2) * np.sum(apart[:, b] ** 2))), 1e-300)
        if abs(alike) > most:
            most = abs(alike)
            best = optimiser.alternating_direction([a, b])
            best[b] *= -np.sign(alike)
    return best


def _probe_norms(optimiser: Optimiser, parts: int) -> Probe:
    """Return a probe that tests the clipping of gradients of any norm.

    A probe is a pair of crafted batches that differ in added examples. Several norms of the added examples are tried;
    the norm that reveals them best is chosen.
    """
    requirement = "an example of any norm moves the sum by one clipping norm at most"
    make = functools.partial(_make_probe, optimiser, parts, "clipping", requirement)
    return choose_most_informative(optimiser, (make(norm * optimiser.full_direction) for norm in EXAMPLE_NORMS))


def _probe_layers(optimiser: Optimiser) -> Probe:
    """Return a probe that tests whether a gradient in only one parameter (layer) is clipped correctly.

    A probe is a pair of crafted batches that differ in added examples. All parameters are tried; the one that reveals
    the added examples best is chosen.
    """
    requirement = "an example moves each parameter by one clipping norm at most"
    make = functools.partial(_make_probe, optimiser, 1, "clipping", requirement)
    return choose_most_informative(
        optimiser, (make(HUGE_NORM * optimiser.alternating_direction([place])) for place in optimiser.slices)
    )


def _probe_influence(optimiser: Optimiser, parts: int) -> Probe:
    """Return a probe that tests whether added examples change the contribution of the other examples to the sum.

    A probe is a pair of crafted batches that differ in added examples. The gradients of the other examples are opposite
    to those of the added examples, or have another direction.
    """
    requirement = "an example, with its effect on other examples, moves the sum by one clipping norm at most"
    first = np.zeros(optimiser.dimensions)
    first[0] = 0.5
    level = optimiser.constant_direction
    make = functools.partial(_make_probe, optimiser, parts, "clipping", requirement)
    groups = sorted({1, optimiser.group_size()})
    return choose_most_informative(
        optimiser,
        (
            make(-HUGE_NORM * level, other=other, group=group)
            for group, other in itertools.product(groups, (first, level / 2.0))
        ),
    )


def _probe_normaliser(optimiser: Optimiser) -> Probe:
    """Return a probe that tests whether the sum of gradients is divided by a constant.

    A probe is a pair of crafted batches that differ in added examples. This probe has a large number of other examples:
    if the divisor depends on the size of the batch, the added examples change the weight of all of them.
    """
    requirement = f"the sum is divided by a constant, as the expected batch size of {optimiser.batch:g}"
    level, groups = optimiser.constant_direction, sorted({1, optimiser.group_size()})
    rows = max(optimiser.n_others, 4 * groups[-1])
    make = functools.partial(
        _make_probe, optimiser, 1, "normaliser", requirement, HUGE_NORM * level, other=-HUGE_NORM * level, n_others=rows
    )
    return choose_most_informative(optimiser, (make(group=one) for one in groups))


def _test_fresh_noise(optimiser: Optimiser, number: int) -> list[Part]:
    """Test whether the step repeats its noise: in the next step, or after a large number of steps.

    For this, the noise of an earlier step is subtracted from an update before guessing. If more guesses are then
    correct than a private step allows, the noise is not fresh. Returns one result for each of the two distances.
    ``number`` is the number of the random stream of the coins.
    """
    # Known noise makes all guesses correct, and a private step allows fewer correct guesses for a smaller group.
    group = optimiser.group_size(1.0)
    probe = dataclasses.replace(_default_probe(optimiser), group=group)
    lag = LAG_MULTIPLE * math.ceil(optimiser.n_guesses(group, 3 * optimiser.steps // 4) / LAG_MULTIPLE)
    coins = stream(optimiser.seed, "training", number).random(3 * lag) < 0.5
    along = [optimiser.alternating_direction([place]) for place in optimiser.slices]
    sums = np.empty((3 * lag, len(along)))  # the update of each step in the direction of each parameter
    for place, coin in enumerate(coins):
        update = probe.noisy_sum(optimiser, bool(coin))
        sums[place] = [update @ one for one in along]
    first, later, last = slice(0, lag), slice(lag, 2 * lag), slice(2 * lag, 3 * lag)
    means = np.array([sums[first][coins[first] == which].mean(axis=0) for which in (False, True)])
    noise = sums - means[coins.astype(int)]
    found = []
    for apart, when in ((1, "one step"), (lag, f"{lag} steps")):
        fresh = sums.copy()
        fresh[lag:] -= noise[lag - apart : -apart]
        # the second third of the steps teaches the guess, and the last third counts its correct guesses
        counts = []
        for values in (sums, fresh):
            without_group, with_group = (values[later][coins[later] == which] for which in (False, True))
            guess = learn_guess(without_group, with_group, [means[1] - means[0]])
            counts.append(sum(guess(one) == coin for one, coin in zip(values[last], coins[last], strict=True)))
        plain, n_correct = counts
        observation = (
            f"after subtraction of the noise of {when} before, {n_correct:,} of {lag:,} guesses were correct, and "
            f"{plain:,} without subtraction"
        )
        # if guesses are as good without subtraction of the earlier noise, other tests report the fault
        p = optimiser.p_value(n_correct, lag, group) if n_correct > plain else 1.0
        found.append(Part("noise", "noise is fresh in each step", observation, p))
    return found

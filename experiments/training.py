"""Certified beside accounted epsilon of private training, over noise, canaries, threat models and models.

Small models are trained on digits by DP-SGD with full batches, for which the accounting is exact. The certified share
of the accounted epsilon depends on what the auditor sees (every step, or only the model), on the canary, and on the
kind of audit: many trainings with one canary, or one training with many canaries. A second table compares with numbers
of others that can be computed without their data. A third part measures how often a mechanism that satisfies its claim
is refuted if its canaries are wrongly declared independent. Expected: one gradient in 10^4 trainings certifies half of
the accounted epsilon, and nine tenths on the curve; one training with many canaries certifies a third or less; a
mislabelled digit certifies a fifth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom

from epsaudit import ApproxDP, AuditError, GaussianDP, PureDP, audit_one_run, audit_scores
from epsaudit.array_types import Floats
from epsaudit.bounds.one_run import epsilon_bound, parameter_bound
from epsaudit.claims.conversions import gaussian_accuracy, root
from epsaudit.experiments.small_model import SmallModel
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_table
from epsaudit.mechanisms.dp_sgd import poisson_claim
from epsaudit.mechanisms.one_run import NoisyVectorSum
from epsaudit.tools.reporting import figures
from epsaudit.tools.reporting.tables import TableColumn
from epsaudit.tools.training import (
    Canaries,
    audit_training,
    blank,
    dirac_gradients,
    learnt,
    mislabelled,
    random_gradients,
)

DELTA, CONFIDENCE = 1e-5, 0.95
RECORDS, STEPS = 120, 20
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
WHITE, BLACK = ("gradient", "all"), ("loss", "last")
SEES = {
    WHITE: "all iterates",
    BLACK: "the model",
    ("loss", "all"): "losses of all models",
    ("reference", "last"): "the model, reference",
}
MANY, ONE = "many trainings, one canary", "one training, many canaries"
COLUMNS = (
    TableColumn("asked", "audited by"),
    TableColumn("model", "model"),
    TableColumn("canary", "canary"),
    TableColumn("sees", "sees"),
    TableColumn("canaries", "canaries", "count"),
    TableColumn("trainings", "trainings", "count"),
    TableColumn("accounted", "accounted", "upper"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("share", "share", "lower"),
    TableColumn("curve", "of the curve", "lower"),
)
OTHERS = (
    TableColumn("source", "source"),
    TableColumn("setting", "setting"),
    TableColumn("theirs", "theirs", "exact"),
    TableColumn("here", "here", "exact"),
    TableColumn("why", "why"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Train and audit, compute the numbers that others print, and write data, two tables and a figure to ``out``."""
    runs, seeds = (200, 1) if quick else (1_000, 3)
    cases = [(case, seed, 1 if case[-1] > runs else seeds) for case in grid(runs)]
    trained = on_all_cores(lambda case: audit_case(*case), cases, cost=lambda case: case[0][-1] * case[2])
    theirs = list(compare_with_others(seed, quick))
    sizes = [(mu, number) for mu in (1.0, 2.0) for number in (50, 100, 200)]
    refuted = on_all_cores(
        lambda size: count_refutations(*size, seed, 40 if quick else 200), sizes, cost=lambda size: size[1]
    )
    rows = [{"part": "training", **row} for row in trained] + [{"part": "others", **row} for row in theirs]
    rows += [{"part": "independence", **row} for row in refuted]
    write_data(out, rows, seed=seed, seeds=seeds, confidence=CONFIDENCE, delta=DELTA)
    write_table(
        out,
        trained,
        COLUMNS,
        f"Epsilon at delta = {DELTA:g} certified at {CONFIDENCE:.0%} confidence of DP-SGD on {RECORDS} digits, "
        f"in {STEPS} full batches, beside the accounted one; medians of {seeds} audits, of {10 * runs:,} trainings "
        "one. The last column is epsilon of the certified mu-GDP curve: a bound only since the curve is known to be "
        "Gaussian.",
    )
    caption = f"Bounds of others at {CONFIDENCE:.0%} confidence, and what is certified here in the same setting."
    write_table(out, theirs, OTHERS, caption, name="others")
    write_figure(out / "training", draw(trained))
    return answer(trained, theirs, refuted)


@cache
def digits() -> tuple[Floats, NDArray[np.int64]]:
    """Load scikit-learn's digits: images of 8 by 8 pixels with values from 0 to 1, and their labels."""
    from sklearn.datasets import load_digits

    images, targets = load_digits(return_X_y=True)
    return images / 16.0, targets


def data() -> tuple[Floats, NDArray[np.int64]]:
    """Return the digits of the training set."""
    images, targets = digits()
    return images[:RECORDS], targets[:RECORDS]


def trainer(epsilon: float, model: str = "logistic") -> SmallModel:
    """Return a DP-SGD trainer whose accounted epsilon is the given one."""
    noise = math.sqrt(STEPS) / float(GaussianDP(1.0).least_at(epsilon, DELTA))
    settings: dict[str, Any] = {"steps": STEPS, "rate": 1.0, "noise": noise, "examples": RECORDS, "delta": DELTA}
    return SmallModel(inputs=64, classes=10, kind=model, hidden=4, learning_rate=2.0, at_once=100, **settings)


def canaries(kind: str, number: int, model: SmallModel, seed: int) -> Canaries:
    """Return the canaries of a row.

    Canaries of the kind 'learnt' are chosen in separate trainings.
    """
    rng = np.random.default_rng([seed, 7])
    match kind:
        case "Dirac gradient":
            return dirac_gradients(number, model.dimensions)
        case "random gradient":
            return random_gradients(number, model.dimensions, rng)
        case "blank":
            return blank(data(), number)
        case "mislabelled":
            return mislabelled(others_digits(), number, rng)
    candidates = mislabelled(others_digits(), 20, rng)
    return learnt(model, data(), candidates, number, score="reference", runs=60, seed=seed + 1_000)


def others_digits() -> tuple[Floats, NDArray[np.int64]]:
    """Return the digits that are not in the training set."""
    images, targets = digits()
    return images[RECORDS:], targets[RECORDS:]


Case = tuple[str, float, str, str, tuple[str, str], int, int]


def grid(runs: int) -> Iterator[Case]:
    """Yield the cases of the study.

    A case is the kind of audit, the accounted epsilon, the model, the canary, what the auditor sees, the number of
    canaries, and the number of trainings.
    """
    for case in kinds():
        yield *case, runs if case[0] == MANY else 1
    for sees in (WHITE, BLACK):
        yield MANY, 4.0, "logistic", "blank", sees, 1, 10 * runs
    yield MANY, 4.0, "logistic", "Dirac gradient", WHITE, 1, 10 * runs


def kinds() -> Iterator[tuple[str, float, str, str, tuple[str, str], int]]:
    """Yield the cases without the number of trainings."""
    for epsilon in EPSILONS:
        for kind, sees in (("Dirac gradient", WHITE), ("blank", WHITE), ("blank", BLACK), ("mislabelled", BLACK)):
            yield MANY, epsilon, "logistic", kind, sees, 1
        yield ONE, epsilon, "logistic", "Dirac gradient", WHITE, 650
    for kind in ("random gradient", "mislabelled", "learnt"):
        for sees in (WHITE, *([] if kind == "random gradient" else [("reference", "last"), ("loss", "all")])):
            yield MANY, 4.0, "logistic", kind, sees, 1
    for model in ("two layers", "convolution"):
        yield MANY, 4.0, model, "Dirac gradient", WHITE, 1
        yield MANY, 4.0, model, "blank", BLACK, 1
        yield ONE, 4.0, model, "Dirac gradient", WHITE, trainer(4.0, model).dimensions
    for number in (65, 162, 325, 1_300, 5_200):
        yield ONE, 4.0, "logistic", "Dirac gradient", WHITE, number
    for kind, sees in (("mislabelled", ("reference", "last")), ("mislabelled", WHITE), ("random gradient", WHITE)):
        yield ONE, 4.0, "logistic", kind, sees, 650


def audit_case(case: Case, seed: int, seeds: int) -> dict[str, Any]:
    """Audit one case with several seeds, for the claim at one delta and for the whole curve, and return its row."""
    asked, epsilon, kind, canary, (score, iterates), number, times = case
    model, found, curve = trainer(epsilon, kind), [], []
    for one in range(seed, seed + seeds):
        made = canaries(canary, number, model, one)
        terms: dict[str, Any] = {"canaries": made, "score": score, "iterates": iterates, "runs": times, "seed": one}
        whole = audit_training(model, data(), claim=GaussianDP(model.mu), **terms)
        claim = ApproxDP(epsilon, DELTA)
        # counts of many trainings do not depend on the claim, but the guesses in one training do
        point = replace(whole, claim=claim) if asked == MANY else audit_training(model, data(), claim=claim, **terms)
        found.append(point.lower_bound)
        curve.append(GaussianDP(whole.lower_bound).approximate(DELTA).epsilon if whole.lower_bound > 0.0 else 0.0)
    certified = statistics.median(found)
    sees = SEES[score, iterates]
    facts = {"asked": asked, "model": kind, "canary": canary, "sees": sees, "canaries": number, "trainings": times}
    shown = {"certified": certified, "share": certified / epsilon, "curve": statistics.median(curve)}
    return {**facts, "accounted": epsilon, **shown}


def compare_with_others(seed: int, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield the numbers that others print, and the numbers certified here in the same setting.

    Each row also says why the two differ.
    """
    seeds = range(seed, seed + (1 if quick else 3))
    fewer = slice(0, 1 if quick else None)
    for shift, theirs in ((1.0, 1.133), (2.0, 2.312), (4.0, 4.396))[fewer]:
        here, best = quantiles(shift, curve=False)
        setting = f"shift {shift:g}, (epsilon, 1e-6), one run"
        why = f"theirs guesses in alone, at a level over the number of thresholds; the best of all, unpaid, {best:.3f}"
        yield row("jax-privacy 2.0.0", setting, theirs, here, why)
    for shift, theirs in ((1.0, 2.165), (2.0, 4.722), (4.0, 9.134))[fewer]:
        here, best = quantiles(shift, curve=True)
        why = f"the same; the best of all, unpaid, {best:.3f}"
        yield row("jax-privacy 2.0.0", f"shift {shift:g}, f-DP, one run", theirs, here, why)
    table = ((0.5, 10**5, 8.16), (1.0, 10**5, 3.61), (2.0, 10**5, 1.59), (4.0, 10**6, 0.82))
    for sigma, number, theirs in table[fewer]:
        mechanism = NoisyVectorSum(1.0 / sigma, number)
        bounds = on_all_cores(lambda one, summed=mechanism: audit_one_run(summed, seed=one).lower_bound, seeds)
        here = GaussianDP(statistics.median(bounds)).approximate(DELTA).epsilon
        best = GaussianDP(best_expected_mu(sigma, number)).approximate(DELTA).epsilon
        why = f"the number of guesses is planned; the best of all numbers, expected and unpaid, gives {best:.2f}"
        yield row("Mahloujifar et al. 2025", f"sigma {sigma:g}, {number:,} canaries", theirs, here, why)
    for a_coordinate, theirs in ((1, 0.49), (8, 0.62)):
        audits = range(seed, seed + (20 if quick else 100))
        bounds = on_all_cores(lambda one, width=a_coordinate: keinan(width, one), audits)
        spread = statistics.stdev(bounds) / math.sqrt(len(bounds))
        why = f"mean of {len(bounds)} audits, standard error {spread:.3f}; noise by privacy loss distributions"
        yield row("Keinan et al. 2025", f"{a_coordinate} a coordinate", theirs, statistics.mean(bounds), why)
    model = trainer(10.0)
    for name, sees, theirs in (("MNIST", BLACK, 0.72), ("CIFAR-10", ("loss", "all"), 0.70)):
        terms: dict[str, Any] = {"score": sees[0], "iterates": sees[1], "runs": 400 if quick else 2_000, "seed": seed}
        found = audit_training(model, data(), canaries=blank(data()), claim=GaussianDP(model.mu), **terms)
        here = GaussianDP(found.lower_bound).approximate(DELTA).epsilon / 10.0
        why = f"a share: a blank canary, {sees[1]} iterates, digits in place of {name}, no start made to favour it"
        yield row("Annamalai and De Cristofaro 2024", f"share at epsilon 10, {name}", theirs, here, why)


def row(source: str, setting: str, theirs: float, here: float, why: str) -> dict[str, Any]:
    """Return the row of one number of others."""
    return {"source": source, "setting": setting, "theirs": theirs, "here": here, "why": why}


def quantiles(shift: float, curve: bool, number: int = 10_000, delta: float = 1e-6) -> tuple[float, float]:
    """Return the bound certified from scores at exact normal quantiles, and the best value over all thresholds.

    The second value is not a bound, because it is the best of many without a correction.
    """
    base = ndtri((np.arange(number) + 0.5) / number)
    members, values = np.repeat([True, False], number), np.concatenate([base + shift, base])
    claimed = GaussianDP(shift)
    if curve:
        # exactly half of the canaries are members, which the audit notes; here it counts as a split by fair coins
        found = audit_scores(members, values, claim=GaussianDP(shift / 4.0), seed=0).lower_bound
        here = GaussianDP(found).approximate(delta).epsilon
    else:
        here = audit_scores(members, values, claim=ApproxDP(0.5, delta), seed=0).lower_bound
    best = 0.0
    for guesses in np.unique(np.geomspace(8, number, 30).astype(int)):
        right = int(np.sum(members[np.argsort(-values, kind="stable")[:guesses]]))
        if curve:
            mu = parameter_bound(claimed, 2 * number, int(guesses), right, CONFIDENCE)
            best = max(best, GaussianDP(mu).approximate(delta).epsilon if mu > 0.0 else 0.0)
        else:
            best = max(best, epsilon_bound(2 * number, int(guesses), right, delta, CONFIDENCE, "binomial"))
    return here, best


def best_expected_mu(sigma: float, number: int) -> float:
    """Return the largest mu that the expected counts of correct guesses give, over all numbers of guesses."""
    best, mu = 0.0, 1.0 / sigma
    for share in np.geomspace(1e-4, 0.5, 40):
        guesses = 2 * max(4, round(number * share / 2.0))
        right = int(guesses * gaussian_accuracy(np.array([guesses / number]), mu).item())
        best = max(best, parameter_bound(GaussianDP(mu), number, guesses, right, CONFIDENCE))
    return best


@cache
def noise_for(epsilon: float, rate: float, steps: int) -> float:
    """Return the noise multiplier for which dp-accounting computes the given epsilon."""

    def excess(log_noise: float) -> float:
        return poisson_claim(rate, math.exp(log_noise), steps, DELTA).epsilon - epsilon

    return math.exp(root(excess, math.log(0.3), math.log(20.0), xtol=1e-9))


def keinan(a_coordinate: int, seed: int, dimensions: int = 1000, steps: int = 100, rate: float = 0.1) -> float:
    """Return the bound from one run of DP-SGD on unit canaries, by 100 guesses, as in figure 2 of Keinan et al.

    Each coordinate has ``a_coordinate`` canaries.
    """
    rng = np.random.default_rng([seed, a_coordinate])
    canary = np.arange(dimensions * a_coordinate)
    included = rng.random(len(canary)) < 0.5
    moved = np.bincount(canary % dimensions, rng.binomial(steps, rate, len(canary)) * included, dimensions)
    sums = moved + noise_for(2.0, rate, steps) * math.sqrt(steps) * rng.standard_normal(dimensions)
    asked: dict[str, Any] = {"claim": ApproxDP(2.0, DELTA), "guesses": 100, "method": "binomial", "seed": seed}
    return audit_scores(included, sums[canary % dimensions], **asked).lower_bound


@cache
def joint_response(mu: float) -> tuple[float, float]:
    """Return epsilon and probability of the worst joint answer that mu-GDP allows.

    With this probability, a mechanism may answer all canaries at once by randomised response with this epsilon.
    """
    best = (0.0, 0.0, 0.0)
    for epsilon in np.linspace(0.5, 3.5, 31):
        at = np.linspace(0.0, epsilon, 200)[:-1]
        chance = 0.999 * min(1.0, min(GaussianDP(mu).profile(e) / PureDP(epsilon).profile(e) for e in at))
        merit = chance * binom.sf(binom.isf(0.05, 200, ndtr(mu / 2.0)), 200, expit(epsilon))
        best = max(best, (float(merit), float(epsilon), float(chance)))
    return best[1:]


def count_refutations(mu: float, number: int, seed: int, audits: int) -> dict[str, Any]:
    """Return how often a mu-GDP mechanism is refuted, with its canaries declared independent and without."""
    epsilon, chance = joint_response(mu)
    rule = ours = bound = 0
    for one in range(seed, seed + audits):
        rng = np.random.default_rng([one, number, round(10 * mu)])
        included = rng.random(number) < 0.5
        true = rng.random(number) < (expit(epsilon) if rng.random() < chance else 0.5)
        scores = np.where(included == true, 1.0, -1.0)
        rule += int(true.sum()) > binom.isf(0.05, number, ndtr(mu / 2.0))
        ours += is_refuted(included, scores, mu, one, assume="independent")
        bound += is_refuted(included, scores, mu, one)
    facts = {"mu": mu, "canaries": number, "epsilon of all": epsilon, "chance": chance, "audits": audits}
    return {**facts, "rule": rule, "declared": ours, "one run": bound}


def is_refuted(included: NDArray[np.bool_], scores: Floats, mu: float, seed: int, **assumed: Any) -> bool:
    """Return whether a true claim is refuted. A refusal, for example because coins look halved, does not count."""
    try:
        return audit_scores(included, scores, claim=GaussianDP(mu), seed=seed, **assumed).violates_claim
    except AuditError:
        return False


@figures.styled()
def draw(rows: Sequence[dict[str, Any]]) -> figures.Figure:
    """Draw certified against accounted epsilon by canary and threat model, and by the number of canaries."""
    figure = figures.new_figure(figures.TWO_COLUMNS, 3.4)
    left, right = figure.subplots(1, 2)
    lines = (
        (MANY, "Dirac gradient", "all iterates"),
        (MANY, "blank", "all iterates"),
        (MANY, "blank", "the model"),
        (MANY, "mislabelled", "the model"),
        (ONE, "Dirac gradient", "all iterates"),
    )
    for wanted, marker in zip(lines, figures.MARKERS, strict=False):
        seen = [r for r in select_rows(rows, *wanted) if r["canaries"] in (1, 650)]  # rows of longer audits come last
        line = sorted({r["accounted"]: r["certified"] for r in reversed(seen)}.items())
        left.plot(*zip(*line, strict=True), marker=marker, markersize=3, linewidth=0.9, label=", ".join(wanted))
    left.plot(EPSILONS, EPSILONS, **figures.CLAIMED, label="accounted")
    left.set_xscale("log", base=2)
    left.set(
        xticks=EPSILONS,
        xticklabels=[f"{one:g}" for one in EPSILONS],
        xlabel="accounted ε at δ = 1e-5",
        ylabel="certified ε",
    )
    four = [r for r in select_rows(rows, ONE, "Dirac gradient", "all iterates") if r["accounted"] == 4.0]
    by = sorted((r["canaries"], r["certified"], r["curve"]) for r in four)
    for place, name in ((1, "(ε, δ) claimed"), (2, "curve claimed")):
        right.plot([one[0] for one in by], [one[place] for one in by], marker=figures.MARKERS[place], label=name)
    right.axhline(4.0, **figures.CLAIMED)
    right.set(xscale="log", xlabel="canaries of one training, one gradient each", ylabel="certified ε")
    right.legend()
    figures.place_legend_below(figure, 2)
    return figure


def select_rows(rows: Sequence[dict[str, Any]], asked: str, canary: str, sees: str) -> list[dict[str, Any]]:
    """Return the rows of the logistic model with the given kind of audit, canary and view."""
    wanted = (asked, "logistic", canary, sees)
    return [r for r in rows if (r["asked"], r["model"], r["canary"], r["sees"]) == wanted]


def answer(
    trained: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], refuted: Sequence[dict[str, Any]]
) -> str:
    """Return a text on the certified shares, the numbers of others, and the cost of declared independence."""

    def shares(asked: str, canary: str, sees: str) -> str:
        found = [r["share"] for r in select_rows(trained, asked, canary, sees)]
        return f"{min(found):.2f} to {max(found):.2f}"

    def often(rule: str) -> list[float]:
        return [r[rule] / r["audits"] for r in refuted]

    ratios = [r["here"] / r["theirs"] for r in theirs]
    return (
        "Shares of the accounted epsilon that are certified of a logistic model: one gradient in many trainings "
        f"{shares(MANY, 'Dirac gradient', 'all iterates')}, a blank digit {shares(MANY, 'blank', 'all iterates')}, by "
        f"the model alone {shares(MANY, 'blank', 'the model')}, a mislabelled digit by the model alone "
        f"{shares(MANY, 'mislabelled', 'the model')}; one training with many gradients "
        f"{shares(ONE, 'Dirac gradient', 'all iterates')}. Of {len(theirs)} numbers of others what is certified here "
        f"is {min(ratios):.2f} to {max(ratios):.2f} times theirs. A mechanism that satisfies its claim is rejected by "
        f"the rule for independent canaries in {min(often('rule')):.0%} to {max(often('rule')):.0%} of audits at a "
        f"nominal 5 %, by audit_scores with independence declared in up to {max(often('declared')):.0%}, and by bounds "
        f"of one run in at most {max(often('one run')):.1%}."
    )

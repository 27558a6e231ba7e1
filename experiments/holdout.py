"""Certified leakage of models and synthetic tables, from the split into a train part and a holdout alone.

Tables that packages ship are split at random. Something is computed from the train part: a model, or a synthetic
table. `audit_holdout` certifies a lower bound on epsilon under substitution, without training anything again. Some
releases have a claim, stated for substitution or for adding or removing a record. A release that satisfies its claim
has to stay below it, and releases that break their claim have to exceed it. Expected: copies of records, forests and
boosted trees leak much; models with few parameters leak less; noisy marginals leak nothing that is seen.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from epsaudit import ApproxDP, Claim, PureDP, audit_holdout
from epsaudit.array_types import Floats, Ints
from epsaudit.experiments.small_model import SmallModel
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_table
from epsaudit.text import SYMBOLS, nearest
from epsaudit.tools.holdout import read_tables, score_records
from epsaudit.tools.reporting.figures import BLUE, TWO_COLUMNS, VERMILION, new_figure, place_legend_below, styled
from epsaudit.tools.reporting.tables import TableColumn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIDENCE, DELTA, SPLITS = 0.95, 1e-5, 3
BINS = 8
"""[chosen] Number of bins of each column of the noisy marginals. Their edges do not depend on the data."""
COLUMNS = (
    TableColumn("kind", "kind"),
    TableColumn("release", "release"),
    TableColumn("data", "data"),
    TableColumn("claim", "claim"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("least", "least", "lower"),
    TableColumn("most", "greatest", "lower"),
    TableColumn("guessed", "guessed", "number", 3),
    TableColumn("right", "of these right", "number", 3),
)


@dataclass(frozen=True)
class Release:
    """Something that is computed from the train part.

    Attributes
    ----------
    name : str
        Name in tables.
    make : callable
        For a synthetic table, ``make(train, targets, rng)`` returns its rows. For a model it returns a function that
        gives the probabilities of all classes for records.
    is_model : bool
        Whether the release is a model.
    claim : Claim or None
        What the release claims.
    adjacency : str
        The relation of the claim.
    broken : bool
        Whether the release breaks its claim.
    only : str
        Name of the table that shows how the claim is broken; empty for all tables.
    """

    name: str
    make: Callable[..., Any]
    is_model: bool = False
    claim: Claim | None = None
    adjacency: str = "substitution"
    broken: bool = False
    only: str = ""


def bootstrap(train: Floats, targets: Ints, rng: np.random.Generator) -> Floats:
    """Return as many records as there are, drawn with replacement."""
    return train[rng.integers(len(train), size=len(train))]


def copies(share: float) -> Callable[..., Floats]:
    """Return a release of copies of a share of the records."""
    return lambda train, targets, rng: train[rng.choice(len(train), round(share * len(train)), replace=False)]


def averages(train: Floats, targets: Ints, rng: np.random.Generator) -> Floats:
    """Return points between a record and one of its five nearest neighbours of the same class, as SMOTE draws them."""
    from sklearn.neighbors import NearestNeighbors

    made = []
    for target in np.unique(targets):
        part = train[targets == target]
        near = NearestNeighbors(n_neighbors=min(6, len(part))).fit(part).kneighbors(part, return_distance=False)
        first = rng.integers(len(part), size=len(part))
        second = near[first, rng.integers(1, near.shape[1], size=len(part))]
        made.append(part[first] + rng.random((len(part), 1)) * (part[second] - part[first]))
    return np.concatenate(made)


def mixture(components: int) -> Callable[..., Floats]:
    """Return a sampler of a Gaussian mixture with diagonal covariances that was fitted to the records."""

    def draw(train: Floats, targets: Ints, rng: np.random.Generator) -> Floats:
        from sklearn.mixture import GaussianMixture

        state = int(rng.integers(2**31))
        model = GaussianMixture(components, covariance_type="diag", reg_covar=1e-2, max_iter=30, random_state=state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the fit stopped early is part of what is audited
            return np.asarray(model.fit(train).sample(len(train))[0])

    return draw


def gaussian_copula(train: Floats, targets: Ints, rng: np.random.Generator) -> Floats:
    """Draw from a Gaussian copula with the correlations of normal scores and the empirical quantiles."""
    n = len(train)
    places = np.argsort(np.argsort(train, axis=0, kind="stable"), axis=0)
    scores = ndtri((places + 0.5) / n)
    drawn = rng.standard_normal(train.shape) @ np.linalg.cholesky(np.cov(scores.T) + 1e-6 * np.eye(train.shape[1])).T
    chosen = np.minimum((ndtr(drawn / drawn.std(axis=0)) * n).astype(int), n - 1)
    return np.take_along_axis(np.sort(train, axis=0), chosen, axis=0)


def noisy_marginals(epsilon: float, kept: float = 0.0, own_values: bool = False) -> Callable[..., Floats]:
    """Return a sampler of independent columns from histograms with Laplace noise, epsilon-DP under substitution.

    A substitution moves two counts of each column by one. There are two incorrect variants. One appends the share
    ``kept`` of the records, those that are farthest from the others. The other draws a value of the records in place of
    a number within the bin, as tools do that read the domain from the data.
    """

    def draw(train: Floats, targets: Ints, rng: np.random.Generator) -> Floats:
        n, d = train.shape
        edges = np.linspace(0.0, 1.0, BINS + 1)
        columns = []
        for column in train.T:
            counts = np.histogram(np.clip(column, 0.0, 1.0), edges)[0] + rng.laplace(scale=2.0 * d / epsilon, size=BINS)
            weights = np.maximum(counts, 0.0) + 1e-9
            bins = rng.choice(BINS, size=n, p=weights / weights.sum())
            if own_values:
                columns.append(np.quantile(column, (bins + rng.random(n)) / BINS, method="nearest"))
            else:
                columns.append((bins + rng.random(n)) / BINS)
        made = np.column_stack(columns)
        farthest = np.argsort(-np.abs(train - train.mean(axis=0)).sum(axis=1))[: round(kept * n)]
        return np.concatenate([made, train[farthest]])

    return draw


def fitted(name: str, **settings: Any) -> Callable[..., Any]:
    """Return a release that fits a classifier of scikit-learn and gives its probabilities."""

    def fit(train: Floats, targets: Ints, rng: np.random.Generator) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.neural_network import MLPClassifier

        kinds = (
            *(RandomForestClassifier, HistGradientBoostingClassifier, LogisticRegression, KNeighborsClassifier),
            MLPClassifier,
        )
        model = {one.__name__: one for one in kinds}[name](**settings)
        if "random_state" in model.get_params():
            model.set_params(random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an optimiser stopped early is part of what is audited
            return model.fit(train, targets).predict_proba

    return fit


def dp_sgd(epsilon: float) -> Callable[..., Any]:
    """Return a release of a two-layer network that was trained by DP-SGD on full batches."""

    def fit(train: Floats, targets: Ints, rng: np.random.Generator) -> Any:
        from epsaudit import GaussianDP

        steps = 300
        noise = np.sqrt(steps) / float(GaussianDP(1.0).least_at(epsilon, DELTA))
        model = SmallModel(
            inputs=train.shape[1], classes=int(targets.max()) + 1, kind="two layers", hidden=64, steps=steps, rate=1.0,
            noise=noise, examples=len(train), delta=DELTA, learning_rate=4.0,
        )  # fmt: skip
        parameters = model(train, targets, rng).parameters

        def probabilities(records: Floats) -> Floats:
            losses = [model.losses(parameters, records, np.full(len(records), one)) for one in range(model.classes)]
            return np.exp(-np.stack(losses, axis=1))

        return probabilities

    return fit


APPROXIMATE = ApproxDP(4.0, DELTA)
RELEASES = (
    Release("bootstrap", bootstrap),
    Release("copies of a tenth", copies(0.1)),
    Release("averages of neighbours (SMOTE)", averages),
    Release("Gaussian mixture, 200 components", mixture(200)),
    Release("Gaussian mixture, 10 components", mixture(10)),
    Release("Gaussian copula", gaussian_copula),
    Release("noisy marginals, epsilon 1", noisy_marginals(1.0), claim=PureDP(1.0)),
    Release("noisy marginals, epsilon 10", noisy_marginals(10.0), claim=PureDP(10.0)),
    Release(
        "noisy marginals, outliers kept", noisy_marginals(1.0, 0.05), False, PureDP(1.0), broken=True, only="digits"
    ),
    Release(
        "noisy marginals, values of the data", noisy_marginals(1.0, own_values=True), False, PureDP(1.0), broken=True,
        only="breast cancer",
    ),
    Release("random forest", fitted("RandomForestClassifier"), True),
    Release("gradient boosting", fitted("HistGradientBoostingClassifier", max_iter=40), True),
    Release("nearest neighbour", fitted("KNeighborsClassifier", n_neighbors=1), True),
    Release("logistic regression", fitted("LogisticRegression", max_iter=2_000), True),
    Release("network", fitted("MLPClassifier", hidden_layer_sizes=(256,), max_iter=200), True),
    Release("network, DP-SGD at epsilon 4", dp_sgd(4.0), True, APPROXIMATE, "add-remove"),
)  # fmt: skip


def tables() -> dict[str, tuple[Floats, Ints]]:
    """Return tables that scikit-learn ships, with the features scaled to [0, 1] by the ranges that are documented."""
    from sklearn.datasets import load_breast_cancer, load_digits

    digits, cancer = load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)
    low, high = cancer[0].min(axis=0), cancer[0].max(axis=0)  # these ranges are printed in the description of the data
    return {"digits": (digits[0] / 16.0, digits[1]), "breast cancer": ((cancer[0] - low) / (high - low), cancer[1])}


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit every release of every table for some splits, and write data, a table and a figure."""
    splits = 1 if quick else SPLITS
    releases = [one for one in RELEASES if not quick or one.name in ("copies of a tenth", "logistic regression")]
    data = [name for name in tables() if not quick or name == "breast cancer"]
    made = [(release, name) for release in releases for name in data if release.only in ("", name)]
    tasks = [(release, name, seed + split) for release, name in made for split in range(splits)]
    found = on_all_cores(lambda task: audit_release(*task), tasks, cost=lambda task: task[1] == "digits")
    rows = [
        summarise(release, name, [one for task, one in zip(tasks, found, strict=True) if task[:2] == (release, name)])
        for release, name in made
    ]
    write_data(out, rows, seed=seed, splits=splits, confidence=CONFIDENCE, delta=DELTA)
    caption = (
        f"Certified lower bounds on epsilon at {CONFIDENCE:.0%} confidence, for the relation of the claim or else for "
        f"substitution, of what was computed from one half of a table: medians of {splits} splits. The last columns "
        "are the share of the pairs that were guessed and the share of right guesses."
    )
    write_table(out, rows, COLUMNS, caption)
    write_figure(out / "holdout", draw(rows))
    return answer(rows)


def audit_release(release: Release, name: str, seed: int) -> dict[str, float]:
    """Split a table, make the release from the train part, and audit it."""
    records, targets = tables()[name]
    rng = np.random.default_rng([seed, 11])
    order = rng.permutation(len(records))
    train, holdout = order[: len(order) // 2], order[len(order) // 2 :]
    made = release.make(records[train], targets[train], rng)
    if release.is_model:
        scores = class_scores(made(records), targets)
        names = ["log probability of the class", "largest probability"]
    else:
        tables_read = read_tables({"records": _columns(records), "release": _columns(made)})
        scores, names, _ = score_records(tables_read["records"], tables_read["release"], seed)
    found = audit_holdout(
        scores[train],
        scores[holdout],
        claim=release.claim,
        adjacency=release.adjacency,
        confidence=CONFIDENCE,
        names=names,
        seed=seed,
    )
    return {
        "certified": found.lower_bound,
        "guessed": found.best.guesses / found.pairs,
        "right": found.accuracy,
    }


def class_scores(probabilities: Floats, targets: Ints) -> Floats:
    """Return the scores of every record: the logarithm of the probability of its class, and the largest probability."""
    known = np.clip(probabilities, 1e-9, 1.0)
    return np.column_stack([np.log(known[np.arange(len(targets)), targets]), known.max(axis=1)])


def _columns(table: Floats) -> dict[str, Floats]:
    """Return the columns of a table by name, rounded as files round them."""
    return {f"x{number}": column.round(6) for number, column in enumerate(table.T)}


def summarise(release: Release, name: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """Return the row of a release of a table: the median split, and the extremes."""
    bounds = [one["certified"] for one in found]
    middle = sorted(found, key=lambda one: one["certified"])[len(found) // 2]
    claim = "none" if release.claim is None else f"{release.claim}, {release.adjacency}"
    return {
        "kind": "model" if release.is_model else "table",
        "release": release.name,
        "data": name,
        "claim": claim,
        "claimed": None if release.claim is None else release.claim.parameter,
        "broken": release.broken,
        "certified": statistics.median_low(bounds),
        "least": min(bounds),
        "most": max(bounds),
        "guessed": middle["guessed"],
        "right": middle["right"],
    }


@styled()
def draw(rows: list[dict[str, Any]], tables: tuple[str, str] = ("digits", "breast cancer")) -> Figure:
    """Draw the bounds of all splits as lines with the median, one line for each release and table, beside claims."""
    names = list(dict.fromkeys(row["release"] for row in rows))
    figure = new_figure(TWO_COLUMNS, 0.8 + 0.24 * len(names))
    axes = figure.subplots()
    for place, (data, colour, marker) in enumerate(zip(tables, (VERMILION, BLUE), "os", strict=True)):
        mine = [row for row in rows if row["data"] == data]
        at = np.array([0.18 * (2 * place - 1) - names.index(row["release"]) for row in mine])
        axes.hlines(at, [row["least"] for row in mine], [row["most"] for row in mine], color=colour, linewidth=0.8)
        axes.plot([row["certified"] for row in mine], at, marker, color=colour, markersize=3.5, label=data)
    claimed = {row["release"]: row["claimed"] for row in rows if row["claimed"] is not None}
    axes.plot(list(claimed.values()), [-names.index(one) for one in claimed], "k|", markersize=11, label="claimed")
    axes.set_yticks([-place for place in range(len(names))], names)
    axes.set(xlabel=f"certified {SYMBOLS['epsilon']}", xlim=(-0.1, None))
    place_legend_below(figure, 3)
    return figure


def answer(rows: list[dict[str, Any]]) -> str:
    """Return a text on what was certified of releases with and without a claim."""
    sound = [row for row in rows if row["claimed"] is not None and not row["broken"]]
    broken = [row for row in rows if row["broken"]]
    above = sum(row["most"] > row["claimed"] for row in sound)
    refuted = sum(row["certified"] > row["claimed"] for row in broken)
    free = [row for row in rows if row["claimed"] is None]
    free.sort(key=lambda row: row["certified"], reverse=True)
    most = ", ".join(f"{row['release']} of {row['data']} {nearest(row['certified'])}" for row in free[:3])
    none = sum(row["certified"] == 0.0 for row in free)
    return (
        f"{above} of {len(sound)} releases that satisfy their claim exceed it in some split; {refuted} of "
        f"{len(broken)} that break it exceed it in the median split. Largest bounds without a claim: {most}; "
        f"{none} of {len(free)} have a median of 0."
    )

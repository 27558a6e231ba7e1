"""Hunts of functions whose faults no listed pair shows: rows of the study `plumbing`.

A hunt gets only a description of the data and has to find a pair itself. Each leaky function has a sound twin that
raises errors or moves its output in a similar way without violating the claim. The hunts have no deadline, so that
their results depend on the seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from epsaudit import AddRemove, ApproxDP, AuditError, Claim, PureDP, Substitution
from epsaudit.data.neighbours import Relation
from epsaudit.experiments.studies import on_all_cores
from epsaudit.tools.hunting.columns import Column
from epsaudit.tools.hunting.description import Description, Table, numbers
from epsaudit.tools.hunting.hunt import hunt
from epsaudit.tools.hunting.options import Options
from epsaudit.tools.hunting.parameters import candidates

HUNTS = 3
"""Number of hunts of each function, each with another seed."""
TRIED = 24
"""Number of candidate pairs in each hunt, spread evenly over all candidates that the description gives."""
CONFIDENCE = 0.9999
"""Confidence of each hunt; the audits of this study have the same."""


class Hunted(NamedTuple):
    """A function with its claim and the description of its data."""

    function: Callable[..., Any]
    kind: str
    """'sound' or 'leaky'."""
    description: Description
    relation: Relation = AddRemove
    claim: Claim = PureDP(1.0)


def raises_from_a_size_on(values: list[float], rng: np.random.Generator) -> float:
    """Raise an error on 13 or more records. Only a pair of datasets with 12 and 13 records shows this leak."""
    if len(values) >= 13:
        raise ZeroDivisionError("all weights are 0")
    return float(len(values) + rng.laplace())


def raises_by_chance(values: list[float], rng: np.random.Generator) -> float:
    """Raise an error in six of ten runs on any dataset. By chance, all screened runs of some candidates may raise."""
    if rng.random() < 0.6:
        raise ZeroDivisionError("bad luck")
    return float(len(values) + rng.laplace())


def raises_by_public_size(values: list[float], rng: np.random.Generator) -> float:
    """Raise an error on 13 or more records.

    This leaks nothing when a record is substituted, because the size of the dataset is then public.
    """
    if len(values) >= 13:
        raise ZeroDivisionError("all weights are 0")
    return float(np.clip(values, 0.0, 1.0).sum() + rng.laplace())


def normalised(values: list[list[float]], rng: np.random.Generator) -> Any:
    """Divide each record by its norm, so that a record of zeros raises an error."""
    return sum(row[0] / math.hypot(*row) for row in values) + rng.laplace()


def normalised_but_for_zeros(values: list[list[float]], rng: np.random.Generator) -> Any:
    """Divide each record by its norm, but leave a record of zeros unchanged."""
    return sum(row[0] / (math.hypot(*row) or 1.0) for row in values) + rng.laplace()


def gaussian(scale: float) -> Callable[..., Any]:
    """Return a function that clips a value to [-1, 1] and adds Gaussian noise of the given scale."""

    def upload(value: float, rng: np.random.Generator) -> float:
        return float(np.clip(value, -1.0, 1.0)) + rng.normal(scale=scale)

    return upload


NUMBERS, ROWS = numbers(0, 1), Table([Column("a", bounds=(-1, 1)), Column("b", bounds=(-1, 1))], beyond=False)
VALUE = Table([Column("a", bounds=(-1, 1))], "one", beyond=False)
CLASSICAL = math.sqrt(2.0 * math.log(1.25e5))
"""Scale of Gaussian noise for (1, 1e-5)-DP at sensitivity 1 (Dwork and Roth 2014, Theorem A.1)."""

FUNCTIONS: dict[str, Hunted] = {
    "raises from 13 records on": Hunted(raises_from_a_size_on, "leaky", NUMBERS),
    "raises by chance on all data": Hunted(raises_by_chance, "sound", NUMBERS),
    "raises by public size": Hunted(raises_by_public_size, "sound", NUMBERS, Substitution),
    "raises on a record of zeros": Hunted(normalised, "leaky", ROWS),
    "keeps a record of zeros": Hunted(normalised_but_for_zeros, "sound", ROWS),
    "noise for half of the sensitivity": Hunted(gaussian(CLASSICAL), "leaky", VALUE, Substitution, ApproxDP(1.0, 1e-5)),
    "noise for the sensitivity": Hunted(gaussian(2.0 * CLASSICAL), "sound", VALUE, Substitution, ApproxDP(1.0, 1e-5)),
}


def verdicts(seed: int, quick: bool = False) -> list[tuple[str, str, str, list[str]]]:
    """Hunt each function; return its name, its kind, the word 'hunt', and the verdict of each hunt.

    A verdict is 'violated', 'consistent', or the message with which the hunt is refused.
    """
    names, seeds = list(FUNCTIONS)[: 2 if quick else None], range(seed, seed + (1 if quick else HUNTS))
    found = on_all_cores(lambda job: verdict(*job), [(name, number) for name in names for number in seeds])
    each = [found[place : place + len(seeds)] for place in range(0, len(found), len(seeds))]
    return [(name, FUNCTIONS[name].kind, "hunt", some) for name, some in zip(names, each, strict=True)]


def verdict(name: str, seed: int) -> str:
    """Hunt one function with one seed, and return the verdict as text."""
    function, _, description, relation, claim = FUNCTIONS[name]
    listed = candidates(description, adjacency=relation)
    how: Any = {"adjacency": relation, "describe": description, "confidence": CONFIDENCE, "seed": seed, "n_jobs": 1}
    options = Options(**how, audits=3, trials=1_000, steps=0)
    try:
        found = hunt(function, listed[:: max(1, len(listed) // TRIED)], claim=claim, options=options)
    except AuditError as error:
        return str(error)
    return "violated" if found.refuted else "consistent"

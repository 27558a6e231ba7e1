"""Mechanisms of released libraries of which no fault is known, hunted from a schema as bugs are.

Those rows of the libraries' catalogue that are expected to hold are hunted besides, from their own pairs. python-dp
1.1.5 comes with PipelineDP. Tumult Core takes single values and series of pandas here, and starts no Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from epsaudit.claims.definitions import ZCDP, ApproxDP, PureDP
from epsaudit.experiments.hunts_targets import DIFFPRIVLIB, NUMBER, OPENDP, Target, categories, table
from epsaudit.experiments.libraries.rows import ONE

NEWEST, CURRENT, PIPELINE = "diffprivlib-0.6.6", "opendp-0.16.0", "pipeline-dp-0.3.1"
TUMULT = "tmlt-core-0.20.0"
UNIT = {"numbers": [0, 1]}
GOOGLE = "from pydp.algorithms import laplacian, numerical_mechanisms"
ENGINE = """import pipeline_dp as dp
COLUMNS = dp.DataExtractors(lambda row: row[0], lambda row: row[1], lambda row: row[2])
def of(metric, **bounds):
    bounds.update(max_partitions_contributed=1, max_contributions_per_partition=1)
    return dp.AggregateParams(metrics=[metric], **bounds)"""


def sound() -> list[Target]:
    """Return the mechanisms.

    Examples
    --------
    >>> sound()[0].name
    'pipeline-dp-0.3.1/python-dp-laplace'
    """
    return [*_of_google(), *_of_pipelines(), *_of_opendp(), *_of_diffprivlib(), *_of_tumult()]


def _of_google() -> Iterator[Target]:
    for name, given, claim in (
        ("Laplace", "epsilon=1.0, sensitivity=1.0", ONE),
        ("Gaussian", "1.0, 1e-5, 1.0", ApproxDP(1.0, 1e-5)),
    ):
        line = f"numerical_mechanisms.{name}Mechanism({given}).add_noise(data)"
        yield Target(PIPELINE, f"python-dp-{name.lower()}", GOOGLE, line, claim, NUMBER)
    count = 'laplacian.Count(epsilon=1.0, dtype="int").quick_result(data)'
    whole = {"columns": [{"name": "value", "type": "integer", "bounds": [0, 100]}], "beyond": False}  # of 32 bits
    yield Target(PIPELINE, "python-dp-count", GOOGLE, count, ONE, whole, "add-remove")
    for name in ("Sum", "Mean"):
        given = 'epsilon=1.0, lower_bound=0.0, upper_bound=1.0, dtype="float"'
        line = f"laplacian.Bounded{name}({given}).quick_result(data)"
        yield Target(PIPELINE, f"python-dp-bounded-{name.lower()}", GOOGLE, line, ONE, UNIT, "add-remove")


def _of_pipelines() -> Iterator[Target]:
    data = {
        "columns": [
            {"name": "person", "type": "category", "role": "owner"},
            {"name": "place", "type": "category", "categories": ["clinic", "office"]},
            {"name": "cost", "bounds": [0, 1]},
        ]
    }
    for name, given in (
        ("count", "of(dp.Metrics.COUNT)"),
        ("privacy-id-count", "of(dp.Metrics.PRIVACY_ID_COUNT)"),
        ("sum", "of(dp.Metrics.SUM, min_value=0.0, max_value=1.0)"),
    ):
        aggregate = f'aggregate(iter(data), {given}, COLUMNS, public_partitions=["clinic"])'  # a list may not be empty
        line = (
            "(budget := dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=0.0), "
            f"answer := dp.DPEngine(budget, dp.LocalBackend()).{aggregate}, budget.compute_budgets(), "
            'list(map(float, dict(answer)["clinic"]))[0])[-1]'
        )
        yield Target(PIPELINE, f"{name}-from-a-schema", ENGINE, line, ONE, data, "add-remove-person")


def _of_opendp() -> Iterator[Target]:
    floats = "dp.vector_domain(dp.atom_domain(T=float, nan=False))"
    for name, norm, claim in (("laplace", "l1", ONE), ("gaussian", "l2", ZCDP(0.5))):
        line = f"dp.m.make_{name}({floats}, dp.{norm}_distance(T=float), scale=1.0)(data)"
        data = {"answers": {"size": 3, "norm": norm}}
        yield Target(CURRENT, f"{name}-of-vectors", OPENDP, line, claim, data, witnesses="all")
    whole = "dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int), dp.max_divergence(), scale=1.0"
    line = f"dp.m.make_noisy_max({whole})(data)"
    scores = {"answers": {"size": 3, "integer": True, "bounds": [0, 100]}}
    yield Target(CURRENT, "noisy-max-from-a-schema", OPENDP, line, PureDP(2.0), scores)
    line = 'dp.m.make_randomized_response(categories=["a", "b", "c"], prob=0.5)(data)'
    one = {"symbols": ["a", "b", "c"], "form": "one"}
    yield Target(CURRENT, "response-of-three", OPENDP, line, PureDP(math.log(2.0)), one, "substitution")
    space = "dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()"
    total = f"(({space}) >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum() >> dp.m.then_laplace(scale=1.0))(data)"
    yield Target(CURRENT, "clamped-sum", OPENDP, total, ONE, UNIT, "add-remove")
    count = f"(({space}) >> dp.t.then_count() >> dp.m.then_laplace(scale=1.0))(data)"
    yield Target(CURRENT, "count", OPENDP, count, ONE, UNIT, "add-remove")


def _of_diffprivlib() -> Iterator[Target]:
    values = table(("value", 0, 1))
    for name in ("mean", "sum", "var"):
        line = f"tools.{name}(np.array(data, float), epsilon=1.0, bounds=(0.0, 1.0))"
        yield Target(NEWEST, f"{name}-from-a-schema", DIFFPRIVLIB, line, ONE, values, "substitution")
    line = "tools.histogram(np.array(data, float), epsilon=1.0, bins=2, range=(0.0, 1.0))[0]"
    yield Target(NEWEST, "histogram", DIFFPRIVLIB, line, ONE, UNIT, "add-remove")
    line = "tools.count_nonzero(np.array(data), epsilon=1.0)"
    yield Target(NEWEST, "count-nonzero", DIFFPRIVLIB, line, ONE, categories(0, 1, least=1), "substitution")
    line = "mechanisms.Geometric(epsilon=1.0, sensitivity=1).randomise(int(data))"
    yield Target(NEWEST, "geometric", DIFFPRIVLIB, line, ONE, {"answers": {"integer": True}}, witnesses="all")
    line = 'mechanisms.Binary(epsilon=1.0, value0="no", value1="yes").randomise(data)'
    yield Target(NEWEST, "binary", DIFFPRIVLIB, line, ONE, {"symbols": ["no", "yes"], "form": "one"}, "substitution")


def _of_tumult() -> Iterator[Target]:
    imports = """import numpy as np
import pandas as pd
from tmlt.core.domains.numpy_domains import NumpyFloatDomain
from tmlt.core.domains.pandas_domains import PandasSeriesDomain
from tmlt.core.measurements import noise_mechanisms as noise
from tmlt.core.measurements.pandas_measurements.series import NoisyQuantile
from tmlt.core.measures import PureDP"""
    for name, given, claim in (
        ("Laplace", "NumpyFloatDomain(), scale=1", ONE),
        ("Gaussian", "NumpyFloatDomain(), sigma_squared=1", ZCDP(0.5)),
    ):
        line = f"noise.Add{name}Noise({given})(np.float64(data))"
        yield Target(TUMULT, f"{name.lower()}", imports, line, claim, NUMBER, witnesses="all")
    for name, given, claim in (
        ("Geometric", "alpha=1", ONE),
        ("DiscreteGaussian", "sigma_squared=1", ZCDP(0.5)),
    ):
        line = f"noise.Add{name}Noise({given})(np.int64(data))"
        label = "discrete-gaussian" if "Gaussian" in name else "geometric"
        yield Target(TUMULT, label, imports, line, claim, {"answers": {"integer": True, "bounds": [0, 1000]}})
    given = "PandasSeriesDomain(NumpyFloatDomain()), PureDP(), quantile=0.5, lower=0, upper=1, epsilon=1"
    line = f"NoisyQuantile({given})(pd.Series(data, dtype=float))"
    within = {**table(("value", 0, 1), least=0), "beyond": False}  # infinities are outside its domain
    yield Target(TUMULT, "quantile", imports, line, ONE, within, "add-remove")

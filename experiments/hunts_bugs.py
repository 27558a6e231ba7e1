"""The affected rows of the corpus of library bugs, each as a user would hunt it: no pair is given.

Of every row of `epsaudit.experiments.libraries.registry` that is affected there is a `Target` of its name. What a user
knows of the data stands in the schema: bounds, categories, how many records there are, which relation the claim is for.
Functions are called as their documentation does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from epsaudit.claims.definitions import ApproxDP, PureDP
from epsaudit.experiments.hunts_targets import DIFFPRIVLIB, NUMBER, OPENDP, Target, categories, table
from epsaudit.experiments.libraries.catalogue import ABOVE
from epsaudit.experiments.libraries.rows import ONE

NEWEST, SYNTH = "diffprivlib-0.6.6", "smartnoise-synth-1.0"
APPROXIMATE = ApproxDP(1.0, 1e-5)
EARLY = """from opendp.mod import enable_features
from opendp.meas import make_base_laplace
enable_features("contrib", "floating-point")"""
COVARIANCE = """import importlib.util
import pandas as pd
FOLDER = importlib.util.find_spec("snsynth").submodule_search_locations[0]
SPEC = importlib.util.spec_from_file_location("dp_covariance", f"{FOLDER}/models/dp_covariance.py")
module = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(module)
UNIT = pd.DataFrame([[0.0, 0.0], [1.0, 1.0]])"""
TRANSFORMS = """import importlib.util, sys, types
for name in ("snsynth", "snsynth.transform", "snsql", "snsql.sql"):  # whose own imports need torch and databases
    root, _, below = name.partition(".")
    above = sys.modules[root].__path__ if below else importlib.util.find_spec(root).submodule_search_locations
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [f"{above[0]}/{below}"]
from snsynth.transform.standard import StandardScaler"""
PIPELINE = """import pipeline_dp as dp
COUNT = dp.AggregateParams(metrics=[dp.Metrics.COUNT], max_partitions_contributed=1, max_contributions_per_partition=1)
COLUMNS = dp.DataExtractors(lambda row: row[0], lambda row: row[1], lambda row: 0)"""
OPACUS = """import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset
def trained(data):
    model, rows = torch.nn.Linear(64, 1, bias=False), torch.tensor(data, dtype=torch.float32).reshape(-1, 1)
    torch.nn.init.zeros_(model.weight)
    given = dict(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), noise_multiplier=2.0)
    loader = DataLoader(TensorDataset(rows.repeat(1, 64)), batch_size=7)
    model, optimizer, loader = PrivacyEngine().make_private(data_loader=loader, max_grad_norm=1.0, **given)
    model(next(iter(loader))[0]).sum().backward()
    optimizer.step()
    return model.state_dict().popitem()[1].flatten()"""
STEP = ApproxDP(1.0405259697164877, 1e-5)
"""Opacus 1.6.0's own claim of one step at noise multiplier 2 and sampling rate 1/3, by its PRVAccountant."""


def bugs() -> list[Target]:
    """Return the affected rows.

    Examples
    --------
    >>> [one.name for one in bugs()][-2:], bugs()[-1].lines
    (['trasgodp-2.1.0/exponential', 'pipeline-dp-0.3.1/count'], 6)
    """
    return [*_last_bits(), *_of_diffprivlib(), *_of_opendp(), *_of_smartnoise(), *_of_others()]


def _last_bits() -> Iterator[Target]:
    """Noise in floating point, of versions whose documentation says that its last bits are safe or says nothing."""
    imports = "from diffprivlib import mechanisms"
    for version in ("0.3.0", "0.5.2", "0.6.6"):
        for kind, claim in (("Laplace", ONE), ("Gaussian", APPROXIMATE)):
            privacy = "1.0, 1e-5" if kind == "Gaussian" else "1.0"
            if version == "0.3.0":  # until which parameters are set one by one
                name = "set_epsilon_delta" if kind == "Gaussian" else "set_epsilon"
                line = f"mechanisms.{kind}().set_sensitivity(1).{name}({privacy}).randomise(data)"
            else:
                given = "epsilon=1.0, delta=1e-5" if kind == "Gaussian" else "epsilon=1.0"
                line = f"mechanisms.{kind}({given}, sensitivity=1).randomise(data)"
            label = f"{kind.lower()}-bits"
            yield Target(f"diffprivlib-{version}", label, imports, line, claim, NUMBER, witnesses="all")
    for version in ("0.2.4", "0.4.0"):
        line = "make_base_laplace(scale=1.0)(float(data))"
        yield Target(f"opendp-{version}", "laplace-bits", EARLY, line, ONE, NUMBER, witnesses="all")


def _of_diffprivlib() -> Iterator[Target]:
    for name, low in (("mean", 0.0), ("var", 0.0), ("sum", 10.0)):
        line = f"tools.nan{name}(np.array(data, float), epsilon=1.0, bounds=({low}, {low + 1.0}))"
        missing = {"numbers": [low, low + 1.0], "missing": True}
        yield Target(NEWEST, f"nan{name}", DIFFPRIVLIB, line, ONE, missing, "substitution")
    yield Target(
        NEWEST,
        "linear-regression",
        DIFFPRIVLIB,
        "models.LinearRegression(epsilon=1.0, bounds_X=(0.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False)"
        ".fit(*np.split(np.array(data, float), 2, axis=1)).coef_",
        ONE,
        table(("x", 0, 1), ("y", -1, 1)),
        "substitution",
    )
    weights = {"columns": [{"name": "value", "bounds": [0, 1]}, {"name": "weight", "role": "weight", "bounds": [0, 5]}]}
    yield Target(
        NEWEST,
        "histogram-of-weights",
        DIFFPRIVLIB,
        "tools.histogram([row[0] for row in data], epsilon=1.0, bins=1, range=(0.0, 1.0), "
        "weights=[row[1] for row in data])[0]",
        ONE,
        {**weights, "beyond": False},
        "add-remove",
    )
    classes = {"name": "class", "type": "category", "categories": [0, 1]}
    # two records of the user's own, as it raises an error where all are of one class
    both = ".fit([[0.0], [0.0], *([row[0]] for row in data)], [0, 1, *(row[1] for row in data)])"
    for label, norm, more, answer in (
        ("logistic-of-norm-1000", 1000.0, ", fit_intercept=False", ".coef_[0, 0]"),
        ("logistic-with-intercept", 1.0, "", ".decision_function([[-1.0], [1.0]]).tolist()"),
    ):
        model = f"models.LogisticRegression(epsilon=1.0, data_norm={norm}{more}){both}{answer}"
        columns = [{"name": "x", "bounds": [-norm, norm]}, classes]
        yield Target(NEWEST, label, DIFFPRIVLIB, model, ONE, {"columns": columns, "beyond": False}, "substitution")
    yield Target(
        NEWEST,
        "forest",
        DIFFPRIVLIB,
        "[int(tree.predict([[0.5]])[0]) for tree in models.RandomForestClassifier(4, epsilon=1.0, bounds=(0.0, 1.0), "
        "classes=[0, 1], max_depth=1).fit(np.full((len(data), 1), 0.5), data).estimators_]",
        ONE,
        categories(0, 1, least=4),
        "add-remove",
        needs=5,  # one for each tree, and the one more that moves the shares
    )


def _of_opendp() -> Iterator[Target]:
    space = (
        "dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int)), dp.l01inf_distance(dp.absolute_distance(T=int))"
    )
    for version in ("0.14.0", "0.16.0"):
        line = f"dp.m.make_laplace_threshold({space}, scale=1.0, threshold=5)(data)"
        names = {"symbols": ["ann", "bob"], "form": "counts"}
        yield Target(f"opendp-{version}", "threshold", OPENDP, line, ApproxDP(1.0, ABOVE), names, "add-remove")
    response = "dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f={})"
    for version, label, f, claim, strings in (
        ("0.14.1", "bits-at-f-1", 1.0, PureDP(0.0), ("00", "80", "01")),
        ("0.14.2", "bits-at-f-1", 1.0, PureDP(0.0), ("00", "80", "01")),
        ("0.16.0", "bits-of-two-lengths", 0.5, PureDP(2.0 * math.log(3.0)), ("00", "01", "0000")),
    ):
        line = f"list({response.format(f)}(bytes.fromhex(data)))"
        data = {"symbols": list(strings), "form": "one"}
        yield Target(f"opendp-{version}", label, OPENDP, line, claim, data, "substitution")
    for scale in (1.5, 3.0):
        noise = f"dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale={scale})(int(data))"
        data = {"answers": {"integer": True, "bounds": [0, 100]}}
        yield Target("opendp-0.14.1", f"laplace-of-integers-{scale}", OPENDP, noise, PureDP(1.0 / scale), data)


def _of_smartnoise() -> Iterator[Target]:
    yield Target(
        f"{SYNTH}.5",
        "covariance",
        COVARIANCE,
        'list(module.DPcovariance(len(data), ["a", "b"], UNIT, 1.0)'
        '.release(pd.DataFrame(data, columns=["a", "b"], dtype=float)))',
        ONE,
        table(("a", 0, 1), ("b", 0, 1)),
        "substitution",
    )
    yield Target(
        f"{SYNTH}.8",
        "standard-scaler",
        TRANSFORMS,
        "(scaler := StandardScaler(lower=0.0, upper=1.0, epsilon=1.0), scaler.fit(data), "
        "[float(scaler.mean), float(scaler.var)])[-1]",
        ONE,
        table(("value", 0, 1)),
        "add-remove",
    )


def _of_others() -> Iterator[Target]:
    """Of Opacus and of small libraries."""
    training = {**categories(0.0, 1.0, least=20), "size": 20}  # the records that the claim is for
    yield Target("opacus-1.6.0", "step", OPACUS, "trained(data)", STEP, training, "add-remove", needs=21)
    yield Target(
        "dpsprt-1.2.0",
        "subsampled",
        "import numpy as np\nimport dpsprt",
        "list(map(int, dpsprt.dp_sprt_subsampled(np.array(data, float), mu0=0.3, mu1=0.7, alpha=0.05, beta=0.05, "
        "epsilon=1.0)[:2]))",
        ONE,
        categories(0, 1, least=1, size=100),
        "substitution",
    )
    yield Target(
        "inf-tda-0.1",
        "repeated-tuples",
        "import pandas as pd\nfrom InfTDA import inf_tda\n"
        'CELLS = pd.MultiIndex.from_tuples([("a",), ("b",)])\n'
        'GIVEN = dict(contribution=25, distinct_tuples=False, privacy_type="bounded")',
        "[int(inf_tda(pd.Series([25 * data.count(cell) for cell in 'ab'], CELLS, dtype='int32'), (1.0, 1e-6), **GIVEN)"
        ".get(cell, 0)) for cell in CELLS]",
        ApproxDP(1.0, 1e-6),
        categories("a", "b", least=1),  # a record is a user, whose 25 tuples are in one cell
        "substitution",
    )
    means, given = "from eeprivacy import operations", "lower_bound=0.0, upper_bound=1.0"
    yield Target(
        "eeprivacy-0.0.5",
        "vector-mean-laplace",
        means,
        f"operations.PrivateVectorClampedMeanLaplace(k=2, N=len(data), {given})"
        ".execute(vectors=data, epsilon=1.0, delta=0.0).tolist()",
        ONE,
        table(("a", 0, 1), ("b", 0, 1)),
        "substitution",
    )
    for label, adjacency in (("add", "add-remove"), ("substitute", "substitution")):
        line = f"operations.PrivateClampedMean({given}).execute(values=data, epsilon=1.0)"
        yield Target("eeprivacy-0.0.5", f"clamped-mean-{label}", means, line, ONE, table(("value", 0, 1)), adjacency)
    yield Target(
        "diffpriv-pure-0.1.0",
        "count",
        "from diffpriv_pure import private_count",
        "private_count(data, 1.0)",
        ONE,
        {"answers": {"integer": True, "bounds": [0, 100]}},
    )
    yield Target(
        "trasgodp-2.1.0",
        "exponential",
        "from trasgodp.categorical import dp_exponential_array",
        "dp_exponential_array(data, 1.0).tolist()",
        ONE,
        categories("a", "b", least=1),
        "substitution",
    )
    yield Target(
        "pipeline-dp-0.3.1",
        "count",
        PIPELINE,
        "(budget := dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=0.0), "
        'answer := dp.DPEngine(budget, dp.LocalBackend()).aggregate(data, COUNT, COLUMNS, public_partitions=["clinic"])'
        ', budget.compute_budgets(), float(dict(answer)["clinic"].count))[-1]',
        ONE,
        {
            "columns": [
                {"name": "person", "type": "category", "role": "owner"},
                {"name": "place", "type": "category", "categories": ["clinic", "office"]},
            ]
        },
        "add-remove-person",
    )

"""Objects of OpenDP that can be built from its constructors, with arguments found by their names.

Needs Python 3.8 and OpenDP, and runs in the environment of OpenDP. The arguments are a table: it says which values each
parameter is tried with, and combinations that OpenDP refuses are left out.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import math
import random
import re
import sys
import warnings
from typing import Any, Iterator  # noqa: UP035  # Python 3.8 may run this

from epsaudit.tools.maps.domains import Atom, Vector

MAX_ARGUMENT_COMBINATIONS = 4_000
"""Largest number of combinations of arguments that are tried for each constructor."""
MAX_BUILT = {"t": 12, "m": 6, "c": 6}
"""Largest number of objects that are kept for each constructor of transformations (t), measurements (m) and
combinators (c). Audits of measurements take longer."""
MAX_PER_SPACE = 6
"""Largest number of objects that are kept for one pair of an input metric and an output metric or measure."""
FEATURES = ("contrib", "honest-but-curious", "floating-point", "idealized-numerics")
DATASETS = "symmetric", "insert_delete", "change_one", "hamming"
"""Beginnings of the names of metrics of datasets."""


MEASUREMENTS = tuple(
    f"dp.m.make_{noise}({space}, scale=1.0)"
    for noise in ("laplace", "gaussian")
    for space in (
        "dp.atom_domain(T=int), dp.absolute_distance(T=int)",
        "dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)",
        "dp.vector_domain(dp.atom_domain(T=int), size=3), dp.l1_distance(T=int)",
    )
)
"""Code of the measurements that combinators are tried with."""
GAUSSIAN = "dp.m.make_gaussian(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.0)"
CURVES = (
    f"dp.c.make_zCDP_to_approxDP({GAUSSIAN})",
    f"dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP({GAUSSIAN}), 1e-6)",
)
"""Code of measurements whose loss is a privacy profile, or one point of a profile."""
FRAME = "dp.t.make_split_dataframe(',', ['a', 'b'])"
COLUMNS = (
    "dp.lazyframe_domain([dp.series_domain('id', dp.atom_domain(T='i64')), dp.series_domain('a', "
    "dp.option_domain(dp.atom_domain(T=str))), dp.series_domain('b', dp.atom_domain(T='i64', bounds=(0, 9)))])"
)
PLAN = "pl.LazyFrame([], schema={'id': pl.Int64, 'a': pl.String, 'b': pl.Int64})"
PERSONS = "dp.symmetric_id_distance(pl.col('id'))"
GROUP_COLUMNS = f"dp.with_margin({COLUMNS}, dp.polars.Margin(by=['a'], max_length=4, max_groups=3))"
KEYS = f"dp.with_margin({COLUMNS}, dp.polars.Margin(by=['a'], invariant='keys'))"
FIRST = "filter(pl.int_range(pl.len()).over('id') < 2)"
TO_RECORDS = "MO='FrameDistance<SymmetricDistance>'"
CHAINS = {
    "t.make_stable_lazyframe": tuple(
        f"dp.t.make_stable_lazyframe({arguments})"
        for arguments in (
            f"{COLUMNS}, dp.symmetric_distance(), {PLAN}.filter(pl.col('b') > 3)",
            f"{COLUMNS}, dp.symmetric_distance(), {PLAN}.with_columns(pl.col('a').fill_null('z'))",
            f"{COLUMNS}, dp.symmetric_distance(), {PLAN}.group_by('id').agg(pl.col('b').max())",
            f"{COLUMNS}, dp.insert_delete_distance(), {PLAN}.filter(pl.col('b') > 3)",
            f"{COLUMNS}, dp.change_one_distance(), {PLAN}.filter(pl.col('b') > 3)",
            f"{GROUP_COLUMNS}, dp.frame_distance(dp.symmetric_distance()), {PLAN}.filter(pl.col('b') > 3)",
            f"{COLUMNS}, {PERSONS}, {PLAN}.filter(pl.col('b') > 3)",
            f"{COLUMNS}, {PERSONS}, {PLAN}.{FIRST}, {TO_RECORDS}",
            f"{COLUMNS}, {PERSONS}, {PLAN}.group_by('id', 'a').agg(pl.col('b').sum())",
            f"{COLUMNS}, {PERSONS}, {PLAN}.filter(pl.struct('a').rank('dense').over('id') < 3)"
            f".filter(pl.int_range(pl.len()).over('id', 'a') < 2), {TO_RECORDS}",
            f"{GROUP_COLUMNS}, dp.frame_distance({PERSONS}), {PLAN}.{FIRST}, {TO_RECORDS}",
        )
    ),
    "m.make_private_lazyframe": tuple(
        f"dp.m.make_private_lazyframe({arguments}, global_scale=1.0)"
        for arguments in (
            f"{COLUMNS}, dp.symmetric_distance(), dp.max_divergence(), {PLAN}.select(pl.len().dp.noise(1.0))",
            f"{KEYS}, dp.symmetric_distance(), dp.max_divergence(), {PLAN}.group_by('a').agg(pl.len().dp.noise(1.0))",
            f"{COLUMNS}, {PERSONS}, dp.max_divergence(), {PLAN}.{FIRST}.select(pl.len().dp.noise(2.0))",
        )
    ),
    "t.make_split_lines": ("Lines(dp.t.make_split_lines())",),
    "t.make_split_dataframe": (f"Lines({FRAME} >> dp.t.make_select_column('a', str))",),
    "t.make_select_column": (f"Lines({FRAME} >> dp.t.make_select_column('b', str))",),
    "t.make_df_cast_default": (
        f"Lines({FRAME} >> dp.t.make_df_cast_default({FRAME}.output_domain, dp.symmetric_distance(), 'a', str, int) "
        ">> dp.t.make_select_column('a', int))",
    ),
    "t.make_df_is_equal": (
        f"Lines({FRAME} >> dp.t.make_df_is_equal({FRAME}.output_domain, dp.symmetric_distance(), 'a', '1') "
        ">> dp.t.make_select_column('a', bool))",
    ),
    "t.make_subset_by": (
        f"Lines({FRAME} >> dp.t.make_df_is_equal({FRAME}.output_domain, dp.symmetric_distance(), 'a', '1') "
        ">> dp.t.make_subset_by('a', ['b']) >> dp.t.make_select_column('b', str))",
    ),
    "m.make_alp_queryable": (
        "Evaluated(dp.m.make_alp_queryable(dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T='u32')), "
        "dp.l01inf_distance(dp.absolute_distance(T='u32')), 1.0, 20, 10), lambda found: [found('a'), found('b')])",
        "Evaluated(dp.m.make_alp_queryable(dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T='u32')), "
        "dp.l1_distance(T='u32'), 1.0, 20, 10), lambda found: [found('a'), found('b')])",
    ),
}
"""Code of objects for constructors that cannot be audited alone: their inputs or outputs are objects of OpenDP."""

EXCLUDED = {
    "t.make_stable_expr": "an expression is part of a query plan; plans are audited with make_stable_lazyframe",
    "m.make_private_expr": "an expression is part of a query plan; plans are audited with make_private_lazyframe",
    "c.make_population_amplification": "its loss holds only if its input is a random sample of the population",
    "c.make_fully_adaptive_composition": "an odometer has no map",
    "t.make_cdf": "a function without a map",
    "t.make_consistent_b_ary_tree": "a function without a map",
    "t.make_quantiles_from_counts": "a function without a map",
    "c.make_chain_tt": "chains are part of other objects",
    "c.make_chain_mt": "chains are part of other objects",
    "c.make_chain_pm": "chains are part of other objects",
}
"""Constructors that are not audited, with the reason."""


def is_space(domain: str, metric: str) -> bool:
    """Return whether OpenDP might accept a metric on a domain, where both are given as Python code.

    This filter leaves out combinations that cannot fit. OpenDP itself rejects the other wrong combinations.
    """
    is_dataset = metric.startswith(tuple(f"dp.{one}" for one in DATASETS))
    if "discrete" in metric:
        return not domain.startswith("dp.vector")
    kinds = {"dp.vector": ("dp.l1_", "dp.l2_", "dp.linf_"), "dp.atom": ("dp.absolute",), "dp.map": ("dp.l",)}
    kind = next((one for one in kinds if domain.startswith(one)), "")
    if is_dataset:
        return kind == "dp.vector"
    found = re.search(r"T=('?\w+'?)", metric)
    return bool(kind and metric.startswith(kinds[kind]) and found and f"T={found.group(1)}" in domain)


class Evaluated:
    """A measurement that returns an object, such as a queryable, followed by a function of this object.

    The function is post-processing, so that the stated privacy loss also holds for its value, which can be compared.
    """

    def __init__(self, measurement: Any, function: Any) -> None:
        self.input_domain, self.input_metric = measurement.input_domain, measurement.input_metric
        self.output_measure, self.map = measurement.output_measure, measurement.map
        self._measurement, self._function = measurement, function

    def __call__(self, data: Any) -> Any:
        """Run the measurement on ``data``, and return the value of the function for the object that it returns."""
        return self._function(self._measurement(data))


class ScriptLines:
    """A wrapper around a transformation of a text, so that its input becomes a list of lines.

    Each line of the text is one record.
    """

    input_domain = Vector(Atom("str", categories=("1,2", "1,a", "0,b", "3", "", "4,5,6", '"1,2",7')))

    def __init__(self, transformation: Any) -> None:
        self.input_metric, self.output_metric = transformation.input_metric, transformation.output_metric
        self.output_domain, self.map = transformation.output_domain, transformation.map
        self._transformation = transformation

    def __call__(self, lines: Any) -> Any:
        """Return the output of the transformation for the text that consists of these lines.

        A newline ends each line, so that an empty line is a line as well.
        """
        return self._transformation("".join(f"{line}\n" for line in lines))


class ConstructorLibrary:
    """OpenDP with its features enabled, and the argument values from which its constructors build objects."""

    def __init__(self) -> None:
        self.dp = dp = importlib.import_module("opendp.prelude")  # of the other environment
        for package in ("numpy", "polars", "pandas", "pyarrow", "sklearn", "randomgen"):
            if importlib.util.find_spec(package) is None:  # OpenDP looks for it anew in each call, which is slow
                sys.modules[package] = None  # type: ignore[assignment]
        warnings.simplefilter("ignore")  # about features and constructors that are deprecated
        if importlib.util.find_spec("polars") is not None:
            importlib.import_module("polars")
        for feature in FEATURES:
            try:
                dp.enable_features(feature)
            except Exception:  # a feature that this version does not know
                continue
        self._arguments = self._make_arguments()
        self.makers: dict[str, Any] = {}  # functions that make the built objects anew, by label

    @property
    def version(self) -> str:
        """The version of OpenDP."""
        try:
            return importlib.metadata.version("opendp")
        except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
            return "of no version"

    def why_not(self, name: str) -> str:
        """Return a sentence that says why `build` makes no object with the constructor ``name``."""
        part, _, short = name.partition(".")
        make = getattr(getattr(self.dp, part), short)
        if name in EXCLUDED:
            return EXCLUDED[name]
        if "lazyframe" in name and sys.modules.get("polars") is None:
            return "Polars is not installed in the environment"
        parameters = inspect.signature(make).parameters.values()
        unknown = [
            one.name for one in parameters if one.name not in self._arguments and one.default is inspect.Parameter.empty
        ]
        unknown = [one for one in unknown if one not in ("domain", "metric")]
        return (
            f"no values are known for {', '.join(unknown)}" if unknown else "no combination of arguments was accepted"
        )

    def names(self) -> list[str]:
        """Return the names of all constructors of transformations, measurements and combinators."""
        parts = (("t", self.dp.t), ("m", self.dp.m), ("c", self.dp.c))
        found = [f"{part}.{name}" for part, module in parts for name in dir(module) if name.startswith("make_")]
        return [name for name in found if not name.endswith("make_proof_link")]

    def build(self, name: str, seed: int = 0) -> dict[str, Any]:
        """Build objects with one constructor, and return them by the code that builds them.

        Objects are grouped by their input metric and their output metric (or measure). They are taken from the groups
        in turn, so that each pair of metrics occurs before objects with other domains or arguments are added. There are
        at most `MAX_BUILT`.
        """
        part, _, short = name.partition(".")
        make = getattr(getattr(self.dp, part), short)
        if name in EXCLUDED:
            return {}
        groups: dict[Any, dict[Any, tuple[str, Any, Any]]] = {}
        for text in CHAINS.get(name, ()):
            try:
                known_names = {
                    "dp": self.dp,
                    "pl": sys.modules.get("polars"),
                    "Evaluated": Evaluated,
                    "Lines": ScriptLines,
                }
                maker = functools.partial(eval, text, known_names)  # the texts of this table
                groups.setdefault(text, {})[text] = text, maker(), maker
            except Exception:  # what this version does not know
                continue
        for labels, values in itertools.islice(self._combinations(make, seed), MAX_ARGUMENT_COMBINATIONS):
            try:
                built = make(**values)
                about = str(built.input_domain), labels.get("bounds"), labels.get("size"), labels.get("categories")
                output = str(getattr(built, "output_metric", getattr(built, "output_measure", "")))
                space = str(built.input_metric), output
            except Exception:  # arguments that do not go together
                continue
            label = f"{name}({', '.join(f'{key}={text}' for key, text in labels.items())})"
            group = groups.setdefault(space, {})
            if len(group) < MAX_PER_SPACE:
                group.setdefault(about, (label, built, functools.partial(make, **values)))
        turns = itertools.zip_longest(*(group.values() for group in groups.values()))
        kept = [one for turn in turns for one in turn if one is not None][: MAX_BUILT[part]]
        self.makers.update((label, maker) for label, _, maker in kept)
        return {label: built for label, built, _ in kept}

    def _combinations(self, make: Any, seed: int) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
        """Yield combinations of arguments for the constructor ``make``, in a random order.

        Each combination is two dictionaries by parameter name: the code of the arguments, and their values. There are
        no combinations if a required parameter has no known values.
        """
        rng = random.Random(seed)
        choices: list[list[tuple[tuple[str, str, Any], ...]]] = []
        parameters = inspect.signature(make).parameters
        spaces = next(
            (two for two in (("input_domain", "input_metric"), ("domain", "metric")) if set(two) <= set(parameters)), ()
        )
        if spaces:
            domains, metrics = self._arguments["input_domain"], self._arguments["input_metric"]
            choices.append(
                [
                    ((spaces[0], domain, value), (spaces[1], metric, other))
                    for domain, value in domains
                    for metric, other in metrics
                    if is_space(domain, metric)
                ]
            )
        for one in parameters.values():
            if one.name in spaces:
                continue
            known: list[tuple[tuple[str, str, Any], ...]] = [
                ((one.name, text, value),) for text, value in self._arguments.get(one.name, [])
            ]
            if one.default is not inspect.Parameter.empty:
                known = [(), *known]  # the default
            if not known:
                return
            choices.append(known)
        number = math.prod(map(len, choices))
        places = (
            range(number)
            if number <= MAX_ARGUMENT_COMBINATIONS
            else [rng.randrange(number) for _ in range(2 * MAX_ARGUMENT_COMBINATIONS)]
        )
        for place in rng.sample(list(dict.fromkeys(places)), len(set(places))):
            chosen: list[tuple[str, str, Any]] = []
            for values in choices:
                place, at = divmod(place, len(values))
                chosen += values[at]
            yield {key: text for key, text, _ in chosen}, {key: value for key, _, value in chosen}

    def _make_arguments(self) -> dict[str, list[tuple[str, Any]]]:
        """Return the values to be tried for each parameter by its name, each as a pair of code and value."""
        code: dict[str, list[str]] = {
            "input_domain": [
                "dp.vector_domain(dp.atom_domain(T=int))",
                "dp.vector_domain(dp.atom_domain(T=int, bounds=(-4, 9)))",
                "dp.vector_domain(dp.atom_domain(T=int, bounds=(-4, 9)), size=3)",
                "dp.vector_domain(dp.atom_domain(T=int), size=4)",
                "dp.vector_domain(dp.atom_domain(T='i64', bounds=(-2**62, 2**62)))",
                "dp.vector_domain(dp.atom_domain(T='u8', bounds=(0, 255)))",
                "dp.vector_domain(dp.atom_domain(T='i8'))",
                "dp.vector_domain(dp.atom_domain(T='usize'))",
                "dp.vector_domain(dp.atom_domain(T=float, nan=False))",
                "dp.vector_domain(dp.atom_domain(T=float, nan=True))",
                "dp.vector_domain(dp.atom_domain(T=float))",
                "dp.vector_domain(dp.atom_domain(T=float, bounds=(-1.0, 1.0)))",
                "dp.vector_domain(dp.atom_domain(T=float, bounds=(-1.0, 1e16)), size=4)",
                "dp.vector_domain(dp.atom_domain(T='f32', bounds=(-1.0, 1.0)), size=4)",
                "dp.vector_domain(dp.atom_domain(T=str))",
                "dp.vector_domain(dp.atom_domain(T=bool))",
                "dp.vector_domain(dp.option_domain(dp.atom_domain(T=str)))",
                "dp.atom_domain(T=int)",
                "dp.atom_domain(T='u32')",
                "dp.atom_domain(T=float, nan=False)",
                "dp.atom_domain(T=float)",
                "dp.atom_domain(T=bool)",
                "dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int))",
                "dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T='u32'))",
                "dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=float, nan=False))",
                "dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=float))",
                "dp.bitvector_domain(max_weight=4)",
            ],
            "input_metric": [
                "dp.symmetric_distance()",
                "dp.insert_delete_distance()",
                "dp.change_one_distance()",
                "dp.hamming_distance()",
                "dp.discrete_distance()",
                "dp.absolute_distance(T=int)",
                "dp.absolute_distance(T=float)",
                "dp.absolute_distance(T='u32')",
                "dp.l1_distance(T=int)",
                "dp.l1_distance(T=float)",
                "dp.l2_distance(T=int)",
                "dp.l2_distance(T=float)",
                "dp.linf_distance(T=int)",
                "dp.linf_distance(T=float)",
                "dp.linf_distance(T=int, monotonic=True)",
                "dp.l02inf_distance(dp.absolute_distance(T=int))",
                "dp.l02inf_distance(dp.absolute_distance(T=float))",
                "dp.l01inf_distance(dp.absolute_distance(T=int))",
                "dp.l01inf_distance(dp.absolute_distance(T='u32'))",
                "dp.l01inf_distance(dp.absolute_distance(T=float))",
            ],
            "MO": [
                "'SymmetricDistance'",
                "'InsertDeleteDistance'",
                "'L1Distance<i32>'",
                "'L2Distance<f64>'",
                "'L1Distance<f64>'",
                "'MaxDivergence'",
                "'ZeroConcentratedDivergence'",
            ],
            "bounds": ["(0, 9)", "(-1.0, 1.0)", "(-4, 3)"],
            "size": ["3", "1"],
            "constant": ["0", "0.0", "'a'", "True", "2.5"],
            "categories": ["[0, 1, 2]", "['a', 'b']"],
            "null_category": ["True", "False"],
            "TOA": ["int", "float", "str", "bool", "'u8'", "'i64'"],
            "TO": ["int", "float", "'u8'"],
            "TIA": ["int", "float", "str"],
            "TV": ["int", "float"],
            "S": ["'Pairwise<f64>'", "'Sequential<f64>'"],
            "candidates": ["[0, 2, 5]", "[0.0, 0.5, 1.0]"],
            "alpha": ["0.3", "0.5"],
            "alphas": ["[0.25, 0.5]"],
            "index": ["1"],
            "value": ["0", "'a'", "0.0"],
            "edges": ["[0, 3, 6]", "[0.0, 0.5]"],
            "bin_edges": ["[0, 3, 6]"],
            "leaf_count": ["4"],
            "branching_factor": ["2"],
            "interpolation": ["'nearest'", "'linear'"],
            "size_limit": ["5"],
            "scale": ["1.0", "0.5"],
            "threshold": ["10", "10.0"],
            "prob": ["0.75"],
            "k": ["1", "2"],
            "optimize": ["'max'", "'min'"],
            "negate": ["True", "False"],
            "output_measure": [
                "dp.max_divergence()",
                "dp.zero_concentrated_divergence()",
                "dp.approximate(dp.max_divergence())",
                "dp.approximate(dp.zero_concentrated_divergence())",
            ],
            "null": ["'z'"],
            "f": ["0.25", "1.0"],
            "max_weight": ["2"],
            "p": ["1", "2"],
            "Q": ["float", "'i32'", "'u32'"],
            "granularity": ["'Integer'"],
            "d_in": ["1.0"],
            "d_out": ["(1.0, 1e-6)"],
            "measurement": [*MEASUREMENTS, *CURVES],
            "measurements": [f"[{text}]" for text in MEASUREMENTS] + [f"[{text}, {text}]" for text in MEASUREMENTS],
            "delta": ["1e-6"],
            "population_size": ["100"],
        }
        found: dict[str, list[tuple[str, Any]]] = {}
        for name, texts in code.items():
            for text in texts:
                try:
                    value = eval(text, {"dp": self.dp})  # the texts of this table
                except Exception:  # an argument that this version does not know
                    continue
                found.setdefault(name, []).append((text, value))
        return found

"""Objects of OpenDP that can be built from its constructors, with arguments found by their names.

Needs Python 3.8 and OpenDP, and runs in the environment of OpenDP. The arguments are a table: it says which values each
parameter is tried with, and combinations that OpenDP refuses are left out.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import random
from typing import Any, Iterator  # noqa: UP035  # Python 3.8 may run this

MAX_TRIES = 600
"""Number of combinations of arguments that are tried for each constructor."""
MAX_BUILT = 8
"""Number of objects that are kept for each constructor, with different domains and metrics."""
FEATURES = ("contrib", "honest-but-curious", "floating-point", "idealized-numerics", "rust-stack-trace")


class Library:
    """OpenDP with its features enabled, and the arguments that constructors are tried with."""

    def __init__(self) -> None:
        self.dp = dp = importlib.import_module("opendp.prelude")  # of the other environment
        for feature in FEATURES[:-1]:
            try:
                dp.enable_features(feature)
            except Exception:  # a feature that this version does not know
                continue
        self._arguments = self._make_arguments()
        self.makers: dict[str, Any] = {}  # functions that make the built objects anew, by label

    def names(self) -> list[str]:
        """Return the names of all constructors of transformations and measurements."""
        parts = (("t", self.dp.t), ("m", self.dp.m))
        return [f"{part}.{name}" for part, module in parts for name in dir(module) if name.startswith("make_")]

    def build(self, name: str, seed: int = 0) -> dict[str, Any]:
        """Return objects of a constructor by the text of their construction."""
        part, _, short = name.partition(".")
        make = getattr(getattr(self.dp, part), short)
        found: dict[str, Any] = {}
        known = set()
        for labels, values in itertools.islice(self._combinations(make, seed), MAX_TRIES):
            try:
                built = make(**values)
                about = str(built.input_domain), str(built.input_metric), str(getattr(built, "output_metric", ""))
            except Exception:  # arguments that do not go together
                continue
            shape = (*about, labels.get("MO"), labels.get("bounds"), labels.get("size"))
            if shape not in known:
                known.add(shape)
                label = f"{name}({', '.join(f'{key}={text}' for key, text in labels.items())})"
                found[label], self.makers[label] = built, functools.partial(make, **values)
            if len(found) == MAX_BUILT:
                break
        return found

    def _combinations(self, make: Any, seed: int) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
        """Yield combinations of arguments, as text and as values, in a random order."""
        rng = random.Random(seed)
        parameters = inspect.signature(make).parameters.values()
        choices = []
        for one in parameters:
            known = self._arguments.get(one.name)
            if one.default is not inspect.Parameter.empty:
                known = [("", None), *(known or [])]  # the default
            if not known:
                return
            choices.append((one.name, known))
        seen = set()
        for _ in range(20 * MAX_TRIES):
            drawn = [(name, rng.randrange(len(known))) for name, known in choices]
            if tuple(drawn) in seen:
                continue
            seen.add(tuple(drawn))
            chosen = {name: dict(choices)[name][at] for name, at in drawn}
            given = {name: one for name, one in chosen.items() if one[0]}
            yield {name: text for name, (text, _) in given.items()}, {name: value for name, (_, value) in given.items()}

    def _make_arguments(self) -> dict[str, list[tuple[str, Any]]]:
        """Return values for parameters by name, each with the code that makes it."""
        code: dict[str, list[str]] = {
            "input_domain": [
                "dp.vector_domain(dp.atom_domain(T=int))",
                "dp.vector_domain(dp.atom_domain(T=int, bounds=(-4, 9)))",
                "dp.vector_domain(dp.atom_domain(T=int, bounds=(-4, 9)), size=3)",
                "dp.vector_domain(dp.atom_domain(T=int), size=4)",
                "dp.vector_domain(dp.atom_domain(T='i64', bounds=(-2**62, 2**62)))",
                "dp.vector_domain(dp.atom_domain(T='u8', bounds=(0, 255)))",
                "dp.vector_domain(dp.atom_domain(T='i8'))",
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
            "output_measure": ["dp.max_divergence()", "dp.zero_concentrated_divergence()"],
            "f": ["0.25"],
            "max_weight": ["2"],
            "p": ["1", "2"],
            "Q": ["float", "'i32'", "'u32'"],
            "granularity": ["'Integer'"],
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

"""SmartNoise Synth's transforms of one column: their modules alone are imported, because its packages need torch and
drivers of databases.
"""

import importlib.util
import sys
import types

from serving import repeated, serve

for NAME in ("snsynth", "snsynth.transform", "snsql", "snsql.sql"):
    ROOT, _, BELOW = NAME.partition(".")
    FOLDER = sys.modules[ROOT].__path__ if BELOW else importlib.util.find_spec(ROOT).submodule_search_locations
    sys.modules[NAME] = types.ModuleType(NAME)  # an empty package, so that its own __init__ is not run
    sys.modules[NAME].__path__ = [f"{FOLDER[0]}/{BELOW}"]

from snsynth.transform.minmax import MinMaxTransformer  # noqa: E402
from snsynth.transform.standard import StandardScaler  # noqa: E402


def standard(epsilon, lower, upper):
    """Mean and variance of values in bounds, by which a column is scaled; neighbours have one value more or less."""

    def fitted(values):
        scaler = StandardScaler(lower=lower, upper=upper, epsilon=epsilon)
        scaler.fit(list(values))
        assert sum(scaler.budget_spent) == epsilon
        return [float(scaler.mean), float(scaler.var)]

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(fitted)


def minmax(epsilon):
    """Bounds found in values; none where it finds none."""

    def fitted(values):
        scaler = MinMaxTransformer(epsilon=epsilon)
        try:
            scaler.fit(list(values))
        except ValueError:
            return None
        return [float(scaler.fit_lower), float(scaler.fit_upper)]

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(fitted)


serve(standard, minmax)

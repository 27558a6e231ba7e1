"""SmartNoise Synth's covariance matrix: its module alone is imported, because the package needs torch for others."""

import importlib.util

from serving import repeated, serve  # isort: skip  # which limits numpy's threads before it is imported

import pandas as pd

FOLDER = importlib.util.find_spec("snsynth").submodule_search_locations[0]
SPEC = importlib.util.spec_from_file_location("dp_covariance", f"{FOLDER}/models/dp_covariance.py")
dp_covariance = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(dp_covariance)


def covariance(epsilon):
    """Variances and covariance of two columns of records, clipped to [0, 1]; neighbours differ in one record."""

    def released(records):
        data = pd.DataFrame(records, columns=["a", "b"], dtype=float)
        unit = pd.DataFrame([[0.0, 0.0], [1.0, 1.0]])
        mechanism = dp_covariance.DPcovariance(len(data), ["a", "b"], unit, epsilon)
        return [float(number) for number in mechanism.release(data)]

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(released)


serve(covariance)

"""What a library says of its own privacy, in numbers: one short reader for each, of its documented interface.

``PYTHON stated.py SERVE FILE.py:FUNCTION PARAMETERS``, under a library's own Python from 3.8 on, prints what a function
says at each parameter. Nothing of epsaudit is imported; `epsaudit.claims.definitions` makes claims of the numbers.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

KINDS = (
    "a number, (epsilon, delta), numbers by name, or a measurement of OpenDP or Tumult Core, a BudgetAccountant of "
    "diffprivlib or an accountant of PipelineDP; or in a tuple with what its reader takes: (measurement, distance), "
    "(reader, query) of SmartNoise, (event, delta) of dp-accounting"
)


def main() -> None:
    """Print, for each of PARAMETERS, the numbers of the claim, or an error."""
    file, name, parameters = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    sys.path[:] = [os.getcwd(), *sys.path[1:]]  # without the folder of this file
    function = runpy.run_path(file)["imported"](name)
    for one in json.loads(parameters):
        try:
            said = numbers_of(function(**one))
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)


def numbers_of(stated: Any) -> dict[str, Any]:
    """Return the numbers of a claim by name: of an object of a library, or of what is one already.

    >>> numbers_of((1.0, 1e-6)), numbers_of({"rho": 0.5})
    ({'epsilon': 1.0, 'delta': 1e-06}, {'rho': 0.5})
    """
    first, *more = stated if isinstance(stated, tuple) and stated else (stated,)
    if isinstance(first, dict) and not more:
        return {name: float(number) for name, number in first.items()}
    for holds, read in READERS.items():
        if hasattr(first, holds):
            return read(first, *more)
    if type(first).__module__.partition(".")[0] == "dp_accounting":
        return of_dp_accounting(first, *more)
    try:
        return _pure_or_approximate(*map(rounded_up, (first, *more)))
    except (TypeError, ValueError):
        raise TypeError(f"it returned {repr(stated)[:80]}; return {KINDS}") from None


def of_opendp(measurement: Any, d_in: Any = 1, delta: float | None = None) -> dict[str, Any]:
    """Read ``measurement.map(d_in)``, by its output measure."""
    measure, loss = str(measurement.output_measure), measurement.map(d_in)
    if "Approximate" in measure:
        loss, added = loss
        known = "ZeroConcentrated" in measure
        return {"delta": float(added), "rho": float(loss)} if known else _pure_or_approximate(loss, added)
    if "ZeroConcentratedDivergence" in measure:
        return {"rho": float(loss)}
    if "FixedSmoothedMaxDivergence" in measure:
        return _pure_or_approximate(*loss)
    if "SmoothedMaxDivergence" in measure and delta is not None:
        return _pure_or_approximate(loss.epsilon(delta), delta)
    if measure.startswith("MaxDivergence"):
        return _pure_or_approximate(loss)
    raise ValueError(f"The measurement's output measure is {measure}; give delta for a curve, or a claim of your own.")


def of_tumult(measurement: Any, d_in: Any = 1) -> dict[str, Any]:
    """Read ``measurement.privacy_function(d_in)``, by its output measure; exact numbers round up."""
    measure, loss = type(measurement.output_measure).__name__, measurement.privacy_function(d_in)
    if measure == "PureDP":
        return _pure_or_approximate(rounded_up(loss))
    if measure == "ApproxDP":
        return _pure_or_approximate(*map(rounded_up, loss))
    if measure == "RhoZCDP":
        return {"rho": rounded_up(loss)}
    raise ValueError(f"The measurement's output measure is {measure}; it must be PureDP, ApproxDP or RhoZCDP.")


def of_dp_accounting(event: Any, delta: float) -> dict[str, Any]:
    """Read the least epsilon of an event at delta, by privacy loss distributions."""
    from dp_accounting.pld import PLDAccountant

    return {"epsilon": float(PLDAccountant().compose(event).get_epsilon(delta)), "delta": float(delta)}


READERS: dict[str, Callable[..., dict[str, Any]]] = {
    "privacy_function": of_tumult,
    "output_measure": of_opendp,
    "get_privacy_cost": lambda reader, query: _pure_or_approximate(*reader.get_privacy_cost(query)),  # of SmartNoise
    "_total_epsilon": lambda one: _pure_or_approximate(one._total_epsilon, one._total_delta),  # of PipelineDP
    "total": lambda accountant: _pure_or_approximate(*accountant.total()),  # of diffprivlib
}
"""What objects of each library have, and none of the others."""


def _pure_or_approximate(epsilon: Any, delta: Any = 0.0) -> dict[str, Any]:
    return {"epsilon": float(epsilon), **({"delta": float(delta)} if delta else {})}


def rounded_up(number: Any) -> float:
    """Return a float that is no less than an exact number of Tumult Core."""
    return float(number.to_float(round_up=True) if hasattr(number, "to_float") else number)


if __name__ == "__main__":
    main()

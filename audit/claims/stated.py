"""The privacy that a library states for itself, as numbers that a function of the user returns.

This file is run as ``PYTHON stated.py SERVE FILE.py:FUNCTION PARAMETERS`` by the Python of the library's environment,
3.8 or newer. It prints the numbers that the function returns for each of the parameters. It imports nothing of
epsaudit; `epsaudit.claims.definitions` makes claims of the numbers.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any

STATED_FORMS = (
    "a number, (epsilon, delta), numbers by name, or a measurement of OpenDP, alone or as (measurement, distance)"
)


def main() -> None:
    """Call the user's function with each set of parameters on the command line, and print what it states as JSON.

    One line is printed for each set of parameters: the numbers of the claim by name, or an error.
    """
    file, name, parameters = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # text that a library prints must not become part of the answer
    sys.path[:] = [os.getcwd(), *sys.path[1:]]  # without the folder of this file
    function = runpy.run_path(file)["import_function"](name)
    for one in json.loads(parameters):
        try:
            said = read_statement(function(**one))
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)


def read_statement(stated: Any) -> dict[str, Any]:
    """Return the numbers of a claim by name from the value that the user's function returned.

    The value is a number, a tuple (epsilon, delta), a dict of numbers by name, or a measurement of OpenDP.

    >>> read_statement((1.0, 1e-6)), read_statement({"rho": 0.5})
    ({'epsilon': 1.0, 'delta': 1e-06}, {'rho': 0.5})
    """
    first, *more = stated if isinstance(stated, tuple) and stated else (stated,)
    if isinstance(first, dict) and not more:
        return {name: float(number) for name, number in first.items()}
    if hasattr(first, "output_measure") or hasattr(first, "output_distance_type"):
        return (read_opendp if hasattr(first, "output_measure") else read_old_opendp)(first, *more)
    try:
        return _pure_or_approximate(first, *more)
    except (TypeError, ValueError):
        raise TypeError(f"it returned {repr(stated)[:80]}; return {STATED_FORMS}") from None


def read_opendp(measurement: Any, d_in: Any = 1, delta: float | None = None) -> dict[str, Any]:
    """Return the numbers of the claim that an OpenDP measurement states, by name.

    They are the result of ``measurement.map(d_in)``; the output measure of the measurement says what they mean.
    ``delta`` is needed if this result is a curve of (epsilon, delta).
    """
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


def read_old_opendp(measurement: Any, d_in: Any = 1, delta: float | None = None) -> dict[str, Any]:
    """Return the numbers of the claim that a measurement of OpenDP up to 0.4 states, by name.

    These versions have no ``map``, so the smallest epsilon that ``measurement.check`` accepts is searched for.
    """
    if hasattr(measurement, "map"):
        raise ValueError("OpenDP 0.5 and 0.6 do not say whether map() gives epsilon or rho; return it by its name.")
    both = "," in str(measurement.output_distance_type)  # epsilon and delta
    if both and delta is None:
        raise ValueError("The measurement is approximate; give delta: (measurement, distance, delta).")
    low, high = 0.0, 2.0**-30
    while not measurement.check(d_in, (high, delta) if both else high):
        low, high = high, 2.0 * high
        if high > 2.0**30:
            raise ValueError(f"The measurement's check accepts no epsilon at distance {d_in!r}.")
    for _ in range(52):
        middle = (low + high) / 2.0
        accepted = measurement.check(d_in, (middle, delta) if both else middle)
        low, high = (low, middle) if accepted else (middle, high)
    return _pure_or_approximate(high, delta if both else 0.0)


def _pure_or_approximate(epsilon: Any, delta: Any = 0.0) -> dict[str, Any]:
    return {"epsilon": float(epsilon), **({"delta": float(delta)} if delta else {})}


if __name__ == "__main__":
    main()

"""InfTDA's release of the counts of two cells."""

import pandas as pd
from InfTDA import inf_tda
from serving import repeated, serve

CELLS = pd.MultiIndex.from_tuples([("a",), ("b",)])


def two_cells(epsilon, delta, contribution, distinct_tuples):
    """Counts of the cells a and b; neighbours differ in the tuples of one user, ``contribution`` at most."""

    def released(counts):
        data = pd.Series(counts, index=CELLS, dtype="int32")
        given = {"contribution": contribution, "distinct_tuples": distinct_tuples, "privacy_type": "bounded"}
        answer = inf_tda(data, (epsilon, delta), **given)
        return [int(answer.get(cell, 0)) for cell in CELLS]

    return {"kind": "ApproxDP", "epsilon": epsilon, "delta": delta}, repeated(released)


serve(two_cells)

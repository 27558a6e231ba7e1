"""What an audit cannot be given is refused before its first run, in one sentence, alike by every audit."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsaudit import AuditError, DatasetPair, audit, audit_sequentially


def never(data, rng):
    raise KeyboardInterrupt


class Person:
    def __init__(self, age):
        self.age = age


@dataclasses.dataclass
class Record:
    values: np.ndarray


AUDITS = [audit, audit_sequentially]
every_audit = pytest.mark.parametrize("run", AUDITS)
SAME = {
    "numbers": (1, 1.0),
    "lists": (["ann"], ["ann"]),
    "arrays": (np.arange(3), np.arange(3.0)),
    "missing": ([float("nan")], [float("nan")]),
    "missing in arrays": (np.array([np.nan]), np.array([np.nan])),
    "mappings in another order": ({"ann": 1, "bob": 2}, {"bob": 2, "ann": 1}),
    "arrays in mappings": ({"ann": np.arange(3)}, {"ann": np.arange(3)}),
    "objects": (Person(3), Person(3)),
    "records": (Record(np.arange(3)), Record(np.arange(3))),
    "pandas": (pd.DataFrame({"age": [1, 2]}), pd.DataFrame({"age": [1, 2]})),
    "polars": (pl.DataFrame({"age": [1, 2]}), pl.DataFrame({"age": [1, 2]})),
    "one object": (never, never),
}


@every_audit
@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_identical_datasets(run, pair):
    with pytest.raises(
        AuditError, match=r"^Both datasets of the pair .* are the same, so that nothing could tell them"
    ):
        run(never, [DatasetPair(0, 1), pair], epsilon=1.0)

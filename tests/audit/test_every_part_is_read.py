"""A leak in any part of an output that the normal form keeps is found, alone and inside a larger output.

Each leaky function reveals its dataset d, 0 or 1, in one part of every output, so that its privacy loss is infinite.
The rest of the output is noise that reveals nothing and hardly ever repeats, so that no whole output is an atom. The
sound twin of a function draws this part by a fair coin. At 99.9 % confidence, one sound twin in a thousand is refuted
by chance.
"""

import datetime
import json
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from epsaudit import PureDP, audit, audit_sequentially, black_box
from epsaudit.outputs.normal_form import _TYPES_OF_KIND

DAY = datetime.datetime(2024, 1, 1, 12)


def noisy_times(rng, hour):
    return DAY.replace(hour=hour) + datetime.timedelta(seconds=int(rng.integers(3600)))


# For each kind of the normal form and each part of it: a function that makes a value with a bit in this part and random
# other parts.
PARTS = {
    ("number", "float"): lambda bit, rng: 10.0 * bit + rng.uniform(),
    ("number", "whole number that is no float"): lambda bit, rng: 2**60 + 2**40 * bit + int(rng.integers(1000)),
    ("number", "Decimal that is no float"): lambda bit, rng: Decimal(10 * bit) + Decimal(int(rng.integers(1000))) / 7,
    ("number", "Fraction that is no float"): lambda bit, rng: 10 * bit + Fraction(int(rng.integers(1000)), 2_999),
    ("number", "NaN"): lambda bit, rng: float("nan") if bit else rng.laplace(),
    ("number", "infinity"): lambda bit, rng: float("inf") if bit else rng.laplace(),
    ("string", "characters"): lambda bit, rng: f"{rng.integers(10**6):06d}{'ab'[bit]}",
    ("string", "length"): lambda bit, rng: "x" * (5 + bit) + str(rng.integers(10**6, 10**7)),
    ("bytes", "bytes"): lambda bit, rng: bytes([bit, *rng.integers(256, size=4).tolist()]),
    ("datetime", "hour"): lambda bit, rng: noisy_times(rng, 3 + bit),
    ("date", "day"): lambda bit, rng: datetime.date(2024, 1 + int(rng.integers(12)), 1 + bit),
    ("time", "hour"): lambda bit, rng: noisy_times(rng, 3 + bit).time(),
    ("timedelta", "days"): lambda bit, rng: datetime.timedelta(days=bit, seconds=int(rng.integers(3600))),
    ("sequence", "part"): lambda bit, rng: (rng.laplace(), 10.0 * bit + rng.uniform()),
    ("sequence", "length"): lambda bit, rng: tuple(rng.laplace(size=2 + bit)),
    ("sequence", "order"): lambda bit, rng: tuple(sorted(rng.laplace(size=3), reverse=bool(bit))),
    ("sequence", "no part"): lambda bit, rng: () if bit else (rng.laplace(),),
    ("array", "number"): lambda bit, rng: np.array([[rng.laplace(), 10.0 * bit + rng.uniform()]]),
    ("array", "shape"): lambda bit, rng: rng.laplace(size=(1, 4) if bit else (4, 1)),
    ("array", "shape of another size"): lambda bit, rng: rng.laplace(size=(2, 2) if bit else (3, 2)),
    ("array", "shape without numbers"): lambda bit, rng: np.empty((0, 3) if bit else (3, 0)),
    ("array", "dimensions"): lambda bit, rng: rng.laplace(size=(1, 1, 4) if bit else (1, 4)),
    ("mapping", "value"): lambda bit, rng: {"a": rng.laplace(), "b": 10.0 * bit + rng.uniform()},
    ("mapping", "key"): lambda bit, rng: {"ab"[bit]: rng.laplace()},
    ("mapping", "further key"): lambda bit, rng: {"a": rng.laplace(), **({"b": "no"} if bit else {})},
    ("mapping", "size"): lambda bit, rng: dict.fromkeys(rng.permutation(1000)[: 2 + bit].tolist(), "all"),
    ("mapping", "order"): lambda bit, rng: dict(sorted({"a": rng.laplace(), "b": 1.0}.items(), reverse=bool(bit))),
    ("mapping", "two values with one noise"): lambda bit, rng: (lambda wide: {"noise": wide, "sum": wide + 3.0 + bit})(
        rng.laplace(scale=1000.0)
    ),
    ("set", "element"): lambda bit, rng: {int(rng.integers(10, 10**6)), bit},
    ("set", "size"): lambda bit, rng: set(rng.permutation(1000)[: 2 + bit].tolist()),
    ("None", "itself"): lambda bit, rng: None if bit else rng.laplace(),
    ("kind", "sequence or array"): lambda bit, rng: rng.laplace(size=(2, 2)) if bit else tuple(rng.laplace(size=4)),
    ("kind", "sequence or set"): lambda bit, rng: (set if bit else tuple)(rng.laplace(size=2).tolist()),
    ("kind", "sequence or mapping"): lambda bit, rng: {0: rng.laplace()} if bit else (rng.laplace(),),
    ("kind", "number or string"): lambda bit, rng: (str if bit else float)(rng.integers(10**6)),
    ("kind", "number or sequence"): lambda bit, rng: (rng.laplace(),) if bit else rng.laplace(),
}
OUTCOMES = {  # outcomes of whole runs, which lie inside no output
    ("raised", "type"): lambda bit, rng: raises((KeyError, ValueError)[bit]) if rng.random() < 0.5 else rng.laplace(),
    ("raised", "status"): lambda bit, rng: sys.exit(3 + bit) if rng.random() < 0.5 else rng.laplace(),
    ("timeout", "itself"): lambda bit, rng: raises(TimeoutError) if bit else rng.laplace(),
}
WHERE = {
    "alone": lambda make: make,
    "in a list": lambda make: lambda bit, rng: [rng.laplace(), make(bit, rng)],
    "in a mapping": lambda make: lambda bit, rng: {"noise": rng.laplace(), "value": make(bit, rng)},
    "in a list of mappings": lambda make: (
        lambda bit, rng: [{"n": rng.laplace()}, {"n": rng.laplace(), "value": make(bit, rng)}]
    ),
}
WHERE_DAILY = ("alone", "in a mapping")


def raises(error):
    raise error


def some_daily(cases):
    """Mark all cases as slow, except one for each part: alone and in a mapping in turn. The weekly tests run all."""
    kinds = list(dict.fromkeys(case[:2] for case in cases))
    daily = {(*kind, WHERE_DAILY[number % 2] if kind in PARTS else "alone") for number, kind in enumerate(kinds)}
    return [pytest.param(*case, id=" ".join(case), marks=() if case in daily else pytest.mark.slow) for case in cases]


CASES = [(*part, where) for part in PARTS for where in WHERE] + [(*part, "alone") for part in OUTCOMES]


@pytest.mark.parametrize(("kind", "part", "where"), some_daily(CASES))
def test_a_leak_in_every_part_is_refuted(kind, part, where):
    make = WHERE[where]({**PARTS, **OUTCOMES}[kind, part])
    leaky = black_box(make, claim=PureDP(1.0))
    assert audit(leaky, (0, 1), trials=2_000, seed=1, n_jobs=1).violates_claim


@pytest.mark.parametrize(("kind", "part", "where"), some_daily(CASES))
def test_a_part_that_a_coin_decides_is_not_refuted(kind, part, where):
    make = WHERE[where]({**PARTS, **OUTCOMES}[kind, part])
    sound = black_box(lambda d, rng: make(int(rng.integers(2)), rng), claim=PureDP(1.0))
    assert not audit(sound, (0, 1), trials=1_000, confidence=0.999, seed=1, n_jobs=1).violates_claim


def test_all_kinds_of_the_normal_form_have_a_case():
    assert {*_TYPES_OF_KIND} <= {kind for kind, *_ in CASES}


def frame(values):
    return pd.DataFrame({name: [value] for name, value in values.items()})


ONE_NOISE = {
    "mapping": dict,
    "tuple": lambda values: tuple(values.values()),
    "frame": frame,
    "list of mappings": lambda values: [values],
    "two mappings": lambda values: [{"a": values["noise"]}, {"b": values["sum"]}],
    "JSON": json.dumps,
    "named fields": lambda values: " ".join(f"{name}={value!r}" for name, value in values.items()),
    "XML": lambda values: "<r>" + "".join(f"<{name}>{value!r}</{name}>" for name, value in values.items()) + "</r>",
    "commas": lambda values: ",".join(map(repr, values.values())),
    "two of 20 in a mapping": lambda values: {
        "a": values["noise"], **{f"k{place}": number for place, number in enumerate(values["rest"])},
        "z": values["sum"],
    },
    "two of 20 coordinates": lambda values: np.array([values["noise"], *values["rest"], values["sum"]]),
}  # fmt: skip


DAILY_FORMS = ("mapping", "frame", "JSON", "two of 20 coordinates")
"""Forms of the daily tests; the weekly tests use all."""


@pytest.mark.parametrize("audited", [audit, pytest.param(audit_sequentially, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if form in DAILY_FORMS else pytest.mark.slow) for form in ONE_NOISE]
)
def test_two_numbers_with_one_wide_noise_are_subtracted(form, audited):
    """Each number alone is 0.001-DP, but their difference reveals d.

    With noise of its own in each number, both together are 0.002-DP.
    """

    def release(d, rng, alone=False):
        noise, other = rng.laplace(scale=1000.0, size=2)
        values = {"noise": noise, "sum": (other if alone else noise) + 3.0 + d}
        # the two numbers are far apart and have opposite signs, so that neither neighbours nor the maximum reveal d
        if "20" in form:
            values["rest"] = rng.laplace(size=18).tolist()
            values["sum"] = 6.0 + 2.0 * d - values["sum"]
        return ONE_NOISE[form](values)

    assert audited(black_box(release, claim=PureDP(1.0)), (0, 1), trials=4_000, seed=1, n_jobs=1).violates_claim
    sound = black_box(lambda d, rng: release(d, rng, alone=True), claim=PureDP(1.0))
    assert not audited(sound, (0, 1), trials=1_000, confidence=0.999, seed=1, n_jobs=1).violates_claim

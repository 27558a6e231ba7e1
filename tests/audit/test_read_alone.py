"""The number that a feature reads off an output depends on this output only.

It does not depend on the block of the output, on how the block is stored, or on what was read before.
"""

import datetime
import json
import random

import numpy as np
import pytest

from epsaudit import PureDP, audit, black_box
from epsaudit.outputs.arrays import join_outputs, pack
from epsaudit.outputs.normal_form import NAN, Raised, normalise
from epsaudit.outputs.readings import READINGS, Reading
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import Scaled
from epsaudit.witnesses.parts import CategoryCode, Contains, Coordinate, Length, NumberAt, PositionOf, Value
from epsaudit.witnesses.serialisation import feature_from_dict, feature_to_dict

TEXTS = (
    "",
    "ann",
    "5 m²",
    "½ ①",
    "1e999 -2.25",
    "٣.٥ ٣",
    '{"n": [1, 2], "m": null}',
    "[[[[1]]]]",
    "[NaN, 1e999]",
    "9" * 500,
)
NUMBERS = (0.0, 1.0, 2.0, 3.5, 1e300, float("inf"), NAN, 2**53 + 1, 10**400, True)
OTHERS = (None, Raised("ValueError"), datetime.date(1, 1, 1), datetime.timedelta(-5, 3), b"ab", frozenset({"ann", 1.0}))
KEYS = ("a", "b", "n", 1.0, (1.0, "x"), None, NAN, 2**60 + 1)
ITEMS = (0.0, 1.0, 2.0, NAN, "ann", None, (1.0, 2.0), (1.0, 2.0, 3.0), (1.0, "x"), normalise({"a": 1}))


def output(rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 3)
    if kind < 3:
        return rng.choice((TEXTS, NUMBERS, OTHERS)[kind])
    if kind == 3:
        return tuple(rng.sample([1.0, 2.0, 3.0], 3))
    if kind == 4:
        return np.array([[rng.choice([1.0, 2.0]) for _ in range(2)] for _ in range(rng.randrange(3))])
    if kind == 5:
        return tuple(output(rng, depth + 1) for _ in range(rng.randrange(4)))
    return {key: output(rng, depth + 1) for key in rng.sample(KEYS, rng.randrange(4))}


def feature(rng, depth=0):
    places = (*KEYS, 0, 1, 2, -1, -2, *map(Reading, READINGS))
    path = tuple(rng.choice(places) for _ in range(rng.randrange(4)))
    made = (
        Value, lambda: Coordinate(rng.choice([0, 1, 5, -1, -7])), lambda: NumberAt(path), lambda: Length(path),
        lambda: Contains(rng.choice(ITEMS)), lambda: PositionOf(rng.choice(ITEMS)),
        lambda: CategoryCode(path, tuple(rng.sample(ITEMS, 3))),
        lambda: CoordinateStatistic(rng.choice(["sum", "max", "argmin"]), 3),
        lambda: Scaled(feature(rng, 1), 1), lambda: CrossTable(feature(rng, 1), feature(rng, 1), (0.5, 1.5), (1.0,)),
        lambda: Combination(rng.choice("+-*"), feature(rng, 1), feature(rng, 1)),
    )  # fmt: skip
    return rng.choice(made[: 8 if depth else None])()


@pytest.mark.parametrize("seed", range(8))
def test_an_output_is_read_alike_alone_and_among_others(seed):
    rng = random.Random(seed)
    for _ in range(60):
        read, one, place = feature(rng), output(rng), rng.randrange(4)
        others = [output(rng) if rng.random() < 0.5 or not isinstance(one, tuple) else one for _ in range(4)]
        block = pack([*others[:place], one, *others[place:]])
        again = feature_from_dict(json.loads(json.dumps(feature_to_dict(read))))
        views = {
            "a block": (block, place), "twice": (block, place), "a slice": (block[place:], 0),
            "a copy": (block.copy(), place), "every other": (block[place % 2 :: 2], place // 2),
            "joined": (join_outputs([block, np.array([None], object)]), place),
        }  # fmt: skip
        with np.errstate(all="ignore"):
            alone = float(read(pack([one]))[0])
            for name, (outputs, at) in views.items():
                for reader in (read, again):
                    values = np.asarray(reader(outputs), float)
                    assert values.shape == (len(outputs),), name
                    assert values[at] == pytest.approx(alone, rel=0, abs=0, nan_ok=True), (name, read, one, others)


def test_odd_outputs_in_certification_stop_nothing():
    """A few certification runs return a letter that some parsers take for a number, or mappings with the key NaN."""

    def area(data, rng):
        return f"area {rng.integers(50) + 60 * data}" + ("m²" if rng.random() < 0.002 else "")

    def counts(data, rng):
        return {float("nan"): 1.0 + data, "a": rng.integers(9)} if rng.random() < 0.998 else None

    for function in (area, counts):
        assert audit(black_box(function, claim=PureDP(1.0), pairs=[(0, 1)]), trials=6_000, seed=1).violates_claim

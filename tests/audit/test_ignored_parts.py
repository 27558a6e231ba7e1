"""A part of outputs that no witness reads is named in one note if it differs between x and x', and only then."""

from collections import OrderedDict

import numpy as np
import pytest

from epsaudit import PureDP, audit, black_box, vectorized
from epsaudit.outputs.ignored_parts import MIN_CONSTANT_OUTPUTS, IgnoredParts, find_differing, observe, observe_rows


class Whole(int):
    """A subclass of int."""


# the output that a bit decides, where no witness reads the bit, and the kind that the note names
CONSTANT = {
    "int or float": (lambda bit, rng: (int, float)[bit](rng.integers(9)), "types of values"),
    "bool or int": (lambda bit, rng: (bool, int)[bit](rng.integers(2)), "types of values"),
    "float or numpy's": (lambda bit, rng: (float, np.float64)[bit](rng.laplace()), "types of values"),
    "subclass": (lambda bit, rng: (int, Whole)[bit](rng.integers(9)), "types of values"),
    "list or tuple": (lambda bit, rng: (list, tuple)[bit](rng.laplace(size=2).tolist()), "types of values"),
    "tuple or array": (lambda bit, rng: (tuple, np.array)[bit](rng.laplace(size=2)), "types of values"),
    "dtype": (lambda bit, rng: rng.integers(9, size=3).astype(("i4", "f8")[bit]), "types of values"),
    "byte order": (lambda bit, rng: rng.integers(9, size=3).astype(("<i8", ">i8")[bit]), "types of values"),
    "bytes or bytearray": (lambda bit, rng: (bytes, bytearray)[bit]([int(rng.integers(3))]), "types of values"),
    "type of a mapping": (lambda bit, rng: (dict, OrderedDict)[bit](a=rng.laplace()), "types of values"),
    "set or frozenset": (lambda bit, rng: (set, frozenset)[bit]([int(rng.integers(9))]), "types of values"),
    "key": (lambda bit, rng: {(int, float)[bit](1): rng.laplace()}, "types of values"),
    "inside a list": (lambda bit, rng: [rng.laplace(), (int, float)[bit](rng.integers(9))], "types of values"),
    "inside a mapping": (lambda bit, rng: {"b": [(int, float)[bit](rng.integers(9))]}, "types of values"),
    "same types, other places": (lambda bit, rng: [(int, float)[bit](1), (int, float)[1 - bit](2)], "types of values"),
    "last bits": (lambda bit, rng: (float(np.float32(rng.laplace())), rng.laplace())[bit], "last bits of numbers"),
    "last bits of an array": (
        lambda bit, rng: (rng.laplace(size=2).astype("f4").astype("f8"), rng.laplace(size=2))[bit],
        "last bits of numbers",
    ),
    "sign of zero": (lambda bit, rng: -0.0 if bit else 0.0, "sign of zero"),
    "sign of zero inside": (lambda bit, rng: [rng.laplace(), np.array([-0.0 if bit else 0.0])], "sign of zero"),
}


@pytest.mark.parametrize("case", CONSTANT)
def test_ignored_parts_that_are_constant_on_each_side_are_noted_once(case):
    make, kind = CONSTANT[case]
    for telling in (True, False):
        run = black_box(lambda d, rng, telling=telling: make(d * telling, rng), claim=PureDP(1.0))
        result = audit(run, (0, 1), trials=1_000, confidence=0.999, seed=1, n_jobs=1)
        notes = [note for note in result.notes if "is not read" in note]
        assert len(notes) == telling
        assert all(kind in note for note in notes)
        assert not result.violates_claim


def test_noted_last_bits_are_read_by_all_witnesses():
    leaky = black_box(lambda d, rng: (float(np.float32(rng.laplace())), rng.laplace())[d], claim=PureDP(1.0))
    assert audit(leaky, (0, 1), trials=1_000, seed=1, n_jobs=1, witnesses="all").violates_claim


def suppressed(d, rng):
    """Return the whole number 0 for small counts.

    This is 1-DP, although the type of the output depends on the count.
    """
    noisy = 2 + d + rng.laplace()
    return noisy if noisy > 2.0 else 0


SOUND = {
    "small counts are 0": suppressed,
    "lists of a noisy length": lambda d, rng: [0.0] * max(int(3 + d + rng.laplace()), 0),
    "rounded at random": lambda d, rng: round(rng.laplace()) if rng.random() < 0.5 else rng.laplace(),
    "noise in double precision": lambda d, rng: d + rng.laplace(),
    "a coin decides the type": lambda d, rng: (int, float)[rng.integers(2)](rng.integers(9)),
}


@pytest.mark.parametrize("case", SOUND)
def test_sound_mechanisms_get_no_note(case):
    for seed in range(3):
        result = audit(black_box(SOUND[case], claim=PureDP(1.0)), (0, 1), trials=1_000, seed=seed, n_jobs=1)
        assert not [note for note in result.notes if "is not read" in note]


@pytest.mark.parametrize("bit", [0, 1])
def test_arrays_of_many_outputs_are_observed(bit):
    def counts(d, size, rng):
        return np.rint(rng.laplace(size=size)).astype(("i8", "f8")[d * bit])

    result = audit(vectorized(counts, claim=PureDP(1.0)), (0, 1), trials=1_000, confidence=0.999, seed=1, n_jobs=1)
    assert any("types of values" in note for note in result.notes) == bool(bit)


def test_rows_are_observed_as_single_outputs_are():
    rng = np.random.default_rng(1)
    rows = np.array([[1.5, 0.0], [0.1, -0.0], [np.nan, np.inf], [2.0, 0.3]])
    rows = np.concatenate([rows, rng.laplace(size=(20, 2))])
    at_once, singly = IgnoredParts(), IgnoredParts()
    observe_rows(at_once, rows)
    for row in rows:
        observe(singly, row)
    del singly["names of the fields of an array", (), "None"]  # an array of plain numbers has no fields
    assert at_once == singly  # Counter ignores zeros
    assert len([number for number in at_once.values() if number]) == 6


def test_few_outputs_are_not_called_constant():
    some = [IgnoredParts(), IgnoredParts()]
    for times in (MIN_CONSTANT_OUTPUTS - 1, 1):
        for ignored, output in zip(some, (1, 1.0), strict=True):
            for _ in range(times):
                observe(ignored, output)
        assert bool(find_differing(*some)) == (times == 1)

"""Outputs of any type and dtype do not depend on other outputs of their block, or on later changes by the function.

Each correct function is exactly 1-DP; at 99.99 % confidence an audit refutes it by chance once in 10,000 times. The
leaky function has half of the noise that its claim needs, and returns memory that it overwrites later.
"""

import datetime
import enum
import json
import math
import sys
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsaudit import (
    AuditError,
    AuditResult,
    DatasetPair,
    PureDP,
    audit,
    audit_sequentially,
    black_box,
    serve,
    vectorized,
)
from epsaudit.audits.verify import recompute
from epsaudit.outputs.arrays import join_outputs, normalise_array, pack, values_of
from epsaudit.outputs.atoms import describe_atoms
from epsaudit.outputs.json_form import output_from_json, output_to_json
from epsaudit.outputs.normal_form import Array, normalise
from epsaudit.witnesses.events import Interval, Region, event_from_dict

PAIR = DatasetPair(0, 1)
CLAIM = PureDP(1.0)


def whole_numbers_beside_rare_floats(data, rng):
    """Return a whole number, and rarely a float or None.

    One float once converted a whole block to floats, which looked like a leak.
    """
    u = rng.random()
    if u < 0.001:
        return None
    return 0.5 if u < 0.001 + 0.04 * (math.e if data else 1.0) else 0


def test_numbers_of_two_types_in_one_block():
    sound = black_box(whole_numbers_beside_rare_floats, claim=CLAIM, pairs=[PAIR])
    assert not audit(sound, trials=50_000, confidence=0.9999, seed=0, n_jobs=1).violates_claim
    assert audit_sequentially(sound, trials=20_000, confidence=1 - 1e-6, seed=0, n_jobs=1).stopped != "refuted"


@pytest.mark.parametrize("kept", [np.zeros(1), [0.0], {}], ids=["array", "list", "mapping"])
def test_an_object_that_is_filled_again_for_every_run_is_another_output_in_each(kept):
    def function(data, rng):
        kept[0] = rng.laplace()
        return kept

    assert len({*values_of(black_box(function)(0).sample(9, np.random.default_rng(0)))}) == 9


@pytest.mark.parametrize("dtype", [float, np.float32, object])
def test_a_buffer_that_is_filled_again_for_every_call(dtype):
    buffer = np.zeros(1 << 17, dtype)

    def function(data, size, rng):
        buffer[:size] = data + 0.5 * rng.laplace(size=size)
        return buffer[:size]

    mechanism = vectorized(function, claim=CLAIM, pairs=[PAIR])
    assert audit(mechanism, trials=8_000, confidence=0.9999, seed=1, n_jobs=1).violates_claim
    assert audit_sequentially(mechanism, trials=20_000, confidence=0.9999, seed=1, n_jobs=1).stopped == "refuted"


UNLIKE = {
    "no time and nothing": (lambda: np.datetime64("NaT"), lambda: None),
    "no times and nothings": (lambda: np.full(2, "NaT", "datetime64[s]"), lambda: [None, None]),
    "complex numbers with a NaN": (lambda: complex(math.nan, 1), lambda: complex(math.nan, 2)),
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_what_differs_stays_different(kind):
    first, second = (make() for make in UNLIKE[kind])
    assert normalise(first) != normalise(second)
    for value in (first, second):
        form = normalise(value)
        assert {output_from_json(json.loads(json.dumps(output_to_json(form))))} == {form}  # of one object for NaN
        assert {form, normalise(value), *values_of(pack([value])), values_of(pack([value, "a"]))[0]} == {form}


def test_a_column_of_numbers_keeps_what_no_float_holds():
    column = np.array(["NaT", 0], "M8[s]")
    assert values_of(normalise_array(column)) == [normalise(value) for value in column]
    assert len(set(normalise_array(column).tolist())) == 2


def test_every_nan_is_one():
    nans = [math.nan, np.nan, Decimal("nan"), Decimal("sNaN"), np.longdouble("nan"), pd.NaT]
    nans += [np.datetime64("NaT"), np.timedelta64("NaT"), np.float32("nan")]
    assert {normalise(value) for value in nans} == {normalise(math.nan)}


def holds_itself():
    kept = []
    kept.append(kept)
    return kept


def deep():
    value = ()
    for _ in range(5_000):
        value = (value,)
    return value


@pytest.fixture
def usual_depth():
    """Restore Python's default recursion limit, which a library may have raised."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_depth")
def test_lists_too_deep_in_a_file_are_no_output():
    data = 1.0
    for _ in range(5_000):
        data = [data]
    with pytest.raises(AuditError, match="is not an output"):
        output_from_json(data)


EARLY = datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=9)))


@pytest.mark.parametrize("make", [lambda: EARLY, holds_itself, deep], ids=["early", "holds itself", "deep"])
@pytest.mark.usefixtures("usual_depth")
def test_an_output_without_a_normal_form_is_refused_in_a_sentence(make):
    for function, adapter in [(lambda data, rng: make(), black_box), (lambda data, rng: [1.0, make()], black_box)]:
        with pytest.raises(AuditError, match="cannot be compared; return numbers"):
            adapter(function)(0).sample(1, np.random.default_rng(0))


DAY = datetime.date(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12, 0, 0, 7)
PARIS = NOON.replace(tzinfo=ZoneInfo("Europe/Paris"))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


KINDS = {
    "whole numbers beyond 2^64": (2**70, 2**70 + 1),
    "complex numbers": (1 + 2j, complex(math.inf, -0.5)),
    "decimals": (Decimal("1.10"), Decimal("1.20")),
    "dates": (DAY, DAY + datetime.timedelta(1)),
    "moments somewhere": (PARIS, PARIS + datetime.timedelta(1)),
    "spans": (datetime.timedelta(1, 2, 3), datetime.timedelta(-1)),
    "members of an Enum": (Colour.RED, Colour.BLUE),
    "sets": ({"a", "b", b"c"}, {"a", "b"}),
    "tuples of all that": ((b"a", DAY, (Decimal(1) / 3, Colour.RED)), (b"a", DAY, (Decimal(2) / 3, Colour.RED))),
    "mappings": ({"a": 1j, b"b": Colour.RED}, {"a": 2j}),
}


SLOW = {"mappings", "tuples of all that", "spans", "sets", "complex numbers"}  # about a second each


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS])
def test_a_saved_witness_is_the_witness(kind):
    """The event has probabilities 0.5 on x and 0.9 on x', so epsilon is log 5; a bound exceeds it once in a million
    times.
    """
    first, second = KINDS[kind]

    def flip(data, rng):
        return first if rng.random() < (0.9 if data else 0.5) else second

    mechanism = black_box(flip, claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
    result = audit(mechanism, trials=20_000, confidence=1 - 1e-6, seed=1, n_jobs=1)
    assert 1.3 < result.lower_bound <= math.log(5)
    stored = json.loads(json.dumps(result.to_dict()))
    assert recompute(stored).holds
    fresh = mechanism(0).sample(1_000, np.random.default_rng(2))
    assert 300 < sum(result.witness.count(fresh)) < 700
    assert AuditResult.from_dict(stored).witness.count(fresh) == result.witness.count(fresh)


@pytest.mark.parametrize("kind", KINDS)
def test_atoms_are_written_with_their_type(kind):
    for atom in pack([*KINDS[kind], None]).tolist():
        again = output_from_json(json.loads(json.dumps(output_to_json(atom))))
        assert {again} == {atom}  # of one object for NaN
        assert type(again) is type(atom)
        assert describe_atoms("", [again]) == describe_atoms("", [atom])


@pytest.mark.parametrize(
    "data", [{"bytes": "x"}, {"decimal": "one"}, {"complex": ["1"]}, {"date": "today"}, {"float": "x"}]
)
def test_what_is_no_atom_is_refused(data):
    with pytest.raises(AuditError, match="is not an output"):
        output_from_json(data)


class TestBlocks:
    """Whether an output is an atom does not depend on the other outputs of its block."""

    def test_whole_numbers_that_no_float_holds_are_not_rounded_among_floats(self):
        def flip(data, rng):
            if rng.random() < 0.1:
                return 0.5
            return 2**60 + int(rng.random() < (0.9 if data else 0.5))

        mechanism = black_box(flip, claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
        assert audit(mechanism, trials=20_000, seed=1, n_jobs=1).lower_bound > 1.2
        assert pack([2**53, 0.5, math.inf, math.nan]).dtype == float

    def test_bounds_of_intervals_are_kept_to_the_last_digit(self):
        event = Region(intervals=(Interval(2.0**60, math.inf), Interval(0.1, 0.1)))
        again = event_from_dict(json.loads(json.dumps(event.to_dict())))
        assert again == event
        assert again.contains(np.array([0.1, np.float32(0.1)])).tolist() == [True, False]


RECORD = np.dtype([("count", "f8"), ("cell", "i4")])


def records(told):
    made = np.zeros(len(told), RECORD)
    made["cell"] = told
    return made


KINDS_BLOCKS = {
    "arrays of strings": lambda told: np.where(told[:, None], [["a", "b"]], [["a", "c"]]),
    "complex numbers": lambda told: np.where(told, 1 + 2j, 1 + 3j),
    "records": records,
    "masked numbers": lambda told: np.ma.masked_array(np.ones(len(told)), mask=told),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", KINDS_BLOCKS)
def test_a_leak_is_seen_in_outputs_of_every_dtype(kind):
    """The event has probabilities 0.5 on x and 0.9 on x', so epsilon is log 5; a bound exceeds it once in a million
    times.
    """

    def flip(data, size, rng):
        return KINDS_BLOCKS[kind](rng.random(size) < (0.9 if data else 0.5))

    bound = audit(vectorized(flip, claim=PureDP(1.0), pairs=[PAIR]), trials=20_000, seed=1, n_jobs=1).lower_bound
    assert 1.3 < bound <= math.log(5)


@pytest.mark.parametrize(("shape", "rate", "trials"), [(3, 0.2, 5_000), ((2, 2), 5e-3, 20_000)])
def test_refusals_and_exceptions_among_arrays_are_outcomes(shape, rate, trials):
    """Blocks without a refusal are arrays, and blocks with one hold objects. On x there is no refusal."""

    def noisy(data, rng):
        if rng.random() < data * rate:
            raise ValueError("too few")
        return rng.normal(size=shape)

    result = audit(black_box(noisy, claim=PureDP(1.0), pairs=[PAIR]), trials=trials, seed=1, n_jobs=1)
    assert result.violates_claim
    assert "ValueError" in str(result.witness)


def test_matrices_among_refusals_keep_their_shape():
    (matrix, refusal) = join_outputs([np.arange(4.0).reshape(1, 2, 2), np.array([None], dtype=object)]).tolist()
    assert matrix == Array.of((0.0, 1.0, 2.0, 3.0), (2, 2)) != Array.of((0.0, 1.0, 2.0, 3.0), (4, 1))
    assert matrix != (0.0, 1.0, 2.0, 3.0)
    assert refusal is None


def test_the_shape_of_a_matrix_may_tell():
    """The shape is (2, 3) on x and (3, 2) on x'. A rare refusal makes blocks of objects."""

    def shaped(data, rng):
        if rng.random() < 0.01:
            return None
        return np.zeros((2, 3) if data else (3, 2))

    assert audit(black_box(shaped, claim=PureDP(1.0), pairs=[PAIR]), trials=20_000, seed=1).violates_claim


DATA = {"age": [31, 40, 52], "name": ["ann", "bob", "cy"]}
libraries = pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])


@libraries
class TestWriting:
    def test_shape_columns_and_the_first_row_that_differs(self, library):
        x = library.DataFrame(DATA)
        other = library.DataFrame({**DATA, "age": [31, 41, 53]})
        frame = "DataFrame of 3 rows: age, name"
        said = f"{frame} against {frame}; record 1 is (40, 'bob') against (41, 'bob') (3 against 3 records)"
        assert str(DatasetPair(x, other)) == said
        assert str(DatasetPair(x, x)) == f"{frame} against {frame}"
        assert str(DatasetPair(x[:2], x)) == f"DataFrame of 2 rows: age, name against {frame}"
        assert str(DatasetPair(x, 3)) == "DataFrame of 3 rows: age, name against 3"
        assert str(DatasetPair(x, other, name="mine")) == "mine"


@libraries
class TestOutputs:
    def test_a_frame_is_the_mapping_of_its_columns_and_a_series_its_values(self, library):
        frame = library.DataFrame({"a": [1, 2], "b": ["x", None]})
        assert normalise(frame).get("a") == (1.0, 2.0)
        assert normalise(library.DataFrame(DATA)) == normalise(DATA)
        assert normalise(library.Series([1.5, 2.0])) == (1.5, 2.0)
        assert normalise([library.Series(["a"])]) == (("a",),)

    @pytest.mark.slow
    def test_a_leak_in_a_cell_is_found(self, library):
        def release(data, rng):
            return library.DataFrame({"group": ["a", "b"], "count": [len(data) + rng.laplace(), rng.laplace()]})

        x = library.DataFrame(DATA)
        result = audit(
            black_box(release, claim=PureDP(0.5), pairs=[DatasetPair(x, x[:2])]), trials=1_500, seed=1, n_jobs=1
        )
        assert 0.5 < result.lower_bound <= 1.0, "it loses 1"
        assert "y['count'][0]" in str(result.witness)


def test_columns_of_one_name_are_no_mapping():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(AuditError, match="DataFrame of 1 row: a, a of type DataFrame"):
        normalise(frame)
    assert math.isnan(normalise(pd.Series([math.nan]))[0])


ROWS = [[0.5, -1.25, 3.0], [2.0, 0.0, -0.75]]
"""Floats of eight bits too."""


class Tensor:
    """A stand-in for a tensor of torch, which numpy can read only after conversion to a dense array of doubles."""

    def __init__(self, ready=()):
        self.ready = ready

    def detach(self):
        return self

    def cpu(self):
        return self

    def is_floating_point(self):
        return True

    def numpy(self):
        if self.ready != ("to_dense", "resolve_conj", "resolve_neg", "double"):
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.array(ROWS)

    def __getattr__(self, name):
        if name not in ("to_dense", "resolve_conj", "resolve_neg", "double"):
            raise AttributeError(name)
        return lambda: Tensor((*self.ready, name))


def equal(output, numbers):
    assert normalise(output) == normalise(np.array(numbers))
    assert normalise_array(output).tolist() == numbers
    assert output_from_json(serve.encode_value(output)) == normalise(np.array(numbers))


def test_a_tensor_of_a_type_that_numpy_lacks_is_read():
    equal(Tensor(), ROWS)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_tensors_of_torch_are_arrays(kind):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(ROWS).to(getattr(torch, kind))
    equal(tensor, ROWS)
    equal(torch.nn.Parameter(tensor), ROWS)
    assert normalise({"w": tensor, "n": tensor[0, 0]}) == normalise({"w": np.array(ROWS), "n": 0.5})


def both(value):
    """Return the normal form, after checking that the encoding of the server gives the same one."""
    assert output_from_json(serve.encode_value(value)) == normalise(value)
    return normalise(value)


def test_models_of_pydantic_are_mappings_of_their_fields():
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", tags=(list[str], ...))
    model = pydantic.create_model("Model", n=(int, ...), at=(datetime.date, ...), inner=(inner, ...))
    at = datetime.date(2026, 1, 2)
    assert both(model(n=1, at=at, inner=inner(tags=["a"]))) == normalise({"n": 1, "at": at, "inner": {"tags": ["a"]}})


def test_tables_batches_and_columns_of_arrow_are_what_they_hold():
    arrow = pytest.importorskip("pyarrow")
    columns = {"a": [1, None, 3], "b": ["x", "y", None]}
    table = arrow.table(columns)
    assert both(table) == both(table.to_batches()[0]) == normalise(columns)
    assert both(table["a"]) == both(table["a"].chunk(0)) == (1.0, None, 3.0)


@pytest.mark.parametrize(
    "value", [1.5, None, "a", True, 2**60 + 1, b"a", [1, 2], {"a": 1}, datetime.datetime(2026, 1, 2)]
)
def test_scalars_of_arrow_are_their_values(value):
    arrow = pytest.importorskip("pyarrow")
    assert both(arrow.scalar(value)) == normalise(value)
    assert both(arrow.array([value])) == normalise([value])

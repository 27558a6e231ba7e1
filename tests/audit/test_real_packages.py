"""Outputs of pydantic and pyarrow themselves, where these are installed: stand-ins with their members are elsewhere."""

import datetime

import pytest

from epsaudit import serve
from epsaudit.outputs.as_json import from_json
from epsaudit.outputs.normal_form import normal


def both(value):
    """The normal form, which is the same where the function runs in another process."""
    assert from_json(serve.plain(value)) == normal(value)
    return normal(value)


def test_models_of_pydantic_are_mappings_of_their_fields():
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", tags=(list[str], ...))
    model = pydantic.create_model("Model", n=(int, ...), at=(datetime.date, ...), inner=(inner, ...))
    at = datetime.date(2026, 1, 2)
    assert both(model(n=1, at=at, inner=inner(tags=["a"]))) == normal({"n": 1, "at": at, "inner": {"tags": ["a"]}})


def test_tables_batches_and_columns_of_arrow_are_what_they_hold():
    arrow = pytest.importorskip("pyarrow")
    columns = {"a": [1, None, 3], "b": ["x", "y", None]}
    table = arrow.table(columns)
    assert both(table) == both(table.to_batches()[0]) == normal(columns)
    assert both(table["a"]) == both(table["a"].chunk(0)) == (1.0, None, 3.0)


@pytest.mark.parametrize(
    "value", [1.5, None, "a", True, 2**60 + 1, b"a", [1, 2], {"a": 1}, datetime.datetime(2026, 1, 2)]
)
def test_scalars_of_arrow_are_their_values(value):
    arrow = pytest.importorskip("pyarrow")
    assert both(arrow.scalar(value)) == normal(value)
    assert both(arrow.array([value])) == normal([value])

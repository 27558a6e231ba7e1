"""Readings of text: what each makes of it, what it leaves alone, and on which of them a sample agrees."""

import datetime

import pytest

from epsaudit.outputs.normal_form import normal
from epsaudit.outputs.readings import LONGEST_REPEAT, Reading, readings_of


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("commas", "new york, 7,-0.5e1,00ff", ("new york", 7.0, -5.0, "00ff")),
        ("commas", 'a,"b, ""c""",7', ("a", 'b, "c"', 7.0)),
        ("bars", "9007199254740993|1.|x", (2**53 + 1, 1.0, "x")),
        ("tokens", "(at 2026-03-01) 10.3.44.1: 7!", ("at", datetime.date(2026, 3, 1), "10.3.44.1", 7.0)),
        ("named", 'took=17 ms, name="a b"; at: x2 took=3', normal({"at": "x2", "name": "a b", "took": 17})),
        ("xml", "<r><n>7</n><i>1</i><i>a</i>end</r>", normal({"#text": "end", "i": [1, "a"], "n": 7})),
        ("xml", "<r><n>7</r>", None),
        ("xml", '<!DOCTYPE r [<!ENTITY a "b">]><r>&a;</r>', None),
        ("xml", "<r>" * 100_000, None),
    ],
)
def test_text_is_read_as_a_record(name, text, read):
    assert Reading(name)(text) == read


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 11, 30, LONGEST_REPEAT, LONGEST_REPEAT + 9])
def test_the_longest_repeat_is_exact_up_to_a_length(size):
    part = "".join(chr(1000 + place) for place in range(size))
    assert Reading("text")(f"{part}.{part}").get("longest repeat") == min(size, LONGEST_REPEAT)


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["a=1 b=2", "b=3 a=4", "b=1 c=1"], ["named", "words", "text", "characters"]),
        (["one 7", "two 8", "six 9"], ["words", "text", "characters"]),
        (["x", "x y 7", "x y z 8 z"], ["tokens with digits", "words", "text", "characters"]),
        (["a;b c;7", "a b c d;e;8", "x y z;z;9"], ["semicolons", "words", "text", "characters"]),
        (["<r/>", "<r>7</r>", "no"], ["xml"]),
    ],
)
def test_readings_are_those_that_over_half_of_a_sample_agrees_on(texts, names):
    assert list(readings_of(texts, [], 8)) == names

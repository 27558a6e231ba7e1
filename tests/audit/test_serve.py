"""`epsaudit serve`: a function in any environment, served by one file under any Python from 3.8 on."""

import ast
import datetime
import ipaddress
import math
import shutil
import subprocess
import sys
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsaudit import AuditError, PureDP, audit, command, serve
from epsaudit.outputs.arrays import values_of
from epsaudit.outputs.json_form import output_from_json
from epsaudit.outputs.normal_form import Raised, normalise
from epsaudit.tools.cli.main import main

FILE = Path(serve.__file__)
FUNCTIONS = """
import math, os, random, sys
print("a library that says hello")
registry = "not the module of that name beside serve.py"
sys.stdin.read()

def loud(data, scale=1.0):
    print("to stdout")
    os.system("echo from another process")
    return sum(data) + random.expovariate(1 / scale) - random.expovariate(1 / scale)

def framed(data, size):
    import pandas
    return pandas.DataFrame({"a": [1.0] * size, "b": [1.0] * size})

def one_frame(data):
    return 1.0

one_frame.many = framed

def odd(data):
    if data == [0]:
        raise KeyError("none")
    return {"nan": data, "none": None, "set": {1, 2}, "bytes": b"x", "tuple": (1, "a"), "long": 10**2000}

def greedy(data):
    data.append(len(data))
    return len(data)

def seeded(data, seed):
    return random.Random(seed).random()

def vector(data):
    return [random.random(), math.nan]

def vector_many(data, size, seed):
    draws = random.Random(seed)
    return [[draws.random(), math.nan] for _ in range(size)]

vector.many = vector_many

def fails_as_a_whole(data):
    if random.random() < 0.5:
        raise ValueError
    return 1.0

def fails(data):
    raise ValueError

def never(data, size):
    raise ValueError

fails_as_a_whole.many = fails.many = never

def quits(data):
    sys.exit(3)

def an_object(data):
    return object()
"""


@pytest.fixture(autouse=True)
def functions(tmp_path, monkeypatch):
    (tmp_path / "registry.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)


def outputs(function, dataset=(1, 2), size=4, seed=0, python=sys.executable, words=()):
    law = command([python, str(FILE), function, *words], timeout=60.0)(dataset)
    return values_of(law.sample(size, np.random.default_rng(seed)))


def another_python():
    """Return the oldest installed Python from 3.8 on with another minor version; None if there is none."""
    for minor in sorted({*range(8, 16)} - {sys.version_info[1]}):
        installed = Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")
        for python in [*map(str, installed), *filter(None, [shutil.which(f"python3.{minor}")])]:
            if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
                return [python]
    return []


@pytest.mark.parametrize("python", [sys.executable, *another_python()], ids=lambda path: path.split("/")[-3])
class TestEveryPython:
    def test_what_is_printed_is_no_output(self, python):
        assert all(isinstance(value, float) for value in outputs("registry:loud", python=python))
        assert command([python, str(FILE), "registry:loud"]).reproducible is False

    def test_outputs_of_every_kind(self, python):
        (value,) = outputs("registry:odd", [math.nan, 1], 1, python=python)
        assert value.get("nan") == normalise((math.nan, 1))
        assert value.get("set") == {1.0, 2.0}
        assert [value.get(key) for key in ("none", "bytes", "tuple", "long")] == [None, b"x", (1.0, "a"), 10**2000]
        assert outputs("registry:odd", [0], 2, python=python) == [Raised("KeyError")] * 2

    def test_seeds_repeat_outputs(self, python):
        once, again, another = (outputs("registry:seeded", seed=seed, python=python) for seed in (1, 1, 2))
        assert once == again != another
        assert len(set(once)) == 4
        assert command([python, str(FILE), "registry:seeded"]).reproducible


TAKING = """
import numpy as np
from numpy.random import Generator
def default(data, random_state=0): return len(data) + np.random.RandomState(random_state).laplace()
def carried(data, generator=np.random.default_rng(0)): return len(data) + generator.laplace()
def annotated(data, scale=1.0, source: Generator = None): return len(data) + source.laplace(scale=scale)
"""


TAKERS = ("default", "carried", "annotated")


@pytest.mark.parametrize(
    ("name", "epsilon", "verdict"),
    [
        *((name, 1.0, "consistent") for name in TAKERS),
        *(pytest.param(name, 0.5, "violated", marks=pytest.mark.slow) for name in ("default", "annotated", "carried")),
    ],
)
def test_a_served_function_whose_seed_has_a_default_is_audited_as_in_this_process(name, epsilon, verdict, tmp_path):
    """Noise of scale 1 satisfies epsilon 1 and violates 0.5; at 99.999 % it is refuted by chance with probability 1e-5.

    A refutation starts many processes, so it runs weekly; the daily tests refute other served functions.
    """
    (tmp_path / "taking.py").write_text(TAKING)
    mechanism = command([sys.executable, str(FILE), "taking.py:" + name], pairs=[((1,), (1, 1))], timeout=60.0)
    result = audit(mechanism, claim=PureDP(epsilon), trials=6_000, seed=1, n_jobs=1, confidence=0.99999)
    assert (result.verdict, result.reproducible) == (verdict, True)


WITHOUT_NUMPY = """
import random
from typing import Optional
def own(data, rng=None): return (rng or random).gauss(0, 1) + len(data)
def hinted(data, rng: "Optional[np.random.Generator]" = None): return (rng or random).random()
def needed(data, rng): return rng.laplace()
"""


@pytest.mark.parametrize("numpy", [False, True])
def test_a_generator_is_left_out_where_the_library_has_no_numpy(numpy, tmp_path):
    """`gauss` is a method of Python's generator and not of numpy's, so a numpy generator would raise AttributeError."""
    (tmp_path / "plainly.py").write_text(WITHOUT_NUMPY)
    words = [sys.executable, *["-S"] * (not numpy), str(FILE)]  # -S leaves installed packages out

    def sampled(name):
        mechanism = command([*words, f"plainly.py:{name}"], timeout=60.0)
        return mechanism.reproducible, values_of(mechanism((1, 2)).sample(3, np.random.default_rng(0)))

    reproducible, values = sampled("own")
    assert not reproducible
    assert len(set(values)) == 3
    assert all(isinstance(value, float) for value in values)
    reproducible, values = sampled("hinted")
    assert reproducible is numpy, "the annotation says whose generator it is"
    assert len(set(values)) == 3
    if numpy:
        assert sampled("needed")[0]
    else:
        with pytest.raises(AuditError, match="'rng' of the function is for a generator of numpy, which this Python"):
            sampled("needed")


def test_many_outputs_at_once_and_their_seeds():
    first, again = (outputs("registry:vector", size=3, seed=4) for _ in range(2))
    assert len({value[0] for value in first}) == 3
    assert all(math.isnan(value[1]) for value in first)
    assert not command([sys.executable, str(FILE), "registry:vector"]).reproducible, "single runs take no seed"
    assert [value[0] for value in first] == [value[0] for value in again], "those of `many` do"


def test_many_that_fails_is_a_sentence():
    with pytest.raises(AuditError, match="many raised ValueError; a call that fails tells nothing"):
        outputs("registry:fails_as_a_whole", size=40)


def test_every_run_sees_the_dataset_as_it_was_sent():
    assert outputs("registry:greedy", [5], 3) == [2.0] * 3


def test_leaving_is_an_outcome():
    assert outputs("registry:quits", size=2) == [Raised("SystemExit(3)")] * 2


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("registry:nothing", "registry has no 'nothing'"),
        ("registry:an_object", "returned <object object at .* of type object; it must return numbers"),
        ("registry:one_frame", "many returned one DataFrame; return a list or an array of outputs"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(function, sentence):
    function, *words = function.split()
    with pytest.raises(AuditError, match=sentence):
        outputs(function, words=words)


def test_a_file_is_served_by_its_path_and_numpy_and_pandas_are_spoken(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "own.py").write_text(
        "import numpy as np\n"
        "def frame(data, rng): return data.assign(y=[rng.normal() for _ in data.x])\n"
        "def matrix(data): return np.outer(data, data)\n"
        "def block(data): pass\n"
        "block.many = lambda data, size, rng: rng.integers(9, size=(size, len(data)))\n"
    )
    (value,) = outputs("folder/own.py:frame", {"x": [1, 2]}, 1, words=["--data", "frame"])
    assert value.get("x") == (1.0, 2.0)
    assert len(value.get("y")) == 2
    assert outputs("folder/own.py:matrix", [1, 2], 1, words=["--data", "array"]) == [
        normalise(np.outer([1, 2], [1, 2]))
    ]
    assert {len(value) for value in outputs("folder/own.py:block", [1, 2], 5)} == {2}


@pytest.mark.parametrize(
    "value",
    [
        *(1.5, -0.0, math.inf, math.nan, 3, True, None, "a", b"a", 10**30, 2 + 1j, Decimal("1.10"), Fraction(1, 3)),
        *((1, [2, "b"]), {"k": {1, 2}}, datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3), Decimal("nan")),
        *(datetime.timedelta(1, 2, 3), datetime.time(1, 2), np.float32(0.1), np.int64(3), np.bool_(True)),
        *(np.array([1.0, np.nan]), np.eye(2), np.zeros((0, 2)), np.array(["a", "b"]), pd.Series([1, 2])),
        *(np.array(2.0), pd.DataFrame({"a": [1, 2], "b": ["x", None]}), pd.Timestamp(2020, 1, 2), pd.NaT),
        *(pd.NA, pd.Series([1, None], dtype="Int64"), pd.DataFrame({"a": pd.array([True, None], dtype="boolean")})),
        *(pd.Timedelta(3, "ns"), pd.Timedelta("-2 days 3 ms"), pd.Timestamp(1, unit="ns"), pd.Period("2026-03", "M")),
        *(
            pd.Interval(0, 1.5),
            pd.DataFrame({"a": pd.cut([1.0, 2.0, 7.0], [0, 1, 3])}),
            pd.DataFrame({"t": [pd.Timedelta(1)]}),
        ),
        *(pd.Series({"b": 1, "a": 2}), pd.Series([1, 2], index=["a", "a"]), pd.DataFrame({"a": [1]}, index=["b"])),
        *(pd.Series(["a"], dtype=pd.CategoricalDtype(["b", "a"])), pd.Categorical(["a"], ["b", "a"]), {"b": 1, "a": 2}),
        *(uuid.UUID(int=3), PurePosixPath("a/b"), ipaddress.ip_network("10.0.0.0/8"), SimpleNamespace(b=1, a=[2])),
        *(np.longdouble(1.5), pl.Series([1.0, 2.0]), pl.DataFrame({"a": [1]}), np.ma.array([1.0, 2.0], mask=[0, 1])),
    ],
    ids=repr,
)
def test_an_output_comes_out_as_it_does_in_one_process(value):
    assert repr(output_from_json(serve.encode_value(value))) == repr(normalise(value))


def test_it_is_written_for_python_3_8_and_imports_nothing_of_ours():
    source = FILE.read_text(encoding="utf-8")
    names = [node for node in ast.walk(ast.parse(source, feature_version=(3, 8))) if isinstance(node, ast.ImportFrom)]
    assert not [node.module for node in names if node.module.startswith("epsaudit") or node.level]


def test_the_command_becomes_the_program(capsys):
    words = [sys.executable, "-m", "epsaudit", "serve", "--python", sys.executable, "registry:greedy"]
    assert values_of(command(words, timeout=60.0)([1]).sample(2, np.random.default_rng(0))) == [2.0, 2.0]
    assert main(["serve"]) == 0
    assert capsys.readouterr().out == f"{FILE}\n"
    assert main(["serve", "--python", "/nowhere/python", "registry:greedy"]) == 2

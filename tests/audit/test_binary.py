"""Binary blocks of the protocol: they carry the same outputs as lines, and programs that announce frames get lines."""

import math
import sys

import numpy as np
import pytest

from epsaudit import command, serve
from epsaudit.outputs.arrays import values_of

ODD = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, 0.1]
FUNCTIONS = """
import math, random
ODD = {odd}
FEW = [0.5, -0.0, 1e308]

def number(data, seed): return random.Random(seed).choice(ODD)
def vector(data, seed): return [random.Random(seed + i).choice(FEW) for i in range(3)]
def ragged(data, seed): return [0.5] * random.Random(seed).randrange(4)
def refusing(data, seed): return random.Random(seed).choice([None, math.nan, (0.5, math.inf), "no"])
def scalar(data, rng): return rng.choice(ODD)
def array(data, rng): return rng.choice(FEW, size=3)

kept = []
def same_list(data, seed):
    kept[:] = [random.Random(seed).random(), 0.5]
    return kept

def arrays(data): pass
arrays.many = lambda data, size, rng: rng.choice(ODD, size=(size, 3))

def ragged_rows(data): pass
ragged_rows.many = lambda data, size, rng: [rng.normal(size=(3, 1 + i % 2)) for i in range(size)]

def cubes(data): pass
cubes.many = lambda data, size, rng: rng.normal(size=(size, 2, 2))

""".replace("{odd}", "[" + ", ".join(f"float('{number!r}')" for number in ODD) + "]")
AS_BLOCKS = ("number", "vector", "scalar", "array", "same_list", "arrays", "cubes")
AS_LINES = ("ragged", "refusing", "ragged_rows")
SAYS = """import sys
print(%r, flush=True)
for line in sys.stdin:
    sys.stdout.buffer.write(%r)
    sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    file = tmp_path_factory.mktemp("served") / "functions.py"
    file.write_text(FUNCTIONS)
    return serve.import_function(f"{file}:number").__globals__


def heard(answer, hello='{"epsaudit": 1, "seeded": true}', size=9):
    law = command([sys.executable, "-c", SAYS % (hello, answer)], timeout=60.0)((1,))
    return law.sample(size, np.random.default_rng(0))


@pytest.mark.parametrize("name", AS_BLOCKS + AS_LINES)
def test_blocks_hold_what_lines_hold_for_the_same_seed(functions, name):
    request = {"dataset": [1], "size": 9, "seed": 3}
    answer = serve.Server(functions[name], {}).answer(request)
    assert answer.startswith(b'{"npy"') == (name in AS_BLOCKS)
    server = serve.Server(functions[name], {})
    if server.many is None:
        again = serve.Server(lambda data, **given: [functions[name](data, **given), "as a line"], {})
        again.asked = server.asked
        expected = [value[0] for value in values_of(heard(again.answer(request)))]
        assert repr(values_of(heard(answer))) == repr(expected)
    else:
        rows = functions[name].many([1], 9, np.random.default_rng(3))
        assert repr(values_of(heard(answer))) == repr(values_of(heard(serve.json_lines(map(serve.encode_value, rows)))))


def test_a_vector_of_one_number_is_no_number():
    assert values_of(heard(serve.encode_answer([[1.5], [2.5]]), size=2)) == [(1.5,), (2.5,)]
    assert values_of(heard(serve.encode_answer([1.5, 2.5]), size=2)) == [1.5, 2.5]


def test_outputs_may_be_written_to():
    outputs = heard(serve.encode_answer([0.0, 0.0]), size=2)
    outputs += 1.0
    assert outputs.tolist() == [1.0, 1.0]

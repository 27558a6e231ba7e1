"""Binary frames of the protocol: they carry what lines carry, older programs keep working, and faults are sentences."""

import math
import struct
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsaudit import AuditError, DatasetPair, PureDP, audit, command
from epsaudit.adapters import serve
from epsaudit.adapters.external import CHILDREN, HEADER
from epsaudit.outputs.normal_form import values_of

FRAMES = """
import json, struct, sys
print('{"epsaudit": 1, "seeded": true, "binary": true}', flush=True)
for line in sys.stdin:
    request = json.loads(line)
    kind, width, numbers = request["dataset"]
    assert request["binary"] is True
    data = bytes.fromhex(numbers)
    sys.stdout.buffer.write(struct.pack("<4sIQ", kind.encode(), width, len(data)) + data)
    sys.stdout.flush()
"""
ODD = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, 0.1]
FUNCTIONS = """
import math, random
ODD = {odd}

def number(data, seed): return random.Random(seed).choice(ODD)
def whole(data, seed): return random.Random(seed).choice([1, 2.5])
def vector(data, seed): return [random.Random(seed + i).choice(ODD) for i in range(3)]
def ragged(data, seed): return [0.5] * random.Random(seed).randrange(4)
def refusing(data, seed): return random.Random(seed).choice([None, math.nan, (0.5, math.inf), "no"])
def empty(data, seed): return []

kept = []
def same_list(data, seed):
    kept[:] = [random.Random(seed).random(), math.nan]
    return kept

def array(data, rng):
    import numpy as np
    return rng.choice(ODD, size=3)

def scalar(data, rng):
    return rng.choice(ODD)

def arrays(data): pass
arrays.many = lambda data, size, rng: rng.choice(ODD, size=(size, 3))

def transposed(data): pass
transposed.many = lambda data, size, rng: rng.choice(ODD, size=(3, size)).T

def lists(data): pass
lists.many = lambda data, size, rng: rng.choice(ODD, size=(size, 3)).tolist()

def rows(data): pass
rows.many = lambda data, size, rng: list(rng.choice(ODD, size=(size, 3)))

def ragged_rows(data): pass
ragged_rows.many = lambda data, size, rng: [rng.normal(size=(3, 1 + i % 2)) for i in range(size)]

def no_rows(data): pass
no_rows.many = lambda data, size, rng: list(rng.normal(size=size).reshape(size, 1)[:, 0].reshape(size, 1)[:, :0])

def cubes(data): pass
cubes.many = lambda data, size, rng: rng.normal(size=(size, 2, 2))

def single(data): pass
single.many = lambda data, size, rng: rng.normal(size=(size, 3)).astype("f4")
""".replace("{odd}", "[" + ", ".join(f"float('{number!r}')" for number in ODD) + "]")
AS_FRAMES = ("number", "vector", "same_list", "array", "scalar", "arrays", "transposed", "lists", "rows")
AS_OTHERS = ("whole", "ragged", "refusing", "empty", "ragged_rows", "no_rows", "cubes", "single")


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    file = tmp_path_factory.mktemp("served") / "functions.py"
    file.write_text(FUNCTIONS)
    return serve.imported(f"{file}:number").__globals__ | {"file": file}


def said(program, dataset=("\0num", 1, ""), size=5, patience=60.0):
    law = command([sys.executable, "-c", program], timeout=patience)(dataset)
    return law.sample(size, np.random.default_rng(0))


def bits(outputs):
    """Of every number, which are all that two arrays can differ in but for their shape; one NaN is like another."""
    return np.where(np.isnan(outputs), np.nan, outputs).view(np.uint64).tolist()


class TestRoundTrip:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.floats(), min_size=1, max_size=6), st.integers(0, 3))
    def test_numbers_and_vectors_come_back_to_the_bit(self, numbers, width):
        rows = np.array(numbers + ODD) if width == 0 else np.outer(np.array(numbers + ODD), np.ones(width))
        kind = "\0num" if width == 0 else "\0vec"
        heard = said(FRAMES, (kind, max(width, 1), rows.astype("<f8").tobytes().hex()), len(rows))
        assert heard.shape == rows.shape
        assert bits(heard) == bits(rows)

    def test_a_vector_of_one_number_is_no_number(self):
        data = np.array([1.5, 2.5]).tobytes().hex()
        assert values_of(said(FRAMES, ("\0vec", 1, data), 2)) == [(1.5,), (2.5,)]
        assert values_of(said(FRAMES, ("\0num", 1, data), 2)) == [1.5, 2.5]

    def test_outputs_may_be_written_to(self):
        heard = said(FRAMES, ("\0num", 1, np.zeros(2).tobytes().hex()), 2)
        heard += 1.0
        assert heard.tolist() == [1.0, 1.0]


class TestServed:
    @pytest.mark.parametrize("name", AS_FRAMES + AS_OTHERS)
    def test_frames_hold_what_lines_hold_for_the_same_seed(self, functions, name):
        request = {"dataset": [1], "size": 9, "seed": 3}
        answers = [serve.Server(functions[name], {}).answer({**request, "binary": asked}) for asked in (True, False)]
        assert answers[0].startswith(b"\0") == (name in AS_FRAMES)
        assert not answers[1].startswith(b"\0")
        echo = (
            "import sys\nprint(%r, flush=True)\nsys.stdin.readline()\nsys.stdout.buffer.write(%r)\nsys.stdout.flush()\n"
        )
        heard = [
            said(echo % ('{"epsaudit": 1, "seeded": true, "binary": ' + asked + "}", answer), size=9)
            for asked, answer in zip(("true", "false"), answers, strict=True)
        ]
        assert heard[0].dtype == heard[1].dtype
        assert repr(values_of(heard[0])) == repr(values_of(heard[1]))

    def test_an_audit_is_the_same_either_way(self, functions):
        (functions["file"].parent / "count.py").write_text("def count(data, rng): return len(data) + rng.laplace()\n")
        mechanism = command(
            [sys.executable, str(serve.__file__), f"{functions['file'].parent / 'count.py'}:count"],
            claim=PureDP(1.0),
            pairs=[DatasetPair((1,), (1, 2))],
        )
        found = []
        for asked in (True, False):
            with CHILDREN.borrow(mechanism.program) as child:
                child.binary = asked
            found.append(audit(mechanism, trials=2_000, seed=4, n_jobs=1).to_dict())
        assert found[0] == found[1]

    def test_a_tensor_is_a_frame_like_its_array(self):
        class Tensor:
            def detach(self):
                return self

            cpu = detach

            def numpy(self):
                return np.array([1.0, 2.0])

        assert serve.frame(Tensor()) == serve.frame([1.0, 2.0])
        assert serve.frame([np.array(1.0), np.array(2.0)]) == serve.frame([1.0, 2.0])
        assert serve.frame([1.0, 2.0]) == struct.pack("<4sIQ2d", b"\0num", 1, 16, 1.0, 2.0)

    def test_what_is_no_block_of_floats_is_no_frame(self):
        masked = np.ma.array([1.0, 2.0], mask=[0, 1])
        others = (
            [],
            [(), ()],
            [np.zeros(2), np.zeros(3)],
            np.zeros((2, 0)),
            np.array([1, 2]),
            masked,
            [True, 1.0],
            "ab",
            [[1.0], 2.0],
        )
        assert [serve.frame(other) for other in others] == [b""] * len(others)


def framed(header, data=b"", after=""):
    """A program that answers with these bytes."""
    return f"""import sys, time
print('{{"epsaudit": 1, "binary": true}}', flush=True)
sys.stdin.readline()
sys.stdout.buffer.write({header + data!r})
sys.stdout.flush()
{after}"""


def header(kind=b"\0num", width=1, length=40):
    return HEADER.pack(kind, width, length)


FAULTS = {
    "another kind": (
        framed(header(b"\0f32")),
        r"began a frame with b'\\x00f32'; it must be b'\\x00num' or b'\\x00vec'",
    ),
    "numbers of width 2": (
        framed(header(width=2, length=80)),
        "announced a frame of width 2; it must be 1 for numbers",
    ),
    "zero width": (
        framed(header(b"\0vec", 0, 0)),
        "frame of width 0; it must be 1 for numbers, and for vectors 1 or more",
    ),
    "too few bytes": (
        framed(header(length=32), b" " * 32),
        "announced a frame of 32 bytes for 5 outputs of width 1; it ",
    ),
    "too many bytes": (framed(header(length=48), b" " * 48), "must be 8 bytes a number, 40, and at most 2.31"),
    "garbage": (framed(b"\0" * 16), "began a frame with"),
    "a length of garbage": (framed(header(length=2**63)), "9,223,372,036,854,775,808 bytes for 5 outputs"),
    "a width of garbage": (framed(header(b"\0vec", 2**31, 5 * 2**34)), "and at most 2.31"),
    "half a header": (framed(b"\0num\1"), "ended with exit status 0 after it sent 5 of 16 bytes"),
    "half a frame": (framed(header(), b"12345678"), "ended with exit status 0 after it sent 8 of 40 bytes"),
    "an error in the midst": (
        framed(header(), b"12345678", "sys.exit('out of noise')"),
        "ended with exit status 1 after it sent 8 of 40 bytes. Its standard error ends: 'out of noise'",
    ),
    "silence in the midst": (
        framed(header(), b"1234", "time.sleep(60)"),
        "was silent for 1.5 seconds after it sent 4 of",
    ),
    "an error in place of it": (framed(b'{"error": "no noise"}\n'), "says: no noise"),
    "bytes of no kind": (framed(b"\1\2\3\4\n" * 5), "which is no line of text"),
    "announced by no bool": ("""print('{"epsaudit": 1, "binary": "yes"}')""", "it must say {"),
    "never announced": (framed(header(), b" " * 40).replace("true", "false"), "which is no line of text"),
}


class TestFaults:
    @pytest.mark.parametrize("fault", FAULTS)
    def test_every_fault_is_a_sentence(self, fault):
        program, words = FAULTS[fault]
        with pytest.raises(AuditError, match=words) as raised:
            said(program, patience=1.5 if "silent" in words else 60.0)
        assert str(raised.value).startswith("The command ")

    def test_more_than_announced_is_noticed_at_the_next_question(self):
        law = command([sys.executable, "-c", framed(header(), b" " * 41, "sys.stdin.readline(); time.sleep(60)")])((1,))
        assert law.sample(5, np.random.default_rng(0)).shape == (5,)
        with pytest.raises(AuditError, match="wrote more than it was asked for: ' '"):
            law.sample(5, np.random.default_rng(0))


def test_a_program_that_does_not_announce_frames_is_not_asked_for_them():
    for more in ("", ', "seeded": true', ', "binary": false'):
        program = f"""import json, sys
print('{{"epsaudit": 1{more}}}', flush=True)
for line in sys.stdin:
    print("\\n".join([str(len(json.loads(line)))] * 5), flush=True)
"""
        assert said(program).tolist() == [3.0] * 5, "dataset, size and seed"


def test_lines_and_npy_blocks_may_be_answered_to_a_question_for_frames():
    rows = np.array([[1.0, math.nan]] * 5)
    lines = b'[1.0, {"float": "nan"}]\n' * 5
    for answer in (lines, serve.written(rows), serve.frame(rows)):
        assert bits(said(framed(answer))) == bits(rows)


def test_shapes_may_differ_from_answer_to_answer_as_those_of_lines_may():
    law = command([sys.executable, "-c", FRAMES])
    for width in (2, 3):
        data = np.zeros((2, width)).tobytes().hex()
        assert law(("\0vec", width, data)).sample(2, np.random.default_rng(0)).shape == (2, width)

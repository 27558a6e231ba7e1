"""Checkpoints: a killed audit goes on to the identical result, and a file that does not fit is refused."""

import dataclasses
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from recorded import copied, cut, put, records, rewrite

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.audits import suite
from epsaudit.outputs.arrays import normalise_array
from epsaudit.outputs.json_form import block_from_json, block_to_json
from epsaudit.running.checkpoint import Checkpoint
from epsaudit.running.identity import digest
from epsaudit.running.registry import Entry
from epsaudit.search import Tails

PAIR = DatasetPair((1,), (1, 2))
OPTIONS = {"trials": 20_000, "seed": 5, "witnesses": [Tails()], "n_jobs": 1}


def noisy(data, rng):
    return len(data) + rng.laplace()


def count(name="count", claim=None, pair=PAIR, function=noisy):
    return black_box(function, claim=claim or PureDP(1.0), pairs=[pair], name=name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """What ``audit(count(), **OPTIONS)`` finds and writes, which no test need draw again."""
    path = tmp_path_factory.mktemp("finished") / "run.checkpoint"
    return audit(count(), **OPTIONS, checkpoint=path).to_dict(), path.read_bytes()


@pytest.fixture
def found(once):
    return once[0]


@pytest.fixture
def finished(once, path):
    """A path with a copy of that file."""
    path.write_bytes(once[1])
    return path


def counts_of(rows):
    return [(key, *data) for _, kind, key, data in rows if kind == "counts"]


class TestResume:
    def test_a_checkpoint_changes_nothing(self, found):
        assert audit(count(), **OPTIONS).to_dict() == found

    def test_any_prefix_of_the_file_leads_to_the_same_result(self, path, finished, found):
        content, known = path.read_bytes(), records(path)
        for end in [1, *random.Random(0).sample(range(2, len(known)), 3)]:
            path.write_bytes(content)
            cut(path, end)
            assert audit(count(), **OPTIONS, checkpoint=path).to_dict() == found
            assert records(path)[:end] == known[:end]
            assert set(counts_of(records(path))) == set(counts_of(known))

    @pytest.mark.slow
    def test_a_log_that_ends_in_the_middle_of_a_record(self, path, tmp_path):
        # what a kill, or a machine that loses power, leaves: the file, and a log that may be torn anywhere
        def stop(step):
            if step.stage == "certification" and step.runs_done > 10_000:
                copied(path, tmp_path / "killed")

        (tmp_path / "killed").mkdir()
        whole = audit(count(), **OPTIONS, checkpoint=path, progress=stop).to_dict()
        killed = tmp_path / "killed" / path.name
        log = (tmp_path / "killed" / f"{path.name}-wal").read_bytes()
        rng = random.Random(0)
        for end in (len(log), *(rng.randrange(len(log)) for _ in range(4))):
            path.write_bytes(killed.read_bytes())
            path.with_name(f"{path.name}-wal").write_bytes(log[:end])
            assert audit(count(), **OPTIONS, checkpoint=path).to_dict() == whole
            path.unlink()

    def test_a_fresh_seed_is_taken_up_from_the_file(self, path):
        fresh = {**OPTIONS, "seed": None}
        first = audit(count(), **fresh, checkpoint=path)
        cut(path, 100)
        assert audit(count(), **fresh, checkpoint=path).to_dict() == first.to_dict()

    def test_randomness_of_its_own_is_counted_once(self, path):
        # chunks that are recorded stay as they are, though drawing them again would give others
        own = black_box(
            lambda data: np.random.default_rng().laplace(len(data)),
            claim=PureDP(1.0),
            pairs=[PAIR],
            fresh_randomness=True,
        )
        options = {**OPTIONS, "trials": 2_000}
        first = audit(own, **options, checkpoint=path)
        cut(path, len(records(path)) - 1)  # all but the result
        assert audit(own, **options, checkpoint=path).to_dict() == first.to_dict()
        assert first.to_dict() != audit(own, **options).to_dict()

    def test_training_that_takes_long_is_not_done_again(self, path, monkeypatch):
        keys = []

        def noted(data, rng):
            keys.append(rng.bit_generator.seed_seq.spawn_key)
            return len(data) + rng.laplace()

        monkeypatch.setattr("epsaudit.running.record.WORTH_WRITING", 0)
        mechanism = count(function=noted)
        whole = audit(mechanism, **OPTIONS, checkpoint=path)
        trained = sum(kind == "chunk" for _, kind, _, _ in records(path))
        assert trained == 32
        cut(path, 1 + trained // 2)
        done = {tuple(json.loads(key)[:-1]) for _, _, key, _ in records(path)[1:]}
        fresh = []
        keys, noted.__closure__[0].cell_contents = fresh, fresh
        assert audit(mechanism, **OPTIONS, checkpoint=path) == whole
        assert {key for key in fresh if key[0] == 0}.isdisjoint(done)
        assert len({key for key in fresh if key[0] == 0}) == trained - trained // 2


SEQUENTIAL = """
import os, signal, sys
from epsaudit import DatasetPair, PureDP, audit_sequentially, black_box
from epsaudit.search import Tails

def noisy(data, rng):
    if sys.argv[2] == "killed" and rng.bit_generator.seed_seq.spawn_key == (2, 0, 5, 3):
        os.kill(os.getpid(), signal.SIGKILL)
    return len(data) + rng.laplace()

mechanism = black_box(noisy, claim=PureDP(1.0), pairs=[DatasetPair((1,), (1, 2))], name="noisy")
result = audit_sequentially(mechanism, trials=800, seed=3, n_jobs=1, witnesses=[Tails()], checkpoint=sys.argv[1])
print(result.to_dict())
"""


class TestSequential:
    pairs = [PAIR, DatasetPair((1,), (1, 3))]
    options = {"trials": 600, "seed": 3, "n_jobs": 1, "witnesses": [Tails()]}

    def mechanism(self, function=noisy):
        return black_box(function, claim=PureDP(1.0), pairs=self.pairs, name="noisy")

    @pytest.fixture(scope="class")
    def whole(self, tmp_path_factory):
        """The result, and the file that the audit wrote."""
        path = tmp_path_factory.mktemp("whole") / "run.checkpoint"
        result = audit_sequentially(self.mechanism(), **self.options, checkpoint=path).to_dict()
        return result, path

    def test_any_prefix_of_the_file_leads_to_the_same_result(self, path, whole):
        whole, file = whole
        known = records(file)
        assert audit_sequentially(self.mechanism(), **self.options).to_dict() == whole
        assert sum("planned" in data for _, _, _, data in known) == len(known) - 2 > 30
        for kept in (20, len(known) - 1):
            path.write_bytes(file.read_bytes())
            cut(path, kept)
            assert audit_sequentially(self.mechanism(), **self.options, checkpoint=path).to_dict() == whole
            assert records(path) == known

    @pytest.mark.slow
    def test_killed_and_begun_again(self, path):
        def run(how):
            words = [sys.executable, "-c", SEQUENTIAL, path, how]
            return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)

        assert run("killed").returncode == -signal.SIGKILL
        assert 20 < len(records(path)) == sum("planned" in data for _, _, _, data in records(path)) + 1
        again = run("killed " * 2)
        assert again.returncode == 0, again.stderr
        path.unlink()
        assert run("alone").stdout == again.stdout

    def test_counts_of_other_events_are_refused(self, path, whole):
        path.write_bytes(whole[1].read_bytes())
        rewrite(path, lambda kind, data: {**data, "planned": "0"} if kind == "chunk" else data)
        cut(path, len(records(path)) - 1)
        with pytest.raises(AuditError, match=r"Training chose another event than the one whose counts .* holds"):
            audit_sequentially(self.mechanism(), **self.options, checkpoint=path)

    def test_another_kind_of_audit_is_refused(self, path):
        audit(self.mechanism(), **self.options, checkpoint=path)
        with pytest.raises(AuditError, match=r"kind of audit \(fixed size there, sequential here\)"):
            audit_sequentially(self.mechanism(), **self.options, checkpoint=path)
        path.unlink()
        audit_sequentially(self.mechanism(), **self.options, checkpoint=path)
        with pytest.raises(AuditError, match=r"near \(None there, 0.1 here\)"):
            audit_sequentially(self.mechanism(), **self.options, near=0.1, checkpoint=path)
        with pytest.raises(AuditError, match=r"kind of audit \(sequential there, fixed size here\)"):
            audit(self.mechanism(), **self.options, checkpoint=path)


RED, BLUE = Decimal("0.7"), Decimal("0.1")
"""Outputs that training does not keep: see `epsaudit.outputs.normal_form`."""


class TestOutputsThatAreNotKept:
    def test_training_is_done_again_and_comes_to_the_same(self, path, monkeypatch):
        monkeypatch.setattr("epsaudit.running.record.WORTH_WRITING", float("inf"))  # a busy machine draws slowly

        def colour(data, rng):
            return RED if rng.random() < 0.3 + 0.2 * len(data) else BLUE

        mechanism = black_box(colour, claim=PureDP(1.0), pairs=[PAIR])
        options = {"trials": 2_000, "seed": 1, "n_jobs": 1}
        whole = audit(mechanism, **options).to_dict()
        assert audit(mechanism, **options, checkpoint=path).to_dict() == whole
        assert not any(kind == "chunk" for _, kind, _, _ in records(path))
        cut(path, len(records(path)) // 2)
        assert audit(mechanism, **options, checkpoint=path).to_dict() == whole


KILLED = """
import json, os, random, signal, sys, time
import numpy as np
from epsaudit import DatasetPair, PureDP, audit, vectorized
from epsaudit.search import Tails
sys.path.insert(0, sys.argv[4])
from recorded import records

log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def noisy(data, size, rng):
    key = rng.bit_generator.seed_seq.spawn_key
    os.write(log, (json.dumps([int(os.environ["ATTEMPT"]), list(key)]) + "\\n").encode())
    return len(data) + sum(rng.laplace(size=size) for _ in range(9)) / 9  # slow enough to be killed in the middle

mechanism = vectorized(noisy, claim=PureDP(1.0), pairs=[DatasetPair((1,), (1, 2))], name="noisy")

def run(checkpoint):
    return audit(mechanism, trials=200_000, seed=3, n_jobs=2, witnesses=[Tails()], checkpoint=checkpoint)

os.environ["ATTEMPT"] = "-1"  # what the function names itself would make it another function
whole = run(sys.argv[1]).to_dict()
total = len(records(sys.argv[1]))
begun = next(i for i, (_, kind, _, _) in enumerate(records(sys.argv[1])) if kind == "counts")
os.unlink(sys.argv[1])
moments = random.Random(11)
killed = 0
for attempt in range(100):
    if killed == int(sys.argv[3]):
        break
    os.environ["ATTEMPT"] = str(attempt)
    least = max(len(records(sys.argv[1])) + 1, begun + 1 if attempt % 4 else 0)  # one in four is killed in training
    moment = moments.randint(least, max(least, total))  # how far it may come
    process = os.fork()
    if process == 0:
        run(sys.argv[1])
        os._exit(0)
    ended = 0
    while len(records(sys.argv[1])) < moment and not ended:
        time.sleep(0.001)
        ended, status = os.waitpid(process, os.WNOHANG)
    if not ended:
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    killed += os.WIFSIGNALED(status)
    done = records(sys.argv[1])
    finished = bool(done) and done[-1][1] == "result"
    chunks = [[1, int(key)] for _, kind, key, _ in done if kind == "counts"]
    print(json.dumps([attempt, chunks, os.WIFSIGNALED(status), finished]))
    if finished:
        assert done[-1][3] == whole
        os.unlink(sys.argv[1])  # finished: begin again
os.environ["ATTEMPT"] = "100"
assert run(sys.argv[1]).to_dict() == whole
print("same")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(path, tmp_path, times):
    # one process is killed so often, a fork of a warm interpreter each; the mechanism logs which chunks it drew
    log = tmp_path / "drawn.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, path, log, str(times), os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    *attempts, last = done.stdout.splitlines()
    assert last == "same"
    drawn = {}
    for line in log.read_text().splitlines():
        attempt, key = json.loads(line)
        drawn.setdefault(attempt, set()).add(tuple(key))
    recorded = set()
    kills = 0
    for attempt, chunks, killed, finished in map(json.loads, attempts):
        assert recorded.isdisjoint(drawn.get(attempt, set())), "a recorded chunk was run twice"
        before, recorded = recorded, set(map(tuple, chunks))
        fresh = {key for key in drawn.get(attempt, set()) if key[0] == 1}
        kills += killed
        if finished:
            assert fresh | before == recorded
            recorded = set()
    assert kills == times
    assert sum(1 for attempt in drawn if any(key[0] == 1 for key in drawn[attempt])) > times / 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("mechanism", "options", "words"),
        [
            (count(), {"seed": 6}, r"it differs in seed \(5 there, 6 here\)"),
            (count(), {"trials": 30_000}, r"trials \(20000 there, 30000 here\)"),
            (count(), {"confidence": 0.99}, r"confidence \(0.95 there, 0.99 here\)"),
            (count(), {"witnesses": "auto"}, "witnesses"),
            (count(name="sum"), {}, r"mechanism \(count there, sum here\)"),
            (count(claim=PureDP(2.0)), {}, r"claim \(PureDP\(epsilon=1.0\) there, PureDP\(epsilon=2.0\) here\)"),
            (
                count(pair=DatasetPair((1,), (1, 3))),
                {},
                r"pair \(\(1,\) against \(1, 2\) there, \(1,\) against \(1, 3\)",
            ),
            (count(pair=DatasetPair((1,), (1, 3), "(1,) against (1, 2)")), {}, "the datasets of the pair"),
            (count(function=lambda data, rng: len(data) + rng.laplace()), {}, "the mechanism's code or parameters"),
        ],
    )
    def test_another_audit_is_told_in_what_it_differs(self, path, finished, mechanism, options, words):
        before = path.read_bytes()
        with pytest.raises(AuditError, match=f"belongs to another audit.*{words}"):
            audit(mechanism, **{**OPTIONS, **options}, checkpoint=path)
        assert path.read_bytes() == before

    def test_another_version(self, path, finished):
        def older(kind, data):
            if kind == "head":
                data["audits"]["count"]["version of epsaudit"] = "0.0.9"
            return data

        rewrite(path, older)
        with pytest.raises(AuditError, match=r"version of epsaudit \(0\.0\.9 there, .* here\)"):
            audit(count(), **OPTIONS, checkpoint=path)

    def test_a_damaged_name_of_a_column(self, path, finished):
        path.write_bytes(path.read_bytes().replace(b"checksum", b"checksun", 1))
        with pytest.raises(AuditError, match=r"is damaged \(no such column: checksum\)"):
            audit(count(), **OPTIONS, checkpoint=path)

    @pytest.mark.parametrize("times", [24, pytest.param(60, marks=pytest.mark.slow)])
    def test_damage_anywhere_is_a_sentence_or_changes_nothing(self, times, path, finished, found):
        content = path.read_bytes()
        rng, said = random.Random(1), set()
        written = [at for at, byte in enumerate(content) if byte]  # most of the file is empty space
        for _ in range(times):
            at, damaged = rng.choice(written), bytearray(content)
            damaged[at] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            try:
                assert audit(count(), **OPTIONS, checkpoint=path).to_dict() == found
            except AuditError as error:
                said.add(
                    next(words for words in ("is damaged", "is not a checkpoint", "belongs to") if words in str(error))
                )
            path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
        assert "is damaged" in said

    @pytest.mark.parametrize(
        ("kind", "key", "data", "words"),
        [
            ("counts", "0", [1, 2, 3], "The certification of count in .* makes no sense"),
            ("chunk", "[0, 0, 79]", {}, "The training of count in .* makes no sense"),
            ("chunk", "[0, 0, 79]", {"outputs": [{"npy": "AA"}] * 2}, "The training of count"),
            ("choice", "", {"exact": True}, "The choice of count in .* makes no sense"),
            ("result", "", {"mechanism": "count"}, "The result of count in .* makes no sense"),
            ("counts", "0", [9, 9, 0, 0, 0, 0], "holds 18 runs for chunks of 234"),
        ],
    )
    def test_records_that_make_no_sense(self, path, finished, kind, key, data, words):
        cut(path, 1)
        put(path, "count", kind, key, data)
        with pytest.raises(AuditError, match=words):
            audit(count(), **OPTIONS, checkpoint=path)

    @pytest.mark.parametrize(
        "content", [b"hello", b'{"schema": 1, "results": []}\n', b'["00000000",{}]\n', b"\x00" * 99, b"\xff" * 9_999]
    )
    def test_what_is_no_checkpoint_is_left_alone(self, path, content):
        path.write_bytes(content)
        with pytest.raises(AuditError, match="is not a checkpoint of this version"):
            audit(count(), **OPTIONS, checkpoint=path)
        assert path.read_bytes() == content

    def test_the_database_of_another_program_is_left_alone(self, path):
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE records (visited TEXT)")
        other.commit()
        other.close()
        content = path.read_bytes()
        with pytest.raises(AuditError, match="is not a checkpoint of this version"):
            audit(count(), **OPTIONS, checkpoint=path)
        assert path.read_bytes() == content

    def test_two_audits_do_not_share_a_file(self, path, finished):
        program = (
            "import sys\nfrom epsaudit.running.checkpoint import Checkpoint\n"
            "with Checkpoint(sys.argv[1], {}, 1):\n    print('open', flush=True)\n    sys.stdin.read()"
        )
        path.unlink()
        words = [sys.executable, "-c", program, path]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout.readline() == "open\n"
            with pytest.raises(AuditError, match="is in use by another audit"):
                audit(count(), **OPTIONS, checkpoint=path)
            other.communicate("")
        path.write_bytes(finished.read_bytes() if finished.exists() else b"")
        with Checkpoint(path, {}, 1), pytest.raises(AuditError, match="is in use by another audit"):
            audit(count(), **OPTIONS, checkpoint=path)
        path.unlink()
        audit(count(), **OPTIONS, checkpoint=path)

    def test_a_pickle_from_a_stranger_is_not_loaded(self):
        block = io.BytesIO()
        np.save(block, np.array([print] * 3), allow_pickle=True)
        with pytest.raises(ValueError, match="allow_pickle=False"):
            block_from_json({"npy": __import__("base64").b64encode(block.getvalue()).decode()})


class TestDisk:
    def test_a_full_disk_is_a_sentence_and_keeps_what_is_recorded(self, path, found):
        resource = pytest.importorskip("resource")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (123_456, hard))  # a file may not grow beyond: as good as a full disk
        try:
            with pytest.raises(AuditError, match=r"cannot be written .* The chunks recorded in it are safe"):
                audit(count(), **OPTIONS, checkpoint=path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(records(path)) > 5
        assert audit(count(), **OPTIONS, checkpoint=path).to_dict() == found


class TestSuites:
    entries = [
        Entry("one", count(), PureDP(1.0)),
        Entry("two", count(function=lambda d, rng: rng.laplace()), PureDP(1.0)),
    ]
    options = {"trials": 2_000, "family_confidence": 0.9}

    def run(self, path=None, entries=None):
        entries = entries or self.entries
        if path is None:
            return list(suite.run_suite(entries, **self.options, seed=2, n_jobs=1))
        with suite.open_checkpoint(path, entries, *self.options.values(), 2) as checkpoint:
            return list(suite.run_suite(entries, **self.options, n_jobs=1, checkpoint=checkpoint))

    def test_one_file_serves_all_and_finished_audits_are_not_run_again(self, path):
        whole = [result.to_dict() for result in self.run()]
        with suite.open_checkpoint(path, self.entries, *self.options.values(), 2) as checkpoint:
            first = next(suite.run_suite(self.entries, **self.options, n_jobs=1, checkpoint=checkpoint))
        assert first.to_dict() == whole[0]
        before = len(records(path))
        assert [result.to_dict() for result in self.run(path)] == whole
        assert all(name == "two" for name, _, _, _ in records(path)[before:])


class TestOutputs:
    @pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "?", "c16", "u8"])
    def test_arrays_keep_their_shape(self, dtype):
        outputs = normalise_array(np.arange(12).reshape(4, 3).astype(dtype))
        back = block_from_json(json.loads(json.dumps(block_to_json(outputs))))
        assert back.dtype == outputs.dtype
        np.testing.assert_array_equal(back, outputs)


@dataclasses.dataclass(frozen=True)
class Scaled:
    scale: float

    def sample(self, size, rng):
        return self.scale * rng.laplace(size=size)


class TestFingerprints:
    def test_parameters_code_closures_and_data_count(self):
        def make(shift):
            return lambda data, size, rng: data + shift + rng.laplace(size=size)

        different = [
            Scaled(1.0),
            Scaled(2.0),
            vectorized(make(1.0)),
            vectorized(make(2.0)),
            vectorized(lambda data, size, rng: data + 1.0 - rng.laplace(size=size)),
            (1, 2),
            [1, 2],
            (1, 2.0),
            np.array([1, 2]),
            np.array([1, 3]),
            {"a": 1},
            {"a": 2},
            {1, 2},
            None,
        ]
        assert len({digest(thing) for thing in different}) == len(different)
        assert digest([lambda a, b: a + b][0]) != digest(
            [lambda a, b: a - b][0]
        )  # which have one name and no constants
        assert digest(vectorized(make(1.0))) == digest(vectorized(make(1.0)))

"""Checkpoints: a killed audit goes on to the identical result, and a file that does not fit is refused."""

import dataclasses
import io
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import zlib
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.adapters.registry import Entry
from epsaudit.audits import suite
from epsaudit.data.fresh import digest
from epsaudit.engine.checkpoint import Checkpoint
from epsaudit.engine.copies import COUNTED_AGAIN
from epsaudit.engine.streams import Chunk
from epsaudit.outputs.as_json import block_from_json, block_to_json
from epsaudit.outputs.normal_form import Items, Raised, TimedOut
from epsaudit.outputs.packed import normal_array, pack
from epsaudit.witnesses import Tails

PAIR = DatasetPair((1,), (1, 2))
OPTIONS = {"trials": 20_000, "seed": 5, "witnesses": [Tails()], "n_jobs": 1}


def noisy(data, rng):
    return len(data) + rng.laplace()


def count(name="count", claim=None, pair=PAIR, function=noisy):
    return black_box(function, claim=claim or PureDP(1.0), pairs=[pair], name=name)


def records(path):
    return [json.loads(line)[1] for line in path.read_text().splitlines()]


def rewrite(path, change):
    """Change the records of a file, with checksums that fit: what somebody who means harm would do."""
    changed = [json.dumps(change(record)).encode() for record in records(path)]
    path.write_bytes(b"".join(b'["%08x",%s]\n' % (zlib.crc32(text), text) for text in changed))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture(scope="module")
def finished_lines(tmp_path_factory):
    """Lines of the file of ``audit(count(), **OPTIONS)``, which the tests that change them need not draw again."""
    path = tmp_path_factory.mktemp("finished") / "run.jsonl"
    audit(count(), **OPTIONS, checkpoint=path)
    return lines_of(path)


@pytest.fixture
def finished(finished_lines, path):
    """A path with a copy of that file."""
    path.write_bytes(b"".join(finished_lines))
    return path


class TestResume:
    def test_a_checkpoint_changes_nothing(self, path):
        assert audit(count(), **OPTIONS, checkpoint=path).to_dict() == audit(count(), **OPTIONS).to_dict()

    def test_what_training_showed_is_said_after_a_restart_too(self, path):
        silent = count(function=lambda data, rng: 1)
        whole = audit(silent, **OPTIONS, checkpoint=path)
        path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(True) if b'"result":' not in line))
        assert len(whole.notes) == 1
        assert "always gives the same output" in whole.notes[0]
        assert "result" not in records(path)[-1]
        assert audit(silent, **OPTIONS, checkpoint=path).notes == whole.notes

    def test_a_finished_audit_is_not_run_again(self, path):
        runs = []

        def noted(data, rng):
            runs.append(data)
            return len(data) + rng.laplace()

        mechanism = count(function=noted)
        first = audit(mechanism, **OPTIONS, checkpoint=path)
        before = path.read_bytes()
        assert len(runs) == OPTIONS["trials"] + COUNTED_AGAIN
        fresh = []
        runs, noted.__closure__[0].cell_contents = fresh, fresh
        assert audit(mechanism, **OPTIONS, checkpoint=str(path)) == first
        assert fresh == []
        assert path.read_bytes() == before

    def test_any_prefix_of_the_file_leads_to_the_same_result(self, path):
        # cut at every line end, and inside lines: the torn line is dropped
        whole = audit(count(), **OPTIONS, checkpoint=path).to_dict()
        content = path.read_bytes()
        ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
        rng = random.Random(0)
        for end in [ends[0], *rng.sample(ends[1:], 3), *(rng.randrange(ends[0], len(content)) for _ in range(3))]:
            path.write_bytes(content[:end])
            assert audit(count(), **OPTIONS, checkpoint=path).to_dict() == whole
            kept = [line for line in content[:end].splitlines(keepends=True) if line.endswith(b"\n")]
            assert path.read_bytes().startswith(b"".join(kept))

    def test_a_fresh_seed_is_taken_up_from_the_file(self, path):
        fresh = {**OPTIONS, "seed": None}
        first = audit(count(), **fresh, checkpoint=path)
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:100]))
        assert audit(count(), **fresh, checkpoint=path).to_dict() == first.to_dict()

    def test_randomness_of_its_own_is_counted_once(self, path):
        # chunks that are recorded stay as they are, though drawing them again would give others
        own = black_box(
            lambda data: np.random.default_rng().laplace(len(data)),
            claim=PureDP(1.0),
            pairs=[PAIR],
            fresh_randomness=True,
        )
        options = {**OPTIONS, "trials": 4_000}
        first = audit(own, **options, checkpoint=path)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))  # all but the result
        assert audit(own, **options, checkpoint=path).to_dict() == first.to_dict()
        assert first.to_dict() != audit(own, **options).to_dict()

    def test_training_that_takes_long_is_not_done_again(self, path, monkeypatch):
        keys = []

        def noted(data, rng):
            keys.append(rng.bit_generator.seed_seq.spawn_key)
            return len(data) + rng.laplace()

        monkeypatch.setattr("epsaudit.engine.checkpoint.WORTH_WRITING", 0)
        mechanism = count(function=noted)
        whole = audit(mechanism, **OPTIONS, checkpoint=path)
        lines = path.read_bytes().splitlines(keepends=True)
        trained = sum("training" in record for record in records(path))
        assert trained == 40
        path.write_bytes(b"".join(lines[: 1 + trained // 2]))
        done = {tuple(record["training"]) for record in records(path)[1:]}
        fresh = []
        keys, noted.__closure__[0].cell_contents = fresh, fresh
        assert audit(mechanism, **OPTIONS, checkpoint=path) == whole
        assert {key for key in fresh if key[0] == 0}.isdisjoint(done)
        assert len({key for key in fresh if key[0] == 0}) == trained // 2

    def test_training_is_written_if_drawing_it_takes_fifty_times_as_long(self, path):
        # at 1e-8 seconds a byte, 1,000 numbers a side take 1.6e-4 seconds to write
        outputs = np.zeros(1_000), np.zeros(1_000)
        with Checkpoint(path, {"count": {}}, 1) as checkpoint:
            for index, seconds in enumerate((0.5, 0.007, 0.009)):
                checkpoint.section("count").record(Chunk((0, index), 1_000), outputs, seconds)
        assert [record["training"] for record in records(path)[1:]] == [[0, 0], [0, 2]]

    def test_an_untidy_end_is_followed_by_whole_lines(self, path):
        whole = audit(count(), **OPTIONS, checkpoint=path)
        path.write_bytes(path.read_bytes()[:-20])
        assert audit(count(), **OPTIONS, checkpoint=path) == whole
        assert [record for record in records(path) if "result" in record] != []


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


SEQUENTIAL = """
import os, signal, sys
from epsaudit import DatasetPair, PureDP, audit_sequentially, black_box
from epsaudit.witnesses import Tails

def noisy(data, rng):
    if sys.argv[2] == "killed" and rng.bit_generator.seed_seq.spawn_key == (2, 0, 8, 3):
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
        """The result, and the lines of the file that the audit wrote."""
        path = tmp_path_factory.mktemp("whole") / "run.jsonl"
        result = audit_sequentially(self.mechanism(), **self.options, checkpoint=path).to_dict()
        return result, lines_of(path)

    def test_any_prefix_of_the_file_leads_to_the_same_result(self, path, whole):
        whole, lines = whole
        assert audit_sequentially(self.mechanism(), **self.options).to_dict() == whole
        assert sum(b'"planned"' in line for line in lines) == len(lines) - 2 > 30
        for kept, torn in ((20, lines[20][:-9]), (len(lines) - 1, b"")):
            path.write_bytes(b"".join(lines[:kept]) + torn)
            assert audit_sequentially(self.mechanism(), **self.options, checkpoint=path).to_dict() == whole
            assert lines_of(path) == lines

    def test_recorded_chunks_are_not_drawn_again(self, path):
        keys = []

        def noted(data, rng):
            keys.append(rng.bit_generator.seed_seq.spawn_key)
            return noisy(data, rng)

        mechanism = self.mechanism(noted)
        whole = audit_sequentially(mechanism, **self.options, checkpoint=path)
        lines = lines_of(path)
        path.write_bytes(b"".join(lines[:31]))
        done = {tuple(record["sequential"]) for record in records(path)[1:]}
        fresh = []
        keys, noted.__closure__[0].cell_contents = fresh, fresh
        assert audit_sequentially(mechanism, **self.options, checkpoint=path) == whole
        assert len(done) == 30
        assert done.isdisjoint(fresh)
        assert {key for key in fresh if key[0] == 2 and len(key) == 4}

    @pytest.mark.nightly
    def test_killed_and_begun_again(self, path):
        def run(how):
            words = [sys.executable, "-c", SEQUENTIAL, path, how]
            return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)

        assert run("killed").returncode == -signal.SIGKILL
        assert 20 < len(lines_of(path)) == path.read_bytes().count(b'"planned"') + 1
        again = run("killed " * 2)
        assert again.returncode == 0, again.stderr
        path.unlink()
        assert run("alone").stdout == again.stdout

    def test_randomness_of_its_own_is_counted_once(self, path):
        own = black_box(
            lambda data: np.random.default_rng().laplace(len(data)),
            claim=PureDP(1.0),
            pairs=[PAIR],
            fresh_randomness=True,
        )
        first = audit_sequentially(own, **self.options, checkpoint=path)
        path.write_bytes(b"".join(lines_of(path)[:-1]))  # all but the result
        assert audit_sequentially(own, **self.options, checkpoint=path).to_dict() == first.to_dict()

    def test_counts_of_other_events_are_refused(self, path, whole):
        path.write_bytes(b"".join(whole[1]))
        rewrite(path, lambda record: {**record, "planned": "0"} if "planned" in record else record)
        path.write_bytes(b"".join(lines_of(path)[:-1]))
        with pytest.raises(AuditError, match=r"Training came to another event than the one that .* has counts of"):
            audit_sequentially(self.mechanism(), **self.options, checkpoint=path)

    @pytest.mark.parametrize("change", [{"seen": [[1]]}, {"changed": [True]}, {"outputs": None}, {"outputs": [3, 4]}])
    def test_records_that_make_no_sense(self, path, whole, change):
        path.write_bytes(b"".join(whole[1]))
        rewrite(path, lambda record: {**record, **change} if "planned" in record else record)
        path.write_bytes(b"".join(lines_of(path)[:-1]))
        with pytest.raises(AuditError, match=r"of noisy in .* makes no sense"):
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
        monkeypatch.setattr("epsaudit.engine.checkpoint.WORTH_WRITING", float("inf"))  # a busy machine draws slowly

        def colour(data, rng):
            return RED if rng.random() < 0.3 + 0.2 * len(data) else BLUE

        mechanism = black_box(colour, claim=PureDP(1.0), pairs=[PAIR])
        options = {"trials": 5_000, "seed": 1, "n_jobs": 1}
        whole = audit(mechanism, **options).to_dict()
        assert audit(mechanism, **options, checkpoint=path).to_dict() == whole
        lines = path.read_bytes().splitlines(keepends=True)
        assert not any("training" in record for record in records(path))
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
        assert audit(mechanism, **options, checkpoint=path).to_dict() == whole

    def test_with_randomness_of_its_own_the_counts_of_another_event_are_refused(self, path):
        def own(data):
            return (RED, float(np.random.default_rng().normal(len(data))))

        mechanism = black_box(own, claim=PureDP(1.0), pairs=[PAIR], fresh_randomness=True)
        options = {"trials": 2_000, "seed": 1, "n_jobs": 1}
        audit(mechanism, **options, checkpoint=path)

        def another(record):
            if "choice" in record:
                unknown = {"kind": "LogRatio", "text": "log p(y) / p'(y)"}  # so that it is chosen again
                events = {
                    side: event and {**event, "feature": unknown} for side, event in record["choice"]["witness"].items()
                }
                record["choice"] = {**record["choice"], "witness": events}
            return record

        rewrite(path, another)
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
        with pytest.raises(AuditError, match=r"Training came to another event than the one that .* has counts of"):
            audit(mechanism, **options, checkpoint=path)


KILLED = """
import json, os, random, signal, sys, time
import numpy as np
from epsaudit import DatasetPair, PureDP, audit, vectorized
from epsaudit.witnesses import Tails

log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def noisy(data, size, rng):
    key = rng.bit_generator.seed_seq.spawn_key
    os.write(log, (json.dumps([attempt, list(key)]) + "\\n").encode())
    return len(data) + sum(rng.laplace(size=size) for _ in range(9)) / 9  # slow enough to be killed in the middle

mechanism = vectorized(noisy, claim=PureDP(1.0), pairs=[DatasetPair((1,), (1, 2))], name="noisy")

def run(checkpoint):
    return audit(mechanism, trials=200_000, seed=3, n_jobs=2, witnesses=[Tails()], checkpoint=checkpoint)

def written():
    try:
        with open(sys.argv[1], "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""  # killed before its first record

def lines():
    return written().count(b"\\n")

attempt = -1
whole = run(sys.argv[1]).to_dict()
total = lines()
begun = next(i for i, line in enumerate(written().splitlines()) if "chunk" in json.loads(line)[1])
os.unlink(sys.argv[1])
moments = random.Random(11)
killed = 0
for attempt in range(100):
    if killed == int(sys.argv[3]):
        break
    least = max(lines() + 1, begun + 1 if attempt % 4 else 0)  # one in four is killed in training
    moment = moments.randint(least, max(least, total))  # how far it may come
    process = os.fork()
    if process == 0:
        run(sys.argv[1])
        os._exit(0)
    ended = 0
    while lines() < moment and not ended:
        time.sleep(0.001)
        ended, status = os.waitpid(process, os.WNOHANG)
    if not ended:
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    killed += os.WIFSIGNALED(status)
    done = [json.loads(line)[1] for line in written().split(b"\\n")[:-1]]
    finished = bool(done) and "result" in done[-1]
    chunks = [[1, r["chunk"]] for r in done if "chunk" in r]
    print(json.dumps([attempt, chunks, os.WIFSIGNALED(status), finished]))
    if finished:
        assert done[-1]["result"] == whole
        os.unlink(sys.argv[1])  # finished: begin again
attempt = 100
assert run(sys.argv[1]).to_dict() == whole
print("same")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.nightly)])
def test_killed_at_random_moments(path, tmp_path, times):
    # one process is killed so often, a fork of a warm interpreter each; the mechanism logs which chunks it drew
    log = tmp_path / "drawn.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, path, log, str(times)], capture_output=True, text=True, check=False, timeout=120
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


HEAD = b'{"checkpoint":1,"seed":5,"audits":[]}'
HEAD = b'["%08x",%s]\n' % (zlib.crc32(HEAD), HEAD)


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
        def older(record):
            if "checkpoint" in record:
                record["audits"]["count"]["version of epsaudit"] = "0.0.9"
            return record

        rewrite(path, older)
        with pytest.raises(AuditError, match=r"version of epsaudit \(0\.0\.9 there, .* here\)"):
            audit(count(), **OPTIONS, checkpoint=path)

    def test_damage_before_the_last_line(self, path, finished):
        lines = path.read_bytes().splitlines(keepends=True)
        lines[7] = lines[7].replace(b"1", b"2", 1)
        path.write_bytes(b"".join(lines))
        with pytest.raises(AuditError, match="is damaged in line 8; restore it"):
            audit(count(), **OPTIONS, checkpoint=path)

    @pytest.mark.parametrize(
        ("record", "words"),
        [
            ({"audit": "count", "chunk": 0, "counts": [1, 2, 3]}, "makes no sense in line 2"),
            ({"audit": "count", "chunk": -1, "counts": [1] * 6}, "makes no sense in line 2"),
            ({"audit": "sum", "chunk": 0, "counts": [1] * 6}, "makes no sense in line 2"),
            ({"audit": "count", "chunk": 1 << 40, "counts": [1] * 6}, "makes no sense in line 2"),
            ({"audit": "count", "chunk": 0, "counts": [1 << 80] * 6}, "makes no sense in line 2"),
            ({"audit": "count", "training": 7, "size": 64}, "makes no sense in line 2"),
            ({"audit": "count", "training": [0, 0], "size": 64}, "The training of count in .* makes no sense"),
            (
                {"audit": "count", "training": [0, 0], "size": 64, "outputs": [{"npy": "AA"}] * 2},
                "The training of count",
            ),
            ({"audit": "count", "training": [0, 0], "size": 64, "outputs": [{"outputs": [1]}] * 2}, "The training of"),
            ({"audit": "count", "choice": {"exact": True}}, "The choice of count in .* makes no sense"),
            ({"audit": "count", "result": {"mechanism": "count"}}, "The result of count in .* makes no sense"),
            ({"audit": "count", "chunk": 0, "counts": [9, 9, 0, 0, 0, 0]}, "holds 18 runs for chunks of 64"),
        ],
    )
    def test_lines_that_make_no_sense(self, path, finished, record, words):
        text = json.dumps(record).encode()
        first = path.read_bytes().splitlines(keepends=True)[0]
        line = b'["%08x",%s]\n' % (zlib.crc32(text), text)
        path.write_bytes(first + line + b"torn")
        with pytest.raises(AuditError, match=words):
            audit(count(), **OPTIONS, checkpoint=path)

    @pytest.mark.parametrize(
        "content", [b"hello", b'{"schema": 1, "results": []}\n', b'["00000000",{}]\n', b"\x00" * 99, HEAD]
    )
    def test_what_is_no_checkpoint_is_left_alone(self, path, content):
        path.write_bytes(content)
        with pytest.raises(AuditError, match="is not a checkpoint of this version"):
            audit(count(), **OPTIONS, checkpoint=path)
        assert path.read_bytes() == content

    def test_what_is_no_file(self, tmp_path):
        with pytest.raises(AuditError, match=r"cannot be opened \(Is a directory\)"):
            audit(count(), **OPTIONS, checkpoint=tmp_path)
        with pytest.raises(AuditError, match="is not a file"):
            audit(count(), **OPTIONS, checkpoint="/dev/null")

    def test_a_folder_that_cannot_be_written_to_is_said_before_any_run(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(AuditError, match=r"cannot be opened \(Not a directory\)"):
            audit(count(), **OPTIONS, checkpoint=tmp_path / "file" / "run.jsonl")

    def test_two_audits_do_not_share_a_file(self, path, finished):
        handle = os.open(path, os.O_RDWR)
        fcntl = pytest.importorskip("fcntl")
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(AuditError, match="is in use by another audit"):
            audit(count(), **OPTIONS, checkpoint=path)
        os.close(handle)
        audit(count(), **OPTIONS, checkpoint=path)

    def test_a_pickle_from_a_stranger_is_not_loaded(self):
        block = io.BytesIO()
        np.save(block, np.array([print] * 3), allow_pickle=True)
        with pytest.raises(ValueError, match="allow_pickle=False"):
            block_from_json({"npy": __import__("base64").b64encode(block.getvalue()).decode()})


class TestDisk:
    def test_a_full_disk_is_a_sentence_and_keeps_what_is_recorded(self, path):
        resource = pytest.importorskip("resource")
        whole = audit(count(), **OPTIONS).to_dict()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_345, hard))  # a file may not grow beyond: as good as a full disk
        try:
            with pytest.raises(AuditError, match=r"cannot be written .* The chunks recorded in it are safe"):
                audit(count(), **OPTIONS, checkpoint=path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.stat().st_size == 12_345  # the last line is torn
        assert audit(count(), **OPTIONS, checkpoint=path).to_dict() == whole


class TestSuites:
    entries = [
        Entry("one", count(), PureDP(1.0)),
        Entry("two", count(function=lambda d, rng: rng.laplace()), PureDP(1.0)),
    ]
    options = {"trials": 5_000, "family_confidence": 0.9}

    def run(self, path=None, entries=None):
        entries = entries or self.entries
        if path is None:
            return list(suite.run(entries, **self.options, seed=2, n_jobs=1))
        with suite.checkpointed(path, entries, *self.options.values(), 2) as checkpoint:
            return list(suite.run(entries, **self.options, n_jobs=1, checkpoint=checkpoint))

    def test_one_file_serves_all_and_finished_audits_are_not_run_again(self, path):
        whole = [result.to_dict() for result in self.run()]
        with suite.checkpointed(path, self.entries, *self.options.values(), 2) as checkpoint:
            first = next(suite.run(self.entries, **self.options, n_jobs=1, checkpoint=checkpoint))
        assert first.to_dict() == whole[0]
        before = len(records(path))
        assert [result.to_dict() for result in self.run(path)] == whole
        assert all(record["audit"] == "two" for record in records(path)[before:])

    def test_a_suite_of_others_is_refused(self, path):
        self.run(path)
        with pytest.raises(AuditError, match=r"mechanism \(one, two there, one here\)"):
            self.run(path, self.entries[:1])
        other = [self.entries[0], dataclasses.replace(self.entries[1], claim=PureDP(3.0))]
        with pytest.raises(
            AuditError, match=r"claim of two \(PureDP\(epsilon=1.0\) there, PureDP\(epsilon=3.0\) here\)"
        ):
            self.run(path, other)


scalars = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.integers(-(2**70), 2**70), st.floats())
symbols = st.recursive(
    st.one_of(scalars, st.just(TimedOut()), st.text(max_size=3).map(Raised)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(Items.of),
        st.frozensets(st.integers(0, 9), max_size=3),
    ),
    max_leaves=5,
)


def in_order(value):
    """What a value prints as, bit by bit, but for the order of sets, which is nobody's."""
    parts = value if isinstance(value, (tuple, frozenset)) else ()
    written = list(map(in_order, parts))
    return type(value), sorted(written) if isinstance(value, frozenset) else written, "" if parts else repr(value)


class TestOutputs:
    @given(st.lists(symbols, min_size=1, max_size=5))
    def test_outputs_come_back_bit_by_bit(self, values):
        outputs = pack(values)
        back = block_from_json(json.loads(json.dumps(block_to_json(outputs))))
        assert back.dtype == outputs.dtype
        assert list(map(in_order, back.tolist())) == list(map(in_order, outputs.tolist()))

    @pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "?", "c16", "u8"])
    def test_arrays_keep_their_shape(self, dtype):
        outputs = normal_array(np.arange(12).reshape(4, 3).astype(dtype))
        back = block_from_json(json.loads(json.dumps(block_to_json(outputs))))
        assert back.dtype == outputs.dtype
        np.testing.assert_array_equal(back, outputs)


@dataclasses.dataclass(frozen=True)
class Scaled:
    scale: float

    def sample(self, size, rng):
        return self.scale * rng.laplace(size=size)


class TestFingerprints:
    def test_equal_objects_agree_in_every_process(self):
        program = textwrap.dedent(
            """
            import numpy as np
            from epsaudit import PureDP, DatasetPair, vectorized
            from epsaudit.data.fresh import digest
            def make(shift):
                return lambda data, size, rng: data + shift + rng.laplace(size=size)
            law = vectorized(make(2.0), claim=PureDP(1.0), pairs=[DatasetPair({"a", "b"}, np.arange(3))])
            said = f"{digest(law)} {digest({'x', 'y', 'z'})} {digest(PureDP(1.0))}"
            """
        )
        here = {}
        exec(compile(program, "<string>", "exec"), here)
        there = subprocess.run(
            [sys.executable, "-c", f"{program}\nprint(said)"],
            env={**os.environ, "PYTHONHASHSEED": "2"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here["said"].replace("__main__", "builtins")

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

    def test_a_cycle_ends_and_caches_do_not_count(self):
        import functools

        class Caching:
            def __init__(self):
                self.me = self

            @functools.cached_property
            def cached(self):
                return 1

        fresh, used = Caching(), Caching()
        assert used.cached == 1
        assert digest(fresh) == digest(used)


def test_waiting_for_the_disk_is_a_small_share_of_the_time(path, monkeypatch):
    # a disk that takes 10 ms a time is not asked more often than every second; the clock is not the real one
    now = [0.0]
    waits = []

    def fsync(handle):
        now[0] += 0.01
        waits.append(now[0])

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Checkpoint(path, {"count": {}}, 1) as checkpoint:
        section = checkpoint.section("count")
        for chunk in range(5_000):
            now[0] += 0.001
            section.record_count(chunk, np.array([1, 1, 0, 0, 0, 0]))
    assert 3 <= len(waits) <= 7
    assert len(records(path)) == 5_001

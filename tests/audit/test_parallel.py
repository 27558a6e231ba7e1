"""Who computes which chunk, when, and in what order never shows; what goes wrong in a worker is a sentence."""

import importlib
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time

import joblib
import pytest
from recorded import counted, records

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.results.result import read_file, save
from epsaudit.running import sampling
from epsaudit.running.chunks import Chunk, certification_chunks
from epsaudit.running.pool import Workers
from epsaudit.search import Tails

PAIR = DatasetPair((1,), (1, 2))
OPTIONS = {"trials": 60_000, "seed": 5, "witnesses": [Tails()]}


def many(data, size, rng):
    return len(data) + rng.laplace(size=size)


def one(data, rng):
    return len(data) + rng.laplace()


def mechanism(kind):
    wrap, function = {"vectorized": (vectorized, many), "black box": (black_box, one)}[kind]
    return wrap(function, claim=PureDP(1.0), pairs=[PAIR], name=kind)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    return {kind: saved(folder / kind, kind, n_jobs=1) for kind in ("vectorized", "black box")}


def saved(path, kind, **options):
    """What the result file holds, without times and machine."""
    save([audit(mechanism(kind), **OPTIONS, **options)], path)
    return [{name: value for name, value in item.items() if name != "execution"} for item in read_file(path)]


@pytest.mark.parametrize("kind", ["vectorized", "black box"])
class TestDeterminism:
    def test_files_are_the_same_at_any_number_of_jobs(self, kind, alone, tmp_path):
        assert saved(tmp_path / "file", kind, n_jobs=2) == alone[kind]

    @pytest.mark.parametrize(
        "backend",
        [
            *(pytest.param(name, marks=pytest.mark.slow) for name in ("loky", "multiprocessing")),
            "threading",
            "sequential",
        ],
    )
    def test_and_under_any_backend(self, kind, backend, alone, tmp_path):
        with joblib.parallel_config(backend=backend, n_jobs=1 if backend == "sequential" else 2):
            assert saved(tmp_path / "file", kind) == alone[kind]

    def test_and_in_any_order_of_chunks(self, kind, alone, tmp_path, monkeypatch):
        def shuffled(*arguments):
            chunks = list(original(*arguments))
            random.Random(1).shuffle(chunks)
            assert chunks != list(original(*arguments))
            return iter(chunks)

        original = sampling.certification_chunks
        monkeypatch.setattr(sampling, "certification_chunks", shuffled)
        assert saved(tmp_path / "file", kind, n_jobs=2) == alone[kind]
        assert saved(tmp_path / "file", kind, n_jobs=2, checkpoint=tmp_path / "run.checkpoint") == alone[kind]


class TestChunks:
    @pytest.mark.parametrize("least", [64, 4096])
    @pytest.mark.parametrize("runs", [1, 63, 4096, 100_001, 10**6, 10**8])
    def test_every_run_is_in_one_chunk(self, runs, least):
        chunks = list(certification_chunks(runs, least))
        assert sum(chunk.size for chunk in chunks) == runs
        assert len({chunk.key for chunk in chunks}) == len(chunks) <= 256

    def test_chunks_do_not_grow_with_the_runs(self):
        # what a worker holds, and what is lost by a kill, is bounded; nothing is kept a chunk
        chunks = certification_chunks(10**12, 4096)
        assert next(chunks) == Chunk((1, 0), 1 << 20)


class TestMisbehaviour:
    @pytest.mark.parametrize("run", [audit, pytest.param(audit_sequentially, marks=pytest.mark.slow)])
    def test_what_failed_in_a_chunk_is_said(self, run):
        def rarely(data, size, rng):
            outputs = len(data) + rng.laplace(size=size)
            if (outputs > 13).any():
                raise ZeroDivisionError("no noise left")
            return outputs

        law = vectorized(rarely, claim=PureDP(1.0), pairs=[PAIR])
        with pytest.raises(AuditError, match=r"raised ZeroDivisionError \(no noise left\)"):
            run(law, trials=1_000_000, seed=3, n_jobs=2)

    @pytest.mark.slow
    def test_a_worker_that_dies(self, tmp_path):
        path, here = tmp_path / "run.checkpoint", os.path.dirname(__file__)

        def dies(data, rng):
            sys.path[:0] = [here] * (here not in sys.path)
            from recorded import counted

            if rng.bit_generator.seed_seq.spawn_key == (1, 60):
                for _ in range(20_000):  # a busy machine may be slow to write down what is done
                    if counted(path) > 50:
                        break
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            return len(data) + rng.laplace()

        law = black_box(dies, claim=PureDP(1.0), pairs=[PAIR])
        with pytest.raises(AuditError, match=r"A worker process died.*SIGKILL.*chunks in the checkpoint are safe"):
            audit(law, trials=60_000, seed=3, witnesses=[Tails()], n_jobs=2, checkpoint=path)
        assert counted(path) > 50

    def test_what_cannot_be_sent(self):
        lock = threading.Lock()
        law = black_box(lambda data, rng: rng.laplace() if lock else 0.0, claim=PureDP(1.0), pairs=[PAIR])
        with pytest.raises(AuditError, match=r"cannot be sent to another process .*use one job, or joblib's threads"):
            audit(law, trials=5_000, seed=1, n_jobs=2)
        assert audit(law, trials=5_000, seed=1, n_jobs=1).trials == 5_000

    def test_workers_run_the_code_that_is_loaded_here(self, tmp_path, monkeypatch):
        """A module that was edited and loaded anew, or another of its name, is the former one in old workers."""
        monkeypatch.syspath_prepend(str(tmp_path))
        source = tmp_path / "edited_module.py"
        workers = Workers(n_jobs=2, prefer="processes")
        module = None
        for value in (1, 22):
            source.write_text(f"def answer(shared, part):\n    return {value}\n")
            importlib.invalidate_caches()
            module = importlib.import_module("edited_module") if module is None else importlib.reload(module)
            assert {answer for _, answer in workers.each(module.answer, None, range(4), 100_000)} == {value}
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / source.name).write_text("def another(shared, part):\n    return 3\n")
        monkeypatch.syspath_prepend(str(elsewhere))
        monkeypatch.delitem(sys.modules, "edited_module")
        other = importlib.import_module("edited_module").another
        assert {answer for _, answer in workers.each(other, None, range(4), 100_000)} == {3}


OWN = """
from epsaudit import DatasetPair, PureDP, black_box

def count(data, rng):
    return len(data) + min(rng.laplace() for _ in range(100))

slow = black_box(count, claim=PureDP(100.0), pairs=[DatasetPair((1,), (1, 2))])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_from_outside(how, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    path = tmp_path / "run.checkpoint"
    words = shlex.split("audit mine:slow --trials 1e6 --seed 1 --jobs 2 --checkpoint run.checkpoint --out .")
    with subprocess.Popen(
        [sys.executable, "-m", "epsaudit.tools.cli.main", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until(lambda: len(records(path)) > 5)
        process.send_signal(how)
        said = process.stderr.read()
        status = process.wait()
        wait_until(lambda: not alive(process.pid))  # workers and all
    if how == signal.SIGKILL:
        assert status == -signal.SIGKILL
    else:
        assert status == 130
        # a library may warn of what a busy machine is late with; the last word is the sentence
        assert said.endswith("epsaudit: interrupted; the same command goes on from the chunks in run.checkpoint.\n")
        assert "Traceback" not in said
        assert said.count("epsaudit:") == 1
    log = {"run.checkpoint-wal"} if how == signal.SIGKILL else set()
    assert set(os.listdir(tmp_path)) - {"__pycache__"} == {"mine.py", "run.checkpoint"} | log
    assert len(records(path)) > 5


def alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition, seconds=300.0):  # two interpreters start meanwhile, which takes a busy machine a minute
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)

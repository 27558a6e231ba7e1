"""A real dask cluster on this machine: the same result, also when a worker is killed in the middle of an audit."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import joblib
import pytest
from recorded import counted, cut, records

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box
from epsaudit.running.workers import cluster
from epsaudit.search import Tails

distributed = pytest.importorskip("distributed")

PAIR = DatasetPair((1,), (1, 2))
OPTIONS = {"trials": 20_000, "seed": 5, "witnesses": [Tails()]}


def noisy():
    """A mechanism that no worker can import: it travels by value."""

    def slow(data, rng):  # some 15 microseconds, so that a chunk outlasts joblib's polling
        return len(data) + rng.laplace() + min(rng.laplace() for _ in range(20)) / 1e9

    return black_box(slow, claim=PureDP(1.0), pairs=[PAIR])


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "20"},
    )


def listen(process, pattern):
    """Wait for what a process says, and let it go on talking."""
    for line in process.stderr:
        if found := re.search(pattern, line):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found
    raise AssertionError("ended without a word")


class Cluster:
    """A scheduler and workers, each in a process of its own."""

    def __init__(self, workers):
        self.processes = [start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")]
        self.address = listen(self.processes[0], r"Scheduler at:\s+(tcp://\S+)")[1]
        self.workers = [self.add() for _ in range(workers)]

    def add(self):
        worker = start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        self.processes.append(worker)
        listen(worker, "Registered to")
        return worker

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def scheduler():
    """A scheduler of its own, in a thread of this process, to which no other test adds workers."""
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None
    ) as started:
        yield started


@pytest.fixture(scope="module")
def running():
    started = Cluster(2)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def alone():
    return json.dumps(audit(noisy(), **OPTIONS, n_jobs=1).to_dict())


class TestBefore:
    def test_nobody_at_the_address(self):
        for address in ("tcp://127.0.0.1:9", "nonsense"):
            with pytest.raises(AuditError, match=f"No dask scheduler answers at '{address}'"), cluster(address, wait=1):
                pass

    @pytest.mark.slow
    def test_a_scheduler_without_workers(self, scheduler):
        with (
            pytest.raises(AuditError, match="or it has no workers"),
            cluster(scheduler.scheduler_address, wait=5),  # a busy machine may take more than a second to connect
        ):
            pass

    def test_workers_that_are_threads_of_this_process_give_the_same_result(self, scheduler):
        scheduler.scale(2)
        scheduler.wait_for_workers(2)
        options = {**OPTIONS, "trials": 4_000}
        with cluster(scheduler.scheduler_address):
            found = audit(noisy(), **options)
        assert found.to_dict() == audit(noisy(), **options, n_jobs=1).to_dict()


@pytest.mark.slow
class TestCluster:
    """Each process of it imports for seconds."""

    def test_the_result_is_that_of_one_machine(self, running, alone):
        with cluster(running.address) as client:
            assert len(client.ncores()) == 2
            assert json.dumps(audit(noisy(), **OPTIONS).to_dict()) == alone

    def test_plain_joblib_does_the_same(self, running, alone):
        with distributed.Client(running.address), joblib.parallel_config(backend="dask"):
            assert json.dumps(audit(noisy(), **OPTIONS).to_dict()) == alone

    def test_what_a_cluster_began_one_machine_ends(self, running, alone, tmp_path):
        class EnoughError(Exception):
            pass

        def stop(step):
            if step.stage == "certification" and step.runs_done > 1000:
                raise EnoughError

        with cluster(running.address), pytest.raises(EnoughError):
            audit(noisy(), **OPTIONS, progress=stop, checkpoint=tmp_path / "run")
        assert json.dumps(audit(noisy(), **OPTIONS, n_jobs=2, checkpoint=tmp_path / "run").to_dict()) == alone

    def test_a_sequential_audit_runs_there_too_and_ends_on_one_machine(self, running, tmp_path):
        options = {"trials": 3_000, "seed": 5}
        here = json.dumps(audit_sequentially(noisy(), **options, n_jobs=1).to_dict())
        with distributed.Client(running.address) as client, joblib.parallel_config(backend="dask"):
            assert json.dumps(audit_sequentially(noisy(), **options, checkpoint=tmp_path / "run").to_dict()) == here
            drawn = client.run(lambda: "epsaudit.audits.sequential" in __import__("sys").modules)
        assert all(drawn.values())
        cut(tmp_path / "run", len(records(tmp_path / "run")) // 2)
        again = audit_sequentially(noisy(), **options, n_jobs=1, checkpoint=tmp_path / "run")
        assert json.dumps(again.to_dict()) == here

    def test_a_worker_killed_in_the_middle_changes_nothing(self, running, alone, tmp_path):
        victim = running.workers.pop()

        def kill(step):
            if step.stage == "certification" and victim.poll() is None and step.runs_done > 1000:
                os.kill(victim.pid, signal.SIGKILL)
                victim.wait()

        with cluster(running.address) as client:
            found = audit(noisy(), **OPTIONS, progress=kill, checkpoint=tmp_path / "run")
            assert len(client.ncores()) == 1
        assert victim.poll() == -signal.SIGKILL
        assert json.dumps(found.to_dict()) == alone

    def test_a_cluster_that_is_lost_is_a_sentence_and_the_chunks_are_kept(self, running, tmp_path):
        running.add()  # joblib keeps the work of a single core on this machine

        def kill(step):
            if step.stage == "certification" and step.runs_done > 2000:
                for process in running.processes:
                    process.kill()

        with pytest.raises(AuditError, match="The workers were lost"), cluster(running.address):
            audit(noisy(), **OPTIONS, progress=kill, checkpoint=tmp_path / "run")
        assert 5 < counted(tmp_path / "run") < 200

"""Programs whose single release is private and that keep a draw are refused, never refuted; true leaks still are."""

import sys

import pytest

from epsaudit import AuditError, PureDP, audit, audit_sequentially, command, serve
from epsaudit.running import child, child_pool
from epsaudit.running.copies import CONSTANT, PROCESSES
from epsaudit.running.served import Served
from epsaudit.tools.hunting.hunt import hunt
from epsaudit.tools.hunting.options import Options

PROGRAMS = """
import functools, random
system = random.SystemRandom()
def laplace(source=system): return source.expovariate(1) - source.expovariate(1)

@functools.lru_cache(None)
def answer(n): return n + laplace()
def caches(data): return answer(len(data))

NOISE = laplace()
def draws_at_import(data): return len(data) + NOISE

OFFSET = {}
def keeps_most(data): return len(data) + OFFSET.setdefault(0, laplace()) + 0.1 * laplace()

@functools.lru_cache(None)
def first(n, bit): return n + laplace(random.Random(bit))
def caches_what_a_seed_gave(data, seed):
    return first(len(data), OFFSET.setdefault(len(data), seed))

class Client:
    def __init__(self): self.kept = {}
    def __call__(self, data): return self.kept.setdefault(len(data), len(data) + laplace())

def sound(data): return len(data) + laplace()
def too_little(data): return len(data) + 0.4 * laplace()
def of_a_seed(data, seed): return len(data) + 0.4 * laplace(random.Random(seed))
def none(data): return len(data)
"""
PAIRS = [((1,), (1, 1))]
RUNS = {"audit": audit, "sequentially": audit_sequentially}
KEEPING = [
    ("caches", "audit"),
    ("keeps_most", "sequentially"),
    pytest.param("draws_at_import", "audit", marks=pytest.mark.slow),
    pytest.param("caches_what_a_seed_gave", "sequentially", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    (tmp_path / "programs.py").write_text(PROGRAMS)
    monkeypatch.chdir(tmp_path)
    yield
    child_pool.CHILDREN.close()


@pytest.fixture
def starts(monkeypatch):
    """Processes that were started, the one of the audit among them."""
    found = []
    start = child.Child.__init__
    monkeypatch.setattr(child.Child, "__init__", lambda self, program: found.append(program) or start(self, program))
    return found


def program(function):
    return command([sys.executable, serve.__file__, f"programs.py:{function}"], claim=PureDP(1.0), timeout=60.0)


@pytest.mark.parametrize(("function", "run"), KEEPING)
def test_a_program_that_keeps_a_draw_is_not_refuted(function, run):
    """It is refuted for certain where it is not refused, which fails with probability below 1e-6: 16 processes must all
    hold a draw by which the event tells 1 + N from 2 + N, and each does with probability 0.4 at most.
    """
    with pytest.raises(AuditError, match="started anew give other outputs"):
        RUNS[run](program(function), PAIRS, trials=8_000, seed=1, n_jobs=1, confidence=0.9999)


@pytest.mark.slow
def test_a_hunt_does_not_report_a_program_that_keeps_a_draw():
    found = hunt(
        Served("programs.py:keeps_most"), PAIRS, claim=PureDP(1.0), options=Options(trials=8_000, seed=1, n_jobs=1)
    )
    assert not found.refuted
    assert "started anew give other outputs" in found.attempts[0].failure


@pytest.mark.parametrize(
    "function", ["sound", "too_little", *(pytest.param(one, marks=pytest.mark.slow) for one in ("of_a_seed", "none"))]
)
def test_leaks_are_refuted_and_only_they_start_processes(function, starts):
    """Independent runs are refused with probability below 1e-9, sound ones refuted with one of 1e-6."""
    options = {"claim": PureDP(1.0), "trials": 8_000, "seed": 3, "n_jobs": 1, "confidence": 1 - 1e-6}
    result = audit_sequentially(program(function), PAIRS, **options)
    assert result.verdict == ("consistent" if function == "sound" else "violated")
    assert len(starts) == 1 + PROCESSES * (function != "sound")
    assert (CONSTANT in result.notes) == (function == "none")


@pytest.mark.slow
def test_a_program_that_is_started_for_every_run_may_keep_what_it_likes():
    """The same program is refused above; here it is as private as it says, and a leak is still certified."""
    for function, leaks in (("keeps_most", False), ("too_little", True)):
        words = [sys.executable, serve.__file__, f"programs.py:{function}"]
        fresh = command(words, claim=PureDP(1.1 if not leaks else 0.3), timeout=60.0, fresh=True)
        result = audit(fresh, PAIRS, trials=400, seed=1, confidence=0.9999)
        assert result.violates_claim == leaks


def test_a_served_factory_makes_its_object_anew_for_every_run():
    words = [sys.executable, serve.__file__, "programs.py:Client", "--fresh"]
    result = audit(command(words, claim=PureDP(1.0), timeout=60.0), PAIRS, trials=8_000, seed=1, confidence=0.9999)
    assert not result.violates_claim
    assert result.lower_bound > 0.6

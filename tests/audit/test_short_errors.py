"""Errors for wrong input end in the caller's line and one sentence, with what was probably meant."""

import subprocess
import sys

import pytest

import epsaudit
from epsaudit import (
    ApproxDP,
    AuditError,
    PureDP,
    audit,
    audit_scores,
    audit_sequentially,
    bound_above,
    trace,
    vectorized,
)
from epsaudit.tools.testing.freezing import freeze

PAIR = ([1], [1, 2])


def count(data, rng):
    return len(data) + rng.laplace()


def broken(data, rng):
    raise KeyError("no such column")


CALLS = {
    "audit": lambda: audit(count, PAIR, epsilon=1.0, trials=10),
    "audit_sequentially": lambda: audit_sequentially(count, PAIR, epsilon=1.0, confidence=2),
    "audit_scores": lambda: audit_scores([True, False], [1.0, 0.0, 2.0], epsilon=1.0),
    "trace": lambda: trace(count, PAIR, certify=True),
    "bound_above": lambda: bound_above(count, PAIR),
    "freeze": lambda: freeze(count, PAIR, epsilon=1.0, runs=0),
    "vectorized": lambda: vectorized(7),
    "a claim": lambda: PureDP(-1.0),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_traceback_ends_at_the_line_of_the_caller(call):
    with pytest.raises(AuditError) as error:
        call()
    files = [str(entry.path) for entry in error.traceback if str(entry.path) not in (__file__, "<string>")]
    assert [file.endswith("errors.py") for file in files] == [True]
    assert [str(entry.path) for entry in error.traceback if not entry.ishidden(error)][-1] in (__file__, "<string>")


def test_a_script_prints_the_line_and_the_sentence(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from epsaudit import audit\n"
        "def count(data, rng):\n"
        "    return len(data) + rng.laplace()\n"
        "audit(count, ([1], [1, 2]), epsilon=1.0, confidence=95)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert len(lines) == 6
    assert lines[2] == "    audit(count, ([1], [1, 2]), epsilon=1.0, confidence=95)"
    assert lines[-1].endswith("AuditError: confidence is 95; it must be at least 0.5 and below 1. Did you mean 0.95?")


def test_the_lines_of_audited_code_are_kept():
    with pytest.raises(AuditError) as error:
        audit(broken, PAIR, epsilon=1.0, trials=1_000)
    cause = error.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__.tb_frame.f_code.co_name == "broken"


MEANT = [
    (lambda: audit(count, PAIR, eps=1.0), TypeError, r"unexpected keyword argument 'eps'. Did you mean 'epsilon'\?"),
    (lambda: audit(count, PAIR, trails=1_000), TypeError, r"Did you mean 'trials'\?"),
    (lambda: audit_sequentially(count, PAIR, epsilom=1.0), TypeError, r"Did you mean 'epsilon'\?"),
    (lambda: trace(count, PAIR, clam=PureDP(1.0)), TypeError, r"Did you mean 'claim'\?"),
    (lambda: audit(count, PAIR, epsilon=1.0, confidence=95), AuditError, r"Did you mean 0\.95\?"),
    (lambda: audit(count, PAIR, epsilon=1.0, confidence=99.9), AuditError, r"Did you mean 0\.999\?"),
    (lambda: audit(count, PAIR, epsilon=1.0, confidence=0.05), AuditError, r"Did you mean 0\.95\?"),
    (
        lambda: audit(count, PAIR, epsilon=1.0, delta=1.0),
        AuditError,
        r"Every mechanism is \(epsilon, 1\)-DP; delta is a",
    ),
    (lambda: ApproxDP(1.0, 1), AuditError, r"delta is a small probability, as 1e-6"),
]


@pytest.mark.parametrize(("call", "kind", "says"), MEANT)
def test_what_was_probably_meant_is_asked(call, kind, says):
    with pytest.raises(kind, match=says):
        call()


def test_the_signatures_are_kept():
    import inspect

    assert "epsilon" in inspect.signature(epsaudit.audit).parameters
    assert inspect.signature(audit).parameters["trials"].default == 1_000_000

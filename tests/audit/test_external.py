"""A mechanism in another process or language: outputs of every kind come through, and every fault is a sentence."""

import math
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, command, serve
from epsaudit.errors import cause_of
from epsaudit.outputs.normal_form import Raised, TimedOut
from epsaudit.running import child
from epsaudit.running.child_pool import CHILDREN

PAIR = DatasetPair((1,), (1, 2))
PYTHON = """
import json, random, sys
print(json.dumps({"epsaudit": 1, "seeded": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    rng = random.Random(request["seed"])
    for _ in range(request["size"]):
        print(json.dumps(len(request["dataset"]) + SCALE * (rng.expovariate(1) - rng.expovariate(1))))
    sys.stdout.flush()
"""
BLOCKS = """
import io, json, sys, numpy as np
print('{"epsaudit": 1, "seeded": true}', flush=True)
for line in sys.stdin:
    request = json.loads(line)
    rng = np.random.default_rng(request["seed"])
    block = io.BytesIO()
    np.save(block, len(request["dataset"]) + SCALE * rng.laplace(size=request["size"]))
    sys.stdout.write(json.dumps({"npy": len(block.getvalue())}) + "\\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(block.getvalue())
    sys.stdout.buffer.flush()
"""


def noisy_count(program, scale=1.0):
    words = [sys.executable, "-c", program.replace("SCALE", str(scale))]
    return command(words, name="count", claim=PureDP(1.0), pairs=[PAIR])


class TestLanguages:
    @pytest.mark.parametrize("program", [PYTHON, BLOCKS], ids=["lines", "blocks"])
    def test_the_whole_noise_comes_through_and_is_not_refuted(self, program):
        """A bound above 1 has probability 1e-6; 0.7 is nine standard errors below what 20,000 runs show of 1."""
        sound = audit(noisy_count(program), trials=20_000, seed=4, confidence=1 - 1e-6)
        assert 0.7 < sound.lower_bound <= 1.0
        assert (sound.verdict, sound.reproducible) == ("consistent", True)

    def test_half_the_noise_is_refuted(self):
        assert audit(noisy_count(PYTHON, 0.5), trials=4_000, seed=4, confidence=1 - 1e-6).violates_claim


ECHO = """
import json, sys
print('{"epsaudit": 1, "seeded": true}', flush=True)
for line in sys.stdin:
    for output in json.loads(line)["dataset"]:
        print(json.dumps(output))
    sys.stdout.flush()
"""


class TestOutputs:
    def test_special_outcomes_and_bare_words(self):
        said = [{"raises": "KeyError"}, {"timeout": True}, [1, [2, None]], {"set": [1, 2]}, {"float": "-inf"}]
        heard = command([sys.executable, "-c", ECHO])(said).sample(len(said), np.random.default_rng(0)).tolist()
        assert heard == [Raised("KeyError"), TimedOut(), (1, (2, None)), frozenset({1, 2}), -math.inf]
        words = """
import sys
print('{"epsaudit": 1}', flush=True)
for line in sys.stdin: print("NaN\\nInfinity\\n-Infinity", flush=True)
"""
        heard = command([sys.executable, "-c", words])(()).sample(3, np.random.default_rng(0))
        np.testing.assert_array_equal(heard, [math.nan, math.inf, -math.inf])


HELLO = """import os, signal, sys, time
def say(text): print(text, flush=True)
say('{"epsaudit": 1, "seeded": true}')
request = sys.stdin.readline()
"""
FAULTS = {
    "missing": (None, "cannot be started: there is no program '/nowhere/at-all'"),
    "silent from the start": (
        "import time; time.sleep(60)",
        "was silent for 0.4 seconds before it was asked anything",
    ),
    "no hello": ("print('Loading required package: dp')", "began with 'Loading"),
    "greets badly": ("""print('{"epsaudit": 1, "seeded": "yes"}')""", "it must say"),
    "fails to start": ("raise SystemExit('no package dp')", "ended with exit status 1 before it was asked anything."),
    "ends": (
        HELLO + "sys.stderr.write('out of noise'); sys.exit(3)",
        "ended with exit status 3 after it answered 0 of 5 lines",
    ),
    "is killed": (HELLO + "os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
    "stops answering": (
        HELLO + "say(1); time.sleep(60)",
        "was silent for 1.5 seconds after it answered 1 of 5 lines",
    ),  # a busy machine starts it within that
    "garbage": (HELLO + "say('1\\n2\\noops\\n4\\n5')", "wrote 'oops' as output 3 of 5, which is no output in JSON"),
    "bytes": (HELLO + "sys.stdout.buffer.write(b'\\xff\\xfe\\n' * 5); sys.stdout.flush()", "which is no output in J"),
    "an error": (HELLO + """say('{"error": "the dataset is empty"}')""", "says: the dataset is empty"),
    "fewer than none": (HELLO + """say('{"npy": -1}')""", "announced a block of -1 bytes"),
    "half a block": (
        HELLO + """say('{"npy": 99}'); say('1')""",
        "ended with exit status 0 after it sent 2 of 99 bytes",
    ),
    "another size": (
        HELLO
        + "import io, numpy as np; b = io.BytesIO(); np.save(b, np.zeros(4)); "
        + "say('{\"npy\": %d}' % len(b.getvalue())); sys.stdout.buffer.write(b.getvalue()); sys.stdout.flush()",
        "sent a block of shape (4,) and type float64 for 5 outputs",
    ),
    "a pickle": (
        HELLO
        + "import io, numpy as np; b = io.BytesIO(); np.save(b, np.array([print] * 5), allow_pickle=True); "
        + "say('{\"npy\": %d}' % len(b.getvalue())); sys.stdout.buffer.write(b.getvalue()); sys.stdout.flush()",
        "is not a .npy file of numbers (Object arrays cannot be loaded when allow_pickle=False)",
    ),
}


CHAINED = """Traceback (most recent call last):
  File "errors.py", line 1, in error
    raise ValueError("an error")
ValueError: first

During handling of the above exception, another exception occurred:

KeyError: 'second'
"""


def ask(program, size=5, patience=60.0):
    words = ["/nowhere/at-all"] if program is None else [sys.executable, "-c", program]
    return command(words, timeout=patience)((1, 2)).sample(size, np.random.default_rng(0))


def running(marker):
    """Process ids, not of zombies, whose command line holds the marker."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                if marker.encode() in file.read():
                    found.append(int(number))
        except OSError:
            continue  # it has just ended
    return found


def asker_of(number):
    """The process that started the program of which this process is a part: the parent of the leader of its group."""
    try:
        for field in (2, 1):  # its group, then the parent of the process of that number
            with open(f"/proc/{number}/stat") as file:
                number = int(file.read().rpartition(")")[2].split()[field])
    except OSError:
        return None  # it has ended
    return number


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="processes are counted in /proc")


class TestFaults:
    @pytest.mark.parametrize("fault", FAULTS)
    def test_every_fault_is_one_sentence_that_names_the_command(self, fault):
        program, words = FAULTS[fault]
        silence = re.search(r"silent for (\S+) seconds", words)  # only where it is tested is it waited for
        with pytest.raises(AuditError) as raised:
            ask(program, patience=float(silence.group(1)) if silence else 60.0)
        assert words in str(raised.value)
        assert str(raised.value).startswith("The command ")

    def test_the_cause_is_the_first_line_of_standard_error_that_names_an_error(self):
        """Above a stack of ten lines and a version, as Node and Java print them; what was said earlier is none."""
        stack = "".join(f"    at load (loader:{line})\\n" for line in range(10))
        dies = f"sys.exit('lib.js:9\\n\\nTypeError: no crypto\\n{stack}\\nNode.js v20')"
        with pytest.raises(AuditError, match=r"says: 'TypeError: no crypto', and ends: '.* \| Node\.js v20'\.$"):
            ask("import sys\n" + dies)
        once = "sys.stderr.write('KeyError: caught\\n'); say(1); sys.stdin.readline()\n"
        law = command([sys.executable, "-c", HELLO + once + dies])((1, 2))
        assert law.sample(1, np.random.default_rng(0)).tolist() == [1]
        with pytest.raises(AuditError, match=r"after it answered 0 of 1 lines\. Its standard error says: 'TypeError"):
            law.sample(1, np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("said", "cause"),
        [
            (CHAINED, "ValueError: first"),
            ("Error in library(dp) :\n  there is no package\nHalted", "Error in library(dp) : there is no package"),
            ('Exception in thread "main" java.lang.Oops: x\n\tat A.main(A.java:3)', 'Exception in thread "main" java.'),
            ("thread 'main' panicked at src/main.rs:2:5:\nno noise\nnote: run with", "thread 'main' panicked at src"),
            ("a.py:3: FutureWarning: an error soon\ndefault values\nno data", "no data"),
            (" \n", ""),
        ],
    )
    def test_what_names_an_error(self, said, cause):
        assert cause_of(said).startswith(cause)
        assert bool(cause_of(said)) == bool(cause)

    def test_more_than_was_asked_for_is_noticed_at_the_next_question(self):
        program = HELLO + "say('1\\n2\\n3\\n4\\n5\\n6'); sys.stdin.readline(); time.sleep(60)"
        law = command([sys.executable, "-c", program], timeout=60.0)((1, 2))
        assert law.sample(5, np.random.default_rng(0)).tolist() == [1, 2, 3, 4, 5]
        with pytest.raises(AuditError, match="wrote more than it was asked for: '6"):
            law.sample(5, np.random.default_rng(0))

    @needs_proc
    def test_what_the_program_started_is_ended_with_it(self):
        marker = f"orphan-of-{os.getpid()}-{time.monotonic_ns()}"
        grandchild = f"import subprocess; subprocess.Popen(['sh', '-c', 'sleep 60; true', '{marker}'])\n"
        with pytest.raises(AuditError, match="silent"):
            ask(grandchild + HELLO + "time.sleep(60)", patience=1.5)
        wait_until(lambda: running(marker) == [])

    @needs_proc
    @pytest.mark.parametrize(
        "how", [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT))]
    )
    def test_a_killed_audit_leaves_no_child(self, how, tmp_path):
        # the child ignores the end of its input: only the watchdog can end it
        marker = f"child-of-{os.getpid()}-{time.monotonic_ns()}"
        program = HELLO + f"open({str(tmp_path / 'asked')!r}, 'w')\n'{marker}'\nwhile True: time.sleep(60)"
        parent = f"""
import sys
from epsaudit import command
import numpy as np
command([sys.executable, "-c", {program!r}])((1,)).sample(2, np.random.default_rng(0))
"""
        with subprocess.Popen(
            [sys.executable, "-c", parent], start_new_session=True, stderr=subprocess.DEVNULL
        ) as audit_process:
            wait_until((tmp_path / "asked").exists, seconds=60.0)  # imports, on a machine that does other work
            assert len(running(marker)) >= 2  # the audit's own command line holds the marker, too
            audit_process.send_signal(how)
            audit_process.wait(10)
            wait_until(lambda: running(marker) == [])

    def test_idle_children_are_closed(self):
        ask(PYTHON.replace("SCALE", "1"))
        children = list(CHILDREN._idle)
        assert any(child.usable for child in children)
        CHILDREN.close()
        assert not any(child.usable for child in children)


SLOW = """
import json, os, random, sys, time
BUSY, LUCK = {busy!r}, {luck!r}  # of {marker}
print('{{"epsaudit": 1, "seeded": true}}', flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["size"] >= 60:  # a chunk: fewer are only looked at
        try:
            os.close(os.open(BUSY, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            if not LUCK:
                print('{{"error": "no luck"}}', flush=True)
                continue
        time.sleep(600)
    rng = random.Random(request["seed"])
    print("\\n".join(str(rng.random()) for _ in range(request["size"])), flush=True)
"""


def slow(tmp_path, luck):
    """A mechanism whose program takes minutes for the first chunk, and also for others or says an error; its marker."""
    marker, busy = f"slow-child-of-{os.getpid()}-{time.monotonic_ns()}", tmp_path / "busy"
    program = SLOW.format(busy=str(busy), luck=luck, marker=marker)
    return command([sys.executable, "-c", program], claim=PureDP(1.0), pairs=[PAIR]), marker, busy


ENDS_AUDITS = """
import sys, time
import joblib
from epsaudit import AuditError, DatasetPair, PureDP, audit, command

if __name__ == "__main__":
    mechanism = command([sys.executable, "-c", {program!r}], claim=PureDP(1.0), pairs=[DatasetPair((1,), (1, 2))])
    try:
        with joblib.parallel_config(backend={backend!r}):
            audit(mechanism, trials=20_000, seed=1, n_jobs=2)
    except (AuditError, KeyboardInterrupt) as error:
        print(type(error).__name__, str(error), flush=True)
    sys.stdin.read()
"""


@needs_proc
def test_a_program_that_says_nothing_at_first_is_told_of_soon(monkeypatch, capsys):
    monkeypatch.setattr(child, "GREETING_SECONDS", 0.1)
    with pytest.raises(AuditError, match="was silent for"):
        command(["sleep", "9"], timeout=0.4)((1, 2)).sample(5, np.random.default_rng(0))
    with pytest.raises(AuditError, match="was silent for"):
        command(["sleep", "9"], timeout=0.4)((1, 2)).sample(5, np.random.default_rng(0))
    said = capsys.readouterr().err
    assert "sleep 9 has said nothing yet; it must say" in said
    assert said.count("said nothing yet") == 1, "of one program once, however many of its processes start slowly"


TOGETHER = """
import os, sys, time
here = {folder!r}
first = not os.listdir(here)
open(os.path.join(here, str(os.getpid())), "w").close()
while not first and len(os.listdir(here)) < 17:  # as if the import took as long as all others need to start
    time.sleep(0.02)
"""


def test_processes_that_check_a_refutation_start_together(tmp_path):
    """Each waits for the other 15, which no process would do for long that is started after another has answered."""
    folder = tmp_path / "started"
    folder.mkdir()
    program = TOGETHER.format(folder=str(folder)) + PYTHON.replace("SCALE", "0.1")
    mechanism = command([sys.executable, "-c", program], claim=PureDP(1.0), pairs=[PAIR], timeout=30.0)
    assert audit_sequentially(mechanism, trials=4_000, seed=1, n_jobs=1).violates_claim
    assert len(os.listdir(folder)) == 17


class TestEnds:
    """Whatever ends an audit, no program goes on to compute what nobody waits for, though this process goes on."""

    def test_an_error_in_one_thread_ends_the_programs_of_the_others(self, tmp_path):
        mechanism, marker, busy = slow(tmp_path, luck=False)
        with pytest.raises(AuditError, match="says: no luck"):
            audit(mechanism, trials=20_000, seed=1, n_jobs=2)
        assert busy.exists()
        wait_until(lambda: running(marker) == [], seconds=5.0)

    @pytest.mark.parametrize(
        ("backend", "how"),
        [
            ("threading", "interrupt"),
            *(pytest.param("loky", how, marks=pytest.mark.slow) for how in ("error", "interrupt", "kill a worker")),
        ],
    )
    def test_an_interrupted_audit_and_a_killed_worker(self, tmp_path, backend, how):
        mechanism, marker, busy = slow(tmp_path, luck=how != "error")
        parent = tmp_path / "parent.py"
        parent.write_text(ENDS_AUDITS.format(program=mechanism.program.words[-1], backend=backend))
        words = [sys.executable, str(parent)]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
            wait_until(busy.exists, seconds=60.0)
            if how == "interrupt":
                process.send_signal(signal.SIGINT)
            if how == "kill a worker":
                (worker, *_) = {asker_of(child) for child in running(marker)} - {process.pid, None}
                os.kill(worker, signal.SIGKILL)
            expected = {"interrupt": "KeyboardInterrupt", "error": "OwnCodeError", "kill a worker": "AuditError"}[how]
            assert process.stdout.readline().startswith(expected)
            # where workers are processes, the audit's own keeps the program that it asked last: idle, for the next
            own = process.pid if backend == "loky" else 0
            wait_until(lambda: [child for child in running(marker) if asker_of(child) != own] == [], seconds=10.0)
            assert process.poll() is None
            process.stdin.close()


def wait_until(condition, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def test_a_checkpoint_remembers_the_file_of_a_served_function(tmp_path):
    """So that what was found of other code is not taken for this; a word may be FILE:FUNCTION."""
    file = tmp_path / "mine.py"
    found = []
    for noise in ("1.0", "0.5"):
        file.write_text(f"def count(data, rng): return len(data) + rng.laplace(scale={noise})\n")
        found.append(command([sys.executable, "-m", "epsaudit", "serve", f"{file}:count"]).fingerprint)
    assert found[0] != found[1]
    assert str(file) in str(found[0])


LIBRARY = "import random, helping\ndef count(data): return len(data) + {} * helping.noise()\n"
HELPING = "import random\ndef noise(): return {} * (random.expovariate(1) - random.expovariate(1))\n"
SERVE = [sys.executable, serve.__file__]


@pytest.mark.parametrize(
    ("function", "file"),
    [pytest.param("mending.py:count", "mending.py", marks=pytest.mark.slow), ("mending:count", "helping.py")],
)
def test_a_mended_program_is_audited_as_it_is_now(function, file, tmp_path, monkeypatch):
    """Four times the noise loses 0.25, and more is certified with probability 1e-5; the whole loses 1, four times that.

    No bound between the two is of a child of before. Neither is refuted, which would start many processes.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    mechanism = command([*SERVE, function], claim=PureDP(1.0), pairs=[PAIR], timeout=60.0)
    whole, fingerprints = [], []
    for scale in ("4.0", "1.0"):
        (tmp_path / "mending.py").write_text(LIBRARY.format(scale if file == "mending.py" else "1.0"))
        (tmp_path / "helping.py").write_text(HELPING.format(scale if file == "helping.py" else "1.0"))
        for _ in range(1 if scale == "4.0" else 2):
            whole.append(audit(mechanism, trials=3_000, seed=1, n_jobs=1, confidence=1 - 1e-5).lower_bound > 0.25)
            fingerprints.append(mechanism.fingerprint)
    assert whole == [False, True, True]
    assert fingerprints[0] != fingerprints[1] == fingerprints[2]


@pytest.mark.parametrize("other", [(1, 2), {1, 2}, np.array([1, 2])], ids=repr)
@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_datasets_that_json_cannot_tell_apart_are_refused_before_any_run(run, other, tmp_path):
    log = tmp_path / "asked"
    program = PYTHON.replace("SCALE", "1.0").replace("request = ", f"open({str(log)!r}, 'a').write(line); request = ")
    with pytest.raises(AuditError, match=r"are '\[1, 2\]' once they are written as JSON"):
        run(command([sys.executable, "-c", program], claim=PureDP(1.0)), [([1, 2], other)], trials=2_000, seed=1)
    assert not log.exists()

"""A mechanism in another process or language: datasets go out as JSON lines, outputs come back as lines or blocks.

The protocol, version 1: docs/how-to/other-languages.md. Programs are started once, lent to whoever asks, and never left
running: each leads a process group of its own (POSIX only), which a watchdog kills when this process ends. One that
fails, is silent, or computes for an audit that is over, is ended with all that it started, and said in a sentence.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import hashlib
import io
import itertools
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Adjacency, DatasetPair, Pairs, adjacency_of
from epsaudit.data.pairs import list_pairs
from epsaudit.data.records import shorten
from epsaudit.errors import NAMES_AN_ERROR, AuditError, OwnCodeError, cause_of, clipped, seconds_of, with_article
from epsaudit.outputs.arrays import Outputs, normalise_array, pack_frozen, values_of
from epsaudit.outputs.json_form import output_from_json
from epsaudit.running.protocols import Mechanism
from epsaudit.serve import encode_float

SEEDS = 1 << 53  # below which languages whose numbers are doubles read them exactly
LARGEST_BLOCK = 1 << 31  # bytes; a greater number is taken for garbage, not for memory to reserve
LONGEST_LINE = 1 << 24  # bytes without a newline that are taken for garbage
NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # what no line of JSON has
PROMISES = ("seeded", "single")  # what a program may say of itself when it says hello
PLAIN = (int, float, str, bool, type(None))
LAST_WORDS, LAST_LINES, LONGEST_WORD = 300, 3, 40  # quoted: characters and lines of standard error, and of a word
FIRST_WORDS = 1 << 16  # bytes of standard error since the last question, in which the cause of a failure is looked for
PIECE = 1 << 18  # bytes read or written at a time, so that a slow child never blocks the rest; set by hand
IDLE_SECONDS = 30.0  # a child that nobody asks for so long is closed when the next is lent; set by hand
GREETING_SECONDS = 5.0  # of silence after which somebody is told that a program has not said hello; set by hand
GRACE_SECONDS = 0.5  # what a child has to end by itself once it is told to, before it is killed; set by hand
LOOK_SECONDS = 0.25  # between two looks at whether an audit still waits for the answer; set by hand
LAUNCH = """lifeline=$1; shift; trap '' TERM
{ read -r _ < "$lifeline"; kill -KILL 0; } </dev/null >/dev/null 2>&1 &
trap - TERM; exec "$@"
"""
"""A shell that leaves a watchdog in the process group and becomes the program. The watchdog reads a pipe whose other
end this process alone holds: when this process is gone, however it went, the whole group is killed."""
LIFELINES: set[int] = set()  # these other ends; a fork closes its copies, which would keep children alive

Ends = tuple[threading.Event, ...]
"""One for each job of which a part is a job of its own, the outermost first. Nothing in Python stops the threads of a
job's workers, so each part of their work carries an event, set once nobody waits for results any more."""
_ends: ContextVar[Ends] = ContextVar("ends", default=())
ends = _ends.get


@contextmanager
def working_for(ends: Ends) -> Iterator[None]:
    """Let what is called within, in this thread, know for which jobs it works."""
    token = _ends.set(ends)
    try:
        yield
    finally:
        _ends.reset(token)


@dataclass(frozen=True)
class Program:
    """A command line, the folder to run it in, and the seconds of silence after which it is given up."""

    words: tuple[str, ...]
    folder: str | None = None
    timeout: float = 300.0

    def __str__(self) -> str:
        return shlex.join(word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}..." for word in self.words)


class Child:
    """One running process of a program that has said hello; where a method raises `AuditError`, it is dead."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.received = bytearray()
        self.idle_since = 0.0
        self.folder = os.path.abspath(program.folder or "")
        self.files: dict[str, Any] = {}
        first, functions = program.words[0], [word.rpartition(":")[0] for word in program.words if ":" in word]
        self.made_of([shutil.which(first) or first, *program.words, *functions])
        self._unsent = memoryview(b"")
        self._lifeline: int | None = None
        self._words, self._last_words = bytearray(), bytearray()  # of standard error: since the last question, of all
        self._asked = False
        if os.name != "posix":
            raise AuditError("A mechanism in another process needs a POSIX system: Linux, macOS, or WSL on Windows.")
        if not shutil.which(first) and not shutil.which(os.path.join(self.folder, first)):
            raise AuditError(f"The command {program} cannot be started: there is no program {first!r} that may be run.")
        pipe = subprocess.PIPE
        lifeline, self._lifeline = os.pipe()
        LIFELINES.add(self._lifeline)
        try:
            words = ["/bin/sh", "-c", LAUNCH, "epsaudit", f"/dev/fd/{lifeline}", *program.words]
            how: dict[str, Any] = {"cwd": program.folder, "start_new_session": True, "pass_fds": (lifeline,)}
            self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, **how)
        except OSError as error:
            LIFELINES.discard(self._lifeline)
            os.close(self._lifeline)
            raise AuditError(f"The command {program} cannot be started ({error.strerror or error}).") from error
        finally:
            os.close(lifeline)
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._streams = cast(tuple[IO[bytes], IO[bytes], IO[bytes]], streams)  # as they are pipes
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)
        hello = '{"epsaudit": 1, "seeded": true or false}'
        waiting = threading.Timer(GREETING_SECONDS, say_that_it_is_silent, (program, hello))
        waiting.start()
        try:
            (line,) = self.lines(1, lambda line: False)
        finally:
            waiting.cancel()
        match _loaded(line):
            case {"epsaudit": 1, **more} if {type(more.get(name, False)) for name in PROMISES} == {bool}:
                self.seeded, self.single = (bool(more.get(name)) for name in PROMISES)
                self.versions, files = more.get("versions"), more.get("files", [])
                if not isinstance(files, list) or not all(isinstance(path, str) and "\0" not in path for path in files):
                    self.fail(f"says that it is made of {shorten(files)}; its files must be a list of paths")
                self.made_of(files)
            case _:
                self.fail(f"began with {_shown(line)}; it must say {hello} first")

    def outputs(self, dataset: str, size: int, seed: int) -> Outputs:
        """Ask for ``size`` outputs, and read lines or a block; for none it is not asked."""
        if self.received:
            self.fail(f"wrote more than it was asked for: {_shown(bytes(self.received))}")
        if size == 0:  # an answer of no lines could not be told from one to come
            return pack_frozen([])
        self._asked = True
        self._words.clear()  # what it said of earlier questions is not why it fails at this one
        asked = f'{{"dataset": {dataset}, "size": {size}, "seed": {seed}}}\n'.encode()
        self._unsent = memoryview(asked)
        part = "after it {} {:,} of {:,} bytes".format
        self._pump(lambda: not self._unsent, lambda: part("read", len(asked) - len(self._unsent), len(asked)))
        lines = self.lines(size, _speaks)
        if lines and _speaks(lines[-1]):
            said = _loaded(lines[-1])
            if said is None:
                self.fail(f"wrote {_shown(lines[-1])}, which is not JSON")
            if "error" in said:
                self.fail(f"says: {said['error']}")
            if len(lines) > 1:
                self.fail(f"answered {_shown(lines[-1])} after {len(lines) - 1:,} outputs; a block is the whole answer")
            length = said["npy"]
            if type(length) is not int or not 0 < length <= LARGEST_BLOCK:
                self.fail(f"announced a block of {shorten(length)} bytes; it must be a whole number from 1 to 2^31")
            self._pump(lambda: len(self.received) >= length, lambda: part("sent", len(self.received), length))
            block = io.BytesIO(self.received[:length])
            del self.received[:length]
            try:
                outputs: Outputs = np.lib.format.read_array(block, allow_pickle=False)
            except (ValueError, EOFError, OSError) as error:
                self.fail(f"sent a block that is not a .npy file of numbers ({error})")
            if outputs.shape[:1] != (size,) or outputs.dtype.kind not in "biuf":
                sent = f"of shape {outputs.shape} and type {outputs.dtype} for {size} outputs"
                self.fail(f"sent a block {sent}; it must be numbers of shape ({size}, ...)")
            return normalise_array(outputs)
        with contextlib.suppress(ValueError, RecursionError):  # an AuditError is a ValueError
            values = json.loads(b"[" + b",".join(lines) + b"]")  # seven times as fast as line by line
            if len(values) == len(lines):
                return pack_frozen([value if type(value) in PLAIN else output_from_json(value) for value in values])
        for number, line in enumerate(lines, 1):
            try:
                output_from_json(json.loads(line))
            except (ValueError, RecursionError):
                self.fail(f"wrote {_shown(line)} as output {number:,} of {size:,}, which is no output in JSON")
        raise AssertionError  # as one of them was none

    def lines(self, number: int, speaks: Callable[[bytes], bool]) -> list[bytes]:
        """Read ``number`` lines, without newlines; fewer if one ``speaks`` of the answer: the rest may be no lines."""
        found: list[bytes] = []

        def enough() -> bool:
            if found and speaks(found[-1]):  # asked once more, at the time limit
                return True
            *lines, rest = bytes(self.received).split(b"\n", number - len(found))
            spoken = next((place for place, line in enumerate(lines, 1) if speaks(line)), 0)
            if spoken:
                lines, rest = lines[:spoken], b"\n".join([*lines[spoken:], rest])
            found.extend(lines)
            self.received[:] = rest
            done = bool(spoken) or len(found) == number
            if garbage := NO_TEXT.search(b"\n".join(lines if done else [*lines, rest])):
                self.fail(f"wrote {garbage.string[:40]!r}, which is no line of text")
            if len(rest) > LONGEST_LINE and not done:
                self.fail(f"wrote {len(rest):,} bytes without a newline, beginning {rest[:40]!r}")
            return done

        def so_far() -> str:
            asked = f"after it answered {len(found):,} of {number:,} lines"
            return asked if self._asked else "before it was asked anything"

        self._pump(enough, so_far)
        return found

    def fail(self, what: str) -> NoReturn:
        """End the process and raise a sentence that says what it did, and its last words."""
        self.close()
        cause = cause_of(self._words.decode("utf-8", "replace"))
        lines = [line.strip() for line in self._last_words.decode("utf-8", "replace").splitlines()]
        words = " | ".join([line for line in lines if line.strip("^~ ")][-LAST_LINES:])  # without a traceback's marks
        words = words[-LAST_WORDS:]
        said = f" Its standard error ends: {words!r}." if words else ""
        if cause not in words and NAMES_AN_ERROR.match(cause):
            said = f" Its standard error says: {clipped(cause, LAST_WORDS)!r}, and ends: {words!r}."
        raise OwnCodeError(f"The command {self.program} {what}.{said}")

    def _hear(self, more: bytes) -> None:
        """Keep the beginning of its standard error since the last question, and the end of all of it."""
        self._words += more[: FIRST_WORDS - len(self._words)]
        self._last_words = (self._last_words + more)[-4 * LAST_WORDS :]

    def close(self) -> None:
        """Tell the process and its group to end, and kill them after `GRACE_SECONDS`, or if Ctrl-C cuts these short."""
        if self._lifeline is None:
            return
        lifeline, self._lifeline = self._lifeline, None
        gone = contextlib.suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired)
        try:
            with gone:
                os.killpg(self._process.pid, signal.SIGTERM)
                self._process.wait(GRACE_SECONDS)
        finally:
            with gone:
                os.killpg(self._process.pid, signal.SIGKILL)
            LIFELINES.discard(lifeline)
            os.close(lifeline)
            self._process.wait()
            with contextlib.suppress(OSError, ValueError):
                while more := os.read(self._streams[2].fileno(), PIECE):
                    self._hear(more)
            for stream in self._streams:
                with contextlib.suppress(OSError):
                    stream.close()

    def made_of(self, paths: Iterable[str]) -> None:
        """Remember what is a file of these paths, from the program's folder, and that it is as it is now."""
        for path in paths:
            place = os.path.join(self.folder, path)
            if os.path.isfile(place):
                self.files[place] = _state(place)

    @property
    def usable(self) -> bool:
        """Whether it is alive, and is what would be started now: in this folder, of files that are as they were."""
        here = self._process.poll() is None and self.folder == os.path.abspath(self.program.folder or "")
        return here and all(_state(path) == state for path, state in self.files.items())

    def _pump(self, done: Callable[[], bool], so_far: Callable[[], str]) -> None:
        """Move bytes both ways until ``done``; silence on standard output and input for the time limit is the end."""
        if done():
            return
        stdin, stdout, stderr = self._streams
        deadline, look = time.monotonic() + self.program.timeout, 0.0
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            ready.register(stderr, selectors.EVENT_READ)
            if self._unsent:
                ready.register(stdin, selectors.EVENT_WRITE)
            over = False
            while not done():
                if (now := time.monotonic()) >= look:
                    look = now + LOOK_SECONDS
                    if any(end.is_set() for end in ends()):
                        self.fail(f"was ended {so_far()}, as the audit was over")
                for key, _ in ready.select(max(min(deadline, look) - now, 0.0)):
                    if key.fileobj is stdin:
                        try:
                            self._unsent = self._unsent[os.write(key.fd, self._unsent[:PIECE]) :]
                        except BrokenPipeError:
                            over = True
                    elif not (more := os.read(key.fd, PIECE)):
                        ready.unregister(key.fileobj)
                        over |= key.fileobj is stdout
                    elif key.fileobj is stderr:
                        self._hear(more)
                        continue
                    else:
                        self.received += more
                    deadline = time.monotonic() + self.program.timeout
                if over and not done():
                    how = "closed its standard input or output"
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        status = self._process.wait(timeout=1.0)
                        how = f"ended with exit status {status}"
                        if status < 0:
                            how = f"was killed by {signal.Signals(-status).name}"
                    self.fail(f"{how} {so_far()}")
                if time.monotonic() >= deadline and not done():
                    silent = f"was silent for {self.program.timeout:g} seconds {so_far()}"
                    self.fail(f"{silent}; raise the time limit if it is only slow")


SAID_TO_BE_SILENT: set[Program] = set()  # each is said once: many processes of a program may start slowly


def say_that_it_is_silent(program: Program, hello: str) -> None:
    """Tell whoever waits that a program has not said hello yet, unless that was said of the same program before."""
    if program in SAID_TO_BE_SILENT:
        return
    SAID_TO_BE_SILENT.add(program)
    until = f"must say {hello} first (slow imports delay it), and is given up after {program.timeout:g} seconds"
    sys.stderr.write(f"epsaudit: The command {program} has said nothing yet; it {until}.\n")


def _state(path: str) -> tuple[int, ...] | None:
    """Which file it is, its size, and when it was last written or moved; None for none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Pool:
    """Idle children of this process, all closed at exit; one whose files have changed since is another program."""

    def __init__(self) -> None:
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        self._lock, self._idle = threading.Lock(), list[Child]()

    @contextmanager
    def borrow(self, program: Program) -> Iterator[Child]:
        """Lend an idle child, or a new one; it comes back unless an exception passes."""
        self.close(IDLE_SECONDS)
        child = None
        while child is None:
            with self._lock:
                child = next((one for one in reversed(self._idle) if one.program == program), None)
                if child is not None:
                    self._idle.remove(child)
            if child is None:
                child = Child(program)
            elif not child.usable:
                child.close()
                child = None
        try:
            yield child
        except BaseException:
            child.close()
            raise
        child.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(child)

    def close(self, idle_for: float = 0.0) -> None:
        """Close the children that have been idle for so many seconds."""
        before = time.monotonic() - idle_for
        with self._lock:
            old = [child for child in self._idle if child.idle_since <= before]
            self._idle = [child for child in self._idle if child.idle_since > before]
        for child in old:
            child.close()

    def _forget(self) -> None:
        """After a fork: the children belong to the parent, and must not outlive it."""
        for lifeline in LIFELINES:
            with contextlib.suppress(OSError):
                os.close(lifeline)
        LIFELINES.clear()
        self._lock, self._idle = threading.Lock(), []


CHILDREN = Pool()


def command(
    words: Sequence[str] | str,
    *,
    claim: Claim | None = None,
    adjacency: Adjacency | None = None,
    pairs: Pairs = (),
    name: str | None = None,
    timeout: float = 300.0,
    folder: str | os.PathLike[str] | None = None,
    fresh: bool = False,
) -> CommandMechanism:
    """Make a mechanism of a program that speaks the protocol of this module.

    Parameters
    ----------
    words : sequence of str, or str
        The program and its arguments; a string is split as a POSIX shell would, but no shell runs it. `AuditError` is
        raised for none, or a quotation that is not closed. Only an audit starts it.
    claim, adjacency, pairs, name : optional
        As for `epsaudit.black_box`. Datasets must be what JSON holds; tuples, sets and arrays are lists there.
    timeout : float
        Seconds of silence, above 0, after which the program is given up.
    folder : path, optional
        Where to run it; by default the current folder.
    fresh : bool
        Whether it is started anew for every run, in tens of milliseconds, so that nothing is kept.

    Examples
    --------
    >>> command("Rscript --vanilla count.R 3", timeout=60.0).name
    'count.R'
    """
    try:
        parts = tuple(shlex.split(words) if isinstance(words, str) else map(str, words))
    except ValueError as error:
        raise AuditError(f"The command {words!r} cannot be split into words ({error}); mind its quotation.") from None
    if not parts:
        raise AuditError("The command is empty; give a program and its arguments.")
    timeout = seconds_of(timeout, "timeout")
    files = [word for word in parts[1:] if not word.startswith("-") and "." in Path(word).name and "\n" not in word]
    program = Program(parts, None if folder is None else os.fspath(folder), float(timeout))
    relation = adjacency_of(adjacency)
    name, law = name or Path([*files, parts[0]][0]).name, _Restarted if fresh else CommandDistribution
    return CommandMechanism(program, name, claim, relation, tuple(list_pairs(pairs, relation)), law=law, fresh=fresh)


@dataclass(frozen=True)
class CommandDistribution:
    """The law of a program's outputs on one dataset, which is kept as JSON text."""

    program: Program
    dataset: str
    child: Child | None = field(default=None, compare=False, repr=False)
    random_call_order: bool = (
        True  # whether who is asked first is tossed, as outputs of a request may depend on one another
    )

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Ask its child, or an idle one of this process, for ``size`` outputs with a seed drawn from ``rng``."""
        seed = int(rng.integers(SEEDS))
        with nullcontext(self.child) if self.child is not None else CHILDREN.borrow(self.program) as child:
            return child.outputs(self.dataset, size, seed)


@dataclass(frozen=True)
class CommandMechanism:
    """A mechanism made of a program; see `command`, which builds it."""

    program: Program
    name: str
    claim: Claim | None
    adjacency: Adjacency | None
    pairs: tuple[DatasetPair, ...]
    trusted: bool = field(default=False, repr=False)  # outputs count as independent; it need not be reproduced
    law: type[CommandDistribution] = field(default=CommandDistribution, repr=False)
    fresh: bool = field(default=False, repr=False)  # whether it is started anew for every run
    restarts: bool = field(default=True, repr=False)  # whether processes started anew check a refutation
    releases_the_interpreter = True
    wants_many_calls = True

    @property
    def reproducible(self) -> bool:
        """Whether the program promises that its outputs depend on the seeds it is sent alone."""
        if self.trusted:
            return False
        with CHILDREN.borrow(self.program) as child:
            return child.seeded

    @property
    def fingerprint(self) -> dict[str, str]:
        """The program's words, versions, and a digest of each of its files: what a checkpoint remembers of it."""
        found = {"the program": " ".join(self.program.words)}
        with CHILDREN.borrow(self.program) as child:
            versions: Any = child.versions or {}
            for name, version in versions.items():
                found[f"the program's version of {name}"] = str(version)
            for path in child.files:
                content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                found[f"the code of {os.path.relpath(path, child.folder)}"] = content[:16]
        return found

    def __call__(self, dataset: Any) -> CommandDistribution:
        """Write the dataset as JSON, and start the program once to see that it says hello."""
        text = json.dumps(dataset_to_json(dataset))
        with CHILDREN.borrow(self.program):
            return self.law(self.program, text, random_call_order=self.law is CommandDistribution and not self.trusted)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return the pairs given when the program was wrapped."""
        return self.pairs


@contextmanager
def in_a_new_process(*laws: CommandDistribution) -> Iterator[list[CommandDistribution]]:
    """Yield output laws of one program that ask a child of their own, which is started for this and ended after it."""
    with contextlib.closing(Child(laws[0].program)) as child:
        yield [dataclasses.replace(law, child=child) for law in laws]


def quickly(mechanism: Mechanism) -> Mechanism:
    """Return a mechanism for tests that certify nothing: a program's outputs are taken to be independent."""
    if not isinstance(mechanism, CommandMechanism) or mechanism.fresh:
        return mechanism
    return dataclasses.replace(mechanism, trusted=True, law=CommandDistribution)


def in_turns(mechanism: Mechanism) -> Mechanism:
    """Let runs take turns, of a program that says that each is a call of its own: 512 runs look for more, not 4,096."""
    if not isinstance(mechanism, CommandMechanism) or mechanism.fresh:
        return mechanism
    with CHILDREN.borrow(mechanism.program) as child:
        return dataclasses.replace(mechanism, law=_InTurns) if child.single else mechanism


class _Restarted(CommandDistribution):
    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        def one(seed: int) -> Any:
            with contextlib.closing(Child(self.program)) as child:
                return values_of(child.outputs(self.dataset, 1, seed))[0]

        seeds = [int(seed) for seed in rng.integers(SEEDS, size=size)]
        contexts = [copy_context() for _ in seeds]  # so that they end with the audit
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return pack_frozen(list(pool.map(lambda context, seed: context.run(one, seed), contexts, seeds)))


class _InTurns(CommandDistribution):
    def sample_interleaved(
        self, other: _InTurns, side: NDArray[np.int8], rng: np.random.Generator
    ) -> tuple[list[Any], list[Any]]:
        """See `epsaudit.running.protocols.OutputDistribution`: coins alike that follow one another are one request."""
        values: tuple[list[Any], list[Any]] = ([], [])
        for which, coins in itertools.groupby(side.tolist()):
            values[which].extend(values_of((self, other)[which].sample(len(list(coins)), rng)))
        return values


def dataset_to_json(dataset: Any) -> Any:
    """Return a dataset as a JSON value: arrays, tuples and sets as lists, numbers that are not finite as objects."""
    if isinstance(dataset, (np.generic, np.ndarray)):
        dataset = dataset.tolist()
    if isinstance(dataset, float):
        return encode_float(dataset)
    if dataset is None or isinstance(dataset, (str, bool, int)):
        return dataset
    if isinstance(dataset, (list, tuple, Set)):
        return [dataset_to_json(part) for part in (sorted(dataset, key=repr) if isinstance(dataset, Set) else dataset)]
    if isinstance(dataset, Mapping) and all(isinstance(key, str) for key in dataset):
        return {key: dataset_to_json(part) for key, part in dataset.items()}
    raise AuditError(
        f"The dataset holds {shorten(dataset)}, {with_article(type(dataset).__name__)}, which JSON cannot write; a "
        "command takes numbers, strings, None, lists, tuples, sets, arrays, and mappings whose keys are strings."
    )


def with_tuples(data: Any) -> Any:
    """Return JSON with arrays as tuples, so that a dataset prints and compares as datasets do."""
    return tuple(map(with_tuples, data)) if isinstance(data, list) else data


def _speaks(line: bytes) -> bool:
    """Whether a line is about the answer instead of an output: a block announced, or an error."""
    return line.startswith((b'{"npy"', b'{"error"', b'{ "npy"', b'{ "error"'))


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _shown(line: bytes) -> str:
    return shorten(line.decode("utf-8", "backslashreplace"), 60)

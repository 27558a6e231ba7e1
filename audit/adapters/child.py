"""Child processes that answer requests over pipes: started once, and never left running.

POSIX only: each leads a process group of its own, which a watchdog kills when this process ends, for whatever reason.
One that computes for an audit that has ended is ended, too: nothing in Python stops the threads of its workers, so each
part of their work carries an event, set once nobody waits for results any more.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, Any, NoReturn, cast

from epsaudit.errors import AuditError, OwnCodeError

Ends = tuple[threading.Event, ...]
"""One for each job of which a part is a job of its own, the outermost first."""
_ends: ContextVar[Ends] = ContextVar("ends", default=())
ends = _ends.get
"""Returns the events of the jobs that the calling thread works for."""

PIECE = 1 << 18
"""Bytes read or written at a time, so that a slow child never blocks the rest. Set by hand, not measured."""
LONGEST_LINE = 1 << 24
"""Bytes without a newline that are taken for garbage."""
NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that no line of JSON has."""
LAST_WORDS, LAST_LINES = 300, 3
"""Characters and lines of standard error that a sentence quotes."""
LONGEST_WORD = 40
"""Characters of a word of the command line that a sentence quotes."""
IDLE_SECONDS = 30.0
"""A child that nobody asks for so long is closed; the next question starts another."""
GRACE_SECONDS = 0.5
"""What a child has to end by itself once it is told to, before it is killed. Set by hand, not measured."""
LOOK_SECONDS = 0.25
"""Between two looks at whether an audit still waits for the answer. Set by hand, not measured."""
LAUNCH = """lifeline=$1; shift; trap '' TERM
{ read -r _ < "$lifeline"; kill -KILL 0; } </dev/null >/dev/null 2>&1 &
trap - TERM; exec "$@"
"""
"""A shell that leaves a watchdog in the process group and becomes the program. The watchdog reads a pipe whose other
end this process alone holds: when this process is gone, however it went, the whole group is killed. It stays when the
group is told to end, for the program may not."""
LIFELINES: set[int] = set()
"""These other ends; a fork closes its copies, which would keep children alive."""


@contextmanager
def working_for(ends: Ends) -> Iterator[None]:
    """Let what is called within, in this thread, know for which jobs it works."""
    token = _ends.set(ends)
    try:
        yield
    finally:
        _ends.reset(token)


def is_over() -> bool:
    """Whether nobody waits any more for what the calling thread does; never where no workers run in it."""
    return any(end.is_set() for end in ends())


@dataclass(frozen=True)
class Program:
    """A command line, the folder to run it in, and the seconds of silence after which it is given up."""

    words: tuple[str, ...]
    folder: str | None = None
    timeout: float = 300.0

    def files(self) -> Iterator[str]:
        """Yield the paths of the words that are files, or FILE:FUNCTION; the first is found as a shell would."""
        yield shutil.which(self.words[0]) or self.words[0]
        yield from self.words
        yield from (word.rpartition(":")[0] for word in self.words if ":" in word)

    def __str__(self) -> str:
        return shlex.join(word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}..." for word in self.words)


class Child:
    """One running process of a program.

    Every method raises `AuditError` if the process cannot be started, ends, or is silent for too long. It is dead then,
    with everything that it started in its process group.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.received = bytearray()
        self.idle_since = 0.0
        self.folder = os.path.abspath(program.folder or "")
        self.files: dict[str, Any] = {}
        self.made_of(program.files())
        self._unsent = memoryview(b"")
        self._lifeline: int | None = None
        self._words = bytearray()
        if os.name != "posix":
            raise AuditError("A mechanism in another process needs a POSIX system: Linux, macOS, or WSL on Windows.")
        first = program.words[0]
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
            self._let_go(self._lifeline)
            raise AuditError(f"The command {program} cannot be started ({error.strerror or error}).") from error
        finally:
            os.close(lifeline)
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._streams = cast(tuple[IO[bytes], IO[bytes], IO[bytes]], streams)  # as they are pipes
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)

    def send(self, data: bytes) -> None:
        """Write all of ``data`` to standard input."""
        self._unsent = memoryview(data)
        so_far = "read {:,} of {:,} bytes".format
        self._pump(lambda: not self._unsent, lambda: so_far(len(data) - len(self._unsent), len(data)))

    def lines(self, number: int, speaks: Callable[[bytes], bool]) -> list[bytes]:
        """Read ``number`` lines, without newlines; fewer if the first, or one after it, ``speaks`` of the answer."""
        seen = scanned = 0
        decoder = codecs.getincrementaldecoder("utf-8")()

        def enough() -> bool:
            nonlocal seen, scanned
            fresh = bytes(self.received[scanned:])
            seen, scanned = seen + fresh.count(b"\n"), len(self.received)
            if seen and speaks(bytes(self.received[: self.received.index(b"\n")])):
                seen = 1  # what follows need not be lines
                return True
            try:
                is_text = not NO_TEXT.search(decoder.decode(fresh))
            except UnicodeDecodeError:
                is_text = False
            if not is_text:
                self.fail(f"wrote {fresh[:40]!r}, which is no line of text")
            if not seen and scanned > LONGEST_LINE:
                self.fail(f"wrote {scanned:,} bytes without a newline, beginning {bytes(self.received[:40])!r}")
            end = max(self.received.rfind(b"\n"), 0)
            return seen >= number or speaks(bytes(self.received[self.received.rfind(b"\n", 0, end) + 1 : end]))

        self._pump(enough, lambda: f"answered {seen:,} of {number:,} lines")
        found = bytes(self.received).split(b"\n", min(seen, number))
        self.received[:] = found.pop()
        return found

    def first_byte(self) -> bytes:
        """Wait for an answer and return its first byte, which stays to be read."""
        self._pump(lambda: bool(self.received), lambda: "answered nothing")
        return bytes(self.received[:1])

    def block(self, size: int) -> bytearray:
        """Read ``size`` bytes."""
        self._pump(lambda: len(self.received) >= size, lambda: f"sent {len(self.received):,} of {size:,} bytes")
        found, self.received = self.received, self.received[size:]
        del found[size:]
        return found

    def fail(self, what: str) -> NoReturn:
        """End the process and raise a sentence that says what it did, and its last words."""
        self.close()
        lines = [line.strip() for line in self._words.decode("utf-8", "replace").splitlines()]
        words = " | ".join([line for line in lines if line.strip("^~ ")][-LAST_LINES:])  # without a traceback's marks
        said = f" Its standard error ends: {words[-LAST_WORDS:]!r}." if words else ""
        raise OwnCodeError(f"The command {self.program} {what}.{said}")

    def close(self) -> None:
        """End the process, whatever it started in its group, and its watchdog; once is enough.

        They are told to end, and killed if the process has not after `GRACE_SECONDS`, or if Ctrl-C cuts these short.
        """
        if self._lifeline is None:
            return
        lifeline, self._lifeline = self._lifeline, None
        try:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        finally:
            self._signal(signal.SIGKILL)
            self._let_go(lifeline)
            self._process.wait()
            with contextlib.suppress(OSError, ValueError):
                while more := os.read(self._streams[2].fileno(), PIECE):
                    self._words += more
            for stream in self._streams:
                with contextlib.suppress(OSError):
                    stream.close()

    def _signal(self, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, how)

    @staticmethod
    def _let_go(lifeline: int) -> None:
        LIFELINES.discard(lifeline)
        os.close(lifeline)

    @property
    def process_id(self) -> int:
        """Of the process, and of the group that it leads."""
        return self._process.pid

    def made_of(self, paths: Iterable[str]) -> None:
        """Remember what is a file of these paths, from the program's folder, and that it is as it is now."""
        for path in paths:
            place = os.path.join(self.folder, path)
            if os.path.isfile(place):
                self.files[place] = _state(place)

    @property
    def changed(self) -> bool:
        """Whether a file that it was made of is another one now, or the folder where it would be started."""
        elsewhere = self.folder != os.path.abspath(self.program.folder or "")
        return elsewhere or any(_state(path) != state for path, state in self.files.items())

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

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
            while not done():
                if (now := time.monotonic()) >= look:
                    look = now + LOOK_SECONDS
                    if is_over():
                        self.fail(f"was ended after it {so_far()}, as the audit that had asked was over")
                for key, _ in ready.select(max(min(deadline, look) - now, 0.0)):
                    more = b"" if key.fileobj is stdin else os.read(key.fd, PIECE)
                    if key.fileobj is stderr:
                        self._words = (self._words + more)[-4 * LAST_WORDS :]
                        if not more:
                            ready.unregister(stderr)
                        continue
                    deadline = time.monotonic() + self.program.timeout
                    if key.fileobj is stdin:
                        self._write(stdin, so_far)
                    elif not more:
                        self._ended(so_far)
                    self.received += more
                if time.monotonic() >= deadline and not done():
                    silent = f"was silent for {self.program.timeout:g} seconds after it {so_far()}"
                    self.fail(f"{silent}; raise the time limit if it is only slow")

    def _write(self, stdin: IO[bytes], so_far: Callable[[], str]) -> None:
        try:
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[os.write(stdin.fileno(), self._unsent[:PIECE]) :]
        except BrokenPipeError:
            self._ended(so_far)

    def _ended(self, so_far: Callable[[], str]) -> NoReturn:
        """Say how the process came to its end, and when."""
        try:
            status = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self.fail(f"closed its standard input or output after it {so_far()}")
        how = f"ended with exit status {status}" if status >= 0 else f"was killed by {signal.Signals(-status).name}"
        self.fail(f"{how} after it {so_far()}")


def _state(path: str) -> tuple[int, ...] | None:
    """Which file it is, its size, and when it was last written or moved; None for none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Pool:
    """Idle children of this process by program; those idle for long, and all at exit, are closed.

    One whose files changed since it was started is closed, too, and another lent: it is another program.
    """

    def __init__(self, start: Callable[[Program], Any]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._idle: dict[Program, list[Any]] = {}
        self._reaping = False
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @contextmanager
    def borrow(self, program: Program) -> Iterator[Any]:
        """Lend an idle child, or a new one; it comes back unless an exception passes."""
        while True:
            with self._lock:
                child = idle.pop() if (idle := self._idle.get(program)) else None
            if child is None or (child.alive and not child.changed):
                break
            child.close()
        child = child or self._start(program)
        try:
            yield child
        except BaseException:
            child.close()
            raise
        child.idle_since = time.monotonic()
        with self._lock:
            self._idle.setdefault(program, []).append(child)
            if not self._reaping:
                self._reaping = True
                threading.Thread(target=self._reap, daemon=True, name="epsaudit-reaper").start()

    def close(self, idle_for: float = 0.0) -> None:
        """Close the children that have been idle for so many seconds."""
        before = time.monotonic() - idle_for
        with self._lock:
            old = [(kept, child) for kept in self._idle.values() for child in kept if child.idle_since <= before]
            for kept, child in old:
                kept.remove(child)
        for _, child in old:
            child.close()

    def _reap(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS / 2)
            self.close(IDLE_SECONDS)
            with self._lock:
                if not any(self._idle.values()):
                    self._reaping = False
                    return

    def _forget(self) -> None:
        """After a fork: the children belong to the parent, and must not outlive it."""
        for lifeline in LIFELINES:
            with contextlib.suppress(OSError):
                os.close(lifeline)
        LIFELINES.clear()
        self._lock, self._idle, self._reaping = threading.Lock(), {}, False

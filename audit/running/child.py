"""A process of a program in any language: requests go out as JSON lines, outputs come back as lines or blocks.

The protocol, version 1: docs/how-to/other-languages.md. Each process leads a process group of its own (POSIX only),
which a watchdog kills when this process ends. A process that fails, is silent, or computes for an audit that is over,
is ended with all that it started.
"""

from __future__ import annotations

import contextlib
import io
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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any, NoReturn, cast

import numpy as np

from epsaudit import serve
from epsaudit.data.records import shorten
from epsaudit.errors import NAMES_AN_ERROR, AuditError, OwnCodeError, cause_of, clipped
from epsaudit.outputs.arrays import Outputs, normalise_array, pack_frozen
from epsaudit.outputs.json_form import output_from_json
from epsaudit.running.cancelling import ends

MAX_BLOCK_BYTES = 1 << 31
"""[chosen] Maximum size of a block of numbers. A larger announced size is refused before memory is reserved."""
MAX_LINE_BYTES = 1 << 24
"""[chosen] Maximum number of bytes without a newline. Longer lines are refused as garbage."""
NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Matches bytes that occur in no line of JSON."""
PROMISES = ("seeded", "single")
"""Promises that a program may make in its greeting: its outputs depend only on the requests and their seeds; every run
is a separate call."""
JSON_SCALARS = (int, float, str, bool, type(None))
"""Types of JSON values that are outputs in normal form already."""
LAST_WORDS, LAST_LINES, MAX_WORD = 300, 3, 40
"""[chosen] What an error message quotes at most: characters and lines of standard error, and characters of each word of
the command line."""
FIRST_WORDS = 1 << 16
"""[chosen] Number of bytes of standard error since the last request that are searched for the cause of a failure."""
PIECE_BYTES = 1 << 18
"""[chosen] Number of bytes that are read or written at a time, so that a slow process never blocks other processes."""
GREETING_SECONDS = 5.0
"""[chosen] Seconds after which the user is told that a program has not sent its first line yet."""
GRACE_SECONDS = 0.5
"""[chosen] Seconds that a process has to end by itself before it is killed."""
CHECK_SECONDS = 0.25
"""[chosen] Seconds between two checks of whether an audit still waits for the answer."""
LAUNCH = """lifeline=$1; shift; trap '' TERM
{ read -r _ < "$lifeline"; kill -KILL 0; } </dev/null >/dev/null 2>&1 &
trap - TERM; exec "$@"
"""
"""A shell script that leaves a watchdog in the process group and becomes the program. The watchdog reads a pipe
whose other end only this process holds: when this process is gone, however it ended, the whole group is killed."""
LIFELINES: set[int] = set()
"""The ends of these pipes that this process holds. A forked child closes its copies of them, which would otherwise keep
the programs alive."""


@dataclass(frozen=True)
class Program:
    """A program: its command line, its working folder, and the seconds of silence after which a process is given up."""

    words: tuple[str, ...]
    folder: str | None = None
    timeout: float = 300.0

    def __str__(self) -> str:
        return shlex.join(word if len(word) <= MAX_WORD else f"{word[:MAX_WORD]}..." for word in self.words)


class Child:
    """A running process of a program.

    The constructor starts the process and reads its greeting, the first line that the protocol requires. If a method
    raises `AuditError`, the process has been ended.
    """

    answered = 0
    """Number of lines that all processes together have answered, for the display of progress."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.received = bytearray()
        self.idle_since = 0.0
        self.folder = os.path.abspath(program.folder or "")
        self.files: dict[str, Any] = {}
        first, functions = program.words[0], [word.rpartition(":")[0] for word in program.words if ":" in word]
        self.watch_files([shutil.which(first) or first, *program.words, *functions])
        self._unsent = memoryview(b"")
        self._lifeline: int | None = None
        self._words, self._last_words = (
            bytearray(),
            bytearray(),
        )  # of standard error: since the last request, and at its end
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
        self._streams = cast(tuple[IO[bytes], IO[bytes], IO[bytes]], streams)  # because they are pipes
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)
        hello = '{"epsaudit": 1, "seeded": true or false}'
        waiting = threading.Timer(GREETING_SECONDS, report_silence, (program, hello))
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
                self.watch_files(files)
            case _:
                self.fail(f"began with {_shorten_line(line)}; it must say {hello} first")

    def outputs(self, dataset: str, size: int, seed: int) -> Outputs:
        """Request ``size`` outputs with a seed, and read them from lines of JSON or from one .npy block.

        A request for no outputs is not sent. Raises `AuditError` if the answer breaks the protocol.
        """
        if self.received:
            self.fail(f"wrote more than it was asked for: {_shorten_line(bytes(self.received))}")
        if size == 0:  # an empty answer could not be recognised
            return pack_frozen([])
        self._asked = True
        self._words.clear()  # errors of earlier requests do not explain a failure of this one
        asked = f'{{"dataset": {dataset}, "size": {size}, "seed": {seed}}}\n'.encode()
        self._unsent = memoryview(asked)
        part = "after it {} {:,} of {:,} bytes".format
        self._pump(lambda: not self._unsent, lambda: part("read", len(asked) - len(self._unsent), len(asked)))
        lines = self.lines(size, _speaks)
        if lines and _speaks(lines[-1]):
            said = _loaded(lines[-1])
            if said is None:
                self.fail(f"wrote {_shorten_line(lines[-1])}, which is not JSON")
            if "error" in said:
                self.fail(f"says: {said['error']}")
            if len(lines) > 1:
                self.fail(
                    f"answered {_shorten_line(lines[-1])} after {len(lines) - 1:,} outputs; a block is the whole answer"
                )
            length = said["npy"]
            if type(length) is not int or not 0 < length <= MAX_BLOCK_BYTES:
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
        with contextlib.suppress(ValueError, RecursionError):  # AuditError is a subclass of ValueError
            values = json.loads(b"[" + b",".join(lines) + b"]")  # seven times as fast as parsing line by line
            if len(values) == len(lines):
                return pack_frozen(
                    [value if type(value) in JSON_SCALARS else output_from_json(value) for value in values]
                )
        for number, line in enumerate(lines, 1):
            try:
                output_from_json(json.loads(line))
            except (ValueError, RecursionError):
                self.fail(f"wrote {_shorten_line(line)} as output {number:,} of {size:,}, which is no output in JSON")
        raise AssertionError  # one of the lines was no JSON, so the loop has raised

    def lines(self, number: int, speaks: Callable[[bytes], bool]) -> list[bytes]:
        """Read ``number`` lines from the program and return them without newlines.

        Reading stops early after a line for which ``speaks`` returns true. This line announces an error or a block of
        numbers, and a block does not consist of lines.
        """
        found: list[bytes] = []

        def enough() -> bool:
            if found and speaks(found[-1]):  # this function is called once more at the time limit
                return True
            *lines, rest = bytes(self.received).split(b"\n", number - len(found))
            spoken = next((place for place, line in enumerate(lines, 1) if speaks(line)), 0)
            if spoken:
                lines, rest = lines[:spoken], b"\n".join([*lines[spoken:], rest])
            found.extend(lines)
            Child.answered += len(lines) - bool(spoken)
            self.received[:] = rest
            done = bool(spoken) or len(found) == number
            if garbage := NO_TEXT.search(b"\n".join(lines if done else [*lines, rest])):
                self.fail(f"wrote {garbage.string[:40]!r}, which is no line of text")
            if len(rest) > MAX_LINE_BYTES and not done:
                self.fail(f"wrote {len(rest):,} bytes without a newline, beginning {rest[:40]!r}")
            return done

        def so_far() -> str:
            asked = f"after it answered {len(found):,} of {number:,} lines"
            return asked if self._asked else "before it was asked anything"

        self._pump(enough, so_far)
        return found

    def fail(self, what: str) -> NoReturn:
        """End the process and raise `AuditError`.

        The message says what the process did, in the words ``what``, and quotes the end of its standard error.
        """
        self.close()
        if not self._asked and (why := self._refused_by_serve()):
            raise AuditError(why)
        cause = cause_of(self._words.decode("utf-8", "replace"))
        lines = [line.strip() for line in self._last_words.decode("utf-8", "replace").splitlines()]
        words = " | ".join(
            [line for line in lines if line.strip("^~ ")][-LAST_LINES:]
        )  # without the marks of a traceback
        words = words[-LAST_WORDS:]
        said = f" Its standard error ends: {words!r}." if words else ""
        if cause not in words and NAMES_AN_ERROR.match(cause):
            said = f" Its standard error says: {clipped(cause, LAST_WORDS)!r}, and ends: {words!r}."
        raise OwnCodeError(f"The command {self.program} {what}.{said}")

    def _refused_by_serve(self) -> str:
        """Return the message of `epsaudit.serve` that it cannot find the function to serve, or ''.

        It is '' if the program is not `epsaudit.serve`, or if its standard error does not consist of exactly one line.
        """
        words, lines = self.program.words, self._words.decode("utf-8", "replace").splitlines()
        if serve.__file__ not in words[:-1] or len(lines) != 1:
            return ""
        return f"{words[words.index(serve.__file__) + 1]!r} cannot be served. {lines[0]}"

    def _hear(self, more: bytes) -> None:
        """Store bytes that the process wrote to standard error, for a later error message.

        Two parts are kept: the beginning of what was written since the last request, and the end of everything.
        """
        self._words += more[: FIRST_WORDS - len(self._words)]
        self._last_words = (self._last_words + more)[-4 * LAST_WORDS :]

    def close(self) -> None:
        """End the process and its process group.

        They are first asked to end, and killed after `GRACE_SECONDS`, or at once after Ctrl-C.
        """
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
                while more := os.read(self._streams[2].fileno(), PIECE_BYTES):
                    self._hear(more)
            for stream in self._streams:
                with contextlib.suppress(OSError):
                    stream.close()

    def watch_files(self, paths: Iterable[str]) -> None:
        """Record the modification state of every path that is a file, relative to the program's folder."""
        for path in paths:
            place = os.path.join(self.folder, path)
            if os.path.isfile(place):
                self.files[place] = _state(place)

    @property
    def usable(self) -> bool:
        """Whether the process is alive, its working folder is still the right one, and no recorded file has changed.

        Otherwise a new process might behave differently, so that this one must not be used any more.
        """
        here = self._process.poll() is None and self.folder == os.path.abspath(self.program.folder or "")
        return here and all(_state(path) == state for path, state in self.files.items())

    def _pump(self, done: Callable[[], bool], so_far: Callable[[], str]) -> None:
        """Write the request and read the answer until ``done`` returns true.

        Raises `AuditError` if the process ends, if it is silent for longer than its time limit, or if the audit is
        over. ``so_far`` returns the progress of the answer as text for the error message.
        """
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
                    look = now + CHECK_SECONDS
                    if any(end.is_set() for end in ends()):
                        self.fail(f"was ended {so_far()}, as the audit was over")
                for key, _ in ready.select(max(min(deadline, look) - now, 0.0)):
                    if key.fileobj is stdin:
                        try:
                            self._unsent = self._unsent[os.write(key.fd, self._unsent[:PIECE_BYTES]) :]
                        except BrokenPipeError:
                            over = True
                    elif not (more := os.read(key.fd, PIECE_BYTES)):
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


SAID_TO_BE_SILENT: set[Program] = set()
"""Programs whose slow start was reported already. Many processes of one program may start slowly."""


def report_silence(program: Program, hello: str) -> None:
    """Tell the user on standard error that a program has not sent its greeting yet, once for each program.

    ``hello`` is the greeting, the first line that the protocol requires.
    """
    if program in SAID_TO_BE_SILENT:
        return
    SAID_TO_BE_SILENT.add(program)
    until = f"must say {hello} first (slow imports delay it), and is given up after {program.timeout:g} seconds"
    sys.stderr.write(f"epsaudit: The command {program} has said nothing yet; it {until}.\n")


def _state(path: str) -> tuple[int, ...] | None:
    """Return the identity, the size and the modification times of a file, None if there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _speaks(line: bytes) -> bool:
    """Return whether a line of an answer is not an output, but announces an error or a block of numbers."""
    return line.startswith((b'{"npy"', b'{"error"', b'{ "npy"', b'{ "error"'))


def _loaded(line: bytes) -> Any:
    """Return the JSON value of a line, or None if the line is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _shorten_line(line: bytes) -> str:
    return shorten(line.decode("utf-8", "backslashreplace"), 60)

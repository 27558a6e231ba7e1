"""The record of one audit in a checkpoint: its finished chunks, what training chose, and its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs
from epsaudit.outputs.json_form import block_from_json, block_to_json
from epsaudit.running.chunks import Chunk
from epsaudit.running.streams import STAGES

if TYPE_CHECKING:
    from epsaudit.running.checkpoint import Checkpoint

Tally = np.ndarray[Any, np.dtype[np.int64]]
"""The counts of a chunk, shape (6,): runs on x and on x', guesses 'x' on x and on x', guesses "x'" on x and on x'."""
MAX_CHUNKS = 1 << 26
"""[formula] The index of a chunk in a valid record is below this number, which allows 7e13 runs in large chunks."""
MAX_RECORDED_BYTES = 1 << 24
"""[chosen] Maximum size in bytes of the recorded outputs of a chunk on one dataset. Larger outputs are drawn again
after a restart."""
WORTH_WRITING = 50
"""[chosen] Outputs are recorded if drawing them takes at least this many times as long as writing them."""
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, EOFError)
"""Types of exceptions that reading a damaged record may raise."""
Read = TypeVar("Read")


class AuditRecord:
    """The record of one audit in a checkpoint file. Without a file, nothing is recorded.

    Parameters
    ----------
    file : Checkpoint, optional
        The file.
    name : str
        The name of the audit in the file.

    Attributes
    ----------
    kept : bool
        Whether there is a file.
    tallies : dict of int to array
        The counts of the certification chunks in the file, by the index of the chunk. They are read at the start,
        because joblib needs them in a thread of its own, where the file must not be read.
    """

    def __init__(self, file: Checkpoint | None = None, name: str = "") -> None:
        self._file: Any = file
        self.name, self.kept = name, file is not None
        self.tallies: dict[int, Tally] = {}
        if file is not None:
            for key, counts in file.every(name, "counts"):
                with self.making_sense("certification"):
                    index, tally = int(key), np.array(counts, dtype=np.int64)
                    if not 0 <= index < MAX_CHUNKS or tally.shape != (6,):
                        raise ValueError(index)
                    self.tallies[index] = tally

    def recorded(self, chunk: Chunk) -> dict[str, Any] | None:
        """Return the record of a training or sequential chunk, or None if the chunk is not recorded.

        The outputs of the chunk are converted to arrays.
        """
        record: dict[str, Any] | None = self._file.read(self.name, "chunk", _chunk_key(chunk))
        if record is None:
            return None
        with self.making_sense("training"):
            sequential = chunk.key[0] == STAGES["sequential"]
            if sequential and record["outputs"] is None:
                return record
            record["outputs"] = tuple(side and block_from_json(side) for side in record["outputs"])
            sizes = [0 if side is None else len(side) for side in record["outputs"]]
            if (sum(sizes) != chunk.size) if sequential else (sizes != [chunk.size] * 2):
                raise ValueError
        return record

    def record(self, chunk: Chunk, outputs: Sequence[Outputs | None] | None, seconds: float, **more: Any) -> None:
        """Record a chunk and its outputs.

        Nothing is recorded if outputs are given that are quick to draw again or take too much space. ``outputs`` is
        None for a chunk of which only ``more``, the further fields of the record, are needed. ``seconds`` is the time
        that drawing took.
        """
        written = None
        if outputs is not None:
            some = [side for side in outputs if side is not None]
            writing = sum(3e-6 * len(side) if side.dtype == object else 1e-8 * side.nbytes for side in some)  # seconds
            if seconds < WORTH_WRITING * writing or any(side.nbytes > MAX_RECORDED_BYTES for side in some):
                return
            written = [None if side is None else block_to_json(side) for side in outputs]
        self._file.write(self.name, "chunk", _chunk_key(chunk), {"outputs": written, **more})

    def record_count(self, index: int, tally: Tally) -> None:
        """Record the counts of a certification chunk."""
        self._file.write(self.name, "counts", str(index), tally.tolist())

    def once(self, kind: Literal["choice", "result"], read: Callable[[dict[str, Any]], Read]) -> Read | None:
        """Return the recorded choice of training or the recorded result, converted by ``read``.

        Returns None if there is no file or no record of this kind.
        """
        data = None if self._file is None else self._file.read(self.name, kind)
        if data is None:
            return None
        with self.making_sense(kind):
            return read(data)

    def record_once(self, kind: Literal["choice", "result"], data: Callable[[], Mapping[str, Any]]) -> None:
        """Record the choice of training or the final result, if there is a file that does not hold it yet.

        ``data`` returns the data. Raises `AuditError` if the file already holds a different record of this kind.
        """
        if self._file is None:
            return
        written = json.loads(json.dumps(data()))
        if (known := self._file.read(self.name, kind)) is None:
            self._file.write(self.name, kind, "", written)
        elif known != written:
            self.refuse_other_events()

    def refuse_other_events(self) -> NoReturn:
        """Raise `AuditError` because training after a restart chose another event than before the restart."""
        raise AuditError(
            f"Training chose another event than the one whose counts {self._file.path} holds. The mechanism owns its "
            "randomness, and what training drew or chose could not be read from the file. Give another file."
        )

    @contextmanager
    def making_sense(self, what: str) -> Iterator[None]:
        """Re-raise errors of parsing a record as an `AuditError` with a readable message.

        ``what`` names the record in the message.
        """
        try:
            yield
        except UNREADABLE as error:
            raise AuditError(
                f"The {what} of {self.name} in {self._file.path} makes no sense; give another file."
            ) from error


def _chunk_key(chunk: Chunk) -> str:
    return json.dumps([*chunk.key, chunk.size])

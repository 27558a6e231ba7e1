"""The part of a checkpoint that belongs to one audit: its training, its choice, its counts, its result.

It reads records of a file one by one and returns finished chunks, and the objects that an audit continues from.
Everything read is checked: a file may hold anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from epsaudit.certificates import certificate_from_dict
from epsaudit.chunks import Chunk, Tallies, Tally
from epsaudit.errors import AuditError
from epsaudit.output_json import block_from_json, block_to_json
from epsaudit.outputs import Outputs, are_objects
from epsaudit.results import AuditResult
from epsaudit.training import Training
from epsaudit.witnesses import Choice, witness_from_dict

SENSELESS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, EOFError)
"""What reading a record raises that says nothing; `AuditError` is one, too."""

MOST_CHUNKS = 1 << 26
"""A chunk's number is below this: 7e13 runs of the largest chunks."""

LARGEST_TRAINING = 1 << 24
"""Bytes of a training chunk's outputs beyond which it is drawn again instead of recorded."""

WORTH_WRITING = 50
"""A training chunk is recorded if drawing it took at least so many times as long as writing it does, about."""


class File(Protocol):
    """The file that a section is part of; see `epsaudit.checkpoint.Checkpoint`."""

    path: Path

    def append(self, record: Mapping[str, Any], *, now: bool = False) -> None:
        """Write one record; with ``now`` wait until it is on the disk."""

    def read_record(self, start: int, length: int) -> dict[str, Any]:
        """Read the record at an offset again."""


class Section:
    """What a checkpoint holds of one audit, and where its finished chunks go; a `Record` of `epsaudit.chunks`."""

    def __init__(self, file: File, name: str) -> None:
        self.name = name
        self._file = file
        self._places: dict[tuple[tuple[int, ...], int], tuple[int, int]] = {}
        self._chosen: dict[str, Any] | None = None
        self._finished: dict[str, Any] | None = None
        self._done = bytearray()
        self._tally = np.zeros(6, dtype=np.int64)
        self._tallies = Tallies()

    def trained(self, chunk: Chunk) -> tuple[Outputs, Outputs] | None:
        """See `Record`."""
        place = self._places.get((chunk.key, chunk.size))
        if place is None:
            return None
        record = self._file.read_record(*place)
        with self._making_sense("training"):
            on_x, on_x_prime = map(block_from_json, record["outputs"])
            if not len(on_x) == len(on_x_prime) == chunk.size:
                raise ValueError
        return on_x, on_x_prime

    def record_training(self, chunk: Chunk, outputs: tuple[Outputs, Outputs], seconds: float) -> None:
        """See `Record`; what is quick to draw again, very long, or not exact in JSON is not written."""
        if seconds < WORTH_WRITING * sum(map(_seconds_to_write, outputs)):
            return
        written = [block_to_json(side) for side in outputs if side.nbytes <= LARGEST_TRAINING]
        if len(written) == 2 and None not in written:
            self._append({"training": chunk.key, "size": chunk.size, "outputs": written})

    def training(self, pairs: int) -> Training | None:
        """Return what training on so many pairs came to; None before, or if JSON could not hold it."""
        if self._chosen is None or self._chosen.get("exact") is not True:
            return None
        data = self._chosen
        with self._making_sense("choice"):
            witness, certificate = witness_from_dict(data["witness"]), certificate_from_dict(data["certificate"])
            choice = Choice(witness, certificate, float(data["predicted"]))
            return Training(range(pairs)[data["pair"]], choice, int(data["runs"]), tuple(map(str, data["notes"])))

    def record_choice(self, training: Training, pairs: int) -> Training:
        """Remember what training chose, and return it as a later run will read it.

        Raises
        ------
        AuditError
            If another choice is recorded: the mechanism owns its randomness, and its outputs cannot be written.
        """
        witness = training.choice.witness.to_dict()
        written = {
            "pair": training.pair,
            "runs": training.runs,
            "notes": training.notes,
            "witness": witness,
            "certificate": training.choice.certificate.to_dict(),
            "predicted": float(training.choice.predicted),
            "exact": '{"repr": ' not in json.dumps(witness),
        }
        data = json.loads(json.dumps(written))
        if self._chosen is None:
            self._chosen = data
            self._append({"choice": data}, now=True)
        elif data != self._chosen:
            raise AuditError(
                f"Training came to another event than the one that {self._file.path} has counts of, because the "
                "mechanism owns its randomness and its outputs cannot be written as JSON. Give another file."
            )
        return self.training(pairs) or training

    def counted(self, index: int) -> bool:
        """See `Record`."""
        return index < len(self._done) and bool(self._done[index])

    def tally(self) -> Tally:
        """See `Record`."""
        return self._tally.copy()

    def tallies(self) -> Tallies:
        """See `Record`."""
        return self._tallies

    def take_up(self, record: Mapping[str, Any], start: int, length: int) -> None:
        """Take up a record that stands at an offset of the file; raises one of `SENSELESS` for what is none."""
        if "training" in record:
            self._places[tuple(record["training"]), record["size"]] = (start, length)
        elif "choice" in record:
            self._chosen = dict(record["choice"])
        elif "result" in record:
            self._finished = dict(record["result"])
        else:
            self._add(record["chunk"], np.array(record["counts"], dtype=np.int64))

    def _add(self, index: int, tally: Tally) -> None:
        if type(index) is not int or not 0 <= index < MOST_CHUNKS or tally.shape != (6,) or self.counted(index):
            raise ValueError(index)
        self._tallies.add(index, tally)
        self._done.extend(bytes(max(index + 1 - len(self._done), 0)))
        self._done[index] = 1
        self._tally += tally

    def record_count(self, index: int, tally: Tally) -> None:
        """See `Record`."""
        self._append({"chunk": index, "counts": tally.tolist()})
        self._add(index, tally)

    def result(self) -> AuditResult | None:
        """Return the finished audit, None before its end."""
        if self._finished is None:
            return None
        with self._making_sense("result"):
            return AuditResult.from_dict(self._finished)

    def record_result(self, result: AuditResult) -> None:
        """Remember the end."""
        self._finished = result.to_dict()
        self._append({"result": self._finished}, now=True)

    @contextmanager
    def _making_sense(self, what: str) -> Iterator[None]:
        try:
            yield
        except SENSELESS as error:
            raise AuditError(
                f"The {what} of {self.name} in {self._file.path} makes no sense; give another file."
            ) from error

    def _append(self, record: dict[str, Any], *, now: bool = False) -> None:
        self._file.append({"audit": self.name, **record}, now=now)


def _seconds_to_write(outputs: Outputs) -> float:
    return 3e-6 * len(outputs) if are_objects(outputs) else 1e-8 * outputs.nbytes

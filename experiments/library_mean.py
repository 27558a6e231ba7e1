"""The mean of a released library as a baseline: arrays in, private means out, from a process in its environment.

It stands alone because it is the only part of a study that needs the library; where that cannot be installed the study
goes on without it and says so.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.environments import Environment, NotInstalledError
from epsaudit.mechanisms.laws import Floats

LIBRARY = Environment("diffprivlib-0.6.6", ("3.11", "3.12"))


class LibraryMean:
    """diffprivlib's mean: each column clipped to a box, with Laplace noise at its share of epsilon.

    Parameters
    ----------
    process : Popen
        The adapter.
    folder : Path
        Where arrays are handed over.
    """

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._path = folder / "data.npy"

    def __call__(self, data: Floats, bound: float, epsilon: float, rng: np.random.Generator) -> Floats:
        """Private mean of records in [-bound, bound]^d, shape (d,)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        np.save(self._path, data)
        request = {"path": str(self._path), "epsilon": epsilon, "bound": bound, "seed": int(rng.integers(2**32))}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise AuditError(f"The mean of {LIBRARY.name} ended without an answer.")
        return np.array(json.loads(answer))


@contextmanager
def library_mean() -> Iterator[LibraryMean | None]:
    """Start the library's process; None where it cannot be installed."""
    try:
        python = LIBRARY.python()
    except NotInstalledError:
        yield None
        return
    words = [str(python), "-W", "ignore", str(Path(__file__).parent / "libraries" / "diffprivlib_mean.py")]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            yield LibraryMean(process, Path(folder))
        finally:
            process.terminate()

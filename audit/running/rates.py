"""Refuse runs that all failed, or that changed on the way, by comparing simple properties of early and late outputs.

If a mechanism returns the same output on both datasets because its budget is spent, this looks like privacy to every
certificate. Such runs are therefore refused here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.datasets import Dataset
from epsaudit.errors import AuditError, OwnCodeError
from epsaudit.outputs.arrays import Outputs, align_dtypes, numbers_of
from epsaudit.outputs.normal_form import Raised, TimedOut
from epsaudit.running.calling import wrong_call
from epsaudit.running.dependence import FRESH, LEVEL, checksums, log_tail
from epsaudit.running.functions import FunctionMechanism

FAILURE_TYPES = (Raised, TimedOut, type(None))
"""Types of outputs in normal form that count as failed runs."""
MAX_COMPARED_NUMBERS, MAX_COMPARED_OTHERS = 1 << 13, 1 << 8
"""[time] Maximum number of outputs of a block that are compared if they are numbers, and if they are of another kind,
which takes a microsecond each."""
STOPPED = (
    "A function that keeps a budget, a counter or a cache behaves in this way, and its runs do not show what a single "
    "release reveals."
)


def refuse_if_all_failed(name: str, blocks: Iterable[Outputs], mechanism: Any = None, dataset: Any = None) -> None:
    """Raise `AuditError` if every run raised the same exception, or timed out.

    Such an audit would pass, because one exception is compared with itself. A function is called once more on the
    dataset, so that the traceback of the error also shows the function's own exception.

    Parameters
    ----------
    name : str
        The name of the mechanism, for the message.
    blocks : iterable of arrays
        All outputs so far, on both datasets.
    mechanism : Mechanism, optional
        The mechanism that is called once more, if it is a function that is called once for each run.
    dataset : object, optional
        The dataset that it is called on.
    """
    first: Raised | TimedOut | None = None
    runs = 0
    for block in blocks:
        for output in block:
            if not isinstance(output, (Raised, TimedOut)) or (first is not None and output != first):
                return
            first = first or output
        runs += len(block)
    if first is None:
        return
    said, cause = "timed out.", None
    if isinstance(first, Raised):
        message = shorten(first.message, 120, placeholder=" ...")
        call = wrong_call(getattr(mechanism, "function", None))
        said = f"raised {first.exception}{message and f': {message}'}.{call}"
        try:
            if isinstance(mechanism, FunctionMechanism) and mechanism.one_by_one:
                arguments = (np.random.default_rng(0),) if mechanism.takes.what else ()
                mechanism.takes.of(mechanism.function)(Dataset(dataset).copy(), *arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            cause = error
    raise OwnCodeError(
        f"Nothing was tested: each of the first {runs:,} runs of {name}, on both datasets, {said}"
    ) from cause


@dataclass(frozen=True)
class Rates:
    """Frequencies of four properties (marks) of earlier outputs, with which those of later outputs are compared.

    The marks of an output are: its run failed; it equals the commonest earlier output; it lies above the median of the
    earlier outputs; it lies far from this median.

    Attributes
    ----------
    numbers : bool
        Whether outputs are numbers. For other outputs, checksums are compared.
    marks : ((float, float, float), (float, float, float))
        The commonest output, the median, and the median distance from the median, on x and on x'.
    before : (tuple of int, tuple of int)
        The counts of `seen` for the earlier outputs, on x and on x'.
    """

    numbers: bool
    marks: tuple[tuple[float, ...], ...]
    before: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, outputs: tuple[Outputs, Outputs]) -> Rates:
        """Return the frequencies of the marks in earlier outputs on x and on x'."""
        outputs = align_dtypes(*outputs)
        numbers, marks = outputs[0].ndim == 1 and outputs[0].dtype == np.float64, []
        for side in outputs:
            values = _compared(side, numbers) if len(side) else np.zeros(1)
            which, counts = np.unique(values, return_counts=True)
            with np.errstate(over="ignore", invalid="ignore"):
                middle = np.median(values)
                apart = np.median(np.abs(values - middle))
            marks.append((float(which[np.argmax(counts)]), float(middle), float(apart)))
        rates = cls(numbers, tuple(marks), ())
        before = (tuple(rates.seen(0, outputs[0]).tolist()), tuple(rates.seen(1, outputs[1]).tolist()))
        return dataclasses.replace(rates, before=before)

    def seen(self, place: int, outputs: Outputs) -> NDArray[np.int64]:
        """Count the outputs that have each mark, for outputs on x (``place`` 0) or on x' (``place`` 1).

        Returns an array of shape (5,): the number of outputs that were examined, and how many of them failed, equal the
        commonest earlier output, lie above the earlier median, and lie far from it.
        """
        values, (commonest, middle, width) = _compared(outputs, self.numbers), self.marks[place]
        failed = 0
        if outputs.dtype == object:
            failed = sum(isinstance(one, FAILURE_TYPES) for one in outputs[: len(values)].tolist())
        with np.errstate(over="ignore", invalid="ignore"):
            marked = (values == commonest, values > middle, np.abs(values - middle) > width)
        return np.array([len(values), failed, *map(np.count_nonzero, marked)])

    def refuse_if_moved(self, later: NDArray[np.int64], *, only_stopped: bool = False) -> None:
        """Raise `AuditError` if later runs have a mark significantly more or less often than earlier runs.

        ``later`` has shape (2, 5) and contains the results of `seen` for later outputs on x and on x'. The error is
        also raised if all later runs failed although some earlier runs did not; if ``only_stopped`` is true, only this
        is tested.
        """
        runs, failed = np.sum(self.before, axis=0)[:2].tolist()
        if later[:, 0].sum() and (later[:, 0] == later[:, 1]).all() and failed < runs:
            raise AuditError(
                f"Nothing was tested: of the first {runs:,} runs {runs - failed:,} gave an output, and all later ones "
                f"failed or gave None. {STOPPED} {FRESH}"
            )
        kinds = ("failed", "gave one output", "are in the upper half", "lie far from the median")
        for name, (runs, *before), (more, *after) in zip(("x", "x'"), self.before, later.tolist(), strict=True):
            for what, hits, again in zip(kinds, before, after, strict=True):
                if not only_stopped and log_tail(again, hits + again, more, runs + more) < math.log(LEVEL / 32):
                    raise AuditError(
                        f"The runs on {name} changed on the way: of the first {runs:,} {hits:,} {what}, of later "
                        f"{more:,} {again:,}. Independent runs show this with probability below 1e-9. {STOPPED} "
                        f"{FRESH}"
                    )


def _compared(outputs: Outputs, numbers: bool) -> NDArray[np.float64]:
    """Return one number for each of the first outputs: the output itself if outputs are numbers, else a checksum."""
    if numbers and outputs.dtype == np.float64 and outputs.ndim == 1:
        return outputs[:MAX_COMPARED_NUMBERS]
    some = outputs[: MAX_COMPARED_NUMBERS if numbers and outputs.dtype != object else MAX_COMPARED_OTHERS]
    return numbers_of(some) if numbers else checksums(some)

"""The output laws of functions: one that is called once for each run, and one that is called once for a block."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsaudit.data.datasets import Dataset
from epsaudit.data.records import describe_frame, is_frame
from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs, freeze_output, pack, pack_frozen
from epsaudit.outputs.ignored_parts import MAX_OBSERVED, TOTAL, IgnoredParts, observe, observe_rows
from epsaudit.outputs.normal_form import Raised
from epsaudit.running.calling import RandomnessArgument, wrong_call
from epsaudit.running.randomness import DatasetChangedError, GlobalRngUse


@dataclass(frozen=True)
class FunctionDistribution:
    """The distribution (law) of a function's output on one dataset.

    Attributes
    ----------
    function : callable
        The function or, if ``fresh`` is true, a factory that makes the function.
    dataset : Dataset
        The dataset, which is copied for runs that may change it.
    takes : RandomnessArgument
        How the function gets its randomness.
    fresh : bool
        Whether ``function`` is a factory, which makes a new object for every run or block of runs.
    global_rng : GlobalRngUse
        Whether the function uses the global generators.
    ignored : IgnoredParts
        Counts of parts of outputs that no witness reads.
    """

    function: Callable[..., Any]
    dataset: Dataset
    takes: RandomnessArgument
    fresh: bool = False
    global_rng: GlobalRngUse = field(default_factory=GlobalRngUse, compare=False, repr=False)
    ignored: IgnoredParts = field(default_factory=IgnoredParts, compare=False, repr=False)
    arguments: ClassVar[tuple[str, ...]] = ("dataset", "rng")
    random_call_order: ClassVar[bool] = False


class OneByOne(FunctionDistribution):
    """The output distribution of a function that returns one output in each call."""

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Call the function ``size`` times and return its outputs, an array of length ``size``."""
        return pack_frozen(self.sample_interleaved(self, np.zeros(size, np.int8), rng)[0])

    def sample_interleaved(
        self, other: OneByOne, side: NDArray[np.int8], rng: np.random.Generator
    ) -> tuple[list[Any], list[Any]]:
        """Call the function once for each coin: on this dataset for 0, and on the dataset of ``other`` for 1.

        Returns the outputs on both datasets as two lists. Runs share one copy of a dataset until a run changes it. This
        is checked after 1, 2, 4, ... runs of the first block, and at the end of later blocks. If several runs shared a
        copy that was changed, `DatasetChangedError` is raised; the caller then draws the block again, with a copy of
        the dataset for every run. Raises `AuditError` if the block cannot be drawn again.
        """
        values: tuple[list[Any], list[Any]] = ([], [])
        coins, start, sides, more = side.tolist(), 0, (self, other), (rng,) if self.takes.what else ()
        new = self.global_rng.draws_globally is None and not (self.dataset.constant and other.dataset.constant)
        while start < len(coins):
            observing = [law.ignored[TOTAL] < MAX_OBSERVED for law in sides]  # not in every run
            end = (2 * start or 1) if new else len(coins)
            part = coins[start : min(end, start + 2 * MAX_OBSERVED) if any(observing) else end]
            start += len(part)
            shared, runs = [], list[Callable[[], Any]]()
            for law in sides:
                shared.append(None if law.dataset.changes else law.dataset.shared)
                own = law.fresh and not getattr(law.function, "stateless", False)  # every run has an object of its own
                call = None if own else law.takes.of(law.function() if law.fresh else law.function)
                run = functools.partial(law._run_alone, call) if call is None or shared[-1] is None else call
                runs.append(functools.partial(run, shared[-1], *more))
            for which in part:
                try:
                    value = runs[which]()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    value = Raised.of(error)
                if observing[which]:
                    observe(sides[which].ignored, value)
                if type(value) is not float:
                    value = freeze_output(value)
                values[which].append(value)
            for which, data in enumerate(shared):
                one = sides[which].dataset
                if data is None or one.constant or one.intact(data) or part.count(which) <= 1:
                    continue
                if sides[which].global_rng.repeatable:  # the block can be drawn again
                    raise DatasetChangedError
                raise AuditError(
                    "The function changed its dataset in some runs only, and owns its randomness, so that those runs "
                    "cannot be made again. Let it work on a copy of its dataset."
                )
        return values

    def _run_alone(self, call: Callable[..., Any] | None, data: Any, *more: np.random.Generator) -> Any:
        """Make one run that shares neither its object nor its dataset with other runs.

        If ``call`` is None, the factory makes a new object to call. If ``data`` is None, the dataset is copied.
        """
        call = call or self.takes.of(self.function())
        return call(self.dataset.copy() if data is None else data, *more)


class Vectorized(FunctionDistribution):
    """The output distribution of a function that returns a block of outputs in each call."""

    random_call_order = True
    arguments = ("dataset", "size", "rng")

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Call the function once for ``size`` outputs and return them as an array.

        An array is returned unchanged, and any other iterable except a data frame is packed into an array. Raises
        `AuditError` if the function returns something else.
        """
        data, call = self.dataset.copy(), self.takes.of(self.function() if self.fresh else self.function)
        outputs = call(data, size, *((rng,) if self.takes.what else ()))
        if self.global_rng.draws_globally is None:
            self.dataset.intact(data)
        masked = isinstance(outputs, np.ma.MaskedArray)
        if masked or isinstance(outputs, list) or (isinstance(outputs, np.ndarray) and outputs.dtype.kind == "O"):
            for place in range(min(MAX_OBSERVED - self.ignored[TOTAL], len(outputs))):
                observe(self.ignored, outputs[place : place + 1] if masked else outputs[place])
        elif isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf" and len(outputs) == size:
            observe_rows(self.ignored, outputs)
        if isinstance(outputs, np.ndarray):
            return outputs
        with suppress(TypeError):
            if not is_frame(outputs):
                return pack(list(outputs))
        shown = describe_frame(outputs) if is_frame(outputs) else repr(outputs)
        raise AuditError(
            f"The mechanism returned {shown} for {size} outputs; function(dataset, size, rng) must return an "
            f"array of shape (size, ...) or a list of that length.{wrong_call(self.function, many=True)}"
        )

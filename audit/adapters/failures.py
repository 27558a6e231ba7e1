"""Refuse an audit in which every run failed: it would compare one exception with itself, and pass.

`refuse_if_all_failed` reads the outputs of all datasets and raises an error with the mechanism's message if all are the
same exception. An exception on one of the datasets only is a finding, and one that occurs in some runs is an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from epsaudit.adapters.functions import FunctionMechanism, Mechanism
from epsaudit.adapters.signatures import wrong_call
from epsaudit.data.fresh import Dataset
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import OwnCodeError
from epsaudit.outputs.normal_form import Outputs, Raised, TimedOut


def refuse_if_all_failed(name: str, blocks: Iterable[Outputs], mechanism: Any = None, dataset: Any = None) -> None:
    """Raise `AuditError` if every run raised the same exception, or every run timed out.

    Blocks are outputs on all datasets, read no further than the first that is no failure, or another one. The mechanism
    is run once more on the dataset, to raise the error from the function's own exception.

    Examples
    --------
    >>> import numpy as np
    >>> from epsaudit import black_box
    >>> outputs = black_box(lambda data, rng: 1 / 0)(()).sample(7, np.random.default_rng(0))
    >>> refuse_if_all_failed("mine", [outputs, np.zeros(3)])
    >>> refuse_if_all_failed("mine", [outputs, outputs])
    Traceback (most recent call last):
    ...
    epsaudit.errors.OwnCodeError: Nothing was tested: each of the first 14 runs of mine, on both datasets, raised \
    ZeroDivisionError: division by zero.
    """
    first: Raised | TimedOut | None = None
    message, runs = "", 0
    for block in blocks:
        for output in block:
            if not isinstance(output, (Raised, TimedOut)) or (first is not None and output != first):
                return
            first = output
            message = message or getattr(output, "message", "")
        runs += len(block)
    if first is None:
        return
    said = "timed out" if isinstance(first, TimedOut) else f"raised {first.exception}{message and f': {message}'}"
    call = "" if isinstance(first, TimedOut) else wrong_call(getattr(mechanism, "function", None))
    raise OwnCodeError(
        f"Nothing was tested: each of the first {runs:,} runs of {name}, on both datasets, {said}.{call}"
    ) from (None if isinstance(first, TimedOut) else _exception_of(mechanism, dataset))


def _exception_of(mechanism: Any, dataset: Any) -> BaseException | None:
    """The exception of one more run, with its traceback; None where a mechanism is no function, or does not raise."""
    try:
        if isinstance(mechanism, FunctionMechanism) and mechanism.one_by_one:
            arguments = (np.random.default_rng(0),) if mechanism.uses_rng else ()
            mechanism.takes.of(mechanism.function)(Dataset(dataset).copy(), *arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return None


def refusing(
    draw: Callable[..., tuple[Outputs, Outputs]],
    mechanism: Mechanism,
    pairs: Sequence[DatasetPair],
    look: Callable[..., None],
) -> Callable[..., tuple[Outputs, Outputs]]:
    """Let the first draws, one for each pair of datasets, pass only if something in them is no failure.

    Everything drawn is shown to ``look``, with the pair of distributions that it was drawn from.
    """
    first: list[Outputs] = []

    def drawn(*arguments: Any, **options: Any) -> tuple[Outputs, Outputs]:
        outputs = draw(*arguments, **options)
        if len(first) < 2 * len(pairs):
            first.extend(outputs)
            if len(first) == 2 * len(pairs):
                refuse_if_all_failed(mechanism.name, first, mechanism, pairs[0].x)
        look(arguments[0], outputs)
        return outputs

    return drawn

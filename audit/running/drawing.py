"""Draw a block of outputs from a law, reproducibly, and check what comes back."""

from __future__ import annotations

import functools

import numpy as np

from epsaudit.errors import AuditError, OwnCodeError, own_lines
from epsaudit.outputs.arrays import Outputs, normalise_array
from epsaudit.running.calling import wrong_call
from epsaudit.running.protocols import OutputDistribution
from epsaudit.running.randomness import draw_reproducibly


def advance_generator(rng: np.random.Generator) -> None:
    """Advance ``rng`` by one draw, so that consecutive calls that do not use ``rng`` get different seeds."""
    rng.integers(1 << 53)


def draw(distribution: OutputDistribution, size: int, rng: np.random.Generator) -> Outputs:
    """Draw ``size`` outputs from an output law and return them as an array of shape (size, *output_shape).

    The outputs are converted to the normal form that all witnesses read. Raises `AuditError` if the mechanism raises an
    exception, or if it returns another number of outputs.
    """
    if getattr(distribution, "random_call_order", False):
        advance_generator(rng)
    try:
        sample = functools.partial(distribution.sample, size, rng)
        outputs = draw_reproducibly(sample, rng, getattr(distribution, "global_rng", None))
    except (AuditError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        failed = OwnCodeError(
            f"The mechanism raised {type(error).__name__} ({error}) while drawing {size} outputs. Wrap a function that "
            "makes one output a call in epsaudit.black_box to have exceptions counted as outcomes."
            f"{wrong_call(getattr(distribution, 'function', None), many=True)}"
        )
        failed.lines = own_lines(error)
        raise failed from error
    if not isinstance(outputs, np.ndarray) or outputs.ndim == 0 or len(outputs) != size:
        shape = getattr(outputs, "shape", None)
        raise AuditError(
            f"The mechanism returned {type(outputs).__name__}{'' if shape is None else f' of shape {shape}'} for "
            f"{size} outputs; sample(size, rng) must return an array of shape (size, ...)."
        )
    return normalise_array(outputs)

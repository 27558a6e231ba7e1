"""How long a run took, as a part of its output: a side channel that no audit looks at unless it is asked to.

A clock sees everything else that the machine does, too. Runs on both datasets take turns as coins say, so that what
lasts from run to run is no leak; `same_twice` audits the clock itself, with one dataset in place of two.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

from epsaudit.adapters.functions import FunctionMechanism, black_box
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import finite_at_least


def timed(
    function: Callable[..., Any], resolution: float, *, clock: Callable[[], float] = time.perf_counter
) -> Callable[..., dict[str, Any]]:
    """Return the function with outputs ``{"output": what it returns, "time": how many steps of the clock it took}``.

    Parameters
    ----------
    function : callable
        As for `epsaudit.black_box`, which takes what is returned here. A run that raises is its exception alone.
    resolution : float
        Seconds of a step; whoever measures a service from outside sees steps of about a millisecond.
    clock : callable, optional
        Seconds since some moment; the processor's, `time.process_time`, is less disturbed by other programs.

    Raises
    ------
    AuditError
        If the resolution is no finite number of at least a nanosecond, 1e-9.

    Examples
    --------
    >>> ticks = iter([0.0, 0.0031, 1.0, 1.0052])
    >>> count = timed(len, 0.001, clock=lambda: next(ticks))
    >>> count([]), count(["ann"])
    ({'output': 0, 'time': 3}, {'output': 1, 'time': 5})
    """
    step = finite_at_least(resolution, 1e-9, "resolution")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
        began = clock()
        output = function(*args, **kwargs)
        return {"output": output, "time": math.floor((clock() - began) / step)}

    return call


def same_twice(function: Callable[..., Any], dataset: Any, claim: Claim) -> FunctionMechanism:
    """Return a mechanism that runs a timed function on one dataset under two names: a control of the clock.

    Nothing that the function does can tell the two apart. An audit of it that certifies more than 0 says that on this
    machine, at this resolution, times show nothing.

    Examples
    --------
    >>> from epsaudit import PureDP, audit
    >>> control = same_twice(timed(lambda data, rng: rng.integers(9), 1.0), ["ann"], PureDP(0.1))
    >>> audit(control, trials=2_000, seed=1).lower_bound
    0.0
    """

    @functools.wraps(function)
    def call(named: tuple[str, Any], *args: Any, **kwargs: Any) -> Any:
        return function(named[1], *args, **kwargs)

    pair = DatasetPair(("first", dataset), ("second", dataset))
    return black_box(call, claim=claim, pairs=[pair], name="the clock")

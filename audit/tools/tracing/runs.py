"""One run of the audited function under a recorder.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable  # noqa: UP035  # the alias below is evaluated, and Python 3.8 may run this

from epsaudit import serve
from epsaudit.tools.tracing.listening import Listener, np
from epsaudit.tools.tracing.places import Place, is_audited, places_of
from epsaudit.tools.tracing.replacement import replace_names, traced_generator

RUNS_OF_NONE = 500
"""[formula] Number of further runs on each dataset for a function that returned None. If a function returns something
in one run of 100, all of these runs return None with probability 5e-5 at most."""
SECONDS_OF_NONE = 30.0
"""[chosen] Number of seconds after which no more of these runs are made, so that the message about a slow function
comes soon."""
Call = Callable[[Any, Any, int], Any]
"""A function ``call(data, rng, seed)`` that calls the audited function with a dataset, a generator (None without
numpy) and a seed, and returns the output."""


def execute(call: Call, data: bytes, run: Any, seed: int) -> Any:
    """Run the audited function once under a recorder, and return the recorder.

    Parameters
    ----------
    call : callable
        Calls the audited function with a dataset, a generator and a seed.
    data : bytes
        The pickled dataset, so that every run gets a copy of its own.
    run : Listener
        The recorder to which samplers report. Its `finish` gets the output of the function, or its `fail` the
        exception.
    seed : int
        Seed of all generators that the function may use.
    """
    dataset = pickle.loads(data)
    run.begin()
    with _running(run, seed) as (rng, returned):
        try:
            output = streams_to_lists(call(dataset, rng, seed))
        except (Exception, SystemExit) as error:
            run.fail(error, places_of(error))
        else:
            run.finish(output, returned)
    return run


@contextlib.contextmanager
def _running(run: Listener, seed: int) -> Iterator[tuple[Any, list[Place]]]:
    """Return a context manager in whose block calls of samplers are reported to a recorder.

    All generators that the audited function may use are seeded first.

    Parameters
    ----------
    run : Listener
        The recorder to which samplers and tracked numbers report.
    seed : int
        The seed.

    Yields
    ------
    rng : Generator or None
        The generator for the function; None without numpy.
    returned : list
        The place at which audited code last returned, as a list with one (file, line, function).
    """
    random.seed(seed)
    rng = None
    if np is not None:
        np.random.seed(seed % 2**32)
        rng = traced_generator(np.random.default_rng(seed))
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed % 2**32)
    returned: list[Place] = []

    def profile(frame: Any, what: str, value: Any) -> None:
        if what == "call":
            replace_names(frame.f_globals)
        elif what == "return" and is_audited(frame.f_code.co_filename):
            returned[:] = [(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)]

    outer, Listener.current, Listener.active = Listener.current, run, run
    sys.setprofile(profile if run.watches else None)
    try:
        yield rng, returned
    finally:
        sys.setprofile(None)
        Listener.current, Listener.active = outer, None


def only_returns_none(returns_none: Callable[[int, int], bool]) -> bool:
    """Return whether many further runs of a function that returned None return None as well.

    Parameters
    ----------
    returns_none : callable
        Runs the function on the dataset 0 or 1, its first argument, and returns whether it returned None. The second
        argument is the number of the run.
    """
    started = time.monotonic()
    for number in range(RUNS_OF_NONE):
        if not (returns_none(0, number) and returns_none(1, number)):
            return False
        if time.monotonic() - started > SECONDS_OF_NONE:
            break
    return True


def streams_to_lists(value: Any) -> Any:
    """Convert the iterators in an output to lists.

    An iterator of a generator function draws its random numbers only while it is read.
    """
    if hasattr(type(value), "__next__") and hasattr(type(value), "__iter__"):
        return [streams_to_lists(part) for part in serve.read_stream(value)]
    if type(value) in (list, tuple):
        return type(value)(map(streams_to_lists, value))
    return {key: streams_to_lists(part) for key, part in value.items()} if type(value) is dict else value

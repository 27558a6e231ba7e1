"""The exact laws of both outputs of a function whose draws are discrete and few, for traces.

A replay with the same outcomes cannot judge a draw whose possible outcomes or probabilities depend on the data. If all
paths of the function can be listed, its output has a known law on both datasets, and their exact loss decides.
"""

from __future__ import annotations

import functools
from typing import Any

from epsaudit.tools.tracing.alignment.certain import output_law
from epsaudit.tools.tracing.alignment.checks import require_random_draws, require_same_output
from epsaudit.tools.tracing.alignment.ordinary_run import OrdinaryRun
from epsaudit.tools.tracing.alignment.paths import is_discrete_path, paths
from epsaudit.tools.tracing.alignment.recorded_pair import ORDINARY_RUNS
from epsaudit.tools.tracing.alignment.run import AlignmentRun, Parted, Runner, execute_alignment
from epsaudit.tools.tracing.runs import Call

MAX_LISTED = 256
"""[time] Largest number of paths on one dataset; they take some 50 ms."""


def discrete_pair(call: Call, both: tuple[bytes, bytes], seed: int) -> dict[str, Any] | None:
    """Return the exact laws of the output on both datasets, and the first draw whose law differs between them.

    The result is None if not all draws are discrete, if not all paths can be listed, or if a check of the draws fails.

    Parameters
    ----------
    call : callable
        Calls the audited function.
    both : tuple of bytes
        The pickled datasets.
    seed : int
        Seed of the runs.

    Returns
    -------
    dict or None
        "laws" has two lists with the probability of each output on x and on x'. "name" and "stack" are the name and
        the place of the first draw whose law differs; the name is empty if there is none.
    """
    laws = []
    try:
        first, second = (execute_alignment(call, data, AlignmentRun(seed, sites=True), seed) for data in both)
        if first.unseen or second.unseen:
            return None
        for data in both:
            ordinary = [
                execute_alignment(call, data, OrdinaryRun(seed + one, True), seed + one) for one in range(ORDINARY_RUNS)
            ]
            require_random_draws(ordinary)
            run: Runner = functools.partial(_executed, call, data, seed + ORDINARY_RUNS)
            for one in ordinary:
                require_same_output(one, run)
            rare = list[float]()
            listed = list(paths(run, MAX_LISTED, rare=rare))
            if rare or not all(map(is_discrete_path, listed)):
                return None
            laws.append(output_law(listed))
    except Parted:
        return None
    outputs = list({**laws[0], **laws[1]})
    name, stack = _first_difference(first, second)
    return {"laws": [[law.get(one, 0.0) for one in outputs] for law in laws], "name": name, "stack": stack}


def _executed(call: Call, data: bytes, seed: int, run: Any) -> Any:
    return execute_alignment(call, data, run, seed)


def _first_difference(first: AlignmentRun, second: AlignmentRun) -> tuple[str, Any]:
    """Return the name and the place of the first draw whose law on x' differs from that on x.

    Discrete draws are compared first, and then the comparisons of uniform draws. The name is empty if nothing differs.
    """
    for one, other, site in zip(first.choices, second.choices, second.choice_sites, strict=False):
        if (one.law.name, one.law.key) != (other.law.name, other.law.key):
            return other.law.name, site
    for event, its in zip(first.events, second.events, strict=False):
        if (event.terms, event.constant) != (its.terms, its.constant):
            return "the comparison of a uniform draw", its.site
    return "", second.returned

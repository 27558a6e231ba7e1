"""The command ``epsaudit trace``, which names the line of a function that leaks."""

from __future__ import annotations

from typing import Any

from epsaudit.running.served import Served
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, Words, print_json, printer, read_json
from epsaudit.tools.cli.targets import Pairs, read_function, read_pairs, required_claim


def trace_function(
    words: Words,
    *,
    pair: Pairs,
    parameters: str | None,
    data: str,
    fresh: bool,
    bits: bool,
    certify: bool,
    trials: float,
    confidence: float,
    timeout: float,
    seed: int,
    as_json: bool,
    quiet: bool,
    numbers: dict[str, float],
) -> int:
    """Trace a function on each pair and print the traces.

    Returns 1 if a trace is suspicious, or its audit refutes the claim.
    """
    from epsaudit.tools.tracing import trace

    python, function = read_function(words, "trace")
    how: Any = {"claim": required_claim(numbers, "A trace") if numbers or certify else None, "seed": seed}
    how |= {"bits": bits, "certify": certify, "trials": trials, "confidence": confidence, "timeout": timeout}
    served = Served(function, python, data, timeout, fresh)(read_json(parameters or "{}", "--parameters"))
    found = [trace(served, one, **how) for one in read_pairs(pair)]
    print_json(as_json, [one.to_dict() for one in found])
    show = printer(quiet or as_json)
    for one in found:
        show(f"{one}\n" * (len(found) > 1) or str(one))
    surprised = [one.refuted if certify else one.suspicious for one in found]
    return SURPRISED if any(surprised) else AS_EXPECTED

"""The command ``epsaudit trace``, which names the line of a function that leaks, or bounds its loss from above."""

from __future__ import annotations

from functools import partial
from typing import Any

from epsaudit.audits.spec import check_trials
from epsaudit.errors import AuditError
from epsaudit.running.served import Served
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, Words, print_json, printer, read_json
from epsaudit.tools.cli.targets import TypedPairs, read_function, read_pairs, required_claim


def trace_function(
    words: Words,
    *,
    pair: TypedPairs,
    parameters: str | None,
    data: str,
    fresh: bool,
    bits: bool,
    certify: bool,
    trials: float | None,
    confidence: float,
    timeout: float,
    seed: int,
    as_json: bool,
    quiet: bool,
    numbers: dict[str, float],
    bounding: dict[str, Any],
) -> int:
    """Run ``epsaudit trace``: trace a function on each pair and print the line that leaks, or print upper bounds.

    ``words`` name the function, ``numbers`` are the parameters of the claim, and ``bounding`` contains the options of
    upper bounds. Returns the exit status, which is 1 if a trace is suspicious, if the audit of a suspected leak refutes
    the claim, or if an upper bound exceeds the claim.
    """
    if bounding.pop("above"):
        from epsaudit.tools.cli import bounding as upper

        for option in [name for name, given in (("bits", bits), ("certify", certify)) if given]:
            raise AuditError(f"--{option} has no meaning for an upper bound; leave it out, or leave out --above.")
        claim = required_claim(numbers, "An upper bound")
        make = partial(upper.mechanism_in_this_process, words, fresh)
        settings: Any = {"claim": claim, "confidence": confidence, "seed": seed, "timeout": timeout}
        settings["runs"] = 10_000 if trials is None else check_trials(trials, "--trials")
        given = read_json(parameters or "{}", "--parameters", upper.checked_arguments)
        return upper.bound_and_print(make, given, data, pair, settings, as_json=as_json, quiet=quiet, **bounding)
    for option in bounding:
        raise AuditError(f"--{option.replace('_', '-')} is for upper bounds; add --above.")
    if not pair:
        raise AuditError("A trace needs two neighbouring datasets, for instance --pair '[1]' '[1, 2]'.")
    from epsaudit.tools.tracing import trace

    python, function = read_function(words, "trace")
    how: Any = {"claim": required_claim(numbers, "A trace") if numbers or certify else None, "seed": seed}
    how |= {"bits": bits, "certify": certify, "confidence": confidence, "timeout": timeout}
    how["trials"] = 100_000 if trials is None else trials
    served = Served(function, python, data, timeout, fresh)(read_json(parameters or "{}", "--parameters"))
    found = [trace(served, one, **how) for one in read_pairs(pair)]
    print_json(as_json, [one.to_dict() for one in found])
    show = printer(quiet or as_json)
    for one in found:
        show(f"{one}\n" * (len(found) > 1) or str(one))
    surprised = [one.refuted if certify else one.suspicious for one in found]
    return SURPRISED if any(surprised) else AS_EXPECTED

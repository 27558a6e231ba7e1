"""Upper bounds for ``epsaudit trace --above``: of given pairs, or of all pairs of small datasets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from epsaudit import serve
from epsaudit.audits.spec import check_n_jobs
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError
from epsaudit.running.functions import FunctionMechanism, black_box
from epsaudit.running.registry import own_object
from epsaudit.tools.cli import AS_EXPECTED, INTERRUPTED, SURPRISED, Words, print_json, printer, read_json
from epsaudit.tools.cli.targets import Pairs, read_function, read_pairs
from epsaudit.tools.hunting.relations import relation_named
from epsaudit.tools.reporting.progress import Display
from epsaudit.tools.tracing.alignment.all_pairs import bound_above_all
from epsaudit.tools.tracing.alignment.bound import MAX_DELTA, bound_each


def mechanism_in_this_process(words: Words, parameters: str | None, fresh: bool) -> FunctionMechanism:
    """Return the function that the words of the command name as a mechanism of this process.

    Raises `AuditError` if the words name another environment, because only draws in this process can be followed.
    """
    environment, name = read_function(words, "trace")
    if environment is not None:
        raise AuditError(
            f"--above follows the draws of functions in the environment of epsaudit, and not in {environment!r}; leave "
            "out the environment, or install epsaudit there."
        )
    arguments = read_json(parameters or "{}", "--parameters")
    if not isinstance(arguments, dict):
        raise AuditError(f"--parameters is {arguments!r}; it must be a JSON object.")
    function = own_object(name)
    if not callable(function):
        raise AuditError(f"{name!r} is of type {type(function).__name__}; it must be a function of a dataset.")
    if fresh:
        return black_box(lambda: partial(function(), **arguments), name=name, fresh=True)
    return black_box(partial(function, **arguments), name=name)


def bound_and_print(
    mechanism: FunctionMechanism,
    data: str,
    pair: Pairs,
    settings: Mapping[str, Any],
    *,
    as_json: bool,
    quiet: bool,
    max_delta: float = MAX_DELTA,
    exhaustive: int | None = None,
    domain: str | None = None,
    adjacency: str | None = None,
    checkpoint: Path | None = None,
    jobs: int | None = None,
) -> int:
    """Bound the loss of the mechanism on each pair, or on all pairs of at most ``exhaustive`` records, and print it.

    ``data`` is the type in which the function receives a dataset, and ``settings`` are the claim, the number of runs,
    the confidence and the seed. Returns 1 if a bound is not within the claim, or leaves out more than ``max_delta``.
    """
    form: Callable[[Any], Any] = serve.DATASET_FORMS[data]
    how: dict[str, Any] = {**settings, "n_jobs": check_n_jobs(jobs, "--jobs") or -1}
    if exhaustive is not None:
        if pair or domain is None:
            raise AuditError("--exhaustive needs --domain with the possible records, and takes no --pair.")
        relation = relation_named(adjacency or "add-remove")
        how |= {"adjacency": relation, "form": form, "max_delta": max_delta, "checkpoint": checkpoint}
        return _print_all(mechanism, read_json(domain, "--domain", _records), exhaustive, how, as_json, quiet)
    for option, given in (("domain", domain), ("adjacency", adjacency), ("checkpoint", checkpoint)):
        if given is not None:
            raise AuditError(f"--{option} is for all pairs of small datasets; add --exhaustive K.")
    if not pair:
        raise AuditError("An upper bound needs --pair X X_PRIME, or --exhaustive K with --domain.")
    pairs = [DatasetPair(form(one.x), form(one.x_prime)) for one in read_pairs(pair)]
    found = bound_each(mechanism, pairs, **how)
    print_json(as_json, [one.to_dict() for one in found])
    show = printer(quiet or as_json)
    for one in found:
        show(f"{one.name}{f' on {one.pair}' * (len(found) > 1)}: {one.sentence()}")
        if one.explanation():
            show(f"  {one.explanation()}")
    return AS_EXPECTED if all(one.within(max_delta) for one in found) else SURPRISED


def _records(data: Any) -> Sequence[Any]:
    if not isinstance(data, list):
        raise AuditError(f"--domain is {data!r}; it must be a JSON list of the possible records.")
    return data


def _print_all(
    mechanism: FunctionMechanism, domain: Sequence[Any], k: int, how: Mapping[str, Any], as_json: bool, quiet: bool
) -> int:
    """Bound the loss on all pairs of small datasets with a progress display, and print the result."""
    begun: list[tuple[int, float]] = []
    with Display(quiet=quiet or as_json) as display:

        def progress(done: int, total: int) -> None:
            now = time.monotonic()
            if not begun:
                begun.append((done, now))
            before, start = begun[0]
            speed = f", {(done - before) / (now - start):,.1f} pairs/s" if done > before else ""
            display.show(f"{mechanism.name}: {done:,} of {total:,} pairs ({done / total:.0%}){speed}")

        try:
            found = bound_above_all(mechanism, domain, k, **how, progress=progress)
        except KeyboardInterrupt:
            checkpoint = how["checkpoint"]
            kept = f"the same command goes on from the pairs in {checkpoint}"
            nothing = "nothing was written (--checkpoint FILE would have kept finished pairs)"
            print(f"epsaudit: interrupted; {nothing if checkpoint is None else kept}.", file=sys.stderr)
            return INTERRUPTED
    print_json(as_json, found.to_dict())
    show = printer(quiet or as_json)
    show(str(found))
    if found.worst.explanation():
        show(f"  {found.worst.explanation()}")
    return AS_EXPECTED if found.within_claim else SURPRISED

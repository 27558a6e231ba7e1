"""Upper bounds for ``epsaudit trace --above``: of given pairs, or of all pairs of small datasets."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from epsaudit import serve
from epsaudit.audits.spec import check_n_jobs
from epsaudit.data.neighbours import AddRemove, Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError
from epsaudit.running.functions import FunctionMechanism, black_box
from epsaudit.running.registry import own_object
from epsaudit.tools.cli import AS_EXPECTED, INTERRUPTED, SURPRISED, Words, print_json, printer, read_json
from epsaudit.tools.cli.targets import TypedPairs, read_function, read_pairs
from epsaudit.tools.hunting.description import Table, checked_relation
from epsaudit.tools.hunting.every_record import every_record
from epsaudit.tools.hunting.parameters import description_at, read_schema, value_combinations
from epsaudit.tools.hunting.relations import relation_named
from epsaudit.tools.reporting.progress import Display
from epsaudit.tools.tracing.alignment.all_pairs import AllPairsBound, bound_above_all
from epsaudit.tools.tracing.alignment.bound import MAX_DELTA, bound_each


def mechanism_in_this_process(words: Words, fresh: bool, arguments: Mapping[str, Any]) -> FunctionMechanism:
    """Return the Python function that ``words`` name as a mechanism that runs in this process.

    ``words`` are the words that the user typed, and ``arguments`` the keyword arguments of the function. If ``fresh``
    is true, the named object is called before each run and returns the function. Raises `AuditError` if the words name
    another Python environment, because random draws can be followed only in this process.
    """
    environment, name = read_function(words, "trace")
    if environment is not None:
        raise AuditError(
            f"--above follows the draws of functions in the environment of epsaudit, and not in {environment!r}; leave "
            "out the environment, or install epsaudit there."
        )
    function = own_object(name)
    if not callable(function):
        raise AuditError(f"{name!r} is of type {type(function).__name__}; it must be a function of a dataset.")
    if fresh:
        return black_box(lambda: partial(function(), **arguments), name=name, fresh=True)
    return black_box(partial(function, **arguments), name=name)


def checked_arguments(arguments: Any) -> dict[str, Any]:
    """Return the parsed value of the option --parameters; raise `AuditError` if it is not a JSON object."""
    if not isinstance(arguments, dict):
        raise AuditError(f"--parameters is {arguments!r}; it must be a JSON object.")
    return arguments


Make = Callable[[Mapping[str, Any]], FunctionMechanism]
"""Returns the mechanism for the function's other arguments."""


def bound_and_print(
    make: Make,
    arguments: Mapping[str, Any],
    data: str,
    pair: TypedPairs,
    settings: Mapping[str, Any],
    *,
    as_json: bool,
    quiet: bool,
    max_delta: float = MAX_DELTA,
    exhaustive: int | None = None,
    domain: str | None = None,
    schema: Path | None = None,
    adjacency: str | None = None,
    checkpoint: Path | None = None,
    jobs: int | None = None,
) -> int:
    """Compute and print an upper bound on the privacy loss for each given pair of datasets.

    If ``exhaustive`` is given, all pairs of neighbouring datasets of at most this number of records are used instead.

    Parameters
    ----------
    make : callable
        Returns the mechanism for keyword arguments of the audited function.
    arguments : mapping
        The keyword arguments.
    data : str
        The form in which the function receives a dataset: 'plain', 'array' or 'frame'.
    pair : sequence of pairs of str
        The pairs of datasets, each dataset as JSON text.
    settings : mapping
        The claim, the number of runs, the confidence, the seed and the timeout.
    max_delta : float
        An upper bound may exclude some runs. It counts as a failure if their probability may exceed this number.

    Returns
    -------
    int
        The exit status: 0 if every bound is at most the claim and excludes no more than ``max_delta``, 130 after
        Ctrl-C, and 1 otherwise.
    """
    form: Callable[[Any], Any] = serve.DATASET_FORMS[data]
    how: dict[str, Any] = {**settings, "n_jobs": check_n_jobs(jobs, "--jobs") or -1}
    if exhaustive is not None:
        if pair or (domain is None) == (schema is None):
            raise AuditError(
                "--exhaustive needs --domain with the possible records or --schema with their description, and takes "
                "no --pair."
            )
        how |= {"max_delta": max_delta, "checkpoint": checkpoint}
        relation = None if adjacency is None else relation_named(adjacency)
        if schema is not None:
            asked = _described(make, arguments, schema, relation, data)
        else:
            assert domain is not None
            records = read_json(domain, "--domain", _records)
            asked = [(make(arguments), records, {"adjacency": relation or AddRemove(), "form": form})]
        if checkpoint is not None and len(asked) > 1:
            raise AuditError("--checkpoint is for one combination of parameters; choose it by --parameters.")
        return _print_all(asked, exhaustive, how, as_json, quiet)
    for option, given in (
        ("domain", domain), ("schema", schema), ("adjacency", adjacency), ("checkpoint", checkpoint)
    ):  # fmt: skip
        if given is not None:
            raise AuditError(f"--{option} is for all pairs of small datasets; add --exhaustive K.")
    if not pair:
        raise AuditError("An upper bound needs --pair X X_PRIME, or --exhaustive K with --domain or --schema.")
    pairs = [DatasetPair(form(one.x), form(one.x_prime)) for one in read_pairs(pair)]
    found = bound_each(make(arguments), pairs, **how)
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


Asked = tuple[FunctionMechanism, Sequence[Any], dict[str, Any]]
"""A mechanism, the possible records, and the arguments of `bound_above_all` that belong to the data."""


def _described(
    make: Make, arguments: Mapping[str, Any], file: Path, relation: Adjacency | None, data: str
) -> list[Asked]:
    """Read a schema file, and return the mechanism and its possible records for each combination of parameter values.

    The values in ``arguments`` replace those of the schema. ``relation`` is the neighbouring relation; if it is None,
    the relation of the schema is used, or else the usual one of the data. ``data`` must be 'plain', because the schema
    itself states the form of the data.
    """
    if data != "plain":
        raise AuditError("The schema states the type of the data; leave out --data.")
    schema = read_schema(file)
    values = {**schema.parameters, **{name: [value] for name, value in arguments.items()}}
    asked: list[Asked] = []
    for combination, _ in value_combinations(values):
        table = description_at(schema.description, combination)
        records = every_record(table)
        assert isinstance(table, Table)
        usual = Substitution() if table.form == "one" else AddRemove()
        adjacency = checked_relation(table, relation or schema.adjacency or usual)
        mechanism = make(combination)
        chosen = ", ".join(f"{name}={value!r}" for name, value in combination.items() if len(values[name]) > 1)
        named = dataclasses.replace(mechanism, name=f"{mechanism.name} with {chosen}" if chosen else mechanism.name)
        own = {"least": 1, "k": 1} if table.form == "one" else {"least": table.least}
        asked.append((named, records, {"adjacency": adjacency, "form": table.dataset, **own}))
    return asked


def _print_all(asked: Sequence[Asked], k: int, how: Mapping[str, Any], as_json: bool, quiet: bool) -> int:
    """Bound the privacy loss of each mechanism on all pairs of datasets with at most ``k`` records; print the bounds.

    ``how`` contains further arguments of `bound_above_all`. Returns the exit status.
    """
    all_found, show = [], printer(quiet or as_json)
    for mechanism, records, data in asked:
        found = _bound_all(mechanism, records, {"k": k, **how, **data}, quiet or as_json)
        if found is None:
            return INTERRUPTED
        all_found.append(found)
        show(str(found))
        if found.worst.explanation():
            show(f"  {found.worst.explanation()}")
    listed = [one.to_dict() for one in all_found]
    print_json(as_json, listed if len(listed) > 1 else listed[0])
    return AS_EXPECTED if all(one.within_claim for one in all_found) else SURPRISED


def _bound_all(
    mechanism: FunctionMechanism, records: Sequence[Any], how: Mapping[str, Any], silent: bool
) -> AllPairsBound | None:
    """Return the upper bound for one mechanism on all pairs of small datasets, and show the progress meanwhile.

    If the user presses Ctrl-C, print how to continue and return None.
    """
    begun: list[tuple[int, float]] = []
    with Display(quiet=silent) as display:

        def progress(done: int, total: int) -> None:
            now = time.monotonic()
            if not begun:
                begun.append((done, now))
            before, start = begun[0]
            speed = f", {(done - before) / (now - start):,.1f} pairs/s" if done > before else ""
            display.show(f"{mechanism.name}: {done:,} of {total:,} pairs ({done / total:.0%}){speed}")

        try:
            return bound_above_all(mechanism, records, **how, progress=progress)
        except KeyboardInterrupt:
            checkpoint = how["checkpoint"]
            kept = f"the same command goes on from the pairs in {checkpoint}"
            nothing = "nothing was written (--checkpoint FILE would have kept finished pairs)"
            print(f"epsaudit: interrupted; {nothing if checkpoint is None else kept}.", file=sys.stderr)
            return None

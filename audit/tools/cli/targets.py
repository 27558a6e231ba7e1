"""Options that say what to audit: names of mechanisms, programs, pairs of datasets, and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from epsaudit.claims.definitions import CLAIMS, Claim, claim_from_numbers
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError
from epsaudit.running.programs import command, with_tuples
from epsaudit.running.registry import Entry, chosen, own_entry
from epsaudit.tools.cli import Words, read_json

TypedPairs = Sequence[tuple[str, str]]
"""Pairs of datasets as typed on the command line, in JSON."""


def required_claim(numbers: Mapping[str, float], who: str) -> Claim:
    """Return the claim with the given parameters, such as ``{"epsilon": 1.0}``; raise `AuditError` if there is none.

    ``who`` is the subject of the error message, for example 'A hunt'.
    """
    claim = claim_from_numbers(numbers)
    if claim is None:
        words = "; ".join(" ".join(f"--{name}" for name in names) for names in CLAIMS)
        raise AuditError(f"{who} needs a claim to audit, one of: {words}.")
    return claim


def read_entries(
    names: Words,
    *,
    by_value: bool = False,
    program: str | None = None,
    pair: TypedPairs = (),
    timeout: float,
    fresh: bool,
    numbers: Mapping[str, float],
) -> list[Entry]:
    """Return the mechanisms to audit, each as an `Entry` with its claim and pairs.

    They are registered mechanisms, objects of the user such as 'FILE.py:object', or the program of the option
    --command. Raises `AuditError` if both names and a program are given, or if the pairs or the claim of a program or
    function are missing. With ``by_value``, modules of the user's objects are pickled, as workers may lack them.
    """
    if program is None:
        if not (pair or numbers or fresh):
            return chosen(names, by_value=by_value)
        if not names or not all(":" in name for name in names):
            raise AuditError(
                "--pair, --fresh and the numbers of a claim are for --command, and for functions and mechanisms of "
                "your own (FILE.py:object); registered mechanisms have their own."
            )
        claim = required_claim(numbers, names[0]) if numbers else None
        own: dict[str, Any] = {"pairs": read_pairs(pair), "claim": claim, "fresh": fresh}
        entries = {entry.name: entry for entry in (own_entry(name, by_value, **own) for name in names)}
        return list(entries.values())
    if names:
        raise AuditError(f"Give either --command or names, not both ({names[0]!r}).")
    if not pair:
        what = "--command needs two neighbouring datasets, for instance"
        raise AuditError(f"""{what} --pair '["ann"]' '["ann", "bob"]'.""")
    mechanism: Any = command(program, pairs=read_pairs(pair, with_tuples), timeout=timeout, fresh=fresh)
    return [Entry(mechanism.name, mechanism, required_claim(numbers, "--command"), expected=None)]


def read_pairs(pair: Sequence[Sequence[str]], made: Callable[[Any], Any] = lambda data: data) -> list[DatasetPair]:
    """Parse pairs of datasets that were typed as JSON, and return them.

    The function ``made`` converts the JSON value of each dataset.
    """
    return [DatasetPair(*(read_json(one, "--pair", made) for one in both)) for both in pair]


def read_function(words: Sequence[str], who: str) -> tuple[str | None, str]:
    """Return environment and function from the typed words [ENVIRONMENT] MODULE:FUNCTION.

    The environment is None if it was not typed. Raises `AuditError` if there are no words or more than two. ``who`` is
    the name of the command for the message.
    """
    if len(words) not in (1, 2):
        raise AuditError(
            f"{who} takes module:function, or an environment and module:function; {len(words)} words were given."
        )
    return (words[0] if len(words) == 2 else None), words[-1]

"""What a failed privacy test says: a sentence, and named lines below it.

The lines are indented by four columns, so that the text pastes into an issue: Markdown shows them as they stand.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from epsaudit.audits.sequential import SequentialResult
from epsaudit.data.neighbours import DatasetPair, is_frame, shorten
from epsaudit.text import lower

WIDTH = 80
"""Columns of a failure's text: those of an old terminal, which fit everywhere."""

Lines = Iterable[tuple[str, str]]


def failure(sentence: str, lines: Lines, command: str) -> str:
    """Write the sentence, the lines, and the command, which is for copying and stays in one line."""
    return "\n".join(
        [textwrap.fill(sentence, WIDTH), "", *(_entry(*line) for line in lines), _begun("reproduce") + command]
    )


def lines_of(result: SequentialResult, pair: DatasetPair | None, level: float, seconds: float) -> list[tuple[str, str]]:
    """Name the claim, what is certified at which ``level``, the pair, the event, its counts, the runs and the notes."""
    symbol = result.claim.symbol
    above = ">" if result.violates_claim else ">="  # what is refuted is not attained either
    time_is_up = f" ({seconds:g} seconds were over)" if result.stopped == "seconds" else ""
    reach = [] if result.violates_claim else [("reach", result.describe_detectable())]
    return [
        ("claim", f"{result.claim}: {symbol} = {result.proven:.6g}"),
        ("certified", f"{symbol} {above} {lower(result.lower_bound)}, wrong with probability {level:.2g}"),
        ("pair", f"x = {result.x}, x' = {result.x_prime}" if pair is None else told_apart(pair)),
        ("event", str(result.witness)),
        ("counts", f"{result.describe_counts()} (the last rounds)"),
        ("evidence", result.describe_evidence()),
        ("runs", f"{result.runs:,} of at most {result.trials:,}{time_is_up}"),
        *reach,
        *(("note", note) for note in result.notes),
    ]


def told_apart(pair: DatasetPair) -> str:
    """Write both datasets; where their texts are cut short and look alike, or are frames, where they differ.

    Examples
    --------
    >>> told_apart(DatasetPair([1], [1, 2]))
    "x = [1], x' = [1, 2]"
    >>> told_apart(DatasetPair([0] * 99, [0] * 98 + [1])).partition("; ")[2]
    'record 98 is 0 against 1 (99 against 99 records)'
    """
    x, x_prime = shorten(pair.x), shorten(pair.x_prime)
    if x == x_prime or (is_frame(pair.x) and is_frame(pair.x_prime)):
        return str(DatasetPair(pair.x, pair.x_prime))
    return f"x = {x}, x' = {x_prime}"


def versions(provenance: Mapping[str, str]) -> tuple[str, str]:
    """The line that says what ran."""
    names = ("epsaudit", "numpy", "scipy", "python")
    return "versions", ", ".join(f"{name} {provenance[name]}" for name in names if name in provenance)


def weakness(result: SequentialResult, seconds: float, telling: float) -> str:
    """Say that a check passed which could hardly have failed: it does not show the parameter ``telling``."""
    fitted = f", all that fitted into {seconds:g} seconds," if result.stopped == "seconds" else ""
    return (
        f"The check of {result.mechanism} passed, but could hardly have failed: {result.runs:,} runs{fitted} do not "
        f"show {result.claim.symbol} = {telling:.4g} where {result.claim} is claimed. It "
        f"{result.describe_detectable()}. Give it more runs or seconds, or a more telling pair."
    )


def _begun(name: str) -> str:
    return f"    {name:<10} "


def _entry(name: str, text: str) -> str:
    """Write a named line, wrapped under itself."""
    begun = _begun(name)
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=begun,
        subsequent_indent=" " * len(begun),
        break_long_words=False,
        break_on_hyphens=False,
    )

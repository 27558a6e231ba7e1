"""One self-contained HTML page: a table that sorts and filters, and a card for every result.

It is rendered from results. Everything that comes from a result passes the template's escaping, and the page's content
security policy allows no script, style or address but its own, by hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jinja2
from markupsafe import Markup

from epsaudit.one_run import OneRunResult
from epsaudit.reporting import sketches
from epsaudit.reporting.escaping import visible
from epsaudit.reporting.numbers import SYMBOLS, lower, percent, plain
from epsaudit.reporting.table import caption, kind_of
from epsaudit.results import AuditResult, Result

HEADINGS = (
    ("mechanism", False),
    ("claim", False),
    ("proven", True),
    ("exact", True),
    ("certified", True),
    ("certified / proven", True),
    ("runs", True),
    ("verdict", False),
)


@dataclass(frozen=True)
class Sentence:
    """A sentence about an event, and the event."""

    before: str
    event: str


def render(results: Sequence[Result], family_confidence: float, file: str = "audit.json") -> str:
    """Return the page.

    Parameters
    ----------
    results : sequence of Result
    family_confidence : float
        Confidence of all bounds together.
    file : str
        Name of the result file, for the command that reproduces a result.

    Examples
    --------
    >>> render([], 0.95).startswith("<!DOCTYPE html>")
    True
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsaudit.reporting"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    # in these two no text of a result occurs, and escaping would break them
    css, js = (_source(environment, name) for name in ("report.css", "report.js"))
    return environment.get_template("report.html").render(
        cards=[_card(number, result, file) for number, result in enumerate(results, start=1)],
        headings=HEADINGS,
        kinds=sorted({kind_of(result) for result in results}),
        caption=caption(results, family_confidence) if results else "There are no results.",
        violated=sum(result.violates_claim for result in results),
        in_one_run=any(isinstance(result, OneRunResult) for result in results),
        version=version("epsaudit"),
        css=Markup(css),
        js=Markup(js),
        css_hash=_hash(css),
        js_hash=_hash(js),
        width=sketches.WIDTH,
        square=sketches.SQUARE,
    )


def _card(number: int, result: Result, file: str) -> dict[str, Any]:
    symbol = SYMBOLS[result.claim.symbol]
    interval = sketches.interval(result)
    again = ["--rerun"] if isinstance(result, AuditResult) else []
    exact_words = f"{symbol} = {plain(result.exact)}" if result.exact is not None else "not known"
    return {
        "anchor": f"result-{number}",
        "name": visible(result.mechanism),
        "claim": str(result.claim),
        "kind": kind_of(result),
        "symbol": symbol,
        "symbol_word": result.claim.symbol,
        "proven": plain(result.proven),
        "exact": plain(result.exact),
        "exact_words": exact_words,
        "bound": lower(result.lower_bound),
        "share": lower(result.lower_bound / result.proven, 3) if result.proven > 0.0 else "-",
        "runs": f"{result.spent:,}",
        "confidence": percent(result.confidence),
        "verdict": result.verdict,
        "surprising": result.surprising,
        "sort": {
            "proven": _sortable(result.proven),
            "exact": _sortable(result.exact),
            "bound": _sortable(result.lower_bound),
            "share": _sortable(result.lower_bound / result.proven if result.proven > 0.0 else None),
            "runs": result.spent,
        },
        "interval": interval,
        "proven_anchor": _anchor(interval.proven),
        "bound_anchor": _anchor(interval.bound),
        **_seen(result),
        "limits": result.limits,
        "reproduce": visible(shlex.join(["epsaudit", "verify", file, *again, result.mechanism])),
        "seed": f"Seed {result.seed}."
        if result.reproducible
        else f"Seed {result.seed}, but the mechanism draws its own randomness: not reproducible from the seed.",
        "command": visible(result.execution.get("command", "")),
        "made": visible(_made(result)),
    }


def _seen(result: Result) -> dict[str, Any]:
    """What a card says of the events and counts; of audits of other than fixed size, what they print."""
    if not isinstance(result, AuditResult):
        return {"curves": None, "lines": [(label, visible(text)) for label, text in result.lines()]}
    return {
        "curves": (sketches.certified_curve(result), sketches.claimed_curve(result.claim)),
        "lines": None,
        "event": event_in_words(result),
        "counts": _counts(result),
        "x": visible(result.x),
        "x_prime": visible(result.x_prime),
        "method": f"{result.certificate.name[0].upper()}{result.certificate.name[1:]}; {result.training_runs:,} runs "
        f"chose, {result.runs:,} certified.",
    }


def event_in_words(result: AuditResult) -> list[Sentence]:
    """Say what the audit took for a sign of x, of x', and of neither; y is an output.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, audit, vectorized
    >>> noisy = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0),
    ...                    pairs=[DatasetPair(0, 1)])
    >>> event_in_words(audit(noisy, trials=5000, seed=1))[0].before
    'Taken for a run on x′: an output y with'
    """
    witness = result.witness
    sides = [("x", witness.guess_x), ("x′", witness.guess_x_prime)]
    given = [(side, str(event).removeprefix("{").removesuffix("}")) for side, event in sides if event is not None]
    sentences = [Sentence(f"Taken for a run on {side}: an output y with", visible(event)) for side, event in given]
    return [*sentences, Sentence("Any other output is taken for neither.", "")]


def _counts(result: AuditResult) -> list[tuple[str, str, str]]:
    counts = result.counts
    rows = [("all runs", counts.runs_x, counts.runs_x_prime)]
    if result.witness.guess_x is not None:
        rows.append(("taken for x", counts.guess_x_on_x, counts.guess_x_on_x_prime))
    if result.witness.guess_x_prime is not None:
        rows.append(("taken for x′", counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime))
    return [(name, f"{on_x:,}", f"{on_x_prime:,}") for name, on_x, on_x_prime in rows]


def _made(result: Result) -> str:
    parts = []
    if "started" in result.execution:
        taken = f", {result.seconds:.3g} seconds" if math.isfinite(result.seconds) else ""
        parts.append(f"Started {result.execution['started']}{taken}.")
    if "machine" in result.execution:
        parts.append(f"{result.execution['machine']}.")
    parts.append(", ".join(f"{name} {value}" for name, value in result.provenance.items()) or "Versions not recorded")
    return " ".join(parts) + "."


def _sortable(value: float | None) -> str:
    """Write a number as JavaScript reads it; nothing for None."""
    if value is None:
        return ""
    return "Infinity" if value == math.inf else repr(float(value))


def _anchor(place: float) -> str:
    return "start" if place < 40.0 else "end" if place > sketches.WIDTH - 40.0 else "middle"


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].strip()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

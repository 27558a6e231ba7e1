"""One self-contained HTML page: a table that sorts and filters, and a card for every result.

`templates/report.html` escapes everything that comes from a result; the page's content security policy allows no
script, style or address but its own, by hash.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from epsaudit.audits.one_run import OneRunResult
from epsaudit.claims.definitions import Claim
from epsaudit.reporting.figures import Floats, allowed_trade_off, certified_polygon, with_bends
from epsaudit.reporting.tables import caption, kind_of
from epsaudit.results.result import AuditResult, Result
from epsaudit.text import SYMBOLS, lower, percent, plain, visible

WIDTH = 320.0
"""Pixels of the strip of a result's card."""
SQUARE = 150.0
"""Pixels of a side of the trade-off curve on a result's card."""
ERRORS = np.concatenate([[0.0, 1e-4, 1e-3, 4e-3], np.linspace(0.01, 0.1, 10), np.linspace(0.15, 1.0, 18)])
"""Where a claim's trade-off curve is computed: 146 cards then weigh less than one drawn by matplotlib."""


def render(results: Sequence[Result], family_confidence: float, file: str = "audit.json") -> str:
    """Return the page; ``family_confidence`` is of all bounds together, ``file`` named in commands that repeat them."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsaudit.reporting"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "lower": lower,
        "plain": plain,
        "percent": percent,
        "visible": visible,
        "grouped": "{:,}".format,
        "sortable": lambda value: (
            "" if value is None else "Infinity" if value == math.inf else repr(float(value))
        ),  # as JavaScript reads it
        "anchor": lambda place: "start" if place < 40.0 else "end" if place > WIDTH - 40.0 else "middle",
    }
    # in these two no text of a result occurs, and escaping would break them
    css, js = (
        files("epsaudit.reporting").joinpath("templates", name).read_text(encoding="utf-8").strip()
        for name in ("report.css", "report.js")
    )
    return environment.get_template("report.html").render(
        cards=[_card(result, file) for result in results],
        kinds=sorted({kind_of(result) for result in results}),
        caption=caption(results, family_confidence) if results else "There are no results.",
        in_one_run=any(isinstance(result, OneRunResult) for result in results),
        version=version("epsaudit"),
        css=Markup(css),
        js=Markup(js),
        css_hash=_hash(css),
        js_hash=_hash(js),
        width=WIDTH,
        square=SQUARE,
    )


def _card(result: Result, file: str) -> dict[str, Any]:
    """What the template cannot ask of a result: its kind, places in pixels, and the command that repeats it."""
    marks = {"bound": result.lower_bound, "proven": result.proven, "exact": result.exact}
    known = {name: value for name, value in marks.items() if value is not None}
    greatest = 1.15 * max(filter(math.isfinite, known.values()), default=1.0) or 1.0
    curves = None
    if isinstance(result, AuditResult):
        curves = _points(certified_polygon(result)), _claimed_curve(result.claim)
    made = [", ".join(f"{name} {value}" for name, value in result.provenance.items()) or "Versions not recorded"]
    if "machine" in result.execution:
        made.insert(0, result.execution["machine"])
    if "started" in result.execution:
        taken = f", {result.seconds:.3g} seconds" if math.isfinite(result.seconds) else ""
        made.insert(0, f"Started {result.execution['started']}{taken}")
    return {
        "result": result,
        "kind": kind_of(result),
        "symbol": SYMBOLS[result.claim.symbol],
        "share": result.lower_bound / result.proven if result.proven > 0.0 else None,
        "places": {
            name: round(WIDTH * min(value / greatest, 1.0), 1)
            for name, value in known.items()
            if name != "exact" or math.isfinite(value)
        },
        "curves": curves,
        "reproduce": shlex.join(["epsaudit", "verify", file, *["--rerun"] * (curves is not None), result.mechanism]),
        "made": " ".join(f"{part}." for part in made),
    }


@functools.lru_cache(maxsize=1024)
def _claimed_curve(claim: Claim) -> str:
    errors = with_bends(ERRORS, claim)
    return _points(np.stack([errors, allowed_trade_off(claim, errors)], axis=1))


def _points(points: Floats) -> str:
    """Points in a square of `SQUARE` pixels, as SVG writes them."""
    return " ".join(f"{round(SQUARE * x, 2):g},{round(SQUARE * (1.0 - y), 2):g}" for x, y in points)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

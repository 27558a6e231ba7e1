r"""Documents made of results: a self-contained HTML page, and the methods paragraphs of a paper in LaTeX.

`templates/report.html` escapes all text of a result. The content security policy of the page allows only its own script
and style, identified by their hashes. The paragraphs state only what the results show.
"""

from __future__ import annotations

import functools
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import metadata, version
from importlib.resources import files
from typing import Any

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.audits.holdout import HoldoutResult
from epsaudit.audits.many_runs import ManyRunsResult
from epsaudit.audits.one_run import OneRunResult
from epsaudit.audits.sequential import SequentialResult
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError
from epsaudit.results.result import AuditResult, Result
from epsaudit.text import SYMBOLS, latex, nearest, visible
from epsaudit.tools.reporting.figures import add_kinks, certified_polygon
from epsaudit.tools.reporting.tables import caption, privacy_definition
from epsaudit.tools.reporting.templating import embedded, template_environment
from epsaudit.witnesses.learnt import AdditiveModel, Tree

STRIP_WIDTH = 320.0
"""Width in pixels of the strip on a result's card that shows bound, claim and exact value."""
CURVE_SIZE = 150.0
"""Side length in pixels of the trade-off curve on a result's card."""
COARSE_ERROR_GRID = np.concatenate([[0.0, 1e-4, 1e-3, 4e-3], np.linspace(0.01, 0.1, 10), np.linspace(0.15, 1.0, 18)])
"""Error probabilities at which a claim's trade-off curve is computed. The grid is coarse, so that a page of 146 cards
is smaller than one figure of matplotlib."""
DEFINITIONS = {
    "PureDP": "dwork2006calibrating",
    "ApproxDP": "dwork2006our",
    "ZCDP": "bun2016concentrated",
    "RenyiDP": "mironov2017renyi",
    "GaussianDP": "dong2022gaussian",
    "ApproxZCDP": "bun2016concentrated",
    "TradeOff": "dong2022gaussian",
}
SEVERAL = "several versions"
DELIMITERS: dict[str, Any] = {
    **{"block_start_string": "<%", "block_end_string": "%>", "variable_start_string": "<<"},
    **{"variable_end_string": ">>", "comment_start_string": "<#", "comment_end_string": "#>"},
}
"""Delimiters of the template `methods.tex`; the usual ones contain braces, which have a meaning in LaTeX."""
OWN_ENTRY = r"""@misc{epsaudit,
  author = {{The epsaudit founders}},
  title = {epsaudit: Empirical Privacy Auditing with Certified Lower Bounds},
  note = {Version %s},
  year = {2026}%s
}"""


def render_page(
    results: Sequence[Result], family_confidence: float, file: str = "audit.json", audits: int | None = None
) -> str:
    """Return a self-contained HTML page with one card per result.

    ``file`` is the name of the result file, which the page quotes in commands that reproduce a result.
    ``family_confidence`` and ``audits`` are explained in `epsaudit.tools.reporting.tables.caption`.
    """
    environment = template_environment(autoescape=True)
    environment.filters |= {
        "plain": nearest,
        "visible": visible,
        "grouped": "{:,}".format,
        "sortable": lambda value: (
            "" if value is None else repr(float(value)).replace("inf", "Infinity")
        ),  # JavaScript's
        "anchor": lambda place: "start" if place < 40.0 else "end" if place > STRIP_WIDTH - 40.0 else "middle",
    }
    (css, css_hash), (js, js_hash) = embedded("report.css"), embedded("report.js")
    page: str = environment.get_template("report.html").render(
        cards=[_card_values(result, file) for result in results],
        kinds=sorted({privacy_definition(result) for result in results}),
        caption=caption(results, family_confidence, audits) if results else "There are no results.",
        in_one_run=any(type(result) is OneRunResult for result in results),
        with_holdout=any(isinstance(result, HoldoutResult) for result in results),
        version=version("epsaudit"),
        css=css,
        js=js,
        css_hash=css_hash,
        js_hash=js_hash,
        width=STRIP_WIDTH,
        square=CURVE_SIZE,
    )
    return page


def _card_values(result: Result, file: str) -> dict[str, Any]:
    """Return the values that the HTML template shows on the card of one result.

    ``file`` is the name of the result file for the command that reproduces the result.
    """
    marks = {"bound": result.lower_bound, "proven": result.proven, "exact": result.exact}
    known = {name: value for name, value in marks.items() if value is not None}
    greatest = 1.15 * max(filter(math.isfinite, known.values()), default=1.0) or 1.0
    curves = None
    if isinstance(result, AuditResult):
        curves = _svg_points(certified_polygon(result)), _claimed_curve(result.claim)
    made = [", ".join(f"{name} {value}" for name, value in result.provenance.items()) or "Versions not recorded"]
    if "machine" in result.execution:
        made.insert(0, result.execution["machine"])
    if "started" in result.execution:
        taken = f", {result.seconds:.3g} seconds" if math.isfinite(result.seconds) else ""
        made.insert(0, f"Started {result.execution['started']}{taken}")
    return {
        "result": result,
        "kind": privacy_definition(result),
        "symbol": SYMBOLS[result.claim.symbol],
        "interval": getattr(result, "interval", None),
        "share": result.lower_bound / result.proven if result.proven > 0.0 else None,
        "places": {
            name: round(STRIP_WIDTH * min(value / greatest, 1.0), 1)
            for name, value in known.items()
            if name != "exact" or math.isfinite(value)
        },
        "curves": curves,
        "reproduce": shlex.join(["epsaudit", "verify", file, *["--rerun"] * (curves is not None), result.mechanism]),
        "made": " ".join(f"{part}." for part in made),
    }


@functools.lru_cache(maxsize=1024)
def _claimed_curve(claim: Claim) -> str:
    """Return the trade-off curve of a claim as the text of the points of an SVG polyline."""
    errors = add_kinks(COARSE_ERROR_GRID, claim)
    return _svg_points(np.stack([errors, 1.0 - claim.greatest(errors)], axis=1))


def _svg_points(points: Floats) -> str:
    """Convert points to the text of the points of an SVG polyline.

    ``points`` has shape (n, 2), and its coordinates are between 0 and 1.
    """
    return " ".join(f"{round(CURVE_SIZE * x, 2):g},{round(CURVE_SIZE * (1.0 - y), 2):g}" for x, y in points)


def methods(results: Sequence[Result], family_confidence: float, audits: int | None = None) -> str:
    """Return LaTeX paragraphs for the methods section of a paper, followed by the BibTeX entries that they cite.

    The paragraphs describe how the results were obtained. ``family_confidence`` and ``audits`` are explained in
    `epsaudit.tools.reporting.tables.caption`. Raises `AuditError` if there are no results.
    """
    if not results:
        raise AuditError("There are no results to describe; give at least one.")
    environment = template_environment(**DELIMITERS)
    environment.filters |= {"latex": latex, "span": _format_range, "kind": lambda claim: type(claim).__name__}
    fixed = [result for result in results if isinstance(result, AuditResult)]
    games: list[Any] = [result for result in fixed if isinstance(result.certificate, MembershipGame)]
    events = [(result.witness.guess_x, result.witness.guess_x_prime) for result in fixed]
    learned = [
        any(isinstance(getattr(event, "feature", None), AdditiveModel | Tree) for event in both) for both in events
    ]
    shares = {game.certificate.share for game in games if game.claim.claimed_point and game.point[1] > 0.0}
    others = [
        [result for result in results if type(result) is kind]
        for kind in (SequentialResult, OneRunResult, HoldoutResult, ManyRunsResult)
    ]
    text = environment.get_template("methods.tex").render(
        fixed=fixed,
        games=games,
        boxes=[result for result in fixed if isinstance(result.certificate, Box)],
        learned=sum(learned),
        shares=[f"{100 * share:g}%" for share in sorted(shares)],
        others=sorted(filter(None, others), key=lambda found: results.index(found[0])),
        family=family_confidence,
        audits=max(audits or 0, len(results)),
        symbols=SYMBOLS,
        names=lambda found: ", ".join(_latex_code(result.mechanism) for result in found),
        tool=lambda found: rf"epsaudit~{latex(_common_value(found, 'epsaudit'))}~\cite{{epsaudit}}",
        claims=_describe_claims,
        made_by=_describe_software,
    )
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split(r"\par") if paragraph.strip()]
    cited = [key for found in re.findall(r"\\cite\{([^}]*)\}", text) for key in found.split(",")]
    entries = files("epsaudit.tools.reporting").joinpath("references.bib").read_text(encoding="utf-8")
    known = {entry.partition("{")[2].partition(",")[0]: entry.strip() for entry in re.split(r"\n(?=@)", entries)}
    addresses = [line.partition(", ")[2] for line in metadata("epsaudit").get_all("Project-URL") or ()]
    url = "".join(f",\n  howpublished = {{\\url{{{address}}}}}" for address in addresses[:1])
    known["epsaudit"] = OWN_ENTRY % (version("epsaudit"), url)
    return "\n\n".join([*paragraphs, *(known[key] for key in dict.fromkeys(cited))]) + "\n"


def _describe_claims(results: Sequence[Result]) -> str:
    """Return LaTeX text that names the privacy definitions of the claims, with their numbers and with citations.

    An example, without its citations, is '3 of pure DP and 1 of zCDP'.
    """
    kinds = Counter((privacy_definition(result), type(result.claim).__name__) for result in results)
    said = [
        ("" if len(results) == 1 else f"{number} of ")
        + latex(kind)
        + (rf"~\cite{{{DEFINITIONS[name]}}}" if name in DEFINITIONS else "")
        for (kind, name), number in kinds.most_common()
    ]
    return ", ".join(said[:-1]) + (" and " if len(said) > 1 else "") + said[-1]


def _describe_software(results: Sequence[Result]) -> str:
    """Return LaTeX text with the versions of Python and of the libraries, and the git commit.

    If the code had changes that were not committed, the text says so.
    """
    labels = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy"}
    known = {label: _common_value(results, name) for name, label in labels.items()}
    libraries = ", ".join(f"{label}~{latex(said)}" for label, said in known.items() if said != "unknown")
    if (commit := _common_value(results, "commit")) == "unknown":
        return libraries
    said = "several commits" if commit == SEVERAL else f"commit {_latex_code(commit.removesuffix('-dirty'))}"
    if any(result.provenance.get("commit", "").endswith("-dirty") for result in results):
        said += ", with changes beyond the commit"
    return "; ".join(filter(None, [libraries, said]))


def _latex_code(text: str) -> str:
    """Return LaTeX code that sets the text in a typewriter font."""
    return rf"\texttt{{{latex(text)}}}"


def _common_value(results: Sequence[Result], name: str) -> str:
    """Return the provenance value ``name`` (such as 'numpy') if all results share it, else 'several versions'."""
    values = {result.provenance.get(name, "unknown") for result in results}
    return values.pop() if len(values) == 1 else SEVERAL


def _format_range(numbers: Iterable[int]) -> str:
    """Return the smallest and the largest number as text, such as '100 to 1,000'; a single number if they are equal."""
    low, *_, high = sorted(numbers) * 2
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

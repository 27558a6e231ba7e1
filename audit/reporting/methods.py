r"""The methods paragraphs of a paper in LaTeX, with the BibTeX entries that they ``\cite``.

Nothing is said that the results do not show, so that other results give other words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import metadata, version
from importlib.resources import files
from typing import Any

import jinja2

from epsaudit.audits.one_run import OneRunResult
from epsaudit.audits.sequential import SequentialResult
from epsaudit.certificates import Box, MembershipGame
from epsaudit.errors import AuditError
from epsaudit.reporting.tables import kind_of
from epsaudit.results.result import AuditResult, Result
from epsaudit.text import SYMBOLS, latex, lower, percent
from epsaudit.witnesses.events import Additive, Tree

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
"""Of the template, as LaTeX has braces of its own."""
OWN = r"""@misc{epsaudit,
  author = {{The epsaudit founders}},
  title = {epsaudit: Empirical Privacy Auditing with Certified Lower Bounds},
  note = {Version %s},
  year = {2026}%s
}"""


def methods(results: Sequence[Result], family_confidence: float) -> str:
    """Return the paragraphs and the BibTeX entries that they cite, in this order; `AuditError` without results.

    The paragraphs are written by ``templates/methods.tex``.
    """
    if not results:
        raise AuditError("There are no results to describe.")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsaudit.reporting"),
        undefined=jinja2.StrictUndefined,
        **DELIMITERS,
    )
    environment.filters |= {"latex": latex, "lower": lower, "percent": percent, "span": _span}
    environment.filters["kind"] = lambda claim: type(claim).__name__
    fixed = [result for result in results if isinstance(result, AuditResult)]
    games = [result for result in fixed if isinstance(result.certificate, MembershipGame)]
    events = [(result.witness.guess_x, result.witness.guess_x_prime) for result in fixed]
    learned = [any(isinstance(getattr(event, "feature", None), Additive | Tree) for event in both) for both in events]
    shares = {
        result.certificate.share
        for result in fixed
        if isinstance(result.certificate, MembershipGame) and result.claim.claimed_point and result.point[1] > 0.0
    }
    others = [[result for result in results if isinstance(result, kind)] for kind in (SequentialResult, OneRunResult)]
    text = environment.get_template("methods.tex").render(
        fixed=fixed,
        games=games,
        boxes=[result for result in fixed if isinstance(result.certificate, Box)],
        learned=sum(learned),
        shares=[f"{100 * share:g}%" for share in sorted(shares)],
        others=sorted(filter(None, others), key=lambda found: results.index(found[0])),
        family=family_confidence,
        symbols=SYMBOLS,
        names=lambda found: ", ".join(_code(result.mechanism) for result in found),
        tool=lambda found: rf"epsaudit~{latex(_only(found, 'epsaudit'))}~\cite{{epsaudit}}",
        claims=_claims,
        made_by=_made_by,
    )
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split(r"\par") if paragraph.strip()]
    cited = [key for found in re.findall(r"\\cite\{([^}]*)\}", text) for key in found.split(",")]
    entries = files("epsaudit.reporting").joinpath("references.bib").read_text(encoding="utf-8")
    known = {entry.partition("{")[2].partition(",")[0]: entry.strip() for entry in re.split(r"\n(?=@)", entries)}
    addresses = [line.partition(", ")[2] for line in metadata("epsaudit").get_all("Project-URL") or ()]
    url = "".join(f",\n  howpublished = {{\\url{{{address}}}}}" for address in addresses[:1])
    known["epsaudit"] = OWN % (version("epsaudit"), url)
    return "\n\n".join([*paragraphs, *(known[key] for key in dict.fromkeys(cited))]) + "\n"


def _claims(results: Sequence[Result]) -> str:
    kinds = Counter((kind_of(result), type(result.claim).__name__) for result in results)
    said = [
        ("" if len(results) == 1 else f"{number} of ")
        + latex(kind)
        + (rf"~\cite{{{DEFINITIONS[name]}}}" if name in DEFINITIONS else "")
        for (kind, name), number in kinds.most_common()
    ]
    return ", ".join(said[:-1]) + (" and " if len(said) > 1 else "") + said[-1]


def _made_by(results: Sequence[Result]) -> str:
    """Name libraries and commit, and in words what differed from it: a reader of the paper does not have that."""
    labels = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy"}
    known = {label: _only(results, name) for name, label in labels.items()}
    libraries = ", ".join(f"{label}~{latex(said)}" for label, said in known.items() if said != "unknown")
    commit = _only(results, "commit")
    if commit == "unknown":
        return libraries
    said = "several commits" if commit == SEVERAL else f"commit {_code(commit.removesuffix('-dirty'))}"
    if any(result.provenance.get("commit", "").endswith("-dirty") for result in results):
        changed = _only(results, "modified").split(", ")
        more = f" and {len(changed) - 3} more files" if len(changed) > 3 else ""
        what = f"to {', '.join(map(_code, changed[:3]))}{more}"
        unknown = changed[0] in ("unknown", SEVERAL)
        said += f", with changes {'beyond the commit that are not recorded' if unknown else what}"
    return "; ".join(filter(None, [libraries, said]))


def _code(text: str) -> str:
    return rf"\texttt{{{latex(text)}}}"


def _only(results: Sequence[Result], name: str) -> str:
    values = {result.provenance.get(name, "unknown") for result in results}
    return values.pop() if len(values) == 1 else SEVERAL


def _span(numbers: Iterable[int]) -> str:
    low, *_, high = sorted(numbers) * 2
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

"""A page on one audit of a release with a holdout, for readers who decide about a release and know no statistics.

It stands beside the page of results because its readers differ: it says in words and odds what was certified, what
that means, and what it cannot show.
"""

from __future__ import annotations

import shlex
from importlib.metadata import version

from scipy.special import expit

from epsaudit.audits.holdout import HoldoutResult
from epsaudit.claims.definitions import PureDP
from epsaudit.text import SYMBOLS, nearest, visible
from epsaudit.tools.reporting.templating import embedded, template_environment

ODDS_TABLE = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 4.0)
"""Values of epsilon that the page explains by the share of right guesses."""


def render_holdout(result: HoldoutResult, file: str = "holdout.json") -> str:
    """Return an HTML page that explains the result of a holdout audit to readers without statistics.

    ``file`` is the name of the result file; the page quotes a command that verifies this file.
    """
    environment = template_environment(autoescape=True)
    environment.filters |= {"plain": nearest, "visible": visible, "grouped": "{:,}".format}
    css, css_hash = embedded("report.css")
    best = result.best
    # with a delta, more guesses may be right than epsilon alone allows
    is_pure = isinstance(result.claim, PureDP) and result.adjacency == "substitution"
    page: str = environment.get_template("holdout.html").render(
        result=result,
        symbol=SYMBOLS[result.claim.symbol],
        leaks=result.lower_bound > 0.0,
        hundred=round(100 * result.accuracy) if best.guesses else None,
        share=best.guesses / result.pairs,
        odds=[(one, 100 * float(expit(one))) for one in ODDS_TABLE],
        certified=100 * float(expit(result.lower_bound)) if is_pure and result.lower_bound > 0.0 else None,
        verify=shlex.join(["epsaudit", "verify", file]),
        version=version("epsaudit"),
        css=css,
        css_hash=css_hash,
    )
    return page

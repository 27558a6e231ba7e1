"""How a result looks in a notebook: a small table of HTML with what it prints, every word of it escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

from epsaudit.reporting.escaping import visible

COLOURS = {"consistent": "#0072B2", "violated": "#D55E00"}


def render(sentence: str, lines: Sequence[tuple[str, str]], verdict: str) -> str:
    """Write a sentence and labelled lines below it as HTML that runs and loads nothing.

    Examples
    --------
    >>> print(render("<b>: 1-DP claimed.", [("seed", "3")], "consistent"))
    <div style="border-left: 4px solid #0072B2; padding-left: 0.8em">
    <p>&lt;b&gt;: 1-DP claimed.</p>
    <table>
    <tr><th scope="row" style="text-align: left">seed</th><td style="text-align: left">3</td></tr>
    </table>
    </div>
    """
    left = 'style="text-align: left"'
    return "\n".join(
        [
            f'<div style="border-left: 4px solid {COLOURS[verdict]}; padding-left: 0.8em">',
            f"<p>{_escaped(sentence)}</p>",
            "<table>",
            *(f'<tr><th scope="row" {left}>{_escaped(a)}</th><td {left}>{_escaped(b)}</td></tr>' for a, b in lines),
            "</table>",
            "</div>",
        ]
    )


def _escaped(text: str) -> str:
    return html.escape(visible(text))

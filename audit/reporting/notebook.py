"""How a result looks in a notebook: a small table of HTML made of what it prints, every word of it escaped."""

from __future__ import annotations

import html
import re

from epsaudit.reporting.escaping import visible

COLOURS = {"consistent": "#0072B2", "violated": "#D55E00"}
_LINE = re.compile(r"  (?P<label>\S+) {2,}(?P<text>.*)")


def render(printed: str, verdict: str) -> str:
    """Write a printed result, a sentence and labelled lines below it, as HTML that runs and loads nothing.

    Examples
    --------
    >>> print(render("<b>: 1-DP claimed.\\n  seed       3", "consistent"))
    <div style="border-left: 4px solid #0072B2; padding-left: 0.8em">
    <p>&lt;b&gt;: 1-DP claimed.</p>
    <table>
    <tr><th scope="row" style="text-align: left">seed</th><td style="text-align: left">3</td></tr>
    </table>
    </div>
    """
    sentence, rows = [], []
    for line in printed.split("\n"):
        labelled = _LINE.fullmatch(line)
        if labelled is None:
            sentence.append(line)
        else:
            rows.append(labelled.group("label", "text"))
    left = 'style="text-align: left"'
    return "\n".join(
        [
            f'<div style="border-left: 4px solid {COLOURS[verdict]}; padding-left: 0.8em">',
            f"<p>{_escaped(' '.join(sentence))}</p>",
            "<table>",
            *(f'<tr><th scope="row" {left}>{_escaped(a)}</th><td {left}>{_escaped(b)}</td></tr>' for a, b in rows),
            "</table>",
            "</div>",
        ]
    )


def _escaped(text: str) -> str:
    return html.escape(visible(text))

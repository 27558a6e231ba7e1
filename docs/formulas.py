"""Convert the formulas of pages into MathML, which browsers display without a script.

Browsers do not break lines inside a formula. Long formulas are therefore converted in pieces, between which a line may
end: after relations, after plus and minus signs and after commas, but never inside brackets or arguments of commands.
On a wide screen the pieces stand on one line, like one formula.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\S", re.DOTALL)
OPENING = {"{", "(", "[", r"\{", r"\left", r"\begin", r"\lVert", r"\lceil", r"\lfloor"}
CLOSING = {"}", ")", "]", r"\}", r"\right", r"\end", r"\rVert", r"\rceil", r"\rfloor"}
BARS = {"|", r"\|", r"\Vert"}
RELATIONS = {"=", "<", ">", r"\le", r"\ge", r"\ne", r"\approx", r"\in", r"\notin", r"\sim", r"\to", r"\mapsto"} | {
    *(r"\subseteq", r"\propto", r"\preceq", r"\succeq"),
}
WIDE_SPACES = {r"\quad", r"\qquad"}
SIGNS = {"+", "-", ",", ";"}
MOST_TOKENS = 20
"""Number of visible symbols up to which a formula fits on a line of a phone and is not divided."""


def replace_formulas(content: str) -> str:
    """Convert all formulas in the HTML of a page, and keep punctuation on the line of the formula before it."""
    content = FORMULA.sub(lambda match: to_mathml(html.unescape(match[2]), block=match[1] == "div"), content)
    return re.sub(r"(<math[^>]*>(?:(?!</math>).)*</math>)([.,;:)\]]+)", r'<span class="nowrap">\1\2</span>', content)


def to_mathml(source: str, block: bool = False) -> str:
    """Return the MathML of one LaTeX formula, in pieces if it is long.

    The parts of a block that wide spaces separate get lines of their own before they are broken themselves.
    """
    if not block:
        return "".join(_convert(piece) for piece in pieces(source))
    parts = [""]
    for piece in pieces(source):
        if piece.strip() in WIDE_SPACES:
            parts.append("")
        else:
            parts[-1] += _convert(piece, block=True)
    return f'<div class="formula">{"".join(f"<span>{part}</span>" for part in parts)}</div>'


def pieces(source: str) -> list[str]:
    r"""Divide a LaTeX formula into pieces between which a line may end.

    Examples
    --------
    >>> pieces(r"a \le b")
    ['a \\le b']
    >>> pieces(r"W = 1 + \lambda (a + b + c + d) - \sum_{i = 1}^n x_i, \qquad -1 \le x < 1")
    ['W =', ' 1 +', ' \\lambda (a + b + c + d) -', ' \\sum_{i = 1}^n x_i,', '\\qquad', ' -1 \\le', ' x <', ' 1']
    """
    if sum(token not in {"{", "}", "^", "_"} for token in TOKEN.findall(source)) <= MOST_TOKENS:
        return [source]
    ends = [0, *_ends(source), len(source)]
    return [source[start:end] for start, end in itertools.pairwise(ends) if source[start:end].strip()]


def _ends(source: str) -> Iterator[int]:
    """Yield the positions in a formula at which a piece ends."""
    depth, bars, previous = 0, set[str](), ""
    for match in TOKEN.finditer(source):
        token = match[0]
        if previous not in {r"\left", r"\right"}:  # these are counted, and not the bracket after them
            depth += (token in OPENING) - (token in CLOSING)
        if token in BARS and depth == 0:  # a bar inside brackets may stand alone, as in a divergence
            bars ^= {token}
        sign = token in SIGNS and previous not in {"", *WIDE_SPACES, *RELATIONS, *SIGNS, *OPENING}
        if depth == 0 and not bars and previous not in {"^", "_"}:
            if token in WIDE_SPACES:
                yield match.start()
            if token in RELATIONS | WIDE_SPACES or sign:
                yield match.end()
        previous = token


def _convert(source: str, block: bool = False) -> str:
    r"""Return the MathML of a formula or a piece, as an inline element in the style of its kind.

    Brackets of a fixed size become brackets of the size of their content, because the converter would apply an exponent
    to the closing bracket alone. A prime is written as a character and not as a superscript. The character is raised
    already, and fonts that are not designed for formulas would raise a superscript prime too far.
    """
    source = re.sub(r"\\[bB]ig(?:g?)([lr])\b", lambda match: rf"\{'left' if match[1] == 'l' else 'right'}", source)
    source = re.sub(r"(\\[A-Za-z]+|[A-Za-z])'", r"{\1′}", source)
    formula = convert(source, display="block" if block else "inline")
    formula = formula.replace('display="block"', 'display="inline" displaystyle="true"', 1)
    return re.sub(r"<mi>(&#x02032;|′)</mi>|<mo>(&#x02032;|′)</mo>", '<mo lspace="0" rspace="0">′</mo>', formula)

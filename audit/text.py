"""Text in reports: numbers are rounded so that no bound is overstated, and untrusted text is escaped."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

SYMBOLS = {"epsilon": "ε", "rho": "ρ", "mu": "µ", "advantage": "advantage"}  # the parameters of claims in reports
COLOURS = {"consistent": "#0072B2", "violated": "#D55E00"}

_SIGNED_NUMBER = re.compile(r"[-+](\d+\.?\d*([eE][-+]?\d+)?|inf|nan)")
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "µ": "mu", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho",
    "σ": "sigma", "τ": "tau", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip
_LATEX = {letter: rf"$\{name}$" for letter, name in _GREEK.items()} | {
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "<": r"$<$", ">": r"$>$", "|": r"$|$", "′": r"$'$", "≤": r"$\le$", "≥": r"$\ge$",
    "·": r"$\cdot$", "×": r"$\times$", "∞": r"$\infty$",
}  # fmt: skip
_MARKDOWN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {character: f"\\{character}" for character in "\\`*_[]|!~$"}
)


def lower(value: float, digits: int = 4) -> str:
    """Format a lower bound with ``digits`` significant digits, rounded towards minus infinity.

    >>> lower(0.99999), lower(2.0), lower(0.0)
    ('0.9999', '2.000', '0')
    """
    return _round_digits(value, digits, ROUND_FLOOR)


def upper(value: float, digits: int = 4) -> str:
    """Format an upper bound with ``digits`` significant digits, rounded towards plus infinity."""
    return _round_digits(value, digits, ROUND_CEILING)


def nearest(value: float | None, digits: int = 4) -> str:
    """Format a value that is not a bound: ``digits`` significant digits, rounded to nearest; '-' for None."""
    return "-" if value is None else f"{value:.{digits}g}"


def percent(fraction: float) -> str:
    """Format a confidence as a percentage, rounded down, with enough digits that it is not shown as 100%.

    >>> percent(0.95), percent(1 - 0.05 / 40)
    ('95%', '99.87%')
    """
    exact = Decimal(repr(round(fraction * 100, 9)))
    digits = max(0, 1 - (100 - exact).adjusted())
    return f"{exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR).normalize():f}%"


def count(number: int) -> str:
    """Format a number of runs without rounding it.

    A multiple of a thousand, a million or a billion gets a suffix if it is at least ten thousand. For example, 20000
    becomes '20k'.
    """
    for size, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= 10_000 and number % size == 0:
            return f"{number // size:,}{suffix}"
    return f"{number:,}"


def _round_digits(value: float, digits: int, rounding: str) -> str:
    if value == 0.0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    number = Context(prec=digits, rounding=rounding).create_decimal(repr(value))
    number = number.quantize(Decimal(1).scaleb(number.adjusted() - digits + 1))
    return f"{number:f}" if -4 <= number.adjusted() < digits else f"{number:.{digits - 1}e}"


def visible(text: str) -> str:
    """Replace control, format, surrogate and private-use characters by their code points, such as '[U+202E]'.

    They are invisible, reorder text, or have no standard glyph. Line breaks and tabs are replaced by spaces.
    """
    spaces = text.replace("\r\n", " ").translate({9: " ", 10: " ", 13: " "})
    return "".join(f"[U+{ord(c):04X}]" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") else c for c in spaces)


def latex(text: str) -> str:
    r"""Escape text for LaTeX; a character that pdflatex cannot print without packages becomes its code point."""
    found = []
    for c in visible(text):
        known = c.isascii() or (c.isalpha() and ord(c) < 0x180)
        simple = c if known else unicodedata.normalize("NFKD", c)
        known |= simple.isascii() and simple.isalnum()
        found.append(_LATEX.get(c) or (simple if known else f"[U+{ord(c):04X}]"))
    return "".join(found).replace("--", "-{}-")  # LaTeX would print one long dash for two hyphens


def markdown(text: str) -> str:
    r"""Escape text for a cell of a Markdown table, so that it contains neither Markdown nor HTML."""
    return visible(text).translate(_MARKDOWN)


def csv_cell(value: object) -> object:
    """Return a value for a cell of a CSV file.

    If a spreadsheet would run a text as a formula, an apostrophe is put before it.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(tuple("=+-@|\t\n")) and not _SIGNED_NUMBER.fullmatch(text) else text


def notebook(sentence: str, lines: Sequence[tuple[str, str]], verdict: str) -> str:
    """Return a sentence, and the labelled lines below it, as HTML for notebooks.

    All text is escaped, so the HTML contains no scripts and loads nothing. The border has the colour of the
    ``verdict``.
    """
    sentence, *cells = (html.escape(visible(part)) for part in (sentence, *(part for line in lines for part in line)))
    left = 'style="text-align: left"'
    rows = "".join(
        f'<tr><th scope="row" {left}>{label}</th><td {left}>{text}</td></tr>\n'
        for label, text in zip(cells[::2], cells[1::2], strict=True)
    )
    border = f"border-left: 4px solid {COLOURS[verdict]}; padding-left: 0.8em"
    return f'<div style="{border}">\n<p>{sentence}</p>\n<table>\n{rows}</table>\n</div>'

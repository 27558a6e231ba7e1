"""Escaping of untrusted text in the three formats of tables; the HTML page escapes by its template.

Any string becomes a safe cell of LaTeX, Markdown or CSV. What could reorder letters or hide them is written as its code
point.
"""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"[-+](\d+\.?\d*([eE][-+]?\d+)?|inf|nan)")
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "µ": "mu", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho",
    "σ": "sigma", "τ": "tau", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip
_LATEX = {letter: rf"$\{name}$" for letter, name in _GREEK.items()} | {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "′": r"$'$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
}


def visible(text: str) -> str:
    """Write control characters, and those that order text anew or have no width, as their code points.

    Examples
    --------
    >>> visible("safe\\u202eevil\\n")
    'safe[U+202E]evil '
    """
    spaces = text.replace("\r\n", " ").translate({9: " ", 10: " ", 13: " "})
    return "".join(f"[U+{ord(c):04X}]" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") else c for c in spaces)


def latex(text: str) -> str:
    r"""Escape text for LaTeX; letters that pdflatex does not know by itself become code points.

    Examples
    --------
    >>> latex("50% of x_1 & {y}")
    '50\\% of x\\_1 \\& \\{y\\}'
    """
    return "".join(_latex(character) for character in visible(text)).replace("--", "-{}-")  # no ligature


def markdown(text: str) -> str:
    r"""Escape text for a cell of a Markdown table, HTML included.

    Examples
    --------
    >>> markdown("a|b <script> *c*")
    'a\\|b &lt;script&gt; \\*c\\*'
    """
    escaped = visible(text).replace("&", "&amp;")
    for character in "\\`*_[]|!~$":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped.replace("<", "&lt;").replace(">", "&gt;")


def csv_cell(value: object) -> object:
    """Keep text from being taken for a formula by a spreadsheet: an apostrophe before = + - @ | and white space.

    Numbers, also those written as text, are left as they are; line ends are written as one character.

    Examples
    --------
    >>> csv_cell("=1+1"), csv_cell("-3.5"), csv_cell(-3.5), csv_cell("laplace")
    ("'=1+1", '-3.5', -3.5, 'laplace')
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    if not text.startswith(tuple("=+-@|\t\n")) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"


def _latex(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if character.isascii() or (character.isalpha() and ord(character) < 0x180):  # what pdflatex's utf8 knows
        return character
    plain = unicodedata.normalize("NFKD", character)
    return plain if plain.isascii() and plain.isalnum() else f"[U+{ord(character):04X}]"

"""Numbers as reports print them: a certified lower bound is never rounded up, an upper one never down.

Floats become short decimal strings; every table and sentence of the package uses these.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

SYMBOLS = {"epsilon": "ε", "rho": "ρ", "mu": "µ"}
"""How reports write the parameters of claims."""


def lower(value: float, digits: int = 4) -> str:
    """Format a lower bound with ``digits`` significant digits, rounded towards minus infinity.

    Examples
    --------
    >>> lower(0.99999), lower(2.0), lower(0.0)
    ('0.9999', '2.000', '0')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def upper(value: float, digits: int = 4) -> str:
    """Format an upper bound, rounded towards plus infinity.

    Examples
    --------
    >>> upper(1.00001), upper(1e-7)
    ('1.001', '1.000e-7')
    """
    return _rounded(value, digits, ROUND_CEILING)


def plain(value: float | None, digits: int = 4) -> str:
    """Format a value that is neither bound, to nearest; '-' for None.

    Examples
    --------
    >>> plain(0.26805112), plain(None), plain(math.inf)
    ('0.2681', '-', 'inf')
    """
    return "-" if value is None else f"{value:.{digits}g}"


def percent(fraction: float) -> str:
    """Format a confidence as a percentage with enough digits to tell it from 100, rounded down.

    Examples
    --------
    >>> percent(0.95), percent(1 - 0.05 / 40)
    ('95%', '99.87%')
    """
    exact = Decimal(repr(round(fraction * 100, 9)))
    digits = max(0, 1 - (100 - exact).adjusted())
    return f"{exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR).normalize():f}%"


def count(number: int) -> str:
    """Format a number of runs: exact below ten thousand, then with a suffix when it is round.

    Examples
    --------
    >>> count(9500), count(1_000_000), count(123_456)
    ('9,500', '1M', '123,456')
    """
    for size, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= 10_000 and number % size == 0:
            return f"{number // size:,}{suffix}"
    return f"{number:,}"


def _rounded(value: float, digits: int, rounding: str) -> str:
    if value == 0.0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    number = Context(prec=digits, rounding=rounding).create_decimal(repr(value))
    number = number.quantize(Decimal(1).scaleb(number.adjusted() - digits + 1))
    return f"{number:f}" if -4 <= number.adjusted() < digits else f"{number:.{digits - 1}e}"

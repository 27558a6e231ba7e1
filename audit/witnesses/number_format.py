"""How numbers are printed in events: with few digits, but different numbers differently."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from epsaudit.outputs.formatting import MAX_EXACT_INTEGER

N_PRINTED_DIGITS = 6
"""[chosen] Number of significant digits of a printed number."""
MAX_PRINTED_DIGITS = 17
"""[formula] Number of significant digits with which all doubles are printed differently."""


def format_number(number: float, digits: int = N_PRINTED_DIGITS) -> str:
    """Return a number as text with ``digits`` significant digits.

    A whole number that would be changed by this rounding is written in full.

    >>> format_number(0.1 + 0.2), format_number(1234567.0), format_number(1e15), format_number(1234567.8)
    ('0.3', '1234567', '1e+15', '1.23457e+06')
    """
    number = float(number)
    whole = number.is_integer() and abs(number) <= MAX_EXACT_INTEGER
    text = f"{number:.{digits}g}"
    return f"{number:.0f}" if whole and float(text) != number else text


def find_distinguishing_digits(numbers: Iterable[float]) -> int:
    """Return the smallest number of significant digits with which all distinct numbers are printed differently.

    The result is at least `N_PRINTED_DIGITS`.

    >>> find_distinguishing_digits([1.0, 2.0]), find_distinguishing_digits([1.0, 1.0 + 1e-9, float("inf")])
    (6, 10)
    """
    different = {float(number) for number in numbers if number == number}  # NaN is always printed as nan
    enough = (
        digits for digits in range(N_PRINTED_DIGITS, MAX_PRINTED_DIGITS) if are_distinguishable(different, digits)
    )
    return next(enough, MAX_PRINTED_DIGITS)


def are_distinguishable(different: Collection[float], digits: int) -> bool:
    """Return whether distinct numbers are printed differently with this number of significant digits."""
    return len({format_number(number, digits) for number in different}) == len(different)

"""DOC"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from epsaudit.outputs.normal_form import (
    WHOLE_IN_FLOATS,
)

N_PRINTED_DIGITS = 6
"""[chosen] Significant digits of a printed number, and those with which all doubles print differently [formula]."""
MAX_PRINTED_DIGITS = 17
"""[chosen] Significant digits of a printed number, and those with which all doubles print differently [formula]."""


def format_number(number: float, digits: int = N_PRINTED_DIGITS) -> str:
    """Write a number in so many significant digits, a whole number that would lose some of its own in full.

    >>> format_number(0.1 + 0.2), format_number(1234567.0), format_number(1e15), format_number(1234567.8)
    ('0.3', '1234567', '1e+15', '1.23457e+06')
    """
    number = float(number)
    whole = number.is_integer() and abs(number) <= WHOLE_IN_FLOATS
    text = f"{number:.{digits}g}"
    return f"{number:.0f}" if whole and float(text) != number else text


def find_distinguishing_digits(numbers: Iterable[float]) -> int:
    """Return the fewest significant digits, `N_PRINTED_DIGITS` or more, in which numbers that differ print differently.

    >>> find_distinguishing_digits([1.0, 2.0]), find_distinguishing_digits([1.0, 1.0 + 1e-9, math.inf])
    (6, 10)
    """
    different = {float(number) for number in numbers if number == number}  # NaN prints as it is
    enough = (
        digits for digits in range(N_PRINTED_DIGITS, MAX_PRINTED_DIGITS) if are_distinguishable(different, digits)
    )
    return next(enough, MAX_PRINTED_DIGITS)


def are_distinguishable(different: Collection[float], digits: int) -> bool:
    """Whether different numbers print differently in so many digits."""
    return len({format_number(number, digits) for number in different}) == len(different)

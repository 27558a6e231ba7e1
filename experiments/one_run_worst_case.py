"""The worst mechanism for a set of guesses, by linear programming: the reference for the bounds of one-run audits.

From a claim, given by points of its privacy profile, and the counts that a test rejects, the module computes the
largest probability of a rejection over all mechanisms that satisfy the claim. The result is exact, but can be computed
only for a few hundred guesses. It is the reference for the bounds of `epsaudit.audits.one_run`.

**Why a small program is enough.** Three changes turn a mechanism that satisfies the claim into another one with the
same probability of each number of correct guesses: flipping the coins and the guesses of some canaries together,
renumbering the canaries, and averaging over all such changes. After averaging, the probability of an output given the
coins depends only on the number r of guesses and on the number k of wrong guesses among them. Let p(r, k) be the
probability of these two numbers. The hockey-stick divergence at epsilon between the outputs with a canary included and
with it excluded is

    (1/m) sum over r, k of   [(r - k) p(r, k) - e^epsilon (k + 1) p(r, k + 1)]+
                           + [k p(r, k) - e^epsilon (r - k + 1) p(r, k - 1)]+

and must be at most delta(epsilon). This is linear in p, with one additional variable for each positive part.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from scipy.optimize import linprog
from scipy.sparse import coo_array

from epsaudit.errors import AuditError


def worst_case(canaries: int, rejected: Mapping[int, Collection[int]], points: Sequence[tuple[float, float]]) -> float:
    """Return the largest probability of rejected counts over all mechanisms that satisfy a claim.

    Parameters
    ----------
    canaries : int
        Number m of canaries.
    rejected : mapping of int to collection of int
        For every number of guesses that the output may decide on, the numbers of correct guesses that are rejected.
    points : sequence of (float, float)
        Points (epsilon, delta) of the claim's privacy profile; a single point for (epsilon, delta)-DP. Finitely many
        points of a curve allow slightly more mechanisms than the curve itself.

    Returns
    -------
    float
        The probability, exact to about 1e-7.

    Raises
    ------
    AuditError
        If the solver finds no solution.

    Examples
    --------
    Pure DP: two guesses are both correct with probability q^2, where q = e / (1 + e).

    >>> round(worst_case(2, {2: [2]}, [(1.0, 0.0)]), 6), round((1 / (1 + math.exp(-1.0))) ** 2, 6)
    (0.534447, 0.534447)
    """
    first: dict[int, int] = {}  # index of the variable p(r, 0)
    size = 0
    for guesses in sorted(rejected):
        first[guesses] = size
        size += guesses + 1
    masses = size
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    limits: list[float] = []

    def add(row: int, column: int, value: float) -> None:
        rows.append(row)
        columns.append(column)
        values.append(value)

    for epsilon, delta in points:
        odds, slacks = math.exp(epsilon), []
        for guesses, start in first.items():
            for wrong in range(guesses + 1):
                for weight, other, factor in (
                    (guesses - wrong, wrong + 1, wrong + 1),
                    (wrong, wrong - 1, guesses - wrong + 1),
                ):
                    if weight == 0:
                        continue
                    row = len(limits)
                    add(row, start + wrong, weight)
                    add(row, start + other, -odds * factor)
                    add(row, size, -1.0)
                    limits.append(0.0)
                    slacks.append(size)
                    size += 1
        for slack in slacks:
            add(len(limits), slack, 1.0)
        limits.append(canaries * delta)

    gain = [0.0] * size
    for guesses, start in first.items():
        for right in rejected[guesses]:
            gain[start + guesses - right] = -1.0
    solution = linprog(  # type: ignore[call-overload]  # sparse matrices are accepted
        gain,
        A_ub=coo_array((values, (rows, columns)), shape=(len(limits), size)),
        b_ub=limits,
        A_eq=coo_array(([1.0] * masses, ([0] * masses, list(range(masses)))), shape=(1, size)),
        b_eq=[1.0],
    )
    if solution.status != 0:
        raise AuditError(f"The linear program for {canaries} canaries was not solved: {solution.message}.")
    return -float(solution.fun)

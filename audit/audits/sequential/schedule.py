"""When a sequential audit runs, looks and remembers: numbers that follow from its budget and its pairs alone.

Takes the budget and the number of pairs; returns the sizes of rounds and of their chunks, and the moments of interim
looks. The audit follows them, and what a file says of rounds is checked against them: none was cut in hindsight.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

STRATEGIES = 2
"""A conservative strategy and an aggressive one; see `epsaudit.audits.sequential.learning`."""

FIRST_ROUND = 24
"""Runs of the first round for each pair, on which nothing is bet. Set by hand in the first round; no measurement is
recorded."""

MOST_REMEMBERED = 100_000
"""Runs of a pair after which the outputs of no further chunk are kept to learn from."""


def round_sizes(trials: int, pairs: int) -> Iterator[int]:
    """Yield the sizes of rounds: a few runs to begin with, then half as many again as all before.

    Examples
    --------
    >>> list(round_sizes(100, 1)), list(round_sizes(200, 3))
    ([24, 12, 18, 27, 19], [72, 36, 54, 38])
    """
    done = 0
    while done < trials:
        size = FIRST_ROUND * pairs if done == 0 else max(done // 2, 8)
        size = min(size, trials - done)
        if trials - done - size < 16:  # no round of a few runs at the end
            size = trials - done
        yield size
        done += size


def looked_at_each(size: int, pairs: int, first: bool) -> int:
    """Return how many runs of a round each pair gets that is not bet on: an even share of the first, else of a fifth.

    Examples
    --------
    >>> looked_at_each(72, 3, first=True), looked_at_each(300, 3, first=False), looked_at_each(300, 1, first=False)
    (24, 30, 0)
    """
    if pairs == 1:
        return 0
    return size // pairs if first else size // (5 * (pairs - 1))


def chunk_sizes(size: int) -> list[int]:
    """Return the sizes of the chunks of a round, after each of which the running bound is looked at.

    Examples
    --------
    >>> chunk_sizes(40), len(chunk_sizes(100_000))
    ([16, 16, 8], 16)
    """
    chunk = min(max(-(-size // 16), 16), 1 << 16)
    return [min(chunk, size - done) for done in range(0, size, chunk)]


def remembered(sizes: list[int], before: int) -> list[bool]:
    """Say of chunks of a pair which are kept to learn from, ``before`` of its runs being kept already; by sizes alone.

    Examples
    --------
    >>> remembered([60_000, 60_000, 60_000], before=0)
    [True, True, False]
    """
    ends = before + np.cumsum(sizes)
    return [bool(end - size < MOST_REMEMBERED) for end, size in zip(ends, sizes, strict=True)]


def looks(size: int, runs: int) -> NDArray[np.intp]:
    """Return after which runs of a chunk, ``runs`` before it, the evidence is looked at: the last is ``size``.

    After each run, or every thousandth of all so far.

    Examples
    --------
    >>> looks(5, runs=100).tolist(), looks(5, runs=2_500).tolist()
    ([1, 2, 3, 4, 5], [1, 3, 5])
    """
    return np.unique(np.append(np.arange(1, size + 1, max(1, runs // 1000)), size))

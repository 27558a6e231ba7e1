"""Result files for the study of plumbing: honest files verify, and `epsaudit verify` refuses forged ones.

A row counts "consistent" for each file that verifies and "refused" for each file that does not. Every forged file has
an honest twin, in which one field is changed; all fields that follow from the changed field are computed again, so that
the forgery is not given away by an inconsistency. The rows stand in a module of their own, because they audit files and
not functions.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from epsaudit import ApproxDP, PureDP, audit, audit_one_run, audit_scores, vectorized
from epsaudit.audits.one_run import Bonferroni, Threshold
from epsaudit.audits.verify import rebuild, recompute
from epsaudit.errors import AuditError

CANARIES = 1_000
Stored = dict[str, Any]


def scores_of(included: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return a score for each canary: its membership times 2, plus standard normal noise."""
    return 2.0 * included + rng.normal(size=len(included))


def one_run(guesses: Any, seed: int) -> Stored:
    """Audit one training run with a guessing rule, and return the stored result."""
    claim = ApproxDP(0.5, 1e-5)
    return audit_one_run(scores_of, CANARIES, claim=claim, guesses=guesses, seed=seed).to_dict()


def many_runs(seed: int) -> Stored:
    """Audit the scores of 300 runs with a canary and 200 runs without, and return the stored result."""
    rng = np.random.default_rng(seed)
    included = np.arange(500) < 300
    scores = included + rng.normal(size=500)
    return audit_scores(included, scores, runs=np.arange(500), claim=PureDP(0.5), seed=seed).to_dict()


def count(seed: int) -> Stored:
    """Audit a noisy count, and return the stored result."""
    mechanism = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0), name="count")
    return audit(mechanism, (0, 1), trials=5_000, seed=seed, n_jobs=1).to_dict()


def guessed(number: int) -> list[Stored]:
    """Return the counts of a rule that guesses ``number`` canaries and is right about all of them."""
    half = (number + 1) // 2
    names = ("guessed_in", "guessed_out", "correct_in", "correct_out")
    return [{"canaries": CANARIES, **dict(zip(names, (half, number - half) * 2, strict=True))}]


def with_counts(counts: list[Stored]) -> Callable[[Stored], Stored]:
    """Return a function that replaces the counts of a stored result."""
    return lambda stored: {**stored, "counts": counts}


def raised_tail(stored: Stored) -> Stored:
    """Replace the first count of a stored result by one that puts all 300 runs with the canary into the rarest tail."""
    counts = copy.deepcopy(stored["counts"])
    counts[0]["likely"] = 300
    return {**stored, "counts": counts}


FORGED: dict[str, tuple[Callable[[int], Stored], Callable[[Stored], Stored]]] = {
    "20 of 1,000 guessed at a threshold": (lambda seed: one_run(Threshold(1.0), seed), with_counts(guessed(20))),
    "another number than planned": (lambda seed: one_run("planned", seed), with_counts(guessed(73))),
    "the best of several numbers alone": (lambda seed: one_run(Bonferroni(), seed), with_counts(guessed(50))),
    "one count of many runs raised": (many_runs, raised_tail),
    "a lower bound raised": (count, lambda stored: {**stored, "lower_bound": 2.0}),
}
"""For each forgery by name: a function that makes an honest result from a seed, and a function that forges the result.
"""


def holds(stored: Stored, recomputed: bool) -> bool:
    """Return whether a result verifies.

    If ``recomputed`` is true, the fields that follow from a changed field are computed again first.
    """
    try:
        return recompute(rebuild(json.loads(json.dumps(stored))).to_dict() if recomputed else stored).holds
    except AuditError:
        return False


def verdicts(seeds: range) -> Iterator[tuple[str, str, str, list[str]]]:
    """Verify each honest and each forged file.

    Yield its name, its kind, the word 'verify', and one verdict for each seed.

    The verdict is 'consistent' if the file verifies.
    """
    for name, (honest, forge) in FORGED.items():
        for kind, change in (("sound", lambda stored: stored), ("leaky", forge)):
            recomputed = name != "a lower bound raised"
            verified = [holds(change(honest(seed)), recomputed) for seed in seeds]
            said = ["consistent" if one else "not what an audit gives" for one in verified]
            yield f"file: {name}", kind, "verify", said

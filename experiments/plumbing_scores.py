"""Score files in awkward layouts for the study `plumbing`: shared coins, halved canaries, and damaged files.

Each case writes answers of randomised response in a layout of its own. The answers attain 1-DP if the scores are sound,
and 4-DP if they are leaky. A leaky set in which members score lower is reported as consistent, with a note that says
so. The study counts this note as a refusal, because a reader of the note does not take the claim for audited.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit import AuditError, audit_scores
from epsaudit.array_types import Bools
from epsaudit.tools.cli.score_files import read_scores

RUNS, CANARIES = 400, 20
"""Number of runs in a set with one canary, and number of canaries of a run with several. Both are large enough to
refute epsilon 4 at 99.99 %."""
REASONS = {
    "nothing says which canary": "rows of a run without canaries",
    "share their coins": "coins shared",
    "is twice in run": "rows repeated",
    "They were halved": "halved in place of coins",
    "fair coins produce such": "coins not fair",
    "Members score lower": "a note: members score lower",
    "np.indices": "a matrix: one row for each score",
    "has 1 dimension": "one dimension",
    "may be damaged": "damaged",
    "is cut off": "damaged",
    "has no rows": "no rows",
    "more than once": "a column twice",
}
Rng = np.random.Generator


def answers(coins: Bools, epsilon: float, rng: Rng) -> NDArray[np.float64]:
    """Return answers of randomised response to ``coins``, as 1 or -1, which attain epsilon-DP."""
    truth = rng.random(coins.shape) < 1.0 / (1.0 + math.exp(-epsilon))
    return np.where(coins == truth, 1.0, -1.0)


def many_runs(epsilon: float, rng: Rng) -> dict[str, Any]:
    """Return scores with one row per run, the usual layout for scores of one canary."""
    coins = rng.random(RUNS) < 0.5
    return {"included": coins, "scores": answers(coins, epsilon, rng), "runs": np.arange(RUNS)}


def several(coins: Bools, epsilon: float, rng: Rng) -> dict[str, Any]:
    """Return scores of several canaries per run, with one row for every combination of a run and a canary."""
    run, canary = np.indices(coins.shape).reshape(2, -1)
    scores = answers(coins, epsilon, rng).reshape(-1)
    return {"included": coins.reshape(-1), "scores": scores, "runs": run, "canaries": canary, "guesses": "signs"}


def repeated(epsilon: float, rng: Rng, rows: int, *names: str) -> dict[str, Any]:
    """Return scores in which every row is repeated, as in a file that covers several checkpoints.

    ``names`` selects the content of the column of canaries: 'row' numbers the copies, and 'one' gives all copies the
    same canary. Without a name there is no such column.
    """
    one = many_runs(epsilon, rng)
    given = {key: np.repeat(column, rows) for key, column in one.items()} | {"guesses": "signs"}
    columns = {"row": np.tile(np.arange(rows), RUNS), "one": np.zeros(RUNS * rows)}
    return given | ({"canaries": columns[names[0]]} if names else {})


def through_file(name: str, write: Callable[[Path], None]) -> dict[str, Any]:
    """Return the scores that `read_scores` reads from a file, which ``write`` creates at a temporary path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        found = read_scores(path)
    return {"included": found.included, "scores": found.score, "runs": found.run, "canaries": found.canary}


def fair(rng: Rng, runs: int = RUNS // CANARIES) -> Bools:
    """Return fair coins for several runs with several canaries each, shape (runs, canaries)."""
    return rng.random((runs, CANARIES)) < 0.5


def copied(rng: Rng) -> Bools:
    """Return coins in which every canary occurs twice, in neighbouring columns."""
    return np.repeat(rng.random((RUNS // CANARIES, CANARIES // 2)) < 0.5, 2, axis=1)


def halved(rng: Rng) -> Bools:
    """Return the membership matrix of shadow models, in which every canary is included in exactly half of the runs."""
    return np.argsort(rng.random((RUNS // CANARIES, CANARIES)), axis=0) < RUNS // CANARIES // 2


def turned(epsilon: float, rng: Rng) -> dict[str, Any]:
    """Return losses as scores; a loss is lower if the canary was included."""
    given = many_runs(epsilon, rng)
    return given | {"scores": -given["scores"]}


def matrix(epsilon: float, rng: Rng) -> dict[str, Any]:
    """Return the scores of an .npz file that holds matrices of runs by canaries."""
    coins = fair(rng)
    return through_file("s.npz", lambda path: np.savez(path, included=coins, score=answers(coins, epsilon, rng)))


def cut_off(epsilon: float, rng: Rng) -> dict[str, Any]:
    """Return the scores of an .npy file that ends before its last rows."""
    given = many_runs(epsilon, rng)

    def write(path: Path) -> None:
        np.save(path, np.stack([given["included"], given["scores"], given["runs"]], axis=1))
        path.write_bytes(path.read_bytes()[:-100])

    return through_file("s.npy", write)


def text_of(lines: str) -> Callable[[float, Rng], dict[str, Any]]:
    """Return a function that reads a .csv file with these lines."""
    return lambda epsilon, rng: through_file("s.csv", lambda path: path.write_text(lines) and None)


CASES: dict[str, Callable[[float, Rng], dict[str, Any]]] = {
    "scores: one row a run": many_runs,
    "scores: several canaries a run": lambda epsilon, rng: several(fair(rng), epsilon, rng),
    "scores: 5 rows a run, no canaries": lambda epsilon, rng: repeated(epsilon, rng, 5),
    "scores: 20 rows a run, no canaries": lambda epsilon, rng: repeated(epsilon, rng, 20),
    "scores: rows of a run called canaries": lambda epsilon, rng: repeated(epsilon, rng, 5, "row"),
    "scores: a file joined to itself": lambda epsilon, rng: repeated(epsilon, rng, 2, "one"),
    "scores: canaries that are there twice": lambda epsilon, rng: several(copied(rng), epsilon, rng),
    "scores: halves of shadow models": lambda epsilon, rng: several(halved(rng), epsilon, rng),
    "scores: members score lower": turned,
    "scores: matrices": matrix,
    "scores: a file cut off": cut_off,
    "scores: a header alone": text_of("included,score\n"),
    "scores: a column twice": text_of("included,score,score\n1,2,3\n0,2,1\n"),
}
"""Every layout by its name."""
EPSILONS = {"sound": 1.0, "leaky": 4.0}


def verdict(name: str, epsilon: float, confidence: float, seed: int) -> str:
    """Audit one set of scores against 1-DP.

    The result is 'violated', 'consistent', the message of a refusal, or the note that members score lower.
    """
    try:
        given = CASES[name](epsilon, np.random.default_rng(seed))
        result = audit_scores(**given, epsilon=1.0, confidence=confidence, seed=seed)
    except AuditError as error:
        return str(error)
    lower = [note for note in result.notes if note.startswith("Members score lower")]
    return lower[0] if lower else str(result.verdict)


def verdicts(seeds: range, confidence: float, quick: bool) -> Iterator[tuple[str, str, str, list[str]]]:
    """Audit every case with every seed; yield its name, its kind, the word 'scores', and the verdict of each audit.

    Examples
    --------
    >>> [one if one in ("violated", "consistent") else "refused" for *_, (one,) in verdicts(range(1), 0.9999, True)]
    ['consistent', 'consistent', 'refused', 'violated', 'violated', 'refused']
    """
    for kind, epsilon in EPSILONS.items():
        for name in list(CASES)[: 3 if quick else None]:
            yield name, kind, "scores", [verdict(name, epsilon, confidence, seed) for seed in seeds]

"""Every study of this repository, in the order in which `epsaudit experiment run all` runs them.

To add one, write a module with ``main(out: Path, seed: int = 0, quick: bool = False) -> str`` whose docstring says in
its first line what is measured, and list it.
"""

from __future__ import annotations

from epsaudit.experiments.studies import Study

NAMES = {
    "claims-that-do-not-survive": "published_claims",
    "private-ratio": "private_ratio",
    "inverse-accuracy": "inverse_accuracy",
    "down-sensitivity": "down_sensitivity",
    "covariance-mean": "covariance_mean",
    "curves": "curves",
    "validity": "validity",
    "power": "power",
    "sequential": "sequential",
    "one-run": "one_run",
    "conversions": "conversions",
    "composition": "composition",
    "interactive": "interactive",
    "shuffling": "shuffling",
    "shuffled-learning": "shuffled_learning",
    "groups": "groups",
    "plumbing": "plumbing",
    "black-boxes": "black_boxes",
    "library-bugs": "library_bugs",
    "hunts": "hunts",
}


def studies() -> list[Study]:
    """Return the studies.

    Examples
    --------
    >>> print(studies()[0].summary)
    Published statements that fail, audited or computed, beside what holds instead
    """
    return [Study(name, f"epsaudit.experiments.{module}") for name, module in NAMES.items()]

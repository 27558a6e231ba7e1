"""Every study of this repository, in the order in which `epsaudit experiment run all` runs them.

To add one, write a module with ``main(out: Path, seed: int = 0, quick: bool = False) -> str`` whose docstring says in
its first line what is measured, and list it.
"""

from __future__ import annotations

from epsaudit.experiments.studies import Study

STUDIES = (
    ("claims-that-do-not-survive", ["published_claims"], ""),
    (
        "local-sensitivity",
        ["private_ratio", "inverse_accuracy", "down_sensitivity"],
        "Mechanisms beyond global sensitivity: private ratios, inverse sensitivity, medians and down sensitivity",
    ),
    ("covariance-mean", ["covariance_mean"], ""),
    ("curves", ["curves"], ""),
    ("validity", ["validity"], ""),
    ("power", ["power"], ""),
    ("sequential", ["sequential"], ""),
    ("one-run", ["one_run"], ""),
    (
        "composition",
        ["composition", "interactive", "conversions"],
        "Composition of many copies and of interactive requests, and conversions between definitions",
    ),
    ("shuffling", ["shuffling", "shuffled_learning"], "Shuffled responses: bounds, exact values, audits and learning"),
    ("groups", ["groups"], ""),
    ("plumbing", ["plumbing"], ""),
    ("black-boxes", ["black_boxes"], ""),
    (
        "libraries",
        ["library_bugs", "hunts"],
        "Known privacy bugs of released libraries, audited, and hunted with no pair given",
    ),
)


def studies() -> list[Study]:
    """Return the studies.

    Examples
    --------
    >>> print(studies()[0].summary)
    Published statements that fail, audited or computed, beside what holds instead
    """
    return [
        Study(name, tuple(f"epsaudit.experiments.{one}" for one in modules), about, network=name == "libraries")
        for name, modules, about in STUDIES
    ]

"""Every study of this repository, in the order in which `epsaudit experiment run all` runs them.

To add a study, write a module with ``main(out: Path, seed: int = 0, quick: bool = False) -> str``, whose docstring says
in its first line what is measured, and add it to the list.
"""

from __future__ import annotations

from epsaudit.experiments.studies import Study

STUDIES = (
    ("claims-that-do-not-survive", ["published_claims"], "report", ""),
    (
        "local-sensitivity",
        ["private_ratio", "inverse_accuracy", "down_sensitivity"],
        "studies",
        "Mechanisms beyond global sensitivity: private ratios, inverse sensitivity, medians and down sensitivity",
    ),
    ("covariance-mean", ["covariance_mean"], "studies", ""),
    ("mean-accuracy", ["mean_accuracy"], "studies", ""),
    ("curves", ["curves"], "report", ""),
    ("validity", ["validity"], "studies", ""),
    ("power", ["power"], "report", ""),
    ("sequential", ["sequential"], "report", ""),
    ("one-run", ["one_run"], "studies", ""),
    ("scores", ["scores"], "studies", ""),
    ("league", ["league"], "studies", ""),
    ("training", ["training"], "studies", ""),
    ("holdout", ["holdout"], "studies", ""),
    (
        "composition",
        ["composition", "interactive", "conversions"],
        "studies",
        "Composition of many copies and of interactive requests, and conversions between definitions",
    ),
    (
        "shuffling",
        ["shuffling", "shuffled_learning"],
        "report",
        "Shuffled responses: bounds, exact values, audits and learning",
    ),
    ("groups", ["groups"], "report", ""),
    ("plumbing", ["plumbing"], "studies", ""),
    ("black-boxes", ["black_boxes"], "studies", ""),
    ("speed", ["speed"], "report", ""),
    ("trace", ["tracing"], "report", ""),
    ("upper-bounds", ["upper_bounds"], "studies", ""),
    ("source-figures", ["source_figures"], "studies", ""),
    (
        "libraries",
        ["library_bugs", "hunts", "traced_libraries", "score_tools", "holdout_libraries", "maps_of_libraries"],
        "studies",
        "Known privacy bugs of libraries, audited, hunted and traced; maps; tools for scores; synthetic tables",
    ),
)
"""Name, modules, required extra, and a summary of what several modules measure together."""


def studies() -> list[Study]:
    """Return the studies of this repository.

    Examples
    --------
    >>> print(studies()[0].summary)
    Published statements that fail, audited or computed, beside what holds instead
    """
    return [
        Study(name, tuple(f"epsaudit.experiments.{one}" for one in modules), about, extra, name == "libraries")
        for name, modules, extra, about in STUDIES
    ]

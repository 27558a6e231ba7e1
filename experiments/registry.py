"""Every study of this repository, in the order in which `epsaudit experiment run all` runs them.

It lists names; nothing is imported until a study is run. To add a study, write a module with ``main(out: Path, seed:
int = 0, quick: bool = False) -> None`` and list it.
"""

from __future__ import annotations

from epsaudit.experiments.studies import Study


def studies() -> list[Study]:
    """Return the studies.

    Examples
    --------
    >>> [study.name for study in studies()][:2]
    ['claims-that-do-not-survive', 'private-ratio']
    """
    return [
        Study(
            "claims-that-do-not-survive",
            "epsaudit.experiments.published_claims",
            "published statements that fail, audited or computed, beside what holds instead",
        ),
        Study(
            "private-ratio",
            "epsaudit.experiments.private_ratio",
            "errors of private ratios, as published and corrected",
        ),
        Study(
            "inverse-accuracy",
            "epsaudit.experiments.inverse_accuracy",
            "inverse sensitivity: coverage of its accuracy theorem, and medians by other mechanisms beside it",
        ),
        Study(
            "down-sensitivity",
            "epsaudit.experiments.down_sensitivity",
            "accuracy theorems, step counts and figures of down sensitivity",
        ),
        Study(
            "covariance-mean",
            "epsaudit.experiments.covariance_mean",
            "errors and refusals of private means where nobody knows the covariance",
        ),
        Study(
            "bound-by-runs",
            "epsaudit.experiments.bound_by_runs",
            "certified bounds against the number of runs, beside an oracle's limit",
        ),
        Study(
            "curves",
            "epsaudit.experiments.curves",
            "privacy profiles and trade-off curves with the regions that audits exclude",
        ),
        Study(
            "validity",
            "epsaudit.experiments.validity",
            "how often bounds of audits of fixed size exceed the exact value, for every kind of claim",
        ),
        Study(
            "sequential",
            "epsaudit.experiments.sequential",
            "how soon sequential audits refute wrong claims, beside the information limit and others' figures",
        ),
        Study(
            "stated-power",
            "epsaudit.experiments.stated_power",
            "what checks that pass say they would have caught, measured, beside the test rules of other libraries",
        ),
        Study(
            "sequential-validity",
            "epsaudit.experiments.sequential_validity",
            "that sequential audits do not refute what is true, however often they look",
        ),
        Study(
            "one-run",
            "epsaudit.experiments.one_run",
            "many canaries in one training run, beside many runs, and DP-SGD with its incorrect variants",
        ),
        Study(
            "one-run-validity",
            "epsaudit.experiments.one_run_validity",
            "that one-run audits certify no more than the truth, for every kind of claim, method and rule",
        ),
        Study(
            "public-benchmark",
            "epsaudit.experiments.benchmark_public",
            "certified bounds beside published ones, an oracle's and the exact values",
        ),
        Study(
            "power",
            "epsaudit.experiments.power",
            "shares of an oracle's bound on every known law, runs that refute broken mechanisms, false alarms",
        ),
        Study(
            "power-over-seeds",
            "epsaudit.experiments.power_over_seeds",
            "shares of an oracle's bound on the public benchmark, over many seeds: median, lowest decile, worst",
        ),
        Study(
            "conversions",
            "epsaudit.experiments.conversions",
            "pure DP as Renyi DP and zCDP: both figures of the source, with audits in rho and in Renyi orders",
        ),
        Study(
            "composition",
            "epsaudit.experiments.composition",
            "1 to 128 copies of a mechanism: every bound, the exact value, and audits of all outputs at once",
        ),
        Study(
            "interactive",
            "epsaudit.experiments.interactive",
            "analysts who adapt and cheat against privacy filters, sound and broken, and two odometers",
        ),
        Study(
            "shuffling",
            "epsaudit.experiments.shuffling",
            "shuffled randomised response: closed forms, numeric bound, exact value, audits",
        ),
        Study(
            "shuffled-learning",
            "epsaudit.experiments.shuffled_learning",
            "distributions learnt and tested under shuffling, beside the central and the local model",
        ),
        Study(
            "groups",
            "epsaudit.experiments.groups",
            "the open problem of larger groups: Algorithm 1 measured, and counts on an asinh scale, which solve it",
        ),
        Study(
            "plumbing",
            "epsaudit.experiments.plumbing",
            "sound and leaky functions with awkward plumbing: verdicts and refusals, fixed and sequential",
        ),
        Study(
            "black-boxes",
            "epsaudit.experiments.black_boxes",
            "leaks in text, records, rankings, images and rare combinations, beside what an expert's event certifies",
        ),
        Study(
            "library-bugs",
            "epsaudit.experiments.library_bugs",
            "known privacy bugs of released libraries, each version audited in an environment of its own",
        ),
        Study(
            "hunts",
            "epsaudit.experiments.hunts",
            "hunts for known bugs of released libraries with no pair given, and for sound mechanisms, none refuted",
        ),
    ]

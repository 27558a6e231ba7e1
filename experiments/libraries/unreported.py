"""Privacy bugs of released libraries that nobody has reported in public, as `corpus` lists those that are.

What was measured on each is in ``results/library-bugs``, what is wrong in ``docs/findings``, which also has a draft for
the maintainers: report a finding to them before publishing it.
"""

from __future__ import annotations

from epsaudit.experiments.libraries.corpus import Bug


def unreported() -> list[Bug]:
    """Return the findings in libraries that many use.

    Examples
    --------
    >>> any(bug.reports for bug in unreported())
    False
    """
    return []

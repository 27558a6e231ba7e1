"""``epsaudit report``: turn a result file into what a paper or a reader needs.

It reads a result file, runs no mechanism, and writes tables, figures, a page and the methods paragraphs.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from epsaudit import results
from epsaudit.commands import AS_EXPECTED
from epsaudit.errors import AuditError, meant
from epsaudit.exact import PrivacyProfile, knows_law
from epsaudit.extras import needs
from epsaudit.registry import registered
from epsaudit.reporting import methods, table
from epsaudit.results import AuditResult, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXTS: dict[str, Callable[[Sequence[Result], float], str]] = {
    "latex": table.to_latex,
    "markdown": table.to_markdown,
    "csv": lambda chosen, family: table.to_csv(chosen),
    "methods": methods.methods,
}


def report(options: SimpleNamespace) -> int:
    """Write what is asked for."""
    everything = results.load(options.file)
    family = table.family_confidence(everything)  # also of a part of them, which may have been chosen by its results
    names = matching([result.mechanism for result in everything], options.only, options.file)
    chosen = [result for result in everything if result.mechanism in names]
    asked = [name for name in (*TEXTS, "html", "figure") if getattr(options, name) is not None]
    if not asked:
        raise AuditError(f"Say what to write: {', '.join(f'--{name}' for name in (*TEXTS, 'html', 'figure'))}.")
    for name, write in TEXTS.items():
        target = getattr(options, name)
        if target == "-":
            sys.stdout.write(write(chosen, family))
        elif target == "":
            raise AuditError(f"--{name} is empty; give a file, or --{name} alone to print.")
        elif target is not None:
            results.write_whole(Path(target), write(chosen, family))
    if options.html is not None:
        with needs("report"):
            from epsaudit.reporting import page
        results.write_whole(options.html, page.render(chosen, family, str(options.file)))
    if options.figure is not None:
        _write_figure(options.figure, options.kind, chosen, family)
    return AS_EXPECTED


def _write_figure(path: Path, kind: str, chosen: Sequence[Result], family: float) -> None:
    with needs("report"):
        from epsaudit.reporting import style
    ending = path.suffix.removeprefix(".").lower()
    if ending not in style.FORMATS:
        raise AuditError(f"{path} must end in one of {', '.join(f'.{known}' for known in style.FORMATS)}.")
    results.write_whole(path, style.render(_draw(kind, chosen, family), ending))


def matching(names: Sequence[str], patterns: Sequence[str] | None, file: Path) -> list[str]:
    """Return the names that match any pattern; all without patterns.

    Raises
    ------
    AuditError
        If a pattern matches nothing, or if there are no names at all.
    """
    for pattern in patterns or []:
        if not fnmatch.filter(names, pattern):
            raise AuditError(f"{file} has no result named {pattern!r}.{meant(pattern, names)}")
    if not names:
        raise AuditError(f"{file} has no results.")
    return [name for name in names if not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def _draw(kind: str, chosen: Sequence[Result], family: float) -> Figure:
    from epsaudit.reporting import curves, figure

    if kind == "bounds":
        return figure.certified_against_proven(chosen, family)
    if len(chosen) != 1:
        names = ", ".join(result.mechanism for result in chosen[:3])
        raise AuditError(
            f"--kind {kind} draws one result; choose one by --only of {names}{', ...' * (len(chosen) > 3)}."
        )
    (result,) = chosen
    if not isinstance(result, AuditResult):
        raise AuditError(
            f"--kind {kind} draws an audit of fixed size; {result.mechanism} is a {type(result).__name__}."
        )
    draw = curves.privacy_profile if kind == "profile" else curves.trade_off
    return draw(result, _exact(result))


def _exact(result: AuditResult) -> PrivacyProfile | None:
    """The exact profile of a registered mechanism's pair, where both laws are known."""
    entry = registered().get(result.mechanism)
    if entry is None:
        return None
    pair = next((p for p in entry.pairs or entry.mechanism.worst_pairs() if str(p) == result.pair), None)
    if pair is None:
        return None
    sides = [entry.mechanism(dataset) for dataset in (pair.x, pair.x_prime)]
    return PrivacyProfile(*sides) if all(knows_law(side) for side in sides) else None

"""The command ``epsaudit report``, which writes tables, figures and a page of a result file."""

from __future__ import annotations

import sys
from pathlib import Path

from epsaudit.audits.verify import load
from epsaudit.errors import AuditError, needs
from epsaudit.mechanisms.known_laws import exact_profile
from epsaudit.results.result import AuditResult
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.registry import usable
from epsaudit.tools.cli import AS_EXPECTED, Words
from epsaudit.tools.cli.result_files import matching_names
from epsaudit.tools.reporting import tables


def report(file: Path, *, only: Words, html: Path | None, figure: Path | None, kind: str, **texts: str | None) -> int:
    """Run ``epsaudit report``: write tables, paragraphs, a figure or a page on the results of ``file``.

    ``texts`` maps the options 'latex', 'markdown', 'csv' and 'methods' to a path, to '-' for standard output, or to
    None if the document is not wanted. ``only`` contains patterns of names that select results.
    """
    refuse_unwritable(html, figure, *(Path(target) for target in texts.values() if target not in (None, "-")))
    everything = load(file)
    # the confidence is that of the whole file, because --only may select results by their outcome
    family = tables.family_confidence(everything)
    names = matching_names([result.mechanism for result in everything], only, file)
    kept = [result for result in everything if result.mechanism in names]
    asked = {name: target for name, target in texts.items() if target is not None}
    if html is None and figure is None and not asked:
        raise AuditError(f"Say what to write: {', '.join(f'--{name}' for name in (*texts, 'html', 'figure'))}.")
    if html is not None or figure is not None or "methods" in asked:
        with needs("report"):
            from epsaudit.tools.reporting import figures, page
    ending = "" if figure is None else figures.figure_format(figure)
    for name, target in asked.items():
        if name == "methods":
            text = page.methods(kept, family, len(everything))
        elif name == "csv":
            text = tables.to_csv([result.row() for result in kept])
        else:
            text = (tables.results_to_latex if name == "latex" else tables.results_to_markdown)(
                kept, family, len(everything)
            )
        if target == "-":
            sys.stdout.write(text)
        else:
            write_whole(Path(target), text)
    if html is not None:
        write_whole(html, page.render_page(kept, family, str(file), len(everything)))
    if figure is not None:
        if kind == "bounds":
            drawn = figures.plot_certified_against_proven(kept, family, len(everything))
        elif len(kept) > 1:
            few = ", ".join([*(result.mechanism for result in kept[:3]), *["..."] * (len(kept) > 3)])
            raise AuditError(f"--kind {kind} draws one result; choose one by --only of {few}.")
        elif isinstance(result := kept[0], AuditResult):
            entry, laws = usable().get(result.mechanism), None
            if entry is not None and (pair := result.find_pair(entry.all_pairs())) is not None:
                laws = exact_profile([entry.mechanism(dataset) for dataset in (pair.x, pair.x_prime)])
            drawn = (figures.plot_privacy_profile if kind == "profile" else figures.plot_trade_off)(result, laws)
        else:
            other = f"{result.mechanism} is a {type(result).__name__}"
            raise AuditError(f"--kind {kind} draws an audit of fixed size; {other}.")
        write_whole(figure, figures.render_figure(drawn, ending))
    return AS_EXPECTED

"""The command ``epsaudit scores``, which audits a file of scores or four counts.

It prints the certified bound beside the estimates that are usually reported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit.audits.scores import audit_counts, audit_scores
from epsaudit.audits.usual_estimates import usual_estimates, usual_estimates_of_counts
from epsaudit.claims.definitions import TradeOff, claim_given
from epsaudit.errors import QUOTED, AuditError, clipped, needs
from epsaudit.results import result as results
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.provenance import typed
from epsaudit.running.streams import entropy
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, print_json, printer, read_json, recorded_command
from epsaudit.tools.cli.score_files import read_scores
from epsaudit.tools.cli.targets import required_claim


def scores(
    file: Path | None,
    *,
    names: str,
    counts: tuple[int, int, int, int] | None,
    one_run: bool,
    guesses: str | None,
    threshold: float | None,
    confidence: float,
    seed: int | None,
    profile: str | None,
    out: Path | None,
    figure: Path | None,
    as_json: bool,
    quiet: bool,
    numbers: dict[str, float],
) -> int:
    """Run ``epsaudit scores``: audit a file of membership scores, or the four counts TP, FP, TN and FN of guesses.

    Prints the result and writes files. Returns the exit status, which is 1 if the claim is refuted.
    """
    if (file is None) == (counts is None):
        raise AuditError("Give a file of scores, or --counts TP FP TN FN.")
    if counts is not None:
        of_file = {"--names": names or None, "--guesses": guesses, "--threshold": threshold}
        if given := [option for option, value in of_file.items() if value is not None]:
            verb = "is" if len(given) == 1 else "are"
            raise AuditError(f"{' and '.join(given)} {verb} for a file of scores; --counts takes none of them.")
    elif one_run:
        raise AuditError("--one-run is for --counts; a file says by its column run which run each score is of.")
    refuse_unwritable(out, figure)
    if figure is not None:
        with needs("report"):
            from epsaudit.tools.reporting import figures
        ending = figures.figure_format(figure)
    curve = None if profile is None else read_json(profile, "--profile", _curve_claim)
    claim = claim_given(curve, **numbers) or required_claim(numbers, "An audit of scores")
    asked: dict[str, Any] = {
        "claim": claim,
        "confidence": confidence,
        "seed": entropy(seed),
        "name": str(file or "counts"),
    }
    times: tuple[Any, Any] | None
    if counts is not None:
        result = audit_counts(counts, one_run=one_run, **asked)
        usual = usual_estimates_of_counts(counts, result.claim, confidence)
        tp, fp, tn, fn = counts
        inside = outside = np.array([-1.0, 1.0])
        times = np.array([fn, tp], float), np.array([tn, fp], float)
    else:
        assert file is not None
        rows = read_scores(file, names)
        asked |= {"guesses": _parse_guesses(guesses), "threshold": threshold}
        result = audit_scores(
            rows.included, rows.score, runs=rows.run, canaries=rows.canary, scored=rows.scored, **asked
        )
        result = replace(result, notes=(*result.notes, *rows.notes))
        inside, outside, times = rows.score[rows.included], rows.score[~rows.included], None
        usual = usual_estimates(inside, outside, result.claim, confidence, threshold)
    show = printer(quiet or as_json)
    show(str(result))
    if result.reach > 0.0 and "at most" not in dict(result.lines()):
        show(f"  at most    {result.claim.symbol} {result.reach:.4g} if all guesses were correct")
    for name, value in usual.items():
        show(f"  no bound   {name}: epsilon {value:.4g}")
    if out is not None:
        with typed(recorded_command(result.seed)):
            results.save([result], out)
    if figure is not None:
        write_whole(figure, figures.render_figure(figures.plot_scores(inside, outside, result, times), ending))
    print_json(as_json, {**result.to_dict(), "reach": result.reach, "no_bounds": usual})
    return SURPRISED if result.violates_claim else AS_EXPECTED


def _curve_claim(points: Any) -> TradeOff:
    """Return the trade-off claim for ``points``, the parsed value of --profile: a list of points [epsilon, delta]."""
    if not isinstance(points, list) or not all(isinstance(one, list) and len(one) == 2 for one in points):
        raise AuditError(
            f"--profile is {clipped(repr(points), QUOTED)}; it must be a list of points, [[EPSILON, DELTA], ...]."
        )
    return TradeOff(tuple((epsilon, delta) for epsilon, delta in points))


def _parse_guesses(text: str | None) -> Any:
    """Parse the value of the option --guesses: return an integer if the text is a number, else the text itself.

    Text is the name of a rule for the number of guesses; `audit_scores` checks it.
    """
    try:
        return int(text) if text is not None and text.isdecimal() else text
    except ValueError:  # Python refuses to read an integer with more than 4,300 digits
        raise AuditError(f"--guesses has {len(str(text)):,} digits; give one guess for each canary at most.") from None

"""The picture of the front page, and the README and provenance of results/, made from stored audits.

``python -m epsaudit.experiments.front FOLDER`` reads FOLDER/audit.json, which `epsaudit audit --out FOLDER` has written
before. `make audit` does both for results/latest, and `make results` for results.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from epsaudit.audits.verify import load
from epsaudit.experiments.studies import studies, write_figure, write_json, write_readme
from epsaudit.results.result import Result
from epsaudit.text import SYMBOLS, lower, nearest, percent
from epsaudit.tools.reporting import tables
from epsaudit.tools.reporting.figures import (
    PROVEN,
    add_legend_entries,
    draw_row,
    new_figure,
    place_legend_below,
    set_log_scale,
    share_of_claim,
    styled,
)

FRONT = 5.0
"""Width of the front page's picture in inches: 800 pixels, the width at which a README shows it."""
SHOWN = {
    "laplace": "the mechanism of textbooks: claim, exact value and bound agree to 1 %",
    "gaussian-gdp": "a claim about a whole trade-off curve, in its own parameter",
    "rappor": "no exact value is known: only the bound says which loss is certain",
    "sparse-vector-1": "outputs that are lists of symbols, of varying length",
    "shuffled-response": "a claim from a numeric bound that the mechanism does not attain",
    "anes96/median-age-inverse-sensitivity": "a real survey, whose most influential person loses half of the claim",
    "broken/laplace-half-noise": "the simplest bug: half of the noise, twice the loss",
    "broken/gaussian-classical": "a formula that is used outside its range, with a quarter too little noise",
    "broken/binary-search-published": "a published algorithm that makes one comparison more than its analysis counts",
    "broken/ratio-bounded-published": "published code in which two bounds are exchanged",
    "broken/sparse-vector-5": "a sparse vector without noise on its queries: no finite epsilon",
    "broken/laplace-in-doubles": "correct for real numbers, but the last bits of the outputs reveal the dataset",
}
"""Mechanisms in the front page's picture, each with the reason for its choice: sound mechanisms whose values agree,
mechanisms whose exact value is unknown or not attained, and mistakes from small to unbounded."""


@styled()
def front(results: Sequence[Result], family_confidence: float) -> Figure:
    """Draw the results that `SHOWN` names, with their numbers beside them.

    The other results are left out, because a front page has no room for them. ``family_confidence`` is the joint
    confidence of all results, not only of the drawn ones.
    """
    found = {result.mechanism: result for result in results}
    rows = [share_of_claim(found[name]) for name in SHOWN if name in found]
    figure = new_figure(FRONT, 1.2 + 0.26 * len(rows))
    axes, numbers = figure.subplots(1, 2, sharey=True, width_ratios=[1, 1])
    set_log_scale(axes)
    axes.xaxis.set_major_locator(FixedLocator([0.5, 1.0, 2.0, 5.0, 10.0]))
    axes.xaxis.set_minor_locator(NullLocator())
    right = 1.4 * max([2.0, *(share.bound for share in rows)])
    lines = [("claim", "exact", "certified")]
    for height, share in enumerate(rows):
        draw_row(axes, height, share, right)
        result = share.result
        claim = f"{SYMBOLS[result.claim.symbol]} = {nearest(result.proven, 3)}"
        exact = "–" if result.exact is None else "∞" if math.isinf(result.exact) else nearest(result.exact, 3)
        lines.append((claim, exact, f"≥ {lower(result.lower_bound, 3)}"))
    for height, line in enumerate(lines, start=-1):
        for place, text in zip((0.36, 0.64, 1.0), line, strict=True):
            weight = "bold" if height < 0 else "normal"
            numbers.text(place, height, text, ha="right", va="center", fontsize=7.5, weight=weight)
    numbers.set_axis_off()
    axes.axvline(1.0, **PROVEN)
    names = [share.name for share in rows]
    axes.set_yticks(range(len(rows)), [name if len(name) <= 32 else name.replace("/", "/\n", 1) for name in names])
    axes.tick_params(axis="y", labelsize=7.5, length=0)
    axes.set_ylim(len(rows) - 0.4, -1.6)
    axes.set_xlim(0.4, right)
    axes.set_xlabel(f"share of the claim, {percent(family_confidence)} confidence")
    add_legend_entries(axes, rows)
    place_legend_below(figure, 3)
    return figure


def main(folder: Path) -> None:
    """Draw the picture, and write provenance.json and README.md, the index of the result folders."""
    results = load(folder / "audit.json")
    family = tables.family_confidence(results)
    write_figure(folder / "front", front(results, family))
    begun = [datetime.fromisoformat(result.execution["started"]) for result in results]
    ended = [start + timedelta(seconds=result.seconds) for start, result in zip(begun, results, strict=True)]
    execution = {**results[0].execution, "seconds": round((max(ended) - min(begun)).total_seconds(), 1)}
    write_json(folder / "provenance.json", {**results[0].provenance, "execution": execution})
    known = studies()
    names = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name != "latest")
    folders = {name: known[name].summary if name in known else "a study that another has taken in" for name in names}
    what = "Audits of every registered mechanism and incorrect variant"
    write_readme(folder, what, tables.caption(results, family), folders)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

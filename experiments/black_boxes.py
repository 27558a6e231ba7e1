"""Leaks in text, records, rankings, images and rare combinations, beside what an expert's event certifies.

Each black box hides a bit in an otherwise noisy output, and an expert's event reads the bit from the output. The bound
that this event certifies is known exactly, because the probabilities of the bit are known and the rest of the output is
independent noise. A leaky box has to be refuted whenever 0.8 of the expert's bound would refute it. A sound box has a
bit that is exactly as private as claimed, and is refuted at most with the stated error probability.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsaudit import AuditError, PureDP, audit, vectorized
from epsaudit.experiments.black_box_functions import BOXES, Box
from epsaudit.experiments.oracle import oracle_bound
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_json, write_table
from epsaudit.tools.reporting.figures import ONE_COLUMN, STYLE, new_figure, place_legend_below, styled
from epsaudit.tools.reporting.tables import TableColumn, print_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS, RUNS_OF = 50_000, {"rare": 1_000_000, "weight of 20,000": 10_000}
"""Number of runs by default, and for boxes of some kinds or names. With the default number, the expert's bound exceeds
three times the claim. Rare combinations need more runs: with 60,000 training runs, a cell of two fields that is empty
on one side and has probability 3e-4 on the other cannot be told from chance among 10,000 cells, and no such box was
refuted. The box with 20,000 weights gets fewer runs because its outputs take long to draw."""
CONFIDENCE = 0.95
SOUND_CONFIDENCE = 1.0 - 0.001 / 20
"""Confidence of the audit of each sound box. With probability 99.9 % none of up to twenty such boxes is refuted."""
CLAIM = PureDP(0.3)
SHARE = 0.8
"""A box has to be refuted if this share of the expert's bound exceeds the claim."""
COLUMNS = (
    TableColumn("name", "black box"),
    TableColumn("kind", "output"),
    TableColumn("leaks", "leaks"),
    TableColumn("oracle", "expert's bound", "number"),
    TableColumn("bound", "certified", "number"),
    TableColumn("verdict", "verdict"),
)
SECONDS = TableColumn("seconds", "processor seconds", "number")


def runs_of(box: Box) -> int:
    """Return the number of runs with which a box is audited."""
    return RUNS_OF.get(box.name, RUNS_OF.get(box.kind, RUNS))


def expert_bound(box: Box, runs: int, confidence: float = CONFIDENCE) -> float:
    """Return the bound on epsilon that the expected counts of the box's own event certify.

    Examples
    --------
    >>> round(expert_bound(BOXES["pixel of an image"], 200_000), 2)
    1.09
    """
    on_x, on_x_prime = box.rates
    tails = np.array([[1.0, 1.0 - on_x], [1.0, 1.0 - on_x_prime], [on_x, 1.0], [on_x_prime, 1.0]])
    return oracle_bound(tails, CLAIM, runs, confidence)


def measure(box: Box, runs: int, seed: int) -> dict[str, Any]:
    """Audit a box, and compare the certified bound with the expert's."""
    mechanism = vectorized(box.draw, claim=CLAIM, name=box.name)
    confidence = CONFIDENCE if box.leaks else SOUND_CONFIDENCE
    oracle, started = expert_bound(box, runs, confidence), time.process_time()
    try:
        result = audit(mechanism, (0, 1), trials=runs, confidence=confidence, seed=seed, n_jobs=1)
        bound, verdict, witness = result.lower_bound, str(result.verdict), str(result.witness)
    except AuditError as error:
        bound, verdict, witness = 0.0, "refused", str(error)
    seconds = time.process_time() - started
    print(f"  {box.name}: {bound:.3f} of {oracle:.3f}, {verdict}, {seconds:.0f} s, {witness[:150]}", flush=True)
    return {
        "name": box.name,
        "kind": box.kind,
        "leaks": box.leaks,
        "runs": runs,
        "oracle": oracle,
        "bound": bound,
        "verdict": verdict,
        "witness": witness[:500],
        "seconds": round(seconds, 1),
    }


def _measure_by_name(job: tuple[str, int, int]) -> dict[str, Any]:
    """Measure the box with the given name.

    Worker processes look boxes up by name, since their functions cannot be pickled.
    """
    return measure(BOXES[job[0]], *job[1:])


def is_wrong(row: dict[str, Any]) -> bool:
    """Return whether the verdict on a box is wrong.

    The verdict is wrong if a sound box is refuted, or if a leaky box is not refuted although 0.8 of the expert's bound
    exceeds the claim.

    Examples
    --------
    >>> is_wrong({"leaks": True, "oracle": 1.0, "verdict": "consistent"})
    True
    >>> is_wrong({"leaks": True, "oracle": 0.31, "verdict": "consistent"})
    False
    """
    if not row["leaks"]:
        return row["verdict"] == "violated"
    return row["verdict"] != "violated" and row["oracle"] * SHARE > CLAIM.parameter


def main(out: str | Path, seed: int = 0, quick: bool = False, runs: int = 0, only: Sequence[str] = ()) -> str:
    """Audit every box, print the table, and write data, table and figure into ``out``.

    Times are written to timings.json.
    """
    if quick:
        runs, only = 20_000, ("parity in a CSV line", "microsecond", "pixel of an image", "sound: microsecond")
    chosen = [box for box in BOXES.values() if not only or box.name in only]
    asked = [runs or runs_of(box) for box in chosen]
    jobs = [(box.name, one, seed) for box, one in zip(chosen, asked, strict=True)]
    found = on_all_cores(_measure_by_name, jobs, cost=lambda job: (job[0] in RUNS_OF, job[1]))
    print_table(found, (*COLUMNS, SECONDS), "Black boxes")
    folder = Path(out)
    times = {row["name"]: row.pop("seconds") for row in found}
    write_json(folder / "timings.json", {"seconds": sum(times.values()), "rows": times})
    write_data(folder, found, seed=seed, quick=quick, confidence=CONFIDENCE, sound_confidence=SOUND_CONFIDENCE)
    write_figure(folder / "shares", shares_of(found))
    caption = (
        f"Black boxes audited against epsilon {CLAIM.parameter}, beside the bounds that an expert's event certifies."
    )
    write_table(folder, found, COLUMNS, caption)
    if any(map(is_wrong, found)):
        raise AuditError(answer(found))
    return answer(found)


@styled()
def shares_of(found: Sequence[dict[str, Any]]) -> Figure:
    """Draw the certified bounds as shares of the expert's bound, one point per box, grouped by kind of output."""
    kinds = list(dict.fromkeys(row["kind"] for row in found))
    figure = new_figure(ONE_COLUMN, 3.0)
    axes = figure.add_subplot()
    for leaks, below in ((True, 0.0), (False, 0.4)):
        colour, marker = STYLE["violated" if leaks else "consistent"]  # the colours of all figures of verdicts
        for place, kind in enumerate(kinds):
            rows = [row for row in found if row["leaks"] is leaks and row["kind"] == kind]
            heights = place + below + np.linspace(-0.15, 0.15, len(rows))
            style = {"color": colour, "marker": marker, "markersize": 3, "linestyle": "none"}
            axes.plot([row["bound"] / row["oracle"] for row in rows], heights, **style)
        axes.plot([], label="leaky" if leaks else "sound", **style)
    axes.axvline(1.0, color="black", linewidth=0.8, zorder=0)
    axes.axvline(SHARE, color="black", linewidth=0.8, linestyle=":", zorder=0)
    axes.set_xscale("log")
    ticks = (SHARE, 1.0, 2.0, 4.0)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks([place + 0.2 for place in range(len(kinds))], kinds)
    axes.invert_yaxis()
    axes.set_xlabel("certified, as a share of the expert's bound")
    place_legend_below(figure)
    return figure


def answer(found: Sequence[dict[str, Any]]) -> str:
    """Return a sentence that counts the refuted boxes and names the leaky boxes that were missed."""
    leaky, sound = ([row for row in found if row["leaks"] is which] for which in (True, False))
    due = [row for row in leaky if row["oracle"] * SHARE > CLAIM.parameter]
    missed = [row["name"] for row in due if is_wrong(row)]
    refuted = sum(map(is_wrong, sound))
    shares = [min(row["bound"] / row["oracle"], math.inf) for row in due if not is_wrong(row)]
    return (
        f"Of {len(due)} leaky black boxes {len(due) - len(missed)} are refuted"
        f"{f', with a median share of {np.median(shares):.2f} of an expert bound' if shares else ''}; "
        f"of {len(sound)} sound ones {refuted}. Missed: {', '.join(missed) or 'none'}."
    )

"""Figures of results: certified bounds compared with proven ones, and the curves of one result and its claim.

The excluded region of a curve follows from the counts and the confidence alone: it is everything beyond the one corner
that `Certificate.corner` returns. Matplotlib reads its settings both when an artist is created and when it is drawn, so
that drawing functions are decorated with ``@styled()``.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from epsaudit.array_types import Floats
from epsaudit.audits.one_run import Threshold
from epsaudit.audits.sequential import SequentialResult
from epsaudit.bounds.one_run import GuessSet
from epsaudit.claims.definitions import ApproxDP, Claim, lower_hull
from epsaudit.errors import AuditError
from epsaudit.results.result import AuditResult, Result
from epsaudit.text import SYMBOLS, count, lower, percent, visible
from epsaudit.tools.reporting.tables import describe_runs

if TYPE_CHECKING:
    from epsaudit.audits.many_runs import ManyRunsResult
    from epsaudit.audits.one_run import OneRunResult

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Widths in inches of one column of a two-column paper, and of the full text."""
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
"""Colours of the palette of Okabe and Ito (2008), which colour-blind readers can distinguish. Each colour is always
used with its own marker or line style."""
MARKERS = "osD^vPX"
FORMATS = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""File formats of figures, and the metadata to remove from each so that equal figures give equal bytes."""
STYLE = {"consistent": (BLUE, "o"), "violated": (VERMILION, "s")}
PROVEN: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": "--"}
MAX_ROWS_PER_COLUMN = 54
"""Maximum number of results that are drawn in one column; more results are drawn in two columns."""
MAX_NAME_LENGTH = 28
"""Maximum number of characters of a name that leaves half of a column of a paper for the drawing."""
ERROR_GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 17)[:-1], np.linspace(0.01, 1.0, 100)])
"""Error probabilities at which curves are drawn. The grid is dense near 0."""
KINK_OFFSETS = np.geomspace(1e-4, 0.3, 12)
"""Relative distances from a claimed epsilon at which profiles are also drawn, because their curvature is largest
there."""
MIN_DELTA = 1e-9
"""Smallest possible lower end of a logarithmic axis for delta."""
CLAIMED: dict[str, Any] = {"color": BLUE, "linestyle": "--"}
EXACT: dict[str, Any] = {"color": "black", "linestyle": ":", "label": "exact for the pair"}
UPPER_END: dict[str, Any] = {"linestyle": "none", "marker": "$]$", "markersize": 7}
EXCLUDED_STYLE: dict[str, Any] = {"facecolor": "0.9", "edgecolor": "0.75", "hatch": "////", "linewidth": 0.0}


@contextmanager
def styled() -> Iterator[None]:
    """Apply the package's matplotlib style inside this context; also usable as a decorator."""
    with matplotlib.rc_context(fname=Path(__file__).with_name("epsaudit.mplstyle")):
        yield


class NotebookFigure(Figure):
    """A matplotlib figure that a Jupyter notebook displays even if pyplot is not imported."""

    def _repr_png_(self) -> bytes:
        return render_figure(self, "png")


def new_figure(width: float = ONE_COLUMN, height: float = 2.4) -> Figure:
    """Return an empty figure with this width and height in inches; call it inside `styled`."""
    figure = NotebookFigure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def place_legend_below(figure: Figure, columns: int = 2) -> None:
    """Place the legend of the first axes below the figure, where it hides nothing."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=columns)


def matplotlib_text(text: str) -> str:
    r"""Escape a name so that matplotlib draws it literally.

    A dollar sign would start mathematics. A leading underscore would remove the name from the legend, so that a space
    is put before it.
    """
    plain = visible(text).replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain


def render_figure(figure: Figure, kind: str) -> bytes:
    """Return the figure as 'png', 'pdf' or 'svg' bytes, without a date, so that equal figures give equal bytes."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format=kind, metadata=FORMATS[kind])
    return buffer.getvalue()


class ClaimShare(NamedTuple):
    """The lower bound, the upper bound and the exact value of a result, each divided by the claimed value.

    If the claimed epsilon is 0 and delta is positive, ``bound`` is a lower bound on delta divided by the claimed delta,
    and ``name`` says so. ``upper`` is None if the result has no upper bound.
    """

    result: Result
    bound: float
    exact: float | None
    name: str
    upper: float | None = None


def share_of_claim(result: Result) -> ClaimShare:
    """Divide the lower bound, the upper bound and the exact value of a result by the claimed value.

    If the claimed value is 0, a positive bound becomes infinity.
    """
    name, proven = matplotlib_text(result.mechanism), result.proven
    delta_lower = getattr(result, "delta_lower", None)  # sequential audits have none
    if proven == 0.0 and isinstance(result.claim, ApproxDP) and result.claim.delta > 0.0 and delta_lower is not None:
        return ClaimShare(result, delta_lower / result.claim.delta, None, f"{name} (in δ)")
    end = getattr(result, "upper", None)
    values = result.lower_bound, result.exact, None if end is None else end.value
    bound, exact, upper = (value and (value / proven if proven else math.inf) for value in values)
    return ClaimShare(result, bound or 0.0, exact, name, upper)


@styled()
def plot_result(result: Result) -> Figure:
    """Draw one result by the kind of figure that suits it, and return the figure.

    An audit with a fixed number of runs is drawn as a privacy profile, and a sequential audit as a running bound. For
    any other result, the certified bound is drawn beside the claimed value.
    """
    if isinstance(result, AuditResult):
        return plot_privacy_profile(result)
    if isinstance(result, SequentialResult):
        return plot_running_bound({result.mechanism: result})
    return plot_certified_against_proven([result], result.confidence)


def plot_certified_against_proven(
    results: Sequence[Result], family_confidence: float, audits: int | None = None
) -> Figure:
    """Draw one row per result: the certified lower bound, the upper bound and the exact value, as shares of the claim.

    A line leads from the lower bound to the upper bound, or to the end of the axis if the result has no upper bound.
    ``family_confidence`` and ``audits`` are explained in `epsaudit.tools.reporting.tables.caption`.

    Results that are consistent with their claim have a linear axis, and results that violate it a logarithmic one.
    Values beyond an axis are drawn at its end. The figure is as wide as one column of a paper, unless names are long or
    there are many results.
    """
    shown = list(map(share_of_claim, results))
    groups = [[share for share in shown if share.result.violates_claim == violated] for violated in (False, True)]
    rows = [[group] for group in groups if group] or [[[]]]
    if len(shown) > MAX_ROWS_PER_COLUMN:
        rows = [[group[: (len(group) + 1) // 2], group[(len(group) + 1) // 2 :]] for [group] in rows]
    short = max((len(share.name) for share in shown), default=0) <= MAX_NAME_LENGTH
    width = ONE_COLUMN if len(shown) <= MAX_ROWS_PER_COLUMN and short else TWO_COLUMNS
    tallest = [max(map(len, panels)) for panels in rows]
    figure = new_figure(width, 0.85 + 0.145 * sum(tallest) + 0.45 * len(rows))
    grid = figure.add_gridspec(len(rows), 1, height_ratios=[most + 3 for most in tallest])
    for place, (panels, most) in enumerate(zip(rows, tallest, strict=True)):
        for axes, panel in zip(grid[place].subgridspec(1, len(panels)).subplots(squeeze=False)[0], panels, strict=True):
            beside = [share for other in panels for share in other]
            ends = (end for share in beside for end in (share.bound, share.upper or 0.0))
            greatest = max([1.0, *filter(math.isfinite, ends)])
            left, right = 0.0, 1.15 * greatest
            if panel and panel[0].result.violates_claim:
                left, right = 0.8, 1.5 * max(2.0, greatest)
                set_log_scale(axes)
            for height, share in enumerate(panel):
                draw_row(axes, height, share, right)
            axes.axvline(1.0, clip_on=False, **PROVEN)
            axes.set_yticks(range(len(panel)), [share.name for share in panel])
            axes.set(xlim=(left, right), ylim=(most - 0.4, -0.6))
            if place == len(rows) - 1:
                axes.set_xlabel("certified / proven")
            axes.tick_params(labelsize=6.5)
    about = f"Certified lower bounds on privacy loss, {describe_runs(results)} each;"
    which = f"all {audits} of the result file" if audits is not None and audits > len(results) else "all"
    together = f"{which} hold together at {percent(family_confidence)} confidence"
    figure.suptitle(("\n" if width == ONE_COLUMN else " ").join([about, together]), fontsize=8)
    add_legend_entries(figure.axes[0], shown)
    place_legend_below(figure, 2 if width == ONE_COLUMN else 3)
    return figure


def draw_row(axes: Axes, height: float, share: ClaimShare, right: float) -> None:
    """Draw the row of one result: its lower bound, a line to its upper bound, and its exact value.

    ``height`` is the vertical position, and ``right`` the end of the axis. Without an upper bound, the line leads to
    the end of the axis.
    """
    colour, marker = STYLE[share.result.verdict]
    bound, end = min(share.bound, right), right if share.upper is None else min(share.upper, right)
    axes.plot([bound, end], [height, height], color=colour, linewidth=1.0, linestyle="-", alpha=0.35)
    if share.upper is not None:
        axes.plot(end, height, color=colour, **UPPER_END)
    axes.plot(bound, height, marker=marker, color=colour, linestyle="none", clip_on=False)
    if share.exact is not None and share.exact <= right:
        axes.plot(share.exact, height, marker="|", markersize=8, markeredgewidth=1.4, color="black")
    elif share.exact is not None:
        axes.plot(right, height, marker=">", color="black", linestyle="none", clip_on=False)


def add_legend_entries(axes: Axes, shown: Sequence[ClaimShare]) -> None:
    """Add a legend entry for each kind of mark (bound, exact value, claim) that occurs in the figure."""
    for verdict in dict.fromkeys(share.result.verdict for share in shown):
        colour, marker = STYLE[verdict]
        axes.plot([], [], marker=marker, color=colour, linestyle="-", label=f"certified, {verdict}")
    marks = [line.get_marker() for panel in axes.figure.axes for line in panel.lines]
    beyond = "" if marks.count(">") == sum(share.exact == math.inf for share in shown) else ", or beyond the axis"
    if "|" in marks:
        axes.plot([], [], marker="|", color="black", linestyle="none", markersize=8, label="exact for the pair")
    if ">" in marks:
        axes.plot([], [], marker=">", color="black", linestyle="none", label=f"exact: infinite{beyond}")
    if any(share.upper is not None for share in shown):
        axes.plot([], [], color="black", label="upper bound (alignment)", **UPPER_END)
    axes.plot([], [], label="proven", **PROVEN)


def set_log_scale(axes: Axes) -> None:
    """Give the horizontal axis, which shows shares of the claim, a logarithmic scale."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def add_kinks(errors: Floats, claim: Claim) -> Floats:
    """Insert the kinks of the claim's trade-off curve into a grid of error probabilities, and return the grid.

    Kinks are inserted for claims of pure and of approximate DP. For other claims, the grid is returned unchanged.
    """
    if claim.claimed_point is None:
        return errors
    epsilon, delta = claim.claimed_point
    return np.union1d(errors, [(1.0 - delta) / (1.0 + math.exp(epsilon)), 1.0 - delta])


def certified_polygon(result: AuditResult) -> Floats:
    """Return the corners of the certified upper bound on the trade-off curve of the audited pair, shape (vertices, 2).

    The audit certifies that the trade-off curve lies at or below one point, the certified corner. The bound is the
    lower convex hull of this point, of its mirror image, and of the trivial tests.
    """
    p, p_prime = (float(limit) for limit in result.certificate.corner(result.counts, result.confidence))
    corners = [(p_prime, 1.0 - p), (1.0 - p, p_prime)] if p > p_prime else []
    return lower_hull([(0.0, 1.0), (1.0, 0.0), *corners])


def certified_profile(result: AuditResult, epsilons: Floats) -> Floats:
    """Return the certified lower bound on the privacy profile delta(epsilon) of the audited pair.

    It is evaluated at each of ``epsilons``: the largest delta that the corners of `certified_polygon` prove there.
    """
    corners = certified_polygon(result)[1:-1]
    gains = [1.0 - beyond - np.exp(epsilons) * error for error, beyond in corners]
    return np.asarray(np.maximum.reduce([np.zeros_like(epsilons), *gains]))


@styled()
def plot_trade_off(result: AuditResult, exact: Any = None) -> Figure:
    """Draw the trade-off curve of the claim, and shade the region that the audit excludes for the audited pair.

    If ``exact`` is given, the exact curve of the pair is drawn, too. Returns the figure.
    """
    figure = new_figure(ONE_COLUMN, 3.4)
    axes = figure.add_subplot()
    polygon = certified_polygon(result)
    excluded = f"excluded at {percent(result.confidence)}" if len(polygon) > 2 else "excluded: nothing but the trivial"
    axes.fill(*np.vstack([polygon, [[1.0, 1.0]]]).T, label=excluded, **EXCLUDED_STYLE)
    axes.plot(*polygon.T, color=VERMILION, linestyle="-", marker="o", markersize=3, label="passes at or below")
    errors = add_kinks(ERROR_GRID, result.claim)
    axes.plot(errors, 1.0 - result.claim.greatest(errors), label=f"claimed: {result.claim}", **CLAIMED)
    if exact is not None:
        p, p_prime = exact.events(np.concatenate([[-np.inf], np.linspace(-12.0, 12.0, 481), [np.inf]]))
        points = list(zip(p_prime.tolist(), (1.0 - p).tolist(), strict=True))  # errors of the Neyman-Pearson tests
        envelope = lower_hull([*points, *((b, a) for a, b in points), (0.0, 1.0), (1.0, 0.0)])
        axes.plot(*envelope.T, **EXACT)
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.6", linewidth=0.6, linestyle="-")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    axes.set_xlabel("P[M(x′) in E]: says x, wrongly")
    axes.set_ylabel("P[M(x) not in E]: says x′, wrongly")
    return _add_title(figure, result)


@styled()
def plot_privacy_profile(result: AuditResult, exact: Any = None) -> Figure:
    """Draw the privacy profile of the claim, and shade the region that the audit excludes for the audited pair.

    If ``exact`` is given, the exact profile of the pair is drawn, too. If the result has an upper bound, the largest
    profile that this bound permits is drawn as well. Returns the figure.
    """
    figure = new_figure(ONE_COLUMN, 3.0)
    axes = figure.add_subplot()
    point, corners = result.point, certified_polygon(result)[1:-1]
    ends = [math.log((1.0 - beyond) / error) for error, beyond in corners if 0.0 < error < 1.0 - beyond]
    root = max(ends, default=0.0)  # the epsilon at which the certified profile reaches 0
    even = np.linspace(0.0, max(1.6 * point[0], 1.3 * root, 0.5), 121)
    epsilons = np.union1d(even, root * (1.0 - KINK_OFFSETS))  # a denser grid where the excluded region ends
    sparse = even[::3]
    above = None if result.upper is None else result.claim.with_parameter(result.upper.value)
    for claim in filter(None, (result.claim, above)):
        if claim.claimed_point is not None:  # the profiles of other claims are smooth
            bend = claim.claimed_point[0]
            sparse = np.union1d(sparse, bend * np.concatenate([[1.0], 1.0 - KINK_OFFSETS, 1.0 + KINK_OFFSETS]))
    claimed = np.array([result.claim.profile(float(epsilon)) for epsilon in sparse])
    shown = certified_profile(result, epsilons)
    in_logs = bool(np.any((claimed > 0.0) & (claimed < 1e-3)))
    floor = max(MIN_DELTA, min(claimed[claimed > 0.0], default=1.0) / 3) if in_logs else 0.0
    some, level = shown > floor, percent(result.confidence)
    if some.any():
        axes.fill_between(epsilons, np.where(some, shown, floor), floor, label=f"excluded at {level}", **EXCLUDED_STYLE)
        axes.plot(epsilons[some], shown[some], color=VERMILION, linestyle="-", label="at least")
    else:
        axes.plot([], [], linestyle="none", label=f"nothing excluded at {level}")
    axes.plot(sparse, np.maximum(claimed, floor), label=f"claimed: {result.claim}", **CLAIMED)
    if result.upper is not None and above is not None:
        most = [max(above.profile(float(epsilon)) + result.upper.delta, floor) for epsilon in sparse]
        axes.plot(sparse, most, color=GREEN, linestyle="-", label="at most (alignment)")
    if exact is not None:
        axes.plot(sparse, [max(exact.delta(float(epsilon)), floor) for epsilon in sparse], **EXACT)
    if not in_logs or point[1] > floor:
        axes.plot(*point, color=BLUE, marker="D", linestyle="none", label="tested point")
    if in_logs:
        axes.set_yscale("log")
    axes.set(xlim=(0.0, even[-1]), xlabel="ε (nats)", ylabel="δ(ε), a probability")
    axes.set_ylim(bottom=floor)
    return _add_title(figure, result)


@styled()
def plot_running_bound(results: Mapping[str, SequentialResult]) -> Figure:
    """Draw the lower bounds of sequential audits as functions of the number of runs, and return the figure.

    ``results`` maps names for the legend to results. All claims must have the same parameter, for example epsilon.
    """
    figure = new_figure(ONE_COLUMN, 2.6)
    axes = figure.add_subplot()
    colours = (VERMILION, BLUE, GREEN, PURPLE, "black")
    series = zip(results.items(), itertools.cycle(colours), itertools.cycle(MARKERS), strict=False)
    for (name, result), colour, marker in series:
        runs, bounds = np.array(result.path, float).T
        axes.step(np.maximum(runs, 1.0), bounds, where="post", color=colour, label=matplotlib_text(name))
        axes.plot(runs[-1], bounds[-1], color=colour, marker=marker, linestyle="none")
    for proven in dict.fromkeys(result.claim.parameter for result in results.values()):
        axes.axhline(proven, color="black", linewidth=0.8, linestyle=":", label=f"claimed: {proven:.4g}")
    confidence = percent(min(result.confidence for result in results.values()))
    symbols = " or ".join(dict.fromkeys(SYMBOLS[result.claim.symbol] for result in results.values()))
    axes.set(xscale="log", xlabel="runs, on both datasets", ylabel=f"running bound on {symbols}")
    axes.set_ylim(bottom=0.0)
    axes.set_title(f"valid at every moment at {confidence} confidence")
    place_legend_below(figure)
    return figure


def figure_format(path: Path) -> str:
    """Return the format of a figure from the ending of its path; raise `AuditError` if it is not in `FORMATS`."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise AuditError(f"{path} must end in one of {', '.join(f'.{one}' for one in FORMATS)}.")
    return kind


@styled()
def plot_scores(
    included: Floats,
    excluded: Floats,
    result: ManyRunsResult | OneRunResult,
    times: tuple[Floats, Floats] | None = None,
) -> Figure:
    """Draw the membership scores of an audit in two panels: histograms, and the trade-off between error rates.

    The left panel shows histograms of the scores of members and of non-members, with the thresholds of the best guess.
    The right panel compares the error rates of all thresholds with the trade-off curve of the claim.

    Parameters
    ----------
    included, excluded : ndarray
        Scores of members, and of others.
    result : ManyRunsResult or OneRunResult
        The audit of these scores.
    times : (ndarray, ndarray), optional
        How many times each score of members and of others occurs; by default once.
    """
    times = (np.ones(len(included)), np.ones(len(excluded))) if times is None else times
    figure = new_figure(TWO_COLUMNS, 2.9)
    left, right = figure.subplots(1, 2)
    both = np.concatenate([included, excluded]).astype(float)
    finite = both[np.isfinite(both)]
    least, most = (float(np.min(finite)), float(np.max(finite))) if len(finite) else (0.0, 1.0)
    edges = np.linspace(least, most, 41)
    series: Any = ((included, VERMILION, "members", "-"), (excluded, BLUE, "others", "--"))
    for weights, (values, colour, name, style) in zip(times, series, strict=True):
        within = np.clip(values, edges[0], edges[-1])
        left.hist(within, edges, weights=weights, histtype="step", color=colour, label=name, linestyle=style)
    best: Any = result.best
    if not isinstance(best, GuessSet):
        cuts = [best.threshold]
    elif isinstance(fixed := getattr(result, "rule", None), Threshold):
        cuts = [fixed.at]
    else:
        above = np.sort(both)
        cuts = [above[-best.guessed_in]] * (best.guessed_in > 0) + [above[best.guessed_out - 1]] * (
            best.guessed_out > 0
        )
    for place, cut in enumerate(cuts):
        left.axvline(cut, color="black", linewidth=0.8, linestyle=":", label="threshold" if place == 0 else None)
    left.set(xlabel="score", ylabel="scores")
    at = np.concatenate([np.unique(both), [np.inf]])
    missed, wrong = _fraction_below(included, times[0], at), 1.0 - _fraction_below(excluded, times[1], at)
    right.plot(wrong, missed, color=VERMILION, linestyle="-", label="these scores: no bound")
    errors = add_kinks(ERROR_GRID, result.claim)
    right.plot(errors, 1.0 - result.claim.greatest(errors), label=f"claimed: {result.claim}", **CLAIMED)
    if result.lower_bound > 0.0:
        shown = result.claim.with_parameter(result.lower_bound)
        passes = f"certified: {SYMBOLS[shown.symbol]} ≥ {lower(shown.parameter)}"
        right.plot(errors, 1.0 - shown.greatest(errors), color=GREEN, linestyle="-.", label=passes)
    right.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="others said to be members", ylabel="members missed")
    for axes in (left, right):
        axes.legend(fontsize=6.5)
    figure.suptitle(f"{matplotlib_text(result.mechanism)}, {percent(result.confidence)} confidence", fontsize=8)
    return figure


def _fraction_below(scores: Floats, times: Floats, at: Floats) -> Floats:
    """Return the fraction of scores that are below each value of ``at``.

    ``times`` contains the number of occurrences of each score.
    """
    order = np.argsort(scores, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(times[order])])
    return np.asarray(total[np.searchsorted(scores[order], at, "left")] / total[-1])


def _add_title(figure: Figure, result: AuditResult) -> Figure:
    """Add the title and the legend to a figure of one result, and return the figure."""
    name = result.mechanism if len(result.mechanism) <= 44 else f"{result.mechanism[:41]}..."
    figure.axes[0].set_title(
        f"{matplotlib_text(name)}\n{count(result.trials)} runs, {percent(result.confidence)} confidence"
    )
    place_legend_below(figure)
    return figure

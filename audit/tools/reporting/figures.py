"""Figures of results: certified bounds against proven ones, and the curves of one result beside its claim's.

What a curve excludes rests on the counts and the confidence alone: all beyond the one corner that `Certificate.corner`
shows. Drawing functions are ``@styled()``, as matplotlib reads settings when an artist is made and when it is drawn.
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
from numpy.typing import NDArray

from epsaudit.audits.one_run import Threshold
from epsaudit.audits.sequential import SequentialResult
from epsaudit.bounds.one_run import CanaryCounts
from epsaudit.claims.definitions import ApproxDP, Claim, lower_hull
from epsaudit.errors import AuditError
from epsaudit.results.result import AuditResult, Result
from epsaudit.text import SYMBOLS, count, lower, percent, visible
from epsaudit.tools.reporting.tables import runs_each

if TYPE_CHECKING:
    from epsaudit.audits.many_runs import ManyRunsResult
    from epsaudit.audits.one_run import OneRunResult

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Widths in inches of a column of a two-column paper, and of its text."""
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
"""Okabe and Ito's palette (2008), told apart by colour-blind readers; always with a marker or dash of its own."""
MARKERS = "osD^vPX"
FORMATS = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""Formats of figures, and what must be kept out of their files so that equal figures give equal bytes."""
STYLE = {"consistent": (BLUE, "o"), "violated": (VERMILION, "s")}
PROVEN: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": "--"}
ROWS = 54
"""Most results that are drawn in one column; more stand in two."""
LONGEST_NAME = 28
"""Most characters of a name that leave half of a column of a paper to the drawing."""
Floats = NDArray[np.float64]
ERRORS = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 17)[:-1], np.linspace(0.01, 1.0, 100)])
"""Where curves are drawn, dense near 0."""
NEAR = np.geomspace(1e-4, 0.3, 12)
"""Distances from a claimed epsilon, as shares of it, at which profiles are drawn besides: there they bend most."""
LEAST_DELTA = 1e-9
"""Where a logarithmic axis for delta ends at the latest."""
CLAIMED: dict[str, Any] = {"color": BLUE, "linestyle": "--"}
EXACT: dict[str, Any] = {"color": "black", "linestyle": ":", "label": "exact for the pair"}
EXCLUDED: dict[str, Any] = {"facecolor": "0.9", "edgecolor": "0.75", "hatch": "////", "linewidth": 0.0}


@contextmanager
def styled() -> Iterator[None]:
    """Apply the package's style within; also a decorator."""
    with matplotlib.rc_context(fname=Path(__file__).with_name("epsaudit.mplstyle")):
        yield


class Drawn(Figure):
    """A figure that a notebook shows, whether or not pyplot was imported there."""

    def _repr_png_(self) -> bytes:
        return render(self, "png")


def blank(width: float = ONE_COLUMN, height: float = 2.4) -> Figure:
    """Return an empty figure of that size in inches; call it within `styled`."""
    figure = Drawn(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def legend_below(figure: Figure, columns: int = 2) -> None:
    """Set the legend of the first axes below the figure, where it hides nothing."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=columns)


def words(text: str) -> str:
    r"""Write a name so that matplotlib draws it as it is, and in the legend: no mathematics, no underscore first."""
    plain = visible(text).replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain


def render(figure: Figure, kind: str) -> bytes:
    """Return the figure as 'png', 'pdf' or 'svg' bytes, without the date that would make files differ."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format=kind, metadata=FORMATS[kind])
    return buffer.getvalue()


class Shares(NamedTuple):
    """A result as shares of its claim, or of the claim's delta where its epsilon is 0, which its name says."""

    result: Result
    bound: float
    exact: float | None
    name: str


def shares(result: Result) -> Shares:
    """Divide a result by its claim; of a claim that is 0 altogether every bound above 0 is an infinite share."""
    name, proven = words(result.mechanism), result.proven
    delta_lower = getattr(result, "delta_lower", None)  # which sequential audits do not have
    if proven == 0.0 and isinstance(result.claim, ApproxDP) and result.claim.delta > 0.0 and delta_lower is not None:
        return Shares(result, delta_lower / result.claim.delta, None, f"{name} (in δ)")
    bound, exact = (value and (value / proven if proven else math.inf) for value in (result.lower_bound, result.exact))
    return Shares(result, bound or 0.0, exact, name)


@styled()
def plot_result(result: Result) -> Figure:
    """Draw one result in the way that suits its kind.

    An audit of fixed size shows its privacy profile, a sequential audit its running bound, every other kind its
    certified bound beside the proven one.
    """
    if isinstance(result, AuditResult):
        return privacy_profile(result)
    if isinstance(result, SequentialResult):
        return sequential_path({result.mechanism: result})
    return certified_against_proven([result], result.confidence)


def certified_against_proven(results: Sequence[Result], family_confidence: float) -> Figure:
    """Draw every result as a share of its claim: the certified bound, the one-sided interval, the exact value.

    Consistent results stand on a linear axis, violated ones on a logarithmic axis; what lies beyond stands at its end.
    The figure is as wide as a column of a paper, unless names are long or results many.
    """
    shown = list(map(shares, results))
    groups = [[share for share in shown if share.result.violates_claim == violated] for violated in (False, True)]
    rows = [[group] for group in groups if group] or [[[]]]
    if len(shown) > ROWS:
        rows = [[group[: (len(group) + 1) // 2], group[(len(group) + 1) // 2 :]] for [group] in rows]
    short = max((len(share.name) for share in shown), default=0) <= LONGEST_NAME
    width = ONE_COLUMN if len(shown) <= ROWS and short else TWO_COLUMNS
    tallest = [max(map(len, panels)) for panels in rows]
    figure = blank(width, 0.85 + 0.145 * sum(tallest) + 0.45 * len(rows))
    grid = figure.add_gridspec(len(rows), 1, height_ratios=[most + 3 for most in tallest])
    for place, (panels, most) in enumerate(zip(rows, tallest, strict=True)):
        for axes, panel in zip(grid[place].subgridspec(1, len(panels)).subplots(squeeze=False)[0], panels, strict=True):
            beside = [share for other in panels for share in other]
            greatest = max([1.0, *(share.bound for share in beside if math.isfinite(share.bound))])
            left, right = 0.0, 1.15 * greatest
            if panel and panel[0].result.violates_claim:
                left, right = 0.8, 1.5 * max(2.0, greatest)
                logarithmic(axes)
            for height, share in enumerate(panel):
                draw_row(axes, height, share, right)
            axes.axvline(1.0, clip_on=False, **PROVEN)
            axes.set_yticks(range(len(panel)), [share.name for share in panel])
            axes.set(xlim=(left, right), ylim=(most - 0.4, -0.6))
            if place == len(rows) - 1:
                axes.set_xlabel("certified / proven")
            axes.tick_params(labelsize=6.5)
    about = f"Certified lower bounds on privacy loss, {runs_each(results)} each;"
    together = f"all hold together at {percent(family_confidence)} confidence"
    figure.suptitle(("\n" if width == ONE_COLUMN else " ").join([about, together]), fontsize=8)
    name_marks(figure.axes[0], shown)
    legend_below(figure, 2 if width == ONE_COLUMN else 3)
    return figure


def draw_row(axes: Axes, height: float, share: Shares, right: float) -> None:
    """Draw one result: its bound, the interval up to the right end, and the exact value."""
    colour, marker = STYLE[share.result.verdict]
    bound = min(share.bound, right)
    axes.plot([bound, right], [height, height], color=colour, linewidth=1.0, linestyle="-", alpha=0.35)
    axes.plot(bound, height, marker=marker, color=colour, linestyle="none", clip_on=False)
    if share.exact is not None and share.exact <= right:
        axes.plot(share.exact, height, marker="|", markersize=8, markeredgewidth=1.4, color="black")
    elif share.exact is not None:
        axes.plot(right, height, marker=">", color="black", linestyle="none", clip_on=False)


def name_marks(axes: Axes, shown: Sequence[Shares]) -> None:
    """Name the marks that occur, and no others."""
    for verdict in dict.fromkeys(share.result.verdict for share in shown):
        colour, marker = STYLE[verdict]
        axes.plot([], [], marker=marker, color=colour, linestyle="-", label=f"certified, {verdict}")
    marks = [line.get_marker() for panel in axes.figure.axes for line in panel.lines]
    beyond = "" if marks.count(">") == sum(share.exact == math.inf for share in shown) else ", or beyond the axis"
    if "|" in marks:
        axes.plot([], [], marker="|", color="black", linestyle="none", markersize=8, label="exact for the pair")
    if ">" in marks:
        axes.plot([], [], marker=">", color="black", linestyle="none", label=f"exact: infinite{beyond}")
    axes.plot([], [], label="proven", **PROVEN)


def logarithmic(axes: Axes) -> None:
    """Give an axis of shares its logarithmic scale."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def with_bends(errors: Floats, claim: Claim) -> Floats:
    """Add to the errors those at which the trade-off curve of a claim of pure or approximate DP has its bends."""
    if claim.claimed_point is None:
        return errors
    epsilon, delta = claim.claimed_point
    return np.union1d(errors, [(1.0 - delta) / (1.0 + math.exp(epsilon)), 1.0 - delta])


def certified_polygon(result: AuditResult) -> Floats:
    """Vertices of the curve at or below which the pair's trade-off curve passes, by the corner and its mirror image."""
    p, p_prime = (float(limit) for limit in result.certificate.corner(result.counts, result.confidence))
    corners = [(p_prime, 1.0 - p), (1.0 - p, p_prime)] if p > p_prime else []
    return lower_hull([(0.0, 1.0), (1.0, 0.0), *corners])


def certified_profile(result: AuditResult, epsilons: Floats) -> Floats:
    """Lower bound on the pair's privacy profile at all epsilons: the tangents at both corners of the polygon."""
    corners = certified_polygon(result)[1:-1]
    gains = [1.0 - beyond - np.exp(epsilons) * error for error, beyond in corners]
    return np.asarray(np.maximum.reduce([np.zeros_like(epsilons), *gains]))


@styled()
def trade_off(result: AuditResult, exact: Any = None) -> Figure:
    """Draw error against error: the claim's curve, the excluded region, and the exact curve if it is known."""
    figure = blank(ONE_COLUMN, 3.4)
    axes = figure.add_subplot()
    polygon = certified_polygon(result)
    excluded = f"excluded at {percent(result.confidence)}" if len(polygon) > 2 else "excluded: nothing but the trivial"
    axes.fill(*np.vstack([polygon, [[1.0, 1.0]]]).T, label=excluded, **EXCLUDED)
    axes.plot(*polygon.T, color=VERMILION, linestyle="-", marker="o", markersize=3, label="passes at or below")
    errors = with_bends(ERRORS, result.claim)
    axes.plot(errors, 1.0 - result.claim.greatest(errors), label=f"claimed: {result.claim}", **CLAIMED)
    if exact is not None:
        p, p_prime = exact.events(np.concatenate([[-np.inf], np.linspace(-12.0, 12.0, 481), [np.inf]]))
        points = list(zip(p_prime.tolist(), (1.0 - p).tolist(), strict=True))  # of Neyman and Pearson's tests
        envelope = lower_hull([*points, *((b, a) for a, b in points), (0.0, 1.0), (1.0, 0.0)])
        axes.plot(*envelope.T, **EXACT)
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.6", linewidth=0.6, linestyle="-")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    axes.set_xlabel("P[M(x′) in E]: says x, wrongly")
    axes.set_ylabel("P[M(x) not in E]: says x′, wrongly")
    return _finished(figure, result)


@styled()
def privacy_profile(result: AuditResult, exact: Any = None) -> Figure:
    """Draw delta against epsilon: the claim's profile, the excluded region, and the exact profile if it is known."""
    figure = blank(ONE_COLUMN, 3.0)
    axes = figure.add_subplot()
    point, corners = result.point, certified_polygon(result)[1:-1]
    ends = [math.log((1.0 - beyond) / error) for error, beyond in corners if 0.0 < error < 1.0 - beyond]
    root = max(ends, default=0.0)  # where what is certified reaches 0
    even = np.linspace(0.0, max(1.6 * point[0], 1.3 * root, 0.5), 121)
    epsilons = np.union1d(even, root * (1.0 - NEAR))  # where what is excluded ends
    sparse = even[::3]
    if result.claim.claimed_point is not None:  # else it is smooth
        bend = result.claim.claimed_point[0]
        sparse = np.union1d(sparse, bend * np.concatenate([[1.0], 1.0 - NEAR, 1.0 + NEAR]))
    claimed = np.array([result.claim.profile(float(epsilon)) for epsilon in sparse])
    shown = certified_profile(result, epsilons)
    in_logs = bool(np.any((claimed > 0.0) & (claimed < 1e-3)))
    floor = max(LEAST_DELTA, min(claimed[claimed > 0.0], default=1.0) / 3) if in_logs else 0.0
    some, level = shown > floor, percent(result.confidence)
    if some.any():
        axes.fill_between(epsilons, np.where(some, shown, floor), floor, label=f"excluded at {level}", **EXCLUDED)
        axes.plot(epsilons[some], shown[some], color=VERMILION, linestyle="-", label="at least")
    else:
        axes.plot([], [], linestyle="none", label=f"nothing excluded at {level}")
    axes.plot(sparse, np.maximum(claimed, floor), label=f"claimed: {result.claim}", **CLAIMED)
    if exact is not None:
        axes.plot(sparse, [max(exact.delta(float(epsilon)), floor) for epsilon in sparse], **EXACT)
    if not in_logs or point[1] > floor:
        axes.plot(*point, color=BLUE, marker="D", linestyle="none", label="tested point")
    if in_logs:
        axes.set_yscale("log")
    axes.set(xlim=(0.0, even[-1]), xlabel="ε (nats)", ylabel="δ(ε), a probability")
    axes.set_ylim(bottom=floor)
    return _finished(figure, result)


@styled()
def sequential_path(results: Mapping[str, SequentialResult]) -> Figure:
    """Draw the running bound of named sequential audits, of claims of one symbol, against runs."""
    figure = blank(ONE_COLUMN, 2.6)
    axes = figure.add_subplot()
    colours = (VERMILION, BLUE, GREEN, PURPLE, "black")
    looks = zip(results.items(), itertools.cycle(colours), itertools.cycle(MARKERS), strict=False)
    for (name, result), colour, marker in looks:
        runs, bounds = np.array(result.path, float).T
        axes.step(np.maximum(runs, 1.0), bounds, where="post", color=colour, label=words(name))
        axes.plot(runs[-1], bounds[-1], color=colour, marker=marker, linestyle="none")
    for proven in dict.fromkeys(result.claim.parameter for result in results.values()):
        axes.axhline(proven, color="black", linewidth=0.8, linestyle=":", label=f"claimed: {proven:.4g}")
    confidence = percent(min(result.confidence for result in results.values()))
    symbols = " or ".join(dict.fromkeys(SYMBOLS[result.claim.symbol] for result in results.values()))
    axes.set(xscale="log", xlabel="runs, on both datasets", ylabel=f"running bound on {symbols}")
    axes.set_ylim(bottom=0.0)
    axes.set_title(f"valid at every moment at {confidence} confidence")
    legend_below(figure)
    return figure


def ending(path: Path) -> str:
    """Return the format that a file's name ends in; `AuditError` for none of `FORMATS`."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise AuditError(f"{path} must end in one of {', '.join(f'.{one}' for one in FORMATS)}.")
    return kind


@styled()
def scores(
    included: Floats,
    excluded: Floats,
    result: ManyRunsResult | OneRunResult,
    times: tuple[Floats, Floats] | None = None,
) -> Figure:
    """Draw scores of members and others with the thresholds of the best event, and their errors beside the claim's.

    ``times`` says how often each score of members and of others occurs; once if it is not given.
    """
    times = (np.ones(len(included)), np.ones(len(excluded))) if times is None else times
    figure = blank(TWO_COLUMNS, 2.9)
    left, right = figure.subplots(1, 2)
    both = np.concatenate([included, excluded]).astype(float)
    finite = both[np.isfinite(both)]
    least, most = (float(np.min(finite)), float(np.max(finite))) if len(finite) else (0.0, 1.0)
    edges = np.linspace(least, most, 41)
    looks: Any = ((included, VERMILION, "members", "-"), (excluded, BLUE, "others", "--"))
    for weights, (values, colour, name, style) in zip(times, looks, strict=True):
        within = np.clip(values, edges[0], edges[-1])
        left.hist(within, edges, weights=weights, histtype="step", color=colour, label=name, linestyle=style)
    best: Any = result.best
    if not isinstance(best, CanaryCounts):
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
    missed, wrong = _share_below(included, times[0], at), 1.0 - _share_below(excluded, times[1], at)
    right.plot(wrong, missed, color=VERMILION, linestyle="-", label="these scores: no bound")
    errors = with_bends(ERRORS, result.claim)
    right.plot(errors, 1.0 - result.claim.greatest(errors), label=f"claimed: {result.claim}", **CLAIMED)
    if result.lower_bound > 0.0:
        shown = result.claim.with_parameter(result.lower_bound)
        passes = f"certified: {SYMBOLS[shown.symbol]} ≥ {lower(shown.parameter)}"
        right.plot(errors, 1.0 - shown.greatest(errors), color=GREEN, linestyle="-.", label=passes)
    right.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="others said to be members", ylabel="members missed")
    for axes in (left, right):
        axes.legend(fontsize=6.5)
    figure.suptitle(f"{words(result.mechanism)}, {percent(result.confidence)} confidence", fontsize=8)
    return figure


def _share_below(scores: Floats, times: Floats, at: Floats) -> Floats:
    order = np.argsort(scores, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(times[order])])
    return np.asarray(total[np.searchsorted(scores[order], at, "left")] / total[-1])


def _finished(figure: Figure, result: AuditResult) -> Figure:
    name = result.mechanism if len(result.mechanism) <= 44 else f"{result.mechanism[:41]}..."
    figure.axes[0].set_title(f"{words(name)}\n{count(result.trials)} runs, {percent(result.confidence)} confidence")
    legend_below(figure)
    return figure

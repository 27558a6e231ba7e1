"""Published ways to estimate epsilon beside ours: how often above the truth, how high, how soon they refute.

Every estimator gets the same outputs. The study has five parts. On ten laws it counts how often bounds at 95 %
confidence exceed the truth; a valid bound does so at most once in twenty times. Where the laws are known, it compares
the bounds with the bound of an oracle. On incorrect variants it increases the number of runs step by step until a tool
refutes the claim. On further cases it compares epsaudit's bound with the best other one: rows of the public benchmark,
outputs of realistic systems, mechanisms in tables of other auditors, and the incorrect variants. Rows in which another
bound is higher than epsaudit's come first. The fifth part audits MST as Ganev, Annamalai and Kulynych (2026) did.
Seconds are written to times.json, apart from the other data, because they depend on the machine.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from scipy.stats import binom

from epsaudit import AuditError, GaussianDP, audit, audit_scores, audit_sequentially, vectorized
from epsaudit.array_types import Floats
from epsaudit.bounds.certificates import MembershipGame, clopper_pearson_lower, clopper_pearson_upper
from epsaudit.bounds.counts import Counts
from epsaudit.experiments.estimators import ESTIMATORS, ONE_RUN, SEQUENTIAL_TESTS, Estimator, OneRun
from epsaudit.experiments.league_cases import LAWS, MST_PAIR, Case, cases, mst, mst_mu
from epsaudit.experiments.oracle import oracle_bound, runs_to_refute
from epsaudit.experiments.point_labels import label_points
from epsaudit.experiments.scores import Law, delta_of
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_json, write_table
from epsaudit.running.files import write_whole
from epsaudit.tools.reporting.figures import BLUE, TWO_COLUMNS, VERMILION, new_figure, styled
from epsaudit.tools.reporting.tables import TableColumn, to_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
CONFIDENCE, EXCESS_PROBABILITY = 0.95, 1e-6
"""Confidence of all bounds; and the probability with which an estimator that keeps this confidence would exceed the
tolerated number of bounds above the truth."""
EACH, CANARIES, BLOCK = 250, 500, 50
"""Number of runs on each dataset for coverage; number of canaries of one run; number of sets in one job."""
SLOW, FEWER = ("joint-Beta", "Gaussian-DP curve", "Gaussian fit of outputs"), 300
"""Estimators that give no bounds and take 0.02 seconds for each set, and the number of sets that they get."""
POWER, LADDER = (10_000, 100_000, 1_000_000), [int(k * 10**n) for n in (2, 3, 4, 5) for k in (1, 3)]
ALPHAS, SECONDS = (0.05, 1e-6), (1.0, 10.0, 60.0)
CASE_RUNS, SEQUENTIAL_RUNS, FITS = 50_000, 30_000, 5_000
"""Number of runs on both datasets together for a case and for a sequential test; number of fits of MST on each dataset.
"""
TANGENT = 0.2
"""Log ratio from which the audit of MST guesses that the record was included. It is the best value for an oracle with
10,000 fits, computed from the law."""
QUOTED = {"Ganev et al., Clopper-Pearson (quoted)": 0.2796, "their default, a posterior quantile (quoted)": 0.4262}
"""Results quoted from the notebook experimental/audit_dpmm of sassoftware/dpmm; the default is at 90 % confidence."""


def ours(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: np.random.Generator) -> float:
    """Return the bound of `epsaudit.audit_scores`, which takes the outputs as scores of many runs."""
    members, values = np.repeat([True, False], [len(x), len(x_prime)]), np.concatenate([x, x_prime])
    how = {"delta": delta, "runs": np.arange(len(values)), "confidence": confidence, "seed": int(rng.integers(1 << 31))}
    return audit_scores(members, values, epsilon=1.0, **how).lower_bound


def ours_of_one(scores: Floats, coins: NDArray[np.bool_], delta: float, confidence: float) -> float:
    """Return the bound of `epsaudit.audit_scores` from the scores of one run."""
    return audit_scores(coins, scores, epsilon=1.0, delta=delta, confidence=confidence, seed=0).lower_bound


HERE = {"source": "this package, `audit_scores`", "settings": "defaults"}
OURS = Estimator(name="epsaudit, scores", valid="independent runs", fails="It sees tails only.", bound=ours, **HERE)
OF_ONE = OneRun(name="epsaudit, one run", valid="fair coins", fails="Many runs show more.", bound=ours_of_one, **HERE)
ENTRANTS, OF_COINS, WHOLE = (OURS, *ESTIMATORS), (OF_ONE, *ONE_RUN), "epsaudit, audit"
"""The estimators that take outputs, the estimators that take one run, and the name of the audit of a whole mechanism.
The coverage of such audits is measured by the study of validity."""


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure all parts, and write the table of estimators and one JSON file for each part to ``out``."""
    sets, repeats = (20, 1) if quick else (500, 3)
    seeds, groups = range(seed, seed + repeats), {case.group: [] for case in cases().values()}  # type: ignore[var-annotated]
    for case in cases().values():
        groups[case.group].append(case.name)
    law, wrong = groups.pop("known law"), groups["incorrect variant"][:: 4 if quick else 1]
    blocks = [(one, seed, range(k, min(k + BLOCK, sets))) for one in LAWS for k in range(0, sets, BLOCK)]
    covered, of_coins = (list(count_above_truth(on_all_cores(part, blocks))) for part in (coverage, coverage_of_one))
    # results of a million runs vary less, and take long
    repeated = {runs: seeds if runs < POWER[-1] else seeds[:1] for runs in (POWER[:1] if quick else POWER)}
    tasks = [(name, runs, one) for name in law for runs, some in repeated.items() for one in some]
    power = [
        {**first, "estimator": name, "bound": bound, "share": bound / first["oracle"]}
        for first, bounds in medians(on_all_cores(bounds_at, tasks, cost=lambda task: task[1]), "case", "runs")
        for name, bound in bounds.items()
    ]
    climbs = on_all_cores(
        measure_runs_to_refute, [(name, LADDER[: 5 if quick else None], one) for name in wrong for one in seeds]
    )
    climbed = [row for rows in climbs for row in rows]
    refuted = [
        {"case": c, "tool": t, "alpha": a, "runs": n} for (t, a, c), n in medians_by_tool(climbed, "runs").items()
    ]
    board = list(rank_estimators(covered, power, refuted))
    names = [name for some in groups.values() for name in some][:: 6 if quick else 1]
    tasks = [(name, 3_000 if quick else CASE_RUNS, seed) for name in names]
    met = list(compare_cases(on_all_cores(bounds_at, tasks), {row["estimator"] for row in board if row["within"]}))
    generator = list(
        summarise_generator_audits(on_all_cores(audit_generator, range(seed, seed + (2 if quick else 20))))
    )
    parts = {"coverage": covered, "power": power, "refuted": refuted, "cases": met, "one-run": of_coins}
    parts |= {"mst": generator, "times": list(count_refuted_by_time(climbed))}
    write_data(out, board, seed=seed, quick=quick, confidence=CONFIDENCE, sets=sets)
    for name, rows in parts.items():
        write_json(out / f"{name}.json", {"seed": seed, "confidence": CONFIDENCE, "rows": rows})
    write_table(out, board, COLUMNS, f"Bounds at {CONFIDENCE:.0%}: greatest share above the truth, and what they show.")
    write_figure(out / "coverage-power", draw_board(board, sets))
    write_whole(out / "page.md", page(board, parts))
    return answer(board, met, generator)


def stream(seed: int, *places: int | str) -> np.random.Generator:
    """Return the random number generator that belongs to one place of the study."""
    return np.random.default_rng([seed, *(int.from_bytes(str(one).encode()) for one in places)])


def coverage(job: tuple[Law, int, range]) -> tuple[str, dict[str, list[float]]]:
    """Return the bounds of every estimator on sets of outputs of one law."""
    law, seed, sets = job
    found: dict[str, list[float]] = {one.name: [] for one in ENTRANTS}
    for number in sets:
        x, x_prime = law.draw(stream(seed, law.name, number), EACH)
        for one in ENTRANTS:
            if one.name not in SLOW or number < FEWER:
                rng = stream(seed, number, one.name)
                found[one.name].append(one.bound(x, x_prime, delta_of(law.claim), CONFIDENCE, rng))
    return law.name, found


def coverage_of_one(job: tuple[Law, int, range]) -> tuple[str, dict[str, list[float]]]:
    """Return the bounds of every one-run estimator on runs whose canaries are scored independently."""
    law, seed, sets = job
    found: dict[str, list[float]] = {one.name: [] for one in OF_COINS}
    for number in sets:
        rng = stream(seed, law.name, "one run", number)
        coins = rng.random(CANARIES) < 0.5
        scores = np.where(coins, *law.draw(rng, CANARIES))
        for one in OF_COINS:
            found[one.name].append(one.bound(scores, coins, delta_of(law.claim), CONFIDENCE))
    return law.name, found


def count_above_truth(parts: Iterable[tuple[str, dict[str, list[float]]]]) -> Iterator[Row]:
    """Yield the number of bounds above the truth, with its confidence interval, for every estimator and law."""
    rows: dict[tuple[str, str], list[float]] = {}
    for law, found in parts:
        for name, bounds in found.items():
            rows.setdefault((law, name), []).extend(bounds)
    truths = {law.name: law.claim.parameter for law in LAWS}
    for (law, name), bounds in rows.items():
        above, sets = int(np.sum(np.array(bounds) > truths[law] + 1e-9)), len(bounds)
        ends = float(clopper_pearson_lower(above, sets, 0.025)), float(clopper_pearson_upper(above, sets, 0.025))
        facts = {"law": law, "truth": truths[law], "estimator": name, "sets": sets, "above": above}
        within = above <= tolerance(sets)
        shown = {"low": ends[0], "high": ends[1], "within": within, "median": float(np.median(bounds))}
        yield {**facts, "share": above / sets, **shown}


def tolerance(sets: int) -> int:
    """Return the largest number of bounds above the truth, of ``sets`` bounds, that counts as chance.

    Valid bounds at the confidence of the study exceed it with probability at most `EXCESS_PROBABILITY`.

    Examples
    --------
    >>> tolerance(500)
    51
    """
    return int(binom.isf(EXCESS_PROBABILITY, sets, 1.0 - CONFIDENCE))


def audit_bound(case: Case, runs: int, seed: int, confidence: float) -> float:
    """Return the bound of `epsaudit.audit`, or 0 if the audit is refused."""
    how = {"claim": case.claim, "trials": runs, "confidence": confidence, "seed": seed, "n_jobs": 1}
    try:
        return audit(case.mechanism, [case.pair], **how).lower_bound
    except AuditError:
        return 0.0


def bounds_at(job: tuple[str, int, int]) -> Row:
    """Return the bounds of every estimator on one case, with ``runs`` runs on both datasets together.

    Estimators that take numbers are left out if the outputs cannot become numbers.
    """
    case, runs, seed = cases()[job[0]], *job[1:]
    draw, tails, bounds = case.numbers(seed), case.tails(), {WHOLE: audit_bound(case, runs, seed, CONFIDENCE)}
    if draw is not None:
        rng = stream(seed, case.name, runs)
        x, x_prime = draw(0, runs // 2, rng), draw(1, runs // 2, rng)
        for one in ENTRANTS:
            bounds[one.name] = one.bound(x, x_prime, case.point[1], CONFIDENCE, stream(seed, runs, one.name))
    oracle = math.nan if tails is None else oracle_bound(tails, case.claim, runs, CONFIDENCE)
    about = {"group": case.group, "case": case.name, "claimed": case.point[0], "delta": case.point[1]}
    return {**about, "runs": runs, "oracle": oracle, "bounds": bounds}


def medians(found: Iterable[Row], *keys: str) -> Iterator[tuple[Row, dict[str, float]]]:
    """Yield, for each group of rows with the same values of the keys, its common fields and the median bounds."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for one in found:
        groups.setdefault(tuple(one[key] for key in keys), []).append(one)
    for rows in groups.values():
        middle = {name: statistics.median(row["bounds"][name] for row in rows) for name in rows[0]["bounds"]}
        yield {key: value for key, value in rows[0].items() if key != "bounds"}, middle


def compare_cases(found: list[Row], within: set[str]) -> Iterator[Row]:
    """Yield the cases with epsaudit's median bound and the best other bound, sorted by the ratio of the two.

    Only estimators in ``within`` are compared: these keep the tolerance on every law.
    """
    rows = []
    for first, bounds in medians(found, "case"):
        rest = {name: bound for name, bound in bounds.items() if name in within and not name.startswith("epsaudit")}
        best = max(rest, key=lambda name: rest[name], default="not applicable")
        other = rest.get(best, math.nan)
        share = bounds[WHOLE] / other if other > 0.0 else math.inf
        comparison = {"ours": bounds[WHOLE], "other": other, "by": best, "share": share, "lost": share < 1.0}
        rows.append({**first, **comparison, "bounds": bounds})
    yield from sorted(rows, key=lambda row: (row["share"], row["case"]))


def measure_runs_to_refute(job: tuple[str, Sequence[int], int]) -> list[Row]:
    """Return the number of runs and the processor seconds after which each tool refutes an incorrect claim.

    Each tool gets more and more runs until it refutes the claim, at two significance levels. Rows for sequential tests,
    which stop by themselves, and for an oracle, whose expected counts refute, are added.
    """
    case, sizes, seed = cases()[job[0]], *job[1:]
    (epsilon, delta), started, draw = case.point, time.process_time(), case.numbers(seed)
    assert draw is not None
    rng, rows = stream(seed, case.name), []
    x, x_prime = draw(0, sizes[-1] // 2, rng), draw(1, sizes[-1] // 2, rng)
    # processor seconds per run of drawing outputs and of learning how they become numbers
    each = (time.process_time() - started) / sizes[-1]

    def bound(one: Estimator, runs: int, confidence: float) -> float:
        half = runs // 2
        return one.bound(x[:half], x_prime[:half], delta, confidence, stream(seed, runs, one.name))

    tools: dict[str, Callable[[int, float], float]] = {one.name: partial(bound, one) for one in ENTRANTS}
    tools[WHOLE] = lambda runs, confidence: audit_bound(case, runs, seed, confidence)
    asked = dict.fromkeys(tools, sizes)
    for alpha in ALPHAS:
        for name, tool in tools.items():
            row = {"case": case.name, "tool": name, "alpha": alpha, "runs": math.inf, "seconds": math.inf}
            for runs in asked[name]:
                started = time.process_time()
                if tool(runs, 1.0 - alpha) > epsilon:
                    row |= {"runs": runs, "seconds": time.process_time() - started + each * runs * (name != WHOLE)}
                    break
            rows.append(row)
            # a stricter level needs at least as many runs
            asked[name] = [runs for runs in sizes if runs >= row["runs"]]
        how = {"claim": case.claim, "trials": SEQUENTIAL_RUNS, "confidence": 1.0 - alpha, "seed": seed, "n_jobs": 1}
        found = audit_sequentially(case.mechanism, [case.pair], **how)
        taken: dict[str, float | None] = {"epsaudit, sequential": found.runs if found.violates_claim else None}
        for test in SEQUENTIAL_TESTS:
            rng = stream(seed, case.name, test.name)
            taken[test.name] = test.runs_to_refute(draw, epsilon, delta, alpha, rng, SEQUENTIAL_RUNS)
        if (tails := case.tails()) is not None:
            taken["oracle, expected counts"] = round(runs_to_refute(tails, case.claim, 1.0 - alpha))
        labels = {"case": case.name, "alpha": alpha}
        rows += [{**labels, "tool": name, "runs": math.inf if n is None else n} for name, n in taken.items()]
    return rows


def medians_by_tool(climbed: Iterable[Row], what: str) -> dict[tuple[str, float, str], float]:
    """Return medians over the repetitions, by tool, level and case."""
    groups: dict[tuple[str, float, str], list[float]] = {}
    for row in climbed:
        if what in row:
            groups.setdefault((row["tool"], row["alpha"], row["case"]), []).append(row[what])
    return {key: statistics.median(values) for key, values in groups.items()}


def count_refuted_by_time(climbed: Iterable[Row]) -> Iterator[Row]:
    """Yield how many variants each tool refutes at 5 % within some numbers of seconds on one core."""
    taken = {key: seconds for key, seconds in medians_by_tool(climbed, "seconds").items() if key[1] == ALPHAS[0]}
    for name in dict.fromkeys(key[0] for key in taken):
        mine = [seconds for key, seconds in taken.items() if key[0] == name]
        yield {"estimator": name, **{f"after {s:g} s": sum(one <= s for one in mine) for s in SECONDS}}


def audit_generator(seed: int) -> dict[str, float]:
    """Return lower bounds on mu from 5,000 fits of MST on each dataset, by several methods."""
    mu, rng, sets = mst_mu(), stream(seed, "MST"), (MST_PAIR.x_prime, MST_PAIR.x)
    claim, sides = GaussianDP(mu), np.repeat([True, False], FITS)

    def log_ratio(data: Any, size: int) -> Floats:
        """Return the log likelihood ratio of each fit; only the three counts of ones depend on the record."""
        return np.asarray((np.sum(mst(data, size, rng)[:, 1::2], axis=1) - 1.5) * mu**2 / 3.0)

    ratios_of_all = np.concatenate([log_ratio(data, FITS) for data in sets])
    scored = audit_scores(sides, ratios_of_all, claim=claim, runs=np.arange(2 * FITS), confidence=CONFIDENCE, seed=seed)
    how = {"trials": 2 * FITS, "confidence": CONFIDENCE, "seed": seed, "n_jobs": 1}
    learned = audit(vectorized(mst, claim=claim), [MST_PAIR], **how)
    included = int(rng.binomial(2 * FITS, 0.5))  # as if a fair coin had been flipped for each fit
    sizes = included, 2 * FITS - included
    ratios = [log_ratio(data, size) for data, size in zip(sets, sizes, strict=True)]
    counts = Counts(*sizes, *(float(np.sum(sign * one >= TANGENT)) for sign in (1, -1) for one in ratios))
    return {
        "epsaudit, membership game at the event known from the mechanism": float(
            MembershipGame(TANGENT).parameter(claim, counts, CONFIDENCE)
        ),
        "epsaudit, scores: the log ratio": scored.lower_bound,
        "epsaudit, audit: an event is learned": learned.lower_bound,
    }


def summarise_generator_audits(fitted: Sequence[dict[str, float]]) -> Iterator[Row]:
    """Yield the median and the lowest decile of the bounds on mu, and the number of bounds above the truth."""
    for way in fitted[0]:
        mus = [one[way] for one in fitted]
        above = sum(mu > mst_mu() for mu in mus)
        low, middle = (float(one) for one in np.quantile(mus, [0.1, 0.5]))
        yield {"way": way, "audits": len(mus), "median mu": middle, "lowest decile": low, "above the truth": above}
    for way, mu in QUOTED.items():
        yield {"way": way, "audits": 1, "median mu": mu, "lowest decile": math.nan, "above the truth": math.nan}


def rank_estimators(covered: list[Row], power: list[Row], refuted: list[Row]) -> Iterator[Row]:
    """Yield one row per estimator: its worst law, its shares of the oracle's bound, and its refuted variants."""
    for name in [one.name for one in ENTRANTS] + [WHOLE]:
        mine = [row for row in covered if row["estimator"] == name]
        nowhere = {"share": math.nan, "low": math.nan, "high": math.nan, "law": "study validity"}
        worst = max(mine, key=lambda row: row["share"], default=nowhere)
        row = {"estimator": name, **{key: worst[key] for key in nowhere}, "within": all(one["within"] for one in mine)}
        for runs in POWER:
            some = [one["share"] for one in power if (one["estimator"], one["runs"]) == (name, runs)]
            row[f"{runs:,} runs"] = statistics.median(some) if some else math.nan
        for alpha in ALPHAS:
            runs = [one["runs"] for one in refuted if (one["tool"], one["alpha"]) == (name, alpha)]
            row[f"refuted at {alpha:g}"] = sum(map(math.isfinite, runs))
        yield row


COLUMNS = (
    TableColumn("estimator", "estimator", width="5cm"),
    TableColumn("share", "above the truth", "number", 3),
    *(TableColumn(end, what, "number", 3) for end, what in (("low", "from"), ("high", "to"))),
    TableColumn("law", "on", width="2.5cm"),
    *(TableColumn(f"{runs:,} runs", f"{runs:,} runs", "number", 3) for runs in POWER),
    *(TableColumn(f"refuted at {alpha:g}", f"refuted at {alpha:g}", "count") for alpha in ALPHAS),
)


def plain_table(rows: Sequence[Row], text: str, numbers: str) -> str:
    """Return a Markdown table of the named fields, in which lower bounds are rounded down.

    ``text`` and ``numbers`` are names of fields separated by '; '.
    """
    lower = ("ours", "other", "median", "median mu", "lowest decile")
    columns = [TableColumn(one, one) for one in text.split("; ")]
    columns += [TableColumn(one, one, "lower" if one in lower else "number") for one in numbers.split("; ")]
    return to_markdown(rows, columns)


def page(board: list[Row], parts: dict[str, list[Row]]) -> str:
    """Return the page as Markdown: the tables of all parts, and one paragraph for each estimator."""
    seconds = {row["estimator"]: row for row in parts["times"]}
    rows = [{**seconds[r["estimator"]], **r, "estimator": f"{k}. {r['estimator']}"} for k, r in enumerate(board, 1)]
    columns = (*COLUMNS, *(TableColumn(f"after {s:g} s", f"after {s:g} s", "count") for s in SECONDS))
    lines = ["## Estimators\n", to_markdown(rows, columns)]
    for one in (*ENTRANTS, *OF_COINS, *SEQUENTIAL_TESTS):
        valid = f"A bound for {one.valid}." if one.valid else "No bound."
        lines.append(f"**{one.name}** ({one.source}; {one.settings}). {valid} {one.fails}\n")
    lines += ["## Cases\n", plain_table(parts["cases"], "group; case; by", "claimed; oracle; ours; other; share")]
    wide: dict[tuple[str, float], Row] = {}
    for row in parts["refuted"]:
        runs = f"{row['runs']:,.0f}" if math.isfinite(row["runs"]) else "not refuted"
        wide.setdefault((row["tool"], row["alpha"]), {"tool": row["tool"], "at": row["alpha"]})[row["case"]] = runs
    fields = "; ".join(dict.fromkeys(name for row in wide.values() for name in row if name != "at"))
    lines += ["## Runs to refute\n", plain_table(list(wide.values()), fields, "at")]
    lines += ["## One run\n", plain_table(parts["one-run"], "estimator; law", "truth; share; low; high; median")]
    numbers = "audits; median mu; lowest decile; above the truth"
    lines += [f"## MST: mu is at most {mst_mu():.4f}\n", plain_table(parts["mst"], "way", numbers)]
    return "\n".join(lines)


def answer(board: list[Row], met: list[Row], generator: list[Row]) -> str:
    """Return a text on the estimators that keep their confidence, the cases that epsaudit loses, and MST."""
    kept = [row["estimator"] for row in board if row["within"]]
    failed = [f"{row['estimator']} ({row['share']:.1%})" for row in board if not row["within"]]
    lost = [row["case"] for row in met if row["lost"]]
    return (
        f"Within the tolerance on every law: {'; '.join(kept)}. Above the truth more often, at worst: "
        f"{'; '.join(failed)}. Of {len(met)} cases another bound within the tolerance is above ours in {len(lost)}: "
        f"{'; '.join(lost) or 'none'}. "
        f"MST: a median of mu >= {math.floor(1e3 * generator[0]['median mu']) / 1e3}, theirs 0.279, of {mst_mu():.3f}."
    )


@styled()
def draw_board(board: list[Row], sets: int, most: float = 1.5) -> Figure:
    """Draw coverage against power, with one point per estimator, labelled by its number in the table.

    The coverage was measured with ``sets`` sets of outputs of each law. The grey band shows which shares above the
    dotted line a valid bound may reach by chance.
    """
    figure = new_figure(TWO_COLUMNS, 3.6)
    axes = figure.add_subplot()
    runs = next(f"{one:,} runs" for one in reversed(POWER) if not math.isnan(board[0][f"{one:,} runs"]))
    drawn = {k: (row["share"], min(row[runs], most), row["within"]) for k, row in enumerate(board, 1)}
    drawn = {k: row for k, row in drawn.items() if not math.isnan(row[0])}  # the audit of a mechanism has no share
    for within, colour, marker in ((True, BLUE, "o"), (False, VERMILION, "s")):
        mine = [(share, height) for share, height, kept in drawn.values() if kept is within]
        style = {"color": colour, "marker": marker, "linestyle": "none"}
        axes.plot(*np.array(mine).reshape(-1, 2).T, label="within the tolerance" if within else "beyond it", **style)
    limit, about = tolerance(sets) / sets, "a valid bound may get here by chance"
    axes.axvspan(1.0 - CONFIDENCE, limit, facecolor="0.92", linewidth=0.0, zorder=0, label=about)
    axes.axvline(1.0 - CONFIDENCE, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xticks(ticks := (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0), [f"{one:g}" for one in ticks])
    axes.set_yticks((0.0, 0.5, 1.0, most), ("0", "0.5", "1", f"{most:g} or more"))
    axes.set(xlim=(-0.02, 2.6), ylim=(0.0, most + 0.1))
    axes.set(xlabel="bounds above the truth, on the worst law", ylabel=f"share of an oracle's bound, {runs}")
    legend = axes.legend(loc="lower right")
    figure.draw_without_rendering()
    line = Bbox(axes.transData.transform([(1.0 - CONFIDENCE, 0.0), (1.0 - CONFIDENCE, most)])).padded(2.0)
    label_points(axes, {k: row[:2] for k, row in drawn.items()}, [line, legend.get_window_extent()])
    return figure

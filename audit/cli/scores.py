"""``epsaudit scores``: reads a file of scores, or four counts, and prints a bound beside what is usually printed."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.scores import audit_scores, usual_estimates
from epsaudit.claims.definitions import TradeOff, claim_given
from epsaudit.cli import AS_EXPECTED, SURPRISED, read_json, recorded, say_json, sayer
from epsaudit.engine.provenance import entropy, typed, write_whole
from epsaudit.errors import AuditError, meant, needs
from epsaudit.results import result as results

Columns = dict[str, NDArray[Any]]
IN = {"1": True, "true": True, "in": True, "yes": True, "0": False, "false": False, "out": False, "no": False}
"""Words that a file may have for membership."""


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
    **numbers: Any,
) -> int:
    """Audit what a file or counts say; the exit status says whether the claim is refuted."""
    if (file is None) == (counts is None):
        raise AuditError("Give a file of scores, or --counts TP FP TN FN.")
    curve = TradeOff(tuple(map(tuple, read_json(profile, "--profile")))) if profile else None
    claim = claim_given(curve, **{**numbers, "delta": numbers["delta"] or 0.0})
    asked: dict[str, Any] = {
        "claim": claim,
        "confidence": confidence,
        "seed": entropy(seed),
        "name": str(file or "counts"),
    }
    if counts is not None:
        if min(counts) < 0:
            raise AuditError(f"--counts are {counts}; none may be below 0.")
        members = np.repeat([True, False, False, True], counts)
        values = np.repeat([1.0, 1.0, -1.0, -1.0], counts)
        runs = None if one_run else np.arange(len(members))
        threshold = 0.0
        result = audit_scores(members, values, runs=runs, threshold=threshold, **asked)
    else:
        assert file is not None
        columns = read(file)
        column = _chooser(columns, dict(part.partition("=")[::2] for part in names.split(",") if part), file)
        members, values = membership(column("included")), column("score")
        if values.dtype.kind not in "fiub":
            values = np.array([_number(one, file) for one in values.tolist()])
        given = {"runs": column("run", None), "canaries": column("canary", None), "scored": column("scored", None)}
        chosen: Any = int(guesses) if guesses is not None and guesses.isdigit() else guesses
        result = audit_scores(members, values, guesses=chosen, threshold=threshold, **given, **asked)
    usual = usual_estimates(values[members], values[~members], result.claim, confidence, threshold)
    say = sayer(quiet or as_json)
    say(str(result))
    if result.reach > 0.0 and "at most" not in dict(result.lines()):
        say(f"  at most    {result.claim.symbol} {result.reach:.4g}, were all guesses right")
    for name, value in usual.items():
        say(f"  no bound   {name}: epsilon {value:.4g}")
    if out is not None:
        with typed(recorded(result.seed)):
            results.save([result], out)
    if figure is not None:
        with needs("report"):
            from epsaudit.reporting import figures
        write_whole(
            figure, figures.render(figures.scores(values[members], values[~members], result), figures.ending(figure))
        )
    say_json(as_json, {**result.to_dict(), "reach": result.reach, "no_bounds": usual})
    return SURPRISED if result.violates_claim else AS_EXPECTED


def read(file: Path) -> Columns:
    """Read columns of a .csv, .parquet, .npz or .npy file; a matrix of .npy has membership and scores in its columns.

    Columns 'in' and 'out' are scores of runs with the canary and without, and become 'included', 'score' and 'run'.
    """
    kind = file.suffix.lower()
    try:
        if kind == ".csv":
            with file.open(encoding="utf-8-sig", newline="") as stream:
                head, *rows = [row for row in csv.reader(stream) if row]
            if any(len(row) != len(head) for row in rows):
                raise AuditError(f"{file} has rows of other lengths than its head, which names {len(head)} columns.")
            columns: Columns = {
                name.strip(): np.array(column) for name, column in zip(head, zip(*rows, strict=True), strict=True)
            }
        elif kind == ".parquet":
            with needs("parquet"):
                import polars
            columns = {one.name: one.to_numpy() for one in polars.read_parquet(file)}
        elif kind in (".npz", ".npy"):
            found = np.load(file, allow_pickle=False)
            names = ("included", "score", "run", "canary")
            columns = (
                dict(found)
                if kind == ".npz"
                else {
                    name: found[name] if found.dtype.names else found[:, place]
                    for place, name in enumerate(found.dtype.names or names[: found.shape[1]])
                }
            )
        else:
            raise AuditError(f"{file} ends in {kind!r}; .csv, .parquet, .npz and .npy are read.")
    except (OSError, ValueError, IndexError) as error:
        if isinstance(error, AuditError):
            raise
        raise AuditError(f"{file} cannot be read: {str(error).rstrip('.')}.") from None
    if {"in", "out"} <= columns.keys():
        sides = [np.asarray([one for one in columns[name].tolist() if one != ""], float) for name in ("in", "out")]
        members = np.repeat([True, False], [len(side) for side in sides])
        return {"included": members, "score": np.concatenate(sides), "run": np.arange(len(members))}
    return columns


def membership(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Read who is in: numbers 0 and 1, or words of `IN`."""
    if column.dtype.kind in "biuf" and np.all((column == 0) | (column == 1)):
        return column.astype(bool)
    words = [str(one).strip().lower() for one in column.tolist()]
    if unknown := [word for word in words if word not in IN]:
        raise AuditError(f"A member is {unknown[0]!r}; it must be one of {', '.join(IN)}.")
    return np.array([IN[word] for word in words])


def _number(text: Any, file: Path) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise AuditError(f"A score in {file} is {text!r}; it must be a number.") from None


def _chooser(columns: Columns, names: dict[str, str], file: Path) -> Any:
    known = ("included", "score", "run", "canary", "scored")
    for role in names:
        if role not in known:
            raise AuditError(f"--names has {role!r}; {', '.join(known)} are read.{meant(role, known)}")

    def column(role: str, otherwise: Any = ...) -> Any:
        name = names.get(role, role)
        if name in columns:
            return columns[name]
        if otherwise is ... or role in names:
            raise AuditError(f"{file} has no column {name!r}; it has {', '.join(map(repr, columns))}. See --names.")
        return otherwise

    return column

"""The command ``epsaudit holdout``, which audits a release with a holdout: files of scores, or tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epsaudit.audits.holdout import HoldoutResult, audit_holdout
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.errors import AuditError, needs
from epsaudit.results import result as results
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.provenance import typed
from epsaudit.running.streams import entropy
from epsaudit.text import lower
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, Words, print_json, printer, recorded_command
from epsaudit.tools.holdout import audit_tables
from epsaudit.tools.holdout.tables import find_strata, read_tables


def holdout(
    files: tuple[Path, ...],
    *,
    train: Path | None,
    holdout: Path | None,
    release: Path | None,
    columns: str | None,
    strata: str | None,
    adjacency: str,
    confidence: float,
    seed: int | None,
    out: Path | None,
    page: Path | None,
    as_json: bool,
    quiet: bool,
    numbers: dict[str, float],
) -> int:
    """Run ``epsaudit holdout``: audit a release, such as a model or synthetic data, with a holdout.

    The input is two files of scores (of the train records and of the holdout records), or the three tables train,
    holdout and release. Prints the result and writes files. Returns the exit status: 1 if the claim is refuted.
    """
    given = [option for option, file in {"--train": train, "--holdout": holdout, "--release": release}.items() if file]
    if (len(files), len(given)) not in ((2, 0), (0, 3)):
        there = ["1 file" if len(files) == 1 else f"{len(files)} files", *given]
        raise AuditError(
            "Give two files of scores, of the train part and of the holdout, or all of --train, --holdout and "
            f"--release; {', '.join(there[:-1])}{' and ' * (len(there) > 1)}{there[-1]} were given."
        )
    refuse_unwritable(out, page)
    if page is not None:
        with needs("tools"):
            from epsaudit.tools.reporting.holdout_page import render_holdout
    claim = claim_given(None, **numbers)
    seed = entropy(seed)
    chosen, groups = _split_names(columns), _split_names(strata)
    if files:
        result = _audit_score_files(files, chosen, groups, claim, adjacency, confidence, seed)
    else:
        result = audit_tables(
            train,
            holdout,
            release,
            claim=claim,
            adjacency=adjacency,
            columns=chosen or None,
            strata=groups,
            confidence=confidence,
            seed=seed,
        )
    show = printer(quiet or as_json)
    show(str(result))
    if result.reach > 0.0 and not result.limits:
        show(f"  at most    {result.claim.symbol} {lower(result.reach)} if all pairs were guessed correctly")
    if out is not None:
        with typed(recorded_command(seed)):
            results.save([result], out)
    if page is not None:
        write_whole(page, render_holdout(result, "holdout.json" if out is None else out.name))
    print_json(as_json, {**result.to_dict(), "reach": result.reach})
    return SURPRISED if result.violates_claim else AS_EXPECTED


def _audit_score_files(
    files: tuple[Path, ...],
    columns: Words,
    strata: Words,
    claim: Claim | None,
    adjacency: str,
    confidence: float,
    seed: int,
) -> HoldoutResult:
    """Audit a file of scores of the train records and a file of scores of the holdout records; return the result.

    The columns ``strata`` name the strata of the random split. All other columns (or those in ``columns``) are scores.
    """
    selected = (*columns, *(name for name in strata if name not in columns)) if columns else None
    tables = read_tables(dict(zip(("train", "holdout"), files, strict=True)), selected)
    names = [name for name in tables["train"].names if name not in strata]
    if not names:
        raise AuditError(f"All columns of {files[0]} name strata; give at least one column of scores.")
    places = [tables["train"].names.index(name) for name in names]
    for name, place in zip(names, places, strict=True):
        if levels := tables["train"].levels[place]:
            raise AuditError(
                f"{name} contains {levels[0]!r}; scores must be numbers. Select the scores with --columns, and name "
                "columns of strata with --strata."
            )
    train, holdout = (tables[part].values[:, places] for part in ("train", "holdout"))
    if np.array_equal(train, holdout):
        raise AuditError(f"{files[0]} and {files[1]} contain the same scores; give scores of two different parts.")
    return audit_holdout(
        train,
        holdout,
        claim=claim,
        adjacency=adjacency,
        strata=find_strata(tables, strata),
        confidence=confidence,
        name=str(files[0]),
        names=names,
        seed=seed,
    )


def _split_names(text: str | None) -> Words:
    """Split a comma-separated list of names and return the names; return no names for None."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())

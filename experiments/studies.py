"""The studies that `epsaudit experiment` runs: named modules that write data, a table and often a figure into a folder.

A package contributes studies through the entry-point group ``epsaudit.experiments``; each entry point is a function
without arguments that returns a list of studies. The same rows give the same files. Times and facts about the machine
are written to provenance.json instead.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib

from epsaudit.codec import to_json
from epsaudit.errors import AuditError, needs, whole_at_least
from epsaudit.running.files import write_whole
from epsaudit.running.provenance import execution, provenance
from epsaudit.running.registry import collect
from epsaudit.text import markdown
from epsaudit.tools.reporting.tables import Row, TableColumn, to_csv, to_latex

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Study:
    """A study, which consists of one module or of several parts.

    A module has a function ``main(out: Path, seed: int, quick: bool) -> str``. The function writes into ``out``, with
    the same data for the same seed, and returns the result in words. If there are several parts, each writes into a
    folder of its own within the study's folder.
    """

    name: str
    """Unique name in kebab-case. Users type it, and the folder of results has this name."""
    modules: tuple[str, ...]
    """Importable names of the modules."""
    about: str = ""
    """One line that says what several parts measure together. If it is empty, the first line of the module's docstring
    is used."""
    extra: str = ""
    """The extra that the study needs beyond the core: 'report', 'studies' (which includes 'report'), or '' for none."""
    network: bool = False
    """Whether the study installs released libraries. Such a study is not part of 'all'."""

    @property
    def summary(self) -> str:
        """One line that says what the study measures.

        It is read from the module's source, without importing the module.
        """
        if self.about:
            return self.about
        found = importlib.util.find_spec(self.modules[0])
        if found is None or found.origin is None:
            raise AuditError(f"Study {self.name!r} cannot be run: there is no module {self.modules[0]!r}.")
        source = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
        return (ast.get_docstring(source) or "").partition("\n")[0].rstrip(".")

    def parts(self) -> dict[str, Study]:
        """Return the parts of a study of several modules as studies, by names such as 'libraries/score-tools'."""
        if len(self.modules) == 1:
            return {}
        named = {f"{self.name}/{_folder_of(one)}": one for one in self.modules}
        return {name: replace(self, name=name, modules=(one,), about="") for name, one in named.items()}

    def run(self, out: Path, seed: int = 0, quick: bool = False) -> None:
        """Import the modules and run the study into ``out``; raises `AuditError` if a module cannot be imported."""
        try:
            with needs("studies"):
                parts = {_folder_of(one): importlib.import_module(one).main for one in self.modules}
        except (ImportError, AttributeError) as error:
            raise AuditError(f"Study {self.name!r} cannot be imported ({error}).") from error

        def main(out: Path, *, seed: int, quick: bool) -> str:
            answers, failures = [], []
            for name, part in parts.items():
                try:
                    answers.append(part(out / name if len(parts) > 1 else out, seed=seed, quick=quick))
                except AuditError as error:  # run the other parts nevertheless, since they may take an hour
                    failures.append(str(error))
            if failures:
                raise AuditError(" ".join(failures))
            return " ".join(answers)

        run(main, Path(out), seed, quick, self.summary)


def _folder_of(module: str) -> str:
    """Return the name of the folder with the results of a part."""
    return module.rpartition(".")[2].replace("_", "-")


def studies() -> dict[str, Study]:
    """Return every installed study by name; see `epsaudit.running.registry.collect`."""
    return collect("epsaudit.experiments", "studies", Study)


def run(main: Callable[..., str], out: Path, seed: int = 0, quick: bool = False, summary: str = "") -> None:
    """Run a study, and write provenance.json and README.md beside its data.

    Raises `AuditError` if the seed is not a whole number of at least 0, or if ``out`` cannot be written to.
    """
    facts = {"seed": whole_at_least(seed, 0, "seed"), "quick": quick, **provenance()}
    write_json(out / "provenance.json", facts)  # the only content of the folder until the study has ended
    started = time.perf_counter()
    answer = main(out, seed=seed, quick=quick)
    stamp(out, facts, time.perf_counter() - started)
    write_readme(out, summary, answer)


def stamp(out: Path, facts: Mapping[str, Any], seconds: float) -> None:
    """Write provenance.json: the given facts, and the time, the machine and the command of the execution."""
    write_json(out / "provenance.json", {**facts, "execution": {**execution(seconds), "seconds": round(seconds, 1)}})


def write_readme(out: Path, summary: str, answer: str, folders: Mapping[str, str] | None = None) -> None:
    """Write README.md: what is measured, the result, facts from provenance.json, and an index of ``folders``."""
    facts = json.loads((out / "provenance.json").read_text(encoding="utf-8"))
    ran = facts["execution"]
    quick = " (a quick look, not a result)" if facts.get("quick") else ""
    changed = f", with changes to {facts['modified']}" if "modified" in facts else ""
    took = f", {ran['seconds'] / 60:.0f} minutes" if ran["seconds"] >= 90 else f", {ran['seconds']:.0f} seconds"
    lines = [
        f"# {out.name}\n",
        f"- **What**: {markdown(summary)}",
        f"- **Found**{quick}: {markdown(answer)}",
        f"- **Command**: `{ran.get('command', '')}`",
        f"- **Date**: {ran['started'][:10]}{took}",
        f"- **Commit**: {markdown(facts.get('commit', 'not of a checkout') + changed)}",
    ]
    page = ["\nMore in [page.md](page.md)."] if (out / "page.md").exists() else []
    index = [f"- [{name}]({name}): {markdown(what)}" for name, what in (folders or {}).items()]
    write_whole(out / "README.md", "\n".join(lines + page + [""] * bool(index) + index) + "\n")


def on_all_cores(
    measure: Callable[[Any], Any], items: Iterable[Any], cost: Callable[[Any], Any] = lambda _: 0
) -> list[Any]:
    """Measure every item on all cores, and return the results in the order of the items.

    The items with the largest cost start first, so that no core is left with a long item at the end.

    Examples
    --------
    >>> on_all_cores(abs, [-2, 1, -3], cost=abs)
    [2, 1, 3]
    """
    listed = list(items)
    order = sorted(range(len(listed)), key=lambda at: cost(listed[at]), reverse=True)
    found = joblib.Parallel(n_jobs=-1)(joblib.delayed(measure)(listed[at]) for at in order)
    return [one for _, one in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]


def write_data(out: Path, rows: Sequence[Row], **facts: Any) -> None:
    """Write data.csv with all rows, and data.json with ``facts`` (such as seed, runs and confidence) and the rows.

    Times and facts about the machine do not belong here, because the same seed must give the same files.
    """
    write_whole(out / "data.csv", to_csv(rows))
    write_json(out / "data.json", {**facts, "rows": list(rows)})


def write_json(path: Path, data: Any) -> None:
    """Write data as JSON, with infinite numbers and NaN as text."""
    write_whole(path, json.dumps(to_json(data), indent=1, allow_nan=False) + "\n")


def stored_rows(folder: Path, name: str = "rows") -> list[dict[str, Any]]:
    """Return the rows that a study wrote to data.json in a folder of results; raises `AuditError` if there are none."""
    try:
        rows: list[dict[str, Any]] = json.loads((folder / "data.json").read_text(encoding="utf-8"))[name]
    except (FileNotFoundError, KeyError):
        raise AuditError(f"There are no results in {folder}; run the study without --quick, in a checkout.") from None
    return rows


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure as PNG and as PDF; ``path`` has no ending."""
    from epsaudit.tools.reporting.figures import render_figure  # matplotlib takes a second to import

    for kind in ("png", "pdf"):
        write_whole(path.with_name(f"{path.name}.{kind}"), render_figure(figure, kind))


def write_table(
    out: Path, rows: Sequence[Row], columns: Sequence[TableColumn], caption: str, name: str = "table"
) -> None:
    """Write a table as ``name``.tex. The caption is plain text and should state confidence and number of runs."""
    write_whole(out / f"{name}.tex", to_latex(rows, columns, caption, label=f"tab:{out.name}-{name}"))

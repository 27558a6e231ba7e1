"""What `epsaudit experiment` runs: named studies, each a module that writes data, figures and a table into a folder.

A package contributes studies through the entry-point group ``epsaudit.experiments``; each entry point is a function
without arguments that returns them. The harness itself knows none, and imports a study's module only to run it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from epsaudit.errors import AuditError
from epsaudit.extras import needs
from epsaudit.registry import collected


@dataclass(frozen=True)
class Study:
    """One study.

    Attributes
    ----------
    name : str
        Unique, in kebab-case: what a user types, and the folder of its results.
    module : str
        Importable name of a module with ``main(out: Path, seed: int, quick: bool) -> str``, which writes data.csv,
        data.json, table.tex, figures as PNG and PDF into the folder ``out``, the same data for the same seed, and
        returns the answer to the module's ``QUESTION``, made from the data: both go to README.md. See
        `epsaudit.reporting.studies` for what helps.
    summary : str
        In one line, what is measured.
    """

    name: str
    module: str
    summary: str

    def run(self, out: Path, seed: int = 0, quick: bool = False, allow_modified: bool = False) -> None:
        """Import the module and run the study into ``out``; raises `AuditError` if it cannot be imported."""
        try:
            with needs("studies"):
                from epsaudit.reporting.studies import run

                main = importlib.import_module(self.module).main
        except (ImportError, AttributeError) as error:
            raise AuditError(f"Study {self.name!r} cannot be imported ({error}).") from error
        run(main, Path(out), seed, quick, allow_modified)


def studies() -> dict[str, Study]:
    """Collect every installed study by name; see `epsaudit.registry.collected`."""
    return collected("epsaudit.experiments", "studies", Study)

"""What a study hunts: functions of released libraries, as a user meets them who knows their data and their claim.

`epsaudit.experiments.hunts_bugs` lists those that are affected by a bug, `epsaudit.experiments.hunts_sound` others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from epsaudit.claims.definitions import Claim

NUMBER = {"answers": {}}
"""Data of a mechanism that takes a number, which one record moves by 1."""
DIFFPRIVLIB = "import numpy as np\nfrom diffprivlib import mechanisms, models, tools"
OPENDP = 'import opendp.prelude as dp\ndp.enable_features("contrib")'


@dataclass(frozen=True)
class Target:
    """A function, what its data are, and what it claims.

    Attributes
    ----------
    version, label : str
        'opendp-0.16.0', which names its environment, and the name of a row of the corpus, or one of its own.
    imports, line : str
        What stands in the user's file: imports, and the body of ``run(data)``.
    claim : Claim
    data : mapping
        Of the schema, as a file would hold it.
    adjacency : str, optional
        The relation that the claim is for; None for a number that moves by 1.
    witnesses : 'auto' or 'all'
        'all' where the library says that its floating-point numbers are safe.
    needs : int
        Records of the larger dataset without which the bug cannot show; 0 where none is known to be needed.
    """

    version: str
    label: str
    imports: str
    line: str
    claim: Claim
    data: Mapping[str, Any]
    adjacency: str | None = None
    witnesses: Literal["auto", "all"] = "auto"
    needs: int = 0

    @property
    def name(self) -> str:
        """'opendp-0.16.0/threshold'."""
        return f"{self.version}/{self.label}"

    @property
    def code(self) -> str:
        """The user's file."""
        return f"{self.imports}\n\n\ndef run(data):\n    return {self.line}\n"

    @property
    def lines(self) -> int:
        """How many lines the user writes: of code that are not empty, and one of the schema."""
        return 1 + sum(bool(line) for line in self.code.splitlines())

    @property
    def schema(self) -> dict[str, Any]:
        """What the schema file holds."""
        return {"data": self.data, **({"adjacency": self.adjacency} if self.adjacency else {})}


def table(*columns: tuple[str, float, float], least: int = 1) -> dict[str, Any]:
    """Columns by name and bounds, of so many records at least."""
    return {"columns": [{"name": name, "bounds": [low, high]} for name, low, high in columns], "least": least}


def categories(*values: Any, least: int = 0, **more: Any) -> dict[str, Any]:
    """One column of categories."""
    return {"columns": [{"name": "value", "type": "category", "categories": list(values)}], "least": least, **more}

"""Run the notebook of the tutorials in a kernel; ``python docs/notebook.py`` writes what its cells show now into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

PATH = Path(__file__).parent / "tutorials" / "notebook.ipynb"


def executed(path: Path = PATH) -> Any:
    """Return the notebook with the outputs of today's code, and nothing that differs from run to run."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=60, kernel_name="python3", record_timing=False).execute()
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


def shown(notebook: Any) -> list[list[tuple[str, str]]]:
    """Return of each cell of code what it shows: kinds, and the text of those that are the same on every machine."""
    return [
        [
            (kind, text if kind == "stream" or text.startswith("<div style=") else "")
            for output in cell.outputs
            for kind, text in (
                [("stream", output.text)] if output.output_type == "stream" else sorted(output.data.items())
            )
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


if __name__ == "__main__":
    nbformat.write(executed(), PATH)

"""Run the tutorial notebook in a Jupyter kernel.

``python docs/notebook.py`` runs the notebook and stores the current outputs of its cells in the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

PATH = Path(__file__).parent / "tutorials" / "notebook.ipynb"


def executed(path: Path = PATH) -> Any:
    """Run the notebook and return it with its new outputs, without metadata that differs from run to run."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=60, kernel_name="python3", record_timing=False).execute()
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


def shown(notebook: Any) -> list[list[tuple[str, str]]]:
    """Return, for each code cell, a list of pairs (kind, text) that describe its outputs.

    The text is empty for outputs that differ between machines, such as images.
    """
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

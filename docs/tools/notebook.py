"""Run the notebook and write it with its outputs: `python docs/tools/notebook.py`, after every change of its cells.

Guarantee: what is written depends on the cells and on the installed versions alone. The kernel's
counts are in it, its times, its version and the ports of stand-ins are not.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook" / "judging.ipynb"
_TIMEOUT_S = 120
_PORT = re.compile(r"(?<=http://127\.0\.0\.1:)\d+")


def run(path: Path) -> Any:
    """The notebook with the outputs of a fresh kernel.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # of the kernel's sockets: ports could be taken, and listened to
        sockets = Config(KernelManager={"transport": "ipc", "ip": f"{folder}/kernel"})
        NotebookClient(notebook, config=sockets, timeout=_TIMEOUT_S, record_timing=False).execute()
    notebook.metadata.language_info = {"name": "python"}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        data = output.get("data", {})
        if "text/html" in data:
            del data["text/plain"]  # the same, for readers without HTML
            data["text/html"] = _PORT.sub("…", data["text/html"])
    return notebook


if __name__ == "__main__":
    nbformat.write(run(NOTEBOOK), NOTEBOOK)

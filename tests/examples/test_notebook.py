"""The notebook runs in a fresh kernel, and what is committed are its outputs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import nbformat

from docs.tools.notebook import NOTEBOOK, run
from docs.tools.notebook_page import notebook_page

PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = "image/png"


def outputs(notebook: Any) -> Iterator[tuple[str, Any]]:
    """What the cells have put out, without the bytes of pictures: those depend on matplotlib's version and fonts."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            pictured = {PICTURE: True} if PICTURE in output.get("data", {}) else {}
            yield cell.source, {**output, "data": {**output.get("data", {}), **pictured}}


def test_notebook_runs_and_its_committed_outputs_are_those_of_the_run() -> None:
    committed, fresh = (
        nbformat.read(NOTEBOOK, as_version=4),
        run(NOTEBOOK),
    )  # a cell that fails raises
    assert [*outputs(committed)] == [*outputs(fresh)], "run python docs/tools/notebook.py"
    (figure,) = (output.data[PICTURE] for _, output in _data(fresh) if PICTURE in output.data)
    assert base64.b64decode(figure).startswith(PNG)


def _data(notebook: Any) -> Iterator[tuple[str, Any]]:
    return (
        (cell.source, output)
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    )


def test_notebook_shows_rows_without_a_score_and_the_agreement() -> None:
    page = notebook_page(NOTEBOOK)
    assert (
        page.markdown.count("<td>judge_failed</td>") == 1
        and "<td>invalid_completion</td>" in page.markdown
    )
    assert "rubric and people: 0." in page.markdown and "95 %: " in page.markdown
    (picture,) = page.pictures
    assert picture.png.startswith(PNG) and f"]({picture.name})" in page.markdown
    assert "![" in page.markdown and "\n# " not in page.markdown.replace("```", "")

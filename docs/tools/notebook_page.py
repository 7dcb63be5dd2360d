"""Show a notebook of `examples/` on the site: a paragraph that is one link to it shows its cells with their outputs.

In the repository the link leads to the notebook, which a Git host shows itself.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

NOTEBOOK = re.compile(
    r"(?<=\n\n)\[[^\]\n]+\]\((?P<path>[^)#:\s]*examples/[^)#:\s]+\.ipynb)\)(?=\n\n|\n*\Z)"
)
"""A paragraph that shows a notebook."""


class Picture(NamedTuple):
    """A picture that a notebook has made, and the name of its file."""

    name: str
    png: bytes


class NotebookPage(NamedTuple):
    """Markdown in the place of a link, and the pictures that it needs."""

    markdown: str
    pictures: Sequence[Picture] = ()


def notebook_page(path: Path) -> NotebookPage:
    """Return the cells of a notebook with their outputs, its headings two levels lower, without its title."""
    parts: list[str] = []
    pictures: list[Picture] = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"^#", "##", re.sub(r"\A# .*\n+", "", source), flags=re.MULTILINE))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data: dict[str, Any] = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures.append(Picture(name, base64.b64decode("".join(data["image/png"]))))
                parts.append(f"![what the cell above draws]({name})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return NotebookPage("\n\n".join(parts), pictures)

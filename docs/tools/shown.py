"""Code of `examples/` on a page, so that none stands twice: a paragraph that is one link to a file shows the file.

`[the parser](../../examples/…/environment.py#parse,PROMPT)` shows these names of a Python file, in the order of the
file, each with the comment above it and its decorators; a link without names shows a whole file, and one to a notebook
its cells with their outputs. Where nothing is made of the pages, as in a repository's browser, it is a link.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SHOWN = re.compile(
    r"(?<=\n\n)\[[^\]\n]+\]\((?P<path>[^)#:\s]*examples/[^)#:\s]+\.(?:py|yaml|jsonl|ipynb))"
    r"(?:#(?P<names>[\w.,]+))?\)(?=\n\n|\n*\Z)"
)
"""A paragraph that shows code."""
_LANGUAGES = {"py": "python", "yaml": "yaml", "jsonl": "json"}


class Picture(NamedTuple):
    """A picture that a notebook has made, and the name of its file."""

    name: str
    png: bytes


class Shown(NamedTuple):
    """Markdown in the place of a link, and the pictures that it needs."""

    markdown: str
    pictures: Sequence[Picture] = ()


def shown(path: Path, names: str = "") -> Shown:
    """What a page shows of a file.

    Raises:
        ValueError: the file has not all of the names.
    """
    if path.suffix == ".ipynb":
        return _notebook(path)
    code = named(path, names.split(",")) if names else path.read_text(encoding="utf-8").strip("\n")
    return Shown(f'```{_LANGUAGES[path.suffix[1:]]} title="{path.name}"\n{code}\n```')


def named(path: Path, names: Sequence[str]) -> str:
    """The lines of a Python file that define these names, such as `PROMPT` or `MyEnv.judge`, in the file's order.

    Raises:
        ValueError: the file has not all of the names.
    """
    text = path.read_text(encoding="utf-8")
    lines, places = text.splitlines(), dict(_places(ast.parse(text).body))
    missing = [name for name in names if name not in places]
    if missing:
        raise ValueError(f"{path.name} defines no {' and no '.join(missing)}")
    parts: list[str] = []
    ended = 0
    for first, last in sorted(places[name] for name in names):
        while first > 1 and lines[first - 2].lstrip().startswith("#"):
            first -= 1
        if parts:
            between = lines[ended : first - 1]
            parts += [""] if any(map(str.strip, between)) else between
        parts.append(textwrap.dedent("\n".join(lines[first - 1 : last])))
        ended = last
    return "\n".join(parts)


def _places(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[tuple[str, tuple[int, int]]]:
    """The names that statements define, with their first and last lines; those of a class behind its name."""
    for node in body:
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, (min(each.lineno for each in (node, *node.decorator_list)), last)
        if isinstance(node, ast.ClassDef):
            yield from _places(node.body, f"{prefix}{node.name}.")
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            yield from ((prefix + name.id, (node.lineno, last)) for name in names)


def _notebook(path: Path) -> Shown:
    """The cells of a notebook with their outputs, its headings two levels lower, without its title."""
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
    return Shown("\n\n".join(parts), pictures)

"""Show code of `examples/` on a page: a whole file, or the names that it defines."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LANGUAGES = {"py": "python", "yaml": "yaml", "jsonl": "json"}
_DEFINITION = re.compile(r"^(?:@|def |async def |class )", re.MULTILINE)


def example_code(words: str) -> str:
    """Return a block of code.

    Args:
        words: a file below the root of the repository and, of a Python file, names that it defines.

    Raises:
        ValueError: the file lacks one of the names.
    """
    file, *names = words.split()
    path = ROOT / file
    code = select_names(path, names) if names else path.read_text(encoding="utf-8").strip("\n")
    return f'```{_LANGUAGES[path.suffix[1:]]} title="{path.name}"\n{code}\n```'


def select_names(path: Path, names: Sequence[str]) -> str:
    """Return the lines of a Python file that define names such as `PROMPT` or `MyEnv.judge`, in the file's order.

    Decorators and the comment above a name belong to it. Blank lines are as `ruff format` has them.

    Raises:
        ValueError: the file lacks one of the names.
    """
    text = path.read_text(encoding="utf-8")
    lines, places = text.splitlines(), dict(_places(ast.parse(text).body))
    missing = [name for name in names if name not in places]
    if missing:
        raise ValueError(f"{path.name} defines no {' and no '.join(missing)}")
    parts: list[str] = []
    end = 0
    for first, last in sorted(places[name] for name in names):
        while first > 1 and lines[first - 2].lstrip().startswith("#"):
            first -= 1
        part = textwrap.dedent("\n".join(lines[first - 1 : last]))
        if parts:
            is_definition = any(map(_DEFINITION.search, (parts[-1], part)))
            parts += ["", ""] if is_definition else [""] * (first - 1 > end)
        parts.append(part)
        end = last
    return "\n".join(parts)


def _places(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the names that statements define, with their first and last lines; those of a class behind its name."""
    for node in body:
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(definition.lineno for definition in (node, *node.decorator_list))
            yield prefix + node.name, (first, last)
        if isinstance(node, ast.ClassDef):
            yield from _places(node.body, f"{prefix}{node.name}.")
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [
                part
                for target in targets
                for part in ast.walk(target)
                if isinstance(part, ast.Name)
            ]
            for name in names:
                yield prefix + name.id, (node.lineno, last)

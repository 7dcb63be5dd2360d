"""The size of the package: lines of code, files, entries of a folder, words of a page."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("judgegym", "judgegym_trainers", "judgegym_trials")
"""The import packages of the distribution: the core, and the two beside it."""
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def python_files(package: Path) -> list[Path]:
    """The Python files of a package, in order."""
    return sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)


def code_lines(source: str) -> int:
    """The number of lines that hold code: no blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - {line for place in _docstrings(ast.parse(source)) for line in place})


def _docstrings(tree: ast.AST) -> Iterator[range]:
    """The lines of the docstrings, and of the strings that stand below an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield range(node.lineno, (node.end_lineno or node.lineno) + 1)


def entries(package: Path) -> dict[str, int]:
    """The number of modules and folders with modules in each folder, by its path; `__init__` is not counted."""
    files = python_files(package)
    found: dict[str, set[str]] = {}
    for path in files:
        parts = path.relative_to(package.parent).parts
        for depth in range(1, len(parts)):
            if parts[depth] != "__init__.py":
                found.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    return {folder: len(names) for folder, names in found.items()}

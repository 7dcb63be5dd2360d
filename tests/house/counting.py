"""The size of the packages: AST nodes, lines of code, files, entries of a folder; and the words of the handbook.

    python -m tests.house.counting

prints the sizes of this checkout; `budget.toml` has their limits.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.tools.generated import blank_generated

PACKAGES = ("judgegym", "judgegym_trainers", "judgegym_trials")
"""The import packages of the distribution: the core, and the two beside it."""
_NO_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True)
class Size:
    """The size of the Python files of a folder.

    Attributes:
        nodes: AST nodes, as `ast.walk` counts them: a size that does not depend on how lines are
            broken.
        lines: lines with code: no blank lines, comments and docstrings; 0 if they are not counted.
        files: Python files.
    """

    nodes: int
    lines: int
    files: int

    @property
    def nodes_a_line(self) -> float:
        """How dense a line of code is."""
        return self.nodes / self.lines if self.lines else 0.0


def measure(folder: Path, *, with_lines: bool = True) -> Size:
    """Count the Python files of a folder; counting lines takes most of the time."""
    sources = [path.read_text(encoding="utf-8") for path in python_files(folder)]
    return Size(
        nodes=sum(count_nodes(source) for source in sources),
        lines=sum(count_code_lines(source) for source in sources) if with_lines else 0,
        files=len(sources),
    )


def python_files(folder: Path) -> list[Path]:
    """The Python files of a folder, in order."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def count_nodes(source: str) -> int:
    """The number of AST nodes."""
    return sum(1 for _ in ast.walk(ast.parse(source)))


def count_code_lines(source: str) -> int:
    """The number of lines that hold code: no blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(
        lines
        - {
            line
            for lines_of_docstring in _docstrings(ast.parse(source))
            for line in lines_of_docstring
        }
    )


def _docstrings(tree: ast.AST) -> Iterator[range]:
    """The lines of the docstrings, and of the strings that stand below an attribute."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield range(node.lineno, (node.end_lineno or node.lineno) + 1)


def count_entries(package: Path) -> dict[str, int]:
    """The number of modules and folders with modules in each folder, by its path; `__init__` is not counted."""
    names: dict[str, set[str]] = {}
    for path in python_files(package):
        parts = path.relative_to(package.parent).parts
        for depth in range(1, len(parts)):
            if parts[depth] != "__init__.py":
                names.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    return {folder: len(entries) for folder, entries in names.items()}


def count_words(folder: Path) -> dict[str, int]:
    """The number of words of each page below a folder, without its generated blocks."""
    pages = sorted(folder.rglob("*.md"))
    return {
        str(page.relative_to(folder)): len(
            blank_generated(page.read_text(encoding="utf-8")).split()
        )
        for page in pages
    }


def main() -> None:
    """Print the sizes of this checkout."""
    root = Path(__file__).parents[2]
    print(f"{'':<18} {'nodes':>8} {'files':>6} {'lines':>7} {'nodes a line':>13}")
    for name in (*PACKAGES, "tests"):
        size = measure(root / name)
        print(
            f"{name:<18} {size.nodes:>8,} {size.files:>6} {size.lines:>7,} "
            f"{size.nodes_a_line:>13.1f}"
        )
    words = count_words(root / "docs")
    print(
        f"\nThe handbook has {sum(words.values()):,} words on {len(words)} pages, without "
        "generated blocks."
    )


if __name__ == "__main__":
    main()

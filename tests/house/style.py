"""What makes code hard to read, counted: names without content, and lines that do several things.

    python -m tests.house.style            # the counts of each package
    python -m tests.house.style PATH ...   # each place in these files and folders

`budget.toml` has the limits, and `test_style.py` compares.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.house.counting import PACKAGES, count_code_lines, python_files

_EMPTY_WORDS = """
    found each own given asked said one known told kept rest other these thing what
"""
EMPTY_WORDS = frozenset(_EMPTY_WORDS.split())
"""Words that do not say what a name holds."""
_PREPOSITIONS = """
    about above after against among at before behind below beneath beside between beyond but
    by during except for from in inside into like near of off on onto out over past since
    than through to toward towards under until up upon with within without
"""
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
USUAL_PREFIXES = frozenset({"from", "to", "in", "on"})
"""They begin a constructor (`from_text`), a conversion (`to_line`), a test, a callback (`on_train_end`)."""
LONGEST_LINE = 100

Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Place:
    """A line that a rule names.

    Attributes:
        rule: the rule's name.
        line: the line, from 1.
        text: the name; empty for an expression.
    """

    rule: str
    line: int
    text: str = ""


def find_places(source: str) -> Iterator[Place]:
    """Find what the rules name in a module."""
    tree = ast.parse(source)
    yield from _empty_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield from _function_names(node)
        elif isinstance(node, ast.IfExp):
            yield from _conditionals(node)
        elif isinstance(node, Comprehension):
            yield from _comprehensions(node)
        elif isinstance(node, ast.JoinedStr):
            yield from _f_strings(node)
    for number, line in enumerate(source.splitlines(), start=1):
        if len(line) > LONGEST_LINE:
            yield Place("long_line", number)


def bindings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a module binds, with its line: functions, classes, arguments, variables."""
    for node in ast.walk(tree):
        if isinstance(node, (*Function, ast.ClassDef)):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name, node.lineno


def _empty_names(tree: ast.Module) -> Iterator[Place]:
    public = set(_public_names(tree.body))
    for name, line in bindings(tree):
        if name.strip("_") in EMPTY_WORDS:
            yield Place("empty_name", line, name)
            if (name, line) in public:
                yield Place("public_empty_name", line, name)


def _public_names(body: Sequence[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yield the names that others use: functions, classes, variables and fields without `_`."""
    for statement in body:
        if isinstance(statement, (*Function, ast.ClassDef)):
            if statement.name.startswith("_"):
                continue
            yield statement.name, statement.lineno
            if isinstance(statement, ast.ClassDef):
                yield from _public_names(statement.body)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            yield from ((name.id, name.lineno) for name in names if isinstance(name.ctx, ast.Store))


def _function_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Place]:
    words = node.name.strip("_").split("_")
    if "of" in words:
        yield Place("of_in_function", node.lineno, node.name)
    if words[0] in PREPOSITIONS - USUAL_PREFIXES and len(words) > 1:
        yield Place("preposition_first", node.lineno, node.name)


def _conditionals(node: ast.IfExp) -> Iterator[Place]:
    yield Place("conditional", node.lineno)
    if any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node):
        yield Place("nested_conditional", node.lineno)
    if node.end_lineno != node.lineno:
        yield Place("conditional_over_lines", node.lineno)


def _comprehensions(node: ast.expr) -> Iterator[Place]:
    generators: Sequence[ast.comprehension] = getattr(node, "generators", ())
    if len(generators) > 1:
        yield Place("nested_comprehension", node.lineno)
    conditions = [condition for generator in generators for condition in generator.ifs]
    if not all(map(_is_simple, conditions)):
        yield Place("condition_in_comprehension", node.lineno)


def _is_simple(condition: ast.expr) -> bool:
    """Return whether a condition is a name, a comparison, or a call of names: one thing."""
    return not any(isinstance(part, (ast.BoolOp, ast.IfExp)) for part in ast.walk(condition))


def _f_strings(node: ast.JoinedStr) -> Iterator[Place]:
    values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    for value in values:
        if any(isinstance(part, (ast.Call, ast.IfExp)) for part in ast.walk(value)):
            yield Place("call_in_f_string", node.lineno)


@dataclass(frozen=True)
class Style:
    """What the rules name in a folder, and how much there is.

    Attributes:
        places: the places of each file.
        counts: the places of each rule, and `bindings`, `functions` and `lines` of code.
    """

    places: Mapping[Path, Sequence[Place]]
    counts: Counter[str]


def style_of(folder: Path) -> Style:
    """Find and count what the rules name in a folder."""
    counts: Counter[str] = Counter()
    places: dict[Path, Sequence[Place]] = {}
    for path in python_files(folder):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        places[path] = [*find_places(source)]
        counts.update(place.rule for place in places[path])
        counts["bindings"] += sum(1 for _ in bindings(tree))
        counts["functions"] += sum(isinstance(node, Function) for node in ast.walk(tree))
        counts["lines"] += count_code_lines(source)
    return Style(places, counts)


def main(paths: Sequence[str]) -> None:
    """Print the counts of the packages, or the places in files and folders."""
    if not paths:
        for name in PACKAGES:
            counts = style_of(Path(name)).counts
            sys.stdout.write(f"{name}: {dict(counts.most_common())}\n")
    for path in map(Path, paths):
        for file in [path] if path.is_file() else sorted(python_files(path)):
            source = file.read_text(encoding="utf-8")
            lines = source.splitlines()
            for place in sorted(find_places(source), key=lambda place: place.line):
                text = place.text or lines[place.line - 1].strip()
                sys.stdout.write(f"{file}:{place.line}: {place.rule}: {text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])

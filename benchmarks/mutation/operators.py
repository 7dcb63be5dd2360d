"""The changes that make mutants of a module: one place each, and the result always parses as another program.

A comparison is turned or moved by its boundary, a number by one, `and` becomes `or`, a condition is
negated, `+` becomes `-`, a value is returned as `None`, a call or a `raise` is left out, a
keyword's True becomes False. `exclusions` says which code is left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import exclusions

COMPARISONS: Mapping[str, tuple[str, str]] = {
    "Lt": (r"<", "<="),
    "LtE": (r"<=", "<"),
    "Gt": (r">", ">="),
    "GtE": (r">=", ">"),
    "Eq": (r"==", "!="),
    "NotEq": (r"!=", "=="),
    "Is": (r"\bis\b", "is not"),
    "IsNot": (r"\bis\s+not\b", "is"),
    "In": (r"\bin\b", "not in"),
    "NotIn": (r"\bnot\s+in\b", "in"),
}
"""Class of the operator in `ast`: the pattern that finds it in the source, and what replaces it."""

ARITHMETIC: Mapping[str, tuple[str, str]] = {
    "Add": (r"\+", "-"),
    "Sub": (r"-", "+"),
    "Mult": (r"\*", "/"),
    "Div": (r"/", "*"),
    "FloorDiv": (r"//", "*"),
    "Mod": (r"%", "*"),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change at one place.

    Attributes:
        file: path inside the checkout.
        line: line on which the change begins.
        kind: name of the change.
        start: first byte that is replaced.
        end: the byte after the last one that is replaced.
        text: the replacement.
        before: the lines as they are.
        after: the lines as they become.
    """

    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str
    before: str
    after: str


class Replacement(NamedTuple):
    """Bytes `start` to `end` become `text`."""

    kind: str
    start: int
    end: int
    text: str


class Source:
    """A module's bytes and syntax tree."""

    def __init__(self, data: bytes) -> None:
        """Parse it."""
        self.data = data
        self.tree = ast.parse(data)
        self._line_starts = [0]
        for line in data.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """First byte of a node, and the byte after its last one."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def whole(self, kind: str, node: ast.expr | ast.stmt, text: str) -> Replacement:
        """Replace a whole node."""
        return Replacement(kind, *self.span(node), text)

    def operator(
        self, kind: str, left: ast.expr, right: ast.expr, pattern: str, text: str
    ) -> Iterator[Replacement]:
        """Replace the operator between two operands, which may stand in parentheses."""
        gap, end = self.span(left)[1], self.span(right)[0]
        found = list(re.finditer(pattern.encode(), self.data[gap:end]))
        if len(found) == 1:  # with more than one, a comment holds the operator as well
            yield Replacement(kind, gap + found[0].start(), gap + found[0].end(), text)


def mutants_of(root: Path, file: str) -> Iterator[Mutant]:
    """All mutants of a file of the checkout."""
    source = Source((root / file).read_bytes())
    data, shape = source.data, ast.dump(source.tree)
    for kind, start, end, text in replacements(source, source.tree):
        changed = data[:start] + text.encode() + data[end:]
        try:
            differs = ast.dump(ast.parse(changed)) != shape
        except SyntaxError:
            continue
        if differs:
            first = data.rfind(b"\n", 0, start) + 1
            last = data.find(b"\n", end)
            last = len(data) if last < 0 else last
            before = data[first:last].decode()
            after = (data[first:start] + text.encode() + data[end:last]).decode()
            yield Mutant(
                file, 1 + data.count(b"\n", 0, start), kind, start, end, text, before, after
            )


def replacements(source: Source, node: ast.AST) -> Iterator[Replacement]:
    """Changes of a node and of all nodes below it, without checking that the result parses."""
    if exclusions.is_left_alone(node):
        return
    if isinstance(node, ast.Raise):
        yield source.whole("raise left out", node, "pass")
        return  # what goes into the exception is a message for people
    for operator in OPERATORS:
        yield from operator(source, node)
    for child in exclusions.children(node):
        yield from replacements(source, child)


def leave_statement_out(source: Source, node: ast.AST) -> Iterator[Replacement]:
    """Leave a call out, return `None`, or end a loop that would continue."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        yield source.whole("call left out", node, "pass")
    elif isinstance(node, ast.Return) and node.value is not None and not is_none(node.value):
        yield source.whole("None returned", node, "return None")
    elif isinstance(node, ast.Continue):
        yield source.whole("break for continue", node, "break")


def change_comparison(source: Source, node: ast.AST) -> Iterator[Replacement]:
    """Turn equality and membership round, and move the boundary of an order."""
    if isinstance(node, ast.Compare):
        for left, operator, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            yield from source.operator(
                "comparison", left, right, *COMPARISONS[type(operator).__name__]
            )


def swap_and_or(source: Source, node: ast.AST) -> Iterator[Replacement]:
    """Take `or` for `and`, and the other way round."""
    if isinstance(node, ast.BoolOp):
        swap = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from source.operator("and, or", left, right, *swap)


def change_arithmetic(source: Source, node: ast.AST) -> Iterator[Replacement]:
    """Take the inverse operation, or leave a sign or a `not` out."""
    if (
        isinstance(node, ast.BinOp)
        and type(node.op).__name__ in ARITHMETIC
        and exclusions.may_be_numeric(node)
    ):
        yield from source.operator(
            "arithmetic", node.left, node.right, *ARITHMETIC[type(node.op).__name__]
        )
    elif (
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add | ast.Sub)
        and exclusions.may_be_numeric(node)
    ):
        swap = (r"\+=", "-=") if isinstance(node.op, ast.Add) else ("-=", "+=")
        yield from source.operator("arithmetic", node.target, node.value, *swap)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        sign = re.compile(rb"(not\b|-)\s*").match(source.data, source.span(node)[0])
        if sign is not None:
            yield Replacement("not, minus left out", *sign.span(), "")


def change_constant(source: Source, node: ast.AST) -> Iterator[Replacement]:
    """Move a number by one, up and down; turn a keyword's True and False round."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        yield source.whole("number", node, repr(node.value + 1))
        less = repr(node.value - 1)
        yield source.whole("number", node, f"({less})" if less.startswith("-") else less)
    elif (
        isinstance(node, ast.keyword)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, bool)
    ):
        yield source.whole("True, False", node.value, repr(not node.value.value))


def negate_condition(source: Source, node: ast.AST) -> Iterator[Replacement]:
    """Negate what an `if`, a `while` or a comprehension asks; a comparison and a `not` have a change of their own."""
    conditions: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        conditions = [node.test]
    elif isinstance(node, ast.comprehension):
        conditions = node.ifs
    for condition in conditions:
        if not isinstance(condition, ast.Compare | ast.UnaryOp | ast.Constant):
            start, end = source.span(condition)
            yield Replacement(
                "condition negated", start, end, f"(not ({source.data[start:end].decode()}))"
            )


def is_none(node: ast.expr) -> bool:
    """Whether it is the constant `None`."""
    return isinstance(node, ast.Constant) and node.value is None


OPERATORS: tuple[Callable[[Source, ast.AST], Iterator[Replacement]], ...] = (
    leave_statement_out,
    change_comparison,
    swap_and_or,
    change_arithmetic,
    change_constant,
    negate_condition,
)

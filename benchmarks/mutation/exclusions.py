"""Code that no mutant changes, because no test should notice the change.

Docstrings, annotations, decorators, `assert`, guards of `__main__` and of type checking, log calls,
messages of errors and texts of help.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

LOGGERS = frozenset({"logger", "logging", "warnings"})
KEYWORDS = frozenset({"description", "help", "metavar", "epilog", "strict"})
"""Texts for people, and `zip`'s guard against lengths that never differ."""

TYPE_CONSTRUCTORS = frozenset({"TypeVar", "ParamSpec", "Literal", "Annotated", "NewType"})
TEXTS_AND_LISTS = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp, ast.Dict)


def is_left_alone(node: ast.AST) -> bool:
    """Whether neither this node nor any below it is changed."""
    if (
        isinstance(node, ast.Assert) or type(node).__name__ == "TypeAlias"
    ):  # a class of `ast` from Python 3.12 on
        return True
    if isinstance(node, ast.If):
        test = ast.unparse(node.test)
        return test.startswith("__name__ ==") or test.endswith("TYPE_CHECKING")
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or is_log_call(
            node.value
        )  # a constant is a docstring
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        return any(
            name in decorator for decorator in decorators for name in ("overload", "abstractmethod")
        )
    if isinstance(node, ast.ClassDef):
        return any("Protocol" in ast.unparse(base) for base in node.bases)
    if isinstance(node, ast.keyword):
        return node.arg in KEYWORDS
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call | ast.Subscript):
        called = node.value.func if isinstance(node.value, ast.Call) else node.value.value
        return ast.unparse(called) in TYPE_CONSTRUCTORS
    return isinstance(node, ast.Call) and (is_log_call(node) or makes_error(node))


def is_log_call(node: ast.expr) -> bool:
    """Whether it is a call of a logger."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value).split("(")[0].split(".")[0].lstrip("_") in LOGGERS
    return False


def makes_error(node: ast.Call) -> bool:
    """Whether it makes an exception or ends a command: its arguments are a message."""
    return ast.unparse(node.func).split(".")[-1].endswith(("Error", "Exception", "error"))


def may_be_numeric(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether the operands may be numbers, as far as the syntax says."""
    operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
    return not any(
        isinstance(operand, TEXTS_AND_LISTS)
        or (isinstance(operand, ast.Constant) and isinstance(operand.value, str | bytes))
        for operand in operands
    )


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes directly below, without annotations, decorators and base classes."""
    skipped: list[ast.AST | None] = []
    if isinstance(node, ast.AnnAssign | ast.arg):
        skipped = [node.annotation]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        skipped = [node.returns, *node.decorator_list]
    elif isinstance(node, ast.ClassDef):
        skipped = [*node.decorator_list, *node.bases]
    for child in ast.iter_child_nodes(node):
        if not any(child is skip for skip in skipped):
            yield child

"""Formulas over the scores of graders, and the combination of a composite judge that equals one.

Carried are weighted sums whose weights are at least 0 and add up to 1, products and minima, all
over scores from 0 to 1. Nothing else has a counterpart that computes the same number.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from judgegym.cli.judge_cards.imports import NotCarriedError

_FUNCTIONS = frozenset(("min", "max", "abs", "floor", "ceil", "exp", "sqrt", "log"))
_MOST_CHARACTERS = 10_000


@dataclass(frozen=True)
class CarriedFormula:
    """How a composite judge combines its parts.

    Attributes:
        combine: the setting `combine`.
        weights: each part's weight.
    """

    combine: str
    weights: Mapping[str, float]


def convert_formula(formula: str, ranges: Mapping[str, tuple[float, float]]) -> CarriedFormula:
    """Convert a formula over the names of graders.

    Args:
        formula: the formula.
        ranges: the lowest and the highest score of each grader, which is 0 and 1 here.

    Raises:
        NotCarriedError: it is no formula, has a name that is no grader, or no counterpart.
    """
    tree = _parse(formula)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in {*ranges, *_FUNCTIONS}:
            names = ", ".join(ranges)
            raise NotCarriedError(f"calculate_output: {node.id} is no grader; expected {names}")
    if isinstance(tree, ast.Call) and _function_name(tree) == "min" and not tree.keywords:
        arguments = [_single_name(_linear_weights(node, ranges)) for node in tree.args]
        if all(arguments) and len(arguments) == len({*arguments}):
            return CarriedFormula("min", dict.fromkeys(arguments, 1.0))
    product = _list_factors(tree, ranges)
    if product is not None and product.is_plain:
        return CarriedFormula("product", dict.fromkeys(product.names, 1.0))
    weights = _linear_weights(tree, ranges)
    if weights is not None:
        constant = weights.pop("", 0.0)
        total = math.fsum(weights.values())
        is_mean = abs(constant) < 1e-12 and min(weights.values(), default=-1) >= 0
        if is_mean and math.isclose(total, 1.0, rel_tol=1e-9):
            return CarriedFormula("weighted_sum", weights)
    raise NotCarriedError(
        f"calculate_output: {formula}: over scores from 0 to 1, a composite judge has weighted sums "
        "whose weights are at least 0 and add up to 1, products, and min"
    )


def _parse(formula: str) -> ast.expr:
    if len(formula) > _MOST_CHARACTERS:
        raise NotCarriedError(f"calculate_output: longer than {_MOST_CHARACTERS} characters")
    try:
        return ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotCarriedError(f"calculate_output: {formula[:80]!r} is no formula") from None


def _function_name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


class _Product(NamedTuple):
    """A product of graders' scores from 0 to 1, and a number."""

    factor: float
    names: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it is that of two or more graders alone."""
        is_unique = len(self.names) == len({*self.names}) > 1
        return is_unique and math.isclose(self.factor, 1.0, rel_tol=1e-9)


def _list_factors(node: ast.expr, ranges: Mapping[str, tuple[float, float]]) -> _Product | None:
    """Return a product of graders and numbers; `None` for anything else."""
    weights = _linear_weights(node, ranges)
    if weights is not None:
        constant, names = weights.pop("", 0.0), [*weights]
        if not names:
            return _Product(constant, ())
        if len(names) == 1 and abs(constant) < 1e-12:
            return _Product(weights[names[0]], (names[0],))
        return None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult | ast.Div):
        return None
    left, right = _list_factors(node.left, ranges), _list_factors(node.right, ranges)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Mult):
        return _Product(left.factor * right.factor, (*left.names, *right.names))
    if right.names or not right.factor:
        return None
    return _Product(left.factor / right.factor, left.names)


def _single_name(weights: Mapping[str, float] | None) -> str:
    """Return the name of a grader whose score is read as it is; empty for anything else."""
    counted = {name: weight for name, weight in (weights or {}).items() if name or weight}
    name = next(iter(counted), "")
    if len(counted) == 1 and math.isclose(counted[name], 1.0, rel_tol=1e-9):
        return name
    return ""


def _linear_weights(
    node: ast.expr, ranges: Mapping[str, tuple[float, float]]
) -> dict[str, float] | None:
    """Return the weight of each name, and the constant as that of `""`; `None` if not linear.

    A name is its range's lowest score, and its span times a score from 0 to 1.
    """
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return None
        if abs(node.value) > sys.float_info.max:
            return None
        return {"": float(node.value)}
    if isinstance(node, ast.Name):
        if node.id not in ranges:
            return None
        low, high = ranges[node.id]
        return {node.id: high - low, "": low} if low else {node.id: high - low}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
        return _scale(_linear_weights(node.operand, ranges), sign)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _linear_weights(node.left, ranges), _linear_weights(node.right, ranges)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return _add(left, right)
    if isinstance(node.op, ast.Sub):
        return _add(left, _scale(right, -1.0) or {})
    if isinstance(node.op, ast.Mult) and right.keys() == {""}:
        return _scale(left, right[""])
    if isinstance(node.op, ast.Mult) and left.keys() == {""}:
        return _scale(right, left[""])
    if isinstance(node.op, ast.Div) and right.keys() == {""} and right[""]:
        return _scale(left, 1.0 / right[""])
    return None


def _scale(weights: dict[str, float] | None, factor: float) -> dict[str, float] | None:
    if weights is None:
        return None
    return {name: weight * factor for name, weight in weights.items()}


def _add(left: dict[str, float], right: dict[str, float]) -> dict[str, float]:
    total = dict(left)
    for name, weight in right.items():
        total[name] = total.get(name, 0.0) + weight
    return total

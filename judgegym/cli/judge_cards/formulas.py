"""Formulas over the scores of graders, and the combination of a composite judge that equals one.

Carried are weighted sums whose weights are at least 0 and add up to 1, products and minima of
graders. Nothing else has a counterpart that computes the same number.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

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


def convert_formula(formula: str, names: Collection[str]) -> CarriedFormula:
    """Convert a formula over the names of graders.

    Raises:
        NotCarriedError: it is no formula, has a name that is no grader, or no counterpart.
    """
    tree = _parse(formula)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in {*names, *_FUNCTIONS}:
            raise NotCarriedError(
                f"calculate_output: {node.id} is no grader; expected {', '.join(names)}"
            )
    if isinstance(tree, ast.Call) and _function_name(tree) == "min" and not tree.keywords:
        arguments = [node.id for node in tree.args if isinstance(node, ast.Name)]
        if len(arguments) == len(tree.args) == len({*arguments}):
            return CarriedFormula("min", dict.fromkeys(arguments, 1.0))
    factors = _list_factors(tree)
    if len(factors) > 1 and len(factors) == len({*factors}):
        return CarriedFormula("product", dict.fromkeys(factors, 1.0))
    weights = _linear_weights(tree)
    if weights is not None:
        constant = weights.pop("", 0.0)
        total = math.fsum(weights.values())
        is_mean = constant == 0 and min(weights.values(), default=-1) >= 0
        if is_mean and math.isclose(total, 1.0, rel_tol=1e-9):
            return CarriedFormula("weighted_sum", weights)
    raise NotCarriedError(
        f"calculate_output: {formula}: a composite judge has weighted sums whose weights are at "
        "least 0 and add up to 1, products of graders, and min"
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


def _list_factors(node: ast.expr) -> list[str]:
    """Return the names of a product of names; empty for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return []
    left, right = _list_factors(node.left), _list_factors(node.right)
    return [*left, *right] if left and right else []


def _linear_weights(node: ast.expr) -> dict[str, float] | None:
    """Return the weight of each name, and the constant as that of `""`; `None` if not linear."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return None
        return {"": float(node.value)}
    if isinstance(node, ast.Name):
        return {node.id: 1.0}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
        return _scale(_linear_weights(node.operand), sign)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _linear_weights(node.left), _linear_weights(node.right)
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

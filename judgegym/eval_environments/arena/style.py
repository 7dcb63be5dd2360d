"""The win rate at equal style: what the win rate would be if both answers had the same length and markdown.

After Chatbot Arena's style control (LMSYS ORG, Does Style Matter?, 2024): a logistic regression of the outcomes on the
differences in style, evaluated where the differences are zero. It is not the number that Arena-Hard-Auto publishes,
which centres the differences over the games of all models on its leaderboard, and so is a win rate at their average
difference: on the same rows the two differ (0.394 here beside 0.353 with their centring, in one comparison).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from judgegym.llm.usage import count_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CODE_BLOCK = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_LIST_ITEM = re.compile(r"^[ \t]*(?:\d{1,9}[.)]|[-*+])[ \t]", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
LOOKED_AT = 100_000
"""Characters of an answer in which markdown is counted; the counts of a longer answer are in proportion."""
# Inverse strength of the penalty: it keeps the fit finite if style separates the outcomes, and hardly changes it else.
_WEAK_PENALTY = 1e4


@dataclass(frozen=True, slots=True)
class TextStyle:
    """The style of an answer: its tokens, and counts of markdown outside code blocks."""

    tokens: int
    headers: int
    list_items: int
    bold: int


def style_of(answer: str) -> TextStyle:
    """The style of an answer."""
    prose, share = _CODE_BLOCK.sub("", answer[:LOOKED_AT]), min(1.0, LOOKED_AT / max(len(answer), 1))
    headers, list_items, bold = (round(len(pattern.findall(prose)) / share) for pattern in (_HEADER, _LIST_ITEM, _BOLD))
    return TextStyle(count_tokens(answer), headers, list_items, bold)


def style_difference(model: TextStyle, baseline: TextStyle) -> list[float]:
    """The four differences in style, model minus baseline; each is 0 at equal style.

    Returns:
        Relative length (a−b)/(a+b), then for headers, list items and bold the densities d per token, as
        (d_a−d_b)/(d_a+d_b+1).
    """
    both = model.tokens + baseline.tokens
    differences = [(model.tokens - baseline.tokens) / both if both else 0.0]
    for name in ("headers", "list_items", "bold"):
        density = getattr(model, name) / max(model.tokens, 1)
        other = getattr(baseline, name) / max(baseline.tokens, 1)
        differences.append((density - other) / (density + other + 1))
    return differences


def style_controlled_win_rate(rows: Iterable[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    """The win rate at equal style.

    Args:
        rows: the entries of each row, from 0 to 1, with its style differences; gone through once.

    Returns:
        A number from 0 to 1; `None` if all entries are wins or all are losses, where the regression has no finite
        answer.
    """
    import numpy as np  # late, with sklearn: they take a second, which only runs with style control need
    from sklearn.linear_model import LogisticRegression

    features, outcomes, weights = array("d"), array("b"), array("d")
    for entries, difference in rows:
        for entry in entries:
            # A tie is half a win and half a loss.
            for outcome, weight in ((1, entry), (0, 1.0 - entry)):
                if weight:
                    features.extend(difference)
                    outcomes.append(outcome)
                    weights.append(weight)
    if len(set(outcomes)) < 2:
        return None
    # Scaled by their deviation but not centred, so that 0 still means equal style.
    columns = np.asarray(features).reshape(len(outcomes), -1)
    deviation = columns.std(axis=0)
    scaled: NDArray[np.float64] = columns / np.where(deviation > 0, deviation, 1.0)
    fit = LogisticRegression(C=_WEAK_PENALTY, max_iter=1000).fit(
        scaled, np.asarray(outcomes), sample_weight=np.asarray(weights)
    )
    return float(1.0 / (1.0 + np.exp(-fit.intercept_[0])))

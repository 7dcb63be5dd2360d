"""How far two judges agree on the best responses and on labels."""

from __future__ import annotations

import numpy as np
import pytest

from judgegym.reports.compare.difference import best_agreement, label_agreement


def test_the_best_of_a_prompt_are_all_with_the_highest_score() -> None:
    prompts = np.array([0, 1, 0, 1, 2, 0, 3, 3])
    before = np.array([0.5, 0.2, 0.1 + 0.2, 0.2, 0.9, 0.1, 0.3, 0.1 + 0.2])
    after = np.array([0.9, 0.7, 0.3, 0.1, 0.1, 0.2, 0.6, 0.6])
    # 0: the same; 1: a tie of two against one of them; 2: has one response; 3: a tie for both, up
    # to rounding
    assert best_agreement(prompts, before, after) == {
        "prompts": 3,
        "same": 2 / 3,
        "overlapping": 1.0,
    }
    assert best_agreement(np.arange(8), before, after) is None


def test_labels_are_compared_where_they_are_few_and_of_one_kind() -> None:
    found = label_agreement(["a", "b", "a", None, "b"], ["a", "b", "b", "a", "b"])
    assert found is not None and (found["rows"], found["same"]) == (4, 0.75)
    assert found["kappa"] == pytest.approx((0.75 - 0.5) / (1 - 0.5))
    assert label_agreement(["a", "b"], ["won", "lost"]) is None
    assert label_agreement(["a", "a"], ["a", "a"]) is None, "kappa is not defined"
    many = [str(number) for number in range(30)]
    assert label_agreement(many, many) is None

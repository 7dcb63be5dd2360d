"""A few thousand generated judges' texts through every parser; `python -m benchmarks.judge_texts` sends a million."""

from itertools import islice

import pytest

from benchmarks.judge_texts.oracle import CHECKS, PARSERS
from benchmarks.judge_texts.texts import generated

COUNT = 3000


@pytest.mark.slow("arena_label", "choice_letter", "feedback_score", "prometheus_result", "rating")
@pytest.mark.slow("verdict_reason", "binary_verdict", "score_object", "listwise_scores")
@pytest.mark.parametrize("name", CHECKS)
def test_every_verdict_of_a_generated_text_is_its_last_one(name: str) -> None:
    texts = list(islice(generated(seed=13), COUNT))
    wrong = [(text, problem) for text in texts if (problem := CHECKS[name](text)) is not None]
    assert wrong == []
    assert sum(PARSERS[name](text) not in (None, False, "") for text in texts) > 5, (
        "something is read"
    )

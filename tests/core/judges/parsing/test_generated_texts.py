"""A few thousand generated judges' texts through every parser; `python -m benchmarks.judge_texts` sends a million."""

from itertools import islice

import pytest

from benchmarks.judge_texts.oracle import CHECKS, PARSERS
from benchmarks.judge_texts.texts import generated
from judgegym.judges.parsing.rubric_scores import feedback_score
from judgegym.judges.parsing.verdict_parser import VerdictParser

COUNT = 3000


@pytest.mark.slow("arena_label", "choice_letter", "feedback_score", "prometheus_result", "rating")
@pytest.mark.slow("verdict_reason", "binary_verdict", "score_object", "listwise_scores")
@pytest.mark.parametrize("name", CHECKS)
def test_every_verdict_of_a_generated_text_is_its_last_one(name: str) -> None:
    texts = list(islice(generated(seed=13), COUNT))
    wrong = [(text, problem) for text in texts if (problem := CHECKS[name](text)) is not None]
    assert wrong == []
    assert sum(PARSERS[name](text) not in (None, False, "") for text in texts) > 5, "something is read"


def test_a_verdict_that_is_not_the_last_one_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is worth something: it fails for a parser that reads the first score."""
    from benchmarks.judge_texts import oracle

    parse = VerdictParser(lambda own: feedback_score.find(own.partition("\n")[0]))
    first = oracle._tagged("[SCORE]", parse)
    assert any(first(text) is not None for text in islice(generated(seed=13), COUNT))

"""What environments read of a row's prompt, and what they say of the columns that they do not read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from judgegym.data.pairs import read_preferences
from judgegym.data.rows import Row
from judgegym.data.rubric_rows import read_answers, read_rubric_rows
from judgegym.eval_environments.peer.settings import read_queries
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS
from judgegym.judges.core.judgment import Scale

READERS: dict[str, Callable[[Sequence[Row]], object]] = {
    "rubric": lambda rows: read_rubric_rows(rows, Scale(1, 5), default_rubric="R"),
    "aspect": lambda rows: read_answers(rows, [SUPPORTED_ASPECTS["correctness"]]),
    "peer": lambda rows: read_queries(rows, "R"),
    "pairwise": read_preferences,
}


def rows(**values: object) -> list[Row]:
    return [Row("data.jsonl", 1, {"prompt": "Q", "chosen": "a", "rejected": "b", **values})]  # type: ignore[dict-item]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("column", ["system", "system_prompt", "input", "problem", "images"])
def test_a_column_that_an_environment_does_not_read_is_named(
    caplog: pytest.LogCaptureFixture, reader: str, column: str
) -> None:
    with caplog.at_level(logging.WARNING):
        READERS[reader](rows(**{column: "more"}))
        READERS[reader](rows(**{column: ""}))
    (message,) = caplog.messages
    assert message.startswith("data.jsonl: ") and "not read" in message
    assert message.endswith(f": {column}")


@pytest.mark.parametrize(
    ("values", "question"),
    [
        ({"instruction": "Translate", "input": "Haus"}, "Translate\n\nHaus"),
        ({"instruction": "Sing", "input": ""}, "Sing"),
        ({"instruction": "Who?", "context": "Ann left."}, "Who?\n\nAnn left."),
        ({"orig_instruction": "Sing", "instruction": "###Task …", "input": "x"}, "Sing"),
    ],
)
def test_the_rest_of_an_instruction_is_asked(
    caplog: pytest.LogCaptureFixture, values: dict[str, str], question: str
) -> None:
    (task,) = read_rubric_rows([Row("data.jsonl", 1, values)], Scale(1, 5), default_rubric="R")
    assert task.question == question
    assert [record for record in caplog.messages if "instruction" in record] == []

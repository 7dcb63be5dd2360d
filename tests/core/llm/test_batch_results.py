"""The lines of a batch's results as responses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from judgegym.llm.batches.kinds import BatchFolder, openai_results
from judgegym.llm.responses.outcome import (
    AttemptFailure,
    ChatSuccess,
    Habits,
    RawResponse,
    parse_response,
)
from judgegym.llm.transport import Transport
from judgegym.llm.usage import Usage
from tests.scripted import completion


@pytest.mark.parametrize("error", [None, {"code": "server_error", "message": "broke off"}])
def test_a_line_that_has_an_error_beside_its_response_is_no_answer_and_is_paid(
    error: object,
) -> None:
    line = {
        "custom_id": "a",
        "response": {"status_code": 200, "body": completion("[SCORE] 5")},
        "error": error,
    }
    ((custom_id, answer),) = openai_results(json.dumps(line))
    assert custom_id == "a" and isinstance(answer, RawResponse)
    outcome = parse_response(answer, Habits("the judge"))
    if error is None:
        assert isinstance(outcome, ChatSuccess)
    else:
        assert isinstance(outcome, AttemptFailure) and "broke off" in outcome.answer
        assert outcome.tokens == Usage(10, 5)


async def test_a_file_of_results_that_stands_still_is_over_unless_its_last_line_is_half_written(
    tmp_path: Path,
) -> None:
    folder = BatchFolder(cast("Transport", None), tmp_path)  # nobody is called
    batch = await folder.create("b", dict.fromkeys("abc", b"{}"))
    out, line = tmp_path / "b.out.jsonl", json.dumps({"custom_id": "a"})
    for written, done, is_over in (
        ("{", 0, False),
        (f"{line}\n{{", 1, False),
        (line, 1, True),
        (f"{line}\n", 1, True),
    ):
        out.write_text(written)
        first, second = await folder.state(batch), await folder.state(batch)
        assert (first.done, first.is_over, second.done, second.is_over) == (
            done,
            False,
            done,
            is_over,
        )
    out.write_text("\n".join([line] * 3))
    assert (await folder.state(batch)).is_over

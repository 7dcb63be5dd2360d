"""The lines of a batch's results as responses."""

from __future__ import annotations

import json

import pytest

from judgegym.llm.batches.kinds import openai_results
from judgegym.llm.outcome import AttemptFailure, ChatSuccess, Habits, RawResponse, of_answer
from judgegym.llm.usage import Usage
from tests.scripted import completion


@pytest.mark.parametrize("error", [None, {"code": "server_error", "message": "broke off"}])
def test_a_line_that_has_an_error_beside_its_response_is_no_answer_and_is_paid(error: object) -> None:
    line = {"custom_id": "a", "response": {"status_code": 200, "body": completion("[SCORE] 5")}, "error": error}
    ((custom_id, answer),) = openai_results(json.dumps(line))
    assert custom_id == "a" and isinstance(answer, RawResponse)
    outcome = of_answer(answer, Habits("the judge"))
    if error is None:
        assert isinstance(outcome, ChatSuccess)
    else:
        assert isinstance(outcome, AttemptFailure) and "broke off" in outcome.answer
        assert outcome.tokens == Usage(10, 5)

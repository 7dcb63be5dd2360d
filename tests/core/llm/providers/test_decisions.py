"""The border between OpenAI's form and that of decision models: requests, responses, usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judgegym.llm.errors import FailureKind, SettingsError
from judgegym.llm.providers import load_api
from judgegym.llm.responses.outcome import (
    AttemptFailure,
    ChatSuccess,
    Habits,
    RawResponse,
    parse_response,
)
from judgegym.llm.types import Endpoint
from judgegym.llm.usage import Usage
from tests.scripted import completion

API = load_api("decisions")
ANSWERS = {"q1": {"type": "noul", "noul": 0.25}}
QUESTIONS = {"q1": {"type": "noul", "instructions": "Is it so?"}}


def read(body: Any) -> ChatSuccess | AttemptFailure:
    """What the one reader of responses makes of a body."""
    outcome = parse_response(RawResponse(200, json.dumps(body).encode()), Habits("x"), API.response)
    assert isinstance(outcome, ChatSuccess | AttemptFailure)
    return outcome


def asked(content: Any, **fields: Any) -> Any:
    messages = [{"role": "user", "content": content}]
    return API.request({"model": "jev", "messages": messages, "questions": QUESTIONS, **fields})


def test_the_message_is_the_state() -> None:
    request = asked('{"response": "So."}', provider={"order": ["a"]})
    assert request == {
        "model": "jev",
        "questions": QUESTIONS,
        "provider": {"order": ["a"]},
        "state": {"response": "So."},
    }
    assert asked("[1, 2]")["state"] == "[1, 2]"


def test_images_are_parts_of_a_list() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = [
        {"type": "text", "text": '{"response": "So."}'},
        {"type": "text", "text": "[image 1]"},
        image,
    ]
    assert asked(parts)["state"] == [{"response": "So."}, "[image 1]", image]


def test_the_base_url_is_the_whole_url() -> None:
    url = "https://host/api/alpha/decisions?version=2"
    assert Endpoint(url, "jev", api="decisions").url == url


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 30, "output_tokens": 2}, Usage(30, 2)),
        ({"inputTokens": 30, "outputTokens": 2, "cost": 0.1}, Usage(30, 2)),
        (
            {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 20}},
            Usage(30, 0, cached_prompt_tokens=20),
        ),
        ({}, Usage()),
    ],
)
@pytest.mark.parametrize("wrapper", ["", "result", "data"])
def test_answers_and_usage_of_all_wrappings(
    usage: dict[str, Any], counts: Usage, wrapper: str
) -> None:
    body: dict[str, Any] = {"model": "jev-1.14", "answers": ANSWERS, "usage": usage}
    if wrapper:
        body = {wrapper: body, "success": True, "errors": []}
    outcome = read(body)
    assert isinstance(outcome, ChatSuccess)
    (choice,) = outcome.choices
    assert (json.loads(choice.text), choice.state) == (ANSWERS, "whole")
    tokens = outcome.tokens
    assert (tokens.prompt_tokens, tokens.completion_tokens) == (
        counts.prompt_tokens,
        counts.completion_tokens,
    )
    assert tokens.cached_prompt_tokens == counts.cached_prompt_tokens
    assert outcome.served == "jev-1.14"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "capacity"}, "answers": ANSWERS},
        {"success": False, "errors": [{"code": 7009, "message": "upstream"}], "result": None},
        {"success": False, "errors": [], "result": {"answers": ANSWERS}},
        {"result": {"answers": ANSWERS}, "error": "capacity"},
        {"result": {"error": "capacity", "answers": ANSWERS}},
        {"result": {"success": False, "answers": ANSWERS}, "success": True},
        {"data": {"errors": ["upstream"], "answers": ANSWERS}},
        {"answers": None},
        {"answers": "yes"},
        {},
        [],
    ],
)
def test_an_error_has_no_answers(body: Any) -> None:
    outcome = read(body)
    assert isinstance(outcome, AttemptFailure)
    assert outcome.kind in (FailureKind.BROKEN, FailureKind.BUSY)


def test_a_chat_model_is_named() -> None:
    outcome = read(completion("Yes."))
    assert isinstance(outcome, AttemptFailure)
    assert outcome.kind is FailureKind.REJECTED
    assert "api to openai" in outcome.answer


@pytest.mark.parametrize("name", ["state", "questions"])
def test_fields_of_the_judge_are_not_for_users(name: str) -> None:
    with pytest.raises(SettingsError, match=f"--judge_extra_body: the judge sets '{name}' itself"):
        API.check({name: "x"}, "--judge_extra_body")


def test_a_request_without_questions_is_refused() -> None:
    with pytest.raises(SettingsError, match="typed questions"):
        API.check({"model": "", "messages": [{"role": "user", "content": "?"}]}, "the policy")

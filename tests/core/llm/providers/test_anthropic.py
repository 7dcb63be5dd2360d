"""The border between OpenAI's form and the Messages API: requests, responses, usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym.llm.providers import load_api
from judgegym.llm.providers.anthropic import DEFAULT_MAX_TOKENS
from judgegym.llm.responses.finish_reasons import WORDS, FinishRules
from judgegym.llm.responses.outcome import (
    AttemptFailure,
    ChatSuccess,
    Habits,
    RawResponse,
    parse_response,
)
from judgegym.llm.usage import Prices, Usage
from judgegym.llm.wire import Image, Message, messages_json
from tests.messages import check_message, check_request, message, text
from tests.pictures import data_url, png
from tests.scripted import completion

ASK = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Is it so?"}]
THOUGHT = {"type": "thinking", "thinking": "I think.", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "x"}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}
SERVER = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
UPLOAD = {"type": "container_upload", "file_id": "f"}

BLOCKS: dict[str, tuple[list[dict[str, Any]], str, str | None]] = {
    "text": ([text("yes")], "yes", None),
    "thinking": ([THOUGHT, text("yes")], "yes", "I think."),
    "both": ([THOUGHT, HIDDEN, THOUGHT, text("yes")], "yes", "I think.I think."),
    "server_tools": ([SERVER, FOUND, UPLOAD, text("yes")], "yes", None),
}
STOPS = {
    "end_turn": "whole",
    "stop_sequence": "whole",
    "max_tokens": "cut_off",
    "model_context_window_exceeded": "cut_off",
    "refusal": "refused",
    "pause_turn": None,
    "tool_use": "whole",  # a text beside it; a judge's rules do not take it
    "compaction": None,
    "complete": None,
    "done": None,
    "stop": None,
}


def read(body: Any) -> ChatSuccess | AttemptFailure:
    """What the one reader of responses makes of a body."""
    habits = Habits("x", FinishRules(takes_tool_calls=True))
    found = parse_response(
        RawResponse(200, json.dumps(body).encode()), habits, load_api("anthropic").response
    )
    assert isinstance(found, ChatSuccess | AttemptFailure)
    return found


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_stop_reasons_and_blocks(stop: str, blocks: str) -> None:
    """66 of them; those that the schema has are read by its own models first."""
    content, said, thought = BLOCKS[blocks]
    body = message(*content, stop_reason=stop)
    if stop not in ("compaction", "complete", "done", "stop"):
        check_message(body)
    found = read(body)
    if STOPS[stop] is None:
        assert (
            isinstance(found, AttemptFailure) and found.kind.retryable and found.tokens is not None
        )
        return
    assert isinstance(found, ChatSuccess)
    (choice,) = found.choices
    assert (choice.state, choice.text, choice.reasoning) == (STOPS[stop], said, thought)
    assert found.served == "claude-of-test"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (message(THOUGHT), "only reasoning"),
        (message(TOOL, stop_reason="tool_use"), "only tool calls"),
        (message(text("yes"), {"type": "hologram"}), "unknown_block_hologram"),
        (message(text("yes"), stop_reason=None), "no_stop_reason"),
        # type: ignore[arg-type]
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "busy"),
        ([], "no choices"),
    ],
)
def test_what_is_no_whole_answer(body: Any, why: str) -> None:
    found = read(body)
    assert isinstance(found, AttemptFailure) and why in found.answer and found.kind.retryable


def test_refusal_says_why() -> None:
    body = message(text("I"), stop_reason="refusal")
    body["stop_details"] = {"type": "refusal", "category": "bio", "explanation": "Not that."}
    check_message(body)
    found = read(body)
    assert isinstance(found, ChatSuccess) and found.choices[0].refusal == "Not that."


def test_no_foreign_word_is_whole() -> None:
    ours = {"end_turn", "stop_sequence"}
    bodies = {word: read(message(text("yes"), stop_reason=word)) for word in WORDS["whole"].split()}
    assert {word for word, found in bodies.items() if isinstance(found, ChatSuccess)} == ours


def test_usage_counts_the_cache_and_is_priced() -> None:
    body = message(text("yes"), cache_read_input_tokens=1000, cache_creation_input_tokens=400)
    check_message(body)
    found = read(body)
    assert isinstance(found, ChatSuccess) and found.tokens == Usage(1410, 5, 0.0, 1000, 400)
    prices = load_api("anthropic").prices(Prices(10.0, 50.0))
    assert prices.price_usage(found.tokens) == Usage(
        1410, 5, pytest.approx((100 + 250 + 1000 + 5000) / 1e6), 1000, 400
    )
    assert load_api("anthropic").prices(Prices(None, 5.0)).cache_write is None


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {"max_tokens": DEFAULT_MAX_TOKENS}),
        ({"max_completion_tokens": 7, "stop": "END"}, {"max_tokens": 7, "stop_sequences": ["END"]}),
        ({"user": "u", "max_tokens": 9}, {"max_tokens": 9, "metadata": {"user_id": "u"}}),
        ({"reasoning_effort": "minimal"}, {"output_config": {"effort": "low"}}),
        (
            {"reasoning": {"enabled": True, "max_tokens": 2048}},
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        (
            {
                "reasoning_effort": "high",
                "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
            },
            {"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}}},
        ),
    ],
)
def test_fields_have_their_counterparts(fields: dict[str, Any], sent: dict[str, Any]) -> None:
    body = load_api("anthropic").request({"model": "m", "messages": ASK, **fields})
    check_request(body)
    assert {name: body[name] for name in sent} == sent
    assert body["system"] == [{"type": "text", "text": "Judge."}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Is it so?"}]}
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"seed": 1},
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"temperature": 1.5},
    ],
)
def test_what_has_no_counterpart_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(fields))):
        load_api("anthropic").request({"model": "m", "messages": ASK, **fields})
    with pytest.raises(SettingsError, match="role 'tool'"):
        load_api("anthropic").request({"messages": [{"role": "tool", "content": "x"}]})


def test_turns_of_one_role_are_one_and_a_prefill_ends_without_white_space() -> None:
    turns = [
        ("system", "a"),
        ("system", "b"),
        ("user", "c"),
        ("user", ""),
        ("user", "d"),
        ("assistant", "[[ "),
    ]
    body = load_api("anthropic").request(
        {"model": "m", "messages": [{"role": role, "content": said} for role, said in turns]}
    )
    check_request(body)
    assert [block["text"] for block in body["system"]] == ["a", "b"]
    said = [
        (turn["role"], [block["text"] for block in turn["content"]]) for turn in body["messages"]
    ]
    assert said == [("user", ["c", "d"]), ("assistant", ["[["])]


def test_marks_change_no_text() -> None:
    asked = {
        "model": "m",
        "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
    }
    asked["messages"] = [
        *ASK,
        {"role": "assistant", "content": "No.\n \n"},
        {"role": "user", "content": "Sure?"},
    ]
    whole = load_api("anthropic").prompt_text(asked)
    texts, marked = [], 0
    for end in (0, *range(len(whole) - 60, len(whole) + 1)):
        body = load_api("anthropic").request(asked, (end,))
        check_request(body)
        marked += str(body).count("cache_control")
        turns = [*body["messages"], {"content": body["system"]}]
        texts.append(["".join(block["text"] for block in turn["content"]) for turn in turns])
    assert texts == [texts[0]] * len(texts) and marked > 20


def test_images_are_blocks_among_those_of_text() -> None:
    local, remote = data_url(png()), "https://example.org/a.png"
    asked = Message(role="user", content="first second")
    asked["images"] = [Image(remote, at=6), Image(local, at=None, mark="[image 2]")]
    body: dict[str, Any] = {"model": "m", "messages": messages_json([asked])}
    (sent,) = load_api("anthropic").request(body)["messages"]  # type: ignore[misc, union-attr]
    _, _, data = local.partition(",")
    assert sent["content"] == [  # type: ignore[index, call-overload]
        {"type": "text", "text": "first "},
        {"type": "image", "source": {"type": "url", "url": remote}},
        {"type": "text", "text": "second"},
        {"type": "text", "text": "[image 2]"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    ]
    text = load_api("anthropic").prompt_text(body)
    assert data not in text
    end = text.index("second") + len("second")
    (marked,) = load_api("anthropic").request(body, [end])["messages"]  # type: ignore[misc, union-attr]
    cached = [block for block in marked["content"] if "cache_control" in block]  # type: ignore[index, call-overload]
    assert [block["text"] for block in cached] == ["second"]


def test_a_completion_in_openais_form_is_the_wrong_form_and_no_answer() -> None:
    """Each further request would be answered so, too: ten in a row end a run, as those of an account do."""
    found = read(completion("[[A>B]]"))
    assert isinstance(found, AttemptFailure)
    assert not found.kind.retryable and found.is_account
    assert "OpenAI's form" in found.answer and "api to openai" in found.answer

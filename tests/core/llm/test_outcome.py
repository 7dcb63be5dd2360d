"""What an endpoint's answer is worth: whole, cut off, refused, or a failed attempt and of which kind."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.llm.errors import FailureKind
from judgegym.llm.responses.finish_reasons import DEFAULT_RULES, FinishRules
from judgegym.llm.responses.outcome import (
    LONGEST_TEXT,
    AttemptFailure,
    ChatSuccess,
    Habits,
    Outcome,
    RawResponse,
    check_choice,
    classify_exception,
    find_exception_kind,
    find_status_kind,
    parse_response,
)
from judgegym.llm.usage import Usage
from judgegym.llm.wire import Choice, ChoiceState

BUSY, AWAY, BROKEN, REJECTED = (
    FailureKind.BUSY,
    FailureKind.UNREACHABLE,
    FailureKind.BROKEN,
    FailureKind.REJECTED,
)
TOOL_CALLS = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def usable_again(choice: Choice, rules: FinishRules) -> bool:
    """Whether a choice may be taken from the cache."""
    return not isinstance(check_choice(choice, rules), str)


def choice(
    content: Any = "yes", finish: Any = "stop", *, error: Any = None, **message: Any
) -> dict[str, Any]:
    """A choice as an endpoint sends it."""
    extra = {} if error is None else {"error": error}
    return {"message": {"content": content, **message}, "finish_reason": finish, **extra}


def of(*choices: Any, habits: Habits | None = None, status: int = 200, **body: Any) -> Outcome:
    """The outcome of an answer with these choices."""
    data = json.dumps({"choices": list(choices), **body}).encode()
    return parse_response(RawResponse(status, data), habits or Habits("http://h/v1"))


def broken(outcome: Outcome, words: str = "") -> bool:
    return (
        isinstance(outcome, AttemptFailure) and outcome.kind is BROKEN and words in outcome.answer
    )


# ------------------------------------------------------------------------------------------------------
# one choice

STATES: list[tuple[dict[str, Any], ChoiceState, str | None]] = [
    (choice(), "whole", "stop"),
    (choice("ye", "length"), "cut_off", "length"),
    (choice("", "length", reasoning_content="I think and"), "cut_off", "length"),
    (choice("", refusal="I won't."), "refused", "refusal"),
    (choice([{"type": "refusal", "refusal": "I won't."}]), "refused", "refusal"),
    (choice("yes", "length", refusal="I won't."), "refused", "refusal"),
]


@pytest.mark.parametrize(("sent", "state", "reason"), STATES)
def test_choice_that_may_be_used_has_a_state(
    sent: dict[str, Any], state: str, reason: str | None
) -> None:
    answered = of(sent)
    assert isinstance(answered, ChatSuccess)
    (read,) = answered.choices
    assert (read.state, read.finish_reason) == (state, reason)
    assert usable_again(read, DEFAULT_RULES), "it may be taken from the cache"


PARTS: list[tuple[list[dict[str, Any]], str, str | None]] = [
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", None),
    ([{"text": "a"}], "a", None),
    ([{"type": "reasoning", "text": "[[A>B]]"}, {"type": "text", "text": "a"}], "a", "[[A>B]]"),
    ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}], "a", "hm"),
    (
        [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "a"},
        ],
        "a",
        "hm",
    ),
    ([{"type": "tool_use", "text": "[[A>B]]"}, {"type": "text", "text": "a"}], "a", None),
    ([{"type": ["text"], "text": "b"}, {"type": "text", "text": "a"}], "a", None),
]


@pytest.mark.parametrize(("parts", "text", "reasoning"), PARTS)
def test_parts_of_a_content_are_read_by_their_type(
    parts: list[dict[str, Any]], text: str, reasoning: str | None
) -> None:
    answered = of(choice(parts))
    assert isinstance(answered, ChatSuccess)
    assert (answered.choices[0].text, answered.choices[0].reasoning) == (text, reasoning)


TOOLS: list[dict[str, Any]] = [
    choice("Let me look. [[A>B]]", "tool_calls", tool_calls=TOOL_CALLS),
    choice("Let me look. [[A>B]]", "stop", tool_calls=TOOL_CALLS),
    choice("Let me look. [[A>B]]", "function_call", function_call={"name": "f", "arguments": "{}"}),
]


@pytest.mark.parametrize("sent", TOOLS)
def test_answer_that_ends_in_tool_calls_is_none_of_a_judge(
    sent: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert broken(of(sent), "tool calls")
    of_policy = Habits("http://h/v1", FinishRules(takes_tool_calls=True))
    for _ in range(2):
        answered = of(sent, habits=of_policy)
        assert isinstance(answered, ChatSuccess) and answered.choices[0].state == "whole"
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("http://h/v1 calls tools") and "text is taken" in said


def test_unknown_word_fails_an_attempt_until_three_in_a_row_have_shown_that_there_is_no_other() -> (
    None
):
    habits = Habits("http://h/v1")
    assert broken(of(choice(finish="odd"), habits=habits), "--finish_reasons accepts it")
    assert broken(of(choice(finish="other"), habits=habits))
    assert broken(of(choice(finish="Other"), habits=habits))
    third = of(choice(finish="OTHER"), habits=habits)
    assert (
        isinstance(third, AttemptFailure) and third.kind is REJECTED and "'other'" in third.answer
    )
    assert isinstance(of(choice(), habits=habits), ChatSuccess)
    for _ in range(4):
        assert broken(of(choice(finish="odd"), habits=habits)), "it knows another word"
    accepted = Habits("http://h/v1", FinishRules(frozenset({"odd_word"})))
    assert isinstance(of(choice(finish="Odd-Word"), habits=accepted), ChatSuccess)


UNUSABLE: dict[str, tuple[Any, str]] = {
    "error": (choice(finish="error"), "broke off"),
    "choice_error": (choice(error={"code": 502, "message": "upstream died"}), "upstream died"),
    "error_after_length": (choice("ye", "length", error={"message": "died"}), "died"),
    "refusal_that_broke_off": (choice("", "error", refusal="I wo"), "broke off"),
    "empty": (choice(""), "empty"),
    "no_text_part": (choice([{"type": "image_url"}]), "empty"),
    "tool_calls": (choice(None, "tool_calls", tool_calls=TOOL_CALLS), "only tool calls"),
    "reasoning": (choice("", reasoning_content="I think."), "only reasoning"),
    "long_text": (choice("x" * (LONGEST_TEXT + 1)), "characters"),
    "long_reasoning": (choice(reasoning="x" * (LONGEST_TEXT + 1)), "characters"),
    "no_message": ({"text": "yes"}, "no message"),
    "wrong_type": (choice(5), "int"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_answer_of_an_unusable_choice_is_a_broken_attempt(name: str) -> None:
    sent, words = UNUSABLE[name]
    outcome = of(sent, usage={"prompt_tokens": 3, "completion_tokens": 4})
    assert broken(outcome, words)
    assert outcome.tokens == Usage(3, 4), "it was paid for"


@pytest.mark.parametrize("name", UNUSABLE)
def test_usable_choices_are_kept_where_another_is_unusable(name: str) -> None:
    answered = of(choice("a"), UNUSABLE[name][0], choice("b", "length"))
    assert isinstance(answered, ChatSuccess)
    assert ([each.text for each in answered.choices], answered.received) == (["a", "b"], 3)


def test_choices_come_in_the_order_of_their_indices_and_none_twice() -> None:
    first, second = {**choice("a"), "index": 0}, {**choice("b"), "index": 1}
    answered = of(second, first, first)
    assert isinstance(answered, ChatSuccess)
    assert ([each.text for each in answered.choices], answered.received) == (["a", "b"], 3)


@pytest.mark.parametrize("index", [{}, {"index": True}])
def test_choices_without_indices_may_be_equal(index: dict[str, Any]) -> None:
    answered = of({**choice("a"), **index}, {**choice("a"), **index})
    assert isinstance(answered, ChatSuccess) and len(answered.choices) == 2


def test_error_of_a_choice_that_says_busy_is_waiting() -> None:
    outcome = of(choice("ye", "error", error={"code": 429, "message": "slow down"}))
    assert isinstance(outcome, AttemptFailure) and outcome.kind is BUSY


# --------------------------------------------------------------------------------------------------
# finish reasons


def test_first_answers_without_finish_reason_are_asked_again_before_they_are_believed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    habits = Habits("http://h/v1")
    assert broken(
        of(choice(finish=None), choice(finish=None), choice(finish=None), habits=habits),
        "no finish_reason",
    )
    assert broken(of(choice(finish=""), habits=habits), "no finish_reason")
    for _ in range(3):
        assert isinstance(of(choice(finish=None), habits=habits), ChatSuccess)
    assert broken(of(choice(finish=None), habits=Habits("another")), "no finish_reason"), (
        "each has its own habits"
    )
    assert isinstance(of(choice(finish="stop"), habits=habits), ChatSuccess)
    assert broken(of(choice(finish=None), habits=habits), "no finish_reason")
    without, given = (record.getMessage() for record in caplog.records)
    assert without.startswith("http://h/v1 gives no finish_reason")
    assert given.startswith("http://h/v1 now gives") and "3 responses without one" in given


def test_missing_finish_reason_beside_one_that_is_given_is_broken_off() -> None:
    answered = of(choice("a", None), choice("b"))
    assert isinstance(answered, ChatSuccess)
    assert ([each.text for each in answered.choices], answered.received) == (["b"], 2)


# -------------------------------------------------------------------------------------------------------
# the answer


@pytest.mark.parametrize(
    ("said", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 64}}, 64),
        ({"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, 64),
        ({"prompt_tokens_details": {"cached_tokens": 101}}, 100),
        ({"prompt_tokens_details": {"cached_tokens": True}}, 0),
        ({"prompt_tokens_details": {"cached_tokens": 10**4000}}, 0),
        ({"prompt_tokens": "many", "prompt_tokens_details": {"cached_tokens": 64}}, 0),
    ],
)
def test_cached_tokens_are_read_and_never_more_than_the_prompts(
    said: dict[str, Any], cached: int
) -> None:
    answered = of(choice(), usage={"prompt_tokens": 100, "completion_tokens": 5, **said})
    assert isinstance(answered, ChatSuccess)
    assert answered.tokens.cached_prompt_tokens == cached


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"prompt_tokens": None, "completion_tokens": "4"},
        {"prompt_tokens": True, "completion_tokens": True},
        {"prompt_tokens": -3, "completion_tokens": -4},
        {"prompt_tokens": 2**64, "completion_tokens": 2**63},
        {"prompt_tokens": 10**9 + 1, "completion_tokens": 10**4000},
    ],
)
def test_counts_that_no_endpoint_can_mean_are_absent(usage: Any) -> None:
    answered = of(choice(), usage=usage)
    assert isinstance(answered, ChatSuccess)
    assert answered.tokens == Usage(0, 0)


def test_number_of_any_length_does_not_cost_the_answer() -> None:
    data = (
        json.dumps({"choices": [choice()], "usage": {"prompt_tokens": 0}})
        .encode()
        .replace(b": 0", b": " + b"9" * 100_000)
    )
    assert isinstance(parse_response(RawResponse(200, data), Habits("")), ChatSuccess)


@pytest.mark.parametrize(
    ("sent", "ids"), [([1, 2], (1, 2)), ([1, 2**64], None), ("12", None), (None, None)]
)
def test_prompt_tokens_are_ids_or_none(sent: Any, ids: tuple[int, ...] | None) -> None:
    answered = of(choice(), prompt_token_ids=sent)
    assert isinstance(answered, ChatSuccess) and answered.prompt_token_ids == ids


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ({"error": {"message": "overloaded"}}, BROKEN, "overloaded"),
        ({"error": {"message": "slow down", "code": 429}}, BUSY, "slow down"),
        ({"error": {"message": "slow down", "code": "429"}}, BUSY, "slow down"),
        ({"error": {"message": "no credit", "code": 402}}, REJECTED, "no credit"),
        ({"error": {"message": "odd", "code": 2**70}}, BROKEN, "odd"),
        ({"error": {"code": "server_error"}}, BROKEN, "server_error"),
        (
            {"error": {"message": "died on the way"}, "choices": [choice("ye")]},
            BROKEN,
            "died on the way",
        ),
        ({}, BROKEN, "no choices"),
        ({"choices": {"message": {"content": "yes"}}}, BROKEN, "no choices"),
    ],
)
def test_body_with_an_error_or_without_choices_is_a_failed_attempt(
    body: dict[str, Any], kind: FailureKind, words: str
) -> None:
    outcome = parse_response(RawResponse(200, json.dumps(body).encode()), Habits(""))
    assert isinstance(outcome, AttemptFailure)
    assert (outcome.kind, outcome.status) == (kind, 200)
    assert words in outcome.answer


@pytest.mark.parametrize("error", [None, "", {}, False])
def test_error_field_without_an_error_is_none(error: Any) -> None:
    assert isinstance(of(choice(), error=error), ChatSuccess)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"\xff\xfe",
        b"[]",
        b'{"choices": [{"message": {"content": "y',
        pytest.param(b'{"choices":' + b"[" * 100_000, id="deep"),
        pytest.param(b'{"choices":' + b"[" * 5000 + b"]" * 5000 + b"}", id="deep_and_closed"),
    ],
)
def test_body_of_another_shape_is_a_broken_attempt(data: bytes) -> None:
    assert broken(parse_response(RawResponse(200, data), Habits("")))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    JSON
    | JSON.map(lambda value: {"choices": value})
    | JSON.map(
        lambda value: {"choices": [{"message": value, "finish_reason": value, "error": value}]}
    )
    | JSON.map(lambda value: {"error": value, "usage": value, "choices": [choice()]}),
    st.integers(100, 999),
    st.none() | st.text(),
)
def test_any_answer_is_answered_or_failed(body: Any, status: int, retry_after: str | None) -> None:
    outcome = parse_response(
        RawResponse(status, json.dumps(body).encode(), retry_after), Habits("")
    )
    assert isinstance(outcome, ChatSuccess | AttemptFailure)
    assert isinstance(outcome, AttemptFailure) or all(
        usable_again(each, DEFAULT_RULES) for each in outcome.choices
    )


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        (BUSY, [429, 503, 529]),
        (BROKEN, [100, 101, 408, 409, 425, 499, 500, 501, 502, 504, 507, 599]),
        (REJECTED, [300, 302, 307, 400, 401, 402, 403, 404, 405, 410, 413, 415, 418, 422, 451]),
    ],
)
def test_status_has_a_kind_of_failure(kind: FailureKind, statuses: list[int]) -> None:
    assert {status: find_status_kind(status) for status in statuses} == dict.fromkeys(
        statuses, kind
    )


def test_status_other_than_2xx_fails_with_its_message_and_its_pause() -> None:
    outcome = parse_response(
        RawResponse(429, b'{"error": {"message": "slow down"}}', "7"), Habits("")
    )
    assert outcome == AttemptFailure(BUSY, "slow down", 429, 7.0)


# -------------------------------------------------------------------------------------------------------
# exceptions


def connector(
    reason: OSError, kind: type[aiohttp.ClientConnectorError] = aiohttp.ClientConnectorError
) -> Exception:
    key: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=True)
    return kind(key, reason)


CERTIFICATE = aiohttp.ClientConnectorCertificateError(
    SimpleNamespace(host="h", port=1, ssl=True, is_ssl=True),  # type: ignore[arg-type]
    ssl.SSLCertVerificationError("expired"),
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (connector(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), AWAY),
        (
            connector(OSError("Multiple exceptions: [Errno 111] refused, [Errno 101] unreachable")),
            AWAY,
        ),
        (connector(socket.gaierror(socket.EAI_NONAME, "name not known")), AWAY),
        (connector(TimeoutError(errno.ETIMEDOUT, "timed out")), AWAY),
        (aiohttp.ConnectionTimeoutError("connection timeout"), AWAY),
        (connector(OSError(errno.EMFILE, "too many open files")), BROKEN),
        (
            connector(ConnectionResetError()),
            BROKEN,
        ),  # within the TLS handshake: somebody accepted the connection
        (connector(ssl.SSLEOFError(8, "EOF"), aiohttp.ClientConnectorSSLError), BROKEN),
        (
            connector(ssl.SSLError(1, "WRONG_VERSION_NUMBER"), aiohttp.ClientConnectorSSLError),
            REJECTED,
        ),
        (CERTIFICATE, REJECTED),
        (asyncio.TimeoutError(), BROKEN),
        (aiohttp.ServerDisconnectedError(), BROKEN),
        (aiohttp.ClientPayloadError(), BROKEN),
        (aiohttp.InvalidURL("http://"), REJECTED),
        (ValueError("a header that cannot be sent"), REJECTED),
    ],
)
def test_exception_has_a_kind_of_failure(error: Exception, kind: FailureKind) -> None:
    assert find_exception_kind(error) is kind
    assert classify_exception(error, 5.0).kind is kind


def test_time_out_says_after_how_long() -> None:
    assert classify_exception(asyncio.TimeoutError(), 2.5) == AttemptFailure(
        BROKEN, "none within 2.5 s"
    )

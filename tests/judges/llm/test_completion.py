"""What is read of a chat completion."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.llm import wire
from judges.llm.completion import ChatCompletion, NotACompletion, choice_from_json, choice_to_json, parse_completion
from judges.llm.wire import Choice, Token

TEXT = st.text() | st.sampled_from(["\ud800", "a\udfffb", "é", "�"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def body(**message: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def only_choice(data: bytes) -> Choice:
    (choice,) = parse_completion(data).choices
    return choice


def test_complete_body_gives_choices_and_token_counts() -> None:
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in ("one", "two")]
    data = json.dumps({"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 4}}).encode()
    expected = (Choice("one", finish_reason="stop"), Choice("two", finish_reason="stop"))
    assert parse_completion(data) == ChatCompletion(expected, 3, 4)


@pytest.mark.parametrize(
    ("message", "text", "state"),
    [
        ({"content": "yes"}, "yes", "ok"),
        ({"content": ""}, "", "empty"),
        ({"content": " \n"}, " \n", "empty"),
        ({"content": None}, "", "empty"),
        ({}, "", "empty"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}, "ab", "ok"),
        ({"content": []}, "", "empty"),
        ({"content": ["a", {"text": 3}]}, "", "empty"),
        ({"content": "", "refusal": "I won't."}, "", "refusal"),
        ({"content": "yes", "refusal": None}, "yes", "ok"),
        ({"content": "yes", "refusal": ""}, "yes", "ok"),
        ({"content": None, "reasoning_content": "thought"}, "", "empty"),
    ],
)
def test_content_is_text_or_the_joined_text_parts(message: dict[str, Any], text: str, state: str) -> None:
    choice = only_choice(body(**message))
    assert (choice.text, choice.state) == (text, state)


@pytest.mark.parametrize(
    ("finish_reason", "text", "state"),
    [
        ("stop", "yes", "ok"),
        (None, "yes", "ok"),
        ("end_turn", "yes", "ok"),
        ("length", "ye", "length"),
        ("length", "", "length"),
        ("content_filter", "ye", "refusal"),
        ("content_filter", "", "refusal"),
    ],
)
def test_state_of_a_choice_follows_its_finish_reason(finish_reason: str | None, text: str, state: str) -> None:
    data = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": finish_reason}]}).encode()
    choice = only_choice(data)
    assert (choice.finish_reason, choice.state) == (finish_reason, state)


@pytest.mark.parametrize(
    ("message", "reasoning"),
    [
        ({}, None),
        ({"reasoning_content": "a"}, "a"),
        ({"reasoning": "b"}, "b"),
        ({"reasoning_content": "a", "reasoning": "b"}, "a"),
        ({"reasoning_content": "", "reasoning": "b"}, "b"),
        ({"reasoning": {"effort": "low"}}, None),
    ],
)
def test_reasoning_is_read_from_either_field(message: dict[str, Any], reasoning: str | None) -> None:
    choice = only_choice(body(content="yes", **message))
    assert (choice.text, choice.reasoning) == ("yes", reasoning)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4)),
        ({"prompt_tokens": 3}, (3, 0)),
        ({"prompt_tokens": None, "completion_tokens": "4"}, (0, 0)),
        ({"prompt_tokens": True, "completion_tokens": -4}, (0, 0)),
        ({"prompt_tokens": 2.5, "completion_tokens": 10**30}, (0, 0)),
        (None, (0, 0)),
        ("many", (0, 0)),
    ],
)
def test_token_counts_that_are_no_numbers_are_zero(usage: Any, counts: tuple[int, int]) -> None:
    data = json.dumps({"choices": [{"message": {"content": "yes"}}], "usage": usage}).encode()
    parsed = parse_completion(data)
    assert (parsed.prompt_tokens, parsed.completion_tokens) == counts


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": {"message": {"content": "yes"}}}',
        b'{"choices": ["yes"]}',
        b'{"choices": [{"text": "yes"}]}',
        b'{"choices": [{"message": "yes"}]}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": [{"message": {"content": {"text": "yes"}}}]}',
        b'{"choices": [{"message": {"content": "yes"}}, {}]}',
        b'{"error": {"message": "overloaded"}}',
        b'{"choices": [{"message": {"content": "yes',
        pytest.param(b'{"choices":' + b"[" * 100_000, id="deep"),
        pytest.param(b'{"choices":' + b"[" * 5000 + b"]" * 5000 + b"}", id="deep_and_closed"),
    ],
)
def test_body_of_another_shape_is_refused(data: bytes) -> None:
    with pytest.raises(NotACompletion):
        parse_completion(data)


@given(JSON | JSON.map(lambda value: {"choices": value}) | JSON.map(lambda value: {"choices": [{"message": value}]}))
def test_any_json_is_a_completion_or_says_why_not(value: Any) -> None:
    try:
        parsed = parse_completion(json.dumps(value).encode())
    except NotACompletion as error:
        assert str(error)
    else:
        assert parsed.choices


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        ([3, 0, 151_643], (3, 0, 151_643)),
        ([], ()),
        (None, None),
        ("3", None),
        ([3, "4"], None),
        ([3, True], None),
        ([3, 4.0], None),
        ([3, None], None),
        ({"0": 3}, None),
    ],
)
def test_token_ids_are_integers_or_none(token_ids: Any, expected: tuple[int, ...] | None) -> None:
    choices = [{"message": {"content": "yes"}, "token_ids": token_ids}]
    parsed = parse_completion(json.dumps({"choices": choices, "prompt_token_ids": token_ids}).encode())
    assert (parsed.prompt_token_ids, parsed.choices[0].token_ids) == (expected, expected)


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ({"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": 0}]}, (-0.5, 0.0)),
        ({"content": []}, ()),
        ({"content": [{"logprob": -0.5}, {}]}, None),
        ({"content": [{"logprob": -0.5}, {"logprob": None}]}, None),
        ({"content": [{"logprob": "-0.5"}]}, None),
        ({"content": [-0.5]}, None),
        ({"content": ["-0.5"]}, None),
        ({"content": [[-0.5]]}, None),
        ({"content": [{"logprob": [-0.5]}]}, None),
        ({"content": None}, None),
        ({"tokens": ["a"]}, None),
        ([{"logprob": -0.5}], None),
        (None, None),
        ({"content": [{"logprob": float("nan")}]}, None),
        ({"content": [{"logprob": -(10**400)}]}, None),
    ],
)
def test_logprobs_are_complete_or_none(logprobs: Any, expected: tuple[float, ...] | None) -> None:
    data = json.dumps({"choices": [{"message": {"content": "yes"}, "logprobs": logprobs}]}).encode()
    assert only_choice(data).logprobs == expected


@given(st.builds(Choice, TEXT, *[st.none() | TEXT.filter(bool)] * 3))
def test_choice_written_as_json_is_read_back(choice: Choice) -> None:
    kept = choice_from_json(wire.loads(wire.dumps(choice_to_json(choice))))
    scrubbed = [
        None if text is None else wire.scrub(text)
        for text in (choice.text, choice.reasoning, choice.finish_reason, choice.refusal)
    ]
    assert [kept.text, kept.reasoning, kept.finish_reason, kept.refusal] == scrubbed


def top(*alternatives: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"token": text, "logprob": logprob} for text, logprob in alternatives]


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ([{"token": "4", "top_logprobs": top(("4", -0.5), (" 5", -1))}], (Token("4", (("4", -0.5), (" 5", -1.0))),)),
        # The alternatives of tokens without a digit are not kept.
        (
            [{"token": "A ", "top_logprobs": top(("A ", -0.5))}, {"token": "v4.", "top_logprobs": top(("v4.", -0.5))}],
            (Token("A "), Token("v4.", (("v4.", -0.5),))),
        ),
        ([{"token": "A", "top_logprobs": top(("A", -0.5))}], (Token("A"),)),
        ([{"token": "A"}, {"token": "4", "top_logprobs": top(("4", 0))}], (Token("A"), Token("4", (("4", 0.0),)))),
        # Alternatives that are none are left out.
        (
            [{"token": "4", "top_logprobs": [*top((4, -0.5), ("5", "-1"), ("6", None), ("7", True)), {}, "8", None]}],
            (Token("4"),),
        ),
        ([{"token": "4", "top_logprobs": [{}, *top(("4", -0.5))]}], (Token("4", (("4", -0.5),)),)),
        ([{"token": "4", "top_logprobs": top(("4", float("-inf")))}], (Token("4", (("4", float("-inf")),)),)),
        ([{"token": "4", "top_logprobs": {"4": -0.5}}], (Token("4"),)),
        # An endpoint that was not asked for alternatives, or gives none.
        ([{"token": "4", "logprob": -0.5}], None),
        ([{"token": "4", "logprob": -0.5, "top_logprobs": []}], None),
        ([{"token": "4", "logprob": -0.5, "top_logprobs": None}], None),
        ([], None),
        # Not tokens.
        ([{"token": None, "top_logprobs": top(("4", -0.5))}], None),
        ([{"top_logprobs": top(("4", -0.5))}], None),
        ([{"token": "4", "top_logprobs": top(("4", -0.5))}, {"token": 5}], None),
        ([{"token": "4", "top_logprobs": top(("4", -0.5))}, None], None),
        (["4"], None),
        ("4", None),
        (None, None),
    ],
)
def test_tokens_keep_the_alternatives_of_digits_only(content: Any, tokens: tuple[Token, ...] | None) -> None:
    choice = {"message": {"content": "yes"}, "logprobs": {"content": content}}
    assert only_choice(json.dumps({"choices": [choice]}).encode()).tokens == tokens


@pytest.mark.parametrize("logprobs", [None, [], "4", {}, {"tokens": ["4"], "top_logprobs": [{"4": -0.5}]}])
def test_logprobs_of_another_shape_have_no_tokens(logprobs: Any) -> None:
    data = json.dumps({"choices": [{"message": {"content": "yes"}, "logprobs": logprobs}]}).encode()
    assert only_choice(data).tokens is None


@pytest.mark.parametrize("logprob", [10**400, -(10**400)], ids=["huge", "minus_huge"])
def test_a_logprob_too_large_for_a_number_is_no_alternative(logprob: int) -> None:
    content = [{"token": "4", "logprob": -0.5, "top_logprobs": top(("4", logprob), ("5", -0.5))}]
    choice = {"message": {"content": "4"}, "logprobs": {"content": content}}
    (token,) = only_choice(json.dumps({"choices": [choice]}).encode()).tokens or ()
    assert token.text == "4"
    assert token.top[-1] == ("5", -0.5)


@given(st.lists(st.fixed_dictionaries({"token": TEXT, "top_logprobs": JSON | st.just(top(("4", -0.5)))}) | JSON))
def test_any_logprobs_give_tokens_or_none(content: Any) -> None:
    data = json.dumps({"choices": [{"message": {"content": "yes"}, "logprobs": {"content": content}}]}).encode()
    tokens = only_choice(data).tokens
    assert tokens is None or [token.text for token in tokens] == [wire.scrub(each["token"]) for each in content]


DIGITS = st.sampled_from(["4", " 4", "5.", "10"])
LOGPROBS = st.floats(-1e300, 0)
TOKENS = st.builds(Token, DIGITS, st.lists(st.tuples(TEXT, LOGPROBS), max_size=3).map(tuple)) | st.builds(
    Token, TEXT.filter(lambda text: not any(character.isdigit() for character in text))
)


def kept(choice: Choice) -> Choice:
    return choice_from_json(wire.loads(wire.dumps(choice_to_json(choice))))


@given(st.lists(TOKENS, max_size=5).filter(lambda tokens: any(token.top for token in tokens)))
def test_tokens_written_as_json_are_read_back(tokens: list[Token]) -> None:
    scrubbed = tuple(
        Token(wire.scrub(token.text), tuple((wire.scrub(text), logprob) for text, logprob in token.top))
        for token in tokens
    )
    assert kept(Choice("yes", finish_reason="stop", tokens=tuple(tokens))).tokens == scrubbed


@pytest.mark.parametrize("tokens", [None, (Token("yes"),), (Token("4"),)])
def test_tokens_without_alternatives_survive_being_kept(tokens: tuple[Token, ...] | None) -> None:
    """An endpoint that gives alternatives must not look like one that gives none."""
    assert kept(Choice("yes", tokens=tokens)).tokens == tokens

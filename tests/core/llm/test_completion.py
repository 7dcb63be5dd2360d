"""What is read of a choice, and kept of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.llm import wire
from judgegym.llm.responses.choices import choice_from_json, choice_to_json
from judgegym.llm.wire import Choice, Token

TEXT = st.text() | st.sampled_from(["\ud800", "a\udfffb", "é", "�"])


def read(choice: Any) -> Choice:
    """A choice as it is read from the wire."""
    return choice_from_json(wire.loads(json.dumps(choice).encode()))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [("stop", "stop"), (None, None), (5, None), ("x" * 5000, "x" * 64)],
)
def test_finish_reason_is_a_short_text_or_none(sent: Any, expected: str | None) -> None:
    assert read({"message": {"content": "yes"}, "finish_reason": sent}).finish_reason == expected


@pytest.mark.parametrize(
    ("message", "reasoning"),
    [
        ({"reasoning": "b"}, "b"),
        ({"reasoning_content": "a", "reasoning": "b"}, "a"),
        ({"reasoning_content": "", "reasoning": "b"}, "b"),
        ({"reasoning": {"effort": "low"}}, None),
    ],
)
def test_reasoning_is_read_from_either_field(
    message: dict[str, Any], reasoning: str | None
) -> None:
    choice = read({"message": {"content": "yes", **message}})
    assert (choice.text, choice.reasoning) == ("yes", reasoning)


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        ([3, 0, 151_643], (3, 0, 151_643)),
        ("3", None),
        ([3, "4"], None),
        ([3, -1], None),
        ([3, 2**31], None),
    ],
)
def test_token_ids_are_integers_or_none(token_ids: Any, expected: tuple[int, ...] | None) -> None:
    assert read({"message": {"content": "yes"}, "token_ids": token_ids}).token_ids == expected


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ({"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": 0}]}, (-0.5, 0.0)),
        ({"content": []}, ()),
        ({"content": [{"logprob": -0.5}, {}]}, None),
        ({"tokens": ["a"]}, None),
        (None, None),
        ({"content": [{"logprob": float("nan")}]}, None),
        ({"content": [{"logprob": -(10**400)}]}, None),
    ],
)
def test_logprobs_are_complete_or_none(logprobs: Any, expected: tuple[float, ...] | None) -> None:
    assert read({"message": {"content": "yes"}, "logprobs": logprobs}).logprobs == expected


@given(st.builds(Choice, TEXT, *[st.none() | TEXT.filter(bool).map(lambda text: text[:64])] * 3))
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
        (
            [{"token": "4", "top_logprobs": top(("4", -0.5), (" 5", -1))}],
            (Token("4", (("4", -0.5), (" 5", -1.0))),),
        ),
        # The alternatives of tokens without a digit are not kept.
        (
            [
                {"token": "A ", "top_logprobs": top(("A ", -0.5))},
                {"token": "v4.", "top_logprobs": top(("v4.", -0.5))},
            ],
            (Token("A "), Token("v4.", (("v4.", -0.5),))),
        ),
        (
            [{"token": "A"}, {"token": "4", "top_logprobs": top(("4", 0))}],
            (Token("A"), Token("4", (("4", 0.0),))),
        ),
        # Alternatives that are none are left out.
        (
            [
                {
                    "token": "4",
                    "top_logprobs": [
                        *top((4, -0.5), ("5", "-1"), ("6", None), ("7", True)),
                        {},
                        "8",
                        None,
                    ],
                }
            ],
            (Token("4"),),
        ),
        (
            [{"token": "4", "top_logprobs": top(("4", float("-inf")))}],
            (Token("4", (("4", float("-inf")),)),),
        ),
        # An endpoint that was not asked for alternatives, or gives none.
        ([{"token": "4", "logprob": -0.5}], None),
        ([], None),
        # Not tokens.
        ([{"token": "4", "top_logprobs": top(("4", -0.5))}, {"token": 5}], None),
        ("4", None),
    ],
)
def test_tokens_keep_the_alternatives_of_digits_only(
    content: Any, tokens: tuple[Token, ...] | None
) -> None:
    choice = {"message": {"content": "yes"}, "logprobs": {"content": content}}
    assert read(choice).tokens == tokens


@pytest.mark.parametrize("logprob", [10**400, -(10**400)], ids=["huge", "minus_huge"])
def test_a_logprob_too_large_for_a_number_is_no_alternative(logprob: int) -> None:
    content = [{"token": "4", "logprob": -0.5, "top_logprobs": top(("4", logprob), ("5", -0.5))}]
    choice = {"message": {"content": "4"}, "logprobs": {"content": content}}
    (token,) = read(choice).tokens or ()
    assert token.text == "4"
    assert token.top[-1] == ("5", -0.5)


def kept(choice: Choice) -> Choice:
    return choice_from_json(wire.loads(wire.dumps(choice_to_json(choice))))


@pytest.mark.parametrize(
    "tokens",
    [None, (Token("yes"),), (Token("4"),), (Token("of"), Token("4", (("4", -0.5), ("é5", -9.0))))],
)
def test_tokens_survive_being_kept(tokens: tuple[Token, ...] | None) -> None:
    """An endpoint that gives alternatives must not look like one that gives none."""
    assert kept(Choice("yes", tokens=tokens)).tokens == tokens

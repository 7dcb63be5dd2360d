import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.offline.request import BadRequest, RequestMessage, parse_request

VALID: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def test_reads_the_fields_and_their_defaults() -> None:
    request = parse_request(orjson.dumps(VALID))
    assert request.messages == (RequestMessage("user", "hello"),)
    assert (request.model, request.temperature, request.seed, request.n, request.max_tokens) == (
        "m",
        1.0,
        None,
        1,
        None,
    )
    full = parse_request(
        orjson.dumps({**VALID, "temperature": 0, "seed": -3, "n": 2, "max_tokens": 7})
    )
    assert (full.temperature, full.seed, full.n, full.max_tokens) == (0.0, -3, 2, 7)
    assert (
        parse_request(
            orjson.dumps({**VALID, "max_completion_tokens": 5, "max_tokens": None})
        ).max_tokens
        == 5
    )


def test_joins_the_parts_of_a_message() -> None:
    parts = [
        {"type": "text", "text": "one "},
        {"type": "image_url"},
        {"type": "text", "text": "two"},
    ]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": None}]
    request = parse_request(orjson.dumps({**VALID, "messages": messages}))
    assert request.messages == (RequestMessage("user", "one two"), RequestMessage("assistant", ""))


def test_a_stream_is_the_same_request_sent_otherwise() -> None:
    plain = parse_request(orjson.dumps({**VALID, "stream": False}))
    stream = parse_request(
        orjson.dumps({**VALID, "stream": True, "stream_options": {"include_usage": True}})
    )
    assert (plain.stream, bool(plain.stream_options.include_usage)) == (False, False)
    assert (stream.stream, stream.stream_options.include_usage) == (True, True)
    assert plain.digest == stream.digest == parse_request(orjson.dumps(VALID)).digest
    without = parse_request(orjson.dumps({**VALID, "stream": True, "stream_options": None}))
    assert not without.stream_options.include_usage


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "hello"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"seed": True}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(repr(param))):
        parse_request(orjson.dumps({**VALID, **change}))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b'{"model": NaN}', b"[" * 5000]
)
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request(body)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner)
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "model",
        "messages",
        "temperature",
        "seed",
        "n",
        "max_tokens",
        "stream",
        "stream_options",
        "logprobs",
        "other",
    ]
)


@pytest.mark.slow
@given(st.dictionaries(FIELDS, JSON))
def test_any_object_is_read_or_refused(change: dict[str, Any]) -> None:
    try:
        request = parse_request(orjson.dumps({**VALID, **change}))
    except BadRequest as refused:
        assert str(refused)
    else:
        assert request.messages and request.n >= 1

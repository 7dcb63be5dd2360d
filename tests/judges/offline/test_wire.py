from collections.abc import Callable
from typing import Any

import orjson
import pytest

from judges.offline import wire

Builder = Callable[..., Any]


def test_a_completion_has_the_shape_that_clients_read(request_of: Builder) -> None:
    request = request_of("Twelve chars", n=2, max_tokens=2)
    body = wire.completion(request, ["one two three", "one"])
    assert body == wire.completion(request, ["one two three", "one"])
    data = orjson.loads(body)
    assert data["id"].startswith("chatcmpl-") and data["object"] == "chat.completion"
    assert data["created"] == 0 and data["model"] == "some-model"
    assert [(choice["index"], choice["finish_reason"]) for choice in data["choices"]] == [(0, "length"), (1, "stop")]
    assert [choice["message"] for choice in data["choices"]] == [
        {"role": "assistant", "content": "one two"},
        {"role": "assistant", "content": "one"},
    ]
    usage = data["usage"]
    assert usage["completion_tokens"] == 3 and usage["prompt_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + 3


def test_the_id_follows_the_request(request_of: Builder) -> None:
    ids = {orjson.loads(wire.completion(request_of(prompt), [""]))["id"] for prompt in ("a", "b", "a")}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (429, "rate_limit_error"), (503, "server_error")]
)
def test_an_error_names_its_type_and_field(status: int, kind: str) -> None:
    expected = {"message": "no", "type": kind, "param": "n", "code": str(status)}
    assert orjson.loads(wire.error(status, "no", "n")) == {"error": expected}

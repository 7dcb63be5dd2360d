import math
from typing import Any

import orjson

from judgegym.offline import request as protocol
from tests.core.offline.server import request_of


def entries_of(request: Any, text: str) -> list[dict[str, Any]]:
    """The entries of the tokens of the one choice."""
    entries: list[dict[str, Any]] = protocol.make_completion(request, [text])["choices"][0][
        "logprobs"
    ]["content"]
    return entries


def test_a_completion_has_the_shape_that_clients_read() -> None:
    request = request_of("Twelve chars", n=2, max_tokens=2)
    data = protocol.make_completion(request, ["one two three", "one"])
    assert (
        data
        == protocol.make_completion(request, ["one two three", "one"])
        == orjson.loads(orjson.dumps(data))
    )
    assert data["id"].startswith("chatcmpl-") and data["object"] == "chat.completion"
    assert protocol.make_completion(request_of("Other"), ["one"])["id"] != data["id"]
    assert data["created"] == 0 and data["model"] == "some-model"
    assert [(choice["index"], choice["finish_reason"]) for choice in data["choices"]] == [
        (0, "length"),
        (1, "stop"),
    ]
    assert [choice["message"] for choice in data["choices"]] == [
        {"role": "assistant", "content": "one two"},
        {"role": "assistant", "content": "one"},
    ]
    usage = data["usage"]
    assert usage["completion_tokens"] == 3 and usage["prompt_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + 3


def test_a_text_that_is_cut_off_has_no_token_that_ends_it() -> None:
    entries = entries_of(
        request_of("Go.", logprobs=True, top_logprobs=3, max_tokens=2), "It is so."
    )
    assert [entry["token"] for entry in entries] == list("It is")


def test_the_digit_that_was_sampled_has_most_of_the_mass_and_its_neighbours_some() -> None:
    text = "0123456789" * 20 + "x"
    shares: set[float] = set()
    entries = entries_of(request_of("Count.", logprobs=True, top_logprobs=20), text)
    assert entries == entries_of(request_of("Count.", logprobs=True, top_logprobs=20), text)
    for entry in entries[:-2]:
        top, digit = entry["top_logprobs"], int(entry["token"])
        assert top[0] == {"token": entry["token"], "logprob": entry["logprob"]}
        assert {int(other["token"]) for other in top[1:]} == {digit - 1, digit + 1} & set(range(10))
        masses = [math.exp(other["logprob"]) for other in top]
        assert masses == sorted(masses, reverse=True) and masses[0] > 0.59 and masses[-1] > 0.005
        assert 0.98 < sum(masses) < 1
        shares.add(masses[0])
    assert [entry["top_logprobs"] for entry in entries[-2:]] == [[], []]
    assert len(shares) > 50
    assert entries != entries_of(request_of("Count on.", logprobs=True, top_logprobs=20), text)
    fewer = entries_of(request_of("Count.", logprobs=True, top_logprobs=2), text)
    assert {len(entry["top_logprobs"]) for entry in fewer[:-2]} == {2}

"""A scripted server in the dialect of llama.cpp's, over HTTP: shapes as xllamacpp 2026.10.11549 answered them.

A token is a byte, as in the bundled tokenizer; `BOS` begins a prompt, `EOG` ends a completion that
is not cut off. Like the real server it gives a token's id under `logprobs.content[].id`, none for a
byte within a character, no ids of the prompt, no tokens at all for `top_logprobs: 0`, the usage of
the first of several completions, and at most as many completions as it has slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.scripted import Json, Recorded, Reply, completion
from tests.trainer import ScriptedServer

BOS, EOG, SLOTS = 2, 1, 4
DEFAULTS = {
    "temperature": 0.8,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "typical_p": 1.0,
    "repeat_penalty": 1.0,
}
NEUTRAL = {"top_k": 0, "top_p": 1, "min_p": 0}

Text = Callable[[Json, int, int], str]
"""What the model writes, from the request, its number and the number of the choice."""


def template(messages: list[Json]) -> str:
    """What the server makes of a conversation."""
    return "".join(f"<{turn['role']}>{turn['content']}\n" for turn in messages) + "<assistant>"


def prompt_ids(messages: list[Json]) -> list[int]:
    """The ids of a conversation's prompt."""
    return [BOS, *template(messages).encode()]


def logprob(place: int) -> float:
    """The logprob of the token at a place of any completion."""
    return -1 - place / 64


class LlamaServer(ScriptedServer):
    """Answers chat requests with what `text` says, and what stands beside the API.

    Attributes:
        extra_prompt_tokens: how many more tokens it counts in its answers than its `/tokenize`
            makes.
        beside: whether `/apply-template`, `/tokenize` and `/props` are there.
    """

    def __init__(self, text: Text, *, extra_prompt_tokens: int = 0, beside: bool = True) -> None:
        super().__init__(self._script)
        self._text = text
        self.extra_prompt_tokens = extra_prompt_tokens
        self.beside = beside

    def _script(self, request: Recorded, number: int) -> Reply:
        if request.path == "/v1/chat/completions":
            return self._chat(request.json, len(self.asked(request.path)))
        if not self.beside:
            return Reply(status=404, body={"error": {"message": "File Not Found", "code": 404}})
        match request.method, request.path:
            case "POST", "/apply-template":
                return Reply(body={"prompt": template(request.json["messages"])})
            case "POST", "/tokenize":
                assert (request.json["add_special"], request.json["parse_special"]) == (True, True)
                return Reply(body={"tokens": [BOS, *request.json["content"].encode()]})
            case "GET", "/props":
                return Reply(body={"default_generation_settings": {"params": DEFAULTS}})
        raise AssertionError(f"{request.method} {request.path}")

    def _chat(self, body: Json, number: int) -> Reply:
        n = body.get("n", 1)
        if n > SLOTS:
            message = f"Field 'n': Value must be between 1 <= value <= {SLOTS}, but got {n}"
            return Reply(status=400, body={"error": {"message": message, "code": 400}})
        texts = [self._text(body, number, index) for index in range(n)]
        reply = completion(*texts)
        for choice, text in zip(reply["choices"], texts, strict=True):
            if body.get("logprobs") and body.get("top_logprobs") != 0:
                choice["logprobs"] = {"content": entries(text)}
        reply["usage"] = {
            "prompt_tokens": len(prompt_ids(body["messages"])) + self.extra_prompt_tokens,
            "completion_tokens": len(texts[0].encode()) + 1,
        }
        return Reply(body=reply)


def entries(text: str) -> list[Json]:
    """`logprobs.content` of a completion: the last byte of a character stands for all of its bytes."""
    found: list[Any] = []
    place = 0
    for character in text:
        data = character.encode()
        place += len(data)
        found.append(
            {"id": data[-1], "token": character, "bytes": [*data], "logprob": logprob(place - 1)}
        )
    return [*found, {"id": EOG, "token": "", "bytes": [], "logprob": logprob(place)}]

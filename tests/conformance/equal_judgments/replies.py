"""What the endpoint answers: a verdict in the form that the prompt asks for, or one of the ways in which a judge fails.

The form is read from the prompt. Nothing here is imported from the package: both checkouts are
    answered by one code.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.conformance.equal_judgments.verdicts import verdict_of

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request.

    Attributes:
        setting: who asks.
        path: behind the setting's.
        seed: of the endpoint.
        body: as JSON.
        digest: of seed and request.
        repetition: how often this request has come, with this time.
    """

    setting: str
    path: str
    seed: int
    body: Json
    digest: str
    repetition: int

    def random(self, *, of_repetition: bool = True) -> Random:
        """Numbers of this request, or of all its repetitions alike."""
        return Random(f"{self.digest} {self.repetition if of_repetition else ''}")


@dataclass(frozen=True)
class HttpReply:
    """What is sent."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_dropped: bool = False


_FAULTLESS = re.compile(r"calm")
"""In the names of settings whose endpoint makes no HTTP error: what a client learns from one changes all its calls."""
_NO_FORMAT = re.compile(r"formless")
"""In the names of settings whose endpoint refuses a response format."""


def reply_to(asked: Asked) -> HttpReply:
    """The answer to a request."""
    fault = None if _FAULTLESS.search(asked.setting) else _fault(asked)
    if fault is not None:
        return fault
    if is_refused_format(asked.setting, asked.body):
        return _error(400, "response_format is not supported by this model")
    if not asked.path.endswith("chat/completions"):
        return HttpReply(_rewards(asked))
    rng = asked.random()
    shown = _shown(asked.body)
    choices = [_choice(asked.body, shown, rng, index) for index in range(asked.body.get("n", 1))]
    texts = "".join(choice["message"]["content"] or "" for choice in choices)
    usage = {"prompt_tokens": len(shown) // 4 + 1, "completion_tokens": len(texts) // 4 + 1}
    return HttpReply({"object": "chat.completion", "choices": choices, "usage": usage})


def is_refused_format(setting: str, body: Mapping[str, Any]) -> bool:
    """Whether a request asks for a format that the endpoint refuses."""
    return _NO_FORMAT.search(setting) is not None and "response_format" in body


def _error(status: int, message: str) -> HttpReply:
    return HttpReply({"error": {"message": message, "type": "invalid_request_error"}}, status)


def _fault(asked: Asked) -> HttpReply | None:
    """An error of the endpoint: for each repetition of the request, for its first one, or for one of several."""
    always, first = asked.random(of_repetition=False).random(), asked.repetition == 1
    if always < 0.012:
        return _error(500, "the engine is dead")
    if always < 0.024:
        return _error(400, "the prompt was moderated")
    if always < 0.064:
        return _error(500, "try again") if first else None
    if always < 0.074:
        return HttpReply(is_dropped=True) if first else None
    if always < 0.084:
        return HttpReply(b'{"choices": [{"mess') if first else None
    if always < 0.089:
        return _error(503, "overloaded") if first else None
    return None


def _shown(body: Mapping[str, Any]) -> str:
    """All that a model reads, as one text."""
    contents = [message.get("content") or "" for message in body.get("messages", ())]
    parts = [[{"text": each}] if isinstance(each, str) else each for each in contents]
    return "\n".join(part.get("text", "") for message in parts for part in message)


def _choice(body: Mapping[str, Any], shown: str, rng: Random, index: int) -> Json:
    """One choice, of which about one in six has no verdict that counts."""
    draw, finish, more = rng.random(), "stop", Json()
    text = verdict_of(body, shown, rng)
    if draw < 0.03:
        text = ""
    elif draw < 0.05:
        text = "I cannot say which it is."
    elif draw < 0.07:
        text = f"{text}\n\nOr rather:\n\n{verdict_of(body, shown, rng)}"
    elif draw < 0.09:
        text = text.replace('"', "", 1) if "{" in text else text.replace("]", "", 1)
    elif draw < 0.12:
        finish, text = "length", text[: rng.randrange(len(text) + 1)]
    elif draw < 0.14:
        more["refusal"], text = "I will not judge this.", ""
    elif draw < 0.15:
        finish = "content_filter"
    elif draw < 0.16:
        text = f"<think>Perhaps {text}"
    if draw > 0.92:
        text = f"<think>Perhaps {verdict_of(body, shown, rng)}? No.</think>\n{text}"
    elif draw > 0.9:
        more["reasoning_content"] = f"It may be {verdict_of(body, shown, rng)}"
    if "YOUR PREVIOUS EVALUATION" in shown or "You gave the evaluation above" in shown:
        text = f"I was too {rng.choice(['harsh', 'lenient'])}.\n\n{text}"
    choice: Json = {
        "index": index,
        "message": {"role": "assistant", "content": text, **more},
        "finish_reason": finish,
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [_token(char, rng) for char in text]}
    return choice


def _token(text: str, rng: Random) -> Json:
    """A token of one character; a digit has the scale's other digits beside it."""
    if not text.isdigit():
        return {
            "token": text,
            "logprob": -0.01,
            "top_logprobs": [{"token": text, "logprob": -0.01}],
        }
    digits = [str(digit) for digit in range(6)]
    shares = [rng.random() for _ in digits]
    whole = sum(shares) / rng.choice([1, 1, 1, 0.4])
    top = [
        {"token": each, "logprob": math.log(share / whole)}
        for each, share in zip(digits, shares, strict=True)
    ]
    return {"token": text, "logprob": top[0]["logprob"], "top_logprobs": top}


def _rewards(asked: Asked) -> Any:
    """What the servers of reward models answer: a number for each input, of which a few are none.

    Which inputs share a request depends on time, so the number is of the input alone.
    """
    body = asked.body
    inputs = (
        body.get("input")
        or body.get("text_1")
        or body.get("query")
        or body.get("text")
        or [body.get("messages")]
    )
    numbers = [_number(Random(json.dumps([asked.seed, each]))) for each in inputs]
    if asked.path == "get_reward":
        return {"rewards": numbers}
    if "text" in body:
        return [{"embedding": [number], "meta_info": {"prompt_tokens": 7}} for number in numbers]
    name = {"classify": "probs", "score": "score", "pooling": "data"}[asked.path]
    data = [
        {
            "index": index,
            name: number if name == "score" else [number],
            **({"label": "yes"} if name == "probs" else {}),
        }
        for index, number in enumerate(numbers)
    ]
    return {"data": data, "usage": {"prompt_tokens": 7 * len(numbers)}}


def _number(rng: Random) -> float | None:
    return None if rng.random() < 0.04 else round(rng.gauss(0, 2), 4)

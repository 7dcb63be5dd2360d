"""Servers of reward models that a test scripts, in the shapes that vLLM, SGLang and OpenRLHF publish.

The models of requests have the fields of the servers' own classes, and refuse others: of vLLM
`ClassificationCompletionRequest`, `ClassificationChatRequest`, `PoolingCompletionRequest`,
`PoolingChatRequest` and `ScoreTextRequest`, of SGLang `EmbeddingReqInput`, of OpenRLHF what
`get_reward` of `serve_rm.py` reads. The last two ignore `model`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from judgegym.judges.reward_models.protocols import RewardProtocol
from tests.scripted import Json, Reply

TOKENS = 7
"""Prompt tokens of each response, where a server counts them."""


class Message(TypedDict):
    role: str
    content: str


class Request(BaseModel, extra="forbid", strict=True):
    model: str


class Switched(Request):
    use_activation: bool | None = None


class CompletionRequest(Switched):
    input: list[str]


class ChatRequest(Switched):
    messages: list[Message]


class ScoreTextRequest(Switched):
    text_1: list[str]
    text_2: list[str]


class EmbeddingReqInput(Request):
    text: list[str]


class GetReward(Request):
    query: list[str]
    prompts: list[str]


REQUESTS: dict[RewardProtocol, Any] = {
    "vllm_classify": CompletionRequest | ChatRequest,
    "vllm_score": ScoreTextRequest,
    "vllm_pooling": CompletionRequest | ChatRequest,
    "sglang_classify": EmbeddingReqInput,
    "openrlhf": GetReward,
}


def texts_of(protocol: RewardProtocol, request: Json) -> list[str]:
    """What ends each text that a request holds: its response. The request must have the published fields."""
    TypeAdapter(REQUESTS[protocol]).validate_python(request)
    if "messages" in request:
        assert request["messages"][-1]["role"] == "assistant"
        return [request["messages"][-1]["content"]]
    name = next(name for name in ("text_2", "query", "text", "input") if name in request)
    return [text.rpartition("\n")[2] for text in request[name]]


def answer_of(protocol: RewardProtocol, numbers: Sequence[Any]) -> Any:
    """The answer of a server: for each response a number, or a list of numbers by class."""
    usage = {
        "prompt_tokens": TOKENS * len(numbers),
        "total_tokens": TOKENS * len(numbers),
        "completion_tokens": 0,
    }
    head = {"id": "pool-1", "object": "list", "created": 1, "model": "rm", "usage": usage}
    lists = [each if isinstance(each, list) else [each] for each in numbers]
    if protocol == "openrlhf":
        return {
            "rewards": list(numbers),
            "scores": list(numbers),
            "extra_logs": {"dummy_scores": list(numbers)},
        }
    if protocol == "sglang_classify":
        return [
            {"embedding": each, "meta_info": {"id": "1", "prompt_tokens": TOKENS}} for each in lists
        ]
    if protocol == "vllm_score":
        data = [
            {"index": place, "object": "score", "score": each} for place, each in enumerate(numbers)
        ]
    elif protocol == "vllm_pooling":  # numbers by token: the reward is that of the last one
        data = [
            {"index": place, "object": "pooling", "data": [[0.0], each]}
            for place, each in enumerate(lists)
        ]
    else:
        data = [
            {"index": place, "label": "LABEL_0", "probs": each, "num_classes": len(each)}
            for place, each in enumerate(lists)
        ]
    return {**head, "data": data}


def reward_server(
    protocol: RewardProtocol, number: Callable[[str], Any]
) -> Callable[[Json, int], Reply]:
    """A server that gives each response its number."""

    def script(request: Json, _: int) -> Reply:
        return Reply(
            body=answer_of(protocol, [number(text) for text in texts_of(protocol, request)])
        )

    return script

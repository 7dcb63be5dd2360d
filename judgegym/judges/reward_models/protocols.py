"""Protocols of reward model servers: request bodies, and the items of responses.

Guarantees: a response has exactly one item for each input, in the order of the request, or it is
refused. The number of an item is finite and unambiguous, or there is none.

Sources: vLLM, `vllm/entrypoints/pooling/{classify,pooling,scoring,base}/protocol.py` (the last
three at 01cfbaf, 004706d and 020638a); SGLang, `classify_request` of
`python/sglang/srt/entrypoints/http_server.py`, whose body is `EmbeddingReqInput`; OpenRLHF,
`openrlhf/cli/serve_rm.py` (58ec6ff).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard, cast

from judgegym.judges.core.calls import NoVerdict
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.llm import wire
from judgegym.llm.responses.choices import NotACompletion
from judgegym.llm.wire import JSON, Choice, Message

RewardProtocol = Literal[
    "vllm_classify", "vllm_score", "vllm_pooling", "sglang_classify", "openrlhf"
]


@dataclass(frozen=True, slots=True)
class RewardInput:
    """Input of a reward model for one response.

    Attributes:
        prompt: the prompt as a text.
        response: the response.
        messages: the conversation: the turns of the prompt, then the response as a turn of the
            assistant.
        text: the conversation as one text, if the server takes no messages; otherwise empty.
    """

    prompt: str
    response: str
    messages: tuple[Message, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Protocol of one kind of server.

    Attributes:
        path: below the base URL without its version.
        body: builds the request for inputs, without the model's name.
        items: returns a response's items and usage; raises `NotACompletion` for another shape.
        takes: which field of an input it reads; with `messages`, one input per request.
        has_activation: the field `use_activation` chooses between numbers before and after the
            activation.
        adds_bos: its tokenizer adds the token that begins a text, so the text must not begin with
            it.
    """

    path: str
    body: Callable[[Sequence[RewardInput]], Mapping[str, JSON]]
    items: Callable[[JSON], tuple[Sequence[JSON], JSON]]
    takes: Literal["messages", "pair", "text"]
    has_activation: bool = False
    adds_bos: bool = True

    def read(self, count: int, body: JSON) -> tuple[Sequence[str], JSON]:
        """Return the items of a response to `count` inputs, each as JSON, and the usage.

        Raises:
            NotACompletion: the answer has another shape, or another number of items.
        """
        items, usage = self.items(body)
        if len(items) != count:
            found_count = len(items)
            raise NotACompletion(
                f"the answer of {self.path} has {found_count} items for {count} responses"
            )
        return [wire.dumps(item).decode() for item in items], usage


def _require_list(body: JSON, name: str) -> Sequence[JSON]:
    entries = body.get(name) if isinstance(body, dict) else None
    if not isinstance(entries, list):
        raise NotACompletion(f"the answer has no list {name!r}")
    return entries


def _entries(entries: Sequence[JSON], name: str) -> list[dict[str, JSON]]:
    """Return the entries of a list, each with a field of this name."""
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or name not in entry:
            raise NotACompletion(f"the entry {index} of the answer has no {name!r}")
    return cast("list[dict[str, JSON]]", entries)


def _vllm_items(body: JSON, name: str) -> tuple[Sequence[JSON], JSON]:
    """Return the entries of `data` by index; of numbers by token, those of the last one."""
    entries, by_index = _entries(_require_list(body, "data"), name), dict[JSON, JSON]()
    for entry in entries:
        value = entry[name]
        if isinstance(value, list) and value and isinstance(value[-1], list):
            value = value[-1]
        by_index[entry.get("index")] = (
            {"label": entry["label"], name: value} if "label" in entry else value
        )
    if by_index.keys() != {*range(len(entries))}:
        raise NotACompletion(f"the entries of 'data' have the indices {[*by_index]}, not one each")
    return [by_index[index] for index in range(len(entries))], cast("dict[str, JSON]", body).get(
        "usage"
    )


def _sglang_items(body: JSON) -> tuple[Sequence[JSON], JSON]:
    entries = _entries(body if isinstance(body, list) else [body], "embedding")
    counts = [wire.lookup(entry, "meta_info.prompt_tokens") for entry in entries]
    tokens = sum(count for count in counts if isinstance(count, int))
    return [entry["embedding"] for entry in entries], {"prompt_tokens": tokens}


def _vllm(path: str, name: str) -> Protocol:
    def body(inputs: Sequence[RewardInput]) -> Mapping[str, JSON]:
        texts = [reward_input.text for reward_input in inputs]
        if texts[0]:
            return {"input": texts}
        return {"messages": wire.messages_json(inputs[0].messages)}

    return Protocol(
        path, body, lambda answer: _vllm_items(answer, name), "messages", has_activation=True
    )


PROTOCOLS: Mapping[RewardProtocol, Protocol] = {
    "vllm_classify": _vllm("/classify", "probs"),
    "vllm_score": Protocol(
        "/score",
        lambda inputs: {
            "text_1": [reward_input.prompt for reward_input in inputs],
            "text_2": [item.response for item in inputs],
        },
        lambda answer: _vllm_items(answer, "score"),
        "pair",
        has_activation=True,
    ),
    "vllm_pooling": _vllm("/pooling", "data"),
    "sglang_classify": Protocol(
        "/classify",
        lambda inputs: {"text": [reward_input.text for reward_input in inputs]},
        _sglang_items,
        "text",
    ),
    "openrlhf": Protocol(
        "/get_reward",
        lambda inputs: {
            "query": [reward_input.text for reward_input in inputs],
            "prompts": [item.prompt for item in inputs],
        },
        lambda answer: (_require_list(answer, "rewards"), None),
        "text",
        adds_bos=False,
    ),
}


class AmbiguousLabel(ValueError):
    """A model returns other classes than the chosen label allows; the message names them."""


def read_number(choice: Choice, *, label: int | None) -> ParsedVerdict[float] | NoVerdict:
    """Return the number of an item.

    Args:
        choice: its text is the item as JSON: a number, a list of numbers by class, or such a list
            with the label of the likeliest class.
        label: the index of the class whose number counts; `None` for a model that returns one
            number.

    Raises:
        AmbiguousLabel: there are several numbers and no label, or fewer numbers than the label
            needs.
    """
    item = wire.loads(choice.text)
    likeliest, content = (
        (item.get("label"), item.get("probs")) if isinstance(item, dict) else (None, item)
    )
    numbers = content if isinstance(content, list) else [content]
    finite = [float(value) for value in numbers if _is_finite(value)]
    if not numbers or len(finite) < len(numbers):
        shown = wire.shorten(choice.text, 120)
        return NoVerdict(f"the reward model's answer is no finite number: {shown}")
    if label is None and len(numbers) == 1:
        label = 0
    if label is None or not -len(numbers) <= label < len(numbers):
        highest = len(numbers) - 1
        classes = f"{highest + 1} classes, 0 to {highest}" if highest else "1 class"
        best = max(range(len(numbers)), key=lambda index: finite[index])
        label_words = "" if likeliest is None else f", {likeliest!r}"
        words = f" (here the highest is {best}{label_words})"
        raise AmbiguousLabel(
            f"the model returns {classes}{words}; expected the index of the one whose number counts"
        )
    return ParsedVerdict(finite[label])


def _is_finite(value: JSON) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

"""Anthropic's Messages API: translation from and to OpenAI's format.

The body of `POST /v1/messages` is translated from a chat completion's, and a message is translated
back. No requested field is dropped: it has a counterpart, or the request is refused.

* Leading system messages become `system`; turns of one role that follow each other become one turn
  of several blocks.
* Thinking becomes `reasoning_content`. Blocks of tools become `tool_calls`. Blocks of an unknown
  kind make the response unusable, as an unknown stop reason does.
* `usage.input_tokens` does not count what was read from the prefix cache or written to it:
  `prompt_tokens` counts all.

Source: the API's reference and the types of the `anthropic` package 2.14 (`MessageCreateParams`,
`Message`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.providers.api import Api, ApiName
from judgegym.llm.responses.choices import NotACompletion
from judgegym.llm.responses.finish_reasons import DEFAULT_RULES
from judgegym.llm.usage import Prices
from judgegym.llm.wire import JSON, mapping_or_empty, text_or_empty

Block: TypeAlias = "Mapping[str, JSON]"
VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 8192
"""Sent where the settings set no limit, since the API requires `max_tokens`.

All models since Claude 3.5 accept it.
"""

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
    "pause_turn": "pause_turn",
}
_SILENT_BLOCKS = frozenset(
    {
        *(
            "redacted_thinking",
            "server_tool_use",
            "web_search_tool_result",
            "web_fetch_tool_result",
        ),
        *(
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
        ),
        *("tool_search_tool_result", "container_upload"),
    }
)
"""Kinds of blocks without any text of the response."""

_REFUSED_FIELDS = frozenset(
    {
        *(
            "n",
            "seed",
            "logprobs",
            "top_logprobs",
            "logit_bias",
            "frequency_penalty",
            "presence_penalty",
            "stream",
        ),
        *(
            "best_of",
            "prediction",
            "modalities",
            "functions",
            "function_call",
            "parallel_tool_calls",
            "store",
        ),
        *(
            "return_token_ids",
            "prompt_logprobs",
            "guided_json",
            "guided_regex",
            "guided_choice",
            "guided_grammar",
        ),
        *(
            "structured_outputs",
            "grammar",
            "json_schema",
            "chat_template_kwargs",
            "repetition_penalty",
            "min_p",
        ),
    }
)
"""Fields of OpenAI's API, or of compatible servers, without a counterpart."""

_CACHE_READ, _CACHE_WRITE = 0.1, 1.25
"""Prices of the prefix cache (5 minutes) relative to prompt tokens.

By the provider's price list of 2026.
"""
_SHORTEST_PREFIXES: Mapping[str, int] = {
    r"opus-5|fable-5|mythos-5": 512,
    r"opus-4-7|3-5-haiku|3-haiku": 2048,
    r"opus-4-[56]|haiku-4-5": 4096,
}
"""The shortest prefix that is cached, in tokens, by a part of the model's name.

1,024 for all others. As documented in 2026.
"""


class AnthropicApi(Api):
    """The Messages API."""

    name: ApiName = "anthropic"
    path = "/messages"
    takes_n = False
    takes_seed = False
    key_header = "x-api-key"
    key_prefix = ""
    fixed_headers: Mapping[str, str] = {**Api.fixed_headers, "anthropic-version": VERSION}

    def request(self, body: Mapping[str, JSON], cached: Sequence[int] = ()) -> dict[str, JSON]:
        """See `Api`; `cached` has at most four."""
        sent: dict[str, JSON] = {}
        for name, value in body.items():
            if name != "messages":
                _translate(sent, name, value)
        sent.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
        temperature = sent.get("temperature")
        if isinstance(temperature, int | float) and temperature > 1:
            raise SettingsError(
                f"the temperature {temperature:g}: Anthropic's Messages API takes 0 to 1"
            )
        system: list[Block] = []
        turns: list[tuple[str, list[Block]]] = []
        for role, blocks in _turns(body, cached):
            if role == "system" and not turns:
                system += blocks
            elif turns and turns[-1][0] == role:
                turns[-1][1].extend(blocks)
            elif blocks:
                turns.append((role, blocks))
        if turns and turns[-1][0] == "assistant":  # a prefill may not end with white space
            last = turns[-1][1].pop()
            turns[-1][1].append({**last, "text": str(last["text"]).rstrip()})
        messages: JSON = [{"role": role, "content": blocks} for role, blocks in turns]
        return {**sent, **({"system": system} if system else {}), "messages": messages}

    def response(self, body: JSON) -> JSON:
        """See `Api`; an error is no completion.

        Raises:
            NotACompletion: it is in OpenAI's format.
        """
        content = None
        if isinstance(body, Mapping):
            content = body.get("content")
        if content is None and isinstance(body, Mapping) and "choices" in body:
            raise NotACompletion(
                "it answers in OpenAI's form, not in that of the Messages API: set its api to "
                "openai"
            )
        if (
            not isinstance(body, Mapping)
            or not isinstance(content, Sequence)
            or isinstance(content, str)
        ):
            return body
        texts: dict[str, list[str]] = {"text": [], "thinking": []}
        calls, unknown = list[JSON](), ""
        for block in content:
            fields = mapping_or_empty(block)
            kind = fields.get("type")
            if kind in ("text", "thinking"):
                texts[str(kind)].append(text_or_empty(fields.get(str(kind))))
            elif kind == "tool_use":
                function: JSON = {
                    "name": fields.get("name"),
                    "arguments": wire.dumps(fields.get("input")).decode(),
                }
                calls.append({"id": fields.get("id"), "type": "function", "function": function})
            elif kind not in _SILENT_BLOCKS:
                unknown = f"unknown_block_{kind}"
        finish = unknown or map_stop_reason(body.get("stop_reason"))
        message: dict[str, JSON] = {"role": "assistant", "content": "".join(texts["text"])}
        message |= {"reasoning_content": "".join(texts["thinking"])} if texts["thinking"] else {}
        message |= {"tool_calls": calls} if calls else {}
        explanation = mapping_or_empty(body.get("stop_details")).get("explanation")
        if finish == "refusal" and isinstance(explanation, str):
            message["refusal"] = explanation
        choice: JSON = {"index": 0, "message": message, "finish_reason": finish}
        copied = {name: value for name, value in body.items() if name in ("id", "model", "error")}
        return {**copied, "choices": [choice], "usage": _usage(mapping_or_empty(body.get("usage")))}

    def prices(self, prices: Prices) -> Prices:
        """See `Api`."""
        if prices.input is None:
            return prices
        read = prices.input * _CACHE_READ if prices.cached_input is None else prices.cached_input
        write = prices.input * _CACHE_WRITE if prices.cache_write is None else prices.cache_write
        return replace(prices, cached_input=read, cache_write=write)

    def prompt_text(self, body: Mapping[str, JSON]) -> str:
        """See `Api`: the fields that shape the prompt, without its sampling, then the messages."""
        texts = (
            f"\0{role}\0{''.join(text for text, _ in parts)}" for role, parts in _messages(body)
        )
        return "".join((_shape(body), *texts))

    def shortest_prefix(self, model: str) -> int | None:
        """See `Api`."""
        return next(
            (tokens for part, tokens in _SHORTEST_PREFIXES.items() if re.search(part, model)), 1024
        )


def _shape(body: Mapping[str, JSON]) -> str:
    return wire.dumps(
        {name: value for name, value in body.items() if name not in _NOT_CACHED}
    ).decode()


_NOT_CACHED = frozenset(
    {"messages", "model", "seed", "temperature", "top_p", "top_k", "max_tokens", "stop", "n"}
)


def _convert_part(part: JSON) -> tuple[str, Block | None]:
    """Return the text that a prefix cache compares in a part, and an image's block if it is one."""
    text, url = wire.lookup(part, "text", part), str(wire.lookup(part, "image_url.url"))
    if isinstance(text, str):
        return text, None
    kind, separator, data = url.removeprefix("data:").partition(";base64,")
    source: JSON = {"type": "url", "url": url}
    if separator:
        source = {"type": "base64", "media_type": kind, "data": data}
    digest = hashlib.sha256(url.encode()).hexdigest()
    return f"\0{digest}", {"type": "image", "source": source}


def _messages(body: Mapping[str, JSON]) -> Iterator[tuple[str, list[tuple[str, Block | None]]]]:
    """Yield the role and the content of each message, converted by `_convert_part`.

    Raises:
        SettingsError: a message's role is not system, user or assistant, or its content is not
            text.
    """
    messages = body.get("messages")
    for message in messages if isinstance(messages, Sequence) else ():
        role = content = None
        if isinstance(message, Mapping):
            role, content = message.get("role"), message.get("content")
        if role not in ("system", "user", "assistant") or not isinstance(content, str | list):
            type_name = type(content).__name__
            raise SettingsError(
                f"a message of role {role!r} with {type_name} as content cannot be sent to "
                "Anthropic's Messages API: expected a text of system, user or assistant"
            )
        yield (
            str(role),
            [_convert_part(part) for part in ([content] if isinstance(content, str) else content)],
        )


def _turns(body: Mapping[str, JSON], cached: Sequence[int]) -> Iterator[tuple[str, list[Block]]]:
    """Yield each message as blocks, without empty ones.

    A text block at whose end a cached prefix ends is marked.
    """
    offset = len(_shape(body))
    for role, parts in _messages(body):
        offset += len(role) + 2
        blocks: list[Block] = []
        for text, image in parts:
            ends = [end - offset for end in cached if 0 < end - offset <= len(text)]
            blocks += _split_blocks(text, ends) if image is None else [image]
            offset += len(text)
        yield role, blocks


def _split_blocks(content: str, ends: Sequence[int]) -> Iterator[Block]:
    start = 0
    for end in ends:
        if wire.is_blank(content[end:]):  # no block may be blank
            end = len(content)
        if not wire.is_blank(content[start:end]):
            yield {
                "type": "text",
                "text": content[start:end],
                "cache_control": {"type": "ephemeral"},
            }
            start = end
    if content[start:].strip():
        yield {"type": "text", "text": content[start:]}


def _translate(sent: dict[str, JSON], name: str, value: JSON) -> None:
    """Add a field of OpenAI's API to a request; fields of the Messages API stay as they are.

    Raises:
        SettingsError: the field or its value has no counterpart.
    """
    fields = mapping_or_empty(value)
    if name in _REFUSED_FIELDS:
        raise SettingsError(
            f"{name!r} is not a field of Anthropic's Messages API; leave it out, or use api=openai"
        )
    if name in ("max_completion_tokens", "max_tokens"):
        sent["max_tokens"] = value
    elif name == "stop":
        sent["stop_sequences"] = [value] if isinstance(value, str) else value
    elif name == "user":
        sent["metadata"] = {"user_id": value}
    elif name == "reasoning_effort" or (name == "reasoning" and "effort" in fields):
        effort = fields.get("effort", value)
        if effort == "none":
            sent["thinking"] = {"type": "disabled"}
        else:
            _configure(sent, "effort", "low" if effort == "minimal" else effort)
    elif name == "reasoning":
        sent["thinking"] = {"type": "enabled", "budget_tokens": fields.get("max_tokens")}
    elif name == "output_config":
        sent[name] = {**mapping_or_empty(sent.get(name)), **fields}
    elif name == "response_format":
        schema = mapping_or_empty(fields.get("json_schema")).get("schema")
        if fields.get("type") != "json_schema" or schema is None:
            kind = fields.get("type")
            raise SettingsError(
                f"response_format of type {kind!r}: Anthropic's Messages API takes only json_schema"
            )
        _configure(sent, "format", {"type": "json_schema", "schema": schema})
    else:
        sent[name] = value


def _configure(sent: dict[str, JSON], name: str, value: JSON) -> None:
    sent["output_config"] = {**mapping_or_empty(sent.get("output_config")), name: value}


def map_stop_reason(stop_reason: JSON) -> str:
    """Translate a stop reason; only those of the table become a whole response's finish reason."""
    if not isinstance(stop_reason, str) or not stop_reason:
        return "no_stop_reason"
    reason = _STOP_REASONS.get(stop_reason)
    if reason is None and DEFAULT_RULES.state(stop_reason) == "whole":
        return f"unknown_{stop_reason}"
    return reason or stop_reason


def _usage(usage: Mapping[str, JSON]) -> JSON:
    names = (
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens",
    )
    counts = (usage.get(name) for name in names)
    fresh, read, written, output = (
        count if type(count) is int and count > 0 else 0 for count in counts
    )
    details: JSON = {"cached_tokens": read, "cache_write_tokens": written}
    return {
        "prompt_tokens": fresh + read + written,
        "completion_tokens": output,
        "prompt_tokens_details": details,
    }

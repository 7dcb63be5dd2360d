"""Whole conversations from the formats in which data sets, logs and trainers keep them, with the tools that there were.

Formats: OpenAI messages, rows of TRL (`prompt`, `completion`), ShareGPT (`conversations`, `system`), traces of
verifiers (`nodes`), rows of NeMo Gym (`responses_create_params`, `response`), episodes of OpenEnv, samples of inspect's
logs and members of Atropos' groups (`messages`). Tools are in `tools`, as a list or as JSON text.

Guarantees: what a format holds is kept: the ids of calls, arguments as they were written, reasoning, names, definitions
of tools. A row that holds conversations in several columns is refused, unless the column is named.

Source: verifiers 0.4.0 (`v1/trace.py`), inspect-ai 0.3.285 (`_chat_message.py`), openenv 0.10.0 (`harness/collect.py`),
atroposlib 0.4.0, NeMo Gym 0.5, TRL 1.16, LLaMA-Factory's ShareGPT with tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from judgegym.judges.conversations.turns import (
    TextOrMessages,
    Turn,
    answer_turns,
    text_of,
    text_turn,
    transcript,
    turns_of,
    turns_of_items,
)
from judgegym.llm import wire
from judgegym.llm.wire import JSON

_CARRIERS = ("responses_create_params", "nodes", "completion", "messages", "conversations", "conversation")
"""The fields by which a format is known."""
_SCHEMAS = ("parameters", "input_schema", "inputSchema")
_TOOLS = "tools"
_OF_POLICY = ("assistant", "tool")


@dataclass(frozen=True, slots=True)
class Tool:
    """The definition of a tool; `parameters` is its JSON schema without null fields, `None` without one."""

    name: str
    description: str = ""
    parameters: JSON = None

    @property
    def shown(self) -> str:
        """The definition as a judge sees it: a line of JSON."""
        fields = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return wire.dumps({name: value for name, value in fields.items() if value}).decode()


@dataclass(frozen=True, slots=True)
class Trace:
    """A conversation.

    Attributes:
        turns: all of its turns.
        tools: the tools that the policy was offered.
        asked: so many turns, the first ones, are what the policy was asked; the others are its completion.
    """

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    asked: int = 0

    @property
    def prompt(self) -> tuple[Turn, ...]:
        """What the policy was asked, as a judge is shown it: the tools before the turns."""
        return with_tools(self.turns[: self.asked], self.tools)

    @property
    def completion(self) -> tuple[Turn, ...]:
        """What the policy wrote, with the results of its tools."""
        return self.turns[self.asked :]


def with_tools(turns: Sequence[Turn], tools: Sequence[Tool]) -> tuple[Turn, ...]:
    """The turns of a prompt after one that defines the tools, a line for each."""
    if not tools:
        return tuple(turns)
    lines = "\n".join(tool.shown for tool in tools)
    return (Turn("system", lines, lines, _TOOLS), *turns)


def prompt_text(conversation: TextOrMessages, tools: Sequence[Tool]) -> str:
    """A prompt as one text, after the definitions of the tools if there are any; its images go along to the judge.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    if not tools:
        return text_of(conversation, shows_images=True)
    turns = answer_turns(conversation) or (text_turn("user", text_of(conversation)),)
    return transcript(with_tools(turns, tools), shows_images=True)


def read_tools(value: object) -> tuple[Tool, ...]:
    """The definitions of tools; see `tools_of`.

    Raises:
        ValueError: they cannot be read.
    """
    tools = tools_of(value)
    if tools is None:
        raise ValueError("tools: expected a list of definitions with name, description and parameters")
    return tools


def tools_of(value: object) -> tuple[Tool, ...] | None:
    """The definitions of tools in a list, also as JSON text, of OpenAI's or of another usual form; `None` for others.

    >>> tools_of([{"type": "function", "function": {"name": "search"}}])
    (Tool(name='search', description='', parameters=None),)
    """
    if isinstance(value, str) and value.strip():
        try:
            value = wire.loads(value)
        except ValueError:
            return None
    if not value:
        return ()
    tools = [_tool(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else [None]
    found = tuple(tool for tool in tools if tool is not None)
    return found if len(found) == len(tools) else None


def _tool(value: object) -> Tool | None:
    definition = value.get("function", value) if isinstance(value, Mapping) else None
    if not isinstance(definition, Mapping):
        return None
    name = definition.get("name") or definition.get("type")  # a tool that the endpoint runs has no name
    if not isinstance(name, str):
        return None
    schema = next((definition[name] for name in _SCHEMAS if definition.get(name)), None)
    description = definition.get("description")
    return Tool(name, description if isinstance(description, str) else "", _without_null(schema))


def _without_null(value: JSON) -> JSON:
    """A schema without the fields that a table or a model has filled with null."""
    if isinstance(value, Mapping):
        return {name: _without_null(each) for name, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list | tuple) else value


def trace_of(value: object, column: str | None = None) -> Trace | None:
    """The conversation of a row, a log's sample or a list of messages; `None` if it holds none.

    Args:
        value: the row, or the messages.
        column: the field that holds the conversation, if there are several.

    Raises:
        UnseenPart: a message has a part that no judge is shown.
        ValueError: several fields hold a conversation and none is named, or the tools cannot be read.
    """
    if not isinstance(value, Mapping):
        return split_trace(_turns(value) or ())
    found = {name: trace for name in _CARRIERS if (trace := _trace(value, name)) is not None}
    if column is None and len(found) > 1:
        raise ValueError(f"expected one conversation, found some in {', '.join(found)}; name the column")
    return found.get(column) if column is not None else next(iter(found.values()), None)


def _trace(row: Mapping[str, object], column: str) -> Trace | None:
    """The conversation that a row has in a column."""
    given = row.get(column)
    asked: tuple[Turn, ...] | None
    rest: tuple[Turn, ...] | None
    if column == "responses_create_params":
        response = row.get("response")
        if not isinstance(given, Mapping) or not isinstance(response, Mapping):
            return None
        asked, rest = _turns(given.get("input")), _turns(response.get("output"))
        row = given
    elif column == "completion":
        asked, rest = _turns(row.get("prompt")), _turns(given, "assistant")
    elif column == "nodes":
        branch = _branch(given)
        first = next((place for place, node in enumerate(branch) if node.get("sampled")), len(branch))
        turns = turns_of([node.get("message") for node in branch]) or ()
        asked, rest = turns[:first], turns[first:]
        row = {_TOOLS: (branch[0].get(_TOOLS) if branch else None) or row.get(_TOOLS)}
    else:
        trace = split_trace(_turns(given) or () if not isinstance(given, str) else ())
        asked, rest = (None, None) if trace is None else (trace.turns[: trace.asked], trace.completion)
        system = row.get("system")
        if asked is not None and isinstance(system, str) and system.strip() and asked[0].role != "system":
            asked = (text_turn("system", system), *asked)
    if not rest or asked is None:
        return None
    return Trace((*asked, *rest), read_tools(row.get(_TOOLS)), len(asked))


def _turns(value: object, role: str = "user") -> tuple[Turn, ...] | None:
    """The turns of a text, of messages, or of items of the Responses API."""
    if isinstance(value, str):
        return (text_turn(role, value),)
    items = value if isinstance(value, list | tuple) else []
    if any(isinstance(item, Mapping) and _is_item(item) for item in items):
        return turns_of_items([item for item in items if isinstance(item, Mapping)])
    return turns_of(value)


def _is_item(item: Mapping[str, object]) -> bool:
    return "type" in item and ("role" not in item or item["type"] == "message")


def split_trace(turns: tuple[Turn, ...]) -> Trace | None:
    """A conversation that ends with the completion; `None` if it does not.

    With tools the completion is all that follows the last turn of a user, else the last turn alone.
    """
    if len(turns) < 2 or turns[-1].role != "assistant":
        return None
    asked = next((place + 1 for place, turn in reversed([*enumerate(turns)]) if turn.role not in _OF_POLICY), 0)
    uses_tools = any(turn.calls or turn.role == "tool" for turn in turns[asked:])
    return Trace(turns, asked=asked if asked and uses_tools else len(turns) - 1)


def _branch(nodes: object) -> list[Mapping[str, object]]:
    """The nodes from the first message to the last one: a trace is a graph of messages, whose last branch is judged."""
    if not isinstance(nodes, list | tuple) or not all(isinstance(node, Mapping) for node in nodes):
        return []
    found: list[Mapping[str, object]] = []
    place: object = len(nodes) - 1
    while isinstance(place, int) and 0 <= place < len(nodes) and len(found) < len(nodes):
        found.append(cast("Mapping[str, object]", nodes[place]))
        place = nodes[place].get("parent")
    return found[::-1]

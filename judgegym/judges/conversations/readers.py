"""Readers of whole conversations, with their tools, from data sets, logs and trainers.

Formats: OpenAI messages, rows of TRL (`prompt`, `completion`), ShareGPT (`conversations`,
`system`), traces of verifiers (`nodes`; the last branch counts), rows of NeMo Gym
(`responses_create_params`, `response`), episodes of OpenEnv, samples of inspect's logs and members
of Atropos' groups (`messages`). Tools are in `tools`, as a list or as JSON text.

Guarantees: nothing of a format is lost: the ids of calls, arguments as they were written,
reasoning, names, definitions of tools. A row with conversations in several columns is refused,
unless the column is named.

Source: verifiers 0.4.0 (`v1/trace.py`), inspect-ai 0.3.285 (`_chat_message.py`), openenv 0.10.0
(`harness/collect.py`), atroposlib 0.4.0, NeMo Gym 0.5, TRL 1.16, LLaMA-Factory's ShareGPT with
tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from judgegym.judges.conversations import messages
from judgegym.judges.conversations.messages import TextOrMessages
from judgegym.judges.conversations.tools import Tool, parse_tools
from judgegym.judges.conversations.turns import Turn, UnseenPart, render_transcript, text_turn

_Turns: TypeAlias = tuple[Turn, ...]
_CARRIERS = (
    "responses_create_params",
    "nodes",
    "completion",
    "messages",
    "conversations",
    "conversation",
)
"""The fields by which a format is known."""
_TOOLS = "tools"


@dataclass(frozen=True, slots=True)
class Trace:
    """A conversation with its tools.

    Attributes:
        turns: all of its turns.
        tools: the tools that the policy was offered.
        prompt_length: number of turns that the prompt has; the others are the completion.
    """

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    prompt_length: int = 0


def add_tools(turns: Sequence[Turn], tools: Sequence[Tool]) -> tuple[Turn, ...]:
    """Return the turns of a prompt after a turn with a line for each tool."""
    lines = "\n".join(tool.shown for tool in tools)
    if not tools:
        return tuple(turns)
    return (Turn("system", lines, lines, _TOOLS), *turns)


def prompt_text(conversation: TextOrMessages, tools: Sequence[Tool]) -> str:
    """Return a prompt as one text, after the definitions of the tools if there are any.

    Raises:
        UnseenPart: it has a part that no judge is shown.
    """
    if not tools:
        return messages.render_conversation(conversation)
    turns = messages.completion_turns(conversation) or (
        text_turn("user", messages.render_conversation(conversation)),
    )
    return render_transcript(add_tools(turns, tools))


def read_tools(value: object) -> tuple[Tool, ...]:
    """Return the definitions of tools; see `parse_tools`.

    Raises:
        UnseenPart: the tools cannot be read.
    """
    tools = parse_tools(value)
    if tools is None:
        raise UnseenPart(
            "tools: expected a list of definitions with name, description and parameters"
        )
    return tools


def parse_trace(value: object, column: str | None = None) -> Trace | None:
    """Parse the conversation of a row, a log's sample or a list of messages.

    `None` if there is none.

    Args:
        value: the row, or the messages.
        column: the field that holds the conversation, if there are several.

    Raises:
        UnseenPart: a message has a part that no judge is shown, or the tools cannot be read.
        ValueError: several fields hold a conversation and none is named.
    """
    row = value if isinstance(value, Mapping) else {"messages": value}
    names = _CARRIERS if column is None else (column,)
    traces = {name: trace for name in names if (trace := _parse_column(row, name)) is not None}
    if len(traces) > 1:
        columns = ", ".join(traces)
        raise ValueError(f"expected one conversation, found some in {columns}; name the column")
    return next(iter(traces.values()), None)


def _parse_column(row: Mapping[str, object], column: str) -> Trace | None:
    """Parse the conversation in a row's column."""
    value, tools, system = row.get(column), row.get(_TOOLS), row.get("system")
    prompt: _Turns = ()
    completion: _Turns = ()
    if column == "responses_create_params":
        sent, response = (
            part if isinstance(part, Mapping) else {} for part in (value, row.get("response"))
        )
        prompt, completion, tools = (
            _parse_turns(sent.get("input")),
            _parse_turns(response.get("output")),
            sent.get(_TOOLS),
        )
    elif column == "completion":
        prompt, completion = _parse_turns(row.get("prompt")), _parse_turns(value, "assistant")
    elif column == "nodes":
        branch = _last_branch(value)
        first = next(
            (position for position, node in enumerate(branch) if node.get("sampled")), len(branch)
        )
        turns = _parse_turns([node.get("message") for node in branch])
        if branch:
            tools = branch[0].get(_TOOLS) or tools
        prompt, completion = turns[:first], turns[first:]
    elif not isinstance(value, str) and (trace := split_trace(_parse_turns(value))) is not None:
        prompt, completion = trace.turns[: trace.prompt_length], trace.turns[trace.prompt_length :]
        if isinstance(system, str) and system.strip() and prompt[0].role != "system":
            prompt = (text_turn("system", system), *prompt)
    if not prompt or not completion:
        return None
    return Trace((*prompt, *completion), read_tools(tools), len(prompt))


def _parse_turns(value: object, role: str = "user") -> _Turns:
    """Parse a text, messages, or items of the Responses API as turns; none for other values."""
    if isinstance(value, str):
        return (text_turn(role, value),)
    values = value if isinstance(value, list | tuple) else []
    items = [item for item in values if isinstance(item, Mapping)]
    is_response = any(
        "type" in item and ("role" not in item or item["type"] == "message") for item in items
    )
    if is_response:
        return messages.parse_items(items)
    return messages.parse_turns(value) or ()


def split_trace(turns: Sequence[Turn]) -> Trace | None:
    """Split a conversation at the last user turn; the completion follows it.

    `None` if it does not end with a turn of the assistant.

    With tools the completion is everything after the last turn of a user; otherwise it is the last
    turn.
    """
    if len(turns) < 2 or turns[-1].role != "assistant":
        return None
    prompt_end = next(
        (n + 1 for n in reversed(range(len(turns))) if turns[n].role not in ("assistant", "tool")),
        0,
    )
    uses_tools = any(turn.calls or turn.role == "tool" for turn in turns[prompt_end:])
    prompt_length = len(turns) - 1
    if prompt_end and uses_tools:
        prompt_length = prompt_end
    return Trace(tuple(turns), prompt_length=prompt_length)


def _last_branch(nodes: object) -> list[Mapping[str, object]]:
    """Return the nodes from the first message to the last.

    A trace is a graph of messages, whose last branch is judged.
    """
    listed = nodes if isinstance(nodes, list | tuple) else []
    graph = [node for node in listed if isinstance(node, Mapping)]
    branch: list[Mapping[str, object]] = []
    position: object = len(graph) - 1
    while isinstance(position, int) and 0 <= position < len(graph) > len(branch):
        branch.append(graph[position])
        position = graph[position].get("parent")
    return branch[::-1]

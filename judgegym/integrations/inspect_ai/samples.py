"""A sample of inspect as a request to a judge, or as a completion of an environment's row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judgegym.integrations.inspect_ai.arguments import ScorerOptions
from judgegym.integrations.scores.requests import CellError, Field, conversation_json, fields_of, group_ids
from judgegym.integrations.scores.scoring import RefusedError, Request
from judgegym.llm.wire import CUT_OFF, JSON, Choice

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage
    from inspect_ai.scorer import Target
    from inspect_ai.solver import TaskState

_FINISH_REASONS = {"max_tokens": CUT_OFF, "model_length": CUT_OFF}
TARGET = "target"


def request_of(state: TaskState, target: Target, options: ScorerOptions) -> Request | RefusedError:
    """The body of `POST /v1/score` for a sample, or why there is none."""
    metadata = state.metadata or {}
    cells: dict[Field, object] = {
        "reference": "\n".join(target) if options.reference == TARGET else metadata.get(options.reference),
        "rubric": _first(metadata.get("rubric"), options.rubric, options.rubric_file),
        "aspects": _first(metadata.get("aspects"), options.aspects),
        "baseline": metadata.get(options.baseline),
        "context": metadata.get("context"),
    }
    try:
        fields = fields_of(cells)
    except CellError as error:
        return RefusedError(str(error))
    ids = group_ids(str(state.sample_id), state.epoch)  # for a judge that compares epochs
    return {"prompt": _prompt(state, options), "response": state.output.completion, **fields, **ids}


def choice_of(state: TaskState) -> Choice:
    """The completion of a sample, with how it ended and the reasoning that inspect keeps apart."""
    if not state.output.choices:
        return Choice(state.output.completion)
    content = state.output.message.content
    thoughts = [] if isinstance(content, str) else [part.reasoning for part in content if part.type == "reasoning"]
    reason = str(state.output.stop_reason)
    return Choice(state.output.completion, "\n".join(thoughts) or None, _FINISH_REASONS.get(reason, reason))


def _first(*values: object) -> object:
    return next((value for value in values if value is not None), None)


def _prompt(state: TaskState, options: ScorerOptions) -> JSON:
    if not options.include_history:
        return state.input if isinstance(state.input, str) else conversation_json([_turn(each) for each in state.input])
    said = list(state.messages)
    if said and said[-1].role == "assistant" and said[-1].text == state.output.completion:
        said.pop()
    return conversation_json([_turn(each) for each in said])


def _turn(message: ChatMessage) -> dict[str, JSON]:
    """A message with its text, and its calls of tools in the shape of the OpenAI API."""
    calls: list[JSON] = [
        {"function": {"name": call.function, "arguments": call.arguments}}
        for call in getattr(message, "tool_calls", None) or ()
    ]
    return {"role": message.role, "content": message.text, **({"tool_calls": calls} if calls else {})}
